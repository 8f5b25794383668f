//! Tests of files of weights, of torch.export and of ExecuTorch: they are read, changed and written
//! again.

mod common;

use std::path::PathBuf;

use common::Folder;
use tenon::{
    save_weights, Durability, ErrorKind, ImportOptions, SaveWeightsOptions, Tensor, TensorMut,
    Value, Weights, WeightsForm,
};

fn golden(file: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/peers/golden/weights"))
        .join(file)
}

fn elements(weights: &Weights, name: &str) -> Vec<f32> {
    let tensor = weights.tensor(name).unwrap().to_tensor().unwrap();
    tensor.cells::<f32>().unwrap().iter().map(|cell| cell.get()).collect()
}

#[test]
fn replaced_and_written_again() {
    let folder = Folder::new();
    let path = folder.0.join("new.pt2");
    for file in ["torch-2.15.0.pt2", "torch-2.6.0.pt2"] {
        let mut weights = Weights::open(golden(file), &ImportOptions::new()).unwrap();
        assert_eq!(weights.names().unwrap(), ["weight", "tied", "columns", "shift"]);
        assert_eq!(elements(&weights, "shift"), [0.5, 0.25]);
        let sevens = Tensor::from(TensorMut::copy_of(&[7.0f32; 6], &[2, 3]).unwrap());
        weights.replace("tied", &sevens).unwrap();
        assert_eq!(
            weights.replace("shift", &sevens).unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
        weights.rewrite(&path, Durability::File).unwrap();
        let again = Weights::open(&path, &ImportOptions::new()).unwrap();
        assert_eq!(elements(&again, "weight"), [7.0; 6]);
        assert_eq!(elements(&again, "shift"), [0.5, 0.25]);
        assert!(format!("{again:?}").contains("columns"));
    }
}

#[test]
fn values() {
    let file = golden("../checkpoint/1.13.1/checkpoint.pt");
    let weights = Weights::open(file, &ImportOptions::new()).unwrap();
    assert!(weights.value_names().unwrap().contains(&"epoch".to_owned()));
    assert_eq!(weights.value("epoch").unwrap().as_int().unwrap(), 3);
    assert_eq!(weights.skipped().unwrap(), Vec::<String>::new());
    assert_eq!(weights.value("none").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn of_executorch() {
    let weights = Weights::open(golden("executorch-1.5.1.ptd"), &ImportOptions::new()).unwrap();
    assert_eq!(elements(&weights, "tied.weight"), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(weights.tensor("none").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(
        weights.rewrite("/nowhere/x.ptd", Durability::None).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
}

#[test]
fn saved() {
    let folder = Folder::new();
    let path = folder.0.join("saved");
    let value = Value::try_from(&Tensor::from(TensorMut::copy_of(&[7.0f32; 6], &[2, 3]).unwrap()));
    let value = value.unwrap();
    let options = SaveWeightsOptions::new().metadata("format", "pt").durability(Durability::File);
    save_weights(&path, [("one", &value)], &options).unwrap();
    let weights = Weights::open(&path, &ImportOptions::new()).unwrap();
    assert_eq!(elements(&weights, "one"), [7.0; 6]);
    assert_eq!(weights.value_names().unwrap(), ["__metadata__.format"]);

    let shared = [("one", &value), ("two", &value)];
    let error = save_weights(&path, shared, &SaveWeightsOptions::new()).unwrap_err();
    assert_eq!((error.kind(), error.detail("other")), (ErrorKind::InvalidArgument, Some("two")));
    for options in [
        SaveWeightsOptions::new().duplicate_shared(),
        SaveWeightsOptions::new().form(WeightsForm::TorchSave),
        SaveWeightsOptions::new().form(WeightsForm::Npz).duplicate_shared(),
    ] {
        save_weights(&path, shared, &options).unwrap();
        let weights = Weights::open(&path, &ImportOptions::new()).unwrap();
        assert_eq!(weights.names().unwrap(), ["one", "two"]);
    }
    assert_eq!(
        save_weights(&path, [("a\0", &value)], &options).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
}
