//! How each [`Aim`] is attacked.

mod arrival;
mod fair;
mod ordering;
mod refusal;

use std::net::Ipv4Addr;

use roce_codec::ib::{Opcode, Psn, Qpn, RKey};
use roce_engine::{Access, QpState, SendWr, Sge, WrOpcode};

use super::Siege;
use super::aim::{Aim, Met};
use super::packet::Packet;
use super::target::{Areas, MTU};

/// An attack: frames that lead up to it, and the one that must meet what it aims at.
pub(super) struct Shot {
    pub(super) before: Vec<Vec<u8>>,
    pub(super) last: Vec<u8>,
    /// The PSN that the answer names.
    pub(super) psn: Psn,
    /// A key that is taken away when the first answer is out.
    pub(super) dies: Option<RKey>,
    /// All frames come in one burst.
    pub(super) at_once: bool,
}

impl Shot {
    fn new(last: &Packet) -> Self {
        Self::behind(&[], last)
    }

    fn behind(before: &[Packet], last: &Packet) -> Self {
        let before = before.iter().map(Packet::frame).collect();
        Self { before, ..Self::raw(last.frame(), last.bth.psn) }
    }

    fn raw(last: Vec<u8>, psn: Psn) -> Self {
        Self { before: Vec::new(), last, psn, dies: None, at_once: false }
    }
}

/// A queue pair that has just been connected, and fair packets for it.
#[derive(Debug, Clone, Copy)]
struct Ground {
    addresses: [Ipv4Addr; 2],
    qp: Qpn,
    /// What it expects, and what it sends next.
    psn: Psn,
    own: Psn,
    areas: Areas,
}

impl Ground {
    fn packet(&self, opcode: Opcode, psn: Psn) -> Packet {
        Packet::new(self.addresses, opcode, self.qp, psn)
    }

    /// A WRITE of four bytes that asks for an answer.
    fn write(&self, psn: Psn) -> Packet {
        let all = self.areas.all;
        self.packet(Opcode::RC_RDMA_WRITE_ONLY, psn)
            .reth(all.va, all.rkey, 4)
            .payload(vec![1; 4])
            .ask()
    }

    /// The first of three packets of a WRITE.
    fn write_first(&self) -> Packet {
        let all = self.areas.all;
        self.packet(Opcode::RC_RDMA_WRITE_FIRST, self.psn)
            .reth(all.va, all.rkey, 3 * MTU.bytes())
            .payload(vec![1; Self::mtu()])
    }

    fn read(&self, psn: Psn, len: u32) -> Packet {
        let all = self.areas.all;
        self.packet(Opcode::RC_RDMA_READ_REQUEST, psn).reth(all.va, all.rkey, len)
    }

    fn flush(&self, psn: Psn) -> Packet {
        let all = self.areas.all;
        self.packet(Opcode::RC_FLUSH, psn).feth(1).reth(all.va, all.rkey, 8)
    }

    fn atomic_write(&self, psn: Psn) -> Packet {
        let all = self.areas.all;
        let packet = self.packet(Opcode::RC_ATOMIC_WRITE, psn);
        packet.reth(all.va, all.rkey, 8).payload(vec![14; 8])
    }

    fn mtu() -> usize {
        usize::try_from(MTU.bytes()).unwrap_or(0)
    }
}

impl Siege<'_> {
    /// Prepares an attack.
    pub(super) fn shot(&mut self, aim: Aim) -> Shot {
        let qp = self.queue_pairs.full;
        let [psn, own] = self.connect(qp, Access::ALL, QpState::Rts);
        let addresses = self.addresses();
        let ground = Ground { addresses, qp, psn, own, areas: self.target.areas };
        match aim {
            Aim::OutOfSequence
            | Aim::BehindRnr
            | Aim::StaleDuplicate
            | Aim::UnexpectedResponse
            | Aim::RepeatedNak
            | Aim::ReservedSyndrome
            | Aim::FatalNak
            | Aim::BadResponse
            | Aim::Gap
            | Aim::NoReceive => self.ordering_shot(aim, &ground),
            _ => match aim.met() {
                Met::Drop(_) => self.arrival_shot(aim, &ground),
                Met::Answer(_) | Met::Completion => self.fair_shot(aim, &ground),
                Met::Syndrome(0x61) => self.invalid_shot(aim, &ground),
                Met::Syndrome(_) => self.access_shot(aim, &ground),
            },
        }
    }

    /// Makes the responder ask something of the hostile client.
    pub(super) fn ask_peer(&mut self, qp: Qpn, opcode: WrOpcode, len: u32) {
        let local = self.target.areas.local;
        let sge = Sge { va: local.va, len, lkey: local.lkey };
        let sges = [sge];
        let wr = SendWr::new(0, opcode, &sges);
        // A full queue asks enough already.
        let _ = self.target.engine.post_send(qp, &wr);
    }
}
