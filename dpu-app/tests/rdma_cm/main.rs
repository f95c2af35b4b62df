//! Services of the connection manager, from either side's MADs on queue pair 1 to the last message,
//! over a wire in memory.

#![cfg(feature = "std")]

mod perftest;
mod rping;
#[path = "../support/mod.rs"]
mod support;
mod ucmatose;
mod udaddy;

use std::time::Duration;

use dpu_app::service::Context;
use dpu_app::service::cm::{AnySession, CmService, CmServiceError, End, Gsi, GsiCounters};
use roce_codec::ib::PathMtu;
use roce_dataplane::port::fault::FaultPort;
use roce_dataplane::port::loopback::{LoopbackPort, LoopbackWire};
use roce_engine::cm::HeapCmStorage;
use roce_engine::{HeapStorage, Limits};
use support::host::Host;
use support::side::{CmSide, LIMITS, MACS, Side, host, losing, slots, until};
use support::{CLIENT, SERVER};

const PATIENCE: Duration = Duration::from_secs(60);
/// What an engine keeps without a session: queue pair 1 its memory, and the way to whom it talked to
/// last.
const LEFT: (i32, i32) = (1, 1);

/// The client's side; its port loses frames.
type Near<'s> = CmSide<'s, FaultPort<LoopbackPort<'s, 32>>>;
/// The server's.
type Far<'s> = CmSide<'s, LoopbackPort<'s, 32>>;

/// What `act` does with two sides that a wire joins.
fn pair<T>(drop: f64, act: impl FnOnce(&mut Near<'_>, &mut Far<'_>) -> T) -> T {
    pair_with(&LIMITS, drop, act)
}

/// The same with these limits at the server's side.
fn pair_with<T>(
    limits: &Limits,
    drop: f64,
    act: impl FnOnce(&mut Near<'_>, &mut Far<'_>) -> T,
) -> T {
    let mut wire = Box::new(LoopbackWire::<32>::new());
    let [near, far] = wire.ends(MACS);
    let mut storage = [HeapStorage::new(&LIMITS), HeapStorage::new(limits)];
    let mut cm = [HeapCmStorage::new(8, 4, 8), HeapCmStorage::new(8, 4, 8)];
    let mut sessions = [slots(4), slots(4)];
    let ([a, b], [c, d], [e, f]) = (&mut storage, &mut cm, &mut sessions);
    let near = FaultPort::new(near, &losing(drop, 5));
    let here = Side::new(a, near, host(CLIENT), PathMtu::Mtu1024);
    let there = Side::new(b, far, host(SERVER), PathMtu::Mtu1024);
    act(&mut CmSide::new(here, c, e), &mut CmSide::new(there, d, f))
}

/// A session at the side of who asks.
fn connect(
    here: &mut Near<'_>,
    client: impl FnOnce(
        u32,
        &mut Gsi<'_>,
        &mut Context<'_, '_, Host>,
    ) -> Result<AnySession, CmServiceError>,
) -> Result<(), CmServiceError> {
    let (cm, mut context) = here.parts();
    let number = cm.number();
    let client = client(number, cm.gsi(), &mut context)?;
    cm.add(number, client, &mut context)
}

/// Runs until the sessions of both sides are over and the last MADs have gone; how they ended, and
/// what came to the server's queue pair 1. Nothing may be left.
fn finish(here: &mut Near<'_>, there: &mut Far<'_>) -> ([Option<End>; 2], GsiCounters) {
    until(here, there, PATIENCE, |here, there| here.cm.is_empty() && there.cm.is_empty());
    let end = here.side.now.add_ns(100_000_000);
    until(here, there, PATIENCE, |here, _| here.side.now >= end);
    for host in [&here.side.host, &there.side.host] {
        assert_eq!(host.regions, LEFT.0, "something is left");
        assert!(host.routes <= LEFT.1, "something is left");
    }
    for counters in [here.side.engine.counters(), there.side.engine.counters()] {
        assert_eq!(counters.received, counters.acted_on + counters.dropped_total());
    }
    for seen in [*here.cm.gsi().counters(), *there.cm.gsi().counters()] {
        assert_eq!((seen.misaddressed, seen.no_route), (0, 0));
    }
    let ends = [here.cm.poll_end(), there.cm.poll_end()];
    assert_eq!([here.cm.poll_end(), there.cm.poll_end()], [None, None], "one session a side");
    (ends, *there.cm.gsi().counters())
}

/// A client of a service, from its first MAD to its end.
fn run(
    service: CmService,
    drop: f64,
    client: impl FnOnce(
        u32,
        &mut Gsi<'_>,
        &mut Context<'_, '_, Host>,
    ) -> Result<AnySession, CmServiceError>,
) -> [Option<End>; 2] {
    pair(drop, |here, there| {
        there.cm.serve(service).unwrap();
        connect(here, client).unwrap();
        finish(here, there).0
    })
}
