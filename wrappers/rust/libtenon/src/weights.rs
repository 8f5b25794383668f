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
use crate::text::{c_path, c_text};
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
