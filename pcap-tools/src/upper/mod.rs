//! What RDMA carries, where that is proven: NVMe over Fabrics, iSER, SMB Direct, RPC-over-RDMA.
//!
//! A SEND does not say what it carries. [`Tracker`] knows it in two ways, and never guesses: a
//! SEND of a connection of which neither holds is payload and nothing else.
//!
//! **The CM exchange** that set a connection up: the service ID of its REQ names a port, and REQ
//! and REP the queue pairs of both sides. SENDs both ways are then named.
//!
//! **A payload that can be nothing else**, where the CM exchange was not captured. From there on,
//! SENDs of the same flow (sender, receiver, destination queue pair) are named; those of the
//! other direction are not, since nothing in a packet says which queue pair sent it.
//!
//! | protocol | ports | a payload that can be nothing else |
//! |---|---|---|
//! | [NVMe over Fabrics](nvme) | 4420, 8009 | a Connect command: all 31 reserved bytes zero, 1024 bytes of data |
//! | [iSER](Iser) | 3260 | a Login Request behind a zero iSER header, that begins with `InitiatorName=` |
//! | [SMB Direct](SmbDirect) | 445, 5445 | a Negotiate Request of 20 bytes with allowed sizes; data that begins an SMB2 message and has the length it says |
//! | [RPC-over-RDMA](RpcRdma) | 20049 | RDMA_MSG with whole chunk lists, behind them an RPC call or reply of the same XID |
//!
//! Only the first packet of a SEND is looked at, and none whose ICRC is wrong.

mod bytes;
mod iser;
pub mod nvme;
mod protocol;
mod rpc_rdma;
mod smb_direct;
mod tracker;

use std::fmt;

pub use iser::{Iscsi, Iser};
pub use protocol::Protocol;
pub use rpc_rdma::{Chunks, Rpc, RpcBody, RpcConnect, RpcRdma};
pub use smb_direct::{Smb2, SmbDirect};
pub use tracker::Tracker;

/// How it is known what a packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Evidence {
    /// The CM exchange that set the connection up.
    Connection,
    /// A payload that can be nothing else, here or before.
    Payload,
}

/// What a packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upper {
    /// The protocol.
    pub protocol: Protocol,
    /// How that is known.
    pub evidence: Evidence,
    /// The message; `None` if the protocol has none like it, or the capture cut it.
    pub message: Option<UpperMessage>,
}

/// A message of a protocol above the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpperMessage {
    /// Private data of a REQ for an NVMe queue.
    NvmeRequest(nvme::ConnectRequest),
    /// Private data of its REP.
    NvmeAccept(nvme::ConnectAccept),
    /// Private data of its REJ.
    NvmeReject(nvme::ConnectReject),
    /// A command capsule.
    NvmeCommand(nvme::Command),
    /// A response capsule.
    NvmeCompletion(nvme::Completion),
    /// An iSER message.
    Iser(Iser),
    /// An SMB Direct message.
    SmbDirect(SmbDirect),
    /// Private data of a REQ or REP for RPC.
    RpcConnect(RpcConnect),
    /// An RPC-over-RDMA message.
    RpcRdma(RpcRdma),
}

impl fmt::Display for Upper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.protocol.fmt(f)?;
        match &self.message {
            Some(message) => write!(f, " {message}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for UpperMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NvmeRequest(message) => message.fmt(f),
            Self::NvmeAccept(message) => message.fmt(f),
            Self::NvmeReject(message) => message.fmt(f),
            Self::NvmeCommand(message) => message.fmt(f),
            Self::NvmeCompletion(message) => message.fmt(f),
            Self::Iser(message) => message.fmt(f),
            Self::SmbDirect(message) => message.fmt(f),
            Self::RpcConnect(message) => message.fmt(f),
            Self::RpcRdma(message) => message.fmt(f),
        }
    }
}
