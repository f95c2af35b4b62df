//! Any bytes are a message or an error, and a message gives back its bytes.

use proptest::prelude::*;
use roce_codec::cm::{AttributeId, CmError, MAD_LEN, Mad, MadHeader, Message, Timeout};

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), MAD_LEN)
}

proptest! {
    #[test]
    fn every_message_gives_back_its_bytes(mut bytes in bytes(), attribute in 0x10..=0x1c_u16) {
        bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
        bytes[16..18].copy_from_slice(&attribute.to_be_bytes());
        let mad = Mad::parse(&bytes).unwrap();
        let message = Message::parse(&mad).unwrap();
        prop_assert_eq!(message.attribute(), AttributeId(attribute));
        let mut out = vec![0xa5; MAD_LEN + 1];
        message.emit_under(&mad.header, &mut out).unwrap();
        prop_assert_eq!(&out[..MAD_LEN], &bytes[..]);
        prop_assert_eq!(out[MAD_LEN], 0xa5);
        // Under the usual header, only what the usual header has not is lost.
        message.emit(mad.header.transaction_id, &mut out).unwrap();
        let usual = MadHeader::cm(AttributeId(attribute), mad.header.transaction_id);
        prop_assert_eq!(Mad::parse(&out).unwrap().header, usual);
        prop_assert_eq!(&out[24..MAD_LEN], &bytes[24..]);

        let text = message.to_string();
        prop_assert!(text.starts_with(message.attribute().name().unwrap()), "{}", text);
        let first = u32::from_be_bytes(bytes[24..28].try_into().unwrap());
        let sidr = matches!(message, Message::SidrReq(_) | Message::SidrRep(_));
        prop_assert_eq!(message.local_comm_id().map(|id| id.0), (!sidr).then_some(first));
        let second = u32::from_be_bytes(bytes[28..32].try_into().unwrap());
        let both = !sidr && !matches!(message, Message::Req(_));
        prop_assert_eq!(message.remote_comm_id().map(|id| id.0), both.then_some(second));
    }

    #[test]
    fn each_bit_counts(
        mut bytes in bytes(),
        attribute in 0x10..=0x1c_u16,
        bit in 24 * 8..256 * 8_usize,
    ) {
        bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
        bytes[16..18].copy_from_slice(&attribute.to_be_bytes());
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let (one, other) = (Mad::parse(&bytes).unwrap(), Mad::parse(&flipped).unwrap());
        prop_assert_ne!(Message::parse(&one).unwrap(), Message::parse(&other).unwrap());
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        match Mad::parse(&bytes) {
            Ok(mad) => {
                prop_assert!(bytes.len() >= MAD_LEN);
                let _ = Message::parse(&mad);
            }
            Err(error) => prop_assert_eq!(
                error,
                CmError::Truncated { needed: MAD_LEN, available: bytes.len() }
            ),
        }
    }

    #[test]
    fn the_shortest_timeout_that_is_long_enough(ns: u64) {
        let timeout = Timeout::at_least_ns(ns);
        prop_assert!(timeout.ns() >= ns || timeout == Timeout::MAX);
        if timeout.code() > 0 {
            prop_assert!(Timeout::new(timeout.code() - 1).ns() < ns);
        }
    }
}
