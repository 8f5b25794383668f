//! Tests that every error keeps its code, message, details and cause.

mod common;

use std::error::Error as _;
use std::io;
use std::os::fd::AsFd;

use tenon::{
    Descriptor, ErrorKind, FdHandle, FilenameHandle, FilenameOptions, Message, OpenOptions,
    Storage, StorageMut, StorageOptions, Wait,
};

fn one_line(error: &tenon::Error) {
    assert!(!error.message().is_empty() && !error.message().contains('\n'), "{error:?}");
    assert_eq!(error.to_string(), error.message());
    assert_eq!(error.code(), error.kind().code());
}

#[test]
fn kinds_and_codes_are_one_to_one() {
    for code in 1..=14 {
        let kind = ErrorKind::from_code(code).unwrap();
        assert_eq!(kind.code(), code);
        assert_eq!(kind.code_name(), kind.code_name().to_uppercase());
        // The two names must match: InvalidArgument and INVALID_ARGUMENT.
        assert_eq!(
            kind.code_name().replace('_', "").to_lowercase(),
            format!("{kind:?}").to_lowercase()
        );
    }
    for code in [0, 15, -1, i32::MAX] {
        assert_eq!(ErrorKind::from_code(code), None);
    }
}

#[test]
fn invalid_argument() {
    let error = StorageOptions::new().alignment(3).create(8).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("power of two"));
    assert_eq!(error.details().len(), 0);
    one_line(&error);
}

#[test]
fn permission_says_what_would_be_allowed() {
    let storage = StorageMut::new(64).unwrap();
    let error = storage.share_fd_read_only().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Permission);
    assert!(error.detail("option").is_some(), "{error:?}");
    assert_eq!(error.detail("no such key"), None);
    assert_eq!(
        error.details().find(|(key, _)| *key == "option").map(|(_, value)| value),
        error.detail("option")
    );
    one_line(&error);
}

#[test]
fn resource_exhausted_names_the_limit() {
    let error = StorageMut::new(1 << 60).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
    assert!(error.detail("limit").is_some() && error.detail("wanted").is_some(), "{error:?}");
    one_line(&error);
}

#[test]
fn not_found_names_the_path() {
    let folder = common::Folder::new();
    let path = folder.0.join("nothing").to_str().unwrap().to_owned();
    let error = FilenameHandle::new(&path, 64).open(OpenOptions::new(), Wait::NOT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.detail("path"), Some(path.as_str()));
    one_line(&error);
    let error =
        StorageMut::new_filename(&FilenameOptions::new().directory(folder.0.join("no")), 64)
            .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn corrupt_names_the_field() {
    let message = Message::new().unwrap();
    let mut bytes = Descriptor::new(&message).unwrap().bytes().to_vec();
    bytes[0] ^= 1;
    let error = Descriptor::open(&bytes, &[], tenon::Access::Auto, OpenOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.detail("field").is_some(), "{error:?}");
    one_line(&error);
}

#[test]
fn unsealed_and_io() {
    let folder = common::Folder::new();
    let path = folder.0.join("plain");
    std::fs::write(&path, [0u8; 4096]).unwrap();
    let handle = FdHandle::new(std::fs::File::open(&path).unwrap().into(), 0, 4096);
    let error = handle.open(OpenOptions::new()).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Permission | ErrorKind::InvalidArgument),
        "{error:?}"
    );
    assert!(
        handle.fd.is_some() && handle.as_fd().unwrap().as_fd().try_clone_to_owned().is_ok(),
        "the fd is still ours"
    );
}

#[test]
fn unsupported_of_private_memory() {
    let storage = StorageOptions::new().private().create(64).unwrap();
    let error = storage.share_fd().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    one_line(&error);
    assert_eq!(
        storage.share_filename(&FilenameOptions::new(), None).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
}

#[test]
fn a_cause_is_the_source() {
    let shared = tenon::TensorMut::zeros::<u8>(&[4]).unwrap();
    let error = Message::new().unwrap().add_read_only("weight", &shared).unwrap_err();
    let source =
        error.source().expect("the refusal of the storage").downcast_ref::<tenon::Error>().unwrap();
    assert_eq!((error.kind(), source.kind()), (ErrorKind::Permission, ErrorKind::Permission));
    assert!(source.detail("option").is_some(), "{source:?}");
    one_line(source);
}

#[test]
fn would_block_timeout_and_peer_gone() {
    let (ours, theirs) = common::pair();
    assert_eq!(ours.recv(Wait::NOT).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(
        ours.recv(std::time::Duration::from_millis(1)).unwrap_err().kind(),
        ErrorKind::Timeout
    );
    drop(theirs);
    assert_eq!(ours.recv(common::PATIENCE).unwrap_err().kind(), ErrorKind::PeerGone);
}

#[test]
fn becomes_an_io_error_and_an_answer_to_question_mark() {
    fn outer() -> Result<Storage, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Storage::from(StorageOptions::new().alignment(3).create(8)?))
    }
    let error = outer().unwrap_err();
    let error = error.downcast::<tenon::Error>().unwrap();
    let io = io::Error::from(*error);
    assert_eq!(io.kind(), io::ErrorKind::InvalidInput);
    let inner = io.get_ref().unwrap().downcast_ref::<tenon::Error>().unwrap();
    assert_eq!(inner.kind(), ErrorKind::InvalidArgument);
    assert!(inner.source().is_none());
}

#[test]
fn another_thread_reads_and_drops_it() {
    let error = StorageOptions::new().alignment(3).create(8).unwrap_err();
    let message = error.message().to_owned();
    std::thread::spawn(move || assert_eq!(error.message(), message)).join().unwrap();
}
