//! `roce-responder rping`: the client of `rping`.

use std::net::IpAddr;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use clap::Args;
use roce_codec::ib::PathMtu;
use roce_dataplane::poll::turn;
use roce_dataplane::port::Port;
use roce_engine::cm::HeapCmStorage;
use roce_engine::{Config, Engine, Entropy, HeapStorage, Limits, NextHop};

use super::clock::Clock;
use super::os;
use super::platform::Host;
use super::stage::{Stage, StageArgs};
use super::wire::Stack;
use crate::service::cm::{AnySession, CmServiceError, CmServices, End, Gsi};
use crate::service::rping::{Client, ClientOptions, DEFAULT_PORT, MAX_PING};
use crate::service::{Context, Platform, Queues};

/// The connection's queue pair and queue pair 1.
const LIMITS: Limits = Limits { qps: 2, replays_per_qp: 4, mrs: 8, cqs: 2, ..Limits::SMALL };
const CQES: u32 = 2048;
/// The server's, for the connection and for its messages.
const NEXT_HOPS: u16 = 4;
/// How long its neighbour's MAC address may take to be found.
const NEIGHBOUR_NS: u64 = 5_000_000_000;
/// How long the server may take, in the end, to answer that it is disconnected.
const FAREWELL_NS: u64 = 300_000_000;
/// The longest pause.
const WAIT_NS: u64 = 1_000_000;

/// Be the client of rping: have the server READ a ping and WRITE it back, again and again.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct RpingArgs {
    /// The server's address in RDMA.
    #[arg(short = 'c', long = "client", value_name = "ADDR")]
    pub(crate) server: IpAddr,

    /// The network.
    #[command(flatten)]
    pub(crate) stage: StageArgs,

    /// The port of RDMA CM's, as the server's -p; no TCP or UDP port.
    #[arg(short = 'p', long, value_name = "N", default_value_t = DEFAULT_PORT)]
    pub(crate) rping_port: u16,

    /// Pings, as rping's -C.
    #[arg(short = 'C', long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: u64,

    /// Bytes of a ping, as rping's -S.
    #[arg(short = 'S', long, value_name = "BYTES", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(16..=i64::from(MAX_PING)))]
    pub(crate) size: u32,

    /// Look at every byte that comes back, as rping's -V.
    #[arg(short = 'V', long)]
    pub(crate) verify: bool,

    /// Ask for no larger path MTU: 256, 512, 1024, 2048 or 4096. What the interface carries unless
    /// given.
    #[arg(long, value_name = "BYTES")]
    pub(crate) path_mtu: Option<u32>,
}

const HELP: &str = "\
Example, and what to run at the server first:

  rping -s -v
  roce-responder rping --client 192.0.2.2 --port af-xdp:eth1 --ip 192.0.2.1 --verify";

/// Runs it.
pub(crate) fn rping(args: &RpingArgs) -> Result<()> {
    run_client(&args.stage, args.server, args.path_mtu, |number, src_port, gsi, context| {
        let options = ClientOptions {
            peer: args.server,
            port: args.rping_port,
            src_port,
            count: args.count,
            size: args.size,
            verify: args.verify,
        };
        Ok(AnySession::RpingClient(Client::connect(number, &options, gsi, context)?))
    })
}

/// Runs the session that `connect` makes, a client of the server's at this address, to its end. It
/// is given its number and the port that its user would have.
pub(super) fn run_client(
    stage: &StageArgs,
    server: IpAddr,
    path_mtu: Option<u32>,
    connect: impl FnOnce(
        u32,
        u16,
        &mut Gsi<'_>,
        &mut Context<'_, '_, Host>,
    ) -> Result<AnySession, CmServiceError>,
) -> Result<()> {
    os::catch_signals().context("catching signals")?;
    let Stage { stack, mut host } = stage.set(NEXT_HOPS)?;
    let path_mtu = stage.path_mtu(&stack, path_mtu)?;
    let route = host.route(server)?;

    let mut storage = HeapStorage::new(&LIMITS);
    let mut cm_storage = HeapCmStorage::new(8, 1, 8);
    let config = Config { max_path_mtu: path_mtu, ..Config::DEFAULT };
    let mut engine = Engine::new(config, storage.lend());
    let (Some(send), Some(recv)) = (engine.create_cq(CQES), engine.create_cq(CQES)) else {
        bail!("the engine has no room for its completion queues");
    };
    let queues = Queues { send, recv };
    let mut poll =
        PollLoop { engine, host, stack, queues, path_mtu, clock: Clock::start(), unresolved: 0 };
    let gsi = Gsi::new(cm_storage.lend(), &mut poll.context())?;
    let mut cm = CmServices::new(gsi);
    poll.wait_for_neighbour(route.next_hop, &mut cm)
        .with_context(|| format!("{server}: no such neighbour"))?;
    let result = run(stage.spin, connect, &mut cm, &mut poll);
    cm.end_all(&mut poll.context());
    // What ends the connection goes out, and is answered if the server is still there.
    let give_up = poll.clock.now().add_ns(FAREWELL_NS);
    poll.turn(&mut cm, 0);
    while cm.is_disconnecting() && poll.clock.now() < give_up {
        poll.turn(&mut cm, 0);
    }
    poll.host.release_route(route);
    let PollLoop { engine, mut stack, unresolved, .. } = poll;
    let counted = stage.strike(&mut stack, engine.counters(), unresolved, 1);
    result.and(counted)
}

fn run<'s>(
    spin_us: u64,
    connect: impl FnOnce(
        u32,
        u16,
        &mut Gsi<'_>,
        &mut Context<'_, '_, Host>,
    ) -> Result<AnySession, CmServiceError>,
    cm: &mut CmServices<'s>,
    poll: &mut PollLoop<'s>,
) -> Result<()> {
    // Of the range that a user without a preference gets.
    let src_port = 32768 + u16::try_from(poll.host.random().next_u32() % 28232).unwrap_or(0);
    let number = cm.number();
    let client = connect(number, src_port, cm.gsi(), &mut poll.context())?;
    cm.add(number, client, &mut poll.context())?;
    loop {
        ensure!(!os::stop_requested(), "stopped");
        if let Some(end) = cm.poll_end() {
            println!("{end}");
            return match end {
                End { error: None, .. } => Ok(()),
                End { error: Some(error), .. } => Err(anyhow!(error)),
            };
        }
        poll.turn(cm, spin_us);
    }
}

/// The engine and what it runs on.
struct PollLoop<'s> {
    engine: Engine<'s>,
    host: Host,
    stack: Stack,
    queues: Queues,
    path_mtu: PathMtu,
    clock: Clock,
    /// Packets not sent for want of a neighbour.
    unresolved: u64,
}

impl<'s> PollLoop<'s> {
    fn context(&mut self) -> Context<'_, 's, Host> {
        Context {
            engine: &mut self.engine,
            platform: &mut self.host,
            queues: self.queues,
            path_mtu: self.path_mtu,
            now: self.clock.now(),
        }
    }

    fn wait_for_neighbour(&mut self, hop: NextHop, cm: &mut CmServices<'s>) -> Result<()> {
        let give_up = self.clock.now().add_ns(NEIGHBOUR_NS);
        while self.host.neighbours.get(hop).is_none() {
            ensure!(!os::stop_requested() && self.clock.now() < give_up, "it does not answer");
            self.turn(cm, 0);
        }
        Ok(())
    }

    /// One turn, and a pause of up to a millisecond when nothing has happened for `spin_us`.
    fn turn(&mut self, cm: &mut CmServices<'s>, spin_us: u64) {
        let began = self.clock.now();
        loop {
            let now = self.clock.now();
            let Self { engine, stack, host, .. } = self;
            let turn = turn(engine, stack, &host.memory, &host.neighbours, now);
            self.unresolved += u64::try_from(turn.unresolved).unwrap_or(0);
            if self.pump(cm) || turn.more || turn.received + turn.sent + turn.unresolved > 0 {
                return;
            }
            if now >= began.add_ns(spin_us.saturating_mul(1000)) {
                break;
            }
        }
        self.host.neighbours.poll();
        let due = self.engine.poll_timeout().into_iter().chain(cm.poll_timeout()).min();
        let pause = due.map_or(WAIT_NS, |due| due.ns_since(self.clock.now())).min(WAIT_NS);
        self.stack.wait(pause);
    }

    /// Passes completions, events and the time on; says whether there was any.
    fn pump(&mut self, cm: &mut CmServices<'s>) -> bool {
        let mut any = false;
        for queue in [self.queues.recv, self.queues.send] {
            while let Some(wc) = self.engine.poll_cq(queue) {
                any = true;
                cm.handle_completion(&wc, &mut self.context());
            }
        }
        while let Some(event) = self.engine.poll_event() {
            any = true;
            cm.handle_event(&event, &mut self.context());
        }
        cm.poll(&mut self.context()) || any
    }
}
