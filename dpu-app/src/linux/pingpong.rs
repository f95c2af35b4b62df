//! `roce-responder pingpong`: the client of `ibv_rc_pingpong` and its kin.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use roce_engine::{Config, Engine, Event, HeapStorage, Instant, Limits, Wc};

use super::os;
use super::platform::Host;
use super::poll_loop::{PollLoop, User};
use super::stage::{Stage, StageArgs};
use super::stats::Sessions;
use crate::service::pingpong::{
    Address, Client, DEFAULT_PATH_MTU, DEFAULT_PORT, DONE, Options, Transport,
};
use crate::service::{Context, Platform, Queues};

/// One queue pair.
const LIMITS: Limits = Limits { qps: 1, replays_per_qp: 1, mrs: 1, cqs: 2, ..Limits::SMALL };
const CQES: u32 = 16;
/// The session in its work requests' ids.
const ID: u32 = 1;
/// The server's, at one address or another.
const NEXT_HOPS: u16 = 4;
/// How long the server may take to accept, and to answer.
const TCP_PATIENCE: Duration = Duration::from_secs(10);
/// How long to answer the server once all is done: our last acknowledgement may have been lost, and
/// it asks again within four times 67 ms.
const LINGER_NS: u64 = 400_000_000;

/// Be the client of ibv_rc_pingpong, ibv_uc_pingpong or ibv_ud_pingpong: send messages, each as soon
/// as the last one has come back.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct PingpongArgs {
    /// What the server is: rc, uc or ud.
    pub(crate) transport: Transport,

    /// Where the server listens: an address or a name.
    pub(crate) server: String,

    /// The network.
    #[command(flatten)]
    pub(crate) stage: StageArgs,

    /// The server's TCP port.
    #[arg(short = 'p', long, value_name = "N", default_value_t = DEFAULT_PORT)]
    pub(crate) tcp_port: u16,

    /// Our address in RDMA, one of --ip. The one that reaches the server's unless given.
    #[arg(long, value_name = "ADDR")]
    pub(crate) gid: Option<IpAddr>,

    /// Bytes of a message, as the server's -s. [default: 4096; 2048 for ud]
    #[arg(short = 's', long, value_name = "BYTES",
          value_parser = clap::value_parser!(u32).range(0..=1 << 31))]
    pub(crate) size: Option<u32>,

    /// Messages to send, as the server's -n.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) iterations: u64,

    /// Path MTU, as the server's -m: 256, 512, 1024, 2048 or 4096. [default: 1024; for ud, what the
    /// interface carries]
    #[arg(short = 'm', long = "mtu", value_name = "BYTES")]
    pub(crate) path_mtu: Option<u32>,

    /// Look at every byte that comes back; and send what passes the server's -c.
    #[arg(short = 'c', long)]
    pub(crate) check: bool,
}

const HELP: &str = "\
Example, and what to run at the server first:

  ibv_rc_pingpong -d mlx5_0 -g 3 -c
  roce-responder pingpong rc 192.0.2.2 --port af-xdp:eth1 --ip 192.0.2.1 -c

Both sides have to be given the same -s, -n and -m: they do not tell each other.";

/// Runs it, and prints what the programs print.
pub(crate) fn pingpong(args: &PingpongArgs) -> Result<()> {
    os::catch_signals().context("catching signals")?;
    let Stage { stack, mut host } = args.stage.set(NEXT_HOPS)?;
    let (size, path_mtu) = match args.transport {
        Transport::Rc | Transport::Uc => (4096, Some(DEFAULT_PATH_MTU.bytes())),
        Transport::Ud => (2048, None),
    };
    let size = args.size.unwrap_or(size);
    let path_mtu = args.stage.path_mtu(&stack, args.path_mtu.or(path_mtu)).context("-m")?;
    let at = resolve(&args.server, args.tcp_port)?;
    let local = match args.gid {
        Some(address) => address,
        None => {
            let route = host.route(at.ip().to_canonical())?;
            host.release_route(route);
            route.src
        }
    };

    let mut storage = HeapStorage::new(&LIMITS);
    let config = Config { max_path_mtu: path_mtu, ..Config::DEFAULT };
    let mut engine = Engine::new(config, storage.lend());
    let (Some(send), Some(recv)) = (engine.create_cq(CQES), engine.create_cq(CQES)) else {
        bail!("the engine has no room for its completion queues");
    };
    let queues = Queues { send, recv };
    let mut poll = PollLoop::new(engine, host, stack, queues, path_mtu);
    let options = Options {
        transport: args.transport,
        path_mtu,
        size,
        iterations: Some(args.iterations),
        check: args.check,
    };
    let mut client = Client::new(ID, options, local, &mut poll.context())?;
    let result = run(args, at, &mut client, &mut poll);
    client.close(&mut poll.context());
    let PollLoop { engine, mut stack, unresolved, .. } = poll;
    let counted = args.stage.strike(
        &mut stack,
        engine.counters(),
        None,
        unresolved,
        Sessions::own(result.is_ok()),
    );
    result.with_context(|| format!("{at}")).and(counted)
}

/// From the exchange over TCP to the last message.
fn run(
    args: &PingpongArgs,
    at: SocketAddr,
    client: &mut Client,
    poll: &mut PollLoop<'_>,
) -> Result<()> {
    let ours = client.address();
    println!("  local address:  {ours}");
    let server = exchange(at, &ours)?;
    println!("  remote address: {server}");
    let route = client.connect(&server, &mut poll.context())?;
    // What is sent to nobody is lost, and UC does not send it again.
    poll.wait_for_neighbour(route.next_hop, client)
        .with_context(|| format!("{}: no such neighbour", server.gid.address()))?;

    let started = poll.clock.now();
    client.start(&mut poll.context())?;
    while !client.is_done() {
        ensure!(!os::stop_requested(), "stopped after {} messages", client.answered());
        poll.turn(client, args.stage.spin)?;
    }
    let took_ns = poll.clock.now().ns_since(started).max(1);
    report(client.size(), args.iterations, Duration::from_nanos(took_ns));

    if args.transport == Transport::Rc {
        let end = poll.clock.now().add_ns(LINGER_NS);
        while poll.clock.now() < end && !os::stop_requested() {
            poll.turn(client, 0)?;
        }
    }
    Ok(())
}

/// The two lines that the programs end with.
#[expect(clippy::cast_precision_loss, reason = "two digits of it are printed")]
fn report(size: u32, iterations: u64, took: Duration) {
    let bytes = u128::from(size) * u128::from(iterations) * 2;
    let seconds = took.as_secs_f64();
    let (mbits, usec) = (bytes as f64 * 8.0 / 1e6 / seconds, seconds * 1e6 / iterations as f64);
    println!("{bytes} bytes in {seconds:.2} seconds = {mbits:.2} Mbit/sec");
    println!("{iterations} iters in {seconds:.2} seconds = {usec:.2} usec/iter");
}

/// The server's address, by name or number.
fn resolve(server: &str, port: u16) -> Result<SocketAddr> {
    let mut found =
        (server, port).to_socket_addrs().with_context(|| format!("{server}: no such host"))?;
    found.next().with_context(|| format!("{server}: it has no address"))
}

/// Tells the server our address, and returns its own.
fn exchange(at: SocketAddr, ours: &Address) -> Result<Address> {
    let mut stream = TcpStream::connect_timeout(&at, TCP_PATIENCE).map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::ConnectionRefused => {
                "nothing listens there; start ibv_rc_pingpong or one of its kin on it first (its \
                 port is -p)"
            }
            _ => "cannot connect there by TCP",
        };
        anyhow::Error::new(error).context(advice)
    })?;
    stream.set_read_timeout(Some(TCP_PATIENCE))?;
    stream.set_write_timeout(Some(TCP_PATIENCE))?;
    stream.set_nodelay(true)?;
    stream.write_all(&ours.emit()).context("it took no address over TCP")?;
    let mut answer = [0; Address::LEN];
    stream.read_exact(&mut answer).context(
        "it answered with no address of 52 bytes over TCP; is it such a program, and can its GID \
         (-g) reach ours?",
    )?;
    let theirs = Address::parse(&answer).context("what it answered over TCP is no address")?;
    stream.write_all(&DONE).context("it did not wait for the end over TCP")?;
    Ok(theirs)
}

impl User for Client {
    fn handle_completion(&mut self, wc: &Wc, context: &mut Context<'_, '_, Host>) -> Result<()> {
        Ok(self.handle_completion(wc, context)?)
    }

    fn handle_event(&mut self, event: &Event, _: &mut Context<'_, '_, Host>) -> Result<()> {
        Ok(self.handle_event(event)?)
    }

    fn poll(&mut self, context: &mut Context<'_, '_, Host>) -> Result<bool> {
        let due = Client::poll_timeout(self).is_some_and(|due| due <= context.now);
        if due {
            self.handle_timeout(context)?;
        }
        Ok(due)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Client::poll_timeout(self)
    }
}
