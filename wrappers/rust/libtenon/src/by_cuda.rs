//! CUDA: whether this process can use it, and lending device memory as PyTorch lends it.
//!
//! A handle is for one receiver, who opens it once. It leads to the whole allocation in which the
//! storage lies, so its receiver can read and write all of that. The memory is kept by the storage,
//! by the streams in which it was used, as far as they were named, and by each handle until its
//! receiver has let go. Nobody is told when that is: it is looked at by every share, open and last
//! release, and by [`cuda_collect`].

use std::ffi::{c_void, OsStr};
use std::mem::size_of;
use std::os::fd::RawFd;
use std::ptr;

use crate::error::{check, make, Error, ErrorKind, Result};
use crate::storage::Storage;
use crate::sys;
use crate::text::{c_string, put, taken};

/// Whether this process can use CUDA: `Ok`, or
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) with the reason.
///
/// Never in a child of fork of a process that had started CUDA's driver. The first call starts the
/// driver, and can take a tenth of a second and more; what came of it is kept until the process
/// ends, but for refusals that can pass. No context is made.
pub fn cuda_available() -> Result<()> {
    // SAFETY: any thread (by_cuda.h).
    check(|err| unsafe { sys::tenon_cuda_available(err) })
}

/// By which way a handle leads to the memory. PyTorch opens `Ipc` only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CudaTransport {
    /// Of an empty storage; as an option: as the memory can travel, the first of the others that it
    /// can.
    #[default]
    NoMemory,
    /// `cuIpcGetMemHandle`: of `cudaMalloc`'s memory; PyTorch's default.
    Ipc,
    /// An fd for each piece of memory that is mapped piece by piece.
    Fd,
    /// The fabric handle of one such piece.
    Fabric,
    /// An fd of the memory pool.
    Pool,
    /// One that this version has no name for.
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

/// The bytes of the memory handle, by the versions of PyTorch that write them. All are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CudaForm {
    /// Up to 2.4; every later one reads it too, but for some builds of mid-2024.
    #[default]
    A,
    /// Those builds.
    B,
    /// 2.6, 2.7.
    C,
    /// 2.8 to 2.12.
    D,
    /// 2.13 and later.
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

/// How device memory is lent and opened.
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
    /// Everything by default.
    pub fn new() -> CudaOptions {
        CudaOptions::default()
    }

    /// Lending: the way to take.
    pub fn transport(self, transport: CudaTransport) -> Self {
        CudaOptions { transport, ..self }
    }

    /// Lending: the bytes of an IPC handle.
    pub fn form(self, form: CudaForm) -> Self {
        CudaOptions { form, ..self }
    }

    /// Lending: a read-only storage, too, though its receiver can write it.
    pub fn let_write(self) -> Self {
        CudaOptions { let_write: true, ..self }
    }

    /// Opening: so that the device refuses this process's writes; by `Fd` and `Fabric` only.
    pub fn read_only(self) -> Self {
        CudaOptions { read_only: true, ..self }
    }

    /// Opening: what the driver opened stays so when its last storage has gone, for the next handle
    /// of the same memory, until [`cuda_collect`]. For senders that do not free meanwhile what they
    /// lent.
    pub fn keep_open(self) -> Self {
        CudaOptions { keep_open: true, ..self }
    }

    /// Opening: fetch PyTorch's expandable segments from another user's process, too, with the
    /// rights of this one.
    pub fn other_user(self) -> Self {
        CudaOptions { other_user: true, ..self }
    }

    /// Opening: on that device, in this process's numbering, whatever the handle says.
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

/// How to reach device memory: the eight items of PyTorch's tuple, and what it lacks. A value, but
/// for one receiver, who opens it once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CudaHandle {
    /// By which way; in a handle that is opened not looked at: the memory handle says it.
    pub transport: CudaTransport,
    /// Ordinal in the sender's numbering.
    pub device: i32,
    /// Of the device, which wins over the ordinal; PyTorch's tuple has none.
    pub uuid: Option<[u8; 16]>,
    /// Bytes of the storage.
    pub nbytes: u64,
    /// Bytes from where the memory handle leads.
    pub offset: u64,
    /// Name of the counter's file; empty for an empty storage.
    pub counter: String,
    /// Index of the counter in its file.
    pub slot: u64,
    /// Whether the bytes are good only once the event has passed.
    pub event_required: bool,
    /// The event's handle.
    pub event: [u8; 64],
    /// The memory handle; empty for an empty storage.
    pub memory: Vec<u8>,
    /// `Fd`, `Pool`: the fds that go with it, to be sent in this order. Of a lent storage they are
    /// the library's, and open until its last release; a receiver puts his own here, and closes
    /// them himself.
    pub fds: Vec<RawFd>,
}

impl Default for CudaHandle {
    fn default() -> CudaHandle {
        CudaHandle::from_raw(&blank_handle())
    }
}

impl CudaHandle {
    /// Open device memory that Tenon or PyTorch lends. Bytes that this process holds already, or
    /// that it sent, come back as the same storage. What is given to `stream` from now on waits for
    /// the sender's work, on the device; the storage counts as used in that stream. Its last
    /// release, once the streams have passed, gives the memory back to the sender.
    ///
    /// # Safety
    /// `stream` is a CUDA stream (`CUstream` or `cudaStream_t`) of this process, NULL for the
    /// default one, or 0x2 for that of the calling thread. As long as the storage lives it is
    /// there.
    pub unsafe fn open(&self, stream: *mut c_void, options: CudaOptions) -> Result<Storage> {
        let (handle, options) = (self.raw()?, options.raw());
        // SAFETY: all is borrowed for the call, and so is `memory`, where the handle points to it;
        // the caller's promise.
        let raw =
            make(|out, err| unsafe { sys::tenon_open_cuda(&handle, stream, &options, out, err) })?;
        // SAFETY: a new reference; device memory has no mode.
        Ok(unsafe { Storage::adopt(raw) })
    }

    /// Take the message back, which will not be opened: what opening and releasing it would do to
    /// its counter. Needs no CUDA.
    pub fn release_counter(&self) -> Result<()> {
        release_cuda_counter(&self.counter, self.slot)
    }

    /// Borrows the fds, and a memory handle that is longer than C's room for it.
    fn raw(&self) -> Result<sys::tenon_cuda_handle> {
        let mut raw = blank_handle();
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
                // SAFETY: the library's, of that many, as long as the storage lives, which was
                // borrowed for this.
                unsafe { std::slice::from_raw_parts(raw.fds, raw.n_fds as usize) }.to_vec()
            },
        }
    }
}

impl Storage {
    /// Lend a storage on a CUDA device. No byte is copied. What was given to `stream` until now is
    /// done before work of the receiver's begins. [`ErrorKind::InvalidArgument`] if it is not on a
    /// CUDA device, [`ErrorKind::Permission`] if it is read-only, without
    /// [`CudaOptions::let_write`].
    ///
    /// # Safety
    /// `stream`, in which the bytes were written, is a CUDA stream (`CUstream` or `cudaStream_t`)
    /// of this process, NULL for the default one, or 0x2 for that of the calling thread.
    pub unsafe fn share_cuda(
        &self,
        stream: *mut c_void,
        options: CudaOptions,
    ) -> Result<CudaHandle> {
        let options = options.raw();
        let mut raw = blank_handle();
        // SAFETY: all is borrowed for the call; raw is of its own struct_size; the caller's
        // promise.
        check(|err| unsafe {
            sys::tenon_share_cuda(self.as_raw(), stream, &options, &mut raw, err)
        })?;
        Ok(CudaHandle::from_raw(&raw))
    }

    /// Say that work in that stream uses the storage: what was given to it until the storage's last
    /// release has passed before the memory is given back. The host does not wait for it.
    /// [`ErrorKind::InvalidArgument`] if it is not on a CUDA device.
    ///
    /// # Safety
    /// `stream` is as [`share_cuda`](Self::share_cuda) asks, and there until the storage's last
    /// release.
    pub unsafe fn record_stream(&self, stream: *mut c_void) -> Result<()> {
        // SAFETY: borrowed for the call; the caller's promise.
        check(|err| unsafe { sys::tenon_storage_record_stream(self.as_raw(), stream, err) })
    }

    /// Let what is given to that stream from now on come after what was given until now to the
    /// streams in which the storage is used: for whoever uses it in yet another stream. The host
    /// does not wait, and the stream is not recorded. [`ErrorKind::InvalidArgument`] if the storage
    /// is not on a CUDA device.
    ///
    /// # Safety
    /// `stream` is as [`share_cuda`](Self::share_cuda) asks, and the streams that were recorded are
    /// still there.
    pub unsafe fn order_stream(&self, stream: *mut c_void) -> Result<()> {
        // SAFETY: borrowed for the call; the caller's promise.
        check(|err| unsafe { sys::tenon_storage_order_stream(self.as_raw(), stream, err) })
    }
}

/// As [`CudaHandle::release_counter`], of a counter by name and place. It is fine if the file is
/// gone with its sender.
pub fn release_cuda_counter(counter: &str, slot: u64) -> Result<()> {
    let counter = c_string(OsStr::new(counter), "the counter's name")?;
    // SAFETY: borrowed for the call.
    check(|err| unsafe { sys::tenon_release_cuda_counter(counter.as_ptr(), slot, err) })
}

/// Give device memory back that nobody uses any more: look at all that was released here and still
/// had a receiver or a stream; and close what was only kept open. Returns how many storages' memory
/// waits on.
pub fn cuda_collect() -> u64 {
    // SAFETY: any thread (by_cuda.h).
    unsafe { sys::tenon_cuda_collect() }
}

fn blank_handle() -> sys::tenon_cuda_handle {
    sys::tenon_cuda_handle {
        struct_size: size_of::<sys::tenon_cuda_handle>(),
        transport: sys::TENON_CUDA_NO_MEMORY,
        device: 0,
        uuid: [0; 16],
        nbytes: 0,
        offset: 0,
        slot: 0,
        event_required: 0,
        memory_nbytes: 0,
        long_memory: ptr::null(),
        memory: [0; 128],
        event: [0; 64],
        counter: [0; 256],
        fds: ptr::null(),
        n_fds: 0,
        reserved: 0,
    }
}
