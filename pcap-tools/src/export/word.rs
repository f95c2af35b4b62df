//! Words for what has no text of its own.

use roce_codec::ib::{AethKind, Operation, Service, Syndrome};
use roce_codec::net::Ecn;

use crate::capture::Direction;
use crate::dissect::Dissected;
use crate::message::{Arrival, Part};
use crate::observed::Observed;

pub(super) const fn service(service: Service) -> &'static str {
    match service {
        Service::Rc => "RC",
        Service::Uc => "UC",
        Service::Rd => "RD",
        Service::Ud => "UD",
        Service::Cnp => "CNP",
        Service::Xrc => "XRC",
        Service::Other => "other",
    }
}

pub(super) const fn operation(operation: Operation) -> &'static str {
    match operation {
        Operation::Send => "SEND",
        Operation::Write => "WRITE",
        Operation::ReadRequest => "READ",
        Operation::ReadResponse => "READ_RESPONSE",
        Operation::Acknowledge => "ACKNOWLEDGE",
        Operation::AtomicAcknowledge => "ATOMIC_ACKNOWLEDGE",
        Operation::CompareSwap => "COMPARE_SWAP",
        Operation::FetchAdd => "FETCH_ADD",
        Operation::Resync => "RESYNC",
        Operation::Flush => "FLUSH",
        Operation::AtomicWrite => "ATOMIC_WRITE",
        Operation::Cnp => "CNP",
        Operation::Other => "other",
    }
}

/// What kind of packet it is.
pub(super) fn kind(observed: &Observed<'_>) -> &'static str {
    match &observed.what {
        Dissected::Roce(_) => "roce_v2",
        Dissected::Native(frame) if frame.lrh().is_some() => "infiniband",
        Dissected::Native(_) => "roce_v1",
        Dissected::MacControl(_) => "mac_control",
        Dissected::Malformed(_) => "malformed",
        Dissected::Other(_) => "other",
    }
}

/// Why it is not read.
#[cold]
pub(super) fn error(observed: &Observed<'_>) -> Option<String> {
    match &observed.what {
        Dissected::Malformed(malformed) => Some(malformed.to_string()),
        Dissected::Other(other) => Some(other.to_string()),
        _ => None,
    }
}

pub(super) const fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::Inbound => "inbound",
        Direction::Outbound => "outbound",
    }
}

pub(super) fn ecn(traffic_class: u8) -> &'static str {
    match Ecn::of_traffic_class(traffic_class) {
        Ecn::NotEct => "Not-ECT",
        Ecn::Ect0 => "ECT0",
        Ecn::Ect1 => "ECT1",
        Ecn::Ce => "CE",
    }
}

pub(super) fn acknowledgement(syndrome: Syndrome) -> &'static str {
    match syndrome.kind() {
        AethKind::Ack(_) => "ACK",
        AethKind::RnrNak(_) => "RNR",
        AethKind::Nak(_) => "NAK",
        _ => "reserved",
    }
}

pub(super) const fn part(part: Part) -> &'static str {
    match part {
        Part::Request(_) => "request",
        Part::Answer => "answer",
        Part::Datagram => "datagram",
        Part::Notification => "notification",
        Part::Damaged => "damaged",
        Part::Other => "other",
    }
}

pub(super) const fn arrival(part: Part) -> Option<&'static str> {
    match part {
        Part::Request(Arrival::New) => Some("new"),
        Part::Request(Arrival::Late) => Some("late"),
        Part::Request(Arrival::Again) => Some("again"),
        Part::Request(Arrival::Copy) => Some("copy"),
        _ => None,
    }
}
