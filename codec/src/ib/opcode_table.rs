//! The 256 rows of the opcode table, computed at build time from the two halves of the byte.

use super::{HeaderKind, HeaderSet, OpcodeClass, OpcodeInfo, Operation, Position, Service};

pub(super) static TABLE: [OpcodeInfo; 256] = table();

const fn table() -> [OpcodeInfo; 256] {
    let mut rows = [row(0); 256];
    let mut value: u8 = 0;
    loop {
        rows[value as usize] = row(value);
        if value == 255 {
            return rows;
        }
        value += 1;
    }
}

const fn row(value: u8) -> OpcodeInfo {
    use HeaderKind as H;
    use Operation as O;
    use Position as P;

    let service = match value >> 5 {
        0 => Service::Rc,
        1 => Service::Uc,
        2 => Service::Rd,
        3 => Service::Ud,
        4 => Service::Cnp,
        5 => Service::Xrc,
        _ => Service::Other,
    };
    let (operation, position) = match value & 0x1f {
        0x00 => (O::Send, P::First),
        0x01 => (O::Send, P::Middle),
        0x02 | 0x03 | 0x16 => (O::Send, P::Last),
        0x04 | 0x05 | 0x17 => (O::Send, P::Only),
        0x06 => (O::Write, P::First),
        0x07 => (O::Write, P::Middle),
        0x08 | 0x09 => (O::Write, P::Last),
        0x0a | 0x0b => (O::Write, P::Only),
        0x0c => (O::ReadRequest, P::Only),
        0x0d => (O::ReadResponse, P::First),
        0x0e => (O::ReadResponse, P::Middle),
        0x0f => (O::ReadResponse, P::Last),
        0x10 => (O::ReadResponse, P::Only),
        0x11 => (O::Acknowledge, P::Only),
        0x12 => (O::AtomicAcknowledge, P::Only),
        0x13 => (O::CompareSwap, P::Only),
        0x14 => (O::FetchAdd, P::Only),
        0x15 => (O::Resync, P::Only),
        0x1c => (O::Flush, P::Only),
        0x1d => (O::AtomicWrite, P::Only),
        _ => (O::Other, P::Only),
    };
    let known = !matches!(operation, O::Other)
        && match service {
            Service::Rc | Service::Xrc => !matches!(operation, O::Resync),
            Service::Uc => value & 0x1f <= 0x0b,
            Service::Rd => !matches!(value & 0x1f, 0x16 | 0x17),
            Service::Ud => matches!(value & 0x1f, 0x04 | 0x05),
            Service::Cnp => matches!(value & 0x1f, 0x00 | 0x01),
            Service::Other => false,
        };
    if !known {
        let class = if value >= 0xc0 { OpcodeClass::Manufacturer } else { OpcodeClass::Reserved };
        return OpcodeInfo {
            class,
            service,
            operation: O::Other,
            position: P::Only,
            headers: HeaderSet::EMPTY,
            headers_len: 0,
            payload: true,
        };
    }

    let mut headers = HeaderSet::EMPTY;
    let (operation, position) = if matches!(service, Service::Cnp) {
        headers = headers.with(H::CnpReserved);
        (O::Cnp, P::Only)
    } else {
        (operation, position)
    };
    let response = matches!(operation, O::ReadResponse | O::Acknowledge | O::AtomicAcknowledge);
    match service {
        Service::Rd => {
            headers = headers.with(H::Rdeth);
            if !response {
                headers = headers.with(H::Deth);
            }
        }
        Service::Ud => headers = headers.with(H::Deth),
        Service::Xrc if !response => headers = headers.with(H::Xrceth),
        _ => {}
    }
    match operation {
        O::Write if position.starts() => headers = headers.with(H::Reth),
        O::ReadRequest | O::AtomicWrite => headers = headers.with(H::Reth),
        O::Flush => headers = headers.with(H::Feth).with(H::Reth),
        O::CompareSwap | O::FetchAdd => headers = headers.with(H::AtomicEth),
        O::ReadResponse if !matches!(position, P::Middle) => headers = headers.with(H::Aeth),
        O::Acknowledge => headers = headers.with(H::Aeth),
        O::AtomicAcknowledge => headers = headers.with(H::Aeth).with(H::AtomicAckEth),
        _ => {}
    }
    if !matches!(service, Service::Cnp) {
        match value & 0x1f {
            0x03 | 0x05 | 0x09 | 0x0b => headers = headers.with(H::ImmDt),
            0x16 | 0x17 => headers = headers.with(H::Ieth),
            _ => {}
        }
    }
    let payload = matches!(operation, O::Send | O::Write | O::ReadResponse | O::AtomicWrite);
    OpcodeInfo {
        class: OpcodeClass::Known,
        service,
        operation,
        position,
        headers,
        // At most 40 bytes (RD COMPARE SWAP): every sum fits.
        headers_len: headers.len().to_le_bytes()[0],
        payload,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ib::Opcode;

    /// Typed from the specification's table, not from the code: the length of everything behind
    /// the BTH that is not payload, for each known opcode.
    #[rustfmt::skip]
    const EXT_LEN: &[(u8, u8, bool)] = &[
        (0x00, 0, true), (0x01, 0, true), (0x02, 0, true), (0x03, 4, true), (0x04, 0, true),
        (0x05, 4, true), (0x06, 16, true), (0x07, 0, true), (0x08, 0, true), (0x09, 4, true),
        (0x0a, 16, true), (0x0b, 20, true), (0x0c, 16, false), (0x0d, 4, true), (0x0e, 0, true),
        (0x0f, 4, true), (0x10, 4, true), (0x11, 4, false), (0x12, 12, false), (0x13, 28, false),
        (0x14, 28, false), (0x16, 4, true), (0x17, 4, true), (0x1c, 20, false), (0x1d, 16, true),
        (0x20, 0, true), (0x21, 0, true), (0x22, 0, true), (0x23, 4, true), (0x24, 0, true),
        (0x25, 4, true), (0x26, 16, true), (0x27, 0, true), (0x28, 0, true), (0x29, 4, true),
        (0x2a, 16, true), (0x2b, 20, true),
        (0x40, 12, true), (0x41, 12, true), (0x42, 12, true), (0x43, 16, true), (0x44, 12, true),
        (0x45, 16, true), (0x46, 28, true), (0x47, 12, true), (0x48, 12, true), (0x49, 16, true),
        (0x4a, 28, true), (0x4b, 32, true), (0x4c, 28, false), (0x4d, 8, true), (0x4e, 4, true),
        (0x4f, 8, true), (0x50, 8, true), (0x51, 8, false), (0x52, 16, false), (0x53, 40, false),
        (0x54, 40, false), (0x55, 12, false), (0x5c, 32, false), (0x5d, 28, true),
        (0x64, 8, true), (0x65, 12, true), (0x80, 16, false), (0x81, 16, false),
        (0xa0, 4, true), (0xa1, 4, true), (0xa2, 4, true), (0xa3, 8, true), (0xa4, 4, true),
        (0xa5, 8, true), (0xa6, 20, true), (0xa7, 4, true), (0xa8, 4, true), (0xa9, 8, true),
        (0xaa, 20, true), (0xab, 24, true), (0xac, 20, false), (0xad, 4, true), (0xae, 0, true),
        (0xaf, 4, true), (0xb0, 4, true), (0xb1, 4, false), (0xb2, 12, false), (0xb3, 32, false),
        (0xb4, 32, false), (0xb6, 8, true), (0xb7, 8, true), (0xbc, 24, false), (0xbd, 20, true),
    ];

    #[test]
    fn all_256_opcodes() {
        for value in 0..=255u8 {
            let info = Opcode(value).info();
            match EXT_LEN.iter().find(|row| row.0 == value) {
                Some(&(_, len, payload)) => {
                    assert_eq!(info.class, OpcodeClass::Known, "{value:#04x}");
                    assert_eq!((info.headers_len, info.payload), (len, payload), "{value:#04x}");
                    assert!(Opcode(value).name().is_some());
                    assert!(
                        info.is_request() || info.is_response() || value >> 5 == 4,
                        "{value:#04x}"
                    );
                }
                None => {
                    let class = if value >= 0xc0 {
                        OpcodeClass::Manufacturer
                    } else {
                        OpcodeClass::Reserved
                    };
                    assert_eq!(info.class, class, "{value:#04x}");
                    assert!(info.headers.is_empty());
                    assert!(Opcode(value).name().is_none());
                }
            }
        }
    }

    #[test]
    fn names_agree_with_rows() {
        for value in 0..=255u8 {
            let opcode = Opcode(value);
            let info = opcode.info();
            let Some(name) = opcode.name() else { continue };
            assert_eq!(name.contains("_IMM"), info.has_immediate(), "{name}");
            assert_eq!(name.ends_with("_FIRST"), info.position == Position::First, "{name}");
            assert_eq!(name.ends_with("_MIDDLE"), info.position == Position::Middle, "{name}");
            assert_eq!(name.contains("_LAST"), info.position == Position::Last, "{name}");
        }
    }
}
