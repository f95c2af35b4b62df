//! iSCSI Extensions for RDMA (RFC 7145), and the iSCSI header behind it (RFC 7143).
//!
//! ```text
//!  byte
//!    0  opcode 4, WSV 1, RSV 1, Resv2      of a Hello: opcode 4, Resv4; versions 8; IRD 16
//!    4  write STag 32                      of a HelloReply: opcode 4, Resv3, REJ 1; versions 8; ORD 16
//!    8  write base offset 64
//!   16  read STag 32
//!   20  read base offset 64
//!   28  iSCSI basic header segment, 48 bytes
//! ```

use std::fmt;

use super::bytes::{are_zero, array, be16, be24, be32, be64};

/// Bytes of the iSER header.
const HEADER: usize = 28;

/// An iSER message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Iser {
    /// An iSCSI PDU.
    Control {
        /// Where the target writes: STag and offset.
        write: Option<(u32, u64)>,
        /// Where the target reads from: STag and offset.
        read: Option<(u32, u64)>,
        /// The PDU's header; `None` if the capture cut it.
        iscsi: Option<Iscsi>,
    },
    /// The initiator opens.
    Hello {
        /// Highest version, 4 bits.
        max_version: u8,
        /// Lowest version, 4 bits.
        min_version: u8,
        /// READs that the initiator serves at a time.
        ird: u16,
    },
    /// The target answers.
    HelloReply {
        /// It refuses.
        reject: bool,
        /// Highest version, 4 bits.
        max_version: u8,
        /// The version chosen, 4 bits.
        version: u8,
        /// READs that the target has outstanding.
        ord: u16,
    },
}

impl Iser {
    /// Parses the payload of a SEND; `None` if it is no iSER message.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let [flags, versions] = array(bytes, 0)?;
        let place = |at: usize| Some((be32(bytes, at)?, be64(bytes, at + 4)?));
        let [high, low] = [versions >> 4, versions & 0x0f];
        Some(match flags >> 4 {
            1 => Self::Control {
                write: if flags & 8 != 0 { place(4) } else { None },
                read: if flags & 4 != 0 { place(16) } else { None },
                iscsi: bytes.get(HEADER..).and_then(Iscsi::parse),
            },
            2 => Self::Hello { max_version: high, min_version: low, ird: be16(bytes, 2)? },
            3 => Self::HelloReply {
                reject: flags & 1 != 0,
                max_version: high,
                version: low,
                ord: be16(bytes, 2)?,
            },
            _ => return None,
        })
    }

    /// Whether those bytes can be nothing but an iSCSI login in iSER: an iSER header that is zero
    /// but for its opcode, a Login Request of the only version there is, and the key that every
    /// login begins with.
    pub(super) fn is_login(bytes: &[u8]) -> bool {
        let Some(Self::Control { write: None, read: None, iscsi: Some(iscsi) }) =
            Self::parse(bytes)
        else {
            return false;
        };
        let text = bytes.get(HEADER + Iscsi::LEN..).unwrap_or_default();
        bytes.first() == Some(&0x10)
            && are_zero(bytes, 1..HEADER)
            && iscsi.opcode == 0x03
            && are_zero(bytes, HEADER + 2..HEADER + 4)
            && usize::try_from(iscsi.data_len).is_ok_and(|len| len <= text.len())
            && text.starts_with(b"InitiatorName=")
    }
}

/// The header of an iSCSI PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Iscsi {
    /// The opcode, 6 bits.
    pub opcode: u8,
    /// To be delivered at once.
    pub immediate: bool,
    /// The flags of that opcode.
    pub flags: u8,
    /// Of a response: what it says; elsewhere 0.
    pub response: u8,
    /// Of a SCSI response: the SCSI status; elsewhere 0.
    pub status: u8,
    /// Length of additional headers in words of 4 bytes.
    pub ahs_len: u8,
    /// Bytes of data, 24 bits.
    pub data_len: u32,
    /// The logical unit, where the opcode has one.
    pub lun: u64,
    /// Initiator task tag.
    pub task_tag: u32,
    /// Of a SCSI command: bytes expected.
    pub expected_len: Option<u32>,
    /// Of a SCSI command: the first byte of its CDB.
    pub cdb_opcode: Option<u8>,
}

impl Iscsi {
    /// Bytes of the basic header segment.
    pub const LEN: usize = 48;

    fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..Self::LEN)?;
        let [first, flags, response, status, ahs_len] = array(bytes, 0)?;
        let opcode = first & 0x3f;
        name(opcode)?;
        let is_command = opcode == 0x01;
        Some(Self {
            opcode,
            immediate: first & 0x40 != 0,
            flags,
            response: if opcode >= 0x20 { response } else { 0 },
            status: if opcode == 0x21 { status } else { 0 },
            ahs_len,
            data_len: be24(bytes, 5)?,
            lun: be64(bytes, 8)?,
            task_tag: be32(bytes, 16)?,
            expected_len: if is_command { be32(bytes, 20) } else { None },
            cdb_opcode: if is_command { bytes.get(32).copied() } else { None },
        })
    }

    /// The opcode's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match name(self.opcode) {
            Some(name) => name,
            None => "iSCSI",
        }
    }
}

const fn name(opcode: u8) -> Option<&'static str> {
    Some(match opcode {
        0x00 => "NOP-Out",
        0x01 => "SCSI Command",
        0x02 => "Task Management Request",
        0x03 => "Login Request",
        0x04 => "Text Request",
        0x05 => "Data-Out",
        0x06 => "Logout Request",
        0x10 => "SNACK Request",
        0x20 => "NOP-In",
        0x21 => "SCSI Response",
        0x22 => "Task Management Response",
        0x23 => "Login Response",
        0x24 => "Text Response",
        0x25 => "Data-In",
        0x26 => "Logout Response",
        0x31 => "Ready To Transfer",
        0x32 => "Asynchronous Message",
        0x3f => "Reject",
        _ => return None,
    })
}

impl fmt::Display for Iser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Control { write, read, iscsi } => {
                match iscsi {
                    Some(iscsi) => {
                        write!(f, "{} itt={:#010x}", iscsi.name(), iscsi.task_tag)?;
                    }
                    None => f.write_str("control PDU")?,
                }
                if let Some((stag, _)) = write {
                    write!(f, " write_stag={stag:#010x}")?;
                }
                if let Some((stag, _)) = read {
                    write!(f, " read_stag={stag:#010x}")?;
                }
                Ok(())
            }
            Self::Hello { ird, .. } => write!(f, "Hello ird={ird}"),
            Self::HelloReply { ord, reject: false, .. } => write!(f, "HelloReply ord={ord}"),
            Self::HelloReply { .. } => f.write_str("HelloReply, refused"),
        }
    }
}
