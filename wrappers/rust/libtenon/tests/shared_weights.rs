//! Tests of weights that processes share by a name.

mod common;

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::Folder;
use tenon::{ErrorKind, SharedWeights, SharedWeightsOptions};

const PATIENCE: Duration = Duration::from_secs(30);

fn golden() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/peers/golden/weights"))
        .join("torch-2.8.0.pt2")
}

#[test]
fn loaded_once() {
    let folder = Folder::new();
    let options = SharedWeightsOptions::new().directory(&folder.0).unwrap();
    let kept = {
        let first = SharedWeights::open(golden(), "net", &options, PATIENCE).unwrap();
        let second = SharedWeights::attach("net", &options, PATIENCE).unwrap();
        let info = first.info().unwrap();
        assert!(info.loaded && info.serves && info.count == 4 && info.version == 1);
        assert_eq!(info.server_pid, std::process::id() as i32);
        assert!(!second.info().unwrap().loaded);
        assert_eq!(second.clone().names().unwrap(), ["weight", "tied", "columns", "shift"]);
        assert!(format!("{second:?}").contains("columns"));
        let here = first.tensor("weight").unwrap().to_tensor().unwrap();
        let there = second.tensor("weight").unwrap().to_tensor().unwrap();
        assert!(here.writable().is_err());
        let place = |tensor: &tenon::Tensor| tensor.cells::<f32>().unwrap().as_ptr();
        assert_eq!(place(&here), place(&there));
        there
    };
    // The tensor is enough to hand the weights on.
    assert!(!SharedWeights::attach("net", &options, PATIENCE).unwrap().info().unwrap().loaded);
    assert_eq!(kept.cells::<f32>().unwrap()[5].get(), 5.0);
    drop(kept);
    let nobody = SharedWeights::attach("net", &options, PATIENCE).unwrap_err();
    assert_eq!(nobody.kind(), ErrorKind::NotFound);
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
}

#[test]
fn versions() {
    let folder = Folder::new();
    let options = SharedWeightsOptions::new().directory(&folder.0).unwrap();
    let first = SharedWeights::publish(golden(), "net", &options, PATIENCE).unwrap();
    assert_eq!(first.info().unwrap().version, 1);
    assert_eq!(first.changed(Duration::ZERO).unwrap_err().kind(), ErrorKind::WouldBlock);
    let weight = || first.tensor("weight").unwrap();
    let reusing = options.clone().reuse(true);
    let second =
        SharedWeights::publish_values([("step", weight())], "net", &reusing, PATIENCE).unwrap();
    assert_eq!(second.info().unwrap().version, 2);
    assert_eq!(first.changed(PATIENCE).unwrap(), 2);
    let newest = SharedWeights::attach("net", &options, PATIENCE).unwrap();
    assert_eq!(newest.names().unwrap(), ["step"]);
}

#[test]
fn progress_and_values() {
    let folder = Folder::new();
    let header = r#"{"__metadata__":{"format":"np"},"a":{"dtype":"U8","shape":[2],"#.to_owned()
        + r#""data_offsets":[0,2]}}"#;
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.bytes().chain(*b"ab"));
    let path = std::env::temp_dir().join(format!("tenon-rust-{}.safetensors", std::process::id()));
    std::fs::write(&path, &file).unwrap();
    let options = SharedWeightsOptions::new().directory(&folder.0).unwrap();
    let last = Arc::new(Mutex::new((0, 0)));
    let seen = last.clone();
    let told = options.clone().progress(move |done, total| *seen.lock().unwrap() = (done, total));
    let weights = SharedWeights::open(&path, "net", &told, PATIENCE).unwrap();
    let size = file.len() as u64;
    assert_eq!(*last.lock().unwrap(), (size, size));
    assert!(format!("{told:?}").contains("Progress"));
    assert_eq!(weights.value_names().unwrap(), ["__metadata__.format"]);
    assert_eq!(weights.value("__metadata__.format").unwrap().as_str().unwrap(), "np");
    assert_eq!(weights.value("a").unwrap_err().kind(), ErrorKind::NotFound);
    drop(weights);
    let stops = options.clone().progress(|_, _| panic!("stop"));
    let open = AssertUnwindSafe(|| SharedWeights::open(&path, "net", &stops, PATIENCE));
    let caught = catch_unwind(open).unwrap_err();
    assert_eq!(*caught.downcast::<&str>().unwrap(), "stop");
    // The panic has left no weights behind.
    let nobody = SharedWeights::attach("net", &options, PATIENCE).unwrap_err();
    assert_eq!(nobody.kind(), ErrorKind::NotFound);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn refused() {
    let folder = Folder::new();
    let options = SharedWeightsOptions::new().directory(&folder.0).unwrap();
    for name in ["", "a/b", "a\0b"] {
        let error = SharedWeights::open(golden(), name, &options, PATIENCE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    let small = options.clone().max_nbytes(10);
    let error = SharedWeights::open(golden(), "net", &small, PATIENCE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
    let nowhere = options.clone().device("gpu").unwrap();
    let error = SharedWeights::open(golden(), "net", &nowhere, PATIENCE).unwrap_err();
    assert_eq!(error.detail("field"), Some("device"));
    let group = SharedWeightsOptions::new().group(1);
    let error = SharedWeights::open(golden(), "net", &group, PATIENCE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}
