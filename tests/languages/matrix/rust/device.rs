//! Copies between the host and the memory of a CUDA device, by the driver that Tenon has found and
//! started.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::mem::transmute;
use std::ptr::null_mut;

use tenon::Storage;

use crate::line::{other, Outcome};

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

fn found(name: &CStr) -> Outcome<*mut c_void> {
    // SAFETY: both texts end with NUL.
    let function = unsafe { dlsym(dlopen(c"libcuda.so.1".as_ptr(), 2), name.as_ptr()) };
    if function.is_null() {
        return other(format!("the driver has no {name:?}"));
    }
    Ok(function)
}

fn make_current(storage: &Storage) -> Outcome<()> {
    let (retain, set) = (found(c"cuDevicePrimaryCtxRetain")?, found(c"cuCtxSetCurrent")?);
    let mut context = null_mut();
    // SAFETY: cuda.h declares both functions with these types.
    let done = unsafe {
        transmute::<*mut c_void, unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int>(retain)(
            &mut context,
            storage.device().1,
        ) == 0
            && transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> c_int>(set)(context)
                == 0
    };
    if done {
        Ok(())
    } else {
        other("the driver has no context")
    }
}

pub fn has(storage: &Storage) -> bool {
    storage.device().0 == 2
}

/// Reads all bytes of a storage on a device.
pub fn read(storage: &Storage) -> Outcome<Vec<u8>> {
    let mut bytes = vec![0; storage.nbytes() as usize];
    if bytes.is_empty() {
        return Ok(bytes);
    }
    make_current(storage)?;
    let copy = found(c"cuMemcpyDtoH_v2")?;
    // SAFETY: cuda.h declares the function with this type, and both sides have as many bytes.
    let done = unsafe {
        transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, u64, usize) -> c_int>(copy)(
            bytes.as_mut_ptr().cast(),
            storage.as_ptr() as u64,
            bytes.len(),
        )
    };
    if done == 0 {
        Ok(bytes)
    } else {
        other(format!("the driver does not copy: {done}"))
    }
}

/// Writes the bytes to the start of a storage, which must not be smaller.
pub fn write(storage: &Storage, bytes: &[u8]) -> Outcome<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    make_current(storage)?;
    let copy = found(c"cuMemcpyHtoD_v2")?;
    // SAFETY: cuda.h declares the function with this type, and the storage has as many bytes.
    let done = unsafe {
        transmute::<*mut c_void, unsafe extern "C" fn(u64, *const c_void, usize) -> c_int>(copy)(
            storage.as_ptr() as u64,
            bytes.as_ptr().cast(),
            bytes.len(),
        )
    };
    if done == 0 {
        Ok(())
    } else {
        other(format!("the driver does not copy: {done}"))
    }
}

/// Gives the default stream a copy of nbytes bytes between two storages of a device, and does not
/// wait for it.
pub fn copy(to: &Storage, from: &Storage, nbytes: usize) -> Outcome<()> {
    if nbytes == 0 {
        return Ok(());
    }
    make_current(to)?;
    let copy = found(c"cuMemcpyDtoDAsync_v2")?;
    // SAFETY: cuda.h declares the function with this type, and both sides have as many bytes.
    let done =
        unsafe {
            transmute::<*mut c_void, unsafe extern "C" fn(u64, u64, usize, *mut c_void) -> c_int>(
                copy,
            )(to.as_ptr() as u64, from.as_ptr() as u64, nbytes, null_mut())
        };
    if done == 0 {
        Ok(())
    } else {
        other(format!("the driver does not copy: {done}"))
    }
}
