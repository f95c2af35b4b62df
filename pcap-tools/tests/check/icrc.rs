//! What is said of a wrong ICRC, and what of the packet is then believed.

use roce_pcap::check::Rule;

use crate::support::{Owned, judge, load_own};

/// The ICRC finding of the only packet judged that has one: its message.
fn message(packets: &[Owned]) -> String {
    let (summary, findings) = judge(packets);
    assert_eq!(summary.icrc_invalid, 1);
    let finding = findings.iter().find(|finding| finding.rule == Rule::RoceIcrc).unwrap();
    finding.message.clone()
}

#[test]
fn rxe_s_flush_is_named() {
    let packets = load_own("rxe72-flush-atomicwrite");
    for number in [14, 22, 43] {
        let said = message(&packets[number - 1..number]);
        assert!(said.contains("as Linux rxe does with a FLUSH"), "{number}: {said}");
    }
}

/// The same packet, its ICRC bent in three ways: two that a sender is known for, and damage.
#[test]
fn a_bent_packet_is_explained_or_called_damaged() {
    let packets = load_own("rxe-write");
    let bend = |change: fn(&mut [u8; 4])| {
        let mut packet = packets[3].clone();
        change(packet.data.last_chunk_mut().unwrap());
        message(&[packet])
    };
    let known = "wrong ICRC, a known mistake of its sender: ";
    assert_eq!(
        bend(|icrc| icrc.reverse()),
        format!("{known}it is stored most significant byte first")
    );
    assert_eq!(
        bend(|icrc| icrc.iter_mut().for_each(|byte| *byte = !*byte)),
        format!("{known}the complement at the end is missing")
    );
    assert_eq!(
        bend(|icrc| icrc[1] ^= 4),
        "wrong ICRC: damaged on its way, or changed without a new ICRC"
    );
}

/// A sender's mistake is no damage: what such a packet says is judged; nothing of a damaged one.
#[test]
fn a_packet_explained_is_believed() {
    let packets = load_own("rxe-write");
    let (whole, _) = judge(&packets);
    let bend_all = |change: fn(&mut [u8; 4])| {
        let mut packets = packets.clone();
        for packet in &mut packets {
            change(packet.data.last_chunk_mut().unwrap());
        }
        judge(&packets).0
    };
    let explained = bend_all(|icrc| icrc.reverse());
    assert_eq!((explained.icrc_invalid, explained.pass), (64, whole.pass - 64));
    let damaged = bend_all(|icrc| icrc[1] ^= 4);
    assert_eq!((damaged.icrc_invalid, damaged.fail), (64, 64));
    assert!(damaged.pass < whole.pass / 2, "{} of {}", damaged.pass, whole.pass);
}
