//! The ICRC rule, and the known mistakes behind wrong ones.

use roce_codec::icrc::IcrcVerdict;

use super::judge::{At, Judge};
use super::rule::Rule;
use crate::observed::{Observed, vouches};

/// What the ICRC says of the rest of the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// It is what its sender sent.
    Believed,
    /// It is wrong by a mistake that the sender's profile names: taken for what it looks like.
    Explained,
    /// It cannot be checked: taken for what it looks like.
    Unchecked,
    /// Damaged on its way, or by a sender whose fault is not known: nothing it says counts.
    Damaged,
}

#[inline]
pub(super) fn check(
    observed: &Observed<'_>,
    verdict: IcrcVerdict,
    at: At,
    told: &mut u64,
    judge: &mut Judge,
) -> Trust {
    match verdict {
        IcrcVerdict::Valid => {
            judge.pass(Rule::RoceIcrc);
            Trust::Believed
        }
        IcrcVerdict::NotCheckable(why) => {
            judge.unknown_once(Rule::RoceIcrc, at, told, || {
                ("a whole packet".into(), why.to_string(), "the ICRC cannot be checked".into())
            });
            Trust::Unchecked
        }
        IcrcVerdict::Invalid { expected, found } => {
            wrong(observed, at, told, judge, [expected, found])
        }
    }
}

#[cold]
fn wrong(
    observed: &Observed<'_>,
    at: At,
    told: &mut u64,
    judge: &mut Judge,
    values: [[u8; 4]; 2],
) -> Trust {
    let diagnosis = observed.diagnose_icrc();
    let message = match &diagnosis {
        Some(diagnosis) => format!("wrong ICRC, a known mistake of its sender: {diagnosis}"),
        None => "wrong ICRC: damaged on its way, or changed without a new ICRC".into(),
    };
    let [expected, found] = values;
    let hex = |bytes| format!("{:08x}", u32::from_be_bytes(bytes));
    let known = &judge.profile().icrc_mistakes;
    if let Some(diagnosis) = &diagnosis
        && diagnosis.mistakes().all(|mistake| known.iter().any(|known| known.is(mistake)))
    {
        let message = format!("a known mistake of {}: {diagnosis}", judge.profile().name);
        judge.unknown_once(Rule::RoceIcrc, at, told, || (hex(expected), hex(found), message));
        return Trust::Explained;
    }
    judge.fail(Rule::RoceIcrc, at, (hex(expected), hex(found), message));
    // What was covered came as it was sent.
    match diagnosis {
        Some(diagnosis) if diagnosis.mistakes().all(vouches) => Trust::Believed,
        _ => Trust::Damaged,
    }
}
