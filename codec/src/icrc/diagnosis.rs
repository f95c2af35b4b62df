//! Why a wrong ICRC is as it is: the known mistakes, tried one after another.
//!
//! Off the hot path. The value is recomputed under each hypothesis of `hypothesis.rs` and compared
//! with what the packet carries. A CRC being linear, the payload is summed up once a tail: the
//! register that must have stood at the end of the BTH follows from what the packet carries, and
//! each head, some 70 bytes, is held against that. Nothing grows with heads times payload, and no
//! table beyond the kernel's own is needed.
//!
//! A false explanation: fewer than 2048 values are tried, so a packet damaged at random is
//! explained by chance less than once in 2³² / 2¹¹, two million damaged packets. Damage that
//! amounts to a mistake (an identification rewritten from 0) is told as that mistake.

use core::fmt;

use roce_crc::{Crc32, Shift};

use super::field::{LONGEST_HEAD, LRH, Network};
use super::hypothesis::{Before, FINISHES, Finish, First, Head, Part, TAILS, Tail, heads};
use super::mistake::IcrcMistake;
use super::{ICRC_LEN, IcrcVerdict, NotCheckable};
use crate::Frame;
use crate::ib::Bth;

/// Bytes of the two Ethernet addresses.
const ADDRESSES: usize = 12;

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

/// A packet whose ICRC is wrong, in the parts that hypotheses speak of.
#[derive(Debug)]
pub(crate) struct Suspect<'a> {
    pub(crate) network: Network,
    /// Before the network header: Ethernet.
    pub(crate) link: &'a [u8],
    /// The LRH; `None` where eight bytes of ones stand for it.
    pub(crate) lrh: Option<[u8; LRH]>,
    /// From the network header (of IP, or the GRH) to the end of the BTH.
    pub(crate) headers: &'a [u8],
    pub(crate) ext: &'a [u8],
    pub(crate) payload: [&'a [u8]; 2],
    pub(crate) pad: &'a [u8],
    pub(crate) icrc: [u8; ICRC_LEN],
    pub(crate) trailer: [&'a [u8]; 2],
    pub(crate) is_flush: bool,
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
        let mut best = None;
        for reflected in [true, false] {
            let targets = TAILS
                .each_ref()
                .map(|tail| wanted(tail).then(|| self.targets::<C>(tail, reflected)).flatten());
            for head in heads(self.network).filter(|head| reflected || head.plain) {
                let Some(register) = self.register_after::<C>(&head, reflected) else { continue };
                let tails = if head.plain && reflected { TAILS.len() } else { 1 };
                for (tail, targets) in TAILS.iter().zip(&targets).take(tails) {
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

    /// The register behind the BTH by this hypothesis; `None` if the packet has no such part.
    fn register_after<C: Crc32>(&self, head: &Head, reflected: bool) -> Option<u32> {
        let end = self.network.bth_at() + Bth::LEN;
        let mut bytes = [0xff; LONGEST_HEAD];
        if let Some(lrh) = &self.lrh {
            bytes.first_chunk_mut::<LRH>()?.copy_from_slice(lrh);
        }
        for (to, from) in bytes.get_mut(LRH..end)?.iter_mut().zip(self.headers) {
            *to = *from;
        }
        for (fields, value) in [(head.zeroes, 0x00), (head.ones, 0xff)] {
            for (at, mask) in fields.iter().filter_map(|field| field.place(self.network)) {
                for (byte, mask) in bytes.get_mut(at..)?.iter_mut().zip(mask) {
                    *byte = *byte & !mask | value & mask;
                }
            }
        }
        let (lrh, _) = bytes.split_first_chunk::<LRH>()?;
        let before: &[u8] = match head.before {
            Before::Lrh => lrh,
            Before::Nothing => &[],
            Before::Zeroes => &[0; LRH],
        };
        let (link, start) = match head.first {
            First::Ethernet => (self.link, LRH),
            First::Vlan => (self.link.get(ADDRESSES..)?, LRH),
            First::Network => (&[][..], LRH),
            First::Udp => (&[][..], self.network.udp_at()?),
            // The packet starts there anyway.
            First::Bth if self.network.bth_at() == LRH => return None,
            First::Bth => (&[][..], self.network.bth_at()),
            First::BehindBth => (&[][..], end),
        };
        // A link layer of nothing but an EtherType has no tag to cover.
        if matches!(head.first, First::Ethernet | First::Vlan) && link.len() <= size_of::<u16>() {
            return None;
        }
        let mut crc = C::resume(head.seed);
        for piece in [before, link, bytes.get(start..end)?] {
            feed(&mut crc, piece, reflected);
        }
        Some(crc.state())
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

    fn len(&self, part: Part) -> usize {
        let mut len: usize = 0;
        self.pieces(part, |bytes| len = len.saturating_add(bytes.len()));
        len
    }

    /// Hands out the bytes of a part, piece by piece.
    fn pieces(&self, part: Part, mut take: impl FnMut(&[u8])) {
        match part {
            Part::Ext => take(self.ext),
            Part::Payload => self.payload.into_iter().for_each(take),
            Part::Pad => take(self.pad),
            Part::ZeroPad => take([0; 3].get(..self.pad.len()).unwrap_or_default()),
            Part::FlushBth => match self.headers.last_chunk::<{ Bth::LEN }>() {
                Some(bth) if self.is_flush => take(bth),
                _ => {}
            },
            Part::Trailer => self.trailer.into_iter().for_each(take),
            Part::BeforeFrameEnd => {
                let [mut a, mut b] = self.trailer;
                // The frame's last four bytes are not among those; if the trailer is shorter
                // than they are, they reach into the field where the ICRC belongs.
                let field = self.icrc.get(..(a.len() + b.len()).min(ICRC_LEN)).unwrap_or_default();
                let cut = b.len().min(ICRC_LEN);
                b = b.get(..b.len() - cut).unwrap_or_default();
                a = a.get(..a.len().saturating_sub(ICRC_LEN - cut)).unwrap_or_default();
                [field, a, b].into_iter().for_each(take);
            }
        }
    }

    /// The frame's last four bytes.
    fn frame_end(&self) -> [u8; ICRC_LEN] {
        let mut end = [0; ICRC_LEN];
        let all = self.icrc.iter().chain(self.trailer[0]).chain(self.trailer[1]);
        for (to, from) in end.iter_mut().rev().zip(all.rev()) {
            *to = *from;
        }
        end
    }
}

/// Feeds bytes, the bits of each in either order.
fn feed<C: Crc32>(crc: &mut C, bytes: &[u8], reflected: bool) {
    if reflected {
        crc.update(bytes);
        return;
    }
    for chunk in bytes.chunks(64) {
        let mut mirrored = [0; 64];
        for (to, from) in mirrored.iter_mut().zip(chunk) {
            *to = from.reverse_bits();
        }
        crc.update(mirrored.get(..chunk.len()).unwrap_or_default());
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
    use super::super::field::{Field, Fields};
    use super::*;
    use IcrcMistake as M;
    use roce_crc::Crc;

    /// The values tried on a packet that has every part.
    fn values_tried(network: Network) -> usize {
        let plain = heads(network).filter(|head| head.plain).count();
        let all = heads(network).count();
        // Plain heads with every tail and once more by mirrored bits, the others with one tail.
        (plain * (TAILS.len() + 1) + (all - plain)) * FINISHES.len()
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

    const LRH_BYTES: [u8; 8] = [0x20, 0x12, 0x37, 0x5c, 0x00, 0x0e, 0x17, 0xd2];
    const BTH: [u8; 12] = [0x0a, 0x70, 0xff, 0xff, 0x41, 0x00, 0x01, 0x23, 0x80, 0x00, 0x00, 0x05];
    const RETH: [u8; 16] = [0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0x12, 0x34, 0, 0, 0, 1];

    /// A native WRITE only of four bytes, behind a GRH or not, with this ICRC.
    fn native(grh: &[u8], icrc: u32) -> Vec<M> {
        let headers = [grh, &BTH].concat();
        let suspect = Suspect {
            network: if grh.is_empty() { Network::Lrh } else { Network::Grh },
            link: &[],
            lrh: Some(LRH_BYTES),
            headers: &headers,
            ext: &RETH,
            payload: [b"x\0\0\0", b""],
            pad: &[],
            icrc: icrc.to_be_bytes(),
            trailer: [&[], &[]],
            is_flush: false,
        };
        // That it is wrong is given.
        let verdict = IcrcVerdict::Invalid { expected: [0; 4], found: [0; 4] };
        let diagnosis = suspect.diagnose::<Crc>(verdict);
        diagnosis.map(|diagnosis| diagnosis.mistakes().collect()).unwrap_or_default()
    }

    /// Values by Python's `zlib.crc32` over what the mistaken sender would cover.
    #[test]
    fn native_packets_with_the_local_route_header_masked_wrongly() {
        let lane = Fields::of(&[Field::VirtualLane]);
        let route = Fields::of(&[Field::LocalRoute]);
        // Right without a GRH, where only the virtual lane counts as ones: no explanation.
        assert_eq!(native(&[], 0x715e_8774), []);
        assert_eq!(native(&[], 0x0158_e22f), [M::Unmasked(lane)]);
        assert_eq!(native(&[], 0x1304_b261), [M::Overmasked(route)]);
        assert_eq!(native(&[], 0x5742_efd0), [M::NothingMasked]);
        assert_eq!(native(&[], 0x6be3_0e12), [M::OnesLeftOut]);

        let mut grh = [0; 40];
        grh[..8].copy_from_slice(&[0x6c, 0x01, 0x23, 0x45, 0x00, 0x28, 0x1b, 0x3f]);
        for (byte, value) in grh[8..].iter_mut().zip(1..) {
            *byte = value;
        }
        assert_eq!(native(&grh, 0x8923_6752), []);
        assert_eq!(native(&grh, 0x545e_faa6), [M::Unmasked(route)]);
    }
}
