//! Leases: who holds blocks of this process, and looking after them without a thread.

use std::mem::size_of;
use std::os::fd::RawFd;
use std::ptr;
use std::time::Duration;

use crate::error::{check, Result};
use crate::sys;

/// Who holds leases of this process's blocks, over one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseHolder {
    /// As the kernel tells it; 0: of a pid namespace that this process does not see.
    pub pid: i32,
    /// As the kernel tells it.
    pub uid: u32,
    /// That stand now.
    pub leases: u64,
    /// Bytes of their blocks; a block with two leases counts twice.
    pub nbytes: u64,
    /// Leases ever granted.
    pub granted: u64,
    /// Bytes of their blocks.
    pub granted_bytes: u64,
    /// Since the first of them.
    pub age: Duration,
}

/// Who holds leases, one entry for each connection that does.
pub fn lease_holders() -> Result<Vec<LeaseHolder>> {
    const EMPTY: sys::tenon_lease_holder = sys::tenon_lease_holder {
        struct_size: size_of::<sys::tenon_lease_holder>(),
        pid: 0,
        uid: 0,
        leases: 0,
        nbytes: 0,
        granted: 0,
        granted_bytes: 0,
        age_ns: 0,
    };
    let mut total = 0;
    // SAFETY: without room nothing is written but the total.
    check(|err| unsafe { sys::tenon_lease_holders(ptr::null_mut(), 0, &mut total, err) })?;
    let mut raw = Vec::new();
    loop {
        // Some more may come meanwhile.
        raw.resize(total + 1, EMPTY);
        // SAFETY: there is room for as many as is said, each of its own struct_size.
        check(|err| unsafe {
            sys::tenon_lease_holders(raw.as_mut_ptr(), raw.len(), &mut total, err)
        })?;
        if total <= raw.len() {
            raw.truncate(total);
            return Ok(raw.iter().map(LeaseHolder::from_raw).collect());
        }
    }
}

impl LeaseHolder {
    fn from_raw(raw: &sys::tenon_lease_holder) -> LeaseHolder {
        LeaseHolder {
            pid: raw.pid,
            uid: raw.uid,
            leases: raw.leases,
            nbytes: raw.nbytes,
            granted: raw.granted,
            granted_bytes: raw.granted_bytes,
            age: Duration::from_nanos(raw.age_ns),
        }
    }
}

/// Have no thread: the process itself polls [`lease_fd`] and calls [`lease_poll`]. Before the first
/// lend and the first use of a name.
pub fn lease_use_no_thread() -> Result<()> {
    // SAFETY: any thread (lease.h).
    check(|err| unsafe { sys::tenon_lease_use_no_thread(err) })
}

/// The fd to poll, borrowed, readable when [`lease_poll`] has something to do; another one in a
/// child of fork. Without a thread only.
pub fn lease_fd() -> Result<RawFd> {
    let mut fd = -1;
    // SAFETY: out is ours.
    check(|err| unsafe { sys::tenon_lease_fd(&mut fd, err) })?;
    Ok(fd)
}

/// Do what is due, and never block: about a millisecond at most, and the fd stays readable if there
/// is more. Without a thread only. But the end of memory that a device has pinned may wait for the
/// device.
pub fn lease_poll() -> Result<()> {
    // SAFETY: any thread (lease.h).
    check(|err| unsafe { sys::tenon_lease_poll(err) })
}
