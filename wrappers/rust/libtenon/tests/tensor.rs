//! Tests of tensors: shapes, typed views, and every reason why there is no view.

use tenon::{
    Bool, DType, ErrorKind, Flags, Index, StorageMut, StorageOptions, Tensor, TensorMut, TensorSpec,
};

#[test]
fn shapes_come_back() {
    let storage = StorageMut::new(1000).unwrap();
    let spec = TensorSpec::new(DType::I16, &[3, 4])
        .strides(&[-40, 2])
        .offset(200)
        .flags(Flags::REQUIRES_GRAD | Flags::CONJ);
    let tensor = Tensor::new(&storage, &spec).unwrap();
    assert_eq!(
        (tensor.dtype(), tensor.sizes(), tensor.strides(), tensor.offset()),
        (DType::I16, &[3, 4][..], &[-40, 2][..], 200)
    );
    assert_eq!((tensor.numel(), tensor.nbytes(), tensor.is_contiguous()), (12, 24, false));
    assert!(tensor.flags().contains(Flags::CONJ) && !tensor.flags().contains(Flags::NEG));
    let view = tensor.view();
    assert_eq!(
        (view.dtype(), view.sizes(), view.strides(), view.offset()),
        (DType::I16, &[3, 4][..], &[-40, 2][..], 200)
    );
    assert_eq!(
        (view.numel(), view.nbytes(), view.is_contiguous(), view.name()),
        (12, 24, false, None)
    );
    assert_eq!(view.flags(), tensor.flags());
    assert_eq!(tensor.storage().id(), storage.id());
    // This is a scalar.
    let scalar = Tensor::new(&storage, &TensorSpec::of::<f64>(&[])).unwrap();
    assert_eq!((scalar.numel(), scalar.sizes(), scalar.strides()), (1, &[][..], &[][..]));
}

#[test]
fn views_of_a_tensor() {
    let numbers: Vec<i32> = (0..12).collect();
    let tensor = Tensor::frozen(&numbers, &[12]).unwrap();
    let matrix = tensor.reshape(&[3, -1]).unwrap();
    assert_eq!((matrix.sizes(), matrix.strides()), (&[3, 4][..], &[4, 1][..]));
    assert_eq!(matrix.storage().id(), tensor.storage().id());
    let bytes = matrix.view_dtype(DType::U8).unwrap();
    assert_eq!((bytes.dtype(), bytes.sizes()), (DType::U8, &[3, 16][..]));
    let row = matrix.index(&[Index::Number(-2)]).unwrap();
    assert_eq!(row.as_slice::<i32>().unwrap(), [4, 5, 6, 7]);
    let backwards = Index::Slice { start: None, stop: None, step: -2 };
    let picked = matrix.index(&[Index::Ellipsis, Index::NewAxis, backwards]).unwrap();
    assert_eq!(
        (picked.sizes(), picked.strides(), picked.offset()),
        (&[3, 1, 2][..], &[4, 0, -2][..], 3)
    );
    assert_eq!(matrix.index(&[Index::ALL, Index::ALL]).unwrap().sizes(), [3, 4]);
    assert_eq!(matrix.index(&[]).unwrap().sizes(), [3, 4]);
    for wrong in [
        matrix.reshape(&[5, -1]),
        matrix.reshape(&[1; 65]),
        row.view_dtype(DType::new(200, 8)),
        matrix.index(&[Index::Number(0), Index::Number(4)]),
    ] {
        assert_eq!(wrong.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let outside = matrix.index(&[Index::Number(3)]).unwrap_err();
    assert_eq!((outside.detail("item"), outside.detail("size")), (Some("0"), Some("3")));
}

#[test]
fn shapes_that_cannot_be() {
    let storage = StorageMut::new(1000).unwrap();
    for spec in [
        TensorSpec::of::<f32>(&[251]),
        TensorSpec::of::<f32>(&[250]).offset(1),
        TensorSpec::of::<f32>(&[-1]),
        TensorSpec::of::<f32>(&[2]).strides(&[-1]),
        TensorSpec::of::<f32>(&[2]).strides(&[1, 1]),
        TensorSpec::of::<f32>(&[i64::MAX, i64::MAX]),
        TensorSpec::of::<f32>(&[1; 65]),
        TensorSpec::new(DType::new(200, 8), &[1]),
    ] {
        let error = Tensor::new(&storage, &spec).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{spec:?}: {error:?}");
    }
    assert_eq!(
        TensorMut::zeros::<f32>(&[i64::MAX, 4]).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    assert_eq!(TensorMut::zeros::<f32>(&[-1]).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn frozen_slices_are_plain() {
    let tensor = Tensor::frozen(&[1.0f64, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
    assert_eq!(tensor.as_slice::<f64>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(tensor.cells::<f64>().unwrap()[3].get(), 4.0);
    assert_eq!(tensor.writable().unwrap_err().kind(), ErrorKind::Permission);
    assert_eq!(tensor.view().cells_mut::<f64>().unwrap_err().kind(), ErrorKind::Permission);
    let row = Tensor::new(&tensor.storage(), &TensorSpec::of::<f64>(&[2]).offset(2)).unwrap();
    assert_eq!(row.as_slice::<f64>().unwrap(), [3.0, 4.0]);
}

#[test]
fn writable_ones_are_cells_and_copies() {
    let tensor = TensorMut::zeros::<i32>(&[4]).unwrap();
    assert_eq!(tensor.as_slice::<i32>().unwrap_err().kind(), ErrorKind::MayChange);
    tensor.cells::<i32>().unwrap()[1].set(-5);
    let reader: Tensor = tensor.clone().into();
    assert_eq!(reader.cells::<i32>().unwrap()[1].get(), -5);
    tensor.write_from(&[1, 2, 3, 4]).unwrap();
    let mut copy = [0; 4];
    reader.read_into(&mut copy).unwrap();
    assert_eq!(copy, [1, 2, 3, 4]);
    assert_eq!(reader.read_into(&mut [0; 3]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(reader.read_into(&mut [0f32; 4]).unwrap_err().kind(), ErrorKind::WrongElement);
    let mut alone = TensorMut::copy_of(&[1u64, 2], &[2]).unwrap();
    // SAFETY: nobody else has the tensor.
    unsafe {
        alone.as_mut_slice_unguarded::<u64>().unwrap()[0] = 7;
        assert_eq!(alone.as_slice_unguarded::<u64>().unwrap(), [7, 2]);
    }
}

#[test]
fn every_element_type() {
    fn goes_through<T: tenon::Element + PartialEq + std::fmt::Debug>(value: T) {
        let tensor = Tensor::frozen(&[value; 3], &[3]).unwrap();
        assert_eq!(tensor.dtype(), T::DTYPE);
        assert_eq!(tensor.as_slice::<T>().unwrap(), [value; 3]);
        assert_eq!(tensor.nbytes(), 3 * std::mem::size_of::<T>() as u64);
    }
    goes_through(-1i8);
    goes_through(-2i16);
    goes_through(-3i32);
    goes_through(-4i64);
    goes_through(1u8);
    goes_through(2u16);
    goes_through(3u32);
    goes_through(4u64);
    goes_through(0.5f32);
    goes_through(0.25f64);
    goes_through([1.0f32, -1.0]);
    goes_through([1.0f64, -1.0]);
    goes_through(Bool::from(true));
    #[cfg(feature = "half")]
    {
        goes_through(half::f16::from_f32(0.5));
        goes_through(half::bf16::from_f32(0.5));
        goes_through([half::f16::from_f32(0.5); 2]);
    }
}

#[test]
fn no_view_of_another_type_or_of_what_is_not_packed_or_not_aligned() {
    let storage = StorageMut::new(64).unwrap();
    let strided = TensorMut::new(&storage, &TensorSpec::of::<i32>(&[4]).strides(&[2])).unwrap();
    assert_eq!(strided.cells::<i32>().unwrap_err().kind(), ErrorKind::NotContiguous);
    assert_eq!(strided.cells::<u32>().unwrap_err().kind(), ErrorKind::WrongElement);
    assert_eq!(strided.write_from(&[0i32; 4]).unwrap_err().kind(), ErrorKind::NotContiguous);
    assert_eq!(
        // SAFETY: the call fails.
        unsafe { strided.as_slice_unguarded::<i32>() }.unwrap_err().kind(),
        ErrorKind::NotContiguous
    );

    let odd: &mut [u8] = Box::leak(vec![0u8; 41].into_boxed_slice());
    let odd = if odd.as_ptr() as usize % 2 == 0 { &mut odd[1..] } else { &mut odd[..40] };
    let wrapped = StorageMut::wrap::<u8, _>(odd).unwrap();
    let tensor = TensorMut::new(&wrapped, &TensorSpec::of::<i64>(&[4])).unwrap();
    let error = tensor.cells::<i64>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misaligned);
    assert_eq!(error.code(), ErrorKind::InvalidArgument.code());
    // A copy needs no alignment.
    tensor.write_from(&[1i64, 2, 3, 4]).unwrap();
    let mut copy = [0i64; 4];
    tensor.read_into(&mut copy).unwrap();
    assert_eq!(copy, [1, 2, 3, 4]);
}

#[test]
fn empty_tensors() {
    let storage = StorageMut::new(0).unwrap();
    let tensor = TensorMut::new(&storage, &TensorSpec::of::<f32>(&[0, 5])).unwrap();
    assert!(tensor.cells::<f32>().unwrap().is_empty());
    assert!(tensor.as_slice::<f32>().unwrap().is_empty());
    tensor.write_from::<f32>(&[]).unwrap();
    let zeros = TensorMut::zeros::<f32>(&[3, 0]).unwrap();
    assert_eq!(zeros.numel(), 0);
}

#[test]
fn a_tensor_keeps_its_storage() {
    let tensor = {
        let storage = StorageOptions::new().copy_frozen(&[5u8; 16]).unwrap();
        Tensor::new(&storage, &TensorSpec::of::<u8>(&[16])).unwrap()
    };
    assert!(tensor.as_slice::<u8>().unwrap().iter().all(|byte| *byte == 5));
    let other = tensor.view().to_tensor();
    drop(tensor);
    assert_eq!(other.as_slice::<u8>().unwrap()[15], 5);
}

#[test]
fn a_view_while_another_thread_drops_its_references() {
    let tensor = Tensor::frozen(&[3u32; 1000], &[1000]).unwrap();
    let slice = tensor.as_slice::<u32>().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let clone = tensor.clone();
            scope.spawn(move || drop((clone.storage(), clone)));
        }
        assert_eq!(slice.iter().sum::<u32>(), 3000);
    });
}

#[cfg(feature = "ndarray")]
#[test]
fn ndarray_has_all_strides() {
    let values: Vec<i32> = (0..24).collect();
    let storage = StorageOptions::new().copy_frozen(&values).unwrap();
    for (sizes, strides, offset) in [
        (&[4, 6][..], &[6, 1][..], 0),
        (&[6, 4], &[1, 6], 0),
        (&[4, 3], &[-6, -2], 23),
        (&[2, 5], &[0, 1], 3),
        (&[], &[], 7),
        (&[3, 0, 2], &[1, 1, 1], 0),
    ] {
        let tensor =
            Tensor::new(&storage, &TensorSpec::of::<i32>(sizes).strides(strides).offset(offset))
                .unwrap();
        let array = tensor.ndarray::<i32>().unwrap();
        assert_eq!(array.shape().iter().map(|size| *size as i64).collect::<Vec<_>>(), sizes);
        for (index, value) in array.indexed_iter() {
            let at: i64 =
                (0..sizes.len()).map(|axis| index[axis] as i64 * strides[axis]).sum::<i64>()
                    + offset as i64;
            assert_eq!(i64::from(*value), at, "{sizes:?} {strides:?}");
        }
        assert_eq!(tensor.ndarray_cells::<i32>().unwrap().len(), array.len());
        assert_eq!(tensor.ndarray::<u32>().unwrap_err().kind(), ErrorKind::WrongElement);
    }
    let writable = TensorMut::zeros::<f32>(&[2, 2]).unwrap();
    assert_eq!(writable.ndarray::<f32>().unwrap_err().kind(), ErrorKind::MayChange);
    writable.ndarray_cells::<f32>().unwrap()[[1, 1]].set(4.0);
    assert_eq!(writable.cells::<f32>().unwrap()[3].get(), 4.0);
}
