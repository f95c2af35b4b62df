//! How deep the stack ever was.

use core::ptr;

unsafe extern "C" {
    /// Where the stack ends and where it starts; the linker script says so.
    static stack_bottom: [u64; 0];
    static stack_top: [u64; 0];
}

/// Bytes of the stack, from its top to the lowest that is no longer zero, as boot.rs left it.
pub(crate) fn deepest() -> usize {
    let (bottom, top) = ((&raw const stack_bottom).addr(), (&raw const stack_top).addr());
    let is_untouched = |at: &usize| {
        let word: *const u64 = ptr::with_exposed_provenance(*at);
        // SAFETY: an aligned word of the stack, which is memory of this program's; whatever it
        // holds is a number.
        unsafe { word.read_volatile() == 0 }
    };
    let untouched = (bottom..top).step_by(size_of::<u64>()).take_while(is_untouched).count();
    top - bottom - untouched * size_of::<u64>()
}
