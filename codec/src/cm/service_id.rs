//! What a REQ asks to be connected to.

use core::fmt;

/// Names a service, 64 bits (IBTA Vol. 1, 12.7 and Annex A3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ServiceId(pub u64);

impl fmt::Display for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

/// Whose ports a service of the RDMA IP CM Service is named by: an IP protocol number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PortSpace(pub u8);

impl PortSpace {
    /// TCP's ports: connections.
    pub const TCP: Self = Self(6);
    /// UDP's ports: datagrams.
    pub const UDP: Self = Self(17);
}

impl fmt::Display for PortSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TCP => f.write_str("TCP"),
            Self::UDP => f.write_str("UDP"),
            Self(protocol) => write!(f, "protocol {protocol}"),
        }
    }
}

/// A service of the RDMA IP CM Service: a port of a port space (IBTA Vol. 1, Annex A11).
///
/// ```text
///  byte  0  1  2  3  4   5         6  7
///       00 00 00 00 01   protocol  port
/// ```
///
/// ```
/// use roce_codec::cm::{PortSpace, RdmaCmServiceId, ServiceId};
///
/// let iser = RdmaCmServiceId { port_space: PortSpace::TCP, port: 3260 };
/// assert_eq!(ServiceId::from(iser), ServiceId(0x0106_0cbc));
/// assert_eq!(RdmaCmServiceId::from_service_id(ServiceId(0x0106_0cbc)), Some(iser));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RdmaCmServiceId {
    /// The port space.
    pub port_space: PortSpace,
    /// The port.
    pub port: u16,
}

impl RdmaCmServiceId {
    /// The five bytes that such service IDs begin with.
    pub const PREFIX: [u8; 5] = [0, 0, 0, 0, 1];

    /// Takes a service ID apart; `None` unless it begins with [`Self::PREFIX`].
    #[must_use]
    pub const fn from_service_id(id: ServiceId) -> Option<Self> {
        let [a, b, c, d, e, protocol, high, low] = id.0.to_be_bytes();
        match [a, b, c, d, e] {
            Self::PREFIX => Some(Self {
                port_space: PortSpace(protocol),
                port: u16::from_be_bytes([high, low]),
            }),
            _ => None,
        }
    }

    /// The service ID.
    #[must_use]
    pub const fn to_service_id(self) -> ServiceId {
        let [a, b, c, d, e] = Self::PREFIX;
        let [high, low] = self.port.to_be_bytes();
        ServiceId(u64::from_be_bytes([a, b, c, d, e, self.port_space.0, high, low]))
    }
}

impl From<RdmaCmServiceId> for ServiceId {
    fn from(id: RdmaCmServiceId) -> Self {
        id.to_service_id()
    }
}

impl fmt::Display for RdmaCmServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {}", self.port_space, self.port)
    }
}
