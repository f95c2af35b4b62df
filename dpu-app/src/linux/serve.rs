//! `roce-responder serve`: sets the stage and runs the poll loop.

use anyhow::{Context as _, Result};
use roce_dataplane::poll::turn;
use roce_dataplane::port::Port;
use roce_engine::cm::HeapCmStorage;
use roce_engine::{Config, Engine, HeapStorage, Limits, Rate, Recovery};

use super::cli::ServeArgs;
use super::clock::Clock;
use super::dump::MemoryDump;
use super::log::say;
use super::os;
use super::served::Served;
use super::server::Server;
use super::stage::Stage;
use super::wire::Stack;
use crate::service::cm::SessionSlot;

/// Queue pairs of perftest's tests and of pingpong.
const QPS: usize = 256;
/// Room for these, each with perftest's 16 sends and 512 receives; for queue pair 1 with its 32 and 64;
/// and for a connection of each session of the connection manager's, with 512 either way, which is
/// `ucmatose`'s most and more than perftest's exchange takes.
const LIMITS: Limits = Limits {
    qps: QPS + 1 + CM_SESSIONS,
    replays_per_qp: 128,
    mrs: 1024,
    cqs: 2,
    cqes: 256 * 512 + 4096,
    send_wqes: QPS * 16 + 32 + CM_SESSIONS * 512,
    recv_wqes: QPS * 512 + 64 + CM_SESSIONS * 512,
    ahs: 256,
    events: 4096,
    ..Limits::SMALL
};
const CQES: u32 = 256 * 512;
/// Packets held behind gaps, and by one queue pair: what rxe may have in flight.
const HELD: usize = 4096;
const HELD_PER_QP: u32 = 512;
/// Connections of the connection manager's, those that have ended a while ago included; services;
/// answers that wait to be sent.
const CM_CONNECTIONS: usize = 1024;
const CM_LISTENERS: usize = 64;
const CM_ANSWERS: usize = 64;
/// Clients by the connection manager at a time.
const CM_SESSIONS: usize = 64;
/// Peers at a time.
const NEXT_HOPS: u16 = 256;

/// How often TCP is looked at while frames come, and how long to wait for frames before it is.
const TCP_BUSY_NS: u64 = 500_000;
const TCP_SESSION_NS: u64 = 1_000_000;
/// The same while there is no client.
const TCP_IDLE_NS: u64 = 20_000_000;

/// How long peers may take, in the end, to answer that they are disconnected.
const FAREWELL_NS: u64 = 300_000_000;

/// Serves until Ctrl-C, or as many clients as asked for.
pub(crate) fn serve(args: &ServeArgs) -> Result<()> {
    os::catch_signals().context("catching signals")?;
    let Stage { mut stack, mut host } = args.stage.set(NEXT_HOPS)?;
    let path_mtu = args.stage.path_mtu(&stack, args.path_mtu)?;
    host.dump = args.dump_memory.as_deref().map(MemoryDump::create).transpose()?;

    let recovery = args.recovery.recovery();
    let held = if recovery == Recovery::SelectiveAccept { HELD } else { 0 };
    let mut cm_storage = HeapCmStorage::new(CM_CONNECTIONS, CM_LISTENERS, CM_ANSWERS);
    let mut cm_sessions: Vec<SessionSlot> =
        std::iter::repeat_with(|| None).take(CM_SESSIONS).collect();
    let mut storage = HeapStorage::new(&LIMITS).with_held(held, path_mtu);
    let config = Config {
        max_path_mtu: path_mtu,
        recovery,
        held_per_qp: HELD_PER_QP,
        read_rate: args.read_rate.unwrap_or(Rate::UNLIMITED),
        ..Config::DEFAULT
    };
    let engine = Engine::new(config, storage.lend());
    let mut server = Server::new(engine, host, path_mtu, args.region_size, CQES)?;
    let mut cm = Vec::new();
    for service in &args.services {
        match service {
            Served::Tcp(service) => {
                server.listen(*service, args.listen)?;
                cm.extend(service.by_cm(args.region_size));
            }
            Served::Cm(service) => cm.push(*service),
        }
    }
    if !cm.is_empty() {
        server.serve_cm(&cm, cm_storage.lend(), &mut cm_sessions)?;
    }
    for service in &args.services {
        say(format_args!("{service}: ready"));
    }

    let unresolved = run(args, &mut server, &mut stack);
    let gsi = server.gsi_counters();
    args.stage.strike(&mut stack, server.engine.counters(), gsi, unresolved, server.sessions)
}

/// The poll loop; says how many packets were not sent for want of a neighbour.
fn run(args: &ServeArgs, server: &mut Server<'_>, stack: &mut Stack) -> u64 {
    let clock = Clock::start();
    let spin_ns = args.stage.spin.saturating_mul(1000);
    let last_client = if args.once { Some(1) } else { args.sessions };
    let mut unresolved = 0;
    let mut busy_until = clock.now();
    let mut tcp_due = clock.now();
    while !os::stop_requested() && last_client.is_none_or(|last| server.sessions.served < last) {
        let now = clock.now();
        let Server { engine, host, .. } = server;
        let turn = turn(engine, stack, &host.memory, &host.neighbours, now);
        unresolved += u64::try_from(turn.unresolved).unwrap_or(0);
        let mut worked = turn.more || turn.received + turn.sent + turn.unresolved > 0;
        worked |= server.poll_engine(now);
        if now >= tcp_due {
            worked |= server.poll_tcp(now);
            server.host.neighbours.poll();
            tcp_due = now.add_ns(TCP_BUSY_NS);
        }
        if worked {
            busy_until = now.add_ns(spin_ns);
        } else if now >= busy_until {
            let most = if server.is_busy() { TCP_SESSION_NS } else { TCP_IDLE_NS };
            let until = server.poll_timeout().map_or(most, |due| due.ns_since(now));
            stack.wait(until.min(most));
        }
    }
    server.end_all(clock.now());
    // What ends connections goes out, and is answered if the peer is still there.
    let give_up = clock.now().add_ns(FAREWELL_NS);
    loop {
        let now = clock.now();
        let Server { engine, host, .. } = server;
        let turn = turn(engine, stack, &host.memory, &host.neighbours, now);
        unresolved += u64::try_from(turn.unresolved).unwrap_or(0);
        server.poll_engine(now);
        if !server.is_disconnecting() || now >= give_up {
            return unresolved;
        }
        stack.wait(TCP_SESSION_NS);
    }
}
