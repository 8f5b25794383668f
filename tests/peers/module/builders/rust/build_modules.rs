//! usage: build_modules STEPS FOLDER. It executes the steps of
//!        tests/peers/module/builders/README.md with the Rust wrapper.

mod words;

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use tenon::{
    export_module, ExportOptions, Flags, LoadOptions, Module, Quantizer, Storage, StorageOptions,
    Tensor, TensorLayout, TensorSpec, Value, ValueTensorSpec,
};
use words::Words;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The objects that the steps made.
struct Builder {
    folder: PathBuf,
    storages: Vec<Storage>,
    values: Vec<Value>,
    modules: Vec<Module>,
}

fn at<T: Clone>(made: &[T], index: usize) -> Outcome<T> {
    made.get(index).cloned().ok_or_else(|| format!("nothing has the number {index}").into())
}

fn layout_of(name: &str) -> Outcome<TensorLayout> {
    Ok(match name {
        "strided" => TensorLayout::Strided,
        "sparse_coo" => TensorLayout::SparseCoo,
        "sparse_csr" => TensorLayout::SparseCsr,
        "sparse_csc" => TensorLayout::SparseCsc,
        "sparse_bsr" => TensorLayout::SparseBsr,
        "sparse_bsc" => TensorLayout::SparseBsc,
        _ => return Err(format!("there is no layout {name}").into()),
    })
}

fn quantizer_of(name: &str) -> Outcome<Quantizer> {
    Ok(match name {
        "none" => Quantizer::None,
        "per_tensor_affine" => Quantizer::PerTensorAffine,
        "per_channel_affine" => Quantizer::PerChannelAffine,
        "per_channel_affine_float_qparams" => Quantizer::PerChannelAffineFloatQparams,
        _ => return Err(format!("there is no quantizer {name}").into()),
    })
}

fn flag(set: bool, flag: Flags) -> Flags {
    if set {
        flag
    } else {
        Flags::NONE
    }
}

impl Builder {
    fn value(&self, words: &Words, word: usize) -> Outcome<Value> {
        at(&self.values, words.index(word)?)
    }

    fn value_or_none(&self, words: &Words, word: usize) -> Outcome<Value> {
        if words.text(word)? == "-" {
            return Ok(Value::none());
        }
        self.value(words, word)
    }

    /// Returns the values in every `step`th word from `first` on.
    fn values(&self, words: &Words, first: usize, step: usize) -> Outcome<Vec<Value>> {
        (first..words.len()).step_by(step).map(|word| self.value(words, word)).collect()
    }

    fn storage(&self, words: &Words, word: usize) -> Outcome<Storage> {
        at(&self.storages, words.index(word)?)
    }

    fn module(&self, words: &Words, word: usize) -> Outcome<Module> {
        at(&self.modules, words.index(word)?)
    }

    fn tensor(&self, words: &Words) -> Outcome<Value> {
        let sizes = words.numbers(3)?.unwrap_or_default();
        let strides = words.numbers(4)?;
        let mut spec = TensorSpec::new(words.scalar_type(2)?.dtype()?, &sizes)
            .offset(words.number(5)?.try_into()?)
            .flags(flag(words.number(6)? != 0, Flags::REQUIRES_GRAD));
        if let Some(strides) = &strides {
            spec = spec.strides(strides);
        }
        Ok(Value::tensor(&Tensor::new(&self.storage(words, 1)?, &spec)?)?)
    }

    fn tensor_from_spec(&self, words: &Words) -> Outcome<Value> {
        let mut spec = ValueTensorSpec::default();
        for field in (1..words.len()).step_by(2) {
            let word = field + 1;
            match words.text(field)? {
                "scalar_type" => spec.scalar_type = words.scalar_type(word)?,
                "layout" => spec.layout = layout_of(words.text(word)?)?,
                "quantizer" => spec.quantizer = quantizer_of(words.text(word)?)?,
                "device" => spec.device = words.text(word)?.to_owned(),
                "sizes" => spec.sizes = words.numbers(word)?.unwrap_or_default(),
                "strides" => spec.strides = words.numbers(word)?,
                "offset" => spec.offset = words.number(word)?,
                "storage" => spec.storage = Some(self.storage(words, word)?),
                "storage_offset" => spec.storage_offset = words.number(word)?.try_into()?,
                "storage_numel" => spec.storage_numel = words.number(word)?.try_into()?,
                "scale" => spec.scale = words.float(word)?,
                "zero_point" => spec.zero_point = words.number(word)?,
                "axis" => spec.axis = words.number(word)?,
                "requires_grad" => {
                    spec.flags = spec.flags | flag(words.number(word)? != 0, Flags::REQUIRES_GRAD)
                }
                "conj" => spec.flags = spec.flags | flag(words.number(word)? != 0, Flags::CONJ),
                "neg" => spec.flags = spec.flags | flag(words.number(word)? != 0, Flags::NEG),
                "coalesced" => spec.coalesced = Some(words.number(word)? != 0),
                "indices" => spec.indices = Some(self.value(words, word)?),
                "plain_indices" => spec.plain_indices = Some(self.value(words, word)?),
                "values" => spec.values = Some(self.value(words, word)?),
                "scales" => spec.scales = Some(self.value(words, word)?),
                "zero_points" => spec.zero_points = Some(self.value(words, word)?),
                name => return Err(format!("there is no field {name}").into()),
            }
        }
        Ok(Value::tensor_from_spec(&spec)?)
    }

    /// Returns the value that a step makes, or None if the step makes no value.
    fn new_value(&self, words: &Words) -> Outcome<Option<Value>> {
        let type_text = || words.given(1);
        Ok(Some(match words.text(0)? {
            "tensor" => self.tensor(words)?,
            "spec" => self.tensor_from_spec(words)?,
            "none" => Value::none(),
            "bool" => Value::from(words.number(1)? != 0),
            "int" => Value::from(words.number(1)?),
            "float" => Value::from(words.float(1)?),
            "complex" => Value::complex(words.float(1)?, words.float(2)?),
            "str" => Value::from(words.text(1)?),
            "device" => Value::device(words.text(1)?)?,
            "tuple" => match words.given(1)? {
                Some(name) => Value::named_tuple(name, self.values(words, 2, 1)?)?,
                None => Value::tuple(self.values(words, 2, 1)?)?,
            },
            "list" => Value::list(type_text()?, self.values(words, 2, 1)?)?,
            "dict" => {
                let (keys, values) = (self.values(words, 2, 2)?, self.values(words, 3, 2)?);
                Value::dict(type_text()?, keys.into_iter().zip(values))?
            }
            "enum" => Value::enum_member(words.text(1)?, self.value(words, 2)?)?,
            "opaque" => Value::opaque(words.text(1)?, self.value(words, 2)?)?,
            "object" => Value::object(
                words.text(1)?,
                words.texts(2, 2)?.into_iter().zip(self.values(words, 3, 2)?),
            )?,
            _ => return Ok(None),
        }))
    }

    fn change(&self, words: &Words) -> Outcome {
        let mut module = self.module(words, 1)?;
        match words.text(0)? {
            "parameter" => module.add_parameter(words.text(2)?, self.value_or_none(words, 3)?)?,
            "buffer" => module.add_buffer(words.text(2)?, self.value_or_none(words, 3)?)?,
            "attribute" => {
                module.add_attribute(words.text(2)?, words.given(3)?, self.value(words, 4)?)?
            }
            "constant" => {
                module.add_constant(words.text(2)?, words.given(3)?, self.value(words, 4)?)?
            }
            "submodule" => match words.given(4)? {
                Some(interface) => {
                    module.add_submodule_as(words.text(2)?, &self.module(words, 3)?, interface)?
                }
                None => module.add_submodule(words.text(2)?, &self.module(words, 3)?)?,
            },
            "define" => module.define(words.text(2)?)?,
            "types" => module.define_types(words.text(2)?, words.text(3)?)?,
            "before" => module.set_hooks_before_forward(&words.texts(2, 1)?)?,
            "after" => module.set_hooks_after_forward(&words.texts(2, 1)?)?,
            "traced" => module.set_traced_inputs(words.text(2)?, self.values(words, 3, 1)?)?,
            "extra" => module.set_extra_file(words.text(2)?, words.bytes(3)?)?,
            "set" => module.set(words.text(2)?, self.value_or_none(words, 3)?)?,
            "state" => module.set_state(words.text(2)?, self.value_or_none(words, 3)?)?,
            "replace" => module.set_submodule(words.text(2)?, &self.module(words, 3)?)?,
            "remove" => module.remove(words.text(2)?)?,
            "load" => {
                module.load(
                    words.texts(2, 2)?.into_iter().zip(self.values(words, 3, 2)?),
                    LoadOptions::new(),
                )?;
            }
            "export" => {
                export_module(&module, self.folder.join(words.text(2)?), &ExportOptions::new())?;
            }
            _ => return Err("there is no such step".into()),
        }
        Ok(())
    }

    fn execute(&mut self, words: &Words) -> Outcome {
        match words.text(0)? {
            "model" => {
                self.storages.clear();
                self.values.clear();
                self.modules.clear();
            }
            "storage" => {
                self.storages.push(StorageOptions::new().copy_from(&words.bytes(1)?)?.into())
            }
            "module" => self.modules.push(Module::new(words.text(1)?)?),
            _ => match self.new_value(words)? {
                Some(value) => self.values.push(value),
                None => self.change(words)?,
            },
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    let [_, steps, folder] = arguments.as_slice() else { return ExitCode::from(2) };
    let Ok(lines) = std::fs::read_to_string(steps) else { return ExitCode::from(2) };
    let mut builder = Builder {
        folder: folder.into(),
        storages: Vec::new(),
        values: Vec::new(),
        modules: Vec::new(),
    };
    for (number, line) in lines.split_terminator('\n').enumerate() {
        let words = Words::of(line);
        if let Err(error) = builder.execute(&words) {
            eprintln!("line {}, {}: {error}", number + 1, words.text(0).unwrap_or_default());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
