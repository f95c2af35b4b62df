//! Rules that one packet alone can keep or break.

use roce_codec::ib::{AethKind, Bth, HeaderKind, Opcode, OpcodeClass, OpcodeInfo, Operation};
use roce_codec::ib::{QKey, Qpn, Service, VcrcVerdict};
use roce_codec::net::{Ip, Ipv4};
use roce_codec::{Frame, NativeFrame, Transport};
use roce_engine::rules::length::MAX_MESSAGE;

use super::judge::{At, Judge};
use super::opcode::{self, LengthError};
use super::rule::Rule;

/// Bytes of a management datagram.
const MAD_LEN: usize = 256;

/// What is around the transport.
#[derive(Clone, Copy)]
pub(super) enum Network<'f, 'a> {
    /// RoCEv2.
    Roce(&'f Frame<'a>),
    /// RoCE v1 or native InfiniBand.
    Native(&'f NativeFrame<'a>),
}

/// A packet with what every rule asks of it, taken out once.
pub(super) struct Seen<'f, 'a> {
    pub(super) network: Network<'f, 'a>,
    pub(super) transport: &'f Transport<'a>,
    pub(super) bth: Bth,
    pub(super) info: &'static OpcodeInfo,
    pub(super) payload_len: usize,
    /// Whether the ICRC was found right.
    pub(super) icrc_valid: bool,
}

impl<'f, 'a> Seen<'f, 'a> {
    #[inline]
    pub(super) fn new(network: Network<'f, 'a>, icrc_valid: bool) -> Self {
        let transport: &Transport<'a> = match network {
            Network::Roce(frame) => frame,
            Network::Native(frame) => frame,
        };
        let bth = transport.bth();
        let (info, payload_len) = (bth.opcode.info(), transport.payload_len());
        Self { network, transport, bth, info, payload_len, icrc_valid }
    }
}

/// Judges what needs no memory.
#[inline]
pub(super) fn check(seen: &Seen<'_, '_>, at: At, told: &mut u64, judge: &mut Judge) {
    check_ip(seen, at, judge);
    check_bth(seen, at, judge);
    match seen.info.class {
        OpcodeClass::Manufacturer => {
            judge.unknown_once(Rule::BthOpcode, at, told, || {
                let found = format!("{:#04x}", seen.bth.opcode.0);
                ("a defined opcode".into(), found, "a manufacturer's opcode".into())
            });
            return;
        }
        // Native InfiniBand and RoCEv2 each have a congestion opcode of their own.
        class => {
            let foreign = match seen.network {
                Network::Roce(_) => Opcode::IB_CNP,
                Network::Native(_) => Opcode::CNP,
            };
            let kept = class == OpcodeClass::Known && seen.bth.opcode != foreign;
            judge.check(Rule::BthOpcode, at, kept, || {
                let found = format!("{:#04x}", seen.bth.opcode.0);
                ("a defined opcode".into(), found, "the opcode is reserved here".into())
            });
            if !kept {
                return;
            }
        }
    }
    check_pad(seen, at, judge);
    check_length(seen, at, judge);
    check_headers(seen, at, judge);
    if seen.info.operation == Operation::Cnp {
        check_cnp(seen, at, judge);
    }
    if seen.bth.dest_qp == Qpn::GSI {
        check_mad(seen, at, judge);
    }
}

#[inline]
fn check_ip(seen: &Seen<'_, '_>, at: At, judge: &mut Judge) {
    judge.pass(Rule::RoceLength);
    let frame = match seen.network {
        Network::Roce(frame) => frame,
        Network::Native(frame) => return check_vcrc(frame, at, judge),
    };
    judge.pass(Rule::IpUdpLength);
    if let Ip::V4(ip) = frame.ip() {
        judge.check(Rule::Ipv4Df, at, ip.flags_fragment & Ipv4::DONT_FRAGMENT != 0, || {
            let found = format!("flags {:#06x}", ip.flags_fragment);
            ("don't fragment".into(), found, "the packet may be fragmented on its way".into())
        });
    }
}

/// The CRC of the last link, of native InfiniBand alone. What the capture cut or never had is not
/// judged.
#[cold]
fn check_vcrc(frame: &NativeFrame<'_>, at: At, judge: &mut Judge) {
    match frame.verify_vcrc() {
        VcrcVerdict::Valid => judge.pass(Rule::IbVcrc),
        VcrcVerdict::Invalid { expected, found } => {
            let hex = |bytes| format!("{:04x}", u16::from_be_bytes(bytes));
            let message = "damaged on its last link, or behind it".into();
            judge.fail(Rule::IbVcrc, at, (hex(expected), hex(found), message));
        }
        _ => {}
    }
}

#[inline]
fn check_bth(seen: &Seen<'_, '_>, at: At, judge: &mut Judge) {
    let bth = &seen.bth;
    judge.check(Rule::BthVersion, at, bth.version == 0, || {
        ("0".into(), bth.version.to_string(), "unknown transport header version".into())
    });
    judge.check(Rule::BthReserved, at, bth.resv6 == 0 && bth.resv7 == 0, || {
        let found = format!("Resv6 {:#04x}, Resv7 {:#04x}", bth.resv6, bth.resv7);
        ("zero".into(), found, "reserved bits are set".into())
    });
    // Linux asks for acknowledgement of MADs, which nobody minds.
    let unreliable = matches!(seen.info.service, Service::Uc | Service::Ud);
    if unreliable && bth.dest_qp != Qpn::GSI {
        judge.check(Rule::BthAckReq, at, !bth.ack_req, || {
            ("0".into(), "1".into(), "an unreliable service asks for acknowledgement".into())
        });
    }
}

/// Payload and pad end on four bytes, and only payload that does not by itself has pad.
#[inline]
fn check_pad(seen: &Seen<'_, '_>, at: At, judge: &mut Judge) {
    let pad = usize::from(seen.bth.pad_count);
    let needed = (4 - seen.payload_len % 4) % 4;
    judge.check(Rule::BthPad, at, pad == needed, || {
        let message = format!("{} bytes of payload", seen.payload_len);
        (needed.to_string(), pad.to_string(), message)
    });
    if pad > 0 && seen.transport.missing() == 0 {
        judge.check(
            Rule::BthPadBytes,
            at,
            seen.transport.pad().iter().all(|byte| *byte == 0),
            || {
                let found = format!("{:02x?}", seen.transport.pad());
                ("zero".into(), found, "pad bytes are not zero".into())
            },
        );
    }
}

#[inline]
fn check_length(seen: &Seen<'_, '_>, at: At, judge: &mut Judge) {
    match opcode::length(seen.info, seen.payload_len) {
        Ok(()) => judge.pass(Rule::PayloadLength),
        Err(error) => {
            let expected = match error {
                LengthError::NotAllowed => "no payload",
                LengthError::NotEight => "8 bytes",
                LengthError::NoMtu => "a path MTU: 256, 512, 1024, 2048 or 4096 bytes",
                LengthError::EmptyLast => "at least 1 byte",
                LengthError::AboveAnyMtu => "at most 4096 bytes",
            };
            let found = format!("{} bytes", seen.payload_len);
            let message = format!("wrong payload for {}", seen.bth.opcode);
            judge.fail(Rule::PayloadLength, at, (expected.into(), found, message));
        }
    }
}

#[inline]
fn check_headers(seen: &Seen<'_, '_>, at: At, judge: &mut Judge) {
    let headers = seen.info.headers;
    if headers.contains(HeaderKind::Reth)
        && let Some(reth) = seen.transport.reth()
    {
        judge.check(Rule::RethDmaLen, at, reth.dma_len <= MAX_MESSAGE, || {
            let found = reth.dma_len.to_string();
            ("at most 2147483648".into(), found, "the message is too long".into())
        });
    }
    if headers.contains(HeaderKind::Aeth)
        && let Some(aeth) = seen.transport.aeth()
    {
        let kind = aeth.syndrome.kind();
        let only_ack = seen.info.operation != Operation::Acknowledge;
        let kept = match kind {
            AethKind::Ack(_) => true,
            AethKind::Reserved => false,
            _ => !only_ack,
        };
        judge.check(Rule::AethSyndrome, at, kept, || {
            let expected = if only_ack { "ACK" } else { "ACK, RNR NAK or NAK 0x60 to 0x64" };
            let found = format!("{:#04x} ({})", aeth.syndrome.0, aeth.syndrome);
            (expected.into(), found, format!("syndrome of a {}", seen.bth.opcode))
        });
    }
}

fn check_cnp(seen: &Seen<'_, '_>, at: At, judge: &mut Judge) {
    let bth = &seen.bth;
    let reserved = seen.transport.ext(HeaderKind::CnpReserved).unwrap_or_default();
    let faults = [
        (!bth.becn, "BECN is not set"),
        (bth.solicited, "solicited event is set"),
        (bth.mig_req, "MigReq is set"),
        (bth.ack_req, "an acknowledgement is asked for"),
        (bth.psn.get() != 0, "the PSN is not 0"),
        (reserved.iter().any(|byte| *byte != 0), "reserved bytes are not zero"),
    ];
    let fault = faults.into_iter().find(|(is_so, _)| *is_so);
    judge.check(Rule::CnpFormat, at, fault.is_none(), || {
        let expected = "BECN 1, SE 0, M 0, A 0, PSN 0, reserved bytes 0";
        let (_, found) = fault.unwrap_or_default();
        (expected.into(), found.into(), "malformed congestion notification".into())
    });
}

fn check_mad(seen: &Seen<'_, '_>, at: At, judge: &mut Judge) {
    let fault = match seen.transport.deth() {
        _ if seen.info.service == Service::Cnp => return,
        _ if seen.info.service != Service::Ud => Some(format!("{} to QP1", seen.bth.opcode)),
        Some(deth) if deth.qkey != QKey::GSI => Some(format!("Q_Key {:#010x}", deth.qkey.0)),
        Some(deth) if deth.src_qp != Qpn::GSI => Some(format!("source QP {}", deth.src_qp)),
        _ if seen.payload_len != MAD_LEN => Some(format!("{} bytes", seen.payload_len)),
        _ => match seen.transport.payload()[0].first() {
            Some(version) if *version != 1 => Some(format!("MAD base version {version}")),
            _ => None,
        },
    };
    judge.check(Rule::MadQp1, at, fault.is_none(), || {
        let expected = "a UD SEND of 256 bytes, Q_Key 0x80010000, source QP 1, base version 1";
        (expected.into(), fault.unwrap_or_default(), "not a management datagram".into())
    });
}
