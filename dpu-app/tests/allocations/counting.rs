//! An allocator that counts what the calling thread asks for while it is watched.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    if WATCHED.get() {
        ASKED.set(ASKED.get() + 1);
    }
}

// SAFETY: every call goes to the system's allocator as it came. The cells need neither memory nor a
// destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // To give memory back is to have taken some.
        count();
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, len) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What `act` returns, and how often it went to the allocator.
pub(crate) fn watch<T>(act: impl FnOnce() -> T) -> (T, u64) {
    let (before, outer) = (ASKED.get(), WATCHED.replace(true));
    let result = act();
    WATCHED.set(outer);
    (result, ASKED.get() - before)
}

/// The same, of something that may: the machine that services run on, or a test's own part.
pub(crate) fn look_away<T>(act: impl FnOnce() -> T) -> T {
    let outer = WATCHED.replace(false);
    let result = act();
    WATCHED.set(outer);
    result
}
