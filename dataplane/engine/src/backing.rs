//! The bytes behind memory regions. The engine keeps the keys and makes every check; a
//! [`Backing`] only moves bytes.

use roce_codec::Crc32;
use roce_codec::icrc::Icrc;

use crate::flush::Placement;

/// A place in the caller's memory: which region, and how far into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Addr {
    /// The region, as the caller numbered it in [`MrAttr`](crate::MrAttr).
    pub region: u32,
    /// Bytes from its start.
    pub offset: u64,
}

/// The memory could not be reached: the region is gone, or shorter than it was registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BackingFault;

/// A read-modify-write of eight aligned bytes, in the host's byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AtomicOp {
    /// Writes `swap` if the bytes hold `compare`.
    CompareSwap {
        /// What the bytes must hold.
        compare: u64,
        /// What they are set to.
        swap: u64,
    },
    /// Adds, wrapping.
    FetchAdd(u64),
    /// Writes, whatever the bytes hold.
    Write(u64),
}

impl AtomicOp {
    /// What the bytes hold afterwards.
    #[inline]
    #[must_use]
    pub const fn apply(self, original: u64) -> u64 {
        match self {
            Self::CompareSwap { compare, swap } if compare == original => swap,
            Self::CompareSwap { .. } => original,
            Self::FetchAdd(add) => original.wrapping_add(add),
            Self::Write(value) => value,
        }
    }
}

/// Moves bytes in and out of the caller's memory.
///
/// The engine calls it only with ranges that lie inside what was registered; an implementation
/// still checks them against what it holds and answers [`BackingFault`] rather than touch
/// anything else. Methods take `&self`: the memory is shared with whoever else may look at it.
pub trait Backing {
    /// Writes the two pieces, one behind the other. The last byte becomes visible last, since
    /// programs poll it.
    ///
    /// # Errors
    /// [`BackingFault`]; nothing was written.
    fn write(&self, addr: Addr, data: [&[u8]; 2]) -> Result<(), BackingFault>;

    /// Reads `out.len()` bytes and feeds them to `icrc`, in one pass.
    ///
    /// # Errors
    /// [`BackingFault`]; `out` holds anything.
    fn read_crc<C: Crc32>(
        &self,
        addr: Addr,
        out: &mut [u8],
        icrc: &mut Icrc<C>,
    ) -> Result<(), BackingFault>;

    /// Carries out `op` on the eight bytes at `addr` and returns what they held.
    ///
    /// # Errors
    /// [`BackingFault`]; nothing was changed.
    fn atomic(&self, addr: Addr, op: AtomicOp) -> Result<u64, BackingFault>;

    /// Sees to it that what has been written to `len` bytes at `addr` is where a FLUSH wants it.
    /// As it stands, it suits memory that everybody sees at once and that no power failure
    /// spares.
    ///
    /// # Errors
    /// [`BackingFault`] if the memory cannot be reached, or is not persistent.
    fn flush(&self, addr: Addr, len: u64, placement: Placement) -> Result<(), BackingFault> {
        let _ = (addr, len);
        let persistent = placement.contains(Placement::PERSISTENCE);
        if persistent { Err(BackingFault) } else { Ok(()) }
    }
}
