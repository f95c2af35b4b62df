//! What a packet goes through before it is believed (IBTA 9.6.1): each check drops silently,
//! and counts under its own reason.

use roce_codec::Start;
use roce_codec::ib::{Opcode, OpcodeClass, PKey, Qpn, Service};
use roce_engine::{DropReason, HwCounter, Rx};

use crate::host::{Setup, VA};
use crate::lone::Lone;
use crate::packet::Packet;

fn write(lone: &Lone) -> Packet {
    Packet::new(Opcode::RC_RDMA_WRITE_ONLY, 100).reth(VA, lone.rkey(), 5).payload(b"hello").ask()
}

/// The packet has no effect but on this counter.
fn is_dropped(lone: &mut Lone, bytes: &[u8], reason: DropReason) {
    let before = lone.host.engine.counters().clone();
    let memory = lone.host.all_bytes();
    lone.burst_bytes(&[bytes.to_vec()]);
    assert_eq!(lone.sends(), [], "{reason:?}");
    assert_eq!(lone.dropped(reason), before.dropped(reason) + 1, "{reason:?}");
    let after = lone.host.engine.counters();
    assert_eq!(after.dropped_total(), before.dropped_total() + 1, "{reason:?}");
    assert_eq!(after.acted_on, before.acted_on, "{reason:?}");
    assert_eq!(lone.host.all_bytes(), memory, "{reason:?}");
    assert_eq!((lone.host.received(), lone.host.events()), (vec![], vec![]));
    assert!(lone.expects(100));
}

fn drops(packet: impl FnOnce(Packet) -> Packet, reason: DropReason) {
    let mut lone = Lone::new();
    let packet = packet(write(&lone));
    let bytes = lone.frame(&packet);
    is_dropped(&mut lone, &bytes, reason);
    let packet = write(&lone);
    assert_eq!(lone.answers(packet), [Packet::ack(100, 1)], "the queue pair goes on");
}

#[test]
fn no_such_queue_pair() {
    drops(|packet| Packet { dest_qp: Some(Qpn::new(0x123)), ..packet }, DropReason::UnknownQp);
    drops(|packet| Packet { dest_qp: Some(Qpn::GSI), ..packet }, DropReason::UnknownQp);
    drops(|packet| Packet { dest_qp: Some(Qpn::MULTICAST), ..packet }, DropReason::UnknownQp);
}

/// The generation of a queue pair number counts: the slot's last owner is another queue pair.
#[test]
fn every_bit_of_the_queue_pair_number_counts() {
    let own = Lone::new().host.qp;
    for bit in 0..24 {
        let other = Qpn::new(own.get() ^ 1 << bit);
        drops(|packet| Packet { dest_qp: Some(other), ..packet }, DropReason::UnknownQp);
    }
}

#[test]
fn another_version() {
    for version in 1..16 {
        drops(|packet| Packet { version, ..packet }, DropReason::Version);
    }
}

/// Case 21 and IBTA C9-41.
#[test]
fn another_partition() {
    for pkey in [0x0000, 0x8000, 0x7ffe, 0xfffe] {
        drops(|packet| Packet { pkey: PKey(pkey), ..packet }, DropReason::PKey);
    }
    let mut lone = Lone::new();
    let limited = Packet { pkey: PKey(0x7fff), ..write(&lone) };
    assert_eq!(lone.answers(limited), [Packet::ack(100, 1)], "a limited member, to a full one");
    let mut lone = Lone::with(Setup { pkey: PKey(0x2a00), ..Setup::DEFAULT });
    let full = Packet { pkey: PKey(0xaa00), ..write(&lone) };
    let answer = Packet { pkey: PKey(0x2a00), ..Packet::ack(100, 1) };
    assert_eq!(lone.answers(full), [answer], "answers carry the queue pair's own");
    let mut lone = Lone::with(Setup { pkey: PKey(0x2a00), ..Setup::DEFAULT });
    let limited = Packet { pkey: PKey(0x2a00), ..write(&lone) };
    let bytes = lone.frame(&limited);
    is_dropped(&mut lone, &bytes, DropReason::PKey);
}

/// Transport rule 2.
#[test]
fn another_address() {
    let [own, peer] = Setup::DEFAULT.addresses();
    let stranger = "192.0.2.3".parse().unwrap();
    for addresses in [[stranger, own], [peer, stranger], [own, peer], [own, own]] {
        let other = |packet| Packet { addresses: Some(addresses), ..packet };
        drops(other, DropReason::Address);
    }
    let six = Setup { ipv6: true, ..Setup::DEFAULT }.addresses();
    drops(|packet| Packet { addresses: Some([six[1], six[0]]), ..packet }, DropReason::Address);
    let mapped = ["::ffff:192.0.2.2".parse().unwrap(), "::ffff:192.0.2.1".parse().unwrap()];
    drops(|packet| Packet { addresses: Some(mapped), ..packet }, DropReason::Address);
}

/// Cases 8, 19 and 20: what is not of the queue pair's service is neither executed nor answered,
/// whatever it asks for.
#[test]
fn every_opcode_that_is_not_rc() {
    for value in 0..=255u8 {
        let info = Opcode(value).info();
        if info.class == OpcodeClass::Known && info.service == Service::Rc {
            continue;
        }
        let mut lone = Lone::new();
        lone.host.post_recv(1, 0, 64);
        let packet = Packet::new(Opcode::RC_SEND_ONLY, 100).payload(&[0; 48]).ask();
        let mut bytes = lone.frame(&packet);
        bytes[28] = value;
        fix_icrc(&mut bytes);
        let reason = match (info.class, info.service) {
            (OpcodeClass::Known, Service::Cnp) => DropReason::Cnp,
            (OpcodeClass::Known, _) => DropReason::WrongService,
            _ => DropReason::UnknownOpcode,
        };
        is_dropped(&mut lone, &bytes, reason);
        assert_eq!(lone.host.engine.query_qp(lone.host.qp).unwrap().recv_wrs, 1);
    }
}

/// Case 8: the shortest packet with an opcode that nobody knows.
#[test]
fn an_unknown_opcode_without_anything_behind_it() {
    let mut lone = Lone::new();
    for len in [0, 4, 8] {
        let packet = Packet::new(Opcode(0xff), 100).payload(&vec![0; len]);
        let bytes = lone.frame(&Packet { dest_qp: Some(Qpn::MULTICAST), ..packet });
        is_dropped(&mut lone, &bytes, DropReason::UnknownOpcode);
    }
}

/// Cases 1, 2 and 3: every bit that the ICRC covers, and none that it does not.
#[test]
fn a_flipped_bit_is_noticed_where_it_is_covered() {
    for ipv6 in [false, true] {
        let mut lone = Lone::with(Setup { ipv6, ..Setup::DEFAULT });
        let packet = write(&lone);
        let whole = lone.frame(&packet);
        for byte in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[byte] ^= 1 << bit;
                let masked = if ipv6 {
                    byte == 0 && bit < 4 || matches!(byte, 1..=3 | 7 | 46 | 47 | 52)
                } else {
                    matches!(byte, 1 | 8 | 10 | 11 | 26 | 27 | 32)
                };
                let before = lone.host.engine.counters().acted_on;
                lone.burst_bytes(&[bytes]);
                let acted_on = lone.host.engine.counters().acted_on - before;
                assert_eq!(acted_on, u64::from(masked), "byte {byte} bit {bit}, IPv6: {ipv6}");
                lone.sends();
            }
        }
        assert!(lone.dropped(DropReason::BadIcrc) > 300);
        let bad = lone.count(HwCounter::RxIcrcEncapsulated);
        assert_eq!(bad, lone.dropped(DropReason::BadIcrc));
    }
}

#[test]
fn an_icrc_of_zeroes_is_wrong_unless_the_nic_has_checked() {
    let mut lone = Lone::new();
    let packet = write(&lone);
    let mut bytes = lone.frame(&packet);
    let end = bytes.len();
    bytes[end - 4..].fill(0);
    is_dropped(&mut lone, &bytes, DropReason::BadIcrc);
    let rx = Rx { segments: [&bytes, &[]], start: Start::Ip, icrc_verified: true };
    lone.host.engine.handle_burst(lone.now, &[rx], &lone.host.memory);
    assert_eq!(lone.sends(), [Packet::ack(100, 1)]);
}

/// Cases 9 and 10: every length that is too short, with and without lengths that agree.
#[test]
fn every_truncation() {
    let mut lone = Lone::new();
    let packet = write(&lone);
    let whole = lone.frame(&packet);
    for len in 0..whole.len() {
        let mut bytes = whole[..len].to_vec();
        lone.burst_bytes(&[bytes.clone()]);
        if len >= 28 {
            // As if it had been sent so.
            set_lengths(&mut bytes);
            fix_icrc(&mut bytes);
            lone.burst_bytes(&[bytes]);
        }
    }
    assert_eq!(lone.sends().iter().filter(|packet| packet.psn.get() == 100).count(), 1);
    let state = lone.state();
    assert_eq!(
        state,
        roce_engine::QpState::Error,
        "a WRITE shorter than its DMA length is refused"
    );
    assert_eq!(lone.host.all_bytes(), vec![0; crate::host::LEN]);
}

/// Payload and pad make whole words.
#[test]
fn a_pad_count_that_does_not_fill_the_word() {
    for pad_count in [0, 1, 2] {
        drops(|packet| Packet { pad_count: Some(pad_count), ..packet }, DropReason::Pad);
    }
}

/// Case 18: reserved bits, other source ports and pad bytes that are not zero are a checker's
/// business.
#[test]
fn oddities_that_are_not_faults() {
    let mut lone = Lone::new();
    let packet = write(&lone);
    let mut bytes = lone.frame(&packet);
    // Source port 69, MigReq, Resv6, Resv7, pad bytes.
    bytes[20..22].copy_from_slice(&[0, 69]);
    bytes[29] |= 0x40;
    bytes[32] = 0x10;
    bytes[36] |= 0x7f;
    let end = bytes.len();
    bytes[end - 7..end - 4].fill(0xee);
    fix_icrc(&mut bytes);
    lone.burst_bytes(&[bytes]);
    assert_eq!(lone.sends(), [Packet::ack(100, 1)]);
    assert_eq!(lone.host.bytes(0, 8), b"hello\0\0\0");
}

/// Case 34: what follows the IP packet is not part of it.
#[test]
fn a_trailer_is_not_payload() {
    let mut lone = Lone::new();
    let packet = write(&lone);
    let mut bytes = lone.frame(&packet);
    bytes.extend([0xaa; 22]);
    lone.burst_bytes(&[bytes]);
    assert_eq!(lone.sends(), [Packet::ack(100, 1)]);
}

/// A packet in two pieces, cut anywhere behind its headers.
#[test]
fn a_packet_in_two_pieces() {
    let mut lone = Lone::new();
    let body: Vec<u8> = (0..=255).collect();
    let packet =
        Packet::new(Opcode::RC_RDMA_WRITE_ONLY, 100).reth(VA, lone.rkey(), 256).payload(&body);
    let headers = 20 + 8 + 12 + 16;
    let len = headers + 256 + 4;
    for (number, cut) in (headers..=len).enumerate() {
        let psn = 100 + u32::try_from(number).unwrap();
        let bytes = lone.frame(&Packet { psn: roce_codec::ib::Psn::new(psn), ..packet.clone() });
        lone.host.put(0, &[0; 256]);
        let rx =
            Rx { segments: [&bytes[..cut], &bytes[cut..]], start: Start::Ip, icrc_verified: false };
        lone.host.engine.handle_burst(lone.now, &[rx], &lone.host.memory);
        assert_eq!(lone.host.bytes(0, 256), body, "cut at {cut}");
    }
}

#[test]
fn what_is_not_roce() {
    let mut lone = Lone::new();
    let packet = write(&lone);
    let bytes = lone.frame(&packet);
    let mut tcp = bytes.clone();
    tcp[9] = 6;
    is_dropped(&mut lone, &tcp, DropReason::NotRoce);
    let mut other_port = bytes.clone();
    other_port[22..24].copy_from_slice(&4792u16.to_be_bytes());
    is_dropped(&mut lone, &other_port, DropReason::NotRoce);
    let mut fragment = bytes;
    fragment[6] = 0x20;
    is_dropped(&mut lone, &fragment, DropReason::Malformed);
    lone.burst_bytes(&[vec![], vec![0; 60]]);
    assert_eq!(lone.host.engine.counters().received, 5);
}

/// Sets IPv4 and UDP lengths to what is there.
fn set_lengths(bytes: &mut [u8]) {
    let len = u16::try_from(bytes.len()).unwrap();
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    bytes[24..26].copy_from_slice(&(len - 20).to_be_bytes());
}

/// Computes the ICRC of an IPv4 packet anew, if it is long enough to have one.
fn fix_icrc(bytes: &mut [u8]) {
    use roce_codec::icrc::{ICRC_LEN, IPV4_HEADERS, Icrc};
    let Some(end) = bytes.len().checked_sub(ICRC_LEN) else { return };
    let Some((headers, rest)) = bytes[..end].split_at_checked(IPV4_HEADERS) else { return };
    let mut icrc: Icrc = Icrc::ipv4(headers.try_into().unwrap());
    icrc.update(rest);
    bytes[end..].copy_from_slice(&icrc.finish());
}
