//! Tests whether CUDA can be used: there is one answer, with a reason if it is no. Device memory
//! that is lent and opened in one process is the same memory, and no slice shows it. That is tested
//! where there is a driver (tests/process/cuda says where).

mod common;
#[macro_use]
#[path = "common/cuda.rs"]
mod cuda;

use std::ffi::{c_char, c_int, c_void, CStr};
use std::os::unix::net::UnixStream;
use std::ptr::{null_mut, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use tenon::sys::dlpack::{DLDataType, DLDevice, DLManagedTensorVersioned, DLPackVersion, DLTensor};
use tenon::{
    cuda_available, cuda_collect, export_module_to, import_bytes, release_cuda_counter, Connection,
    ConnectionOptions, CudaForm, CudaHandle, CudaOptions, CudaTransport, DlpackTensor, ErrorKind,
    ExportOptions, ImportOptions, Message, Module, Storage, StorageMut, Tensor, Wait,
};

#[test]
fn one_answer() {
    let Err(error) = cuda_available() else {
        assert!(cuda_available().is_ok());
        return;
    };
    assert!(!has_driver(), "{error}");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("CUDA"), "{error}");
    assert_eq!(cuda_available().unwrap_err().message(), error.message());
    let handle = CudaHandle {
        nbytes: 64,
        memory: vec![0; 64],
        counter: "/tenon-cuda-none".to_owned(),
        ..CudaHandle::default()
    };
    assert_eq!(
        // SAFETY: this is the default stream.
        unsafe { handle.open(null_mut(), CudaOptions::new()) }.unwrap_err().kind(),
        ErrorKind::Unsupported
    );
}

#[test]
fn only_device_memory_is_lent_so() {
    let storage = StorageMut::new(64).unwrap();
    assert_eq!(storage.device(), (1, 0));
    // SAFETY: both are the default stream.
    unsafe {
        assert_eq!(
            storage.share_cuda(null_mut(), CudaOptions::new()).unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
        assert_eq!(
            storage.record_stream(null_mut()).unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
        assert_eq!(
            storage.order_stream(null_mut()).unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
    }
    assert_eq!(storage.cells().len(), 64);
}

#[test]
fn what_is_wrong_without_a_call() {
    for counter in ["/a\0b", &"a".repeat(256)] {
        let handle = CudaHandle { counter: counter.to_owned(), ..CudaHandle::default() };
        assert_eq!(
            // SAFETY: this is the default stream.
            unsafe { handle.open(null_mut(), CudaOptions::new()) }.unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
    }
    assert_eq!(release_cuda_counter("/a\0b", 0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(release_cuda_counter("no slash", 0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    release_cuda_counter("/tenon-cuda-0123456789abcdef0123456789abcdef", 0).unwrap();
}

fn has_driver() -> bool {
    std::env::var_os("TENON_TEST_HAS_CUDA").is_some()
}

/// The figures are those of the whole process, so only one test may run at a time.
fn driver() -> Option<MutexGuard<'static, ()>> {
    static ONE: Mutex<()> = Mutex::new(());
    has_driver().then(|| ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

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
        unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> c_int>(
                found($name)
            )($($argument),*)
        }
    };
}

/// Makes the primary context current on this thread.
fn use_device() {
    let mut context: *mut c_void = null_mut();
    assert_eq!(cu!(c"cuInit"(u32) 0), 0);
    assert_eq!(cu!(c"cuDevicePrimaryCtxRetain"(*mut *mut c_void, c_int) &mut context, 0), 0);
    assert_eq!(cu!(c"cuCtxSetCurrent"(*mut c_void) context), 0);
}

fn byte_at(address: *const u8) -> u8 {
    let mut byte = 0u8;
    assert_eq!(cu!(c"cuMemcpyDtoH_v2"(*mut u8, u64, usize) &mut byte, address as u64, 1), 0);
    byte
}

struct Foreign {
    managed: DLManagedTensorVersioned,
    shape: [i64; 2],
    memory: u64,
    freed: &'static AtomicU32,
}

const OFFSET: u64 = 64;
/// DLPack's flag for read-only tensors.
const READ_ONLY: u64 = 1;

/// Makes a tensor of another framework, [4, 8] float32, 64 bytes into an allocation. The counter
/// says how often that was freed.
fn foreign() -> (Tensor, &'static AtomicU32) {
    foreign_with(0)
}

fn foreign_with(flags: u64) -> (Tensor, &'static AtomicU32) {
    use_device();
    let mut memory = 0u64;
    assert_eq!(cu!(c"cuMemAlloc_v2"(*mut u64, usize) &mut memory, 1024), 0);
    assert_eq!(cu!(c"cuMemsetD8_v2"(u64, u8, usize) memory, 0x5a, 1024), 0);
    let freed: &'static AtomicU32 = Box::leak(Box::default());
    let foreign = Box::into_raw(Box::new(Foreign {
        managed: DLManagedTensorVersioned {
            version: DLPackVersion { major: 1, minor: 0 },
            manager_ctx: null_mut(),
            deleter: Some(delete),
            flags,
            dl_tensor: DLTensor {
                data: memory as *mut c_void,
                device: DLDevice { device_type: 2, device_id: 0 },
                ndim: 2,
                dtype: DLDataType { code: 2, bits: 32, lanes: 1 },
                shape: null_mut(),
                strides: null_mut(),
                byte_offset: OFFSET,
            },
        },
        shape: [4, 8],
        memory,
        freed,
    }));
    // SAFETY: the box lives until delete, and nobody dereferences the address of the device.
    let managed = unsafe {
        (*foreign).managed.manager_ctx = foreign.cast();
        (*foreign).managed.dl_tensor.shape = (*foreign).shape.as_mut_ptr();
        DlpackTensor::from_raw(NonNull::from(&mut (*foreign).managed))
    };
    (Tensor::from_dlpack(managed).unwrap(), freed)
}

unsafe extern "C" fn delete(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: this is called once.
    let foreign = unsafe { Box::from_raw((*managed).manager_ctx.cast::<Foreign>()) };
    assert_eq!(cu!(c"cuMemFree_v2"(u64) foreign.memory), 0);
    foreign.freed.fetch_add(1, Ordering::SeqCst);
}

fn share(storage: &Storage, options: CudaOptions) -> tenon::Result<CudaHandle> {
    // SAFETY: this is the default stream.
    unsafe { storage.share_cuda(null_mut(), options) }
}

fn open(handle: &CudaHandle, options: CudaOptions) -> tenon::Result<Storage> {
    // SAFETY: this is the default stream.
    unsafe { handle.open(null_mut(), options) }
}

#[test]
fn lent_and_opened_in_one_process_it_is_the_same_storage() {
    let Some(_guard) = driver() else { return };
    let (tensor, freed) = foreign();
    assert_eq!(tensor.device(), (2, 0));
    let handle = share(&tensor.storage(), CudaOptions::new()).unwrap();
    assert_eq!(
        (handle.transport, handle.device, handle.nbytes, handle.offset),
        (CudaTransport::Ipc, 0, 128, OFFSET)
    );
    assert!(handle.uuid.is_some());
    assert_eq!(handle.memory.len(), 64);
    assert!(handle.counter.starts_with("/tenon-cuda-"), "{}", handle.counter);
    let opened = open(&handle, CudaOptions::new()).unwrap();
    assert_eq!(opened.id(), tensor.storage().id());
    // SAFETY: this is the default stream.
    unsafe { opened.order_stream(null_mut()) }.unwrap();
    // SAFETY: this is the default stream.
    unsafe { opened.record_stream(null_mut()) }.unwrap();
    drop((opened, tensor));
    assert_eq!(cuda::left(), 0);
    assert_eq!(freed.load(Ordering::SeqCst), 1);
}

#[test]
fn to_an_archive_and_back() {
    let Some(_guard) = driver() else { return };
    let (tensor, freed) = foreign();
    let mut module = Module::new("Net").unwrap();
    module.add_parameter("w", &tensor).unwrap();
    drop(tensor);
    let written = |options: &ExportOptions<'_>| {
        let mut bytes = Vec::new();
        export_module_to(&module, &mut bytes, options).unwrap();
        bytes
    };
    let names_device = |bytes: &[u8]| bytes.windows(6).any(|word| word == b"cuda:0");
    assert!(!names_device(&written(&ExportOptions::new())));
    // SAFETY: this is the default stream.
    let kept = written(&unsafe { ExportOptions::new().keep_device().stream(null_mut()) });
    assert!(names_device(&kept));
    drop(module);
    assert_eq!(freed.load(Ordering::SeqCst), 1);
    let read = |options: ImportOptions<'_>| import_bytes(kept.clone(), &options);
    let tensor_of = |module: Module| module.value("w").unwrap().to_tensor().unwrap();
    assert_eq!(tensor_of(read(ImportOptions::new()).unwrap()).device(), (1, 0));
    let there = tensor_of(read(ImportOptions::new().on_device(0)).unwrap());
    assert_eq!(there.device(), (2, 0));
    assert_eq!(byte_at(there.view().as_ptr()), 0x5a);
    assert_eq!(
        read(ImportOptions::new().on_device(999)).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
}

#[test]
fn read_only_over_a_connection() {
    let Some(_guard) = driver() else { return };
    let (tensor, freed) = foreign_with(READ_ONLY);
    let sent = |options: ConnectionOptions| -> tenon::Result<()> {
        let (one, other) = UnixStream::pair().unwrap();
        let (from, to) = (options.connect(one).unwrap(), Connection::new(other).unwrap());
        let mut message = Message::new().unwrap();
        message.add("weight", &tensor).unwrap();
        from.send(&message, Wait::FOREVER)?;
        let weight = to.recv(Wait::FOREVER)?.find("weight").unwrap();
        // In one process the result is the same storage.
        assert_eq!(weight.storage().id(), tensor.storage().id());
        Ok(())
    };
    assert_eq!(sent(ConnectionOptions::new()).unwrap_err().kind(), ErrorKind::Permission);
    sent(ConnectionOptions::new().cuda_let_write()).unwrap();
    drop(tensor);
    assert_eq!(cuda::left(), 0);
    assert_eq!(freed.load(Ordering::SeqCst), 1);
}

#[test]
fn a_message_is_taken_back_unopened() {
    let Some(_guard) = driver() else { return };
    let (tensor, freed) = foreign();
    let handle = share(&tensor.storage(), CudaOptions::new().form(CudaForm::E)).unwrap();
    assert_eq!(handle.memory.len(), 66);
    assert_eq!(handle.memory[..2], [3, b'c']);
    drop(tensor);
    assert_eq!(cuda_collect(), 1);
    assert_eq!(freed.load(Ordering::SeqCst), 0);
    handle.release_counter().unwrap();
    assert_eq!(cuda::left(), 0);
    assert_eq!(freed.load(Ordering::SeqCst), 1);
    assert_eq!(handle.release_counter().unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn what_is_refused() {
    let Some(_guard) = driver() else { return };
    let (tensor, freed) = foreign();
    let handle = share(&tensor.storage(), CudaOptions::new()).unwrap();
    for device in [999, -1] {
        assert_eq!(
            open(&handle, CudaOptions::new().device(device)).unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
    }
    // This is a segment of fabric handles that is longer than C's array for a memory handle. It is
    // read to its end, and then refused by name.
    let mut memory = vec![0; 2 + 24 + 100 * 64];
    (memory[0], memory[1], memory[2], memory[11], memory[18]) = (2, b'e', 1, 1, 100);
    let segment = CudaHandle { memory, ..handle.clone() };
    assert_eq!(open(&segment, CudaOptions::new()).unwrap_err().kind(), ErrorKind::Unsupported);
    handle.release_counter().unwrap();
    drop(tensor);
    assert_eq!(cuda::left(), 0);
    assert_eq!(freed.load(Ordering::SeqCst), 1);
}

#[test]
fn no_slice_shows_it() {
    let Some(_guard) = driver() else { return };
    let (tensor, freed) = foreign();
    let refused = tensor.cells::<f32>().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.message().contains("device (2, 0)"), "{refused}");
    assert_eq!(tensor.as_slice::<f32>().unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(tensor.view().device(), (2, 0));
    assert_eq!(tensor.view().cells_mut::<f32>().unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(tensor.read_into(&mut [0.0f32; 32]).unwrap_err().kind(), ErrorKind::Unsupported);
    #[cfg(feature = "ndarray")]
    assert_eq!(tensor.ndarray_cells::<f32>().unwrap_err().kind(), ErrorKind::Unsupported);
    let mut writable = tensor.writable().unwrap();
    assert_eq!(writable.cells::<f32>().unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(writable.write_from(&[0.0f32; 32]).unwrap_err().kind(), ErrorKind::Unsupported);
    #[cfg(feature = "ndarray")]
    assert_eq!(writable.ndarray_cells::<f32>().unwrap_err().kind(), ErrorKind::Unsupported);
    let mut storage = writable.storage_mut();
    assert_eq!(storage.as_bytes().unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(storage.cells().is_empty());
    assert!(Storage::cells(&storage).is_empty());
    assert_eq!(storage.read(0, &mut [0]).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(storage.write(0, &[0]).unwrap_err().kind(), ErrorKind::Unsupported);
    // SAFETY: there are no bytes, so nobody writes to them.
    unsafe {
        assert_eq!(tensor.as_slice_unguarded::<f32>().unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(
            writable.as_mut_slice_unguarded::<f32>().unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        assert!(storage.as_bytes_unguarded().is_empty());
        assert!(storage.as_bytes_mut_unguarded().is_empty());
        #[cfg(feature = "ndarray")]
        assert_eq!(tensor.ndarray_unguarded::<f32>().unwrap_err().kind(), ErrorKind::Unsupported);
    }
    // Work on the device can use the address itself.
    assert_eq!(byte_at(tensor.view().as_ptr()), 0x5a);
    drop((storage, writable, tensor));
    assert_eq!(cuda::left(), 0);
    assert_eq!(freed.load(Ordering::SeqCst), 1);
}
