//! Rates over time: what was sent, what was marked, and what DCQCN would have allowed.

use super::series::{Series, Sum};

#[derive(Debug, Clone, Default)]
struct Slot {
    bytes: u64,
    again_bytes: u64,
    ce: u32,
    cnps: u32,
    /// Bits that were allowed, and nanoseconds of the interval for which that is known.
    allowed_bits: f64,
    allowed_ns: u64,
    alpha_q31: Option<u32>,
}

impl Sum for Slot {
    fn join(&mut self, later: &Self) {
        self.bytes += later.bytes;
        self.again_bytes += later.again_bytes;
        self.ce = self.ce.saturating_add(later.ce);
        self.cnps = self.cnps.saturating_add(later.cnps);
        self.allowed_bits += later.allowed_bits;
        self.allowed_ns += later.allowed_ns;
        self.alpha_q31 = later.alpha_q31.or(self.alpha_q31);
    }
}

/// What happened in an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Its start, nanoseconds since 1970.
    pub start_ns: u64,
    /// Its width, nanoseconds.
    pub width_ns: u64,
    /// Bits a second on the wire, of all packets of the flow: requests, and answers to the other side.
    pub sent_bps: f64,
    /// Of these, what was sent again.
    pub again_bps: f64,
    /// Packets marked congestion experienced.
    pub ce: u32,
    /// Congestion notifications.
    pub cnps: u32,
    /// The mean rate DCQCN would have allowed, bits a second; `None` before the flow's first CNP.
    pub allowed_bps: Option<f64>,
    /// DCQCN's estimate of congestion at the end of the interval, 0 to 1.
    pub alpha: Option<f64>,
}

/// Up to 512 intervals of one width, which doubles when the time gets long.
#[derive(Debug, Clone)]
pub struct Rates {
    series: Series<Slot>,
}

impl Rates {
    pub(super) fn new(start_ns: u64) -> Self {
        Self { series: Series::new(start_ns) }
    }

    pub(super) fn sent(&mut self, time_ns: u64, bytes: u32, again: bool, ce: bool) {
        let slot = self.series.at(time_ns);
        slot.bytes += u64::from(bytes);
        slot.again_bytes += if again { u64::from(bytes) } else { 0 };
        slot.ce = slot.ce.saturating_add(u32::from(ce));
    }

    pub(super) fn cnp(&mut self, time_ns: u64) {
        let slot = self.series.at(time_ns);
        slot.cnps = slot.cnps.saturating_add(1);
    }

    pub(super) fn note_alpha(&mut self, time_ns: u64, alpha_q31: u32) {
        self.series.at(time_ns).alpha_q31 = Some(alpha_q31);
    }

    /// `rate_bps` was allowed all that time.
    pub(super) fn allow(&mut self, from_ns: u64, until_ns: u64, rate_bps: u64) {
        // The width is what it is at the end.
        self.series.at(until_ns);
        let mut at_ns = from_ns;
        while at_ns < until_ns {
            let end_ns = self.series.end_of(at_ns).clamp(at_ns + 1, until_ns);
            let slot = self.series.at(at_ns);
            slot.allowed_bits += float(rate_bps) * float(end_ns - at_ns) / 1e9;
            slot.allowed_ns += end_ns - at_ns;
            at_ns = end_ns;
        }
    }

    /// The intervals from the first packet of the capture to the last of the flow.
    pub fn intervals(&self) -> impl Iterator<Item = Interval> {
        let width_ns = self.series.width_ns();
        let per_second = move |bits: f64| bits * 1e9 / float(width_ns);
        self.series.iter().map(move |(start_ns, slot)| Interval {
            start_ns,
            width_ns,
            sent_bps: per_second(float(slot.bytes) * 8.0),
            again_bps: per_second(float(slot.again_bytes) * 8.0),
            ce: slot.ce,
            cnps: slot.cnps,
            allowed_bps: (slot.allowed_ns > 0)
                .then(|| slot.allowed_bits * 1e9 / float(slot.allowed_ns)),
            alpha: slot.alpha_q31.map(|alpha| f64::from(alpha) / 2_f64.powi(31)),
        })
    }
}

/// Graphs and rates need no more than 53 bits.
#[expect(clippy::cast_precision_loss, reason = "a mean over an interval is no count")]
pub(crate) fn float(value: u64) -> f64 {
    value as f64
}
