//! What a sender does the same way with every packet of a flow.

use roce_codec::ib::{PKey, QKey};

use super::Checker;
use super::congestion::{Marks, Sent};
use super::flow::{Flow, FlowId};
use super::judge::At;
use super::kept::Kept;
use super::keys::{self, Partition};
use super::packet::Seen;
use super::source_port;

/// The habits of a flow's sender, as far as they have been seen.
#[derive(Debug, Default)]
pub(super) struct Habits {
    source_port: Kept<u16>,
    pkey: Kept<PKey>,
    qkey: Kept<QKey>,
    marks: Marks,
    pub(super) sent: Sent,
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
        let back = match self.flows.get_mut(id).peer.flow() {
            Some(peer) => {
                let peer = self.flows.get_mut(peer);
                (peer.habits.pkey.value(), peer.agreed.as_ref().and_then(|agreed| agreed.pkey()))
            }
            None => (None, None),
        };
        let Flow { habits, told, agreed, .. } = self.flows.get_mut(id);
        let judge = &mut self.judge;
        let agreed = agreed.as_ref().and_then(|agreed| agreed.pkey()).or(back.1);
        let partition = Partition { agreed, back: back.0 };
        keys::check_pkey(&mut habits.pkey, partition, seen, tie, at, told, judge);
        source_port::check(&mut habits.source_port, seen, tie, at, told, judge);
        habits.marks.check(seen, at, told, judge);
        habits.sent.count(seen, at);
        self.check_mark(seen, id, at);
    }

    /// Judges a datagram's Q_Key.
    pub(super) fn check_qkey(&mut self, seen: &Seen<'_, '_>, id: FlowId, at: At) {
        let Flow { key, habits, told, .. } = self.flows.get_mut(id);
        let stated = self.connections.datagram(key.dst, key.dest_qp).map(|service| service.qkey);
        keys::check_qkey(&mut habits.qkey, stated, seen, at, told, &mut self.judge);
    }
}
