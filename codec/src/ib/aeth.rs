//! The acknowledge extended transport header.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-----------------------------------------------+
//! |   Syndrome    |          Message sequence number              |
//! +---------------+-----------------------------------------------+
//!
//! Syndrome   0 0 0 C C C C C   ACK, C: credit code (31: none)
//!            0 0 1 T T T T T   RNR NAK, T: timer code
//!            0 1 0 x x x x x   reserved
//!            0 1 1 N N N N N   NAK, N: NAK code
//! ```
//!
//! 4 bytes. IBTA Vol. 1, 9.3, tables 45 to 47.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{HeaderKind, Msn};
use crate::wire::{put, take, to_u24, u24};
use crate::{EmitError, Layer, ParseError};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct AethWire {
    syndrome: u8,
    msn: [u8; 3],
}

/// An acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Aeth {
    /// ACK, RNR NAK or NAK, and its argument.
    pub syndrome: Syndrome,
    /// Messages completed.
    pub msn: Msn,
}

impl Aeth {
    /// Bytes of the header.
    pub const LEN: usize = 4;

    /// Parses the header at the front of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`].
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let (wire, _) = take::<AethWire>(bytes, Layer::Ext(HeaderKind::Aeth))?;
        Ok(Self { syndrome: Syndrome(wire.syndrome), msn: Msn::new(u24(wire.msn)) })
    }

    /// Writes the header at the front of `out`.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        put(&AethWire { syndrome: self.syndrome.0, msn: to_u24(self.msn.get()) }, out)
    }
}

/// The syndrome byte; [`Syndrome::kind`] says what it means.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Syndrome(pub u8);

/// What a syndrome means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum AethKind {
    /// Everything up to this PSN arrived.
    Ack(Credits),
    /// Receiver not ready: try again after the timer.
    RnrNak(RnrTimer),
    /// Refused.
    Nak(NakCode),
    /// A reserved syndrome.
    Reserved,
}

impl Syndrome {
    /// An ACK that says nothing of credits.
    pub const ACK: Self = Self(0x1f);

    /// An ACK with credits.
    #[inline]
    #[must_use]
    pub const fn ack(credits: Credits) -> Self {
        Self(credits.0)
    }

    /// A receiver-not-ready NAK.
    #[inline]
    #[must_use]
    pub const fn rnr_nak(timer: RnrTimer) -> Self {
        Self(0x20 | timer.0)
    }

    /// A NAK.
    #[inline]
    #[must_use]
    pub const fn nak(code: NakCode) -> Self {
        Self(0x60 | code.code())
    }

    /// What the byte means.
    #[inline]
    #[must_use]
    pub const fn kind(self) -> AethKind {
        let argument = self.0 & 0x1f;
        match self.0 >> 5 {
            0 => AethKind::Ack(Credits(argument)),
            1 => AethKind::RnrNak(RnrTimer(argument)),
            3 => match NakCode::from_code(argument) {
                Some(code) => AethKind::Nak(code),
                None => AethKind::Reserved,
            },
            _ => AethKind::Reserved,
        }
    }
}

impl fmt::Debug for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Syndrome({:#04x})", self.0)
    }
}

impl fmt::Display for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            AethKind::Ack(credits) => match credits.count() {
                Some(count) => write!(f, "ACK, {count} credits"),
                None => f.write_str("ACK"),
            },
            AethKind::RnrNak(timer) => write!(f, "RNR NAK, {} us", timer.wait_ns() / 1000),
            AethKind::Nak(code) => write!(f, "NAK, {code}"),
            AethKind::Reserved => write!(f, "reserved syndrome {:#04x}", self.0),
        }
    }
}

/// Why a request was refused for good (or, for a sequence error, from which PSN to send again).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum NakCode {
    /// A PSN is missing; the NAK carries the one expected.
    PsnSequenceError,
    /// The request cannot be carried out as it stands.
    InvalidRequest,
    /// Key, range or rights.
    RemoteAccessError,
    /// The responder itself failed.
    RemoteOperationalError,
    /// Reliable datagram only.
    InvalidRdRequest,
}

impl NakCode {
    /// The five-bit code.
    #[inline]
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::PsnSequenceError => 0,
            Self::InvalidRequest => 1,
            Self::RemoteAccessError => 2,
            Self::RemoteOperationalError => 3,
            Self::InvalidRdRequest => 4,
        }
    }

    /// From a five-bit code; `None` if reserved.
    #[inline]
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::PsnSequenceError,
            1 => Self::InvalidRequest,
            2 => Self::RemoteAccessError,
            3 => Self::RemoteOperationalError,
            4 => Self::InvalidRdRequest,
            _ => return None,
        })
    }
}

impl fmt::Display for NakCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PsnSequenceError => "PSN sequence error",
            Self::InvalidRequest => "invalid request",
            Self::RemoteAccessError => "remote access error",
            Self::RemoteOperationalError => "remote operational error",
            Self::InvalidRdRequest => "invalid RD request",
        })
    }
}

/// A five-bit RNR timer code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RnrTimer(u8);

impl RnrTimer {
    /// From the lower five bits of `code`.
    #[must_use]
    pub const fn new(code: u8) -> Self {
        Self(code & 0x1f)
    }

    /// The code, 0 to 31.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The least time to wait, in nanoseconds (IBTA table 46). Code 0 is the longest.
    #[must_use]
    pub const fn wait_ns(self) -> u64 {
        const TENS_OF_US: [u32; 32] = [
            65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
            1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
        ];
        TENS_OF_US[(self.0 & 0x1f) as usize] as u64 * 10_000
    }
}

/// A five-bit end-to-end credit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Credits(u8);

impl Credits {
    /// No limit is stated.
    pub const NONE: Self = Self(31);

    const COUNTS: [u16; 31] = [
        0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
        2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
    ];

    /// The code of the largest count that is not above `receives`, the receive work requests
    /// posted and not used up.
    #[must_use]
    pub fn of_receives(receives: u32) -> Self {
        let mut code = 0;
        for &count in Self::COUNTS.get(1..).unwrap_or_default() {
            if u32::from(count) > receives {
                break;
            }
            code += 1;
        }
        Self(code)
    }

    /// Messages that may be sent beyond the MSN beside it; `None` if unlimited.
    #[must_use]
    pub fn count(self) -> Option<u16> {
        Self::COUNTS.get(usize::from(self.0)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syndromes_seen_on_wires() {
        let kind = |byte| Syndrome(byte).kind();
        assert_eq!(kind(0x1f), AethKind::Ack(Credits::NONE));
        assert_eq!(kind(0x60), AethKind::Nak(NakCode::PsnSequenceError));
        assert_eq!(kind(0x61), AethKind::Nak(NakCode::InvalidRequest));
        assert_eq!(kind(0x62), AethKind::Nak(NakCode::RemoteAccessError));
        assert_eq!(kind(0x63), AethKind::Nak(NakCode::RemoteOperationalError));
        assert_eq!(kind(0x65), AethKind::Reserved);
        assert_eq!(kind(0x40), AethKind::Reserved);
        assert_eq!(kind(0x9f), AethKind::Reserved);
        let AethKind::RnrNak(timer) = kind(0x39) else { panic!("0x39 is an RNR NAK") };
        assert_eq!((timer.code(), timer.wait_ns()), (25, 61_440_000));
    }

    #[test]
    fn rnr_timer_table() {
        for (code, ns) in [
            (0, 655_360_000),
            (1, 10_000),
            (12, 640_000),
            (13, 960_000),
            (14, 1_280_000),
            (31, 491_520_000),
        ] {
            assert_eq!(RnrTimer::new(code).wait_ns(), ns, "code {code}");
        }
    }

    #[test]
    fn credit_table() {
        for (code, count) in [(0, 0), (1, 1), (4, 4), (5, 6), (6, 8), (30, 32768)] {
            assert_eq!(Credits(code).count(), Some(count));
            assert_eq!(Credits::of_receives(u32::from(count)), Credits(code));
        }
        assert_eq!(Credits::NONE.count(), None);
        assert_eq!(Credits::of_receives(5), Credits(4));
        assert_eq!(Credits::of_receives(u32::MAX), Credits(30));
        assert_eq!(Syndrome::ack(Credits::of_receives(8)), Syndrome(6));
    }

    #[test]
    fn every_syndrome_round_trips() {
        for byte in 0..=255 {
            let aeth = Aeth { syndrome: Syndrome(byte), msn: Msn::new(0x01_0203) };
            let mut out = [0; 4];
            aeth.emit(&mut out).unwrap();
            assert_eq!(out, [byte, 1, 2, 3]);
            assert_eq!(Aeth::parse(&out), Ok(aeth));
            assert!(!std::format!("{}", aeth.syndrome).is_empty());
        }
    }
}
