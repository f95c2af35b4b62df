//! Timers: one deadline a queue pair, in an intrusive hierarchical wheel.
//!
//! Six levels of 64 slots; a slot of level n spans 64ⁿ ticks: of 4.096 µs, the unit of the
//! specification's timeouts, or, for pacing, of 64 ns. Arming and disarming touch two neighbours;
//! finding the next deadline reads six bitmaps. A timer never fires early, and less than a tick
//! late.

use crate::pool::Link;
use crate::time::Instant;

/// The tick of acknowledge and RNR timers.
pub(crate) const TICK_NS: u64 = 4096;
/// The tick of pacing: a packet's time at some 100 Gb/s and more.
pub(crate) const PACING_TICK_NS: u64 = 64;
const LEVELS: u32 = 6;
const SLOTS: usize = 64;
const SLOT_BITS: u32 = 6;
/// A turn of the wheel in ticks: about 78 hours of 4.096 µs. Deadlines more than 63 of its 64 slots
/// ahead are brought back.
const HORIZON: u64 = 1 << (SLOT_BITS * LEVELS);

/// One queue pair's timer; part of [`Storage`](crate::Storage).
#[derive(Debug, Clone, Copy)]
pub struct TimerNode {
    prev: Link,
    next: Link,
    place: Place,
    tick: u64,
}

/// Which list a node is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Idle,
    Slot { level: u32, slot: usize },
    Due,
}

impl TimerNode {
    /// An unarmed timer.
    pub const EMPTY: Self =
        Self { prev: Link::NONE, next: Link::NONE, place: Place::Idle, tick: 0 };
}

#[derive(Debug)]
pub(crate) struct Wheel<'s> {
    nodes: &'s mut [TimerNode],
    tick_ns: u64,
    /// Every deadline up to this tick has fired or is in `due`.
    elapsed: u64,
    heads: [[Link; SLOTS]; LEVELS as usize],
    occupied: [u64; LEVELS as usize],
    due: Link,
}

impl<'s> Wheel<'s> {
    pub(crate) fn new(nodes: &'s mut [TimerNode], tick_ns: u64) -> Self {
        Self {
            nodes,
            tick_ns: tick_ns.max(1),
            elapsed: 0,
            heads: [[Link::NONE; SLOTS]; LEVELS as usize],
            occupied: [0; LEVELS as usize],
            due: Link::NONE,
        }
    }

    /// Sets the timer of `index`, replacing what was set.
    pub(crate) fn arm(&mut self, index: u32, now: Instant, deadline: Instant) {
        self.disarm(index);
        if self.due.is_none() && self.occupied.iter().all(|bits| *bits == 0) {
            // Nobody had a reason to call `expire` meanwhile.
            self.elapsed = self.elapsed.max(now.0 / self.tick_ns);
        }
        let tick = deadline.0.div_ceil(self.tick_ns);
        // A whole turn of the highest level, less the slot we are in: what lies in that slot is
        // taken to be near.
        let slot = HORIZON >> SLOT_BITS;
        let farthest = (self.elapsed & !(slot - 1)).saturating_add(HORIZON - 1);
        self.insert(index, tick.min(farthest));
    }

    pub(crate) fn disarm(&mut self, index: u32) {
        let Some(node) = self.node(index).copied() else { return };
        if node.place == Place::Idle {
            return;
        }
        match node.prev.index() {
            Some(prev) => self.update(prev, |prev| prev.next = node.next),
            None => *self.head(node.place) = node.next,
        }
        if let Some(next) = node.next.index() {
            self.update(next, |next| next.prev = node.prev);
        }
        if let Place::Slot { level, slot } = node.place
            && self.head(node.place).is_none()
            && let Some(bits) = self.occupied.get_mut(level as usize)
        {
            *bits &= !(1 << slot);
        }
        self.update(index, |node| *node = TimerNode::EMPTY);
    }

    pub(crate) fn is_armed(&self, index: u32) -> bool {
        usize::try_from(index)
            .ok()
            .and_then(|index| self.nodes.get(index))
            .is_some_and(|node| node.place != Place::Idle)
    }

    /// Takes one timer whose deadline has passed.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<u32> {
        let now = now.0 / self.tick_ns;
        loop {
            if let Some(index) = self.due.index() {
                self.disarm(index);
                return Some(index);
            }
            let Some((level, slot, start)) = self.next_slot().filter(|next| next.2 <= now) else {
                self.elapsed = self.elapsed.max(now);
                return None;
            };
            self.elapsed = self.elapsed.max(start);
            // A slot of level 0 is due; one above is spread over the levels below.
            while let Some(index) = self.head(Place::Slot { level, slot }).index() {
                let tick = self.node(index).map_or(0, |node| node.tick);
                self.disarm(index);
                self.insert(index, tick);
            }
        }
    }

    /// When [`Wheel::expire`] should be called next: exact within the lowest level, otherwise the
    /// start of the slot that has to be spread.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        if !self.due.is_none() {
            return Some(Instant(self.elapsed.saturating_mul(self.tick_ns)));
        }
        self.next_slot().map(|(_, _, start)| Instant(start.saturating_mul(self.tick_ns)))
    }

    /// The occupied slot that starts first, and the tick it starts at.
    fn next_slot(&self) -> Option<(u32, usize, u64)> {
        for (level, &bits) in (0..LEVELS).zip(&self.occupied) {
            if bits == 0 {
                continue;
            }
            let shift = level * SLOT_BITS;
            let current = (self.elapsed >> shift) & 63;
            // Rotate so that bit 0 is the current slot: the first set bit is the next slot.
            let ahead = bits.rotate_right(u32::try_from(current).unwrap_or(0)).trailing_zeros();
            let slot = (current + u64::from(ahead)) & 63;
            let span = 1u64 << (shift + SLOT_BITS);
            let mut start = (self.elapsed & !(span - 1)) + (slot << shift);
            if start < self.elapsed & !((1 << shift) - 1) {
                start += span;
            }
            return Some((level, usize::try_from(slot).unwrap_or(0), start));
        }
        None
    }

    fn insert(&mut self, index: u32, tick: u64) {
        let place = if tick <= self.elapsed {
            Place::Due
        } else {
            // The highest six-bit group in which the deadline differs from now.
            let level = ((self.elapsed ^ tick).ilog2() / SLOT_BITS).min(LEVELS - 1);
            let slot = (tick >> (level * SLOT_BITS)) & 63;
            Place::Slot { level, slot: usize::try_from(slot).unwrap_or(0) }
        };
        if let Place::Slot { level, slot } = place
            && let Some(bits) = self.occupied.get_mut(level as usize)
        {
            *bits |= 1 << slot;
        }
        let head = self.head(place);
        let next = core::mem::replace(head, Link::to(index));
        if let Some(next) = next.index() {
            self.update(next, |node| node.prev = Link::to(index));
        }
        self.update(index, |node| *node = TimerNode { prev: Link::NONE, next, place, tick });
    }

    fn head(&mut self, place: Place) -> &mut Link {
        match place {
            Place::Slot { level, slot } => &mut self.heads[level as usize & 7][slot & 63],
            Place::Due | Place::Idle => &mut self.due,
        }
    }

    fn node(&mut self, index: u32) -> Option<&mut TimerNode> {
        self.nodes.get_mut(usize::try_from(index).ok()?)
    }

    fn update(&mut self, index: u32, change: impl FnOnce(&mut TimerNode)) {
        if let Some(node) = self.node(index) {
            change(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SeededEntropy;

    #[test]
    fn a_timer_fires_once_and_not_early() {
        let mut nodes = [TimerNode::EMPTY; 2];
        let mut wheel = Wheel::new(&mut nodes, TICK_NS);
        wheel.arm(0, Instant::ZERO, Instant(10_000));
        assert!(wheel.is_armed(0));
        assert_eq!(wheel.expire(Instant(9_999)), None);
        assert_eq!(wheel.expire(Instant(10_000 + TICK_NS)), Some(0));
        assert_eq!(wheel.expire(Instant(1 << 40)), None);
        assert!(!wheel.is_armed(0));
    }

    #[test]
    fn rearming_moves_and_disarming_removes() {
        let mut nodes = [TimerNode::EMPTY; 3];
        let mut wheel = Wheel::new(&mut nodes, TICK_NS);
        for index in 0..3 {
            wheel.arm(index, Instant::ZERO, Instant(1_000_000));
        }
        wheel.arm(1, Instant::ZERO, Instant(5_000_000));
        wheel.disarm(0);
        assert_eq!(wheel.expire(Instant(2_000_000)), Some(2));
        assert_eq!(wheel.expire(Instant(2_000_000)), None);
        assert_eq!(wheel.expire(Instant(6_000_000)), Some(1));
        assert_eq!(wheel.next_deadline(), None);
    }

    /// A clock may start anywhere, and an engine without work is not called for days.
    #[test]
    fn days_without_a_timer_do_not_matter() {
        let mut nodes = [TimerNode::EMPTY; 1];
        let mut wheel = Wheel::new(&mut nodes, TICK_NS);
        assert_eq!(wheel.expire(Instant(5 * TICK_NS)), None);
        for days in [3, 4, 365, 20_000] {
            let now = Instant(days * 86_400_000_000_000);
            let deadline = now.add_ns(67_108_864);
            wheel.arm(0, now, deadline);
            assert_eq!(wheel.expire(Instant(deadline.0 - 1)), None, "day {days}");
            assert_eq!(wheel.expire(deadline.add_ns(TICK_NS)), Some(0), "day {days}");
        }
    }

    #[test]
    fn deadlines_beyond_the_horizon_are_brought_back() {
        let mut nodes = [TimerNode::EMPTY; 2];
        let mut wheel = Wheel::new(&mut nodes, TICK_NS);
        assert_eq!(wheel.expire(Instant(5 * TICK_NS)), None);
        // One is armed already, so that time does not move when the other is.
        wheel.arm(1, Instant::ZERO, Instant(10 * TICK_NS));
        wheel.arm(0, Instant(u64::MAX / 2), Instant(u64::MAX));
        assert_eq!(wheel.expire(Instant(20 * TICK_NS)), Some(1));
        assert_eq!(wheel.expire(Instant(77 * 3_600_000_000_000)), None);
        assert_eq!(wheel.expire(Instant(80 * 3_600_000_000_000)), Some(0));
    }

    /// Against a plain sorted list: every deadline up to hours ahead fires after it is due and
    /// less than a tick late when the caller follows `next_deadline`.
    #[test]
    fn agrees_with_a_sorted_list() {
        let mut random = SeededEntropy::new(7);
        let mut nodes = [TimerNode::EMPTY; 200];
        let mut wheel = Wheel::new(&mut nodes, TICK_NS);
        let mut model: [Option<u64>; 200] = [None; 200];
        let mut now = 0;
        for _ in 0..20_000 {
            let index = u32::try_from(random.next_u64() % 200).unwrap();
            match random.next_u64() % 3 {
                0 => {
                    let deadline = now + (random.next_u64() >> (random.next_u64() % 40 + 20));
                    wheel.arm(index, Instant(now), Instant(deadline));
                    model[index as usize] = Some(deadline);
                }
                1 => {
                    wheel.disarm(index);
                    model[index as usize] = None;
                }
                _ => {
                    let Some(next) = wheel.next_deadline() else { continue };
                    now = now.max(next.0);
                    while let Some(fired) = wheel.expire(Instant(now)) {
                        let deadline = model[fired as usize].take().expect("fired while armed");
                        assert!(deadline <= now, "early by {}", deadline - now);
                        assert!(now - deadline < TICK_NS, "late by {}", now - deadline);
                    }
                }
            }
        }
    }
}
