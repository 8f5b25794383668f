//! CUDA's driver, where tests/cuda says that there is one, and work of a stream that ends when it is told to.
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

/// A function of CUDA's driver.
pub fn found(name: &CStr) -> *mut c_void {
    // SAFETY: both texts end with NUL.
    let function = unsafe { dlsym(dlopen(c"libcuda.so.1".as_ptr(), 2), name.as_ptr()) };
    assert!(!function.is_null(), "{name:?}");
    function
}

macro_rules! cu {
    ($name:literal ($($type:ty),*) $($argument:expr),*) => {
        // SAFETY: so cuda.h declares it, and the pointers among the arguments are good for the call.
        assert_eq!(unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> c_int>($crate::cuda::found($name))($($argument),*) }, 0)
    };
}

/// A stream whose work is under way until it is let go, so that nothing depends on how long anything takes.
pub struct Busy {
    pub stream: *mut c_void,
    go: Sender<()>,
}

impl Busy {
    pub fn new() -> Busy {
        unsafe extern "C" fn stay(receiver: *mut c_void) {
            // SAFETY: the box that was given to the stream, once.
            unsafe { Box::from_raw(receiver.cast::<Receiver<()>>()) }.recv().unwrap();
        }
        let (mut context, mut stream) = (null_mut(), null_mut());
        cu!(c"cuInit"(u32) 0);
        cu!(c"cuDevicePrimaryCtxRetain"(*mut *mut c_void, c_int) &mut context, 0);
        cu!(c"cuCtxSetCurrent"(*mut c_void) context);
        cu!(c"cuStreamCreate"(*mut *mut c_void, u32) &mut stream, 1);
        let (go, stays) = channel::<()>();
        let stays = Box::into_raw(Box::new(stays)).cast();
        cu!(c"cuLaunchHostFunc"(*mut c_void, unsafe extern "C" fn(*mut c_void), *mut c_void) stream, stay, stays);
        Busy { stream, go }
    }

    pub fn let_go(&self) {
        self.go.send(()).unwrap();
    }
}
