//! CUDA: whether this process can use it, and lending device memory as PyTorch lends it.
//!
//! A handle is for one receiver, which opens it once. It leads to the whole allocation in which the
//! storage lies, and the receiver can read and write all of that. Three things keep the memory: its
//! storage, the streams that are recorded as using it, and each handle until its receiver has
//! released the memory. Nobody notifies the library when that happens. So every share, every open
//! and every last release checks for it, and [`cuda_collect`] does.

use std::ffi::{c_void, OsStr};
use std::mem::size_of;
use std::os::fd::RawFd;

use crate::error::{check, make, Error, ErrorKind, Result};
use crate::storage::Storage;
use crate::sys;
use crate::text::{c_string, put, taken};

/// Checks whether this process can use CUDA. The result is `Ok`, or
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) with the reason.
///
/// A child of fork of a process that had started CUDA's driver can never use it. The first call
/// starts the driver, which can take a tenth of a second and more. The result is kept until the
/// process ends, except for refusals that can pass. The call makes no context.
pub fn cuda_available() -> Result<()> {
    // SAFETY: any thread may call this (by_cuda.h).
    check(|err| unsafe { sys::tenon_cuda_available(err) })
}

/// The way by which a handle gives access to memory. PyTorch opens `Ipc` only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CudaTransport {
    /// In a handle: the storage is empty. As an option: the first of the other ways that the driver
    /// offers for the memory.
    #[default]
    NoMemory,
    /// An IPC handle (`cuIpcGetMemHandle`) of memory from `cudaMalloc`. It is PyTorch's default.
    Ipc,
    /// An fd for each piece of memory that is mapped piece by piece.
    Fd,
    /// The fabric handle of one such piece.
    Fabric,
    /// An fd of the memory pool.
    Pool,
    /// A way for which this version has no name.
    Other(u32),
}

impl CudaTransport {
    pub(crate) fn raw(self) -> sys::tenon_cuda_transport {
        match self {
            CudaTransport::NoMemory => sys::TENON_CUDA_NO_MEMORY,
            CudaTransport::Ipc => sys::TENON_CUDA_IPC,
            CudaTransport::Fd => sys::TENON_CUDA_FD,
            CudaTransport::Fabric => sys::TENON_CUDA_FABRIC,
            CudaTransport::Pool => sys::TENON_CUDA_POOL,
            CudaTransport::Other(raw) => raw,
        }
    }

    pub(crate) fn from_raw(raw: sys::tenon_cuda_transport) -> CudaTransport {
        match raw {
            sys::TENON_CUDA_NO_MEMORY => CudaTransport::NoMemory,
            sys::TENON_CUDA_IPC => CudaTransport::Ipc,
            sys::TENON_CUDA_FD => CudaTransport::Fd,
            sys::TENON_CUDA_FABRIC => CudaTransport::Fabric,
            sys::TENON_CUDA_POOL => CudaTransport::Pool,
            raw => CudaTransport::Other(raw),
        }
    }
}

/// The layout of an IPC handle's bytes, by the versions of PyTorch that write it. Tenon reads all
/// of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CudaForm {
    /// PyTorch up to 2.4 writes it. Every later version reads it too, except for some builds of
    /// mid-2024.
    #[default]
    A,
    /// Those builds of mid-2024 write it.
    B,
    /// PyTorch 2.6 and 2.7 write it.
    C,
    /// PyTorch 2.8 to 2.12 write it.
    D,
    /// PyTorch 2.13 and later write it.
    E,
}

impl CudaForm {
    fn raw(self) -> sys::tenon_cuda_form {
        match self {
            CudaForm::A => sys::TENON_CUDA_FORM_A,
            CudaForm::B => sys::TENON_CUDA_FORM_B,
            CudaForm::C => sys::TENON_CUDA_FORM_C,
            CudaForm::D => sys::TENON_CUDA_FORM_D,
            CudaForm::E => sys::TENON_CUDA_FORM_E,
        }
    }
}

/// Says how to lend and open device memory.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct CudaOptions {
    transport: CudaTransport,
    form: CudaForm,
    let_write: bool,
    read_only: bool,
    keep_open: bool,
    other_user: bool,
    device: Option<i32>,
}

impl CudaOptions {
    /// All options have their defaults.
    pub fn new() -> CudaOptions {
        CudaOptions::default()
    }

    /// For lending: sets the way to lend the memory.
    pub fn transport(self, transport: CudaTransport) -> Self {
        CudaOptions { transport, ..self }
    }

    /// For lending: sets the layout of an IPC handle.
    pub fn form(self, form: CudaForm) -> Self {
        CudaOptions { form, ..self }
    }

    /// For lending: also lends a read-only storage, although its receiver can write to it.
    pub fn let_write(self) -> Self {
        CudaOptions { let_write: true, ..self }
    }

    /// For opening: the device refuses writes of this process. This works for `Fd` and `Fabric`
    /// only.
    pub fn read_only(self) -> Self {
        CudaOptions { read_only: true, ..self }
    }

    /// For opening: memory that the driver has opened stays open after its last storage is dropped,
    /// for the next handle of the same memory, until [`cuda_collect`]. Use it only if the sender
    /// does not free meanwhile what it lent.
    pub fn keep_open(self) -> Self {
        CudaOptions { keep_open: true, ..self }
    }

    /// For opening: also opens PyTorch's expandable segments from another user's process, if this
    /// process has the rights.
    pub fn other_user(self) -> Self {
        CudaOptions { other_user: true, ..self }
    }

    /// For opening: sets the device, in this process's numbering, whatever the handle says.
    pub fn device(self, device: i32) -> Self {
        CudaOptions { device: Some(device), ..self }
    }

    fn raw(self) -> sys::tenon_cuda_options {
        sys::tenon_cuda_options {
            struct_size: size_of::<sys::tenon_cuda_options>(),
            flags: if self.device.is_some() { sys::TENON_CUDA_ON_DEVICE } else { 0 }
                | if self.let_write { sys::TENON_CUDA_LET_WRITE } else { 0 }
                | if self.read_only { sys::TENON_CUDA_READ_ONLY } else { 0 }
                | if self.keep_open { sys::TENON_CUDA_KEEP_OPEN } else { 0 }
                | if self.other_user { sys::TENON_CUDA_OTHER_USER } else { 0 },
            form: self.form.raw(),
            device: self.device.unwrap_or(0),
            transport: self.transport.raw(),
        }
    }
}

/// Says how to reach device memory. It has the eight items of PyTorch's tuple, and what that tuple
/// lacks. It is a plain value, but it is for one receiver, which opens it once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CudaHandle {
    /// The way of the handle. It is ignored when the handle is opened, because the memory handle
    /// says it.
    pub transport: CudaTransport,
    /// The device's ordinal in the sender's numbering.
    pub device: i32,
    /// The UUID of the device, which takes precedence over the ordinal. PyTorch's tuple has none.
    pub uuid: Option<[u8; 16]>,
    /// The size of the storage in bytes.
    pub nbytes: u64,
    /// Bytes from the start of the memory to which the memory handle leads.
    pub offset: u64,
    /// The name of the counter's file; empty for an empty storage.
    pub counter: String,
    /// The index of the counter in its file.
    pub slot: u64,
    /// Whether the bytes are valid only once the event is complete.
    pub event_required: bool,
    /// The event's handle.
    pub event: [u8; 64],
    /// The memory handle; empty for an empty storage.
    pub memory: Vec<u8>,
    /// For `Fd` and `Pool`: the fds that must be sent with the handle, in this order. In a handle
    /// from [`Storage::share_cuda`] they belong to the library and are open until the storage's
    /// last release. A receiver puts its own fds here, and closes them itself.
    pub fds: Vec<RawFd>,
}

impl Default for CudaHandle {
    fn default() -> CudaHandle {
        CudaHandle::from_raw(&blank!(tenon_cuda_handle))
    }
}

impl CudaHandle {
    /// Opens device memory that Tenon or PyTorch lends. If this process already holds the same
    /// bytes, or sent them, the result is the same storage. Work that is given to `stream` after
    /// the call waits for the sender's work, on the device. The storage counts as used in that
    /// stream. After its last release, the memory is given back to the sender once the work in the
    /// streams is complete.
    ///
    /// # Safety
    /// `stream` is a CUDA stream (`CUstream` or `cudaStream_t`) of this process, NULL for the
    /// default stream, or 0x2 for that of the calling thread. It exists as long as the storage
    /// lives.
    pub unsafe fn open(&self, stream: *mut c_void, options: CudaOptions) -> Result<Storage> {
        let (handle, options) = (self.raw()?, options.raw());
        // SAFETY: all arguments are borrowed for the call, and so is `memory` if the handle points
        // to it. The caller promises the rest.
        let raw =
            make(|out, err| unsafe { sys::tenon_open_cuda(&handle, stream, &options, out, err) })?;
        // SAFETY: the reference is new, and device memory has no mode.
        Ok(unsafe { Storage::adopt(raw) })
    }

    /// Gives up a handle that will not be opened. Its counter changes as if the handle had been
    /// opened and its storage released. No CUDA is needed.
    pub fn release_counter(&self) -> Result<()> {
        release_cuda_counter(&self.counter, self.slot)
    }

    /// Makes C's form of the handle. It borrows the fds, and a memory handle that is longer than
    /// C's array for it.
    fn raw(&self) -> Result<sys::tenon_cuda_handle> {
        let mut raw = blank!(tenon_cuda_handle);
        raw.transport = self.transport.raw();
        raw.device = self.device;
        raw.uuid = self.uuid.unwrap_or_default();
        raw.nbytes = self.nbytes;
        raw.offset = self.offset;
        raw.slot = self.slot;
        raw.event_required = u32::from(self.event_required);
        raw.event = self.event;
        raw.memory_nbytes = u32::try_from(self.memory.len()).map_err(|_| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!("the memory handle has {} bytes", self.memory.len()),
            )
        })?;
        match raw.memory.get_mut(..self.memory.len()) {
            Some(room) => room.copy_from_slice(&self.memory),
            None => raw.long_memory = self.memory.as_ptr(),
        }
        if !self.fds.is_empty() {
            raw.fds = self.fds.as_ptr();
            raw.n_fds = u32::try_from(self.fds.len()).map_err(|_| {
                Error::new(
                    ErrorKind::InvalidArgument,
                    format!("the handle has {} fds", self.fds.len()),
                )
            })?;
        }
        put(&mut raw.counter, &self.counter, "the counter's name")?;
        Ok(raw)
    }

    fn from_raw(raw: &sys::tenon_cuda_handle) -> CudaHandle {
        CudaHandle {
            transport: CudaTransport::from_raw(raw.transport),
            device: raw.device,
            uuid: (raw.uuid != [0; 16]).then_some(raw.uuid),
            nbytes: raw.nbytes,
            offset: raw.offset,
            counter: taken(&raw.counter),
            slot: raw.slot,
            event_required: raw.event_required != 0,
            event: raw.event,
            memory: raw.memory[..(raw.memory_nbytes as usize).min(raw.memory.len())].to_vec(),
            fds: if raw.fds.is_null() {
                Vec::new()
            } else {
                // SAFETY: these fds belong to the library, and there are n_fds of them as long as
                // the storage lives, which the caller has borrowed.
                unsafe { std::slice::from_raw_parts(raw.fds, raw.n_fds as usize) }.to_vec()
            },
        }
    }
}

impl Storage {
    /// Lends a storage on a CUDA device. No byte is copied. All work that was given to `stream`
    /// before the call is complete before the receiver's work begins. The error is
    /// [`ErrorKind::InvalidArgument`] if the storage is not on a CUDA device, and
    /// [`ErrorKind::Permission`] if it is read-only and [`CudaOptions::let_write`] is not set.
    ///
    /// # Safety
    /// `stream`, in which the bytes were written, is a CUDA stream (`CUstream` or `cudaStream_t`)
    /// of this process, NULL for the default stream, or 0x2 for that of the calling thread.
    pub unsafe fn share_cuda(
        &self,
        stream: *mut c_void,
        options: CudaOptions,
    ) -> Result<CudaHandle> {
        let options = options.raw();
        let mut raw = blank!(tenon_cuda_handle);
        // SAFETY: all arguments are borrowed for the call, and raw has its own struct_size. The
        // caller promises the rest.
        check(|err| unsafe {
            sys::tenon_share_cuda(self.as_raw(), stream, &options, &mut raw, err)
        })?;
        Ok(CudaHandle::from_raw(&raw))
    }

    /// Records that work in a stream uses the storage. The memory is not given back before all work
    /// is complete that was given to the stream until the storage's last release. The host does not
    /// wait for it. The error is [`ErrorKind::InvalidArgument`] if the storage is not on a CUDA
    /// device.
    ///
    /// # Safety
    /// `stream` fulfils the conditions of [`share_cuda`](Self::share_cuda), and exists until the
    /// storage's last release.
    pub unsafe fn record_stream(&self, stream: *mut c_void) -> Result<()> {
        // SAFETY: all arguments are borrowed for the call, and the caller promises the rest.
        check(|err| unsafe { sys::tenon_storage_record_stream(self.as_raw(), stream, err) })
    }

    /// Lets a stream wait for the other streams in which the storage is used. Work that is given to
    /// the stream after the call begins when the work is complete that was given to those streams
    /// before the call. A program that uses the storage in yet another stream calls it. The host
    /// does not wait, and the stream is not recorded. The error is [`ErrorKind::InvalidArgument`]
    /// if the storage is not on a CUDA device.
    ///
    /// # Safety
    /// `stream` fulfils the conditions of [`share_cuda`](Self::share_cuda), and the recorded
    /// streams still exist.
    pub unsafe fn order_stream(&self, stream: *mut c_void) -> Result<()> {
        // SAFETY: all arguments are borrowed for the call, and the caller promises the rest.
        check(|err| unsafe { sys::tenon_storage_order_stream(self.as_raw(), stream, err) })
    }
}

/// Gives up a handle as [`CudaHandle::release_counter`] does, by the counter's name and slot. If
/// the file is gone with its sender, the call succeeds.
pub fn release_cuda_counter(counter: &str, slot: u64) -> Result<()> {
    let counter = c_string(OsStr::new(counter), "the counter's name")?;
    // SAFETY: the name is borrowed for the call.
    check(|err| unsafe { sys::tenon_release_cuda_counter(counter.as_ptr(), slot, err) })
}

/// Gives back device memory that nobody uses any more. It checks all memory that was released here
/// and still had a receiver or a stream, and closes memory that was only kept open. It returns how
/// many storages have memory that must still wait.
pub fn cuda_collect() -> u64 {
    // SAFETY: any thread may call this (by_cuda.h).
    unsafe { sys::tenon_cuda_collect() }
}
