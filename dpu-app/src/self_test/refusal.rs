//! What a peer may not do.

use roce_codec::ib::{NakCode, RKey};
use roce_dataplane::port::Port;
use roce_engine::{Event, QpState, WcOpcode, WcStatus, WrOpcode};

use super::lab::{Expected, Lab};
use super::operation::write;
use super::side::Side;
use super::{Failure, Host, MEMORY, Report};

/// A request that the responder has to refuse, without a byte changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A WRITE with a key that no region has.
    UnknownKey,
    /// A WRITE of three packets whose last byte is outside the region.
    BeyondTheEnd,
    /// A WRITE to a region without that right.
    WriteToPrivate,
    /// A READ of a region without that right.
    ReadOfPrivate,
    /// A FETCH ADD on a region without that right.
    AtomicOnPrivate,
    /// A COMPARE SWAP of eight bytes that are not aligned.
    Unaligned,
    /// A SEND longer than the receive that it takes.
    TooLong,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::UnknownKey,
        Self::BeyondTheEnd,
        Self::WriteToPrivate,
        Self::ReadOfPrivate,
        Self::AtomicOnPrivate,
        Self::Unaligned,
        Self::TooLong,
    ];

    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownKey => "WRITE with an unknown R_Key",
            Self::BeyondTheEnd => "WRITE of one byte beyond the region",
            Self::WriteToPrivate => "WRITE without the right to",
            Self::ReadOfPrivate => "READ without the right to",
            Self::AtomicOnPrivate => "FETCH_ADD without the right to",
            Self::Unaligned => "CMP_SWAP of unaligned bytes",
            Self::TooLong => "SEND longer than the receive",
        }
    }

    /// What the responder has to answer (IBTA 9.7.5.2.4).
    #[must_use]
    pub const fn code(self) -> NakCode {
        match self {
            Self::Unaligned | Self::TooLong => NakCode::InvalidRequest,
            _ => NakCode::RemoteAccessError,
        }
    }

    /// What the requester has to make of the answer.
    const fn status(self) -> WcStatus {
        match self {
            Self::Unaligned | Self::TooLong => WcStatus::RemoteInvalidRequest,
            _ => WcStatus::RemoteAccess,
        }
    }

    /// The request, and how many bytes it is about.
    fn request<P: Port, H: Host>(self, lab: &Lab<'_, '_, P, H>) -> (WrOpcode, u32) {
        let (all, private) = (lab.far.mr.rkey, lab.far.private.rkey);
        let va = Side::<P>::va(0);
        match self {
            // A region's slot, which the lower bits name, with a tag that it does not have.
            Self::UnknownKey => (write(va, RKey(private.0 ^ 0x100)), 8),
            Self::BeyondTheEnd => {
                let end = u32::try_from(MEMORY).unwrap_or(u32::MAX);
                (write(Side::<P>::va(end - 2999), all), 3000)
            }
            Self::WriteToPrivate => (write(va, private), 8),
            Self::ReadOfPrivate => (WrOpcode::RdmaRead { va, rkey: private }, 8),
            Self::AtomicOnPrivate => (WrOpcode::FetchAdd { va, rkey: private, add: 1 }, 8),
            Self::Unaligned => {
                let compare = u64::from_ne_bytes([1, 2, 3, 4, 5, 6, 7, 8].map(|at| {
                    // It would be found, were it looked at.
                    lab.before(true, at)
                }));
                (WrOpcode::CompareSwap { va: va + 1, rkey: all, compare, swap: 0 }, 8)
            }
            Self::TooLong => (WrOpcode::Send, 65),
        }
    }

    /// Runs it on the connection that there is, which ends.
    pub(super) fn run<P: Port, H: Host>(self, lab: &mut Lab<'_, '_, P, H>) -> Result<(), Failure> {
        let request = self.request(lab);
        let receives = u32::from(self == Self::TooLong);
        if receives > 0 {
            lab.far.post_recv(100, lab.far.sge(0, 64))?;
        }
        refused(lab, request, receives, (self.code(), self.status()))?;
        lab.check_memory(|_, _, _| None)?;
        lab.host.passed(&Report::Refusal(self));
        Ok(())
    }
}

/// Asks for what has to be refused, by the length and by that code and status; the connection ends.
/// The receives that there are end with it.
pub(super) fn refused<P: Port, H: Host>(
    lab: &mut Lab<'_, '_, P, H>,
    (opcode, len): (WrOpcode, u32),
    receives: u32,
    (code, status): (NakCode, WcStatus),
) -> Result<(), Failure> {
    // Behind the request stands one that would be granted.
    lab.near.post_send(0, opcode, lab.near.sge(0, len))?;
    lab.near.post_send(1, write(Side::<P>::va(0), lab.far.mr.rkey), lab.near.sge(0, 8))?;
    let [near, far] = lab.run([2, receives])?;
    let expected = Expected { status, ..Expected::of(0, WcOpcode::RdmaWrite) };
    let flushed = Expected { wr_id: 1, status: WcStatus::WrFlush, ..expected };
    expected.check(near.first())?;
    flushed.check(near.get(1))?;
    if receives > 0 {
        Expected { wr_id: 100, status: WcStatus::LocalLength, ..expected }.check(far.first())?;
    }
    lab.near.check_state(QpState::Error)?;
    lab.far.check_state(QpState::Error)?;
    let told = Event::RequestRefused { qp: lab.far.qpn, code };
    let mut events = core::iter::from_fn(|| lab.far.engine.poll_event());
    if !events.any(|event| event == told) {
        return Err(Failure::NotRefused(code));
    }
    lab.totals.refusals += 1;
    Ok(())
}
