//! The command line of `roce-responder`.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use roce_engine::{Rate, Recovery};

use super::demo::demo;
use super::fault_spec::FaultSpec;
use super::pingpong::{PingpongArgs, pingpong};
use super::replay_target::{ReplayTargetArgs, replay_target};
use super::rping::{RpingArgs, rping};
use super::serve::serve;
use super::served::Served;
use super::stage::StageArgs;
use super::ucmatose::{UcmatoseArgs, ucmatose};
use super::udaddy::{UdaddyArgs, udaddy};

/// Serves RDMA clients over RoCEv2 without an RDMA NIC or kernel module.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(ServeArgs),
    Pingpong(PingpongArgs),
    Rping(RpingArgs),
    Ucmatose(UcmatoseArgs),
    Udaddy(UdaddyArgs),
    Demo(DemoArgs),
    ReplayTarget(ReplayTargetArgs),
}

/// Show WRITE, READ, SEND, FETCH_ADD and CMP_SWAP between two engines of this process, over a
/// wire that drops, duplicates and reorders; verify every byte, record it all and judge the
/// capture. Exit status 0 if nothing is wrong.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// The wire: loopback is in memory and needs no privilege; af-xdp is a veth pair in a network
    /// namespace of this process's own, which takes root.
    #[arg(long, value_enum, default_value_t = DemoPort::Loopback)]
    pub port: DemoPort,

    /// Where to write the capture.
    #[arg(long, value_name = "FILE", default_value = "demo.pcapng")]
    pub output: PathBuf,

    /// What decides about faults and data; over loopback, the same seed gives the same capture.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Faults at each end, each way; what corrupt breaks, the checker finds. [default: drop=0.01,duplicate=0.01,reorder=0.01]
    #[arg(long, value_name = "FAULTS")]
    pub fault: Option<FaultSpec>,
}

/// What the demonstration runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DemoPort {
    /// Two ports joined in memory.
    Loopback,
    /// AF_XDP on a veth pair.
    AfXdp,
}

/// Serve unmodified RDMA clients on a network interface, until Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
pub struct ServeArgs {
    /// The network.
    #[command(flatten)]
    pub stage: StageArgs,

    /// What to serve: a service of those below; may be given again.
    #[arg(long = "service", value_name = "SERVICE", required = true)]
    pub services: Vec<Served>,

    /// Where to listen for clients' TCP connections.
    #[arg(long, value_name = "ADDR", default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    pub listen: IpAddr,

    /// Bytes of memory behind each queue pair, 4096 to 2147483648: the largest message. A suffix
    /// K, M or G multiplies.
    #[arg(long, value_name = "BYTES", default_value = "16M", value_parser = parse_region_size)]
    pub region_size: u32,

    /// Agree to no larger path MTU: 256, 512, 1024, 2048 or 4096. What the interface carries
    /// unless given.
    #[arg(long, value_name = "BYTES")]
    pub path_mtu: Option<u32>,

    /// What to do with packets behind one that is missing: drop them, or hold up to 4096 of them and
    /// run them once it has come.
    #[arg(long, value_enum, default_value_t = RecoveryMode::SelectiveAccept)]
    pub recovery: RecoveryMode,

    /// Answer READs with no more than this many bytes a second for each queue pair. A suffix K, M or
    /// G multiplies. Without limit unless given.
    #[arg(long, value_name = "BYTES", value_parser = parse_rate)]
    pub read_rate: Option<Rate>,

    /// When a client is done, write the memory it reached to this directory, which is made if
    /// need be: a file for each queue pair, and index.jsonl.
    #[arg(long, value_name = "DIR")]
    pub dump_memory: Option<PathBuf>,

    /// End after this many clients.
    #[arg(long, value_name = "N")]
    pub sessions: Option<u64>,

    /// End after one client.
    #[arg(long, conflicts_with = "sessions")]
    pub once: bool,
}

/// [`Recovery`] by the words of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RecoveryMode {
    /// Drop them; the client sends them again.
    GoBackN,
    /// Hold them.
    SelectiveAccept,
}

impl RecoveryMode {
    /// In the engine's terms.
    #[must_use]
    pub const fn recovery(self) -> Recovery {
        match self {
            Self::GoBackN => Recovery::GoBackN,
            Self::SelectiveAccept => Recovery::SelectiveAccept,
        }
    }
}

const SERVE_HELP: &str = "\
Services, each on a port, by TCP 18515 unless given; clients name it with -p. Several clients may
run at a time and one after another.

  perftest:TEST[:PORT]   write_bw read_bw send_bw atomic_bw write_lat read_lat send_lat atomic_lat,
                         as perftest's ib_ programs, with -R at that port of RDMA CM's
    ,size=65536          a write_lat client's message size: above 4096 bytes it is otherwise found
                         out by trial, 0.1 s for each 4096
    ,iterations=N        and when it is done: without, one WRITE more is sent
    ,access=all          a client that is not perftest: beside what the test needs, it may read,
                         write, flush and use atomics
  pingpong:TRANSPORT[:PORT]   rc uc ud, as ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong
    ,mtu=BYTES           rc and uc: the client's -m, 1024 unless given
    ,iterations=N        the client's -n: without, it is taken to be done when it is silent for 10 s
    ,check               look at what a client with -c sends
  rping[:PORT]           as rping -s, by RDMA CM: the port is 7174 unless given, and no TCP port
  ucmatose[:PORT]        as ucmatose, by RDMA CM: 7471 unless given
    ,count=N             the client's -C: 10 unless given
    ,size=BYTES          the client's -S: 100 unless given
  udaddy[:PORT]          as udaddy, by RDMA CM: 7174 unless given, of UDP's space

Example, and what to run at the client:

  roce-responder serve --port af-xdp:eth1 --ip 192.0.2.1 --service perftest:write_bw
  ib_write_bw 192.0.2.1

Privileges: packet:IF needs CAP_NET_RAW; af-xdp:IF needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF.";

/// A number, with a suffix that multiplies by a power of two.
fn parse_bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(digits) if text.ends_with('K') => (digits, 10),
        Some(digits) if text.ends_with('M') => (digits, 20),
        Some(digits) => (digits, 30),
        None => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn parse_region_size(text: &str) -> Result<u32, String> {
    parse_bytes(text)
        .filter(|bytes| (4096..=1 << 31).contains(bytes))
        .and_then(|bytes| u32::try_from(bytes).ok())
        .ok_or_else(|| "from 4096 (4K) to 2147483648 (2G) bytes".to_owned())
}

fn parse_rate(text: &str) -> Result<Rate, String> {
    let bytes = parse_bytes(text).filter(|bytes| *bytes > 0);
    // The poll loop may be away for a millisecond.
    let burst = |bytes: u64| u32::try_from(bytes / 1000).unwrap_or(u32::MAX);
    bytes
        .map(|bytes| Rate { bytes_per_second: bytes, burst: burst(bytes) })
        .ok_or_else(|| "bytes a second, at least 1".to_owned())
}

impl Cli {
    /// Does what was asked for.
    ///
    /// # Errors
    /// What went wrong, where, and what to do.
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Serve(args) => serve(&args),
            Command::Pingpong(args) => pingpong(&args),
            Command::Rping(args) => rping(&args),
            Command::Ucmatose(args) => ucmatose(&args),
            Command::Udaddy(args) => udaddy(&args),
            Command::Demo(args) => demo(&args),
            Command::ReplayTarget(args) => replay_target(&args),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn region_sizes() {
        assert_eq!(parse_region_size("4096"), Ok(4096));
        assert_eq!(parse_region_size("16M"), Ok(16 << 20));
        assert_eq!(parse_region_size("2G"), Ok(1 << 31));
        for wrong in ["", "K", "4095", "3G", "-1", "1.5M", "16m", "99999999999999999999G"] {
            assert!(parse_region_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates() {
        let rate = |bytes_per_second, burst| Ok(Rate { bytes_per_second, burst });
        assert_eq!(parse_rate("1"), rate(1, 0));
        assert_eq!(parse_rate("2G"), rate(2 << 30, 2_147_483));
        for wrong in ["", "0", "-1", "1.5M", "fast"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
    }
}
