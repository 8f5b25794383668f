//! Tests of lends by name, also to another process.

mod common;

use tenon::{
    ErrorKind, FilenameHandle, FilenameOptions, OpenOptions, StorageMut, StorageOptions,
    SweepOptions, Wait,
};

#[test]
fn a_file_lives_as_long_as_its_holders() {
    let folder = common::Folder::new();
    let options = FilenameOptions::new().directory(&folder.0).name("weights");
    let storage = StorageMut::new_filename(&options, 100).unwrap();
    assert_eq!(folder.names(), ["weights"]);
    assert!(storage.cells().iter().all(|cell| cell.get() == 0));
    let handle = storage.share_filename(&FilenameOptions::new(), None).unwrap();
    assert_eq!((handle.nbytes, handle.offset, &handle.manager), (100, 0, &None));
    assert!(!storage.is_sealed());
    let opened = handle.open_writable(OpenOptions::new().allow_unsealed(), None).unwrap();
    assert!(opened.same_memory(&storage) && !opened.is_immutable());
    drop((storage, opened));
    assert!(folder.names().is_empty());
    assert_eq!(
        handle.open(OpenOptions::new().allow_unsealed(), None).unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn a_taken_name_and_a_bad_one() {
    let folder = common::Folder::new();
    let options = FilenameOptions::new().directory(&folder.0).name("taken");
    let _first = StorageMut::new_filename(&options, 8).unwrap();
    assert_eq!(StorageMut::new_filename(&options, 8).unwrap_err().kind(), ErrorKind::Permission);
    for name in ["a/b", "a\0b", &"x".repeat(300)] {
        let error =
            StorageMut::new_filename(&FilenameOptions::new().directory(&folder.0).name(name), 8)
                .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name:?}");
    }
    for name in ["/a\0b", &format!("/{}", "x".repeat(255))] {
        let error = FilenameHandle::new(name, 8).open(OpenOptions::new(), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name:?}");
    }
}

#[test]
fn unlink_and_sweep() {
    let folder = common::Folder::new();
    let options = FilenameOptions::new().directory(&folder.0).name("one");
    let storage = StorageMut::new_filename(&options, 8).unwrap();
    let found = tenon::sweep(&SweepOptions::new().directory(&folder.0).dry_run()).unwrap();
    assert_eq!((found.live, found.dead), (1, 0));
    let name = storage.share_filename(&FilenameOptions::new(), None).unwrap().name;
    tenon::unlink(&name).unwrap();
    tenon::unlink(&name).unwrap();
    assert!(folder.names().is_empty());
    assert_eq!(
        tenon::sweep(&SweepOptions::new().directory("/no/such/folder")).unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn in_flight_outlives_the_senders_references() {
    let folder = common::Folder::new();
    let storage =
        StorageMut::new_filename(&FilenameOptions::new().directory(&folder.0), 8).unwrap();
    storage.cells()[3].set(33);
    let handle = storage.share_filename(&FilenameOptions::new().in_flight(), None).unwrap();
    drop(storage);
    assert_eq!(folder.names().len(), 1);
    let opened = handle.open(OpenOptions::new().allow_unsealed().decref(), None).unwrap();
    assert_eq!(opened.cells()[3].get(), 33);
    handle.incref().unwrap();
    handle.decref().unwrap();
    drop(opened);
    assert!(folder.names().is_empty());
    assert_eq!(handle.incref().unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn private_memory_moves_when_asked() {
    let folder = common::Folder::new();
    let storage = StorageOptions::new().private().create(8).unwrap();
    let options = FilenameOptions::new().directory(&folder.0);
    // SAFETY: only this thread has the storage.
    let handle = unsafe { storage.share_filename_moving(&options, None) }.unwrap();
    assert!(storage.is_shared());
    assert_eq!(handle.nbytes, 8);
    drop(storage);
    assert!(folder.names().is_empty());
}

#[test]
fn another_process_opens_a_file_and_a_socket() {
    common::watchdog();
    let folder = common::Folder::new();
    let options = FilenameOptions::new().directory(&folder.0);
    let file = StorageMut::new_filename(&options, 64).unwrap();
    let frozen = StorageOptions::new().copy_frozen(b"cannot change").unwrap();
    let (by_file, by_socket) = (
        file.share_filename(&options, None).unwrap(),
        frozen.share_filename(&options, None).unwrap(),
    );
    let child = common::command("borrower_by_name")
        .env("TENON_FILE", &by_file.name)
        .env("TENON_SOCKET", &by_socket.name)
        .env("TENON_OFFSET", by_socket.offset.to_string())
        .spawn()
        .unwrap();
    common::ends_well(child);
    assert_eq!(file.cells()[63].get(), 77);
    drop((file, frozen));
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

#[test]
#[ignore = "the other process of a test"]
fn borrower_by_name() {
    let text = |name| std::env::var(name).unwrap();
    let file = FilenameHandle::new(text("TENON_FILE"), 64)
        .open_writable(OpenOptions::new().allow_unsealed(), None)
        .unwrap();
    file.cells()[63].set(77);
    let handle = FilenameHandle {
        offset: text("TENON_OFFSET").parse().unwrap(),
        ..FilenameHandle::new(text("TENON_SOCKET"), 13)
    };
    let frozen = handle.open(OpenOptions::new(), Wait::at_most(common::PATIENCE)).unwrap();
    assert_eq!(frozen.as_bytes().unwrap(), b"cannot change");
    assert_eq!(
        handle.open_writable(OpenOptions::new(), None).unwrap_err().kind(),
        ErrorKind::Permission
    );
}
