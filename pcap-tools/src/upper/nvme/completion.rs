//! Response capsules.
//!
//! ```text
//!  byte
//!    0  result 64
//!    8  SQ head pointer 16
//!   10  SQ identifier 16
//!   12  command ID 16
//!   14  Resv1, status code 8, status code type 3, retry delay 2, more 1, do not retry 1
//! ```

use std::fmt;

use super::{Kind, names};
use crate::upper::bytes::{le16, le32};

/// A completion queue entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The command it answers, if that was seen.
    pub command: Option<Kind>,
    /// Dwords 0 and 1.
    pub dwords: [u32; 2],
    /// Where the controller has read to.
    pub sq_head: u16,
    /// The submission queue; reserved on fabrics.
    pub sq_id: u16,
    /// The command ID.
    pub cid: u16,
    /// Status code type, 3 bits.
    pub status_type: u8,
    /// Status code.
    pub status_code: u8,
    /// Command retry delay, 2 bits.
    pub retry_delay: u8,
    /// There is more in a log page.
    pub more: bool,
    /// The same command would fail again.
    pub do_not_retry: bool,
    /// The upper half word, as it is.
    pub status: u16,
}

impl Completion {
    /// Bytes of the entry.
    pub const LEN: usize = 16;

    /// Parses the start of a capsule; `None` if it is cut.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let status = le16(bytes, 14)?;
        let [low, high] = status.to_le_bytes();
        Some(Self {
            command: None,
            dwords: [le32(bytes, 0)?, le32(bytes, 4)?],
            sq_head: le16(bytes, 8)?,
            sq_id: le16(bytes, 10)?,
            cid: le16(bytes, 12)?,
            status_type: high >> 1 & 7,
            status_code: low >> 1 | high << 7,
            retry_delay: high >> 4 & 3,
            more: high & 0x40 != 0,
            do_not_retry: high & 0x80 != 0,
            status,
        })
    }

    /// The status in words; `None` if it is none of those known here.
    #[must_use]
    pub const fn status_name(&self) -> Option<&'static str> {
        names::status(self.status_type, self.status_code)
    }
}

impl fmt::Display for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("response")?;
        if let Some(command) = self.command {
            write!(f, " to {command}")?;
        }
        write!(f, " cid={:#06x} status=", self.cid)?;
        match self.status_name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#x}/{:#04x}", self.status_type, self.status_code),
        }
    }
}
