//! Every CRC kernel, fed in any pieces, updated or copied, gives what one table lookup a byte
//! gives; and a packet's ICRC is explained only if it is wrong, by every kernel alike.
#![no_main]

use libfuzzer_sys::fuzz_target;
use roce_codec::icrc::{self, IcrcMistake, IcrcVerdict, NotCheckable};
use roce_codec::{Frame, Start};
use roce_crc::{Crc, Crc32, INITIAL, Kernel, NibbleTable, Shift, SmallTable, combine};

/// The definition, bit by bit, sharing nothing with the crate.
fn reference(bytes: &[u8]) -> u32 {
    let mut register = u32::MAX;
    for byte in bytes {
        register ^= u32::from(*byte);
        for _ in 0..8 {
            register = (register >> 1) ^ (0xedb8_8320 * (register & 1));
        }
    }
    !register
}

/// Feeds `bytes` in pieces of the lengths that `cuts` gives, every second one while copying to a
/// place `skew` bytes off alignment.
fn in_pieces<C: Crc32>(bytes: &[u8], cuts: [u8; 4], skew: u8) -> u32 {
    let mut crc = C::new();
    let mut rest = bytes;
    let mut copy = false;
    for cut in cuts.into_iter().cycle().take(64) {
        // Squares reach past the widest SIMD kernel's block.
        let len = (usize::from(cut) * usize::from(cut) / 16 + 1).min(rest.len());
        let (piece, after) = rest.split_at(len);
        if copy {
            let skew = usize::from(skew & 63);
            let mut to = vec![0x5a; skew + len + 1];
            assert_eq!(crc.copy_update(&mut to[skew..skew + len], piece), len);
            assert_eq!(&to[skew..skew + len], piece);
            assert!(to[..skew].iter().all(|byte| *byte == 0x5a) && to[skew + len] == 0x5a);
        } else {
            crc.update(piece);
        }
        crc = C::resume(crc.state());
        copy = !copy;
        rest = after;
    }
    crc.update(rest);
    crc.finish()
}

/// Whatever the packet: its verdict and its diagnosis agree.
fn explained(segments: [&[u8]; 2], start: Start) {
    let verdict = icrc::verify(segments, start);
    let Ok(frame) = Frame::parse_captured(segments, start) else { return };
    assert_eq!(verdict, Ok(frame.verify_icrc()));
    let diagnosis = frame.diagnose_icrc();
    assert_eq!(diagnosis, frame.diagnose_icrc_with::<NibbleTable>());
    let Some(diagnosis) = diagnosis else {
        let not_filled = IcrcVerdict::NotCheckable(NotCheckable::NotFilled);
        assert_ne!(frame.verify_icrc(), not_filled, "that itself is an explanation");
        return;
    };
    assert!((1..=3).contains(&diagnosis.mistakes().count()));
    assert!(!diagnosis.to_string().is_empty());
    assert_ne!(frame.verify_icrc(), IcrcVerdict::Valid);
    assert_eq!(frame.missing(), 0);
}

/// The packet with its ICRC made right is not explained, and made wrong in a known way it is.
fn sealed(bytes: &[u8], start: Start) {
    let Ok(frame) = Frame::parse([bytes, &[]], start) else { return };
    let Some(right) = frame.computed_icrc::<SmallTable>() else { return };
    let trailer = frame.trailer()[0].len();
    let seal = |icrc: [u8; 4]| {
        let mut bytes = bytes.to_vec();
        let end = bytes.len() - trailer;
        bytes[end - 4..end].copy_from_slice(&icrc);
        bytes
    };
    let bytes = seal(right);
    let frame = Frame::parse([&bytes, &[]], start).unwrap();
    assert_eq!((frame.verify_icrc(), frame.diagnose_icrc()), (IcrcVerdict::Valid, None));
    let [a, b, c, d] = right;
    let wrong = seal([d, c, b, a]);
    let frame = Frame::parse([&wrong, &[]], start).unwrap();
    if let IcrcVerdict::Invalid { .. } = frame.verify_icrc() {
        // Another single mistake may give the same value, if it comes first.
        let diagnosis = frame.diagnose_icrc().unwrap();
        assert_eq!(diagnosis.mistakes().count(), 1, "{diagnosis}");
        assert_ne!(diagnosis.mistake(), IcrcMistake::NotFilled);
    }
}

fuzz_target!(|input: &[u8]| {
    let (segments, start) = roce_fuzz::packet(input);
    explained(segments, start);
    sealed(input, Start::Ethernet);
    sealed(input, Start::Ip);

    let (bytes, [skew, offset, a, b, c, d]) = roce_fuzz::parameters(input);
    // Any alignment of the source, too.
    let bytes = bytes.get(usize::from(offset & 15)..).unwrap_or_default();
    let expected = reference(bytes);
    assert_eq!(roce_crc::crc32(bytes), expected);
    assert_eq!(in_pieces::<Crc>(bytes, [a, b, c, d], skew), expected);
    assert_eq!(in_pieces::<SmallTable>(bytes, [a, b, c, d], skew), expected);
    assert_eq!(in_pieces::<NibbleTable>(bytes, [a, b, c, d], skew), expected);

    let (first, second) = bytes.split_at(usize::from(a).min(bytes.len()));
    let second_len = second.len() as u64;
    assert_eq!(combine(reference(first), reference(second), second_len), expected);
    assert_eq!(Shift::back(second_len).apply(Shift::over(second_len).apply(expected)), expected);

    let mut masked = bytes.to_vec();
    let mut ones = [0; 64];
    for (at, byte) in ones.iter_mut().enumerate() {
        // Any pattern will do, if it differs from input to input.
        *byte = if at % 8 == usize::from(skew & 7) { a } else { b & c };
    }
    for (byte, ones) in masked.iter_mut().zip(ones) {
        *byte |= ones;
    }
    let expected_masked = reference(&masked);
    for kernel in Kernel::all().filter_map(|(_, kernel)| kernel) {
        assert_eq!(!kernel.update(INITIAL, bytes), expected, "{kernel:?}");
        assert_eq!(!kernel.update_masked(INITIAL, bytes, &ones), expected_masked, "{kernel:?}");
        let mut to = vec![0; bytes.len()];
        assert_eq!(!kernel.copy_update(INITIAL, &mut to, bytes), expected, "{kernel:?}");
        assert_eq!(to, bytes);
    }
});
