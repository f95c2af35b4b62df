//! Regions that peers reach.

use core::fmt;

use roce_codec::Crc32;
use roce_codec::ib::Qpn;
use roce_codec::icrc::{IPV4_HEADERS, Icrc};
use roce_engine::{
    Access, Addr, Backing, Entropy, MemoryError, Mr, MrAttr, Pd, SeededEntropy, Sge,
};

use super::{Context, Platform};

/// A piece of the platform's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Where it starts.
    pub addr: Addr,
    /// The virtual address by which it is announced; a multiple of 64 at least.
    pub va: u64,
    /// Bytes.
    pub len: u64,
}

/// Bytes that are looked at at a time.
const PIECE: usize = 256;

/// Memory that a region was given is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreadable;

/// No checksum at all: what is read goes nowhere.
#[derive(Clone)]
struct NoCrc;

impl Crc32 for NoCrc {
    fn resume(_: u32) -> Self {
        Self
    }

    fn state(&self) -> u32 {
        0
    }

    fn update(&mut self, _: &[u8]) {}
}

/// Reads `out.len()` bytes of a platform's memory; says whether they are there.
pub fn read<M: Backing>(memory: &M, at: Addr, out: &mut [u8]) -> bool {
    memory.read_crc(at, out, &mut Icrc::<NoCrc>::ipv4(&[0; IPV4_HEADERS])).is_ok()
}

/// Calls `each` for `len` bytes at two places, piece by piece, with where they lie from the beginnings.
///
/// # Errors
/// What `each` says first. [`Unreadable`] where memory ends before.
pub fn each_piece<M: Backing, E: From<Unreadable>>(
    memory: &M,
    [here, there]: [Addr; 2],
    len: u32,
    mut each: impl FnMut(u32, &[u8], &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let (mut first, mut second) = ([0; PIECE], [0; PIECE]);
    for offset in (0..len).step_by(PIECE) {
        let piece = usize::try_from(len - offset).map_or(PIECE, |left| left.min(PIECE));
        let first = first.get_mut(..piece).unwrap_or_default();
        let second = second.get_mut(..piece).unwrap_or_default();
        let at = |start: Addr| Addr { offset: start.offset + u64::from(offset), ..start };
        if !(read(memory, at(here), first) && read(memory, at(there), second)) {
            return Err(Unreadable.into());
        }
        each(offset, first, second)?;
    }
    Ok(())
}

/// A queue pair and what its peer may reach by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedRegion {
    /// Our queue pair.
    pub qpn: Qpn,
    /// The region.
    pub exposed: Exposed,
    /// The pieces of equal length, from the region's start on, that its receives name in turn;
    /// 0 where none does.
    pub receives: u32,
}

/// A region with keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exposed {
    /// Where it is.
    pub region: Region,
    /// Its keys.
    pub mr: Mr,
}

/// Why a region was not exposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExposeError {
    /// The platform has no memory left for this many bytes.
    NoMemory {
        /// Bytes asked for.
        len: u64,
    },
    /// The engine did not register it.
    Register(MemoryError),
}

impl fmt::Display for ExposeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMemory { len } => write!(f, "no memory left for a region of {len} bytes"),
            Self::Register(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ExposeError {}

impl Exposed {
    /// Takes a region of `len` zeroed bytes from the platform and registers it.
    ///
    /// # Errors
    /// [`ExposeError`]; nothing is kept.
    pub fn new<P: Platform>(
        context: &mut Context<'_, '_, P>,
        pd: Pd,
        len: u64,
        access: Access,
    ) -> Result<Self, ExposeError> {
        let region = context.platform.take_region(len).ok_or(ExposeError::NoMemory { len })?;
        let attr = MrAttr { pd, va: region.va, len, access, backing: region.addr };
        match context.engine.register_mr(&attr, context.platform.random()) {
            Ok(mr) => Ok(Self { region: Region { len, ..region }, mr }),
            Err(error) => {
                context.platform.give_region(region);
                Err(ExposeError::Register(error))
            }
        }
    }

    /// Fills the beginning, up to a mebibyte, with noise: whoever READs zeroes can't tell one place
    /// from another.
    pub fn fill_with_noise<P: Platform>(&self, context: &mut Context<'_, '_, P>) {
        let mut noise = SeededEntropy::new(u64::from(context.platform.random().next_u32()));
        let end = self.region.len.min(1 << 20);
        let mut piece = [0; 256];
        let mut offset = 0;
        while offset < end {
            for word in piece.chunks_exact_mut(4) {
                word.copy_from_slice(&noise.next_u32().to_le_bytes());
            }
            let len = usize::try_from(end - offset).unwrap_or(piece.len()).min(piece.len());
            let piece = piece.get(..len).unwrap_or_default();
            let _ = context.platform.memory().write(self.addr(offset), [piece, &[]]);
            offset += 256;
        }
    }

    /// Takes the keys away and gives the memory back.
    pub fn withdraw<P: Platform>(self, context: &mut Context<'_, '_, P>) {
        // The key is ours and alive; were it not, there would be nothing to take away.
        let _ = context.engine.deregister_mr(self.mr.rkey);
        context.platform.give_region(self.region);
    }

    /// Where the byte lies that is so many from the beginning.
    #[must_use]
    pub fn addr(&self, offset: impl Into<u64>) -> Addr {
        let start = self.region.addr;
        Addr { offset: start.offset + offset.into(), ..start }
    }

    /// `len` bytes from `offset` on as local memory of a work request.
    #[must_use]
    pub const fn sge(&self, offset: u32, len: u32) -> Sge {
        Sge { va: self.region.va.wrapping_add(offset as u64), len, lkey: self.mr.lkey }
    }
}
