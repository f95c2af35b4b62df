//! The transport's decisions as pure functions, shared by the responder, which knows everything,
//! and by the capture checker, which may not: what is not known is `None`, and the answer may be
//! [`Verdict::Unknown`].

pub mod credits;
pub mod flush;
pub mod length;
pub mod psn;
pub mod sequence;

/// What a rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict<F> {
    /// It holds.
    Pass,
    /// It is broken, and how.
    Fail(F),
    /// It cannot be told from what is known.
    Unknown,
}

impl<F> Verdict<F> {
    /// The fault, if the rule is broken.
    pub fn fault(self) -> Option<F> {
        match self {
            Self::Fail(fault) => Some(fault),
            Self::Pass | Self::Unknown => None,
        }
    }
}
