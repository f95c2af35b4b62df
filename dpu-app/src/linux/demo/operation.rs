//! The operations shown, and how each is verified.

use anyhow::{Result, anyhow, ensure};
use roce_codec::ib::Qpn;
use roce_dataplane::port::Port;
use roce_engine::{HwCounter, RecvWr, SendWr, Sge, Wc, WcOpcode, WcStatus, WrOpcode};

use super::lab::{Buffer, DEPTH, Lab};

/// Message lengths, in turn: short ones, the edges of a packet, and many packets.
const LENGTHS: [u32; 8] = [1, 3, 64, 1023, 1024, 1025, 4096, 16384];
/// The same for SEND: Wireshark guesses that SENDs are RPC-over-RDMA, and calls those malformed
/// that have fewer bytes in a packet than its header has.
const SEND_LENGTHS: [u32; 8] = [29, 31, 64, 1023, 1024, 1055, 4096, 16384];
/// Messages of each operation that moves data.
const MESSAGES: u32 = 400;
/// Atomics of each kind.
const ATOMICS: u32 = 1000;
/// Counters that atomics work on.
const COUNTERS: u32 = 8;

/// How an operation went.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) name: &'static str,
    pub(super) count: u64,
    pub(super) bytes: u64,
    /// Request packets sent again.
    pub(super) retransmissions: u64,
    /// Messages whose bytes, or atomics whose values, are what they should be.
    pub(super) verified: u64,
    /// What was wrong, if anything.
    pub(super) problem: Option<String>,
}

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Write,
    Read,
    Send,
    FetchAdd,
    CompareSwap,
}

/// All that are shown.
pub(super) const OPERATIONS: [Operation; 5] = [
    Operation::Write,
    Operation::Read,
    Operation::Send,
    Operation::FetchAdd,
    Operation::CompareSwap,
];

impl Operation {
    const fn name(self) -> &'static str {
        match self {
            Self::Write => "WRITE",
            Self::Read => "READ",
            Self::Send => "SEND",
            Self::FetchAdd => "FETCH_ADD",
            Self::CompareSwap => "CMP_SWAP",
        }
    }

    const fn is_atomic(self) -> bool {
        matches!(self, Self::FetchAdd | Self::CompareSwap)
    }

    /// Runs the operation on a connection of its own, and verifies what came of it.
    pub(super) fn run<A: Port, B: Port>(self, lab: &mut Lab<'_, A, B>) -> Outcome {
        let before = lab.requester.engine.counters().event(HwCounter::Retransmissions);
        let count = if self.is_atomic() { ATOMICS } else { MESSAGES };
        let bytes: u64 = if self.is_atomic() {
            8 * u64::from(ATOMICS)
        } else {
            pieces(self).map(|(_, len)| u64::from(len)).sum()
        };
        let mut verified = 0;
        let result = if self.is_atomic() {
            self.atomics(lab, &mut verified)
        } else {
            self.messages(lab, &mut verified)
        };
        let after = lab.requester.engine.counters().event(HwCounter::Retransmissions);
        let count = u64::from(count);
        let problem = match result {
            Err(error) => Some(format!("{error:#}")),
            Ok(()) if verified != count => Some(format!("{} wrong", count - verified)),
            Ok(()) => None,
        };
        let retransmissions = after - before;
        Outcome { name: self.name(), count, bytes, retransmissions, verified, problem }
    }

    /// WRITE, READ and SEND: random bytes from a buffer at one end to one at the other, each
    /// message to a place of its own.
    fn messages<A: Port, B: Port>(self, lab: &mut Lab<'_, A, B>, verified: &mut u64) -> Result<()> {
        let total = pieces(self).map(|(offset, len)| offset + len).max().unwrap_or(0);
        let [near, far] = lab.connect()?;
        let here = lab.requester.buffer(total)?;
        let there = lab.responder.buffer(total)?;
        if self == Self::Read {
            lab.responder.randomise(&there, total)?;
        } else {
            lab.requester.randomise(&here, total)?;
        }
        if self == Self::Send {
            for (index, (offset, len)) in (0..).zip(pieces(self)) {
                let sges = [there.sge(offset, len)];
                let wr = RecvWr::new(index, &sges);
                lab.responder.engine.post_recv(far, &wr)?;
            }
        }
        let mut requests = pieces(self).map(|(offset, len)| {
            let (va, rkey) = (there.va + u64::from(offset), there.mr.rkey);
            let opcode = match self {
                Self::Read => WrOpcode::RdmaRead { va, rkey },
                Self::Send => WrOpcode::Send,
                _ => WrOpcode::RdmaWrite { va, rkey },
            };
            (opcode, here.sge(offset, len))
        });
        let mut received = Vec::new();
        post_all(lab, near, u64::from(MESSAGES), &mut requests, |wc| received.push(*wc))?;
        if self == Self::Send {
            // The last acknowledgement may have come before we looked at the other end.
            lab.run(|_, _, far| {
                received.extend_from_slice(far);
                Ok(received.len() >= usize::try_from(MESSAGES)?)
            })?;
        }
        for (index, (offset, len)) in (0u32..).zip(pieces(self)) {
            let same = lab.requester.read(&here, offset, len)?
                == lab.responder.read(&there, offset, len)?;
            let told = self != Self::Send
                || received.get(usize::try_from(index)?).is_some_and(|wc| {
                    wc.wr_id == u64::from(index)
                        && wc.byte_len == len
                        && wc.opcode == WcOpcode::Recv
                        && wc.status == WcStatus::Success
                });
            *verified += u64::from(same && told);
        }
        self.untouched(lab, &here, &there)
    }

    /// FETCH_ADD and CMP_SWAP on a few counters: each returns what the ones before it left, and
    /// the last one's result stays in memory.
    fn atomics<A: Port, B: Port>(self, lab: &mut Lab<'_, A, B>, verified: &mut u64) -> Result<()> {
        let [near, _] = lab.connect()?;
        let here = lab.requester.buffer(8 * ATOMICS)?;
        let there = lab.responder.buffer(8 * COUNTERS)?;
        lab.responder.randomise(&there, 8 * COUNTERS)?;
        let counter = |lab: &Lab<'_, A, B>, at: u32| -> Result<u64> {
            let bytes = lab.responder.read(&there, 8 * at, 8)?;
            Ok(bytes.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes)))
        };
        let mut model = Vec::new();
        for at in 0..COUNTERS {
            model.push(counter(lab, at)?);
        }
        let mut expected = Vec::new();
        let mut requests = Vec::new();
        for index in 0..ATOMICS {
            let random = lab.requester.random.next_u64();
            let at = u32::try_from(random % u64::from(COUNTERS))?;
            let value = model.get_mut(usize::try_from(at)?).ok_or(anyhow!("no such counter"))?;
            let (va, rkey) = (there.va + u64::from(8 * at), there.mr.rkey);
            expected.push(*value);
            let opcode = if self == Self::FetchAdd {
                *value = value.wrapping_add(random);
                WrOpcode::FetchAdd { va, rkey, add: random }
            } else {
                // Every third one is to fail.
                let compare = if index % 3 == 2 { !*value } else { *value };
                if compare == *value {
                    *value = random;
                }
                WrOpcode::CompareSwap { va, rkey, compare, swap: random }
            };
            requests.push((opcode, here.sge(8 * index, 8)));
        }
        post_all(lab, near, u64::from(ATOMICS), &mut requests.into_iter(), |_| {})?;
        for (index, expected) in (0..).zip(&expected) {
            let returned = lab.requester.read(&here, 8 * index, 8)?;
            *verified += u64::from(returned == expected.to_ne_bytes());
        }
        for (at, expected) in (0..).zip(&model) {
            ensure!(counter(lab, at)? == *expected, "counter {at} does not hold the last result");
        }
        Ok(())
    }

    /// The gaps between messages still hold what they held at the receiving end: zeroes, or at the
    /// sending end of the same message random bytes.
    fn untouched<A: Port, B: Port>(
        self,
        lab: &Lab<'_, A, B>,
        here: &Buffer,
        there: &Buffer,
    ) -> Result<()> {
        for (offset, len) in pieces(self).take(usize::try_from(MESSAGES)? - 1) {
            let gap = offset + len;
            let (near, far) =
                (lab.requester.read(here, gap, 1)?, lab.responder.read(there, gap, 1)?);
            ensure!(near == [0] || far == [0], "the byte behind a message was touched");
        }
        Ok(())
    }
}

/// Where each message lies, and how long it is: with a gap of one byte behind.
fn pieces(operation: Operation) -> impl Iterator<Item = (u32, u32)> {
    let lengths = if operation == Operation::Send { SEND_LENGTHS } else { LENGTHS };
    let mut next = 0;
    lengths.into_iter().cycle().zip(0..MESSAGES).map(move |(len, _)| {
        let offset = next;
        next += len + 1;
        (offset, len)
    })
}

/// Posts requests as there is room and waits until `count` are complete, in order. The
/// responder's completions go to `far`.
fn post_all<A: Port, B: Port>(
    lab: &mut Lab<'_, A, B>,
    qpn: Qpn,
    count: u64,
    requests: &mut dyn Iterator<Item = (WrOpcode, Sge)>,
    mut far: impl FnMut(&Wc),
) -> Result<()> {
    let (mut posted, mut completed) = (0, 0);
    lab.run(|lab, near, theirs| {
        theirs.iter().for_each(&mut far);
        for wc in near {
            ensure!(wc.status == WcStatus::Success, "request {}: {}", wc.wr_id, wc.status);
            ensure!(wc.wr_id == completed, "request {} completed before {completed}", wc.wr_id);
            completed += 1;
        }
        while posted - completed < u64::from(DEPTH)
            && let Some((opcode, sge)) = requests.next()
        {
            lab.requester.engine.post_send(qpn, &SendWr::new(posted, opcode, &[sge]))?;
            posted += 1;
        }
        Ok(completed == count)
    })
}
