//! The times of a run: all memory is taken before it begins.

use hdrhistogram::Histogram;
use roce_engine::Instant;

use crate::service::perftest::client::{Job, Meter};

/// Latencies are kept to three significant digits, up to this one.
const LONGEST_NS: u64 = 600_000_000_000;
const DIGITS: u8 = 3;
/// Above as many messages, perftest looks for no peak, and neither do we: it takes a comparison
/// for each two of them.
const PEAK_MESSAGES: u64 = 20_000;

/// The times of one run.
#[derive(Debug)]
pub(super) struct Times {
    depth: usize,
    /// Of each queue pair, when the message was posted whose number modulo `depth` is the place.
    posted_at: Vec<Vec<Instant>>,
    /// Of each queue pair, how many messages are done.
    done: Vec<u64>,
    completed: u64,
    first: Option<Instant>,
    last: Instant,
    histogram: Histogram<u64>,
    mean: f64,
    /// The sum of squares of differences from the mean.
    squares: f64,
    /// Where a peak is looked for: when each message was posted, and how many were done by when.
    peak: Option<Peak>,
}

#[derive(Debug)]
struct Peak {
    posted: Vec<Instant>,
    completed: Vec<(u64, Instant)>,
}

impl Times {
    /// Room for a job.
    pub(super) fn new(job: &Job) -> Self {
        let room = |count: u32| usize::try_from(count).unwrap_or(0);
        let total = job.iterations.map(|iterations| iterations * u64::from(job.qps));
        let peak = total
            .filter(|total| *total <= PEAK_MESSAGES && job.test.is_bandwidth())
            .and_then(|total| usize::try_from(total).ok())
            .map(|total| Peak {
                posted: Vec::with_capacity(total),
                completed: Vec::with_capacity(total),
            });
        let depth = room(job.depth).max(1);
        Self {
            depth,
            posted_at: vec![vec![Instant::ZERO; depth]; room(job.qps)],
            done: vec![0; room(job.qps)],
            completed: 0,
            first: None,
            last: Instant::ZERO,
            histogram: histogram(),
            mean: 0.0,
            squares: 0.0,
            peak,
        }
    }

    /// Forgets the last run.
    pub(super) fn clear(&mut self) {
        self.done.fill(0);
        self.completed = 0;
        self.first = None;
        self.histogram.reset();
        (self.mean, self.squares) = (0.0, 0.0);
        if let Some(peak) = &mut self.peak {
            peak.posted.clear();
            peak.completed.clear();
        }
    }

    /// Messages of all queue pairs that are done.
    pub(super) const fn count(&self) -> u64 {
        self.completed
    }

    /// From the first message posted to the last one done, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        let took = self.first.map_or(0, |first| self.last.ns_since(first));
        nanoseconds(took.max(1)) * 1e-9
    }

    /// The most messages a second over any stretch, from when one is posted until it and others
    /// behind it are done; `None` where it is not looked for.
    pub(super) fn peak(&self) -> Option<f64> {
        let Peak { posted, completed } = self.peak.as_ref()?;
        let rates = posted.iter().zip(0u64..).flat_map(|(posted, index)| {
            let later = completed.iter().filter(move |(count, _)| *count > index);
            later.map(move |(count, at)| {
                nanoseconds(count - index) / nanoseconds(at.ns_since(*posted).max(1)) * 1e9
            })
        });
        rates.reduce(f64::max)
    }

    /// The latencies, in microseconds times `share`.
    pub(super) fn latency(&self, share: f64) -> Latency {
        let usec = |ns: f64| ns * share / 1e3;
        let at = |quantile: f64| usec(nanoseconds(self.histogram.value_at_quantile(quantile)));
        let samples = self.histogram.len();
        Latency {
            samples,
            least: usec(nanoseconds(self.histogram.min())),
            most: usec(nanoseconds(self.histogram.max())),
            average: usec(self.mean),
            deviation: usec((self.squares / nanoseconds(samples.max(1))).sqrt()),
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
        }
    }
}

/// What [`Times::latency`] says, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Latency {
    pub(super) samples: u64,
    pub(super) least: f64,
    pub(super) most: f64,
    pub(super) average: f64,
    pub(super) deviation: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
}

impl Meter for Times {
    fn posted(&mut self, qp: usize, index: u64, now: Instant) {
        let place = place(index, self.depth);
        if let Some(at) = self.posted_at.get_mut(qp).and_then(|times| times.get_mut(place)) {
            *at = now;
        }
        self.first.get_or_insert(now);
        if let Some(peak) = &mut self.peak
            && peak.posted.len() < peak.posted.capacity()
        {
            peak.posted.push(now);
        }
    }

    fn completed(&mut self, qp: usize, index: u64, now: Instant) {
        let Some(done) = self.done.get_mut(qp) else { return };
        self.completed += (index + 1).saturating_sub(*done);
        *done = (*done).max(index + 1);
        self.last = now;
        if let Some(peak) = &mut self.peak
            && peak.completed.len() < peak.completed.capacity()
        {
            peak.completed.push((self.completed, now));
        }
        let place = place(index, self.depth);
        let posted = self.posted_at.get(qp).and_then(|times| times.get(place));
        if let Some(posted) = posted {
            let ns = now.ns_since(*posted);
            self.histogram.saturating_record(ns);
            // Welford's way: the sum of squares itself would lose the small ones.
            let delta = nanoseconds(ns) - self.mean;
            self.mean += delta / nanoseconds(self.histogram.len());
            self.squares += delta * (nanoseconds(ns) - self.mean);
        }
    }
}

fn place(index: u64, depth: usize) -> usize {
    u64::try_from(depth).ok().and_then(|depth| usize::try_from(index % depth).ok()).unwrap_or(0)
}

fn histogram() -> Histogram<u64> {
    // These bounds are allowed: from 1 to twice as much at least, one to five digits.
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("bounds that are allowed")
}

/// Exact up to 104 days.
#[expect(clippy::cast_precision_loss, reason = "2^53 nanoseconds are 104 days")]
const fn nanoseconds(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::perftest::Test;

    fn close(found: f64, wanted: f64) {
        assert!((found - wanted).abs() <= wanted.abs() * 1.1e-3, "{found}, not {wanted}");
    }

    /// 1 to 1000 µs: what the percentiles of that are, anybody can tell.
    #[test]
    fn percentiles() {
        let mut times = Times::new(&Job::new(Test::ReadLat));
        let mut now = Instant(77);
        for index in 0..1000 {
            times.posted(0, index, now);
            now = now.add_ns((index + 1) * 1000);
            times.completed(0, index, now);
        }
        let latency = times.latency(1.0);
        assert_eq!(latency.samples, 1000);
        close(latency.least, 1.0);
        close(latency.most, 1000.0);
        close(latency.p50, 500.0);
        close(latency.p99, 990.0);
        close(latency.p999, 999.0);
        close(latency.average, 500.5);
        // √((1000² − 1) / 12)
        close(latency.deviation, 288.675);
        close(times.latency(0.5).p50, 250.0);
        close(times.seconds(), 0.5005);
        assert_eq!(times.peak(), None, "of a latency test");
        times.clear();
        assert_eq!((times.count(), times.latency(1.0).samples), (0, 0));
    }

    /// Two messages take 10 µs each, the next two 5 µs each, then again 10.
    #[test]
    fn the_peak_is_the_best_stretch() {
        let job = Job { iterations: Some(6), depth: 1, ..Job::new(Test::WriteBw) };
        let mut times = Times::new(&job);
        let mut now = Instant::ZERO;
        for (index, us) in (0..).zip([10, 10, 5, 5, 10, 10]) {
            times.posted(0, index, now);
            now = now.add_ns(us * 1000);
            times.completed(0, index, now);
        }
        close(times.peak().unwrap(), 200_000.0);
        assert_eq!(times.count(), 6);
        close(times.seconds(), 50e-6);
    }

    /// Every third message signaled, over two queue pairs.
    #[test]
    fn moderated_completions_stand_for_those_before() {
        let job = Job { iterations: Some(7), qps: 2, depth: 8, ..Job::new(Test::WriteBw) };
        let mut times = Times::new(&job);
        for qp in 0..2 {
            (0..7).for_each(|index| times.posted(qp, index, Instant(1000 * index)));
        }
        for (qp, index, count) in [(0, 2, 3), (1, 2, 6), (1, 5, 9), (0, 6, 13), (1, 6, 14)] {
            times.completed(qp, index, Instant(10_000));
            assert_eq!(times.count(), count);
        }
        assert_eq!(times.latency(1.0).samples, 5);
        close(times.latency(1.0).most, 8.0);
    }

    #[test]
    fn too_many_messages_for_a_peak() {
        let job = Job { iterations: Some(20_001), ..Job::new(Test::WriteBw) };
        assert_eq!(Times::new(&job).peak(), None);
        let job = Job { iterations: None, ..Job::new(Test::WriteBw) };
        assert_eq!(Times::new(&job).peak(), None);
    }
}
