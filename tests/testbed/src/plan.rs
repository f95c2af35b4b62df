//! What happens in a world, drawn from a seed.

mod datagrams;
mod memory;
mod poison;
mod windows;

use roce_codec::ib::{PathMtu, Psn};
use roce_engine::{Access, Rate, Recovery};

use crate::random::Random;
use crate::wire::Faults;

pub use datagrams::{Aim, Datagram, Datagrams, MAX_DATAGRAM};
pub use memory::MAX_INLINE;
pub use poison::Poison;

/// A world: how its wires are, and who talks to whom.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where it all came from.
    pub seed: u64,
    /// Engines, 2 or 3.
    pub hosts: usize,
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
    /// Faults on every wire.
    pub faults: Faults,
    /// Time a frame is on the wire.
    pub latency_ns: u64,
    /// The longest a delayed frame is late.
    pub max_delay_ns: u64,
    /// Wires become perfect for a queue pair that has used up half of its retries, so that no
    /// request may fail for want of them.
    pub mercy: bool,
    /// Packets in flight.
    pub window: u32,
    /// Packets after which a requester asks for an acknowledgement.
    pub ack_interval: u32,
    /// What responders do with packets behind a gap, and how many they have room for.
    pub recovery: Recovery,
    /// Packets that a host has room for behind gaps.
    pub held: usize,
    /// How fast READ answers go.
    pub read_rate: Rate,
    /// The connections, in chains: the next of a chain begins when the last has ended.
    pub chains: Vec<Vec<Connection>>,
    /// What goes between datagram queue pairs meanwhile.
    pub datagrams: Option<Datagrams>,
}

/// Two queue pairs and what they ask of each other.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The hosts of its two sides.
    pub hosts: [usize; 2],
    /// Path MTU.
    pub path_mtu: PathMtu,
    /// The acknowledge timeout's code.
    pub timeout: u8,
    /// Retries without progress.
    pub retry_cnt: u8,
    /// The RNR timer's code.
    pub rnr_timer: u8,
    /// Whether it takes over the queue pairs of the connection before it in the chain.
    pub reuse: bool,
    /// The two sides.
    pub sides: [Side; 2],
}

/// What one side asks of the other, and what it offers.
#[derive(Debug, Clone)]
pub struct Side {
    /// The first PSN it sends.
    pub psn: Psn,
    /// READs and atomics it may have outstanding; the other side keeps as many.
    pub max_rd_atomic: u8,
    /// What the other side may do by way of this side's queue pair.
    pub access: Access,
    /// Requests, in the order they are posted.
    pub requests: Vec<Request>,
    /// Bytes of the other side's memory that its requests are about.
    pub remote_len: usize,
    /// Receives that this side posts for the other's requests: their capacity.
    pub receives: Vec<usize>,
    /// Whether receives are posted only after a while.
    pub late: bool,
    /// Whether its receives are those of a shared queue, which it alone takes from: they are not
    /// flushed, so that all have to be used.
    pub srq: bool,
    /// Whether it opens memory windows to the other side.
    pub windows: bool,
    /// Where its receives are cut into scatter-gather elements, four times sixteen bits; 0 if
    /// they are of one element.
    pub cuts: u64,
}

/// A request.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// What it does.
    pub kind: Kind,
    /// Bytes.
    pub len: usize,
    /// Where in the requester's data its payload lies.
    pub source: usize,
    /// Where in the remote memory it goes.
    pub remote: usize,
    /// Immediate data, and an atomic's operand.
    pub operand: u64,
    /// Whether its success is reported.
    pub signaled: bool,
    /// Whether the receiver is woken.
    pub solicited: bool,
    /// Why it cannot succeed.
    pub poison: Option<Poison>,
    /// Where its memory is cut into scatter-gather elements, four times sixteen bits; 0 if it is
    /// one element.
    pub cuts: u64,
    /// Whether its bytes are handed over with it.
    pub inline: bool,
    /// Whether it waits for the READs and atomics before it.
    pub fence: bool,
}

impl Request {
    /// Whether it cannot do without a key.
    const fn needs_key(&self) -> bool {
        let kind = self.kind;
        matches!(kind, Kind::SendInv | Kind::Flush)
            || !kind.is_send() && !kind.is_local() && self.len > 0
    }
}

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// SEND.
    Send,
    /// SEND with immediate.
    SendImm,
    /// SEND with invalidate.
    SendInv,
    /// WRITE.
    Write,
    /// WRITE with immediate.
    WriteImm,
    /// READ.
    Read,
    /// COMPARE SWAP with what the model says is there.
    Swap,
    /// COMPARE SWAP with something else.
    SwapMiss,
    /// FETCH ADD.
    Add,
    /// ATOMIC WRITE.
    AtomicWrite,
    /// FLUSH.
    Flush,
    /// Bind a memory window; which one, to what, its turn will tell.
    Bind,
    /// Take a key of one's own away.
    Invalidate,
}

impl Kind {
    /// All that packets carry.
    pub const ALL: [Self; 11] = [
        Self::Send,
        Self::SendImm,
        Self::SendInv,
        Self::Write,
        Self::WriteImm,
        Self::Read,
        Self::Swap,
        Self::SwapMiss,
        Self::Add,
        Self::AtomicWrite,
        Self::Flush,
    ];

    /// Whether no packet carries it.
    #[must_use]
    pub const fn is_local(self) -> bool {
        matches!(self, Self::Bind | Self::Invalidate)
    }

    /// Whether it takes a receive.
    #[must_use]
    pub const fn takes_receive(self) -> bool {
        self.is_send() || matches!(self, Self::WriteImm)
    }

    /// Whether it is a SEND.
    #[must_use]
    pub const fn is_send(self) -> bool {
        matches!(self, Self::Send | Self::SendImm | Self::SendInv)
    }

    /// Whether it is of eight aligned bytes.
    #[must_use]
    pub const fn is_word(self) -> bool {
        self.is_atomic() || matches!(self, Self::AtomicWrite)
    }

    /// Whether it is an atomic.
    #[must_use]
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::Swap | Self::SwapMiss | Self::Add)
    }

    /// Whether it writes the remote memory from a payload.
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WriteImm | Self::AtomicWrite)
    }
}

/// Random bytes that payloads are taken from, a host.
pub const SOURCE_LEN: usize = 96 << 10;

/// Most bytes of one request.
const MAX_LEN: usize = 64 << 10;

impl Plan {
    /// Draws a plan.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let hosts = if random.one_in(6) { 3 } else { 2 };
        let (faults, mercy) = draw_faults(random);
        let latency_ns = random.pick(&[500, 2_000, 10_000, 50_000]);
        let mut plan = Self {
            seed,
            hosts,
            ipv6: random.one_in(4),
            faults,
            latency_ns,
            max_delay_ns: latency_ns * random.pick(&[5, 20, 60]),
            mercy,
            window: random.pick(&[1, 2, 3, 8, 16, 64, 128]),
            ack_interval: random.pick(&[1, 4, 32, 1000]),
            recovery: Recovery::GoBackN,
            held: 0,
            read_rate: Rate::UNLIMITED,
            chains: Vec::new(),
            datagrams: None,
        };
        for _ in 0..random.within(1, 3) {
            let count = random.pick(&[1, 1, 2, 3]);
            let mut chain: Vec<Connection> = Vec::new();
            for _ in 0..count {
                let mut connection = draw_connection(random, &plan);
                match chain.last() {
                    Some(last) if connection.reuse => connection.hosts = last.hosts,
                    _ => connection.reuse = false,
                }
                chain.push(connection);
            }
            plan.chains.push(chain);
        }
        if random.one_in(2) {
            plan.recovery = Recovery::SelectiveAccept;
            plan.held = random.pick(&[1, 8, 64, 256]);
        }
        if random.one_in(4) {
            // Slow, but a packet comes well within a timeout.
            let bytes_per_second = random.pick(&[20_000_000, 200_000_000]);
            plan.read_rate = Rate { bytes_per_second, burst: random.pick(&[0, 20_000]) };
        }
        let lists = random.one_in(2);
        if random.one_in(2) {
            windows::draw(random, &mut plan);
        }
        if lists {
            memory::draw(random, &mut plan);
        }
        if random.one_in(2) {
            plan.datagrams = Some(datagrams::draw(random, &plan));
        }
        plan
    }
}

fn draw_faults(random: &mut Random) -> (Faults, bool) {
    let mercy = !random.one_in(8);
    let mut rate = || {
        let most = random.pick(&[0, 0, 20, 50, 100, 200]);
        random.below_u32(most + 1)
    };
    let faults =
        Faults { drop: rate(), duplicate: rate(), reorder: rate(), corrupt: rate(), delay: rate() };
    match random.below(16) {
        0 | 1 => (Faults::NONE, true),
        2 => (Faults { drop: 200, duplicate: 200, reorder: 200, corrupt: 200, delay: 200 }, mercy),
        _ => (faults, mercy),
    }
}

fn draw_connection(random: &mut Random, plan: &Plan) -> Connection {
    let first = random.index(plan.hosts);
    let second = (first + 1 + random.index(plan.hosts - 1)) % plan.hosts;
    // A third of a timeout covers a round trip with both frames as late as they may be.
    let round_trip = 2 * (plan.max_delay_ns + 4 * plan.latency_ns);
    let timeout = (8..31u8).find(|code| 4096u64 << code > 3 * round_trip).unwrap_or(31) + 1;
    let path_mtu = random.pick(&PathMtu::ALL);
    let mut sides = [(); 2].map(|()| draw_side(random, path_mtu));
    // One side at most fails by its own doing, so that it is known which does.
    if random.one_in(3) {
        let side = random.index(2);
        let [a, b] = &mut sides;
        let (side, peer) = if side == 0 { (a, b) } else { (b, a) };
        poison::draw(random, side, peer);
    }
    let [a, b] = &mut sides;
    draw_receives(random, &a.requests, b);
    draw_receives(random, &b.requests, a);
    Connection {
        hosts: [first, second],
        path_mtu,
        timeout,
        retry_cnt: if plan.mercy { 7 } else { random.pick(&[2, 5, 7]) },
        rnr_timer: random.pick(&[1, 5, 12, 14]),
        reuse: random.one_in(2),
        sides,
    }
}

fn draw_side(random: &mut Random, mtu: PathMtu) -> Side {
    let kinds: &[Kind] = random.pick(&[
        &Kind::ALL as &[Kind],
        &Kind::ALL,
        &[Kind::Read, Kind::Write],
        &[Kind::Read, Kind::Add, Kind::Swap],
        &[Kind::Send, Kind::WriteImm],
        &[Kind::SendInv, Kind::Read, Kind::Write],
        &[Kind::Write, Kind::Flush],
        &[Kind::AtomicWrite, Kind::Read, Kind::Flush, Kind::Write],
    ]);
    let count = random.pick(&[0, 1, 5, 20, 40]);
    let remote_len = random.pick(&[64, 4096, MAX_LEN]);
    let mut budget: usize = 256 << 10;
    let requests = (0..count)
        .map(|_| {
            let kind = random.pick(kinds);
            let most = if kind.is_send() { MAX_LEN } else { remote_len };
            let len = if kind.is_word() { 8 } else { draw_len(random, mtu, most.min(budget)) };
            budget = budget.saturating_sub(len);
            draw_request(random, kind, len, remote_len)
        })
        .collect();
    Side {
        psn: Psn::new(match random.below(4) {
            0 => 0x00ff_ffff - random.below_u32(64),
            1 => 0x007f_ffff - random.below_u32(64),
            _ => random.below_u32(1 << 24),
        }),
        max_rd_atomic: random.pick(&[1, 2, 4, 8]),
        access: Access::ALL,
        requests,
        remote_len,
        receives: Vec::new(),
        late: random.one_in(3),
        srq: false,
        windows: false,
        cuts: 0,
    }
}

fn draw_len(random: &mut Random, mtu: PathMtu, most: usize) -> usize {
    let mtu = usize::try_from(mtu.bytes()).unwrap_or(0);
    let len = match random.below(10) {
        0 => 0,
        1 => 1,
        2 => mtu - 1,
        3 => mtu,
        4 => mtu + 1,
        5 | 6 => random.index(3 * mtu),
        7 => random.index(12 * mtu),
        8 if random.one_in(4) => MAX_LEN,
        _ => random.index(100),
    };
    len.min(most)
}

fn draw_request(random: &mut Random, kind: Kind, len: usize, remote_len: usize) -> Request {
    let room = remote_len.saturating_sub(len);
    let remote = random.index(room + 1);
    Request {
        kind,
        len,
        source: random.index(SOURCE_LEN - len + 1),
        remote: if kind.is_word() { remote & !7 } else { remote },
        operand: random.bits(),
        signaled: !random.one_in(4),
        solicited: random.one_in(3),
        poison: None,
        cuts: 0,
        inline: false,
        fence: false,
    }
}

/// One receive for each request that takes one, in order: the only order there is.
fn draw_receives(random: &mut Random, requests: &[Request], side: &mut Side) {
    side.receives = requests
        .iter()
        .filter(|request| request.kind.takes_receive())
        .map(|request| match (request.kind, request.poison) {
            (Kind::WriteImm, _) => 0,
            (_, Some(Poison::ShortReceive)) => request.len - 1,
            _ if random.one_in(2) => request.len,
            _ => request.len + random.index(64),
        })
        .collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_stay_within_their_bounds() {
        let mut poisons = std::collections::HashSet::new();
        for seed in 0..2000 {
            let plan = Plan::draw(seed);
            assert!((2..=3).contains(&plan.hosts));
            for connection in plan.chains.iter().flatten() {
                assert_ne!(connection.hosts[0], connection.hosts[1]);
                for side in &connection.sides {
                    for request in &side.requests {
                        assert!(request.source + request.len <= SOURCE_LEN);
                        poisons.extend(request.poison.map(|poison| format!("{poison:?}")));
                        let remote = !request.kind.is_send() && !request.kind.is_local();
                        if request.poison.is_none() && remote {
                            assert!(request.remote + request.len <= side.remote_len);
                        }
                    }
                }
            }
        }
        assert_eq!(poisons.len(), 8, "{poisons:?}");
    }
}
