//! One engine of a world, its memory and its queues.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use roce_codec::ib::{PKey, PathMtu, Psn, Qpn, RnrTimer, Service};
use roce_codec::net::{MacAddr, VlanStack};
use roce_codec::{Crc, Start};
use roce_dataplane::host_memory::HostMemory;
use roce_engine::{
    Access, Addr, Backing, Config, Cq, Engine, HeapStorage, Instant, Limits, LinkHeader, ModifyQp,
    Mr, MrAttr, Path, Pd, QpInit, RtrAttr, RtsAttr, Rx, Transmit,
};

use crate::plan::{Plan, SOURCE_LEN};
use crate::random::Random;

/// What lies between and around everything else.
pub(super) const FILL: u8 = 0xc5;

/// Bytes of [`FILL`] between what is given out.
pub(super) const GAP: usize = 24;

/// The pools of one engine of a world.
pub(super) const LIMITS: Limits = Limits {
    qps: 16,
    replays_per_qp: 8,
    mrs: 1024,
    cqs: 2,
    cqes: 2048,
    send_wqes: 512,
    recv_wqes: 512,
    ahs: 64,
    sges: 4096,
    inlines: 2048,
    events: 1024,
    ..Limits::SMALL
};

/// A host.
pub(super) struct Host<'s> {
    pub(super) engine: Engine<'s>,
    pub(super) memory: HostMemory,
    pub(super) random: Random,
    pub(super) pd: Pd,
    pub(super) send_cq: Cq,
    pub(super) recv_cq: Cq,
    pub(super) address: IpAddr,
    /// What the whole region must hold in the end, as far as is known.
    pub(super) image: Vec<u8>,
    /// The payloads of everything it sends, and the key for them.
    pub(super) source: Vec<u8>,
    pub(super) source_mr: Mr,
    /// Frames handed to the engine.
    pub(super) received: u64,
    /// When it may send again; a frame takes its time.
    pub(super) busy_until: Instant,
    bystanders: Option<[(Qpn, Pd); 2]>,
    region: u32,
    va: u64,
    /// What has been given out of the region.
    used: usize,
    /// Where nothing has been given out, and which of these places is looked at next.
    gaps: Vec<usize>,
    next_gap: usize,
}

impl<'s> Host<'s> {
    /// A host with `len` bytes of memory behind its source.
    pub(super) fn new(
        plan: &Plan,
        number: usize,
        len: usize,
        storage: &'s mut HeapStorage,
    ) -> Result<Self, String> {
        let config = Config {
            window: plan.window,
            ack_interval: plan.ack_interval,
            recovery: plan.recovery,
            read_rate: plan.read_rate,
            ..Config::DEFAULT
        };
        let mut random = Random::new(plan.seed ^ u64::try_from(number).unwrap_or(0) << 32);
        let mut engine = Engine::new(config, storage.lend());
        let pd = engine.alloc_pd();
        let cq = |engine: &mut Engine<'_>| engine.create_cq(1024).ok_or("no completion queue");
        let (send_cq, recv_cq) = (cq(&mut engine)?, cq(&mut engine)?);
        let mut memory = HostMemory::new();
        let total = SOURCE_LEN + len;
        let region = memory.map(total).map_err(|error| error.to_string())?;
        let mut image = vec![FILL; total];
        random.fill(&mut image[..SOURCE_LEN]);
        let source = image[..SOURCE_LEN].to_vec();
        // Any base will do that keeps atomics aligned.
        let va = random.bits() >> 8 & !0xfff;
        let mut host = Self {
            engine,
            memory,
            random,
            pd,
            send_cq,
            recv_cq,
            address: address(plan, number),
            image,
            source,
            source_mr: Mr { lkey: Default::default(), rkey: Default::default() },
            received: 0,
            busy_until: Instant::ZERO,
            bystanders: None,
            region,
            va,
            used: SOURCE_LEN,
            gaps: Vec::new(),
            next_gap: 0,
        };
        let image = std::mem::take(&mut host.image);
        host.put(0, &image)?;
        host.image = image;
        host.source_mr = host.register(0, SOURCE_LEN, Access::NONE)?;
        Ok(host)
    }

    /// Gives out a part of the region that nobody has had, with [`FILL`] behind it.
    pub(super) fn take(&mut self, len: usize) -> usize {
        let start = self.used.next_multiple_of(8);
        self.used = start + len + GAP;
        self.gaps.push(start + len);
        start
    }

    /// Fills a part of the region with random bytes and returns these.
    pub(super) fn scramble(&mut self, offset: usize, len: usize) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; len];
        self.random.fill(&mut bytes);
        self.put(offset, &bytes)?;
        self.expect(offset, &bytes);
        Ok(bytes)
    }

    /// Notes what a part of the region must hold in the end.
    pub(super) fn expect(&mut self, offset: usize, bytes: &[u8]) {
        self.image[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    /// Holds the whole region to what it must hold.
    pub(super) fn check_memory(&self) -> Result<(), String> {
        let actual = self.bytes(0, self.image.len())?;
        match actual.iter().zip(&self.image).position(|(is, must)| is != must) {
            None => Ok(()),
            Some(at) => Err(format!(
                "memory at {at}: {:02x?} instead of {:02x?}",
                &actual[at..actual.len().min(at + 16)],
                &self.image[at..actual.len().min(at + 16)]
            )),
        }
    }

    /// Looks at one of the gaps, each in its turn: nobody writes there.
    pub(super) fn check_gap(&mut self) -> Result<(), String> {
        self.next_gap = (self.next_gap + 1) % self.gaps.len().max(1);
        let Some(at) = self.gaps.get(self.next_gap).copied() else { return Ok(()) };
        let gap = self.bytes(at, GAP)?;
        let untouched = gap.iter().all(|byte| *byte == FILL);
        untouched.then_some(()).ok_or_else(|| format!("memory at {at}: {gap:02x?} in a gap"))
    }

    /// The virtual address of a place in the region.
    pub(super) fn va(&self, offset: usize) -> u64 {
        self.va + u64::try_from(offset).unwrap_or(u64::MAX)
    }

    /// Registers a part of the region.
    pub(super) fn register(
        &mut self,
        offset: usize,
        len: usize,
        access: Access,
    ) -> Result<Mr, String> {
        let attr = self.attr(offset, len, access);
        self.engine.register_mr(&attr, &mut self.random).map_err(|error| error.to_string())
    }

    /// A part of the region as one of its own.
    pub(super) fn attr(&self, offset: usize, len: usize, access: Access) -> MrAttr {
        let number = |value: usize| u64::try_from(value).unwrap_or(u64::MAX);
        let backing = Addr { region: self.region, offset: number(offset) };
        MrAttr { pd: self.pd, va: self.va(offset), len: number(len), access, backing }
    }

    /// Two queue pairs that no peer has: one of the hosts' domain, and one of another, with that.
    /// They bind windows.
    pub(super) fn bystanders(&mut self) -> Result<[(Qpn, Pd); 2], String> {
        if let Some(bystanders) = self.bystanders {
            return Ok(bystanders);
        }
        let other = self.engine.alloc_pd();
        let mut both = [(Qpn::new(0), self.pd), (Qpn::new(0), other)];
        for (qp, pd) in &mut both {
            let init = QpInit {
                max_send_wr: 64,
                ..QpInit::new(Service::Rc, *pd, self.send_cq, self.recv_cq)
            };
            *qp = self.engine.create_qp(&init, &mut self.random).map_err(|e| e.to_string())?;
            let path = Path { src: self.address, dst: self.address, ..Path::EMPTY };
            let rtr = RtrAttr {
                path,
                path_mtu: PathMtu::Mtu256,
                dest_qpn: *qp,
                rq_psn: Psn::new(0),
                max_dest_rd_atomic: 0,
                min_rnr_timer: RnrTimer::new(1),
            };
            let rts = RtsAttr {
                sq_psn: Psn::new(0),
                timeout: 14,
                retry_cnt: 0,
                rnr_retry: 0,
                max_rd_atomic: 0,
            };
            let init = ModifyQp::Init { pkey: PKey::DEFAULT, access: Access::ALL };
            for change in [init, ModifyQp::Rtr(rtr), ModifyQp::Rts(rts)] {
                self.engine.modify_qp(*qp, &change).map_err(|error| error.to_string())?;
            }
        }
        self.bystanders = Some(both);
        Ok(both)
    }

    /// Whether a queue pair is one of them.
    pub(super) fn is_bystander(&self, qpn: Qpn) -> bool {
        self.bystanders.into_iter().flatten().any(|(qp, _)| qp == qpn)
    }

    /// What lies at a place in the region.
    pub(super) fn bytes(&self, offset: usize, len: usize) -> Result<Vec<u8>, String> {
        let mut out = vec![0; len];
        let offset = u64::try_from(offset).unwrap_or(u64::MAX);
        self.memory
            .read(Addr { region: self.region, offset }, &mut out)
            .map_err(|_| format!("{len} bytes at {offset} are not in the region"))?;
        Ok(out)
    }

    fn put(&self, offset: usize, bytes: &[u8]) -> Result<(), String> {
        let offset = u64::try_from(offset).unwrap_or(u64::MAX);
        self.memory
            .write(Addr { region: self.region, offset }, [bytes, &[]])
            .map_err(|_| "the region is too short".to_owned())
    }

    /// Hands received frames to the engine, some in two pieces.
    pub(super) fn receive(&mut self, now: Instant, frames: &[Vec<u8>]) {
        let random = &mut self.random;
        let burst: Vec<Rx<'_>> = frames
            .iter()
            .map(|frame| {
                // All headers lie in the first piece: 126 bytes hold the longest.
                let cut = if frame.len() > 126 && random.one_in(2) {
                    126 + random.index(frame.len() - 125)
                } else {
                    frame.len()
                };
                let (head, tail) = frame.split_at(cut);
                Rx { segments: [head, tail], start: Start::Ethernet, icrc_verified: false }
            })
            .collect();
        self.received += u64::try_from(burst.len()).unwrap_or(0);
        self.engine.handle_burst(now, &burst, &self.memory);
    }

    /// Writes a packet as a frame.
    pub(super) fn frame(&self, transmit: &Transmit) -> Result<Vec<u8>, String> {
        let link = LinkHeader { dst: mac(1), src: mac(0), vlans: VlanStack::EMPTY };
        let mut out = vec![0; 4352];
        let len = transmit
            .emit::<Crc, _>(&self.engine, &link, &self.memory, &mut out)
            .map_err(|error| error.to_string())?;
        out.truncate(len);
        Ok(out)
    }
}

/// The address of a host.
pub(super) fn address(plan: &Plan, number: usize) -> IpAddr {
    let last = u8::try_from(number).unwrap_or(0) + 1;
    if plan.ipv6 {
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into()))
    } else {
        IpAddr::V4(Ipv4Addr::new(198, 51, 100, last))
    }
}

fn mac(last: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, last])
}
