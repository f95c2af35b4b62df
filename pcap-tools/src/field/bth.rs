//! The base transport header.

use roce_codec::ib::Service;

use super::value::{id, named, number};
use super::{Field, Kind, Shown, Value};

const SERVICES: &[&str] = &["RC", "UC", "RD", "UD", "CNP", "XRC", "other"];

pub(super) static BTH: &[Field] = &[
    Field::new("infiniband.bth.opcode", "Opcode", Kind::Opcode, |row| {
        let opcode = row.transport()?.opcode();
        Some(named(opcode.0, opcode))
    }),
    Field::new("opcode", "Opcode by name", Kind::Opcode, |row| {
        Some(Value::Opcode(row.transport()?.opcode()))
    })
    .shown(Shown::Json),
    Field::new("service", "Transport service", Kind::Word(SERVICES), |row| {
        let place = match row.transport()?.info().service {
            Service::Rc => 0,
            Service::Uc => 1,
            Service::Rd => 2,
            Service::Ud => 3,
            Service::Cnp => 4,
            Service::Xrc => 5,
            Service::Other => 6,
        };
        Some(Value::Word(SERVICES, place))
    })
    .shown(Shown::Asked),
    Field::new("infiniband.bth.se", "Solicited event", Kind::Flag, |row| {
        Some(Value::Flag(row.transport()?.bth().solicited))
    })
    .short("se"),
    Field::new("infiniband.bth.m", "MigReq", Kind::Flag, |row| {
        Some(Value::Flag(row.transport()?.bth().mig_req))
    })
    .short("migreq"),
    Field::new("infiniband.bth.padcnt", "Pad count", Kind::Number, |row| {
        Some(number(row.transport()?.bth().pad_count))
    })
    .short("padcnt"),
    Field::new("infiniband.bth.tver", "Header version", Kind::Number, |row| {
        Some(number(row.transport()?.bth().version))
    })
    .short("tver"),
    Field::new("infiniband.bth.p_key", "Partition key", Kind::Number, |row| {
        Some(id(row.transport()?.bth().pkey.0.into(), 4))
    })
    .short("pkey"),
    Field::new("infiniband.bth.fecn", "FECN", Kind::Flag, |row| {
        Some(Value::Flag(row.transport()?.bth().fecn))
    })
    .short("fecn"),
    Field::new("infiniband.bth.becn", "BECN", Kind::Flag, |row| {
        Some(Value::Flag(row.transport()?.bth().becn))
    })
    .short("becn"),
    Field::new("infiniband.bth.resv6", "Reserved (6 bits)", Kind::Number, |row| {
        Some(id(row.transport()?.bth().resv6.into(), 2))
    })
    .shown(Shown::Tree),
    Field::new("infiniband.bth.destqp", "Destination queue pair", Kind::Number, |row| {
        Some(id(row.transport()?.dest_qp().get(), 6))
    })
    .short("dqpn"),
    Field::new("infiniband.bth.a", "Acknowledge request", Kind::Flag, |row| {
        Some(Value::Flag(row.transport()?.bth().ack_req))
    })
    .short("ackreq"),
    Field::new("infiniband.bth.reserved7", "Reserved (7 bits)", Kind::Number, |row| {
        Some(id(row.transport()?.bth().resv7.into(), 2))
    })
    .shown(Shown::Tree),
    Field::new("infiniband.bth.psn", "Packet sequence number", Kind::Number, |row| {
        Some(id(row.transport()?.psn().get(), 6))
    })
    .short("psn"),
];
