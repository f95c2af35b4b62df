//! Messages: what a requester asked for, from its first packet to its completion.
//!
//! [`Tracker`] takes observed packets one by one, puts requests together to messages, and finds the
//! answers that complete them. An ACK completes every SEND and WRITE up to its PSN; a READ is
//! completed by its last response, an atomic by its own acknowledge. Requesters that go back are
//! followed as [`Recovery`]s: how a loss was noticed, what was sent again, when it was made good.
//!
//! Everything is as the tap saw it. A time to completion is measured at the tap: near the requester
//! it holds the whole way there and back, near the responder little of it. What the tap missed stays
//! unknown: a flow whose answers were not captured has messages that end in
//! [`Ending::AnswersUnseen`], and no times.
//!
//! RC packets do not name their sender's queue pair. Which flow answers which is known from the CM
//! exchange if that was captured, else learned from PSNs that match.
//!
//! Memory is bounded: flows (8192), messages that wait in a flow (1024) and in all (65,536). Beyond
//! that what is oldest is given up, as at the end of the capture.
//!
//! ```no_run
//! use roce_pcap::capture::Reader;
//! use roce_pcap::message::Tracker;
//! use roce_pcap::observed::Observed;
//!
//! let mut tracker = Tracker::new();
//! let mut reader = Reader::open("trace.pcapng")?;
//! while let Some(packet) = reader.next_packet() {
//!     let tracked = tracker.packet(&Observed::new(&packet?));
//!     for message in tracked.messages {
//!         println!("{:?} {:?} ns", message.operation, message.latency_ns());
//!     }
//! }
//! for message in tracker.finish().messages {
//!     println!("{:?} {}", message.operation, message.ending);
//! }
//! # Ok::<(), roce_pcap::capture::CaptureError>(())
//! ```

mod outstanding;
mod packet;
mod recovery;
mod requests;
mod tracker;
mod window;

use std::fmt;

use roce_codec::ib::{NakCode, Operation, Psn, Service};

use crate::observed::FlowKey;

pub use recovery::{Cause, Recovery};
pub use tracker::Tracker;

/// How a message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// It was executed, and the answer seen.
    Acknowledged,
    /// It was refused.
    Refused(NakCode),
    /// No receive was posted for it, and it was not seen to be executed later.
    ReceiverNotReady,
    /// Others of its flow were answered, this one not before the connection or the capture ended.
    Open,
    /// No answer to its flow was seen at all: the other direction is missing, or its flow not known.
    AnswersUnseen,
    /// Nothing answers it: UC and UD.
    Unreliable,
}

impl Ending {
    /// A word: `acknowledged`, `refused`, `rnr`, `open`, `answers_unseen` or `unreliable`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Acknowledged => "acknowledged",
            Self::Refused(_) => "refused",
            Self::ReceiverNotReady => "rnr",
            Self::Open => "open",
            Self::AnswersUnseen => "answers_unseen",
            Self::Unreliable => "unreliable",
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(code) => write!(f, "refused: {code}"),
            other => f.write_str(other.name()),
        }
    }
}

/// A message that is finished, or of which no more will be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// The flow of its requests.
    pub flow: FlowKey,
    /// Its transport service.
    pub service: Service,
    /// What it asked for.
    pub operation: Operation,
    /// PSN of its first packet, or of the first that was seen.
    pub first_psn: Psn,
    /// Its last PSN, of its last response for a READ; the furthest known.
    pub last_psn: Psn,
    /// Bytes of user data: the RETH's length for a WRITE or READ, 8 for an atomic, else the payload
    /// that was seen (each packet once).
    pub bytes: u64,
    /// Request packets, each counted once.
    pub packets: u32,
    /// Whether all its request packets were seen.
    pub whole: bool,
    /// The packet that was seen first, numbered from 1 as in the file.
    pub first_packet: u64,
    /// The request packet that was seen last; it may have come again.
    pub last_packet: u64,
    /// Time of the first, nanoseconds since 1970.
    pub started_ns: Option<u64>,
    /// When its last packet was first seen.
    pub sent_ns: Option<u64>,
    /// The packet that completed or refused it.
    pub answer_packet: Option<u64>,
    /// Time of that.
    pub answered_ns: Option<u64>,
    /// Request packets that came again before it was completed.
    pub retransmitted: u32,
    /// RNR NAKs for it.
    pub rnr_naks: u32,
    /// How it ended.
    pub ending: Ending,
}

impl Message {
    /// Nanoseconds from its first packet to the answer that completed it, both at the tap; `None`
    /// unless it was acknowledged, its first packet was seen, and the file has times.
    #[must_use]
    pub fn latency_ns(&self) -> Option<u64> {
        if self.ending != Ending::Acknowledged || !self.whole {
            return None;
        }
        Some(self.answered_ns?.saturating_sub(self.started_ns?))
    }
}

/// How a request packet relates to those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// It goes on from there.
    New,
    /// Its PSN had not been seen, but later ones had: it was overtaken, or lost before the tap.
    Late,
    /// Its PSN was seen before.
    Again,
    /// It is the packet before it, seen twice by the tap.
    Copy,
}

/// What a packet is among messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// A request of a connection.
    Request(Arrival),
    /// An answer.
    Answer,
    /// A datagram (UD): a message by itself.
    Datagram,
    /// A congestion notification.
    Notification,
    /// A packet with a wrong ICRC that no known mistake explains: nothing it says counts.
    Damaged,
    /// Nothing that is followed.
    Other,
}

/// What is finished, lent until the next call.
#[derive(Debug, Default)]
struct Finished {
    messages: Vec<Message>,
    recoveries: Vec<Recovery>,
}

/// What a packet was, and what it finished.
#[derive(Debug, Clone, Copy)]
pub struct Tracked<'t> {
    /// What it is.
    pub part: Part,
    /// The flow in the other direction of its connection, as far as it is known by now.
    pub peer: Option<FlowKey>,
    /// The messages that it finished.
    pub messages: &'t [Message],
    /// The recoveries that it finished.
    pub recoveries: &'t [Recovery],
}
