//! What a wrong ICRC may have been computed over, as data.
//!
//! A hypothesis is a [`Head`] (what comes before the packet, where the packet starts, which
//! fields are ones or zeroes), a [`Tail`] (what follows the BTH, and where the ICRC stands), a
//! [`Finish`] (how the register becomes four bytes) and the order of the bits. Each part that is
//! not as it should be carries the mistakes it stands for.
//!
//! Not here, because it cannot be recomputed: an IPv4 identification, length or checksum that was
//! later overwritten by something other than zero; a TTL from before a router changed it (an
//! unmasked TTL only shows on the sender's own wire); the Ethernet FCS, which covers the ICRC and
//! so cannot be covered by it.

use super::field::{Field, Fields, Network, masked};
use super::mistake::IcrcMistake as M;

/// Where the covered part of a packet starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    /// The Ethernet addresses.
    Ethernet,
    /// What follows them, tags first.
    Vlan,
    /// The network header.
    Network,
    /// UDP.
    Udp,
    /// The BTH.
    Bth,
    /// What follows the BTH.
    BehindBth,
}

/// What goes in before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// The LRH, or the eight bytes of ones that stand for it.
    Lrh,
    /// Nothing.
    Nothing,
    /// Eight bytes of zeroes.
    Zeroes,
}

/// Everything up to the end of the BTH.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    /// The register before any byte.
    pub(super) seed: u32,
    pub(super) before: Before,
    pub(super) first: First,
    /// What is set to ones.
    pub(super) ones: Fields,
    /// What is set to zeroes.
    pub(super) zeroes: Fields,
    /// Masked as it should be or not at all: tried with every tail.
    pub(super) plain: bool,
    /// Tried with the bits of each byte mirrored, too.
    pub(super) mirrored: bool,
    pub(super) mistakes: [&'static [M]; 2],
    /// What is wrong with the masks.
    pub(super) mask_mistakes: [Option<M>; 2],
}

impl Head {
    /// Whether it covers what it should, fields aside.
    pub(super) fn covers_all(&self) -> bool {
        self.seed == ONES && self.before == Before::Lrh && self.first == First::Network
    }
}

/// The register of ones, and the one that somebody may have started from instead.
const ONES: u32 = roce_crc::INITIAL;
const ZERO: u32 = 0;

/// Starts of the packet itself: what comes before, with its mistakes.
const SEEDS: [(u32, Before, &[M]); 5] = [
    (ONES, Before::Lrh, &[]),
    (ONES, Before::Nothing, &[M::OnesLeftOut]),
    (ONES, Before::Zeroes, &[M::ZeroesForOnes]),
    (ZERO, Before::Lrh, &[M::ZeroSeed]),
    (ZERO, Before::Nothing, &[M::ZeroSeed, M::OnesLeftOut]),
];

/// Where else the covered part may start: tried with the first two of `SEEDS`.
const ELSEWHERE: [(First, &[M]); 5] = [
    (First::Ethernet, &[M::EthernetIncluded]),
    (First::Vlan, &[M::VlanIncluded]),
    (First::Udp, &[M::NetworkLeftOut]),
    (First::Bth, &[M::StartsAtBth]),
    (First::BehindBth, &[M::StartsBehindBth]),
];

/// What some set to ones besides.
const OVERMASKED: [Fields; 7] = [
    Fields::of(&[Field::LocalRoute]),
    Fields::of(&[Field::IpVersion]),
    Fields::of(&[Field::Identification]),
    Fields::of(&[Field::Fragment]),
    Fields::of(&[Field::SrcPort]),
    Fields::of(&[Field::Resv7]),
    Fields::of(&[Field::AckReq, Field::Resv7]),
];

/// What some fill in after computing the ICRC.
const FILLED_LATE: Fields = Fields::of(&[Field::Identification, Field::IpLength, Field::UdpLength]);

/// Fields as ones and zeroes, and what is wrong with that.
type Mask = (Fields, Fields, [Option<M>; 2]);

/// The masks tried, the right one first.
fn masks(network: Network) -> impl Iterator<Item = Mask> {
    let right = masked(network);
    let none = Fields::NONE;
    let unmasked = right.subsets().map(move |left| {
        let mistake = if left.is_empty() {
            None
        } else if left == right {
            Some(M::NothingMasked)
        } else {
            Some(M::Unmasked(left))
        };
        (right.without(left), none, [mistake, None])
    });
    let has = move |fields: &Fields| fields.iter().all(|field| field.place(network).is_some());
    let over = OVERMASKED
        .into_iter()
        .filter(move |fields| has(fields) && !fields.without(right).is_empty())
        .map(move |fields| (right.union(fields), none, [Some(M::Overmasked(fields)), None]));
    let late = FILLED_LATE
        .subsets()
        .filter(move |fields| has(fields) && !fields.is_empty())
        .map(move |fields| (right, fields, [Some(M::NotYetSet(fields)), None]));
    let checksum = Fields::of(&[Field::IpChecksum]);
    let rest = [
        (none, right, [Some(M::MaskedWithZeroes), None]),
        // Nothing masked, and the checksum, which is computed last, not there yet.
        (none, checksum, [Some(M::NothingMasked), Some(M::NotYetSet(checksum))]),
    ];
    unmasked.chain(over).chain(late).chain(rest)
}

/// The heads tried, the right one first.
pub(super) fn heads(network: Network) -> impl Iterator<Item = Head> {
    let right = masked(network);
    let here = masks(network).map(move |(ones, zeroes, mask_mistakes)| Head {
        seed: ONES,
        before: Before::Lrh,
        first: First::Network,
        ones,
        zeroes,
        plain: zeroes.is_empty() && (ones == right || ones.is_empty()),
        mirrored: zeroes.is_empty() && (ones == right || ones.is_empty()),
        mistakes: [&[], &[]],
        mask_mistakes,
    });
    let seeds = SEEDS.into_iter().skip(1).map(|seed| (First::Network, &[][..], seed));
    let elsewhere = ELSEWHERE.into_iter().flat_map(|(first, mistakes)| {
        SEEDS.into_iter().take(2).map(move |seed| (first, mistakes, seed))
    });
    let plain = seeds.chain(elsewhere).flat_map(move |(first, mistakes, seed)| {
        [(right, None), (Fields::NONE, Some(M::NothingMasked))].map(move |(ones, mistake)| Head {
            seed: seed.0,
            before: seed.1,
            first,
            ones,
            zeroes: Fields::NONE,
            plain: true,
            mirrored: first == First::Network && seed.0 == ONES,
            mistakes: [mistakes, seed.2],
            mask_mistakes: [mistake, None],
        })
    });
    here.chain(plain)
}

/// A part of what lies behind the BTH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Ext,
    Payload,
    Pad,
    /// As many zeroes as there are pad bytes.
    ZeroPad,
    /// The BTH as it stands, if the packet is a FLUSH.
    FlushBth,
    /// What lies behind the ICRC.
    Trailer,
    /// What lies between the pad and the frame's last four bytes.
    BeforeFrameEnd,
}

/// Everything behind the BTH, and where the ICRC is.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) parts: &'static [Part],
    /// Whether the ICRC is the last four bytes of the frame.
    pub(super) at_frame_end: bool,
    /// The part without which this tail is no other than the right one.
    pub(super) needs: Option<Part>,
    pub(super) mistakes: &'static [M],
}

const fn tail(parts: &'static [Part], needs: Part, mistakes: &'static [M]) -> Tail {
    Tail { parts, at_frame_end: false, needs: Some(needs), mistakes }
}

/// The tails tried, the right one first.
pub(super) const TAILS: [Tail; 9] = {
    use Part::*;
    [
        Tail { parts: &[Ext, Payload, Pad], at_frame_end: false, needs: None, mistakes: &[] },
        tail(&[Ext, Payload], Pad, &[M::PadLeftOut]),
        tail(&[Ext, Payload, ZeroPad], Pad, &[M::PadAsZeroes]),
        tail(&[Ext, FlushBth, Ext], FlushBth, &[M::HeadersTwice]),
        tail(&[Payload, Pad], Ext, &[M::ExtLeftOut]),
        tail(&[Ext], Payload, &[M::PayloadLeftOut]),
        tail(&[Ext, Payload, Pad, Trailer], Trailer, &[M::TrailerIncluded]),
        Tail { at_frame_end: true, ..tail(&[Ext, Payload, Pad], Trailer, &[M::AtFrameEnd]) },
        Tail {
            at_frame_end: true,
            ..tail(
                &[Ext, Payload, Pad, BeforeFrameEnd],
                Trailer,
                &[M::AtFrameEnd, M::TrailerIncluded],
            )
        },
    ]
};

/// How the register becomes bytes.
#[derive(Debug)]
pub(super) struct Finish {
    pub(super) inverted: bool,
    pub(super) big_endian: bool,
    pub(super) mistakes: &'static [M],
}

/// The ways to finish, the right one first.
pub(super) const FINISHES: [Finish; 4] = [
    Finish { inverted: true, big_endian: false, mistakes: &[] },
    Finish { inverted: true, big_endian: true, mistakes: &[M::BigEndian] },
    Finish { inverted: false, big_endian: false, mistakes: &[M::NotInverted] },
    Finish { inverted: false, big_endian: true, mistakes: &[M::NotInverted, M::BigEndian] },
];
