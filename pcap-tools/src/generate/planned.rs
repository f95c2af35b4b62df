//! Packets that are yet to be sent, in values.

use roce_codec::cm::MAD_LEN;
use roce_codec::ib::{ExtHeaders, Opcode, Operation, Position, Psn, Service};

/// An end of a connection: the one that asked for it, or the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Active,
    Passive,
}

impl Side {
    pub(super) const BOTH: [Self; 2] = [Self::Active, Self::Passive];

    pub(super) fn other(self) -> Self {
        match self {
            Self::Active => Self::Passive,
            Self::Passive => Self::Active,
        }
    }

    pub(super) fn index(self) -> usize {
        match self {
            Self::Active => 0,
            Self::Passive => 1,
        }
    }
}

/// What a packet is, beyond what all of its connection have in common.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// A request or an answer.
    Transport {
        opcode: Opcode,
        psn: Psn,
        ack_req: bool,
        solicited: bool,
        /// Marked on its way.
        ce: bool,
        ext: ExtHeaders,
        payload_len: u16,
    },
    /// A congestion notification.
    Cnp,
    /// A management datagram between the queue pairs 1.
    Mad(Box<[u8; MAD_LEN]>),
}

/// A packet that is yet to be sent.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    pub(super) at_ns: u64,
    pub(super) from: Side,
    pub(super) kind: Kind,
}

/// What goes with the last packet of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    None,
    Immediate(u32),
    Invalidate(u32),
}

/// The opcode of a packet of a SEND or WRITE.
pub(super) fn opcode(
    service: Service,
    operation: Operation,
    position: Position,
    tail: Tail,
) -> Opcode {
    let write = operation == Operation::Write;
    let reliable = match (position, tail) {
        (Position::First, _) if write => Opcode::RC_RDMA_WRITE_FIRST,
        (Position::First, _) => Opcode::RC_SEND_FIRST,
        (Position::Middle, _) if write => Opcode::RC_RDMA_WRITE_MIDDLE,
        (Position::Middle, _) => Opcode::RC_SEND_MIDDLE,
        (Position::Last, Tail::Immediate(_)) if write => Opcode::RC_RDMA_WRITE_LAST_IMM,
        (Position::Last, _) if write => Opcode::RC_RDMA_WRITE_LAST,
        (Position::Last, Tail::Immediate(_)) => Opcode::RC_SEND_LAST_IMM,
        (Position::Last, Tail::Invalidate(_)) => Opcode::RC_SEND_LAST_INV,
        (Position::Last, Tail::None) => Opcode::RC_SEND_LAST,
        (Position::Only, Tail::Immediate(_)) if write => Opcode::RC_RDMA_WRITE_ONLY_IMM,
        (Position::Only, _) if write => Opcode::RC_RDMA_WRITE_ONLY,
        (Position::Only, Tail::Immediate(_)) => Opcode::RC_SEND_ONLY_IMM,
        (Position::Only, Tail::Invalidate(_)) => Opcode::RC_SEND_ONLY_INV,
        (Position::Only, Tail::None) => Opcode::RC_SEND_ONLY,
    };
    of_service(service, reliable)
}

/// The opcode of RC as another service has it: the upper three bits say which.
fn of_service(service: Service, reliable: Opcode) -> Opcode {
    match service {
        Service::Uc => Opcode(reliable.0 | Opcode::UC_SEND_FIRST.0),
        Service::Ud => Opcode(reliable.0 | (Opcode::UD_SEND_ONLY.0 & 0xe0)),
        _ => reliable,
    }
}

/// Where packet `index` of `count` stands in its message.
pub(super) fn position(index: u32, count: u32) -> Position {
    match (index == 0, index + 1 == count) {
        (true, true) => Position::Only,
        (true, false) => Position::First,
        (false, true) => Position::Last,
        (false, false) => Position::Middle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Held against the codec's table, which is typed from the specification.
    #[test]
    fn opcodes_are_what_was_asked_for() {
        for service in [Service::Rc, Service::Uc] {
            for operation in [Operation::Send, Operation::Write] {
                for (index, count) in [(0, 1), (0, 2), (1, 3), (1, 2)] {
                    for tail in [Tail::None, Tail::Immediate(0)] {
                        let position = position(index, count);
                        let info = opcode(service, operation, position, tail).info();
                        assert_eq!(
                            (info.service, info.operation, info.position),
                            (service, operation, position)
                        );
                        assert_eq!(
                            info.has_immediate(),
                            position.ends() && tail != Tail::None,
                            "{position:?}"
                        );
                    }
                }
            }
        }
        let datagram = opcode(Service::Ud, Operation::Send, Position::Only, Tail::Immediate(1));
        assert_eq!(datagram, Opcode::UD_SEND_ONLY_IMM);
    }
}
