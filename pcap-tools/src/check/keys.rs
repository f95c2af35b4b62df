//! Partition keys and queue keys.

use roce_codec::ib::{PKey, QKey, Qpn};

use super::habits::Tie;
use super::judge::{At, Judge};
use super::kept::{Comparison, Kept};
use super::packet::Seen;
use super::rule::Rule;

/// Both keys name the same partition, whoever is a full member.
const fn same_partition(one: PKey, other: PKey) -> bool {
    one.0 & 0x7fff == other.0 & 0x7fff
}

const fn is_limited(key: PKey) -> bool {
    key.0 & 0x8000 == 0
}

/// Whether a packet is of any partition: one that is not is for nobody.
#[inline]
pub(super) fn check_partition(seen: &Seen<'_, '_>, at: At, judge: &mut Judge) -> bool {
    let found = seen.bth.pkey;
    let valid = found.0 & 0x7fff != 0;
    if !valid {
        let message = "the invalid partition: every receiver drops the packet".into();
        judge.fail(Rule::PkeyMatch, at, ("a partition".into(), hex(found), message));
    }
    valid
}

/// What a packet's P_Key is held against.
#[derive(Debug, Clone, Copy)]
pub(super) struct Partition {
    /// What the connection was set up in, if that is known.
    pub(super) agreed: Option<PKey>,
    /// The key in the other direction.
    pub(super) back: Option<PKey>,
}

/// A packet's P_Key against what its connection was set up with, or else those before it in its
/// flow; and against the other direction's.
#[inline]
pub(super) fn check_pkey(
    kept: &mut Kept<PKey>,
    partition: Partition,
    seen: &Seen<'_, '_>,
    tie: Tie,
    at: At,
    told: &mut u64,
    judge: &mut Judge,
) {
    if !check_partition(seen, at, judge) {
        return;
    }
    let found = seen.bth.pkey;
    let Partition { agreed, back } = partition;
    if let Some(agreed) = agreed {
        kept.compare(found);
        return check_agreed(agreed, back, found, at, judge);
    }
    match kept.compare(found) {
        Comparison::Odd(before) if !same_partition(before, found) => {
            let words = || {
                let message = "the flow's packets were of another partition";
                (hex(before), hex(found), message.into())
            };
            match tie {
                Tie::Sure => judge.fail(Rule::PkeyMatch, at, words()),
                Tie::Likely => judge.unknown_once(Rule::PkeyMatch, at, told, words),
            }
            return;
        }
        Comparison::First | Comparison::Adopted => {}
        Comparison::Same | Comparison::Odd(_) => judge.pass(Rule::PkeyMatch),
    }
    if let Some(back) = back
        && !back.matches(found)
    {
        judge.unknown_once(Rule::PkeyMatch, at, told, || {
            let message = "the two directions do not match; what was agreed is not known";
            (format!("a match of {}", hex(back)), hex(found), message.into())
        });
    }
}

#[inline]
fn check_agreed(agreed: PKey, back: Option<PKey>, found: PKey, at: At, judge: &mut Judge) {
    let both_limited = is_limited(found) && back.is_some_and(is_limited);
    judge.check(Rule::PkeyMatch, at, same_partition(agreed, found) && !both_limited, || {
        let message = if both_limited {
            "two limited members of a partition do not reach each other"
        } else {
            "the connection was set up in another partition"
        };
        (hex(agreed), hex(found), message.into())
    });
}

/// A datagram's Q_Key against what a SIDR_REP stated for its queue pair, or else those before it.
pub(super) fn check_qkey(
    kept: &mut Kept<QKey>,
    stated: Option<QKey>,
    seen: &Seen<'_, '_>,
    at: At,
    told: &mut u64,
    judge: &mut Judge,
) {
    // A multicast group has a Q_Key of its own.
    let Some(deth) = seen.transport.deth().filter(|_| seen.bth.dest_qp != Qpn::MULTICAST) else {
        return;
    };
    let found = deth.qkey;
    let hex = |key: QKey| format!("{:#010x}", key.0);
    let other = match (stated, kept.compare(found)) {
        (Some(stated), _) => {
            return judge.check(Rule::QkeyMatch, at, stated == found, || {
                let message = "the queue pair's Q_Key was stated otherwise: it drops the datagram";
                (hex(stated), hex(found), message.into())
            });
        }
        (None, Comparison::Odd(before)) => {
            let message = "datagrams to the queue pair carried another Q_Key";
            Some((hex(before), message))
        }
        (None, Comparison::Same) => None,
        (None, Comparison::First | Comparison::Adopted) if is_controlled(found) => {
            let message = "for privileged senders alone: whether this one is does not show";
            Some(("a Q_Key without its top bit".into(), message))
        }
        (None, Comparison::First | Comparison::Adopted) => return,
    };
    match other {
        None => judge.pass(Rule::QkeyMatch),
        Some((expected, message)) => {
            judge
                .unknown_once(Rule::QkeyMatch, at, told, || (expected, hex(found), message.into()));
        }
    }
}

const fn is_controlled(key: QKey) -> bool {
    key.0 & 0x8000_0000 != 0
}

fn hex(key: PKey) -> String {
    format!("{:#06x}", key.0)
}
