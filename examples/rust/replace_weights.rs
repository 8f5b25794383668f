//! The commonest job of all: import a model, put new weights in, export. The new ones are half the
//! old ones here; they would come from a trainer. usage: replace_weights FILE OUT

use std::env;
use std::error::Error;

use tenon::{
    export_module, import_module, DType, ExportOptions, ImportOptions, LoadOptions, StorageOptions,
    Tensor, TensorMut, TensorSpec,
};

/// A new tensor of the same sizes, half as large in its elements.
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
        // What is quantised, sparse, … is no Tensor.
        let Some(Ok(old)) = member.value.map(|value| value.to_tensor()) else { continue };
        if old.dtype() == DType::F32 && old.is_contiguous() {
            weights.push((member.name, halve(&old)?)); // "encoder.0.weight"
        }
    }
    // All of them or none; a name that the model has not is an error.
    model.load(
        weights.iter().map(|(path, tensor)| (path.as_str(), tensor)),
        LoadOptions::new().allow_missing(),
    )?;
    export_module(&model, out, &ExportOptions::new())?;
    println!("{out}: {} parameters replaced", weights.len());
    Ok(())
}
