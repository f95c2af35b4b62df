//! One direction of a wire, with faults.

use std::collections::BTreeMap;

use roce_engine::Instant;

use crate::random::Random;

/// The shortest Ethernet frame, without its check sequence: shorter ones are filled up.
const MIN_FRAME: usize = 60;

/// How often each fault strikes, in frames of a thousand; each is rolled by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// Lost.
    pub drop: u32,
    /// Delivered twice, the second time a little later.
    pub duplicate: u32,
    /// Overtaken by what is sent shortly after it.
    pub reorder: u32,
    /// One to three bits flipped, or cut short.
    pub corrupt: u32,
    /// Held back for as long as the wire may.
    pub delay: u32,
}

impl Faults {
    /// A perfect wire.
    pub const NONE: Self = Self { drop: 0, duplicate: 0, reorder: 0, corrupt: 0, delay: 0 };
}

/// How often each fault has struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Struck {
    /// Frames sent into the wire.
    pub sent: u64,
    /// Frames that came out.
    pub delivered: u64,
    /// Frames lost.
    pub drop: u64,
    /// Frames delivered twice.
    pub duplicate: u64,
    /// Frames overtaken.
    pub reorder: u64,
    /// Frames damaged.
    pub corrupt: u64,
    /// Frames held back.
    pub delay: u64,
}

impl std::ops::AddAssign for Struck {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.delivered += other.delivered;
        self.drop += other.drop;
        self.duplicate += other.duplicate;
        self.reorder += other.reorder;
        self.corrupt += other.corrupt;
        self.delay += other.delay;
    }
}

/// One direction of a wire.
#[derive(Debug)]
pub struct Wire {
    faults: Faults,
    latency_ns: u64,
    max_delay_ns: u64,
    random: Random,
    /// By time of arrival, then by the order they were sent in.
    in_flight: BTreeMap<(Instant, u64), Vec<u8>>,
    serial: u64,
    struck: Struck,
}

impl Wire {
    /// A wire with this latency, whose delayed frames arrive up to `max_delay_ns` later.
    #[must_use]
    pub fn new(faults: Faults, latency_ns: u64, max_delay_ns: u64, seed: u64) -> Self {
        Self {
            faults,
            latency_ns,
            max_delay_ns,
            random: Random::new(seed),
            in_flight: BTreeMap::new(),
            serial: 0,
            struck: Struck::default(),
        }
    }

    /// How often each fault has struck.
    #[must_use]
    pub fn struck(&self) -> Struck {
        self.struck
    }

    /// Takes a frame. `perfect` spares it all faults.
    pub fn send(&mut self, now: Instant, mut frame: Vec<u8>, perfect: bool) {
        self.struck.sent += 1;
        let faults = if perfect { Faults::NONE } else { self.faults };
        while frame.len() < MIN_FRAME {
            frame.push(self.random.bits().to_le_bytes()[0]);
        }
        if self.random.strikes(faults.drop) {
            self.struck.drop += 1;
            return;
        }
        let mut at = now.add_ns(self.latency_ns);
        if self.random.strikes(faults.duplicate) {
            self.struck.duplicate += 1;
            let again = at.add_ns(self.random.below(4 * self.latency_ns));
            self.enqueue(again, frame.clone());
        }
        if self.random.strikes(faults.corrupt) {
            self.struck.corrupt += 1;
            self.damage(&mut frame);
        }
        if self.random.strikes(faults.reorder) {
            self.struck.reorder += 1;
            at = at.add_ns(self.random.within(1, 2 * self.latency_ns));
        }
        if self.random.strikes(faults.delay) {
            self.struck.delay += 1;
            at = at.add_ns(self.random.below(self.max_delay_ns));
        }
        self.enqueue(at, frame);
    }

    fn enqueue(&mut self, at: Instant, frame: Vec<u8>) {
        self.serial += 1;
        self.in_flight.insert((at, self.serial), frame);
    }

    /// Up to three flipped bits, which the ICRC is sure to notice, or a frame cut short.
    fn damage(&mut self, frame: &mut Vec<u8>) {
        if self.random.one_in(5) {
            let len = self.random.index(frame.len());
            frame.truncate(len);
            return;
        }
        for _ in 0..self.random.within(1, 3) {
            let bit = self.random.index(frame.len() * 8);
            frame[bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// When the next frame arrives.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.in_flight.first_key_value().map(|((at, _), _)| *at)
    }

    /// A frame that has arrived by now.
    pub fn receive(&mut self, now: Instant) -> Option<Vec<u8>> {
        let first = self.in_flight.first_entry().filter(|first| first.key().0 <= now)?;
        self.struck.delivered += 1;
        Some(first.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_perfect_wire_keeps_order_and_bytes() {
        let mut wire = Wire::new(Faults::NONE, 100, 0, 1);
        for byte in 0..10 {
            wire.send(Instant(u64::from(byte / 2)), vec![byte; 70], false);
        }
        assert_eq!(wire.next(), Some(Instant(100)));
        assert_eq!(wire.receive(Instant(99)), None);
        for byte in 0..10 {
            assert_eq!(wire.receive(Instant(104)), Some(vec![byte; 70]));
        }
        assert_eq!(wire.next(), None);
    }

    #[test]
    fn faults_strike_as_often_as_they_say() {
        let faults = Faults { drop: 100, duplicate: 200, reorder: 50, corrupt: 150, delay: 20 };
        let mut wire = Wire::new(faults, 100, 10_000, 2);
        for number in 0..10_000 {
            wire.send(Instant(number * 10), vec![0; 70], false);
        }
        let mut last = None;
        let mut damaged = 0;
        while let Some(at) = wire.next() {
            assert!(last <= Some(at));
            last = Some(at);
            damaged += u64::from(wire.receive(at).unwrap() != [0; 70]);
        }
        let struck = wire.struck();
        assert_eq!(struck.delivered, struck.sent - struck.drop + struck.duplicate);
        assert!((900..1100).contains(&struck.drop), "{struck:?}");
        // Of those that are left.
        assert!((1650..1950).contains(&struck.duplicate), "{struck:?}");
        assert!((1200..1500).contains(&struck.corrupt), "{struck:?}");
        assert!(struck.reorder > 300 && struck.delay > 100, "{struck:?}");
        // Two flips can meet.
        assert!(damaged <= struck.corrupt && damaged + 20 > struck.corrupt);
    }
}
