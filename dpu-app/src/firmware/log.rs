//! defmt over the UART: frames of rzcobs, each with a zero byte behind.

use core::cell::{Cell, UnsafeCell};

use crate::board;

defmt::timestamp!("{=u64:us}", board::nanoseconds() / 1000);

#[defmt::global_logger]
struct Uart;

struct State {
    /// Whether a frame is being written.
    taken: Cell<bool>,
    encoder: UnsafeCell<defmt::Encoder>,
}

// SAFETY: one core, and no interrupt is ever enabled: there is one context.
unsafe impl Sync for State {}

static STATE: State =
    State { taken: Cell::new(false), encoder: UnsafeCell::new(defmt::Encoder::new()) };

/// Whether a frame is being written, so that none can be begun.
pub(crate) fn is_taken() -> bool {
    STATE.taken.get()
}

impl State {
    /// # Safety
    /// Only between acquire and release, and not from within `then`.
    unsafe fn encode(&self, then: impl FnOnce(&mut defmt::Encoder)) {
        // SAFETY: the only reference, by this function's contract.
        then(unsafe { &mut *self.encoder.get() });
    }
}

fn send(bytes: &[u8]) {
    bytes.iter().copied().for_each(board::send);
}

// SAFETY: `taken` keeps a second frame from being begun within the first, and there is no other
// context to begin one in.
unsafe impl defmt::Logger for Uart {
    fn acquire() {
        assert!(!STATE.taken.replace(true), "a value being logged logs");
        // SAFETY: acquired just now.
        unsafe { STATE.encode(|encoder| encoder.start_frame(send)) };
    }

    unsafe fn flush() {
        board::drain();
    }

    unsafe fn release() {
        // SAFETY: still acquired.
        unsafe { STATE.encode(|encoder| encoder.end_frame(send)) };
        STATE.taken.set(false);
    }

    unsafe fn write(bytes: &[u8]) {
        // SAFETY: acquired, as the caller promises.
        unsafe { STATE.encode(|encoder| encoder.write(bytes, send)) };
    }
}
