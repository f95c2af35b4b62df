//! The ICRC rule, and the known faults behind wrong ones.

use roce_codec::Frame;
use roce_codec::ib::{Bth, Operation};
use roce_codec::icrc::{Icrc, IcrcVerdict, NotCheckable};

use super::judge::{At, Judge};
use super::rule::Rule;

/// What the ICRC says of the rest of the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// It is what its sender sent.
    Believed,
    /// It cannot be checked: taken for what it looks like.
    Unchecked,
    /// Damaged on its way, or by a sender whose fault is not known: nothing it says counts.
    Damaged,
}

/// Why a wrong ICRC is as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Linux rxe feeds a FLUSH's headers in twice, the second time unmasked, because its opcode
    /// table has no payload offset for FLUSH.
    RxeFlush,
    /// Linux rxe up to 2019 left the pad bytes out.
    PadLeftOut,
}

#[inline]
pub(super) fn check(frame: &Frame<'_>, at: At, told: &mut u64, judge: &mut Judge) -> Trust {
    match frame.verify_icrc() {
        IcrcVerdict::Valid => {
            judge.pass(Rule::RoceIcrc);
            Trust::Believed
        }
        IcrcVerdict::NotCheckable(why) => {
            judge.unknown_once(Rule::RoceIcrc, at, told, || {
                let found = match why {
                    NotCheckable::Truncated => "the packet is cut by the capture",
                    NotCheckable::NotFilled => "zero: captured before the hardware filled it in",
                    _ => "not checkable",
                };
                ("a whole packet".into(), found.into(), "the ICRC cannot be checked".into())
            });
            Trust::Unchecked
        }
        IcrcVerdict::Invalid { expected, found } => wrong(frame, at, judge, expected, found),
    }
}

#[cold]
fn wrong(frame: &Frame<'_>, at: At, judge: &mut Judge, expected: [u8; 4], found: [u8; 4]) -> Trust {
    let fault = known_fault(frame);
    let message = match fault {
        Some(Fault::RxeFlush) => {
            "wrong ICRC, the known fault of Linux rxe's FLUSH: after BTH, FETH and RETH it covers \
             the same 32 bytes once more, unmasked"
        }
        Some(Fault::PadLeftOut) => {
            "wrong ICRC, the known fault of Linux rxe up to 2019: the pad bytes are left out"
        }
        None => "wrong ICRC: damaged on its way, or changed without a new ICRC",
    };
    let hex = |bytes| format!("{:08x}", u32::from_be_bytes(bytes));
    judge.fail(Rule::RoceIcrc, at, (hex(expected), hex(found), message.into()));
    if fault.is_some() { Trust::Believed } else { Trust::Damaged }
}

fn known_fault(frame: &Frame<'_>) -> Option<Fault> {
    let headers = frame.headers();
    let start = || -> Option<Icrc> {
        match headers.len() {
            40 => headers.first_chunk().map(Icrc::ipv4),
            _ => headers.first_chunk().map(Icrc::ipv6),
        }
    };
    let mut covered = start()?;
    covered.update(frame.ext_bytes());
    if frame.info().operation == Operation::Flush {
        covered.update(headers.last_chunk::<{ Bth::LEN }>()?);
        covered.update(frame.ext_bytes());
        return (covered.finish() == frame.icrc()).then_some(Fault::RxeFlush);
    }
    for segment in frame.payload() {
        covered.update(segment);
    }
    let pad_left_out = !frame.pad().is_empty() && covered.finish() == frame.icrc();
    pad_left_out.then_some(Fault::PadLeftOut)
}
