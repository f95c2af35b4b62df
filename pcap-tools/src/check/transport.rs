//! The transport rules as pure functions: what the responder decides live, the checker holds
//! against a capture.

use roce_codec::ib::{OpcodeInfo, Operation, PathMtu, Position, Psn, Service};

/// Where a PSN lies relative to the one expected (IBTA 9.7.1, 9.7.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PsnClass {
    /// It is the one expected.
    Expected,
    /// So many PSNs are missing before it.
    Ahead(u32),
    /// It was expected so many PSNs ago.
    Behind(u32),
}

/// Classifies a PSN.
#[inline]
pub(super) fn classify(psn: Psn, expected: Psn) -> PsnClass {
    match psn.distance_from(expected) {
        0 => PsnClass::Expected,
        ahead @ 1.. => PsnClass::Ahead(ahead.unsigned_abs()),
        behind => PsnClass::Behind(behind.unsigned_abs()),
    }
}

/// Why a request cannot follow the one before it (IBTA 9.7.4.1, opcode sequence).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SequenceError {
    /// A Middle or Last with no message to continue.
    NothingToContinue,
    /// A message of this operation is not finished.
    Unfinished(Operation),
}

/// The operation of the message that is still open after a packet, if `open` was before it.
///
/// # Errors
/// [`SequenceError`] if the packet cannot come next.
#[inline]
pub(super) fn next(
    open: Option<Operation>,
    info: &OpcodeInfo,
) -> Result<Option<Operation>, SequenceError> {
    match open {
        Some(operation) if info.position.starts() || info.operation != operation => {
            Err(SequenceError::Unfinished(operation))
        }
        None if !info.position.starts() => Err(SequenceError::NothingToContinue),
        _ => Ok(left_open(info)),
    }
}

/// The operation that a packet leaves open, whatever came before it.
#[inline]
pub(super) fn left_open(info: &OpcodeInfo) -> Option<Operation> {
    (!info.position.ends()).then_some(info.operation)
}

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

/// Checks a payload against its opcode alone.
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

/// Whether a payload fits the path MTU: equal to it in a First or Middle, not above it elsewhere.
#[inline]
pub(super) fn fits_mtu(info: &OpcodeInfo, len: usize, mtu: PathMtu) -> bool {
    let Ok(len) = u32::try_from(len) else { return false };
    match info.position {
        Position::First | Position::Middle => len == mtu.bytes(),
        Position::Last | Position::Only => len <= mtu.bytes(),
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
    fn psn_classes_wrap() {
        let top = Psn::new(0xff_ffff);
        assert_eq!(classify(Psn::new(0), top), PsnClass::Ahead(1));
        assert_eq!(classify(top, Psn::new(0)), PsnClass::Behind(1));
        assert_eq!(classify(top, top), PsnClass::Expected);
    }

    #[test]
    fn messages_start_go_on_and_end() {
        let follow = |open, opcode: Opcode| next(open, opcode.info());
        let write = Some(Operation::Write);
        assert_eq!(follow(None, Opcode::RC_RDMA_WRITE_FIRST), Ok(write));
        assert_eq!(follow(write, Opcode::RC_RDMA_WRITE_MIDDLE), Ok(write));
        assert_eq!(follow(write, Opcode::RC_RDMA_WRITE_LAST_IMM), Ok(None));
        assert_eq!(follow(None, Opcode::RC_SEND_ONLY), Ok(None));
        assert_eq!(follow(None, Opcode::RC_RDMA_READ_REQUEST), Ok(None));
        let unfinished = Err(SequenceError::Unfinished(Operation::Write));
        for opcode in [
            Opcode::RC_RDMA_WRITE_FIRST,
            Opcode::RC_RDMA_WRITE_ONLY,
            Opcode::RC_SEND_LAST,
            Opcode::RC_RDMA_READ_REQUEST,
        ] {
            assert_eq!(follow(write, opcode), unfinished, "{opcode}");
        }
        let nothing = Err(SequenceError::NothingToContinue);
        assert_eq!(follow(None, Opcode::RC_SEND_LAST_INV), nothing);
        assert_eq!(follow(None, Opcode::RC_RDMA_WRITE_MIDDLE), nothing);
    }

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
        let first = Opcode::RC_RDMA_WRITE_FIRST.info();
        assert!(fits_mtu(first, 256, PathMtu::Mtu256));
        assert!(!fits_mtu(first, 256, PathMtu::Mtu512));
        assert!(fits_mtu(Opcode::RC_SEND_LAST.info(), 256, PathMtu::Mtu512));
    }
}
