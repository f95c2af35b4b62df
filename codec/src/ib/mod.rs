//! The InfiniBand transport headers that RoCEv2 carries, one a file, and their opcode table.

mod aeth;
mod atomic;
mod bth;
mod deth;
mod ext;
mod feth;
mod ids;
mod ieth;
mod immdt;
mod mtu;
mod opcode;
mod opcode_table;
mod psn;
mod reth;

pub use aeth::{Aeth, AethKind, Credits, NakCode, RnrTimer, Syndrome};
pub use atomic::{AtomicAckEth, AtomicEth};
pub use bth::Bth;
pub use deth::Deth;
pub use ext::{ExtHeaders, HeaderKind, HeaderSet};
pub use feth::Feth;
pub use ids::{LKey, Msn, PKey, QKey, Qpn, RKey};
pub use ieth::Ieth;
pub use immdt::ImmDt;
pub use mtu::PathMtu;
pub use opcode::{Answer, Opcode, OpcodeClass, OpcodeInfo, Operation, Position, Service};
pub use psn::Psn;
pub use reth::Reth;

pub(crate) use bth::BthWire;
