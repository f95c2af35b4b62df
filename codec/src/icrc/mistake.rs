//! The known ways to compute an ICRC wrongly.

use core::fmt;

use super::field::Fields;

/// One thing that a sender did wrong when it computed or placed an ICRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum IcrcMistake {
    /// The field is zero: not yet filled in when the packet was captured.
    NotFilled,
    /// The pad bytes are left out. Linux rxe did so until the end of 2019.
    PadLeftOut,
    /// The pad bytes went in as zeroes and stand in the packet as something else.
    PadAsZeroes,
    /// BTH and extension headers went in once more, unmasked, where the payload belongs: Linux
    /// rxe's FLUSH, for which its opcode table has no payload offset.
    HeadersTwice,
    /// The most significant byte is stored first.
    BigEndian,
    /// The complement at the end is missing.
    NotInverted,
    /// The bits of each byte went in most significant first: CRC-32 as it is not reflected.
    NotReflected,
    /// The eight bytes of ones that stand for a local route header were left out (in native
    /// InfiniBand, the header itself).
    OnesLeftOut,
    /// Eight bytes of zeroes stand where eight bytes of ones belong.
    ZeroesForOnes,
    /// The register started from zero, not from ones.
    ZeroSeed,
    /// No field was set to ones.
    NothingMasked,
    /// These fields were not set to ones.
    Unmasked(Fields),
    /// These fields were set to ones and must not be.
    Overmasked(Fields),
    /// The fields to be set to ones were set to zeroes.
    MaskedWithZeroes,
    /// These fields were still zero.
    NotYetSet(Fields),
    /// Everything from the Ethernet addresses on is covered.
    EthernetIncluded,
    /// What lies behind the Ethernet addresses is covered: VLAN tags and EtherType.
    VlanIncluded,
    /// The network header is left out: only UDP and what follows it is covered.
    NetworkLeftOut,
    /// Only the BTH and what follows it is covered.
    StartsAtBth,
    /// Only what follows the BTH is covered.
    StartsBehindBth,
    /// The extension headers are left out.
    ExtLeftOut,
    /// Payload and pad are left out.
    PayloadLeftOut,
    /// What lies behind the packet, Ethernet padding, is covered.
    TrailerIncluded,
    /// It stands at the frame's end, behind the Ethernet padding, and not where the IP packet
    /// ends.
    AtFrameEnd,
}

impl fmt::Display for IcrcMistake {
    /// What the sender did wrong, as a sentence without its full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFilled => "it is zero: the sender's hardware had not filled it in yet",
            Self::PadLeftOut => "the pad bytes are left out, as Linux rxe up to 2019 does",
            Self::PadAsZeroes => "the pad bytes went in as zeroes, which they are not",
            Self::HeadersTwice => {
                "after BTH and extension headers it covers the same bytes once more, unmasked, as \
                 Linux rxe does with a FLUSH"
            }
            Self::BigEndian => "it is stored most significant byte first",
            Self::NotInverted => "the complement at the end is missing",
            Self::NotReflected => "the bits of each byte went in most significant first",
            Self::OnesLeftOut => "the eight bytes of ones before the packet are left out",
            Self::ZeroesForOnes => "eight bytes of zeroes stand for the eight bytes of ones",
            Self::ZeroSeed => "the register starts from zero and not from ones",
            Self::NothingMasked => "no field is set to ones before it is computed",
            Self::Unmasked(fields) => {
                return write!(f, "it covers what may change on the way: {fields}");
            }
            Self::Overmasked(fields) => {
                return write!(f, "it leaves out what it must cover: {fields}");
            }
            Self::MaskedWithZeroes => "the masked fields are set to zeroes and not to ones",
            Self::NotYetSet(fields) => {
                return write!(f, "it was computed while still zero: {fields}");
            }
            Self::EthernetIncluded => "it covers the Ethernet header",
            Self::VlanIncluded => "it covers the VLAN tags",
            Self::NetworkLeftOut => "the IP header is left out",
            Self::StartsAtBth => "it covers the BTH and what follows, and nothing before",
            Self::StartsBehindBth => "it covers what follows the BTH and nothing before",
            Self::ExtLeftOut => "the extension headers are left out",
            Self::PayloadLeftOut => "payload and pad bytes are left out",
            Self::TrailerIncluded => "it covers the Ethernet padding behind the packet",
            Self::AtFrameEnd => {
                "it stands at the end of the frame, behind the Ethernet padding, and not at the \
                 end of the IP packet"
            }
        })
    }
}
