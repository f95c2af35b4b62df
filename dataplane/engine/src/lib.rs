//! The RoCEv2 transport, sans-IO: the caller owns time, bytes and wire.
//!
//! An [`Engine`] is one shard. It works in pools the caller lends ([`Storage`]), allocates
//! nothing, reads no clock, and touches memory only through a [`Backing`]. The calls, in the
//! order of a poll loop's turn:
//!
//! | call | when |
//! |---|---|
//! | [`Engine::handle_burst`] | frames came |
//! | [`Engine::handle_timeout`] | at or after [`Engine::poll_timeout`] |
//! | [`Engine::poll_transmit`], [`Transmit::emit`] | until `None`, or the wire is full |
//! | [`Engine::poll_cq`], [`Engine::poll_event`] | until `None` |
//! | [`Engine::post_send`], [`Engine::post_recv`], [`Engine::post_srq_recv`] | whenever there is work |
//!
//! Each bounds its own work: a burst by its length and the packets held from earlier ones, a timeout
//! call by [`TIMERS_PER_CALL`].
//! Parts go by the names of Linux rxe: the requester builds requests, the completer takes
//! answers, the responder executes the peer's requests. Decisions that a capture checker makes,
//! too, are pure functions in [`rules`].
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![forbid(unsafe_code)]

mod access;
mod ah;
mod audit;
mod backing;
pub mod cm;
mod completer;
mod config;
mod counters;
mod cq;
mod engine;
mod event;
mod flush;
mod gather;
mod grh;
mod held;
mod local;
mod memory;
mod modify;
mod pacing;
mod pool;
mod post;
mod qp;
mod qp_state;
mod receive;
mod requester;
mod responder;
pub mod rules;
mod scheduler;
mod segment;
mod sge;
mod srq;
mod storage;
mod time;
mod timer;
mod transmit;
mod verbs;
mod window;
mod wqe;
mod wr;

pub use access::Access;
pub use ah::{Ah, AhError, AhSlot, UdAddress};
pub use audit::Discrepancy;
pub use backing::{Addr, AtomicOp, Backing, BackingFault};
pub use config::{Config, Entropy, Recovery, SeededEntropy};
pub use counters::{Counters, DropReason, HwCounter};
pub use cq::{Cq, CqSlot, CqeSlot, Wc, WcOpcode, WcStatus};
pub use engine::{Engine, More, TIMERS_PER_CALL};
pub use event::Event;
pub use flush::{Placement, Selectivity};
pub use grh::GrhArea;
pub use held::{HeldSlot, held_len};
pub use memory::{MemoryError, Mr, MrAttr, MrSlot, Pd};
pub use pacing::Rate;
pub use qp::{ModifyQp, NextHop, Path, QpError, QpInfo, QpInit, QpSlot, RtrAttr, RtsAttr};
pub use qp_state::{QpAttrMask, QpKind, QpState, QpTransition, transition};
pub use receive::Rx;
pub use responder::ReplaySlot;
pub use scheduler::ReadyNode;
pub use sge::{InlineSlot, Sge, SgeSlot};
pub use srq::{Srq, SrqError, SrqInfo, SrqInit, SrqSlot};
#[cfg(feature = "std")]
pub use storage::{HeapStorage, Limits};
pub use storage::{StaticStorage, Storage};
pub use time::Instant;
pub use timer::TimerNode;
pub use transmit::{Body, Gather, LinkHeader, Transmit, TransmitError};
pub use window::{Mw, MwBind, MwBindInfo, MwType};
pub use wqe::{RecvWqe, SendWqe};
pub use wr::{Data, PostError, RecvWr, SendWr, WrOpcode};
