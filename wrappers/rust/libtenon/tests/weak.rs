//! Tests of weak references, and of their race with the last release.

use std::sync::atomic::{AtomicBool, Ordering};

use tenon::{Storage, StorageMut, StorageOptions};

#[test]
fn upgrade_until_the_last_release() {
    let storage = StorageMut::new(64).unwrap();
    let weak = storage.downgrade().unwrap();
    let (id, strong) = (storage.id(), weak.upgrade().unwrap());
    assert!(strong.id() == id && weak.id() == id && !weak.is_expired());
    assert_eq!(storage.use_count(), 2);
    drop((storage, strong));
    assert!(weak.is_expired() && weak.upgrade().is_none());
    assert_eq!(weak.id(), id);
}

#[test]
fn a_clone_outlives_the_first() {
    let storage = StorageMut::new(64).unwrap();
    let weak = storage.downgrade().unwrap();
    let (id, copy) = (storage.id(), weak.clone());
    drop(weak);
    assert_eq!(storage.use_count(), 1);
    assert_eq!(copy.upgrade().map(|found| found.id()), Some(id));
    drop(storage);
    let late = copy.clone();
    drop(copy);
    assert!(late.is_expired() && late.upgrade().is_none() && late.id() == id);
}

#[test]
fn a_race_has_one_winner() {
    for round in 0..200u8 {
        let storage = Storage::from(StorageOptions::new().copy_from(&[round; 64]).unwrap());
        let weak = storage.downgrade().unwrap();
        let go = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !go.load(Ordering::Acquire) {
                        std::hint::spin_loop();
                    }
                    if let Some(strong) = weak.upgrade() {
                        // The storage is intact, whichever side won the race.
                        assert!(strong.cells().iter().all(|cell| cell.get() == round));
                    }
                });
            }
            go.store(true, Ordering::Release);
            drop(storage);
        });
        assert!(weak.is_expired());
    }
}
