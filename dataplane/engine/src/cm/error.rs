//! Why a call is refused.

use core::fmt;

use roce_codec::cm::CmEmitError;

use super::CmState;

/// Why a call was refused; nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CmCallError {
    /// No connection has this ID.
    UnknownId,
    /// The connection is in a state in which this cannot be asked.
    State(CmState),
    /// All slots are taken.
    NoSlot,
    /// All slots of listeners are taken.
    NoListener,
    /// The service is listened for already.
    Listening,
    /// Nobody listens for the service.
    NotListening,
    /// The transport service is not a connection's: reliable or unreliable.
    Transport,
    /// Too much private data or additional information.
    PrivateData(CmEmitError),
}

impl fmt::Display for CmCallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownId => f.write_str("no connection has this ID"),
            Self::State(state) => write!(f, "not in state {state}"),
            Self::NoSlot => f.write_str("all connection slots are taken"),
            Self::NoListener => f.write_str("all listener slots are taken"),
            Self::Listening => f.write_str("the service is listened for already"),
            Self::NotListening => f.write_str("nobody listens for the service"),
            Self::Transport => f.write_str("only reliable and unreliable connections are managed"),
            Self::PrivateData(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for CmCallError {}
