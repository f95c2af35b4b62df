//! A port that shows a sink every frame that passes the port below: for capture files.
//!
//! Frames to be sent are copied once more than without it.

use std::fmt;

use roce_codec::net::MacAddr;

use super::{Port, PortCounters, RxBurst, RxToken};

/// Which way a frame went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Received.
    Rx,
    /// Sent.
    Tx,
}

/// Who is shown the frames: a closure of these arguments, or a type of one's own.
pub trait CaptureSink {
    /// Called for each frame that the port hands out or takes, with its bytes in one or two
    /// pieces. What time it is the sink knows.
    fn frame(&mut self, direction: Direction, segments: [&[u8]; 2]);
}

impl<F: FnMut(Direction, [&[u8]; 2])> CaptureSink for F {
    fn frame(&mut self, direction: Direction, segments: [&[u8]; 2]) {
        self(direction, segments);
    }
}

/// A port with a sink; see the [module](self).
pub struct CapturePort<P, S> {
    inner: P,
    sink: S,
    reserved: Vec<u8>,
}

impl<P: Port, S: CaptureSink> CapturePort<P, S> {
    /// Wraps a port.
    pub fn new(inner: P, sink: S) -> Self {
        Self { inner, sink, reserved: Vec::new() }
    }
}

impl<P, S> CapturePort<P, S> {
    /// The port below.
    pub fn inner(&self) -> &P {
        &self.inner
    }

    /// The sink.
    pub fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }
}

impl<P: fmt::Debug, S> fmt::Debug for CapturePort<P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapturePort").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<P: Port, S: CaptureSink> Port for CapturePort<P, S> {
    fn mac(&self) -> MacAddr {
        self.inner.mac()
    }

    fn mtu(&self) -> usize {
        self.inner.mtu()
    }

    fn rx_burst(&mut self, out: &mut RxBurst) -> usize {
        let before = out.len();
        let taken = self.inner.rx_burst(out);
        for token in out.iter().skip(before) {
            self.sink.frame(Direction::Rx, self.inner.frame(token));
        }
        taken
    }

    fn frame(&self, token: &RxToken) -> [&[u8]; 2] {
        self.inner.frame(token)
    }

    fn release(&mut self, token: RxToken) {
        self.inner.release(token);
    }

    fn tx_reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        // Only asked whether there is room: what is reserved below would be out of sight when it
        // is committed.
        self.inner.tx_reserve(len)?;
        self.reserved.clear();
        self.reserved.resize(len, 0);
        Some(&mut self.reserved)
    }

    fn tx_commit(&mut self, len: usize) {
        let bytes = std::mem::take(&mut self.reserved);
        if let Some(frame) = bytes.get(..len)
            && let Some(room) = self.inner.tx_reserve(len)
        {
            room.copy_from_slice(frame);
            self.inner.tx_commit(len);
            self.sink.frame(Direction::Tx, [frame, &[]]);
        }
        self.reserved = bytes;
        self.reserved.clear();
    }

    fn tx_flush(&mut self) {
        self.inner.tx_flush();
    }

    fn counters(&self) -> PortCounters {
        self.inner.counters()
    }

    fn wait(&mut self, timeout_ns: u64) {
        self.inner.wait(timeout_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::loopback::LoopbackWire;

    #[test]
    fn the_sink_sees_both_directions_once() {
        let mut wire = LoopbackWire::<4>::new();
        let [a, mut b] = wire.ends([MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])]);
        let mut seen = Vec::new();
        let mut a = CapturePort::new(a, |direction, [head, tail]: [&[u8]; 2]| {
            seen.push((direction, [head, tail].concat()));
        });

        let room = a.tx_reserve(100).unwrap();
        room[..60].fill(1);
        a.tx_commit(60);
        a.tx_flush();
        let mut burst = RxBurst::new();
        assert_eq!(b.rx_burst(&mut burst), 1);
        assert_eq!(b.frame(&burst[0]), [&[1; 60][..], &[]]);

        assert!(a.tx_reserve(50).is_some(), "a reservation that is not committed is not seen");
        b.tx_reserve(70).unwrap().fill(2);
        b.tx_commit(70);
        let mut burst = RxBurst::new();
        assert_eq!(a.rx_burst(&mut burst), 1);
        for token in burst {
            a.release(token);
        }
        for _ in 0..9 {
            if let Some(room) = a.tx_reserve(20) {
                room.fill(3);
                a.tx_commit(20);
            }
        }
        assert_eq!(a.counters().tx_frames, 5, "four more until the wire is full");
        drop(a);
        assert_eq!(seen.len(), 6);
        assert_eq!(seen[0], (Direction::Tx, vec![1; 60]));
        assert_eq!(seen[1], (Direction::Rx, vec![2; 70]));
    }
}
