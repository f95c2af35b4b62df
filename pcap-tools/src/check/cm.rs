//! The connection manager's messages: their form, and their order.

use std::collections::VecDeque;

use roce_codec::cm::{
    AttributeId, CmError, IpCmHeader, Mad, Message, MraedMessage, Rej, RejectedMessage, SidrRep,
};
use roce_codec::cm::{Failover, Rep, Req};
use roce_codec::ib::Qpn;

use super::Checker;
use super::flow::FlowId;
use super::judge::{At, Judge};
use super::keys;
use super::packet::Seen;
use super::rule::Rule;
use crate::connection::{ConnectionId, Refusal, Role, State, Step};

/// Rejections remembered with their times.
const REJECTIONS: usize = 256;

/// When connections were rejected.
#[derive(Debug, Default)]
pub(super) struct Rejections(VecDeque<(ConnectionId, Option<u64>)>);

impl Rejections {
    fn add(&mut self, id: ConnectionId, time_ns: Option<u64>) {
        if self.0.len() >= REJECTIONS {
            self.0.pop_front();
        }
        self.0.push_back((id, time_ns));
    }

    fn time_ns(&self, id: ConnectionId) -> Option<u64> {
        self.0.iter().rev().find(|(rejected, _)| *rejected == id)?.1
    }
}

impl Checker {
    /// Judges a packet to QP1 and takes in what it sets up.
    #[cold]
    pub(super) fn management(&mut self, seen: &Seen<'_, '_>, id: FlowId, at: At) {
        keys::check_partition(seen, at, &mut self.judge);
        let Some(mad) = Mad::from_frame(seen.transport).filter(Mad::is_cm) else { return };
        let message = match Message::parse(&mad) {
            Ok(message) => message,
            Err(error) => return check_unreadable(&mad, error, at, &mut self.judge),
        };
        let fault = fault(&message);
        self.judge.check(Rule::CmMad, at, fault.is_none(), || {
            let message = format!("a malformed {}", message.attribute());
            ("defined values".into(), fault.unwrap_or_default(), message)
        });
        let key = self.flows.get_mut(id).key;
        let step = self.connections.message(key.src, key.dst, mad.header.transaction_id, &message);
        self.check_step(&message, step, id, at);
        if let Step::Advanced(connection) = step {
            match message {
                Message::Rep(_) => self.agree(connection, at),
                Message::Rej(_) => self.rejections.add(connection, at.time_ns),
                _ => {}
            }
        }
    }

    fn check_step(&mut self, message: &Message<'_>, step: Step, id: FlowId, at: At) {
        let rule = Rule::CmOrder;
        let name = message.attribute();
        let told = &mut self.flows.get_mut(id).told;
        let judge = &mut self.judge;
        let (connection, refusal) = match step {
            Step::Advanced(_) | Step::Repeated(_) | Step::Aside(_) => return judge.pass(rule),
            Step::Datagram => return,
            Step::Unknown => {
                return judge.unknown_once(rule, at, told, || {
                    let message = "the capture does not have what it follows from";
                    ("a connection whose REQ was seen".into(), name.to_string(), message.into())
                });
            }
            Step::Refused(connection, refusal) => (connection, refusal),
        };
        match refusal {
            Refusal::WrongSide => {
                let message = "the side that sends it is the other one".into();
                judge.fail(rule, at, ("from the other side".into(), name.to_string(), message));
            }
            Refusal::Changed => {
                let message = "a message that is sent again is the same".into();
                let found = format!("{name} with other contents");
                judge.fail(rule, at, ("the same as before".into(), found, message));
            }
            Refusal::OutOfOrder(state) => {
                let words = || {
                    let message = "not what follows; what is between may have been missed";
                    (format!("what follows {state:?}"), name.to_string(), message.into())
                };
                // Both are the same host's, and in this order by its own clock.
                let rejected_ns = self.rejections.time_ns(connection);
                let by = self.connections.get(connection).and_then(|c| c.rejected_by);
                let contradicts = matches!(message, Message::Rep(_))
                    && state == State::Rejected
                    && by == Some(Role::Passive)
                    && rejected_ns.zip(at.time_ns).is_some_and(|(before, now)| before <= now);
                if contradicts {
                    judge.fail(rule, at, words());
                } else {
                    judge.unknown_once(rule, at, told, words);
                }
            }
        }
    }
}

/// A MAD of the connection manager's class that is none of its messages.
fn check_unreadable(mad: &Mad<'_>, error: CmError, at: At, judge: &mut Judge) {
    // The version of the MAD itself is MAD-QP1's. ClassPortInfo is got and set.
    let other = matches!(error, CmError::BaseVersion(_) | CmError::Truncated { .. })
        || mad.header.attribute == AttributeId::CLASS_PORT_INFO;
    if !other {
        let expected = "class version 2, method Send, an attribute of the connection manager";
        let message = "the connection manager does not know it".into();
        judge.fail(Rule::CmMad, at, (expected.into(), error.to_string(), message));
    }
}

/// What in a message has no meaning.
fn fault(message: &Message<'_>) -> Option<String> {
    match message {
        Message::Req(req) => req_fault(req),
        Message::Rep(Rep { local_qpn, failover, .. }) => qpn_fault(*local_qpn)
            .or_else(|| (*failover == Failover::Reserved).then(|| "reserved failover".into())),
        Message::Rej(Rej { rejected: RejectedMessage::Reserved, .. }) => {
            Some("rejects a reserved message".into())
        }
        Message::Mra(mra) if mra.message == MraedMessage::Reserved => {
            Some("acknowledges a reserved message".into())
        }
        Message::SidrReq(req) => req.ip_cm().and_then(|(header, _)| ip_cm_fault(&header)),
        Message::SidrRep(SidrRep { status, .. }) if status.name().is_none() => {
            Some(format!("reserved status {}", status.0))
        }
        Message::Apr(apr) if apr.status.name().is_none() => {
            Some(format!("reserved status {}", apr.status.0))
        }
        _ => None,
    }
}

fn req_fault(req: &Req<'_>) -> Option<String> {
    if req.path_mtu().is_none() {
        return Some(format!("path MTU code {}", req.path_mtu_code));
    }
    if req.service().is_none() {
        return Some(format!("extended transport {}", req.extended_transport));
    }
    if req.pkey.0 & 0x7fff == 0 {
        return Some(format!("P_Key {:#06x}", req.pkey.0));
    }
    let header = req.ip_cm();
    qpn_fault(req.local_qpn).or_else(|| header.and_then(|(header, _)| ip_cm_fault(&header)))
}

/// Queue pairs 0 and 1 are for management, and the last one stands for multicast.
fn qpn_fault(qpn: Qpn) -> Option<String> {
    (qpn.get() <= 1 || qpn == Qpn::MULTICAST).then(|| format!("local QP {qpn}"))
}

fn ip_cm_fault(header: &IpCmHeader) -> Option<String> {
    if header.major_version != 0 {
        return Some(format!("RDMA IP CM header of version {}", header.major_version));
    }
    (!matches!(header.ip_version, 4 | 6)).then(|| format!("IP version {}", header.ip_version))
}
