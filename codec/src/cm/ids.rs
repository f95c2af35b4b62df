//! The numbers that name connections and those who make them.

use core::fmt;

/// Names a connection to one of its ends, 32 bits, chosen by that end (IBTA Vol. 1, 12.7). 0 in
/// a REJ of a sender that has none yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CommunicationId(pub u32);

impl fmt::Display for CommunicationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// The EUI-64 of a channel adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CaGuid(pub u64);

impl fmt::Display for CaGuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}
