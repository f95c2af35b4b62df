//! Scatter-gather lists, and inline data: the local memory of a work request.
//!
//! The first element of a list stands in the work request itself; what is beyond it, and bytes
//! handed over inline, lie in chains of slots that the caller lends.

use roce_codec::ib::LKey;

use crate::pool::{Link, Linked, Pool};

/// A piece of local memory: one scatter-gather element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sge {
    /// Virtual address.
    pub va: u64,
    /// Bytes, at most 2³¹. Of no bytes, neither address nor key is looked at.
    pub len: u32,
    /// The key of the region it lies in.
    pub lkey: LKey,
}

impl Sge {
    const EMPTY: Self = Self { va: 0, len: 0, lkey: LKey(0) };

    /// `len` bytes of it from `skip` on; the caller knows that it has them.
    #[inline]
    pub(crate) const fn part(self, skip: u32, len: u32) -> Self {
        Self { va: self.va.wrapping_add(skip as u64), len, lkey: self.lkey }
    }
}

/// One element of a list beyond its first; part of [`Storage`](crate::Storage).
#[derive(Debug, Clone, Copy)]
pub struct SgeSlot {
    link: Link,
    sge: Sge,
}

impl SgeSlot {
    /// An empty slot: all zeroes.
    pub const EMPTY: Self = Self { link: Link::NONE, sge: Sge::EMPTY };
}

impl Linked for SgeSlot {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// Some bytes of inline data; part of [`Storage`](crate::Storage).
#[derive(Debug, Clone, Copy)]
pub struct InlineSlot {
    link: Link,
    bytes: [u8; Self::BYTES],
}

impl InlineSlot {
    /// Bytes a slot holds: with its link, a cache line.
    pub const BYTES: usize = 60;
    /// An empty slot: all zeroes.
    pub const EMPTY: Self = Self { link: Link::NONE, bytes: [0; Self::BYTES] };
}

impl Linked for InlineSlot {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// The local memory of a waiting work request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Local {
    /// The first element that has bytes.
    pub(crate) first: Sge,
    /// The slots of the others, or of the inline data.
    rest: Link,
    inline: bool,
    /// Bytes of all elements.
    pub(crate) len: u32,
}

impl Local {
    pub(crate) const EMPTY: Self =
        Self { first: Sge::EMPTY, rest: Link::NONE, inline: false, len: 0 };

    /// Whether `first` is all there is.
    #[inline]
    pub(crate) const fn is_one(&self) -> bool {
        self.rest.is_none()
    }
}

/// The slots of lists and of inline data.
#[derive(Debug)]
pub(crate) struct Locals<'s> {
    sges: Pool<'s, SgeSlot>,
    inlines: Pool<'s, InlineSlot>,
}

impl<'s> Locals<'s> {
    pub(crate) fn new(sges: &'s mut [SgeSlot], inlines: &'s mut [InlineSlot]) -> Self {
        Self { sges: Pool::new(sges), inlines: Pool::new(inlines) }
    }

    /// Keeps a list of `len` bytes in all; `None` if there are not slots enough. Elements of no
    /// bytes are left out.
    pub(crate) fn keep(&mut self, sges: &[Sge], len: u32) -> Option<Local> {
        let mut filled = sges.iter().filter(|sge| sge.len > 0);
        let first = filled.next().copied().unwrap_or(Sge::EMPTY);
        let mut local = Local { first, len, ..Local::EMPTY };
        // The chain is made from its end.
        for sge in filled.rev() {
            let Some(index) = self.sges.take() else {
                self.give(local);
                return None;
            };
            if let Some(slot) = self.sges.get_mut(index) {
                *slot = SgeSlot { link: local.rest, sge: *sge };
            }
            local.rest = Link::to(index);
        }
        Some(local)
    }

    /// Copies inline data, `len` bytes; `None` if there are not slots enough.
    pub(crate) fn keep_inline(&mut self, data: &[u8], len: u32) -> Option<Local> {
        let mut local = Local { inline: true, len, ..Local::EMPTY };
        for piece in data.chunks(InlineSlot::BYTES).rev() {
            let Some(index) = self.inlines.take() else {
                self.give(local);
                return None;
            };
            if let Some(slot) = self.inlines.get_mut(index) {
                slot.link = local.rest;
                for (byte, from) in slot.bytes.iter_mut().zip(piece) {
                    *byte = *from;
                }
            }
            local.rest = Link::to(index);
        }
        Some(local)
    }

    /// Takes back the slots of a work request that has ended.
    #[inline]
    pub(crate) fn give(&mut self, local: Local) {
        let mut link = local.rest;
        while let Some(index) = link.index() {
            if local.inline {
                link = self.inlines.next(link);
                self.inlines.give(index);
            } else {
                link = self.sges.next(link);
                self.sges.give(index);
            }
        }
    }

    /// Slots taken, of lists and of inline data.
    pub(crate) const fn taken(&self) -> [u32; 2] {
        [self.sges.taken(), self.inlines.taken()]
    }

    /// How many slots a work request has, and whether they are of inline data.
    pub(crate) fn count(&mut self, local: &Local) -> (u32, bool) {
        let (mut count, mut link) = (0, local.rest);
        while !link.is_none() {
            count += 1;
            link = if local.inline { self.inlines.next(link) } else { self.sges.next(link) };
        }
        (count, local.inline)
    }

    /// Bytes `skip..skip + len` of a list, element by element; none of inline data.
    pub(crate) fn pieces(&self, local: &Local, skip: u32, len: u32) -> Pieces<'_, 's> {
        let len = if local.inline { 0 } else { len };
        Pieces { locals: self, sge: local.first, rest: local.rest, skip, left: len }
    }

    /// Bytes `skip..skip + len` of inline data, slot by slot; `None` if it is a list.
    pub(crate) fn inline_pieces(
        &self,
        local: &Local,
        skip: u32,
        len: u32,
    ) -> Option<InlinePieces<'_, 's>> {
        let (skip, left) = (usize::try_from(skip).ok()?, usize::try_from(len).ok()?);
        local.inline.then_some(InlinePieces { locals: self, rest: local.rest, skip, left })
    }
}

/// Parts of the elements of a list.
pub(crate) struct Pieces<'l, 's> {
    locals: &'l Locals<'s>,
    sge: Sge,
    rest: Link,
    skip: u32,
    left: u32,
}

impl Iterator for Pieces<'_, '_> {
    type Item = Sge;

    fn next(&mut self) -> Option<Sge> {
        while self.left > 0 {
            if self.skip >= self.sge.len {
                self.skip -= self.sge.len;
                let slot = self.locals.sges.get(self.rest.index()?)?;
                (self.sge, self.rest) = (slot.sge, slot.link);
                continue;
            }
            let len = (self.sge.len - self.skip).min(self.left);
            let piece = self.sge.part(self.skip, len);
            self.skip += len;
            self.left -= len;
            return Some(piece);
        }
        None
    }
}

/// Parts of the slots of inline data.
pub(crate) struct InlinePieces<'l, 's> {
    locals: &'l Locals<'s>,
    rest: Link,
    skip: usize,
    left: usize,
}

impl<'l> Iterator for InlinePieces<'l, '_> {
    type Item = &'l [u8];

    fn next(&mut self) -> Option<&'l [u8]> {
        while self.left > 0 {
            let slot = self.locals.inlines.get(self.rest.index()?)?;
            self.rest = slot.link;
            let skip = self.skip.min(InlineSlot::BYTES);
            self.skip -= skip;
            let len = (InlineSlot::BYTES - skip).min(self.left);
            if len > 0 {
                self.left -= len;
                return slot.bytes.get(skip..skip + len);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sge(va: u64, len: u32) -> Sge {
        Sge { va, len, lkey: LKey(u32::try_from(va >> 8).unwrap()) }
    }

    #[test]
    fn pieces_of_a_list() {
        let (mut sges, mut inlines) = ([SgeSlot::EMPTY; 2], []);
        let mut locals = Locals::new(&mut sges, &mut inlines);
        let list = [sge(0, 0), sge(0x100, 10), sge(0, 0), sge(0x200, 1), sge(0x300, 20)];
        let local = locals.keep(&list, 31).unwrap();
        assert!(!local.is_one());
        let pieces = |skip, len| {
            let pieces = locals.pieces(&local, skip, len);
            pieces.map(|sge| (sge.va, sge.len)).collect::<Vec<_>>()
        };
        assert_eq!(pieces(0, 31), [(0x100, 10), (0x200, 1), (0x300, 20)]);
        assert_eq!(pieces(0, 10), [(0x100, 10)]);
        assert_eq!(pieces(9, 3), [(0x109, 1), (0x200, 1), (0x300, 1)]);
        assert_eq!(pieces(10, 1), [(0x200, 1)]);
        assert_eq!(pieces(11, 20), [(0x300, 20)]);
        assert_eq!(pieces(30, 1), [(0x313, 1)]);
        assert_eq!(pieces(31, 0), []);
        assert_eq!(pieces(30, 9), [(0x313, 1)], "no farther than the list");
        assert!(locals.keep(&list, 31).is_none(), "no slots are left");
        assert!(locals.keep(&list[..3], 10).is_some(), "none is needed");
        locals.give(local);
        assert!(locals.keep(&list, 31).is_some());
    }

    #[test]
    fn what_was_taken_for_a_list_too_long_comes_back() {
        let (mut sges, mut inlines) = ([SgeSlot::EMPTY; 2], [InlineSlot::EMPTY; 2]);
        let mut locals = Locals::new(&mut sges, &mut inlines);
        for _ in 0..3 {
            assert!(locals.keep(&[sge(0, 1); 4], 4).is_none());
            assert!(locals.keep_inline(&[0; 121], 121).is_none());
        }
        assert!(locals.keep(&[sge(0, 1); 3], 3).is_some());
        assert!(locals.keep_inline(&[0; 120], 120).is_some());
    }

    #[test]
    fn pieces_of_inline_data() {
        let (mut sges, mut inlines) = ([], [InlineSlot::EMPTY; 3]);
        let mut locals = Locals::new(&mut sges, &mut inlines);
        let data: Vec<u8> = (0..150).collect();
        let local = locals.keep_inline(&data, 150).unwrap();
        assert_eq!(locals.pieces(&local, 0, 150).count(), 0, "there are no keys");
        for (skip, len) in [(0, 150), (0, 60), (59, 2), (60, 60), (120, 30), (149, 1), (70, 0)] {
            let pieces = locals.inline_pieces(&local, skip, len).unwrap();
            let range = usize::try_from(skip).unwrap()..usize::try_from(skip + len).unwrap();
            assert_eq!(pieces.flatten().copied().collect::<Vec<_>>(), data[range]);
        }
        locals.give(local);
        let list = locals.keep(&[sge(0x100, 4)], 4).unwrap();
        assert!(locals.inline_pieces(&list, 0, 4).is_none());
        assert!(list.is_one());
    }
}
