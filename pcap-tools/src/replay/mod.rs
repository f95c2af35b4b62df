//! Requests of a capture put to our responder, its answers held against the captured ones.
//!
//! [`Recording`] holds a capture, [`Replay::new`] learns from it what our responder must be given to
//! stand for the captured one ([`Plan`]), [`Replay::run`] gives the requests to it, in process and
//! in the order of the capture, and compares. A difference is explained by one named [`Freedom`], or
//! it proves nothing ([`Unknown`]), or it is a [`Mismatch`].
//!
//! What the plan cannot know beforehand is learned on the way: memory from the captured READ answers
//! and atomics, each before our responder reads it; receives from what became of the SENDs.
//!
//! [`Replay::send`] (feature `replay-port`) gives them to a responder at the other end of a wire.
//!
//! ```no_run
//! use roce_pcap::capture::Reader;
//! use roce_pcap::replay::{DEFAULT_LIMIT, Recording, Replay};
//!
//! let recording = Recording::read(Reader::open("trace.pcapng")?, DEFAULT_LIMIT);
//! let replay = Replay::new(recording, None);
//! print!("{}", replay.plan());
//! let report = replay.run(DEFAULT_LIMIT)?;
//! assert!(report.is_clean());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agreement;
mod answer;
mod answered;
mod compare;
mod error;
mod fate;
mod freedom;
mod learn;
mod mapping;
mod memory;
mod output;
mod own;
mod plan;
mod recording;
mod region;
mod report;
mod responder;
mod run;
mod stream;
mod taps;
#[cfg(feature = "replay-port")]
mod target;
#[cfg(feature = "replay-port")]
mod wire;

pub use error::ReplayError;
pub use freedom::{Freedom, Unknown};
pub use plan::{Plan, StreamPlan};
pub use recording::{DEFAULT_LIMIT, Recording, Skipped};
pub use region::Region;
pub use report::{Field, Kind, Mismatch, Permitted, Report, StreamReport, Total, Wire};
pub use taps::Drops;
#[cfg(feature = "replay-port")]
pub use target::Target;
#[cfg(feature = "replay-port")]
pub use wire::{SendOptions, Speed};

use fate::{Fate, Fates};
use region::Regions;
use stream::Stream;
use taps::Taps;

/// A stream, what became of its requests, and what its responder is given.
#[derive(Debug)]
struct Part {
    stream: Stream,
    fates: Fates,
    plan: StreamPlan,
}

/// A capture, or two taps of the same traffic, ready to be replayed.
#[derive(Debug)]
pub struct Replay {
    recordings: Vec<Recording>,
    /// By recording.
    parts: Vec<Vec<Part>>,
    taps: Option<Taps>,
}

impl Replay {
    /// Learns what is to be replayed. With a second tap of the same traffic, each responder is given
    /// what the tap nearer to it saw: what was lost on the way is not replayed.
    #[must_use]
    pub fn new(recording: Recording, second_tap: Option<Recording>) -> Self {
        let (recordings, taps) = match second_tap {
            None => (vec![recording], None),
            Some(second) => {
                let both = [recording, second];
                let taps = Taps::of(&both);
                (Vec::from(both), Some(taps))
            }
        };
        let parts = recordings.iter().enumerate().map(|(tap, recording)| {
            let streams = stream::streams(recording).into_iter();
            let nearest = streams.filter(|stream| {
                let (host, peer) = (stream.responder.host, stream.requester);
                taps.as_ref().is_none_or(|taps| taps.nearer(host, peer) == tap)
            });
            nearest.map(|stream| part(recording, stream, taps.is_some())).collect()
        });
        let parts = parts.collect();
        Self { recordings, parts, taps }
    }

    /// What our responder is given.
    #[must_use]
    pub fn plan(&self) -> Plan {
        let streams = self.parts.iter().flatten().map(|part| part.plan.clone()).collect();
        let mut regions = Vec::new();
        for (recording, parts) in self.recordings.iter().zip(&self.parts) {
            let of = regions_of(recording, parts);
            regions.extend(of.iter().map(|(host, rkey, region)| (host, rkey, *region)));
        }
        Plan { streams, regions }
    }

    /// Gives the requests to our responder and compares. `limit` bounds the bytes of memory learned,
    /// and those of our answers, each.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn run(&self, limit: usize) -> Result<Report, ReplayError> {
        let mut streams = Vec::new();
        for (tap, (recording, parts)) in self.recordings.iter().zip(&self.parts).enumerate() {
            let sees_all = self.taps.is_some();
            streams.extend(run::run(recording, parts, tap, sees_all, limit)?);
        }
        let skipped = self.recordings.first().map(|recording| recording.skipped().collect());
        Ok(Report {
            streams,
            skipped: skipped.unwrap_or_default(),
            drops: self.taps.as_ref().map(Taps::drops),
            wire: None,
        })
    }
}

fn part(recording: &Recording, stream: Stream, sees_all: bool) -> Part {
    let (plan, fates) = plan::plan_of(recording, &stream, sees_all);
    Part { stream, fates, plan }
}

/// The requests of all streams in the order of the capture: where each is in the recording, its
/// stream, and its place there.
fn in_order(parts: &[Part]) -> Vec<(usize, usize, usize)> {
    let all = parts.iter().enumerate().flat_map(|(stream, part)| {
        part.stream.requests.iter().enumerate().map(move |(at, index)| (*index, stream, at))
    });
    let mut all: Vec<_> = all.collect();
    all.sort_unstable();
    all
}

fn regions_of(recording: &Recording, parts: &[Part]) -> Regions {
    let order = in_order(parts);
    let requests = order.iter().map(|(index, stream, at)| {
        let part = &parts[*stream];
        let fate: &Fate = &part.fates.of[*at];
        (*index, part.plan.responder, fate)
    });
    region::regions(recording, requests)
}
