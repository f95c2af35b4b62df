//! Every header: each bit survives, each truncation is an error that names what is missing, and
//! no bytes are refused that the specification does not refuse.

use super::{arbitrary, native};
use proptest::prelude::*;
use roce_codec::ib::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Feth, HeaderKind, Ieth, ImmDt, Lrh, Msn, PathMtu,
    Psn, Qpn, Rdeth, Reth, Xrceth,
};
use roce_codec::net::{Ethernet, Grh, Ipv4, Ipv6, Udp};
use roce_codec::{EmitError, Layer, ParseError};

/// Parses what was emitted, checks it and every truncation, and flips every bit.
fn holds<T: Copy + PartialEq + std::fmt::Debug>(
    value: T,
    layer: Layer,
    len: usize,
    parse: impl Fn(&[u8]) -> Result<T, ParseError>,
    emit: impl Fn(&T, &mut [u8]) -> Result<(), EmitError>,
) {
    let mut bytes = vec![0xa5; len + 3];
    emit(&value, &mut bytes).unwrap();
    assert_eq!(bytes[len..], [0xa5; 3], "wrote past the header");
    assert_eq!(parse(&bytes), Ok(value));

    for available in 0..len {
        let needed = len;
        assert_eq!(
            parse(&bytes[..available]),
            Err(ParseError::Truncated { layer, needed, available })
        );
        let mut out = vec![0; available];
        assert_eq!(emit(&value, &mut out), Err(EmitError::NoRoom { needed, available }));
    }

    for bit in 0..8 * len {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        // IP's version and header length are not values; they are checked.
        let Ok(other) = parse(&flipped) else {
            assert!(
                matches!(layer, Layer::Ipv4 | Layer::Ipv6 | Layer::Grh) && bit < 8,
                "bit {bit}"
            );
            continue;
        };
        assert_ne!(other, value, "bit {bit} is lost");
        let mut out = vec![0xa5; len + 3];
        emit(&other, &mut out).unwrap();
        assert_eq!(out, flipped, "bit {bit}");
    }
}

proptest! {
    #[test]
    fn bth(value in arbitrary::bth()) {
        holds(value, Layer::Bth, 12, Bth::parse, Bth::emit);
    }

    #[test]
    fn reth(value in arbitrary::reth()) {
        holds(value, Layer::Ext(HeaderKind::Reth), 16, Reth::parse, Reth::emit);
    }

    #[test]
    fn aeth(value in arbitrary::aeth()) {
        holds(value, Layer::Ext(HeaderKind::Aeth), 4, Aeth::parse, Aeth::emit);
    }

    #[test]
    fn atomic_eth(value in arbitrary::atomic_eth()) {
        holds(value, Layer::Ext(HeaderKind::AtomicEth), 28, AtomicEth::parse, AtomicEth::emit);
    }

    #[test]
    fn deth(value in arbitrary::deth()) {
        holds(value, Layer::Ext(HeaderKind::Deth), 8, Deth::parse, Deth::emit);
    }

    #[test]
    fn one_number_headers(word: u32, original: u64) {
        let kind = Layer::Ext;
        holds(
            AtomicAckEth { original },
            kind(HeaderKind::AtomicAckEth),
            8,
            AtomicAckEth::parse,
            AtomicAckEth::emit,
        );
        holds(ImmDt(word), kind(HeaderKind::ImmDt), 4, ImmDt::parse, ImmDt::emit);
        holds(Feth(word), kind(HeaderKind::Feth), 4, Feth::parse, Feth::emit);
        holds(
            Ieth(roce_codec::ib::RKey(word)),
            kind(HeaderKind::Ieth),
            4,
            Ieth::parse,
            Ieth::emit,
        );
        let [resv8, ..] = word.to_be_bytes();
        let eecn = roce_codec::ib::Eecn::new(word);
        let rdeth = Rdeth { resv8, eecn };
        holds(rdeth, kind(HeaderKind::Rdeth), 4, Rdeth::parse, Rdeth::emit);
        let xrceth = Xrceth { resv8, srqn: roce_codec::ib::Srqn::new(word) };
        holds(xrceth, kind(HeaderKind::Xrceth), 4, Xrceth::parse, Xrceth::emit);
    }

    #[test]
    fn ipv4(value in arbitrary::ipv4()) {
        holds(value, Layer::Ipv4, 20, Ipv4::parse, Ipv4::emit);
    }

    #[test]
    fn ipv6(value in arbitrary::ipv6()) {
        holds(value, Layer::Ipv6, 40, Ipv6::parse, Ipv6::emit);
    }

    #[test]
    fn lrh(value in native::lrh()) {
        holds(value, Layer::Lrh, 8, Lrh::parse, Lrh::emit);
    }

    #[test]
    fn grh(value in native::grh()) {
        holds(value, Layer::Grh, 40, Grh::parse, Grh::emit);
    }

    #[test]
    fn udp(value in arbitrary::udp()) {
        holds(value, Layer::Udp, 8, Udp::parse, Udp::emit);
    }

    #[test]
    fn ethernet(dst: [u8; 6], src: [u8; 6], vlans in arbitrary::vlans(), ethertype in 0..0x8000_u16) {
        let value = Ethernet {
            dst: roce_codec::net::MacAddr(dst),
            src: roce_codec::net::MacAddr(src),
            vlans,
            ethertype: roce_codec::net::EtherType(ethertype),
        };
        let len = value.header_len();
        prop_assert_eq!(len, 14 + 4 * value.vlans.iter().count());
        let mut bytes = vec![0xa5; len + 2];
        value.emit(&mut bytes).unwrap();
        prop_assert_eq!(Ethernet::parse(&bytes), Ok(value));
        prop_assert_eq!(&bytes[len..], &[0xa5, 0xa5]);
        for cut in 0..len {
            let error = Ethernet::parse(&bytes[..cut]);
            prop_assert!(matches!(error, Err(ParseError::Truncated { .. })), "{error:?}");
            prop_assert!(value.emit(&mut vec![0; cut]).is_err());
        }
    }

    #[test]
    fn any_bytes_are_some_header(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        macro_rules! back_to_bytes {
            ($($header:ty: $len:expr),*) => {$(
                if let Ok(value) = <$header>::parse(&bytes) {
                    let mut out = vec![0; $len];
                    value.emit(&mut out).unwrap();
                    prop_assert_eq!(&out[..], &bytes[..$len]);
                } else {
                    prop_assert!(bytes.len() < $len);
                }
            )*};
        }
        back_to_bytes!(
            Bth: 12, Reth: 16, Aeth: 4, AtomicEth: 28, AtomicAckEth: 8, Deth: 8, ImmDt: 4,
            Ieth: 4, Feth: 4, Rdeth: 4, Xrceth: 4, Lrh: 8, Udp: 8
        );
        for result in [
            Ipv4::parse(&bytes).map(|_| ()),
            Ipv6::parse(&bytes).map(|_| ()),
            Ethernet::parse(&bytes).map(|_| ()),
        ] {
            if let Err(error) = result {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }

    /// The ones' complement sum over a header with its right checksum is all ones (RFC 1071).
    #[test]
    fn the_ipv4_checksum_sums_to_ones(mut value in arbitrary::ipv4()) {
        value.checksum = value.computed_checksum();
        let mut bytes = [0; 20];
        value.emit(&mut bytes).unwrap();
        let mut sum: u32 = 0;
        for pair in bytes.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], pair[1]]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        prop_assert_eq!(sum, 0xffff);
    }

    #[test]
    fn psn_arithmetic_is_modulo_2_to_the_24(a: u32, b: u32, step in 0_u32..1 << 23) {
        let (x, y) = (Psn::new(a), Psn::new(b));
        prop_assert_eq!(x.get(), a % (1 << 24));
        prop_assert_eq!(x.add(step).sub(step), x);
        prop_assert_eq!(x.add(step).distance_from(x), i32::try_from(step).unwrap());
        prop_assert_eq!(x.is_before(x.add(step)), step > 0);
        prop_assert!(!x.is_after(x) && !x.is_before(x));
        let distance = i64::from(y.distance_from(x));
        prop_assert_eq!((i64::from(x.get()) + distance).rem_euclid(1 << 24), i64::from(y.get()));
        // Of two different PSNs each is before the other in exactly one case: half the space.
        let half = x.get().abs_diff(y.get()) == Psn::HALF;
        prop_assert_eq!(x.is_before(y) == y.is_before(x), half || x == y);
    }

    #[test]
    fn ids_keep_24_bits(value: u32) {
        prop_assert_eq!(Qpn::new(value).get(), value & 0xff_ffff);
        prop_assert_eq!(roce_codec::ib::Srqn::new(value).get(), value & 0xff_ffff);
        prop_assert_eq!(Msn::new(value).next().get(), (value & 0xff_ffff).wrapping_add(1) & 0xff_ffff);
    }

    #[test]
    fn packets_of_a_message_carry_it_all(len in 0..=1_u32 << 31, code in 1..=5_u8) {
        let mtu = PathMtu::from_code(code).unwrap();
        let packets = u64::from(mtu.packets(len));
        let bytes = u64::from(mtu.bytes());
        prop_assert!(packets >= 1 && packets * bytes >= u64::from(len));
        prop_assert!((packets - 1) * bytes < u64::from(len).max(1));
    }
}
