//! The honest client: an engine of ours with a queue pair for each of four services.

use std::path::Path;
use std::time::Instant as Clock;

use roce_codec::ib::{PKey, Psn, Qpn, RnrTimer};
use roce_codec::net::{MacAddr, VlanStack};
use roce_codec::{Crc, Start};
use roce_dataplane::host_memory::HostMemory;
use roce_dataplane::port::{MAX_FRAME, Port};
use roce_engine::{
    Access, Addr, Backing, Config, Cq, Engine, HeapStorage, HwCounter, Instant, Limits, LinkHeader,
    ModifyQp, Mr, MrAttr, NextHop, Path as Route, QpInit, RtrAttr, RtsAttr, Rx, SendWr, Sge,
    WcStatus, WrOpcode,
};
use roce_testbed::random::Random;

use crate::client::{Client, Key, MTU, OUT_READS};
use crate::{Options, PATIENCE};

/// The pools of its engine.
pub(crate) const LIMITS: Limits = Limits {
    qps: 4,
    replays_per_qp: 1,
    mrs: 2,
    cqs: 1,
    cqes: 64,
    send_wqes: 64,
    recv_wqes: 1,
    ahs: 4,
    events: 64,
    ..Limits::SMALL
};

/// Bytes of memory a queue pair has here, and what it touches at the server.
const LEN: usize = 64 << 10;

/// What a queue pair does, in the order of `--ports`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Write,
    Read,
    Send,
    Add,
}

/// A queue pair and what it is doing.
struct Lane {
    work: Work,
    qp: Qpn,
    client: Client,
    /// Where its memory begins in the region.
    base: usize,
    busy: bool,
    /// What the server's memory holds, as far as we have written or read it.
    image: Vec<u8>,
    /// Which bytes of it we know; what is READ may be anything at first.
    known: Vec<bool>,
    at: usize,
    len: usize,
    count: u64,
}

/// The honest client.
pub(crate) struct Honest<'s> {
    engine: Engine<'s>,
    memory: HostMemory,
    region: u32,
    va: u64,
    mr: Mr,
    cq: Cq,
    lanes: Vec<Lane>,
    random: Random,
    macs: [MacAddr; 2],
    start: Clock,
    reach: usize,
}

impl<'s> Honest<'s> {
    pub(crate) fn new(
        storage: &'s mut HeapStorage,
        options: &Options,
        macs: [MacAddr; 2],
    ) -> Result<Self, String> {
        let mut random = Random::new(!options.seed);
        let mut engine = Engine::new(Config::DEFAULT, storage.lend());
        let mut memory = HostMemory::new();
        let pd = engine.alloc_pd();
        let cq = engine.create_cq(64).ok_or("no completion queue")?;
        let region = memory.map(4 * LEN).map_err(|error| error.to_string())?;
        let va = memory.va(region).ok_or("no region")?;
        let len = 4 * u64::try_from(LEN).unwrap_or(0);
        let backing = Addr { region, offset: 0 };
        let attr = MrAttr { pd, va, len, access: Access::LOCAL_WRITE, backing };
        let mr = engine.register_mr(&attr, &mut random).map_err(|error| error.to_string())?;
        let mut honest = Self {
            engine,
            memory,
            region,
            va,
            mr,
            cq,
            lanes: Vec::new(),
            random,
            macs,
            start: Clock::now(),
            reach: LEN.min(options.region),
        };
        let works = [Work::Write, Work::Read, Work::Send, Work::Add];
        for (number, work) in works.into_iter().enumerate() {
            let init = QpInit {
                max_send_wr: 4,
                max_recv_wr: 1,
                ..QpInit::new(roce_codec::ib::Service::Rc, pd, cq, cq)
            };
            let qp = loop {
                let qp = honest
                    .engine
                    .create_qp(&init, &mut honest.random)
                    .map_err(|error| error.to_string())?;
                // The upper half is the hostile client's.
                if qp.get() < 0x80_0000 {
                    break qp;
                }
                honest.engine.destroy_qp(qp).map_err(|error| error.to_string())?;
            };
            let lane = honest.connect(number, work, qp, options)?;
            honest.lanes.push(lane);
        }
        Ok(honest)
    }

    fn connect(
        &mut self,
        number: usize,
        work: Work,
        qp: Qpn,
        options: &Options,
    ) -> Result<Lane, String> {
        let psn = Psn::new(self.random.below_u32(1 << 24));
        let key = Key { qpn: qp, psn, rkey: self.mr.rkey, va: self.va, out_reads: OUT_READS };
        let client =
            Client::connect((options.server, options.ports[number]), options.client, &key)?;
        let server = client.server;
        let rtr = RtrAttr {
            path: Route {
                src: options.client.into(),
                dst: options.server.into(),
                next_hop: NextHop(0),
                src_port: 0xc100,
                ..Route::EMPTY
            },
            path_mtu: MTU,
            dest_qpn: server.qpn,
            rq_psn: server.psn,
            max_dest_rd_atomic: 1,
            min_rnr_timer: RnrTimer::new(12),
        };
        let rts = RtsAttr {
            sq_psn: psn,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            max_rd_atomic: server.out_reads.clamp(1, OUT_READS),
        };
        let init = ModifyQp::Init { pkey: PKey::DEFAULT, access: Access::NONE };
        for change in [init, ModifyQp::Rtr(rtr), ModifyQp::Rts(rts)] {
            self.engine.modify_qp(qp, &change).map_err(|error| error.to_string())?;
        }
        Ok(Lane {
            work,
            qp,
            client,
            base: number * LEN,
            busy: false,
            image: vec![0; LEN],
            known: vec![work != Work::Read; LEN],
            at: 0,
            len: 0,
            count: 0,
        })
    }

    fn now(&self) -> Instant {
        Instant(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    pub(crate) fn owns(&self, qp: Qpn) -> bool {
        self.lanes.iter().any(|lane| lane.qp == qp)
    }

    /// Requests that have succeeded.
    pub(crate) fn rounds(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.count).sum()
    }

    pub(crate) fn is_resting(&self) -> bool {
        self.lanes.iter().all(|lane| !lane.busy)
    }

    pub(crate) fn describe(&self) -> String {
        let lanes = self.lanes.iter().map(|lane| format!("{:?} {}", lane.work, lane.count));
        lanes.collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn receive(&mut self, segments: [&[u8]; 2]) {
        let rx = Rx { segments, start: Start::Ethernet, icrc_verified: false };
        let now = self.now();
        self.engine.handle_burst(now, &[rx], &self.memory);
    }

    /// Takes completions, begins new requests if `more`, and sends.
    pub(crate) fn advance(&mut self, port: &mut impl Port, more: bool) -> Result<(), String> {
        while let Some(wc) = self.engine.poll_cq(self.cq) {
            let number = self.lanes.iter().position(|lane| lane.qp == wc.qp);
            let number = number.ok_or("a completion of nobody's")?;
            if wc.status != WcStatus::Success {
                let work = self.lanes[number].work;
                return Err(format!("the honest client's {work:?} failed: {}", wc.status));
            }
            self.complete(number)?;
        }
        for number in 0..self.lanes.len() {
            if more && !self.lanes[number].busy {
                self.begin(number)?;
            }
        }
        let now = self.now();
        let _ = self.engine.handle_timeout(now);
        let link = LinkHeader { dst: self.macs[1], src: self.macs[0], vlans: VlanStack::EMPTY };
        while let Some(room) = port.tx_reserve(MAX_FRAME) {
            let Some(transmit) = self.engine.poll_transmit(now) else { break };
            let len = transmit
                .emit::<Crc, _>(&self.engine, &link, &self.memory, room)
                .map_err(|error| error.to_string())?;
            port.tx_commit(len);
        }
        Ok(())
    }

    fn begin(&mut self, number: usize) -> Result<(), String> {
        let lane = &mut self.lanes[number];
        let server = lane.client.server;
        lane.len = if lane.work == Work::Add { 8 } else { self.random.index(5000).min(self.reach) };
        lane.at = match lane.work {
            Work::Add => 64,
            // A SEND lands at the start of the server's region.
            Work::Send => 0,
            _ => self.random.index(self.reach - lane.len + 1),
        };
        lane.busy = true;
        let local = lane.base + lane.at;
        if matches!(lane.work, Work::Write | Work::Send) {
            let mut bytes = vec![0; lane.len];
            self.random.fill(&mut bytes);
            lane.image[lane.at..lane.at + lane.len].copy_from_slice(&bytes);
            let addr = Addr { region: self.region, offset: offset(local) };
            self.memory.write(addr, [&bytes, &[]]).map_err(|_| "our own memory")?;
        }
        let (va, rkey) = (server.va + offset(lane.at), server.rkey);
        let opcode = match lane.work {
            Work::Write => WrOpcode::RdmaWrite { va, rkey },
            Work::Read => WrOpcode::RdmaRead { va, rkey },
            Work::Send => WrOpcode::Send,
            Work::Add => WrOpcode::FetchAdd { va, rkey, add: 1 },
        };
        let len = u32::try_from(lane.len).unwrap_or(0);
        let sge = Sge { va: self.va + offset(local), len, lkey: self.mr.lkey };
        let sges = [sge];
        let wr = SendWr::new(0, opcode, &sges);
        self.engine.post_send(lane.qp, &wr).map_err(|error| error.to_string())
    }

    fn complete(&mut self, number: usize) -> Result<(), String> {
        let lane = &mut self.lanes[number];
        lane.busy = false;
        let mut bytes = vec![0; lane.len];
        let addr = Addr { region: self.region, offset: offset(lane.base + lane.at) };
        self.memory.read(addr, &mut bytes).map_err(|_| "our own memory")?;
        match lane.work {
            Work::Add if bytes != lane.count.to_ne_bytes() => {
                return Err(format!("the counter is {bytes:02x?} after {}", lane.count));
            }
            Work::Read => {
                // Nobody writes there: what was read once stays.
                let span = lane.at..lane.at + lane.len;
                let places = lane.image[span.clone()].iter_mut().zip(&mut lane.known[span]);
                for ((place, known), byte) in places.zip(&bytes) {
                    if std::mem::replace(known, true) && place != byte {
                        return Err("a READ returned something else than before".to_owned());
                    }
                    *place = *byte;
                }
            }
            _ => {}
        }
        lane.count += 1;
        Ok(())
    }

    /// Leaves, and compares what the server says it has in memory with what was written.
    pub(crate) fn check_dump(mut self, options: &Options) -> Result<(), String> {
        let lost = self.engine.counters().event(HwCounter::Retransmissions);
        if lost > 0 {
            eprintln!("roce-hostile: the honest client sent {lost} packets again");
        }
        let Some(directory) = &options.dump else { return Ok(()) };
        for lane in std::mem::take(&mut self.lanes) {
            let expect = match lane.work {
                Work::Write => lane.image.clone(),
                Work::Add => {
                    let mut image = lane.image.clone();
                    image[64..72].copy_from_slice(&lane.count.to_ne_bytes());
                    image
                }
                // A SEND's receive may be longer than the SEND, and the last is one of many.
                Work::Read | Work::Send => continue,
            };
            let qpn = lane.client.server.qpn;
            drop(lane.client);
            let dump = wait_for_dump(directory, qpn)?;
            let (written, rest) = dump.split_at(self.reach.min(dump.len()));
            if written != &expect[..self.reach] || rest.iter().any(|byte| *byte != 0) {
                return Err(format!(
                    "{:?}: the server's memory is not what was written",
                    lane.work
                ));
            }
        }
        Ok(())
    }
}

fn offset(at: usize) -> u64 {
    u64::try_from(at).unwrap_or(u64::MAX)
}

/// The dump of a queue pair's region, when the index names it.
fn wait_for_dump(directory: &Path, qpn: Qpn) -> Result<Vec<u8>, String> {
    let deadline = Clock::now() + PATIENCE;
    let name = format!("-qp{:06x}.bin", qpn.get());
    while Clock::now() < deadline {
        let index = std::fs::read_to_string(directory.join("index.jsonl")).unwrap_or_default();
        if index.contains(&name) {
            let entries = std::fs::read_dir(directory).map_err(|error| error.to_string())?;
            for entry in entries.flatten() {
                if entry.file_name().to_string_lossy().ends_with(&name) {
                    return std::fs::read(entry.path()).map_err(|error| error.to_string());
                }
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Err(format!("{}: no dump of {qpn} there", directory.display()))
}
