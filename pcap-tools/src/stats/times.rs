//! Durations, of which quantiles are asked.

use hdrhistogram::Histogram;

/// Digits that are kept of a duration.
const DIGITS: u8 = 2;
/// Longer durations count as that: 13 days.
const LONGEST_NS: u64 = 1 << 50;

/// Durations in nanoseconds. Quantiles are at most 1 % above the true value; the shortest and the
/// longest are exact.
#[derive(Debug, Clone, Default)]
pub struct Times {
    /// It grows with the longest duration, to 20 kB.
    histogram: Option<Box<Histogram<u32>>>,
    count: u64,
    min_ns: u64,
    max_ns: u64,
}

impl Times {
    /// Adds a duration.
    pub fn record(&mut self, ns: u64) {
        self.min_ns = if self.count == 0 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.count += 1;
        if self.histogram.is_none() {
            self.histogram = empty().map(Box::new);
        }
        if let Some(histogram) = &mut self.histogram {
            // It resizes itself, so that every value has a place.
            let _ = histogram.record(ns.min(LONGEST_NS));
        }
    }

    /// Adds all of another's.
    pub fn add(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min_ns = if self.count == 0 { other.min_ns } else { self.min_ns.min(other.min_ns) };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.count += other.count;
        match (&mut self.histogram, &other.histogram) {
            (Some(ours), Some(theirs)) => {
                for value in theirs.iter_recorded() {
                    let _ = ours.record_n(value.value_iterated_to(), value.count_at_value());
                }
            }
            (none, theirs) => *none = theirs.clone(),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest, exactly.
    #[must_use]
    pub fn max_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max_ns)
    }

    /// The shortest, exactly.
    #[must_use]
    pub fn min_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min_ns)
    }

    /// The duration that a share of `quantile` (0 to 1) does not exceed, at most 1 % too long.
    #[must_use]
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let histogram = self.histogram.as_ref()?;
        Some(histogram.value_at_quantile(quantile).clamp(self.min_ns, self.max_ns))
    }

    /// The durations in steps of 1 % or less: up to what, and how many.
    pub fn steps(&self) -> impl Iterator<Item = (u64, u64)> {
        let histogram = self.histogram.as_deref();
        histogram.into_iter().flat_map(|histogram| {
            let recorded = histogram.iter_recorded();
            recorded.map(|value| (value.value_iterated_to(), u64::from(value.count_at_value())))
        })
    }
}

fn empty() -> Option<Histogram<u32>> {
    let mut histogram = Histogram::new_with_bounds(1, 2, DIGITS).ok()?;
    histogram.auto(true);
    Some(histogram)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_one_percent() {
        let mut times = Times::default();
        assert_eq!((times.quantile_ns(0.5), times.max_ns()), (None, None));
        let mut exact: Vec<u64> = (1..=10_000_u64).map(|i| i * i * 13 % 7_000_000 + 5).collect();
        for ns in &exact {
            times.record(*ns);
        }
        exact.sort_unstable();
        for (quantile, rank) in [(0.5, 5_000), (0.99, 9_900), (0.999, 9_990), (1.0, 10_000)] {
            let (true_ns, told_ns) = (exact[rank - 1], times.quantile_ns(quantile).unwrap());
            assert!(told_ns >= true_ns && told_ns <= true_ns + true_ns / 100, "{quantile}");
        }
        assert_eq!((times.min_ns(), times.max_ns()), (Some(exact[0]), exact.last().copied()));
        assert_eq!(times.steps().map(|(_, count)| count).sum::<u64>(), 10_000);
    }

    #[test]
    fn sums_are_as_if_recorded_in_one() {
        let (mut one, mut other, mut both) = (Times::default(), Times::default(), Times::default());
        for ns in 1..1000 {
            if ns % 3 == 0 { &mut one } else { &mut other }.record(ns * 1000);
            both.record(ns * 1000);
        }
        one.add(&other);
        one.add(&Times::default());
        for quantile in [0.1, 0.5, 0.999] {
            assert_eq!(one.quantile_ns(quantile), both.quantile_ns(quantile));
        }
        assert_eq!((one.count(), one.max_ns()), (both.count(), both.max_ns()));
    }

    #[test]
    fn any_duration_has_a_place() {
        let mut times = Times::default();
        for ns in [0, 1, u64::MAX] {
            times.record(ns);
        }
        assert_eq!((times.min_ns(), times.max_ns(), times.count()), (Some(0), Some(u64::MAX), 3));
    }
}
