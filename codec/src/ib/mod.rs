//! The InfiniBand headers, one a file, and the opcode table: the transport headers that RoCEv2
//! carries, and the local route header and variant CRC of native InfiniBand.

mod aeth;
mod atomic;
mod bth;
mod deth;
mod ext;
mod feth;
mod ids;
mod ieth;
mod immdt;
mod lrh;
mod mtu;
mod opcode;
mod opcode_table;
mod psn;
mod rdeth;
mod reth;
mod vcrc;
mod xrceth;

pub use aeth::{Aeth, AethKind, Credits, NakCode, RnrTimer, Syndrome};
pub use atomic::{AtomicAckEth, AtomicEth};
pub use bth::Bth;
pub use deth::Deth;
pub use ext::{ExtHeaders, HeaderKind, HeaderSet};
pub use feth::Feth;
pub use ids::{EeContext, LKey, Lid, Msn, PKey, QKey, Qpn, RKey, Srqn};
pub use ieth::Ieth;
pub use immdt::ImmDt;
pub use lrh::{LinkNextHeader, Lrh};
pub use mtu::PathMtu;
pub use opcode::{Answer, Opcode, OpcodeClass, OpcodeInfo, Operation, Position, Service};
pub use psn::Psn;
pub use rdeth::Rdeth;
pub use reth::Reth;
pub use vcrc::{VCRC_LEN, Vcrc, VcrcVerdict};
pub use xrceth::Xrceth;

pub(crate) use bth::BthWire;
pub(crate) use lrh::LrhWire;
