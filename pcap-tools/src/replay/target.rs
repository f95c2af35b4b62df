//! The responder at the other end of a wire: its numbers in place of the captured ones.

use std::collections::BTreeMap;
use std::net::IpAddr;

use roce_codec::Frame;
use roce_codec::ib::{Psn, Qpn, RKey};

use super::mapping::Changes;
use super::plan::StreamPlan;

/// What is put in place of what was captured. What is not named stays as it is.
#[derive(Debug, Clone, Default)]
pub struct Target {
    /// Addresses: the requester's becomes the port's own, the responder's the target's.
    pub addresses: BTreeMap<IpAddr, IpAddr>,
    /// Queue pairs that requests go to.
    pub qpns: BTreeMap<u32, u32>,
    /// Queue pairs that answers come to: what the target's queue pair has for its peer.
    pub peer_qpns: BTreeMap<u32, u32>,
    /// The PSN that the target expects first, by the captured queue pair.
    pub first_psns: BTreeMap<u32, u32>,
    /// R_Keys.
    pub rkeys: BTreeMap<u32, u32>,
    /// Virtual addresses: everything from the one on moves to the other, up to the next that is named.
    pub vas: BTreeMap<u64, u64>,
}

impl Target {
    pub(super) fn address(&self, captured: IpAddr) -> IpAddr {
        self.addresses.get(&captured).copied().unwrap_or(captured)
    }

    fn rkey(&self, captured: RKey) -> RKey {
        RKey(self.rkeys.get(&captured.0).copied().unwrap_or(captured.0))
    }

    fn va(&self, captured: u64) -> u64 {
        let moved = self.vas.range(..=captured).next_back();
        moved.map_or(captured, |(from, to)| captured.wrapping_sub(*from).wrapping_add(*to))
    }

    /// How far the target's PSNs are ahead of the captured ones.
    fn psn_ahead(&self, plan: &StreamPlan) -> u32 {
        let first = self.first_psns.get(&plan.qpn.get());
        first.map_or(0, |first| first.wrapping_sub(plan.first_psn.get()))
    }

    /// The queue pair that the answers come to.
    pub(super) fn peer(&self, plan: &StreamPlan) -> Option<Qpn> {
        let captured = plan.peer?.get();
        Some(Qpn::new(self.peer_qpns.get(&captured).copied().unwrap_or(captured)))
    }

    /// What a request is changed by on its way to the target.
    pub(super) fn request(&self, plan: &StreamPlan, frame: &Frame<'_>) -> Changes {
        let captured = plan.qpn.get();
        let reth = frame.reth().map(|reth| (reth.rkey, reth.va));
        let reach = reth.or_else(|| frame.atomic_eth().map(|eth| (eth.rkey, eth.va)));
        Changes {
            src: Some(self.address(plan.requester)),
            dst: Some(self.address(plan.responder)),
            dest_qp: Some(Qpn::new(self.qpns.get(&captured).copied().unwrap_or(captured))),
            psn: Some(frame.psn().add(self.psn_ahead(plan))),
            rkey: reach.map(|(rkey, _)| self.rkey(rkey)),
            va: reach.map(|(_, va)| self.va(va)),
            invalidate: frame.ieth().map(|ieth| self.rkey(ieth.0)),
            ..Changes::default()
        }
    }

    /// What an answer of the target's is changed by to stand beside the captured ones.
    pub(super) fn answer(&self, plan: &StreamPlan, frame: &Frame<'_>) -> Changes {
        Changes {
            src: Some(plan.responder),
            dst: Some(plan.requester),
            dest_qp: plan.peer,
            psn: Some(self.captured_psn(plan, frame.psn())),
            ..Changes::default()
        }
    }

    /// The captured PSN for one of the target's.
    pub(super) fn captured_psn(&self, plan: &StreamPlan, psn: Psn) -> Psn {
        psn.sub(self.psn_ahead(plan) & 0xff_ffff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_addresses_move_with_the_one_before() {
        let target = Target { vas: [(0x1000, 0x9000), (0x5000, 0x10)].into(), ..Target::default() };
        for (captured, there) in
            [(0xfff, 0xfff), (0x1000, 0x9000), (0x4fff, 0xcfff), (0x5000, 0x10), (0x5008, 0x18)]
        {
            assert_eq!(target.va(captured), there, "{captured:#x}");
        }
    }
}
