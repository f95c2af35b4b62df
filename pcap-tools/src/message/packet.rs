//! What following messages asks of a packet, taken out once.

use roce_codec::Transport;
use roce_codec::ib::{AethKind, NakCode, OpcodeInfo, Operation, PathMtu, Psn};

/// Where and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    pub(super) packet: u64,
    pub(super) time_ns: Option<u64>,
}

/// A request packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) psn: Psn,
    pub(super) info: &'static OpcodeInfo,
    pub(super) payload_len: u32,
    /// Of the RETH, where there is one.
    pub(super) dma_len: Option<u32>,
    pub(super) icrc: [u8; 4],
}

impl Request {
    #[inline]
    pub(super) fn new(transport: &Transport<'_>) -> Self {
        let info = transport.info();
        let has_reth = matches!(info.operation, Operation::Write | Operation::ReadRequest);
        Self {
            psn: transport.psn(),
            info,
            payload_len: u32::try_from(transport.payload_len()).unwrap_or(u32::MAX),
            dma_len: if has_reth { transport.reth().map(|reth| reth.dma_len) } else { None },
            icrc: transport.icrc(),
        }
    }

    /// The path MTU it shows, if it does.
    #[inline]
    pub(super) fn mtu(&self) -> Option<PathMtu> {
        shown(self.info, self.payload_len)
    }
}

/// What an answer says of its PSN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It and everything before it was executed.
    Ack,
    /// It was refused, everything before it was executed.
    Nak(NakCode),
    /// It came before a receive was posted.
    NotReady,
    /// A part of a READ, or the answer to a FLUSH or ATOMIC WRITE.
    ReadResponse,
    /// The answer to an atomic.
    Atomic,
    /// A reserved syndrome.
    Reserved,
}

/// An answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    pub(super) psn: Psn,
    pub(super) kind: Kind,
    /// The last packet of a READ's answer.
    pub(super) ends: bool,
    pub(super) mtu: Option<PathMtu>,
}

impl Answer {
    #[inline]
    pub(super) fn new(transport: &Transport<'_>) -> Self {
        let info = transport.info();
        let kind = match info.operation {
            Operation::ReadResponse => Kind::ReadResponse,
            Operation::AtomicAcknowledge => Kind::Atomic,
            _ => match transport.aeth().map(|aeth| aeth.syndrome.kind()) {
                Some(AethKind::Ack(_)) => Kind::Ack,
                Some(AethKind::RnrNak(_)) => Kind::NotReady,
                Some(AethKind::Nak(code)) => Kind::Nak(code),
                Some(AethKind::Reserved) | None => Kind::Reserved,
            },
        };
        let payload_len = u32::try_from(transport.payload_len()).unwrap_or(u32::MAX);
        let mtu = shown(info, payload_len);
        Self { psn: transport.psn(), kind, ends: info.position.ends(), mtu }
    }
}

/// A First or Middle carries exactly one path MTU.
#[inline]
fn shown(info: &OpcodeInfo, payload_len: u32) -> Option<PathMtu> {
    if info.payload && !info.position.ends() { PathMtu::from_bytes(payload_len) } else { None }
}
