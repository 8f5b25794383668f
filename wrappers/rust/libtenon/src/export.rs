//! Modules to archives: a file, or whatever can be written to.

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
use crate::tree::{self, ExportGuard};

/// How sure an export to a path is that the file is on the disk when it returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// The system writes it when it likes.
    #[default]
    None,
    /// fsync of the file.
    File,
    /// And of the directory that names it.
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

/// What a hook for extra files gives: names and bytes, or why there are none.
type HookResult = std::result::Result<Vec<(String, Vec<u8>)>, Box<dyn StdError + Send + Sync>>;

type Hook<'a> = dyn Fn(&Module) -> HookResult + 'a;

/// How a module is written.
#[derive(Clone, Default)]
#[must_use]
pub struct ExportOptions<'a> {
    extra_files: Vec<(&'a str, &'a [u8])>,
    hook: Option<&'a Hook<'a>>,
    archive_name: Option<&'a str>,
    file_version: i32,
    durability: Durability,
    flags: u32,
    /// As a number, so that these are Send.
    stream: usize,
    bytecode: Bytecode,
    methods: &'a [&'a str],
    bytecode_version: i32,
    emit_flags: u32,
}

impl<'a> ExportOptions<'a> {
    /// Everything by default.
    pub fn new() -> Self {
        ExportOptions::default()
    }

    /// One more file beside the module, in this archive only. It wins over the module's own of that
    /// name.
    pub fn extra_file(mut self, name: &'a str, data: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.extra_files.push((name, data.as_ref()));
        self
    }

    /// Asked once, before anything is written, for more extra files. Those whose names there are
    /// already are left out. It can look at the module and not change it. Its error ends the
    /// export, as its [`source`](StdError::source); its panic goes on after it.
    pub fn extra_files_hook(self, hook: &'a dyn Fn(&Module) -> HookResult) -> Self {
        ExportOptions { hook: Some(hook), ..self }
    }

    /// The folder inside the archive, in place of the file's name without its extension, or
    /// `"archive"`.
    pub fn archive_name(self, name: &'a str) -> Self {
        ExportOptions { archive_name: Some(name), ..self }
    }

    /// The version of the operators, from 1 to 10; refused if some code means something else there.
    pub fn file_version(self, version: i32) -> Self {
        ExportOptions { file_version: version, ..self }
    }

    /// Only for an export to a path.
    pub fn durability(self, durability: Durability) -> Self {
        ExportOptions { durability, ..self }
    }

    /// Code is written as it is, without the check of [`Module::check`].
    pub fn unchecked(self) -> Self {
        ExportOptions { flags: self.flags | sys::TENON_EXPORT_UNCHECKED, ..self }
    }

    /// Tensors on a CUDA device are written as that device's, and not as the CPU's: a load without
    /// it fails.
    pub fn keep_device(self) -> Self {
        ExportOptions { flags: self.flags | sys::TENON_EXPORT_KEEP_DEVICE, ..self }
    }

    /// In which tensors on a CUDA device were written, in place of the default stream: what was
    /// given to it before the export is done before they are read.
    ///
    /// # Safety
    /// `stream` is a CUDA stream (`CUstream` or `cudaStream_t`) of this process, NULL for the
    /// default one, or 0x2 for that of the calling thread. It is there until the export has
    /// returned.
    pub unsafe fn stream(self, stream: *mut c_void) -> Self {
        ExportOptions { stream: stream as usize, ..self }
    }

    /// Says what the export does about bytecode, in place of [`Bytecode::Keep`].
    pub fn bytecode(self, bytecode: Bytecode) -> Self {
        ExportOptions { bytecode, ..self }
    }

    /// Names the methods of the module that get bytecode, for [`Bytecode::Compile`]. Methods that
    /// these call are in their bytecode. An empty list means all methods.
    pub fn methods(self, methods: &'a [&'a str]) -> Self {
        ExportOptions { methods, ..self }
    }

    /// Sets the version of the bytecode, from 4 to 8, for [`Bytecode::Compile`]. Below 8 it is for
    /// runtimes of an old PyTorch. 0 means 8.
    pub fn bytecode_version(self, version: i32) -> Self {
        ExportOptions { bytecode_version: version, ..self }
    }

    /// Gives each call of an operator all its arguments, those that have their default too, for
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
    /// [`Bytecode::Compile`] they are made for the new bytecode. Else those of the archive that the
    /// module came from are written, unless the code was changed. Lines are those of the files from
    /// which the module was made if the import read the archive's tables
    /// ([`ImportOptions::debug_tables`](crate::ImportOptions::debug_tables)) and the code was not
    /// changed. Such tables contain absolute paths of the person who saved the module. Otherwise
    /// new tables name lines of the archive's own code.
    pub fn debug_tables(self) -> Self {
        ExportOptions { flags: self.flags | sys::TENON_EXPORT_DEBUG_TABLES, ..self }
    }

    /// Writes PyTorch's flatbuffer form in place of a zip archive. It always has bytecode, and is
    /// in memory until it is written. `TENON_EXPORT_FLATBUFFER` in `tenon/archive.h` says what it
    /// cannot hold.
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

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportReport {
    /// Of the archive.
    pub nbytes: u64,
    /// In it.
    pub records: u64,
    /// Of the operators.
    pub version: i32,
    /// Of the hook, because others had their names.
    pub skipped_files: u32,
    /// That runs it, as far as operators and element types tell: `"1.13"`; `""`: nobody knows.
    pub oldest_pytorch: String,
    /// The number of functions in the archive's bytecode; 0 if it has none.
    pub bytecode_functions: u32,
    /// The number of debug tables that were written.
    pub debug_tables: u32,
}

impl ExportReport {
    /// For an export to fill in.
    pub(crate) fn blank() -> sys::tenon_export_report {
        sys::tenon_export_report {
            struct_size: size_of::<sys::tenon_export_report>(),
            nbytes: 0,
            records: 0,
            version: 0,
            skipped_files: 0,
            oldest_pytorch: [0; 16],
            bytecode_functions: 0,
            debug_tables: 0,
        }
    }

    /// Of what an export filled in.
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

/// Write a module as a file that `torch.jit.load` runs. Either all of it is there, under its name,
/// or what was there before still is.
pub fn export_module(
    module: &Module,
    path: impl AsRef<Path>,
    options: &ExportOptions<'_>,
) -> Result<ExportReport> {
    let path = c_path(path.as_ref())?;
    // SAFETY: all is borrowed for the call.
    run(options, None, |_, options, report, err| unsafe {
        sys::tenon_export_module(module.as_raw(), path.as_ptr(), options, report, err)
    })
}

/// The same to a file, a pipe, a socket, a `Vec<u8>`. After a failure it may have got some of the
/// bytes. An error of the writer's ends the export, as its [`source`](StdError::source); its panic
/// goes on after it. What others write to shared tensors meanwhile is there or not, element by
/// element.
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
    // SAFETY: all is borrowed for the call; the context is a Calls, as `write` takes it.
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
    /// Lists the operators that bytecode of these methods calls, such as `"aten::add.Tensor"`: each
    /// once, in the order of the names. A mobile build of PyTorch needs these. An empty list means
    /// all methods. Nothing is written. [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported)
    /// means that the lite interpreter cannot run some code.
    pub fn opnames(&self, methods: &[&str]) -> Result<Vec<String>> {
        let methods = joined(methods)?;
        let raw_methods = methods.as_ref().map_or(ptr::null(), |methods| methods.as_ptr());
        tree::look(|| {
            // SAFETY: self keeps the module, the lock keeps changes away, and the methods are
            // borrowed for the call. The list is this function's.
            Ok(names(make(|out, err| unsafe {
                sys::tenon_export_opnames(self.as_raw(), raw_methods, out, err)
            })?))
        })
    }
}

/// Joins methods with commas, as the C library takes them. An empty list gives `None`, which
/// stands for NULL.
fn joined(methods: &[&str]) -> Result<Option<CString>> {
    (!methods.is_empty()).then(|| c_text(&methods.join(","), "the methods")).transpose()
}

/// What the callbacks of one export share, on the thread that it runs on.
struct Calls<'w, 'h> {
    writer: Option<&'w mut (dyn Write + 'w)>,
    hook: Option<&'h Hook<'h>>,
    guard: ExportGuard,
    /// Shared memory is never lent as a slice: what is written goes through here.
    buffer: Vec<u8>,
    /// What the hook gave, kept until the export returns.
    files: Vec<(CString, Vec<u8>)>,
    raw_files: Vec<sys::tenon_file>,
    error: Option<Box<dyn StdError + Send + Sync>>,
    panic: Option<Box<dyn Any + Send>>,
}

impl<'w> Calls<'w, '_> {
    /// Run a user's code, without the lock. What it fails with is kept.
    fn guarded<R>(
        &mut self,
        body: impl FnOnce(
            &mut Option<&'w mut (dyn Write + 'w)>,
            &[u8],
        ) -> std::result::Result<R, Box<dyn StdError + Send + Sync>>,
    ) -> Option<R> {
        let (writer, buffer) = (&mut self.writer, &self.buffer);
        match self.guard.without(|| catch_unwind(AssertUnwindSafe(|| body(writer, buffer)))) {
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
        guard: ExportGuard::new()?,
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
    let mut report = ExportReport::blank();
    let result = check(|err| call(context, &raw, &mut report, err));
    let Calls { guard, error, panic, .. } = calls;
    drop(guard);
    if let Some(payload) = panic {
        resume_unwind(payload);
    }
    match (result, error) {
        (Ok(()), _) => Ok(ExportReport::from_raw(&report)),
        (Err(error), Some(source)) => Err(error.caused_by(source)),
        (Err(error), None) => Err(error),
    }
}

/// EIO: what has no errno of its own.
const NO_ERRNO: i32 = 5;

const MOST_AT_ONCE: usize = 1 << 20;

unsafe extern "C" fn write(context: *mut c_void, data: *const c_void, nbytes: usize) -> i64 {
    // SAFETY: the context that run gave, which nobody else uses during the call.
    let calls = unsafe { &mut *context.cast::<Calls<'_, '_>>() };
    let mut done = 0;
    while done < nbytes {
        let n = (nbytes - done).min(MOST_AT_ONCE);
        // SAFETY: these bytes lie there during the call.
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

/// Copy what others may write at the same time.
///
/// # Safety
/// The bytes are readable.
unsafe fn copy(from: *const u8, nbytes: usize, to: &mut Vec<u8>) {
    const WORD: usize = size_of::<u64>();
    to.clear();
    to.reserve(nbytes);
    let head = from.align_offset(WORD).min(nbytes);
    let tail = nbytes - (nbytes - head) % WORD;
    // SAFETY: each is one of these bytes, or eight of them that are aligned; a cell takes writers.
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
    // SAFETY: the module that is exported; looking is all that a & of it can do.
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
    // SAFETY: both are the library's, and what they get stays until the export returns.
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
                // SAFETY: inside of from.
                unsafe { copy(from[start..end].as_ptr(), end - start, &mut to) };
                assert_eq!(to, from[start..end]);
            }
        }
    }
}
