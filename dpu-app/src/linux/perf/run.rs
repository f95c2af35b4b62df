//! The poll loop of a client, with what carries its exchange beside it.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use anyhow::{Context as _, Error, Result, anyhow, bail, ensure};
use roce_codec::ib::PathMtu;
use roce_dataplane::poll::turn;
use roce_dataplane::port::Port;
use roce_engine::cm::{CmStorage, HeapCmStorage};
use roce_engine::{Config, Engine, HeapStorage, Instant, Limits};

use super::carrier::{Carrier, Tcp};
use super::cli::PerfCli;
use super::failure::Failure;
use super::report::{self, Row};
use super::times::Times;
use crate::linux::clock::Clock;
use crate::linux::log::say;
use crate::linux::os;
use crate::linux::platform::Host;
use crate::linux::stage::Stage;
use crate::linux::stats::Sessions;
use crate::linux::wire::Stack;
use crate::service::cm::Gsi;
use crate::service::perftest::Form;
use crate::service::perftest::client::{ByCm, Client, ClientProgress, Job};
use crate::service::{Context, Platform, Queues, Reply, Route};

/// How long the server may take to answer.
const ANSWER_PATIENCE_NS: u64 = 30_000_000_000;
/// How long a run may come no further: longer than any answer that is waited for at the usual -u.
const RUN_PATIENCE_NS: u64 = 60_000_000_000;
/// How long its neighbour's MAC address may take to be found.
const NEIGHBOUR_PATIENCE_NS: u64 = 5_000_000_000;
/// How often the connection is looked at during a run: has the server gone?
const LOOK_NS: u64 = 5_000_000;
/// How long the server may take, in the end, to answer that it is disconnected.
const FAREWELL_NS: u64 = 1_000_000_000;
/// The longest pause.
const PAUSE_NS: u64 = 200_000;
/// How long to look for frames without a pause during a run, at least: the wake-up would be
/// measured, too.
const SPIN_NS: u64 = 1_000_000;
/// Next hops: those of one peer.
const NEXT_HOPS: u16 = 4;
/// Work requests that a `send_lat` client keeps beside its own.
const SPARE: u32 = 32;
/// What RDMA CM takes beside the queue pairs of the run: queue pair 1 and that of the exchange, each
/// with its memory, and their work requests.
const CM_QPS: u32 = 2;
const CM_WQES: u32 = 128;

/// Measures what the command line asks for, and prints it.
pub(super) fn measure(cli: &PerfCli, job: &Job) -> Result<(), Failure> {
    let begun = Begun::new(cli, job).map_err(Failure::Setup)?;
    let Begun { stage: Stage { mut stack, mut host }, path_mtu, at, source } = begun;
    let (cm_qps, cm_wqes) = if cli.rdma_cm { (CM_QPS, CM_WQES) } else { (0, 0) };
    let outstanding = job.depth.max(SPARE) * job.qps + cm_wqes;
    let receives = SPARE * job.qps + cm_wqes;
    let slots = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    let limits = Limits {
        qps: slots(job.qps + cm_qps),
        // Where RDMA CM connects, who has READs outstanding offers to serve as many.
        replays_per_qp: if cli.rdma_cm { usize::from(job.out_reads) } else { 1 },
        mrs: slots(job.qps + cm_qps),
        cqs: 2,
        cqes: slots(outstanding + receives),
        send_wqes: slots(outstanding),
        recv_wqes: slots(receives),
        ..Limits::SMALL
    };
    let mut storage = HeapStorage::new(&limits);
    let config = Config { max_path_mtu: path_mtu, ..Config::DEFAULT };
    let mut engine = Engine::new(config, storage.lend());
    let (Some(send), Some(recv)) = (engine.create_cq(outstanding), engine.create_cq(receives))
    else {
        return Err(Failure::Setup(anyhow!("the engine has no room for its completion queues")));
    };

    let form = if cli.rdma_cm { Form::Binary } else { Form::Text };
    let connections = slots(job.qps + cm_qps);
    let mut cm_storage = HeapCmStorage::new(2 * connections, 1, connections);
    let mut client = Client::new(job, source, form);
    let mut perf = Perf {
        cli,
        job,
        engine,
        host: &mut host,
        stack: &mut stack,
        queues: Queues { send, recv },
        path_mtu,
        clock: Clock::start(),
        times: Times::new(job),
        rows: Vec::new(),
        unresolved: 0,
        heard: Instant::ZERO,
    };
    let (carrier, result) = match perf.connect(at, cm_storage.lend()) {
        Ok(mut carrier) => {
            let result = perf.exchange(&mut carrier, &mut client);
            (Some(carrier), result)
        }
        Err(error) => (None, Err(error)),
    };
    if result.is_ok() && cli.json {
        let path_mtu = client.path_mtu();
        println!("{}", report::json(job, &at.to_string(), path_mtu, &perf.rows));
    }
    let gsi = match carrier {
        Some(Carrier::Cm(mut cm, _)) => {
            perf.disconnect(&mut cm, &mut client);
            Some(*cm.counters())
        }
        _ => None,
    };
    client.close(&mut perf.context());
    let Perf { engine, unresolved, .. } = perf;
    let sessions = Sessions::own(result.is_ok());
    let counted =
        cli.stage.strike(&mut stack, engine.counters(), gsi.as_ref(), unresolved, sessions);
    result.map_err(|error| Failure::Run(error.context(at)))?;
    counted.map_err(Failure::Run)
}

/// What is there before the server is talked to.
struct Begun {
    stage: Stage,
    path_mtu: PathMtu,
    at: SocketAddr,
    source: IpAddr,
}

impl Begun {
    fn new(cli: &PerfCli, job: &Job) -> Result<Self> {
        os::catch_signals().context("catching signals")?;
        let at = resolve(&cli.server, cli.tcp_port)?;
        let Stage { stack, mut host } = cli.stage.set(NEXT_HOPS)?;
        let path_mtu = cli.stage.path_mtu(&stack, cli.path_mtu).context("-m")?;
        let source = match cli.gid {
            Some(address) => address,
            None => {
                let route = host.route(at.ip().to_canonical()).map_err(|error| {
                    let (ours, theirs) = (&cli.stage.port, at.ip());
                    let advice = format!("{ours}: which of our addresses reaches {theirs}? (-x)");
                    Error::new(error).context(advice)
                })?;
                host.release_route(route);
                route.src
            }
        };
        say(format_args!(
            "{}: from {}, {} queue pair{}, {} outstanding",
            job.test,
            source,
            job.qps,
            if job.qps == 1 { "" } else { "s" },
            job.depth
        ));
        Ok(Self { stage: Stage { stack, host }, path_mtu, at, source })
    }
}

/// The server's address, by name or number.
fn resolve(server: &str, port: u16) -> Result<SocketAddr> {
    let mut found =
        (server, port).to_socket_addrs().with_context(|| format!("{server}: no such host"))?;
    found.next().with_context(|| format!("{server}: it has no address"))
}

/// The engine, what it runs on, and what is measured.
struct Perf<'a, 's> {
    cli: &'a PerfCli,
    job: &'a Job,
    engine: Engine<'s>,
    host: &'a mut Host,
    stack: &'a mut Stack,
    queues: Queues,
    path_mtu: PathMtu,
    clock: Clock,
    times: Times,
    rows: Vec<Row>,
    /// Packets not sent for want of a neighbour.
    unresolved: u64,
    /// When the server last said something, or a message was done.
    heard: Instant,
}

impl<'s> Perf<'_, 's> {
    fn context(&mut self) -> Context<'_, 's, Host> {
        Context {
            engine: &mut self.engine,
            platform: self.host,
            queues: self.queues,
            path_mtu: self.path_mtu,
            now: self.clock.now(),
        }
    }

    /// Begins to connect to the server.
    fn connect(&mut self, at: SocketAddr, storage: CmStorage<'s>) -> Result<Carrier<'s>> {
        if !self.cli.rdma_cm {
            return Tcp::connect(at).map(Carrier::Tcp);
        }
        let server = at.ip().to_canonical();
        let route = self.host.route(server)?;
        self.wait_for_neighbour(Some(route))?;
        let src_port = self.host.any_port();
        let job = self.job;
        let mut context = self.context();
        let gsi = Gsi::new(storage, &mut context)?;
        let cm = ByCm::connect(server, (src_port, at.port()), job, gsi, &mut context)?;
        // The connection keeps one of its own.
        context.platform.release_route(route);
        Ok(Carrier::Cm(cm, Reply::new()))
    }

    /// What ends the connections goes out, and is answered if the server is still there.
    fn disconnect(&mut self, cm: &mut ByCm<'s>, client: &mut Client) {
        cm.close(&mut self.context());
        let end = self.clock.now().add_ns(FAREWELL_NS);
        loop {
            // Nothing can fail any more that anybody would be told.
            let _ = cm.poll(client, &mut Reply::new(), &mut self.context());
            self.turn_engine();
            let mut context = self.context();
            for queue in [context.queues.recv, context.queues.send] {
                while let Some(wc) = context.engine.poll_cq(queue) {
                    let _ = cm.handle_completion(&wc, &mut context);
                }
            }
            if !cm.is_disconnecting() || self.clock.now() >= end {
                return;
            }
            self.stack.wait(PAUSE_NS);
        }
    }

    /// From the first message to the last.
    fn exchange(&mut self, carrier: &mut Carrier<'s>, client: &mut Client) -> Result<()> {
        client.start(carrier.unsent(), &self.context());
        let mut progress = self.converse(carrier, client)?;
        while progress == ClientProgress::Runs {
            self.times.clear();
            self.run(carrier, client)?;
            let row = Row::new(self.job, client.size(), &self.times);
            self.print(&row, client);
            self.rows.push(row);
            progress = client.finish_run(row.outcome(), carrier.unsent(), &self.context());
            if progress != ClientProgress::Runs {
                progress = self.converse(carrier, client)?;
            }
        }
        Ok(())
    }

    fn print(&self, row: &Row, client: &Client) {
        let test = self.job.test;
        if self.rows.is_empty() {
            say(format_args!("{test}: path MTU {}", client.path_mtu()));
        }
        if self.cli.json {
            return;
        }
        if self.rows.is_empty() {
            println!("{}", report::head(test));
        }
        println!("{}", report::line(test, row));
    }

    /// Talks until a run begins, or all is over.
    fn converse(
        &mut self,
        carrier: &mut Carrier<'s>,
        client: &mut Client,
    ) -> Result<ClientProgress> {
        self.heard = self.clock.now();
        loop {
            ensure!(!os::stop_requested(), "stopped");
            // The server may still wait for an acknowledgement of ours.
            self.turn(carrier, client)?;
            if !carrier.flush(&mut self.context())? {
                return self.closed(client, "it closed the connection");
            }
            if client.is_over() && carrier.unsent().is_empty() {
                return Ok(ClientProgress::Over);
            }
            match carrier.read(client.next_len()) {
                Ok(Some(message)) => {
                    self.heard = self.clock.now();
                    let mut said = Reply::new();
                    let progress =
                        client.handle_message(&message, &mut said, &mut self.context())?;
                    *carrier.unsent() = said;
                    match progress {
                        ClientProgress::Runs => return Ok(progress),
                        ClientProgress::Connects => {
                            carrier.connect_pairs(client, &mut self.context())?;
                        }
                        ClientProgress::Continues | ClientProgress::Over => {}
                    }
                }
                Ok(None) => self.wait_for_answer(carrier)?,
                Err(error) => return self.closed(client, &error.to_string()),
            }
        }
    }

    /// What it means that the server is gone.
    fn closed(&self, client: &mut Client, how: &str) -> Result<ClientProgress> {
        ensure!(
            client.handle_closed(),
            "{how} before the test was over; does it run {}, over RoCE and {} -R? It may say why",
            self.job.test,
            if self.cli.rdma_cm { "with" } else { "without" }
        );
        Ok(ClientProgress::Over)
    }

    /// Nothing has come yet.
    fn wait_for_answer(&mut self, carrier: &Carrier<'s>) -> Result<()> {
        let now = self.clock.now();
        ensure!(
            now.ns_since(self.heard) < ANSWER_PATIENCE_NS,
            "it has said nothing for {} s; does it run {}, with as many queue pairs (-q)?",
            ANSWER_PATIENCE_NS / 1_000_000_000,
            self.job.test
        );
        self.host.neighbours.poll();
        let due = self.engine.poll_timeout().into_iter().chain(carrier.poll_timeout()).min();
        self.stack.wait(due.map_or(PAUSE_NS, |due| due.ns_since(now)).min(PAUSE_NS));
        Ok(())
    }

    /// One run, of one size.
    fn run(&mut self, carrier: &mut Carrier<'s>, client: &mut Client) -> Result<()> {
        self.wait_for_neighbour(client.route())?;
        let spin_ns = self.cli.stage.spin.saturating_mul(1000).max(SPIN_NS);
        let mut now = self.clock.now();
        let (mut busy_until, mut look_due) = (now.add_ns(spin_ns), now.add_ns(LOOK_NS));
        self.heard = now;
        while !client.has_run() {
            let done = self.times.count();
            let busy = self.turn(carrier, client)?;
            now = self.clock.now();
            if self.times.count() > done {
                self.heard = now;
            }
            if now >= look_due {
                look_due = now.add_ns(LOOK_NS);
                self.look_around(carrier, client, now)?;
            }
            if busy {
                busy_until = now.add_ns(spin_ns);
            } else if now >= busy_until {
                let due = self.engine.poll_timeout();
                let pause = due.map_or(PAUSE_NS, |due| due.ns_since(now));
                self.stack.wait(pause.min(PAUSE_NS));
            }
        }
        Ok(())
    }

    /// What is looked at now and then during a run.
    fn look_around(
        &mut self,
        carrier: &Carrier<'s>,
        client: &mut Client,
        now: Instant,
    ) -> Result<()> {
        ensure!(!os::stop_requested(), "stopped after {} messages", self.times.count());
        self.host.neighbours.poll();
        if carrier.is_closed() && !client.handle_closed() {
            bail!("it closed the connection after {} messages; it may say why", self.times.count());
        }
        ensure!(
            now.ns_since(self.heard) < RUN_PATIENCE_NS,
            "after {} messages, none has been done for {} s; does it run {}, with the same -s, -n \
             and -q?",
            self.times.count(),
            RUN_PATIENCE_NS / 1_000_000_000,
            self.job.test
        );
        Ok(())
    }

    /// What is sent to nobody is lost, and would be measured as a timeout.
    fn wait_for_neighbour(&mut self, route: Option<Route>) -> Result<()> {
        let Some(route) = route else { return Ok(()) };
        let end = self.clock.now().add_ns(NEIGHBOUR_PATIENCE_NS);
        while self.host.neighbours.get(route.next_hop).is_none() {
            ensure!(
                self.clock.now() < end,
                "the way to its GID leads to a neighbour that does not answer to ARP or neighbour \
                 discovery on {}",
                self.cli.stage.port.interface()
            );
            self.stack.wait(PAUSE_NS);
            self.host.neighbours.poll();
        }
        Ok(())
    }

    /// One turn of the data path; says whether there was anything to do.
    fn turn(&mut self, carrier: &mut Carrier<'s>, client: &mut Client) -> Result<bool> {
        let mut busy = self.turn_engine();
        // The time is taken again: what has come is here now, and what is posted goes from now on.
        let mut context = Context {
            engine: &mut self.engine,
            platform: &mut *self.host,
            queues: self.queues,
            path_mtu: self.path_mtu,
            now: self.clock.now(),
        };
        for queue in [self.queues.recv, self.queues.send] {
            while let Some(wc) = context.engine.poll_cq(queue) {
                busy = true;
                if !carrier.handle_completion(&wc, &mut context)? {
                    client.handle_completion(&wc, &mut self.times, &mut context)?;
                }
            }
        }
        while let Some(event) = context.engine.poll_event() {
            busy = true;
            carrier.handle_event(&event)?;
            client.handle_event(&event)?;
        }
        busy |= carrier.poll(client, &mut context)?;
        client.poll(&mut self.times, &mut context)?;
        Ok(busy)
    }

    fn turn_engine(&mut self) -> bool {
        let now = self.clock.now();
        let Self { engine, host, stack, .. } = self;
        let turn = turn(engine, *stack, &host.memory, &host.neighbours, now);
        self.unresolved += u64::try_from(turn.unresolved).unwrap_or(0);
        turn.more || turn.received + turn.sent + turn.unresolved > 0
    }
}
