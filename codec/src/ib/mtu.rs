//! The path MTU.

use core::fmt;

/// The largest payload of one packet: five sizes, coded 1 to 5 (IBTA 9.7.3, 12.7.13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum PathMtu {
    /// 256 bytes.
    Mtu256 = 1,
    /// 512 bytes.
    Mtu512 = 2,
    /// 1024 bytes.
    #[default]
    Mtu1024 = 3,
    /// 2048 bytes.
    Mtu2048 = 4,
    /// 4096 bytes.
    Mtu4096 = 5,
}

impl PathMtu {
    /// All five, smallest first.
    pub const ALL: [Self; 5] =
        [Self::Mtu256, Self::Mtu512, Self::Mtu1024, Self::Mtu2048, Self::Mtu4096];

    /// Bytes of payload.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> u32 {
        128 << self.code()
    }

    /// The code that messages carry, 1 to 5.
    #[inline]
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Mtu256 => 1,
            Self::Mtu512 => 2,
            Self::Mtu1024 => 3,
            Self::Mtu2048 => 4,
            Self::Mtu4096 => 5,
        }
    }

    /// From a code; `None` unless 1 to 5.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Mtu256,
            2 => Self::Mtu512,
            3 => Self::Mtu1024,
            4 => Self::Mtu2048,
            5 => Self::Mtu4096,
            _ => return None,
        })
    }

    /// From a size in bytes; `None` unless it is one of the five.
    #[must_use]
    pub fn from_bytes(bytes: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|mtu| mtu.bytes() == bytes)
    }

    /// The largest one whose packets fit an IP packet of `ip_mtu` bytes, whatever headers they
    /// carry: IPv6 (40), UDP (8), BTH (12), AtomicETH (28, the longest extension) and ICRC (4)
    /// are allowed for.
    #[must_use]
    pub fn largest_within(ip_mtu: usize) -> Option<Self> {
        let room = u32::try_from(ip_mtu.saturating_sub(92)).unwrap_or(u32::MAX);
        Self::ALL.into_iter().rev().find(|mtu| mtu.bytes() <= room)
    }

    /// Packets that `len` bytes take: at least one.
    #[inline]
    #[must_use]
    pub const fn packets(self, len: u32) -> u32 {
        let packets = len.div_ceil(self.bytes());
        if packets == 0 { 1 } else { packets }
    }
}

impl fmt::Display for PathMtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_codes() {
        let table = [(1, 256), (2, 512), (3, 1024), (4, 2048), (5, 4096)];
        for (code, bytes) in table {
            let mtu = PathMtu::from_code(code).unwrap();
            assert_eq!((mtu.bytes(), mtu.code()), (bytes, code));
            assert_eq!(PathMtu::from_bytes(bytes), Some(mtu));
        }
        assert_eq!(PathMtu::from_code(0), None);
        assert_eq!(PathMtu::from_code(6), None);
        assert_eq!(PathMtu::from_bytes(1500), None);
    }

    #[test]
    fn packets_of_a_message() {
        let mtu = PathMtu::Mtu1024;
        for (len, packets) in [(0, 1), (1, 1), (1024, 1), (1025, 2), (3000, 3), (1 << 31, 1 << 21)]
        {
            assert_eq!(mtu.packets(len), packets, "{len}");
        }
    }

    #[test]
    fn what_an_interface_carries() {
        assert_eq!(PathMtu::largest_within(1500), Some(PathMtu::Mtu1024));
        assert_eq!(PathMtu::largest_within(4200), Some(PathMtu::Mtu4096));
        assert_eq!(PathMtu::largest_within(4187), Some(PathMtu::Mtu2048));
        assert_eq!(PathMtu::largest_within(300), None);
    }
}
