//! No bytes, in one segment or two, make the parser or an accessor panic, and what it says of
//! lengths is true of the bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use roce_codec::ib::VcrcVerdict;
use roce_codec::icrc::{IcrcVerdict, NotCheckable};
use roce_codec::net::MacControl;
use roce_codec::{
    Frame, NativeFrame, NativeStart, Packet, ParseError, SmallTable, Start, Transport,
};

fuzz_target!(|input: &[u8]| {
    let (segments, start) = roce_fuzz::packet(input);
    roce_v2(segments, start);
    for start in roce_fuzz::NATIVE_STARTS {
        native(segments, start);
    }
    if let Err(error) = MacControl::parse(segments[0]) {
        assert!(!error.to_string().is_empty());
    }
    one_of(segments);
});

fn len(pieces: [&[u8]; 2]) -> usize {
    pieces[0].len() + pieces[1].len()
}

/// The error of a captured packet that cannot be parsed is also that of a whole one.
fn check_error(error: ParseError, whole: ParseError, total: usize) {
    assert_eq!(whole, error);
    assert!(!error.to_string().is_empty());
    if let ParseError::Truncated { needed, available, .. } = error {
        assert!(available < needed && available <= total);
    }
}

/// Every byte is accounted for once; `before` are those before the first that the ICRC covers.
fn transport(frame: &Transport<'_>, before: usize, total: usize) {
    let promised = before
        + frame.headers().len()
        + frame.ext_bytes().len()
        + frame.payload_len()
        + frame.pad().len()
        + 4
        + len(frame.trailer());
    assert_eq!(promised, total + frame.missing());
    assert!(len(frame.payload()) <= frame.payload_len());

    let info = frame.info();
    assert_eq!(usize::from(info.headers_len), frame.ext_bytes().len());
    for kind in roce_codec::ib::HeaderKind::ALL {
        assert_eq!(frame.ext(kind).is_some(), info.headers.contains(kind));
        assert!(frame.ext(kind).is_none_or(|bytes| bytes.len() == kind.len()));
    }
    assert!(!format!("{} {} {:?}", frame.opcode(), frame.psn(), frame.aeth()).is_empty());
}

fn check_verdict(verdict: IcrcVerdict, again: IcrcVerdict, missing: usize) {
    assert_eq!(verdict, again);
    let truncated = IcrcVerdict::NotCheckable(NotCheckable::Truncated);
    assert_eq!(verdict == truncated, missing > 0);
}

fn roce_v2(segments: [&[u8]; 2], start: Start) {
    let whole = Frame::parse(segments, start);
    let frame = match Frame::parse_captured(segments, start) {
        Ok(frame) => frame,
        Err(error) => return check_error(error, whole.unwrap_err(), len(segments)),
    };
    assert_eq!(whole.is_ok(), frame.missing() == 0);
    let link = frame.ethernet().map_or(0, |ethernet| ethernet.header_len());
    transport(&frame, link, len(segments));
    assert_eq!(frame.udp_payload_len() + 8, usize::from(frame.udp().length));
    check_verdict(frame.verify_icrc(), frame.verify_icrc_with::<SmallTable>(), frame.missing());
}

fn native(segments: [&[u8]; 2], start: NativeStart) {
    let whole = NativeFrame::parse(segments, start);
    let frame = match NativeFrame::parse_captured(segments, start) {
        Ok(frame) => frame,
        Err(error) => return check_error(error, whole.unwrap_err(), len(segments)),
    };
    assert_eq!(whole.is_ok(), frame.missing() == 0);
    let route = frame.route();
    let before_bth = if route.grh().is_some() { 40 } else { 8 };
    assert_eq!(frame.headers().len(), before_bth + 12);
    transport(&frame, route.header_len() - before_bth, len(segments));
    assert_eq!(route.lrh().is_some(), start == NativeStart::Lrh);
    if let Some(lrh) = frame.lrh() {
        let before_trailer = len(segments) + frame.missing() - len(frame.trailer());
        assert_eq!(4 * usize::from(lrh.pkt_len), before_trailer);
    }
    check_verdict(frame.verify_icrc(), frame.verify_icrc_with::<SmallTable>(), frame.missing());
    match frame.verify_vcrc() {
        VcrcVerdict::Absent => assert_eq!(frame.vcrc(), None),
        VcrcVerdict::Truncated => assert!(frame.missing() > 0),
        VcrcVerdict::Valid | VcrcVerdict::Invalid { .. } => {
            assert!(route.lrh().is_some() && len(frame.trailer()) >= 2);
        }
    }
}

/// An Ethernet frame is at most one of the three, and it is what its own parser says.
fn one_of(segments: [&[u8]; 2]) {
    let v2 = Frame::parse_captured(segments, Start::Ethernet).is_ok();
    let v1 = NativeFrame::parse_captured(segments, NativeStart::Ethernet).is_ok();
    let control = MacControl::parse(segments[0]).is_ok();
    assert!(u8::from(v2) + u8::from(v1) + u8::from(control) <= 1);
    match Packet::parse_captured(segments) {
        Ok(Packet::RoceV2(_)) => assert!(v2),
        Ok(Packet::RoceV1(_)) => assert!(v1),
        Ok(Packet::MacControl(_)) => assert!(control),
        Err(_) => assert!(!v2 && !v1 && !control),
    }
}
