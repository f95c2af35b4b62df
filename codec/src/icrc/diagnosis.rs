//! Why a wrong ICRC is as it is: the known mistakes, tried one after another.
//!
//! Off the hot path. The value is recomputed under each hypothesis of `hypothesis.rs` and compared
//! with what the packet carries. A CRC being linear, the payload is summed up once a tail: the
//! register that must have stood at the end of the BTH follows from what the packet carries, and
//! each head, some 70 bytes, is held against that. Nothing grows with heads times payload.
//!
//! A false explanation: fewer than 2048 values are tried, so a packet damaged at random is
//! explained by chance less than once in 2³² / 2¹¹, two million damaged packets. Damage that
//! amounts to a mistake (an identification rewritten from 0) is told as that mistake.

use core::fmt;

use roce_crc::{Crc32, Shift};

use super::head::{Heads, feed};
use super::hypothesis::{FINISHES, Finish, First, Head, TAILS, Tail, heads};
use super::mistake::IcrcMistake;
use super::suspect::Suspect;
use super::{IcrcVerdict, NotCheckable};
use crate::Frame;

/// The most mistakes at once that are believed: three slips of one who starts out happen (case in
/// point: no ones, bits not reflected, no complement), four by chance.
const MOST: usize = 3;

/// The mistakes, few, that together explain a wrong ICRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct IcrcDiagnosis {
    first: IcrcMistake,
    others: [Option<IcrcMistake>; MOST - 1],
}

impl IcrcDiagnosis {
    /// The first of the mistakes, nearly always the only one.
    #[must_use]
    pub const fn mistake(&self) -> IcrcMistake {
        self.first
    }

    /// All of them: one to three.
    pub fn mistakes(&self) -> impl Iterator<Item = IcrcMistake> {
        core::iter::once(self.first).chain(self.others.into_iter().flatten())
    }

    /// `None` if there is no mistake, or more than are believed.
    fn of(mut mistakes: impl Iterator<Item = IcrcMistake>) -> Option<Self> {
        let diagnosis =
            Self { first: mistakes.next()?, others: [mistakes.next(), mistakes.next()] };
        mistakes.next().is_none().then_some(diagnosis)
    }

    fn count(&self) -> usize {
        self.mistakes().count()
    }
}

impl fmt::Display for IcrcDiagnosis {
    /// What the sender did wrong, without a full stop at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        self.others.iter().flatten().try_for_each(|mistake| write!(f, "; and {mistake}"))
    }
}

/// Says which known mistakes explain the frame's ICRC: [`Frame::diagnose_icrc`].
#[cold]
#[must_use]
pub fn diagnose(frame: &Frame<'_>) -> Option<IcrcDiagnosis> {
    frame.diagnose_icrc()
}

/// What must stand in the register behind the BTH.
struct Targets {
    /// By each of `FINISHES`.
    registers: [u32; FINISHES.len()],
    /// Bytes of the tail.
    len: usize,
}

impl Suspect<'_> {
    /// What explains the ICRC by the fewest mistakes, given what checking it found.
    #[cold]
    #[inline(never)]
    pub(crate) fn diagnose<C: Crc32>(&self, verdict: IcrcVerdict) -> Option<IcrcDiagnosis> {
        match verdict {
            IcrcVerdict::Invalid { .. } => self.search::<C>(|_| true),
            // Zero in its place says nothing, unless it stands elsewhere.
            IcrcVerdict::NotCheckable(NotCheckable::NotFilled) => self
                .search::<C>(|tail| tail.at_frame_end)
                .or(IcrcDiagnosis::of(core::iter::once(IcrcMistake::NotFilled))),
            IcrcVerdict::Valid | IcrcVerdict::NotCheckable(_) => None,
        }
    }

    fn search<C: Crc32>(&self, wanted: impl Fn(&Tail) -> bool) -> Option<IcrcDiagnosis> {
        let registers = Heads::new::<C>(self);
        let mut best = None;
        for reflected in [true, false] {
            let tails = if reflected { &TAILS[..] } else { &TAILS[..1] };
            let mut targets = TAILS.map(|_| None);
            for (targets, tail) in targets.iter_mut().zip(tails).filter(|(_, tail)| wanted(tail)) {
                *targets = self.targets::<C>(tail, reflected);
            }
            for head in heads(self.network).filter(|head| reflected || head.mirrored) {
                let Some(register) = registers.register::<C>(&head, reflected) else { continue };
                let tails = tails.iter().take(if head.plain { TAILS.len() } else { 1 });
                for (tail, targets) in tails.zip(&targets) {
                    let Some(targets) = targets else { continue };
                    // Nothing at all has a value too.
                    if head.first == First::BehindBth && targets.len == 0 {
                        continue;
                    }
                    for (finish, target) in FINISHES.iter().zip(targets.registers) {
                        if register == target {
                            let found = explanation(&head, tail, finish, reflected);
                            best = better(best, found);
                        }
                    }
                }
            }
        }
        best
    }

    /// The registers behind the BTH that each way to finish calls for, if the packet has such a
    /// tail.
    fn targets<C: Crc32>(&self, tail: &Tail, reflected: bool) -> Option<Targets> {
        if tail.needs.is_some_and(|part| self.len(part) == 0) {
            return None;
        }
        let icrc = if tail.at_frame_end { self.frame_end() } else { self.icrc };
        let mut crc = C::resume(0);
        let mut len = 0;
        for part in tail.parts {
            self.pieces(*part, |bytes| {
                feed(&mut crc, bytes, reflected);
                len += bytes.len();
            });
        }
        // A packet's length fits.
        let back = Shift::back(u64::try_from(len).unwrap_or_default());
        let registers = FINISHES.each_ref().map(|finish| {
            let number =
                if finish.big_endian { u32::from_be_bytes(icrc) } else { u32::from_le_bytes(icrc) };
            let register = if finish.inverted { !number } else { number };
            let register = if reflected { register } else { register.reverse_bits() };
            back.apply(register ^ crc.state())
        });
        Some(Targets { registers, len })
    }
}

/// The mistakes of a hypothesis, where and how things start first.
fn explanation(
    head: &Head,
    tail: &Tail,
    finish: &Finish,
    reflected: bool,
) -> Option<IcrcDiagnosis> {
    let [first, seed] = head.mistakes;
    let bits = (!reflected).then_some(IcrcMistake::NotReflected);
    IcrcDiagnosis::of(
        (first.iter().chain(seed).copied())
            .chain(head.mask_mistakes.into_iter().flatten())
            .chain(tail.mistakes.iter().copied())
            .chain(bits)
            .chain(finish.mistakes.iter().copied()),
    )
}

/// The one with fewer mistakes; of two alike, the one tried first.
fn better(best: Option<IcrcDiagnosis>, found: Option<IcrcDiagnosis>) -> Option<IcrcDiagnosis> {
    match (best, found) {
        (Some(best), Some(found)) if found.count() < best.count() => Some(found),
        (None, found) => found,
        (best, _) => best,
    }
}

#[cfg(test)]
mod tests {
    use super::super::field::Network;
    use super::*;

    /// The values tried on a packet that has every part.
    fn values_tried(network: Network) -> usize {
        let tails = |head: Head| if head.plain { TAILS.len() } else { 1 };
        let mirrored = heads(network).filter(|head| head.mirrored).count();
        (heads(network).map(tails).sum::<usize>() + mirrored) * FINISHES.len()
    }

    #[test]
    fn chance_explains_less_than_one_damaged_packet_in_two_million() {
        for network in [Network::Ipv4, Network::Ipv6, Network::Lrh, Network::Grh] {
            let tried = values_tried(network);
            assert!((200..2048).contains(&tried), "{network:?}: {tried}");
        }
    }

    #[test]
    fn the_first_hypothesis_is_the_right_one_and_no_other_has_no_mistake() {
        for network in [Network::Ipv4, Network::Ipv6, Network::Lrh, Network::Grh] {
            let clean = |head: &Head| {
                explanation(head, &TAILS[0], &FINISHES[0], true).is_none()
                    && head.mistakes.iter().all(|mistakes| mistakes.is_empty())
                    && head.mask_mistakes == [None; 2]
            };
            assert!(clean(&heads(network).next().unwrap()));
            assert_eq!(heads(network).filter(clean).count(), 1);
        }
        assert!(TAILS[1..].iter().all(|tail| !tail.mistakes.is_empty() && tail.needs.is_some()));
        assert!(FINISHES[1..].iter().all(|finish| !finish.mistakes.is_empty()));
    }
}
