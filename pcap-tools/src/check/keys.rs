//! Partition keys and queue keys.

use roce_codec::ib::PKey;

use super::habits::Tie;
use super::judge::{At, Judge};
use super::kept::{Comparison, Kept};
use super::packet::Seen;
use super::rule::Rule;

/// Both keys name the same partition, whoever is a full member.
const fn same_partition(one: PKey, other: PKey) -> bool {
    one.0 & 0x7fff == other.0 & 0x7fff
}

/// A packet's P_Key against those before it in its flow, and against `back`, that of the other
/// direction.
#[inline]
pub(super) fn check_pkey(
    kept: &mut Kept<PKey>,
    back: Option<PKey>,
    seen: &Seen<'_, '_>,
    tie: Tie,
    at: At,
    told: &mut u64,
    judge: &mut Judge,
) {
    let found = seen.bth.pkey;
    if found.0 & 0x7fff == 0 {
        let message = "the invalid partition: every receiver drops the packet".into();
        judge.fail(Rule::PkeyMatch, at, ("a partition".into(), hex(found), message));
        return;
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

fn hex(key: PKey) -> String {
    format!("{:#06x}", key.0)
}
