//! The order of First, Middle, Last and Only (IBTA 9.7.4.1.2, "responder - OpCode sequence
//! check").

use roce_codec::ib::{Operation, Position};

use super::Verdict;

/// The message a receiver is in the middle of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InMessage {
    /// None: the next packet must start one.
    #[default]
    None,
    /// A SEND.
    Send,
    /// An RDMA WRITE.
    Write,
}

impl InMessage {
    /// The state after a packet that fits.
    #[inline]
    #[must_use]
    pub const fn after(operation: Operation, position: Position) -> Self {
        match (operation, position) {
            (Operation::Send, Position::First | Position::Middle) => Self::Send,
            (Operation::Write, Position::First | Position::Middle) => Self::Write,
            _ => Self::None,
        }
    }
}

/// How the order is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceFault {
    /// A Middle or Last outside a message.
    NotStarted,
    /// A First, an Only or another operation inside a message.
    NotFinished,
}

/// Whether a request of this operation and position may come now.
#[inline]
#[must_use]
pub fn check(
    state: Option<InMessage>,
    operation: Operation,
    position: Position,
) -> Verdict<SequenceFault> {
    let Some(state) = state else { return Verdict::Unknown };
    let continues = match state {
        InMessage::None if position.starts() => return Verdict::Pass,
        InMessage::None => return Verdict::Fail(SequenceFault::NotStarted),
        InMessage::Send => Operation::Send,
        InMessage::Write => Operation::Write,
    };
    if operation == continues && !position.starts() {
        Verdict::Pass
    } else {
        Verdict::Fail(SequenceFault::NotFinished)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_table() {
        use Operation::{ReadRequest, Send, Write};
        use Position::{First, Last, Middle, Only};
        for operation in [Send, Write, ReadRequest] {
            for position in [First, Middle, Last, Only] {
                let at = |state| check(Some(state), operation, position);
                let starts = matches!(position, First | Only);
                let expect =
                    |legal, fault| if legal { Verdict::Pass } else { Verdict::Fail(fault) };
                assert_eq!(at(InMessage::None), expect(starts, SequenceFault::NotStarted));
                for (state, own) in [(InMessage::Send, Send), (InMessage::Write, Write)] {
                    let legal = operation == own && !starts;
                    assert_eq!(at(state), expect(legal, SequenceFault::NotFinished));
                }
                assert_eq!(check(None, operation, position), Verdict::Unknown);
            }
        }
    }
}
