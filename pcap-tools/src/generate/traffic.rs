//! All connections on one wire: whose packet is next, and its bytes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use roce_codec::dcqcn::{Knob, Params};
use roce_codec::ib::{Bth, Deth, ExtHeaders, Opcode, Psn, QKey, Qpn};
use roce_codec::net::datagram_source_port;
use roce_codec::{Crc, EmitError, FrameBuilder};

use super::connection::{Budget, Wishes};
use super::host::{DATA_TRAFFIC_CLASS, Host, Route};
use super::mix::{Mix, PERFTEST_QKEY, Place};
use super::planned::{Kind, Planned};
use super::random::Random;

/// When the first packet is seen: 14 November 2023.
const START_NS: u64 = 1_700_000_000_000_000_000;
/// Of the wire that the tap is on, which carries both directions.
const WIRE_BPS: u64 = 400_000_000_000;
/// Bytes that payloads are cut from: the largest one, at any of 2¹⁵ places.
const POOL: usize = (1 << 15) + 4096;
/// Room for the largest frame.
const FRAME: usize = 4096 + 256;
/// Between CNPs of one flow, as no NIC's default is longer.
const CNP_INTERVAL_US: u32 = 55;

/// Made-up traffic, packet by packet: see [`Mix`]. A fixed amount of memory for each connection.
#[derive(Debug)]
pub struct Traffic {
    mix: Mix,
    wishes: Wishes,
    random: Random,
    budget: Budget,
    left: u64,
    places: Vec<Place>,
    /// When each place's next packet is due.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    hosts: Vec<Wire>,
    pool: Vec<u8>,
    frame: Vec<u8>,
    now_ns: u64,
    lone_psn: Psn,
}

/// What a host counts in the packets it sends.
#[derive(Debug, Clone, Copy, Default)]
struct Wire {
    identification: u16,
    /// The PSN of its queue pair 1.
    gsi_psn: Psn,
}

impl Traffic {
    /// Traffic of that kind.
    #[must_use]
    pub fn new(mix: &Mix) -> Self {
        let mut random = Random::new(mix.seed);
        let mut dcqcn = Params::PAPER;
        let set = dcqcn.set_knob(Knob::MinTimeBetweenCnps, CNP_INTERVAL_US);
        debug_assert_eq!(set, Ok(()), "within the knob's limits");
        let mix = Mix { payload: mix.payload.map(|len| len.min(Mix::MAX_PAYLOAD)), ..*mix };
        let wishes = Wishes {
            payload: mix.payload,
            dcqcn,
            // So that the wire is used to a quarter, however many connections there are.
            pause_ns: (mix.places() * 1_500).max(20_000),
        };
        let mut pool = vec![0; POOL];
        random.letters(&mut pool);
        let mut traffic = Self {
            mix,
            wishes,
            random,
            budget: Budget(mix.packets),
            left: mix.packets,
            places: Vec::new(),
            due: BinaryHeap::new(),
            hosts: Vec::new(),
            pool,
            frame: vec![0; FRAME],
            now_ns: START_NS,
            lone_psn: Psn::new(0),
        };
        for number in 0..mix.places() {
            let start_ns = START_NS + traffic.random.ns(0, mix.places() * 20_000);
            let place = Place::new(number, start_ns, &traffic.mix, &mut traffic.random);
            for host in place.hosts {
                let known = traffic.hosts.len().max(usize::from(host) + 1);
                traffic.hosts.resize(known, Wire::default());
            }
            traffic.places.push(place);
            traffic.schedule(number);
        }
        traffic
    }

    /// The next packet: nanoseconds since 1970 and its bytes, from the Ethernet header on. `None`
    /// after the last.
    pub fn next_packet(&mut self) -> Option<(u64, &[u8])> {
        self.left = self.left.checked_sub(1)?;
        let emitted = match self.due.pop() {
            Some(Reverse((_, number))) => {
                let place = self.places.get_mut(usize::try_from(number).ok()?)?;
                let planned = place.connection.queue.pop_front()?;
                let emitted = self.emit(number, &planned);
                self.schedule(number);
                emitted
            }
            // What no exchange was short enough for.
            None => self.lone_datagram(),
        };
        debug_assert!(emitted.is_ok(), "the frame has room: {emitted:?}");
        Some((self.now_ns, self.frame.get(..emitted.ok()?)?))
    }

    /// Makes the place plan until it has something to send, or nothing ever again.
    fn schedule(&mut self, number: u32) {
        let Some(place) = usize::try_from(number).ok().and_then(|at| self.places.get_mut(at))
        else {
            return;
        };
        loop {
            let connection = &mut place.connection;
            if let Some(next) = connection.queue.front() {
                self.due.push(Reverse((next.at_ns, number)));
                return;
            }
            if connection.is_closed() {
                if self.budget.0 == 0 || connection.life > 0 {
                    return;
                }
                place.renew(&self.mix, &mut self.random);
            }
            place.connection.plan(&self.wishes, &mut self.budget, &mut self.random);
        }
    }

    fn emit(&mut self, number: u32, planned: &Planned) -> Result<usize, EmitError> {
        let Self { places, hosts, pool, frame, random, .. } = self;
        let index = usize::try_from(number).unwrap_or_default();
        let Some(place) = places.get(index) else { return Ok(0) };
        let connection = &place.connection;
        let peer = planned.from.other();
        let [from, to] = [planned.from, peer].map(|side| place.hosts[side.index()]);
        let wire = &mut hosts[usize::from(from)];
        wire.identification = wire.identification.wrapping_add(1);
        let [from, to] = [from, to].map(Host::new);
        let dest_qp = connection.ends[peer.index()].qpn;
        let ethernet = Some(place.route.ethernet(&from, &to));
        let ip = |traffic_class| place.route.ip(&from, &to, traffic_class, wire.identification);
        let mut payload: &[u8] = &[];
        let mut builder = match &planned.kind {
            Kind::Transport { opcode, psn, ack_req, solicited, ce, ext, payload_len } => {
                let len = usize::from(*payload_len);
                let start = usize::from(random.u64().to_le_bytes()[0]) * 128;
                payload = pool.get(start..start + len).unwrap_or_default();
                let mark = if *ce { 3 } else { 0 };
                let bth = Bth {
                    ack_req: *ack_req,
                    solicited: *solicited,
                    mig_req: place.mig_req,
                    pkey: connection.agreement.pkey,
                    ..Bth::new(*opcode, dest_qp, *psn)
                };
                let src_port = match ext.deth {
                    Some(deth) => datagram_source_port(deth.src_qp),
                    None => place.src_port,
                };
                let ip = ip(DATA_TRAFFIC_CLASS | mark);
                let mut builder = FrameBuilder::new(ethernet, ip, src_port, bth);
                builder.ext = *ext;
                builder
            }
            Kind::Cnp => {
                let mut cnp = FrameBuilder::cnp(ethernet, ip(0), place.src_port, dest_qp);
                cnp.bth.pkey = connection.agreement.pkey;
                cnp
            }
            Kind::Mad(mad) => {
                payload = mad.as_slice();
                let bth = Bth::new(Opcode::UD_SEND_ONLY, Qpn::GSI, wire.gsi_psn);
                wire.gsi_psn = wire.gsi_psn.next();
                let port = datagram_source_port(Qpn::GSI);
                let mut builder = FrameBuilder::new(ethernet, ip(0), port, bth);
                let deth = Deth { qkey: QKey::GSI, resv8: 0, src_qp: Qpn::GSI };
                builder.ext = ExtHeaders { deth: Some(deth), ..ExtHeaders::NONE };
                builder
            }
        };
        builder.set_payload_len(payload.len())?;
        let len = builder.emit::<Crc>([payload, &[]], frame)?;
        let bits = u64::try_from(len).unwrap_or_default() * 8;
        let free_ns = self.now_ns + bits * 1_000_000_000 / WIRE_BPS + 1;
        self.now_ns = free_ns.max(planned.at_ns);
        Ok(len)
    }

    /// A datagram of a queue pair that does nothing else.
    fn lone_datagram(&mut self) -> Result<usize, EmitError> {
        let (src_qp, dest_qp) = (Qpn::new(0xff_0001), Qpn::new(0xff_0002));
        let bth = Bth::new(Opcode::UD_SEND_ONLY, dest_qp, self.lone_psn);
        self.lone_psn = self.lone_psn.next();
        self.now_ns += 1_000;
        let [from, to] = [0, 8].map(Host::new);
        let route = Route { v6: true, vlan: None, flow_label: 0 };
        let ip = route.ip(&from, &to, DATA_TRAFFIC_CLASS, 0);
        let ethernet = Some(route.ethernet(&from, &to));
        let mut builder = FrameBuilder::new(ethernet, ip, datagram_source_port(src_qp), bth);
        let deth = Deth { qkey: PERFTEST_QKEY, resv8: 0, src_qp };
        builder.ext = ExtHeaders { deth: Some(deth), ..ExtHeaders::NONE };
        let payload = self.pool.get(..64).unwrap_or_default();
        builder.set_payload_len(payload.len())?;
        builder.emit::<Crc>([payload, &[]], &mut self.frame)
    }
}
