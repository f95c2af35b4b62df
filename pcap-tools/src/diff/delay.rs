//! How long packets took from one tap to the other.

/// Samples that are kept: when they are too many, every other one goes.
const MAX_SAMPLES: usize = 1 << 16;

/// Delays, least and greatest exactly, the middle of them by samples.
#[derive(Debug, Clone, Default)]
pub struct Delays {
    count: u64,
    least_ns: i64,
    greatest_ns: i64,
    stride: u64,
    samples: Vec<i64>,
}

impl Delays {
    pub(super) fn add(&mut self, ns: i64) {
        if self.count == 0 {
            (self.least_ns, self.greatest_ns, self.stride) = (ns, ns, 1);
        }
        self.least_ns = self.least_ns.min(ns);
        self.greatest_ns = self.greatest_ns.max(ns);
        if self.count.is_multiple_of(self.stride) {
            if self.samples.len() >= MAX_SAMPLES {
                let mut keep = false;
                self.samples.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.stride *= 2;
            }
            self.samples.push(ns);
        }
        self.count += 1;
    }

    /// Packets seen at both taps, with times.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The least, nanoseconds; the clocks' offset is in it.
    #[must_use]
    pub fn least_ns(&self) -> Option<i64> {
        (self.count > 0).then_some(self.least_ns)
    }

    /// The greatest, nanoseconds.
    #[must_use]
    pub fn greatest_ns(&self) -> Option<i64> {
        (self.count > 0).then_some(self.greatest_ns)
    }

    /// The one that so many thousandths do not exceed, nanoseconds.
    #[must_use]
    pub fn per_mille_ns(&self, per_mille: usize) -> Option<i64> {
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * per_mille.min(1000)).div_ceil(1000).saturating_sub(1);
        sorted.get(at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_many() {
        let mut delays = Delays::default();
        assert_eq!((delays.least_ns(), delays.per_mille_ns(500)), (None, None));
        for ns in 0..1_000_000 {
            delays.add(ns - 10);
        }
        assert_eq!((delays.least_ns(), delays.greatest_ns()), (Some(-10), Some(999_989)));
        let median = delays.per_mille_ns(500).unwrap();
        assert!((490_000..510_000).contains(&median), "{median}");
        assert!(delays.samples.len() <= MAX_SAMPLES);
    }
}
