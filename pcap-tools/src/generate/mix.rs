//! What a made-up trace is to be, and the connections that it has.

use std::io::{self, Write};

use roce_codec::cm::CommunicationId;
use roce_codec::dcqcn::{NotificationPoint, Params, ReactionPoint};
use roce_codec::ib::{Msn, PKey, PathMtu, Psn, QKey, Qpn, Service};
use roce_codec::net::{VlanTag, flow_label_from_cm_ports, flow_label_from_qpns};

use super::connection::{Connection, End, LINE_RATE_BPS, Setup};
use super::handshake::{Agreement, LISTEN_PORT, Party, RDMA_CM_QKEY};
use super::host::{Host, Route};
use super::random::Random;
use super::traffic::Traffic;
use crate::capture::{CaptureWriter, PacketRecord};

/// QPNs that a place for connections uses in turn: none comes again soon.
const GENERATIONS: u32 = 4;
/// The Q_Key that perftest's datagram queue pairs have.
pub(super) const PERFTEST_QKEY: QKey = QKey(0x1111_1111);

/// What is wanted of a made-up trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mix {
    /// Packets, exactly.
    pub packets: u64,
    /// Which one of all such traces.
    pub seed: u64,
    /// Connections at a time, at most 16,384; 0 for as many as suit the packets, 4 to 64.
    pub flows: u32,
    /// The path MTU of all connections; `None` for several.
    pub mtu: Option<PathMtu>,
    /// Bytes of every message, at most 2²⁰; `None` for a mixture.
    pub payload: Option<u32>,
}

impl Mix {
    /// The most connections at a time.
    pub const MAX_FLOWS: u32 = 1 << 14;
    /// The longest message that can be asked for.
    pub const MAX_PAYLOAD: u32 = 1 << 20;

    /// Connections at a time.
    pub(super) fn places(&self) -> u32 {
        match self.flows {
            0 => u32::try_from(self.packets / 400).unwrap_or(u32::MAX).clamp(4, 64),
            flows => flows.min(Self::MAX_FLOWS),
        }
    }

    /// Writes all packets, as those of interface 0.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write<W: Write>(&self, out: &mut CaptureWriter<W>) -> io::Result<()> {
        let mut traffic = Traffic::new(self);
        while let Some((timestamp_ns, packet)) = traffic.next_packet() {
            out.write(&PacketRecord::new(timestamp_ns, packet))?;
        }
        Ok(())
    }
}

/// What kind of connection a place has.
#[derive(Debug, Clone, Copy)]
struct Character {
    service: Service,
    setup: Setup,
    v6: bool,
    vlan: bool,
    congested: bool,
}

/// The kinds, so that few places show many.
const CHARACTERS: [Character; 12] = {
    const fn of(
        service: Service,
        setup: Setup,
        v6: bool,
        vlan: bool,
        congested: bool,
    ) -> Character {
        Character { service, setup, v6, vlan, congested }
    }
    [
        of(Service::Rc, Setup::Cm, false, false, false),
        of(Service::Rc, Setup::Cm, true, false, true),
        of(Service::Ud, Setup::Cm, false, false, false),
        of(Service::Uc, Setup::Cm, false, false, false),
        of(Service::Rc, Setup::Unseen, false, true, false),
        of(Service::Rc, Setup::Cm, false, true, false),
        of(Service::Rc, Setup::Unseen, true, false, false),
        of(Service::Rc, Setup::Unseen, false, false, false),
        of(Service::Uc, Setup::Unseen, true, true, false),
        of(Service::Rc, Setup::Cm, false, false, true),
        of(Service::Ud, Setup::Unseen, true, false, false),
        of(Service::Rc, Setup::Cm, true, true, false),
    ]
};

/// A place: two hosts, and the connections between them one after another.
#[derive(Debug)]
pub(super) struct Place {
    number: u32,
    generation: u32,
    character: Character,
    pub(super) hosts: [u16; 2],
    pub(super) route: Route,
    pub(super) src_port: u16,
    pub(super) mig_req: bool,
    pub(super) connection: Connection,
}

impl Place {
    /// A place with its first connection.
    pub(super) fn new(number: u32, now_ns: u64, mix: &Mix, random: &mut Random) -> Self {
        let characters = u32::try_from(CHARACTERS.len()).unwrap_or(1);
        let character = usize::try_from(number % characters)
            .ok()
            .and_then(|index| CHARACTERS.get(index))
            .copied()
            .unwrap_or(CHARACTERS[0]);
        // Eight hosts ask, of 64 each; a passive one has at most 64 connections.
        let hosts = [number % 8, 8 + number / 64].map(|host| u16::try_from(host).unwrap_or(8));
        let vlan = character.vlan.then_some(VlanTag::new(3, 100));
        let route = Route { v6: character.v6, vlan, flow_label: 0 };
        let connection = make(number, 0, character, hosts, now_ns, mix, random, None);
        let mut place = Self {
            number,
            generation: 0,
            character,
            hosts,
            route,
            src_port: 0,
            mig_req: !number.is_multiple_of(3),
            connection,
        };
        place.label();
        place
    }

    /// The next connection, once the one before it is closed.
    pub(super) fn renew(&mut self, mix: &Mix, random: &mut Random) {
        self.generation += 1;
        let (number, generation, character) = (self.number, self.generation, self.character);
        let now_ns = self.connection.now_ns + 1_000_000;
        let before = Some(&self.connection);
        self.connection =
            make(number, generation, character, self.hosts, now_ns, mix, random, before);
        self.label();
    }

    /// The flow label and the UDP source port that follows from it.
    fn label(&mut self) {
        self.route.flow_label = self.connection.agreement.flow_label;
        self.src_port = match self.connection.service() {
            Service::Ud => 0,
            _ => roce_codec::net::source_port_from_flow_label(self.route.flow_label),
        };
    }
}

/// Makes the connection of a place and generation.
#[expect(clippy::too_many_arguments, reason = "a connection is all of these, used once")]
fn make(
    number: u32,
    generation: u32,
    character: Character,
    hosts: [u16; 2],
    now_ns: u64,
    mix: &Mix,
    random: &mut Random,
    before: Option<&Connection>,
) -> Connection {
    let turn = generation % GENERATIONS;
    let index = number * GENERATIONS + turn;
    let qpns = [Qpn::new(0x100 + index), Qpn::new(0x2_0000 + index)];
    let mtu = mix.mtu.unwrap_or(match number % 16 {
        3 => PathMtu::Mtu256,
        6 => PathMtu::Mtu512,
        11 => PathMtu::Mtu2048,
        15 => PathMtu::Mtu4096,
        _ => PathMtu::Mtu1024,
    });
    let ends = [0, 1].map(|side| {
        // Multiples of the golden ratio: far from each other, so that no PSN names two queue
        // pairs of one host.
        let spread = (index * 2 + side).wrapping_mul(0x009e_3779);
        let mut psn = Psn::new(spread.wrapping_add(generation / GENERATIONS * 0x0041_0c35));
        let last = before.and_then(|before| {
            before.ends.get(usize::try_from(side).unwrap_or_default()).map(|end| end.psn)
        });
        if last.is_some_and(|last| psn.distance_from(last).unsigned_abs() < 1 << 16) {
            psn = psn.add(1 << 18);
        }
        let [active, passive] = qpns;
        End {
            qpn: if side == 0 { active } else { passive },
            psn,
            msn: Msn::new(0),
            resources: [1, 4, 8, 16][usize::try_from(random.below(4)).unwrap_or_default()],
            rkey: random.u32() | 0x100,
            va: 0x7f00_0000_0000 + u64::from(random.below(1 << 12)) * 0x100_0000,
            rate: ReactionPoint::new(&Params::PAPER, LINE_RATE_BPS),
            marks: NotificationPoint::new(),
        }
    });
    let mut parties = [0, 1].map(|side: usize| Party {
        host: Host::new(hosts[side]),
        qpn: ends[side].qpn,
        psn: ends[side].psn,
        comm_id: CommunicationId(random.u32() | 1),
        resources: ends[side].resources,
    });
    let port = 0x8000 | u16::try_from(index & 0x7fff).unwrap_or_default();
    let flow_label = match character.setup {
        Setup::Cm => flow_label_from_cm_ports(port, LISTEN_PORT),
        Setup::Unseen => flow_label_from_qpns(qpns[0], qpns[1]),
    };
    let rdma_cm = character.setup == Setup::Cm;
    if character.service == Service::Uc {
        for party in &mut parties {
            party.resources = 0;
        }
    }
    let agreement = Agreement {
        service: character.service,
        parties,
        v6: character.v6,
        mtu,
        pkey: if number % 5 == 4 { PKey(0x8005) } else { PKey::DEFAULT },
        flow_label,
        port,
        credits: character.service == Service::Rc && number.is_multiple_of(2),
        transaction_id: random.u64(),
    };
    let qkey = if rdma_cm { RDMA_CM_QKEY } else { PERFTEST_QKEY };
    let life = random.ns(1_000, 15_000);
    Connection::new(agreement, character.setup, ends, qkey, character.congested, life, now_ns)
}
