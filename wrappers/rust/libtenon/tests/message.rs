//! Tests that a message gives back what was put into it.

use tenon::{Access, ErrorKind, Message, StorageOptions, Tensor, TensorMut};

#[test]
fn names_tensors_and_bytes() {
    let (one, other) =
        (TensorMut::zeros::<f32>(&[2]).unwrap(), Tensor::frozen(&[1u8, 2], &[2]).unwrap());
    let mut message = Message::new().unwrap();
    assert!(message.is_empty() && message.user_bytes().is_empty() && message.views().is_empty());
    message.add("one", &one).unwrap();
    message.add(None, &other).unwrap();
    message.add_all([(Some("ä"), &one), (None, &one)], Access::Auto).unwrap();
    message.set_user_bytes(b"first").unwrap();
    message.set_user_bytes(b"second").unwrap();
    assert_eq!(message.len(), 4);
    assert_eq!(
        (0..5).map(|i| message.name(i)).collect::<Vec<_>>(),
        [Some("one"), None, Some("ä"), None, None]
    );
    assert_eq!(message.user_bytes(), b"second");
    assert_eq!(message.find("ä").unwrap().storage().id(), one.storage().id());
    assert!(
        message.find("two").is_none()
            && message.find("a\0b").is_none()
            && message.tensor(4).is_none()
    );
    let views = message.views();
    assert_eq!(
        views.iter().map(|view| view.name()).collect::<Vec<_>>(),
        [Some("one"), None, Some("ä"), None]
    );
    assert_eq!(views[1].as_slice::<u8>().unwrap(), [1, 2]);
    views[3].cells_mut::<f32>().unwrap()[1].set(5.0);
    assert_eq!(one.cells::<f32>().unwrap()[1].get(), 5.0);
    assert_eq!(views[0].to_tensor().as_raw(), one.as_raw());
}

#[test]
fn all_or_none() {
    let good = TensorMut::zeros::<f32>(&[2]).unwrap();
    let private = TensorMut::new(
        &StorageOptions::new().private().create(4).unwrap(),
        &tenon::TensorSpec::of::<u8>(&[4]),
    )
    .unwrap();
    let mut message = Message::new().unwrap();
    assert_eq!(
        message
            .add_all([(Some("a"), &good), (Some("b"), &private)], Access::Auto)
            .unwrap_err()
            .kind(),
        ErrorKind::Unsupported
    );
    assert!(message.is_empty());
    assert_eq!(message.add_read_only("a", &good).unwrap_err().kind(), ErrorKind::Permission);
    assert_eq!(message.add("a\0b", &good).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(
        message.add(&*"x".repeat(4097), &good).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    assert_eq!(message.set_user_bytes(&[0; 65537]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    message.add_writable("a", &good).unwrap();
    message.set_user_bytes(&[0; 65536]).unwrap();
    assert_eq!((message.len(), message.user_bytes().len()), (1, 65536));
}

#[test]
fn a_tensor_outlives_its_message() {
    let tensor = {
        let mut message = Message::new().unwrap();
        message.add("x", &Tensor::frozen(&[9u8; 9], &[9]).unwrap()).unwrap();
        message.find("x").unwrap()
    };
    assert_eq!(tensor.as_slice::<u8>().unwrap(), [9; 9]);
}
