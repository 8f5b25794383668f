//! Events: marks in CUDA streams, by which streams of this process and of others, and the host,
//! wait for each other.

use std::ffi::c_void;
use std::fmt;
use std::mem::size_of;
use std::ptr::NonNull;

use crate::error::{check, make, Result};
use crate::sys;
use crate::wait::Wait;

/// How an event is made.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct CudaEventOptions {
    device: i32,
    interprocess: bool,
}

impl CudaEventOptions {
    /// Everything by default: device 0, for this process.
    pub fn new() -> CudaEventOptions {
        CudaEventOptions::default()
    }

    /// Of that device, in this process's numbering.
    pub fn device(self, device: i32) -> Self {
        CudaEventOptions { device, ..self }
    }

    /// With an IPC handle, by which other processes open it.
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

/// A mark in a CUDA stream: complete when all that was given to the stream before has passed. It is
/// of its device's primary context, which CUDA's runtime uses and so every framework. A clone is
/// the same event. Events measure no time.
///
/// In a child of fork of a process that used CUDA it can be dropped, and everything else is
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported).
pub struct CudaEvent {
    raw: NonNull<sys::tenon_cuda_event>,
}

// SAFETY: rule 8 in tenon.h: everything on CUDA events is safe concurrently.
unsafe impl Send for CudaEvent {}
// SAFETY: as above.
unsafe impl Sync for CudaEvent {}

impl CudaEvent {
    /// An event, which is complete until it is recorded.
    pub fn new(options: CudaEventOptions) -> Result<CudaEvent> {
        let options = options.raw();
        Ok(CudaEvent {
            // SAFETY: the options are borrowed for the call; what comes is a new reference.
            raw: make(|out, err| unsafe { sys::tenon_cuda_event_new(&options, out, err) })?,
        })
    }

    /// Open another process's event, on the device where it was made: both then mean the same mark,
    /// whichever of them records it. The process that made it cannot open it.
    ///
    /// # Safety
    /// The process that made the event keeps it until this one has let go: CUDA does not define
    /// what happens otherwise.
    pub unsafe fn from_ipc_handle(handle: &[u8; 64], device: i32) -> Result<CudaEvent> {
        let options = CudaEventOptions::new().device(device).raw();
        // SAFETY: handle and options are borrowed for the call; what comes is a new reference; the
        // caller's promise.
        let raw = make(|out, err| unsafe {
            sys::tenon_cuda_event_from_ipc_handle(handle.as_ptr(), &options, out, err)
        })?;
        Ok(CudaEvent { raw })
    }

    /// Mark what was given to the stream until now; an older mark is forgotten.
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the stream is of
    /// another context.
    ///
    /// # Safety
    /// `stream` is a CUDA stream (`CUstream` or `cudaStream_t`) of this process, NULL for the
    /// default one, or 0x2 for that of the calling thread.
    pub unsafe fn record(&self, stream: *mut c_void) -> Result<()> {
        // SAFETY: self keeps the event; the caller's promise.
        check(|err| unsafe { sys::tenon_cuda_event_record(self.raw.as_ptr(), stream, err) })
    }

    /// Let what is given to the stream from now on wait for the mark that was recorded last. The
    /// host does not wait.
    ///
    /// # Safety
    /// As for [`record`](Self::record).
    pub unsafe fn wait(&self, stream: *mut c_void) -> Result<()> {
        // SAFETY: self keeps the event; the caller's promise.
        check(|err| unsafe { sys::tenon_cuda_event_wait(self.raw.as_ptr(), stream, err) })
    }

    /// Whether the event is complete. One that nobody recorded is.
    pub fn query(&self) -> Result<bool> {
        let mut out = 0;
        // SAFETY: self keeps the event; out is ours.
        check(|err| unsafe { sys::tenon_cuda_event_query(self.raw.as_ptr(), &mut out, err) })?;
        Ok(out != 0)
    }

    /// Wait here, on the host, until the event is complete.
    pub fn synchronize<'w>(&self, wait: impl Into<Wait<'w>>) -> Result<()> {
        let wait = wait.into().raw();
        // SAFETY: self keeps the event; the wait is borrowed for the call.
        check(|err| unsafe { sys::tenon_cuda_event_synchronize(self.raw.as_ptr(), &wait, err) })
    }

    /// The handle by which other processes open the event, the same each time.
    pub fn ipc_handle(&self) -> Result<[u8; 64]> {
        let mut out = [0; 64];
        // SAFETY: self keeps the event; out has the 64 bytes.
        check(|err| unsafe {
            sys::tenon_cuda_event_ipc_handle(self.raw.as_ptr(), out.as_mut_ptr(), err)
        })?;
        Ok(out)
    }
}

impl Clone for CudaEvent {
    fn clone(&self) -> CudaEvent {
        // SAFETY: self keeps the event; what comes is the same one, counted once more, for the copy
        // to release.
        unsafe { sys::tenon_cuda_event_retain(self.raw.as_ptr()) };
        CudaEvent { raw: self.raw }
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and gone after this.
        unsafe { sys::tenon_cuda_event_release(self.raw.as_ptr()) };
    }
}

impl fmt::Debug for CudaEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CudaEvent")
    }
}
