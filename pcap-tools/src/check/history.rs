//! The recent requests of a flow, by PSN.

use std::collections::VecDeque;

use roce_codec::ib::{Opcode, Operation, PathMtu, Psn, RKey};
use roce_codec::{Crc, combine};

use super::packet::{Network, Seen};

/// Requests remembered at first, and at most once that many have come; powers of two.
const REMEMBERED: [usize; 2] = [16, 256];
/// READ-like requests remembered: more than any device agrees to have outstanding.
const READS: usize = 128;
/// Requests with an address and key remembered.
const KEYED: usize = 128;

/// A request that was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Past {
    pub(super) psn: Psn,
    pub(super) opcode: Opcode,
    pub(super) payload_len: u16,
    /// How often it was sent, copies left out.
    pub(super) sends: u8,
    /// When last.
    pub(super) sent_ns: Option<u64>,
    contents: Contents,
}

impl Past {
    /// A request that comes for the first time.
    #[inline]
    pub(super) fn new(seen: &Seen<'_, '_>, sent_ns: Option<u64>) -> Self {
        Self {
            psn: seen.bth.psn,
            opcode: seen.bth.opcode,
            payload_len: u16::try_from(seen.payload_len).unwrap_or(u16::MAX),
            sends: 1,
            sent_ns,
            contents: Contents::of(seen),
        }
    }

    /// Whether the packet is this one to the last bit that an ICRC covers.
    pub(super) fn is_copy(&self, seen: &Seen<'_, '_>) -> bool {
        self.contents.icrc == seen.transport.icrc()
    }

    /// Whether the packet carries the same behind its BTH; `None` if that is not known.
    pub(super) fn has_contents_of(&self, seen: &Seen<'_, '_>) -> Option<bool> {
        let now = Contents::of(seen);
        let (headers, then) = (now.headers?, self.contents.headers?);
        let len = u64::try_from(seen.transport.ext_bytes().len() + seen.payload_len).ok()?;
        let len = len + u64::from(seen.bth.pad_count);
        // A CRC is linear: where only what is in front differs, so do the CRCs.
        let differ = u32::from_le_bytes(now.icrc) ^ u32::from_le_bytes(self.contents.icrc);
        Some(combine(headers ^ then, 0, len) == differ)
    }
}

/// What a packet carries behind its BTH, by its ICRC and that of its headers alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Contents {
    icrc: [u8; 4],
    headers: Option<u32>,
}

impl Contents {
    #[inline]
    fn of(seen: &Seen<'_, '_>) -> Self {
        let icrc = seen.transport.icrc();
        // Of a packet that nothing follows but the ICRC, there is nothing to compare.
        let headers = match seen.network {
            Network::Roce(frame) if seen.icrc_valid => {
                Some(u32::from_le_bytes(frame.icrc_of_headers::<Crc>()))
            }
            _ => None,
        };
        Self { icrc, headers }
    }
}

/// A request with an address and a key: where a WRITE, READ, FLUSH or atomic begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Keyed {
    pub(super) psn: Psn,
    pub(super) opcode: Opcode,
    pub(super) va: u64,
    pub(super) rkey: RKey,
    pub(super) len: u32,
}

impl Keyed {
    #[inline]
    pub(super) fn of(seen: &Seen<'_, '_>) -> Option<Self> {
        let (psn, opcode) = (seen.bth.psn, seen.bth.opcode);
        if let Some(reth) = seen.transport.reth() {
            let (va, rkey, len) = (reth.va, reth.rkey, reth.dma_len);
            return Some(Self { psn, opcode, va, rkey, len });
        }
        let atomic = seen.transport.atomic_eth()?;
        Some(Self { psn, opcode, va: atomic.va, rkey: atomic.rkey, len: 8 })
    }

    /// What it speaks of, in words.
    pub(super) fn range(&self) -> String {
        format!("{} bytes at {:#x}, R_Key {:#010x}", self.len, self.va, self.rkey.0)
    }
}

/// The last requests with an address and a key, oldest first.
#[derive(Debug, Default)]
pub(super) struct KeyedRequests(VecDeque<Keyed>);

impl KeyedRequests {
    #[inline]
    pub(super) fn push(&mut self, keyed: Keyed) {
        if self.0.len() >= KEYED {
            self.0.pop_front();
        }
        self.0.push_back(keyed);
    }

    /// The newest one that begins at `psn`.
    pub(super) fn at(&self, psn: Psn) -> Option<Keyed> {
        self.0.iter().rev().find(|keyed| keyed.psn == psn).copied()
    }

    /// The one whose packets `psn` may be among: the last that begins at or before it.
    pub(super) fn around(&self, psn: Psn) -> Option<Keyed> {
        self.0
            .iter()
            .filter(|keyed| !keyed.psn.is_after(psn))
            .min_by_key(|keyed| psn.distance_from(keyed.psn))
            .copied()
    }

    /// Whether a request before `psn` had that key.
    pub(super) fn used_before(&self, psn: Psn, rkey: RKey) -> bool {
        self.0.iter().any(|keyed| keyed.rkey == rkey && keyed.psn.is_before(psn) && keyed.len > 0)
    }
}

/// A ring of the last requests, found by PSN. Short flows have a short one.
#[derive(Debug)]
pub(super) struct History(Vec<Option<Past>>);

impl History {
    pub(super) fn new() -> Self {
        Self(vec![None; REMEMBERED[0]])
    }

    #[inline]
    fn slot(&self, psn: Psn) -> usize {
        // The length is a power of two.
        usize::try_from(psn.get()).unwrap_or_default() & (self.0.len() - 1)
    }

    #[inline]
    pub(super) fn insert(&mut self, past: Past) {
        let slot = self.slot(past.psn);
        if self.0[slot].is_some_and(|other| other.psn != past.psn) && self.0.len() < REMEMBERED[1] {
            self.grow();
            self.insert(past);
            return;
        }
        self.0[slot] = Some(past);
    }

    #[cold]
    fn grow(&mut self) {
        let longer = vec![None; self.0.len() * 2];
        for past in std::mem::replace(&mut self.0, longer).into_iter().flatten() {
            let slot = self.slot(past.psn);
            self.0[slot] = Some(past);
        }
    }

    /// The request with that PSN, if it is remembered.
    #[inline]
    pub(super) fn get(&self, psn: Psn) -> Option<Past> {
        self.0[self.slot(psn)].filter(|past| past.psn == psn)
    }
}

/// A READ, FLUSH or ATOMIC WRITE request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) psn: Psn,
    pub(super) operation: Operation,
    /// Bytes asked for; 0 unless it is a READ.
    pub(super) len: u32,
}

impl Read {
    /// Responses it takes.
    #[inline]
    pub(super) fn packets(&self, mtu: PathMtu) -> u32 {
        mtu.packets(self.len)
    }

    /// Whether `psn` is one of its responses.
    #[inline]
    pub(super) fn covers(&self, psn: Psn, mtu: PathMtu) -> bool {
        psn.is_within(self.psn, self.psn.add(self.packets(mtu) - 1))
    }

    /// Payload of the response with that PSN, which it must cover, and whether it is the last.
    #[inline]
    pub(super) fn response(&self, psn: Psn, mtu: PathMtu) -> (u32, bool) {
        let index = psn.distance_from(self.psn).unsigned_abs();
        let before = index.saturating_mul(mtu.bytes());
        let left = self.len.saturating_sub(before);
        (left.min(mtu.bytes()), index + 1 == self.packets(mtu))
    }
}

/// The last READ-like requests, oldest first.
#[derive(Debug, Default)]
pub(super) struct Reads(VecDeque<Read>);

impl Reads {
    pub(super) fn push(&mut self, read: Read) {
        if self.0.len() >= READS {
            self.0.pop_front();
        }
        self.0.push_back(read);
    }

    /// The newest one that `psn` answers. A response is near the last ones that were asked for,
    /// so the newest are looked at first.
    #[inline]
    pub(super) fn covering(&self, psn: Psn, mtu: PathMtu) -> Option<Read> {
        self.0.iter().rev().find(|read| read.covers(psn, mtu)).copied()
    }

    /// Whether one starts at `psn` and is no retry of another's tail: it was asked for once.
    pub(super) fn starts_anew_at(&self, psn: Psn, mtu: PathMtu) -> bool {
        let mut covering = self.0.iter().filter(|read| read.covers(psn, mtu));
        covering.next().is_some_and(|read| read.psn == psn) && covering.next().is_none()
    }

    /// Whether one starts at `psn`.
    pub(super) fn starts_at(&self, psn: Psn) -> bool {
        self.0.iter().any(|read| read.psn == psn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_of_a_read() {
        let read = Read { psn: Psn::new(0xff_ffff), operation: Operation::ReadRequest, len: 3000 };
        let mtu = PathMtu::Mtu1024;
        assert_eq!(read.packets(mtu), 3);
        assert_eq!(read.response(Psn::new(0xff_ffff), mtu), (1024, false));
        assert_eq!(read.response(Psn::new(0), mtu), (1024, false));
        assert_eq!(read.response(Psn::new(1), mtu), (952, true));
        assert!(!read.covers(Psn::new(2), mtu));
        let empty = Read { len: 0, ..read };
        assert_eq!(empty.response(read.psn, mtu), (0, true));
    }

    #[test]
    fn old_requests_are_forgotten_not_mistaken() {
        let mut history = History::new();
        let contents = Contents { icrc: [0; 4], headers: None };
        let opcode = Opcode::RC_SEND_ONLY;
        let past = |psn| Past { psn, opcode, payload_len: 1, sends: 1, sent_ns: None, contents };
        history.insert(past(Psn::new(5)));
        assert_eq!(history.get(Psn::new(5)), Some(past(Psn::new(5))));
        for psn in 6..5 + 256 {
            history.insert(past(Psn::new(psn)));
            assert_eq!(history.get(Psn::new(5)), Some(past(Psn::new(5))), "{psn}");
        }
        history.insert(past(Psn::new(5 + 256)));
        assert_eq!(history.get(Psn::new(5)), None);
        assert_eq!(history.get(Psn::new(6)), Some(past(Psn::new(6))));
    }
}
