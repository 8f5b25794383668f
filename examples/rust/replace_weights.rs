//! Imports a model, puts new weights in, and exports the model. Here the new weights are half the
//! old ones. In practice a trainer makes them. usage: replace_weights FILE OUT

use std::env;
use std::error::Error;

use tenon::{
    export_module, import_module, DType, ExportOptions, ImportOptions, LoadOptions, StorageOptions,
    Tensor, TensorMut, TensorSpec,
};

/// Makes a new tensor of the same sizes with halved elements.
fn halve(old: &Tensor) -> tenon::Result<TensorMut> {
    let half: Vec<f32> = old.cells::<f32>()?.iter().map(|cell| cell.get() * 0.5).collect();
    TensorMut::new(
        &StorageOptions::new().copy_from(&half)?,
        &TensorSpec::of::<f32>(old.sizes()).flags(old.flags()),
    )
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [file, out] = arguments.as_slice() else {
        return Err("usage: replace_weights FILE OUT".into());
    };
    let mut model = import_module(file, &ImportOptions::new())?;
    let mut weights = Vec::new();
    for member in model.parameters()? {
        // A quantised or a sparse tensor, for example, is not a Tensor.
        let Some(Ok(old)) = member.value.map(|value| value.to_tensor()) else { continue };
        if old.dtype() == DType::F32 && old.is_contiguous() {
            weights.push((member.name, halve(&old)?)); // "encoder.0.weight"
        }
    }
    // load replaces all of them or none. A name that the model does not have is an error.
    model.load(
        weights.iter().map(|(path, tensor)| (path.as_str(), tensor)),
        LoadOptions::new().allow_missing(),
    )?;
    export_module(&model, out, &ExportOptions::new())?;
    println!("{out}: {} parameters replaced", weights.len());
    Ok(())
}
