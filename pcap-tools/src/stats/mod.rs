//! Figures of a capture: who did what, how fast, and what went wrong.
//!
//! [`Stats`] takes packets one by one; [`Stats::finish`] gives a [`Summary`]: the figures of the
//! whole capture, of each host and of each flow, losses with their recovery, pauses of links, and
//! on request what is needed to draw it all.
//!
//! A flow is (source, destination, destination queue pair), so a connection is two: each has the
//! requests of one side, and what answered them.
//!
//! Memory is bounded: 1024 flows and 256 hosts are kept apart (the others are summed up), 64 flows
//! have graphs, and a thousand losses are listed.
//!
//! ```no_run
//! use roce_pcap::capture::Reader;
//! use roce_pcap::stats::{Options, Stats};
//!
//! let mut stats = Stats::new(Options::default());
//! let mut reader = Reader::open("trace.pcapng")?;
//! while let Some(packet) = reader.next_packet() {
//!     stats.packet(&packet?);
//! }
//! for flow in stats.finish().flows {
//!     println!("{} {:?} ns", flow.key, flow.figures.latency.quantile_ns(0.99));
//! }
//! # Ok::<(), roce_pcap::capture::CaptureError>(())
//! ```

mod collect;
mod csv;
mod figures;
mod flow;
mod json;
mod measure;
mod pause;
mod psn_graph;
mod quantity;
mod rate;
mod reaction;
mod schema;
mod series;
mod text;
mod times;

use std::num::NonZeroU64;

use roce_codec::dcqcn::Params;

use crate::message::Recovery;
use crate::observed::{FlowKey, Host};

pub use collect::Stats;
pub use figures::{Endings, Figures, Operations};
pub use pause::Pause;
pub use psn_graph::{Mark, Point, PsnGraph};
pub use quantity::{Bytes, Duration, Rate};
pub use rate::{Interval, Rates};
pub use schema::write_schema;
pub use times::Times;

pub(crate) use rate::float;

/// What to find out beyond the figures.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The rate of the link at the tap, bits a second: turns the quanta of pauses into time, and is
    /// where DCQCN starts from.
    pub link_bps: Option<NonZeroU64>,
    /// How the senders' reaction points are set.
    pub dcqcn: Params,
    /// Whether to keep what graphs are drawn from, for up to 64 flows.
    pub graphs: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { link_bps: None, dcqcn: Params::PAPER, graphs: false }
    }
}

/// A flow and its figures.
#[derive(Debug, Clone)]
pub struct FlowSummary {
    /// The flow of the requests.
    pub key: FlowKey,
    /// The flow of their answers, where it is known; its destination is the requester's queue pair.
    pub peer: Option<FlowKey>,
    /// Its packets, its requests, and what answered them.
    pub figures: Figures,
    /// The graph of PSNs, of those that have one.
    pub psns: Option<PsnGraph>,
    /// Rates over time, of those that have them.
    pub rates: Option<Rates>,
    /// What DCQCN allows at the end, bits a second, after a CNP.
    pub allowed_bps: Option<u64>,
}

/// A host and its figures.
#[derive(Debug, Clone)]
pub struct HostSummary {
    /// The host; `None` for all that there was no room for.
    pub host: Option<Host>,
    /// What it sent, asked for, and was answered.
    pub figures: Figures,
    /// Packets it was sent.
    pub received_packets: u64,
    /// Their bytes on the wire.
    pub received_bytes: u64,
}

/// The figures of a capture.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Packets read, of all protocols.
    pub packets: u64,
    /// Everything together.
    pub total: Figures,
    /// By host, the busiest first.
    pub hosts: Vec<HostSummary>,
    /// By flow, the busiest first.
    pub flows: Vec<FlowSummary>,
    /// Flows that were silent when there were too many: their sum, and how many.
    pub forgotten: Option<(Figures, u64)>,
    /// Losses and RNR waits in the order they showed, the first [`Summary::MAX_RECOVERIES`] to end.
    pub recoveries: Vec<Recovery>,
    /// Those beyond that.
    pub recoveries_dropped: u64,
    /// By sender and priority.
    pub pauses: Vec<Pause>,
    /// The rate of the link that was given.
    pub link_bps: Option<NonZeroU64>,
}

impl Summary {
    /// Losses and RNR waits that are listed.
    pub const MAX_RECOVERIES: usize = 1000;
}
