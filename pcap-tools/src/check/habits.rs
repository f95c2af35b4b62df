//! What a sender does the same way with every packet of a flow.

use roce_codec::ib::PKey;

use super::Checker;
use super::congestion::Marks;
use super::flow::{Flow, FlowId};
use super::judge::At;
use super::kept::Kept;
use super::packet::Seen;
use super::{keys, source_port};

/// The habits of a flow's sender, as far as they have been seen.
#[derive(Debug, Default)]
pub(super) struct Habits {
    source_port: Kept<u16>,
    pkey: Kept<PKey>,
    marks: Marks,
}

/// How sure it is that a packet belongs to the same connection as those before it in its flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tie {
    /// It does.
    Sure,
    /// It may; or the queue pair has a new owner.
    Likely,
}

impl Checker {
    /// Judges a packet of a connection or a datagram by those before it.
    #[inline]
    pub(super) fn check_habits(&mut self, seen: &Seen<'_, '_>, id: FlowId, tie: Tie, at: At) {
        let back = self.flows.get_mut(id).peer.flow();
        let back = back.and_then(|peer| self.flows.get_mut(peer).habits.pkey.value());
        let Flow { habits, told, .. } = self.flows.get_mut(id);
        let judge = &mut self.judge;
        keys::check_pkey(&mut habits.pkey, back, seen, tie, at, told, judge);
        source_port::check(&mut habits.source_port, seen, tie, at, told, judge);
        habits.marks.check(seen, at, told, judge);
    }
}
