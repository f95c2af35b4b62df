//! What all charts have: a frame, steps at two sides, a name for those who do not see them.

use std::fmt::Write;

use super::axis::Axis;
use super::escape::Escaped;
use crate::stats::{Duration, Rate};

/// The picture, in its own units, and the margins around the plot.
const WIDTH: f64 = 760.0;
const LEFT: f64 = 88.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 34.0;

/// How the numbers of a scale are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Plain numbers.
    Count,
    /// Nanoseconds.
    Time,
    /// Bits a second.
    BitRate,
    /// 0 to 1.
    Share,
    /// The logarithm of something: only its steps are written.
    Logarithm,
}

impl Unit {
    fn text(self, value: f64) -> String {
        match self {
            Self::Count | Self::Logarithm => format!("{value:.0}"),
            Self::Share => format!("{value:.1}"),
            Self::Time => Duration(whole(value)).to_string(),
            Self::BitRate => Rate(whole(value)).to_string(),
        }
    }

    /// What the page's script calls it.
    const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Time => "time",
            Self::BitRate => "rate",
            Self::Share => "share",
            Self::Logarithm => "",
        }
    }
}

/// Charts have no numbers that a `u64` does not hold.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
pub(super) fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// One side of a chart.
#[derive(Debug, Clone)]
pub(super) struct Scale {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) unit: Unit,
    pub(super) name: &'static str,
    /// Where something is written, and what; round numbers if `None`.
    pub(super) steps: Option<Vec<(f64, String)>>,
}

impl Scale {
    pub(super) fn linear(from: f64, to: f64, unit: Unit, name: &'static str) -> Self {
        Self { from, to, unit, name, steps: None }
    }

    fn steps(&self, axis: &Axis, most: u32) -> Vec<(f64, String)> {
        let round = || axis.ticks(most).into_iter().map(|tick| (tick, self.unit.text(tick)));
        self.steps.clone().unwrap_or_else(|| round().collect())
    }
}

/// A chart being drawn.
pub(super) struct Chart {
    pub(super) svg: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

impl Chart {
    /// Starts one that is `height` high and is called `title`.
    pub(super) fn start(title: &str, height: f64, x_scale: &Scale, y_scale: &Scale) -> Self {
        let (top, bottom) = (TOP, height - BOTTOM);
        let x = Axis::new(x_scale.from, x_scale.to, LEFT, WIDTH - RIGHT);
        let y = Axis::new(y_scale.from, y_scale.to, bottom, top);
        let mut svg = String::new();
        let title = Escaped(title);
        let data = |axis: Axis, unit: Unit| {
            format!("{},{},{},{},{}", axis.from, axis.to, axis.start, axis.end, unit.name())
        };
        let _ = write!(
            svg,
            "<div class=\"chart\" tabindex=\"0\"><svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             aria-label=\"{title}\" data-x=\"{}\" data-y=\"{}\"><title>{title}</title>",
            data(x, x_scale.unit),
            data(y, y_scale.unit)
        );
        for (step, text) in x_scale.steps(&x, 7) {
            let at = x.at(step);
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{at:.1} {top}V{bottom}\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                bottom + 14.0
            );
        }
        for (step, text) in y_scale.steps(&y, 5) {
            let at = y.at(step);
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{}\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0
            );
        }
        let middle = f64::midpoint(top, bottom);
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text transform=\"translate(11 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, WIDTH - RIGHT),
            height - 5.0,
            x_scale.name,
            y_scale.name
        );
        Self { svg, x, y, top, bottom }
    }

    /// Draws a path of that class.
    pub(super) fn path(&mut self, class: &str, d: &str) {
        if !d.is_empty() {
            let _ = write!(self.svg, "<path class=\"{class}\" d=\"{d}\"/>");
        }
    }

    /// The finished chart.
    pub(super) fn finish(mut self) -> String {
        self.svg.push_str("</svg></div>\n");
        self.svg
    }
}
