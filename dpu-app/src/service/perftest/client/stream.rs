//! A run whose messages the client alone sends, as many at a time as the queues hold: the bandwidth
//! tests, and `read_lat` and `atomic_lat`, which have one at a time.

use roce_codec::ib::RKey;
use roce_engine::{Placement, PostError, Selectivity, WrOpcode};

use super::super::Test;
use super::job::{Atomic, Job};
use super::meter::Meter;
use super::pair::ClientPair;
use crate::service::{Context, Platform};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Stream {
    job: Job,
    size: u32,
    /// From one message's memory to the next one's, and after how many it is the first again.
    step: u32,
    slots: u32,
}

impl Stream {
    /// A run of messages of `size` bytes, which cycle over `cycle` bytes in steps of whole
    /// `line`s.
    pub(super) fn new(
        job: &Job,
        size: u32,
        cycle: u32,
        line: u32,
        pairs: &mut [ClientPair],
    ) -> Self {
        for pair in pairs {
            (pair.posted, pair.completed) = (0, 0);
        }
        let step = size.checked_next_multiple_of(line).unwrap_or(size).max(1);
        // A latency test stays in one place, as perftest's does.
        let slots = if job.test.is_bandwidth() { (cycle / step).max(1) } else { 1 };
        Self { job: *job, size, step, slots }
    }

    /// Posts what there is room for.
    pub(super) fn poll<P: Platform>(
        &self,
        pairs: &mut [ClientPair],
        meter: &mut impl Meter,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), PostError> {
        let Job { depth, post_list, cq_mod, .. } = self.job;
        let limit = self.job.limit();
        for (qp, pair) in pairs.iter_mut().enumerate() {
            while pair.posted < limit {
                let group = u64::from(post_list).min(limit - pair.posted);
                if pair.posted - pair.completed + group > u64::from(depth) {
                    break;
                }
                for index in pair.posted..pair.posted + group {
                    let signaled = (index + 1) % u64::from(cq_mod) == 0 || index + 1 == limit;
                    let slot = u32::try_from(index % u64::from(self.slots)).unwrap_or(0);
                    let offset = slot * self.step;
                    let opcode = opcode(&self.job, pair, offset);
                    meter.posted(qp, index, context.now);
                    let size = match opcode {
                        WrOpcode::Flush { .. } => 0,
                        WrOpcode::AtomicWrite { .. } => {
                            pair.put(offset, &(index + 1).to_le_bytes(), context);
                            self.size
                        }
                        _ => self.size,
                    };
                    pair.post(index, opcode, offset, size, signaled, context)?;
                    pair.posted += 1;
                }
            }
        }
        Ok(())
    }

    /// Message `index` of a queue pair is done, and so are those before it.
    pub(super) fn handle_completion(pair: &mut ClientPair, index: u64) {
        pair.completed = (index + 1).clamp(pair.completed, pair.posted);
    }

    /// Whether all messages are done.
    pub(super) fn is_over(&self, pairs: &[ClientPair]) -> bool {
        pairs.iter().all(|pair| pair.completed >= self.job.limit())
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
            Atomic::Write => WrOpcode::AtomicWrite { va, rkey },
            Atomic::FlushRange => flush(rkey, Selectivity::Range { va, len: job.size }),
            Atomic::FlushRegion => flush(rkey, Selectivity::Region),
        },
    }
}

fn flush(rkey: RKey, selectivity: Selectivity) -> WrOpcode {
    WrOpcode::Flush { rkey, selectivity, placement: Placement::GLOBAL_VISIBILITY }
}
