//! A client of the connection manager's services, from its connection to its end.

use std::net::IpAddr;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use roce_engine::cm::HeapCmStorage;
use roce_engine::{Config, Engine, Event, HeapStorage, Instant, Limits, Wc};

use super::os;
use super::platform::Host;
use super::poll_loop::{PollLoop, User};
use super::stage::{Stage, StageArgs};
use super::stats::Sessions;
use crate::service::cm::{AnySession, CmServiceError, CmServices, End, Gsi};
use crate::service::{Context, Platform, Queues};

/// The connection's queue pair and queue pair 1.
const LIMITS: Limits = Limits { qps: 2, replays_per_qp: 4, mrs: 8, cqs: 2, ..Limits::SMALL };
const CQES: u32 = 2048;
/// The server's, for the connection and for its messages.
const NEXT_HOPS: u16 = 4;
/// How long the server may take, in the end, to answer that it is disconnected.
const FAREWELL_NS: u64 = 300_000_000;

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
    let mut poll = PollLoop::new(engine, host, stack, queues, path_mtu);
    let gsi = Gsi::new(cm_storage.lend(), &mut poll.context())?;
    let mut session = [const { None }; 1];
    let mut cm = CmServices::new(gsi, &mut session);
    poll.wait_for_neighbour(route.next_hop, &mut cm)
        .with_context(|| format!("{server}: no such neighbour"))?;
    let result = run(stage.spin, connect, &mut cm, &mut poll);
    cm.end_all(&mut poll.context());
    // What ends the connection goes out, and is answered if the server is still there.
    let give_up = poll.clock.now().add_ns(FAREWELL_NS);
    poll.turn(&mut cm, 0)?;
    while cm.is_disconnecting() && poll.clock.now() < give_up {
        poll.turn(&mut cm, 0)?;
    }
    poll.host.release_route(route);
    let PollLoop { engine, mut stack, unresolved, .. } = poll;
    let counted = stage.strike(
        &mut stack,
        engine.counters(),
        Some(cm.counters()),
        unresolved,
        Sessions::own(result.is_ok()),
    );
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
    let src_port = poll.host.any_port();
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
        poll.turn(cm, spin_us)?;
    }
}

impl User for CmServices<'_> {
    fn handle_completion(&mut self, wc: &Wc, context: &mut Context<'_, '_, Host>) -> Result<()> {
        self.handle_completion(wc, context);
        Ok(())
    }

    fn handle_event(&mut self, event: &Event, context: &mut Context<'_, '_, Host>) -> Result<()> {
        self.handle_event(event, context);
        Ok(())
    }

    fn poll(&mut self, context: &mut Context<'_, '_, Host>) -> Result<bool> {
        Ok(self.poll(context))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        CmServices::poll_timeout(self)
    }
}
