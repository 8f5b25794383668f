//! Tests of lends by fd, in this process and to another one.

mod common;

use std::os::fd::AsRawFd;

use tenon::{Access, ErrorKind, FdHandle, Mode, OpenOptions, Storage, StorageMut, StorageOptions};

#[test]
fn the_same_memory_comes_back() {
    let storage = StorageOptions::new().copy_from(b"0123456789").unwrap();
    let handle = storage.share_fd().unwrap();
    assert_eq!((handle.access, handle.nbytes), (Access::Writable, 10));
    assert!(handle.segment_nbytes >= handle.offset + 10);
    let opened = handle.open_writable(OpenOptions::new()).unwrap();
    assert!(opened.same_memory(&storage));
    opened.cells()[0].set(b'x');
    assert_eq!(storage.cells()[0].get(), b'x');
    assert_eq!(handle.open(OpenOptions::new()).unwrap().id(), opened.id());
}

#[test]
fn access_is_told_by_types_and_kept_by_the_kernel() {
    let shared = StorageMut::new(64).unwrap();
    assert_eq!(shared.share_fd_writable().unwrap().access, Access::Writable);
    assert_eq!(shared.share_fd_read_only().unwrap_err().kind(), ErrorKind::Permission);

    let lender = StorageOptions::new().lender_writes().zeroed().create(64).unwrap();
    assert_eq!(lender.share_fd_writable().unwrap_err().kind(), ErrorKind::Permission);
    let handle = lender.share_fd().unwrap();
    assert_eq!(handle.access, Access::ReadOnly);
    assert_eq!(handle.open_writable(OpenOptions::new()).unwrap_err().kind(), ErrorKind::Permission);
    let borrowed = handle.open_read_only(OpenOptions::new()).unwrap();
    assert_eq!(borrowed.mode(), Mode::LenderWrites);
    assert!(borrowed.is_read_only() && !borrowed.is_immutable());
    lender.cells()[5].set(6);
    assert_eq!(borrowed.cells()[5].get(), 6);
    assert_eq!(borrowed.as_bytes().unwrap_err().kind(), ErrorKind::MayChange);

    // The writes go to private memory.
    let copy = handle.open_writable(OpenOptions::new().private_copy()).unwrap();
    copy.cells()[5].set(7);
    let cow = handle.open_writable(OpenOptions::new().private_cow()).unwrap();
    cow.cells()[5].set(8);
    assert_eq!((lender.cells()[5].get(), copy.cells()[5].get(), cow.cells()[5].get()), (6, 7, 8));
    assert!(!cow.is_immutable() && !copy.is_immutable());
}

#[test]
fn frozen_stays_immutable_for_borrowers() {
    let storage = StorageOptions::new().copy_frozen(b"weights").unwrap();
    let opened = storage.share_fd_read_only().unwrap().into_storage(OpenOptions::new()).unwrap();
    assert_eq!(opened.as_bytes().unwrap(), b"weights");
}

#[test]
fn an_adopted_fd_is_gone_and_a_refused_one_is_closed() {
    let folder = common::Folder::new();
    let path = folder.0.join("plain");
    std::fs::write(&path, [7u8; 100]).unwrap();
    let handle = FdHandle::new(std::fs::File::open(&path).unwrap().into(), 0, 100);
    let storage = handle.into_storage(OpenOptions::new().allow_unsealed()).unwrap();
    assert!(!storage.is_sealed() && storage.is_read_only() && !storage.is_immutable());
    let mut copy = [0; 3];
    storage.read(97, &mut copy).unwrap();
    assert_eq!(copy, [7; 3]);
    std::fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    assert_eq!(storage.read(0, &mut copy).unwrap_err().kind(), ErrorKind::Corrupt);

    let outside = FdHandle::new(std::fs::File::open(&path).unwrap().into(), 0, 1 << 20);
    let error = outside.into_storage(OpenOptions::new().allow_unsealed()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::InvalidArgument), "{error:?}");
}

#[test]
fn an_empty_storage_has_no_fd() {
    let handle = StorageMut::new(0).unwrap().share_fd().unwrap();
    assert!(handle.fd.is_none() && handle.as_fd().is_none());
    assert_eq!(handle.open(OpenOptions::new()).unwrap().nbytes(), 0);
}

#[test]
fn another_process_opens_an_inherited_fd() {
    common::watchdog();
    let storage = StorageOptions::new().isolated().copy_from(&[1u8; 4096]).unwrap();
    let handle = storage.share_fd().unwrap();
    let (offset, nbytes) = (handle.offset.to_string(), handle.nbytes.to_string());
    let child = common::command("borrower_of_an_fd")
        .stdin(handle.as_fd().unwrap().try_clone_to_owned().unwrap())
        .envs([("TENON_OFFSET", offset), ("TENON_NBYTES", nbytes)])
        .spawn()
        .unwrap();
    common::ends_well(child);
    assert_eq!(storage.cells()[4095].get(), 42);
}

#[test]
#[ignore = "the other process of a test"]
fn borrower_of_an_fd() {
    let number = |name| std::env::var(name).unwrap().parse().unwrap();
    let fd = std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned().unwrap();
    assert!(fd.as_raw_fd() > 2);
    let storage: Storage = FdHandle::new(fd, number("TENON_OFFSET"), number("TENON_NBYTES"))
        .into_storage(OpenOptions::new())
        .unwrap();
    assert!(storage.cells().iter().all(|cell| cell.get() == 1));
    storage.writable().unwrap().cells()[4095].set(42);
}
