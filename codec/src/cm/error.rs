//! What can be wrong with a MAD, or with values that are to become one.

use core::fmt;

use super::{AttributeId, Method, MgmtClass};

/// Why bytes are not a message of the connection manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CmError {
    /// The bytes end before what is to be read does.
    Truncated {
        /// Bytes needed.
        needed: usize,
        /// Bytes there are.
        available: usize,
    },
    /// A base version other than 1.
    BaseVersion(u8),
    /// A MAD of another management class.
    Class(MgmtClass),
    /// A class version other than 2. A REQ of another version is answered with
    /// [`RejReason::UNSUPPORTED_CLASS_VERSION`](super::RejReason::UNSUPPORTED_CLASS_VERSION).
    ClassVersion(u8),
    /// A method other than Send. [`ClassPortInfo`](super::ClassPortInfo) is got and set; the
    /// messages are sent.
    Method(Method),
    /// An attribute that is no message.
    Attribute(AttributeId),
}

impl fmt::Display for CmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { needed, available } => {
                write!(f, "{needed} bytes needed, {available} are there")
            }
            Self::BaseVersion(found) => write!(f, "MAD base version {found} is not 1"),
            Self::Class(found) => write!(f, "MAD of class {found}, not of the connection manager"),
            Self::ClassVersion(found) => write!(f, "connection manager of version {found}, not 2"),
            Self::Method(found) => {
                write!(f, "method {found} carries no connection manager message")
            }
            Self::Attribute(found) => {
                write!(f, "attribute {found} is no connection manager message")
            }
        }
    }
}

impl core::error::Error for CmError {}

#[cfg(feature = "defmt")]
impl defmt::Format for CmError {
    fn format(&self, f: defmt::Formatter<'_>) {
        match *self {
            Self::Truncated { needed, available } => {
                // defmt cuts a usize to 32 bits where it has 64.
                let [needed, available] =
                    [needed, available].map(|len| u64::try_from(len).unwrap_or(u64::MAX));
                defmt::write!(f, "Truncated {{ needed: {}, available: {} }}", needed, available);
            }
            Self::BaseVersion(found) => defmt::write!(f, "BaseVersion({})", found),
            Self::Class(found) => defmt::write!(f, "Class({})", found),
            Self::ClassVersion(found) => defmt::write!(f, "ClassVersion({})", found),
            Self::Method(found) => defmt::write!(f, "Method({})", found),
            Self::Attribute(found) => defmt::write!(f, "Attribute({})", found),
        }
    }
}

/// Why values cannot be written as a MAD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CmEmitError {
    /// The buffer is too short.
    NoRoom {
        /// Bytes needed.
        needed: usize,
        /// Bytes there are.
        available: usize,
    },
    /// Private data or additional information is longer than its field.
    TooLong {
        /// Bytes given.
        len: usize,
        /// Bytes the field has.
        room: usize,
    },
}

impl fmt::Display for CmEmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoRoom { needed, available } => {
                write!(f, "{needed} bytes needed, the buffer has {available}")
            }
            Self::TooLong { len, room } => {
                write!(f, "{len} bytes given, the message's field has {room}")
            }
        }
    }
}

impl core::error::Error for CmEmitError {}

#[cfg(feature = "defmt")]
impl defmt::Format for CmEmitError {
    fn format(&self, f: defmt::Formatter<'_>) {
        let wide = |len: usize| u64::try_from(len).unwrap_or(u64::MAX);
        match *self {
            Self::NoRoom { needed, available } => defmt::write!(
                f,
                "NoRoom {{ needed: {}, available: {} }}",
                wide(needed),
                wide(available)
            ),
            Self::TooLong { len, room } => {
                defmt::write!(f, "TooLong {{ len: {}, room: {} }}", wide(len), wide(room));
            }
        }
    }
}
