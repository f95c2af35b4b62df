//! The connection manager: how two hosts agree on a queue pair's peer, PSN, MTU and retries
//! before the first RDMA packet. Its messages are MADs of 256 bytes, carried by UD SENDs between
//! the QPs 1 (IBTA Vol. 1, chapters 12 and 13).
//!
//! ```text
//!  BTH, DETH                     ib        UD_SEND_ONLY to QP 1, Q_Key 0x80010000
//!  common MAD header     24      MadHeader ┐
//!  message              232      Message   │ Mad, 256 bytes
//!    fixed fields                          │
//!    private data                          ┘ of the RDMA IP CM Service: IpCmHeader first
//! ```
//!
//! | who | sends | answered by |
//! |---|---|---|
//! | active side | [`Req`]: let us connect | [`Rep`], [`Rej`]; [`Mra`] if it takes longer |
//! | active side | [`Rtu`]: ready to use | the first packet on the connection |
//! | either | [`Dreq`]: disconnect | [`Drep`] |
//! | active side | [`Lap`]: load an alternate path | [`Apr`] |
//! | passive side | [`Sap`]: suggest an alternate path | [`Spr`] |
//! | either | [`SidrReq`]: which datagram QP serves this? | [`SidrRep`] |
//!
//! [`Mad::from_frame`] finds the MAD in a packet, [`Message::parse`] takes it apart,
//! [`Message::emit`] writes one. Values keep every reserved bit, and private data is borrowed:
//! nothing of it is copied until a message is emitted.
//!
//! **Which PSN is whose.** The starting PSN in a REQ or REP is the PSN that the *receiver of that
//! message* must send with: a sender states what it expects to receive first. So the active
//! side's first request has the REP's starting PSN, and the passive side's the REQ's.
//!
//! ```
//! use roce_codec::cm::{CommunicationId, MAD_LEN, Mad, Message, Rej, RejReason, RejectedMessage};
//!
//! let refusal = Message::Rej(Rej {
//!     local_comm_id: CommunicationId(0),
//!     remote_comm_id: CommunicationId(0x9d4a_8caf),
//!     rejected: RejectedMessage::Req,
//!     reason: RejReason::INVALID_SERVICE_ID,
//!     ..Rej::default()
//! });
//! let mut bytes = [0; MAD_LEN];
//! refusal.emit(0x2_af8c_4a9d, &mut bytes)?;
//!
//! let mad = Mad::parse(&bytes)?;
//! let Message::Rej(rej) = Message::parse(&mad)? else { panic!("it is a REJ") };
//! assert_eq!(rej.reason.name(), Some("invalid service ID"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod apr;
mod attribute;
mod class_port_info;
mod drep;
mod dreq;
mod error;
mod gsi;
mod ids;
mod ip_cm;
mod lap;
mod mad;
mod message;
mod mra;
mod path;
mod rej;
mod rej_reason;
mod rep;
mod req;
mod rtu;
mod sap;
mod service_id;
mod sidr_rep;
mod sidr_req;
mod spr;
mod timeout;
mod wire;

pub use crate::ib::Eecn;
pub use crate::net::Gid;
pub use apr::{ApStatus, Apr};
pub use attribute::AttributeId;
pub use class_port_info::{ClassPortInfo, MgmtEndpoint};
pub use drep::Drep;
pub use dreq::Dreq;
pub use error::{CmEmitError, CmError};
pub use gsi::is_cm_frame;
pub use ids::{CaGuid, CommunicationId};
pub use ip_cm::IpCmHeader;
pub use lap::Lap;
pub use mad::{MAD_DATA_LEN, MAD_LEN, Mad, MadHeader, Method, MgmtClass};
pub use message::Message;
pub use mra::{Mra, MraedMessage};
pub use path::Path;
pub use rej::{Rej, RejectedMessage};
pub use rej_reason::{Ari, RejReason};
pub use rep::{Failover, Rep};
pub use req::{Req, TransportType};
pub use rtu::Rtu;
pub use sap::Sap;
pub use service_id::{PortSpace, RdmaCmServiceId, ServiceId};
pub use sidr_rep::{SidrRep, SidrStatus};
pub use sidr_req::SidrReq;
pub use spr::Spr;
pub use timeout::Timeout;
