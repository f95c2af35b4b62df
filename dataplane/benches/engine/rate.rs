//! Operations a second, hot and cold.

use std::cell::RefCell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use roce_codec::ib::{PathMtu, Qpn};
use roce_engine::{Entropy, HeapStorage, Limits, RecvWr, SeededEntropy, SendWr, Sge, WrOpcode};

use crate::frames::{self, To};
use crate::host::{DEPTH, Host, VA, Window};
use crate::measure::{Taken, race, ratio_of_rates};
use crate::stub::Stub;
use roce_dataplane::port::BURST;

/// Operations in one pass.
const PASS: usize = 1024;
/// Half of a second-level cache of 512 KiB is for frames and state.
const HOT: usize = 256 << 10;
/// Many times any last-level cache.
const COLD: usize = 512 << 20;
/// What the frames of one pass reach of it.
const COLD_WINDOW: usize = 8 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Read,
    Write,
    Send,
    FetchAdd,
    Request,
}

struct Case {
    name: &'static str,
    work: Work,
    bytes: usize,
    path_mtu: PathMtu,
    /// Every how many requests one asks for an ACK.
    ask: usize,
    /// Millions a second that design promises, hot.
    bar: Option<f64>,
}

const CASES: [Case; 7] = [
    case("read-4k-mtu4096", Work::Read, 4096, PathMtu::Mtu4096, 1, Some(3.0)),
    case("read-4k-mtu1024", Work::Read, 4096, PathMtu::Mtu1024, 1, Some(2.0)),
    case("write-64", Work::Write, 64, PathMtu::Mtu1024, 16, Some(10.0)),
    case("send-64", Work::Send, 64, PathMtu::Mtu1024, 16, None),
    case("fetch-add", Work::FetchAdd, 8, PathMtu::Mtu1024, 1, None),
    case("requester-write-64", Work::Request, 64, PathMtu::Mtu1024, BURST, None),
    case("requester-write-4k", Work::Request, 4096, PathMtu::Mtu4096, BURST, None),
];

const fn case(
    name: &'static str,
    work: Work,
    bytes: usize,
    path_mtu: PathMtu,
    ask: usize,
    bar: Option<f64>,
) -> Case {
    Case { name, work, bytes, path_mtu, ask, bar }
}

/// Measures those whose name contains `only`.
pub(crate) fn run(only: &str) {
    for (how, len, window) in [("hot", HOT, HOT), ("cold", COLD, COLD_WINDOW)] {
        let mut memory = None;
        for case in CASES {
            let name = format!("engine-{}-{how}", case.name);
            if !name.contains(only) {
                continue;
            }
            let memory = memory.get_or_insert_with(|| Window::new(len));
            let [ours, stub] = case.measure(memory, len, window);
            println!(
                "{name}: {:.1} ns (noise {:.0} %), by hand {:.1} ns (noise {:.0} %)",
                ours.ns, ours.noise, stub.ns, stub.noise
            );
            ratio_of_rates(&format!("{name}-to-hand-written"), ours.rate(), stub.rate());
            if let Some(bar) = case.bar.filter(|_| how == "hot") {
                ratio_of_rates(&format!("{name}-to-bar"), ours.rate(), bar);
            }
        }
    }
}

impl Case {
    /// `window` bytes of `len` are reached by the frames of one pass.
    fn measure(&self, memory: &Window, len: usize, window: usize) -> [Taken; 2] {
        let limits = Limits {
            qps: 2,
            replays_per_qp: DEPTH,
            mrs: 16,
            cqs: 1,
            cqes: 4096,
            send_wqes: 2048,
            recv_wqes: 2048,
            ..Limits::SMALL
        };
        let mut storage = HeapStorage::new(&limits);
        let mut host = Host::new(storage.lend(), u64::try_from(window).expect("a length"));
        // As many READs and atomics as a queue pair keeps are under way on each.
        let shared = matches!(self.work, Work::Read | Work::FetchAdd);
        let qpns: Vec<Qpn> = (0..if shared { 2 } else { 1 }).map(|_| host.create_qp()).collect();
        let offsets = self.offsets(window);
        let frames = self.frames(&host, &qpns, &offsets);
        let mut stubs: Vec<Stub> = qpns
            .iter()
            .map(|qpn| {
                let len = u64::try_from(window).expect("a length");
                let mtu = usize::try_from(self.path_mtu.bytes()).expect("a length");
                let sample = frames::write(self.to(*qpn, 0), host.mr.rkey, VA, &[]);
                Stub::new(qpn.get(), host.mr.rkey.0, len, mtu, &sample)
            })
            .collect();

        let random = RefCell::new(SeededEntropy::new(7));
        let next_window = || {
            let places = (len - window) / 4096 + 1;
            let place = usize::try_from(random.borrow_mut().next_u32()).expect("a number") % places;
            memory.base.set(u64::try_from(place * 4096).expect("an offset"));
        };
        let mut ours = || {
            next_window();
            for qpn in &qpns {
                host.connect(*qpn, self.path_mtu);
            }
            self.pass(&mut host, qpns[0], &frames, &offsets, memory)
        };
        let mut by_hand = || {
            next_window();
            stubs.iter_mut().for_each(Stub::reset);
            self.pass_by_hand(&mut stubs, &frames, &offsets, memory)
        };
        race(PASS, [&mut ours, &mut by_hand])
    }

    /// Frames taken at once: those that one ACK answers.
    fn burst(&self) -> usize {
        if self.ask == 1 { BURST } else { self.ask }
    }

    fn to(&self, qpn: Qpn, index: usize) -> To {
        let ack_req = (index + 1).is_multiple_of(self.ask);
        To { qpn, psn: u32::try_from(index).expect("a PSN"), ack_req }
    }

    /// Where in the window each operation goes: each to bytes of its own while there are some, in
    /// no order that a prefetcher knows.
    fn offsets(&self, window: usize) -> Vec<u64> {
        let places = window / self.bytes;
        let mut order: Vec<usize> = (0..places).collect();
        let mut random = SeededEntropy::new(3);
        for at in (1..places).rev() {
            order.swap(at, usize::try_from(random.next_u32()).expect("a number") % (at + 1));
        }
        (0..PASS)
            .map(|at| u64::try_from(order[at % places] * self.bytes).expect("an offset"))
            .collect()
    }

    /// What the peer sends in a pass: requests, or for our own requests its ACKs.
    fn frames(&self, host: &Host<'_>, qpns: &[Qpn], offsets: &[u64]) -> Vec<Vec<u8>> {
        let rkey = host.mr.rkey;
        let payload: Vec<u8> = (0..self.bytes).map(|at| at.to_le_bytes()[0]).collect();
        let packets = match self.work {
            Work::Read => {
                self.bytes.div_ceil(usize::try_from(self.path_mtu.bytes()).expect("fits"))
            }
            _ => 1,
        };
        let mut sent = [0; 2];
        (0..PASS)
            .filter(|at| self.work != Work::Request || (at + 1).is_multiple_of(BURST))
            .map(|at| {
                let which = at / DEPTH % qpns.len();
                let (va, index) = (VA + offsets[at], sent[which]);
                sent[which] += packets;
                let mut to = self.to(qpns[which], index);
                match self.work {
                    Work::Read => frames::read(to, rkey, va, self.bytes),
                    Work::Write => frames::write(to, rkey, va, &payload),
                    Work::Send => frames::send(to, &payload),
                    Work::FetchAdd => frames::fetch_add(to, rkey, va),
                    Work::Request => {
                        to.psn = u32::try_from(at).expect("a PSN");
                        frames::ack(To { ack_req: false, ..to }, to.psn + 1)
                    }
                }
            })
            .collect()
    }

    fn answers(&self) -> usize {
        match self.work {
            Work::Read => {
                self.bytes.div_ceil(usize::try_from(self.path_mtu.bytes()).expect("fits"))
            }
            Work::FetchAdd => 1,
            _ => 0,
        }
    }

    fn pass(
        &self,
        host: &mut Host<'_>,
        qpn: Qpn,
        frames: &[Vec<u8>],
        offsets: &[u64],
        memory: &Window,
    ) -> Duration {
        let len = u32::try_from(self.bytes).expect("a length");
        let sge = |host: &Host<'_>, offset| Sge { va: VA + offset, len, lkey: host.mr.lkey };
        let (mut sent, mut completed) = (0, 0);
        let start = Instant::now();
        match self.work {
            Work::Read | Work::Write | Work::FetchAdd => {
                for burst in frames.chunks(self.burst()) {
                    sent += host.turn(burst, memory);
                }
            }
            Work::Send => {
                let bursts = frames.chunks(self.burst()).zip(offsets.chunks(self.burst()));
                for (burst, offsets) in bursts {
                    for offset in offsets {
                        let sges = [sge(host, *offset)];
                        let wr = RecvWr::new(*offset, &sges);
                        host.engine.post_recv(qpn, &wr).expect("room");
                    }
                    sent += host.turn(burst, memory);
                    while let Some(wc) = host.engine.poll_cq(host.cq) {
                        black_box(wc);
                        completed += 1;
                    }
                }
            }
            Work::Request => {
                for (ack, offsets) in frames.iter().zip(offsets.chunks(BURST)) {
                    for offset in offsets {
                        let opcode = WrOpcode::RdmaWrite { va: VA + offset, rkey: host.mr.rkey };
                        let sges = [sge(host, *offset)];
                        let wr = SendWr::new(*offset, opcode, &sges);
                        host.engine.post_send(qpn, &wr).expect("room");
                    }
                    sent += host.transmit(memory);
                    host.turn(std::slice::from_ref(ack), memory);
                    while let Some(wc) = host.engine.poll_cq(host.cq) {
                        black_box(wc);
                        completed += 1;
                    }
                }
            }
        }
        let taken = start.elapsed();
        let (answers, completions) = match self.work {
            Work::Request => (PASS, PASS),
            Work::Write => (PASS / self.ask, 0),
            Work::Send => (PASS / self.ask, PASS),
            Work::Read | Work::FetchAdd => (PASS * self.answers(), 0),
        };
        assert_eq!((sent, completed), (answers, completions), "{}", self.name);
        taken
    }

    fn pass_by_hand(
        &self,
        stubs: &mut [Stub],
        frames: &[Vec<u8>],
        offsets: &[u64],
        memory: &Window,
    ) -> Duration {
        let (mut sent, mut completed) = (0, 0);
        let start = Instant::now();
        match self.work {
            Work::Request => {
                let stub = &mut stubs[0];
                for (at, ack) in frames.iter().enumerate() {
                    for offset in &offsets[at * BURST..][..BURST] {
                        stub.send_write(stub.expected, *offset, self.bytes, memory);
                        stub.expected += 1;
                        sent += 1;
                    }
                    let acknowledged = stub.acknowledged(ack).expect("an ACK");
                    completed = usize::try_from(acknowledged).expect("a PSN") + 1;
                }
            }
            _ => {
                let count = stubs.len();
                for (at, frame) in frames.iter().enumerate() {
                    let stub = &mut stubs[at / DEPTH % count];
                    if self.work == Work::Send {
                        stub.receives.push_back(offsets[at]);
                    }
                    sent += stub.handle(frame, memory).expect("as expected");
                    if stub.completions.len() == BURST {
                        completed += black_box(stub.completions.drain(..).count());
                    }
                }
            }
        }
        let taken = start.elapsed();
        let expected = match self.work {
            Work::Request => (PASS, PASS),
            Work::Write => (PASS / self.ask, 0),
            Work::Send => (PASS / self.ask, PASS),
            Work::Read | Work::FetchAdd => (PASS * self.answers(), 0),
        };
        assert_eq!((sent, completed), expected, "{}, by hand", self.name);
        taken
    }
}
