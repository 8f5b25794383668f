//! Builds a multilayer perceptron by hand and writes it as a file that torch.jit.load runs, without
//! PyTorch. usage: export_mlp [FILE]

use std::env;
use std::error::Error;

use tenon::{export_module, ExportOptions, Flags, Module, StorageOptions, TensorMut, TensorSpec};

/// Makes a parameter with plain numbers as weights.
fn parameter(sizes: &[i64]) -> tenon::Result<TensorMut> {
    let numel: i64 = sizes.iter().product();
    let elements: Vec<f32> = (0..numel).map(|i| 0.25 * (i % 7 - 3) as f32).collect();
    TensorMut::new(
        &StorageOptions::new().copy_from(&elements)?,
        &TensorSpec::of::<f32>(sizes).flags(Flags::REQUIRES_GRAD),
    )
}

fn linear(size_in: i64, size_out: i64) -> tenon::Result<Module> {
    let mut layer = Module::new("layers.Linear")?;
    layer.add_parameter("weight", &parameter(&[size_out, size_in])?)?;
    layer.add_parameter("bias", &parameter(&[size_out])?)?;
    layer.define(
        "
def forward(self, x: Tensor) -> Tensor:
  return torch.linear(x, self.weight, self.bias)
",
    )?;
    Ok(layer)
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = env::args().nth(1).unwrap_or_else(|| "mlp.pt".to_owned());
    let mut mlp = Module::new("MLP")?;
    mlp.add_submodule("fc1", &linear(4, 8)?)?;
    mlp.add_submodule("fc2", &linear(8, 3)?)?;
    mlp.define(
        "
def forward(self, x: Tensor) -> Tensor:
  return self.fc2.forward(torch.relu(self.fc1.forward(x)))
",
    )?;
    mlp.set_extra_file("labels.txt", "cat\ndog\nowl\n")?;
    let report = export_module(&mlp, &file, &ExportOptions::new())?;
    println!(
        "{file}: {} records, {} bytes, for PyTorch {} and later",
        report.records, report.nbytes, report.oldest_pytorch
    );
    Ok(())
}
