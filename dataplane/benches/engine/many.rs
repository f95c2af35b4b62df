//! Nanoseconds a packet with 1 to a million queue pairs, in bursts of 32, each packet for another
//! queue pair than the one before.
//!
//! A request is built just before its burst and lies in the first-level cache, as a frame that a NIC
//! has just written lies in the last; what is measured is the engine reaching its own state. The
//! pools lie on huge pages ([`roce_dataplane::huge_pages`]).

use std::time::Instant;

use roce_codec::ib::{PathMtu, Qpn};
use roce_dataplane::huge_pages;
use roce_dataplane::port::BURST;
use roce_engine::{Entropy, HeapStorage, Limits, SeededEntropy};

use crate::frames::{self, To};
use crate::host::{Host, VA, Window};
use crate::measure::{Taken, ratio_of_costs};
use crate::state::REPLAYS;

/// Cost with a million, at most so many times that with one.
const BAR: f64 = 4.0;
const BURSTS: usize = 20_000;
const BYTES: usize = 64;

#[derive(Debug, Clone, Copy)]
enum Work {
    /// Asks for an ACK: one with one queue pair, 32 with many; each is a packet.
    Write,
    Read,
}

pub(crate) fn run() {
    for (name, work) in [("write-64", Work::Write), ("read-64", Work::Read)] {
        let mut one = None;
        for count in [1, 1_000, 100_000, 1_000_000] {
            let taken = measure(work, count);
            let one = *one.get_or_insert(taken.ns);
            println!(
                "engine-many-{name}: {count} queue pairs, {:.1} ns a packet (noise {:.0} %)",
                taken.ns, taken.noise
            );
            if count > 1 {
                ratio_of_costs(
                    &format!("engine-many-{name}-{count}-qps-to-{BAR}-times-one"),
                    taken.ns,
                    one * BAR,
                );
            }
        }
    }
}

fn measure(work: Work, count: usize) -> Taken {
    let limits = Limits {
        qps: count,
        replays_per_qp: if count == 1 { BURST } else { REPLAYS },
        mrs: 16,
        cqs: 1,
        cqes: 64,
        send_wqes: count,
        recv_wqes: 2 * count,
        ..Limits::SMALL
    };
    let mut storage = HeapStorage::new(&limits);
    let storage = storage.lend();
    let huge = huge_pages::advise(&storage);
    let memory = Window::new(64 << 10);
    let mut host = Host::new(storage, 64 << 10);
    let qpns: Vec<Qpn> = (0..count)
        .map(|_| {
            let qpn = host.create_qp();
            host.connect(qpn, PathMtu::Mtu1024);
            qpn
        })
        .collect();
    if count == 1_000_000 {
        println!("engine-many: {} MiB of storage on huge pages", huge >> 20);
    }

    let mut psns = vec![0; count];
    let mut random = SeededEntropy::new(11);
    let mut times = Vec::with_capacity(BURSTS);
    let payload = [7; BYTES];
    for _ in 0..BURSTS {
        let burst: Vec<Vec<u8>> = (0..BURST)
            .map(|_| {
                let which = usize::try_from(random.next_u32()).expect("a number") % count;
                let to = To { qpn: qpns[which], psn: psns[which], ack_req: true };
                psns[which] = (psns[which] + 1) & 0x00ff_ffff;
                let va = VA + u64::from(random.next_u32() % 1000) * 64;
                match work {
                    Work::Write => frames::write(to, host.mr.rkey, va, &payload),
                    Work::Read => frames::read(to, host.mr.rkey, va, BYTES),
                }
            })
            .collect();
        let start = Instant::now();
        let answers = host.turn(&burst, &memory);
        let taken = start.elapsed();
        assert!(answers > 0);
        let packets = f64::from(u32::try_from(BURST + answers).expect("packets"));
        times.push(taken.as_secs_f64() * 1e9 / packets);
    }
    assert_eq!(host.engine.counters().received, host.engine.counters().acted_on);
    Taken::of(times, 1)
}
