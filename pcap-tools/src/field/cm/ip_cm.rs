//! The header that the RDMA IP CM Service puts in front of the private data of REQ and SIDR_REQ.

use std::net::IpAddr;

use super::ip_cm;
use crate::field::value::number;
use crate::field::{Field, Kind, Value};

fn v4(ip: Option<IpAddr>) -> Option<Value<'static>> {
    ip.filter(IpAddr::is_ipv4).map(Value::Ip)
}

fn v6(ip: Option<IpAddr>) -> Option<Value<'static>> {
    ip.filter(IpAddr::is_ipv6).map(Value::Ip)
}

pub(in crate::field) static IP_CM: &[Field] = &[
    Field::new("infiniband.cm.req.ip_cm.majv", "Major version", Kind::Number, |row| {
        Some(number(ip_cm(row)?.0.major_version))
    }),
    Field::new("infiniband.cm.req.ip_cm.minv", "Minor version", Kind::Number, |row| {
        Some(number(ip_cm(row)?.0.minor_version))
    }),
    Field::new("infiniband.cm.req.ip_cm.ipv", "IP version", Kind::Number, |row| {
        Some(number(ip_cm(row)?.0.ip_version))
    }),
    Field::new("infiniband.cm.req.ip_cm.sport", "Source port", Kind::Number, |row| {
        Some(number(ip_cm(row)?.0.src_port))
    }),
    Field::new("infiniband.cm.req.ip_cm.sip4", "Source", Kind::Address, |row| {
        v4(ip_cm(row)?.0.src_ip())
    }),
    Field::new("infiniband.cm.req.ip_cm.dip4", "Destination", Kind::Address, |row| {
        v4(ip_cm(row)?.0.dst_ip())
    }),
    Field::new("infiniband.cm.req.ip_cm.sip6", "Source", Kind::Address, |row| {
        v6(ip_cm(row)?.0.src_ip())
    }),
    Field::new("infiniband.cm.req.ip_cm.dip6", "Destination", Kind::Address, |row| {
        v6(ip_cm(row)?.0.dst_ip())
    }),
    Field::new("infiniband.cm.req.ip_cm.private", "Consumer's private data", Kind::Bytes, |row| {
        Some(Value::Bytes(ip_cm(row)?.1))
    }),
];
