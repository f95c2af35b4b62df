//! Bends valid frames: bits, fields, lengths.

use super::packet::{ETHERNET, repair_icrc, repair_lengths};
use crate::random::Random;

/// Offsets of BTH fields behind the Ethernet header.
const BTH: usize = ETHERNET + 28;
const EXT: usize = BTH + 12;

/// Numbers that break arithmetic.
const EDGES: [u64; 12] = [
    0,
    1,
    7,
    8,
    0x7fff_ffff,
    0x8000_0000,
    0x8000_0001,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_f000,
    0xffff_ffff_ffff_fff8,
    u64::MAX,
];

/// Bends a frame in one to three ways, and usually repairs what would keep it from getting far.
pub fn mutate(random: &mut Random, frame: &mut Vec<u8>) {
    for _ in 0..random.within(1, 3) {
        match random.below(12) {
            0..=2 => flip(random, frame, ETHERNET),
            3 => flip(random, frame, BTH),
            4 | 5 => flip(random, frame, EXT),
            6 => set_opcode(random, frame),
            7 => move_psn(random, frame),
            8 | 9 => set_word(random, frame),
            10 => set_length(random, frame),
            _ => set_bth_byte(random, frame),
        }
    }
    if !random.one_in(20) {
        repair_lengths(frame);
    }
    if !random.one_in(20) {
        repair_icrc(frame);
    }
}

fn flip(random: &mut Random, frame: &mut [u8], from: usize) {
    let Some(len) = frame.len().checked_sub(from).filter(|len| *len > 0) else { return };
    for _ in 0..random.within(1, 4) {
        let bit = random.index(len * 8);
        frame[from + bit / 8] ^= 1 << (bit % 8);
    }
}

fn set_opcode(random: &mut Random, frame: &mut [u8]) {
    if let Some(opcode) = frame.get_mut(BTH) {
        let value = random.bits().to_le_bytes()[0];
        // Mostly one of RC's.
        *opcode = if random.one_in(4) { value } else { value % 0x20 };
    }
}

fn move_psn(random: &mut Random, frame: &mut [u8]) {
    let Some(field) = frame.get_mut(BTH + 9..BTH + 12) else { return };
    let psn = u32::from_be_bytes([0, field[0], field[1], field[2]]);
    let step = random.pick(&[1, 2, 100, 0x7f_ffff, 0x80_0000, 0x80_0001, 0xff_fffe, 0xff_ffff]);
    field.copy_from_slice(&psn.wrapping_add(step).to_be_bytes()[1..]);
}

/// An address, key or length at an edge, or a little beside what it was.
fn set_word(random: &mut Random, frame: &mut [u8]) {
    let at = EXT + random.pick(&[0, 8, 12, 20]);
    let width = random.pick(&[4, 8]);
    let Some(field) = frame.get_mut(at..at + width) else { return };
    let mut bytes = [0; 8];
    bytes[8 - width..].copy_from_slice(field);
    let value = u64::from_be_bytes(bytes);
    let edge = random.pick(&EDGES);
    let new = match random.below(3) {
        0 => edge,
        1 => value.wrapping_add(edge),
        _ => value.wrapping_sub(edge),
    };
    field.copy_from_slice(&new.to_be_bytes()[8 - width..]);
}

fn set_length(random: &mut Random, frame: &mut Vec<u8>) {
    let len = match random.below(3) {
        0 => random.index(frame.len() + 1),
        1 => frame.len() + random.index(64),
        _ => ETHERNET + 28 + 16 + 4 * random.index(1100),
    };
    let fill = random.bits().to_le_bytes()[0] & 0x7f;
    frame.resize(len.min(4352), fill);
}

/// Version, pad count, P_Key, reserved bits, and the rest of the BTH but QP and PSN.
fn set_bth_byte(random: &mut Random, frame: &mut [u8]) {
    let at = BTH + random.pick(&[1, 1, 1, 2, 3, 4, 8]);
    if let Some(byte) = frame.get_mut(at) {
        *byte = random.bits().to_le_bytes()[0];
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use roce_codec::ib::{Opcode, Psn, Qpn, RKey};
    use roce_codec::icrc::IcrcVerdict;
    use roce_codec::{Frame, Start};

    use super::*;
    use crate::hostile::packet::Packet;

    #[test]
    fn most_mutants_have_a_valid_icrc() {
        let mut random = Random::new(3);
        let addresses = [Ipv4Addr::new(203, 0, 113, 9), Ipv4Addr::new(198, 51, 100, 1)];
        let opcode = Opcode::RC_RDMA_WRITE_ONLY;
        let packet = Packet::new(addresses, opcode, Qpn::new(5), Psn::new(7))
            .reth(0x1000, RKey(1), 64)
            .payload(vec![1; 64]);
        let whole = packet.frame();
        let frame = Frame::parse([&whole, &[]], Start::Ethernet).unwrap();
        assert_eq!(frame.verify_icrc(), IcrcVerdict::Valid);
        let mut valid = 0;
        let mut same = 0;
        for _ in 0..1000 {
            let mut frame = packet.frame();
            mutate(&mut random, &mut frame);
            same += u32::from(frame == whole);
            valid += u32::from(
                Frame::parse([&frame, &[]], Start::Ethernet)
                    .is_ok_and(|frame| frame.verify_icrc() == IcrcVerdict::Valid),
            );
        }
        assert!(valid > 600, "{valid}");
        assert!(same < 50, "{same}");
    }
}
