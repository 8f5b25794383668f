//! Tests of objects: every kind of value is sent to another process and back, and wrong ones are
//! refused.

mod common;

use std::error::Error;
use std::time::Duration;

use common::PATIENCE;
use tenon::{
    Access, Cancel, Composite, CompositeSpec, Connection, DType, ErrorKind, Message, Object,
    Result, StorageOptions, Tensor, TensorLayout, TensorMut, TensorSpec, Wait,
};

/// Makes a dict of all kinds except tensors and composites, with the extreme values of each kind.
fn plain() -> Object {
    Object::from([
        (Object::from("none"), Object::None),
        (Object::from("bools"), vec![true, false].into()),
        (Object::from("ints"), vec![0, 1, -1, 256, i64::MIN, i64::MAX].into()),
        (
            Object::from("floats"),
            vec![-0.0, 1.5, f64::INFINITY, f64::NAN, f64::MIN_POSITIVE].into(),
        ),
        (Object::from("complex"), Object::Complex(1.0, -2.5)),
        (Object::from("texts"), vec!["", "ä\0€😀", "a"].into()),
        (
            Object::from("bytes"),
            Object::Tuple(vec![Object::from(vec![0u8, 255]), Object::from(&b""[..])]),
        ),
        (
            Object::from("set"),
            Object::Set(vec![3.into(), "x".into(), Object::Tuple(vec![1.into(), Object::None])]),
        ),
        (
            Object::from("empty"),
            vec![
                Object::Tuple(vec![]),
                Object::List(vec![]),
                Object::Set(vec![]),
                Object::Dict(vec![]),
                // A container that ends here is not confused with the containers around it.
                vec![vec![vec![7]], vec![]].into(),
            ]
            .into(),
        ),
        (Object::from(7), "a number as a key".into()),
        (Object::from(-0.5), "a float as a key".into()),
        (Object::Tuple(vec!["a".into(), 1.into()]), "a tuple as a key".into()),
        (Object::None, Object::from([(Object::from(true), Object::from([("inner", 2)]))])),
    ])
}

fn carried(object: &Object) -> Result<Object> {
    Message::from_object(object)?.object()
}

fn tensor<'o>(object: &'o Object, key: &str) -> &'o Tensor {
    object
        .get(key)
        .and_then(Object::as_tensor)
        .unwrap_or_else(|| panic!("no tensor {key}: {object:?}"))
}

fn kind_of<T>(result: Result<T>) -> ErrorKind {
    result.map(|_| ()).unwrap_err().kind()
}

/// Makes lists in lists, `depth` of them, with a number in the innermost one.
fn nested(depth: usize) -> Object {
    (0..depth).fold(Object::from(1), |inside, _| vec![inside].into())
}

fn meta() -> Composite {
    Composite::new(&CompositeSpec {
        layout: TensorLayout::Meta,
        sizes: vec![1 << 20, 1 << 20],
        dtype: Some(DType::BF16),
        ..CompositeSpec::default()
    })
    .unwrap()
}

#[test]
fn sent_to_another_process_and_sent_back() {
    common::watchdog();
    let (child, connection) = common::start("receiver", &[]);
    let storage = StorageOptions::new().zeroed().create(4096).unwrap();
    let whole = TensorMut::new(&storage, &TensorSpec::of::<u8>(&[4096])).unwrap();
    let part =
        TensorMut::new(&storage, &TensorSpec::of::<f32>(&[2, 3]).strides(&[1, 2]).offset(100))
            .unwrap();
    let sparse = Composite::new(&CompositeSpec {
        layout: TensorLayout::SparseCoo,
        sizes: vec![9],
        values: Some(Tensor::new(&storage, &TensorSpec::of::<f32>(&[2])).unwrap()),
        indices: Some(TensorMut::copy_of(&[3i64, 9], &[1, 2]).unwrap().into()),
        ..CompositeSpec::default()
    });
    let object = Object::from([
        ("plain", plain()),
        ("whole", whole.clone().into()),
        ("part", (&part).into()),
        ("frozen", Tensor::frozen(&[0.5f64, 1.5], &[2]).unwrap().into()),
        ("sparse", sparse.unwrap().into()),
        ("meta", meta().into()),
        // This pickle is too large for a message's user bytes, so it travels in a tensor.
        ("large", "x".repeat(100_000).into()),
    ]);
    connection.send_object(&object, PATIENCE).unwrap();
    let answer = connection.recv_object(PATIENCE).unwrap();
    common::ends_well(child);
    assert_eq!(format!("{:?}", answer.get("plain").unwrap()), format!("{:?}", plain()));
    assert_eq!(answer.get("large").and_then(Object::as_str).map(str::len), Some(100_000));
    // The storage came home, and the receiver wrote to it.
    assert_eq!(tensor(&answer, "part").storage().id(), storage.id());
    assert_eq!(part.storage().cells()[400 + 4 * 5].get(), 42);
}

#[test]
#[ignore = "the other process of a test"]
fn receiver() {
    common::watchdog();
    let connection = common::inherited();
    let object = connection.recv_object(PATIENCE).unwrap();
    assert_eq!(format!("{:?}", object.get("plain").unwrap()), format!("{:?}", plain()));

    let (whole, part) = (tensor(&object, "whole"), tensor(&object, "part"));
    assert_eq!(whole.storage().id(), part.storage().id());
    assert_eq!(
        (part.dtype(), part.sizes(), part.strides(), part.offset()),
        (DType::F32, &[2, 3][..], &[1, 2][..], 100)
    );
    assert_ne!(tensor(&object, "frozen").storage().id(), part.storage().id());
    assert_eq!(tensor(&object, "frozen").as_slice::<f64>().unwrap(), [0.5, 1.5]);
    whole.writable().unwrap().cells::<u8>().unwrap()[400 + 4 * 5].set(42);

    let sparse = object.get("sparse").and_then(Object::as_composite).unwrap();
    assert_eq!((sparse.layout().unwrap(), sparse.sizes()), (TensorLayout::SparseCoo, &[9][..]));
    assert_eq!(sparse.spec().unwrap().values.unwrap().storage().id(), whole.storage().id());
    // Index 9 is outside, and only this call notices that.
    assert_eq!(kind_of(sparse.check()), ErrorKind::Corrupt);
    let meta = object.get("meta").and_then(Object::as_composite).unwrap();
    assert_eq!((meta.layout().unwrap(), meta.dtype()), (TensorLayout::Meta, DType::BF16));
    connection.send_object(&object, PATIENCE).unwrap();
}

// docs/guides/object_graphs.md shows this function.
fn answer(connection: &Connection) -> Result<(), Box<dyn Error>> {
    let state = connection.recv_object(Wait::FOREVER)?;
    let step = state.get("step").and_then(Object::as_i64).ok_or("no step")?;
    let weights = state.get("weights").ok_or("no weights")?;
    let layer = weights.get("layer1").and_then(Object::as_tensor).ok_or("no layer1")?;
    layer.writable()?.cells::<f32>()?[0].set(42.0); // the sender sees it
    let losses = Object::from(vec![0.5, 0.25]);
    let answer = Object::from([("step", Object::from(step + 1)), ("losses", losses)]);
    connection.send_object(&answer, Wait::FOREVER)?;
    Ok(())
}

#[test]
fn the_answer_of_the_guide() {
    common::watchdog();
    let (ours, theirs) = common::pair();
    let layer = TensorMut::zeros::<f32>(&[1000]).unwrap();
    let weights = Object::from([("layer1", &layer)]);
    ours.send_object(&Object::from([("step", Object::from(1)), ("weights", weights)]), PATIENCE)
        .unwrap();
    answer(&theirs).unwrap();
    let received = ours.recv_object(PATIENCE).unwrap();
    assert_eq!(
        format!("{received:?}"),
        r#"Dict([(Str("step"), Int(2)), (Str("losses"), List([Float(0.5), Float(0.25)]))])"#
    );
    assert_eq!(layer.cells::<f32>().unwrap()[0].get(), 42.0);
    ours.send_object(&"no dict".into(), PATIENCE).unwrap();
    assert_eq!(answer(&theirs).unwrap_err().to_string(), "no step");
}

#[test]
fn each_accessor_reads_its_own_kinds() {
    let frozen = Tensor::frozen(&[1u8], &[1]).unwrap();
    let objects = [
        Object::default(),
        Object::from(true),
        Object::from(-3),
        Object::from(1i64 << 40),
        Object::from(0.5),
        Object::Complex(1.0, 2.0),
        Object::from("a"),
        Object::from("b".to_owned()),
        Object::from(vec![1u8]),
        Object::from(&[2u8][..]),
        Object::from(&frozen),
        Object::from(&TensorMut::zeros::<u8>(&[2]).unwrap()),
        Object::from(&meta()),
        Object::Tuple(vec![1.into()]),
        Object::from(vec![1, 2]),
        Object::Set(vec![1.into(), 2.into(), 3.into()]),
        Object::from([("k", 1)]),
        Object::from(None::<i64>),
        Object::from(Some(5)),
    ];
    // Formats what an accessor reads from the objects, as "index: value".
    fn read<'o, T: std::fmt::Debug>(
        objects: &'o [Object],
        accessor: impl Fn(&'o Object) -> Option<T>,
    ) -> Vec<String> {
        let found = objects
            .iter()
            .enumerate()
            .filter_map(|(i, object)| Some(format!("{i}: {:?}", accessor(object)?)));
        found.collect()
    }
    // A received object reads like the one that was sent.
    let received: Vec<Object> = objects.iter().map(|object| carried(object).unwrap()).collect();
    for objects in [&objects[..], &received] {
        assert_eq!(read(objects, Object::as_bool), ["1: true"]);
        assert_eq!(read(objects, Object::as_i64), ["2: -3", "3: 1099511627776", "18: 5"]);
        assert_eq!(read(objects, Object::as_f64), ["4: 0.5"]);
        assert_eq!(read(objects, Object::as_str), [r#"6: "a""#, r#"7: "b""#]);
        assert_eq!(read(objects, Object::as_bytes), ["8: [1]", "9: [2]"]);
        assert_eq!(
            read(objects, |object| object.as_tensor().map(Tensor::numel)),
            ["10: 1", "11: 2"]
        );
        assert_eq!(
            read(objects, |object| object.as_composite().map(|it| it.layout().unwrap())),
            ["12: Meta"]
        );
        assert_eq!(
            read(objects, |object| object.items().map(<[Object]>::len)),
            ["13: 1", "14: 2", "15: 3"]
        );
        assert_eq!(read(objects, Object::entries), [r#"16: [(Str("k"), Int(1))]"#]);
        assert_eq!(read(objects, |object| object.get("k")), ["16: Int(1)"]);
        let kinds =
            (&objects[0], &objects[5], &objects[13], &objects[14], &objects[15], &objects[17]);
        assert!(matches!(
            kinds,
            (
                Object::None,
                Object::Complex(..),
                Object::Tuple(_),
                Object::List(_),
                Object::Set(_),
                Object::None
            )
        ));
    }
    let dict = Object::from([(Object::from(vec![b'k']), 1), ("other".into(), 2), ("k".into(), 3)]);
    assert_eq!((dict.get("k").and_then(Object::as_i64), dict.get("j").is_none()), (Some(3), true));
}

#[test]
fn a_wrong_value_is_named_by_its_index() {
    let list = || Object::from(vec![1, 2]);
    let empty = || Tensor::frozen::<u8>(&[], &[0]).unwrap();
    for (object, index) in [
        (Object::from([(Object::from(1), list()), (list(), list())]), "5"),
        (Object::from([("a", list()), ("b", list()), ("a", list())]), "9"),
        (Object::from(vec![Object::Set(vec![1.into(), empty().into()])]), "3"),
        (Object::Set(vec![1.into(), "x".into(), Object::from(1.0)]), "3"),
        (Object::Dict(vec![(Object::Tuple(vec![list()]), Object::None)]), "2"),
        (nested(201), "200"),
    ] {
        let error = Message::from_object(&object).unwrap_err();
        assert_eq!(
            (error.kind(), error.detail("index")),
            (ErrorKind::InvalidArgument, Some(index)),
            "{error:?}"
        );
    }
    assert_eq!(format!("{:?}", carried(&nested(200)).unwrap()), format!("{:?}", nested(200)));
}

#[test]
fn a_far_too_deep_object_is_refused_and_does_not_overflow_the_stack() {
    let mut deep = nested(1_000_000);
    let error = Message::from_object(&deep).unwrap_err();
    assert_eq!((error.kind(), error.detail("index")), (ErrorKind::InvalidArgument, Some("200")));
    while let Object::List(mut items) = deep {
        deep = items.pop().unwrap();
    }
}

#[test]
fn access_holds_for_every_storage() {
    let shared = Object::from(TensorMut::zeros::<u8>(&[4]).unwrap());
    let frozen = Object::from(Tensor::frozen(&[1u8], &[1]).unwrap());
    let both = Object::from(vec![frozen.clone(), shared.clone()]);
    assert_eq!(kind_of(Message::from_object_with(&both, Access::ReadOnly)), ErrorKind::Permission);
    assert_eq!(kind_of(Message::from_object_with(&both, Access::Writable)), ErrorKind::Permission);
    Message::from_object_with(&frozen, Access::ReadOnly).unwrap();
    Message::from_object_with(&shared, Access::Writable).unwrap();
    let storage = StorageOptions::new().private().create(4).unwrap();
    let private = TensorMut::new(&storage, &TensorSpec::of::<u8>(&[4])).unwrap();
    assert_eq!(kind_of(Message::from_object(&private.into())), ErrorKind::Unsupported);
}

#[test]
fn a_message_without_an_object_is_corrupt() {
    let (ours, theirs) = common::pair();
    let mut message = Message::new().unwrap();
    assert_eq!(kind_of(message.object()), ErrorKind::Corrupt);
    message.add("x", &TensorMut::zeros::<u8>(&[4]).unwrap()).unwrap();
    message.set_user_bytes(b"tenonobj\x09\0\0\0\x01\0\0\0N.").unwrap();
    assert_eq!(kind_of(message.object()), ErrorKind::Incompatible);
    message.set_user_bytes(b"hello").unwrap();
    assert_eq!(kind_of(message.object()), ErrorKind::Corrupt);
    ours.send(&message, PATIENCE).unwrap();
    ours.send_object(&"next".into(), PATIENCE).unwrap();
    assert_eq!(kind_of(theirs.recv_object(PATIENCE)), ErrorKind::Corrupt);
    // That message is lost, and the connection still works.
    assert_eq!(theirs.recv_object(PATIENCE).unwrap().as_str(), Some("next"));

    // A pickle of protocol 4 that would call builtins.print without arguments.
    let mut pickle = b"\x80\x04\x8c\x08builtins\x8c\x05print\x93)R.".to_vec();
    pickle.splice(..0, *b"tenonobj\x01\0\0\0\0\0\0\0");
    let mut message = Message::new().unwrap();
    message.set_user_bytes(&pickle).unwrap();
    let error = message.object().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("print") && error.detail("offset").is_some(), "{error:?}");
}

#[test]
fn waits_end_as_those_of_messages() {
    let (ours, theirs) = common::pair();
    assert_eq!(kind_of(theirs.recv_object(Wait::NOT)), ErrorKind::WouldBlock);
    assert_eq!(kind_of(theirs.recv_object(Duration::from_millis(1))), ErrorKind::Timeout);
    let cancel = Cancel::new().unwrap();
    cancel.trigger();
    assert_eq!(
        kind_of(theirs.recv_object(Wait::FOREVER.cancelled_by(&cancel))),
        ErrorKind::Cancelled
    );

    let mut sent = 0;
    loop {
        sent += 1;
        match ours.send_object(
            &Object::from(vec![Object::from(sent), vec![0u8; 60_000].into()]),
            Wait::NOT,
        ) {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                break;
            }
        }
    }
    std::thread::scope(|scope| {
        scope.spawn(|| ours.flush(PATIENCE).unwrap());
        for number in 1..=sent {
            let received = theirs.recv_object(PATIENCE).unwrap();
            assert_eq!(received.items().unwrap()[0].as_i64(), Some(number));
        }
    });
    assert_eq!(kind_of(theirs.recv_object(Wait::NOT)), ErrorKind::WouldBlock);
    drop(ours);
    assert_eq!(kind_of(theirs.recv_object(PATIENCE)), ErrorKind::PeerGone);
    assert_eq!(kind_of(theirs.send_object(&Object::None, PATIENCE)), ErrorKind::PeerGone);
}
