//! A run whose messages the client alone sends, as many at a time as the queues hold: the bandwidth
//! tests, and `read_lat` and `atomic_lat`, which have one at a time.

use roce_engine::{PostError, WrOpcode};

use super::super::Test;
use super::super::session::MAX_QPS;
use super::job::{Atomic, Job};
use super::meter::Meter;
use super::pair::ClientPair;
use crate::service::{Context, Platform};

/// How far a queue pair is.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    posted: u64,
    completed: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Stream {
    job: Job,
    size: u32,
    /// From one message's memory to the next one's, and after how many it is the first again.
    step: u32,
    slots: u32,
    counts: [Count; MAX_QPS],
}

impl Stream {
    /// A run of messages of `size` bytes, which cycle over `cycle` bytes in steps of whole
    /// `line`s.
    pub(super) fn new(job: &Job, size: u32, cycle: u32, line: u32) -> Self {
        let step = size.checked_next_multiple_of(line).unwrap_or(size).max(1);
        let slots = (cycle / step).max(1);
        Self { job: *job, size, step, slots, counts: [Count::default(); MAX_QPS] }
    }

    /// Posts what there is room for.
    pub(super) fn poll<P: Platform>(
        &mut self,
        pairs: &[ClientPair],
        meter: &mut impl Meter,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), PostError> {
        let Job { depth, post_list, .. } = self.job;
        let limit = self.job.limit();
        for ((qp, pair), count) in pairs.iter().enumerate().zip(&mut self.counts) {
            let room = u64::from(depth);
            while count.posted < limit {
                let group = u64::from(post_list).min(limit - count.posted);
                if count.posted - count.completed + group > room {
                    break;
                }
                for index in count.posted..count.posted + group {
                    let signaled =
                        (index + 1) % u64::from(self.job.cq_mod) == 0 || index + 1 == limit;
                    let slot = u32::try_from(index % u64::from(self.slots)).unwrap_or(0);
                    let offset = slot * self.step;
                    let opcode = opcode(&self.job, pair, offset);
                    meter.posted(qp, index, context.now);
                    pair.post(index, opcode, offset, self.size, signaled, context)?;
                    count.posted += 1;
                }
            }
        }
        Ok(())
    }

    /// Message `index` of a queue pair is done, and so are those before it.
    pub(super) fn handle_completion(&mut self, qp: usize, index: u64) {
        if let Some(count) = self.counts.get_mut(qp) {
            count.completed = (index + 1).clamp(count.completed, count.posted);
        }
    }

    /// Whether all messages are done.
    pub(super) fn is_over(&self, qps: usize) -> bool {
        let limit = self.job.limit();
        self.counts.iter().take(qps).all(|count| count.completed >= limit)
    }
}

/// What a message does that begins `offset` bytes into the memory.
fn opcode(job: &Job, pair: &ClientPair, offset: u32) -> WrOpcode {
    let (va, rkey) = pair.remote();
    let va = va.wrapping_add(u64::from(offset));
    match job.test {
        Test::WriteBw | Test::WriteLat => WrOpcode::RdmaWrite { va, rkey },
        Test::SendBw | Test::SendLat => WrOpcode::Send,
        Test::ReadBw | Test::ReadLat => WrOpcode::RdmaRead { va, rkey },
        Test::AtomicBw | Test::AtomicLat => match job.atomic {
            Atomic::FetchAdd => WrOpcode::FetchAdd { va, rkey, add: 1 },
            Atomic::CompareSwap => WrOpcode::CompareSwap { va, rkey, compare: 0, swap: 0 },
        },
    }
}
