//! A port over AF_XDP sockets: one a receive queue, and the XDP program that steers RoCEv2 to
//! them. Everything else goes to the kernel as before.
//!
//! ```text
//!              ┌ UDP 4791 ─> socket of the queue ─> RX ring ─> rx_burst ─> release ─> fill ring
//! NIC ─> program                                                                        └─> NIC
//!              └ the rest ─> kernel                tx_reserve, tx_commit ─> TX ring ─> NIC
//!                                                            completion ring <─┘
//! ```
//!
//! [`AfXdpPort::open`] takes the best the device offers, as [`AfXdpPort::describe`] then tells:
//! the program in the driver (native) or else in the network stack (generic), frames by DMA
//! (zero-copy) or else copied, frames of more than one chunk (path MTU 4096) where the kernel has
//! multi-buffer XDP (Linux 6.6). It needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, and Linux 5.11
//! at least.
//!
//! The program is attached by a link, which the kernel removes when the process ends, in whatever
//! way. No other setting of the interface is touched.
//!
//! What the device strips off a frame the program does not see: turn hardware VLAN stripping off
//! (`ethtool -K IF rxvlan off`) if tagged frames are to be seen as such.
//!
//! Nothing is allocated after the port is open. The kernel's ring indices and descriptors are
//! checked before they are used; those that make no sense are dropped and counted
//! ([`AfXdpPort::invalid_descriptors`]).

mod assembler;
mod bpf;
mod config;
mod mapping;
mod open;
mod program;
mod ring;
mod rx;
mod socket;
mod tx;
mod umem;

use std::ops::Range;
use std::os::fd::OwnedFd;

use roce_codec::net::MacAddr;

pub use self::config::{AfXdpConfig, AttachMode, CopyMode, Description, QueueDescription};
use self::program::Steering;
use self::rx::{Accepted, RxChunks};
use self::socket::XdpSocket;
use self::tx::{Committed, TxFrames};
use self::umem::Umem;
use super::interface::Interface;
use super::{BURST, Chunk, MAX_FRAME, Port, PortCounters, RxBurst, RxMeta, RxToken};
use crate::sys;

/// Queues a port has at most.
const MAX_QUEUES: usize = 256;
/// System calls for one flush, at most. In copy mode each sends some 32 descriptors.
const TX_WAKEUPS: usize = 64;

/// AF_XDP sockets on an interface as a [`Port`].
#[derive(Debug)]
pub struct AfXdpPort {
    /// Detached first, so that no frame comes for sockets that are gone.
    _link: OwnedFd,
    _steering: Steering,
    /// In ascending order but for the last, which is the one that sends.
    queues: Vec<Queue>,
    tx: TxFrames,
    umem: Umem,
    /// The length in bytes of a queue's receive chunks.
    rx_length: usize,
    interface: Interface,
    description: Description,
    /// Whether the TX ring was not empty when last looked at.
    sending: bool,
    /// The queue whose turn it is to be asked first.
    next: usize,
    counters: PortCounters,
    invalid_descriptors: u64,
}

/// A receive queue's socket, and the part of the frame memory that it uses.
#[derive(Debug)]
struct Queue {
    number: u16,
    socket: XdpSocket,
    chunks: RxChunks,
    /// Where its part lies in the frame memory.
    part: Range<usize>,
}

impl AfXdpPort {
    /// What was chosen.
    #[must_use]
    pub fn describe(&self) -> &Description {
        &self.description
    }

    /// How many descriptors and completions of the kernel's made no sense and were dropped.
    #[must_use]
    pub fn invalid_descriptors(&self) -> u64 {
        self.invalid_descriptors + self.tx.invalid
    }

    /// The queue that a piece lies in, and the piece as the queue addresses it.
    fn locate(&self, piece: Chunk) -> Option<(usize, Chunk)> {
        let at = usize::try_from(piece.addr).ok()?;
        // The parts are as long as the first but for the last, which is longer.
        let index = (at / self.rx_length).min(self.queues.len().checked_sub(1)?);
        let start = self.queues.get(index)?.part.start;
        let addr = u64::try_from(at.checked_sub(start)?).ok()?;
        Some((index, Chunk { addr, ..piece }))
    }

    /// The bytes of one piece of a frame on loan; none for anything else.
    fn piece(&self, piece: Chunk) -> &[u8] {
        let lent = self.locate(piece).filter(|(index, local)| {
            self.queues.get(*index).is_some_and(|queue| queue.chunks.is_lent(*local))
        });
        let start = usize::try_from(piece.addr).unwrap_or(usize::MAX);
        let length = usize::try_from(piece.len).unwrap_or(0);
        match lent {
            // SAFETY: the range lies in a chunk that is on loan, hence on no ring; it gets there
            // only through `release`, which takes `self` exclusively.
            Some(_) => unsafe { self.umem.bytes(start..start + length) },
            None => &[],
        }
    }

    /// Gives released chunks back to the kernel.
    fn refill(&mut self) {
        for queue in &mut self.queues {
            queue.chunks.refill(&mut queue.socket.fill);
        }
    }

    /// Takes finished frames from the completion ring.
    fn reap(&mut self) {
        let Some(queue) = self.queues.last_mut() else { return };
        while let Some(address) = queue.socket.completion.pop() {
            self.tx.complete(address);
        }
        queue.socket.completion.release();
    }

    /// Has the kernel send what is on the TX ring, if it wants to be told.
    fn wake_tx(&mut self) {
        let Some(queue) = self.queues.last() else { return };
        let Some(ring) = queue.socket.tx.as_ref() else { return };
        for _ in 0..TX_WAKEUPS {
            let before = ring.unconsumed();
            self.sending = before > 0;
            if !self.sending || !ring.needs_wakeup() {
                return;
            }
            let woken = queue.socket.wake_tx();
            if woken.is_err() && ring.unconsumed() == before {
                // Busy, no memory, interface down: the next flush or receive tries again.
                return;
            }
        }
    }
}

impl Queue {
    /// Appends received frames to `out` until it is full; says how many.
    fn receive(
        &mut self,
        out: &mut RxBurst,
        counters: &mut PortCounters,
        invalid: &mut u64,
    ) -> usize {
        self.chunks.refill(&mut self.socket.fill);
        let before = out.len();
        while !out.is_full() {
            let Some(descriptor) = self.socket.rx.pop() else { break };
            match self.chunks.accept(descriptor) {
                None => {}
                Some(Accepted::Oversize) => counters.rx_oversize += 1,
                Some(Accepted::Invalid) => *invalid += 1,
                Some(Accepted::Frame(pieces)) => {
                    let token = self.token(pieces);
                    counters.rx_frames += 1;
                    counters.rx_bytes +=
                        pieces.iter().map(|piece| u64::from(piece.len)).sum::<u64>();
                    // There is room: the loop's condition.
                    let _ = out.push(token);
                }
            }
        }
        self.socket.rx.release();
        if self.socket.fill.needs_wakeup() {
            self.socket.wake_rx();
        }
        out.len() - before
    }

    fn token(&self, pieces: [Chunk; 2]) -> RxToken {
        // The frame memory's length is a usize, which u64 holds.
        let start = u64::try_from(self.part.start).unwrap_or(0);
        let chunks = pieces.map(|piece| match piece.len {
            0 => Chunk::default(),
            len => Chunk { addr: start + piece.addr, len },
        });
        RxToken { chunks, meta: RxMeta { queue: self.number, ..RxMeta::default() } }
    }
}

impl Port for AfXdpPort {
    fn mac(&self) -> MacAddr {
        self.interface.mac
    }

    fn mtu(&self) -> usize {
        self.interface.mtu
    }

    fn rx_burst(&mut self, out: &mut RxBurst) -> usize {
        let before = out.len();
        let count = self.queues.len();
        for offset in 0..count {
            let queue = &mut self.queues[(self.next + offset) % count];
            queue.receive(out, &mut self.counters, &mut self.invalid_descriptors);
        }
        self.next = (self.next + 1) % count;
        if self.sending {
            self.wake_tx();
        }
        out.len() - before
    }

    fn frame(&self, token: &RxToken) -> [&[u8]; 2] {
        token.chunks.map(|piece| self.piece(piece))
    }

    fn release(&mut self, token: RxToken) {
        for piece in token.chunks {
            if let Some((index, local)) = self.locate(piece) {
                let queue = &mut self.queues[index];
                queue.chunks.give_back(local);
                // What is left below a burst's worth goes with the next receive, flush or wait.
                if queue.chunks.waiting() >= BURST {
                    queue.chunks.refill(&mut queue.socket.fill);
                }
            }
        }
    }

    fn tx_reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > MAX_FRAME {
            return None;
        }
        let mut range = self.tx.reserve(len);
        if range.is_none() {
            self.reap();
            range = self.tx.reserve(len);
        }
        let (Some(range), Some(queue)) = (range, self.queues.last()) else {
            self.counters.tx_full += 1;
            return None;
        };
        let start = queue.part.start;
        // SAFETY: a reserved frame is on no ring, since it was free, and gets there only through
        // `tx_commit`, which takes `self` exclusively.
        Some(unsafe { self.umem.bytes_mut(start + range.start..start + range.end) })
    }

    fn tx_commit(&mut self, len: usize) {
        let Some(ring) = self.queues.last_mut().and_then(|queue| queue.socket.tx.as_mut()) else {
            return;
        };
        match self.tx.commit(len, ring) {
            Committed::Queued => {
                self.counters.tx_frames += 1;
                // A frame is far below 2^64 bytes.
                self.counters.tx_bytes += u64::try_from(len).unwrap_or(0);
            }
            Committed::Refused => self.counters.tx_dropped += 1,
            Committed::Nothing => {}
        }
    }

    fn tx_flush(&mut self) {
        if let Some(ring) = self.queues.last_mut().and_then(|queue| queue.socket.tx.as_mut()) {
            ring.publish();
        }
        self.wake_tx();
        self.reap();
        self.refill();
    }

    fn counters(&self) -> PortCounters {
        let mut counters = self.counters;
        for queue in &self.queues {
            if let Some(statistics) = queue.socket.statistics() {
                counters.rx_missed += statistics.rx_dropped + statistics.rx_ring_full;
                counters.tx_dropped += statistics.tx_invalid_descs;
            }
        }
        counters
    }

    fn wait(&mut self, timeout_ns: u64) {
        self.refill();
        let mut polls = [libc::pollfd { fd: -1, events: 0, revents: 0 }; MAX_QUEUES];
        for (poll, queue) in polls.iter_mut().zip(&self.queues) {
            *poll = sys::readable(queue.socket.fd());
        }
        let count = self.queues.len().min(MAX_QUEUES);
        sys::wait_readable(&mut polls[..count], timeout_ns);
    }
}
