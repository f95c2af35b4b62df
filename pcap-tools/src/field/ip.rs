//! IPv4, IPv6 and UDP; and what either IP version, or a GRH, has.

use roce_codec::net::{Ecn, Ip, Ipv4, Ipv6};

use super::value::{id, number};
use super::{Field, Kind, Row, Shown, Value};

fn v4(row: &Row<'_>) -> Option<Ipv4> {
    match row.ip()? {
        Ip::V4(ip) => Some(ip),
        Ip::V6(_) => None,
    }
}

fn v6(row: &Row<'_>) -> Option<Ipv6> {
    match row.ip()? {
        Ip::V6(ip) => Some(ip),
        Ip::V4(_) => None,
    }
}

/// The code points by their value.
const ECN: &[&str] = &["Not-ECT", "ECT1", "ECT0", "CE"];

fn ecn(traffic_class: u8) -> Value<'static> {
    let name = match Ecn::of_traffic_class(traffic_class) {
        Ecn::NotEct => "not ECN-capable",
        Ecn::Ect0 => "ECT(0)",
        Ecn::Ect1 => "ECT(1)",
        Ecn::Ce => "congestion experienced",
    };
    Value::Named(u64::from(traffic_class & 3), name.into())
}

/// DSCP and ECN, in whichever header.
fn traffic_class(row: &Row<'_>) -> Option<u8> {
    match (row.frame(), row.native()) {
        (Some(frame), _) => Some(frame.traffic_class()),
        (None, Some(native)) => native.grh().map(|grh| grh.traffic_class),
        (None, None) => None,
    }
}

/// Of IP, or of the GRH.
pub(super) static EITHER: &[Field] = &[
    Field::new("src", "Source address", Kind::Address, |row| match (row.frame(), row.native()) {
        (Some(frame), _) => Some(Value::Ip(frame.src())),
        (None, Some(native)) => native.grh().map(|grh| Value::Ip(grh.sgid.ip())),
        (None, None) => None,
    })
    .shown(Shown::Asked),
    Field::new("dst", "Destination address", Kind::Address, |row| {
        match (row.frame(), row.native()) {
            (Some(frame), _) => Some(Value::Ip(frame.dst())),
            (None, Some(native)) => native.grh().map(|grh| Value::Ip(grh.dgid.ip())),
            (None, None) => None,
        }
    })
    .shown(Shown::Asked),
    Field::many("addr", "Source and destination address", Kind::Address, |row, with| {
        if let Some(frame) = row.frame() {
            with(Value::Ip(frame.src()));
            with(Value::Ip(frame.dst()));
        } else if let Some(grh) = row.native().and_then(roce_codec::NativeFrame::grh) {
            with(Value::Ip(grh.sgid.ip()));
            with(Value::Ip(grh.dgid.ip()));
        }
    })
    .shown(Shown::Asked),
    Field::new("dscp", "DSCP", Kind::Number, |row| Some(number(traffic_class(row)? >> 2)))
        .shown(Shown::Asked),
    Field::new("ecn", "ECN", Kind::Word(ECN), |row| {
        Some(Value::Word(ECN, usize::from(traffic_class(row)? & 3)))
    })
    .shown(Shown::Asked),
];

pub(super) static IPV4: &[Field] = &[
    Field::new("ip.src", "Source", Kind::Address, |row| Some(Value::Ip(v4(row)?.src.into())))
        .shown(Shown::Json),
    Field::new("ip.dst", "Destination", Kind::Address, |row| Some(Value::Ip(v4(row)?.dst.into())))
        .shown(Shown::Json),
    Field::new("ip.dsfield.dscp", "DSCP", Kind::Number, |row| Some(number(v4(row)?.dscp_ecn >> 2))),
    Field::new("ip.dsfield.ecn", "ECN", Kind::Named, |row| Some(ecn(v4(row)?.dscp_ecn))),
    Field::new("ip.len", "Total length", Kind::Number, |row| Some(number(v4(row)?.total_len))),
    Field::new("ip.id", "Identification", Kind::Number, |row| {
        Some(id(v4(row)?.identification.into(), 4))
    }),
    Field::new("ip.flags_offset", "Flags and offset", Kind::Number, |row| {
        Some(id(v4(row)?.flags_fragment.into(), 4))
    })
    .shown(Shown::Tree),
    Field::new("ip.ttl", "Time to live", Kind::Number, |row| Some(number(v4(row)?.ttl))),
    Field::new("ip.checksum", "Header checksum", Kind::Number, |row| {
        Some(id(v4(row)?.checksum.into(), 4))
    })
    .shown(Shown::Tree),
];

pub(super) static IPV6: &[Field] = &[
    Field::new("ipv6.src", "Source", Kind::Address, |row| Some(Value::Ip(v6(row)?.src.into())))
        .shown(Shown::Json),
    Field::new("ipv6.dst", "Destination", Kind::Address, |row| {
        Some(Value::Ip(v6(row)?.dst.into()))
    })
    .shown(Shown::Json),
    Field::new("ipv6.tclass.dscp", "DSCP", Kind::Number, |row| {
        Some(number(v6(row)?.traffic_class >> 2))
    }),
    Field::new("ipv6.tclass.ecn", "ECN", Kind::Named, |row| Some(ecn(v6(row)?.traffic_class))),
    Field::new("ipv6.flow", "Flow label", Kind::Number, |row| Some(id(v6(row)?.flow_label, 5))),
    Field::new("ipv6.plen", "Payload length", Kind::Number, |row| {
        Some(number(v6(row)?.payload_len))
    }),
    Field::new("ipv6.hlim", "Hop limit", Kind::Number, |row| Some(number(v6(row)?.hop_limit))),
];

pub(super) static UDP: &[Field] = &[
    Field::new("udp.srcport", "Source port", Kind::Number, |row| {
        Some(number(row.frame()?.udp().src_port))
    })
    .short("sport")
    .shown(Shown::Json),
    Field::new("udp.dstport", "Destination port", Kind::Number, |row| {
        Some(number(row.frame()?.udp().dst_port))
    })
    .shown(Shown::Json),
    Field::new("udp.length", "Length", Kind::Number, |row| Some(number(row.frame()?.udp().length))),
    Field::new("udp.checksum", "Checksum", Kind::Number, |row| {
        Some(id(row.frame()?.udp().checksum.into(), 4))
    })
    .shown(Shown::Tree),
];
