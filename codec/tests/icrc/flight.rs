//! What may change on the way, field by field, held against the verdict (case 12).

use roce_codec::icrc::{Field, IcrcVerdict, Network, can_change_in_flight};
use roce_codec::{Frame, Start};

use crate::hex;

/// Ethernet and a tag, IPv4, SEND only with immediate of one byte, and Ethernet padding.
const V4: &str = "020000000002 020000000001 8100600a 0800 \
    45020034 12344000 3f11a57f c0000201 c0000202 c00112b7 00200000 \
    0530ffff 00000123 80000005 11223344 78 000000 9a3d6dbb 5a5a";

/// The same over IPv6.
const V6: &str = "020000000002 020000000001 8100600a 86dd \
    66b12345 0020113f 20010db8000000000000000000000001 20010db8000000000000000000000002 \
    c56a12b7 00207f22 0530ffff 00010203 80112230 11223344 78 000000 9a3d6dbb 5a5a";

/// Where each field lies, typed from the headers' definitions: the byte counted from the Ethernet
/// header, and one bit of it that leaves the lengths and the protocol alone.
fn bits(network: Network) -> Vec<(Field, usize, u8)> {
    use Field as F;
    let mut bits = vec![(F::Ethernet, 5, 1), (F::VlanTags, 15, 1)];
    let bth = match network {
        Network::Ipv4 => {
            bits.extend([
                (F::TrafficClass, 19, 0x04),
                (F::Identification, 23, 1),
                (F::Fragment, 24, 0x40),
                (F::HopLimit, 26, 1),
                (F::IpChecksum, 28, 1),
                (F::SrcAddress, 33, 1),
                (F::DstAddress, 37, 1),
            ]);
            46
        }
        Network::Ipv6 => {
            bits.extend([
                (F::TrafficClass, 18, 0x01),
                (F::TrafficClass, 19, 0x10),
                (F::FlowLabel, 19, 0x01),
                (F::FlowLabel, 21, 0x01),
                (F::HopLimit, 25, 1),
                (F::SrcAddress, 41, 1),
                (F::DstAddress, 57, 1),
            ]);
            66
        }
        _ => panic!("{network:?}"),
    };
    bits.extend([
        (F::SrcPort, bth - 8, 1),
        (F::UdpChecksum, bth - 1, 1),
        // RC to UC of the same form; solicited event.
        (F::Opcode, bth, 0x20),
        (F::BthFlags, bth + 1, 0x80),
        (F::PKey, bth + 2, 0x80),
        (F::FecnBecn, bth + 4, 0x40),
        (F::Resv6, bth + 4, 0x01),
        (F::DestQp, bth + 7, 1),
        (F::AckReq, bth + 8, 0x80),
        (F::Resv7, bth + 8, 0x01),
        (F::Psn, bth + 11, 1),
        (F::ExtHeaders, bth + 15, 1),
        (F::Payload, bth + 16, 1),
        (F::Pad, bth + 17, 1),
        (F::Trailer, bth + 25, 1),
    ]);
    bits
}

#[test]
fn every_field() {
    for (network, packet) in [(Network::Ipv4, V4), (Network::Ipv6, V6)] {
        let mut bytes = hex(packet);
        let frame = Frame::parse([&bytes, &[]], Start::Ethernet).unwrap();
        let icrc = frame.computed_icrc::<roce_codec::Crc>().unwrap();
        let at = bytes.len() - 6;
        bytes[at..at + 4].copy_from_slice(&icrc);
        let may = can_change_in_flight(network);
        let bits = bits(network);
        for (field, at, bit) in &bits {
            let mut changed = bytes.clone();
            changed[*at] ^= bit;
            let frame = Frame::parse([&changed, &[]], Start::Ethernet).unwrap();
            let valid = frame.verify_icrc() == IcrcVerdict::Valid;
            assert_eq!(valid, may.contains(*field), "{network:?}: {field}");
        }
        // Those that cannot change without another packet coming of it: lengths, version,
        // protocol, destination port; and what such a packet does not have.
        let untested: Vec<Field> = Field::ALL
            .into_iter()
            .filter(|field| bits.iter().all(|(tested, ..)| tested != field))
            .collect();
        let absent = match network {
            Network::Ipv4 => vec![Field::FlowLabel],
            _ => vec![Field::Identification, Field::Fragment, Field::IpChecksum],
        };
        for field in untested {
            let fixed = matches!(
                field,
                Field::IpVersion
                    | Field::IpLength
                    | Field::Protocol
                    | Field::DstPort
                    | Field::UdpLength
                    | Field::VirtualLane
                    | Field::LocalRoute
            );
            assert!(fixed || absent.contains(&field), "{network:?}: {field} is not tested");
            assert!(!may.contains(field), "{network:?}: {field}");
        }
    }
}

/// Native InfiniBand, from the rule itself: with a GRH the whole LRH counts as ones, without one
/// only its VL; FECN, BECN and Resv6 as ever.
#[test]
fn native_packets() {
    let may = can_change_in_flight(Network::Lrh);
    assert!(may.contains(Field::VirtualLane) && !may.contains(Field::LocalRoute));
    assert!(may.contains(Field::FecnBecn) && !may.contains(Field::Psn));
    let may = can_change_in_flight(Network::Grh);
    for field in [Field::VirtualLane, Field::LocalRoute, Field::HopLimit, Field::FlowLabel] {
        assert!(may.contains(field), "{field}");
    }
    assert!(!may.contains(Field::SrcAddress) && !may.contains(Field::UdpChecksum));
}

/// What follows the BTH can be compared by ICRCs alone.
#[test]
fn the_rest_is_told_from_the_headers_icrc() {
    for (packet, bth) in [(V4, 46), (V6, 66)] {
        let bytes = hex(packet);
        let frame = Frame::parse([&bytes, &[]], Start::Ethernet).unwrap();
        let rest_len = frame.udp_payload_len() - 16;
        let rest = &bytes[bth + 12..][..rest_len];
        let headers = u32::from_le_bytes(frame.icrc_of_headers::<roce_codec::Crc>());
        let whole = frame.computed_icrc::<roce_codec::Crc>().unwrap();
        let whole = u32::from_le_bytes(whole);
        let rest_len = u64::try_from(rest_len).unwrap();
        assert_eq!(whole, roce_codec::combine(headers, crc32fast::hash(rest), rest_len));
    }
}
