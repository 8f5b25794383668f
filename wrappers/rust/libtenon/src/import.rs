//! Imports: reading modules from archives. The contents of an archive count as hostile until they
//! are checked, and nothing in it is executed.

use std::ffi::{c_void, CStr};
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::ptr;

use crate::arena::Arena;
use crate::error::{check, make, Result};
use crate::module::Module;
use crate::panic;
use crate::storage::Mode;
use crate::sys;
use crate::text::c_path;

/// Says what an import checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ImportCheck {
    /// The zip directory, headers, bounds, overlaps and references, and the checksums of pickles
    /// and code.
    #[default]
    Structure,
    /// Also the checksum of each tensor that is copied.
    Fill,
    /// Also the checksum of every record.
    All,
}

/// Says how to read an archive.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct ImportOptions<'a> {
    tensors: Option<u32>,
    check: ImportCheck,
    arena: Option<&'a Arena>,
    mode: Mode,
    device: i32,
    max_inflated_nbytes: u64,
    max_records: u64,
    max_depth: u64,
    device_map: Option<&'a CStr>,
    flags: u32,
}

impl<'a> ImportOptions<'a> {
    /// All options have their defaults. The tensors of a file are then writable views of it, and
    /// writes stay in this process. The tensors of bytes in memory are read-only views of them.
    pub fn new() -> Self {
        ImportOptions::default()
    }

    /// Makes the tensors of a file read-only views of it, which can be read as plain slices
    /// ([`Tensor::as_slice`](crate::Tensor::as_slice)).
    ///
    /// # Safety
    /// As long as a tensor of the import lives, nobody changes the file: no thread of this process,
    /// and no other process. (Replacing the file by another one of its name does not change it.)
    pub unsafe fn mapped(self) -> Self {
        ImportOptions { tensors: Some(sys::TENON_IMPORT_MAP), device: 0, ..self }
    }

    /// Makes the tensors writable views, whose writes stay in this process. Bytes in memory are
    /// copied for this.
    pub fn mapped_private(self) -> Self {
        ImportOptions { tensors: Some(sys::TENON_IMPORT_MAP_PRIVATE), device: 0, ..self }
    }

    /// Copies the tensors into storages of this mode, which can be lent.
    pub fn filled(self, mode: Mode) -> Self {
        ImportOptions {
            tensors: Some(sys::TENON_IMPORT_FILL),
            mode,
            arena: None,
            device: 0,
            ..self
        }
    }

    /// Copies the tensors into this arena.
    pub fn filled_in(self, arena: &'a Arena) -> Self {
        ImportOptions {
            tensors: Some(sys::TENON_IMPORT_FILL),
            mode: Mode::Shared,
            arena: Some(arena),
            device: 0,
            ..self
        }
    }

    /// Copies the tensors to this CUDA device, whose ordinal is in this process's numbering. They
    /// lie in one allocation, which is freed with the last tensor in it.
    pub fn on_device(self, device: i32) -> Self {
        ImportOptions {
            tensors: Some(sys::TENON_IMPORT_DEVICE),
            mode: Mode::Shared,
            arena: None,
            device,
            ..self
        }
    }

    /// Says where to put tensors that were saved on certain devices, by pairs such as
    /// `cuda:1=cuda:0,mps=cpu`. The left side of a pair is a device as the archive names it, or a
    /// kind of device (`cuda`), which stands for every number that has no pair of its own. The
    /// right side is `cpu`, or a CUDA device to which the tensors are copied. Tensors of other
    /// devices go where the other options say.
    pub fn device_map(self, device_map: &'a CStr) -> Self {
        ImportOptions { device_map: Some(device_map), ..self }
    }

    /// Reads the debug tables too, so that an export can write them
    /// ([`ExportOptions::debug_tables`](crate::ExportOptions::debug_tables)).
    pub fn debug_tables(self) -> Self {
        ImportOptions { flags: self.flags | sys::TENON_IMPORT_DEBUG_TABLES, ..self }
    }

    /// Sets what the import checks.
    pub fn check(self, check: ImportCheck) -> Self {
        ImportOptions { check, ..self }
    }

    /// Sets the most bytes of all compressed records together, in place of 1 GiB.
    pub fn max_inflated_nbytes(self, nbytes: u64) -> Self {
        ImportOptions { max_inflated_nbytes: nbytes, ..self }
    }

    /// Sets the most records, in place of 1,000,000.
    pub fn max_records(self, records: u64) -> Self {
        ImportOptions { max_records: records, ..self }
    }

    /// Sets how deep values may be nested in values, up to 1,000, in place of 512.
    pub fn max_depth(self, depth: u64) -> Self {
        ImportOptions { max_depth: depth, ..self }
    }

    pub(crate) fn raw(&self, tensors: u32) -> sys::tenon_import_options {
        sys::tenon_import_options {
            struct_size: size_of::<sys::tenon_import_options>(),
            tensors: self.tensors.unwrap_or(tensors) as i32,
            check: match self.check {
                ImportCheck::Structure => sys::TENON_IMPORT_CHECK_STRUCTURE,
                ImportCheck::Fill => sys::TENON_IMPORT_CHECK_FILL,
                ImportCheck::All => sys::TENON_IMPORT_CHECK_ALL,
            } as i32,
            arena: self.arena.map_or(ptr::null_mut(), Arena::as_raw),
            mode: match self.mode {
                Mode::Shared => sys::TENON_MODE_SHARED,
                Mode::LenderWrites => sys::TENON_MODE_LENDER_WRITES,
                Mode::Frozen => sys::TENON_MODE_FROZEN,
            },
            device: self.device,
            max_inflated_nbytes: self.max_inflated_nbytes,
            max_records: self.max_records,
            max_depth: self.max_depth,
            device_map: self.device_map.map_or(ptr::null(), CStr::as_ptr),
            flags: self.flags,
        }
    }
}

/// Says what an import found. For a module that is not the root of an import all figures are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportReport {
    /// The version of the archive, which says what its operators mean.
    pub version: i32,
    /// The number of records in the archive.
    pub records: u32,
    /// Storages that are views.
    pub mapped_storages: u64,
    /// The bytes in these storages.
    pub mapped_nbytes: u64,
    /// Storages that were copied.
    pub filled_storages: u64,
    /// The bytes in these storages.
    pub filled_nbytes: u64,
    /// Storages that had to be copied because of their alignment in the file.
    pub misaligned: u64,
    /// Storages that had to be copied because they are compressed.
    pub compressed: u64,
    /// Storages that had to be copied because of their byte order.
    pub foreign_endian: u64,
    /// Records that have no checksum, because their writer computed none.
    pub without_crc: u64,
}

/// Reads an archive of PyTorch 1.4 or later, or PyTorch's flatbuffer form. The error for a
/// malformed archive has the details `record` and `offset`. If the file is cut short while tensors
/// over it live, reading them causes a SIGBUS. The file may be replaced by another one of its name.
///
/// The code and the bytecode of a flatbuffer are checked when the module is first used. If they are
/// bad, that call and each later one fails. With [`ImportCheck::All`] they are checked here.
///
/// ```no_run
/// use tenon::{export_module, import_module, ExportOptions, ImportOptions, TensorMut};
///
/// let mut model = import_module("model.pt", &ImportOptions::new())?;
/// model.set("encoder.0.weight", &TensorMut::zeros::<f32>(&[64, 64])?)?;
/// export_module(&model, "changed.pt", &ExportOptions::new())?;
/// # Ok::<(), tenon::Error>(())
/// ```
pub fn import_module(path: impl AsRef<Path>, options: &ImportOptions<'_>) -> Result<Module> {
    let path = c_path(path.as_ref())?;
    let raw = options.raw(sys::TENON_IMPORT_MAP_PRIVATE);
    // SAFETY: all arguments are borrowed for the call, and out belongs to this function.
    Ok(Module::adopt(make(|out, err| unsafe {
        sys::tenon_import_module(path.as_ptr(), &raw, out, err)
    })?))
}

/// Reads an archive as [`import_module`] does, but from an open file, whatever its position.
pub fn import_file(file: impl AsFd, options: &ImportOptions<'_>) -> Result<Module> {
    let raw = options.raw(sys::TENON_IMPORT_MAP_PRIVATE);
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: as above, and the file stays open for the call.
    Ok(Module::adopt(make(|out, err| unsafe { sys::tenon_import_module_fd(fd, &raw, out, err) })?))
}

/// Reads an archive as [`import_module`] does, but from memory. `owner` is dropped when nothing
/// needs the bytes any more, which is at the latest when the last tensor over them is dropped.
pub fn import_bytes<O: AsRef<[u8]> + Send + 'static>(
    owner: O,
    options: &ImportOptions<'_>,
) -> Result<Module> {
    let raw = options.raw(sys::TENON_IMPORT_MAP);
    let owner = Box::into_raw(Box::new(owner));
    // SAFETY: the box was just made, and nothing uses it until drop_box takes it back.
    let data: &[u8] = unsafe { &*owner }.as_ref();
    let (start, nbytes) = (data.as_ptr().cast(), data.len());
    let mut made = None;
    panic::release(|| {
        // SAFETY: the bytes stay valid and unchanged while the owner is borrowed, and that borrow
        // ends in drop_box.
        made = Some(make(|out, err| unsafe {
            sys::tenon_import_module_memory(
                start,
                nbytes,
                Some(drop_box::<O>),
                owner.cast(),
                &raw,
                out,
                err,
            )
        }));
    });
    match made.unwrap_or_else(|| unreachable!("release calls once")) {
        Ok(raw) => Ok(Module::adopt(raw)),
        Err(error) => {
            // SAFETY: the library does not call drop_box after a failure (archive.h).
            drop(unsafe { Box::from_raw(owner) });
            Err(error)
        }
    }
}

unsafe extern "C" fn drop_box<O>(context: *mut c_void) {
    // SAFETY: the library gives back, once, the box that import_bytes gave to it.
    panic::callback(|| drop(unsafe { Box::from_raw(context.cast::<O>()) }));
}

impl Module {
    /// Says what the import of this module found.
    pub fn import_report(&self) -> Result<ImportReport> {
        let mut raw = blank!(tenon_import_report);
        // SAFETY: self keeps the module, and raw has its own struct_size.
        check(|err| unsafe { sys::tenon_module_import_report(self.as_raw(), &mut raw, err) })?;
        Ok(ImportReport {
            version: raw.version,
            records: raw.records,
            mapped_storages: raw.mapped_storages,
            mapped_nbytes: raw.mapped_nbytes,
            filled_storages: raw.filled_storages,
            filled_nbytes: raw.filled_nbytes,
            misaligned: raw.misaligned,
            compressed: raw.compressed,
            foreign_endian: raw.foreign_endian,
            without_crc: raw.without_crc,
        })
    }
}
