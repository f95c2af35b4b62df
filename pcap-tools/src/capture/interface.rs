//! An interface of a pcapng section: link type and clock.

use std::num::NonZeroU64;

use super::LinkType;
use super::byte_order::ByteOrder;
use super::pcapng::options;

/// Seconds of a timestamp tick, as `if_tsresol` states them, turned into how to get nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ticks {
    /// A tick is so many nanoseconds.
    Multiply(u64),
    /// So many ticks are a nanosecond.
    Divide(u64),
    /// A tick is 2⁻ⁿ seconds.
    Binary(u8),
}

impl Ticks {
    /// From the option: the top bit chooses between powers of ten and of two.
    fn of_resolution(resolution: u8) -> Self {
        let exponent = resolution & 0x7f;
        if resolution & 0x80 != 0 {
            return Self::Binary(exponent);
        }
        match exponent.checked_sub(9) {
            None | Some(0) => Self::Multiply(10_u64.pow(u32::from(9 - exponent.min(9)))),
            // Finer than 10⁻²⁸ s: 64 bits of ticks do not last a nanosecond.
            Some(beyond) => Self::Divide(10_u64.checked_pow(u32::from(beyond)).unwrap_or(u64::MAX)),
        }
    }

    fn to_ns(self, ticks: u64) -> u64 {
        match self {
            Self::Multiply(factor) => ticks.saturating_mul(factor),
            Self::Divide(divisor) => ticks / divisor,
            Self::Binary(exponent) => {
                let ns = (u128::from(ticks) * 1_000_000_000) >> exponent;
                u64::try_from(ns).unwrap_or(u64::MAX)
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Interface {
    pub(super) link: LinkType,
    pub(super) snaplen: u32,
    /// `if_fcslen`: bytes at the end of each frame.
    pub(super) fcs_len: u8,
    /// `if_speed`: bits a second.
    pub(super) link_bps: Option<NonZeroU64>,
    ticks: Ticks,
    /// `if_tsoffset`: nanoseconds to add.
    offset_ns: i64,
}

impl Interface {
    /// From the body of an interface description block; `None` if it is too short.
    pub(super) fn parse(order: ByteOrder, body: &[u8]) -> Option<Self> {
        let mut interface = Self {
            link: LinkType(order.u16(body, 0)?),
            snaplen: order.u32(body, 4)?,
            fcs_len: 0,
            link_bps: None,
            ticks: Ticks::of_resolution(6),
            offset_ns: 0,
        };
        for (code, value) in options(order, body.get(8..)?) {
            match (code, value) {
                // 0 is what some writers put for a speed they do not know.
                (8, value) => interface.link_bps = order.u64(value, 0).and_then(NonZeroU64::new),
                (9, &[resolution, ..]) => interface.ticks = Ticks::of_resolution(resolution),
                (13, &[len, ..]) => interface.fcs_len = len,
                (14, value) => {
                    let seconds = order.u64(value, 0).unwrap_or_default().cast_signed();
                    interface.offset_ns = seconds.saturating_mul(1_000_000_000);
                }
                _ => {}
            }
        }
        Some(interface)
    }

    pub(super) fn timestamp_ns(&self, high: u32, low: u32) -> u64 {
        let ticks = u64::from(high) << 32 | u64::from(low);
        self.ticks.to_ns(ticks).saturating_add_signed(self.offset_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resolution_gives_nanoseconds() {
        for (resolution, ticks, ns) in [
            (6, 1_500_000, 1_500_000_000),
            (9, 1_500_000_000, 1_500_000_000),
            (0, 3, 3_000_000_000),
            (3, 1_500, 1_500_000_000),
            (12, 1_500_000_000_000, 1_500_000_000),
            (0x94, 3 << 19, 1_500_000_000),
            (0x80, 3, 3_000_000_000),
            (0x80 | 30, 1 << 30, 1_000_000_000),
        ] {
            assert_eq!(Ticks::of_resolution(resolution).to_ns(ticks), ns, "{resolution:#x}");
        }
    }

    #[test]
    fn absurd_resolutions_saturate() {
        for resolution in 0..=255 {
            let ticks = Ticks::of_resolution(resolution);
            ticks.to_ns(0);
            ticks.to_ns(u64::MAX);
        }
    }

    #[test]
    fn an_offset_is_added() {
        let mut body = vec![1, 0, 0, 0, 0, 0, 0, 0];
        body.extend([14, 0, 8, 0, 100, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 0, 0, 0, 0]);
        let interface = Interface::parse(ByteOrder::Little, &body).unwrap();
        assert_eq!(interface.timestamp_ns(0, 5), 105_000_000_000);
        assert_eq!(interface.link, LinkType::ETHERNET);
    }
}
