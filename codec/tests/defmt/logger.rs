//! A `defmt` logger that keeps what is logged, for the thread that logs.

use std::cell::RefCell;

thread_local! {
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[defmt::global_logger]
struct Keeper;

// SAFETY: every thread has a log of its own, so that nobody writes between another's acquire and
// release; none of the functions logs.
unsafe impl defmt::Logger for Keeper {
    fn acquire() {}

    unsafe fn flush() {}

    unsafe fn release() {}

    unsafe fn write(bytes: &[u8]) {
        LOG.with_borrow_mut(|log| log.extend_from_slice(bytes));
    }
}

defmt::timestamp!("");

/// Logs `value` and returns the bytes of it that would go over a debug probe.
pub(crate) fn log(value: &impl defmt::Format) -> Vec<u8> {
    defmt::println!("{}", value);
    LOG.take()
}
