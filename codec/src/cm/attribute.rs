//! What a MAD carries: the attribute ID.

use core::fmt;

/// An attribute ID, 16 bits (IBTA Vol. 1, 13.4.8 and 16.7.3). From 0x10 on its meaning depends on
/// the management class; the names here are those of the connection manager.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct AttributeId(pub u16);

impl AttributeId {
    /// ClassPortInfo, of every class.
    pub const CLASS_PORT_INFO: Self = Self(0x0001);
    /// ConnectRequest.
    pub const REQ: Self = Self(0x0010);
    /// MsgRcptAck.
    pub const MRA: Self = Self(0x0011);
    /// ConnectReject.
    pub const REJ: Self = Self(0x0012);
    /// ConnectReply.
    pub const REP: Self = Self(0x0013);
    /// ReadyToUse.
    pub const RTU: Self = Self(0x0014);
    /// DisconnectRequest.
    pub const DREQ: Self = Self(0x0015);
    /// DisconnectReply.
    pub const DREP: Self = Self(0x0016);
    /// ServiceIDResReq.
    pub const SIDR_REQ: Self = Self(0x0017);
    /// ServiceIDResReqResp.
    pub const SIDR_REP: Self = Self(0x0018);
    /// LoadAlternatePath.
    pub const LAP: Self = Self(0x0019);
    /// AlternatePathResponse.
    pub const APR: Self = Self(0x001a);
    /// SuggestAlternatePath.
    pub const SAP: Self = Self(0x001b);
    /// SuggestPathResponse.
    pub const SPR: Self = Self(0x001c);

    /// Its short name, `REQ` say; `None` if the connection manager has no such attribute.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::CLASS_PORT_INFO => "ClassPortInfo",
            Self::REQ => "REQ",
            Self::MRA => "MRA",
            Self::REJ => "REJ",
            Self::REP => "REP",
            Self::RTU => "RTU",
            Self::DREQ => "DREQ",
            Self::DREP => "DREP",
            Self::SIDR_REQ => "SIDR_REQ",
            Self::SIDR_REP => "SIDR_REP",
            Self::LAP => "LAP",
            Self::APR => "APR",
            Self::SAP => "SAP",
            Self::SPR => "SPR",
            _ => return None,
        })
    }
}

impl fmt::Debug for AttributeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AttributeId({:#06x})", self.0)
    }
}

impl fmt::Display for AttributeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#06x}", self.0),
        }
    }
}
