//! Values known from elsewhere, for everything that implements [`Crc32`].

mod noise;

use noise::noise;
use roce_crc::{AFTER_ONES8, Crc, Crc32, INITIAL, NibbleTable, SmallTable, crc32};

/// Message and CRC: the check value of the catalogue of parametrised CRC algorithms (CRC-32/ISO-HDLC), and Python's
/// `zlib.crc32` for the rest.
const KNOWN: [(&[u8], u32); 8] = [
    (b"", 0x0000_0000),
    (b"a", 0xe8b7_be43),
    (b"abc", 0x3524_41c2),
    (b"123456789", 0xcbf4_3926),
    (&[0; 32], 0x190a_55ad),
    (&[0xff; 32], 0xff6c_ab0b),
    (&[0xff; 8], 0x2144_df1c),
    (b"The quick brown fox jumps over the lazy dog", 0x414f_a339),
];

fn knows_the_values<C: Crc32>() {
    for (bytes, crc) in KNOWN {
        let mut whole = C::new();
        whole.update(bytes);
        assert_eq!(whole.finish(), crc, "{bytes:02x?}");
        assert_eq!(whole.state(), !crc, "{bytes:02x?}");

        let mut copied = C::new();
        let mut dst = vec![0; bytes.len()];
        assert_eq!(copied.copy_update(&mut dst, bytes), bytes.len());
        assert_eq!((copied.finish(), &dst[..]), (crc, bytes));
    }
}

/// The provided methods of the trait and their replacements say the same.
fn agrees_with_crc<C: Crc32>() {
    let bytes = noise(200);
    let ones: [u8; 64] = noise(264)[200..].try_into().expect("64 bytes");
    for len in 0..=bytes.len() {
        let mut here = C::resume(AFTER_ONES8);
        let mut there = Crc::after_ones8();
        here.update_masked(&bytes[..len], &ones);
        there.update_masked(&bytes[..len], &ones);
        assert_eq!(here.state(), there.state(), "{len}");

        // One byte short, so that both lengths decide.
        let mut dst = [[0; 200]; 2];
        let copied = [
            here.copy_update(&mut dst[0][..len.saturating_sub(1)], &bytes[..len]),
            there.copy_update(&mut dst[1][..len.saturating_sub(1)], &bytes[..len]),
        ];
        assert_eq!(copied, [len.saturating_sub(1); 2]);
        assert_eq!(dst[0], dst[1], "{len}");
        assert_eq!(here.state(), there.state(), "{len}");

        // A clone goes its own way, and a state moves from one implementation to another.
        let mut clone = here.clone();
        clone.update(b"x");
        assert_ne!(clone.state(), here.state());
        assert_eq!(Crc::resume(clone.state()).finish(), clone.finish());
    }
}

#[test]
fn fastest() {
    knows_the_values::<Crc>();
    for (bytes, crc) in KNOWN {
        assert_eq!(crc32(bytes), crc, "{bytes:02x?}");
    }
}

#[test]
fn small_table() {
    knows_the_values::<SmallTable>();
    agrees_with_crc::<SmallTable>();
}

#[test]
fn nibble_table() {
    knows_the_values::<NibbleTable>();
    agrees_with_crc::<NibbleTable>();
}

#[test]
fn states_to_start_from() {
    assert_eq!(Crc::new().state(), INITIAL);
    assert_eq!(Crc::default(), Crc::new());

    let mut crc = Crc::new();
    crc.update(&[0xff; 8]);
    assert_eq!(crc, Crc::after_ones8());
    assert_eq!(AFTER_ONES8, !0x2144_df1c);

    const KNOWN_STATE: Crc = Crc::with_state(0x1234_5678);
    assert_eq!(KNOWN_STATE, Crc::resume(0x1234_5678));
}
