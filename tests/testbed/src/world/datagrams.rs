//! Datagrams between the hosts: each arrives whole, as it was sent and where it was sent to, at
//! most as often as the wire delivers it, or not at all.

use std::net::IpAddr;

use roce_codec::ib::{PKey, Psn, QKey, Qpn, Service};
use roce_engine::{
    Ah, GrhArea, Instant, ModifyQp, NextHop, Path, QpInit, QpState, RecvWr, SendWr, Sge, Srq,
    SrqInit, UdAddress, Wc, WcOpcode, WcStatus, WrOpcode,
};

use super::World;
use super::end::elements;
use super::host::{Host, address};
use crate::plan::{Aim, Datagram, MAX_DATAGRAM, MAX_INLINE, Plan};
use crate::wire::Faults;

/// Sends that a queue pair holds, at most.
const DEPTH: usize = 16;

/// What a work request of a datagram queue pair's is named by.
const NAME: u64 = 1 << 63;

/// All datagram queue pairs.
pub(super) struct Exchange {
    sides: Vec<Side>,
    /// What has been or is to be sent, by time; answers come in as they are called for.
    sent: Vec<Sent>,
    /// The time of the newest.
    latest: Instant,
}

struct Side {
    qp: Qpn,
    qkey: QKey,
    /// Where each receive is, and what it holds.
    receives: Vec<(usize, usize)>,
    received: usize,
    srq: Option<Srq>,
    /// Sends that may not have ended.
    open: Vec<usize>,
}

struct Sent {
    datagram: Datagram,
    at: Instant,
    /// The handle by which it went.
    ah: Option<Ah>,
    posted: bool,
    /// How often it has arrived.
    arrived: u32,
}

/// The least bytes a host needs for it.
pub(super) fn needs(plan: &Plan, host: usize) -> usize {
    let sides = plan.datagrams.iter().flat_map(|datagrams| datagrams.sides.get(host));
    sides.flat_map(|side| &side.receives).map(|len| len + 64).sum()
}

impl Exchange {
    pub(super) fn new(plan: &Plan, hosts: &mut [Host<'_>]) -> Result<Self, String> {
        let mut exchange = Self { sides: Vec::new(), sent: Vec::new(), latest: Instant::ZERO };
        let Some(datagrams) = &plan.datagrams else { return Ok(exchange) };
        for (host, side) in hosts.iter_mut().zip(&datagrams.sides) {
            let most = u32::try_from(side.receives.len()).unwrap_or(0).max(1);
            let shared = SrqInit { pd: host.pd, max_wr: most, max_sge: 5 };
            let srq = side.srq.then(|| host.engine.create_srq(&shared)).transpose();
            let srq = srq.map_err(|error| error.to_string())?;
            let init = QpInit {
                max_send_wr: u32::try_from(DEPTH).unwrap_or(0),
                max_recv_wr: most,
                max_send_sge: 5,
                max_recv_sge: 5,
                max_inline_data: u16::try_from(MAX_INLINE).unwrap_or(0),
                srq,
                ..QpInit::new(Service::Ud, host.pd, host.send_cq, host.recv_cq)
            };
            let qp = host.engine.create_qp(&init, &mut host.random).map_err(|e| e.to_string())?;
            let sq_psn = Psn::new(0x00ff_fffe);
            for change in [
                ModifyQp::InitUd { pkey: PKey::DEFAULT, qkey: side.qkey },
                ModifyQp::RtrUd,
                ModifyQp::RtsUd { sq_psn },
            ] {
                host.engine.modify_qp(qp, &change).map_err(|error| error.to_string())?;
            }
            let mut receives = Vec::new();
            for (index, len) in side.receives.iter().enumerate() {
                let at = host.take(*len);
                let mr = host.register(at, *len, roce_engine::Access::LOCAL_WRITE)?;
                let len32 = u32::try_from(*len).unwrap_or(0);
                let whole = Sge { va: host.va(at), len: len32, lkey: mr.lkey };
                let sges = elements(if index % 2 == 0 { side.cuts } else { 0 }, whole);
                let wr = RecvWr::new(NAME | u64::try_from(index).unwrap_or(0), &sges);
                let posted = match srq {
                    Some(srq) => host.engine.post_srq_recv(srq, &wr),
                    None => host.engine.post_recv(qp, &wr),
                };
                posted.map_err(|error| error.to_string())?;
                receives.push((at, *len));
            }
            let (qkey, open) = (side.qkey, Vec::new());
            exchange.sides.push(Side { qp, qkey, receives, received: 0, srq, open });
        }
        for datagram in &datagrams.sent {
            let at = Instant(datagram.at_ns);
            exchange.latest = exchange.latest.max(at);
            exchange.sent.push(Sent {
                datagram: *datagram,
                at,
                ah: None,
                posted: false,
                arrived: 0,
            });
        }
        Ok(exchange)
    }

    /// When the next one may be posted.
    pub(super) fn next_time(&self) -> Option<Instant> {
        let waiting = self.sent.iter().filter(|sent| !sent.posted);
        waiting.map(|sent| sent.at).min()
    }

    pub(super) fn arrived(&self) -> u64 {
        self.sent.iter().map(|sent| u64::from(sent.arrived)).sum()
    }

    /// Posts those whose time has come and for which there is room.
    pub(super) fn post(
        &mut self,
        plan: &Plan,
        hosts: &mut [Host<'_>],
        connections: &[(usize, Qpn)],
        now: Instant,
    ) -> Result<(), String> {
        for index in 0..self.sent.len() {
            let Sent { datagram, at, posted, .. } = self.sent[index];
            if posted || at > now {
                continue;
            }
            let Datagram { from, to, len, source, .. } = datagram;
            let room = DEPTH.saturating_sub(self.sides[from].open.len());
            if room == 0 {
                self.sent[index].at = now.add_ns(5_000);
                continue;
            }
            let dest_qpn = match datagram.aim {
                Aim::Datagrams => self.sides[to].qp,
                Aim::Connection => {
                    let there = connections.iter().find(|(host, _)| *host == to);
                    there.map_or(Qpn::new(2), |(_, qp)| *qp)
                }
                Aim::Nobody => Qpn::new(self.sides[to].qp.get() ^ 0x0010_0000),
            };
            let host = &mut hosts[from];
            let path = Path {
                src: host.address,
                dst: address(plan, to),
                next_hop: NextHop(u16::try_from(to).unwrap_or(0)),
                src_port: 0,
                traffic_class: datagram.traffic_class,
                flow_label: if plan.ipv6 { datagram.flow_label } else { 0 },
                hop_limit: datagram.hop_limit,
            };
            let ah = host.engine.create_ah(&path).map_err(|error| error.to_string())?;
            let opcode = datagram.imm.map_or(WrOpcode::Send, WrOpcode::SendWithImm);
            let len32 = u32::try_from(len).unwrap_or(0);
            let whole = Sge { va: host.va(source), len: len32, lkey: host.source_mr.lkey };
            let sges = elements(datagram.cuts, whole);
            let mut wr = SendWr {
                // So that the handles come back in time.
                signaled: datagram.signaled || room < DEPTH / 2,
                solicited: datagram.solicited,
                ..SendWr::new(NAME | u64::try_from(index).unwrap_or(0), opcode, &sges)
            };
            if datagram.inline {
                wr = wr.inline(&host.source[source..source + len]);
            }
            let wr = wr.to(UdAddress { ah, dest_qpn, qkey: datagram.qkey });
            let posted = host.engine.post_send(self.sides[from].qp, &wr);
            posted.map_err(|error| format!("datagram {index} was not taken: {error}"))?;
            self.sides[from].open.push(index);
            self.sent[index].posted = true;
            self.sent[index].ah = Some(ah);
        }
        Ok(())
    }

    /// A send has ended, and all before it have.
    fn send_ended(&mut self, host: &mut Host<'_>, number: usize, wc: &Wc) -> Result<(), String> {
        let side = &mut self.sides[number];
        let index = usize::try_from(wc.wr_id & !NAME).unwrap_or(usize::MAX);
        let at = side.open.iter().position(|open| *open == index).ok_or("out of turn")?;
        if (wc.status, wc.opcode, wc.byte_len) != (WcStatus::Success, WcOpcode::Send, 0) {
            return Err("a datagram is sent and that is it".to_owned());
        }
        let ended: Vec<usize> = side.open.drain(..=at).collect();
        for (place, open) in ended.iter().enumerate() {
            let sent = &mut self.sent[*open];
            if place < at && sent.datagram.signaled {
                return Err(format!("datagram {open} is missing"));
            }
            let ah = sent.ah.take().ok_or("it was not sent")?;
            host.engine.destroy_ah(ah).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Whether a datagram may arrive at a host's queue pair.
    fn is_for(&self, sent: &Sent, number: usize) -> bool {
        let Datagram { from, to, aim, qkey, .. } = sent.datagram;
        let own = qkey.0 & 0x8000_0000 != 0;
        let qkey = if own { self.sides[from].qkey } else { qkey };
        sent.posted && aim == Aim::Datagrams && to == number && qkey == self.sides[number].qkey
    }

    /// A receive has ended: it holds a datagram that was sent here.
    fn receive_ended(
        &mut self,
        plan: &Plan,
        hosts: &mut [Host<'_>],
        number: usize,
        wc: &Wc,
        now: Instant,
    ) -> Result<(), String> {
        let side = &mut self.sides[number];
        let index = usize::try_from(wc.wr_id & !NAME).unwrap_or(usize::MAX);
        if index != side.received {
            return Err(format!("{} receives have been used", side.received));
        }
        side.received += 1;
        let (at, capacity) = *side.receives.get(index).ok_or("there is no such receive")?;
        let total = usize::try_from(wc.byte_len).unwrap_or(usize::MAX);
        if wc.status != WcStatus::Success || wc.opcode != WcOpcode::Recv || total > capacity {
            return Err(format!("a receive of {capacity} bytes"));
        }
        let len = total.checked_sub(GrhArea::LEN).ok_or("no area in front")?;
        let bytes = hosts[number].bytes(at, total)?;
        let (area, payload) = bytes.split_at(GrhArea::LEN);
        let most = if plan.faults.duplicate > 0 { 2 } else { 1 };
        let candidates = (0..self.sent.len()).filter(|which| {
            let sent = &self.sent[*which];
            let Datagram { from, source, imm, solicited, .. } = sent.datagram;
            let headers = (wc.imm, wc.solicited, wc.src_qp, wc.invalidated);
            self.is_for(sent, number)
                && sent.datagram.len == len
                && headers == (imm, solicited, Some(self.sides[from].qp), None)
                && hosts[from].source[source..source + len] == *payload
                && sent.arrived < most
        });
        // Of some that are alike, the one that has arrived least.
        let header = |which: usize| check_area(plan, &self.sent[which].datagram, area);
        let which =
            candidates.min_by_key(|which| (header(*which).is_err(), self.sent[*which].arrived));
        let which = which.ok_or("nobody sent this here")?;
        header(which)?;
        self.sent[which].arrived += 1;
        let datagram = self.sent[which].datagram;
        hosts[number].expect(at, &bytes);
        if datagram.answered {
            let area: [u8; GrhArea::LEN] = area.try_into().map_err(|_| "no area")?;
            let back = GrhArea(area).way_back().ok_or("no way back")?;
            let ways = [back.src, back.dst];
            if ways != [address(plan, number), address(plan, datagram.from)] {
                return Err(format!("the way back is {back:?}"));
            }
            self.answer(datagram, back, now);
        }
        Ok(())
    }

    /// Sends something back, by the traffic class and flow label that it came with.
    fn answer(&mut self, datagram: Datagram, back: Path, now: Instant) {
        let answer = Datagram {
            from: datagram.to,
            to: datagram.from,
            qkey: self.sides[datagram.from].qkey,
            imm: datagram.imm.map(|imm| !imm),
            traffic_class: back.traffic_class & !3,
            flow_label: back.flow_label,
            hop_limit: back.hop_limit,
            inline: false,
            answered: false,
            ..datagram
        };
        self.sent.push(Sent { datagram: answer, at: now, ah: None, posted: false, arrived: 0 });
    }

    /// All is over: what was sent is sent, and what had to arrive did.
    pub(super) fn check_end(&mut self, plan: &Plan, hosts: &mut [Host<'_>]) -> Result<(), String> {
        for (number, (side, host)) in self.sides.iter().zip(hosts).enumerate() {
            let qp = side.qp;
            let info = host.engine.query_qp(qp).map_err(|error| error.to_string())?;
            if info.state != QpState::Rts || info.send_wrs > 0 {
                return Err(format!("host {number}: datagrams end as {info:?}"));
            }
            let left = side.receives.len() - side.received;
            let told = usize::try_from(info.recv_wrs).unwrap_or(0);
            if side.srq.is_none() && told != left {
                return Err(format!("host {number}: {told} receives of {left} are left"));
            }
            if side.open.iter().any(|open| self.sent[*open].datagram.signaled) {
                return Err(format!("host {number}: datagrams were not reported"));
            }
            let mut here = self.sent.iter().filter(|sent| self.is_for(sent, number));
            let generous = side.receives.iter().all(|(_, len)| *len == GrhArea::LEN + MAX_DATAGRAM);
            let enough = generous && here.clone().count() <= side.receives.len();
            if plan.faults == Faults::NONE && enough && here.any(|sent| sent.arrived != 1) {
                return Err(format!("host {number}: a datagram was lost on a perfect wire"));
            }
            host.engine.modify_qp(qp, &ModifyQp::Error).map_err(|error| error.to_string())?;
            let flushed = std::iter::from_fn(|| host.engine.poll_cq(host.recv_cq));
            let flushed: Vec<_> = flushed.map(|wc| (wc.wr_id, wc.status)).collect();
            let rest = (side.received..side.receives.len()).filter(|_| side.srq.is_none());
            let name = |index| (NAME | u64::try_from(index).unwrap_or(0), WcStatus::WrFlush);
            if flushed != rest.map(name).collect::<Vec<_>>() {
                return Err(format!("host {number}: flushed {flushed:?}"));
            }
        }
        Ok(())
    }
}

impl World<'_, '_> {
    /// Takes a completion if it is of a datagram queue pair's.
    pub(super) fn datagram_ended(&mut self, host: usize, wc: &Wc) -> Option<Result<(), String>> {
        let side = self.exchange.sides.get(host).filter(|side| side.qp == wc.qp)?;
        debug_assert_eq!(side.qp, wc.qp);
        Some(if wc.src_qp.is_some() || wc.opcode == WcOpcode::Recv {
            self.exchange.receive_ended(self.plan, &mut self.hosts, host, wc, self.now)
        } else {
            self.exchange.send_ended(&mut self.hosts[host], host, wc)
        })
    }

    pub(super) fn post_datagrams(&mut self) -> Result<(), String> {
        let ends = self.chains.iter().filter_map(|chain| chain.ends.as_ref()).flatten();
        let connections: Vec<_> = ends.map(|end| (end.host, end.qp)).collect();
        self.exchange.post(self.plan, &mut self.hosts, &connections, self.now)
    }
}

/// The area in front of a payload is the IP header that the sender wrote; of one that the wire may
/// have damaged, what the ICRC covers.
fn check_area(plan: &Plan, sent: &Datagram, area: &[u8]) -> Result<(), String> {
    let masked = plan.faults.corrupt > 0;
    let deth_and_imm = if sent.imm.is_some() { 12 } else { 8 };
    // BTH, extension headers, payload, pad, ICRC, behind eight bytes of UDP.
    let udp = 8 + 12 + deth_and_imm + sent.len.next_multiple_of(4) + 4;
    let len = |more| u16::try_from(udp + more).unwrap_or(0).to_be_bytes();
    let (class, hops) = (sent.traffic_class, sent.hop_limit);
    let mut expect = [0; GrhArea::LEN];
    let mut covered = [0xff; GrhArea::LEN];
    match (address(plan, sent.from), address(plan, sent.to)) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let [high, low] = len(20);
            expect[20..32]
                .copy_from_slice(&[0x45, class, high, low, 0, 0, 0x40, 0, hops, 17, 0, 0]);
            expect[32..36].copy_from_slice(&src.octets());
            expect[36..].copy_from_slice(&dst.octets());
            let words =
                expect[20..].chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
            let sum: u32 = words.sum();
            let folded = (sum >> 16) + (sum & 0xffff);
            let folded = (folded >> 16) + (folded & 0xffff);
            let checksum = !u16::try_from(folded).unwrap_or(0);
            expect[30..32].copy_from_slice(&checksum.to_be_bytes());
            for at in [21, 28, 30, 31] {
                covered[at] = 0;
            }
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let first = 6 << 28 | u32::from(class) << 20 | sent.flow_label;
            expect[..4].copy_from_slice(&first.to_be_bytes());
            expect[4..6].copy_from_slice(&len(0));
            expect[6..8].copy_from_slice(&[17, hops]);
            expect[8..24].copy_from_slice(&src.octets());
            expect[24..].copy_from_slice(&dst.octets());
            covered[..4].copy_from_slice(&[0xf0, 0, 0, 0]);
            covered[7] = 0;
        }
        _ => return Err("addresses of two families".to_owned()),
    }
    let mask = |byte: usize| if masked { covered[byte] } else { 0xff };
    let wrong = (0..GrhArea::LEN).find(|at| (area[*at] ^ expect[*at]) & mask(*at) != 0);
    wrong.map_or(Ok(()), |_| Err(format!("the area is {area:02x?} instead of {expect:02x?}")))
}
