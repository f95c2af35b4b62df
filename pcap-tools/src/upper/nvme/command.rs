//! Command capsules.
//!
//! ```text
//!  byte                                     byte
//!    0  opcode 8                             16  metadata pointer 64
//!    1  fused 2, Resv4, PSDT 2               24  SGL 1: address 64, length 24, key 32,
//!    2  command ID 16                            descriptor type 4, subtype 4
//!    4  namespace ID 32, or, of a Fabrics    40  dwords 10 to 15
//!       command (0x7f), its type 8
//! ```

use std::fmt;

use super::{Kind, Queue};
use crate::upper::bytes::{are_zero, array, le16, le32, le64};

/// A submission queue entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// What it asks for.
    pub kind: Kind,
    /// Fused operation, 2 bits.
    pub fused: u8,
    /// How data is described, 2 bits: 1 is by SGL.
    pub psdt: u8,
    /// The command ID, by which the answer refers to it.
    pub cid: u16,
    /// The namespace; a Fabrics command has none.
    pub nsid: Option<u32>,
    /// Where the data is.
    pub sgl: Sgl,
    /// Dwords 10 to 15.
    pub dwords: [u32; 6],
}

/// A scatter-gather list descriptor. A keyed one names host memory that the controller reaches by
/// RDMA; another one is an offset into the capsule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sgl {
    /// Address, or offset.
    pub address: u64,
    /// Bytes; 24 bits if keyed.
    pub length: u32,
    /// The R_Key; `None` if it is not keyed.
    pub key: Option<u32>,
    /// Descriptor type, 4 bits.
    pub kind: u8,
    /// Descriptor subtype, 4 bits; 0xf of a keyed one asks for its key to be invalidated.
    pub subtype: u8,
}

impl Command {
    /// Bytes of the entry; data may follow.
    pub const LEN: usize = 64;

    const FABRICS: u8 = 0x7f;

    /// Parses the start of a capsule; `None` if it is cut.
    #[must_use]
    pub fn parse(bytes: &[u8], queue: Option<Queue>) -> Option<Self> {
        let bytes = bytes.get(..Self::LEN)?;
        let [opcode, flags] = array(bytes, 0)?;
        let is_fabrics = opcode == Self::FABRICS;
        let [fctype] = array(bytes, 4)?;
        let dword = |n: usize| le32(bytes, 4 * n).unwrap_or_default();
        Some(Self {
            kind: Kind { queue, opcode, fctype: is_fabrics.then_some(fctype) },
            fused: flags & 3,
            psdt: flags >> 6,
            cid: le16(bytes, 2)?,
            nsid: if is_fabrics { None } else { le32(bytes, 4) },
            sgl: Sgl::parse(bytes.get(24..40)?)?,
            dwords: [10, 11, 12, 13, 14, 15].map(dword),
        })
    }

    /// Whether those bytes can be nothing but a Connect: its opcode and type, all of its 31
    /// reserved bytes zero, and the 1024 bytes of data that it always has, behind a key or in
    /// the capsule.
    pub(in crate::upper) fn is_connect(bytes: &[u8]) -> bool {
        let Some(command) = Self::parse(bytes, None) else { return false };
        command.kind.opcode == Self::FABRICS
            && command.kind.fctype == Some(0x01)
            && command.sgl.length == 1024
            && matches!(command.sgl.kind, 0 | 4)
            && are_zero(bytes, 5..24)
            && are_zero(bytes, 40..42)
            && are_zero(bytes, 52..64)
    }

    /// Of a Connect: queue ID and size of its submission queue, from 0.
    #[must_use]
    pub fn connect(&self) -> Option<(u16, u16)> {
        (self.kind.fctype == Some(0x01)).then(|| (high(self.dwords[0]), low(self.dwords[1])))
    }

    /// Of a Connect: the keep-alive timeout in milliseconds.
    #[must_use]
    pub fn keep_alive_ms(&self) -> Option<u32> {
        (self.kind.fctype == Some(0x01)).then_some(self.dwords[2])
    }

    /// Of Property Get and Set: the property's offset.
    #[must_use]
    pub fn property(&self) -> Option<u32> {
        matches!(self.kind.fctype, Some(0x00 | 0x04)).then_some(self.dwords[1])
    }

    /// Of Read, Write and the like: the first logical block and how many there are.
    #[must_use]
    pub fn blocks(&self) -> Option<(u64, u32)> {
        let is_io = self.kind.fctype.is_none() && self.kind.queue == Some(Queue::Io);
        let has_blocks = matches!(self.kind.opcode, 0x01 | 0x02 | 0x04 | 0x05 | 0x08 | 0x0c);
        let first = u64::from(self.dwords[1]) << 32 | u64::from(self.dwords[0]);
        (is_io && has_blocks).then(|| (first, u32::from(low(self.dwords[2])) + 1))
    }
}

fn low(dword: u32) -> u16 {
    let [a, b, ..] = dword.to_le_bytes();
    u16::from_le_bytes([a, b])
}

fn high(dword: u32) -> u16 {
    let [.., c, d] = dword.to_le_bytes();
    u16::from_le_bytes([c, d])
}

impl Sgl {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let [identifier] = array(bytes, 15)?;
        let kind = identifier >> 4;
        let [a, b, c] = array(bytes, 8)?;
        let is_keyed = kind == 4;
        Some(Self {
            address: le64(bytes, 0)?,
            length: if is_keyed { u32::from_le_bytes([a, b, c, 0]) } else { le32(bytes, 8)? },
            key: if is_keyed { le32(bytes, 11) } else { None },
            kind,
            subtype: identifier & 0x0f,
        })
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cid={:#06x}", self.kind, self.cid)?;
        if let Some(nsid) = self.nsid.filter(|nsid| *nsid != 0) {
            write!(f, " nsid={nsid}")?;
        }
        if let Some((queue, _)) = self.connect() {
            write!(f, " qid={queue}")?;
        }
        if let Some(offset) = self.property() {
            write!(f, " property={offset:#x}")?;
        }
        if let Some((first, count)) = self.blocks() {
            write!(f, " slba={first} blocks={count}")?;
        }
        match self.sgl {
            Sgl { length: 0, .. } => Ok(()),
            Sgl { address, length, key: Some(key), .. } => {
                write!(f, " sgl={address:#x}+{length} key={key:#010x}")
            }
            Sgl { length, .. } => write!(f, " sgl=capsule+{length}"),
        }
    }
}
