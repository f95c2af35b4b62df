//! A chip's own CRC unit in place of ours, through everything that takes one.

use roce_codec::icrc::{IcrcMistake, IcrcVerdict};
use roce_codec::{Crc32, Frame, Start};

use crate::hex;

/// A driver that feeds words and bytes as such units take them, and counts what it was fed.
#[derive(Clone)]
struct Unit {
    register: u32,
    fed: usize,
}

impl Crc32 for Unit {
    fn resume(state: u32) -> Self {
        Self { register: state, fed: 0 }
    }

    fn state(&self) -> u32 {
        self.register
    }

    fn update(&mut self, bytes: &[u8]) {
        self.fed += bytes.len();
        for byte in bytes {
            self.register ^= u32::from(*byte);
            for _ in 0..8 {
                self.register = (self.register >> 1) ^ (0xedb8_8320 * (self.register & 1));
            }
        }
    }
}

#[test]
fn verifies_builds_and_diagnoses() {
    let right = hex("45020030 12344000 4011a483 c0000201 c0000202 c00112b7 001c0000 \
        0420ffff 00000123 80000005 cafe0000 5ccebf46");
    let frame = Frame::parse([&right, &[]], Start::Ip).unwrap();
    assert_eq!(frame.verify_icrc_with::<Unit>(), IcrcVerdict::Valid);
    assert_eq!(frame.computed_icrc::<Unit>(), Some([0x5c, 0xce, 0xbf, 0x46]));

    let mut out = [0xa5; 48];
    let len = frame.to_builder().emit::<Unit>(frame.payload(), &mut out).unwrap();
    assert_eq!(out[..len], right);

    let mut old = right.clone();
    old[44..].copy_from_slice(&hex("cf2565c3"));
    let frame = Frame::parse([&old, &[]], Start::Ip).unwrap();
    let diagnosis = frame.diagnose_icrc_with::<Unit>().unwrap();
    assert_eq!(diagnosis.mistake(), IcrcMistake::PadLeftOut);
}

#[test]
fn is_fed_every_covered_byte_once() {
    let mut unit = Unit::new();
    unit.update_masked(&[0x5a; 100], &[0; 64]);
    let mut to = [0; 50];
    assert_eq!(unit.copy_update(&mut to, &[0xa5; 60]), 50);
    assert_eq!((unit.fed, to), (150, [0xa5; 50]));
}
