//! Tests of storages: modes, views, owners and their panics.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use tenon::{ErrorKind, Mode, Storage, StorageMut, StorageOptions};

#[test]
fn modes_and_what_they_allow() {
    let shared = StorageMut::new(100).unwrap();
    assert_eq!(
        (shared.mode(), shared.nbytes(), shared.is_read_only(), shared.is_shared()),
        (Mode::Shared, 100, false, true)
    );
    assert!(shared.is_sealed() && !shared.is_immutable());
    assert_eq!(shared.as_bytes().unwrap_err().kind(), ErrorKind::MayChange);

    let lender = StorageOptions::new().lender_writes().create(100).unwrap();
    assert_eq!((lender.mode(), lender.is_read_only()), (Mode::LenderWrites, false));
    assert_eq!(lender.as_bytes().unwrap_err().kind(), ErrorKind::MayChange);

    let frozen = StorageOptions::new().copy_frozen(&[1u16, 2, 3]).unwrap();
    assert_eq!((frozen.mode(), frozen.is_read_only(), frozen.nbytes()), (Mode::Frozen, true, 6));
    assert_eq!(frozen.as_bytes().unwrap(), [1, 0, 2, 0, 3, 0]);
    assert_eq!(frozen.writable().unwrap_err().kind(), ErrorKind::Permission);

    let private = StorageOptions::new().private().zeroed().create(10).unwrap();
    assert!(!private.is_shared());
    private.write(3, b"abc").unwrap();
    let mut copy = [0; 5];
    private.read(2, &mut copy).unwrap();
    assert_eq!(&copy, b"\0abc\0");
    assert_eq!(private.read(6, &mut copy).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_storage_that_the_caller_fills() {
    let storage = StorageOptions::new().will_fill().create(3).unwrap();
    storage.write(0, b"abc").unwrap();
    let mut copy = [0; 3];
    storage.read(0, &mut copy).unwrap();
    assert_eq!(&copy, b"abc");
    let both = StorageOptions::new().zeroed().will_fill().create(3).unwrap_err();
    assert_eq!(both.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn filling() {
    let filling = StorageOptions::new().fill_frozen(6).unwrap();
    filling.write(2, b"xy").unwrap();
    assert_eq!(filling.write(5, b"xy").unwrap_err().kind(), ErrorKind::InvalidArgument);
    let storage = filling.freeze().unwrap();
    assert_eq!(storage.as_bytes().unwrap(), b"\0\0xy\0\0");
}

#[test]
fn cells_of_two_references_are_the_same_bytes() {
    let storage = StorageOptions::new().zeroed().create(64).unwrap();
    let again = storage.writable().unwrap();
    storage.cells()[7].set(9);
    assert_eq!(again.cells()[7].get(), 9);
    assert_eq!(Storage::from(again.clone()).cells()[7].get(), 9);
    assert!(storage.same_memory(&again) && storage.id() == again.id());
    assert_eq!(storage.use_count(), 2);
    drop(again);
    assert_eq!(storage.use_count(), 1);
}

#[test]
fn found_by_an_address() {
    let storage = StorageOptions::new().create(100).unwrap();
    let address = storage.as_ptr();
    // SAFETY: no storage of mode FROZEN is being filled here.
    let find = |address: *const u8, nbytes| unsafe { Storage::at(address, nbytes) };
    let (found, offset) = find(address.wrapping_add(30), 70).unwrap();
    assert_eq!((found.id(), offset), (storage.id(), 30));
    drop(found);
    assert_eq!(find(address.wrapping_add(30), 71).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(storage.use_count(), 1);
    drop(storage);
    assert_eq!(find(address, 1).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn empty() {
    for storage in [StorageMut::new(0).unwrap(), StorageOptions::new().private().create(0).unwrap()]
    {
        assert!(storage.cells().is_empty());
        assert_eq!(storage.nbytes(), 0);
        storage.write(0, &[]).unwrap();
    }
    assert!(StorageOptions::new().copy_frozen::<u8>(&[]).unwrap().as_bytes().unwrap().is_empty());
}

#[test]
fn unguarded_slices() {
    let mut storage = StorageOptions::new().zeroed().create(8).unwrap();
    // SAFETY: nobody else has the storage.
    unsafe {
        storage.as_bytes_mut_unguarded()[3] = 5;
        assert_eq!(storage.as_bytes_unguarded(), [0, 0, 0, 5, 0, 0, 0, 0]);
    }
}

struct Owner(Vec<f32>, Arc<AtomicU32>, bool);

impl AsRef<[f32]> for Owner {
    fn as_ref(&self) -> &[f32] {
        &self.0
    }
}

impl AsMut<[f32]> for Owner {
    fn as_mut(&mut self) -> &mut [f32] {
        &mut self.0
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::SeqCst);
        if self.2 {
            panic!("the owner's own words");
        }
    }
}

#[test]
fn an_owner_is_dropped_once_with_the_last_reference() {
    let dropped = Arc::new(AtomicU32::new(0));
    let storage = Storage::wrap(Owner(vec![1.0, 2.0], dropped.clone(), false)).unwrap();
    assert_eq!(storage.as_bytes().unwrap(), [1.0f32.to_ne_bytes(), 2.0f32.to_ne_bytes()].concat());
    assert_eq!(storage.writable().unwrap_err().kind(), ErrorKind::Permission);
    let other = storage.clone();
    drop(storage);
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    std::thread::spawn(move || drop(other)).join().unwrap();
    assert_eq!(dropped.load(Ordering::SeqCst), 1);

    let storage = StorageMut::wrap(Owner(vec![0.0], dropped.clone(), false)).unwrap();
    storage.cells()[3].set(0x3f);
    storage.cells()[2].set(0x80);
    let mut bytes = [0; 4];
    storage.read(0, &mut bytes).unwrap();
    assert_eq!(f32::from_ne_bytes(bytes), 1.0);
    drop(storage);
    assert_eq!(dropped.load(Ordering::SeqCst), 2);
}

#[test]
fn a_panic_of_an_owner_goes_on_in_who_dropped_the_last_reference() {
    let dropped = Arc::new(AtomicU32::new(0));
    let storage = Storage::wrap(Owner(vec![1.0], dropped.clone(), true)).unwrap();
    let tensor = tenon::Tensor::new(&storage, &tenon::TensorSpec::of::<f32>(&[1])).unwrap();
    drop(storage);
    let caught = catch_unwind(AssertUnwindSafe(|| drop(tensor))).unwrap_err();
    assert_eq!(caught.downcast_ref::<&str>(), Some(&"the owner's own words"));
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    // Nothing of the panic is left for the next release.
    drop(StorageMut::new(64).unwrap());
}

#[test]
fn a_panic_of_an_owner_during_a_panic_is_swallowed_and_no_abort() {
    let dropped = Arc::new(AtomicU32::new(0));
    let storage = Storage::wrap(Owner(vec![1.0], dropped.clone(), true)).unwrap();
    let caught = catch_unwind(AssertUnwindSafe(move || {
        let _held = storage;
        panic!("the first");
    }));
    assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"the first"));
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    drop(StorageMut::new(64).unwrap());
}

#[test]
fn a_deleter_may_call_tenon_and_panic_in_it() {
    let dropped = Arc::new(AtomicU32::new(0));
    let inner = Storage::wrap(Owner(vec![1.0], dropped.clone(), true)).unwrap();
    let mut bytes = vec![0u8; 16].into_boxed_slice();
    let start = bytes.as_mut_ptr();
    let counter = dropped.clone();
    // SAFETY: the bytes live in the closure until it is called.
    let storage = unsafe {
        StorageMut::wrap_raw(start, 16, move || {
            drop(bytes);
            counter.fetch_add(10, Ordering::SeqCst);
            drop(inner); // panics during the outer release
        })
    }
    .unwrap();
    let caught = catch_unwind(AssertUnwindSafe(|| drop(storage))).unwrap_err();
    assert_eq!(caught.downcast_ref::<&str>(), Some(&"the owner's own words"));
    assert_eq!(dropped.load(Ordering::SeqCst), 11);
}

#[test]
fn threads_write_and_read_one_storage() {
    let storage = StorageOptions::new().zeroed().create(1024).unwrap();
    std::thread::scope(|scope| {
        for value in 1..4 {
            let storage = &storage;
            scope.spawn(move || {
                for cell in storage.cells() {
                    cell.set(value);
                }
                let clone = storage.clone();
                assert!(clone.cells().iter().all(|cell| (1..4).contains(&cell.get())));
            });
        }
    });
    assert!(tenon::stats().unwrap().storages >= 1);
}
