//! Values keep every bit: a parsed packet is emitted to the bytes it came from, its CRCs made
//! right, and the emitted packet parses to the same values.
#![no_main]

use libfuzzer_sys::fuzz_target;
use roce_codec::ib::VcrcVerdict;
use roce_codec::icrc::IcrcVerdict;
use roce_codec::net::MacControl;
use roce_codec::{Crc, Frame, NativeFrame, NativeStart, SmallTable, Start};

fuzz_target!(|input: &[u8]| {
    let (segments, start) = roce_fuzz::packet(input);
    let bytes = segments.concat();
    roce_v2(segments, &bytes, start);
    for start in roce_fuzz::NATIVE_STARTS {
        native(segments, &bytes, start);
    }
    mac_control(&bytes);
});

fn roce_v2(segments: [&[u8]; 2], bytes: &[u8], start: Start) {
    let Ok(frame) = Frame::parse(segments, start) else { return };
    let trailer = frame.trailer()[0].len() + frame.trailer()[1].len();
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
}

fn native(segments: [&[u8]; 2], bytes: &[u8], start: NativeStart) {
    let Ok(frame) = NativeFrame::parse(segments, start) else { return };
    let trailer = frame.trailer()[0].len() + frame.trailer()[1].len();
    let packet = &bytes[..bytes.len() - trailer];
    let vcrc_len = if start == NativeStart::Lrh { 2 } else { 0 };

    let builder = frame.to_builder();
    let mut out = vec![0xa5; packet.len() + vcrc_len + 1];
    let len = builder.emit::<Crc>(frame.payload(), &mut out).expect("there is room");
    assert_eq!(len, packet.len() + vcrc_len);
    assert_eq!(out[len], 0xa5, "wrote past the end");
    let covered = packet.len() - 4;
    assert_eq!(out[..covered], packet[..covered]);

    let again = NativeFrame::parse([&out[..len], &[]], start).expect("it parsed before");
    assert!(matches!(again.verify_icrc(), IcrcVerdict::Valid), "{:?}", again.verify_icrc());
    let vcrc = if vcrc_len > 0 { VcrcVerdict::Valid } else { VcrcVerdict::Absent };
    assert_eq!(again.verify_vcrc(), vcrc);
    assert_eq!(again.to_builder(), builder);

    let mut short = vec![0; len];
    assert!(builder.emit::<SmallTable>(frame.payload(), &mut short[1..]).is_err());
    builder.emit::<SmallTable>(frame.payload(), &mut short).expect("there is room");
    assert_eq!(short, out[..len]);
}

fn mac_control(bytes: &[u8]) {
    let Ok(frame) = MacControl::parse(bytes) else { return };
    let mut out = [0xa5; MacControl::LEN + 1];
    assert_eq!(frame.emit(&mut out), Ok(MacControl::LEN));
    assert_eq!(out[MacControl::LEN], 0xa5, "wrote past the end");
    let captured = bytes.len().min(MacControl::LEN);
    assert_eq!(out[..captured], bytes[..captured]);
    assert!(out[captured..MacControl::LEN].iter().all(|byte| *byte == 0));
    assert_eq!(MacControl::parse(&out), Ok(frame));
}
