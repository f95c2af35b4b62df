//! The results: a table like perftest's, or JSON.

use roce_codec::ib::PathMtu;
use serde_json::{Value, json};

use super::times::{Latency, Times};
use crate::service::perftest::Test;
use crate::service::perftest::client::{Job, Outcome};

const MIB: f64 = 1_048_576.0;

/// One run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    size: u32,
    iterations: u64,
    /// Messages a second: the best, where it is looked for, and the average.
    peak: Option<f64>,
    average: f64,
    latency: Latency,
}

impl Row {
    /// The results of a run of `size` bytes.
    pub(super) fn new(job: &Job, size: u32, times: &Times) -> Self {
        // What was measured is there and back.
        let ping_pong = matches!(job.test, Test::WriteLat | Test::SendLat);
        let iterations = match job.iterations {
            Some(iterations) => iterations * u64::from(job.qps),
            None => times.count(),
        };
        Self {
            size,
            iterations,
            peak: times.peak(),
            average: f64_of(times.count()) / times.seconds(),
            latency: times.latency(if ping_pong { 0.5 } else { 1.0 }),
        }
    }

    /// What a bandwidth server is told.
    pub(super) fn outcome(&self) -> Outcome {
        Outcome {
            iterations: self.iterations,
            peak: self.mib(self.peak.unwrap_or(0.0)),
            average: self.mib(self.average),
            message_rate: self.average / 1e6,
        }
    }

    fn mib(&self, messages: f64) -> f64 {
        messages * f64::from(self.size) / MIB
    }

    /// A line of the table.
    fn line(&self, test: Test) -> String {
        let Self { size, iterations, latency, .. } = self;
        if test.is_bandwidth() {
            let Outcome { peak, average, message_rate, .. } = self.outcome();
            format!(
                " {size:<10} {iterations:<14} {peak:<18.2} {average:<20.2} {message_rate:<15.6} \
                 {:<13.2} {:<13.2} {:.2}",
                latency.p50, latency.p99, latency.p999
            )
        } else {
            format!(
                " {size:<7} {iterations:<14} {:<14.2} {:<12.2} {:<16.2} {:<14.2} {:<14.2} \
                 {:<22.2} {:.2}",
                latency.least,
                latency.most,
                latency.p50,
                latency.average,
                latency.deviation,
                latency.p99,
                latency.p999
            )
        }
    }

    fn json(&self, test: Test) -> Value {
        let latency = &self.latency;
        let mut row = json!({
            "bytes": self.size,
            "iterations": self.iterations,
            "latency_us": {
                "samples": latency.samples,
                "min": round(latency.least),
                "p50": round(latency.p50),
                "p99": round(latency.p99),
                "p999": round(latency.p999),
                "max": round(latency.most),
                "average": round(latency.average),
                "stdev": round(latency.deviation),
            },
        });
        if test.is_bandwidth() {
            row["bandwidth"] = json!({
                "peak_mib_s": self.peak.map(|peak| round(self.mib(peak))),
                "average_mib_s": round(self.mib(self.average)),
                "messages_s": round(self.average),
            });
        }
        row
    }
}

/// The head of the table.
pub(super) const fn head(test: Test) -> &'static str {
    if test.is_bandwidth() {
        " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]   \
         t_50%[usec]   t_99%[usec]   t_99.9%[usec]"
    } else {
        " #bytes  #iterations    t_min[usec]    t_max[usec]  t_typical[usec]  t_avg[usec]    \
         t_stdev[usec]  99% percentile[usec]   99.9% percentile[usec]"
    }
}

/// A line of the table.
pub(super) fn line(test: Test, row: &Row) -> String {
    row.line(test)
}

/// All results as one line.
pub(super) fn json(job: &Job, server: &str, path_mtu: PathMtu, rows: &[Row]) -> Value {
    json!({
        "test": job.test.name(),
        "server": server,
        "path_mtu": path_mtu.bytes(),
        "qps": job.qps,
        "tx_depth": job.depth,
        "results": rows.iter().map(|row| row.json(job.test)).collect::<Vec<_>>(),
    })
}

/// To a nanosecond, which is what there is.
fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[expect(clippy::cast_precision_loss, reason = "2^53 messages take years")]
const fn f64_of(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use roce_engine::Instant;

    use super::*;
    use crate::service::perftest::client::Meter;

    /// 1000 messages of 1 MiB, one every millisecond.
    #[test]
    fn a_gibibyte_a_second() {
        let job = Job { iterations: Some(1000), size: 1 << 20, ..Job::new(Test::ReadBw) };
        let mut times = Times::new(&job);
        for index in 0..1000u64 {
            times.posted(0, index, Instant(index * 1_000_000));
            times.completed(0, index, Instant((index + 1) * 1_000_000));
        }
        let row = Row::new(&job, 1 << 20, &times);
        let outcome = row.outcome();
        assert_eq!(outcome.iterations, 1000);
        assert!((outcome.average - 1000.0).abs() < 1e-6, "{outcome:?}");
        assert!((outcome.peak - 1000.0).abs() < 1e-6, "{outcome:?}");
        assert!((outcome.message_rate - 0.001).abs() < 1e-12, "{outcome:?}");
        let words: Vec<_> = row.line(Test::ReadBw).split_whitespace().map(str::to_owned).collect();
        assert_eq!(words[..5], ["1048576", "1000", "1000.00", "1000.00", "0.001000"]);
        assert_eq!(
            words.len(),
            head(Test::ReadBw).split_whitespace().count() - 2,
            "two with a blank"
        );
        let json = json(&job, "192.0.2.2:18515", PathMtu::Mtu1024, &[row]);
        assert_eq!(json["results"][0]["bandwidth"]["average_mib_s"], 1000.0);
        assert_eq!(json["results"][0]["latency_us"]["samples"], 1000);
        assert_eq!(json["test"], "read_bw");
    }

    /// A message goes half of the way.
    #[test]
    fn half_of_a_round_trip() {
        for (test, wanted) in [
            (Test::WriteLat, "10.00"),
            (Test::SendLat, "10.00"),
            (Test::ReadLat, "20.00"),
            (Test::AtomicLat, "20.00"),
        ] {
            let job = Job { iterations: Some(5), ..Job::new(test) };
            let mut times = Times::new(&job);
            for index in 0..5u64 {
                times.posted(0, index, Instant(index * 20_000));
                times.completed(0, index, Instant((index + 1) * 20_000));
            }
            let line = Row::new(&job, 8, &times).line(test);
            let words: Vec<_> = line.split_whitespace().collect();
            assert_eq!(words[..2], ["8", "5"], "{test}");
            assert_eq!(words[5], wanted, "{test}: {line}");
            let columns = head(test).split_whitespace().count() - 2;
            assert_eq!(words.len(), columns, "two have a blank");
        }
    }
}
