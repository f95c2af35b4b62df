//! A management datagram: the common header and 232 bytes of data.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+---------------+---------------+
//! | Base version  |     Class     | Class version |    Method     |
//! +---------------+---------------+---------------+---------------+
//! |            Status             |        Class specific         |
//! +-------------------------------+-------------------------------+
//! |                        Transaction ID                         |
//! |                                                               |
//! +-------------------------------+-------------------------------+
//! |         Attribute ID          |           Reserved            |
//! +-------------------------------+-------------------------------+
//! |                      Attribute modifier                       |
//! +---------------------------------------------------------------+
//! ```
//!
//! 24 bytes of 256. IBTA Vol. 1, 13.4.2 and 13.4.3.

use core::fmt;

use zerocopy::byteorder::{BE, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::wire::{view, view_mut};
use super::{AttributeId, CmEmitError, CmError};

/// Bytes of a MAD.
pub const MAD_LEN: usize = 256;

/// Bytes of its data, behind the common header.
pub const MAD_DATA_LEN: usize = MAD_LEN - MadHeader::LEN;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct MadHeaderWire {
    base_version: u8,
    class: u8,
    class_version: u8,
    method: u8,
    status: U16<BE>,
    class_specific: U16<BE>,
    transaction_id: U64<BE>,
    attribute: U16<BE>,
    resv16: U16<BE>,
    attribute_modifier: U32<BE>,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct MadWire {
    header: MadHeaderWire,
    data: [u8; MAD_DATA_LEN],
}

const _: () = assert!(size_of::<MadHeaderWire>() == MadHeader::LEN);
const _: () = assert!(size_of::<MadWire>() == MAD_LEN);

/// The management class of a MAD (IBTA Vol. 1, 13.4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MgmtClass(pub u8);

impl MgmtClass {
    /// Subnet management, LID routed.
    pub const SUBN_LID: Self = Self(0x01);
    /// Subnet administration.
    pub const SUBN_ADM: Self = Self(0x03);
    /// Performance management.
    pub const PERF: Self = Self(0x04);
    /// Baseboard management.
    pub const BM: Self = Self(0x05);
    /// Device management.
    pub const DEV_MGT: Self = Self(0x06);
    /// Communication management: the connection manager.
    pub const COM_MGT: Self = Self(0x07);
    /// SNMP tunnelling.
    pub const SNMP: Self = Self(0x08);
    /// Device administration.
    pub const DEV_ADM: Self = Self(0x10);
    /// Boot management.
    pub const BOOT_MGT: Self = Self(0x11);
    /// Boot information service.
    pub const BIS: Self = Self(0x12);
    /// Congestion control.
    pub const CONG: Self = Self(0x21);
    /// Subnet management, directed route.
    pub const SUBN_DIRECTED: Self = Self(0x81);

    /// What the class manages; `None` if it is none of the standard ones.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::SUBN_LID => "SubnLID",
            Self::SUBN_ADM => "SubnAdm",
            Self::PERF => "Perf",
            Self::BM => "BM",
            Self::DEV_MGT => "DevMgt",
            Self::COM_MGT => "ComMgt",
            Self::SNMP => "SNMP",
            Self::DEV_ADM => "DevAdm",
            Self::BOOT_MGT => "BootMgt",
            Self::BIS => "BIS",
            Self::CONG => "Cong",
            Self::SUBN_DIRECTED => "SubnDirected",
            _ => return None,
        })
    }
}

impl fmt::Display for MgmtClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        named(f, self.name(), self.0)
    }
}

/// What a MAD does with its attribute (IBTA Vol. 1, 13.4.5). The highest bit marks a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Method(pub u8);

impl Method {
    /// Asks for an attribute.
    pub const GET: Self = Self(0x01);
    /// Sets an attribute.
    pub const SET: Self = Self(0x02);
    /// Sends a datagram that wants no response by itself: every connection manager message.
    pub const SEND: Self = Self(0x03);
    /// Reports an event.
    pub const TRAP: Self = Self(0x05);
    /// Forwards an event.
    pub const REPORT: Self = Self(0x06);
    /// Stops a trap.
    pub const TRAP_REPRESS: Self = Self(0x07);
    /// Answers Get and Set.
    pub const GET_RESP: Self = Self(0x81);
    /// Answers Report.
    pub const REPORT_RESP: Self = Self(0x86);

    /// Its name; `None` if it is none of the methods that all classes share.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::GET => "Get",
            Self::SET => "Set",
            Self::SEND => "Send",
            Self::TRAP => "Trap",
            Self::REPORT => "Report",
            Self::TRAP_REPRESS => "TrapRepress",
            Self::GET_RESP => "GetResp",
            Self::REPORT_RESP => "ReportResp",
            _ => return None,
        })
    }

    /// Whether it answers another MAD.
    #[must_use]
    pub const fn is_response(self) -> bool {
        self.0 & 0x80 != 0
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        named(f, self.name(), self.0)
    }
}

fn named(f: &mut fmt::Formatter<'_>, name: Option<&str>, number: u8) -> fmt::Result {
    match name {
        Some(name) => f.write_str(name),
        None => write!(f, "{number:#04x}"),
    }
}

/// The common MAD header, every bit of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MadHeader {
    /// Version of the MAD format; 1 is the only one.
    pub base_version: u8,
    /// Management class.
    pub class: MgmtClass,
    /// Version of the class; the connection manager's is 2.
    pub class_version: u8,
    /// Method.
    pub method: Method,
    /// Status of a response, 0 elsewhere.
    pub status: u16,
    /// Used by the class; 0 in the connection manager's.
    pub class_specific: u16,
    /// Names a request and its response. A message sent again keeps its transaction ID, and an
    /// answer carries that of the message it answers.
    pub transaction_id: u64,
    /// What the data is.
    pub attribute: AttributeId,
    /// Reserved, 16 bits.
    pub resv16: u16,
    /// Qualifies the attribute. In REQ, REP and SIDR_REP: the vendor's options, where the
    /// message's vendor ID is not 0; 0 elsewhere.
    pub attribute_modifier: u32,
}

impl MadHeader {
    /// Bytes of the header.
    pub const LEN: usize = 24;

    /// The header of a connection manager message: base version 1, class version 2, method Send.
    #[must_use]
    pub const fn cm(attribute: AttributeId, transaction_id: u64) -> Self {
        Self {
            base_version: 1,
            class: MgmtClass::COM_MGT,
            class_version: 2,
            method: Method::SEND,
            status: 0,
            class_specific: 0,
            transaction_id,
            attribute,
            resv16: 0,
            attribute_modifier: 0,
        }
    }

    /// Parses the header at the front of `bytes`.
    ///
    /// # Errors
    /// [`CmError::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, CmError> {
        Ok(view::<MadHeaderWire>(bytes)?.value())
    }

    /// Writes the header at the front of `out`.
    ///
    /// # Errors
    /// [`CmEmitError::NoRoom`].
    pub fn emit(&self, out: &mut [u8]) -> Result<(), CmEmitError> {
        let wire = view_mut::<MadHeaderWire>(out)?;
        *wire = MadHeaderWire {
            base_version: self.base_version,
            class: self.class.0,
            class_version: self.class_version,
            method: self.method.0,
            status: self.status.into(),
            class_specific: self.class_specific.into(),
            transaction_id: self.transaction_id.into(),
            attribute: self.attribute.0.into(),
            resv16: self.resv16.into(),
            attribute_modifier: self.attribute_modifier.into(),
        };
        Ok(())
    }
}

impl MadHeaderWire {
    fn value(&self) -> MadHeader {
        MadHeader {
            base_version: self.base_version,
            class: MgmtClass(self.class),
            class_version: self.class_version,
            method: Method(self.method),
            status: self.status.get(),
            class_specific: self.class_specific.get(),
            transaction_id: self.transaction_id.get(),
            attribute: AttributeId(self.attribute.get()),
            resv16: self.resv16.get(),
            attribute_modifier: self.attribute_modifier.get(),
        }
    }
}

/// A MAD: its header as a value, its data as it lies in the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Mad<'a> {
    /// The common header.
    pub header: MadHeader,
    /// What follows it.
    pub data: &'a [u8; MAD_DATA_LEN],
}

impl<'a> Mad<'a> {
    /// Parses the MAD at the front of `bytes`, of whatever class and version.
    ///
    /// # Errors
    /// [`CmError::Truncated`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, CmError> {
        let wire = view::<MadWire>(bytes)?;
        Ok(Self { header: wire.header.value(), data: &wire.data })
    }

    /// Whether it is of the connection manager's class.
    #[must_use]
    pub fn is_cm(&self) -> bool {
        self.header.class == MgmtClass::COM_MGT
    }
}
