//! What the consumer is told.

use roce_codec::cm::{
    CommunicationId, Drep, Dreq, MAD_DATA_LEN, Rej, RejReason, Rep, Req, Rtu, SidrRep, SidrReq,
};

use super::Cm;
use super::attributes::QpAttributes;
use super::slot::CmSlot;
use super::state::Tell;
use super::table::Queue;
use crate::qp::Path;

/// Something that happened to a connection. Private data is as it was in the message, the whole
/// field with the zeroes behind what the peer gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CmEvent<'a> {
    /// A peer asks for a connection: [`Cm::accept`], [`Cm::reject`], or [`Cm::delay`] first.
    ConnectRequest {
        /// What the connection is called here.
        id: CommunicationId,
        /// The way back to who asks.
        path: Path,
        /// What it asks. [`Req::ip_cm`] takes the header of the RDMA IP CM Service off the
        /// private data.
        req: Req<'a>,
    },
    /// The peer accepts: the queue pair goes to RTR and RTS, then [`Cm::ready`]; or [`Cm::reject`],
    /// or [`Cm::delay`] first.
    ConnectResponse {
        /// The connection.
        id: CommunicationId,
        /// What takes the queue pair there.
        qp: QpAttributes,
        /// What the peer said.
        rep: Rep<'a>,
    },
    /// The peer is ready: the connection that we accepted is established.
    Established {
        /// The connection.
        id: CommunicationId,
        /// From the peer's consumer.
        private_data: &'a [u8],
    },
    /// The peer refuses, or has given up. If a REP had been taken or had gone,
    /// [`CmEvent::TimewaitExit`] follows; otherwise the ID ends here.
    Rejected {
        /// The connection.
        id: CommunicationId,
        /// Why. [`RejReason::STALE_CONNECTION`] also where it is we who refused a REP, from a
        /// queue pair that another connection has.
        reason: RejReason,
        /// Additional information; what it is depends on the reason.
        ari: &'a [u8],
        /// From the peer's consumer.
        private_data: &'a [u8],
    },
    /// Nobody answers. If a REP had gone out, [`CmEvent::TimewaitExit`] follows; otherwise the ID
    /// ends here.
    Unreachable {
        /// The connection or resolution.
        id: CommunicationId,
    },
    /// The peer has forgotten the connection; it is being disconnected.
    Stale {
        /// The connection.
        id: CommunicationId,
    },
    /// The peer wants to disconnect: [`Cm::disconnect`].
    DisconnectRequest {
        /// The connection.
        id: CommunicationId,
        /// From the peer's consumer.
        private_data: &'a [u8],
    },
    /// It is disconnected. The queue pair may be destroyed, its number not be used again before
    /// [`CmEvent::TimewaitExit`].
    Disconnected {
        /// The connection.
        id: CommunicationId,
        /// From the peer's consumer; empty if the peer did not answer or asked at the same time.
        private_data: &'a [u8],
    },
    /// No packet of the connection is under way any more; its ID ends here.
    TimewaitExit {
        /// The connection.
        id: CommunicationId,
    },
    /// A peer looks for a datagram service: [`Cm::sidr_reply`].
    SidrRequest {
        /// What the request is called here.
        id: CommunicationId,
        /// The way back to who asks.
        path: Path,
        /// What it asks.
        req: SidrReq<'a>,
    },
    /// What became of [`Cm::sidr_request`]; the ID ends here.
    SidrResponse {
        /// The request.
        id: CommunicationId,
        /// What the peer said.
        rep: SidrRep<'a>,
    },
}

impl Cm<'_> {
    /// The oldest event. Of one connection they come in order.
    pub fn poll_event(&mut self) -> Option<CmEvent<'_>> {
        let index = self.table.pop(Queue::Telling)?;
        let slot = self.table.get_mut(index)?;
        let kind = slot.events.pop();
        if !slot.events.is_empty() {
            self.table.push(Queue::Telling, index);
        }
        // The slot keeps what it holds until it is taken again.
        self.release_if_done(index);
        event(kind, self.table.get(index)?)
    }
}

fn event(kind: Tell, slot: &CmSlot) -> Option<CmEvent<'_>> {
    let (id, path) = (slot.id, slot.path);
    let data: &[u8; MAD_DATA_LEN] = &slot.received;
    // What is kept has been parsed once, so it parses again.
    Some(match kind {
        Tell::Nothing => return None,
        Tell::ConnectRequest => CmEvent::ConnectRequest { id, path, req: Req::parse(data).ok()? },
        Tell::ConnectResponse => {
            CmEvent::ConnectResponse { id, qp: slot.qp, rep: Rep::parse(data).ok()? }
        }
        Tell::Established => {
            CmEvent::Established { id, private_data: Rtu::parse(data).ok()?.private_data }
        }
        Tell::Rejected => {
            let rej = Rej::parse(data).ok()?;
            CmEvent::Rejected {
                id,
                reason: rej.reason,
                ari: rej.ari_bytes(),
                private_data: rej.private_data,
            }
        }
        Tell::RefusedStale => CmEvent::Rejected {
            id,
            reason: RejReason::STALE_CONNECTION,
            ari: &[],
            private_data: &[],
        },
        Tell::Unreachable => CmEvent::Unreachable { id },
        Tell::Stale => CmEvent::Stale { id },
        Tell::DisconnectRequest => {
            CmEvent::DisconnectRequest { id, private_data: Dreq::parse(data).ok()?.private_data }
        }
        Tell::Disconnected => {
            CmEvent::Disconnected { id, private_data: Drep::parse(data).ok()?.private_data }
        }
        Tell::DisconnectedAlone => CmEvent::Disconnected { id, private_data: &[] },
        Tell::TimewaitExit => CmEvent::TimewaitExit { id },
        Tell::SidrRequest => CmEvent::SidrRequest { id, path, req: SidrReq::parse(data).ok()? },
        Tell::SidrResponse => CmEvent::SidrResponse { id, rep: SidrRep::parse(data).ok()? },
    })
}
