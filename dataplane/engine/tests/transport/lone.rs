//! An engine whose peer is the test.

use roce_codec::ib::{Psn, Qpn, RKey};
use roce_codec::net::{MacAddr, VlanStack};
use roce_codec::{Crc, Start};
use roce_engine::{DropReason, HwCounter, Instant, LinkHeader, QpState, Rx, TransmitError};

use crate::host::{Host, Setup};
use crate::packet::Packet;

pub(crate) const PEER_QPN: Qpn = Qpn::new(0x77);

/// A host, connected to a peer that only the test plays.
pub(crate) struct Lone {
    pub(crate) host: Host,
    pub(crate) setup: Setup,
    pub(crate) now: Instant,
}

impl Lone {
    /// Ready to send and to receive.
    pub(crate) fn new() -> Self {
        Self::with(Setup::DEFAULT)
    }

    pub(crate) fn with(setup: Setup) -> Self {
        let mut lone = Self::ready_to_receive(setup);
        lone.host.rts(&setup);
        lone
    }

    pub(crate) fn ready_to_receive(setup: Setup) -> Self {
        let mut host = Host::new(&setup);
        host.init(&setup);
        host.rtr(&setup, PEER_QPN, setup.addresses());
        Self { host, setup, now: Instant::ZERO }
    }

    pub(crate) fn rkey(&self) -> RKey {
        self.host.mr.rkey
    }

    /// Delivers packets as one burst.
    pub(crate) fn burst(&mut self, packets: &[Packet]) {
        let bytes: Vec<_> = packets.iter().map(|packet| self.frame(packet)).collect();
        self.burst_bytes(&bytes);
    }

    pub(crate) fn burst_bytes(&mut self, frames: &[Vec<u8>]) {
        self.burst_as(frames, Start::Ip);
    }

    pub(crate) fn burst_as(&mut self, frames: &[Vec<u8>], start: Start) {
        let burst: Vec<_> = frames
            .iter()
            .map(|bytes| Rx { segments: [bytes, &[]], start, icrc_verified: false })
            .collect();
        self.host.engine.handle_burst(self.now, &burst, &self.host.memory);
        self.host.check_counters();
    }

    pub(crate) fn receives(&mut self, packet: Packet) {
        self.burst(&[packet]);
    }

    /// The bytes of a packet from the peer.
    pub(crate) fn frame(&self, packet: &Packet) -> Vec<u8> {
        let [own, peer] = self.setup.addresses();
        packet.to_bytes(peer, own, self.host.qp)
    }

    /// Delivers a packet and returns what the engine then sends.
    pub(crate) fn answers(&mut self, packet: Packet) -> Vec<Packet> {
        self.receives(packet);
        self.sends()
    }

    /// Everything the engine sends now.
    pub(crate) fn sends(&mut self) -> Vec<Packet> {
        std::iter::from_fn(|| self.sends_one()).collect()
    }

    /// The next packet the engine sends.
    pub(crate) fn sends_one(&mut self) -> Option<Packet> {
        let link = LinkHeader {
            dst: MacAddr([2, 0, 0, 0, 0, 2]),
            src: MacAddr([2, 0, 0, 0, 0, 1]),
            vlans: VlanStack::EMPTY,
        };
        loop {
            let transmit = self.host.engine.poll_transmit(self.now)?;
            let mut out = vec![0; 5000];
            match transmit.emit::<Crc, _>(&self.host.engine, &link, &self.host.memory, &mut out) {
                Ok(len) => {
                    return Some(Packet::from_bytes(&out[..len], Start::Ethernet, PEER_QPN));
                }
                Err(TransmitError::Backing(_)) => self.host.engine.transmit_failed(&transmit),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Lets time pass and serves timers.
    pub(crate) fn wait(&mut self, ns: u64) {
        self.now = self.now.add_ns(ns);
        while self.host.engine.handle_timeout(self.now) == roce_engine::More::Yes {}
    }

    pub(crate) fn dropped(&self, reason: DropReason) -> u64 {
        self.host.engine.counters().dropped(reason)
    }

    pub(crate) fn count(&self, counter: HwCounter) -> u64 {
        self.host.engine.counters().event(counter)
    }

    pub(crate) fn state(&self) -> QpState {
        self.host.engine.query_qp(self.host.qp).unwrap().state
    }

    pub(crate) fn expects(&self, psn: u32) -> bool {
        let info = self.host.engine.query_qp(self.host.qp).unwrap();
        info.expected_psn == Psn::new(psn)
    }
}
