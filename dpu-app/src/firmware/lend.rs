//! Memory with a name in the linker's map, lent once.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

/// A static that [`take`](Self::take) gives away.
pub(crate) struct Lend<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `take` gives the value to one taker, whichever core it is on.
unsafe impl<T: Send> Sync for Lend<T> {}

impl<T> Lend<T> {
    /// To be lent.
    pub(crate) const fn new(value: T) -> Self {
        Self { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// The value, the first time.
    #[expect(clippy::mut_from_ref, reason = "it is given away once")]
    pub(crate) fn take(&'static self) -> Option<&'static mut T> {
        if self.taken.swap(true, Ordering::Acquire) {
            return None;
        }
        // SAFETY: `taken` was false and never is again: this is the only reference there will be.
        Some(unsafe { &mut *self.value.get() })
    }
}
