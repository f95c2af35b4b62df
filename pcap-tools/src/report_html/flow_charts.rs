//! The charts of a flow: PSNs and rate over time, DCQCN, latency.

use std::fmt::Write;

use super::chart::{Chart, Scale, Unit, whole};
use crate::stats::{Duration, FlowSummary, Interval, Mark, PsnGraph, Rates, Times};

/// What is told apart in the graph of PSNs: class of the stroke, name, shape (relative to its point).
const MARKS: [(Mark, &str, &str, &str); 6] = [
    (Mark::Request, "request", "request", "h1.6"),
    (Mark::Ack, "ack", "ACK", "m0 3h1.6"),
    (Mark::ReadResponse, "response", "READ response", "m0 -3h1.6"),
    (Mark::Again, "again", "sent again", "m-.5 0h2.6"),
    (Mark::Nak, "nak", "NAK", "m-4 -4l8 8m0 -8l-8 8"),
    (Mark::NotReady, "rnr", "RNR NAK", "m-4 0h8m-4 -4v8"),
];

/// What all times along the lower side are.
const SINCE: &str = "time since the capture began";

/// PSNs over time.
pub(super) fn psns(name: &str, graph: &PsnGraph, start_ns: u64) -> String {
    let times = || graph.points().iter().map(|point| since(point.time_ns, start_ns));
    let psns = || graph.points().iter().map(|point| psn(point.psn));
    let title = format!("PSN over time, {name}");
    let mut chart = Chart::start(
        &title,
        280.0,
        &Scale::linear(min(times()), max(times()), Unit::Time, SINCE),
        &Scale::linear(min(psns()), max(psns()), Unit::Count, "PSN, from the first request on"),
    );
    let mut legend = String::new();
    for (mark, class, label, shape) in MARKS {
        let mut d = String::new();
        let mut count = 0;
        for point in graph.points().iter().filter(|point| point.mark == mark) {
            let x = chart.x.at(since(point.time_ns, start_ns));
            let y = chart.y.at(psn(point.psn));
            let _ = write!(d, "M{x:.1} {y:.1}{shape}");
            count += 1;
        }
        chart.path(&format!("mark {class}"), &d);
        if count > 0 {
            let _ = write!(
                legend,
                "<label class=\"{class}\"><input type=\"checkbox\" checked data-mark=\"{class}\"> \
                 {label}</label> "
            );
        }
    }
    let note = match graph.interval_ns() {
        None => format!("All {} packets are drawn.", graph.packets()),
        Some(ns) => format!(
            "{} packets are drawn as {} points: of each kind the least and the greatest PSN in each \
             {}.",
            graph.packets(),
            graph.points().len(),
            Duration(ns)
        ),
    };
    format!(
        "<figure><figcaption>PSN over time (first PSN {}). {note}</figcaption>{}\
         <p class=\"legend\">{legend}</p></figure>\n",
        graph.base(),
        chart.finish()
    )
}

/// Rates over time, and what DCQCN would have allowed.
pub(super) fn rates(name: &str, rates: &Rates, start_ns: u64) -> String {
    let intervals: Vec<Interval> = rates.intervals().collect();
    let Some(width_ns) = intervals.first().map(|first| first.width_ns) else {
        return String::new();
    };
    let limited = intervals.iter().any(|interval| interval.allowed_bps.is_some());
    let begin = |interval: &Interval| since(interval.start_ns, start_ns);
    let from = intervals.iter().find(|interval| interval.sent_bps > 0.0).map_or(0.0, begin);
    let to = intervals.iter().map(begin).fold(from, f64::max) + since(width_ns, 0);
    let top = intervals
        .iter()
        .flat_map(|interval| [Some(interval.sent_bps), interval.allowed_bps])
        .flatten()
        .fold(1.0, f64::max);
    let shown = || intervals.iter().filter(|interval| begin(interval) >= from);
    let mut chart = Chart::start(
        &format!("rate over time, {name}"),
        200.0,
        &Scale::linear(from, to, Unit::Time, SINCE),
        &Scale::linear(0.0, top * 1.05, Unit::BitRate, "rate on the wire"),
    );
    for (class, value) in [
        ("rate", (|interval| Some(interval.sent_bps)) as fn(&Interval) -> Option<f64>),
        ("rate-again", |interval| (interval.again_bps > 0.0).then_some(interval.again_bps)),
        ("allowed", |interval| interval.allowed_bps),
    ] {
        let d = steps(&chart, shown(), start_ns, value);
        chart.path(class, &d);
    }
    let mut ticks = [String::new(), String::new()];
    for interval in shown() {
        let x = chart.x.at(begin(interval) + since(interval.width_ns, 0) / 2.0);
        for (d, count, y) in [(0, interval.ce, chart.top), (1, interval.cnps, chart.bottom - 8.0)] {
            if count > 0 {
                let _ = write!(ticks[d], "M{x:.1} {y:.1}v8");
            }
        }
    }
    chart.path("ce", &ticks[0]);
    chart.path("cnp", &ticks[1]);
    let mut legend = String::from("<span class=\"rate\">sent</span> ");
    for (is_there, entry) in [
        (
            intervals.iter().any(|it| it.again_bps > 0.0),
            "<span class=\"rate-again\">sent again</span> ",
        ),
        (limited, "<span class=\"allowed\">allowed by DCQCN</span> "),
        (!ticks[0].is_empty(), "<span class=\"ce\">CE marks</span> "),
        (!ticks[1].is_empty(), "<span class=\"cnp\">CNPs</span> "),
    ] {
        legend += if is_there { entry } else { "" };
    }
    let mut html = format!(
        "<figure><figcaption>Rate over time: all packets of this direction, means of {}.\
         </figcaption>{}<p class=\"legend\">{legend}</p></figure>\n",
        Duration(width_ns),
        chart.finish()
    );
    if limited {
        let mut chart = Chart::start(
            &format!("DCQCN alpha over time, {name}"),
            130.0,
            &Scale::linear(from, to, Unit::Time, SINCE),
            &Scale::linear(0.0, 1.0, Unit::Share, "alpha"),
        );
        let d = steps(&chart, shown(), start_ns, |interval| interval.alpha);
        chart.path("allowed", &d);
        let _ = writeln!(
            html,
            "<figure><figcaption>DCQCN: the estimate of congestion, alpha, that the CNPs seen here \
             lead to. The rate above it is what the sender may send at most, from its first CNP on; \
             less means that it had less to send, or reacts otherwise.</figcaption>{}</figure>",
            chart.finish()
        );
    }
    html
}

/// A line of steps; where there is no value it is broken.
fn steps<'i>(
    chart: &Chart,
    intervals: impl Iterator<Item = &'i Interval>,
    start_ns: u64,
    value: impl Fn(&Interval) -> Option<f64>,
) -> String {
    let mut d = String::new();
    let mut drawing = false;
    for interval in intervals {
        let begin = since(interval.start_ns, start_ns);
        let [from, to] = [begin, begin + since(interval.width_ns, 0)].map(|time| chart.x.at(time));
        match value(interval).map(|value| chart.y.at(value)) {
            Some(y) if drawing => {
                let _ = write!(d, "V{y:.1}H{to:.1}");
            }
            Some(y) => {
                let _ = write!(d, "M{from:.1} {y:.1}H{to:.1}");
            }
            None => {}
        }
        drawing = value(interval).is_some();
    }
    d
}

/// A histogram of latencies, both scales logarithmic.
pub(super) fn latency(name: &str, times: &Times) -> String {
    let (Some(min_ns), Some(max_ns)) = (times.min_ns(), times.max_ns()) else {
        return String::new();
    };
    // Ten bars a decade.
    let bar = |ns: u64| (since(ns.max(1), 0).log10() * 10.0).floor();
    let (first, last) = (bar(min_ns), bar(max_ns));
    let mut bars = vec![0_u64; usize::try_from(whole(last - first)).unwrap_or(0) + 1];
    for (ns, count) in times.steps() {
        let at = whole((bar(ns).min(last) - first).max(0.0));
        if let Some(bar) = usize::try_from(at).ok().and_then(|at| bars.get_mut(at)) {
            *bar += count;
        }
    }
    let most = bars.iter().copied().max().unwrap_or(1);
    // A bar of one stands out from none.
    let height = |count: u64| 1.0 + since(count, 0).log10();
    let power = |exponent: f64| 10_f64.powf(exponent);
    let (from, to) = ((first / 10.0).floor() * 10.0, ((last + 1.0) / 10.0).ceil() * 10.0);
    let decades = || (0..=20).map(f64::from);
    let times_at = decades()
        .map(|decade| (decade * 10.0, Duration(whole(power(decade))).to_string()))
        .filter(|(at, _)| (from..=to).contains(at));
    let counts_at = decades()
        .flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * power(decade)))
        .map(|count| (1.0 + count.log10(), format!("{count}")))
        .filter(|(at, _)| *at <= height(most));
    let mut chart = Chart::start(
        &format!("latency of {} messages, {name}", times.count()),
        200.0,
        &Scale {
            steps: Some(times_at.collect()),
            ..Scale::linear(from, to, Unit::Logarithm, "latency")
        },
        &Scale {
            steps: Some(counts_at.collect()),
            ..Scale::linear(0.0, height(most), Unit::Logarithm, "messages")
        },
    );
    let mut at = first;
    for count in bars {
        if count > 0 {
            let (x, to) = (chart.x.at(at) + 0.5, chart.x.at(at + 1.0) - 0.5);
            let y = chart.y.at(height(count));
            let from_ns = whole(power(at / 10.0));
            let _ = write!(
                chart.svg,
                "<path class=\"bar\" d=\"M{x:.1} {:.1}V{y:.1}H{to:.1}V{:.1}z\"><title>{count} from {} \
                 on</title></path>",
                chart.bottom,
                chart.bottom,
                Duration(from_ns)
            );
        }
        at += 1.0;
    }
    let quantile = |share| Duration(times.quantile_ns(share).unwrap_or(0));
    format!(
        "<figure><figcaption>Latency, request to completion at the tap: p50 {}, p99 {}, p99.9 {}, \
         greatest {}. Both scales are logarithmic.</figcaption>{}</figure>\n",
        quantile(0.5),
        quantile(0.99),
        quantile(0.999),
        Duration(max_ns),
        chart.finish()
    )
}

/// All charts of a flow.
pub(super) fn all(flow: &FlowSummary, start_ns: u64) -> String {
    let name = flow.name();
    let mut html = String::new();
    if let Some(graph) = &flow.psns {
        html += &psns(&name, graph, start_ns);
    }
    if let Some(over_time) = &flow.rates {
        html += &rates(&name, over_time, start_ns);
    }
    html += &latency(&name, &flow.figures.latency);
    html
}

fn since(time_ns: u64, start_ns: u64) -> f64 {
    crate::stats::float(time_ns.saturating_sub(start_ns))
}

fn psn(psn: i64) -> f64 {
    let magnitude = crate::stats::float(psn.unsigned_abs());
    if psn < 0 { -magnitude } else { magnitude }
}

fn min(values: impl Iterator<Item = f64>) -> f64 {
    values.reduce(f64::min).unwrap_or(0.0)
}

fn max(values: impl Iterator<Item = f64>) -> f64 {
    values.reduce(f64::max).unwrap_or(1.0)
}
