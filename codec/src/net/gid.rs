//! The global identifier of a port.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A port's global identifier, 128 bits: on RoCEv2 its IP address, an IPv4 address in the mapped
/// form `::ffff:a.b.c.d` (IBTA Vol. 1, Annex A17).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// None given.
    pub const ZERO: Self = Self([0; 16]);

    /// The IP address that it is.
    #[must_use]
    pub fn ip(self) -> IpAddr {
        Ipv6Addr::from(self.0).to_canonical()
    }
}

impl From<IpAddr> for Gid {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => ip.into(),
            IpAddr::V6(ip) => ip.into(),
        }
    }
}

impl From<Ipv4Addr> for Gid {
    fn from(ip: Ipv4Addr) -> Self {
        Self(ip.to_ipv6_mapped().octets())
    }
}

impl From<Ipv6Addr> for Gid {
    fn from(ip: Ipv6Addr) -> Self {
        Self(ip.octets())
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gid({})", Ipv6Addr::from(self.0))
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.ip(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_address_is_mapped() {
        let bytes = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 1, 3];
        assert_eq!(Gid::from(IpAddr::V4(Ipv4Addr::new(10, 77, 1, 3))), Gid(bytes));
        assert_eq!(Gid(bytes).ip(), IpAddr::V4(Ipv4Addr::new(10, 77, 1, 3)));
        let link_local: Ipv6Addr = "fe80::5054:ff:fe00:3".parse().unwrap();
        assert_eq!(Gid::from(IpAddr::V6(link_local)).ip(), IpAddr::V6(link_local));
    }
}
