//! Native InfiniBand and RoCE v1: the local route header masked wrongly, and the mistakes shared
//! with RoCEv2. Values by Python's `zlib.crc32` over what the mistaken sender would cover.

use roce_codec::icrc::{Field, Fields, IcrcMistake as M, IcrcVerdict};
use roce_codec::{NativeFrame, NativeStart, SmallTable};

use crate::hex;

/// LRH, and WRITE only of one byte; virtual lane 2.
const LOCAL: &str = "2002375c 000b17d2 0a70ffff 41000123 80000005 \
    0000000000001000 00001234 00000001 78 000000";

/// LRH, GRH, and the same.
const GLOBAL: &str = "2003375c 001517d2 6c012345 00241b3f \
    0102030405060708090a0b0c0d0e0f10 1112131415161718191a1b1c1d1e1f20 \
    0a70ffff 41000123 80000005 0000000000001000 00001234 00000001 78 000000";

/// The mistakes found in a packet that carries `icrc`; `None` if it is right.
fn found(start: NativeStart, packet: &str, icrc: &str, behind: &str) -> Option<Vec<M>> {
    let bytes = hex(&[packet, icrc, behind].concat());
    let frame = NativeFrame::parse([&bytes, &[]], start).unwrap();
    let diagnosis = frame.diagnose_icrc();
    assert_eq!(diagnosis, frame.diagnose_icrc_with::<SmallTable>());
    if frame.verify_icrc() == IcrcVerdict::Valid {
        assert_eq!(diagnosis, None);
        return None;
    }
    Some(diagnosis.map(|diagnosis| diagnosis.mistakes().collect()).unwrap_or_default())
}

#[test]
fn within_a_subnet() {
    let found = |icrc| found(NativeStart::Lrh, LOCAL, icrc, "0000");
    assert_eq!(found("0db53500"), None);
    assert_eq!(found("7db3505b"), Some(vec![M::Unmasked(Fields::of(&[Field::VirtualLane]))]));
    assert_eq!(found("1304b261"), Some(vec![M::Overmasked(Fields::of(&[Field::LocalRoute]))]));
    assert_eq!(found("2ba95da4"), Some(vec![M::NothingMasked]));
    assert_eq!(found("6be30e12"), Some(vec![M::OnesLeftOut]));
    assert_eq!(found("0035b50d"), Some(vec![M::BigEndian]));
    assert_eq!(found("00000000"), Some(vec![M::NotFilled]));
    assert_eq!(found("12345678"), Some(vec![]));
}

#[test]
fn between_subnets() {
    let found = |icrc| found(NativeStart::Lrh, GLOBAL, icrc, "0000");
    assert_eq!(found("6c8fdabb"), None);
    assert_eq!(found("e5c3baf5"), Some(vec![M::Unmasked(Fields::of(&[Field::LocalRoute]))]));
    assert_eq!(found("7390e944"), Some(vec![M::Unmasked(Fields::of(&[Field::HopLimit]))]));
    assert_eq!(found("a7952054"), Some(vec![M::OnesLeftOut]));
}

/// RoCE v1 has ones for an LRH, and Ethernet padding behind.
#[test]
fn roce_v1() {
    let packet = format!("020000000002020000000001 8100600a 8915 {}", &GLOBAL[18..]);
    let found = |icrc| found(NativeStart::Ethernet, &packet, icrc, "5a5a");
    assert_eq!(found("6c8fdabb"), None);
    assert_eq!(found("a7952054"), Some(vec![M::OnesLeftOut]));
    assert_eq!(found("dbe87e99"), Some(vec![M::VlanIncluded]));
    assert_eq!(found("0b1e7c3e"), Some(vec![M::TrailerIncluded]));
}
