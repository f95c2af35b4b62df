//! Captures made of captures: addresses masked, payload left out, copies dropped, ICRCs made anew.
//!
//! Whatever is changed, a packet's ICRC is as right or wrong as it was: a right one is made anew, a
//! wrong one keeps its difference to the right one. So are the checksums of IP and UDP.
//!
//! Where addresses are masked or payload is left out, packets of other protocols are left out,
//! too: nobody knows what they tell.

mod checksum;
mod dedupe;
mod edit;
mod key;
mod mad;
mod mask;

use std::ops::Bound;

pub use dedupe::Dedupe;
pub use key::Key;
pub use mask::Mask;

use edit::Edit;

use crate::capture::{Packet, SNAPLEN};
use crate::dissect::{Dissected, dissect};

/// What becomes of payload. Management datagrams keep theirs, their private data excepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Payload {
    /// It stays.
    #[default]
    Kept,
    /// Its bytes become zero; the ICRC follows.
    Zeroed,
    /// It is cut off as a snap length would have done, lengths unchanged: the ICRC cannot be
    /// checked any more.
    Stripped,
}

/// A moment of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// A packet, by its number from 1.
    Packet(u64),
    /// Nanoseconds since the first packet.
    Since(u64),
    /// Nanoseconds since 1970.
    Epoch(u64),
}

/// What is to be done.
#[derive(Debug)]
pub struct Config {
    /// Masks addresses: MAC, IP, and those in the connection manager's messages.
    pub mask: Option<Mask>,
    /// What becomes of payload.
    pub payload: Payload,
    /// Whether what users of the connection manager tell each other stays where addresses are
    /// masked or payload is left out.
    pub keep_private_data: bool,
    /// Whether wrong ICRCs, and those not filled in, become right.
    pub fix_icrc: bool,
    /// The most bytes of a packet that are kept.
    pub cut: u32,
    /// Drops copies.
    pub dedupe: Option<Dedupe>,
    /// The first packet that is kept, and the last.
    pub range: (Bound<Moment>, Bound<Moment>),
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mask: None,
            payload: Payload::Kept,
            keep_private_data: false,
            fix_icrc: false,
            cut: SNAPLEN,
            dedupe: None,
            range: (Bound::Unbounded, Bound::Unbounded),
        }
    }
}

/// How many packets met which fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packets seen.
    pub packets: u64,
    /// Those kept.
    pub kept: u64,
    /// Copies of others.
    pub copies: u64,
    /// Those of other protocols, or unreadable, which might have told what is to be left out.
    pub others: u64,
}

/// Changes packets one after another.
#[derive(Debug)]
pub struct Rewriter {
    config: Config,
    first_ns: Option<u64>,
    counts: Counts,
    bytes: Vec<u8>,
}

impl Rewriter {
    /// As configured.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { config, first_ns: None, counts: Counts::default(), bytes: Vec::new() }
    }

    /// How many packets met which fate so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What becomes of a packet: its bytes, and those there were on the wire; `None` if it is left
    /// out. Its number counts for [`Moment::Packet`].
    pub fn packet<'s>(&'s mut self, packet: &Packet<'s>) -> Option<(&'s [u8], u32)> {
        self.counts.packets += 1;
        self.first_ns = self.first_ns.or(packet.timestamp_ns);
        if !self.is_within(packet) {
            return None;
        }
        let config = &mut self.config;
        if let Some(dedupe) = &mut config.dedupe
            && let Dissected::Roce(frame) = dissect(packet)
            && dedupe.is_copy(packet.timestamp_ns.unwrap_or_default(), &frame)
        {
            self.counts.copies += 1;
            return None;
        }
        let hides = config.mask.is_some() || config.payload != Payload::Kept;
        let mut data = packet.data;
        if hides || config.fix_icrc {
            let mut edit = Edit {
                mask: config.mask.as_mut(),
                payload: config.payload,
                keep_private_data: config.keep_private_data || !hides,
                fix_icrc: config.fix_icrc,
            };
            match edit::apply(packet, &mut edit, &mut self.bytes) {
                Some(()) => data = &self.bytes,
                None if hides => {
                    self.counts.others += 1;
                    return None;
                }
                None => {}
            }
        }
        self.counts.kept += 1;
        let cut = usize::try_from(config.cut).unwrap_or(usize::MAX);
        Some((data.get(..cut).unwrap_or(data), packet.orig_len))
    }

    fn is_within(&self, packet: &Packet<'_>) -> bool {
        let place = |moment: &Moment| match moment {
            Moment::Packet(number) => packet.number.cmp(number),
            Moment::Since(ns) => {
                let since = packet.timestamp_ns.unwrap_or_default();
                since.saturating_sub(self.first_ns.unwrap_or_default()).cmp(ns)
            }
            Moment::Epoch(ns) => packet.timestamp_ns.unwrap_or_default().cmp(ns),
        };
        let (from, to) = &self.config.range;
        let after = match from {
            Bound::Included(moment) => place(moment).is_ge(),
            Bound::Excluded(moment) => place(moment).is_gt(),
            Bound::Unbounded => true,
        };
        let before = match to {
            Bound::Included(moment) => place(moment).is_le(),
            Bound::Excluded(moment) => place(moment).is_lt(),
            Bound::Unbounded => true,
        };
        after && before
    }
}
