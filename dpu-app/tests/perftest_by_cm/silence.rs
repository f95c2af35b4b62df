//! Clients that say nothing more, slow ones that go on, and those whose end only their number of messages
//! tells.

use super::*;

const SECOND_NS: u64 = 1_000_000_000;

impl<P: Port> World<'_, P> {
    /// Time passes at the server alone until it ends its session; says how much, in seconds.
    fn die(&mut self) -> u64 {
        let died = self.near.now;
        let mut now = died;
        while self.ends.is_empty() {
            now = now.add_ns(SECOND_NS / 100);
            self.far.pump(now);
            self.ends.extend(std::iter::from_fn(|| self.far.cm.poll_end()));
            assert!(now.ns_since(died) < 300 * SECOND_NS, "its session is still there");
        }
        now.ns_since(died) / SECOND_NS
    }

    /// Nothing of the session is left at the server.
    fn is_clean(&mut self) -> bool {
        let host = &self.far.side.host;
        (host.regions, host.routes) == LEFT && self.far.cm.is_empty()
    }
}

/// It says nothing more, and is not waited for without end.
#[test]
fn a_client_that_falls_silent() {
    roomy(|| {
        speak(Test::WriteBw, |world| {
            greet(world);
            let end = world.near.now.add_ns(31 * SECOND_NS);
            while world.ends.is_empty() {
                let _ = world.turn(&mut Reply::new());
                world.near.now = world.near.now.add_ns(SECOND_NS / 1000);
                assert!(world.near.now < end, "for more than 30 s");
            }
            assert_eq!(world.ends[0].error, Some(CmServiceError::Silent));
        });
    });
}

/// Its host goes down in the middle of its run: no DREQ comes.
#[test]
fn a_client_that_dies() {
    roomy(|| {
        let watched = [Test::WriteBw, Test::ReadBw, Test::SendBw, Test::AtomicBw];
        for test in watched.into_iter().chain([Test::ReadLat, Test::AtomicLat]) {
            let mut wire = Box::new(LoopbackWire::<32>::new());
            let mut lent = Lent::new();
            let qps = if test.is_bandwidth() { 3 } else { 1 };
            let job = Job { qps, iterations: Some(100_000), ..job(test, 64) };
            let served = [service(test)];
            let mut world = World::new(&job, &served, &mut lent, wire.ends(MACS), [CLIENT, SERVER]);
            let mut out = Reply::new();
            world.client.start(&mut out, &world.near.context());
            while world.meter.0[1] < 100 {
                world.step(&mut out).unwrap();
            }
            let seconds = world.die();
            assert!((120..=245).contains(&seconds), "{test}: {seconds} s");
            assert_eq!(world.ends[0].error, Some(CmServiceError::Silent), "{test}");
            assert!(world.is_clean(), "{test}");
        }
    });
}

/// With `-z`, before its run begins.
#[test]
fn a_client_that_dies_at_the_start() {
    roomy(|| {
        for test in [Test::ReadLat, Test::SendLat] {
            speak(test, |world| {
                greet(world);
                for _ in 0..4 {
                    assert!(world.say(&KEY).is_some());
                }
                let seconds = world.die();
                assert!((120..=245).contains(&seconds), "{test}: {seconds} s");
                assert_eq!(world.ends[0].error, Some(CmServiceError::Silent), "{test}");
                assert!(world.is_clean(), "{test}");
                world.near.now = world.far.side.now;
            });
        }
    });
}

/// What comes now and then keeps the session, for as long as it takes.
#[test]
fn a_slow_client() {
    roomy(|| {
        for test in [Test::WriteBw, Test::ReadLat] {
            let mut wire = Box::new(LoopbackWire::<32>::new());
            let mut lent = Lent::new();
            let job = Job { depth: 1, iterations: Some(12), ..job(test, 64) };
            let served = [service(test)];
            let mut world = World::new(&job, &served, &mut lent, wire.ends(MACS), [CLIENT, SERVER]);
            let mut out = Reply::new();
            world.client.start(&mut out, &world.near.context());
            let mut done = 0;
            while !world.client.has_run() {
                world.step(&mut out).unwrap_or_else(|error| panic!("{error} {:?}", world.ends));
                if world.meter.0[1] > done {
                    done = world.meter.0[1];
                    world.near.now = world.near.now.add_ns(100 * SECOND_NS);
                }
            }
            assert!(world.near.now.ns_since(Instant::ZERO) >= 1200 * SECOND_NS);
            assert_eq!(world.ends, []);
            world.by_cm.close(&mut world.near.context());
            world.farewell().unwrap();
            world.close();
        }
    });
}

/// `ib_write_lat -R -z`: its queue pair has no connection, and its run may take more than half a minute.
/// It says nothing at the end, which comes as many WRITEs in as the server was told.
#[test]
fn a_long_run_of_regular_queue_pairs() {
    const ITERATIONS: u64 = 20_000;
    roomy(|| {
        let mut wire = Box::new(LoopbackWire::<32>::new());
        let mut lent = Lent::new();
        let job = Job { iterations: Some(ITERATIONS), ..job(Test::WriteLat, 64) };
        let options = Options { iterations: Some(ITERATIONS), ..OPTIONS };
        let served = [CmService::Perftest { port: DEFAULT_PORT, test: Test::WriteLat, options }];
        let mut world = World::new(&job, &served, &mut lent, wire.ends(MACS), [CLIENT, SERVER]);
        world.connect().unwrap();
        // It says what a client says over TCP, but for how keys are written.
        world.client = Client::new(&job, CLIENT, Form::Text);
        let mut out = Reply::new();
        world.client.start(&mut out, &world.near.context());
        while world.ends.is_empty() {
            let said = core::mem::take(&mut out);
            if let Some(key) = said.first_chunk().and_then(KeyMessage::parse) {
                world.by_cm.send(&key.emit_binary(), &mut world.near.context()).unwrap();
            } else {
                world.by_cm.send(&said, &mut world.near.context()).unwrap();
            }
            world.turn(&mut out).unwrap();
            world.near.now = world.near.now.add_ns(SECOND_NS / 1000);
            if let Some(answer) = world.by_cm.poll_message() {
                let key = answer.first_chunk().and_then(KeyMessage::parse_binary);
                let context = &mut world.near.context();
                let client = &mut world.client;
                match key {
                    Some(key) => client.handle_message(&key.emit(), &mut out, context).unwrap(),
                    None => client.handle_message(&answer, &mut out, context).unwrap(),
                };
            }
        }
        assert!(world.client.has_run(), "cut off: {:?}", world.ends);
        assert!(world.near.now.ns_since(Instant::ZERO) > 35 * SECOND_NS);
        assert_eq!((world.ends[0].error, world.ends[0].count), (None, ITERATIONS));
        world.by_cm.close(&mut world.near.context());
        world.farewell().unwrap();
        world.close();
    });
}

/// A latency test has one queue pair; a second one gets no memory.
#[test]
fn a_latency_test_with_two_queue_pairs() {
    roomy(|| {
        for test in Test::ALL.into_iter().filter(|test| !test.is_bandwidth()) {
            let mut wire = Box::new(LoopbackWire::<32>::new());
            let mut lent = Lent::new();
            let job = Job { qps: 2, ..job(test, 64) };
            let served = [service(test)];
            let mut world = World::new(&job, &served, &mut lent, wire.ends(MACS), [CLIENT, SERVER]);
            world.run().unwrap_err();
            ended_by(&world, ExchangeError::TooManyQps);
            assert_eq!(world.far.side.host.kept.len(), 1, "{test}");
        }
    });
}
