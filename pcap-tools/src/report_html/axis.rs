//! Scales of charts, and the steps that are written at them.

/// Numbers along one side of a chart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    /// The least and the greatest number.
    pub(super) from: f64,
    pub(super) to: f64,
    /// Where those lie in the picture.
    pub(super) start: f64,
    pub(super) end: f64,
}

impl Axis {
    /// An axis that is not empty.
    pub(super) fn new(from: f64, to: f64, start: f64, end: f64) -> Self {
        let to = if to > from { to } else { from + 1.0 };
        Self { from, to, start, end }
    }

    /// Where a number lies in the picture.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = (value - self.from) / (self.to - self.from);
        self.start + share * (self.end - self.start)
    }

    /// Round numbers along the axis, at most `most` and a few.
    pub(super) fn ticks(&self, most: u32) -> Vec<f64> {
        let rough = (self.to - self.from) / f64::from(most.max(1));
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        let first = (self.from / step).ceil();
        let ticks = (0..=2 * most).map(|n| (first + f64::from(n)) * step);
        ticks.take_while(|tick| *tick <= self.to + step / 1e6).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let axis = Axis::new(0.0, 2203.0, 50.0, 700.0);
        assert_eq!(axis.ticks(5), [0.0, 500.0, 1000.0, 1500.0, 2000.0]);
        assert_eq!(Axis::new(-3.0, 4.0, 0.0, 1.0).ticks(4), [-2.0, 0.0, 2.0, 4.0]);
        for (from, to) in [(0.0, 0.0), (0.0, 1e-9), (5e8, 7e17), (0.0, 1.0)] {
            let ticks = Axis::new(from, to, 0.0, 1.0).ticks(6);
            assert!((1..=13).contains(&ticks.len()), "{from} {to}: {ticks:?}");
        }
        assert_eq!(axis.at(0.0), 50.0);
        assert_eq!(axis.at(2203.0), 700.0);
    }
}
