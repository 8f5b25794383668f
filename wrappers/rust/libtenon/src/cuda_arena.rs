//! Arenas of device memory: one allocation, and so one handle, for many storages.

use std::fmt;
use std::mem::size_of;
use std::ptr::NonNull;

use crate::by_cuda::CudaTransport;
use crate::error::{check, make, Result};
use crate::storage::Storage;
use crate::sys;
use crate::wait::Wait;

/// Says how to make an arena on a device.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct CudaArenaOptions {
    device: i32,
    transport: CudaTransport,
    capacity_nbytes: u64,
}

impl CudaArenaOptions {
    /// The arena is on device 0, and lent in the way that the device offers. Every arena needs a
    /// capacity, which has no default.
    pub fn new() -> CudaArenaOptions {
        CudaArenaOptions::default()
    }

    /// Sets the device, in this process's numbering.
    pub fn device(self, device: i32) -> Self {
        CudaArenaOptions { device, ..self }
    }

    /// Sets the way to lend the memory: [`CudaTransport::Ipc`], [`CudaTransport::Fd`] or
    /// [`CudaTransport::Fabric`]. Without this option it is `Ipc` if the device has it, because
    /// PyTorch opens that, else `Fd`.
    pub fn transport(self, transport: CudaTransport) -> Self {
        CudaArenaOptions { transport, ..self }
    }

    /// Sets the size in bytes, rounded up to a size that the device can allocate. All of it is
    /// allocated at once.
    pub fn capacity(self, nbytes: u64) -> Self {
        CudaArenaOptions { capacity_nbytes: nbytes, ..self }
    }

    /// Makes the arena.
    pub fn create(&self) -> Result<CudaArena> {
        let options = sys::tenon_cuda_arena_options {
            struct_size: size_of::<sys::tenon_cuda_arena_options>(),
            device: self.device,
            transport: self.transport.raw(),
            capacity_nbytes: self.capacity_nbytes,
        };
        Ok(CudaArena {
            // SAFETY: options is borrowed for the call, and the result is a new reference.
            raw: make(|out, err| unsafe { sys::tenon_cuda_arena_new(&options, out, err) })?,
        })
    }
}

/// One allocation on a device in which many storages lie. A receiver opens it once for all of them,
/// whether they come over a [`Connection`](crate::Connection), by [`Storage::share_cuda`] or
/// through PyTorch.
///
/// A clone is one more reference. The memory is freed when the last reference and the last storage
/// in the arena are dropped and no stream and no receiver uses it any more. A borrower of one byte
/// can read and write all of it.
pub struct CudaArena {
    raw: NonNull<sys::tenon_cuda_arena>,
}

handle!(pub CudaArena, tenon_cuda_arena, tenon_cuda_arena_release, retain tenon_cuda_arena_retain);

impl CudaArena {
    /// Makes a storage in the arena. The content of its bytes is unspecified. A block is free when
    /// its storage was dropped, the work in the streams that used it is complete, and every
    /// receiver has released it or was killed. `wait` says how long a full arena waits for that.
    /// With [`Wait::NOT`] the error is
    /// [`ErrorKind::ResourceExhausted`](crate::ErrorKind::ResourceExhausted), and its detail
    /// `holders` says who holds the lent blocks.
    pub fn allocate<'w>(&self, nbytes: u64, wait: impl Into<Wait<'w>>) -> Result<Storage> {
        let wait = wait.into().raw();
        // SAFETY: self keeps the arena, and the wait is borrowed for the call.
        let raw = make(|out, err| unsafe {
            sys::tenon_cuda_arena_allocate(self.as_raw(), nbytes, &wait, out, err)
        })?;
        // SAFETY: the reference is new, and device memory has no mode.
        Ok(unsafe { Storage::adopt(raw) })
    }

    /// Tells what the arena holds now. It checks for memory that was given back first.
    pub fn stats(&self) -> Result<CudaArenaStats> {
        let mut raw = blank!(tenon_cuda_arena_stats);
        // SAFETY: self keeps the arena, and raw has its own struct_size.
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
}

impl fmt::Debug for CudaArena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CudaArena")
    }
}

/// Tells what an arena on a device holds, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CudaArenaStats {
    /// The device's ordinal in this process's numbering.
    pub device: i32,
    /// The way in which the memory is lent.
    pub transport: CudaTransport,
    /// The most bytes that it can hold.
    pub bytes_capacity: u64,
    /// Bytes in storages, or still used by a stream or a receiver.
    pub bytes_used: u64,
    /// Bytes that are not in use.
    pub bytes_free: u64,
    /// The size of the longest free piece.
    pub bytes_largest_free: u64,
    /// The most bytes that were in use at one time.
    pub bytes_peak: u64,
    /// Blocks in storages, or still used by a stream or a receiver.
    pub blocks_used: u64,
}
