//! Payload against path MTU and DMA length (IBTA 9.7.4.1.6, C9-92).

use roce_codec::ib::{PathMtu, Position};

use super::Verdict;

/// The longest message: 2³¹ bytes (IBTA 9.7.4.1.6, C9-94).
pub const MAX_MESSAGE: u32 = 1 << 31;

/// How a length is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthFault {
    /// A First or Middle that is not exactly one path MTU.
    NotOneMtu,
    /// A Last without payload.
    EmptyLast,
    /// More than the path MTU.
    AboveMtu,
    /// A WRITE whose packets carry more or fewer bytes than its DMA length.
    NotDmaLen,
    /// A message above 2³¹ bytes.
    TooLong,
}

/// Payload of a packet against the path MTU.
#[inline]
#[must_use]
pub fn packet(position: Position, len: u32, mtu: Option<PathMtu>) -> Verdict<LengthFault> {
    if position == Position::Last && len == 0 {
        return Verdict::Fail(LengthFault::EmptyLast);
    }
    let Some(mtu) = mtu else { return Verdict::Unknown };
    match position {
        Position::First | Position::Middle if len != mtu.bytes() => {
            Verdict::Fail(LengthFault::NotOneMtu)
        }
        Position::Last | Position::Only if len > mtu.bytes() => {
            Verdict::Fail(LengthFault::AboveMtu)
        }
        _ => Verdict::Pass,
    }
}

/// Payload of a WRITE packet against what its DMA length leaves: all of it on the packet that
/// ends the message, less than all on the others.
#[inline]
#[must_use]
pub fn write(position: Position, len: u32, remaining: Option<u32>) -> Verdict<LengthFault> {
    match remaining {
        None => Verdict::Unknown,
        Some(remaining) if position.ends() && len == remaining => Verdict::Pass,
        Some(remaining) if !position.ends() && len < remaining => Verdict::Pass,
        Some(_) => Verdict::Fail(LengthFault::NotDmaLen),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_against_mtu() {
        use LengthFault::{AboveMtu, EmptyLast, NotOneMtu};
        use Position::{First, Last, Middle, Only};
        let mtu = PathMtu::Mtu1024;
        for (position, len, expect) in [
            (First, 1024, Verdict::Pass),
            (First, 1023, Verdict::Fail(NotOneMtu)),
            (Middle, 1000, Verdict::Fail(NotOneMtu)),
            (Middle, 1025, Verdict::Fail(NotOneMtu)),
            (Last, 0, Verdict::Fail(EmptyLast)),
            (Last, 1, Verdict::Pass),
            (Last, 1024, Verdict::Pass),
            (Last, 1025, Verdict::Fail(AboveMtu)),
            (Only, 0, Verdict::Pass),
            (Only, 1024, Verdict::Pass),
            (Only, 1025, Verdict::Fail(AboveMtu)),
        ] {
            assert_eq!(packet(position, len, Some(mtu)), expect, "{position:?} {len}");
        }
        assert_eq!(packet(First, 999, None), Verdict::Unknown);
    }

    #[test]
    fn payload_against_dma_len() {
        let fault = Verdict::Fail(LengthFault::NotDmaLen);
        assert_eq!(write(Position::Only, 5, Some(5)), Verdict::Pass);
        assert_eq!(write(Position::Only, 5, Some(6)), fault);
        assert_eq!(write(Position::First, 1024, Some(1025)), Verdict::Pass);
        assert_eq!(write(Position::First, 1024, Some(1024)), fault);
        assert_eq!(write(Position::Last, 2, Some(1)), fault);
        assert_eq!(write(Position::Last, 2, None), Verdict::Unknown);
    }
}
