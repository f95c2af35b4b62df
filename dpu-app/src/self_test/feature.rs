//! What is neither an operation nor a refusal nor a repair.

use roce_dataplane::port::Port;
use roce_engine::MwType;

use super::lab::Lab;
use super::{Failure, Host, Report, datagram, gather, shared, window};

/// Something that work requests and queue pairs may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// A datagram with a Q_Key that is not the queue pair's, and one with the right one.
    QKey,
    /// Receives from a shared queue, and its limit.
    SharedReceives,
    /// A memory window of type 1.
    WindowType1,
    /// A memory window of type 2 (2B).
    WindowType2,
    /// Lists of scatter-gather elements, and inline data.
    Gather,
}

impl Feature {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::QKey, Self::SharedReceives, Self::WindowType1, Self::WindowType2, Self::Gather];

    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::QKey => "datagram with a wrong Q_Key",
            Self::SharedReceives => "shared receives and their limit",
            Self::WindowType1 => "memory window of type 1",
            Self::WindowType2 => "memory window of type 2",
            Self::Gather => "scatter-gather lists and inline data",
        }
    }

    /// Runs it, on connections of its own.
    pub(super) fn run<P: Port, H: Host>(self, lab: &mut Lab<'_, '_, P, H>) -> Result<(), Failure> {
        match self {
            Self::QKey => datagram::wrong_qkey(lab)?,
            Self::SharedReceives => shared::run(lab)?,
            Self::WindowType1 => window::run(MwType::Type1, lab)?,
            Self::WindowType2 => window::run(MwType::Type2, lab)?,
            Self::Gather => gather::run(lab)?,
        }
        lab.host.passed(&Report::Feature(self));
        Ok(())
    }
}
