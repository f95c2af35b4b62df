//! The hostile client: valid frames, bent; frames that aim at one step; and answers that nobody
//! would give.

use std::collections::{BTreeMap, HashMap};
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
use crate::aimed::Step;
use crate::client::{Client, Key, MTU, OUT_READS};

/// Connections that it has at a time to each service.
const CONNECTIONS: usize = 2;
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
    pub(crate) sent: u64,
    /// Connections made.
    pub(crate) connections: u64,
    /// NAKs that came back, by syndrome.
    pub(crate) naks: BTreeMap<u8, u64>,
    /// Answers to what the server asks, to go out next.
    replies: Vec<Vec<u8>>,
    /// Aimed frames so far.
    aimed: usize,
}

/// What a service is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Write,
    Read,
    Send,
    Add,
    /// It answers SENDs.
    Prey,
}

/// One connection to the server.
struct Target {
    port: u16,
    work: Work,
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
            sent: 0,
            connections: 0,
            naks: BTreeMap::new(),
            replies: Vec::new(),
            aimed: 0,
        };
        let ports = options.ports.iter().chain(&options.prey).copied();
        for (number, port) in ports.cycle().take(CONNECTIONS * (4 + options.prey.len())).enumerate()
        {
            let target = intruder.connect(number, port)?;
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
        let work = match self.options.ports.iter().position(|other| *other == port) {
            Some(0) => Work::Write,
            Some(1) => Work::Read,
            Some(2) => Work::Send,
            Some(_) => Work::Add,
            None => Work::Prey,
        };
        Ok(Target { port, work, client, expected: key.psn, silent: 0, is_dead: false })
    }

    /// The next frames; connects again first if it has been thrown out.
    pub(crate) fn frames(&mut self) -> Result<Vec<Vec<u8>>, String> {
        let mut frames = std::mem::take(&mut self.replies);
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
        let addresses = [self.options.hostile, self.options.server];
        let server = target.client.server;
        let random = &mut self.random;
        // Two in five, so that each step is aimed at more than once in a hundred frames, whatever the
        // answers that are sent besides.
        if random.below_u32(5) < 2 {
            let step = Step::ALL[self.aimed % Step::ALL.len()];
            self.aimed += 1;
            let mut fair = fair(target.work, addresses, &server, target.expected);
            fair.macs = self.macs;
            frames.extend(step.frames(random, &fair));
        } else if target.work == Work::Prey && random.one_in(2) {
            // So that it has something to ask of us.
            let mut fair = fair(target.work, addresses, &server, target.expected);
            fair.macs = self.macs;
            frames.push(fair.frame());
        } else {
            let mut packet =
                valid(random, addresses, &server, target.expected, self.options.region);
            packet.macs = self.macs;
            let mut frame = packet.frame();
            if !random.one_in(4) {
                mutate(random, &mut frame);
            }
            frames.push(frame);
        }
        self.sent += u64::try_from(frames.len()).unwrap_or(0);
        Ok(frames)
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
        target.silent = 0;
        if frame.info().is_request() {
            let server = target.client.server;
            self.reply(server.qpn, frame.psn());
            return;
        }
        let Some(aeth) = frame.aeth() else { return };
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
            *self.naks.entry(aeth.syndrome.0).or_insert(0) += 1;
        }
        if next.is_after(target.expected) {
            target.expected = next;
        }
    }

    /// Answers a request of the server's as nobody would: NAKs twice, reserved syndromes, and
    /// now and then an ACK, so that it goes on.
    fn reply(&mut self, server: Qpn, psn: Psn) {
        let addresses = [self.options.hostile, self.options.server];
        let mut packet = Packet::new(addresses, Opcode::RC_ACKNOWLEDGE, server, psn);
        packet.macs = self.macs;
        for syndrome in [0x60, 0x60, 0x60, 0x65, 0x21, 0x60, 0x40, 0x1f] {
            packet.ext.aeth = Some(Aeth { syndrome: Syndrome(syndrome), msn: Msn::new(0) });
            self.replies.push(packet.frame());
        }
        if self.random.one_in(4) {
            let syndrome = Syndrome(self.random.pick(&[0x61, 0x62, 0x63, 0x64]));
            packet.ext.aeth = Some(Aeth { syndrome, msn: Msn::new(0) });
            let at = self.random.index(self.replies.len());
            self.replies.insert(at, packet.frame());
        }
    }
}

/// A request that the service takes.
fn fair(work: Work, addresses: [Ipv4Addr; 2], server: &Key, psn: Psn) -> Packet {
    use Opcode as O;
    let packet = |opcode| Packet::new(addresses, opcode, server.qpn, psn).ask();
    match work {
        Work::Write => {
            packet(O::RC_RDMA_WRITE_ONLY).reth(server.va, server.rkey, 4).payload(vec![1; 4])
        }
        Work::Read => packet(O::RC_RDMA_READ_REQUEST).reth(server.va, server.rkey, 4),
        Work::Add => packet(O::RC_FETCH_ADD).atomic(server.va, server.rkey, 1, 0),
        Work::Send | Work::Prey => packet(O::RC_SEND_ONLY).payload(vec![1; 4]),
    }
}

/// A packet that the server may well take as it stands.
fn valid(
    random: &mut Random,
    addresses: [Ipv4Addr; 2],
    server: &Key,
    expected: Psn,
    region: usize,
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
    let region = u64::try_from(region).unwrap_or(0);
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
