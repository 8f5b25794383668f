//! Tests of host memory that a device reaches. They run where there is a driver (tests/process/cuda
//! says where).

use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr::null_mut;

use tenon::{cuda_available, ErrorKind, StorageMut, StorageOptions};

const NBYTES: usize = 4096;

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Returns a function of CUDA's driver.
fn found(name: &CStr) -> *mut c_void {
    // SAFETY: both texts end with NUL.
    let function = unsafe { dlsym(dlopen(c"libcuda.so.1".as_ptr(), 2), name.as_ptr()) };
    assert!(!function.is_null(), "{name:?}");
    function
}

macro_rules! cu {
    ($name:literal ($($type:ty),*) $($argument:expr),*) => {
        // SAFETY: cuda.h declares the function like this, and the pointers among the arguments are
        // valid for the call.
        assert_eq!(unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> c_int>(
                found($name)
            )($($argument),*)
        }, 0)
    };
}

#[test]
fn without_a_device() {
    let private = StorageOptions::new().private().create(64).unwrap();
    assert_eq!(private.pin(0).unwrap_err().kind(), ErrorKind::Unsupported);
    let storage = StorageMut::new(64).unwrap();
    assert_eq!(storage.pin(-1).unwrap_err().kind(), ErrorKind::InvalidArgument);
    if cuda_available().is_err() {
        assert_eq!(storage.pin(0).unwrap_err().kind(), ErrorKind::Unsupported);
    }
    assert!(!storage.is_pinned());
}

#[test]
fn what_the_device_writes_is_there() {
    if std::env::var_os("TENON_TEST_HAS_CUDA").is_none() {
        return;
    }
    let storage = StorageOptions::new().isolated().create(NBYTES as u64).unwrap();
    let address = storage.pin(0).unwrap();
    assert_eq!(storage.pin(0).unwrap(), address);
    assert!(storage.is_pinned());
    let (mut context, mut memory) = (null_mut(), 0);
    cu!(c"cuDevicePrimaryCtxRetain"(*mut *mut c_void, c_int) &mut context, 0);
    cu!(c"cuCtxSetCurrent"(*mut c_void) context);
    cu!(c"cuMemAlloc_v2"(*mut u64, usize) &mut memory, NBYTES);
    cu!(c"cuMemsetD8_v2"(u64, u8, usize) memory, 7, NBYTES);
    cu!(c"cuMemcpyDtoHAsync_v2"(*mut c_void, u64, usize, *mut c_void)
        address, memory, NBYTES, null_mut());
    cu!(c"cuStreamSynchronize"(*mut c_void) null_mut());
    cu!(c"cuMemFree_v2"(u64) memory);
    let mut bytes = [0; NBYTES];
    storage.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [7; NBYTES]);
}
