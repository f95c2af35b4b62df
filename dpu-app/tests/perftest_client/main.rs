//! The perftest client against the perftest service, over a wire in memory that may lose packets:
//! TCP as function calls, time as a number. What is read, written and sent is compared byte by
//! byte.

#![cfg(feature = "std")]

#[path = "../support/host.rs"]
mod host;
mod refusal;
mod world;

use dpu_app::service::memory::Region;
use dpu_app::service::perftest::client::{Atomic, Client, ClientProgress, Job, Outcome};
use dpu_app::service::perftest::{Form, Session, Test};
use dpu_app::service::{Progress, Reply};
use roce_dataplane::port::Port;
use roce_dataplane::port::fault::{FaultConfig, FaultPort, FaultRates};
use world::{CLIENT, Count, MACS, OPTIONS, Ran, SERVER, Side, TURN_NS, job, plain, run};

/// Loopback ports are large, and faulty ones hold them by value.
fn roomy(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(64 << 20).spawn_scoped(scope, test);
        if let Err(panic) = thread.expect("a thread").join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Runs a whole test and verifies what it leaves on both sides.
fn check(job: &Job) {
    let (mut wire, mut storage) = plain();
    verify(job, run(job, job.test, &mut storage, wire.ends(MACS)).unwrap());
}

fn verify<P: Port>(job: &Job, ran: Ran<'_, P>) {
    let Ran { mut near, mut far, client, session, meter, progress } = ran;
    let qps = usize::try_from(job.qps).unwrap();
    let iterations = job.iterations.unwrap();
    let total = iterations * u64::from(job.qps);
    let last_unanswered = u64::from(job.test == Test::WriteLat);
    assert_eq!(meter.qps, vec![[iterations, iterations - last_unanswered]; qps]);
    assert_eq!(progress, Progress::Over, "done was said");
    match job.test {
        Test::WriteBw | Test::ReadBw | Test::AtomicBw => {
            assert_eq!(session.reported_iterations(), Some(total));
        }
        Test::SendBw | Test::SendLat | Test::WriteLat => assert_eq!(session.messages(), total),
        Test::ReadLat | Test::AtomicLat => {}
    }
    let ours: Vec<_> = client.regions().collect();
    let theirs: Vec<_> = session.regions().collect();
    assert_eq!((ours.len(), theirs.len()), (qps, qps));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        let (ours, theirs) = (&ours.exposed.region, &theirs.exposed.region);
        verify_pair(job, iterations, [&near, &far], [ours, theirs]);
    }
    client.close(&mut near.context());
    session.close(&mut far.context());
    assert!(near.is_clean() && far.is_clean(), "something is left");
}

fn verify_pair<P: Port>(
    job: &Job,
    iterations: u64,
    [near, far]: [&Side<'_, P>; 2],
    [ours, theirs]: [&Region; 2],
) {
    let step = job.size.next_multiple_of(64);
    // A latency test stays in one place.
    let slots = if job.test.is_bandwidth() { (4096 / step).max(1) } else { 1 };
    let used = u32::try_from(iterations).unwrap().min(slots);
    for slot in 0..used {
        let offset = slot * step;
        let here = near.memory(ours, offset, job.size);
        let there = far.memory(theirs, offset, job.size);
        let noise = job.size < 16 || here.windows(2).any(|pair| pair[0] != pair[1]);
        match job.test {
            Test::WriteBw | Test::ReadBw | Test::ReadLat => {
                assert!(noise, "from noise, or into zeroes");
                assert!(here == there, "{:?}: message at {offset}", job.test);
            }
            Test::SendBw | Test::SendLat => {
                let last = u32::try_from((iterations - 1) % u64::from(slots)).unwrap();
                let offset = if job.test == Test::SendBw { last * step } else { 0 };
                let here = near.memory(ours, offset, job.size);
                assert!(noise && here == far.memory(theirs, 0, job.size));
            }
            Test::AtomicBw | Test::AtomicLat => {
                let count = (0..iterations).filter(|i| i % u64::from(slots) == u64::from(slot));
                let count = u64::try_from(count.count()).unwrap();
                let (sum, before) = match job.atomic {
                    Atomic::FetchAdd => (count, Some(count - 1)),
                    Atomic::CompareSwap => (0, Some(0)),
                    Atomic::Write => (count, Some(count)),
                    Atomic::FlushRange | Atomic::FlushRegion => (0, None),
                };
                assert_eq!(there, sum.to_ne_bytes(), "what the server holds");
                let expected = before.map_or(here.clone(), |before| before.to_ne_bytes().to_vec());
                assert_eq!(here, expected, "what it held before, or was sent");
            }
            Test::WriteLat => {
                let count = iterations.to_le_bytes()[0];
                let half = job.size.max(4096);
                let answer = near.memory(ours, half, job.size);
                assert_eq!(there.last(), Some(&count), "our last message");
                assert_eq!(answer.last(), Some(&count), "the server's");
            }
        }
    }
    if job.test == Test::SendLat {
        // The server sends what it sends from: zeroes, as long as ours.
        let half = job.size.max(4096);
        let answer = near.memory(ours, half, job.size);
        assert!(answer.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn every_test_at_every_size() {
    roomy(|| {
        for test in Test::ALL {
            for size in [1, 3, 1023, 1024, 1025, 4096, 4097, 65_536] {
                check(&job(test, size));
            }
        }
    });
}

#[test]
fn several_queue_pairs_queues_and_lists() {
    roomy(|| {
        for test in [Test::WriteBw, Test::ReadBw, Test::SendBw, Test::AtomicBw] {
            check(&Job { qps: 2, ..job(test, 700) });
            check(&Job { qps: 7, depth: 3, ..job(test, 700) });
            check(&Job { depth: 1, ..job(test, 64) });
            check(&Job { depth: 16, post_list: 5, cq_mod: 5, ..job(test, 64) });
            check(&Job { depth: 10, cq_mod: 7, ..job(test, 64) });
            check(&Job { iterations: Some(7), cq_mod: 100, ..job(test, 64) });
            check(&Job { out_reads: 1, ..job(test, 5000) });
        }
        check(&Job { atomic: Atomic::CompareSwap, ..job(Test::AtomicBw, 8) });
    });
}

/// What perftest does not do, and its servers would refuse.
#[test]
fn atomic_write_and_flush() {
    roomy(|| {
        for atomic in [Atomic::Write, Atomic::FlushRange, Atomic::FlushRegion] {
            check(&Job { atomic, ..job(Test::AtomicLat, 8) });
        }
    });
}

/// The byte that `write_lat` watches counts modulo 256.
#[test]
fn many_iterations() {
    roomy(|| {
        for test in Test::ALL {
            check(&Job { iterations: Some(700), ..job(test, 8) });
        }
    });
}

/// Either side loses, doubles and reorders what it sends and receives.
#[test]
fn every_test_under_faults() {
    roomy(|| {
        let rates =
            FaultRates { drop: 0.02, duplicate: 0.02, reorder: 0.02, ..FaultRates::default() };
        for (seed, test) in (1..).zip(Test::ALL) {
            let job = Job { iterations: Some(300), ..job(test, 3000) };
            let (mut wire, mut storage) = plain();
            let ports = wire
                .ends(MACS)
                .map(|end| FaultPort::new(end, &FaultConfig { rx: rates, tx: rates, seed }));
            let ran = run(&job, test, &mut storage, ports).unwrap();
            let struck: u64 = ran.near.port.faults().iter().map(|faults| faults.drop).sum();
            assert!(struck >= 5, "{test}: {struck} lost");
            verify(&job, ran);
        }
    });
}

/// For a time: it ends by the clock, and says how much it got done.
#[test]
fn for_a_time() {
    roomy(|| {
        for test in Test::ALL {
            let job = Job { iterations: None, duration_ns: 3_000_000, ..job(test, 64) };
            let (mut wire, mut storage) = plain();
            let ran = run(&job, test, &mut storage, wire.ends(MACS)).unwrap();
            let [posted, completed] = ran.meter.qps[0];
            assert!(completed > 100, "{test}: {completed}");
            assert!(posted - completed <= u64::from(job.depth), "{test}: {posted} {completed}");
            let (first, last) = (ran.meter.posted[0].1, ran.meter.completed.last().unwrap().1);
            let took = last.ns_since(first);
            assert!((2_900_000..=3_000_000 + TURN_NS).contains(&took), "{test}: {took}");
            if matches!(test, Test::WriteBw | Test::ReadBw | Test::AtomicBw) {
                assert_eq!(ran.session.reported_iterations(), Some(completed));
            }
        }
    });
}

/// All sizes, where the server needs not be told.
#[test]
fn all_sizes() {
    roomy(|| {
        for test in [Test::WriteBw, Test::ReadBw, Test::ReadLat] {
            let job = Job { all_sizes: true, iterations: Some(5), ..job(test, 1 << 16) };
            let (mut wire, mut storage) = plain();
            let mut sizes = Vec::new();
            let [near, far] = &mut storage;
            let [a, b] = wire.ends(MACS);
            let mut near = Side::new(near, a, MACS[1], CLIENT);
            let mut far = Side::new(far, b, MACS[0], SERVER);
            let mut client = Client::new(&job, CLIENT, Form::Text);
            let mut session = Session::new(9, test, OPTIONS);
            let mut out = Reply::new();
            client.start(&mut out, &near.context());
            let mut meter = Count::default();
            let mut progress = ClientProgress::Continues;
            while progress != ClientProgress::Over {
                if progress == ClientProgress::Continues {
                    let mut reply = Reply::new();
                    let said = core::mem::take(&mut out);
                    session.handle_message(&said, &mut reply, &mut far.context()).unwrap();
                    let len = client.next_len();
                    progress = client
                        .handle_message(&reply[..len], &mut out, &mut near.context())
                        .unwrap();
                    continue;
                }
                far.turn();
                for wc in near.turn().0 {
                    client.handle_completion(&wc, &mut meter, &mut near.context()).unwrap();
                }
                client.poll(&mut meter, &mut near.context()).unwrap();
                if client.has_run() {
                    assert_eq!(meter.qps, [[5, 5]]);
                    meter = Count::default();
                    sizes.push(client.size());
                    progress = client.finish_run(Outcome::default(), &mut out, &near.context());
                }
            }
            assert_eq!(sizes, (1..=16).map(|bit| 1 << bit).collect::<Vec<u32>>());
        }
    });
}
