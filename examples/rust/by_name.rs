//! Two processes share nothing but a name. One process makes memory for a tensor under the name.
//! The other one is started with the name as its argument, opens it and writes. usage: by_name
//! [NAME]

use std::env;
use std::error::Error;
use std::process::Command;

use tenon::{
    ErrorKind, FilenameHandle, FilenameOptions, OpenOptions, StorageMut, TensorMut, TensorSpec,
};

const COUNT: usize = 1000;
const NBYTES: u64 = (COUNT * 4) as u64;

fn tensor_over(storage: &StorageMut) -> tenon::Result<TensorMut> {
    TensorMut::new(storage, &TensorSpec::of::<i32>(&[COUNT as i64]))
}

fn borrow(name: &str) -> Result<(), Box<dyn Error>> {
    // Every process that may write to a named file can cut it short. A process that opens the file
    // trusts them.
    let options = OpenOptions::new().allow_unsealed();
    let tensor = tensor_over(&FilenameHandle::new(name, NBYTES).open_writable(options, None)?)?;
    for (i, cell) in (0..).zip(tensor.cells::<i32>()?) {
        cell.set(i * i);
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(name) = env::args().nth(1) {
        return borrow(&name);
    }
    let storage = StorageMut::new_filename(&FilenameOptions::new(), NBYTES)?;
    let handle = storage.share_filename(&FilenameOptions::new(), None)?;
    if !Command::new(env::current_exe()?).arg(&handle.name).status()?.success() {
        return Err("the other process failed".into());
    }
    println!("the other process wrote {}", tensor_over(&storage)?.cells::<i32>()?[COUNT - 1].get());
    drop(storage); // the last holder drops the storage, and the name goes
    let gone = matches!(
        handle.open(OpenOptions::new(), None),
        Err(error) if error.kind() == ErrorKind::NotFound
    );
    println!("the name is {}", if gone { "gone" } else { "still there" });
    Ok(())
}
