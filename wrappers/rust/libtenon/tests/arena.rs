//! Tests of arenas: their storages, their errors, and waits for room.

mod common;

use std::time::Duration;

use common::PATIENCE;
use tenon::{
    Arena, ArenaOptions, Cancel, ErrorKind, Mode, Pages, StorageMut, StorageOptions, TensorMut,
    TensorSpec, Wait,
};

const MIB: u64 = 1 << 20;

fn arena(nbytes: u64) -> Arena {
    ArenaOptions::new().capacity(nbytes).create().unwrap()
}

fn storage(arena: &Arena, nbytes: u64) -> tenon::Result<StorageMut> {
    StorageOptions::new().arena(arena).create(nbytes)
}

#[test]
fn a_fresh_one() {
    let now = arena(4 * MIB).stats().unwrap();
    assert_eq!(now.bytes_capacity, 4 * MIB);
    assert_eq!(
        (
            now.bytes_live,
            now.bytes_lent,
            now.bytes_retired,
            now.bytes_peak,
            now.blocks_live,
            now.blocks_lent
        ),
        (0, 0, 0, 0, 0, 0)
    );
    assert!(
        now.pages != Pages::Auto
            && now.page_nbytes >= 4096
            && now.numa_node.is_none()
            && !now.locked
    );
    assert!(ArenaOptions::new().create().unwrap().stats().unwrap().bytes_capacity > 1 << 30);
}

#[test]
fn one_segment_for_all() {
    let arena = arena(4 * MIB);
    let storages: Vec<StorageMut> = (0..100).map(|_| storage(&arena, 100).unwrap()).collect();
    let tensor = TensorMut::new(
        &StorageOptions::new().arena(&arena).copy_from(&[1.0f32, 2.0]).unwrap(),
        &TensorSpec::of::<f32>(&[2]),
    )
    .unwrap();
    assert_eq!(tensor.cells::<f32>().unwrap()[1].get(), 2.0);
    assert_eq!(arena.stats().unwrap().blocks_live, 101);
    let (one, other) = (storages[0].share_fd().unwrap(), storages[99].share_fd().unwrap());
    assert_eq!((one.segment_nbytes, other.segment_nbytes), (4 * MIB, 4 * MIB));
    assert_ne!(one.offset, other.offset);
}

#[test]
fn mode_and_alignment_are_the_arenas() {
    let arena = ArenaOptions::new().lender_writes().capacity(MIB).alignment(1024).create().unwrap();
    for _ in 0..3 {
        let storage = storage(&arena, 8).unwrap();
        assert_eq!(storage.mode(), Mode::LenderWrites);
        assert_eq!(storage.cells().as_ptr() as usize % 1024, 0);
    }
}

#[test]
fn storages_outlive_it() {
    let arena = arena(MIB);
    let copy = arena.clone();
    let storage = StorageOptions::new().arena(&arena).zeroed().create(8).unwrap();
    drop(arena);
    assert_eq!(copy.stats().unwrap().blocks_live, 1);
    drop(copy);
    storage.write(0, &[1; 8]).unwrap();
}

#[test]
fn full() {
    let arena = arena(MIB);
    let keep = storage(&arena, MIB).unwrap();
    let error = storage(&arena, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
    let detail = |key| error.detail(key).unwrap().to_owned();
    assert_eq!(detail("limit"), "arena");
    assert_eq!(detail("limit_value"), MIB.to_string());
    assert_eq!(detail("live"), MIB.to_string());
    assert_eq!((detail("lent"), detail("holders")), ("0".to_owned(), "nobody".to_owned()));
    let late = StorageOptions::new()
        .arena(&arena)
        .wait(Duration::from_millis(10))
        .copy_from(&[1u8])
        .unwrap_err();
    assert_eq!((late.kind(), late.detail("holders")), (ErrorKind::Timeout, Some("nobody")));
    // A wait cannot help here.
    let large = StorageOptions::new().arena(&arena).wait(PATIENCE).create(MIB + 1).unwrap_err();
    assert_eq!(large.kind(), ErrorKind::ResourceExhausted);
    let not = StorageOptions::new().arena(&arena).wait(Wait::NOT).create(1).unwrap_err();
    assert_eq!(not.kind(), ErrorKind::ResourceExhausted);
    drop(keep);
    storage(&arena, MIB).unwrap();
}

#[test]
fn a_wait_ends_when_another_thread_frees() {
    common::watchdog();
    let arena = arena(MIB);
    let keep = storage(&arena, MIB).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(50)); // the other thread waits by now
            drop(keep);
        });
        StorageOptions::new().arena(&arena).wait(PATIENCE).create(MIB).unwrap();
    });
}

#[test]
fn a_wait_is_cancelled() {
    common::watchdog();
    let arena = arena(MIB);
    let _keep = storage(&arena, MIB).unwrap();
    let cancel = Cancel::new().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| cancel.trigger());
        let wait = Wait::FOREVER.cancelled_by(&cancel);
        assert_eq!(
            StorageOptions::new().arena(&arena).wait(wait).create(1).unwrap_err().kind(),
            ErrorKind::Cancelled
        );
    });
}

#[test]
fn refused() {
    let kind = |options: ArenaOptions| options.create().unwrap_err().kind();
    for alignment in [3, 32, 8192] {
        assert_eq!(kind(ArenaOptions::new().alignment(alignment)), ErrorKind::InvalidArgument);
    }
    assert_eq!(kind(ArenaOptions::new().capacity(u64::MAX)), ErrorKind::InvalidArgument);
    let arena = arena(MIB);
    let options = StorageOptions::new().arena(&arena);
    assert_eq!(options.private().create(1).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(options.isolated().create(1).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(options.lender_writes().create(1).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(options.copy_frozen(&[1u8]).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn reserve_and_prefault() {
    common::watchdog();
    let arena = arena(4 * MIB);
    arena.reserve(MIB).unwrap();
    assert!(arena.stats().unwrap().bytes_reserved >= MIB);
    arena.reserve(u64::MAX).unwrap();
    assert_eq!(arena.stats().unwrap().bytes_free, 4 * MIB);
    let ready = ArenaOptions::new().capacity(4 * MIB).prefault(MIB).create().unwrap();
    while ready.stats().unwrap().bytes_reserved < MIB {
        std::thread::sleep(Duration::from_millis(1));
    }
}
