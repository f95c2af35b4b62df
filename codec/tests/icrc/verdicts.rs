//! Valid, invalid, or not checkable and why.

use roce_codec::icrc::{self, IcrcVerdict, NotCheckable};
use roce_codec::{Frame, Layer, ParseError, Start};

use crate::hex;

const PACKET: &str = "4502002c 00014000 4011b6ba c0000201 c0000202 c00012b7 00180000 \
    0440ffff 00000123 80000005 c90e1792";

fn verdict(bytes: &[u8]) -> Result<IcrcVerdict, ParseError> {
    icrc::verify([bytes, &[]], Start::Ip)
}

#[test]
fn valid_and_invalid() {
    let mut bytes = hex(PACKET);
    assert_eq!(verdict(&bytes), Ok(IcrcVerdict::Valid));
    bytes[43] ^= 1;
    let expected = [0xc9, 0x0e, 0x17, 0x92];
    let found = [0xc9, 0x0e, 0x17, 0x93];
    assert_eq!(verdict(&bytes), Ok(IcrcVerdict::Invalid { expected, found }));
    let text = verdict(&bytes).unwrap().to_string();
    assert_eq!(text, "c90e1793 invalid, c90e1792 expected");
}

#[test]
fn truncated_at_every_length() {
    let bytes = hex(PACKET);
    for len in 0..bytes.len() {
        let expected = Ok(IcrcVerdict::NotCheckable(NotCheckable::Truncated));
        assert_eq!(verdict(&bytes[..len]), expected, "{len}");
    }
}

#[test]
fn not_filled() {
    let mut bytes = hex(PACKET);
    bytes[40..].fill(0);
    assert_eq!(verdict(&bytes), Ok(IcrcVerdict::NotCheckable(NotCheckable::NotFilled)));
}

#[test]
fn fragments() {
    let fragment = Ok(IcrcVerdict::NotCheckable(NotCheckable::Fragment));
    let mut bytes = hex(PACKET);
    for flags in [0x2000_u16, 0x2001, 0x0001, 0x1fff] {
        bytes[6..8].copy_from_slice(&flags.to_be_bytes());
        assert_eq!(verdict(&bytes), fragment, "{flags:#x}");
    }
    // IPv6: a fragment header before UDP.
    let v6 = hex("60000000 00202c40 20010db8000000000000000000000001 \
        20010db8000000000000000000000002 1100000100000001 c00112b7 00180000 \
        0400ffff 00000123 80000005 00000000");
    assert_eq!(verdict(&v6), fragment);
    // Another port's fragment is not ours to speak of.
    bytes[6..8].copy_from_slice(&0x2000_u16.to_be_bytes());
    bytes[23] = 0x35;
    assert!(matches!(verdict(&bytes), Err(ParseError::NotRoce { layer: Layer::Udp, .. })));
}

#[test]
fn the_outer_header_missing() {
    let bytes = hex(PACKET);
    let why = |bytes: &[u8]| match icrc::verify_datagram(bytes) {
        IcrcVerdict::NotCheckable(why) => why,
        verdict => panic!("{verdict}"),
    };
    assert_eq!(why(&bytes[28..]), NotCheckable::OuterHeaderMissing);
    for len in 0..16 {
        assert_eq!(why(&bytes[28..28 + len]), NotCheckable::Truncated, "{len}");
    }
    let mut unfilled = bytes[28..].to_vec();
    unfilled[12..].fill(0);
    assert_eq!(why(&unfilled), NotCheckable::NotFilled);
}

#[test]
fn what_has_no_icrc_is_an_error() {
    let mut bytes = hex(PACKET);
    bytes[25] += 1;
    let error = ParseError::Length { layer: Layer::Udp, field: 25, expected: 24 };
    assert_eq!(verdict(&bytes), Err(error));
    assert_eq!(Frame::parse([&bytes, &[]], Start::Ip).unwrap_err(), error);
    assert!(matches!(verdict(&[0x10]), Err(ParseError::NotRoce { .. })));
}

#[test]
fn reasons_in_words() {
    for (why, text) in [
        (NotCheckable::Truncated, "the packet is cut by the capture"),
        (NotCheckable::NotFilled, "zero: captured before the hardware filled it in"),
        (NotCheckable::Fragment, "an IP fragment does not hold all that is covered"),
        (NotCheckable::OuterHeaderMissing, "the IP header, which is covered, is missing"),
    ] {
        assert_eq!(why.to_string(), text);
        assert_eq!(IcrcVerdict::NotCheckable(why).to_string(), format!("not checkable: {text}"));
    }
    assert_eq!(IcrcVerdict::Valid.to_string(), "valid");
}
