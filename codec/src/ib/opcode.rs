//! The opcode table: what each of the 256 values of the BTH's first byte means.
//!
//! The upper three bits are the service, an enumeration and not a mask; the lower five the
//! operation (IBTA Vol. 1, table 38; Annex A14 for XRC, A17 for the CNP, A19 for FLUSH and
//! ATOMIC WRITE).

use core::fmt;

use super::{HeaderKind, HeaderSet};

/// The first byte of the BTH.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Opcode(pub u8);

/// Whether a value has a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpcodeClass {
    /// Defined by the specification.
    Known,
    /// Reserved.
    Reserved,
    /// Left to manufacturers (0xC0 to 0xFF).
    Manufacturer,
}

/// The transport service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Reliable datagram.
    Rd,
    /// Unreliable datagram.
    Ud,
    /// Congestion notification.
    Cnp,
    /// Extended reliable connection.
    Xrc,
    /// None of them: a reserved or manufacturer value of the upper three bits.
    Other,
}

/// What the packet does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// SEND.
    Send,
    /// RDMA WRITE.
    Write,
    /// RDMA READ request.
    ReadRequest,
    /// RDMA READ response; also answers FLUSH and ATOMIC WRITE.
    ReadResponse,
    /// Acknowledge.
    Acknowledge,
    /// Atomic acknowledge.
    AtomicAcknowledge,
    /// COMPARE SWAP.
    CompareSwap,
    /// FETCH ADD.
    FetchAdd,
    /// RESYNC (reliable datagram).
    Resync,
    /// FLUSH.
    Flush,
    /// ATOMIC WRITE.
    AtomicWrite,
    /// Congestion notification packet.
    Cnp,
    /// Not known.
    Other,
}

/// Where the packet stands in its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Position {
    /// First of several.
    First,
    /// Neither first nor last.
    Middle,
    /// Last of several.
    Last,
    /// The whole message.
    Only,
}

impl Position {
    /// Whether a message starts here.
    #[inline]
    #[must_use]
    pub const fn starts(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Whether a message ends here.
    #[inline]
    #[must_use]
    pub const fn ends(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }
}

/// One row of the opcode table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpcodeInfo {
    /// Whether the value has a meaning.
    pub class: OpcodeClass,
    /// The service.
    pub service: Service,
    /// What the packet does.
    pub operation: Operation,
    /// Where it stands in its message.
    pub position: Position,
    /// The extension headers behind the BTH.
    pub headers: HeaderSet,
    /// Bytes of them together.
    pub headers_len: u8,
    /// Whether payload may follow.
    pub payload: bool,
}

impl OpcodeInfo {
    /// Whether a requester sends it (the answers and the CNP are what remains).
    #[inline]
    #[must_use]
    pub const fn is_request(&self) -> bool {
        matches!(
            self.operation,
            Operation::Send
                | Operation::Write
                | Operation::ReadRequest
                | Operation::CompareSwap
                | Operation::FetchAdd
                | Operation::Resync
                | Operation::Flush
                | Operation::AtomicWrite
        )
    }

    /// Whether a responder sends it.
    #[inline]
    #[must_use]
    pub const fn is_response(&self) -> bool {
        matches!(
            self.operation,
            Operation::ReadResponse | Operation::Acknowledge | Operation::AtomicAcknowledge
        )
    }

    /// Whether the packet carries immediate data.
    #[inline]
    #[must_use]
    pub const fn has_immediate(&self) -> bool {
        self.headers.contains(HeaderKind::ImmDt)
    }
}

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        impl Opcode {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// The name in the specification, such as `RC_RDMA_WRITE_FIRST`.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

opcodes! {
    /// RC SEND First.
    RC_SEND_FIRST = 0x00;
    /// RC SEND Middle.
    RC_SEND_MIDDLE = 0x01;
    /// RC SEND Last.
    RC_SEND_LAST = 0x02;
    /// RC SEND Last with immediate.
    RC_SEND_LAST_IMM = 0x03;
    /// RC SEND Only.
    RC_SEND_ONLY = 0x04;
    /// RC SEND Only with immediate.
    RC_SEND_ONLY_IMM = 0x05;
    /// RC RDMA WRITE First.
    RC_RDMA_WRITE_FIRST = 0x06;
    /// RC RDMA WRITE Middle.
    RC_RDMA_WRITE_MIDDLE = 0x07;
    /// RC RDMA WRITE Last.
    RC_RDMA_WRITE_LAST = 0x08;
    /// RC RDMA WRITE Last with immediate.
    RC_RDMA_WRITE_LAST_IMM = 0x09;
    /// RC RDMA WRITE Only.
    RC_RDMA_WRITE_ONLY = 0x0a;
    /// RC RDMA WRITE Only with immediate.
    RC_RDMA_WRITE_ONLY_IMM = 0x0b;
    /// RC RDMA READ Request.
    RC_RDMA_READ_REQUEST = 0x0c;
    /// RC RDMA READ response First.
    RC_RDMA_READ_RESPONSE_FIRST = 0x0d;
    /// RC RDMA READ response Middle.
    RC_RDMA_READ_RESPONSE_MIDDLE = 0x0e;
    /// RC RDMA READ response Last.
    RC_RDMA_READ_RESPONSE_LAST = 0x0f;
    /// RC RDMA READ response Only.
    RC_RDMA_READ_RESPONSE_ONLY = 0x10;
    /// RC Acknowledge.
    RC_ACKNOWLEDGE = 0x11;
    /// RC ATOMIC Acknowledge.
    RC_ATOMIC_ACKNOWLEDGE = 0x12;
    /// RC COMPARE SWAP.
    RC_COMPARE_SWAP = 0x13;
    /// RC FETCH ADD.
    RC_FETCH_ADD = 0x14;
    /// RC SEND Last with invalidate.
    RC_SEND_LAST_INV = 0x16;
    /// RC SEND Only with invalidate.
    RC_SEND_ONLY_INV = 0x17;
    /// RC FLUSH.
    RC_FLUSH = 0x1c;
    /// RC ATOMIC WRITE.
    RC_ATOMIC_WRITE = 0x1d;
    /// UC SEND First.
    UC_SEND_FIRST = 0x20;
    /// UC SEND Middle.
    UC_SEND_MIDDLE = 0x21;
    /// UC SEND Last.
    UC_SEND_LAST = 0x22;
    /// UC SEND Last with immediate.
    UC_SEND_LAST_IMM = 0x23;
    /// UC SEND Only.
    UC_SEND_ONLY = 0x24;
    /// UC SEND Only with immediate.
    UC_SEND_ONLY_IMM = 0x25;
    /// UC RDMA WRITE First.
    UC_RDMA_WRITE_FIRST = 0x26;
    /// UC RDMA WRITE Middle.
    UC_RDMA_WRITE_MIDDLE = 0x27;
    /// UC RDMA WRITE Last.
    UC_RDMA_WRITE_LAST = 0x28;
    /// UC RDMA WRITE Last with immediate.
    UC_RDMA_WRITE_LAST_IMM = 0x29;
    /// UC RDMA WRITE Only.
    UC_RDMA_WRITE_ONLY = 0x2a;
    /// UC RDMA WRITE Only with immediate.
    UC_RDMA_WRITE_ONLY_IMM = 0x2b;
    /// RD SEND First.
    RD_SEND_FIRST = 0x40;
    /// RD SEND Middle.
    RD_SEND_MIDDLE = 0x41;
    /// RD SEND Last.
    RD_SEND_LAST = 0x42;
    /// RD SEND Last with immediate.
    RD_SEND_LAST_IMM = 0x43;
    /// RD SEND Only.
    RD_SEND_ONLY = 0x44;
    /// RD SEND Only with immediate.
    RD_SEND_ONLY_IMM = 0x45;
    /// RD RDMA WRITE First.
    RD_RDMA_WRITE_FIRST = 0x46;
    /// RD RDMA WRITE Middle.
    RD_RDMA_WRITE_MIDDLE = 0x47;
    /// RD RDMA WRITE Last.
    RD_RDMA_WRITE_LAST = 0x48;
    /// RD RDMA WRITE Last with immediate.
    RD_RDMA_WRITE_LAST_IMM = 0x49;
    /// RD RDMA WRITE Only.
    RD_RDMA_WRITE_ONLY = 0x4a;
    /// RD RDMA WRITE Only with immediate.
    RD_RDMA_WRITE_ONLY_IMM = 0x4b;
    /// RD RDMA READ Request.
    RD_RDMA_READ_REQUEST = 0x4c;
    /// RD RDMA READ response First.
    RD_RDMA_READ_RESPONSE_FIRST = 0x4d;
    /// RD RDMA READ response Middle.
    RD_RDMA_READ_RESPONSE_MIDDLE = 0x4e;
    /// RD RDMA READ response Last.
    RD_RDMA_READ_RESPONSE_LAST = 0x4f;
    /// RD RDMA READ response Only.
    RD_RDMA_READ_RESPONSE_ONLY = 0x50;
    /// RD Acknowledge.
    RD_ACKNOWLEDGE = 0x51;
    /// RD ATOMIC Acknowledge.
    RD_ATOMIC_ACKNOWLEDGE = 0x52;
    /// RD COMPARE SWAP.
    RD_COMPARE_SWAP = 0x53;
    /// RD FETCH ADD.
    RD_FETCH_ADD = 0x54;
    /// RD RESYNC.
    RD_RESYNC = 0x55;
    /// RD FLUSH.
    RD_FLUSH = 0x5c;
    /// RD ATOMIC WRITE.
    RD_ATOMIC_WRITE = 0x5d;
    /// UD SEND Only.
    UD_SEND_ONLY = 0x64;
    /// UD SEND Only with immediate.
    UD_SEND_ONLY_IMM = 0x65;
    /// The congestion notification packet of native InfiniBand.
    IB_CNP = 0x80;
    /// The congestion notification packet of RoCEv2.
    CNP = 0x81;
    /// XRC SEND First.
    XRC_SEND_FIRST = 0xa0;
    /// XRC SEND Middle.
    XRC_SEND_MIDDLE = 0xa1;
    /// XRC SEND Last.
    XRC_SEND_LAST = 0xa2;
    /// XRC SEND Last with immediate.
    XRC_SEND_LAST_IMM = 0xa3;
    /// XRC SEND Only.
    XRC_SEND_ONLY = 0xa4;
    /// XRC SEND Only with immediate.
    XRC_SEND_ONLY_IMM = 0xa5;
    /// XRC RDMA WRITE First.
    XRC_RDMA_WRITE_FIRST = 0xa6;
    /// XRC RDMA WRITE Middle.
    XRC_RDMA_WRITE_MIDDLE = 0xa7;
    /// XRC RDMA WRITE Last.
    XRC_RDMA_WRITE_LAST = 0xa8;
    /// XRC RDMA WRITE Last with immediate.
    XRC_RDMA_WRITE_LAST_IMM = 0xa9;
    /// XRC RDMA WRITE Only.
    XRC_RDMA_WRITE_ONLY = 0xaa;
    /// XRC RDMA WRITE Only with immediate.
    XRC_RDMA_WRITE_ONLY_IMM = 0xab;
    /// XRC RDMA READ Request.
    XRC_RDMA_READ_REQUEST = 0xac;
    /// XRC RDMA READ response First.
    XRC_RDMA_READ_RESPONSE_FIRST = 0xad;
    /// XRC RDMA READ response Middle.
    XRC_RDMA_READ_RESPONSE_MIDDLE = 0xae;
    /// XRC RDMA READ response Last.
    XRC_RDMA_READ_RESPONSE_LAST = 0xaf;
    /// XRC RDMA READ response Only.
    XRC_RDMA_READ_RESPONSE_ONLY = 0xb0;
    /// XRC Acknowledge.
    XRC_ACKNOWLEDGE = 0xb1;
    /// XRC ATOMIC Acknowledge.
    XRC_ATOMIC_ACKNOWLEDGE = 0xb2;
    /// XRC COMPARE SWAP.
    XRC_COMPARE_SWAP = 0xb3;
    /// XRC FETCH ADD.
    XRC_FETCH_ADD = 0xb4;
    /// XRC SEND Last with invalidate.
    XRC_SEND_LAST_INV = 0xb6;
    /// XRC SEND Only with invalidate.
    XRC_SEND_ONLY_INV = 0xb7;
    /// XRC FLUSH.
    XRC_FLUSH = 0xbc;
    /// XRC ATOMIC WRITE.
    XRC_ATOMIC_WRITE = 0xbd;
}

static TABLE: [OpcodeInfo; 256] = table();

impl Opcode {
    /// The row of the table.
    #[inline]
    #[must_use]
    pub fn info(self) -> &'static OpcodeInfo {
        &TABLE[usize::from(self.0)]
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "opcode {:#04x}", self.0),
        }
    }
}

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
        // At most 48 bytes (XRC FLUSH has 24): every sum fits.
        headers_len: headers.len().to_le_bytes()[0],
        payload,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
