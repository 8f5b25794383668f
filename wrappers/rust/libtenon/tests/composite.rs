//! Tests of composites: each layout is made and read again, some are sent to another process and
//! checked there, and wrong ones are refused.

mod common;

use std::ptr::NonNull;

use common::PATIENCE;
use tenon::{
    Access, Composite, CompositeSpec, DType, Element, ErrorKind, Flags, Message, Quantizer, Result,
    StorageOptions, Tensor, TensorLayout, TensorMut, TensorSpec,
};

fn frozen<T: Element>(data: &[T], sizes: &[i64]) -> Option<Tensor> {
    Some(Tensor::frozen(data, sizes).unwrap())
}

/// Makes a compressed matrix of 4 by 4 with three elements, in blocks of 1 by 1 if `block` says so.
fn compressed(layout: TensorLayout, block: &[i64]) -> CompositeSpec {
    CompositeSpec {
        layout,
        sizes: vec![4, 4],
        flags: Flags::REQUIRES_GRAD,
        values: frozen(&[1.0f32, 2.0, 3.0], &[&[3], block].concat()),
        indices: frozen(&[0i64, 2, 2, 3, 3], &[5]),
        plain_indices: frozen(&[0i64, 3, 1], &[3]),
        ..CompositeSpec::default()
    }
}

fn csr() -> CompositeSpec {
    compressed(TensorLayout::SparseCsr, &[])
}

fn meta() -> CompositeSpec {
    CompositeSpec {
        layout: TensorLayout::Meta,
        sizes: vec![1 << 20, 1 << 20],
        dtype: Some(DType::BF16),
        ..CompositeSpec::default()
    }
}

fn nested() -> CompositeSpec {
    CompositeSpec {
        layout: TensorLayout::Nested,
        values: frozen(&[0.0f32; 12], &[12]),
        component_sizes: frozen(&[2i64, 3, 3, 2], &[2, 2]),
        component_strides: frozen(&[3i64, 1, 2, 1], &[2, 2]),
        offsets: frozen(&[0i64, 6], &[2]),
        ..CompositeSpec::default()
    }
}

/// Returns every layout, and the sizes that a composite of it reports.
fn every_layout() -> Vec<(CompositeSpec, Vec<i64>)> {
    let coo = CompositeSpec {
        layout: TensorLayout::SparseCoo,
        sizes: vec![2, 3],
        values: frozen(&[1.0f64, 2.0, 3.0], &[3]),
        indices: frozen(&[0i32, 1, 1, 0, 0, 2], &[2, 3]),
        coalesced: Some(true),
        ..CompositeSpec::default()
    };
    let jagged = CompositeSpec {
        layout: TensorLayout::Jagged,
        ragged_dim: 1,
        values: frozen(&[0.0f32; 12], &[6, 2]),
        offsets: frozen(&[0i64, 2, 2, 6], &[4]),
        lengths: frozen(&[1i64, 0, 4], &[3]),
        ..CompositeSpec::default()
    };
    let per_tensor = CompositeSpec {
        layout: TensorLayout::Quantized,
        quantizer: Quantizer::PerTensorAffine,
        scale: 0.5,
        zero_point: -3,
        values: frozen(&[1i8, 2], &[2]),
        ..CompositeSpec::default()
    };
    let per_channel = CompositeSpec {
        layout: TensorLayout::Quantized,
        quantizer: Quantizer::PerChannelAffine,
        axis: 1,
        values: frozen(&[1u8; 6], &[2, 3]),
        scales: frozen(&[0.5f64, 0.25, 2.0], &[3]),
        zero_points: frozen(&[0i64; 3], &[3]),
        ..CompositeSpec::default()
    };
    let float_qparams = CompositeSpec {
        quantizer: Quantizer::PerChannelAffineFloatQparams,
        scales: frozen(&[0.5f32, 0.25, 2.0], &[3]),
        zero_points: frozen(&[0.0f32; 3], &[3]),
        ..per_channel.clone()
    };
    let strided_meta =
        CompositeSpec { strides: Some(vec![1, 1 << 20]), offset: 5, flags: Flags::NEG, ..meta() };
    let scalar_meta = CompositeSpec { sizes: vec![], strides: Some(vec![]), ..meta() };
    let compressed_ones = [
        (TensorLayout::SparseCsc, &[][..]),
        (TensorLayout::SparseBsr, &[1, 1][..]),
        (TensorLayout::SparseBsc, &[1, 1][..]),
    ];
    let mut all = vec![
        (coo, vec![2, 3]),
        (csr(), vec![4, 4]),
        (jagged, vec![3, -1, 2]),
        (nested(), vec![2, -1, -1]),
        (per_tensor, vec![2]),
        (per_channel, vec![2, 3]),
        (float_qparams, vec![2, 3]),
        (strided_meta, vec![1 << 20, 1 << 20]),
        (scalar_meta, vec![]),
    ];
    all.extend(compressed_ones.map(|(layout, block)| (compressed(layout, block), vec![4, 4])));
    all
}

fn parts(spec: &CompositeSpec) -> [Option<*mut tenon::sys::tenon_tensor>; 9] {
    [
        &spec.values,
        &spec.indices,
        &spec.plain_indices,
        &spec.offsets,
        &spec.lengths,
        &spec.component_sizes,
        &spec.component_strides,
        &spec.scales,
        &spec.zero_points,
    ]
    .map(|part| part.as_ref().map(Tensor::as_raw))
}

#[test]
fn every_layout_is_read_as_it_was_made() {
    for (spec, sizes) in every_layout() {
        let composite = Composite::new(&spec).unwrap();
        let got = composite.spec().unwrap();
        assert_eq!(
            (got.layout, &got.sizes, &got.strides, got.offset),
            (spec.layout, &sizes, &spec.strides, spec.offset)
        );
        assert_eq!((got.flags, parts(&got)), (spec.flags, parts(&spec)));
        assert_eq!(
            (got.scale, got.zero_point, got.axis, got.ragged_dim),
            (spec.scale, spec.zero_point, spec.axis, spec.ragged_dim)
        );
        assert_eq!((got.quantizer, got.coalesced), (spec.quantizer, spec.coalesced));
        let dtype = spec.values.as_ref().map_or(DType::BF16, |values| values.dtype());
        assert_eq!(
            (composite.layout().unwrap(), composite.sizes(), composite.dtype()),
            (spec.layout, sizes.as_slice(), dtype)
        );
        // A spec that was read makes a composite again. Nobody can write to frozen parts, so the
        // check copies none.
        Composite::new(&got).unwrap();
        assert_eq!(composite.check().unwrap().as_raw(), composite.as_raw());
        assert!(format!("{composite:?}").contains(&format!("{:?}", spec.layout)));
    }
    assert_eq!(Composite::new(&meta()).unwrap().spec().unwrap().strides, Some(vec![1 << 20, 1]));
}

#[test]
fn parts_outlive_their_composite_and_composites_their_message() {
    let composite = {
        let mut message = Message::new().unwrap();
        message.add_composite(None, &Composite::new(&csr()).unwrap()).unwrap();
        message.composite(0).unwrap()
    };
    let clone = NonNull::new(composite.clone().into_raw()).unwrap();
    // SAFETY: this is the reference of the clone.
    let clone = unsafe { Composite::from_raw(clone) };
    drop(composite);
    let values = std::thread::spawn(move || clone.spec().unwrap().values.unwrap()).join().unwrap();
    assert_eq!(values.as_slice::<f32>().unwrap(), [1.0, 2.0, 3.0]);
}

#[test]
fn sent_to_another_process_and_checked_there() {
    common::watchdog();
    let (child, connection) = common::start("receiver", &[]);
    let labels = TensorMut::copy_of(&[7i64], &[1]).unwrap();
    let shared = Composite::new(&CompositeSpec {
        indices: Some(TensorMut::copy_of(&[0i64, 2, 2, 3, 3], &[5]).unwrap().into()),
        plain_indices: Some(TensorMut::copy_of(&[0i64, 3, 1], &[3]).unwrap().into()),
        ..csr()
    });
    let (shared, frozen, meta) =
        (shared.unwrap(), Composite::new(&csr()).unwrap(), Composite::new(&meta()).unwrap());
    let mut message = Message::new().unwrap();
    message.add("labels", &labels).unwrap();
    message.add_composite("features", &shared).unwrap();
    message.add_composites([(None, &meta), (Some("frozen"), &frozen)], Access::Auto).unwrap();
    message.add("last", &labels).unwrap();
    connection.send(&message, PATIENCE).unwrap();
    common::ends_well(child);
}

#[test]
#[ignore = "the other process of a test"]
fn receiver() {
    common::watchdog();
    let message = common::inherited().recv(PATIENCE).unwrap();
    assert_eq!((message.len(), message.views().len(), message.composite_count()), (8, 8, 3));
    assert_eq!([0, 1, 2, 3].map(|i| message.composite_parts(i)), [1..4, 4..4, 4..7, 8..8]);
    assert_eq!(
        [0, 1, 2, 3].map(|i| message.composite_name(i)),
        [Some("features"), None, Some("frozen"), None]
    );
    assert_eq!(
        (message.name(0), message.name(1), message.name(7)),
        (Some("labels"), None, Some("last"))
    );
    for name in ["labels", "other", "a\0b"] {
        assert!(message.find_composite(name).is_none());
    }
    assert!(message.find("features").is_none() && message.composite(3).is_none());
    assert_eq!(message.composite(1).unwrap().layout().unwrap(), TensorLayout::Meta);
    let frozen = message.find_composite("frozen").unwrap();
    assert_eq!(frozen.check().unwrap().as_raw(), frozen.as_raw());

    let features = message.find_composite("features").unwrap();
    let spec = features.spec().unwrap();
    assert_eq!((spec.flags, &spec.sizes), (Flags::REQUIRES_GRAD, &vec![4, 4]));
    assert_eq!(
        spec.values.as_ref().map(Tensor::as_raw),
        message.tensor(1).as_ref().map(Tensor::as_raw)
    );
    let checked = features.check().unwrap().spec().unwrap();
    let columns = spec.plain_indices.unwrap().writable().unwrap();
    columns.cells::<i64>().unwrap()[2].set(1 << 20);
    // The copy that was checked did not change.
    assert_eq!(checked.plain_indices.unwrap().cells::<i64>().unwrap()[2].get(), 1);
    assert_eq!(checked.values.unwrap().as_slice::<f32>().unwrap(), [1.0, 2.0, 3.0]);
    let error = features.check().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!((error.detail("part"), error.detail("index")), (Some("plain_indices"), Some("2")));
}

fn kind_of<T>(result: Result<T>) -> ErrorKind {
    result.map(|_| ()).unwrap_err().kind()
}

#[test]
fn wrong_specs_are_refused() {
    let values = || frozen(&[1.0f32, 2.0, 3.0], &[3]);
    for spec in [
        CompositeSpec::default(),
        CompositeSpec { layout: TensorLayout::SparseCoo, ..csr() },
        CompositeSpec { sizes: vec![4], ..csr() },
        CompositeSpec { strides: Some(vec![4, 1]), ..csr() },
        CompositeSpec { offset: 1, ..csr() },
        CompositeSpec { values: None, ..csr() },
        CompositeSpec { scales: values(), ..csr() },
        CompositeSpec { scale: 1.0, ..csr() },
        CompositeSpec { axis: 1, ..csr() },
        CompositeSpec { ragged_dim: 1, ..csr() },
        CompositeSpec { quantizer: Quantizer::PerTensorAffine, ..csr() },
        CompositeSpec { coalesced: Some(false), ..csr() },
        CompositeSpec { dtype: None, ..meta() },
        CompositeSpec { values: values(), ..meta() },
        CompositeSpec { strides: Some(vec![1]), ..meta() },
        CompositeSpec { offsets: None, ..nested() },
    ] {
        assert_eq!(kind_of(Composite::new(&spec)), ErrorKind::InvalidArgument, "{spec:?}");
    }
    assert_eq!(
        kind_of(Composite::new(&CompositeSpec { flags: Flags::CONJ, ..csr() })),
        ErrorKind::Unsupported
    );
    let error =
        Composite::new(&CompositeSpec { plain_indices: csr().indices, ..csr() }).unwrap_err();
    assert_eq!((error.kind(), error.detail("part")), (ErrorKind::InvalidArgument, Some("values")));
}

#[test]
fn all_or_none() {
    let storage = StorageOptions::new().private().create(12).unwrap();
    let private = Tensor::new(&storage, &TensorSpec::of::<f32>(&[3])).unwrap();
    let private = Composite::new(&CompositeSpec { values: Some(private), ..csr() }).unwrap();
    let shared = Composite::new(&CompositeSpec {
        values: Some(TensorMut::zeros::<f32>(&[3]).unwrap().into()),
        ..csr()
    })
    .unwrap();
    let mut message = Message::new().unwrap();
    assert_eq!(
        kind_of(message.add_composites([(Some("a"), &shared), (None, &private)], Access::Auto)),
        ErrorKind::Unsupported
    );
    assert_eq!(
        kind_of(message.add_composites([(Some("a"), &shared)], Access::ReadOnly)),
        ErrorKind::Permission
    );
    assert_eq!(kind_of(message.add_composite("a\0b", &shared)), ErrorKind::InvalidArgument);
    assert_eq!((message.len(), message.composite_count()), (0, 0));
    message.add_composite("a", &shared).unwrap();
    assert_eq!((message.len(), message.composite_count()), (3, 1));
}
