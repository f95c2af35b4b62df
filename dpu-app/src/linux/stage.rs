//! What every command that talks to a network stands on: a port, what is recorded of it, and the
//! host behind it.

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use roce_codec::ib::PathMtu;
use roce_dataplane::neighbour::Neighbours;
use roce_dataplane::port::Port;
use roce_engine::Counters;

use super::clock::unix_ns;
use super::fault_spec::FaultSpec;
use super::interface;
use super::log::say;
use super::platform::Host;
use super::recorder::Recorder;
use super::stats::{Sessions, Stats};
use super::wire::{PortSpec, Stack, Wire};
use crate::service::cm::GsiCounters;

/// The options for it.
#[derive(Debug, Args)]
pub struct StageArgs {
    /// The interface, and how to get at its frames: af-xdp:IF or packet:IF.
    #[arg(long, value_name = "PORT")]
    pub port: PortSpec,

    /// An address of the interface to be reached at; may be given again. All of them unless given.
    #[arg(long = "ip", value_name = "ADDR")]
    pub addresses: Vec<IpAddr>,

    /// Record every frame in a pcapng file.
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,

    /// At the end, print the counters on standard output as one line of JSON: {"stats":{…}}.
    #[arg(long, visible_alias = "stats-json")]
    pub stats: bool,

    /// Damage the traffic in both directions: drop=0.02,duplicate=0.02,reorder=0.02,seed=1. Also
    /// corrupt and delay.
    #[arg(long, value_name = "FAULTS")]
    pub fault: Option<FaultSpec>,

    /// Microseconds to look for frames without a pause after the last one. More makes answers
    /// quicker and takes more of the processor.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 10)]
    pub spin: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) stack: Stack,
    pub(crate) host: Host,
}

impl StageArgs {
    /// Opens the port, with room for as many peers.
    pub(crate) fn set(&self, next_hops: u16) -> Result<Stage> {
        let name = self.port.interface();
        let hops = Neighbours::open(name, next_hops)?;
        let addresses = interface::serve_at(name, &self.addresses)?;
        let wire = Wire::open(&self.port, &addresses)?;
        say(format_args!("{}: MTU {}, {wire}", self.port, wire.mtu()));
        let recorder = self
            .capture
            .as_deref()
            .map(|path| Recorder::create(path, name, unix_ns as _))
            .transpose()?;
        let faults = self.fault.map(|fault| fault.config());
        let stack = Stack::new(wire, recorder, faults.as_ref());
        Ok(Stage { stack, host: Host::new(addresses, hops) })
    }

    /// The largest path MTU to agree to: what is asked for, if the interface carries it.
    pub(crate) fn path_mtu(&self, stack: &Stack, asked: Option<u32>) -> Result<PathMtu> {
        let (name, ip_mtu) = (self.port.interface(), stack.mtu());
        let carried = PathMtu::largest_within(ip_mtu).with_context(|| {
            format!(
                "{name}: its MTU of {ip_mtu} bytes does not carry even path MTU 256, which takes \
                 348; `ip link set {name} mtu 1500`"
            )
        })?;
        let Some(bytes) = asked else { return Ok(carried) };
        let Some(asked) = PathMtu::from_bytes(bytes) else {
            bail!("--path-mtu is 256, 512, 1024, 2048 or 4096, not {bytes}");
        };
        ensure!(
            asked <= carried,
            "{name}: path MTU {asked} takes an interface MTU of {} bytes, it has {ip_mtu}; `ip \
             link set {name} mtu {}` or ask for --path-mtu {carried}",
            asked.bytes() + 92,
            asked.bytes() + 92,
        );
        Ok(asked)
    }

    /// Says what was counted, and completes the capture.
    pub(crate) fn strike(
        &self,
        stack: &mut Stack,
        engine: &Counters,
        gsi: Option<&GsiCounters>,
        unresolved: u64,
        sessions: Sessions,
    ) -> Result<()> {
        let stats = Stats::new(engine, gsi, stack, unresolved, sessions);
        say(format_args!("{}", stats.text()));
        if self.stats {
            println!("{}", stats.json());
        }
        stack.finish()
    }
}
