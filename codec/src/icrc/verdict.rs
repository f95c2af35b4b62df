//! What checking an ICRC found, never a bare yes or no.

use core::fmt;

use super::ICRC_LEN;
use crate::ib::Bth;
use crate::{Frame, ParseError, Start};

/// What checking an ICRC found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IcrcVerdict {
    /// It is right.
    Valid,
    /// It is wrong. [`Frame::diagnose_icrc`] may know why.
    Invalid {
        /// What the packet's contents call for, in wire order.
        expected: [u8; ICRC_LEN],
        /// What the packet carries, in wire order.
        found: [u8; ICRC_LEN],
    },
    /// It cannot be told.
    NotCheckable(NotCheckable),
}

impl fmt::Display for IcrcVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Valid => f.write_str("valid"),
            Self::Invalid { expected, found } => {
                let [expected, found] = [expected, found].map(u32::from_be_bytes);
                write!(f, "{found:08x} invalid, {expected:08x} expected")
            }
            Self::NotCheckable(why) => write!(f, "not checkable: {why}"),
        }
    }
}

/// Why an ICRC cannot be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum NotCheckable {
    /// The capture cut the packet short.
    Truncated,
    /// The field is zero: captured before the sender's hardware filled it in. (One right ICRC in
    /// 2³² is zero; that one is [`IcrcVerdict::Valid`].)
    NotFilled,
    /// An IP fragment: the ICRC covers the whole packet and stands in its last fragment.
    Fragment,
    /// The IP header is not there: somebody took it off, and the ICRC covers it.
    OuterHeaderMissing,
}

impl fmt::Display for NotCheckable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the packet is cut by the capture",
            Self::NotFilled => "zero: captured before the hardware filled it in",
            Self::Fragment => "an IP fragment does not hold all that is covered",
            Self::OuterHeaderMissing => "the IP header, which is covered, is missing",
        })
    }
}

impl NotCheckable {
    /// Why a packet that does not parse has no ICRC to check; `None` if it is none of ours, or
    /// if its lengths are wrong and its end, where the ICRC stands, is not known.
    #[must_use]
    pub const fn of_error(error: ParseError) -> Option<Self> {
        match error {
            ParseError::Truncated { .. } => Some(Self::Truncated),
            ParseError::Fragment => Some(Self::Fragment),
            _ => None,
        }
    }
}

/// Checks the ICRC of any packet that can be told to be RoCEv2, cut ones and fragments included,
/// which [`Frame::parse`] refuses.
///
/// ```
/// use roce_codec::Start;
/// use roce_codec::icrc::{self, IcrcVerdict, NotCheckable};
///
/// // The first of two fragments.
/// let packet = [
///     0x45, 0x02, 0, 0x2c, 0, 1, 0x20, 0, 0x40, 0x11, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
///     0xc0, 0, 0x12, 0xb7, 0, 0x18, 0, 0,
///     0x04, 0x40, 0xff, 0xff, 0, 0, 1, 0x23, 0x80, 0, 0, 5, 0, 0, 0, 0,
/// ];
/// let verdict = icrc::verify([&packet, &[]], Start::Ip)?;
/// assert_eq!(verdict, IcrcVerdict::NotCheckable(NotCheckable::Fragment));
/// # Ok::<(), roce_codec::ParseError>(())
/// ```
///
/// # Errors
/// [`ParseError`]: another protocol, or lengths that disagree: there is no ICRC to speak of.
pub fn verify(segments: [&[u8]; 2], start: Start) -> Result<IcrcVerdict, ParseError> {
    match Frame::parse_captured(segments, start) {
        Ok(frame) => Ok(frame.verify_icrc()),
        Err(error) => match NotCheckable::of_error(error) {
            Some(why) => Ok(IcrcVerdict::NotCheckable(why)),
            None => Err(error),
        },
    }
}

/// What can be said of the ICRC of a UDP datagram without its IP header, as a UDP socket or a
/// tunnel's end hands it out: BTH to ICRC. Never more than why it is not checkable; that the
/// packet came whole is then for others to vouch for.
#[must_use]
pub fn verify_datagram(bth_to_icrc: &[u8]) -> IcrcVerdict {
    IcrcVerdict::NotCheckable(match bth_to_icrc.split_last_chunk::<ICRC_LEN>() {
        Some((covered, _)) if covered.len() < Bth::LEN => NotCheckable::Truncated,
        Some((_, icrc)) if *icrc == [0; ICRC_LEN] => NotCheckable::NotFilled,
        Some(_) => NotCheckable::OuterHeaderMissing,
        None => NotCheckable::Truncated,
    })
}
