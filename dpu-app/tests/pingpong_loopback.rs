//! Either side of pingpong against the other, over a wire in memory, with TCP as function calls.

#![cfg(feature = "std")]

mod support;

use std::time::{Duration, Instant as WallClock};

use dpu_app::service::memory::read;
use dpu_app::service::pingpong::{
    Address, Client, DONE, Options, Session, SessionError, Transport,
};
use dpu_app::service::{Gid, Progress, Reply, session_of};
use roce_codec::ib::{PKey, PathMtu, Psn, RnrTimer};
use roce_dataplane::port::Port;
use roce_dataplane::port::fault::FaultPort;
use roce_dataplane::port::loopback::LoopbackWire;
use roce_engine::{
    Access, Addr, Backing, HeapStorage, Instant, ModifyQp, MrAttr, NextHop, Path, QpInit, RtrAttr,
    RtsAttr, SendWr, Sge, WrOpcode,
};
use support::side::{LIMITS, MACS, Side, host, losing};
use support::{CLIENT, SERVER};

const PATIENCE: Duration = Duration::from_secs(20);
const SERVER_ID: u32 = 5;
const CLIENT_ID: u32 = 6;

fn pump_server<P: Port>(side: &mut Side<'_, P>, session: &mut Session) -> Result<(), SessionError> {
    while let Some(wc) = side.poll_cq() {
        assert_eq!(session_of(wc.wr_id), SERVER_ID);
        session.handle_completion(&wc, &mut side.context())?;
    }
    while let Some(event) = side.poll_event() {
        session.handle_event(&event)?;
    }
    if session.poll_timeout().is_some_and(|due| due <= side.now) {
        session.handle_timeout(&side.context());
    }
    Ok(())
}

fn pump_client<P: Port>(side: &mut Side<'_, P>, client: &mut Client) -> Result<(), SessionError> {
    while let Some(wc) = side.poll_cq() {
        assert_eq!(session_of(wc.wr_id), CLIENT_ID);
        client.handle_completion(&wc, &mut side.context())?;
    }
    while let Some(event) = side.poll_event() {
        client.handle_event(&event)?;
    }
    if client.poll_timeout().is_some_and(|due| due <= side.now) {
        client.handle_timeout(&side.context())?;
    }
    Ok(())
}

fn options(transport: Transport, size: u32) -> Options {
    let iterations = Some(30);
    Options { transport, path_mtu: PathMtu::Mtu1024, size, iterations, check: true }
}

/// A whole run; says how it ended at either side, and whether the server noticed the end.
fn run(theirs: Options, ours: Options, drop: f64) -> [Result<(), SessionError>; 2] {
    let mut wire = Box::new(LoopbackWire::<32>::new());
    let [near, far] = wire.ends(MACS);
    let mut storage = [HeapStorage::new(&LIMITS), HeapStorage::new(&LIMITS)];
    let [a, b] = &mut storage;
    let mut here =
        Side::new(a, FaultPort::new(near, &losing(drop, 11)), host(CLIENT), PathMtu::Mtu4096);
    let mut there = Side::new(b, far, host(SERVER), PathMtu::Mtu4096);

    let mut client = Client::new(CLIENT_ID, ours, CLIENT, &mut here.context()).unwrap();
    let mut session = Session::new(SERVER_ID, theirs);
    assert_eq!(session.next_len(), Address::LEN);
    assert!(!session.may_end());
    let mut reply = Reply::new();
    let said = client.address().emit();
    let progress = session.handle_message(&said, &mut reply, &mut there.context());
    assert_eq!(progress, Ok(Progress::Started));
    assert!(session.may_end() && session.is_running());
    let answer = Address::parse(reply.first_chunk().unwrap()).unwrap();
    assert_eq!(answer.gid.address(), SERVER);
    assert!(session.owns(answer.qpn));
    client.connect(&answer, &mut here.context()).unwrap();
    assert_eq!(session.next_len(), DONE.len());
    session.handle_message(&DONE, &mut reply, &mut there.context()).unwrap();
    assert_eq!(session.next_len(), 0);
    client.start(&mut here.context()).unwrap();

    let (started, mut skipped) = (WallClock::now(), 0);
    let mut ends = [Ok(()), Ok(())];
    while !client.is_done() && ends == [Ok(()), Ok(())] {
        let now = Instant(u64::try_from(started.elapsed().as_nanos()).unwrap() + skipped);
        assert!(started.elapsed() < PATIENCE, "{} came back", client.answered());
        // A timer that nothing but time can meet is met at once.
        if here.engine.poll_timeout().is_some() || ours.transport != Transport::Rc {
            skipped += 100_000;
        }
        let _ = here.turn(now);
        let _ = there.turn(now);
        ends = [pump_client(&mut here, &mut client), pump_server(&mut there, &mut session)];
    }
    if ends == [Ok(()), Ok(())] {
        assert_eq!(client.answered(), 30);
        assert_eq!(session.messages(), 30);
        let regions: Vec<_> = session.regions().collect();
        assert_eq!((regions.len(), regions[0].receives), (1, 4));
        // The server's end comes when the client has been silent: soon, if it has had all.
        let wait_s = if theirs.iterations == Some(30) { 1 } else { 10 };
        let silent = there.now.add_ns(wait_s * 1_000_000_000);
        assert!(session.poll_timeout().unwrap() <= silent);
        session.handle_timeout(&there.context());
        assert!(!session.is_over());
        there.now = silent;
        session.handle_timeout(&there.context());
        assert!(session.is_over());
    }
    client.close(&mut here.context());
    session.close(&mut there.context());
    for side in [&here.host, &there.host] {
        assert_eq!((side.regions, side.routes), (0, 0), "something is left");
    }
    ends
}

#[test]
fn every_size_there_and_back() {
    for transport in Transport::ALL {
        for size in [0, 1, 1023, 1024, 1025, 4096, 4097, 70_001] {
            let ours = options(transport, size);
            if transport == Transport::Ud && size > 1024 {
                continue;
            }
            let theirs = Options { size: 1 << 17, iterations: None, ..ours };
            assert_eq!(run(theirs, ours, 0.0), [Ok(()), Ok(())], "{transport} {size}");
        }
    }
}

#[test]
fn losses_are_made_good_where_the_transport_does_so() {
    let ours = options(Transport::Rc, 5000);
    assert_eq!(run(ours, ours, 0.05), [Ok(()), Ok(())]);

    for ours in [options(Transport::Uc, 5000), options(Transport::Ud, 1000)] {
        let [client, server] = run(ours, ours, 0.2);
        assert!(matches!(client, Err(SessionError::NoAnswer { .. })), "{client:?}");
        assert_eq!(server, Ok(()));
    }
}

#[test]
fn a_datagram_is_one_packet() {
    let mut wire = Box::new(LoopbackWire::<1>::new());
    let [near, _] = wire.ends(MACS);
    let mut storage = HeapStorage::new(&LIMITS);
    let mut side = Side::new(&mut storage, near, host(CLIENT), PathMtu::Mtu4096);
    let (size, most) = (1025, PathMtu::Mtu1024);
    let client = Client::new(CLIENT_ID, options(Transport::Ud, size), CLIENT, &mut side.context());
    assert_eq!(client.err(), Some(SessionError::Datagram { size, most }));
    assert_eq!(side.host.regions, 0);
}

/// What both sides have to agree on and do not tell each other.
#[test]
fn disagreements_are_told() {
    // The client's packets are longer than the server's path MTU.
    let ours = Options { path_mtu: PathMtu::Mtu2048, ..options(Transport::Rc, 3000) };
    let [client, server] = run(options(Transport::Rc, 4096), ours, 0.0);
    assert!(client.is_err() || server.is_err(), "{client:?} {server:?}");
    // Its messages are longer than what the server has room for.
    let ours = options(Transport::Rc, 3000);
    let [client, server] = run(options(Transport::Rc, 2000), ours, 0.0);
    assert!(client.is_err() || server.is_err(), "{client:?} {server:?}");
}

#[test]
fn nonsense_over_tcp() {
    let mut wire = Box::new(LoopbackWire::<1>::new());
    let [_, far] = wire.ends(MACS);
    let mut storage = HeapStorage::new(&LIMITS);
    let mut side = Side::new(&mut storage, far, host(SERVER), PathMtu::Mtu4096);
    let mut reply = Reply::new();
    let mut say = |text: &[u8]| {
        let mut session = Session::new(SERVER_ID, options(Transport::Rc, 4096));
        let said = session.handle_message(text, &mut reply, &mut side.context());
        session.close(&mut side.context());
        assert_eq!((side.host.regions, side.host.routes), (0, 0), "something is left");
        said.unwrap_err()
    };
    assert_eq!(say(&[b'x'; 52]), SessionError::Address);
    assert_eq!(say(b"0000"), SessionError::Address);
    let no_gid = b"0000:000011:7d6a2b:00000000000000000000000000000000\0";
    let error = say(no_gid);
    assert_eq!(error, SessionError::NoGid);
    assert!(error.to_string().contains("-g"), "{error}");
    let other = b"0000:000011:7d6a2b:fd780001000000000000000000000002\0";
    let error = say(other);
    assert!(matches!(error, SessionError::Route(_)), "{error}");
    assert!(error.to_string().contains("fd78:1::2"), "{error}");
}

/// A client that does not set the first byte of each page, at a server that looks at it.
#[test]
fn a_page_that_begins_with_something_else() {
    let mut wire = Box::new(LoopbackWire::<32>::new());
    let [near, far] = wire.ends(MACS);
    let mut storage = [HeapStorage::new(&LIMITS), HeapStorage::new(&LIMITS)];
    let [a, b] = &mut storage;
    let mut here = Side::new(a, near, host(CLIENT), PathMtu::Mtu4096);
    let mut there = Side::new(b, far, host(SERVER), PathMtu::Mtu4096);
    let mut session = Session::new(SERVER_ID, options(Transport::Rc, 1 << 14));

    // By hand: a queue pair, and a message of three pages whose last begins with 0x7b.
    let pd = here.engine.alloc_pd();
    let region = here.host.memory.map(3 * 4096).unwrap();
    let va = here.host.memory.va(region).unwrap();
    let backing = Addr { region, offset: 0 };
    here.host.memory.write(Addr { region, offset: 2 * 4096 }, [&[0x7b], &[]]).unwrap();
    let attr = MrAttr { pd, va, len: 3 * 4096, access: Access::NONE, backing };
    let mr = here.engine.register_mr(&attr, &mut here.host.random).unwrap();
    let service = Transport::Rc.service();
    let init = QpInit::new(service, pd, here.queues.send, here.queues.recv);
    let qpn = here.engine.create_qp(&init, &mut here.host.random).unwrap();
    let psn = Psn::new(77);
    let address = Address { lid: 0, qpn, psn, gid: Gid::from(CLIENT) };
    let mut reply = Reply::new();
    session.handle_message(&address.emit(), &mut reply, &mut there.context()).unwrap();
    let server = Address::parse(reply.first_chunk().unwrap()).unwrap();
    let path = Path {
        src: CLIENT,
        dst: SERVER,
        next_hop: NextHop(0),
        src_port: 0xc000,
        traffic_class: 0,
        flow_label: 0,
        hop_limit: 64,
    };
    let rtr = RtrAttr {
        path,
        path_mtu: PathMtu::Mtu1024,
        dest_qpn: server.qpn,
        rq_psn: server.psn,
        max_dest_rd_atomic: 0,
        min_rnr_timer: RnrTimer::new(12),
    };
    let rts = RtsAttr { sq_psn: psn, timeout: 14, retry_cnt: 7, rnr_retry: 7, max_rd_atomic: 0 };
    let init = ModifyQp::Init { pkey: PKey::DEFAULT, access: Access::NONE };
    for change in [init, ModifyQp::Rtr(rtr), ModifyQp::Rts(rts)] {
        here.engine.modify_qp(qpn, &change).unwrap();
    }
    let sges = [Sge { va, len: 3 * 4096, lkey: mr.lkey }];
    here.engine.post_send(qpn, &SendWr::new(1, WrOpcode::Send, &sges)).unwrap();

    let end = (1..1000).find_map(|tick| {
        let _ = here.turn(Instant(tick * 10_000));
        let _ = there.turn(Instant(tick * 10_000));
        pump_server(&mut there, &mut session).err()
    });
    let wanted = SessionError::Byte { message: 0, offset: 8192, found: 0x7b, expected: 0 };
    assert_eq!(end, Some(wanted));
    let region = session.regions().next().unwrap().exposed.region;
    let mut byte = [0];
    assert!(read(&there.host.memory, Addr { offset: 8192, ..region.addr }, &mut byte));
    assert_eq!(byte, [0x7b]);
    session.close(&mut there.context());
}
