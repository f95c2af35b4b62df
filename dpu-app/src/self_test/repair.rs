//! What is lost or comes too early, and is made good.

use roce_dataplane::port::Port;
use roce_engine::{HwCounter, WcOpcode, WcStatus, WrOpcode};

use super::lab::{Expected, Lab};
use super::operation::write;
use super::side::Side;
use super::{Failure, Host, Report};

/// Bytes of the message: four packets at path MTU 1024.
const LEN: u32 = 4000;
/// Where it begins, at the requester and at the responder.
const NEAR: u32 = 17;
const FAR: u32 = 40;

/// Something that goes wrong once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// A WRITE's second packet is lost: the next one is answered by a sequence NAK.
    Gap,
    /// A WRITE's last packet is lost: the requester's timer finds out.
    Tail,
    /// A WRITE's acknowledgement is lost: the timer finds out, and the responder knows the
    /// duplicate.
    Acknowledgement,
    /// A READ's second response is lost: only the rest is asked for again.
    Response,
    /// A FETCH ADD's answer is lost: it is answered again and not carried out again.
    AtomicAnswer,
    /// A SEND comes before its receive is posted: RNR NAK.
    NotReady,
}

impl Repair {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Gap,
        Self::Tail,
        Self::Acknowledgement,
        Self::Response,
        Self::AtomicAnswer,
        Self::NotReady,
    ];

    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gap => "WRITE, second packet lost",
            Self::Tail => "WRITE, last packet lost",
            Self::Acknowledgement => "WRITE, acknowledgement lost",
            Self::Response => "READ, second response lost",
            Self::AtomicAnswer => "FETCH_ADD, answer lost",
            Self::NotReady => "SEND, receiver not ready",
        }
    }

    /// What is counted once it has happened, at the responder or not.
    const fn counted(self) -> (HwCounter, bool) {
        match self {
            Self::Gap => (HwCounter::SentSequenceNak, true),
            Self::Tail => (HwCounter::LocalAckTimeoutErr, false),
            Self::Acknowledgement | Self::AtomicAnswer => (HwCounter::DuplicateRequest, true),
            Self::Response => (HwCounter::Retransmissions, false),
            Self::NotReady => (HwCounter::RcvdRnrNak, false),
        }
    }

    /// Runs it on the connection that there is.
    pub(super) fn run<P: Port, H: Host>(self, lab: &mut Lab<'_, '_, P, H>) -> Result<(), Failure> {
        let (counter, at_responder) = self.counted();
        let [near, far] = lab.counted(counter);
        let before = if at_responder { far } else { near };
        match self {
            Self::Gap => lab.near.port.lose_after(1),
            Self::Tail => lab.near.port.lose_after(3),
            Self::Acknowledgement | Self::AtomicAnswer => lab.far.port.lose_after(0),
            Self::Response => lab.far.port.lose_after(1),
            Self::NotReady => {}
        }
        let (va, rkey) = (Side::<P>::va(FAR), lab.far.mr.rkey);
        let (opcode, completed, len) = match self {
            Self::Response => (WrOpcode::RdmaRead { va, rkey }, WcOpcode::RdmaRead, LEN),
            Self::AtomicAnswer => (WrOpcode::FetchAdd { va, rkey, add: 1 }, WcOpcode::FetchAdd, 8),
            Self::NotReady => (WrOpcode::Send, WcOpcode::Send, LEN),
            _ => (write(va, rkey), WcOpcode::RdmaWrite, LEN),
        };
        lab.near.post_send(0, opcode, lab.near.sge(NEAR, len))?;
        let receives = u32::from(self == Self::NotReady);
        if receives > 0 {
            lab.run_until(counter)?;
            lab.far.post_recv(100, lab.far.sge(FAR, LEN))?;
        }
        let [near, far] = lab.run([1, receives])?;
        let success = Expected {
            wr_id: 0,
            status: WcStatus::Success,
            opcode: completed,
            len: None,
            imm: None,
            invalidated: None,
        };
        success.check(near.first())?;
        if receives > 0 {
            Expected { wr_id: 100, opcode: WcOpcode::Recv, len: Some(LEN), ..success }
                .check(far.first())?;
        }
        self.check_memory(lab)?;
        let [near, far] = lab.counted(counter);
        if before == if at_responder { far } else { near } {
            return Err(Failure::NotCounted(counter));
        }
        lab.totals.messages += 1;
        lab.totals.bytes += u64::from(len);
        lab.host.passed(&Report::Repair(self));
        Ok(())
    }

    fn check_memory<P: Port, H: Host>(self, lab: &mut Lab<'_, '_, P, H>) -> Result<(), Failure> {
        if self == Self::AtomicAnswer {
            let mut original = [0; 8];
            for (at, byte) in (FAR..).zip(&mut original) {
                *byte = lab.before(true, at);
            }
            let once = u64::from_ne_bytes(original).wrapping_add(1).to_ne_bytes();
            return lab.check_memory(|_, far, offset| {
                let (start, bytes) = if far { (FAR, &once) } else { (NEAR, &original) };
                bytes.get(usize::try_from(offset.checked_sub(start)?).ok()?).copied()
            });
        }
        let written_far = self != Self::Response;
        lab.check_memory(|lab, far, offset| {
            let (here, there) = if far { (FAR, NEAR) } else { (NEAR, FAR) };
            let within = offset.checked_sub(here).filter(|within| *within < LEN)?;
            (far == written_far).then(|| lab.before(!far, there + within))
        })
    }
}
