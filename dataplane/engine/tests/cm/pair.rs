//! Two connection managers and a wire, on a virtual clock.

use std::net::{IpAddr, Ipv4Addr};

use roce_codec::cm::{
    AttributeId, CaGuid, CommunicationId, MAD_LEN, Mad, Message, RdmaCmServiceId, RejReason,
    ServiceId, SidrStatus,
};
use roce_codec::cm::{PortSpace, Timeout};
use roce_codec::ib::{Psn, QKey, Qpn};
use roce_engine::cm::{
    Accept, Cm, CmConfig, CmEvent, CmState, CmTransmit, Connect, HeapCmStorage, QpAttributes,
};
use roce_engine::{Instant, NextHop, Path, SeededEntropy};

pub(crate) const ACTIVE: usize = 0;
pub(crate) const PASSIVE: usize = 1;

/// One way over the wire takes this long.
pub(crate) const WIRE_NS: u64 = 10_000;

/// Port 7174 of the TCP port space, rping's.
pub(crate) const SERVICE: ServiceId =
    RdmaCmServiceId { port_space: PortSpace::TCP, port: 7174 }.to_service_id();
pub(crate) const ACTIVE_QPN: Qpn = Qpn::new(0x11);
pub(crate) const PASSIVE_QPN: Qpn = Qpn::new(0x22);
pub(crate) const ACTIVE_PSN: Psn = Psn::new(0xaaaaaa);
pub(crate) const PASSIVE_PSN: Psn = Psn::new(0xbbbbbb);

/// An event, with what the tests look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    ConnectRequest {
        id: CommunicationId,
        asked: CommunicationId,
        private_data: Vec<u8>,
        src_port: u16,
    },
    ConnectResponse {
        id: CommunicationId,
        qp: Box<QpAttributes>,
        private_data: Vec<u8>,
    },
    Established {
        id: CommunicationId,
        private_data: Vec<u8>,
    },
    Rejected {
        id: CommunicationId,
        reason: RejReason,
        ari: Vec<u8>,
        private_data: Vec<u8>,
    },
    Unreachable(CommunicationId),
    Stale(CommunicationId),
    DisconnectRequest {
        id: CommunicationId,
        private_data: Vec<u8>,
    },
    Disconnected {
        id: CommunicationId,
        private_data: Vec<u8>,
    },
    TimewaitExit(CommunicationId),
    SidrRequest {
        id: CommunicationId,
        private_data: Vec<u8>,
    },
    SidrResponse {
        id: CommunicationId,
        status: SidrStatus,
        qpn: Qpn,
        qkey: QKey,
        private_data: Vec<u8>,
    },
}

/// Without the zeroes that fill the field.
fn trimmed(bytes: &[u8]) -> Vec<u8> {
    let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes[..len].to_vec()
}

impl Told {
    pub(crate) fn from(event: &CmEvent<'_>) -> Self {
        match *event {
            CmEvent::ConnectRequest { id, req, .. } => {
                let (src_port, private_data) = match req.ip_cm() {
                    Some((header, consumer)) => (header.src_port, consumer),
                    None => (0, req.private_data),
                };
                let (asked, private_data) = (req.local_comm_id, trimmed(private_data));
                Self::ConnectRequest { id, asked, private_data, src_port }
            }
            CmEvent::ConnectResponse { id, qp, rep } => {
                let private_data = trimmed(rep.private_data);
                Self::ConnectResponse { id, qp: Box::new(qp), private_data }
            }
            CmEvent::Established { id, private_data } => {
                Self::Established { id, private_data: trimmed(private_data) }
            }
            CmEvent::Rejected { id, reason, ari, private_data } => Self::Rejected {
                id,
                reason,
                ari: ari.to_vec(),
                private_data: trimmed(private_data),
            },
            CmEvent::Unreachable { id } => Self::Unreachable(id),
            CmEvent::Stale { id } => Self::Stale(id),
            CmEvent::DisconnectRequest { id, private_data } => {
                Self::DisconnectRequest { id, private_data: trimmed(private_data) }
            }
            CmEvent::Disconnected { id, private_data } => {
                Self::Disconnected { id, private_data: trimmed(private_data) }
            }
            CmEvent::TimewaitExit { id } => Self::TimewaitExit(id),
            CmEvent::SidrRequest { id, req, .. } => {
                let data = req.ip_cm().map_or(req.private_data, |(_, consumer)| consumer);
                Self::SidrRequest { id, private_data: trimmed(data) }
            }
            CmEvent::SidrResponse { id, rep } => Self::SidrResponse {
                id,
                status: rep.status,
                qpn: rep.qpn,
                qkey: rep.qkey,
                private_data: trimmed(rep.private_data),
            },
            _ => panic!("an event nobody has heard of: {event:?}"),
        }
    }
}

/// A connection manager in memory of its own.
pub(crate) fn manager(guid: u64, seed: u64, connections: usize) -> Cm<'static> {
    let storage = Box::leak(Box::new(HeapCmStorage::new(connections, 4, 8)));
    Cm::new(CmConfig::new(CaGuid(guid)), storage.lend(), &mut SeededEntropy::new(seed))
}

/// A path between 192.0.2.`src` and 192.0.2.`dst`.
pub(crate) fn path(src: u8, dst: u8) -> Path {
    Path {
        src: IpAddr::V4(Ipv4Addr::new(192, 0, 2, src)),
        dst: IpAddr::V4(Ipv4Addr::new(192, 0, 2, dst)),
        next_hop: NextHop(0),
        src_port: 0xc123,
        traffic_class: 0,
        flow_label: 0,
        hop_limit: 64,
    }
}

/// Answers within a second, an ACK timeout of 67 ms, 3 retries.
pub(crate) fn connect() -> Connect<'static> {
    Connect {
        local_ack_timeout: Timeout::new(14),
        remote_cm_response_timeout: Timeout::new(16),
        local_cm_response_timeout: Timeout::new(17),
        max_cm_retries: 3,
        ip_src_port: 40_000,
        ..Connect::new(SERVICE, path(1, 2), ACTIVE_QPN, ACTIVE_PSN)
    }
}

/// What a test does to a message on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Lose,
    Double,
}

#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) at: Instant,
    pub(crate) side: usize,
    pub(crate) attribute: AttributeId,
    pub(crate) mad: [u8; MAD_LEN],
}

pub(crate) struct Pair {
    pub(crate) sides: [Cm<'static>; 2],
    pub(crate) now: Instant,
    pub(crate) told: [Vec<Told>; 2],
    /// Everything that was sent, lost or not.
    pub(crate) sent: Vec<Sent>,
    pub(crate) wire: Vec<Sent>,
    faults: Vec<(usize, AttributeId, Fault)>,
    cut: [bool; 2],
}

impl Pair {
    /// The passive side listens, with a backlog of 4.
    pub(crate) fn new() -> Self {
        let mut pair = Self {
            sides: [manager(0xa, 1, 8), manager(0xb, 2, 8)],
            now: Instant(1_000_000_000),
            told: [Vec::new(), Vec::new()],
            sent: Vec::new(),
            wire: Vec::new(),
            faults: Vec::new(),
            cut: [false; 2],
        };
        pair.sides[PASSIVE].listen(SERVICE, 4).unwrap();
        pair
    }

    /// The next such message of a side's is lost; several times for several losses.
    pub(crate) fn lose(&mut self, side: usize, attribute: AttributeId) {
        self.faults.push((side, attribute, Fault::Lose));
    }

    /// The next such message of a side's comes twice.
    pub(crate) fn double(&mut self, side: usize, attribute: AttributeId) {
        self.faults.push((side, attribute, Fault::Double));
    }

    /// Nothing of this side's arrives any more, or again.
    pub(crate) fn cut(&mut self, side: usize, cut: bool) {
        self.cut[side] = cut;
    }

    fn transmit(&mut self) {
        for side in 0..2 {
            while let Some(transmit) = self.sides[side].poll_transmit(self.now) {
                self.put(side, &transmit);
            }
        }
    }

    fn put(&mut self, side: usize, transmit: &CmTransmit) {
        let CmTransmit { attribute, mad, path: way } = *transmit;
        assert_eq!(
            (way.src, way.dst),
            [(path(1, 2).src, path(1, 2).dst), (path(2, 1).src, path(2, 1).dst)][side]
        );
        assert_eq!(Mad::parse(&mad).unwrap().header.attribute, attribute);
        let sent = Sent { at: self.now, side, attribute, mad };
        self.sent.push(sent.clone());
        let arrives = Sent { at: self.now.add_ns(WIRE_NS), ..sent };
        let fault = self.faults.iter().position(|fault| (fault.0, fault.1) == (side, attribute));
        match fault.map(|at| self.faults.remove(at).2) {
            Some(Fault::Lose) => {}
            _ if self.cut[side] => {}
            Some(Fault::Double) => self.wire.extend([arrives.clone(), arrives]),
            None => self.wire.push(arrives),
        }
    }

    fn poll(&mut self) {
        for (cm, told) in self.sides.iter_mut().zip(&mut self.told) {
            while let Some(event) = cm.poll_event() {
                told.push(Told::from(&event));
            }
        }
    }

    /// Everything that happens until `end`.
    pub(crate) fn run_until(&mut self, end: Instant) {
        loop {
            self.transmit();
            self.poll();
            let timers = self.sides.iter().filter_map(Cm::poll_timeout);
            let next = self.wire.iter().map(|sent| sent.at).chain(timers).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            let (due, later) = self.wire.drain(..).partition(|sent| sent.at <= self.now);
            self.wire = later;
            let due: Vec<Sent> = due;
            for sent in due {
                self.deliver(1 - sent.side, &sent.mad);
            }
            for cm in &mut self.sides {
                let _ = cm.handle_timeout(self.now);
            }
        }
        self.now = self.now.max(end);
    }

    /// A message arrives at a side from the other's address.
    pub(crate) fn deliver(&mut self, side: usize, mad: &[u8; MAD_LEN]) {
        let way = [path(1, 2), path(2, 1)][side];
        self.sides[side].handle_mad(self.now, &Mad::parse(mad).unwrap(), &way);
    }

    /// What is on the wire arrives, and the answers to it; no timer of ours is that short.
    pub(crate) fn settle(&mut self) {
        self.run_until(self.now.add_ns(10 * WIRE_NS));
        assert!(self.wire.is_empty());
    }

    /// Until no timer is armed.
    pub(crate) fn run(&mut self) {
        self.run_until(self.now.add_ns(3_600_000_000_000));
        assert!(self.wire.is_empty() && self.sides.iter().all(|cm| cm.poll_timeout().is_none()));
        assert!(self.faults.is_empty(), "not sent, so not lost: {:?}", self.faults);
    }

    /// Until a side is told something, and what that is.
    pub(crate) fn wait(&mut self, side: usize) -> Told {
        for _ in 0..10_000 {
            if !self.told[side].is_empty() {
                break;
            }
            self.run_until(self.now.add_ns(1_000_000));
        }
        self.only(side)
    }

    /// The only event of a side's since the last look.
    pub(crate) fn only(&mut self, side: usize) -> Told {
        let mut told = std::mem::take(&mut self.told[side]);
        assert_eq!(told.len(), 1, "{told:?}");
        told.remove(0)
    }

    /// No event came.
    pub(crate) fn silent(&self, side: usize) {
        assert_eq!(self.told[side], []);
    }

    /// How often a side sent a message.
    pub(crate) fn count(&self, side: usize, attribute: AttributeId) -> usize {
        self.sent.iter().filter(|sent| (sent.side, sent.attribute) == (side, attribute)).count()
    }

    /// The last message of a side's.
    pub(crate) fn last(&self, side: usize) -> Message<'_> {
        let sent = self.sent.iter().rfind(|sent| sent.side == side).expect("it sent something");
        Message::parse(&Mad::parse(&sent.mad).unwrap()).unwrap()
    }

    pub(crate) fn state(&self, side: usize, id: CommunicationId) -> CmState {
        self.sides[side].state(id)
    }

    /// The active side asks; the passive side's consumer has been told.
    pub(crate) fn request(&mut self, connect: &Connect<'_>) -> [CommunicationId; 2] {
        let active = self.sides[ACTIVE].connect(self.now, connect).unwrap();
        self.settle();
        let Told::ConnectRequest { id, .. } = self.only(PASSIVE) else { panic!("no request") };
        [active, id]
    }

    pub(crate) fn accept(&mut self, id: CommunicationId) -> QpAttributes {
        let accept = Accept::new(PASSIVE_QPN, PASSIVE_PSN);
        self.sides[PASSIVE].accept(self.now, id, &accept).unwrap()
    }

    /// Two established ends.
    pub(crate) fn establish(&mut self) -> [CommunicationId; 2] {
        let [active, passive] = self.request(&connect());
        self.accept(passive);
        self.settle();
        assert!(matches!(self.only(ACTIVE), Told::ConnectResponse { .. }));
        self.sides[ACTIVE].ready(self.now, active, &[]).unwrap();
        self.settle();
        assert!(matches!(self.only(PASSIVE), Told::Established { .. }));
        [active, passive]
    }

    /// Nothing is held any more, and every message is accounted for.
    pub(crate) fn assert_at_rest(&mut self) {
        for cm in &self.sides {
            assert_eq!(cm.in_use(), 0);
            assert_eq!(cm.poll_timeout(), None);
            let counters = cm.counters();
            assert_eq!(counters.received, counters.acted_on + counters.total_dropped());
        }
    }
}
