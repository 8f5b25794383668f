//! Tests of descriptors: the portable form of messages, with fds and without.

mod common;

use std::os::fd::AsFd;

use tenon::{Access, Descriptor, ErrorKind, Message, OpenOptions, Tensor, TensorMut};

fn message() -> (TensorMut, Message) {
    let tensor = TensorMut::copy_of(&[1i32, 2, 3], &[3]).unwrap();
    let mut message = Message::new().unwrap();
    message.add("x", &tensor).unwrap();
    message.set_user_bytes(b"bytes").unwrap();
    (tensor, message)
}

fn is_the_same(opened: &Message, tensor: &Tensor) {
    assert_eq!(opened.user_bytes(), b"bytes");
    assert!(opened.find("x").unwrap().storage().same_memory(&tensor.storage()));
}

#[test]
fn borrowed_and_adopted_fds() {
    let (tensor, message) = message();
    let descriptor = Descriptor::new(&message).unwrap();
    assert_eq!(descriptor.fds().len(), 2); // the fd of the segment, and the token of the lease
    is_the_same(
        &Descriptor::open(descriptor.bytes(), descriptor.fds(), Access::Auto, OpenOptions::new())
            .unwrap(),
        &tensor,
    );
    let owned = descriptor.fds().iter().map(|fd| fd.try_clone_to_owned().unwrap()).collect();
    is_the_same(
        &Descriptor::open_adopting(descriptor.bytes(), owned, Access::Writable, OpenOptions::new())
            .unwrap(),
        &tensor,
    );
}

#[test]
fn wrong_fds_are_refused() {
    let (_tensor, message) = message();
    let descriptor = Descriptor::new(&message).unwrap();
    let open = |fds: &[_]| {
        Descriptor::open(descriptor.bytes(), fds, Access::Auto, OpenOptions::new())
            .unwrap_err()
            .kind()
    };
    assert!(matches!(open(&[]), ErrorKind::InvalidArgument | ErrorKind::Corrupt));
    let file = std::fs::File::open("/dev/null").unwrap();
    assert!(matches!(
        open(&[file.as_fd()]),
        ErrorKind::InvalidArgument | ErrorKind::Corrupt | ErrorKind::Permission
    ));
    let frozen = {
        let mut message = Message::new().unwrap();
        message.add("x", &Tensor::frozen(&[1u8], &[1]).unwrap()).unwrap();
        Descriptor::new(&message).unwrap()
    };
    let error =
        Descriptor::open(frozen.bytes(), frozen.fds(), Access::Writable, OpenOptions::new())
            .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Permission);
}

#[test]
fn every_cut_is_refused() {
    let (_tensor, message) = message();
    let descriptor = Descriptor::new(&message).unwrap();
    for len in 0..descriptor.bytes().len() {
        let error = Descriptor::open(
            &descriptor.bytes()[..len],
            descriptor.fds(),
            Access::Auto,
            OpenOptions::new(),
        )
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{len}: {error:?}");
    }
}

#[test]
fn another_process_opens_bytes_alone() {
    common::watchdog();
    let (tensor, message) = message();
    let descriptor = Descriptor::bytes_only(&message).unwrap();
    assert!(descriptor.fds().is_empty());
    let text: String = descriptor.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let child = common::command("borrower_of_bytes").env("TENON_BYTES", text).spawn().unwrap();
    common::ends_well(child);
    assert_eq!(tensor.cells::<i32>().unwrap()[2].get(), -3);
}

#[test]
#[ignore = "the other process of a test"]
fn borrower_of_bytes() {
    let text = std::env::var("TENON_BYTES").unwrap();
    let bytes: Vec<u8> = (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect();
    let opened = Descriptor::open(&bytes, &[], Access::Auto, OpenOptions::new()).unwrap();
    opened.find("x").unwrap().writable().unwrap().cells::<i32>().unwrap()[2].set(-3);
}
