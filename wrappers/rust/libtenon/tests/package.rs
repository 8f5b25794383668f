//! Tests of packages: modules and files that are written, read, changed and written again.

mod common;

use common::Folder;
use tenon::{
    export_module, Durability, ErrorKind, ExportOptions, ImportOptions, Module, Package,
    PackageExport, Tensor, TensorMut,
};

fn net(class_name: &str, weight: &Tensor) -> Module {
    let mut module = Module::new(class_name).unwrap();
    module.add_parameter("weight", weight).unwrap();
    module
        .define("def forward(self, x: Tensor) -> Tensor:\n  return torch.mul(x, self.weight)\n")
        .unwrap();
    module
}

fn weight_of(package: &Package, name: &str) -> Vec<f32> {
    let weight = package.module(name).unwrap().value("weight").unwrap().to_tensor().unwrap();
    weight.cells::<f32>().unwrap().iter().map(|cell| cell.get()).collect()
}

#[test]
fn modules_and_files_there_and_back() {
    let folder = Folder::new();
    let path = folder.0.join("both.pt");
    let weight = Tensor::from(TensorMut::copy_of(&[1.0f32, 2.0, 3.0, 4.0], &[4]).unwrap());
    let (one, two) = (net("nets.One", &weight), net("nets.Two", &weight));
    let export = PackageExport::new()
        .module("models/one.pkl", &one)
        .module("models/two.pkl", &two)
        .file("models/note.txt", "hello")
        .file("empty", b"")
        .extern_module("numpy")
        .durability(Durability::File);
    let report = export.write(&path).unwrap();
    assert_eq!(report.nbytes, std::fs::metadata(&path).unwrap().len());
    assert!(format!("{export:?}").contains("models/two.pkl"));

    let package = Package::open(&path, &ImportOptions::new()).unwrap();
    assert_eq!(package.modules().unwrap(), ["models/one.pkl", "models/two.pkl"]);
    let records = package.records().unwrap();
    assert_eq!(records.len() as u64, report.records);
    assert_eq!(
        records.iter().filter(|name| name.ends_with(".storage")).count(),
        1,
        "the weight is shared"
    );
    assert_eq!(package.read("models/note.txt").unwrap(), b"hello");
    assert!(package.read("empty").unwrap().is_empty());
    assert_eq!(package.read(".data/extern_modules").unwrap(), b"torch.jit._script\nnumpy\n");
    assert!(format!("{package:?}").contains("models/one.pkl"));
    let missing = package.module("models/none.pkl").unwrap_err();
    assert!(
        missing.kind() == ErrorKind::NotFound && missing.to_string().contains("models/two.pkl"),
        "{missing}"
    );
    assert_eq!(package.read("none").unwrap_err().kind(), ErrorKind::NotFound);

    // The new package replaces the file of its base.
    package
        .module("models/one.pkl")
        .unwrap()
        .set("weight", &TensorMut::copy_of(&[7.0f32, 8.0], &[2]).unwrap())
        .unwrap();
    PackageExport::new().base(&package.clone()).write(&path).unwrap();
    let again = Package::open(&path, &ImportOptions::new()).unwrap();
    assert_eq!(weight_of(&again, "models/one.pkl"), [7.0, 8.0]);
    assert_eq!(weight_of(&again, "models/two.pkl"), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(again.read("models/note.txt").unwrap(), b"hello");
    let kept = again.module("0").unwrap();
    drop(again);
    assert!(kept.class_name().unwrap().ends_with("nets.One"));
}

#[test]
fn refusals() {
    let folder = Folder::new();
    let path = folder.0.join("bad.pt");
    let module = net("Net", &Tensor::from(TensorMut::zeros::<f32>(&[4]).unwrap()));
    for name in ["no_folder", "a//b", ".data/x", "a/b\0"] {
        let refused = PackageExport::new().module(name, &module).write(&path).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{name}: {refused}");
    }
    let taken = PackageExport::new()
        .extern_module("models")
        .module("models/net.pkl", &module)
        .write(&path)
        .unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::InvalidArgument, "{taken}");
    assert!(!path.exists());
    export_module(&module, &path, &ExportOptions::new()).unwrap();
    assert_eq!(
        Package::open(&path, &ImportOptions::new()).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
}
