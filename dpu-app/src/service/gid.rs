//! A port's address in the form that programs tell each other.

use core::net::{IpAddr, Ipv6Addr};

/// A port's address: an IPv6 address, or an IPv4 address mapped into one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The address it stands for.
    #[must_use]
    pub fn address(self) -> IpAddr {
        Ipv6Addr::from(self.0).to_canonical()
    }
}

impl From<IpAddr> for Gid {
    fn from(address: IpAddr) -> Self {
        Self(match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        })
    }
}
