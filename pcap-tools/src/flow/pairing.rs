//! Which flow answers which: RC packets do not name their sender's QP, so it is learned.
//!
//! A response whose PSN is that of exactly one recent request between the same two hosts makes a
//! pair of the two flows. Nobody fails by a pair until it has been confirmed several times, and
//! never where several flows between the two hosts use the same PSNs (some libraries start every
//! connection at PSN 0): there a wrong pair would look right.

use roce_codec::ib::Psn;
use std::collections::HashMap;

use super::{FlowId, FlowTable, Paired};
use crate::observed::Host;

/// Matches after which a pair is believed enough to fail somebody.
const CONFIDENT: u32 = 8;
/// Responses in a row that match nothing, after which a pair is given up.
const MISFITS: u32 = 16;
/// Requests waiting for a response; beyond this all of them are forgotten.
const MAX_WAITING: usize = 1 << 16;

/// What a flow knows of the one in the other direction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Peer {
    flow: Option<FlowId>,
    /// Another flow between the same hosts sends the same PSNs.
    ambiguous: bool,
    confirmed: u32,
    misfits: u32,
}

impl Peer {
    /// The flow in the other direction, if known.
    #[inline]
    pub(crate) fn flow(&self) -> Option<FlowId> {
        self.flow
    }

    /// Whether a response that contradicts the other direction's requests may be called wrong.
    #[inline]
    pub(crate) fn is_confident(&self) -> bool {
        self.confirmed >= CONFIDENT && !self.ambiguous
    }

    /// Whether the requests of this flow's peer need no more watching for a better one.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.confirmed >= CONFIDENT
    }

    /// A response carried the PSN of one of the peer's requests.
    #[inline]
    pub(crate) fn confirm(&mut self) {
        self.confirmed = self.confirmed.saturating_add(1);
        self.misfits = 0;
    }

    /// A response fitted none; says whether the pair is to be given up.
    #[inline]
    pub(crate) fn misfit(&mut self) -> bool {
        self.misfits += 1;
        self.misfits > MISFITS
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct RequestKey {
    src: Host,
    dst: Host,
    psn: Psn,
}

/// The requests that a response of a flow without a pair may answer.
#[derive(Debug, Default)]
pub(crate) struct Pairing {
    /// The flow that sent it; `None` when several did.
    waiting: HashMap<RequestKey, Option<FlowId>>,
}

impl Pairing {
    /// A request that calls for an answer, in a flow whose pair is not settled.
    pub(crate) fn request<F: Paired>(&mut self, flows: &mut FlowTable<F>, id: FlowId, psn: Psn) {
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.clear();
        }
        let key = *flows.get_mut(id).key();
        let sender =
            self.waiting.entry(RequestKey { src: key.src, dst: key.dst, psn }).or_insert(Some(id));
        if *sender != Some(id) {
            let other = sender.take();
            for flow in [Some(id), other].into_iter().flatten() {
                mark_ambiguous(flows, flow);
            }
        }
    }

    /// A response in a flow without a pair.
    pub(crate) fn response<F: Paired>(&mut self, flows: &mut FlowTable<F>, id: FlowId, psn: Psn) {
        let key = *flows.get_mut(id).key();
        let request = RequestKey { src: key.dst, dst: key.src, psn };
        let Some(Some(found)) = self.waiting.get(&request).copied() else { return };
        let Some([flow, found_flow]) = flows.pair_mut(id, found) else { return };
        // The flow that sent the request may have been forgotten, and another be in its place.
        let hosts = (found_flow.key().src, found_flow.key().dst);
        if found_flow.peer().flow.is_none() && hosts == (request.src, request.dst) {
            let ambiguous = flow.peer().ambiguous || found_flow.peer().ambiguous;
            *flow.peer() = Peer { flow: Some(found), ambiguous, ..Peer::default() };
            *found_flow.peer() = Peer { flow: Some(id), ambiguous, ..Peer::default() };
        }
    }
}

fn mark_ambiguous<F: Paired>(flows: &mut FlowTable<F>, id: FlowId) {
    let peer = flows.get_mut(id).peer();
    peer.ambiguous = true;
    if let Some(other) = peer.flow {
        flows.get_mut(other).peer().ambiguous = true;
    }
}

/// Makes a pair of two flows that are known to be one, by their CM exchange.
pub(crate) fn join<F: Paired>(flows: &mut FlowTable<F>, one: FlowId, other: FlowId) {
    part(flows, one);
    part(flows, other);
    for (flow, peer) in [(one, other), (other, one)] {
        *flows.get_mut(flow).peer() =
            Peer { flow: Some(peer), confirmed: CONFIDENT, ..Peer::default() };
    }
}

/// Undoes a pair, from either side.
#[cold]
pub(crate) fn part<F: Paired>(flows: &mut FlowTable<F>, id: FlowId) {
    let peer = std::mem::take(flows.get_mut(id).peer());
    if let Some(other) = peer.flow {
        *flows.get_mut(other).peer() = Peer::default();
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use roce_codec::ib::Qpn;

    use super::*;
    use crate::flow::table::tests::Bare;
    use crate::observed::FlowKey;

    fn flow(table: &mut FlowTable<Bare>, forward: bool, qp: u32) -> FlowId {
        let [a, b] = [1, 2].map(|host| Host::Ip(IpAddr::from([10, 0, 0, host])));
        let (src, dst) = if forward { (a, b) } else { (b, a) };
        table.add(FlowKey { src, dst, dest_qp: Qpn::new(qp) }, None)
    }

    #[test]
    fn a_response_finds_its_request() {
        let mut flows = FlowTable::<Bare>::new();
        let mut pairing = Pairing::default();
        let (there, back) = (flow(&mut flows, true, 5), flow(&mut flows, false, 9));
        pairing.request(&mut flows, there, Psn::new(100));
        pairing.response(&mut flows, back, Psn::new(99));
        assert_eq!(flows.get_mut(back).peer().flow(), None);
        pairing.response(&mut flows, back, Psn::new(100));
        assert_eq!(flows.get_mut(back).peer().flow(), Some(there));
        assert_eq!(flows.get_mut(there).peer().flow(), Some(back));
        assert!(!flows.get_mut(back).peer().is_confident());
        for _ in 0..CONFIDENT {
            flows.get_mut(back).peer().confirm();
        }
        assert!(flows.get_mut(back).peer().is_confident());
        assert!(
            !flows.get_mut(there).peer().is_confident(),
            "answers one way say nothing of the other"
        );
        part(&mut flows, there);
        assert_eq!(flows.get_mut(back).peer().flow(), None);
    }

    #[test]
    fn the_same_psns_in_two_flows_make_nobody_sure() {
        let mut flows = FlowTable::<Bare>::new();
        let mut pairing = Pairing::default();
        let (one, two) = (flow(&mut flows, true, 5), flow(&mut flows, true, 6));
        let back = flow(&mut flows, false, 9);
        // The tap missed the request of `two`, so its answer finds that of `one`.
        pairing.request(&mut flows, one, Psn::new(0));
        pairing.response(&mut flows, back, Psn::new(0));
        assert_eq!(flows.get_mut(back).peer().flow(), Some(one));
        for psn in (1..20).map(Psn::new) {
            pairing.request(&mut flows, one, psn);
            pairing.request(&mut flows, two, psn);
            flows.get_mut(back).peer().confirm();
        }
        assert!(flows.get_mut(back).peer().is_settled());
        assert!(!flows.get_mut(back).peer().is_confident());
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut flows = FlowTable::<Bare>::new();
        let mut pairing = Pairing::default();
        let there = flow(&mut flows, true, 5);
        for psn in 0..200_000 {
            pairing.request(&mut flows, there, Psn::new(psn));
            assert!(pairing.waiting.len() <= MAX_WAITING);
        }
    }
}
