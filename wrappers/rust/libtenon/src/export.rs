//! Exports: writing modules as archives, to a file or to any writer.

use std::any::Any;
use std::error::Error as StdError;
use std::ffi::{c_void, CString};
use std::fmt;
use std::io::{self, Write};
use std::mem::size_of;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::Path;
use std::ptr;

use crate::cell::ReadCell;
use crate::error::{check, make, Error, Result};
use crate::member::names;
use crate::module::Module;
use crate::sys;
use crate::text::{c_path, c_text, owned};

/// Says how certain it is that the file is on the disk when an export to a path returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// The system writes the file when it likes.
    #[default]
    None,
    /// The export calls fsync on the file.
    File,
    /// The export calls fsync on the file and on the directory that names it.
    FileAndDirectory,
}

impl Durability {
    pub(crate) fn raw(self) -> i32 {
        let raw = match self {
            Durability::None => sys::TENON_DURABILITY_NONE,
            Durability::File => sys::TENON_DURABILITY_FILE,
            Durability::FileAndDirectory => sys::TENON_DURABILITY_FILE_AND_DIRECTORY,
        };
        raw as i32
    }
}

/// What an export does about bytecode, which the lite interpreter of PyTorch runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Bytecode {
    /// The bytecode of the archive that the module came from is written while it fits the module.
    #[default]
    Keep,
    /// No bytecode is written.
    Drop,
    /// Bytecode is made from the code, whether the archive had any or not.
    Compile,
}

/// The result of a hook for extra files: their names and bytes, or an error.
type HookResult = std::result::Result<Vec<(String, Vec<u8>)>, Box<dyn StdError + Send + Sync>>;

type Hook<'a> = dyn Fn(&Module) -> HookResult + 'a;

/// Says how to write a module.
#[derive(Clone, Default)]
#[must_use]
pub struct ExportOptions<'a> {
    extra_files: Vec<(&'a str, &'a [u8])>,
    hook: Option<&'a Hook<'a>>,
    archive_name: Option<&'a str>,
    file_version: i32,
    durability: Durability,
    flags: u32,
    /// The stream is a number here, so that ExportOptions is Send.
    stream: usize,
    bytecode: Bytecode,
    methods: &'a [&'a str],
    bytecode_version: i32,
    emit_flags: u32,
}

impl<'a> ExportOptions<'a> {
    /// All options have their defaults.
    pub fn new() -> Self {
        ExportOptions::default()
    }

    /// Adds one extra file, in this archive only. It replaces the module's own extra file of that
    /// name.
    pub fn extra_file(mut self, name: &'a str, data: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.extra_files.push((name, data.as_ref()));
        self
    }

    /// Sets a hook that gives more extra files. The export calls it once, before anything is
    /// written. Files whose names are in use already are left out. The hook can read the module but
    /// not change it. If the hook fails, the export ends, and its error has the hook's error as
    /// [`source`](StdError::source). If the hook panics, the panic continues after the export.
    pub fn extra_files_hook(self, hook: &'a dyn Fn(&Module) -> HookResult) -> Self {
        ExportOptions { hook: Some(hook), ..self }
    }

    /// Sets the folder inside the archive, in place of the file's name without its extension, or of
    /// `"archive"`.
    pub fn archive_name(self, name: &'a str) -> Self {
        ExportOptions { archive_name: Some(name), ..self }
    }

    /// Sets the version of the archive, from 1 to 10, which says what its operators mean. It is
    /// refused if some code means something else in that version.
    pub fn file_version(self, version: i32) -> Self {
        ExportOptions { file_version: version, ..self }
    }

    /// Sets the durability. It is for exports to a path only.
    pub fn durability(self, durability: Durability) -> Self {
        ExportOptions { durability, ..self }
    }

    /// Writes the code as it is, without the check of [`Module::check`].
    pub fn unchecked(self) -> Self {
        ExportOptions { flags: self.flags | sys::TENON_EXPORT_UNCHECKED, ..self }
    }

    /// Writes tensors on a CUDA device as tensors of that device, and not of the CPU. A machine
    /// without that device cannot load them.
    pub fn keep_device(self) -> Self {
        ExportOptions { flags: self.flags | sys::TENON_EXPORT_KEEP_DEVICE, ..self }
    }

    /// Names the stream in which tensors on a CUDA device were written, in place of the default
    /// stream. All work that was given to it before the export is complete before the tensors are
    /// read.
    ///
    /// # Safety
    /// `stream` is a CUDA stream (`CUstream` or `cudaStream_t`) of this process, NULL for the
    /// default stream, or 0x2 for that of the calling thread. It exists until the export has
    /// returned.
    pub unsafe fn stream(self, stream: *mut c_void) -> Self {
        ExportOptions { stream: stream as usize, ..self }
    }

    /// Says what the export does about bytecode, in place of [`Bytecode::Keep`].
    pub fn bytecode(self, bytecode: Bytecode) -> Self {
        ExportOptions { bytecode, ..self }
    }

    /// Names the methods of the module that get bytecode, for [`Bytecode::Compile`]. The bytecode
    /// also has the methods that these call. An empty list means all methods.
    pub fn methods(self, methods: &'a [&'a str]) -> Self {
        ExportOptions { methods, ..self }
    }

    /// Sets the version of the bytecode, from 4 to 8, for [`Bytecode::Compile`]. Below 8 it is for
    /// runtimes of an old PyTorch. 0 means 8.
    pub fn bytecode_version(self, version: i32) -> Self {
        ExportOptions { bytecode_version: version, ..self }
    }

    /// Gives each call of an operator all its arguments, also those that have their default, for
    /// [`Bytecode::Compile`].
    pub fn emit_default_inputs(self) -> Self {
        self.emit(sys::TENON_EMIT_DEFAULT_INPUTS)
    }

    /// Gives a call of an operator with an `out` argument all arguments before it, for
    /// [`Bytecode::Compile`].
    pub fn emit_defaults_before_out(self) -> Self {
        self.emit(sys::TENON_EMIT_DEFAULTS_BEFORE_OUT)
    }

    /// Calls operators even where the bytecode has instructions for them, for
    /// [`Bytecode::Compile`].
    pub fn emit_plain_operators(self) -> Self {
        self.emit(sys::TENON_EMIT_PLAIN_OPERATORS)
    }

    /// Gives the methods that are called through an interface no functions, for
    /// [`Bytecode::Compile`]. Such a call fails when it is run.
    pub fn emit_no_interface_methods(self) -> Self {
        self.emit(sys::TENON_EMIT_NO_INTERFACE_METHODS)
    }

    /// Runs a forked function where `fork` stands, for [`Bytecode::Compile`]. Without this, code
    /// that forks is refused.
    pub fn emit_forks_at_once(self) -> Self {
        self.emit(sys::TENON_EMIT_FORKS_AT_ONCE)
    }

    fn emit(self, flag: u32) -> Self {
        ExportOptions { emit_flags: self.emit_flags | flag, ..self }
    }

    /// Writes debug tables, from which PyTorch's errors name modules and source lines. With
    /// [`Bytecode::Compile`] the tables are made for the new bytecode. Otherwise the tables of the
    /// archive that the module came from are written, unless the code was changed. If the import
    /// read the archive's tables
    /// ([`ImportOptions::debug_tables`](crate::ImportOptions::debug_tables)) and the code was not
    /// changed, the lines are those of the files from which the module was made. Such tables
    /// contain absolute paths of the person who saved the module. Otherwise new tables name lines
    /// of the archive's own code.
    pub fn debug_tables(self) -> Self {
        ExportOptions { flags: self.flags | sys::TENON_EXPORT_DEBUG_TABLES, ..self }
    }

    /// Writes PyTorch's flatbuffer form in place of a zip archive. It always has bytecode, and the
    /// whole buffer is in memory until it is written. `TENON_EXPORT_FLATBUFFER` in
    /// `tenon/archive.h` says what a flatbuffer cannot hold.
    pub fn flatbuffer(self) -> Self {
        ExportOptions { flags: self.flags | sys::TENON_EXPORT_FLATBUFFER, ..self }
    }
}

impl fmt::Debug for ExportOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.extra_files.iter().map(|(name, _)| *name).collect();
        f.debug_struct("ExportOptions")
            .field("extra_files", &names)
            .field("extra_files_hook", &self.hook.is_some())
            .field("archive_name", &self.archive_name)
            .field("file_version", &self.file_version)
            .field("durability", &self.durability)
            .field("flags", &self.flags)
            .field("stream", &self.stream)
            .field("bytecode", &self.bytecode)
            .field("methods", &self.methods)
            .field("bytecode_version", &self.bytecode_version)
            .field("emit_flags", &self.emit_flags)
            .finish()
    }
}

/// Says what an export wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportReport {
    /// The size of the archive in bytes.
    pub nbytes: u64,
    /// The number of records in the archive.
    pub records: u64,
    /// The version of the archive, which says what its operators mean.
    pub version: i32,
    /// How many files of the hook were left out because their names were in use.
    pub skipped_files: u32,
    /// The oldest PyTorch that can run the archive, as far as operators and element types tell,
    /// such as `"1.13"`. `""` if that is not known.
    pub oldest_pytorch: String,
    /// The number of functions in the archive's bytecode; 0 if it has none.
    pub bytecode_functions: u32,
    /// The number of debug tables that were written.
    pub debug_tables: u32,
}

impl ExportReport {
    /// Converts a report that an export has filled in.
    pub(crate) fn from_raw(raw: &sys::tenon_export_report) -> ExportReport {
        ExportReport {
            nbytes: raw.nbytes,
            records: raw.records,
            version: raw.version,
            skipped_files: raw.skipped_files,
            // SAFETY: the library wrote a NUL-terminated text into it.
            oldest_pytorch: unsafe { owned(raw.oldest_pytorch.as_ptr()) },
            bytecode_functions: raw.bytecode_functions,
            debug_tables: raw.debug_tables,
        }
    }
}

/// Writes a module to a file that `torch.jit.load` runs. When this function returns, either the
/// whole new file has the name, or the name still stands for what it stood for before.
pub fn export_module(
    module: &Module,
    path: impl AsRef<Path>,
    options: &ExportOptions<'_>,
) -> Result<ExportReport> {
    let path = c_path(path.as_ref())?;
    // SAFETY: all arguments are borrowed for the call.
    run(options, None, |_, options, report, err| unsafe {
        sys::tenon_export_module(module.as_raw(), path.as_ptr(), options, report, err)
    })
}

/// Writes a module as [`export_module`] does, but to a writer: a file, a pipe, a socket or a
/// `Vec<u8>`. After a failure the writer may have got some of the bytes. If the writer fails, the
/// export ends, and its error has the writer's error as [`source`](StdError::source). If the writer
/// panics, the panic continues after the export. If others write to shared tensors meanwhile, each
/// element has either its old or its new value.
///
/// ```
/// let mut bytes = Vec::new();
/// let module = tenon::Module::new("Empty")?;
/// tenon::export_module_to(&module, &mut bytes, &tenon::ExportOptions::new())?;
/// let imported = tenon::import_bytes(bytes, &tenon::ImportOptions::new())?;
/// assert!(imported.class_name()?.ends_with("Empty"));
/// # Ok::<(), tenon::Error>(())
/// ```
pub fn export_module_to(
    module: &Module,
    mut writer: impl Write,
    options: &ExportOptions<'_>,
) -> Result<ExportReport> {
    // SAFETY: all arguments are borrowed for the call. The context is a Calls, which `write`
    // expects.
    run(options, Some(&mut writer), |calls, options, report, err| unsafe {
        sys::tenon_export_module_to(
            module.as_raw(),
            Some(write),
            calls.cast(),
            options,
            report,
            err,
        )
    })
}

impl Module {
    /// Lists the operators that the bytecode of these methods calls, such as `"aten::add.Tensor"`.
    /// Each operator is listed once, in alphabetical order. A mobile build of PyTorch needs these
    /// operators. An empty list of methods means all methods. Nothing is written.
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) means that the lite interpreter
    /// cannot run some of the code.
    pub fn opnames(&self, methods: &[&str]) -> Result<Vec<String>> {
        let methods = joined(methods)?;
        let raw_methods = methods.as_ref().map_or(ptr::null(), |methods| methods.as_ptr());
        // SAFETY: self keeps the module, and the methods are borrowed for the call. The list
        // belongs to this function.
        names(make(|out, err| unsafe {
            sys::tenon_export_opnames(self.as_raw(), raw_methods, out, err)
        })?)
    }
}

/// Joins methods with commas, as the C library expects them. An empty list gives `None`, which
/// stands for NULL.
fn joined(methods: &[&str]) -> Result<Option<CString>> {
    (!methods.is_empty()).then(|| c_text(&methods.join(","), "the methods")).transpose()
}

/// The state that the callbacks of one export share. They all run on the thread of the export.
struct Calls<'w, 'h> {
    writer: Option<&'w mut (dyn Write + 'w)>,
    hook: Option<&'h Hook<'h>>,
    /// Shared memory is never given out as a slice, so the bytes go to the writer through this
    /// buffer.
    buffer: Vec<u8>,
    /// The files of the hook, which must stay until the export returns.
    files: Vec<(CString, Vec<u8>)>,
    raw_files: Vec<sys::tenon_file>,
    error: Option<Box<dyn StdError + Send + Sync>>,
    panic: Option<Box<dyn Any + Send>>,
}

impl<'w> Calls<'w, '_> {
    /// Runs the user's code. An error or a panic of that code is kept in self.
    fn guarded<R>(
        &mut self,
        body: impl FnOnce(
            &mut Option<&'w mut (dyn Write + 'w)>,
            &[u8],
        ) -> std::result::Result<R, Box<dyn StdError + Send + Sync>>,
    ) -> Option<R> {
        let (writer, buffer) = (&mut self.writer, &self.buffer);
        match catch_unwind(AssertUnwindSafe(|| body(writer, buffer))) {
            Ok(Ok(result)) => return Some(result),
            Ok(Err(error)) => self.error = Some(error),
            Err(payload) => self.panic = Some(payload),
        }
        None
    }
}

fn run<'w>(
    options: &ExportOptions<'_>,
    writer: Option<&'w mut (dyn Write + 'w)>,
    call: impl FnOnce(
        *mut Calls<'_, '_>,
        *const sys::tenon_export_options,
        *mut sys::tenon_export_report,
        *mut *mut sys::tenon_error,
    ) -> sys::tenon_status,
) -> Result<ExportReport> {
    let archive_name =
        options.archive_name.map(|name| c_text(name, "the archive's name")).transpose()?;
    let methods = joined(options.methods)?;
    let names = options
        .extra_files
        .iter()
        .map(|(name, _)| c_text(name, "the extra file"))
        .collect::<Result<Vec<_>>>()?;
    let files: Vec<sys::tenon_file> = names
        .iter()
        .zip(&options.extra_files)
        .map(|(name, (_, data))| sys::tenon_file {
            name: name.as_ptr(),
            data: data.as_ptr().cast(),
            nbytes: data.len(),
        })
        .collect();
    let mut calls = Calls {
        writer,
        hook: options.hook,
        buffer: Vec::new(),
        files: Vec::new(),
        raw_files: Vec::new(),
        error: None,
        panic: None,
    };
    let context: *mut Calls<'_, '_> = &mut calls;
    let raw = sys::tenon_export_options {
        struct_size: size_of::<sys::tenon_export_options>(),
        extra_files: files.as_ptr(),
        n_extra_files: files.len(),
        hook: options.hook.is_some().then_some(hook as _),
        hook_context: context.cast(),
        archive_name: archive_name.as_ref().map_or(ptr::null(), |name| name.as_ptr()),
        file_version: options.file_version,
        durability: options.durability.raw(),
        flags: options.flags,
        stream: options.stream as *mut c_void,
        bytecode: match options.bytecode {
            Bytecode::Keep => sys::TENON_BYTECODE_KEEP,
            Bytecode::Drop => sys::TENON_BYTECODE_DROP,
            Bytecode::Compile => sys::TENON_BYTECODE_COMPILE,
        } as i32,
        methods: methods.as_ref().map_or(ptr::null(), |methods| methods.as_ptr()),
        bytecode_version: options.bytecode_version,
        emit_flags: options.emit_flags,
    };
    let mut report = blank!(tenon_export_report);
    let result = check(|err| call(context, &raw, &mut report, err));
    let Calls { error, panic, .. } = calls;
    if let Some(payload) = panic {
        resume_unwind(payload);
    }
    match (result, error) {
        (Ok(()), _) => Ok(ExportReport::from_raw(&report)),
        (Err(error), Some(source)) => Err(error.caused_by(source)),
        (Err(error), None) => Err(error),
    }
}

/// EIO, for errors that have no errno of their own.
const NO_ERRNO: i32 = 5;

const MOST_AT_ONCE: usize = 1 << 20;

unsafe extern "C" fn write(context: *mut c_void, data: *const c_void, nbytes: usize) -> i64 {
    // SAFETY: `run` gave this context, and nobody else uses it during the call.
    let calls = unsafe { &mut *context.cast::<Calls<'_, '_>>() };
    let mut done = 0;
    while done < nbytes {
        let n = (nbytes - done).min(MOST_AT_ONCE);
        // SAFETY: these bytes are valid during the call.
        unsafe { copy(data.cast::<u8>().add(done), n, &mut calls.buffer) };
        let written = calls.guarded(|writer, buffer| match writer {
            Some(writer) => Ok(writer.write_all(buffer)?),
            None => Err("there is nothing to write to".into()),
        });
        if written.is_none() {
            let error = calls.error.as_ref().and_then(|error| error.downcast_ref::<io::Error>());
            return -i64::from(
                error
                    .and_then(io::Error::raw_os_error)
                    .filter(|errno| *errno > 0)
                    .unwrap_or(NO_ERRNO),
            );
        }
        done += n;
    }
    i64::try_from(nbytes).unwrap_or(i64::MAX)
}

/// Copies bytes that others may write at the same time.
///
/// # Safety
/// The `nbytes` bytes at `from` are readable.
unsafe fn copy(from: *const u8, nbytes: usize, to: &mut Vec<u8>) {
    const WORD: usize = size_of::<u64>();
    to.clear();
    to.reserve(nbytes);
    let head = from.align_offset(WORD).min(nbytes);
    let tail = nbytes - (nbytes - head) % WORD;
    // SAFETY: each access is to one of these bytes, or to eight of them that are aligned. A cell
    // allows concurrent writers.
    unsafe {
        to.extend((0..head).map(|at| (*from.add(at).cast::<ReadCell<u8>>()).get()));
        for at in (head..tail).step_by(WORD) {
            to.extend_from_slice(&(*from.add(at).cast::<ReadCell<u64>>()).get().to_ne_bytes());
        }
        to.extend((tail..nbytes).map(|at| (*from.add(at).cast::<ReadCell<u8>>()).get()));
    }
}

unsafe extern "C" fn hook(
    context: *mut c_void,
    module: *const sys::tenon_module,
    files: *mut *const sys::tenon_file,
    n: *mut usize,
) -> sys::tenon_status {
    // SAFETY: as in write.
    let calls = unsafe { &mut *context.cast::<Calls<'_, '_>>() };
    // SAFETY: this is the exported module, and a `&Module` can only be used to read it.
    let (Some(hook), Some(module)) = (calls.hook, unsafe { Module::retained(module.cast_mut()) })
    else {
        return sys::TENON_INTERNAL as sys::tenon_status;
    };
    let found = calls.guarded(move |_, _| {
        let found = hook(&module)?.into_iter();
        Ok(found
            .map(|(name, data)| Ok((c_text(&name, "the extra file")?, data)))
            .collect::<Result<Vec<_>>>()?)
    });
    let Some(found) = found else {
        let error = calls.error.as_ref().and_then(|error| error.downcast_ref::<Error>());
        return error.map_or(sys::TENON_IO as sys::tenon_status, Error::code);
    };
    calls.files = found;
    calls.raw_files = calls
        .files
        .iter()
        .map(|(name, data)| sys::tenon_file {
            name: name.as_ptr(),
            data: data.as_ptr().cast(),
            nbytes: data.len(),
        })
        .collect();
    // SAFETY: both pointers are the library's, and what they receive stays until the export
    // returns.
    unsafe {
        *files = calls.raw_files.as_ptr();
        *n = calls.raw_files.len();
    }
    sys::TENON_OK as sys::tenon_status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pure_copies_of_all_alignments() {
        let from: Vec<u8> = (0..100).collect();
        let mut to = Vec::new();
        for start in 0..17 {
            for end in start..from.len() {
                // SAFETY: the range lies inside `from`.
                unsafe { copy(from[start..end].as_ptr(), end - start, &mut to) };
                assert_eq!(to, from[start..end]);
            }
        }
    }
}
