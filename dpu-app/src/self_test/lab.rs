//! Both ends, and what passes between them.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use heapless::Vec;
use roce_codec::ib::{Opcode, PathMtu, Psn, RKey, Service};
use roce_dataplane::port::Port;
use roce_engine::{HwCounter, Wc, WcOpcode, WcStatus};

use super::pattern::Pattern;
use super::side::Side;
use super::{End, Failure, Host, Report, Totals};

/// Completions of one part, at one end, at most.
const COMPLETIONS: usize = 32;
/// The longest that nothing may complete: all retries of a request take far less, and where time is
/// a busy host's, so does the turn that it had no time for.
const STUCK_NS: u64 = 1_000_000_000;

/// The turns after which nothing is under way any more, all requests being complete.
const IDLE_TURNS: u32 = 100;

/// The opcodes that are run (IBTA 9.2.1 and Annex A19), all of which are to be seen: of the reliable
/// connection, all but the reserved ones; of the unreliable one and of datagrams, all.
const fn is_served(opcode: Opcode) -> bool {
    matches!(opcode.0, 0x00..=0x14 | 0x16 | 0x17 | 0x1c | 0x1d | 0x20..=0x2b | 0x64 | 0x65)
}

#[derive(Debug)]
pub(super) struct Lab<'m, 'h, P, H> {
    /// The requester.
    pub(super) near: Side<'m, P>,
    /// The responder.
    pub(super) far: Side<'m, P>,
    pub(super) host: &'h mut H,
    pub(super) totals: Totals,
    /// What the memory of either end held at the start of the part.
    patterns: [Pattern; 2],
    /// Requester's and responder's address.
    pub(super) addresses: [IpAddr; 2],
    pub(super) service: Service,
}

/// A piece of memory: where it begins, and how many bytes it has.
pub(super) type Span = (u32, u32);

/// Bytes that are now, one behind the other, what others were at the other end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moved<'a> {
    /// Whether they are at the responder.
    pub(super) far: bool,
    pub(super) to: &'a [Span],
    pub(super) from: &'a [Span],
}

impl Moved<'_> {
    /// Where what is here now was at the other end.
    fn source(&self, far: bool, offset: u32) -> Option<u32> {
        if far != self.far {
            return None;
        }
        let mut before = 0;
        let index = self.to.iter().find_map(|(start, len)| {
            let within = offset.checked_sub(*start).filter(|within| within < len);
            let index = within.map(|within| before + within);
            before += len;
            index
        })?;
        let mut rest = index;
        self.from.iter().find_map(|(start, len)| {
            let at = (rest < *len).then_some(start + rest);
            rest = rest.saturating_sub(*len);
            at
        })
    }
}

/// What came of a part, requester and responder.
pub(super) type Completions = [Vec<Wc, COMPLETIONS>; 2];

impl<'m, 'h, P: Port, H: Host> Lab<'m, 'h, P, H> {
    pub(super) fn new(near: End<'m, P>, far: End<'m, P>, host: &'h mut H) -> Result<Self, Failure> {
        let [here, there] = [near.port.mac(), far.port.mac()];
        Ok(Self {
            near: Side::new(near, there, 1, H::instructions)?,
            far: Side::new(far, here, 2, H::instructions)?,
            host,
            totals: Totals::default(),
            patterns: [Pattern(0); 2],
            addresses: addresses(false),
            service: Service::Rc,
        })
    }

    /// Queue pairs connected anew, and memory filled anew.
    pub(super) fn connect(
        &mut self,
        service: Service,
        path_mtu: PathMtu,
        ipv6: bool,
    ) -> Result<(), Failure> {
        (self.service, self.addresses) = (service, addresses(ipv6));
        let [here, there] = self.addresses;
        self.near.create_qp(service)?;
        self.far.create_qp(service)?;
        let psns = [Psn::new(self.near.random()), Psn::new(self.far.random())];
        let [ours, theirs] = psns;
        self.near.connect(self.far.qpn, path_mtu, [here, there], [theirs, ours])?;
        self.far.connect(self.near.qpn, path_mtu, [there, here], psns)?;
        self.patterns = [Pattern(self.near.random()), Pattern(self.far.random())];
        let [near, far] = self.patterns;
        near.fill(self.near.memory.bytes.get_mut());
        far.fill(self.far.memory.bytes.get_mut());
        Ok(())
    }

    /// Takes the queue pairs away. Nothing may be left of what was under way.
    pub(super) fn disconnect(&mut self) -> Result<(), Failure> {
        self.run_until_idle()?;
        for side in [&mut self.near, &mut self.far] {
            side.destroy_qp()?;
            if let Some(wc) = side.engine.poll_cq(side.cq) {
                return Err(Failure::StrayCompletion(wc.status));
            }
            while side.engine.poll_event().is_some() {}
        }
        Ok(())
    }

    /// Polls until an event has been counted once more, at either end.
    pub(super) fn run_until(&mut self, counter: HwCounter) -> Result<(), Failure> {
        let before = self.counted(counter);
        let start = self.host.now();
        while self.counted(counter) == before {
            self.turn();
            if self.host.now().ns_since(start) > STUCK_NS {
                return Err(Failure::NotCounted(counter));
            }
        }
        Ok(())
    }

    /// Polls until nothing is under way.
    fn run_until_idle(&mut self) -> Result<(), Failure> {
        for _ in 0..IDLE_TURNS {
            if !self.turn() {
                return Ok(());
            }
        }
        Err(Failure::Stuck)
    }

    fn turn(&mut self) -> bool {
        let now = self.host.now();
        let near = self.near.turn(now, H::instructions);
        let far = self.far.turn(now, H::instructions);
        near | far
    }

    /// Polls until as many have completed at either end.
    pub(super) fn run(&mut self, counts: [u32; 2]) -> Result<Completions, Failure> {
        let counts = counts.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        let mut found = [Vec::new(), Vec::new()];
        let mut progress = self.host.now();
        loop {
            self.turn();
            let now = self.host.now();
            let sides = [&mut self.near, &mut self.far];
            for ((side, completions), count) in sides.into_iter().zip(&mut found).zip(counts) {
                while let Some(wc) = side.engine.poll_cq(side.cq) {
                    progress = now;
                    if completions.len() >= count || completions.push(wc).is_err() {
                        return Err(Failure::StrayCompletion(wc.status));
                    }
                }
            }
            if found.iter().zip(counts).all(|(found, count)| found.len() == count) {
                return Ok(found);
            }
            if now.ns_since(progress) > STUCK_NS {
                return Err(Failure::Stuck);
            }
        }
    }

    /// What a byte held at the start of the part.
    pub(super) fn before(&self, far: bool, offset: u32) -> u8 {
        let [ours, theirs] = self.patterns;
        if far { theirs.at(offset) } else { ours.at(offset) }
    }

    /// Compares every byte at both ends: `changed` says what a byte is now, `None` for what it was.
    pub(super) fn check_memory(
        &mut self,
        changed: impl Fn(&Self, bool, u32) -> Option<u8>,
    ) -> Result<(), Failure> {
        // Nobody says when what is not acknowledged has arrived.
        self.run_until_idle()?;
        self.host.before_check(self.far.memory.bytes.get_mut());
        for far in [false, true] {
            let side = if far { &self.far } else { &self.near };
            let memory = side.memory.bytes.borrow();
            for (offset, found) in (0..).zip(memory.iter().copied()) {
                let expected = changed(self, far, offset).unwrap_or(self.before(far, offset));
                if found != expected {
                    return Err(Failure::Byte { far, offset, expected, found });
                }
            }
            self.totals.compared += u64::try_from(memory.len()).unwrap_or(0);
        }
        Ok(())
    }

    /// Compares every byte at both ends, of which some have been moved.
    pub(super) fn check_moved(&mut self, moved: &[Moved<'_>]) -> Result<(), Failure> {
        self.check_memory(|lab, far, offset| lab.moved(moved, far, offset))
    }

    /// What a byte is that has been moved there.
    pub(super) fn moved(&self, moved: &[Moved<'_>], far: bool, offset: u32) -> Option<u8> {
        let source = moved.iter().find_map(|moved| moved.source(far, offset))?;
        Some(self.before(!far, source))
    }

    /// How often an event was counted, at the requester and the responder.
    pub(super) fn counted(&self, counter: HwCounter) -> [u64; 2] {
        [&self.near, &self.far].map(|side| side.engine.counters().event(counter))
    }

    /// What must hold at the end.
    pub(super) fn finish(&mut self) -> Result<Totals, Failure> {
        for side in [&self.near, &self.far] {
            let counters = side.engine.counters();
            let accounted = counters.acted_on + counters.dropped_total();
            let received = side.port.received;
            if counters.received != accounted || received != accounted {
                return Err(Failure::Partition { received, accounted });
            }
            self.totals.packets += received;
            self.totals.lost += side.port.lost;
        }
        for (from, to) in [(&self.near, &self.far), (&self.far, &self.near)] {
            let (sent, received) = (from.port.sent, to.port.received);
            if sent != received {
                return Err(Failure::Frames { sent, received });
            }
        }
        let seen = self.near.port.seen.iter().zip(&self.far.port.seen);
        for (opcode, (near, far)) in (0..=u8::MAX).zip(seen) {
            let (packets, opcode) = (near + far, Opcode(opcode));
            match (packets > 0, is_served(opcode)) {
                (true, true) => self.host.passed(&Report::Seen { opcode, packets }),
                (false, true) => return Err(Failure::Unseen(opcode)),
                (true, false) => return Err(Failure::Unexpected(opcode)),
                (false, false) => {}
            }
        }
        Ok(self.totals)
    }
}

/// Requester's and responder's.
fn addresses(ipv6: bool) -> [IpAddr; 2] {
    if ipv6 {
        [1, 2].map(|host| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host).into())
    } else {
        [1, 2].map(|host| Ipv4Addr::new(192, 0, 2, host).into())
    }
}

/// What a completion must say. Unless it is a success only the first two mean anything.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected {
    pub(super) wr_id: u64,
    pub(super) status: WcStatus,
    pub(super) opcode: WcOpcode,
    /// Where it is told: of receives and READs.
    pub(super) len: Option<u32>,
    pub(super) imm: Option<u32>,
    pub(super) invalidated: Option<RKey>,
}

impl Expected {
    /// A success, of which nothing more is told.
    pub(super) const fn of(wr_id: u64, opcode: WcOpcode) -> Self {
        let status = WcStatus::Success;
        Self { wr_id, status, opcode, len: None, imm: None, invalidated: None }
    }

    pub(super) fn check(&self, wc: Option<&Wc>) -> Result<(), Failure> {
        let wc = wc.ok_or(Failure::Stuck)?;
        if wc.wr_id != self.wr_id {
            return Err(Failure::WrId { expected: self.wr_id, found: wc.wr_id });
        }
        if wc.status != self.status {
            return Err(Failure::Status { expected: self.status, found: wc.status });
        }
        if self.status != WcStatus::Success {
            return Ok(());
        }
        if wc.opcode != self.opcode {
            return Err(Failure::Opcode { expected: self.opcode, found: wc.opcode });
        }
        if let Some(expected) = self.len
            && wc.byte_len != expected
        {
            return Err(Failure::Length { expected, found: wc.byte_len });
        }
        if wc.imm != self.imm {
            return Err(Failure::Immediate { expected: self.imm, found: wc.imm });
        }
        if wc.invalidated != self.invalidated {
            return Err(Failure::Invalidated { expected: self.invalidated, found: wc.invalidated });
        }
        Ok(())
    }
}
