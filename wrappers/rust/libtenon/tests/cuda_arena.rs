//! Tests of arenas on a device: their storages go over a connection, in the named streams, and come
//! back. They run where there is a driver (tests/process/cuda says where).

mod common;
#[macro_use]
#[path = "common/cuda.rs"]
mod cuda;

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use cuda::{has_driver, Busy};
use tenon::{
    cuda_available, cuda_collect, Cancel, ConnectionOptions, CudaArena, CudaArenaOptions,
    CudaTransport, DType, ErrorKind, Message, Storage, Tensor, TensorSpec, Wait,
};

const CAPACITY: u64 = 2 << 20;

/// The device belongs to the whole process, so only one test may run at a time.
fn driver() -> Option<MutexGuard<'static, ()>> {
    static ONE: Mutex<()> = Mutex::new(());
    has_driver().then(|| ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

fn arena() -> CudaArena {
    CudaArenaOptions::new().capacity(CAPACITY).create().unwrap()
}

fn tensor_of(storage: &Storage) -> Tensor {
    Tensor::new(storage, &TensorSpec::new(DType::U8, &[storage.nbytes() as i64])).unwrap()
}

/// Checks how often this process has memory of another process open. Only the driver of
/// tests/support/fake_cuda counts that.
fn expect_opened(expected: u64) {
    const IPC_OPEN: u32 = 3;
    let Some(live) = cuda::look_for(c"fake_cuda_live") else { return };
    // SAFETY: the driver of tests/support/fake_cuda declares the function like this.
    let opened = unsafe {
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn(u32, c_int) -> u64>(live)(
            IPC_OPEN,
            std::process::id() as c_int,
        )
    };
    assert_eq!(opened, expected);
}

#[test]
fn without_a_device() {
    let nowhere = CudaArenaOptions::new().device(-1).capacity(CAPACITY);
    assert_eq!(nowhere.create().unwrap_err().kind(), ErrorKind::InvalidArgument);
    if cuda_available().is_err() {
        assert_eq!(
            CudaArenaOptions::new().capacity(CAPACITY).create().unwrap_err().kind(),
            ErrorKind::Unsupported
        );
    }
}

#[test]
fn a_full_one_says_so() {
    let Some(_guard) = driver() else { return };
    let arena = CudaArenaOptions::new()
        .device(0)
        .transport(CudaTransport::Ipc)
        .capacity(CAPACITY)
        .create()
        .unwrap();
    assert_eq!(arena.allocate(0, Wait::NOT).unwrap().nbytes(), 0);
    let all = arena.allocate(CAPACITY, Wait::NOT).unwrap();
    assert_eq!((all.nbytes(), all.device()), (CAPACITY, (2, 0)));
    let full = arena.stats().unwrap();
    assert_eq!(
        (full.device, full.transport, full.bytes_capacity, full.bytes_used),
        (0, CudaTransport::Ipc, CAPACITY, CAPACITY)
    );
    assert_eq!(
        (full.bytes_free, full.bytes_largest_free, full.bytes_peak, full.blocks_used),
        (0, 0, CAPACITY, 1)
    );
    let error = arena.allocate(256, Wait::NOT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
    let capacity = CAPACITY.to_string();
    for (key, value) in
        [("limit", "arena"), ("limit_value", &capacity), ("wanted", "256"), ("in_use", &capacity)]
    {
        assert_eq!(error.detail(key), Some(value), "{key}");
    }
    let late = arena.allocate(256, Duration::from_millis(2)).unwrap_err();
    assert_eq!((late.kind(), late.detail("limit")), (ErrorKind::Timeout, Some("arena")));
    let cancel = Cancel::new().unwrap();
    cancel.trigger();
    assert_eq!(
        arena.allocate(256, Wait::FOREVER.cancelled_by(&cancel)).unwrap_err().kind(),
        ErrorKind::Cancelled
    );
    let same = arena.clone();
    drop((arena, all));
    let now = same.stats().unwrap();
    assert_eq!(
        (now.bytes_used, now.bytes_peak, now.bytes_largest_free, now.blocks_used),
        (0, CAPACITY, CAPACITY, 0)
    );
}

#[test]
fn what_is_refused() {
    let Some(_guard) = driver() else { return };
    for options in [
        CudaArenaOptions::new().device(999),
        CudaArenaOptions::new().transport(CudaTransport::Pool),
    ] {
        assert_eq!(
            options.capacity(CAPACITY).create().unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
    }
    assert_eq!(CudaArenaOptions::new().create().unwrap_err().kind(), ErrorKind::InvalidArgument);
    let (one, _other) = common::pair();
    assert_eq!(
        // SAFETY: this is the default stream.
        unsafe { one.set_stream(-1, null_mut()) }.unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
}

/// The other process of the next test. Its stream gets copies before the sender's work is released.
/// Only the names of the two streams hold the copies back.
#[test]
#[ignore = "a part of another test"]
fn receiver() {
    let busy = Busy::new();
    busy.let_go();
    let connection =
        ConnectionOptions::new().cuda_keep_open().connect(common::inherited_socket()).unwrap();
    // SAFETY: the stream exists until the process ends.
    unsafe { connection.set_stream(0, busy.stream) }.unwrap();
    let message = connection.recv(common::PATIENCE).unwrap();
    // A copy from a device into memory that the driver does not know is complete when the call
    // returns.
    let mut room = null_mut();
    cu!(c"cuMemHostAlloc"(*mut *mut c_void, usize, u32) &mut room, 2, 0);
    // SAFETY: these two bytes last until the process ends, and any byte is a u8.
    let bytes = unsafe { std::slice::from_raw_parts_mut(room.cast::<u8>(), 2) };
    for (name, byte) in ["one", "other"].iter().zip(&mut *bytes) {
        let from = message.find(name).unwrap().view().as_ptr() as u64;
        cu!(c"cuMemcpyDtoHAsync_v2"(*mut u8, u64, usize, *mut c_void) byte, from, 1, busy.stream);
    }
    connection.send(&Message::new().unwrap(), common::PATIENCE).unwrap();
    cu!(c"cuStreamSynchronize"(*mut c_void) busy.stream);
    assert_eq!(*bytes, [7, 8]);
    expect_opened(1);
    drop(message);
    expect_opened(1);
    common::soon(|| cuda_collect() == 0);
    assert_eq!(cuda_collect(), 0);
    expect_opened(0);
}

#[test]
fn sent_to_another_process() {
    let Some(_guard) = driver() else { return };
    common::watchdog();
    let arena = arena();
    let busy = Busy::new();
    let (child, connection) = common::start("receiver", &[]);
    // SAFETY: the stream exists until the process ends.
    unsafe { connection.set_stream(0, busy.stream) }.unwrap();
    let mut message = Message::new().unwrap();
    for (name, byte) in [("one", 7), ("other", 8)] {
        let tensor = tensor_of(&arena.allocate(1000, common::PATIENCE).unwrap());
        let to = tensor.view().as_ptr() as u64;
        cu!(c"cuMemsetD8Async"(u64, u8, usize, *mut c_void) to, byte, 1000, busy.stream);
        message.add(name, &tensor).unwrap();
    }
    connection.send(&message, common::PATIENCE).unwrap();
    drop(message);
    connection.recv(common::PATIENCE).unwrap();
    assert_eq!(arena.stats().unwrap().blocks_used, 2);
    let full = arena.allocate(CAPACITY, Wait::NOT).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::ResourceExhausted);
    assert!(full.detail("holders").unwrap().contains("2 leases"), "{full:?}");
    busy.let_go();
    common::ends_well(child);
    common::soon(|| arena.stats().unwrap().bytes_used == 0);
    assert_eq!(arena.stats().unwrap().bytes_used, 0);
}
