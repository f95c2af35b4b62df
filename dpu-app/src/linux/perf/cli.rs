//! The command line of `roce-perf`: perftest's flags where there are such.

use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::{Result, bail, ensure};
use clap::{Parser, ValueEnum};

use super::failure::Failure;
use super::run::measure;
use crate::linux::stage::StageArgs;
use crate::service::perftest::client::{Atomic, Job};
use crate::service::perftest::{DEFAULT_PORT, MAX_QPS, Test};

/// Messages above which each is signaled unless -Q says otherwise, as perftest has it.
const CQ_MOD_LIMIT: u32 = 8192;
const CQ_MOD: u32 = 100;
/// perftest's least.
const LEAST_ITERATIONS: u64 = 5;
const LARGEST: u32 = 1 << 30;
/// The last size of -a.
const ALL_LARGEST: u32 = 1 << 23;
const MAX_DEPTH: u32 = 16_384;

/// Measure bandwidth or latency against a perftest server (ib_write_bw and its kin), without an
/// RDMA device.
#[derive(Debug, Parser)]
#[command(name = "roce-perf", version, max_term_width = 100, after_help = HELP)]
pub struct PerfCli {
    /// write_bw, write_lat, read_bw, read_lat, send_bw, send_lat, atomic_bw or atomic_lat.
    pub(super) test: Test,

    /// Where the server listens: an address or a name.
    pub(super) server: String,

    /// The network.
    #[command(flatten)]
    pub(super) stage: StageArgs,

    /// Connect by RDMA CM, as a server with -R wants it; SERVER is its address in RDMA.
    #[arg(short = 'R', long = "rdma-cm", conflicts_with = "gid")]
    pub(super) rdma_cm: bool,

    /// The server's TCP port; with -R, that of RDMA CM's.
    #[arg(short = 'p', long, value_name = "N", default_value_t = DEFAULT_PORT)]
    pub(super) tcp_port: u16,

    /// Our address in RDMA, one of --ip. The one that reaches the server's unless given.
    #[arg(short = 'x', long, value_name = "ADDR")]
    pub(super) gid: Option<IpAddr>,

    /// Bytes of a message; a suffix K, M or G multiplies. [default: 65536, latency 2, atomics 8]
    #[arg(short = 's', long, value_name = "BYTES", value_parser = parse_size)]
    size: Option<u32>,

    /// All sizes, from 2 to 8M; the server needs it, too.
    #[arg(short = 'a', long = "all", conflicts_with_all = ["size", "duration"])]
    all: bool,

    /// Messages of each queue pair. [default: 1000, write_bw 5000]
    #[arg(short = 'n', long = "iters", value_name = "N")]
    iterations: Option<u64>,

    /// Run for so many seconds instead; all of them count. send_bw, send_lat and write_lat servers
    /// need it, too.
    #[arg(short = 'D', long, value_name = "SECONDS", conflicts_with = "iterations",
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    duration: Option<u32>,

    /// Path MTU at most: 256, 512, 1024, 2048 or 4096. What the interface carries unless given.
    #[arg(short = 'm', long = "mtu", value_name = "BYTES")]
    pub(super) path_mtu: Option<u32>,

    /// Messages of a queue pair outstanding. [default: 128, latency 1]
    #[arg(short = 't', long = "tx-depth", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_DEPTH)))]
    depth: Option<u32>,

    /// Queue pairs, in the bandwidth tests; the server needs it, too.
    #[arg(short = 'q', long = "qp", value_name = "N", default_value_t = 1)]
    qps: u32,

    /// Messages posted at a time, in the bandwidth tests.
    #[arg(short = 'l', long = "post-list", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    post_list: u32,

    /// Have every Nth message signaled. [default: 100, the post list, or 1 above 8192 bytes]
    #[arg(short = 'Q', long = "cq-mod", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..))]
    cq_mod: Option<u32>,

    /// READs and atomics outstanding on a queue pair; the server may allow fewer.
    #[arg(short = 'o', long = "outs", value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u8).range(1..=128))]
    out_reads: u8,

    /// Acknowledge timeout: 4.096 us * 2^N.
    #[arg(short = 'u', long = "qp-timeout", value_name = "N", default_value_t = 14,
          value_parser = clap::value_parser!(u8).range(1..=31))]
    timeout: u8,

    /// What the atomic tests do.
    #[arg(short = 'A', long = "atomic-type", value_name = "TYPE", value_enum,
          default_value_t = AtomicType::FetchAndAdd)]
    atomic: AtomicType,

    /// Print the results as one line of JSON instead of a table.
    #[arg(long)]
    pub(super) json: bool,
}

/// perftest's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "SCREAMING_SNAKE_CASE")]
enum AtomicType {
    FetchAndAdd,
    CmpAndSwap,
    /// Not perftest's: for a server that allows it, as roce-responder does with access=all.
    AtomicWrite,
    /// The same, of the eight bytes.
    FlushRange,
    /// The same, of the whole region.
    FlushRegion,
}

const HELP: &str = "\
Example, and what to run at the server first:

  ib_write_bw -d mlx5_0 -x 3
  roce-perf write_bw 192.0.2.2 --port af-xdp:eth1

The server may be roce-responder serve --service perftest:write_bw. Our address in RDMA (-x) and
the server's GID (its -x) are to be of the same kind: IPv4, link-local IPv6 or other IPv6.

With -R, at both, nothing goes over TCP, and no -x is needed:

  ib_write_bw -R
  roce-perf write_bw 192.0.2.2 -R --port af-xdp:eth1

Exit status: 0 measured, 1 the server or the network failed, 2 it could not begin.

Privileges: packet:IF needs CAP_NET_RAW; af-xdp:IF needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF.";

impl PerfCli {
    /// Measures, and prints the results.
    ///
    /// # Errors
    /// What went wrong, where, and what to do.
    pub fn run(&self) -> Result<ExitCode, Failure> {
        let job = self.job().map_err(Failure::Setup)?;
        measure(self, &job)?;
        Ok(ExitCode::SUCCESS)
    }

    /// What is asked for, if it can be.
    fn job(&self) -> Result<Job> {
        let test = self.test;
        let usual = Job::new(test);
        if test.is_atomic() {
            ensure!(!self.all && self.size.is_none_or(|size| size == 8), "an atomic has 8 bytes");
        }
        if !matches!(self.atomic, AtomicType::FetchAndAdd | AtomicType::CmpAndSwap) {
            ensure!(test == Test::AtomicLat, "ATOMIC_WRITE and FLUSH are for atomic_lat");
        }
        let depth = self.depth.unwrap_or(usual.depth);
        if !test.is_bandwidth() {
            ensure!(self.qps == 1, "{test}: a latency test has one queue pair (-q)");
            ensure!(self.post_list == 1, "{test}: post lists are for bandwidth tests (-l)");
            ensure!(depth == 1, "{test}: a latency test has one message outstanding (-t)");
        }
        ensure!((1..=MAX_QPS).contains(&usize::try_from(self.qps)?), "-q is from 1 to {MAX_QPS}");
        ensure!(self.post_list <= depth, "-l {} is more than -t {depth}", self.post_list);
        let size = match self.size {
            _ if self.all => ALL_LARGEST,
            Some(size) => size,
            None => usual.size,
        };
        let iterations = match (self.iterations, self.duration) {
            (_, Some(_)) => None,
            (Some(iterations), _) if iterations < LEAST_ITERATIONS => {
                bail!("-n is {LEAST_ITERATIONS} or more");
            }
            (iterations, _) => iterations.or(usual.iterations),
        };
        let cq_mod = match self.cq_mod {
            Some(cq_mod) => cq_mod,
            None if !test.is_bandwidth() || (size > CQ_MOD_LIMIT && !self.all) => 1,
            None if self.post_list > 1 => self.post_list,
            None => CQ_MOD,
        };
        let cq_mod = cq_mod.min(depth);
        ensure!(
            self.post_list == 1 || self.post_list.is_multiple_of(cq_mod),
            "-l {} is no multiple of -Q {cq_mod}",
            self.post_list
        );
        Ok(Job {
            test,
            size,
            all_sizes: self.all,
            iterations,
            duration_ns: u64::from(self.duration.unwrap_or(0)) * 1_000_000_000,
            qps: self.qps,
            depth,
            post_list: self.post_list,
            cq_mod,
            out_reads: self.out_reads,
            timeout: self.timeout,
            atomic: match self.atomic {
                AtomicType::FetchAndAdd => Atomic::FetchAdd,
                AtomicType::CmpAndSwap => Atomic::CompareSwap,
                AtomicType::AtomicWrite => Atomic::Write,
                AtomicType::FlushRange => Atomic::FlushRange,
                AtomicType::FlushRegion => Atomic::FlushRegion,
            },
        })
    }
}

fn parse_size(text: &str) -> Result<u32, String> {
    let (digits, shift) = match text.strip_suffix(['K', 'M', 'G', 'k', 'm', 'g']) {
        Some(digits) if text.ends_with(['K', 'k']) => (digits, 10),
        Some(digits) if text.ends_with(['M', 'm']) => (digits, 20),
        Some(digits) => (digits, 30),
        None => (text, 0),
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift))
        .and_then(|bytes| u32::try_from(bytes).ok())
        .filter(|bytes| (1..=LARGEST).contains(bytes))
        .ok_or_else(|| "from 1 to 1073741824 (1G) bytes".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn job(line: &str) -> Result<Job> {
        let words = ["roce-perf"].into_iter().chain(line.split_whitespace());
        PerfCli::try_parse_from(words.chain(["--port", "packet:eth0"]))?.job()
    }

    #[test]
    fn the_command_line_is_sound() {
        PerfCli::command().debug_assert();
    }

    /// perftest 4.5's defaults.
    #[test]
    fn defaults() {
        for (line, size, iterations, depth, cq_mod) in [
            ("write_bw h", 65536, 5000, 128, 1),
            ("read_bw h", 65536, 1000, 128, 1),
            ("send_bw h -s 8192", 8192, 1000, 128, 100),
            ("atomic_bw h", 8, 1000, 128, 100),
            ("write_lat h", 2, 1000, 1, 1),
            ("atomic_lat h", 8, 1000, 1, 1),
            ("write_bw h -s 8193", 8193, 5000, 128, 1),
            ("write_bw h -s 64 -t 16", 64, 5000, 16, 16),
            ("write_bw h -s 64 -l 10", 64, 5000, 128, 10),
            ("write_bw h -s 1K -Q 7 -n 5", 1024, 5, 128, 7),
            ("write_bw h -a", 8 << 20, 5000, 128, 100),
        ] {
            let job = job(line).unwrap();
            let found = (job.size, job.iterations, job.depth, job.cq_mod);
            assert_eq!(found, (size, Some(iterations), depth, cq_mod), "{line}");
        }
        let timed = job("send_lat h -D 3").unwrap();
        assert_eq!((timed.iterations, timed.duration_ns), (None, 3_000_000_000));
        assert_eq!(job("atomic_bw h -A CMP_AND_SWAP").unwrap().atomic, Atomic::CompareSwap);
        assert_eq!(job("atomic_lat h -A FLUSH_RANGE").unwrap().atomic, Atomic::FlushRange);
    }

    #[test]
    fn what_cannot_be() {
        for (line, words) in [
            ("write h", "the tests are write_bw"),
            ("write_bw", "SERVER"),
            ("write_lat h -q 2", "one queue pair"),
            ("read_lat h -t 2", "one message outstanding"),
            ("send_lat h -l 2", "bandwidth tests"),
            ("atomic_bw h -s 16", "8 bytes"),
            ("atomic_bw h -a", "8 bytes"),
            ("atomic_bw h -A ATOMIC_WRITE", "atomic_lat"),
            ("write_bw h -q 129", "1 to 128"),
            ("write_bw h -q 0", "1 to 128"),
            ("write_bw h -n 4", "5 or more"),
            ("write_bw h -l 8 -t 4", "more than -t 4"),
            ("write_bw h -s 64 -l 8 -Q 3", "no multiple"),
            ("write_bw h -s 2G", "1G"),
            ("write_bw h -s 0", "1G"),
            ("write_bw h -n 10 -D 1", "cannot be used with"),
            ("write_bw h -D 1 -a", "cannot be used with"),
            ("write_bw h -o 0", "1..=128"),
            ("write_bw h -R -x ::1", "cannot be used with"),
        ] {
            let said = job(line).unwrap_err().to_string();
            assert!(said.contains(words), "{line}: {said}");
        }
    }
}
