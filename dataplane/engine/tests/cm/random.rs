//! Random runs by seed: two managers, consumers that do as they like, a wire that loses, doubles
//! and reorders.

use std::collections::HashMap;

use roce_codec::cm::{
    AttributeId, CaGuid, CommunicationId, Mad, Message, PortSpace, RdmaCmServiceId, RejReason,
    ServiceId, SidrStatus, Timeout,
};
use roce_codec::ib::{Psn, QKey, Qpn};
use roce_engine::cm::{
    Accept, Cm, CmConfig, CmState, Connect, HeapCmStorage, SidrAnswer, SidrQuery,
};
use roce_engine::{Instant, SeededEntropy};

use crate::pair::{SERVICE, Told, connect, path};

const UDP_SERVICE: ServiceId =
    RdmaCmServiceId { port_space: PortSpace::UDP, port: 7174 }.to_service_id();

/// Messages are sent 15 times again at most, so that no run fails for its losses alone.
const RETRIES: u8 = 15;

struct World<'s> {
    random: SeededEntropy,
    now: Instant,
    sides: [Cm<'s>; 2],
    wire: Vec<(Instant, usize, [u8; 256])>,
    /// Connections whose end is still to come, a side; of passive ones, the REQ's ID.
    open: [HashMap<CommunicationId, Option<CommunicationId>>; 2],
    /// Queue pairs that no connection may take twice at a time.
    next_qpn: u32,
    /// The queue pair that answered a REQ, by the REQ's sender and ID.
    accepted: HashMap<(usize, CommunicationId), u32>,
    sent: HashMap<(usize, AttributeId, [u8; 256]), u32>,
    loss: u64,
    counts: [u32; 4],
}

impl<'s> World<'s> {
    fn new(seed: u64, [one, other]: &'s mut [HeapCmStorage; 2]) -> Self {
        let mut random = SeededEntropy::new(seed);
        let [a, b] = [random.next_u64(), random.next_u64()];
        let mut sides = [(0xa, one, a), (0xb, other, b)].map(|(guid, storage, seed)| {
            let config = CmConfig::new(CaGuid(guid));
            Cm::new(config, storage.lend(), &mut SeededEntropy::new(seed))
        });
        for cm in &mut sides {
            cm.listen(SERVICE, 3).unwrap();
            cm.listen(UDP_SERVICE, 2).unwrap();
        }
        let loss = random.next_u64() % 21;
        Self {
            random,
            now: Instant(1),
            sides,
            wire: Vec::new(),
            open: [HashMap::new(), HashMap::new()],
            next_qpn: 2,
            accepted: HashMap::new(),
            sent: HashMap::new(),
            loss,
            counts: [0; 4],
        }
    }

    /// One of `of`.
    fn one_in(&mut self, of: u64) -> bool {
        self.random.next_u64().is_multiple_of(of)
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.random.next_u64() % 100 < percent
    }

    fn qpn(&mut self) -> Qpn {
        self.next_qpn += 1;
        Qpn::new(self.next_qpn)
    }

    fn connect(&mut self, side: usize) {
        let way = [path(1, 2), path(2, 1)][side];
        if self.one_in(5) {
            let query = SidrQuery {
                max_cm_retries: RETRIES,
                response_timeout: Timeout::new(12),
                ..SidrQuery::new(UDP_SERVICE, way)
            };
            if let Ok(id) = self.sides[side].sidr_request(self.now, &query) {
                self.open[side].insert(id, None);
            }
            return;
        }
        let asked = Connect {
            path: way,
            qpn: self.qpn(),
            starting_psn: Psn::new(self.next_qpn),
            max_cm_retries: RETRIES,
            remote_cm_response_timeout: Timeout::new(12),
            local_cm_response_timeout: Timeout::new(13),
            ..connect()
        };
        if let Ok(id) = self.sides[side].connect(self.now, &asked) {
            self.open[side].insert(id, None);
        }
    }

    fn hear(&mut self, side: usize, told: &Told) {
        let now = self.now;
        match *told {
            Told::ConnectRequest { id, asked, .. } => {
                let twice = self.open[side].values().any(|other| *other == Some(asked));
                assert!(!twice, "two connections for one REQ");
                assert_eq!(self.open[side].insert(id, Some(asked)), None, "an ID twice");
                if self.one_in(6) {
                    let reason = RejReason::CONSUMER_REJECT;
                    self.sides[side].reject(now, id, reason, &[], &[]).unwrap();
                    self.open[side].remove(&id);
                    self.counts[0] += 1;
                    return;
                }
                if self.one_in(6) {
                    self.sides[side].delay(now, id, Timeout::new(14), &[]).unwrap();
                }
                let accept = Accept::new(self.qpn(), Psn::new(self.next_qpn));
                self.sides[side].accept(now, id, &accept).unwrap();
            }
            Told::ConnectResponse { id, ref qp, .. } => {
                // Each REQ makes one connection at most.
                let peer = self.accepted.entry((side, id)).or_insert(qp.dest_qpn.get());
                assert_eq!(*peer, qp.dest_qpn.get(), "two connections for one REQ");
                if self.one_in(6) {
                    self.sides[side].delay(now, id, Timeout::new(14), &[]).unwrap();
                }
                if self.one_in(10) {
                    let reason = RejReason::CONSUMER_REJECT;
                    self.sides[side].reject(now, id, reason, &[], &[]).unwrap();
                    self.open[side].remove(&id);
                } else {
                    self.sides[side].ready(now, id, &[]).unwrap();
                }
            }
            Told::DisconnectRequest { id, .. } => {
                self.sides[side].disconnect(now, id, &[]).unwrap();
            }
            Told::SidrRequest { id, .. } => {
                let answer = SidrAnswer {
                    status: SidrStatus::VALID,
                    qpn: Qpn::new(9),
                    qkey: QKey(1),
                    private_data: &[],
                };
                self.sides[side].sidr_reply(now, id, &answer).unwrap();
            }
            Told::Established { .. } => self.counts[1] += 1,
            Told::Rejected { id, .. } | Told::Unreachable(id) => {
                self.counts[2] += 1;
                if self.sides[side].state(id) == CmState::Idle {
                    assert!(self.open[side].remove(&id).is_some(), "it had ended");
                }
            }
            Told::TimewaitExit(id) => {
                self.open[side].remove(&id);
                assert_eq!(self.sides[side].state(id), CmState::Idle);
            }
            Told::SidrResponse { id, .. } => {
                assert!(self.open[side].remove(&id).is_some(), "it had ended");
                self.counts[3] += 1;
            }
            Told::Disconnected { .. } | Told::Stale(_) => {}
        }
    }

    /// Sends and tells whatever there is.
    fn turn(&mut self) {
        for side in 0..2 {
            while let Some(transmit) = self.sides[side].poll_transmit(self.now) {
                let mad = transmit.mad;
                *self.sent.entry((side, transmit.attribute, mad)).or_default() += 1;
                let copies = if self.percent(self.loss) {
                    0
                } else if self.percent(10) {
                    2
                } else {
                    1
                };
                for _ in 0..copies {
                    // From 10 µs to 20 ms, so that much overtakes and some comes late.
                    let delay_ns = 10_000 << (self.random.next_u64() % 12);
                    self.wire.push((self.now.add_ns(delay_ns), 1 - side, mad));
                }
            }
            while let Some(event) = self.sides[side].poll_event() {
                let told = Told::from(&event);
                self.hear(side, &told);
            }
        }
    }

    /// Until `end`, or until nothing is left to happen.
    fn run(&mut self, end: Instant) {
        loop {
            // What consumers do in answer has to go out, too.
            for _ in 0..3 {
                self.turn();
            }
            let timers = self.sides.iter().filter_map(Cm::poll_timeout);
            let next = self.wire.iter().map(|(at, ..)| *at).chain(timers).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            let now = self.now;
            let (due, later) = self.wire.drain(..).partition(|(at, ..)| *at <= now);
            self.wire = later;
            let due: Vec<_> = due;
            for (_, side, mad) in due {
                let way = [path(1, 2), path(2, 1)][side];
                self.sides[side].handle_mad(now, &Mad::parse(&mad).unwrap(), &way);
            }
            for cm in &mut self.sides {
                let _ = cm.handle_timeout(now);
            }
            for cm in &self.sides {
                let counters = cm.counters();
                assert_eq!(counters.received, counters.acted_on + counters.total_dropped());
                assert!(cm.in_use() <= 6);
            }
        }
        self.now = self.now.max(end);
    }

    fn established(&self, side: usize) -> Vec<CommunicationId> {
        let cm = &self.sides[side];
        let ids = self.open[side].keys().copied();
        ids.filter(|id| cm.state(*id) == CmState::Established).collect()
    }
}

fn run(seed: u64) -> [u32; 4] {
    let mut storage = [HeapCmStorage::new(6, 4, 8), HeapCmStorage::new(6, 4, 8)];
    let mut world = World::new(seed, &mut storage);
    for _ in 0..8 {
        let side = if world.one_in(2) { 0 } else { 1 };
        world.connect(side);
        let pause_ns = 1_000 << (world.random.next_u64() % 20);
        world.run(world.now.add_ns(pause_ns));
        if world.one_in(3) {
            let side = if world.one_in(2) { 0 } else { 1 };
            if let Some(id) = world.established(side).first() {
                world.sides[side].disconnect(world.now, *id, &[]).unwrap();
            }
        }
    }
    world.run(world.now.add_ns(600_000_000_000));

    // Both ends of a connection are established or neither is.
    let established = [world.established(0), world.established(1)];
    assert_eq!(established[0].len(), established[1].len(), "half a connection is left");
    for side in 0..2 {
        // It is the same connections that both ends believe in.
        for id in &established[side] {
            if let Some(asked) = world.open[side][id] {
                assert!(established[1 - side].contains(&asked), "half a connection is left");
            }
        }
        assert_eq!(world.open[side].len(), established[side].len(), "neither open nor ended");
        assert_eq!(world.sides[side].in_use(), established[side].len(), "a slot is held");
    }
    for id in &established[0] {
        world.sides[0].disconnect(world.now, *id, &[]).unwrap();
    }
    world.run(world.now.add_ns(600_000_000_000));
    for side in 0..2 {
        assert_eq!(world.sides[side].in_use(), 0, "a slot is leaked");
        assert_eq!(world.sides[side].poll_timeout(), None, "a timer is leaked");
        assert!(world.open[side].is_empty(), "an end was never told");
    }
    // Of one message no more is sent than its retries, and once for each copy of another that
    // asks for it: of a REQ, say, two at most came for each of 16.
    for ((side, attribute, mad), count) in &world.sent {
        let once = Message::parse(&Mad::parse(mad).unwrap()).unwrap();
        let most = match once {
            Message::Req(_) | Message::Dreq(_) | Message::SidrReq(_) => u32::from(RETRIES) + 1,
            _ => 3 * (u32::from(RETRIES) + 1),
        };
        assert!(*count <= most, "{attribute} of side {side} was sent {count} times");
    }
    world.counts
}

/// 3000 runs; `CM_SEEDS` says how many otherwise, `CM_SEED` which one.
#[test]
fn by_seed() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let seeds: std::ops::Range<u64> = match (number("CM_SEED"), number("CM_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, count) => 0..count.unwrap_or(3000),
    };
    let mut total = [0; 4];
    for seed in seeds {
        let counts = std::panic::catch_unwind(|| run(seed)).unwrap_or_else(|_| {
            panic!("seed {seed}: CM_SEED={seed} runs it alone");
        });
        for (total, count) in total.iter_mut().zip(counts) {
            *total += count;
        }
    }
    // The runs do reach what they are about.
    println!("rejected by consumers, established, ended early, resolved: {total:?}");
    if number("CM_SEED").is_none() {
        assert!(total.iter().all(|count| *count > 100), "{total:?}");
    }
}
