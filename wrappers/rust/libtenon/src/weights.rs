//! Files of weights: programs of torch.export (`.pt2`), safetensors files and their indexes, files
//! of torch.save and torch.jit.save, of NumPy (`.npy`, `.npz`) and of ExecuTorch (`.ptd`). Nothing
//! in a file is executed.

use std::fmt;
use std::path::Path;
use std::ptr::NonNull;

use crate::error::{check, make, Error, Result};
use crate::export::Durability;
use crate::import::ImportOptions;
use crate::member::names;
use crate::sys;
use crate::text::{c_path, c_text, Names};
use crate::value::Value;

/// The tensors of a file by their names, such as `encoder.0.weight`. A program can be written again
/// with other weights. Tensors stay usable without the `Weights`.
///
/// ```no_run
/// use tenon::{Durability, ImportOptions, TensorMut, Weights};
///
/// let mut weights = Weights::open("net.pt2", &ImportOptions::new())?;
/// weights.replace("fc.weight", &TensorMut::zeros::<f32>(&[64, 64])?)?;
/// weights.rewrite("new.pt2", Durability::None)?;
/// # Ok::<(), tenon::Error>(())
/// ```
pub struct Weights {
    raw: NonNull<sys::tenon_weights>,
}

handle!(Weights, tenon_weights, tenon_weights_release);

impl Weights {
    /// Opens a file of weights. The options say where the tensors go. The option `debug_tables` has
    /// no effect. The file may be replaced by another of its name.
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) means that the file is of another
    /// kind.
    pub fn open(path: impl AsRef<Path>, options: &ImportOptions<'_>) -> Result<Weights> {
        let path = c_path(path.as_ref())?;
        let raw = options.raw(sys::TENON_IMPORT_MAP_PRIVATE);
        Ok(Weights {
            // SAFETY: all arguments are borrowed for the call, and the result is a new reference.
            raw: make(|out, err| unsafe {
                sys::tenon_open_weights(path.as_ptr(), &raw, out, err)
            })?,
        })
    }

    /// Lists the names of all weights in the order of the file.
    pub fn names(&self) -> Result<Vec<String>> {
        // SAFETY: self keeps the weights, and the list belongs to this function.
        names(make(|out, err| unsafe { sys::tenon_weights_names(self.as_raw(), out, err) })?)
    }

    /// Gives a weight. Weights that share a storage in the file share it in memory. After
    /// [`replace`](Weights::replace) the value has the new elements, and values that were given
    /// before keep the old ones.
    pub fn tensor(&self, name: &str) -> Result<Value> {
        let name = c_text(name, "the name")?;
        // SAFETY: self keeps the weights, and the result is a new reference.
        Value::new(|out, err| unsafe {
            sys::tenon_weights_tensor(self.as_raw(), name.as_ptr(), out, err)
        })
    }

    /// Lists the names of the values that are no tensors, such as the numbers in a checkpoint.
    pub fn value_names(&self) -> Result<Vec<String>> {
        // SAFETY: as in names().
        names(make(|out, err| unsafe { sys::tenon_weights_value_names(self.as_raw(), out, err) })?)
    }

    /// Gives a value that is no tensor.
    pub fn value(&self, name: &str) -> Result<Value> {
        let name = c_text(name, "the name")?;
        // SAFETY: as in tensor().
        Value::new(|out, err| unsafe {
            sys::tenon_weights_value(self.as_raw(), name.as_ptr(), out, err)
        })
    }

    /// Gives a line with the name and the reason for everything in the file that cannot be read.
    pub fn skipped(&self) -> Result<Vec<String>> {
        // SAFETY: as in names().
        names(make(|out, err| unsafe { sys::tenon_weights_skipped(self.as_raw(), out, err) })?)
    }

    /// Replaces the elements of a weight. The element type and the shape must be those of the
    /// weight. The strides may be others. Weights that share a storage with this one change with
    /// it. The tensor's elements must not change before the last [`rewrite`](Weights::rewrite).
    pub fn replace<V: TryInto<Value>>(&mut self, name: &str, tensor: V) -> Result<()>
    where
        Error: From<V::Error>,
    {
        let (name, tensor) = (c_text(name, "the name")?, tensor.try_into()?);
        // SAFETY: self is borrowed exclusively, and all arguments are borrowed for the call.
        check(|err| unsafe {
            sys::tenon_weights_replace(self.as_raw(), name.as_ptr(), tensor.as_raw(), err)
        })
    }

    /// Writes the file that was opened with the replaced weights in it. All other bytes stay as
    /// they are, except for checksums. The file is written whole or not at all. The path may be the
    /// file that was opened.
    pub fn rewrite(&self, path: impl AsRef<Path>, durability: Durability) -> Result<()> {
        let path = c_path(path.as_ref())?;
        let options = blank!(tenon_weights_rewrite_options { durability: durability.raw() });
        // SAFETY: all arguments are borrowed for the call.
        check(|err| unsafe {
            sys::tenon_weights_rewrite(self.as_raw(), path.as_ptr(), &options, err)
        })
    }
}

impl fmt::Debug for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Weights").field("names", &self.names().unwrap_or_default()).finish()
    }
}

/// A form of file that [`save_weights`] writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WeightsForm {
    /// A safetensors file.
    #[default]
    Safetensors,
    /// A dict of tensors, as torch.save writes it.
    TorchSave,
    /// An archive of arrays, as numpy.savez writes it.
    Npz,
}

/// Says how to save weights.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct SaveWeightsOptions {
    form: WeightsForm,
    durability: Durability,
    duplicate_shared: bool,
    metadata: Vec<(String, String)>,
}

impl SaveWeightsOptions {
    /// A safetensors file without metadata.
    pub fn new() -> SaveWeightsOptions {
        SaveWeightsOptions::default()
    }

    /// Sets the form of the file.
    pub fn form(self, form: WeightsForm) -> Self {
        SaveWeightsOptions { form, ..self }
    }

    /// Sets how certain it is that the file is on the disk afterwards.
    pub fn durability(self, durability: Durability) -> Self {
        SaveWeightsOptions { durability, ..self }
    }

    /// Writes tensors that share memory whole, each of them. Without this a safetensors or .npz
    /// file of such tensors is refused.
    pub fn duplicate_shared(self) -> Self {
        SaveWeightsOptions { duplicate_shared: true, ..self }
    }

    /// Adds a text to the `__metadata__` of a safetensors file.
    pub fn metadata(mut self, key: &str, text: &str) -> Self {
        self.metadata.push((key.to_owned(), text.to_owned()));
        self
    }
}

/// Saves tensors under names as a new file. The elements are written from where they are. The file
/// is written whole or not at all. Each value is a tensor in the memory of the CPU.
pub fn save_weights<'a>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (&'a str, &'a Value)>,
    options: &SaveWeightsOptions,
) -> Result<()> {
    let path = c_path(path.as_ref())?;
    let (names, values): (Vec<&str>, Vec<_>) =
        tensors.into_iter().map(|(name, value)| (name, value.as_raw().cast_const())).unzip();
    let names = Names::new(names, "a name")?;
    let keys = Names::new(options.metadata.iter().map(|(key, _)| key.as_str()), "a key")?;
    let texts = Names::new(options.metadata.iter().map(|(_, text)| text.as_str()), "a text")?;
    let form = match options.form {
        WeightsForm::Safetensors => sys::TENON_WEIGHTS_SAFETENSORS,
        WeightsForm::TorchSave => sys::TENON_WEIGHTS_TORCH_SAVE,
        WeightsForm::Npz => sys::TENON_WEIGHTS_NPZ,
    };
    let given = blank!(tenon_save_weights_options {
        form: form as i32,
        durability: options.durability.raw(),
        flags: if options.duplicate_shared { sys::TENON_SAVE_DUPLICATE_SHARED } else { 0 },
        metadata_keys: keys.raw.as_ptr(),
        metadata_texts: texts.raw.as_ptr(),
        metadata_count: keys.raw.len(),
    });
    // SAFETY: all arguments are borrowed for the call.
    check(|err| unsafe {
        sys::tenon_save_weights(
            path.as_ptr(),
            names.raw.as_ptr(),
            values.as_ptr(),
            values.len(),
            &given,
            err,
        )
    })
}
