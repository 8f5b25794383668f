//! Tests of DLPack in both directions: the structs have DLPack's layout, deleters run once, and
//! their panics continue.

use std::ffi::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use tenon::sys::dlpack::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor,
};
use tenon::{DType, DlpackLegacyTensor, DlpackTensor, ErrorKind, Tensor, TensorMut, TensorSpec};

#[test]
fn out_and_in_again() {
    let tensor = TensorMut::copy_of(&[1i16, 2, 3, 4, 5, 6], &[2, 3]).unwrap();
    let turned =
        Tensor::new(&tensor.storage(), &TensorSpec::of::<i16>(&[3, 1]).strides(&[1, 3]).offset(1))
            .unwrap();
    let managed = turned.to_dlpack().unwrap();
    assert!(!managed.is_read_only());
    let dl = managed.dl_tensor();
    assert_eq!(
        (dl.ndim, dl.dtype, dl.device),
        (2, DLDataType { code: 0, bits: 16, lanes: 1 }, DLDevice { device_type: 1, device_id: 0 })
    );
    // SAFETY: each array has ndim numbers.
    unsafe {
        assert_eq!(std::slice::from_raw_parts(dl.shape, 2), [3, 1]);
        assert_eq!(std::slice::from_raw_parts(dl.strides, 2)[0], 1);
        assert_eq!(dl.data.cast::<u8>().add(dl.byte_offset as usize).cast::<i16>().read(), 2);
    }
    let back = Tensor::from_dlpack(managed).unwrap();
    assert_eq!(back.cells::<i16>().unwrap()[2].get(), 4);
    tensor.cells::<i16>().unwrap()[3].set(44);
    assert_eq!(back.cells::<i16>().unwrap()[2].get(), 44);
    assert_eq!(back.storage().share_fd().unwrap_err().kind(), ErrorKind::Unsupported);
    drop((tensor, turned));
    assert_eq!(back.cells::<i16>().unwrap()[1].get(), 3);

    let legacy = TensorMut::zeros::<f32>(&[4]).unwrap().to_dlpack_legacy().unwrap();
    assert_eq!(legacy.dl_tensor().dtype.bits, 32);
    assert_eq!(Tensor::from_dlpack_legacy(legacy).unwrap().dtype(), DType::F32);
}

#[test]
fn read_only_stays_so() {
    let managed = Tensor::frozen(&[1u8, 2], &[2]).unwrap().to_dlpack().unwrap();
    assert!(managed.is_read_only());
    let back = Tensor::from_dlpack(managed).unwrap();
    assert_eq!(back.writable().unwrap_err().kind(), ErrorKind::Permission);
    assert_eq!(back.as_slice::<u8>().unwrap(), [1, 2]);
}

struct Producer {
    managed: DLManagedTensorVersioned,
    shape: [i64; 1],
    values: [f32; 3],
    deleted: &'static AtomicU32,
    panics: bool,
}

fn produce(deleted: &'static AtomicU32, device_type: i32, panics: bool) -> DlpackTensor {
    let mut producer = Box::new(Producer {
        managed: DLManagedTensorVersioned {
            version: DLPackVersion { major: 1, minor: 0 },
            manager_ctx: std::ptr::null_mut(),
            deleter: Some(delete),
            flags: 0,
            dl_tensor: DLTensor {
                data: std::ptr::null_mut(),
                device: DLDevice { device_type, device_id: 0 },
                ndim: 1,
                dtype: DLDataType { code: 2, bits: 32, lanes: 1 },
                shape: std::ptr::null_mut(),
                strides: std::ptr::null_mut(),
                byte_offset: 0,
            },
        },
        shape: [3],
        values: [1.0, 2.0, 3.0],
        deleted,
        panics,
    });
    producer.managed.dl_tensor.data = producer.values.as_mut_ptr().cast();
    producer.managed.dl_tensor.shape = producer.shape.as_mut_ptr();
    let producer = Box::into_raw(producer);
    // SAFETY: the box lives until delete.
    unsafe {
        (*producer).managed.manager_ctx = producer.cast::<c_void>();
        DlpackTensor::from_raw(NonNull::from(&mut (*producer).managed))
    }
}

unsafe extern "C" fn delete(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: this is called once.
    let producer = unsafe { Box::from_raw((*managed).manager_ctx.cast::<Producer>()) };
    producer.deleted.fetch_add(1, Ordering::SeqCst);
    if producer.panics {
        // A deleter is a C function, so a panic must not leave it.
        let _ = catch_unwind(|| panic!("swallowed by the producer itself"));
    }
}

#[test]
fn a_foreign_tensor_is_deleted_once() {
    static DELETED: AtomicU32 = AtomicU32::new(0);
    let tensor = Tensor::from_dlpack(produce(&DELETED, 1, true)).unwrap();
    assert_eq!(tensor.cells::<f32>().unwrap()[2].get(), 3.0);
    let storage = tensor.storage();
    drop(tensor);
    assert_eq!(DELETED.load(Ordering::SeqCst), 0);
    catch_unwind(AssertUnwindSafe(|| drop(storage))).unwrap();
    assert_eq!(DELETED.load(Ordering::SeqCst), 1);
    drop(produce(&DELETED, 1, false));
    assert_eq!(DELETED.load(Ordering::SeqCst), 2);
}

#[test]
fn a_refused_tensor_is_deleted_too() {
    static DELETED: AtomicU32 = AtomicU32::new(0);
    assert_eq!(
        Tensor::from_dlpack(produce(&DELETED, 2, false)).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
    assert_eq!(DELETED.load(Ordering::SeqCst), 1);
}

#[test]
fn raw_and_back() {
    let raw = TensorMut::zeros::<f32>(&[4]).unwrap().to_dlpack_legacy().unwrap().into_raw();
    let raw: NonNull<DLManagedTensor> = NonNull::new(raw).unwrap();
    // SAFETY: the tensor was just given away.
    drop(unsafe { DlpackLegacyTensor::from_raw(raw) });
}
