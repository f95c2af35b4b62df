//! The unreliable datagram's responder (IBTA 9.8.3.2): a packet is a message, and nothing is ever
//! answered.

use super::Request;
use crate::backing::Backing;
use crate::counters::{DropReason, HwCounter};
use crate::cq::{WcOpcode, WcStatus};
use crate::engine::Engine;
use crate::grh::GrhArea;
use crate::rules::length;

/// Bytes of the area in front of the payload.
const GRH_LEN: u32 = 40;

impl Engine<'_> {
    /// Takes a datagram. Whoever knows the Q_Key may send; which PSN it has means nothing
    /// (IBTA 9.8.3).
    pub(super) fn handle_datagram<B: Backing>(
        &mut self,
        slot: u32,
        request: &Request<'_, '_>,
        backing: &B,
    ) -> Result<(), DropReason> {
        let Some(qp) = self.qps.get(slot) else { return Err(DropReason::UnknownQp) };
        let Some(deth) = request.frame.deth() else { return Err(DropReason::Malformed) };
        // IBTA 9.6.1.4 (C9-50): the Q_Key is the queue pair's.
        if deth.qkey != qp.qkey {
            return Err(DropReason::QKey);
        }
        // IBTA 9.8.3.2.2: no longer than the port's MTU.
        if length::packet(request.info.position, request.len, Some(qp.path_mtu)).fault().is_some() {
            return Err(DropReason::Refused);
        }
        let Some(index) = self.next_receive(slot) else {
            return Err(DropReason::ReceiverNotReady);
        };
        let Some(wqe) = self.recvs.get(index).copied() else {
            return Err(DropReason::ReceiverNotReady);
        };
        // IBTA 9.9.3.1.4, class D: too long for the receive, which waits for the next one.
        let total = GRH_LEN.saturating_add(request.len);
        if total > wqe.local.len {
            return Err(DropReason::Refused);
        }
        let area = GrhArea::of(request.frame);
        let placed = self.scatter(wqe.pd, &wqe.local, 0, GRH_LEN, [&area.0, &[]], backing)
            && self.scatter(
                wqe.pd,
                &wqe.local,
                GRH_LEN,
                request.len,
                request.frame.payload(),
                backing,
            );
        self.take_receive(slot);
        self.free_recv(index);
        if !placed {
            // IBTA 9.9.3.1.1, class A: our own fault.
            self.complete(slot, wqe.wr_id, WcStatus::LocalProtection, WcOpcode::Recv);
            self.enter_error(slot);
            return Ok(());
        }
        self.counters.count(HwCounter::RxSendRequests);
        self.complete_message(slot, request, wqe.wr_id, WcOpcode::Recv, total);
        Ok(())
    }
}
