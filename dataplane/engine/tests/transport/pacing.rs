//! What a peer's READs can cost: answers at a rate, and no more of them than asked for.

use roce_codec::ib::{Opcode, Psn, RKey};
use roce_engine::{DropReason, HwCounter, QpError, Rate, Recovery, WrOpcode};

use crate::host::{Setup, VA};
use crate::lone::{Lone, PEER_QPN};
use crate::packet::Packet;
use crate::pair::Pair;

/// 1024 bytes and 64 are a packet: 1.088 MB/s are a thousand a second.
const RATE: Rate = Rate { bytes_per_second: 1_088_000, burst: 4 * 1088 };

fn paced() -> Lone {
    Lone::with(Setup { read_rate: RATE, ..Setup::DEFAULT })
}

/// Time until the engine has something to do.
fn next_ns(lone: &Lone) -> u64 {
    lone.host.engine.poll_timeout().expect("a timer").ns_since(lone.now)
}

/// The burst at once, then one a millisecond, to the tick of the wheel; `poll_timeout` says when.
#[test]
fn a_read_is_answered_at_its_rate() {
    let mut lone = paced();
    let rkey = lone.rkey();
    lone.receives(Packet::read(100, VA, rkey, 16 * 1024));
    assert_eq!(lone.sends().len(), 4);
    for packet in 4..16 {
        let wait = next_ns(&lone);
        // The wheel comes by now and then to spread a slot.
        let due = 1_000_000 * (packet - 3);
        lone.wait(wait);
        while lone.now.0 < due {
            assert_eq!(lone.sends(), [], "too early at {}", lone.now);
            lone.wait(next_ns(&lone));
        }
        assert!(lone.now.0 < due + 64, "late at {}", lone.now);
        let [answer] = &lone.sends()[..] else { panic!("one packet at {}", lone.now) };
        assert_eq!(answer.psn, Psn::new(100 + u32::try_from(packet).unwrap()));
    }
    assert_eq!(lone.host.engine.poll_timeout(), None, "nothing is left to wake up for");
    assert!(lone.count(HwCounter::ReadPaced) >= 12);
}

/// What waits behind the READ waits with it; other requests and the queue pair's own do not.
#[test]
fn only_the_answers_wait() {
    let mut lone = paced();
    let rkey = lone.rkey();
    let write = Packet::new(Opcode::RC_RDMA_WRITE_ONLY, 108).reth(VA + 9000, rkey, 1).payload(&[7]);
    lone.burst(&[Packet::read(100, VA, rkey, 8 * 1024), write.ask()]);
    assert_eq!(lone.host.bytes(9000, 1), [7], "executed at once");
    assert_eq!(lone.sends().len(), 4);
    let sge = lone.host.sge(0, 10);
    lone.host.post(1, WrOpcode::RdmaWrite { va: VA, rkey }, sge);
    let [own] = &lone.sends()[..] else { panic!("its own request") };
    assert_eq!(own.opcode, Opcode::RC_RDMA_WRITE_ONLY);
    for _ in 0..4 {
        lone.wait(1_000_100);
    }
    let answers = lone.sends();
    assert_eq!(answers.len(), 5, "{answers:?}");
    assert_eq!(answers[4], Packet::ack(108, 2));
}

/// A rate is of a queue pair, holds from now on, and can go.
#[test]
fn a_rate_can_be_changed() {
    let mut lone = paced();
    let rkey = lone.rkey();
    lone.receives(Packet::read(100, VA, rkey, 64 * 1024));
    assert_eq!(lone.sends().len(), 4);
    let qp = lone.host.qp;
    let double = Rate { bytes_per_second: 2 * RATE.bytes_per_second, ..RATE };
    lone.host.engine.set_read_rate(qp, double).unwrap();
    lone.wait(500_000);
    assert_eq!(lone.sends().len(), 1);
    lone.host.engine.set_read_rate(qp, Rate::UNLIMITED).unwrap();
    assert_eq!(lone.sends().len(), 59);
    assert_eq!(lone.host.engine.set_read_rate(PEER_QPN, RATE), Err(QpError::UnknownQp));
}

/// Two engines: a paced READ arrives whole, and takes the time that its rate says.
#[test]
fn a_paced_read_arrives() {
    // 64 packets at 1088 bytes, ten microseconds each.
    let rate = Rate { bytes_per_second: 108_800_000, burst: 0 };
    let mut pair = Pair::new(Setup { read_rate: rate, ..Setup::DEFAULT });
    let bytes: Vec<u8> = (0..64 << 10).map(|at: u32| (at / 5).to_le_bytes()[0]).collect();
    pair.hosts[1].put(0, &bytes);
    let rkey = pair.hosts[1].mr.rkey;
    let sge = pair.hosts[0].sge(100_000, 64 << 10);
    pair.hosts[0].post(1, WrOpcode::RdmaRead { va: VA, rkey }, sge);
    pair.run();
    assert_eq!(pair.hosts[0].sent().len(), 1);
    assert_eq!(pair.hosts[0].bytes(100_000, 64 << 10), bytes);
    let took = pair.now.0;
    assert!((600_000..680_000).contains(&took), "{took} ns");
}

/// A peer that repeats a READ while it is being answered has its start again, as often as a
/// requester may try, and then no more until the answer is out.
#[test]
fn a_read_repeated_a_thousand_times() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    let read = Packet::read(100, VA, rkey, 64 * 1024);
    lone.receives(read.clone());
    let mut sent = 0;
    for _ in 0..1000 {
        sent += (0..3).map_while(|_| lone.sends_one()).count();
        lone.receives(read.clone());
    }
    // Nine starts of three packets, then the whole answer, then one again for each repetition
    // that found the last one out: once in 22.
    let stale = lone.dropped(DropReason::StaleDuplicate);
    assert!(stale > 600, "{stale}");
    let passes = 1000 - usize::try_from(stale).unwrap();
    assert!(sent <= 3 * 1000 && passes <= 1000 * 9 / 30 + 9, "{passes} passes, {sent} packets");
    // It is answered still when it is asked for after all is out.
    let _ = lone.sends();
    assert_eq!(lone.answers(read).len(), 64);
}

/// A peer that gets farther goes back as often as it likes.
#[test]
fn a_read_that_gets_farther() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    lone.receives(Packet::read(100, VA, rkey, 64 * 1024));
    for packet in 0..63 {
        assert_eq!(lone.sends_one().unwrap().psn, Psn::new(100 + packet));
        // The next is lost, and the one after it says so.
        assert_eq!(lone.sends_one().unwrap().psn, Psn::new(101 + packet));
        let skipped = (packet + 1) * 1024;
        let rest = Packet::read(101 + packet, VA + u64::from(skipped), rkey, 64 * 1024 - skipped);
        lone.receives(rest);
    }
    assert_eq!(lone.sends().len(), 1);
    assert_eq!(lone.dropped(DropReason::StaleDuplicate), 0);
}

/// Many READs at once: no more answers are owed than places were agreed, whatever is repeated.
#[test]
fn atomics_repeated_a_thousand_times() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    let add = Packet::fetch_add(100, VA, rkey, 1);
    lone.burst(&vec![add.clone(); 1000]);
    assert_eq!(lone.sends().len(), 1, "one answer is owed, however often it is asked for");
    assert_eq!(lone.host.word(0), 1);
    for _ in 0..10 {
        assert_eq!(lone.answers(add.clone()).len(), 1);
    }
}

/// What a packet can make the responder send, at most: ARCHITECTURE.md's table.
#[test]
fn what_a_packet_costs() {
    let rkey = Lone::new().rkey();
    let write = |psn| Packet::new(Opcode::RC_RDMA_WRITE_ONLY, psn).reth(VA, rkey, 1).payload(&[1]);
    let send = |psn| Packet::new(Opcode::RC_SEND_ONLY, psn).ask();
    let read = |psn, len| Packet::read(psn, VA, rkey, len);
    let atomic = Packet::fetch_add(100, VA, rkey, 1);
    let foreign = Packet { addresses: Some(["10.0.0.1".parse().unwrap(); 2]), ..write(100).ask() };
    for (packet, most) in [
        (write(100).ask(), 1),
        (write(100), 0),
        // A gap, a duplicate, no receive, a key that nobody has.
        (write(101), 1),
        (write(99), 1),
        (send(100), 1),
        (Packet::read(100, VA + 1, RKey(1), 64 * 1024), 1),
        (atomic.clone(), 1),
        (read(100, 0), 1),
        (read(100, 64 * 1024), 64),
        // Unknown duplicates of what is kept, answers to nothing, and what is none of the peer's.
        (read(99, 1024), 0),
        (Packet { psn: Psn::new(99), ..atomic }, 0),
        (Packet::answer(5000, 0x60, 0), 0),
        (foreign, 0),
    ] {
        for recovery in [Recovery::GoBackN, Recovery::SelectiveAccept] {
            let mut lone = Lone::with(Setup { recovery, ..Setup::DEFAULT });
            assert_eq!(lone.answers(packet.clone()).len(), most, "{packet:?}");
        }
        // However often it comes at once: what is owed is owed once.
        let mut lone = Lone::new();
        lone.burst(&vec![packet.clone(); 30]);
        assert!(lone.sends().len() <= most.max(1), "{packet:?}");
    }
}
