//! From C's pointers to Rust's references and back: the only place where memory is touched.

use core::{ptr, slice};

use zerocopy::{FromBytes, Immutable, IntoBytes, TryFromBytes};

use crate::status::roce_status;

fn check<T>(pointer: *const T) -> Result<(), roce_status> {
    if pointer.is_null() {
        Err(roce_status::NullPointer)
    } else if !pointer.is_aligned() {
        Err(roce_status::BadArgument)
    } else {
        Ok(())
    }
}

/// Reads a structure that a C program filled in.
///
/// # Safety
/// `pointer` is NULL or valid for reads of a `T`.
pub(crate) unsafe fn read<T: FromBytes>(pointer: *const T) -> Result<T, roce_status> {
    check(pointer)?;
    // SAFETY: not NULL, hence valid by the caller's word; aligned; any bytes are a `T`.
    Ok(unsafe { pointer.read() })
}

/// Writes a result. No reference into the caller's memory may be alive any more.
///
/// # Safety
/// `pointer` is NULL or valid for writes of a `T`.
pub(crate) unsafe fn write<T>(pointer: *mut T, value: T) -> Result<(), roce_status> {
    check(pointer)?;
    // SAFETY: not NULL, hence valid by the caller's word; aligned. What it held is a plain value
    // of C's, which needs no drop.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Reads a `T` that [`write_state`] wrote into a structure of C's. Whatever else stands there is
/// refused if it is none.
///
/// # Safety
/// `storage` is NULL or valid for reads of an `S`.
pub(crate) unsafe fn read_state<T, S>(storage: *const S) -> Result<T, roce_status>
where
    T: TryFromBytes,
    S: FromBytes + IntoBytes + Immutable,
{
    // SAFETY: the same contract.
    let storage = unsafe { read(storage) }?;
    let bytes = storage.as_bytes().get(..size_of::<T>()).ok_or(roce_status::BadArgument)?;
    T::try_read_from_bytes(bytes).map_err(|_| roce_status::BadArgument)
}

/// Writes a `T` into a structure of C's that is at least as large and as aligned.
///
/// # Safety
/// `storage` is NULL or valid for writes of an `S`.
pub(crate) unsafe fn write_state<T, S>(storage: *mut S, state: T) -> Result<(), roce_status> {
    const { assert!(size_of::<T>() <= size_of::<S>() && align_of::<T>() <= align_of::<S>()) };
    check(storage)?;
    // SAFETY: not NULL, hence valid for an `S` by the caller's word, and a `T` is no larger;
    // aligned for an `S`, hence for a `T`.
    unsafe { storage.cast::<T>().write(state) };
    Ok(())
}

/// Copies a string of C's, shorter than `buffer`.
///
/// # Safety
/// `pointer` is NULL or valid for reads up to a NUL.
pub(crate) unsafe fn string<const N: usize>(
    pointer: *const core::ffi::c_char,
    buffer: &mut [u8; N],
) -> Result<&str, roce_status> {
    check(pointer)?;
    for (len, byte) in buffer.iter_mut().enumerate() {
        // SAFETY: no byte before this one is the NUL, so that it still belongs to the string.
        let next = unsafe { pointer.add(len) };
        // SAFETY: as above.
        *byte = unsafe { next.cast::<u8>().read() };
        if *byte == 0 {
            let name = buffer.get(..len).unwrap_or_default();
            return core::str::from_utf8(name).map_err(|_| roce_status::BadArgument);
        }
    }
    Err(roce_status::BadArgument)
}

/// The bytes at `pointer`. NULL is right for no bytes.
///
/// # Safety
/// `pointer` is NULL or valid for reads of `len` bytes for as long as `'a`, in which nobody
/// writes them.
pub(crate) unsafe fn bytes<'a>(pointer: *const u8, len: usize) -> Result<&'a [u8], roce_status> {
    if len == 0 {
        return Ok(&[]);
    }
    check(pointer)?;
    if isize::try_from(len).is_err() {
        return Err(roce_status::BadArgument);
    }
    // SAFETY: not NULL, hence valid for `len` bytes by the caller's word; no longer than a Rust
    // slice may be; bytes need no alignment.
    Ok(unsafe { slice::from_raw_parts(pointer, len) })
}

/// The bytes at `pointer`, to be written. NULL is right for no bytes.
///
/// # Safety
/// `pointer` is NULL or valid for reads and writes of `len` bytes for as long as `'a`, in which
/// nobody else touches them.
pub(crate) unsafe fn bytes_mut<'a>(
    pointer: *mut u8,
    len: usize,
) -> Result<&'a mut [u8], roce_status> {
    if len == 0 {
        return Ok(&mut []);
    }
    check(pointer)?;
    if isize::try_from(len).is_err() {
        return Err(roce_status::BadArgument);
    }
    // SAFETY: not NULL, hence valid for `len` bytes by the caller's word, and no other reference
    // to them is alive; no longer than a Rust slice may be; bytes need no alignment.
    Ok(unsafe { slice::from_raw_parts_mut(pointer, len) })
}

/// Refuses two ranges that share a byte: Rust may not hold a reference to both.
pub(crate) fn check_apart(
    a: *const u8,
    a_len: usize,
    b: *const u8,
    b_len: usize,
) -> Result<(), roce_status> {
    // A range that ends past the address space is not valid memory.
    let before = |x: *const u8, len: usize, y: *const u8| x.addr().saturating_add(len) <= y.addr();
    if a_len == 0 || b_len == 0 || before(a, a_len, b) || before(b, b_len, a) {
        Ok(())
    } else {
        Err(roce_status::Overlap)
    }
}

/// A pointer to a string constant of C, for the header's `const char *`.
pub(crate) fn c_string(text: &'static core::ffi::CStr) -> *const core::ffi::c_char {
    text.as_ptr()
}

/// NULL.
pub(crate) fn no_string() -> *const core::ffi::c_char {
    ptr::null()
}
