//! The poll loop of a client, with TCP beside it.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context as _, Error, Result, anyhow, bail, ensure};
use roce_codec::ib::PathMtu;
use roce_dataplane::poll::turn;
use roce_dataplane::port::Port;
use roce_engine::{Config, Engine, HeapStorage, Instant, Limits};

use super::cli::PerfCli;
use super::failure::Failure;
use super::report::{self, Row};
use super::times::Times;
use crate::linux::clock::Clock;
use crate::linux::log::say;
use crate::linux::os;
use crate::linux::platform::Host;
use crate::linux::stage::Stage;
use crate::linux::wire::Stack;
use crate::service::perftest::{Form, MAX_MESSAGE_LEN};
use crate::service::perftest::client::{Client, ClientProgress, Job};
use crate::service::{Context, Platform, Queues, Reply};

/// How long the server may take to accept, and to answer.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
const ANSWER_PATIENCE_NS: u64 = 30_000_000_000;
/// How long a run may come no further: longer than any answer that is waited for at the usual -u.
const RUN_PATIENCE_NS: u64 = 60_000_000_000;
/// How long its neighbour's MAC address may take to be found.
const NEIGHBOUR_PATIENCE_NS: u64 = 5_000_000_000;
/// How often TCP is looked at during a run: has the server gone?
const TCP_NS: u64 = 5_000_000;
/// The longest pause.
const PAUSE_NS: u64 = 200_000;
/// How long to look for frames without a pause during a run, at least: the wake-up would be
/// measured, too.
const SPIN_NS: u64 = 1_000_000;
/// Next hops: those of one peer.
const NEXT_HOPS: u16 = 4;
/// Work requests that a `send_lat` client keeps beside its own.
const SPARE: u32 = 32;

/// Measures what the command line asks for, and prints it.
pub(super) fn measure(cli: &PerfCli, job: &Job) -> Result<(), Failure> {
    let begun = Begun::new(cli, job).map_err(Failure::Setup)?;
    let Begun { stage: Stage { mut stack, mut host }, path_mtu, at, source } = begun;
    let outstanding = job.depth.max(SPARE) * job.qps;
    let receives = SPARE * job.qps;
    let slots = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    let limits = Limits {
        qps: slots(job.qps),
        replays_per_qp: 1,
        mrs: slots(job.qps),
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

    let mut client = Client::new(job, source, Form::Text);
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
    let result = connect(at).and_then(|stream| perf.exchange(stream, &mut client));
    if result.is_ok() && cli.json {
        let path_mtu = client.path_mtu();
        println!("{}", report::json(job, &at.to_string(), path_mtu, &perf.rows));
    }
    client.close(&mut perf.context());
    let Perf { engine, unresolved, .. } = perf;
    let counted = cli.stage.strike(&mut stack, engine.counters(), None, unresolved, 1);
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

fn connect(at: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&at, CONNECT_PATIENCE).map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::ConnectionRefused => {
                "nothing listens there; start the server first (its TCP port is -p)"
            }
            _ => "cannot connect there by TCP",
        };
        Error::new(error).context(advice)
    })?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
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

/// TCP, never waited for.
struct Tcp {
    stream: TcpStream,
    unsent: Reply,
    buffer: [u8; MAX_MESSAGE_LEN],
    filled: usize,
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

    /// From the first byte over TCP to the last.
    fn exchange(&mut self, stream: TcpStream, client: &mut Client) -> Result<()> {
        let mut tcp = Tcp { stream, unsent: Reply::new(), buffer: [0; MAX_MESSAGE_LEN], filled: 0 };
        client.start(&mut tcp.unsent, &self.context());
        let mut progress = self.converse(&mut tcp, client)?;
        while progress == ClientProgress::Runs {
            self.times.clear();
            self.run(&mut tcp, client)?;
            let row = Row::new(self.job, client.size(), &self.times);
            self.print(&row, client);
            self.rows.push(row);
            progress = client.finish_run(row.outcome(), &mut tcp.unsent, &self.context());
            if progress != ClientProgress::Runs {
                progress = self.converse(&mut tcp, client)?;
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

    /// Talks over TCP until a run begins, or all is over.
    fn converse(&mut self, tcp: &mut Tcp, client: &mut Client) -> Result<ClientProgress> {
        self.heard = self.clock.now();
        loop {
            ensure!(!os::stop_requested(), "stopped");
            // The server may still wait for an acknowledgement of ours.
            self.turn(client)?;
            if !tcp.flush()? {
                return self.closed(client, "it closed the TCP connection");
            }
            let wanted = client.next_len();
            if wanted == 0 && tcp.unsent.is_empty() {
                return Ok(ClientProgress::Over);
            }
            match tcp.read(wanted) {
                Ok(Some(message)) => {
                    self.heard = self.clock.now();
                    let mut said = Reply::new();
                    let progress =
                        client.handle_message(&message, &mut said, &mut self.context())?;
                    tcp.unsent = said;
                    if progress == ClientProgress::Runs {
                        return Ok(progress);
                    }
                }
                Ok(None) => {
                    let silent = self.clock.now().ns_since(self.heard);
                    ensure!(
                        silent < ANSWER_PATIENCE_NS,
                        "it has said nothing over TCP for {} s; does it run {}, with as many \
                         queue pairs (-q)?",
                        ANSWER_PATIENCE_NS / 1_000_000_000,
                        self.job.test
                    );
                    self.stack.wait(PAUSE_NS);
                }
                Err(error) => return self.closed(client, &error.to_string()),
            }
        }
    }

    /// What it means that the server is gone.
    fn closed(&self, client: &mut Client, how: &str) -> Result<ClientProgress> {
        ensure!(
            client.handle_closed(),
            "{how} before the test was over; does it run {}, over RoCE and without -R? It may \
             say why",
            self.job.test
        );
        Ok(ClientProgress::Over)
    }

    /// One run, of one size.
    fn run(&mut self, tcp: &mut Tcp, client: &mut Client) -> Result<()> {
        self.wait_for_neighbour(client)?;
        let spin_ns = self.cli.stage.spin.saturating_mul(1000).max(SPIN_NS);
        let mut now = self.clock.now();
        let (mut busy_until, mut tcp_due) = (now.add_ns(spin_ns), now.add_ns(TCP_NS));
        self.heard = now;
        while !client.has_run() {
            let done = self.times.count();
            let busy = self.turn(client)?;
            now = self.clock.now();
            if self.times.count() > done {
                self.heard = now;
            }
            if now >= tcp_due {
                tcp_due = now.add_ns(TCP_NS);
                self.look_around(tcp, client, now)?;
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
    fn look_around(&mut self, tcp: &Tcp, client: &mut Client, now: Instant) -> Result<()> {
        ensure!(!os::stop_requested(), "stopped after {} messages", self.times.count());
        self.host.neighbours.poll();
        if tcp.is_closed() && !client.handle_closed() {
            bail!(
                "it closed the TCP connection after {} messages; it may say why",
                self.times.count()
            );
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
    fn wait_for_neighbour(&mut self, client: &mut Client) -> Result<()> {
        let Some(route) = client.route() else { return Ok(()) };
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
    fn turn(&mut self, client: &mut Client) -> Result<bool> {
        let now = self.clock.now();
        let Self { engine, host, stack, .. } = self;
        let turn = turn(engine, *stack, &host.memory, &host.neighbours, now);
        self.unresolved += u64::try_from(turn.unresolved).unwrap_or(0);
        let mut busy = turn.more || turn.received + turn.sent + turn.unresolved > 0;
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
                client.handle_completion(&wc, &mut self.times, &mut context)?;
            }
        }
        while let Some(event) = context.engine.poll_event() {
            busy = true;
            client.handle_event(&event)?;
        }
        client.poll(&mut self.times, &mut context)?;
        Ok(busy)
    }
}

impl Tcp {
    /// Sends what waits; says whether the server still takes it.
    fn flush(&mut self) -> Result<bool> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(sent) => {
                    self.unsent.drain(..sent.min(self.unsent.len()));
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => break,
                    ErrorKind::Interrupted => {}
                    ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => return Ok(false),
                    _ => return Err(Error::new(error).context("TCP")),
                },
            }
        }
        Ok(true)
    }

    /// The next message, once it is whole.
    fn read(&mut self, wanted: usize) -> Result<Option<Vec<u8>>> {
        while self.filled < wanted {
            let room = self.buffer.get_mut(self.filled..wanted).unwrap_or_default();
            match self.stream.read(room) {
                Ok(0) => bail!("it closed the TCP connection"),
                Ok(len) => self.filled += len,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(None),
                    ErrorKind::Interrupted => {}
                    _ => return Err(Error::new(error).context("it broke the TCP connection")),
                },
            }
        }
        self.filled = 0;
        Ok(self.buffer.get(..wanted).filter(|message| !message.is_empty()).map(<[u8]>::to_vec))
    }

    /// Whether the server has closed the connection.
    fn is_closed(&self) -> bool {
        match self.stream.peek(&mut [0]) {
            Ok(len) => len == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
}
