//! Packets held behind a gap: one bounded pool for all queue pairs.
//!
//! A queue pair may hold a packet while it holds fewer than it may at most *and* fewer than there
//! are free. So `k` queue pairs that take all they can leave one share of `k + 1` for the next one:
//! none can keep another from its own, and nothing has to be taken back from anybody.

use roce_codec::Frame;
use roce_codec::ib::{PathMtu, Psn};

use crate::config::{Config, Recovery};
use crate::pool::{Link, Linked, List, Pool};

/// Bytes of the headers and the ICRC of a held packet, at most: IPv6, UDP, BTH, `AtomicETH`, pad.
const HEADERS_LEN: usize = 40 + 8 + 12 + 28 + 3 + 4;

/// Bytes of [`Storage::held_bytes`](crate::Storage) that a held packet of this path MTU takes.
#[must_use]
pub const fn held_len(path_mtu: PathMtu) -> usize {
    // Of at most 4096.
    (HEADERS_LEN + path_mtu.bytes() as usize).next_multiple_of(32)
}

/// A held packet's place; part of [`Storage`](crate::Storage).
#[derive(Debug, Clone, Copy)]
pub struct HeldSlot {
    link: Link,
    psn: Psn,
    len: usize,
}

impl HeldSlot {
    /// An empty slot.
    pub const EMPTY: Self = Self { link: Link::NONE, psn: Psn::new(0), len: 0 };
}

impl Linked for HeldSlot {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// The pool.
#[derive(Debug)]
pub(crate) struct Held<'s> {
    slots: Pool<'s, HeldSlot>,
    bytes: &'s mut [u8],
    slot_len: usize,
    free: u32,
    per_qp: u32,
}

/// Whether a packet is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holding {
    /// It is now.
    Held,
    /// It was before.
    Already,
    /// There is no room for it.
    NoRoom,
}

impl<'s> Held<'s> {
    pub(crate) fn new(slots: &'s mut [HeldSlot], bytes: &'s mut [u8], config: &Config) -> Self {
        let slot_len = held_len(config.max_path_mtu);
        let count = match config.recovery {
            Recovery::GoBackN => 0,
            Recovery::SelectiveAccept => slots.len().min(bytes.len() / slot_len),
        };
        let (slots, _) = slots.split_at_mut(count);
        Self {
            slots: Pool::new(slots),
            bytes,
            slot_len,
            free: u32::try_from(count).unwrap_or(u32::MAX),
            per_qp: config.held_per_qp,
        }
    }

    /// Holds a packet in `list`, which is in PSN order and starts behind `expected`. It was checked
    /// as far as that can be done before it is its turn.
    pub(crate) fn hold(&mut self, list: &mut List, expected: Psn, frame: &Frame<'_>) -> Holding {
        let psn = frame.psn();
        // Mostly, it is the newest: the end of the list is looked at first.
        let after = match list.tail().index().and_then(|tail| self.slots.get(tail)) {
            Some(tail) if !psn.is_after(tail.psn) => match self.place(list, expected, psn) {
                Some(after) => after,
                None => return Holding::Already,
            },
            _ => list.tail(),
        };
        if list.len() >= self.free.min(self.per_qp) {
            return Holding::NoRoom;
        }
        let Some(index) = self.slots.take() else { return Holding::NoRoom };
        let start = usize::try_from(index).unwrap_or(usize::MAX).saturating_mul(self.slot_len);
        let room = self.bytes.get_mut(start..start.saturating_add(self.slot_len));
        let Some(len) = room.and_then(|room| copy(frame, room)) else {
            self.slots.give(index);
            return Holding::NoRoom;
        };
        self.free -= 1;
        if let Some(slot) = self.slots.get_mut(index) {
            slot.psn = psn;
            slot.len = len;
        }
        match after.index() {
            None => self.slots.push_front(list, index),
            Some(after) => self.slots.insert_after(list, after, index),
        }
        Holding::Held
    }

    /// The packet that one with this PSN comes after; `None` if there is one with this PSN. As many
    /// steps as packets that the queue pair holds.
    fn place(&mut self, list: &List, expected: Psn, psn: Psn) -> Option<Link> {
        let ahead = psn.distance_from(expected);
        let mut after = Link::NONE;
        let mut next = list.head();
        while let Some(slot) = next.index().and_then(|index| self.slots.get(index)) {
            if slot.psn == psn {
                return None;
            }
            if slot.psn.distance_from(expected) > ahead {
                break;
            }
            after = next;
            next = self.slots.next(next);
        }
        Some(after)
    }

    /// The PSN of the first packet of a list.
    pub(crate) fn first(&self, list: &List) -> Option<Psn> {
        self.slots.get(list.head().index()?).map(|slot| slot.psn)
    }

    /// Takes the first packet off a list; its bytes stay until it is given back.
    pub(crate) fn take_first(&mut self, list: &mut List) -> Option<u32> {
        self.slots.pop_front(list)
    }

    /// Gives a packet's place back.
    pub(crate) fn give(&mut self, index: u32) {
        self.slots.give(index);
        self.free += 1;
    }

    /// Packets held.
    pub(crate) const fn taken(&self) -> u32 {
        self.slots.taken()
    }

    /// Lends the bytes out, to run packets from them; nothing can be held meanwhile.
    pub(crate) fn lend(&mut self) -> &'s mut [u8] {
        core::mem::take(&mut self.bytes)
    }

    /// Takes them back.
    pub(crate) fn take_back(&mut self, bytes: &'s mut [u8]) {
        self.bytes = bytes;
    }

    /// A packet's part of the bytes lent out: from its IP header on.
    pub(crate) fn packet<'b>(&self, bytes: &'b [u8], index: u32) -> Option<&'b [u8]> {
        let start = usize::try_from(index).ok()?.checked_mul(self.slot_len)?;
        bytes.get(start..start.checked_add(self.slots.get(index)?.len)?)
    }
}

/// Copies a packet from its IP header on; `None` if there is not enough room.
fn copy(frame: &Frame<'_>, room: &mut [u8]) -> Option<usize> {
    let [first, second] = frame.payload();
    let mut at = 0;
    for piece in [frame.headers(), frame.ext_bytes(), first, second, &frame.pad(), &frame.icrc()] {
        let end = at + piece.len();
        room.get_mut(at..end)?.copy_from_slice(piece);
        at = end;
    }
    Some(at)
}
