//! Figures about the library in this process: what it holds and what it has done.

use std::ffi::CStr;

use crate::error::{check, Result};
use crate::sys;

/// What the library holds and has done in this process. The figures are read one after another, so
/// other threads can change some of them in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Payload bytes that were copied since the process began.
    pub bytes_copied: u64,
    /// Storages that are alive.
    pub storages: u64,
    /// Mapped segments, this process's own and opened ones.
    pub segments: u64,
    /// Fds that these segments hold.
    pub segment_fds: u64,
    /// Bytes of memory that this process's own segments have reserved from the system.
    pub bytes_reserved: u64,
    /// The part of `bytes_reserved` in living storages.
    pub bytes_live: u64,
    /// The part of `bytes_reserved` that was lent without a lease and released. It is freed with
    /// its segment.
    pub bytes_retired: u64,
    /// Bytes in storages that belong to other processes and are open here.
    pub bytes_opened: u64,
}

/// Returns the figures.
pub fn stats() -> Result<Stats> {
    let mut raw = blank!(tenon_stats);
    // SAFETY: raw has its own struct_size.
    check(|err| unsafe { sys::tenon_stats_get(&mut raw, err) })?;
    Ok(Stats {
        bytes_copied: raw.bytes_copied,
        storages: raw.storages,
        segments: raw.segments,
        segment_fds: raw.segment_fds,
        bytes_reserved: raw.bytes_reserved,
        bytes_live: raw.bytes_live,
        bytes_retired: raw.bytes_retired,
        bytes_opened: raw.bytes_opened,
    })
}

/// Returns the version of the linked C library, as "MAJOR.MINOR.PATCH".
pub fn version() -> &'static str {
    // SAFETY: the text is in static storage and never NULL, and any code may call this at any time
    // (version.h).
    unsafe { CStr::from_ptr(sys::tenon_version_string()) }.to_str().unwrap_or_default()
}
