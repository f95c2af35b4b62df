//! The hostile client: valid frames, bent.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use roce_codec::Frame;
use roce_codec::ib::{
    Aeth, AethKind, AtomicAckEth, ImmDt, Msn, NakCode, Opcode, Psn, Qpn, Syndrome,
};
use roce_codec::net::MacAddr;
use roce_testbed::hostile::mutate::mutate;
use roce_testbed::hostile::packet::Packet;
use roce_testbed::random::Random;

use crate::Options;
use crate::client::{Client, Key, MTU, OUT_READS};

/// Connections that it has at a time: two to each service.
const CONNECTIONS: usize = 8;
/// Frames without an answer after which it looks whether the connection still stands.
const SILENCE: u32 = 64;

/// The hostile client.
pub(crate) struct Intruder {
    options: Options,
    macs: [MacAddr; 2],
    random: Random,
    targets: Vec<Target>,
    /// Which target a queue pair number of ours stands for.
    by_qpn: HashMap<u32, usize>,
    /// Frames sent.
    pub(crate) frames: u64,
    /// Connections made.
    pub(crate) connections: u64,
    /// NAKs that came back.
    pub(crate) naks: u64,
}

/// One connection to the server.
struct Target {
    port: u16,
    client: Client,
    /// What the server's queue pair expects next, as far as it has told.
    expected: Psn,
    silent: u32,
    is_dead: bool,
}

impl Intruder {
    pub(crate) fn new(options: &Options, macs: [MacAddr; 2]) -> Result<Self, String> {
        let mut intruder = Self {
            options: options.clone(),
            macs,
            random: Random::new(options.seed),
            targets: Vec::new(),
            by_qpn: HashMap::new(),
            frames: 0,
            connections: 0,
            naks: 0,
        };
        for number in 0..CONNECTIONS {
            let target = intruder.connect(number, options.ports[number % options.ports.len()])?;
            intruder.targets.push(target);
        }
        Ok(intruder)
    }

    fn connect(&mut self, number: usize, port: u16) -> Result<Target, String> {
        self.by_qpn.retain(|_, other| *other != number);
        let key = Key {
            // Apart from those of the honest client.
            qpn: Qpn::new(0x80_0000 | self.random.below_u32(0x7f_ffff)),
            psn: Psn::new(self.random.below_u32(1 << 24)),
            rkey: roce_codec::ib::RKey(7),
            va: 0x1000,
            out_reads: OUT_READS,
        };
        let client = Client::connect((self.options.server, port), self.options.hostile, &key)?;
        self.by_qpn.insert(key.qpn.get(), number);
        self.connections += 1;
        Ok(Target { port, client, expected: key.psn, silent: 0, is_dead: false })
    }

    /// The next frame; connects again first if it has been thrown out.
    pub(crate) fn frame(&mut self) -> Result<Vec<u8>, String> {
        let number = self.random.index(self.targets.len());
        let target = &mut self.targets[number];
        if target.silent >= SILENCE {
            target.silent = 0;
            target.is_dead |= target.client.is_over();
        }
        if target.is_dead {
            let port = target.port;
            self.targets[number] = self.connect(number, port)?;
        }
        let target = &mut self.targets[number];
        target.silent += 1;
        self.frames += 1;
        let addresses = [self.options.hostile, self.options.server];
        let mut packet = valid(
            &mut self.random,
            addresses,
            &target.client.server,
            target.expected,
            &self.options,
        );
        packet.macs = self.macs;
        let mut frame = packet.frame();
        if !self.random.one_in(4) {
            mutate(&mut self.random, &mut frame);
        }
        Ok(frame)
    }

    /// Learns from what the server answers.
    pub(crate) fn receive(&mut self, frame: &Frame<'_>) {
        let Some(target) = self
            .by_qpn
            .get(&frame.dest_qp().get())
            .and_then(|number| self.targets.get_mut(*number))
        else {
            return;
        };
        let Some(aeth) = frame.aeth() else { return };
        target.silent = 0;
        let next = match aeth.syndrome.kind() {
            AethKind::Ack(_) => frame.psn().next(),
            AethKind::RnrNak(_) | AethKind::Nak(NakCode::PsnSequenceError) => frame.psn(),
            AethKind::Nak(_) => {
                target.is_dead = true;
                frame.psn()
            }
            AethKind::Reserved => return,
        };
        if !matches!(aeth.syndrome.kind(), AethKind::Ack(_)) {
            self.naks += 1;
        }
        if next.is_after(target.expected) {
            target.expected = next;
        }
    }
}

/// A packet that the server may well take as it stands.
fn valid(
    random: &mut Random,
    addresses: [Ipv4Addr; 2],
    server: &Key,
    expected: Psn,
    options: &Options,
) -> Packet {
    use Opcode as O;
    let opcode = random.pick(&[
        O::RC_SEND_ONLY,
        O::RC_SEND_FIRST,
        O::RC_SEND_LAST,
        O::RC_RDMA_WRITE_ONLY,
        O::RC_RDMA_WRITE_ONLY,
        O::RC_RDMA_WRITE_ONLY_IMM,
        O::RC_RDMA_WRITE_FIRST,
        O::RC_RDMA_READ_REQUEST,
        O::RC_RDMA_READ_REQUEST,
        O::RC_FETCH_ADD,
        O::RC_COMPARE_SWAP,
        O::RC_ACKNOWLEDGE,
        O::RC_RDMA_READ_RESPONSE_ONLY,
    ]);
    let psn = match random.below(8) {
        0 => expected.sub(1 + random.below_u32(8)),
        1 => expected.add(1 + random.below_u32(8)),
        _ => expected,
    };
    let region = u64::try_from(options.region).unwrap_or(0);
    let offset = random.below(region);
    let va = server.va + offset;
    let mtu = usize::try_from(MTU.bytes()).unwrap_or(0);
    let room = usize::try_from(region - offset).unwrap_or(0).min(mtu);
    let len = random.index(room + 1);
    let size = u32::try_from(len).unwrap_or(0);
    let fill = random.bits().to_le_bytes()[0];
    let mut packet = Packet::new(addresses, opcode, server.qpn, psn);
    packet.ext.aeth = Some(Aeth { syndrome: Syndrome(0x1f), msn: Msn::new(0) });
    packet.ext.atomic_ack_eth = Some(AtomicAckEth { original: 1 });
    packet.ext.imm_dt = Some(ImmDt(3));
    packet.bth.ack_req = random.one_in(2);
    match opcode {
        O::RC_RDMA_READ_REQUEST => packet.reth(va, server.rkey, size * random.below_u32(8)),
        O::RC_FETCH_ADD | O::RC_COMPARE_SWAP => packet.atomic(va & !7, server.rkey, 1, 0),
        O::RC_SEND_FIRST => packet.payload(vec![fill; mtu]),
        O::RC_RDMA_WRITE_FIRST => {
            packet.reth(server.va, server.rkey, 3 * MTU.bytes()).payload(vec![fill; mtu])
        }
        O::RC_ACKNOWLEDGE => packet,
        _ => packet.reth(va, server.rkey, size).payload(vec![fill; len]),
    }
}
