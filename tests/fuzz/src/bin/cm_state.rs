//! The connection manager: two of them, driven by a list of calls, of messages that the wire
//! loses, doubles and reorders, and of MADs that nobody sent. Whatever the list, every message is
//! accounted for, and in the end no slot and no timer is held.
#![no_main]

use std::net::{IpAddr, Ipv4Addr};

use libfuzzer_sys::fuzz_target;
use roce_codec::cm::{
    AttributeId, CaGuid, CommunicationId, Gid, MAD_LEN, Mad, MadHeader, PortSpace, RdmaCmServiceId,
    RejReason, ServiceId, SidrStatus, Timeout,
};
use roce_codec::ib::{Psn, QKey, Qpn};
use roce_engine::cm::{
    Accept, Cm, CmConfig, CmEvent, CmState, Connect, SidrAnswer, SidrQuery, StaticCmStorage,
};
use roce_engine::{Instant, Path, SeededEntropy};

const CONNECTIONS: usize = 5;
const SERVICE: ServiceId = RdmaCmServiceId { port_space: PortSpace::TCP, port: 1 }.to_service_id();
const OTHER: ServiceId = ServiceId(7);

fuzz_target!(|input: &[u8]| {
    let mut storage = [const { StaticCmStorage::<CONNECTIONS, 2, 3>::EMPTY }; 2];
    let mut guid = 0;
    let sides = storage.each_mut().map(|storage| {
        guid += 1;
        Cm::new(CmConfig::new(CaGuid(guid)), storage.lend(), &mut SeededEntropy::new(guid))
    });
    let mut world = World { sides, wire: Vec::new(), now: Instant(1), input, calls: 0 };
    while world.step() && world.calls < 2000 {}
    world.end();
});

struct World<'s, 'i> {
    sides: [Cm<'s>; 2],
    wire: Vec<(usize, [u8; MAD_LEN])>,
    now: Instant,
    input: &'i [u8],
    calls: u32,
}

/// The way from a side to the other.
fn path(side: usize) -> Path {
    let ip = |last| IpAddr::V4(Ipv4Addr::new(192, 0, 2, last));
    let [src, dst] = if side == 0 { [ip(1), ip(2)] } else { [ip(2), ip(1)] };
    Path { src, dst, ..Path::EMPTY }
}

impl World<'_, '_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.input.split_first()?;
        self.input = rest;
        Some(*first)
    }

    /// A connection of a side's.
    fn pick(&mut self, side: usize) -> Option<CommunicationId> {
        let nth = usize::from(self.byte()?) % CONNECTIONS;
        self.sides[side].connections().map(|(id, _)| id).nth(nth)
    }

    /// One operation; `false` at the end of the list.
    fn step(&mut self) -> bool {
        let (Some(op), Some(with)) = (self.byte(), self.byte()) else { return false };
        self.calls += 1;
        let side = usize::from(op >> 7);
        if op & 0x7f >= 40 {
            return self.message(side, op, with);
        }
        self.call(side, op & 0x7f, with);
        let cm = &mut self.sides[side];
        assert!(cm.in_use() <= CONNECTIONS);
        let counters = cm.counters();
        assert_eq!(counters.received, counters.acted_on + counters.total_dropped());
        true
    }

    fn call(&mut self, side: usize, op: u8, with: u8) {
        let (now, data) = (self.now, vec![with; usize::from(with)]);
        let qpn = Qpn::new(u32::from(with % 8) + 2);
        let timeout = Timeout::new(with);
        match op {
            0 => drop(self.sides[side].listen(SERVICE, u32::from(with % 4))),
            1 => drop(self.sides[side].listen(OTHER, u32::from(with % 4))),
            2 => drop(self.sides[side].unlisten(SERVICE)),
            3..=6 => {
                let connect = Connect {
                    private_data: &data[..data.len().min(60)],
                    max_cm_retries: with & 3,
                    remote_cm_response_timeout: Timeout::new(with % 20),
                    ..Connect::new(SERVICE, path(side), qpn, Psn::new(with.into()))
                };
                let _ = self.sides[side].connect(now, &connect);
            }
            7 => {
                let query = SidrQuery { max_cm_retries: 1, ..SidrQuery::new(OTHER, path(side)) };
                let _ = self.sides[side].sidr_request(now, &query);
            }
            8..=19 => {
                let Some(id) = self.pick(side) else { return };
                let cm = &mut self.sides[side];
                let _ = match op {
                    8..=10 => {
                        let accept =
                            Accept { private_data: &data, ..Accept::new(qpn, Psn::new(1)) };
                        cm.accept(now, id, &accept).map(|_| ())
                    }
                    11..=13 => cm.ready(now, id, &data),
                    14 => cm.delay(now, id, timeout, &data),
                    15 => cm.reject(now, id, RejReason(with.into()), &data, &data),
                    16 | 17 => cm.disconnect(now, id, &data),
                    18 => cm.communication_established(now, id),
                    _ => {
                        let status = SidrStatus(with);
                        let private_data = &data;
                        cm.sidr_reply(
                            now,
                            id,
                            &SidrAnswer { status, qpn, qkey: QKey(1), private_data },
                        )
                    }
                };
            }
            20..=23 => {
                while let Some(transmit) = self.sides[side].poll_transmit(now) {
                    if self.wire.len() < 64 {
                        self.wire.push((1 - side, transmit.mad));
                    }
                }
            }
            24..=29 => self.arrive(with),
            30..=33 => while self.sides[side].poll_event().is_some() {},
            34 | 35 => {
                self.now = now.add_ns(1 << (with % 40));
                let _ = self.sides[side].handle_timeout(self.now);
            }
            _ => self.polite(side),
        }
    }

    /// One message on the wire arrives, or is lost, or arrives and stays to arrive again.
    fn arrive(&mut self, with: u8) {
        if self.wire.is_empty() {
            return;
        }
        let at = usize::from(with >> 2) % self.wire.len();
        let (to, mad) = self.wire[at];
        if with & 3 != 1 {
            self.wire.remove(at);
        }
        if with & 3 != 2 {
            self.sides[to].handle_mad(self.now, &Mad::parse(&mad).unwrap(), &path(to));
        }
    }

    /// A consumer that does what it is asked.
    fn polite(&mut self, side: usize) {
        let (now, cm) = (self.now, &mut self.sides[side]);
        while let Some(event) = cm.poll_event() {
            let id = match event {
                CmEvent::ConnectRequest { id, .. }
                | CmEvent::ConnectResponse { id, .. }
                | CmEvent::DisconnectRequest { id, .. } => id,
                _ => continue,
            };
            // Its peer may have changed its mind meanwhile.
            match cm.state(id) {
                CmState::ReqRcvd => {
                    cm.accept(now, id, &Accept::new(Qpn::new(9), Psn::new(9))).map(drop).unwrap();
                }
                CmState::RepRcvd => cm.ready(now, id, &[]).unwrap(),
                CmState::DreqRcvd => cm.disconnect(now, id, &[]).unwrap(),
                _ => {}
            }
        }
    }

    /// A MAD of the list's own bytes, with the names of a connection where they belong.
    fn message(&mut self, side: usize, op: u8, with: u8) -> bool {
        let mut mad = [0; MAD_LEN];
        let len = self.input.len().min(usize::from(with));
        mad[24..][..len.min(MAD_LEN - 24)].copy_from_slice(&self.input[..len.min(MAD_LEN - 24)]);
        self.input = &self.input[len..];
        let attribute = AttributeId(0x10 + u16::from(op & 0x0f) % 14);
        MadHeader::cm(attribute, u64::from(with)).emit(&mut mad).unwrap();
        if op & 0x10 != 0 {
            let ours = self.pick(side).unwrap_or_default();
            let theirs = self.pick(1 - side).unwrap_or_default();
            mad[24..28].copy_from_slice(&theirs.0.to_be_bytes());
            mad[28..32].copy_from_slice(&ours.0.to_be_bytes());
        }
        if attribute == AttributeId::REQ && op & 0x10 == 0 {
            mad[32..40].copy_from_slice(&SERVICE.0.to_be_bytes());
            let way = path(side);
            mad[80..96].copy_from_slice(&Gid::from(way.dst).0);
            mad[96..112].copy_from_slice(&Gid::from(way.src).0);
        }
        self.sides[side].handle_mad(self.now, &Mad::parse(&mad).unwrap(), &path(side));
        true
    }

    /// Nothing arrives any more and the consumers want no connection: none is left.
    fn end(mut self) {
        for cm in &mut self.sides {
            while cm.poll_event().is_some() {}
            let ids: Vec<_> = cm.connections().map(|(id, _)| id).collect();
            for id in ids {
                let _ = cm.reject(self.now, id, RejReason::CONSUMER_REJECT, &[], &[]);
                let _ = cm.disconnect(self.now, id, &[]);
                let answer = SidrAnswer {
                    status: SidrStatus::REJECTED,
                    qpn: Qpn::new(0),
                    qkey: QKey(0),
                    private_data: &[],
                };
                let _ = cm.sidr_reply(self.now, id, &answer);
            }
            let mut turns = 0;
            loop {
                while cm.poll_transmit(self.now).is_some() {}
                while cm.poll_event().is_some() {}
                let Some(next) = cm.poll_timeout() else { break };
                self.now = self.now.max(next);
                let _ = cm.handle_timeout(self.now);
                turns += 1;
                assert!(turns < 5000, "it does not come to rest: {cm:?}");
            }
            assert_eq!(cm.in_use(), 0, "{cm:?}");
        }
    }
}
