//! The headers of RoCE v1 and native InfiniBand.

use roce_codec::NativeFrame;

use super::value::{id, number};
use super::{Field, Kind, Value};

pub(super) static LRH: &[Field] = &[
    Field::new("infiniband.lrh.vl", "Virtual lane", Kind::Number, |row| {
        Some(number(row.native()?.lrh()?.vl))
    }),
    Field::new("infiniband.lrh.lver", "Link version", Kind::Number, |row| {
        Some(number(row.native()?.lrh()?.lver))
    }),
    Field::new("infiniband.lrh.sl", "Service level", Kind::Number, |row| {
        Some(number(row.native()?.lrh()?.sl))
    }),
    Field::new("infiniband.lrh.lnh", "Link next header", Kind::Number, |row| {
        Some(number(row.native()?.lrh()?.lnh.bits()))
    }),
    Field::new("infiniband.lrh.dlid", "Destination local ID", Kind::Number, |row| {
        Some(number(row.native()?.lrh()?.dlid.0))
    }),
    Field::new("infiniband.lrh.pktlen", "Packet length in words", Kind::Number, |row| {
        Some(number(row.native()?.lrh()?.pkt_len))
    }),
    Field::new("infiniband.lrh.slid", "Source local ID", Kind::Number, |row| {
        Some(number(row.native()?.lrh()?.slid.0))
    }),
];

pub(super) static GRH: &[Field] = &[
    Field::new("infiniband.grh.tclass", "Traffic class", Kind::Number, |row| {
        Some(id(row.native()?.grh()?.traffic_class.into(), 2))
    }),
    Field::new("infiniband.grh.flowlabel", "Flow label", Kind::Number, |row| {
        Some(id(row.native()?.grh()?.flow_label, 5))
    }),
    Field::new("infiniband.grh.paylen", "Payload length", Kind::Number, |row| {
        Some(number(row.native()?.grh()?.pay_len))
    }),
    Field::new("infiniband.grh.nxthdr", "Next header", Kind::Number, |row| {
        Some(id(row.native()?.grh()?.next_header.into(), 2))
    }),
    Field::new("infiniband.grh.hoplmt", "Hop limit", Kind::Number, |row| {
        Some(number(row.native()?.grh()?.hop_limit))
    }),
    Field::new("infiniband.grh.sgid", "Source GID", Kind::Address, |row| {
        Some(Value::Ip(row.native()?.grh()?.sgid.ip()))
    }),
    Field::new("infiniband.grh.dgid", "Destination GID", Kind::Address, |row| {
        Some(Value::Ip(row.native()?.grh()?.dgid.ip()))
    }),
];

const VERDICTS: &[&str] = &["valid", "invalid", "absent", "truncated"];

pub(super) static VCRC: &[Field] = &[
    Field::new("infiniband.variant.crc", "Value", Kind::Key, |row| {
        let found = row.native()?.vcrc()?;
        Some(Value::Key(u64::from(u16::from_be_bytes(found)), 4))
    }),
    Field::new("vcrc.status", "Verdict", Kind::Word(VERDICTS), |row| {
        use roce_codec::ib::VcrcVerdict;
        let native = row.native()?;
        native.vcrc()?;
        let place = match NativeFrame::verify_vcrc(native) {
            VcrcVerdict::Valid => 0,
            VcrcVerdict::Invalid { .. } => 1,
            VcrcVerdict::Absent => 2,
            VcrcVerdict::Truncated => 3,
        };
        Some(Value::Word(VERDICTS, place))
    }),
    Field::new("vcrc.expected", "Expected", Kind::Key, |row| {
        use roce_codec::ib::VcrcVerdict;
        match row.native()?.verify_vcrc() {
            VcrcVerdict::Invalid { expected, .. } => {
                Some(Value::Key(u64::from(u16::from_be_bytes(expected)), 4))
            }
            _ => None,
        }
    }),
];
