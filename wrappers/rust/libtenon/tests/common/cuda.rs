//! CUDA's driver for tests, where there is one (tests/process/cuda says where), and work in a
//! stream that ends when the test tells it to.
#![allow(dead_code, unreachable_pub)] // each test file uses its part

use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr::null_mut;
use std::sync::mpsc::{channel, Receiver, Sender};

pub fn has_driver() -> bool {
    std::env::var_os("TENON_TEST_HAS_CUDA").is_some()
}

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Returns a function of CUDA's driver, if the driver has it.
pub fn look_for(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: both texts end with NUL.
    let function = unsafe { dlsym(dlopen(c"libcuda.so.1".as_ptr(), 2), name.as_ptr()) };
    (!function.is_null()).then_some(function)
}

/// Returns a function of CUDA's driver.
pub fn found(name: &CStr) -> *mut c_void {
    look_for(name).unwrap_or_else(|| panic!("{name:?}"))
}

macro_rules! cu {
    ($name:literal ($($type:ty),*) $($argument:expr),*) => {
        // SAFETY: cuda.h declares the function like this, and the pointers among the arguments are
        // valid for the call.
        assert_eq!(unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> c_int>(
                $crate::cuda::found($name)
            )($($argument),*)
        }, 0)
    };
}

/// Returns how much is still lent or borrowed. The work in the fake driver's streams is complete
/// when a call returns, unless the test says otherwise. The work on a real device takes its time.
pub fn left() -> u64 {
    if look_for(c"fake_cuda_live").is_none() {
        crate::common::soon(|| tenon::cuda_collect() == 0);
    }
    tenon::cuda_collect()
}

/// A real driver loads the code of a fill or a copy when the first one runs, which can wait for all
/// work in progress. If that work waits for this process, it would wait for ever. So these are the
/// first ones.
fn load_code() {
    let mut room = 0u64;
    cu!(c"cuMemAlloc_v2"(*mut u64, usize) &mut room, 4096);
    cu!(c"cuMemsetD8_v2"(u64, u8, usize) room, 0, 2000);
    cu!(c"cuMemsetD8_v2"(u64, u8, usize) room + 1, 0, 1);
    cu!(c"cuMemcpy"(u64, u64, usize) room + 2048, room, 2000);
    cu!(c"cuMemFree_v2"(u64) room);
}

/// A stream whose work is in progress until the test releases it, so that nothing depends on how
/// long anything takes.
pub struct Busy {
    pub stream: *mut c_void,
    go: Sender<()>,
}

impl Busy {
    pub fn new() -> Busy {
        unsafe extern "C" fn stay(receiver: *mut c_void) {
            // SAFETY: this is the box that was given to the stream, and it is taken back once.
            unsafe { Box::from_raw(receiver.cast::<Receiver<()>>()) }.recv().unwrap();
        }
        let (mut context, mut stream) = (null_mut(), null_mut());
        cu!(c"cuInit"(u32) 0);
        cu!(c"cuDevicePrimaryCtxRetain"(*mut *mut c_void, c_int) &mut context, 0);
        cu!(c"cuCtxSetCurrent"(*mut c_void) context);
        cu!(c"cuStreamCreate"(*mut *mut c_void, u32) &mut stream, 1);
        load_code();
        let (go, stays) = channel::<()>();
        let stays = Box::into_raw(Box::new(stays)).cast();
        cu!(c"cuLaunchHostFunc"(*mut c_void, unsafe extern "C" fn(*mut c_void), *mut c_void)
            stream, stay, stays);
        Busy { stream, go }
    }

    pub fn let_go(&self) {
        self.go.send(()).unwrap();
    }
}
