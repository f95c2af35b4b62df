//! One region of plain memory.

use core::cell::{Cell, RefCell};

use roce_codec::Crc32;
use roce_codec::icrc::Icrc;
use roce_engine::{Addr, AtomicOp, Backing, BackingFault, Placement};

/// Region 0, and no other. One core moves bytes, so nobody sees half of a write.
#[derive(Debug)]
pub(super) struct Memory<'m> {
    pub(super) bytes: RefCell<&'m mut [u8]>,
    /// How often a peer had what it wrote flushed.
    pub(super) flushed: Cell<u32>,
}

impl<'m> Memory<'m> {
    pub(super) const fn new(bytes: &'m mut [u8]) -> Self {
        Self { bytes: RefCell::new(bytes), flushed: Cell::new(0) }
    }

    /// Lets `then` see `len` bytes at `addr`.
    fn with<T>(
        &self,
        addr: Addr,
        len: usize,
        then: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, BackingFault> {
        if addr.region != 0 {
            return Err(BackingFault);
        }
        let start = usize::try_from(addr.offset).map_err(|_| BackingFault)?;
        let end = start.checked_add(len).ok_or(BackingFault)?;
        let mut memory = self.bytes.try_borrow_mut().map_err(|_| BackingFault)?;
        Ok(then(memory.get_mut(start..end).ok_or(BackingFault)?))
    }
}

impl Backing for Memory<'_> {
    fn write(&self, addr: Addr, data: [&[u8]; 2]) -> Result<(), BackingFault> {
        let [head, tail] = data;
        self.with(addr, head.len() + tail.len(), |memory| {
            let (front, back) = memory.split_at_mut(head.len());
            front.copy_from_slice(head);
            back.copy_from_slice(tail);
        })
    }

    fn read_crc<C: Crc32>(
        &self,
        addr: Addr,
        out: &mut [u8],
        icrc: &mut Icrc<C>,
    ) -> Result<(), BackingFault> {
        self.with(addr, out.len(), |memory| {
            icrc.copy_update(out, memory);
        })
    }

    fn atomic(&self, addr: Addr, op: AtomicOp) -> Result<u64, BackingFault> {
        self.with(addr, 8, |memory| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(memory);
            let original = u64::from_ne_bytes(bytes);
            memory.copy_from_slice(&op.apply(original).to_ne_bytes());
            original
        })
    }

    /// One core's memory is what everybody sees; it does not outlast the power.
    fn flush(&self, addr: Addr, len: u64, placement: Placement) -> Result<(), BackingFault> {
        let len = usize::try_from(len).map_err(|_| BackingFault)?;
        self.with(addr, len, |_| ())?;
        if placement != Placement::GLOBAL_VISIBILITY {
            return Err(BackingFault);
        }
        self.flushed.set(self.flushed.get() + 1);
        Ok(())
    }
}
