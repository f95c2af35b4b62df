//! What a connection manager counts.

/// Why a message had no effect and no answer. Each is either acted on or counted under exactly
/// one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CmDropReason {
    /// Not a message of the connection manager's, or of a version nobody can answer.
    Malformed,
    /// A message we know but do not serve: alternate paths.
    Unsupported,
    /// Its IDs name no connection of ours.
    UnknownConnection,
    /// It is for a connection, but not between its two addresses.
    Address,
    /// The connection's state does not take it.
    State,
    /// It names a queue pair that is not the connection's, or can be nobody's.
    Mismatch,
    /// The consumer has not polled the connection's last event. The peer sends it again.
    EventPending,
    /// It wants an answer, and no slot for one is free. The peer sends it again.
    NoAnswerSlot,
}

/// Counts since the start. `received` = `acted_on` + the drops; the others overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CmCounters {
    /// MADs handled.
    pub received: u64,
    /// MADs that had an effect or an answer.
    pub acted_on: u64,
    /// MADs to send that were polled.
    pub sent: u64,
    /// Messages sent again for want of an answer.
    pub retransmitted: u64,
    /// Messages that had come before.
    pub duplicates: u64,
    /// Messages refused with a REJ or a SIDR_REP.
    pub rejects: u64,
    /// Of these, REQs and SIDR_REQs for want of slots.
    pub no_resources: u64,
    /// Connections the peer turned out to have forgotten.
    pub stale: u64,
    /// Times a peer did not answer, however often it was asked.
    pub unreachable: u64,
    dropped: [u64; 8],
}

impl CmCounters {
    /// Messages dropped for a reason.
    #[must_use]
    pub fn dropped(&self, reason: CmDropReason) -> u64 {
        self.dropped.get(Self::index(reason)).copied().unwrap_or(0)
    }

    /// Messages dropped for whatever reason.
    #[must_use]
    pub fn total_dropped(&self) -> u64 {
        self.dropped.iter().sum()
    }

    pub(super) fn count_drop(&mut self, reason: CmDropReason) {
        if let Some(count) = self.dropped.get_mut(Self::index(reason)) {
            *count += 1;
        }
    }

    const fn index(reason: CmDropReason) -> usize {
        match reason {
            CmDropReason::Malformed => 0,
            CmDropReason::Unsupported => 1,
            CmDropReason::UnknownConnection => 2,
            CmDropReason::Address => 3,
            CmDropReason::State => 4,
            CmDropReason::Mismatch => 5,
            CmDropReason::EventPending => 6,
            CmDropReason::NoAnswerSlot => 7,
        }
    }
}
