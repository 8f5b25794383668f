//! What this library holds and has done in this process.

use std::ffi::CStr;
use std::mem::size_of;

use crate::error::{check, Result};
use crate::sys;

/// Figures of one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Payload bytes that the library copied since the process began.
    pub bytes_copied: u64,
    /// Storages alive.
    pub storages: u64,
    /// Segments mapped, own and opened.
    pub segments: u64,
    /// Fds that those segments hold.
    pub segment_fds: u64,
    /// Bytes of memory that own segments have reserved from the system.
    pub bytes_reserved: u64,
    /// Bytes of them in living storages.
    pub bytes_live: u64,
    /// Bytes of them that were lent and released: not used again until their segment goes.
    pub bytes_retired: u64,
    /// Bytes of storages that belong to other processes and are open here.
    pub bytes_opened: u64,
}

/// The figures of this moment.
pub fn stats() -> Result<Stats> {
    let mut raw = sys::tenon_stats {
        struct_size: size_of::<sys::tenon_stats>(),
        bytes_copied: 0,
        storages: 0,
        segments: 0,
        segment_fds: 0,
        bytes_reserved: 0,
        bytes_live: 0,
        bytes_retired: 0,
        bytes_opened: 0,
    };
    // SAFETY: raw is of its own struct_size.
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

/// The version of the C library that is linked, as "MAJOR.MINOR.PATCH".
pub fn version() -> &'static str {
    // SAFETY: static storage, never NULL, any time (version.h).
    unsafe { CStr::from_ptr(sys::tenon_version_string()) }.to_str().unwrap_or_default()
}
