//! A port on one end of a wire and the test on the other, and what every port must do there.

use std::time::{Duration, Instant};

use roce_dataplane::port::{BURST, Port, RxBurst, RxToken};

use super::frames::{self, Ip};
use super::netns::Netns;
use super::peer::{PATIENCE, Peer, SILENCE};

/// A port and its peer, in a namespace of their own.
#[derive(Debug)]
pub(crate) struct Wire<P> {
    pub(crate) port: P,
    pub(crate) peer: Peer,
    /// Last, so that port and peer are closed before their interface goes.
    pub(crate) ns: Netns,
}

/// Tries until it works, or for long enough to be sure that it does not.
///
/// What one test closes, the kernel may see as open for a moment longer: another test's thread
/// that has just forked to run `ip` still holds a copy of every descriptor.
pub(crate) fn soon<T, E>(mut attempt: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            other => return other,
        }
    }
}

/// Asserts that the same frames came in the same order, and says in a few words if not.
pub(crate) fn assert_same(got: &[Vec<u8>], sent: &[impl AsRef<[u8]>], what: &str) {
    assert_eq!(got.len(), sent.len(), "{what}: the number of frames");
    for (n, (got, sent)) in got.iter().zip(sent).enumerate() {
        let sent = sent.as_ref();
        assert_eq!(got.len(), sent.len(), "{what}: the length of frame {n}");
        let differs = got.iter().zip(sent).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{what}: where frame {n} differs");
    }
}

impl<P: Port> Wire<P> {
    /// Takes a burst, waiting a little for it.
    fn burst(&mut self) -> RxBurst {
        let mut burst = RxBurst::new();
        self.port.wait(10_000_000);
        self.port.rx_burst(&mut burst);
        burst
    }

    fn bytes_and_release(&mut self, token: RxToken) -> Vec<u8> {
        let bytes = self.port.frame(&token).concat();
        self.port.release(token);
        bytes
    }

    /// The next `count` frames at the port; fewer if the wire falls silent.
    pub(crate) fn receive(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let mut deadline = Instant::now() + PATIENCE;
        while frames.len() < count && Instant::now() < deadline {
            for token in self.burst() {
                frames.push(self.bytes_and_release(token));
                deadline = Instant::now() + PATIENCE;
            }
        }
        frames
    }

    /// What comes at the port in a while in which nothing should.
    pub(crate) fn receive_nothing(&mut self) {
        let deadline = Instant::now() + SILENCE;
        while Instant::now() < deadline {
            if let Some(token) = self.burst().pop() {
                let frame = self.bytes_and_release(token);
                panic!("a frame of {} bytes: {frame:02x?}", frame.len());
            }
        }
    }

    /// Queues a frame.
    pub(crate) fn queue(&mut self, frame: &[u8]) {
        self.port.tx_reserve(frame.len()).expect("room").copy_from_slice(frame);
        self.port.tx_commit(frame.len());
    }

    /// Sends a frame.
    pub(crate) fn send(&mut self, frame: &[u8]) {
        self.queue(frame);
        self.port.tx_flush();
    }

    /// Sends each length both ways, with both IP versions.
    pub(crate) fn carries(&mut self, lengths: impl IntoIterator<Item = usize>) {
        for (seed, length) in (1..).zip(lengths) {
            for ip in [Ip::V4, Ip::V6] {
                let frame = frames::roce(ip, length, seed);
                self.peer.send(&frame);
                assert_same(&self.receive(1), &[frame.as_slice()], &format!("{ip:?} {length}"));
                let back = frames::turned(&frame);
                self.send(&back);
                let arrived = self.peer.receive(PATIENCE);
                assert_same(arrived.as_slice(), &[back], &format!("{ip:?} {length} back"));
            }
        }
        let counters = self.port.counters();
        assert_eq!((counters.rx_missed, counters.rx_oversize), (0, 0));
        assert_eq!((counters.tx_dropped, counters.tx_full), (0, 0));
        assert_eq!(
            (counters.rx_frames, counters.rx_bytes),
            (counters.tx_frames, counters.tx_bytes)
        );
    }

    /// Sends `rounds` times 50 frames of `length` bytes both ways: more than a burst at a time,
    /// and with enough rounds more than the port has buffers.
    pub(crate) fn keeps_order_and_leaks_nothing(&mut self, rounds: u32, length: usize) {
        for round in 0..rounds {
            let sent: Vec<_> =
                (1..=50).map(|n| frames::roce(Ip::V4, length, round * 50 + n)).collect();
            sent.iter().for_each(|frame| self.peer.send(frame));
            assert_same(&self.receive(50), &sent, &format!("round {round}"));
            let back: Vec<_> = sent.iter().map(|frame| frames::turned(frame)).collect();
            back.iter().for_each(|frame| self.queue(frame));
            self.port.tx_flush();
            let arrived: Vec<_> = (0..50).map_while(|_| self.peer.receive(PATIENCE)).collect();
            assert_same(&arrived, &back, &format!("round {round} back"));
        }
        let counters = self.port.counters();
        let (frames, bytes) = (u64::from(rounds) * 50, u64::from(rounds) * 50 * (length as u64));
        assert_eq!((counters.rx_frames, counters.rx_bytes), (frames, bytes));
        assert_eq!((counters.tx_frames, counters.tx_bytes), (frames, bytes));
        assert_eq!((counters.rx_missed, counters.rx_oversize), (0, 0));
        assert_eq!((counters.tx_dropped, counters.tx_full), (0, 0));
    }

    /// Frames on loan keep their bytes while others come and go.
    pub(crate) fn lends(&mut self, length: usize) {
        let first: Vec<_> = (1..=20).map(|seed| frames::roce(Ip::V4, length, seed)).collect();
        first.iter().for_each(|frame| self.peer.send(frame));
        let mut held = RxBurst::new();
        let deadline = Instant::now() + PATIENCE;
        while held.len() < 20 && Instant::now() < deadline {
            self.port.rx_burst(&mut held);
        }
        for seed in 100..500 {
            self.peer.send(&frames::roce(Ip::V6, length, seed));
            assert_eq!(self.receive(1).len(), 1);
        }
        let shown: Vec<_> = held.iter().map(|token| self.port.frame(token).concat()).collect();
        assert_same(&shown, &first, "on loan");
        held.into_iter().for_each(|token| self.port.release(token));
    }

    /// Frames that are not RoCEv2 or not for this host, and the port's own, do not come.
    pub(crate) fn takes_only_roce(&mut self) {
        self.peer.send(&frames::udp(Ip::V4, &[], 4790, 100, 1));
        self.peer.send(&frames::udp(Ip::V6, &[], 53, 100, 1));
        self.send(&frames::turned(&frames::roce(Ip::V4, 100, 2)));
        assert!(self.peer.receive(PATIENCE).is_some(), "our frame went out");
        self.receive_nothing();
        assert_eq!(self.port.counters().rx_frames, 0);
    }

    /// A ring that is full says so, and is empty again when flushed.
    pub(crate) fn says_when_it_is_full(&mut self) {
        let frame = frames::turned(&frames::roce(Ip::V4, 100, 1));
        let mut queued = 0;
        while let Some(room) = self.port.tx_reserve(100) {
            room.copy_from_slice(&frame);
            self.port.tx_commit(100);
            queued += 1;
            assert!(queued <= 100_000, "bounded");
        }
        assert!(queued >= BURST, "at least a burst fits");
        assert_eq!(self.port.counters().tx_full, 1);
        self.port.tx_flush();
        assert!((0..queued).all(|_| self.peer.receive(PATIENCE).is_some()));
        assert!(self.port.tx_reserve(100).is_some());
        assert!(self.port.tx_reserve(4353).is_none(), "longer than any frame");
        assert!(self.port.tx_reserve(4352).is_some());
        assert_eq!(self.port.counters().tx_full, 1);
    }

    /// A reservation may be shortened or given up.
    pub(crate) fn reserves_for_free(&mut self) {
        for _ in 0..10_000 {
            self.port.tx_reserve(500).expect("still room").fill(0xee);
        }
        self.port.tx_commit(501);
        self.port.tx_commit(100);
        self.port.tx_flush();
        assert_eq!(self.port.counters().tx_frames, 0, "501 was more than reserved and ended it");
        let frame = frames::turned(&frames::roce(Ip::V4, 100, 1));
        self.port.tx_reserve(200).expect("room")[..100].copy_from_slice(&frame);
        self.port.tx_commit(100);
        self.port.tx_commit(100);
        self.port.tx_flush();
        assert_same(self.peer.receive(PATIENCE).as_slice(), &[frame], "shortened");
        assert!(self.peer.receive(SILENCE).is_none());
    }

    /// `wait` ends with a frame or with the time.
    pub(crate) fn waits(&mut self) {
        let start = Instant::now();
        self.port.wait(50_000_000);
        let waited = start.elapsed();
        assert!(
            waited >= Duration::from_millis(50) && waited < Duration::from_secs(2),
            "{waited:?}"
        );
        self.peer.send(&frames::roce(Ip::V4, 100, 1));
        let start = Instant::now();
        self.port.wait(60_000_000_000);
        assert!(start.elapsed() < Duration::from_secs(2));
        assert_eq!(self.receive(1).len(), 1);
    }

    /// Works again when the interface was down for a while.
    pub(crate) fn outlives_an_interface_that_is_down(&mut self) {
        self.ns.ip("link set ours down");
        for seed in 1..=10 {
            self.send(&frames::turned(&frames::roce(Ip::V4, 100, seed)));
            assert_eq!(self.port.rx_burst(&mut RxBurst::new()), 0);
        }
        self.ns.up(&["ours"]);
        let frame = frames::roce(Ip::V4, 100, 99);
        self.peer.send(&frame);
        assert_same(&self.receive(1), &[frame.as_slice()], "up again");
        let back = frames::turned(&frame);
        self.send(&back);
        // What was sent meanwhile may come late or not at all.
        while let Some(arrived) = self.peer.receive(PATIENCE) {
            if arrived == back {
                return;
            }
        }
        panic!("nothing goes out any more");
    }
}
