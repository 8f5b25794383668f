//! Lending storages by name. A name is one of two things in a directory that both processes see. It
//! can be a file in PyTorch's layout, which holds one storage and lives as long as some process
//! holds it. Or it is a socket on which the lender hands out the sealed memory of a segment. The
//! names of a killed process are removed by the next process that sweeps, and by [`sweep`].

use std::ffi::{c_char, CString, OsStr};
use std::mem::size_of;
use std::path::{Path, PathBuf};
use std::ptr;
use std::time::Duration;

use crate::by_fd::{Access, OpenOptions};
use crate::error::{check, make, Error, ErrorKind, Result};
use crate::storage::{Storage, StorageMut};
use crate::sys;
use crate::text::{c_string, put, taken};
use crate::wait::Wait;

/// Says how to make a name. Without options the name is in `/dev/shm` and is `tenon-` and 128
/// unguessable bits, for this user alone.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct FilenameOptions {
    access: Access,
    flags: u32,
    mode: u32,
    group: u32,
    directory: Option<PathBuf>,
    prefix: Option<String>,
    name: Option<String>,
    manager: Option<PathBuf>,
}

impl FilenameOptions {
    /// All options have their defaults.
    pub fn new() -> FilenameOptions {
        FilenameOptions::default()
    }

    /// Sets the access that borrowers get. A file cannot be lent read-only, because a process of
    /// the same user could write to it nevertheless.
    pub fn access(self, access: Access) -> Self {
        FilenameOptions { access, ..self }
    }

    /// Sets the whole name, without a slash, in place of prefix and random bits.
    pub fn name(self, name: impl Into<String>) -> Self {
        FilenameOptions { name: Some(name.into()), ..self }
    }

    /// Sets the beginning of the name, which 128 unguessable bits follow.
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        FilenameOptions { prefix: Some(prefix.into()), ..self }
    }

    /// Sets the directory, by an absolute path. PyTorch looks in `/dev/shm` only.
    pub fn directory(self, directory: impl Into<PathBuf>) -> Self {
        FilenameOptions { directory: Some(directory.into()), ..self }
    }

    /// Sets the permission bits in place of 0600. With 0644 other users can read a file, and open
    /// the memory behind a socket.
    pub fn mode(self, mode: u32) -> Self {
        FilenameOptions { mode, ..self }
    }

    /// Lets the members of a group open the name too.
    pub fn group(self, gid: u32) -> Self {
        FilenameOptions { group: gid, flags: self.flags | sys::TENON_FILENAME_GROUP, ..self }
    }

    /// Makes a name that PyTorch can open: a manager is asked to guard it. `None` means this user's
    /// manager, which is started if none runs.
    pub fn for_torch(self, manager: Option<PathBuf>) -> Self {
        FilenameOptions { manager, flags: self.flags | sys::TENON_FILENAME_TORCH, ..self }
    }

    /// Also does what [`FilenameHandle::incref`] does.
    pub fn in_flight(self) -> Self {
        FilenameOptions { flags: self.flags | sys::TENON_FILENAME_IN_FLIGHT, ..self }
    }

    fn with_raw<R>(
        &self,
        call: impl FnOnce(&sys::tenon_filename_options) -> Result<R>,
    ) -> Result<R> {
        let directory = optional(self.directory.as_deref().map(Path::as_os_str), "the directory")?;
        let prefix = optional(self.prefix.as_deref().map(OsStr::new), "the prefix")?;
        let name = optional(self.name.as_deref().map(OsStr::new), "the name")?;
        let manager = optional(self.manager.as_deref().map(Path::as_os_str), "the manager's path")?;
        call(&sys::tenon_filename_options {
            struct_size: size_of::<sys::tenon_filename_options>(),
            access: self.access.raw(),
            flags: self.flags,
            mode: self.mode,
            group: self.group,
            directory: pointer(&directory),
            prefix: pointer(&prefix),
            name: pointer(&name),
            manager: pointer(&manager),
        })
    }
}

/// Says how to reach a storage by name. It is a plain value: it holds no memory, and can be sent by
/// any means. For a file that PyTorch shares it has PyTorch's tuple (manager, name, nbytes), with
/// offset 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FilenameHandle {
    /// `/leaf` in `/dev/shm`, otherwise an absolute path. Empty for an empty storage that has no
    /// name.
    pub name: String,
    /// The socket of the manager that guards the name, if there is one.
    pub manager: Option<String>,
    /// Bytes from the start of a file's payload, or from the start of the segment behind a socket.
    pub offset: u64,
    /// The size of the storage in bytes.
    pub nbytes: u64,
    /// The access that the handle allows. [`Access::Auto`] in a handle that is opened stands for
    /// the access that the name gives.
    pub access: Access,
}

impl FilenameHandle {
    /// Makes a handle for a storage at the start of the memory behind a name.
    pub fn new(name: impl Into<String>, nbytes: u64) -> FilenameHandle {
        FilenameHandle { name: name.into(), nbytes, ..FilenameHandle::default() }
    }

    /// Opens the storage for reading. `wait` is how long to wait for the lender behind a socket, or
    /// for a manager. `None` means 5 seconds. The holders of a file can cut it short, so opening a
    /// file takes [`OpenOptions::allow_unsealed`].
    pub fn open<'w>(
        &self,
        options: OpenOptions,
        wait: impl Into<Option<Wait<'w>>>,
    ) -> Result<Storage> {
        self.open_as(Access::Auto, options, wait.into())
    }

    /// Opens the storage and maps it read-only, whatever the handle allows.
    pub fn open_read_only<'w>(
        &self,
        options: OpenOptions,
        wait: impl Into<Option<Wait<'w>>>,
    ) -> Result<Storage> {
        self.open_as(Access::ReadOnly, options, wait.into())
    }

    /// Opens the storage for writing. The error is [`ErrorKind::Permission`] if it is lent
    /// read-only. With [`OpenOptions::private_cow`] or [`OpenOptions::private_copy`] the writes
    /// stay in this process, and every handle can be opened in that way.
    pub fn open_writable<'w>(
        &self,
        options: OpenOptions,
        wait: impl Into<Option<Wait<'w>>>,
    ) -> Result<StorageMut> {
        let private =
            options.flags() & (sys::TENON_OPEN_PRIVATE_COW | sys::TENON_OPEN_PRIVATE_COPY) != 0;
        self.open_as(if private { Access::Auto } else { Access::Writable }, options, wait.into())?
            .writable()
    }

    fn open_as(
        &self,
        access: Access,
        options: OpenOptions,
        wait: Option<Wait<'_>>,
    ) -> Result<Storage> {
        let (handle, options, wait) =
            (self.raw()?, options.raw(access), wait.map(|wait| wait.raw()));
        // SAFETY: all arguments are borrowed for the call.
        let raw = make(|out, err| unsafe {
            sys::tenon_open_filename(&handle, &options, or_null(&wait), out, err)
        })?;
        // SAFETY: the reference is new. The seals say whether the storage is FROZEN.
        Ok(unsafe { Storage::adopt(raw) })
    }

    /// Counts one message in flight. The name then outlives the sender's own references, until a
    /// receiver opens it with [`OpenOptions::decref`] or calls [`decref`](Self::decref).
    pub fn incref(&self) -> Result<()> {
        let handle = self.raw()?;
        // SAFETY: the handle is borrowed for the call.
        check(|err| unsafe { sys::tenon_filename_incref(&handle, err) })
    }

    /// Undoes one [`incref`](Self::incref): the message was received, or will never be received.
    pub fn decref(&self) -> Result<()> {
        let handle = self.raw()?;
        // SAFETY: the handle is borrowed for the call.
        check(|err| unsafe { sys::tenon_filename_decref(&handle, err) })
    }

    fn raw(&self) -> Result<sys::tenon_filename_handle> {
        let mut raw = blank!(tenon_filename_handle);
        put(&mut raw.name, &self.name, "the name")?;
        put(&mut raw.manager, self.manager.as_deref().unwrap_or(""), "the manager's path")?;
        raw.access = self.access.raw();
        raw.offset = self.offset;
        raw.nbytes = self.nbytes;
        Ok(raw)
    }

    fn from_raw(raw: &sys::tenon_filename_handle) -> FilenameHandle {
        let manager = taken(&raw.manager);
        FilenameHandle {
            name: taken(&raw.name),
            manager: (!manager.is_empty()).then_some(manager),
            offset: raw.offset,
            nbytes: raw.nbytes,
            access: Access::from_raw(raw.access),
        }
    }
}

impl Storage {
    /// Lends the storage by name. Nothing is copied or moved. A storage in a named file is lent
    /// under that name. Any other shared storage is lent through a socket. `wait` is how long to
    /// wait for a manager, and `None` means 5 seconds. Private memory is [`ErrorKind::Unsupported`]
    /// (see [`share_filename_moving`](Self::share_filename_moving)).
    pub fn share_filename<'w>(
        &self,
        options: &FilenameOptions,
        wait: impl Into<Option<Wait<'w>>>,
    ) -> Result<FilenameHandle> {
        if !self.is_shared() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "a private storage is lent by name only by moving it into a file",
            )
            .with("option", "StorageMut::new_filename, or share_filename_moving"));
        }
        // SAFETY: the storage is not private, so nothing moves.
        unsafe { self.share_filename_moving(options, wait) }
    }

    /// Lends the storage as [`share_filename`](Self::share_filename) does. Private memory that the
    /// library made, and whose bytes were never handed out, moves into a new file first.
    ///
    /// # Safety
    /// If the storage is private, no other call uses it at the same time, on any thread, through
    /// any clone or tensor.
    pub unsafe fn share_filename_moving<'w>(
        &self,
        options: &FilenameOptions,
        wait: impl Into<Option<Wait<'w>>>,
    ) -> Result<FilenameHandle> {
        let wait = wait.into().map(|wait| wait.raw());
        let mut raw = blank!(tenon_filename_handle);
        options.with_raw(|options| {
            // SAFETY: all arguments are borrowed for the call, and raw has its own struct_size. The
            // caller promises the rest.
            check(|err| unsafe {
                sys::tenon_share_filename(self.as_raw(), options, or_null(&wait), &mut raw, err)
            })
        })?;
        Ok(FilenameHandle::from_raw(&raw))
    }
}

impl StorageMut {
    /// Makes a storage of `nbytes` zero bytes that lies in a named file of its own, in PyTorch's
    /// layout. The file appears under its name as a whole or not at all. It is removed when its
    /// last holder has released it.
    pub fn new_filename(options: &FilenameOptions, nbytes: u64) -> Result<StorageMut> {
        let raw = options.with_raw(|options| {
            // SAFETY: options is borrowed for the call.
            make(|out, err| unsafe { sys::tenon_storage_new_filename(options, nbytes, out, err) })
        })?;
        // SAFETY: the reference is new, and its mode is SHARED.
        Ok(StorageMut(unsafe { Storage::adopt(raw) }))
    }
}

/// Does now what `exit` does for names, in a process that ends in order but with `_exit`. Storages
/// stay valid.
pub fn leave_names() {
    // SAFETY: any thread may call this (by_filename.h).
    unsafe { sys::tenon_filename_leave() }
}

/// Removes a name. Processes that have it open keep the memory, and no process can open it any
/// more. If there is no such name, the call succeeds.
pub fn unlink(name: &str) -> Result<()> {
    let name = c_string(OsStr::new(name), "the name")?;
    // SAFETY: the name is borrowed for the call.
    check(|err| unsafe { sys::tenon_filename_unlink(name.as_ptr(), err) })
}

/// Says what to sweep. Without options these are Tenon's names in `/dev/shm`.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct SweepOptions {
    flags: u32,
    directory: Option<PathBuf>,
    min_age: Duration,
}

impl SweepOptions {
    /// All options have their defaults.
    pub fn new() -> SweepOptions {
        SweepOptions::default()
    }

    /// Counts the names, and removes none.
    pub fn dry_run(self) -> Self {
        SweepOptions { flags: self.flags | sys::TENON_SWEEP_DRY_RUN, ..self }
    }

    /// Also removes PyTorch's own dead files, but none that is younger than `min_age` (zero means
    /// 60 seconds).
    pub fn torch(self, min_age: Duration) -> Self {
        SweepOptions { flags: self.flags | sys::TENON_SWEEP_TORCH, min_age, ..self }
    }

    /// Sets the directory, by an absolute path, in place of `/dev/shm`.
    pub fn directory(self, directory: impl Into<PathBuf>) -> Self {
        SweepOptions { directory: Some(directory.into()), ..self }
    }
}

/// Counts the names that a sweep found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepResult {
    /// Names that some process holds.
    pub live: u64,
    /// Names that no process holds, but to which a message in flight may refer.
    pub in_flight: u64,
    /// Names that no process holds: removed, or to be removed in a dry run.
    pub dead: u64,
    /// Names that were left alone: names of other users, names that could not be examined, and
    /// PyTorch's dead files without [`SweepOptions::torch`].
    pub unsure: u64,
    /// Bytes of memory that the dead names have, or had before they were removed.
    pub removed_nbytes: u64,
}

/// Removes the names in a directory that no process holds. It asks the kernel, so it sees every
/// holder in any container, whether it uses Tenon or not.
pub fn sweep(options: &SweepOptions) -> Result<SweepResult> {
    let directory = optional(options.directory.as_deref().map(Path::as_os_str), "the directory")?;
    let given = blank!(tenon_sweep_options {
        flags: options.flags,
        directory: pointer(&directory),
        min_age_ns: i64::try_from(options.min_age.as_nanos()).unwrap_or(i64::MAX),
    });
    let mut raw = blank!(tenon_sweep_result);
    // SAFETY: given is borrowed for the call, and raw has its own struct_size.
    check(|err| unsafe { sys::tenon_filename_sweep(&given, &mut raw, err) })?;
    Ok(SweepResult {
        live: raw.live,
        in_flight: raw.in_flight,
        dead: raw.dead,
        unsure: raw.unsure,
        removed_nbytes: raw.removed_nbytes,
    })
}

/// Returns the socket of this user's manager, which is started if none runs. `program` is the path
/// of tenon-manager. `None` means the environment variable `TENON_MANAGER`, or else the program
/// beside the library. A `wait` of `None` means 5 seconds.
pub fn start_manager<'w>(
    program: Option<&Path>,
    wait: impl Into<Option<Wait<'w>>>,
) -> Result<PathBuf> {
    let program = optional(program.map(Path::as_os_str), "the program")?;
    let wait = wait.into().map(|wait| wait.raw());
    let mut path = [0 as c_char; 108];
    // SAFETY: all arguments are borrowed for the call, and path has the 108 bytes that it needs.
    check(|err| unsafe {
        sys::tenon_manager_start(pointer(&program), or_null(&wait), path.as_mut_ptr(), err)
    })?;
    Ok(PathBuf::from(taken(&path)))
}

fn or_null<T>(value: &Option<T>) -> *const T {
    value.as_ref().map_or(ptr::null(), |value| value)
}

fn optional(text: Option<&OsStr>, what: &str) -> Result<Option<CString>> {
    text.map(|text| c_string(text, what)).transpose()
}

fn pointer(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(ptr::null(), |text| text.as_ptr())
}
