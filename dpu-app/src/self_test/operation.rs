//! Each operation that the engine serves.

use core::fmt;

use heapless::Vec;
use roce_codec::ib::{PathMtu, RKey, Service};
use roce_dataplane::port::Port;
use roce_engine::{Access, Placement, Selectivity, WcOpcode, WcStatus, WrOpcode};

use super::datagram::{AREA, area};
use super::lab::{Expected, Lab};
use super::side::{Side, VA};
use super::{Failure, Host, Report};

/// Messages of an operation that moves data, at a path MTU.
const MESSAGES: usize = 7;
/// Atomics of a kind: more than may be outstanding.
const ATOMICS: usize = 8;
/// What atomics work on, 8 bytes each from this offset at the responder.
const COUNTERS: u32 = 64;
/// Where what they return goes, 8 bytes each at these distances: not aligned, and not adjacent.
const RETURNED: u32 = 101;
const RETURNED_EACH: u32 = 9;

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// WRITE.
    Write,
    /// WRITE with immediate data.
    WriteWithImm,
    /// READ.
    Read,
    /// SEND.
    Send,
    /// SEND with immediate data.
    SendWithImm,
    /// FETCH ADD.
    FetchAdd,
    /// COMPARE SWAP, a third of which do not find what they compare with.
    CompareSwap,
    /// SEND with invalidate: each takes a key of the responder's away.
    SendWithInvalidate,
    /// ATOMIC WRITE.
    AtomicWrite,
    /// WRITE, each with a FLUSH behind it.
    Flush,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A message: where it begins at the requester and at the responder, and how many bytes it has.
#[derive(Debug, Clone, Copy)]
struct Piece {
    near: u32,
    far: u32,
    len: u32,
}

/// Messages of these lengths, one behind the other with gaps that nothing may touch, at other
/// alignments here than there. The responder puts `area` bytes in front of each.
fn pieces(lengths: [u32; MESSAGES], area: u32) -> [Piece; MESSAGES] {
    let (mut near, mut far) = (3, 5 + area);
    lengths.map(|len| {
        let piece = Piece { near, far, len };
        near += len + 2;
        far += len + 5 + area;
        piece
    })
}

impl Operation {
    /// All of them: what a reliable connection has.
    pub const ALL: [Self; 10] = [
        Self::Write,
        Self::WriteWithImm,
        Self::Read,
        Self::Send,
        Self::SendWithImm,
        Self::FetchAdd,
        Self::CompareSwap,
        Self::SendWithInvalidate,
        Self::AtomicWrite,
        Self::Flush,
    ];

    /// What an unreliable connection has (IBTA 9.8.2).
    pub const UNRELIABLE: [Self; 4] =
        [Self::Write, Self::WriteWithImm, Self::Send, Self::SendWithImm];

    /// What datagrams have (IBTA 9.8.3).
    pub const DATAGRAMS: [Self; 2] = [Self::Send, Self::SendWithImm];

    /// By its usual name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Write => "WRITE",
            Self::WriteWithImm => "WRITE with immediate",
            Self::Read => "READ",
            Self::Send => "SEND",
            Self::SendWithImm => "SEND with immediate",
            Self::FetchAdd => "FETCH_ADD",
            Self::CompareSwap => "CMP_SWAP",
            Self::SendWithInvalidate => "SEND with invalidate",
            Self::AtomicWrite => "ATOMIC_WRITE",
            Self::Flush => "FLUSH",
        }
    }

    /// Runs it on the connection that there is. The messages, unless it is an atomic, have `each`
    /// bytes, or else make none to four packets.
    pub(super) fn run<P: Port, H: Host>(
        self,
        lab: &mut Lab<'_, '_, P, H>,
        path_mtu: PathMtu,
        each: Option<u32>,
    ) -> Result<(), Failure> {
        let mtu = path_mtu.bytes();
        let (edges, area) = if lab.service == Service::Ud {
            // Each is a packet.
            ([0, 1, mtu / 2, 3, mtu - 1, mtu, 66], AREA)
        } else {
            ([0, 1, mtu - 1, mtu, mtu + 1, 2 * mtu, 3 * mtu + 5], 0)
        };
        let lengths = each.map_or(edges, |len| [len; MESSAGES]);
        for side in [&mut lab.near, &mut lab.far] {
            (side.spent, side.packets) = (0, 0);
        }
        let (messages, bytes) = match self {
            Self::FetchAdd | Self::CompareSwap => self.atomics(lab)?,
            Self::AtomicWrite => self.atomic_writes(lab)?,
            _ => self.messages(lab, pieces(lengths, area), area)?,
        };
        lab.totals.messages += messages;
        lab.totals.bytes += u64::from(bytes);
        let instructions = [&lab.near, &lab.far].map(|side| {
            let each = side.spent.checked_div(u64::from(side.packets)).unwrap_or(0);
            u32::try_from(each).unwrap_or(u32::MAX)
        });
        let [here, _] = lab.addresses;
        let (service, ipv6, packets) = (lab.service, here.is_ipv6(), lab.near.packets);
        lab.host.passed(&Report::Operation {
            operation: self,
            service,
            path_mtu,
            ipv6,
            each,
            messages,
            bytes,
            packets,
            instructions,
        });
        Ok(())
    }

    /// Whether each message takes a receive, and how that completes.
    const fn received(self) -> Option<WcOpcode> {
        match self {
            Self::Send | Self::SendWithImm | Self::SendWithInvalidate => Some(WcOpcode::Recv),
            Self::WriteWithImm => Some(WcOpcode::RecvRdmaWithImm),
            _ => None,
        }
    }

    /// How it completes at the requester.
    const fn completed(self) -> WcOpcode {
        match self {
            Self::Write | Self::WriteWithImm | Self::Flush => WcOpcode::RdmaWrite,
            Self::Read => WcOpcode::RdmaRead,
            Self::Send | Self::SendWithImm | Self::SendWithInvalidate => WcOpcode::Send,
            Self::FetchAdd => WcOpcode::FetchAdd,
            Self::CompareSwap => WcOpcode::CompareSwap,
            Self::AtomicWrite => WcOpcode::AtomicWrite,
        }
    }

    const fn has_imm(self) -> bool {
        matches!(self, Self::WriteWithImm | Self::SendWithImm)
    }

    const fn is_send(self) -> bool {
        matches!(self, Self::Send | Self::SendWithImm | Self::SendWithInvalidate)
    }

    /// WRITE, READ and SEND, and what goes with them; says how many messages and bytes.
    fn messages<P: Port, H: Host>(
        self,
        lab: &mut Lab<'_, '_, P, H>,
        pieces: [Piece; MESSAGES],
        area_len: u32,
    ) -> Result<(u32, u32), Failure> {
        let imm = |wr_id: u32| 0xa1b2_c300 | wr_id;
        let mut bytes = 0;
        let mut doomed: Vec<RKey, MESSAGES> = Vec::new();
        lab.far.memory.flushed.set(0);
        for (wr_id, piece) in (0u32..).zip(pieces) {
            bytes += piece.len;
            if self == Self::SendWithInvalidate {
                let mr = lab.far.register(8, Access::REMOTE_WRITE | Access::REMOTE_INVALIDATE)?;
                doomed.push(mr.rkey).map_err(|_| Failure::Stuck)?;
            }
            if self.received().is_some() {
                // A WRITE's receive has no memory.
                let len = if self.is_send() { area_len + piece.len } else { 0 };
                let sge = lab.far.sge(piece.far - area_len, len);
                lab.far.post_recv((100 + wr_id).into(), sge)?;
            }
            let (va, rkey) = (Side::<P>::va(piece.far), lab.far.mr.rkey);
            let opcode = match self {
                Self::WriteWithImm => WrOpcode::RdmaWriteWithImm { va, rkey, imm: imm(wr_id) },
                Self::Read => WrOpcode::RdmaRead { va, rkey },
                Self::Send => WrOpcode::Send,
                Self::SendWithImm => WrOpcode::SendWithImm(imm(wr_id)),
                Self::SendWithInvalidate => {
                    WrOpcode::SendWithInvalidate(doomed.last().copied().unwrap_or(RKey(0)))
                }
                _ => WrOpcode::RdmaWrite { va, rkey },
            };
            lab.near.post_send(wr_id.into(), opcode, lab.near.sge(piece.near, piece.len))?;
            if self == Self::Flush {
                let opcode = flush(wr_id, piece.far, piece.len, lab.far.mr.rkey);
                lab.near.post_send((200 + wr_id).into(), opcode, lab.near.sge(0, 0))?;
            }
        }
        let count = u32::try_from(MESSAGES).unwrap_or(0);
        let each = if self == Self::Flush { 2 } else { 1 };
        let received = if self.received().is_some() { count } else { 0 };
        let [near, far] = lab.run([each * count, received])?;
        let mut keys = doomed.iter();
        for (wr_id, piece) in (0u32..).zip(pieces) {
            let at = usize::try_from(each * wr_id).unwrap_or(usize::MAX);
            let expected = Expected {
                wr_id: wr_id.into(),
                status: WcStatus::Success,
                opcode: self.completed(),
                len: (self == Self::Read).then_some(piece.len),
                imm: None,
                invalidated: None,
            };
            expected.check(near.get(at))?;
            if self == Self::Flush {
                let wr_id = u64::from(200 + wr_id);
                Expected { wr_id, opcode: WcOpcode::Flush, ..expected }.check(near.get(at + 1))?;
            }
            if let Some(opcode) = self.received() {
                let imm = self.has_imm().then_some(imm(wr_id));
                let (wr_id, invalidated) = (u64::from(100 + wr_id), keys.next().copied());
                let len = Some(area_len + piece.len);
                Expected { wr_id, opcode, len, imm, invalidated, ..expected }.check(far.get(at))?;
                let source = far.get(at).and_then(|wc| wc.src_qp);
                if area_len > 0 && source != Some(lab.near.qpn) {
                    return Err(Failure::Source { expected: lab.near.qpn, found: source });
                }
            }
        }
        for rkey in doomed {
            lab.far.engine.deregister_mr(rkey)?;
        }
        let flushed = lab.far.memory.flushed.get();
        if flushed != if self == Self::Flush { count } else { 0 } {
            return Err(Failure::Flushed { expected: count, found: flushed });
        }
        let written_far = self != Self::Read;
        let areas = pieces.map(|piece| area(lab.addresses, piece.len, self.has_imm()));
        lab.check_memory(|lab, far, offset| {
            if far && area_len > 0 {
                let within =
                    |piece: &Piece| usize::try_from((offset + AREA).checked_sub(piece.far)?).ok();
                let mut all = pieces.iter().zip(&areas);
                let byte = all.find_map(|(piece, area)| area.get(within(piece)?).copied());
                if byte.is_some() {
                    return byte;
                }
            }
            pieces.iter().find_map(|piece| {
                let (here, there) =
                    if far { (piece.far, piece.near) } else { (piece.near, piece.far) };
                let within = offset.checked_sub(here).filter(|within| *within < piece.len)?;
                (far == written_far).then(|| lab.before(!far, there + within))
            })
        })?;
        Ok((count, bytes))
    }

    /// FETCH ADD and COMPARE SWAP on two counters in turn.
    fn atomics<P: Port, H: Host>(self, lab: &mut Lab<'_, '_, P, H>) -> Result<(u32, u32), Failure> {
        let mut counters = [COUNTERS, COUNTERS + 8].map(|offset| {
            let mut bytes = [0; 8];
            for (at, byte) in (offset..).zip(&mut bytes) {
                *byte = lab.before(true, at);
            }
            u64::from_ne_bytes(bytes)
        });
        let mut returned = [0; ATOMICS];
        let mut count = 0;
        for returned in &mut returned {
            let random = lab.near.random.next_u64();
            let (odd, [even_counter, odd_counter]) = (count % 2, &mut counters);
            let counter = if odd == 1 { odd_counter } else { even_counter };
            *returned = *counter;
            let (va, rkey) = (Side::<P>::va(COUNTERS + 8 * odd), lab.far.mr.rkey);
            let opcode = if self == Self::FetchAdd {
                *counter = counter.wrapping_add(random);
                WrOpcode::FetchAdd { va, rkey, add: random }
            } else if count % 3 == 2 {
                WrOpcode::CompareSwap { va, rkey, compare: !*counter, swap: random }
            } else {
                let compare = core::mem::replace(counter, random);
                WrOpcode::CompareSwap { va, rkey, compare, swap: random }
            };
            let sge = lab.near.sge(RETURNED + RETURNED_EACH * count, 8);
            lab.near.post_send(count.into(), opcode, sge)?;
            count += 1;
        }
        let [near, _] = lab.run([count, 0])?;
        for (wr_id, wc) in (0..count).zip(&near) {
            Expected {
                wr_id: wr_id.into(),
                status: WcStatus::Success,
                opcode: self.completed(),
                len: None,
                imm: None,
                invalidated: None,
            }
            .check(Some(wc))?;
        }
        lab.check_memory(|_, far, offset| {
            let (values, start, each): (&[u64], _, _) =
                if far { (&counters, COUNTERS, 8) } else { (&returned, RETURNED, RETURNED_EACH) };
            let within = offset.checked_sub(start)?;
            let value = values.get(usize::try_from(within / each).ok()?)?;
            let byte = usize::try_from(within % each).ok()?;
            value.to_ne_bytes().get(byte).copied()
        })?;
        Ok((count, 8 * count))
    }

    /// ATOMIC WRITEs to adjacent counters, from where the results of atomics go otherwise.
    fn atomic_writes<P: Port, H: Host>(
        self,
        lab: &mut Lab<'_, '_, P, H>,
    ) -> Result<(u32, u32), Failure> {
        let count = u32::try_from(ATOMICS).unwrap_or(0);
        for wr_id in 0..count {
            let (va, rkey) = (Side::<P>::va(COUNTERS + 8 * wr_id), lab.far.mr.rkey);
            let sge = lab.near.sge(RETURNED + RETURNED_EACH * wr_id, 8);
            lab.near.post_send(wr_id.into(), WrOpcode::AtomicWrite { va, rkey }, sge)?;
        }
        let [near, _] = lab.run([count, 0])?;
        for (wr_id, wc) in (0..count).zip(&near) {
            Expected {
                wr_id: wr_id.into(),
                status: WcStatus::Success,
                opcode: self.completed(),
                len: None,
                imm: None,
                invalidated: None,
            }
            .check(Some(wc))?;
        }
        lab.check_memory(|lab, far, offset| {
            let within = offset.checked_sub(COUNTERS).filter(|within| *within < 8 * count)?;
            let from = RETURNED + RETURNED_EACH * (within / 8) + within % 8;
            far.then(|| lab.before(false, from))
        })?;
        Ok((count, 8 * count))
    }
}

/// A FLUSH of what has been written, or of all of the region.
const fn flush(number: u32, offset: u32, len: u32, rkey: RKey) -> WrOpcode {
    let va = VA + offset as u64;
    let selectivity =
        if number.is_multiple_of(2) { Selectivity::Range { va, len } } else { Selectivity::Region };
    WrOpcode::Flush { rkey, selectivity, placement: Placement::GLOBAL_VISIBILITY }
}

/// A WRITE, for who cares about something else than operations.
pub(super) const fn write(va: u64, rkey: RKey) -> WrOpcode {
    WrOpcode::RdmaWrite { va, rkey }
}
