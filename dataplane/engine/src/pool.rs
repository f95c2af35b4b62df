//! Slots lent by the caller, linked by index: the only containers the engine has.

/// A link to a slot: its index and one, so that a zeroed slot links to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Link(u32);

impl Link {
    pub(crate) const NONE: Self = Self(0);

    #[inline]
    pub(crate) const fn to(index: u32) -> Self {
        Self(index.wrapping_add(1))
    }

    #[inline]
    pub(crate) const fn index(self) -> Option<u32> {
        self.0.checked_sub(1)
    }

    #[inline]
    pub(crate) const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// A slot that can be linked.
pub(crate) trait Linked {
    fn link(&mut self) -> &mut Link;
}

/// A first-in first-out list of slots of one pool.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct List {
    head: Link,
    tail: Link,
    len: u32,
}

impl List {
    pub(crate) const EMPTY: Self = Self { head: Link::NONE, tail: Link::NONE, len: 0 };

    #[inline]
    pub(crate) const fn head(&self) -> Link {
        self.head
    }

    #[inline]
    pub(crate) const fn tail(&self) -> Link {
        self.tail
    }

    #[inline]
    pub(crate) const fn len(&self) -> u32 {
        self.len
    }
}

/// A pool of slots. Slots never used yet are handed out in order, so a zeroed pool needs no
/// start-up; freed ones come again in the order they were freed.
#[derive(Debug)]
pub(crate) struct Pool<'s, T> {
    slots: &'s mut [T],
    free: List,
    fresh: u32,
}

impl<'s, T: Linked> Pool<'s, T> {
    pub(crate) fn new(slots: &'s mut [T]) -> Self {
        Self { slots, free: List::EMPTY, fresh: 0 }
    }

    /// Takes a slot out of the pool; its contents are what was last there.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let mut free = self.free;
        let taken = self.pop_front(&mut free);
        self.free = free;
        taken.or_else(|| {
            let index = self.fresh;
            self.get(index)?;
            self.fresh += 1;
            Some(index)
        })
    }

    /// How many slots are not in the pool.
    pub(crate) const fn taken(&self) -> u32 {
        self.fresh - self.free.len()
    }

    /// Gives a slot back.
    pub(crate) fn give(&mut self, index: u32) {
        let mut free = self.free;
        self.push_back(&mut free, index);
        self.free = free;
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.slots.get(usize::try_from(index).ok()?)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots.get_mut(usize::try_from(index).ok()?)
    }

    /// Appends a slot to a list.
    pub(crate) fn push_back(&mut self, list: &mut List, index: u32) {
        let Some(slot) = self.get_mut(index) else { return };
        *slot.link() = Link::NONE;
        match list.tail.index() {
            None => list.head = Link::to(index),
            Some(tail) => {
                if let Some(last) = self.get_mut(tail) {
                    *last.link() = Link::to(index);
                }
            }
        }
        list.tail = Link::to(index);
        list.len += 1;
    }

    /// Puts a slot before the others of a list.
    pub(crate) fn push_front(&mut self, list: &mut List, index: u32) {
        let Some(slot) = self.get_mut(index) else { return };
        *slot.link() = list.head;
        list.head = Link::to(index);
        if list.tail.is_none() {
            list.tail = list.head;
        }
        list.len += 1;
    }

    /// Puts a slot behind another one of a list.
    pub(crate) fn insert_after(&mut self, list: &mut List, before: u32, index: u32) {
        if list.tail == Link::to(before) {
            return self.push_back(list, index);
        }
        let next = self.next(Link::to(before));
        let Some(slot) = self.get_mut(index) else { return };
        *slot.link() = next;
        if let Some(slot) = self.get_mut(before) {
            *slot.link() = Link::to(index);
            list.len += 1;
        }
    }

    /// Takes the first slot off a list.
    pub(crate) fn pop_front(&mut self, list: &mut List) -> Option<u32> {
        let index = list.head.index()?;
        let next = self.next(Link::to(index));
        list.head = next;
        if next.is_none() {
            list.tail = Link::NONE;
        }
        list.len = list.len.saturating_sub(1);
        Some(index)
    }

    /// The slot after the linked one.
    #[inline]
    pub(crate) fn next(&mut self, link: Link) -> Link {
        link.index().and_then(|index| self.get_mut(index)).map_or(Link::NONE, |slot| *slot.link())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    struct Slot(Link);

    impl Linked for Slot {
        fn link(&mut self) -> &mut Link {
            &mut self.0
        }
    }

    #[test]
    fn slots_come_again_last() {
        let mut slots = [Slot(Link::NONE); 3];
        let mut pool = Pool::new(&mut slots);
        assert_eq!([pool.take(), pool.take()], [Some(0), Some(1)]);
        pool.give(0);
        assert_eq!(pool.take(), Some(0), "freed before fresh");
        assert_eq!(pool.take(), Some(2));
        assert_eq!(pool.take(), None);
        pool.give(2);
        pool.give(1);
        assert_eq!([pool.take(), pool.take(), pool.take()], [Some(2), Some(1), None]);
    }

    #[test]
    fn lists_keep_order() {
        let mut slots = [Slot(Link::NONE); 4];
        let mut pool = Pool::new(&mut slots);
        let mut list = List::EMPTY;
        for _ in 0..3 {
            let index = pool.take().unwrap();
            pool.push_back(&mut list, index);
        }
        assert_eq!(list.len(), 3);
        assert_eq!(pool.pop_front(&mut list), Some(0));
        pool.push_back(&mut list, 0);
        assert_eq!(pool.pop_front(&mut list), Some(1));
        assert_eq!(pool.pop_front(&mut list), Some(2));
        assert_eq!(pool.pop_front(&mut list), Some(0));
        assert_eq!(pool.pop_front(&mut list), None);
        pool.push_front(&mut list, 1);
        pool.push_front(&mut list, 2);
        pool.push_back(&mut list, 0);
        assert_eq!(list.len(), 3);
        for expect in [Some(2), Some(1), Some(0), None] {
            assert_eq!(pool.pop_front(&mut list), expect);
        }
        assert!(list.head().is_none());
        assert_eq!(list.len(), 0);
        pool.push_back(&mut list, 0);
        pool.insert_after(&mut list, 0, 2);
        pool.insert_after(&mut list, 0, 1);
        pool.insert_after(&mut list, 2, 3);
        assert_eq!((list.len(), list.tail()), (4, Link::to(3)));
        for expect in [Some(0), Some(1), Some(2), Some(3), None] {
            assert_eq!(pool.pop_front(&mut list), expect);
        }
    }
}
