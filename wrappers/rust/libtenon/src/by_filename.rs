//! Lending by name. A name is one of two things in a directory that both sides see: a file in
//! PyTorch's layout, which holds one storage and lives as long as somebody holds it, or a socket on
//! which the lender hands out the sealed memory of a segment. What a killed process leaves is
//! removed by the next process that looks, and by [`sweep`].

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

/// How a name is made. Without anything: in `/dev/shm`, `tenon-` and 128 unguessable bits, for this
/// user alone.
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
    /// Everything by default.
    pub fn new() -> FilenameOptions {
        FilenameOptions::default()
    }

    /// What borrowers get. A file cannot be lent read-only to its own user.
    pub fn access(self, access: Access) -> Self {
        FilenameOptions { access, ..self }
    }

    /// The whole name, without a slash, in place of prefix and random bits.
    pub fn name(self, name: impl Into<String>) -> Self {
        FilenameOptions { name: Some(name.into()), ..self }
    }

    /// What 128 unguessable bits follow.
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        FilenameOptions { prefix: Some(prefix.into()), ..self }
    }

    /// Absolute; PyTorch looks in `/dev/shm` only.
    pub fn directory(self, directory: impl Into<PathBuf>) -> Self {
        FilenameOptions { directory: Some(directory.into()), ..self }
    }

    /// Permission bits in place of 0600; 0644 lets other users read a file, and open a socket's
    /// memory.
    pub fn mode(self, mode: u32) -> Self {
        FilenameOptions { mode, ..self }
    }

    /// The members of that group may open it too.
    pub fn group(self, gid: u32) -> Self {
        FilenameOptions { group: gid, flags: self.flags | sys::TENON_FILENAME_GROUP, ..self }
    }

    /// PyTorch must be able to open it, so a manager is asked to guard the name: that one, or
    /// (`None`) this user's, which is started if there is none.
    pub fn for_torch(self, manager: Option<PathBuf>) -> Self {
        FilenameOptions { manager, flags: self.flags | sys::TENON_FILENAME_TORCH, ..self }
    }

    /// Also do what [`FilenameHandle::incref`] does.
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

/// How to reach a storage by name. A value: it holds nothing, and can be sent by any means. For a
/// file that PyTorch shares: its tuple (manager, name, nbytes), offset 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FilenameHandle {
    /// `/leaf` in `/dev/shm`, or an absolute path; empty for an empty storage that has none.
    pub name: String,
    /// The socket of the manager that guards the name, if one does.
    pub manager: Option<String>,
    /// Bytes: of the storage in the payload of a file, or in the segment behind a socket.
    pub offset: u64,
    /// Bytes of the storage.
    pub nbytes: u64,
    /// What the handle allows; [`Access::Auto`] in one that is opened: what the name gives.
    pub access: Access,
}

impl FilenameHandle {
    /// A handle on what begins at the start of that name.
    pub fn new(name: impl Into<String>, nbytes: u64) -> FilenameHandle {
        FilenameHandle { name: name.into(), nbytes, ..FilenameHandle::default() }
    }

    /// Open it, to read. `wait` is how long to wait for the lender behind a socket, or for a
    /// manager; `None`: 5 seconds. A file can be cut short by its holders, so it takes
    /// [`OpenOptions::allow_unsealed`].
    pub fn open<'w>(
        &self,
        options: OpenOptions,
        wait: impl Into<Option<Wait<'w>>>,
    ) -> Result<Storage> {
        self.open_as(Access::Auto, options, wait.into())
    }

    /// Open it mapped read-only, whatever it allows.
    pub fn open_read_only<'w>(
        &self,
        options: OpenOptions,
        wait: impl Into<Option<Wait<'w>>>,
    ) -> Result<Storage> {
        self.open_as(Access::ReadOnly, options, wait.into())
    }

    /// Open it to write; [`ErrorKind::Permission`] if it is lent read-only. With
    /// [`OpenOptions::private_cow`] or [`OpenOptions::private_copy`] the writes stay here, and
    /// every handle can be opened so.
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
        // SAFETY: all is borrowed for the call.
        let raw = make(|out, err| unsafe {
            sys::tenon_open_filename(&handle, &options, or_null(&wait), out, err)
        })?;
        // SAFETY: a new reference; FROZEN is what the seals say.
        Ok(unsafe { Storage::adopt(raw) })
    }

    /// Count one message in flight: the name outlives the sender's own references until somebody
    /// opens it with [`OpenOptions::decref`] or calls [`decref`](Self::decref).
    pub fn incref(&self) -> Result<()> {
        let handle = self.raw()?;
        // SAFETY: borrowed for the call.
        check(|err| unsafe { sys::tenon_filename_incref(&handle, err) })
    }

    /// Take back one [`incref`](Self::incref): the message was received, or will never be.
    pub fn decref(&self) -> Result<()> {
        let handle = self.raw()?;
        // SAFETY: borrowed for the call.
        check(|err| unsafe { sys::tenon_filename_decref(&handle, err) })
    }

    fn raw(&self) -> Result<sys::tenon_filename_handle> {
        let mut raw = blank_handle();
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
    /// Lend it by name. Nothing is copied or moved. A storage in a named file gives that name; any
    /// other shared one gets a socket. `wait` is how long to wait for a manager; `None`: 5 seconds.
    /// Private memory is [`ErrorKind::Unsupported`] (see
    /// [`share_filename_moving`](Self::share_filename_moving)).
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

    /// As [`share_filename`](Self::share_filename); private memory that the library made, and whose
    /// bytes were never handed out, moves into a new file first.
    ///
    /// # Safety
    /// If the storage is private, nothing else is done with it at the same time, on any thread,
    /// through any clone or tensor.
    pub unsafe fn share_filename_moving<'w>(
        &self,
        options: &FilenameOptions,
        wait: impl Into<Option<Wait<'w>>>,
    ) -> Result<FilenameHandle> {
        let wait = wait.into().map(|wait| wait.raw());
        let mut raw = blank_handle();
        options.with_raw(|options| {
            // SAFETY: all is borrowed for the call; raw is of its own struct_size; the caller's
            // promise.
            check(|err| unsafe {
                sys::tenon_share_filename(self.as_raw(), options, or_null(&wait), &mut raw, err)
            })
        })?;
        Ok(FilenameHandle::from_raw(&raw))
    }
}

impl StorageMut {
    /// Make a storage of `nbytes` zero bytes that lives in a named file of its own, in PyTorch's
    /// layout. The file appears whole, under its name, or not at all, and goes with its last
    /// holder.
    pub fn new_filename(options: &FilenameOptions, nbytes: u64) -> Result<StorageMut> {
        let raw = options.with_raw(|options| {
            // SAFETY: options is borrowed for the call.
            make(|out, err| unsafe { sys::tenon_storage_new_filename(options, nbytes, out, err) })
        })?;
        // SAFETY: a new reference, of mode SHARED.
        Ok(StorageMut(unsafe { Storage::adopt(raw) }))
    }
}

/// Do now what `exit` does for names, for a process that ends in order but with `_exit`. Storages
/// stay valid.
pub fn leave_names() {
    // SAFETY: any thread (by_filename.h).
    unsafe { sys::tenon_filename_leave() }
}

/// Take a name away. Who has it open keeps the memory; nobody opens it any more. It is fine if
/// there is no such name.
pub fn unlink(name: &str) -> Result<()> {
    let name = c_string(OsStr::new(name), "the name")?;
    // SAFETY: borrowed for the call.
    check(|err| unsafe { sys::tenon_filename_unlink(name.as_ptr(), err) })
}

/// What to sweep. Without anything: names of Tenon's in `/dev/shm`.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct SweepOptions {
    flags: u32,
    directory: Option<PathBuf>,
    min_age: Duration,
}

impl SweepOptions {
    /// Everything by default.
    pub fn new() -> SweepOptions {
        SweepOptions::default()
    }

    /// Count, remove nothing.
    pub fn dry_run(self) -> Self {
        SweepOptions { flags: self.flags | sys::TENON_SWEEP_DRY_RUN, ..self }
    }

    /// Also remove PyTorch's own dead files, but none younger than `min_age` (zero: 60 seconds).
    pub fn torch(self, min_age: Duration) -> Self {
        SweepOptions { flags: self.flags | sys::TENON_SWEEP_TORCH, min_age, ..self }
    }

    /// Absolute, in place of `/dev/shm`.
    pub fn directory(self, directory: impl Into<PathBuf>) -> Self {
        SweepOptions { directory: Some(directory.into()), ..self }
    }
}

/// What a sweep found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepResult {
    /// Names that somebody holds.
    pub live: u64,
    /// Names that nobody holds and a message may be about.
    pub in_flight: u64,
    /// Names that nobody holds: those removed, or, in a dry run, to be removed.
    pub dead: u64,
    /// Names of other users, and others that could not be looked at: left alone.
    pub unsure: u64,
    /// Bytes of memory that the dead ones have or had.
    pub removed_nbytes: u64,
}

/// Remove the names in a directory that nobody holds. The kernel is asked, so a holder in any
/// container, Tenon or not, is seen.
pub fn sweep(options: &SweepOptions) -> Result<SweepResult> {
    let directory = optional(options.directory.as_deref().map(Path::as_os_str), "the directory")?;
    let given = sys::tenon_sweep_options {
        struct_size: size_of::<sys::tenon_sweep_options>(),
        flags: options.flags,
        reserved: 0,
        directory: pointer(&directory),
        min_age_ns: i64::try_from(options.min_age.as_nanos()).unwrap_or(i64::MAX),
    };
    let mut raw = sys::tenon_sweep_result {
        struct_size: size_of::<sys::tenon_sweep_result>(),
        live: 0,
        in_flight: 0,
        dead: 0,
        unsure: 0,
        removed_nbytes: 0,
    };
    // SAFETY: given is borrowed for the call; raw is of its own struct_size.
    check(|err| unsafe { sys::tenon_filename_sweep(&given, &mut raw, err) })?;
    Ok(SweepResult {
        live: raw.live,
        in_flight: raw.in_flight,
        dead: raw.dead,
        unsure: raw.unsure,
        removed_nbytes: raw.removed_nbytes,
    })
}

/// The socket of this user's manager, which is started if there is none. `program` is the path of
/// tenon-manager; `None`: `TENON_MANAGER` of the environment, else beside the library. `wait`:
/// `None` is 5 seconds.
pub fn start_manager<'w>(
    program: Option<&Path>,
    wait: impl Into<Option<Wait<'w>>>,
) -> Result<PathBuf> {
    let program = optional(program.map(Path::as_os_str), "the program")?;
    let wait = wait.into().map(|wait| wait.raw());
    let mut path = [0 as c_char; 108];
    // SAFETY: all is borrowed for the call; path has the 108 bytes that it needs.
    check(|err| unsafe {
        sys::tenon_manager_start(pointer(&program), or_null(&wait), path.as_mut_ptr(), err)
    })?;
    Ok(PathBuf::from(taken(&path)))
}

fn blank_handle() -> sys::tenon_filename_handle {
    sys::tenon_filename_handle {
        struct_size: size_of::<sys::tenon_filename_handle>(),
        access: sys::TENON_ACCESS_AUTO,
        reserved: 0,
        offset: 0,
        nbytes: 0,
        manager: [0; 108],
        name: [0; 256],
    }
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
