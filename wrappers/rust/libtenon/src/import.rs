//! Archives to modules. What is in an archive is hostile until it was checked, and nothing in it is
//! executed.

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
use crate::tree;

/// What an import checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ImportCheck {
    /// Directory, headers, bounds, overlaps, references; checksums of pickles and code.
    #[default]
    Structure,
    /// And the checksum of each tensor that is copied.
    Fill,
    /// And that of every record.
    All,
}

/// How an archive is read.
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
    /// Everything by default. Tensors of a file are views of it that may be written; what is
    /// written stays in this process. Tensors of bytes are read-only views of them.
    pub fn new() -> Self {
        ImportOptions::default()
    }

    /// Tensors of a file are read-only views of it, which can be had as plain slices
    /// ([`Tensor::as_slice`](crate::Tensor::as_slice)).
    ///
    /// # Safety
    /// As long as a tensor of the import lives, nobody changes the file: no thread of this process,
    /// and no other process. (To replace it by another of its name is no change.)
    pub unsafe fn mapped(self) -> Self {
        ImportOptions { tensors: Some(sys::TENON_IMPORT_MAP), device: 0, ..self }
    }

    /// Tensors are views that may be written; what is written stays in this process. Bytes are
    /// copied for it.
    pub fn mapped_private(self) -> Self {
        ImportOptions { tensors: Some(sys::TENON_IMPORT_MAP_PRIVATE), device: 0, ..self }
    }

    /// Tensors are copies, in storages of their own of this mode, which can be lent.
    pub fn filled(self, mode: Mode) -> Self {
        ImportOptions {
            tensors: Some(sys::TENON_IMPORT_FILL),
            mode,
            arena: None,
            device: 0,
            ..self
        }
    }

    /// Tensors are copies in this arena.
    pub fn filled_in(self, arena: &'a Arena) -> Self {
        ImportOptions {
            tensors: Some(sys::TENON_IMPORT_FILL),
            mode: Mode::Shared,
            arena: Some(arena),
            device: 0,
            ..self
        }
    }

    /// Tensors are copies in memory of this CUDA device, whose number is this process's: one
    /// allocation, which goes with the last of them.
    pub fn on_device(self, device: i32) -> Self {
        ImportOptions {
            tensors: Some(sys::TENON_IMPORT_DEVICE),
            mode: Mode::Shared,
            arena: None,
            device,
            ..self
        }
    }

    /// Where tensors go that were saved on certain devices: pairs like `cuda:1=cuda:0,mps=cpu`. The
    /// left side is a device as the archive names it, or a kind (`cuda`) for each number without a
    /// pair of its own. The right side is `cpu`, or a CUDA device, whose memory gets copies.
    /// Tensors of other devices go where the other options say.
    pub fn device_map(self, device_map: &'a CStr) -> Self {
        ImportOptions { device_map: Some(device_map), ..self }
    }

    /// Reads the debug tables too, so that an export can write them
    /// ([`ExportOptions::debug_tables`](crate::ExportOptions::debug_tables)).
    pub fn debug_tables(self) -> Self {
        ImportOptions { flags: self.flags | sys::TENON_IMPORT_DEBUG_TABLES, ..self }
    }

    /// What is checked.
    pub fn check(self, check: ImportCheck) -> Self {
        ImportOptions { check, ..self }
    }

    /// The most bytes of all compressed records together, in place of 1 GiB.
    pub fn max_inflated_nbytes(self, nbytes: u64) -> Self {
        ImportOptions { max_inflated_nbytes: nbytes, ..self }
    }

    /// The most records, in place of 1,000,000.
    pub fn max_records(self, records: u64) -> Self {
        ImportOptions { max_records: records, ..self }
    }

    /// How deep values may lie in values, up to 1,000, in place of 512.
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

/// What an import found. Of a module that no import gave, all of it is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportReport {
    /// Of the operators.
    pub version: i32,
    /// In the archive.
    pub records: u32,
    /// That are views.
    pub mapped_storages: u64,
    /// That are views.
    pub mapped_nbytes: u64,
    /// That were copied.
    pub filled_storages: u64,
    /// That were copied.
    pub filled_nbytes: u64,
    /// Storages that had to be copied because they lie badly in the file.
    pub misaligned: u64,
    /// Likewise, because they are compressed.
    pub compressed: u64,
    /// Likewise, because their bytes are the other way round.
    pub foreign_endian: u64,
    /// Records whose checksum nobody computed.
    pub without_crc: u64,
}

/// Read an archive of PyTorch 1.4 or later, or PyTorch's flatbuffer form. The error of a bad
/// archive has the details `record` and `offset`. To cut the file short while tensors over it live
/// ends in SIGBUS where they are read; to replace it by another of its name is harmless.
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
    // SAFETY: all is borrowed for the call; out is ours.
    Ok(Module::adopt(make(|out, err| unsafe {
        sys::tenon_import_module(path.as_ptr(), &raw, out, err)
    })?))
}

/// The same from an open file, whatever its position.
pub fn import_file(file: impl AsFd, options: &ImportOptions<'_>) -> Result<Module> {
    let raw = options.raw(sys::TENON_IMPORT_MAP_PRIVATE);
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: as above; the file stays open for the call.
    Ok(Module::adopt(make(|out, err| unsafe { sys::tenon_import_module_fd(fd, &raw, out, err) })?))
}

/// The same from memory. `owner` is dropped when nothing needs the bytes any more, at the latest
/// with the last tensor over them.
pub fn import_bytes<O: AsRef<[u8]> + Send + 'static>(
    owner: O,
    options: &ImportOptions<'_>,
) -> Result<Module> {
    let raw = options.raw(sys::TENON_IMPORT_MAP);
    let owner = Box::into_raw(Box::new(owner));
    // SAFETY: just made, and looked at by nobody else until drop_box takes it back.
    let data: &[u8] = unsafe { &*owner }.as_ref();
    let (start, nbytes) = (data.as_ptr().cast(), data.len());
    let mut made = None;
    panic::release(|| {
        // SAFETY: the bytes stay as they are as long as the owner is borrowed, which ends in
        // drop_box.
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
            // SAFETY: it is not called on failure (archive.h).
            drop(unsafe { Box::from_raw(owner) });
            Err(error)
        }
    }
}

unsafe extern "C" fn drop_box<O>(context: *mut c_void) {
    // SAFETY: the library gives back, once, the box that import_bytes gave it.
    panic::callback(|| drop(unsafe { Box::from_raw(context.cast::<O>()) }));
}

impl Module {
    /// What the import of this module found.
    pub fn import_report(&self) -> Result<ImportReport> {
        let mut raw = sys::tenon_import_report {
            struct_size: size_of::<sys::tenon_import_report>(),
            version: 0,
            records: 0,
            mapped_storages: 0,
            mapped_nbytes: 0,
            filled_storages: 0,
            filled_nbytes: 0,
            misaligned: 0,
            compressed: 0,
            foreign_endian: 0,
            without_crc: 0,
        };
        tree::look(|| {
            // SAFETY: self keeps it; raw is of its own struct_size.
            check(|err| unsafe { sys::tenon_module_import_report(self.as_raw(), &mut raw, err) })
        })?;
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
