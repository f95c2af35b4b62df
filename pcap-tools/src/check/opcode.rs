//! Opcodes by what answers them, and payload lengths by opcode alone: what the checker asks beside
//! the engine's [`rules`](roce_engine::rules), which it shares with the responder.

use roce_codec::ib::{HeaderKind, OpcodeInfo, Operation, PathMtu, Position, Service};

/// Why a payload has the wrong length for its opcode (IBTA C9-92).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LengthError {
    /// The opcode carries none.
    NotAllowed,
    /// ATOMIC WRITE carries exactly eight bytes.
    NotEight,
    /// A First or Middle carries one path MTU: 256, 512, 1024, 2048 or 4096.
    NoMtu,
    /// A Last carries at least one byte.
    EmptyLast,
    /// More than the largest path MTU.
    AboveAnyMtu,
}

/// Checks a payload against its opcode, whatever the path MTU.
///
/// # Errors
/// [`LengthError`].
#[inline]
pub(super) fn length(info: &OpcodeInfo, len: usize) -> Result<(), LengthError> {
    if !info.payload {
        return if len == 0 { Ok(()) } else { Err(LengthError::NotAllowed) };
    }
    if info.operation == Operation::AtomicWrite {
        return if len == 8 { Ok(()) } else { Err(LengthError::NotEight) };
    }
    match info.position {
        Position::First | Position::Middle if mtu_of(len).is_none() => Err(LengthError::NoMtu),
        Position::Last if len == 0 => Err(LengthError::EmptyLast),
        _ if len > 4096 => Err(LengthError::AboveAnyMtu),
        _ => Ok(()),
    }
}

/// The path MTU of exactly `len` bytes.
#[inline]
pub(super) fn mtu_of(len: usize) -> Option<PathMtu> {
    PathMtu::from_bytes(u32::try_from(len).ok()?)
}

/// Whether a request takes a receive: the start of a SEND, the end of a WRITE with immediate.
pub(super) fn takes_receive(info: &OpcodeInfo) -> bool {
    match info.operation {
        Operation::Send => info.position.starts(),
        Operation::Write => info.headers.contains(HeaderKind::ImmDt),
        _ => false,
    }
}

/// Whether the service acknowledges and keeps order by PSN between two QPs.
#[inline]
pub(super) fn is_reliable(service: Service) -> bool {
    matches!(service, Service::Rc | Service::Xrc)
}

/// Whether an operation is answered by READ responses.
#[inline]
pub(super) fn is_read_like(operation: Operation) -> bool {
    matches!(operation, Operation::ReadRequest | Operation::Flush | Operation::AtomicWrite)
}

/// Whether an operation is answered by an atomic acknowledge.
#[inline]
pub(super) fn is_atomic(operation: Operation) -> bool {
    matches!(operation, Operation::CompareSwap | Operation::FetchAdd)
}

#[cfg(test)]
mod tests {
    use roce_codec::ib::Opcode;

    use super::*;

    #[test]
    fn lengths_by_opcode() {
        let check = |opcode: Opcode, len| length(opcode.info(), len);
        assert_eq!(check(Opcode::RC_SEND_MIDDLE, 1000), Err(LengthError::NoMtu));
        assert_eq!(check(Opcode::RC_SEND_MIDDLE, 1024), Ok(()));
        assert_eq!(check(Opcode::RC_SEND_LAST, 0), Err(LengthError::EmptyLast));
        assert_eq!(check(Opcode::RC_SEND_ONLY, 0), Ok(()));
        assert_eq!(check(Opcode::RC_SEND_ONLY, 4097), Err(LengthError::AboveAnyMtu));
        assert_eq!(check(Opcode::RC_ACKNOWLEDGE, 4), Err(LengthError::NotAllowed));
        assert_eq!(check(Opcode::RC_ATOMIC_WRITE, 4), Err(LengthError::NotEight));
    }
}
