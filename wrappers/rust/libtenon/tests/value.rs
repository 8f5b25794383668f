//! Tests of values of every kind.

use tenon::{
    type_text, Bool, ErrorKind, Flags, Quantizer, ScalarType, StorageOptions, Tensor, TensorLayout,
    TensorMut, TensorSpec, Value, ValueKind, ValueTensorSpec,
};

#[test]
fn plain_ones() {
    for (value, kind, text) in [
        (Value::none(), ValueKind::None, "NoneType"),
        (Value::from(true), ValueKind::Bool, "bool"),
        (Value::from(-3), ValueKind::Int, "int"),
        (Value::from(i64::MIN), ValueKind::Int, "int"),
        (Value::from(0.5), ValueKind::Float, "float"),
        (Value::complex(1.0, -2.0), ValueKind::Complex, "complex"),
        (Value::from("a\0é"), ValueKind::Str, "str"),
        (Value::from(String::new()), ValueKind::Str, "str"),
        (Value::device("cuda:1").unwrap(), ValueKind::Device, "Device"),
        (Value::from(None::<i64>), ValueKind::None, "NoneType"),
        (Value::from(Some(4)), ValueKind::Int, "int"),
    ] {
        assert_eq!((value.kind(), value.type_text().unwrap().as_str()), (kind, text));
        assert_eq!((value.count().unwrap(), value.class_name(), value.is_opaque()), (0, "", false));
        assert!(
            value.items().unwrap().is_empty()
                && value.keys().unwrap().is_empty()
                && value.attributes().unwrap().is_empty()
        );
        assert_eq!(value.item(0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    assert!(Value::from(true).as_bool().unwrap() && !Value::from(false).as_bool().unwrap());
    assert_eq!(Value::from(i64::MIN).as_int().unwrap(), i64::MIN);
    assert_eq!(Value::from(-0.25).as_float().unwrap(), -0.25);
    assert_eq!(Value::complex(1.0, -2.0).as_complex().unwrap(), (1.0, -2.0));
    assert_eq!(Value::from("a\0é").as_str().unwrap(), "a\0é");
    assert_eq!(Value::device("cuda:1").unwrap().as_device().unwrap(), "cuda:1");
}

#[test]
fn another_kind_is_an_error() {
    let (int, text) = (Value::from(1), Value::from("1"));
    for kind in [
        int.as_bool().unwrap_err().kind(),
        Value::from(true).as_int().unwrap_err().kind(),
        int.as_float().unwrap_err().kind(),
        int.as_complex().unwrap_err().kind(),
        int.as_str().unwrap_err().kind(),
        text.as_device().unwrap_err().kind(),
        text.to_tensor().unwrap_err().kind(),
        text.tensor_spec().unwrap_err().kind(),
        text.find("a").unwrap_err().kind(),
        Value::device("a\0").unwrap_err().kind(),
        Value::enum_member("C", true).unwrap_err().kind(),
    ] {
        assert_eq!(kind, ErrorKind::InvalidArgument);
    }
}

#[test]
fn values_in_values() {
    let shared = Value::list(Some("List[int]"), [1, 2]).unwrap();
    let pair = Value::tuple([&shared, &shared]).unwrap();
    let items = pair.items().unwrap();
    assert!(items[0].is_same(&items[1]) && items[0].is_same(&shared) && !pair.is_same(&shared));
    assert_eq!(pair.type_text().unwrap(), "Tuple[List[int], List[int]]");
    assert_eq!(items[1].item(1).unwrap().as_int().unwrap(), 2);
    assert_eq!(Value::tuple::<Value>([]).unwrap().type_text().unwrap(), "Tuple[()]");

    let named = Value::named_tuple("__torch__.Point", [1, 2]).unwrap();
    assert_eq!((named.kind(), named.class_name()), (ValueKind::Tuple, "__torch__.Point"));

    let dict = Value::dict(Some("Dict[str, float]"), [("b", 1.0), ("a", 2.0)]).unwrap();
    let keys: Vec<String> =
        dict.keys().unwrap().iter().map(|key| key.as_str().unwrap().to_owned()).collect();
    assert_eq!(keys, ["b", "a"]);
    assert_eq!(dict.find("a").unwrap().as_float().unwrap(), 2.0);
    assert_eq!(dict.find("c").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(
        Value::dict(None, [("a", 1), ("a", 2)]).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );

    let error = Value::list(Some("List[int]"), [Value::from(1), Value::from("x")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.detail("wanted").is_some() && error.detail("found").is_some(), "{error:?}");
    assert!(Value::list(Some("List["), [1]).unwrap_err().detail("column").is_some());

    let colour = Value::enum_member("__torch__.Colour", "red").unwrap();
    assert_eq!(
        (colour.kind(), colour.item(0).unwrap().as_str().unwrap().to_owned()),
        (ValueKind::Enum, "red".to_owned())
    );

    let object =
        Value::object("__torch__.Box", [("width", Value::from(2)), ("name", Value::from("n"))])
            .unwrap();
    let attributes = object.attributes().unwrap();
    assert_eq!(
        attributes.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["width", "name"]
    );
    assert_eq!(object.find("width").unwrap().as_int().unwrap(), 2);
    assert_eq!(format!("{object:?}"), "Value(__torch__.Box)");

    let opaque = Value::opaque("__torch__.torch.classes.a.B", &shared).unwrap();
    assert!(
        opaque.is_opaque()
            && opaque.item(0).unwrap().is_same(&shared)
            && opaque.attributes().unwrap().is_empty()
    );
}

#[test]
fn types() {
    assert_eq!(type_text("Union[str, None]").unwrap(), "Optional[str]");
    assert!(type_text("List[").unwrap_err().detail("column").is_some());
    let long = format!("Tuple[{}]", vec!["int"; 200].join(", "));
    assert_eq!(type_text(&long).unwrap(), long);
    Value::from(1).check("Optional[int]").unwrap();
    let error = Value::from(1).check("float").unwrap_err();
    assert_eq!((error.detail("wanted"), error.detail("found")), (Some("float"), Some("int")));
}

#[test]
fn tensors_are_not_copied() {
    let tensor = TensorMut::copy_of(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
    let value = Value::tensor(&tensor).unwrap();
    let back = value.to_tensor().unwrap();
    tensor.cells::<f32>().unwrap()[3].set(9.0);
    assert_eq!(back.cells::<f32>().unwrap()[3].get(), 9.0);
    assert!(back.storage().same_memory(&tensor.storage()));
    let spec = value.tensor_spec().unwrap();
    assert_eq!(
        (spec.scalar_type, spec.sizes.as_slice(), spec.strides.as_deref()),
        (ScalarType::FLOAT, &[2, 2][..], Some(&[2, 1][..]))
    );
    assert_eq!(
        (spec.device.as_str(), spec.layout, spec.quantizer, spec.storage_numel),
        ("cpu", TensorLayout::Strided, Quantizer::None, 4)
    );
    drop((tensor, value));
    assert_eq!(spec.storage.unwrap().nbytes(), 16);
    assert_eq!(back.numel(), 4);

    let frozen = Value::try_from(&Tensor::frozen(&[Bool(1)], &[]).unwrap()).unwrap();
    assert_eq!(frozen.to_tensor().unwrap().as_slice::<Bool>().unwrap(), [Bool(1)]);
    assert_eq!(frozen.tensor_spec().unwrap().strides.as_deref(), Some(&[][..]));

    let storage = StorageOptions::new().copy_from(&[1u8; 8]).unwrap();
    let backwards =
        Tensor::new(&storage, &TensorSpec::of::<u8>(&[8]).strides(&[-1]).offset(7)).unwrap();
    assert_eq!(Value::tensor(&backwards).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn tensors_that_dlpack_has_not() {
    let storage = StorageOptions::new().copy_from(&[1i8, 2, 3, 4]).unwrap();
    let mut spec = ValueTensorSpec::new(ScalarType::QINT8, &[4], Some(storage.clone().into()));
    (spec.quantizer, spec.scale, spec.zero_point) = (Quantizer::PerTensorAffine, 0.5, 3);
    let value = Value::tensor_from_spec(&spec).unwrap();
    assert_eq!(value.to_tensor().unwrap_err().kind(), ErrorKind::Unsupported);
    let back = value.tensor_spec().unwrap();
    assert_eq!(
        (back.quantizer, back.scale, back.zero_point, back.scalar_type),
        (Quantizer::PerTensorAffine, 0.5, 3, ScalarType::QINT8)
    );
    assert!(back.storage.unwrap().same_memory(&storage));

    let indices = Value::tensor(&TensorMut::copy_of(&[0i64, 2], &[1, 2]).unwrap()).unwrap();
    let values = Value::tensor(&TensorMut::copy_of(&[1.0f32, 2.0], &[2]).unwrap()).unwrap();
    let mut spec = ValueTensorSpec::new(ScalarType::FLOAT, &[3], None);
    (spec.layout, spec.coalesced) = (TensorLayout::SparseCoo, Some(true));
    (spec.indices, spec.values) = (Some(indices), Some(values));
    let back = Value::tensor_from_spec(&spec).unwrap().tensor_spec().unwrap();
    assert_eq!(
        (back.layout, back.coalesced, back.strides, back.sizes),
        (TensorLayout::SparseCoo, Some(true), None, vec![3])
    );
    assert_eq!(back.indices.unwrap().tensor_spec().unwrap().sizes, [1, 2]);
    assert!(
        back.values.is_some()
            && back.scales.is_none()
            && back.plain_indices.is_none()
            && back.storage.is_none()
    );

    for layout in
        [TensorLayout::Jagged, TensorLayout::Nested, TensorLayout::Meta, TensorLayout::Quantized]
    {
        // Only composites have these layouts.
        let spec =
            ValueTensorSpec { layout, ..ValueTensorSpec::new(ScalarType::FLOAT, &[3], None) };
        assert_eq!(Value::tensor_from_spec(&spec).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }

    let mut meta = ValueTensorSpec::new(ScalarType::HALF, &[2, 3], None);
    (meta.device, meta.flags) = ("meta".to_owned(), Flags::REQUIRES_GRAD);
    let back = Value::tensor_from_spec(&meta).unwrap().tensor_spec().unwrap();
    assert_eq!(
        (back.device.as_str(), back.flags, back.storage.is_none()),
        ("meta", Flags::REQUIRES_GRAD, true)
    );
    meta.strides = Some(vec![1]);
    assert_eq!(Value::tensor_from_spec(&meta).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let outside = ValueTensorSpec::new(ScalarType::QINT8, &[5], Some(storage.into()));
    assert_eq!(Value::tensor_from_spec(&outside).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn scalar_types() {
    assert_eq!(ScalarType::BFLOAT16.to_string(), "bfloat16");
    assert_eq!(
        (ScalarType::FLOAT.storage_name(), ScalarType::FLOAT.nbytes()),
        (Some("FloatStorage"), 4)
    );
    assert_eq!("qint8".parse::<ScalarType>().unwrap(), ScalarType::QINT8);
    assert_eq!("nothing".parse::<ScalarType>().unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(ScalarType::HALF.dtype().unwrap(), tenon::DType::F16);
    assert_eq!(ScalarType::QINT8.dtype().unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(ScalarType::of(tenon::DType::I64).unwrap(), ScalarType::LONG);
    let none = ScalarType::from_raw(1000);
    assert_eq!(
        (none.name(), none.since(), none.nbytes(), none.to_string().as_str()),
        (None, None, 0, "scalar_type_1000")
    );
}

#[test]
fn another_thread_has_them() {
    let value = Value::list(None, ["a", "b"]).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let clone = value.clone();
            let value = &value;
            scope.spawn(move || assert!(clone.is_same(value) && clone.count().unwrap() == 2));
        }
    });
}
