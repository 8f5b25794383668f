//! CUDA events: marks in streams. Streams of this process and of others, and the host, wait for
//! them.

use std::ffi::c_void;
use std::fmt;
use std::mem::size_of;
use std::ptr::NonNull;

use crate::error::{check, make, Result};
use crate::sys;
use crate::wait::Wait;

/// Says how to make an event.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct CudaEventOptions {
    device: i32,
    interprocess: bool,
}

impl CudaEventOptions {
    /// The event is on device 0, and for this process only.
    pub fn new() -> CudaEventOptions {
        CudaEventOptions::default()
    }

    /// Sets the device, in this process's numbering.
    pub fn device(self, device: i32) -> Self {
        CudaEventOptions { device, ..self }
    }

    /// Gives the event an IPC handle, with which other processes open it.
    pub fn interprocess(self) -> Self {
        CudaEventOptions { interprocess: true, ..self }
    }

    fn raw(self) -> sys::tenon_cuda_event_options {
        sys::tenon_cuda_event_options {
            struct_size: size_of::<sys::tenon_cuda_event_options>(),
            flags: if self.interprocess { sys::TENON_CUDA_EVENT_INTERPROCESS } else { 0 },
            device: self.device,
        }
    }
}

/// A mark in a CUDA stream. It is complete when all work is complete that was given to the stream
/// before the mark. It belongs to its device's primary context, which CUDA's runtime uses and
/// therefore every framework. A clone is the same event. Events do not measure time.
///
/// In a child of fork of a process that used CUDA an event can be dropped. Every other call is
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) there.
pub struct CudaEvent {
    raw: NonNull<sys::tenon_cuda_event>,
}

handle!(CudaEvent, tenon_cuda_event, tenon_cuda_event_release, retain tenon_cuda_event_retain);

impl CudaEvent {
    /// Makes an event. The event is complete until it is recorded.
    pub fn new(options: CudaEventOptions) -> Result<CudaEvent> {
        let options = options.raw();
        Ok(CudaEvent {
            // SAFETY: the options are borrowed for the call, and the result is a new reference.
            raw: make(|out, err| unsafe { sys::tenon_cuda_event_new(&options, out, err) })?,
        })
    }

    /// Opens an event of another process, on the device where it was made. Both events are then the
    /// same mark, whichever process records it. The process that made the event cannot open it.
    ///
    /// # Safety
    /// The process that made the event keeps it until this process has dropped it. Otherwise CUDA
    /// does not define what happens.
    pub unsafe fn from_ipc_handle(handle: &[u8; 64], device: i32) -> Result<CudaEvent> {
        let options = CudaEventOptions::new().device(device).raw();
        // SAFETY: handle and options are borrowed for the call, and the result is a new reference.
        // The caller promises the rest.
        let raw = make(|out, err| unsafe {
            sys::tenon_cuda_event_from_ipc_handle(handle.as_ptr(), &options, out, err)
        })?;
        Ok(CudaEvent { raw })
    }

    /// Marks the work that was given to the stream before the call. An older mark is forgotten. The
    /// error is [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the stream
    /// belongs to another context.
    ///
    /// # Safety
    /// `stream` is a CUDA stream (`CUstream` or `cudaStream_t`) of this process, NULL for the
    /// default stream, or 0x2 for that of the calling thread.
    pub unsafe fn record(&self, stream: *mut c_void) -> Result<()> {
        // SAFETY: self keeps the event, and the caller promises the rest.
        check(|err| unsafe { sys::tenon_cuda_event_record(self.as_raw(), stream, err) })
    }

    /// Lets the work that is given to the stream after the call wait for the mark that was recorded
    /// last. The host does not wait.
    ///
    /// # Safety
    /// The conditions are those of [`record`](Self::record).
    pub unsafe fn wait(&self, stream: *mut c_void) -> Result<()> {
        // SAFETY: self keeps the event, and the caller promises the rest.
        check(|err| unsafe { sys::tenon_cuda_event_wait(self.as_raw(), stream, err) })
    }

    /// Says whether the event is complete. An event that nobody has recorded is complete.
    pub fn query(&self) -> Result<bool> {
        let mut out = 0;
        // SAFETY: self keeps the event, and out belongs to this function.
        check(|err| unsafe { sys::tenon_cuda_event_query(self.as_raw(), &mut out, err) })?;
        Ok(out != 0)
    }

    /// Waits on the host until the event is complete.
    pub fn synchronize<'w>(&self, wait: impl Into<Wait<'w>>) -> Result<()> {
        let wait = wait.into().raw();
        // SAFETY: self keeps the event, and the wait is borrowed for the call.
        check(|err| unsafe { sys::tenon_cuda_event_synchronize(self.as_raw(), &wait, err) })
    }

    /// Returns the handle with which other processes open the event. It is the same in each call.
    pub fn ipc_handle(&self) -> Result<[u8; 64]> {
        let mut out = [0; 64];
        // SAFETY: self keeps the event, and out has the 64 bytes.
        check(|err| unsafe {
            sys::tenon_cuda_event_ipc_handle(self.as_raw(), out.as_mut_ptr(), err)
        })?;
        Ok(out)
    }
}

impl fmt::Debug for CudaEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CudaEvent")
    }
}
