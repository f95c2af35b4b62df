//! No bytes, in one segment or two, make the parser or an accessor panic, and what it says of
//! lengths is true of the bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use roce_codec::icrc::{IcrcVerdict, NotCheckable};
use roce_codec::{Frame, ParseError, SmallTable};

fuzz_target!(|input: &[u8]| {
    let (segments, start) = roce_fuzz::packet(input);
    let total = segments[0].len() + segments[1].len();
    let whole = Frame::parse(segments, start);
    let frame = match Frame::parse_captured(segments, start) {
        Ok(frame) => frame,
        Err(error) => {
            assert_eq!(whole.unwrap_err(), error);
            assert!(!error.to_string().is_empty());
            if let ParseError::Truncated { needed, available, .. } = error {
                assert!(available < needed && available <= total);
            }
            return;
        }
    };
    assert_eq!(whole.is_ok(), frame.missing() == 0);

    // Every byte is accounted for once.
    let link = frame.ethernet().map_or(0, |ethernet| ethernet.header_len());
    let len = |pieces: [&[u8]; 2]| pieces[0].len() + pieces[1].len();
    let promised = link
        + frame.headers().len()
        + frame.ext_bytes().len()
        + frame.payload_len()
        + frame.pad().len()
        + 4
        + len(frame.trailer());
    assert_eq!(promised, total + frame.missing());
    assert!(len(frame.payload()) <= frame.payload_len());
    assert_eq!(frame.udp_payload_len() + 8, usize::from(frame.udp().length));

    let info = frame.info();
    assert_eq!(usize::from(info.headers_len), frame.ext_bytes().len());
    for kind in roce_codec::ib::HeaderKind::ALL {
        assert_eq!(frame.ext(kind).is_some(), info.headers.contains(kind));
        assert!(frame.ext(kind).is_none_or(|bytes| bytes.len() == kind.len()));
    }

    let verdict = frame.verify_icrc();
    assert_eq!(verdict, frame.verify_icrc_with::<SmallTable>());
    let truncated = IcrcVerdict::NotCheckable(NotCheckable::Truncated);
    assert_eq!(verdict == truncated, frame.missing() > 0);
    assert!(!format!("{} {} {:?}", frame.opcode(), frame.psn(), frame.aeth()).is_empty());
});
