//! PSNs over time, in a bounded number of points.

use roce_codec::ib::Psn;

/// Points kept of a connection; beyond that they are thinned out.
const MOST: usize = 4_000;
/// The width that thinning starts with.
const FIRST_WIDTH_NS: u64 = 1_000;

/// What a point stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mark {
    /// A request.
    Request,
    /// A request that came again, or late.
    Again,
    /// An ACK or atomic acknowledge.
    Ack,
    /// A READ response.
    ReadResponse,
    /// A NAK.
    Nak,
    /// An RNR NAK.
    NotReady,
}

/// A packet in the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// When, nanoseconds since 1970.
    pub time_ns: u64,
    /// How far its PSN is behind the first request's; PSNs that wrap go on.
    pub psn: i64,
    /// What it was.
    pub mark: Mark,
    /// Its number.
    pub packet: u64,
}

/// The packets of a connection in one direction of requests.
///
/// Up to 4,000 points every packet is there. Beyond that, of each kind the ones with the least and
/// the greatest PSN in each interval of time are kept, with intervals that grow as needed.
#[derive(Debug, Clone)]
pub struct PsnGraph {
    base: Psn,
    /// PSNs wrap, the graph does not: the point before is the reference for the next.
    last: i64,
    start_ns: u64,
    width_ns: Option<u64>,
    points: Vec<Point>,
    packets: u64,
}

impl PsnGraph {
    pub(super) fn new(base: Psn, start_ns: u64) -> Self {
        Self { base, last: 0, start_ns, width_ns: None, points: Vec::new(), packets: 0 }
    }

    pub(super) fn add(&mut self, psn: Psn, mark: Mark, time_ns: u64, packet: u64) {
        // The PSN that the last point's is, as 24 bits.
        let wrapped = u32::try_from(self.last.rem_euclid(1 << 24)).unwrap_or_default();
        let step = psn.distance_from(self.base.add(wrapped));
        self.last = self.last.saturating_add(i64::from(step));
        self.packets += 1;
        self.points.push(Point { time_ns, psn: self.last, mark, packet });
        while self.points.len() > MOST {
            self.thin_out();
        }
    }

    fn thin_out(&mut self) {
        let width_ns = self.width_ns.map_or(FIRST_WIDTH_NS, |width| width.saturating_mul(2));
        self.width_ns = Some(width_ns);
        let start_ns = self.start_ns;
        let interval = |point: &Point| (point.time_ns.saturating_sub(start_ns)) / width_ns;
        self.points.sort_by_key(|point| (point.mark, interval(point), point.psn, point.time_ns));
        let mut kept: Vec<Point> = Vec::with_capacity(MOST);
        for group in self
            .points
            .chunk_by(|one, other| one.mark == other.mark && interval(one) == interval(other))
        {
            kept.extend(group.first());
            if group.len() > 1 {
                kept.extend(group.last());
            }
        }
        self.points = kept;
    }

    /// The points, not in order.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The PSN that counts as 0.
    #[must_use]
    pub fn base(&self) -> Psn {
        self.base
    }

    /// Packets that the points stand for.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The intervals the points were thinned out by, nanoseconds; `None` if all are there.
    #[must_use]
    pub fn interval_ns(&self) -> Option<u64> {
        self.width_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_thinned_out_keeps_extremes_and_rarities() {
        let mut graph = PsnGraph::new(Psn::new(0xff_fff0), 5);
        for n in 0..100_000_u32 {
            graph.add(Psn::new(0xff_fff0).add(n), Mark::Request, 5 + u64::from(n) * 100, n.into());
            if n % 50_000 == 1 {
                graph.add(Psn::new(0xff_fff0).add(n - 1), Mark::Nak, u64::from(n) * 100, n.into());
            }
        }
        assert!(graph.points().len() <= MOST && graph.points().len() > MOST / 8);
        assert_eq!(graph.packets(), 100_002);
        let psns = || graph.points().iter().map(|point| point.psn);
        assert_eq!((psns().min(), psns().max()), (Some(0), Some(99_999)));
        assert_eq!(graph.points().iter().filter(|point| point.mark == Mark::Nak).count(), 2);
        for point in graph.points() {
            let lag = i64::from(point.mark == Mark::Nak);
            assert_eq!(point.psn, i64::try_from(point.packet).unwrap() - lag);
        }
    }

    #[test]
    fn few_are_all_kept() {
        let mut graph = PsnGraph::new(Psn::new(9), 0);
        graph.add(Psn::new(9), Mark::Request, 1, 1);
        graph.add(Psn::new(8), Mark::Ack, 2, 2);
        assert_eq!(graph.interval_ns(), None);
        assert_eq!(graph.points()[1], Point { time_ns: 2, psn: -1, mark: Mark::Ack, packet: 2 });
    }
}
