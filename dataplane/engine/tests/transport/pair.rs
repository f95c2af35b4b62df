//! Two engines and a wire, on a virtual clock.

use std::collections::VecDeque;

use roce_codec::ib::Psn;
use roce_codec::net::{MacAddr, VlanStack};
use roce_codec::{Crc, Start};
use roce_engine::{Instant, LinkHeader, Rx};

use crate::host::{Host, Setup};
use crate::packet::Packet;

/// One way over the wire takes this long.
const WIRE_NS: u64 = 2_000;

/// Two hosts whose queue pairs are connected.
pub(crate) struct Pair {
    pub(crate) hosts: [Host; 2],
    pub(crate) now: Instant,
    /// Packets of each side's that were sent, in order.
    pub(crate) log: [Vec<Packet>; 2],
    wire: VecDeque<(Instant, usize, Vec<u8>)>,
    lost: Vec<(usize, u32)>,
}

impl Pair {
    pub(crate) fn new(setup: Setup) -> Self {
        let mut hosts = [Host::new(&setup), Host::new(&setup)];
        // What one sends first is what the other expects first.
        let other = Setup { rq_psn: setup.sq_psn, sq_psn: setup.rq_psn, ..setup };
        let path = setup.addresses();
        let qps = [hosts[0].qp, hosts[1].qp];
        let sides = [(setup, path, qps[1]), (other, [path[1], path[0]], qps[0])];
        for (host, (setup, path, dest)) in hosts.iter_mut().zip(sides) {
            host.init(&setup);
            host.rtr(&setup, dest, path);
            host.rts(&setup);
        }
        Self {
            hosts,
            now: Instant::ZERO,
            log: [Vec::new(), Vec::new()],
            wire: VecDeque::new(),
            lost: Vec::new(),
        }
    }

    /// The next packet of a side's with this PSN is lost; several times for several losses.
    pub(crate) fn lose(&mut self, side: usize, psn: u32) {
        self.lost.push((side, psn));
    }

    /// Runs until nothing is on the wire and no timer is armed, for at most a minute.
    pub(crate) fn run(&mut self) {
        let minute = self.now.add_ns(60_000_000_000);
        self.run_until(minute);
        let timers = self.hosts.iter().any(|host| host.engine.poll_timeout().is_some());
        assert!(!timers && self.wire.is_empty(), "it does not come to rest");
        assert!(self.lost.is_empty(), "not sent, so not lost: {:?}", self.lost);
        for host in &self.hosts {
            host.check_counters();
        }
    }

    /// Runs for this long.
    pub(crate) fn run_for(&mut self, ns: u64) {
        let end = self.now.add_ns(ns);
        self.run_until(end);
        self.now = end;
    }

    /// Runs until nothing is left to happen before `end`.
    fn run_until(&mut self, end: Instant) {
        loop {
            self.transmit();
            let timers = self.hosts.iter().filter_map(|host| host.engine.poll_timeout());
            let next = timers.chain(self.wire.front().map(|frame| frame.0)).min();
            let Some(next) = next.filter(|next| *next < end) else { return };
            self.now = self.now.max(next);
            self.deliver();
            for host in &mut self.hosts {
                let _ = host.engine.handle_timeout(self.now);
            }
        }
    }

    fn transmit(&mut self) {
        let link = LinkHeader {
            dst: MacAddr([2, 0, 0, 0, 0, 2]),
            src: MacAddr([2, 0, 0, 0, 0, 1]),
            vlans: VlanStack::EMPTY,
        };
        let dest = [self.hosts[1].qp, self.hosts[0].qp];
        for (side, host) in self.hosts.iter_mut().enumerate() {
            while let Some(transmit) = host.engine.poll_transmit(self.now) {
                let mut out = vec![0; 5000];
                let len =
                    transmit.emit::<Crc, _>(&host.engine, &link, &host.memory, &mut out).unwrap();
                out.truncate(len);
                let packet = Packet::from_bytes(&out, Start::Ethernet, dest[side]);
                let psn = packet.psn;
                self.log[side].push(packet);
                let lost = self.lost.iter().position(|lost| *lost == (side, psn.get()));
                match lost {
                    Some(at) => drop(self.lost.remove(at)),
                    None => self.wire.push_back((self.now.add_ns(WIRE_NS), side, out)),
                }
            }
        }
    }

    fn deliver(&mut self) {
        while self.wire.front().is_some_and(|frame| frame.0 <= self.now) {
            let Some((_, side, bytes)) = self.wire.pop_front() else { return };
            let host = &mut self.hosts[1 - side];
            let rx = Rx { segments: [&bytes, &[]], start: Start::Ethernet, icrc_verified: false };
            host.engine.handle_burst(self.now, &[rx], &host.memory);
        }
    }

    /// PSNs that a side sent, in order.
    pub(crate) fn psns(&self, side: usize) -> Vec<Psn> {
        self.log[side].iter().map(|packet| packet.psn).collect()
    }
}
