//! Tests of CUDA events: they are recorded, queried, waited for, and opened in another process.
//! They run where there is a driver (tests/process/cuda says where).

mod common;
#[path = "common/cuda.rs"]
mod cuda;

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::ptr::null_mut;
use std::thread::spawn;
use std::time::Duration;

use cuda::{has_driver, Busy};
use tenon::{cuda_available, Cancel, CudaEvent, CudaEventOptions, ErrorKind, Wait};

#[test]
fn without_a_device() {
    if cuda_available().is_ok() {
        return;
    }
    assert_eq!(CudaEvent::new(CudaEventOptions::new()).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(
        // SAFETY: this handle belongs to no event.
        unsafe { CudaEvent::from_ipc_handle(&[0; 64], 0) }.unwrap_err().kind(),
        ErrorKind::Unsupported
    );
}

#[test]
fn asked_and_waited_for() {
    if !has_driver() {
        return;
    }
    let event = CudaEvent::new(CudaEventOptions::new()).unwrap();
    assert!(event.query().unwrap());
    let busy = Busy::new();
    // SAFETY: this is a stream of this process.
    unsafe { event.record(busy.stream) }.unwrap();
    assert!(!event.query().unwrap());
    assert_eq!(event.synchronize(Wait::NOT).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(event.synchronize(Duration::from_millis(2)).unwrap_err().kind(), ErrorKind::Timeout);
    let cancel = Cancel::new().unwrap();
    cancel.trigger();
    assert_eq!(
        event.synchronize(Wait::FOREVER.cancelled_by(&cancel)).unwrap_err().kind(),
        ErrorKind::Cancelled
    );
    // SAFETY: this is the default stream.
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
    for device in [-1, 999] {
        assert_eq!(
            CudaEvent::new(CudaEventOptions::new().device(device)).unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
    }
    let event = CudaEvent::new(CudaEventOptions::new()).unwrap();
    assert_eq!(event.ipc_handle().unwrap_err().kind(), ErrorKind::InvalidArgument);
    let event = CudaEvent::new(CudaEventOptions::new().interprocess()).unwrap();
    let handle = event.ipc_handle().unwrap();
    // SAFETY: the event exists.
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
    // SAFETY: the process that made the event waits until this one ends.
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
    // SAFETY: this is a stream of this process.
    unsafe { event.record(busy.stream) }.unwrap();
    let text: String = handle.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut other = common::command("other_process")
        .env("TENON_TEST_EVENT", text)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(other.stdout.take().unwrap()).lines();
    assert!(lines.by_ref().any(|line| line.unwrap() == "not yet"));
    busy.let_go();
    lines.for_each(drop);
    common::ends_well(other);
    assert!(event.query().unwrap());
}
