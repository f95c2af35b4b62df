//! Sums over time, in a bounded number of intervals that double when the time gets long.

/// Intervals kept.
const MOST: usize = 512;
/// The width they start with.
const FIRST_WIDTH_NS: u64 = 1_000;

/// What an interval sums up.
pub(crate) trait Sum: Clone + Default {
    /// Takes in the interval behind this one.
    fn join(&mut self, later: &Self);
}

/// Intervals of one width, from a start on.
#[derive(Debug, Clone)]
pub(crate) struct Series<S> {
    start_ns: u64,
    width_ns: u64,
    intervals: Vec<S>,
}

impl<S: Sum> Series<S> {
    pub(crate) fn new(start_ns: u64) -> Self {
        Self { start_ns, width_ns: FIRST_WIDTH_NS, intervals: Vec::new() }
    }

    /// The interval of a time; the first one for times before it.
    #[inline]
    pub(crate) fn at(&mut self, time_ns: u64) -> &mut S {
        let since_ns = time_ns.saturating_sub(self.start_ns);
        let mut at = self.place(since_ns);
        while at >= MOST {
            self.double();
            at = self.place(since_ns);
        }
        if at >= self.intervals.len() {
            self.intervals.resize(at + 1, S::default());
        }
        &mut self.intervals[at]
    }

    fn place(&self, since_ns: u64) -> usize {
        usize::try_from(since_ns / self.width_ns).unwrap_or(usize::MAX)
    }

    fn double(&mut self) {
        let pairs = self.intervals.chunks(2).map(|pair| {
            let mut sum = pair[0].clone();
            if let Some(later) = pair.get(1) {
                sum.join(later);
            }
            sum
        });
        self.intervals = pairs.collect();
        // From 1 µs on, 64 bits have room for 54 doublings; the width then covers all there is.
        self.width_ns = self.width_ns.saturating_mul(2);
    }

    /// Where the interval of a time ends.
    pub(crate) fn end_of(&self, time_ns: u64) -> u64 {
        let since_ns = time_ns.saturating_sub(self.start_ns);
        let end_ns = (since_ns / self.width_ns).saturating_add(1).saturating_mul(self.width_ns);
        self.start_ns.saturating_add(end_ns)
    }

    pub(crate) fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// Start of each interval, nanoseconds since 1970, and its sum.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &S)> {
        let starts = (0..).map(|at: u64| self.start_ns.saturating_add(at * self.width_ns));
        starts.zip(&self.intervals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Sum for u64 {
        fn join(&mut self, later: &Self) {
            *self += later;
        }
    }

    #[test]
    fn widths_double_and_nothing_is_lost() {
        let mut series = Series::<u64>::new(1_000_000);
        let mut total = 0;
        for step in 0..2_000_u64 {
            *series.at(1_000_000 + step * step * 700) += step;
            total += step;
        }
        *series.at(0) += 7; // before the start
        assert_eq!(series.iter().map(|(_, sum)| sum).sum::<u64>(), total + 7);
        assert!(series.intervals.len() <= MOST && series.intervals.len() > MOST / 2);
        let (start, _) = series.iter().nth(1).unwrap();
        assert_eq!(start, 1_000_000 + series.width_ns());
        assert_eq!(series.end_of(1_000_000), start);
    }

    #[test]
    fn the_end_of_time_is_reached() {
        let mut series = Series::<u64>::new(0);
        *series.at(u64::MAX) += 1;
        *series.at(0) += 1;
        assert!(series.intervals.len() <= MOST);
        assert!(series.end_of(u64::MAX) > 0);
    }
}
