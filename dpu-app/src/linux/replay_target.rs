//! `roce-responder replay-target`: the other end of `roce-pcap replay --port`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use clap::Args;
use roce_codec::ib::{PathMtu, Qpn, RKey, RnrTimer, Service};
use roce_engine::{
    Access, Addr, Config, Engine, Event, HeapStorage, Instant, Limits, ModifyQp, MrAttr, Path, Pd,
    QpInit, RecvWr, RtrAttr, Sge, Wc, WcStatus,
};
use roce_pcap::capture::Reader;
use roce_pcap::replay::{DEFAULT_LIMIT, Plan, Recording, Region, Replay, StreamPlan};

use super::os;
use super::platform::Host;
use super::poll_loop::{PollLoop, User};
use super::stage::{Stage, StageArgs};
use super::stats::Sessions;
use crate::service::{Context, Platform, Queues, Route};

/// Receives of each queue pair, all of the same bytes, posted again as they complete.
const RECEIVES: u32 = 256;
/// Bytes of one: more than any message of a capture that is looked at by hand.
const RECEIVE_LEN: u32 = 16 << 20;
/// Bytes of memory regions in all; a capture may name any.
const MOST_MEMORY: u64 = 1 << 30;
/// READs and atomics kept by a queue pair.
const RESOURCES: usize = 128;
const HOP_LIMIT: u8 = 64;
const NEXT_HOPS: u16 = 4;

/// Stand in for the responder of a capture: with the queue pairs and memory regions that it shows,
/// answer `roce-pcap replay --port` until Ctrl-C. The options to call that with are printed.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct ReplayTargetArgs {
    /// The capture that is to be replayed.
    pub(crate) file: PathBuf,

    /// The address that requests come from: the replaying interface's.
    #[arg(long, value_name = "ADDR")]
    pub(crate) peer: IpAddr,

    /// The captured host whose requests are replayed, as `roce-pcap replay --from`. The first
    /// requester's unless given.
    #[arg(long, value_name = "ADDR")]
    pub(crate) from: Option<IpAddr>,

    /// The network.
    #[command(flatten)]
    pub(crate) stage: StageArgs,
}

const HELP: &str = "\
PSNs and virtual addresses are the capture's; queue pairs and R_Keys are this program's own. Memory
begins as zeros, there is always a receive, and no key is ever taken away: what the captured
responder refused for these reasons is carried out here. RC alone is answered.

Example, and what to run at the other end, with the options that this prints:

  roce-responder replay-target trace.pcapng --port packet:eth1 --ip 192.0.2.7 --peer 192.0.2.1
  roce-pcap replay trace.pcapng --port packet:eth1 --speed max --from ...";

/// Runs it.
pub(crate) fn replay_target(args: &ReplayTargetArgs) -> Result<()> {
    let plan = plan(args)?;
    let streams = streams_of(&plan, args.from)?;
    let Some(first) = streams.first() else { bail!("{}: no RC requests", args.file.display()) };
    let regions = regions_of(&plan, first.responder)?;
    os::catch_signals().context("catching signals")?;
    let Stage { stack, mut host } = args.stage.set(NEXT_HOPS)?;
    let most = streams.iter().map(|stream| stream.mtu).max().unwrap_or(PathMtu::Mtu256);
    let path_mtu = args.stage.path_mtu(&stack, Some(most.bytes()))?;
    let route = host.route(args.peer)?;

    let mut storage = HeapStorage::new(&Limits {
        qps: streams.len(),
        replays_per_qp: RESOURCES,
        mrs: regions.len() + 1,
        cqs: 2,
        cqes: streams.len() * usize::try_from(RECEIVES)? + 16,
        recv_wqes: streams.len() * usize::try_from(RECEIVES)?,
        ..Limits::SMALL
    });
    let config = Config { max_path_mtu: path_mtu, ..Config::DEFAULT };
    let mut engine = Engine::new(config, storage.lend());
    let receives = u32::try_from(streams.len())?.saturating_mul(RECEIVES);
    let (Some(send), Some(recv)) = (engine.create_cq(16), engine.create_cq(receives)) else {
        bail!("the engine has no room for its completion queues");
    };
    let mut poll = PollLoop::new(engine, host, stack, Queues { send, recv }, path_mtu);
    let pd = poll.engine.alloc_pd();
    let mut options = vec![
        format!("--from {}", first.requester),
        format!("--map {}={}", first.requester, args.peer),
        format!("--map {}={}", first.responder, route.src),
    ];
    for (rkey, region) in &regions {
        let access = region.access | Access::LOCAL_WRITE;
        let (own, _) = register(pd, region.va, region.len, access, &mut poll)?;
        options.push(format!("--rkey {rkey:#x}={:#x}", own.0));
    }
    let access = Access::LOCAL_WRITE;
    let (_, receive) = register(pd, 0, RECEIVE_LEN.into(), access, &mut poll)?;
    for stream in &streams {
        let qpn = serve(stream, pd, route, args.peer, receive, &mut poll)?;
        options.push(format!("--qpn {:#x}={:#x}", stream.qpn.get(), qpn.get()));
    }
    let mut receives = Receives(receive);
    // Answers to nobody are lost, and the capture's requester would not ask again.
    poll.wait_for_neighbour(route.next_hop, &mut receives)
        .with_context(|| format!("--peer {}", args.peer))?;
    println!("{}", options.join(" "));
    let mut result = Ok(());
    while result.is_ok() && !os::stop_requested() {
        result = poll.turn(&mut receives, args.stage.spin);
    }
    poll.host.release_route(route);
    let PollLoop { engine, mut stack, unresolved, .. } = poll;
    let counters = engine.counters();
    result.and(args.stage.strike(&mut stack, counters, None, unresolved, Sessions::default()))
}

/// What the capture says of its responders.
fn plan(args: &ReplayTargetArgs) -> Result<Plan> {
    let name = || args.file.display().to_string();
    let mut reader = Reader::open(&args.file).with_context(name)?;
    let mut recording = Recording::new(DEFAULT_LIMIT);
    while let Some(packet) = reader.next_packet() {
        recording.push(&packet.with_context(name)?);
    }
    ensure!(!recording.is_full(), "{}: more than {DEFAULT_LIMIT} bytes", name());
    Ok(Replay::new(recording, None).plan())
}

/// The RC streams of one requester, which must all go to one host and each to another queue pair.
fn streams_of(plan: &Plan, from: Option<IpAddr>) -> Result<Vec<&StreamPlan>> {
    let from = from.or(plan.streams.first().map(|stream| stream.requester));
    let is_ours = |stream: &&StreamPlan| {
        Some(stream.requester) == from && stream.service == Service::Rc && stream.peer.is_some()
    };
    let streams: Vec<_> = plan.streams.iter().filter(is_ours).collect();
    let mut qpns = BTreeMap::new();
    for stream in &streams {
        ensure!(
            stream.responder == streams[0].responder,
            "its requests go to {} and {}; cut one out: roce-pcap rewrite --where",
            streams[0].responder,
            stream.responder
        );
        ensure!(
            qpns.insert(stream.qpn.get(), ()).is_none(),
            "queue pair {:#x} serves several connections; cut one out: roce-pcap rewrite --from --to",
            stream.qpn.get()
        );
    }
    Ok(streams)
}

/// The regions of a host by their keys. A key that came back names all that it ever did.
fn regions_of(plan: &Plan, host: IpAddr) -> Result<BTreeMap<u32, Region>> {
    let mut regions: BTreeMap<u32, Region> = BTreeMap::new();
    for (_, rkey, region) in plan.regions.iter().filter(|(of, _, _)| *of == host) {
        let known = regions.entry(rkey.0).or_insert(*region);
        let end = (known.va.saturating_add(known.len)).max(region.va.saturating_add(region.len));
        known.va = known.va.min(region.va);
        known.len = end - known.va;
        known.access = known.access | region.access;
    }
    let total = regions.values().fold(0, |sum: u64, region| sum.saturating_add(region.len));
    ensure!(total <= MOST_MEMORY, "its memory regions have {total} bytes, above {MOST_MEMORY}");
    Ok(regions)
}

/// A region of memory of our own under a virtual address of the capture.
fn register(
    pd: Pd,
    va: u64,
    len: u64,
    access: Access,
    poll: &mut PollLoop<'_>,
) -> Result<(RKey, Sge)> {
    let len = len.max(1);
    let region = poll.host.memory.map(usize::try_from(len)?).context("memory")?;
    let attr = MrAttr { pd, va, len, access, backing: Addr { region, offset: 0 } };
    let mr = poll
        .engine
        .register_mr(&attr, poll.host.random())
        .map_err(|error| anyhow!("a memory region of {len} bytes at {va:#x}: {error}"))?;
    Ok((mr.rkey, Sge { va, len: u32::try_from(len).unwrap_or(u32::MAX), lkey: mr.lkey }))
}

/// A queue pair for a stream.
fn serve(
    stream: &StreamPlan,
    pd: Pd,
    route: Route,
    peer: IpAddr,
    receive: Sge,
    poll: &mut PollLoop<'_>,
) -> Result<Qpn> {
    let Queues { send, recv } = poll.queues;
    let init = QpInit { max_recv_wr: RECEIVES, ..QpInit::new(Service::Rc, pd, send, recv) };
    let failed = |error: &dyn std::fmt::Display| anyhow!("queue pair {:?}: {error}", stream.qpn);
    let random = poll.host.random();
    let qpn = poll.engine.create_qp(&init, random).map_err(|error| failed(&error))?;
    let path = Path {
        src: route.src,
        dst: peer,
        next_hop: route.next_hop,
        src_port: 0xc000,
        hop_limit: HOP_LIMIT,
        ..Path::EMPTY
    };
    let rtr = RtrAttr {
        path,
        path_mtu: stream.mtu,
        dest_qpn: stream.peer.unwrap_or_default(),
        rq_psn: stream.first_psn,
        max_dest_rd_atomic: stream.resources.min(poll.engine.max_dest_rd_atomic()),
        min_rnr_timer: stream.rnr_timer.unwrap_or(RnrTimer::new(12)),
    };
    let init = ModifyQp::Init { pkey: stream.pkey, access: stream.access };
    for change in [init, ModifyQp::Rtr(rtr)] {
        poll.engine.modify_qp(qpn, &change).map_err(|error| failed(&error))?;
    }
    for _ in 0..RECEIVES {
        let posted = poll.engine.post_recv(qpn, &RecvWr::new(0, &[receive]));
        posted.map_err(|error| failed(&error))?;
    }
    Ok(qpn)
}

/// Where messages go.
struct Receives(Sge);

impl User for Receives {
    fn handle_completion(&mut self, wc: &Wc, context: &mut Context<'_, '_, Host>) -> Result<()> {
        // A queue pair in error needs none.
        if wc.status == WcStatus::Success {
            let _ = context.engine.post_recv(wc.qp, &RecvWr::new(0, &[self.0]));
        }
        Ok(())
    }

    fn handle_event(&mut self, _: &Event, _: &mut Context<'_, '_, Host>) -> Result<()> {
        Ok(())
    }

    fn poll(&mut self, _: &mut Context<'_, '_, Host>) -> Result<bool> {
        Ok(false)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}
