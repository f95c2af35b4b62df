//! What a MAD says, in a few words.

use std::fmt;

use roce_codec::Frame;
use roce_codec::cm::{Mad, Message};

/// The connection manager's message in a packet: its name and the numbers by which connections
/// are followed. Of another MAD, what class and attribute it is.
pub(super) struct Cm<'a>(pub(super) Mad<'a>);

impl<'a> Cm<'a> {
    pub(super) fn of(frame: &Frame<'a>) -> Option<Self> {
        Mad::from_frame(frame).map(Self)
    }
}

impl fmt::Display for Cm<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Message::parse(&self.0) {
            Ok(message) => write!(f, "CM {message}"),
            Err(_) => {
                let header = self.0.header;
                let attribute = header.attribute.0;
                write!(f, "MAD {} {} attribute {attribute:#06x}", header.class, header.method)
            }
        }
    }
}
