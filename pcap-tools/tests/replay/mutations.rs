//! One change to a captured answer: it must be noticed, and no freedom may take it for its own.

use roce_codec::FrameBuilder;
use roce_codec::ib::{AethKind, Msn, Opcode, PKey, Psn, Syndrome};
use roce_pcap::replay::{Freedom, Kind, Unknown};

use crate::support::{Owned, answers, freedom, load, replay};

const CAPTURES: [&str; 9] = [
    "rxe-write",
    "rxe-read",
    "rxe-send",
    "rxe-atomic",
    "rxe-pingpong",
    "rxe-cm",
    "rxe-nvme",
    "rxe-lossy-server",
    "rxe-errors",
];

type Change = fn(&mut FrameBuilder);

fn aeth(builder: &mut FrameBuilder, change: impl FnOnce(&mut roce_codec::ib::Aeth)) {
    if let Some(aeth) = &mut builder.ext.aeth {
        change(aeth);
    }
}

/// What an answer is changed by; each needs an AETH where it changes one.
const CHANGES: [(&str, Change); 12] = [
    ("PSN far ahead", |b| b.bth.psn = b.bth.psn.add(0x10_0000)),
    ("PSN far back", |b| b.bth.psn = b.bth.psn.sub(0x10_0000)),
    ("P_Key", |b| b.bth.pkey = PKey(0x8123)),
    ("solicited event", |b| b.bth.solicited = true),
    ("acknowledge request", |b| b.bth.ack_req = true),
    ("FECN", |b| b.bth.fecn = true),
    ("reserved bits", |b| b.bth.resv7 = 1),
    ("MSN far ahead", |b| aeth(b, |aeth| aeth.msn = Msn::new(aeth.msn.get() + 1000))),
    ("MSN back", |b| aeth(b, |aeth| aeth.msn = Msn::new(aeth.msn.get().wrapping_sub(2)))),
    ("an ACK for a NAK, or the other way", |b| {
        aeth(b, |aeth| {
            aeth.syndrome = match aeth.syndrome.kind() {
                AethKind::Ack(_) => Syndrome(0x63),
                _ => Syndrome::ACK,
            };
        });
    }),
    ("a reserved syndrome", |b| aeth(b, |aeth| aeth.syndrome = Syndrome(0x45))),
    ("opcode", |b| {
        b.bth.opcode = match b.bth.opcode {
            Opcode::RC_RDMA_READ_RESPONSE_LAST => Opcode::RC_RDMA_READ_RESPONSE_ONLY,
            Opcode::RC_RDMA_READ_RESPONSE_ONLY => Opcode::RC_RDMA_READ_RESPONSE_LAST,
            Opcode::RC_RDMA_READ_RESPONSE_FIRST => Opcode::RC_RDMA_READ_RESPONSE_LAST,
            Opcode::RC_RDMA_READ_RESPONSE_MIDDLE => {
                b.ext.aeth =
                    Some(roce_codec::ib::Aeth { syndrome: Syndrome::ACK, msn: Msn::new(0) });
                Opcode::RC_RDMA_READ_RESPONSE_FIRST
            }
            Opcode::RC_ATOMIC_ACKNOWLEDGE => Opcode::RC_ACKNOWLEDGE,
            _ => Opcode::RC_RDMA_READ_RESPONSE_ONLY,
        }
    }),
];

/// Whether the answer has what the change is of.
fn applies(name: &str, packet: &Owned) -> bool {
    packet.frame().aeth().is_some()
        || !(name.contains("MSN") || name.contains("syndrome") || name.contains("ACK"))
}

/// First, middle and last answer of every capture (of its first 400 packets), changed in each way.
#[test]
fn a_changed_answer_is_noticed() {
    let mut tried = 0;
    for name in CAPTURES {
        let mut packets = load(name);
        packets.truncate(400);
        let all = answers(&packets);
        for (what, change) in CHANGES {
            for at in [all[0], all[all.len() / 2], all[all.len() - 1]] {
                if !applies(what, &packets[at]) {
                    continue;
                }
                let mut changed = packets.clone();
                changed[at].change(|builder, _| change(builder));
                let report = replay(&changed);
                let noticed = report.total().mismatches > 0;
                assert!(noticed, "{name}: {what} in packet {}", at + 1);
                tried += 1;
            }
        }
    }
    assert!(tried > 290, "{tried}");
}

/// The mismatch names the packet, the field, and both values.
#[test]
fn a_mismatch_says_what_and_where() {
    let mut packets = load("rxe-write");
    let at = answers(&packets)[3];
    packets[at].change(|b, _| aeth(b, |aeth| aeth.msn = Msn::new(aeth.msn.get() + 2)));
    let report = replay(&packets);
    let [stream] = report.streams.as_slice() else { panic!("one stream") };
    let [mismatch] = stream.mismatch.as_slice() else { panic!("one mismatch") };
    assert_eq!(mismatch.kind, Kind::Different);
    assert_eq!((mismatch.request, mismatch.packet), (Some(14), Some(16)));
    let [field] = mismatch.fields.as_slice() else { panic!("one field") };
    assert_eq!((field.name, &*field.expected, &*field.found), ("MSN", "6", "4"));
    assert_eq!(
        mismatch.to_string(),
        "packet 16, request 14: our answer is another: RC_ACKNOWLEDGE PSN 0xe2e395 ACK msn=6; \
         MSN: captured 6, ours 4"
    );
}

/// An MSN that is off by one is right for a READ that may be counted later, and for nothing else.
#[test]
fn message_numbers_are_free_for_reads_alone() {
    for name in ["rxe-write", "rxe-send", "rxe-atomic", "rxe-pingpong"] {
        let packets = load(name);
        for at in answers(&packets) {
            for off in [1, 2, 0xff_ffff] {
                let mut changed = packets.clone();
                changed[at].change(|b, _| {
                    aeth(b, |aeth| aeth.msn = Msn::new(aeth.msn.get().wrapping_add(off)));
                });
                let report = replay(&changed);
                let later = freedom(&report, Freedom::ReadMsn);
                // Atomics that were asked for meanwhile may have been counted.
                let noticed = report.total().mismatches > 0 || name == "rxe-atomic" && later > 0;
                assert!(noticed, "{name}: packet {} off by {off}", at + 1);
            }
        }
    }
    // One READ at a time: a First that does not count it yet, or one that counts the next.
    let mut packets = load("rxe-ipv6");
    let first = packets
        .iter()
        .position(|packet| packet.frame().opcode() == Opcode::RC_RDMA_READ_RESPONSE_FIRST);
    let at = first.unwrap();
    packets[at].change(|b, _| aeth(b, |aeth| aeth.msn = Msn::new(aeth.msn.get() - 1)));
    let report = replay(&packets);
    assert_eq!((report.total().mismatches, freedom(&report, Freedom::ReadMsn)), (0, 1));
    packets[at].change(|b, _| aeth(b, |aeth| aeth.msn = Msn::new(aeth.msn.get() + 100)));
    assert_eq!(replay(&packets).total().mismatches, 1);
}

/// An ACK that is not there, where the next one acknowledges the same.
#[test]
fn a_responder_may_acknowledge_several_requests_at_once() {
    let mut packets = load("rxe-write");
    let all = answers(&packets);
    packets.remove(all[5]);
    packets.remove(all[3]);
    let report = replay(&packets);
    assert_eq!(report.total().mismatches, 0);
    assert_eq!(freedom(&report, Freedom::Coalescing), 2);
    assert_eq!(report.total().compared, 14);
    // The last one is acknowledged by none.
    let mut packets = load("rxe-write");
    packets.pop();
    let report = replay(&packets);
    assert_eq!(report.total().unknown.get(&Unknown::CaptureEnds), Some(&1));
}

/// An ACK more, of a packet that asked for none, with the MSN that holds there, and with another.
#[test]
fn a_responder_may_acknowledge_more_often() {
    let packets = load("rxe-write");
    let last = answers(&packets)[0];
    let mut more = packets.clone();
    let mut ack = packets[last].clone();
    ack.change(|b, _| {
        b.bth.psn = b.bth.psn.sub(1);
        aeth(b, |aeth| aeth.msn = Msn::new(0));
    });
    more.insert(2, ack.clone());
    let report = replay(&more);
    assert_eq!((report.total().mismatches, freedom(&report, Freedom::Coalescing)), (0, 1));
    ack.change(|b, _| aeth(b, |aeth| aeth.msn = Msn::new(1)));
    more[2] = ack;
    assert!(replay(&more).total().mismatches > 0, "the message is not complete");
    // The same ACK twice is none of this.
    let mut twice = packets;
    let ack = twice[last].clone();
    twice.insert(last, ack);
    assert_eq!(replay(&twice).total().mismatches, 1);
}

/// Answers that carry data, or refuse, have no substitute.
#[test]
fn a_missing_answer_is_noticed() {
    for (name, opcode) in [
        ("rxe-read", Opcode::RC_RDMA_READ_RESPONSE_MIDDLE),
        ("rxe-read", Opcode::RC_RDMA_READ_RESPONSE_LAST),
        ("rxe-atomic", Opcode::RC_ATOMIC_ACKNOWLEDGE),
    ] {
        let mut packets = load(name);
        let at = packets.iter().position(|packet| packet.frame().opcode() == opcode).unwrap();
        packets.remove(at);
        let report = replay(&packets);
        assert_eq!(report.total().mismatches, 1, "{name} {opcode}");
        let mut kinds = report.streams.iter().flat_map(|stream| &stream.mismatch);
        assert_eq!(kinds.next().map(|mismatch| mismatch.kind), Some(Kind::NotCaptured));
    }
}

/// A request that the responder never had: our responder asks for it.
#[test]
fn a_missing_request_is_noticed() {
    for at in [1, 4, 8] {
        let mut packets = load("rxe-write");
        packets.remove(at);
        assert!(replay(&packets).total().mismatches > 0, "without packet {}", at + 1);
    }
}

/// A payload that differs is memory that differs. Which it was, later answers say.
#[test]
fn changed_data_is_the_owners_or_a_mismatch() {
    let mut packets = load("rxe-read");
    let at = answers(&packets)[0];
    packets[at].change(|_, payload| payload[7] ^= 1);
    let report = replay(&packets);
    // The next READ of the same memory shows it as it was.
    assert_eq!(freedom(&report, Freedom::OwnerStore), 1);
    assert_eq!(report.total().mismatches, 0);
    packets[at].change(|_, payload| {
        payload.pop();
    });
    assert_eq!(replay(&packets).total().mismatches, 1, "a byte is missing");

    // An ICRC that does not fit: the answer says nothing, and is not there.
    let mut packets = load("rxe-read");
    packets[at].data[80] ^= 1;
    let report = replay(&packets);
    assert_eq!(report.streams[0].damaged_answers, 1);
    assert_eq!(report.total().mismatches, 1);
}

/// A damaged request is given as it is; the captured responder took it, ours does not.
#[test]
fn a_damaged_request_is_dropped_by_our_responder() {
    let mut packets = load("rxe-write");
    packets[4].data[100] ^= 1;
    let report = replay(&packets);
    assert_eq!(report.streams[0].damaged, 1);
    assert!(report.total().mismatches > 0);
}

/// The ACK of a request that came again may name any PSN from its own to the newest.
#[test]
fn duplicates_are_acknowledged_by_more_than_one_psn() {
    let packets = load("rxe-write");
    // The first WRITE's last packet once more, acknowledged once more.
    let all = answers(&packets);
    let (request, ack) = (packets[2].clone(), packets[all[4]].clone());
    let newest = packets[all[4]].frame().psn();
    let again = |psn: Psn| {
        let mut more = packets.clone();
        let mut ack = ack.clone();
        ack.change(|b, _| b.bth.psn = psn);
        let at = all[4] + 1;
        more.insert(at, request.clone());
        more.insert(at + 1, ack);
        replay(&more)
    };
    let report = again(newest);
    assert_eq!((report.total().mismatches, freedom(&report, Freedom::DuplicatePsn)), (0, 0));
    let own = request.frame().psn();
    let report = again(own);
    assert_eq!((report.total().mismatches, freedom(&report, Freedom::DuplicatePsn)), (0, 1));
    assert!(again(own.sub(1)).total().mismatches > 0, "before it");
    assert!(again(newest.next()).total().mismatches > 0, "behind the newest");
}
