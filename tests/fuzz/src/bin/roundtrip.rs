//! Values keep every bit: a parsed packet is emitted to the bytes it came from, its ICRC made
//! right, and the emitted packet parses to the same values.
#![no_main]

use libfuzzer_sys::fuzz_target;
use roce_codec::icrc::IcrcVerdict;
use roce_codec::{Crc, Frame, SmallTable};

fuzz_target!(|input: &[u8]| {
    let (segments, start) = roce_fuzz::packet(input);
    let Ok(frame) = Frame::parse(segments, start) else { return };
    let trailer = frame.trailer()[0].len() + frame.trailer()[1].len();
    let bytes = segments.concat();
    let packet = &bytes[..bytes.len() - trailer];

    let builder = frame.to_builder();
    let mut out = vec![0xa5; packet.len() + 1];
    let len = builder.emit::<Crc>(frame.payload(), &mut out).expect("there is room");
    assert_eq!(len, packet.len());
    assert_eq!(out[len], 0xa5, "wrote past the end");
    assert_eq!(out[..len - 4], packet[..len - 4]);
    assert_eq!(len, builder.header_len() + frame.payload_len() + frame.pad().len() + 4);

    let again = Frame::parse([&out[..len], &[]], start).expect("it parsed before");
    assert!(matches!(again.verify_icrc(), IcrcVerdict::Valid), "{:?}", again.verify_icrc());
    assert_eq!(again.to_builder(), builder);

    let mut short = vec![0; len];
    assert!(builder.emit::<SmallTable>(frame.payload(), &mut short[1..]).is_err());
    builder.emit::<SmallTable>(frame.payload(), &mut short).expect("there is room");
    assert_eq!(short, out[..len]);
});
