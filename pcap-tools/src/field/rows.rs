//! Rows of the packets of a capture, in order.

use crate::capture::Packet;
use crate::check::{Checker, Profile};
use crate::dissect::dissect;
use crate::observed::Observed;
use crate::upper::Tracker;

use super::{Needs, Row};

/// Makes rows of the packets of a capture, in order, and keeps what later packets are understood
/// by: the first time, the connections, and the checker if verdicts are asked for.
#[derive(Debug, Default)]
pub struct Rows {
    first_ns: Option<u64>,
    tracker: Option<Tracker>,
    checker: Option<Checker>,
}

impl Rows {
    /// With what the fields to be read need, and no more: following connections costs a little,
    /// checking more.
    #[must_use]
    pub fn new(needs: Needs) -> Self {
        Self::with_profile(needs, Profile::default())
    }

    /// With verdicts by what is known of the devices.
    #[must_use]
    pub fn with_profile(needs: Needs, profile: Profile) -> Self {
        Self {
            first_ns: None,
            tracker: needs.upper.then(Tracker::new),
            checker: needs.verdicts.then(|| Checker::with_profile(profile)),
        }
    }

    /// The row of the next packet.
    #[inline]
    pub fn row<'p>(&'p mut self, packet: &Packet<'p>) -> Row<'p> {
        if self.first_ns.is_none() {
            self.first_ns = packet.timestamp_ns;
        }
        let since = packet.timestamp_ns.zip(self.first_ns);
        let since_ns = since.map(|(now, first)| now.saturating_sub(first));
        let mut row = match &mut self.checker {
            Some(checker) => {
                let observed = Observed::new(packet);
                Row::of(&observed).judged(checker.observed(&observed))
            }
            None => Row::new(packet, dissect(packet)),
        }
        .since(since_ns);
        if let Some(tracker) = &mut self.tracker {
            let upper = tracker.packet(&row);
            row = row.carrying(upper);
        }
        row
    }
}
