//! Events of CUDA streams: recorded, asked, waited for, and opened in another process; tested where a driver is, which tests/cuda says.

mod common;

use std::ffi::{c_char, c_int, c_void, CStr};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::ptr::null_mut;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread::spawn;
use std::time::Duration;

use tenon::{cuda_available, Cancel, CudaEvent, CudaEventOptions, ErrorKind, Wait};

fn has_driver() -> bool {
    std::env::var_os("TENON_TEST_HAS_CUDA").is_some()
}

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// A function of CUDA's driver.
fn found(name: &CStr) -> *mut c_void {
    // SAFETY: both texts end with NUL.
    let function = unsafe { dlsym(dlopen(c"libcuda.so.1".as_ptr(), 2), name.as_ptr()) };
    assert!(!function.is_null(), "{name:?}");
    function
}

macro_rules! cu {
    ($name:literal ($($type:ty),*) $($argument:expr),*) => {
        // SAFETY: so cuda.h declares it, and the pointers among the arguments are good for the call.
        assert_eq!(unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> c_int>(found($name))($($argument),*) }, 0)
    };
}

/// A stream whose work is under way until it is let go, so that nothing depends on how long anything takes.
struct Busy {
    stream: *mut c_void,
    go: Sender<()>,
}

impl Busy {
    fn new() -> Busy {
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

    fn recorded_in(&self, event: &CudaEvent) {
        // SAFETY: a stream of this process.
        unsafe { event.record(self.stream) }.unwrap();
    }

    fn let_go(self) {
        self.go.send(()).unwrap();
    }
}

#[test]
fn without_a_device() {
    if cuda_available().is_ok() {
        return;
    }
    assert_eq!(CudaEvent::new(CudaEventOptions::new()).unwrap_err().kind(), ErrorKind::Unsupported);
    // SAFETY: a handle of no event.
    assert_eq!(unsafe { CudaEvent::from_ipc_handle(&[0; 64], 0) }.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn asked_and_waited_for() {
    if !has_driver() {
        return;
    }
    let event = CudaEvent::new(CudaEventOptions::new()).unwrap();
    assert!(event.query().unwrap());
    let busy = Busy::new();
    busy.recorded_in(&event);
    assert!(!event.query().unwrap());
    assert_eq!(event.synchronize(Wait::NOT).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(event.synchronize(Duration::from_millis(2)).unwrap_err().kind(), ErrorKind::Timeout);
    let cancel = Cancel::new().unwrap();
    cancel.trigger();
    assert_eq!(event.synchronize(Wait::FOREVER.cancelled_by(&cancel)).unwrap_err().kind(), ErrorKind::Cancelled);
    // SAFETY: the default stream.
    unsafe { event.wait(null_mut()) }.unwrap();
    let same = event.clone();
    drop(event);
    let waits = spawn(move || {
        same.synchronize(Wait::FOREVER).unwrap();
        same.query().unwrap()
    });
    busy.let_go();
    assert!(waits.join().unwrap());
}

#[test]
fn what_is_refused() {
    if !has_driver() {
        return;
    }
    for device in [-1, 7] {
        assert_eq!(CudaEvent::new(CudaEventOptions::new().device(device)).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let event = CudaEvent::new(CudaEventOptions::new()).unwrap();
    assert_eq!(event.ipc_handle().unwrap_err().kind(), ErrorKind::InvalidArgument);
    let event = CudaEvent::new(CudaEventOptions::new().interprocess()).unwrap();
    let handle = event.ipc_handle().unwrap();
    // SAFETY: the event is there.
    let error = unsafe { CudaEvent::from_ipc_handle(&handle, 0) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("the process that made it cannot"), "{error}");
    assert!(error.detail("cuda_error_name").is_some());
}

/// The other process of the next test.
#[test]
#[ignore = "a part of another test"]
fn other_process() {
    let text = std::env::var("TENON_TEST_EVENT").unwrap();
    let mut handle = [0; 64];
    for (i, byte) in handle.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap();
    }
    // SAFETY: the other process waits for this one's end.
    let event = unsafe { CudaEvent::from_ipc_handle(&handle, 0) }.unwrap();
    assert!(!event.query().unwrap());
    assert_eq!(event.synchronize(Wait::NOT).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(event.ipc_handle().unwrap_err().kind(), ErrorKind::Unsupported);
    let mut out = std::io::stdout();
    out.write_all(b"\nnot yet\n").unwrap();
    out.flush().unwrap();
    event.synchronize(Wait::FOREVER).unwrap();
    assert!(event.query().unwrap());
}

#[test]
fn opened_in_another_process() {
    common::watchdog();
    if !has_driver() {
        return;
    }
    let event = CudaEvent::new(CudaEventOptions::new().interprocess()).unwrap();
    let handle = event.ipc_handle().unwrap();
    assert_eq!(event.ipc_handle().unwrap(), handle);
    let busy = Busy::new();
    busy.recorded_in(&event);
    let text: String = handle.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut other = common::command("other_process").env("TENON_TEST_EVENT", text).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(other.stdout.take().unwrap()).lines();
    assert!(lines.by_ref().any(|line| line.unwrap() == "not yet"));
    busy.let_go();
    lines.for_each(drop);
    common::ends_well(other);
    assert!(event.query().unwrap());
}
