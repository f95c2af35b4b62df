//! What a client is to run.

use super::super::Test;
use super::super::message::CYCLE_BUFFER;

/// Which atomic operation; or another that is answered as those are, for a server that allows it:
/// perftest's own do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Atomic {
    /// CMP_SWAP of 0 by 0.
    CompareSwap,
    /// FETCH_ADD of 1.
    #[default]
    FetchAdd,
    /// ATOMIC WRITE of how many there have been, from 1, little-endian. In `atomic_lat` alone: what is
    /// on its way must not change.
    Write,
    /// FLUSH of the eight bytes, to global visibility.
    FlushRange,
    /// FLUSH of the whole region, to global visibility.
    FlushRegion,
}

/// What to run, in perftest's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// The test.
    pub test: Test,
    /// Bytes of a message, 1 to 2³⁰; an atomic has 8.
    pub size: u32,
    /// Whether to run all sizes from 2 up to `size`, a power of two, one after another.
    pub all_sizes: bool,
    /// Messages of each queue pair; `None` to run for `duration_ns`.
    pub iterations: Option<u64>,
    /// How long to run without `iterations`.
    pub duration_ns: u64,
    /// Queue pairs, 1 to [`MAX_QPS`](super::super::MAX_QPS); a latency test has one.
    pub qps: u32,
    /// Messages of a queue pair that may be outstanding, from 1; a latency test has one.
    pub depth: u32,
    /// Messages posted at a time, 1 to `depth`.
    pub post_list: u32,
    /// Every how many messages one is signaled, 1 to `depth`.
    pub cq_mod: u32,
    /// READs and atomics outstanding on a queue pair, from 1; the server may allow fewer.
    pub out_reads: u8,
    /// Acknowledge timeout, 4.096 µs · 2^timeout.
    pub timeout: u8,
    /// What `atomic_bw` and `atomic_lat` do.
    pub atomic: Atomic,
}

impl Job {
    /// A test with perftest's defaults.
    #[must_use]
    pub const fn new(test: Test) -> Self {
        let (size, depth) = if test.is_bandwidth() { (65536, 128) } else { (2, 1) };
        let size = if test.is_atomic() { 8 } else { size };
        let iterations = if matches!(test, Test::WriteBw) { 5000 } else { 1000 };
        Self {
            test,
            size,
            all_sizes: false,
            iterations: Some(iterations),
            duration_ns: 0,
            qps: 1,
            depth,
            post_list: 1,
            cq_mod: 1,
            out_reads: 16,
            timeout: super::super::connect::TIMEOUT,
            atomic: Atomic::FetchAdd,
        }
    }

    /// The first size to run.
    pub(super) const fn first_size(&self) -> u32 {
        if self.all_sizes { 2 } else { self.size }
    }

    /// The size after this one.
    pub(super) fn next_size(&self, size: u32) -> Option<u32> {
        size.checked_mul(2).filter(|next| self.all_sizes && *next <= self.size)
    }

    /// Half of a queue pair's memory: what it sends from or reads into, or the other half, which
    /// the peer reaches. perftest lays its memory out like this, and servers of `write_lat` make
    /// use of it.
    pub(super) fn half(&self, cycle_buffer: u32) -> u32 {
        self.size.max(cycle_buffer).max(CYCLE_BUFFER)
    }

    /// How many messages a queue pair sends at most.
    pub(super) fn limit(&self) -> u64 {
        self.iterations.unwrap_or(u64::MAX)
    }
}
