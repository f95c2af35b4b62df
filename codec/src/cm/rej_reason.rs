//! Why a REJ rejects.

use core::fmt;

/// The reason of a REJ, 16 bits (IBTA Vol. 1, 12.6.7.2). Codes without a name here are reserved or
/// younger than this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RejReason(pub u16);

/// What a REJ's additional information is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Ari {
    /// None.
    None,
    /// The CA GUID of the sender, 8 bytes, where the receiver cannot know it otherwise.
    CaGuid,
    /// A GID that would do, 16 bytes; in a redirection, that of the port.
    Gid,
    /// A LID that would do, 2 bytes.
    Lid,
    /// A value that would do, 1 byte, of the field that the reason names.
    Byte,
    /// A flow label that would do, 20 bits of 3 bytes.
    FlowLabel,
    /// The [`ClassPortInfo`](super::ClassPortInfo) of the connection manager to ask, 72 bytes.
    ClassPortInfo,
    /// Whatever the consumers agree on, up to 72 bytes.
    Consumer,
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $words:literal, $ari:ident;)*) => {
        impl RejReason {
            $($(#[$doc])* pub const $name: Self = Self($code);)*

            /// Every reason with a name.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// In words; `None` if the code has no name.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some($words),)*
                    _ => None,
                }
            }

            /// What the additional information is; `None` if the code has no name. A REJ may go
            /// without: its [`ari_len`](super::Rej::ari_len) is then 0.
            #[must_use]
            pub const fn ari(self) -> Option<Ari> {
                match self {
                    $(Self::$name => Some(Ari::$ari),)*
                    _ => None,
                }
            }
        }
    };
}

reasons! {
    /// No QP is available.
    NO_QP = 1, "no QP available", None;
    /// No end-to-end context is available.
    NO_EEC = 2, "no EEC available", None;
    /// No other resource is available.
    NO_RESOURCES = 3, "no resources available", None;
    /// The sender waited for a message in vain.
    TIMEOUT = 4, "timeout", CaGuid;
    /// The request is not supported.
    UNSUPPORTED_REQUEST = 5, "unsupported request", None;
    /// A communication ID names nothing.
    INVALID_COMM_ID = 6, "invalid communication ID", None;
    /// Communication IDs, QPN and EECN do not belong together.
    INVALID_COMM_INSTANCE = 7, "invalid communication instance", None;
    /// Nobody serves the service ID. What Linux answers where nobody listens.
    INVALID_SERVICE_ID = 8, "invalid service ID", None;
    /// The service does not run over that transport.
    INVALID_TRANSPORT = 9, "invalid transport service type", None;
    /// The QPN is that of a connection which the receiver still holds.
    STALE_CONNECTION = 10, "stale connection", None;
    /// There is no such reliable datagram channel.
    RDC_NOT_EXIST = 11, "RDC does not exist", None;
    /// The primary path's remote GID.
    PRIMARY_GID_REJECTED = 12, "primary remote port GID rejected", Gid;
    /// The primary path's remote LID.
    PRIMARY_LID_REJECTED = 13, "primary remote port LID rejected", Lid;
    /// The primary path's service level.
    INVALID_PRIMARY_SL = 14, "invalid primary SL", Byte;
    /// The primary path's traffic class.
    INVALID_PRIMARY_TRAFFIC_CLASS = 15, "invalid primary traffic class", Byte;
    /// The primary path's hop limit.
    INVALID_PRIMARY_HOP_LIMIT = 16, "invalid primary hop limit", Byte;
    /// The primary path's packet rate.
    INVALID_PRIMARY_PACKET_RATE = 17, "invalid primary packet rate", Byte;
    /// The alternate path's remote GID.
    ALTERNATE_GID_REJECTED = 18, "alternate remote port GID rejected", Gid;
    /// The alternate path's remote LID.
    ALTERNATE_LID_REJECTED = 19, "alternate remote port LID rejected", Lid;
    /// The alternate path's service level.
    INVALID_ALTERNATE_SL = 20, "invalid alternate SL", Byte;
    /// The alternate path's traffic class.
    INVALID_ALTERNATE_TRAFFIC_CLASS = 21, "invalid alternate traffic class", Byte;
    /// The alternate path's hop limit.
    INVALID_ALTERNATE_HOP_LIMIT = 22, "invalid alternate hop limit", Byte;
    /// The alternate path's packet rate.
    INVALID_ALTERNATE_PACKET_RATE = 23, "invalid alternate packet rate", Byte;
    /// Another connection manager and port must be asked.
    PORT_AND_CM_REDIRECTION = 24, "port and CM redirection", ClassPortInfo;
    /// Another port must be connected to.
    PORT_REDIRECTION = 25, "port redirection", Gid;
    /// The path MTU is too large.
    INVALID_PATH_MTU = 26, "invalid path MTU", Byte;
    /// Too few responder resources for what the consumer needs.
    INSUFFICIENT_RESPONDER_RESOURCES = 27, "insufficient responder resources", None;
    /// The consumer refuses: what `rdma_reject` sends.
    CONSUMER_REJECT = 28, "consumer reject", Consumer;
    /// The RNR retry count.
    RNR_RETRY_COUNT_REJECT = 29, "RNR retry count reject", None;
    /// The REQ's communication ID is in use.
    DUPLICATE_LOCAL_COMM_ID = 30, "duplicate local communication ID", None;
    /// The class version.
    UNSUPPORTED_CLASS_VERSION = 31, "unsupported class version", None;
    /// The primary path's flow label.
    INVALID_PRIMARY_FLOW_LABEL = 32, "invalid primary flow label", FlowLabel;
    /// The alternate path's flow label.
    INVALID_ALTERNATE_FLOW_LABEL = 33, "invalid alternate flow label", FlowLabel;
    /// The vendor's options in the attribute modifier.
    VENDOR_OPTION_NOT_SUPPORTED = 35, "vendor option not supported", None;
}

impl fmt::Display for RejReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "reason {}", self.0),
        }
    }
}
