//! The packets of a capture for which an expression holds.

use crate::capture::Packet;
use crate::check::Profile;
use crate::field::Rows;

use super::Filter;

/// An expression, and what its packets are understood by: they come in the order of the capture,
/// each once.
#[derive(Debug)]
pub struct Selection {
    filter: Filter,
    rows: Rows,
}

impl Selection {
    /// Nothing is followed that the expression does not ask for.
    #[must_use]
    pub fn new(filter: Filter) -> Self {
        Self::with_profile(filter, Profile::default())
    }

    /// With verdicts by what is known of the devices.
    #[must_use]
    pub fn with_profile(filter: Filter, profile: Profile) -> Self {
        Self { rows: Rows::with_profile(filter.needs(), profile), filter }
    }

    /// Whether the next packet is meant.
    pub fn takes(&mut self, packet: &Packet<'_>) -> bool {
        self.filter.matches(&self.rows.row(packet))
    }
}
