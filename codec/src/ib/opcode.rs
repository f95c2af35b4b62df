//! The opcode: what each of the 256 values of the BTH's first byte means.
//!
//! The upper three bits are the service, an enumeration and not a mask; the lower five the
//! operation (IBTA Vol. 1, table 38; Annex A14 for XRC, A17 for the CNP, A19 for FLUSH and
//! ATOMIC WRITE).

use core::fmt;

use super::opcode_table::TABLE;
use super::{HeaderKind, HeaderSet};

/// The first byte of the BTH.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Opcode(pub u8);

/// Whether a value has a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
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
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
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
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
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
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
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

/// What a responder answers a request with. A refused request is answered by an Acknowledge with
/// a NAK, whatever it would have been answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Answer {
    /// Nothing: an unreliable service, or itself an answer.
    None,
    /// An Acknowledge, for this packet or for several; AckReq asks for it at once.
    Acknowledge,
    /// READ responses; a FLUSH or ATOMIC WRITE has one, READ RESPONSE ONLY without payload.
    ReadResponse,
    /// An ATOMIC Acknowledge.
    AtomicAcknowledge,
}

/// One row of the opcode table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
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

    /// What answers it (IBTA Vol. 1, 9.7.5.1 and Annex A19).
    #[inline]
    #[must_use]
    pub const fn answer(&self) -> Answer {
        match (self.service, self.operation) {
            (Service::Rc | Service::Rd | Service::Xrc, operation) => match operation {
                Operation::Send | Operation::Write | Operation::Resync => Answer::Acknowledge,
                Operation::ReadRequest | Operation::Flush | Operation::AtomicWrite => {
                    Answer::ReadResponse
                }
                Operation::CompareSwap | Operation::FetchAdd => Answer::AtomicAcknowledge,
                _ => Answer::None,
            },
            _ => Answer::None,
        }
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

        /// The names once more, for their derived format: the log carries one byte of it.
        #[cfg(feature = "defmt")]
        #[derive(defmt::Format)]
        #[expect(
            non_camel_case_types,
            clippy::upper_case_acronyms,
            reason = "printed as the specification has them"
        )]
        enum Name {
            $($name,)*
        }

        #[cfg(feature = "defmt")]
        impl defmt::Format for Opcode {
            fn format(&self, f: defmt::Formatter<'_>) {
                let name = match self.0 {
                    $($value => Name::$name,)*
                    other => return defmt::write!(f, "opcode {=u8:#04x}", other),
                };
                defmt::write!(f, "{}", name);
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
