//! Packages: reading and writing archives of torch.package. Nothing in a package is executed.

use std::ffi::CString;
use std::fmt;
use std::path::Path;
use std::ptr::{self, NonNull};

use crate::error::{check, make, Result};
use crate::export::{Durability, ExportReport};
use crate::import::ImportOptions;
use crate::member::{files, names};
use crate::module::Module;
use crate::sys;
use crate::text::{c_path, c_text};

/// An open archive of torch.package. Its parts are called records. A record such as
/// `models/net.pkl` is the resource `net.pkl` of the Python package `models`. A clone is the same
/// package.
///
/// A script module has two names: its resource, if there is a record that holds this module and
/// nothing else, and its id in the package, such as `0`. Storages that several modules share are in
/// memory once. Modules stay usable without their package.
///
/// ```no_run
/// use tenon::{ImportOptions, Package, PackageExport, TensorMut};
///
/// let package = Package::open("models.pt", &ImportOptions::new())?;
/// package.module("models/net.pkl")?.set("fc.weight", &TensorMut::zeros::<f32>(&[64, 64])?)?;
/// PackageExport::new().base(&package).write("changed.pt")?;
/// # Ok::<(), tenon::Error>(())
/// ```
pub struct Package {
    raw: NonNull<sys::tenon_package>,
}

handle!(Package, tenon_package, tenon_package_release, retain tenon_package_retain);

impl Package {
    /// Opens a package. The options are for all of its modules. The option `debug_tables` has no
    /// effect. The file may be replaced by another of its name.
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) means that the file is no package.
    pub fn open(path: impl AsRef<Path>, options: &ImportOptions<'_>) -> Result<Package> {
        let path = c_path(path.as_ref())?;
        let raw = options.raw(sys::TENON_IMPORT_MAP_PRIVATE);
        Ok(Package {
            // SAFETY: all arguments are borrowed for the call, and the result is a new reference.
            raw: make(|out, err| unsafe {
                sys::tenon_package_open(path.as_ptr(), &raw, out, err)
            })?,
        })
    }

    /// Lists the script modules. Each has the name of its resource, or its id if it has none.
    pub fn modules(&self) -> Result<Vec<String>> {
        // SAFETY: self keeps the package, and the list belongs to this function.
        names(make(|out, err| unsafe { sys::tenon_package_modules(self.as_raw(), out, err) })?)
    }

    /// Reads the script module of a resource or an id. Every call with a name of the same module
    /// gives a module over the same objects, with the changes that were made to it. A module that
    /// cannot be read harms no other. The message of
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) lists the names.
    pub fn module(&self, name: &str) -> Result<Module> {
        let name = c_text(name, "the name")?;
        // SAFETY: self keeps the package, and the result is a new reference.
        Ok(Module::adopt(make(|out, err| unsafe {
            sys::tenon_package_module(self.as_raw(), name.as_ptr(), out, err)
        })?))
    }

    /// Lists all records in their order, those that PyTorch keeps below `.data/` too.
    pub fn records(&self) -> Result<Vec<String>> {
        // SAFETY: as in modules.
        names(make(|out, err| unsafe { sys::tenon_package_records(self.as_raw(), out, err) })?)
    }

    /// Copies the bytes of a record: a pickle, a Python source, a file, or a storage such as
    /// `.data/0.storage`.
    pub fn read(&self, record: &str) -> Result<Vec<u8>> {
        let record = c_text(record, "the record's name")?;
        // SAFETY: as in modules.
        let found = files(make(|out, err| unsafe {
            sys::tenon_package_read(self.as_raw(), record.as_ptr(), out, err)
        })?)?;
        Ok(found.into_iter().next().map(|(_, data)| data).unwrap_or_default())
    }
}

impl fmt::Debug for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Package").field("modules", &self.modules().unwrap_or_default()).finish()
    }
}

#[derive(Clone, Copy)]
enum Entry<'a> {
    Module(&'a Module),
    File(&'a [u8]),
}

/// Collects what a new package contains and how to write it. [`PackageExport::write`] writes the
/// package.
#[derive(Clone, Default)]
#[must_use]
pub struct PackageExport<'a> {
    entries: Vec<(&'a str, Entry<'a>)>,
    base: Option<&'a Package>,
    externs: Vec<&'a str>,
    archive_name: Option<&'a str>,
    durability: Durability,
    flags: u32,
}

impl<'a> PackageExport<'a> {
    /// Begins a package without entries and with the default options.
    pub fn new() -> Self {
        PackageExport::default()
    }

    /// Adds a module as the resource of that name. `load_pickle("models", "net.pkl")` of a
    /// `PackageImporter` reads `models/net.pkl`. Several entries may have the same module.
    pub fn module(mut self, name: &'a str, module: &'a Module) -> Self {
        self.entries.push((name, Entry::Module(module)));
        self
    }

    /// Adds a file, such as a text or a Python source.
    pub fn file(mut self, name: &'a str, data: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.entries.push((name, Entry::File(data.as_ref())));
        self
    }

    /// Writes everything of this package again that no entry replaces: its modules as they are now,
    /// and all other records byte for byte. The export leaves out modules of the base that no
    /// record of the new package needs, and their storages.
    pub fn base(self, base: &'a Package) -> Self {
        PackageExport { base: Some(base), ..self }
    }

    /// Names a Python module that the package does not contain and its pickles need, such as
    /// `numpy`. Those of the base are written anyway.
    pub fn extern_module(mut self, name: &'a str) -> Self {
        self.externs.push(name);
        self
    }

    /// Sets the folder inside the archive, in place of the file's name without its extension.
    pub fn archive_name(self, name: &'a str) -> Self {
        PackageExport { archive_name: Some(name), ..self }
    }

    /// Sets how certain it is that the file is on the disk when the export returns.
    pub fn durability(self, durability: Durability) -> Self {
        PackageExport { durability, ..self }
    }

    /// Writes code as it is, without the check of [`Module::check`].
    pub fn unchecked(self) -> Self {
        PackageExport { flags: self.flags | sys::TENON_EXPORT_UNCHECKED, ..self }
    }

    /// Writes tensors on a CUDA device as tensors of that device, and not of the CPU.
    pub fn keep_device(self) -> Self {
        PackageExport { flags: self.flags | sys::TENON_EXPORT_KEEP_DEVICE, ..self }
    }

    /// Writes the package. The file is written whole or not at all: an old file of that name stays
    /// until the new one is complete. The path may be that of the base.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<ExportReport> {
        let path = c_path(path.as_ref())?;
        let entry_names = self
            .entries
            .iter()
            .map(|(name, _)| c_text(name, "the name of an entry"))
            .collect::<Result<Vec<_>>>()?;
        let entries: Vec<_> = entry_names
            .iter()
            .zip(&self.entries)
            .map(|(name, (_, entry))| raw_entry(name, entry))
            .collect();
        let externs = self
            .externs
            .iter()
            .map(|name| c_text(name, "the extern module"))
            .collect::<Result<Vec<_>>>()?;
        let extern_names: Vec<_> = externs.iter().map(|name| name.as_ptr()).collect();
        let archive_name =
            self.archive_name.map(|name| c_text(name, "the archive's name")).transpose()?;
        let raw = blank!(tenon_package_options {
            flags: self.flags,
            durability: self.durability.raw(),
            base: self.base.map_or(ptr::null_mut(), Package::as_raw),
            externs: extern_names.as_ptr(),
            n_externs: extern_names.len(),
            archive_name: archive_name.as_ref().map_or(ptr::null(), |name| name.as_ptr()),
        });
        let mut report = blank!(tenon_export_report);
        // SAFETY: all arguments are borrowed for the call.
        check(|err| unsafe {
            sys::tenon_export_package(
                entries.as_ptr(),
                entries.len(),
                path.as_ptr(),
                &raw,
                &mut report,
                err,
            )
        })?;
        Ok(ExportReport::from_raw(&report))
    }
}

fn raw_entry(name: &CString, entry: &Entry<'_>) -> sys::tenon_package_entry {
    let (module, data): (*const sys::tenon_module, &[u8]) = match entry {
        Entry::Module(module) => (module.as_raw(), &[]),
        Entry::File(data) => (ptr::null(), data),
    };
    let start = if data.is_empty() { ptr::null() } else { data.as_ptr().cast() };
    sys::tenon_package_entry {
        name: name.as_ptr(),
        module,
        data: start,
        nbytes: data.len(),
        reserved: 0,
    }
}

impl fmt::Debug for PackageExport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries: Vec<&str> = self.entries.iter().map(|(name, _)| *name).collect();
        f.debug_struct("PackageExport")
            .field("entries", &entries)
            .field("base", &self.base)
            .field("externs", &self.externs)
            .field("archive_name", &self.archive_name)
            .field("durability", &self.durability)
            .field("flags", &self.flags)
            .finish()
    }
}
