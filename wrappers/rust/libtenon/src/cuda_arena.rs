//! Arenas of device memory: one allocation, and so one handle, for many storages.

use std::fmt;
use std::mem::size_of;
use std::ptr::NonNull;

use crate::by_cuda::CudaTransport;
use crate::error::{check, make, Result};
use crate::storage::Storage;
use crate::sys;
use crate::wait::Wait;

/// How an arena on a device is made.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct CudaArenaOptions {
    device: i32,
    transport: CudaTransport,
    capacity_nbytes: u64,
}

impl CudaArenaOptions {
    /// On device 0, to be lent as it can be; without a capacity, which every arena needs.
    pub fn new() -> CudaArenaOptions {
        CudaArenaOptions::default()
    }

    /// On that device, in this process's numbering.
    pub fn device(self, device: i32) -> Self {
        CudaArenaOptions { device, ..self }
    }

    /// How it is to be lent: [`CudaTransport::Ipc`], [`CudaTransport::Fd`] or
    /// [`CudaTransport::Fabric`]. Without this: `Ipc` where the device has it, for PyTorch opens
    /// that, else `Fd`.
    pub fn transport(self, transport: CudaTransport) -> Self {
        CudaArenaOptions { transport, ..self }
    }

    /// So many bytes, all of which are taken at once; rounded up to what the device gives.
    pub fn capacity(self, nbytes: u64) -> Self {
        CudaArenaOptions { capacity_nbytes: nbytes, ..self }
    }

    /// Make the arena.
    pub fn create(&self) -> Result<CudaArena> {
        let options = sys::tenon_cuda_arena_options {
            struct_size: size_of::<sys::tenon_cuda_arena_options>(),
            device: self.device,
            transport: self.transport.raw(),
            capacity_nbytes: self.capacity_nbytes,
        };
        Ok(CudaArena {
            // SAFETY: options is borrowed for the call; what comes is a new reference.
            raw: make(|out, err| unsafe { sys::tenon_cuda_arena_new(&options, out, err) })?,
        })
    }
}

/// One allocation on a device, which whoever receives its storages opens once, be it over a
/// [`Connection`](crate::Connection), by [`Storage::share_cuda`] or in PyTorch.
///
/// A clone is one more reference; the memory goes with the last one, the last storage in it and the
/// last who keeps it. Who is lent one byte of it can read and write all of it.
pub struct CudaArena {
    raw: NonNull<sys::tenon_cuda_arena>,
}

// SAFETY: everything on arenas may be called by any thread, at once (cuda_arena.h).
unsafe impl Send for CudaArena {}
// SAFETY: as above.
unsafe impl Sync for CudaArena {}

impl CudaArena {
    /// A storage in it, whose bytes are what they happen to be. A block is free when its storage
    /// has gone, the streams in which it was used have passed, and every receiver has let go or was
    /// killed; `wait` says how long a full arena waits for that. With [`Wait::NOT`] it is
    /// [`ErrorKind::ResourceExhausted`](crate::ErrorKind::ResourceExhausted), whose detail
    /// `holders` says who holds what was lent.
    pub fn allocate<'w>(&self, nbytes: u64, wait: impl Into<Wait<'w>>) -> Result<Storage> {
        let wait = wait.into().raw();
        // SAFETY: self keeps the arena; the wait is borrowed for the call.
        let raw = make(|out, err| unsafe {
            sys::tenon_cuda_arena_allocate(self.as_raw(), nbytes, &wait, out, err)
        })?;
        // SAFETY: a new reference; device memory has no mode.
        Ok(unsafe { Storage::adopt(raw) })
    }

    /// What it holds, now. Looks for what was given back first.
    pub fn stats(&self) -> Result<CudaArenaStats> {
        let mut raw = sys::tenon_cuda_arena_stats {
            struct_size: size_of::<sys::tenon_cuda_arena_stats>(),
            device: 0,
            transport: sys::TENON_CUDA_NO_MEMORY,
            bytes_capacity: 0,
            bytes_used: 0,
            bytes_free: 0,
            bytes_largest_free: 0,
            bytes_peak: 0,
            blocks_used: 0,
        };
        // SAFETY: self keeps the arena; raw is of its own struct_size.
        check(|err| unsafe { sys::tenon_cuda_arena_stats_get(self.as_raw(), &mut raw, err) })?;
        Ok(CudaArenaStats {
            device: raw.device,
            transport: CudaTransport::from_raw(raw.transport),
            bytes_capacity: raw.bytes_capacity,
            bytes_used: raw.bytes_used,
            bytes_free: raw.bytes_free,
            bytes_largest_free: raw.bytes_largest_free,
            bytes_peak: raw.bytes_peak,
            blocks_used: raw.blocks_used,
        })
    }

    /// The C object, borrowed.
    pub fn as_raw(&self) -> *mut sys::tenon_cuda_arena {
        self.raw.as_ptr()
    }
}

impl Clone for CudaArena {
    fn clone(&self) -> CudaArena {
        // SAFETY: self keeps the arena; what comes is the same one, counted once more, for the copy
        // to release.
        unsafe { sys::tenon_cuda_arena_retain(self.as_raw()) };
        CudaArena { raw: self.raw }
    }
}

impl Drop for CudaArena {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and gone after this.
        unsafe { sys::tenon_cuda_arena_release(self.as_raw()) };
    }
}

impl fmt::Debug for CudaArena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CudaArena")
    }
}

/// What an arena on a device holds, of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CudaArenaStats {
    /// In this process's numbering.
    pub device: i32,
    /// How it is lent.
    pub transport: CudaTransport,
    /// What it can hold.
    pub bytes_capacity: u64,
    /// In storages, or kept by a stream or a receiver.
    pub bytes_used: u64,
    /// Nobody's.
    pub bytes_free: u64,
    /// The longest piece of them.
    pub bytes_largest_free: u64,
    /// The most that was used at once.
    pub bytes_peak: u64,
    /// Storages, or what is kept of them.
    pub blocks_used: u64,
}
