//! Leases: which processes hold blocks of this process, and how a process does without the
//! library's thread.

use std::os::fd::RawFd;
use std::time::Duration;

use crate::error::{check, list, Result};
use crate::sys;

/// A borrower that holds leases of this process's blocks, over one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseHolder {
    /// The process id from the kernel. It is 0 if this process does not see the pid namespace.
    pub pid: i32,
    /// The user id from the kernel.
    pub uid: u32,
    /// The number of leases that it holds now.
    pub leases: u64,
    /// The bytes in their blocks. A block with two leases counts twice.
    pub nbytes: u64,
    /// The number of leases that were ever granted to it.
    pub granted: u64,
    /// The bytes in the blocks of the leases that were ever granted to it.
    pub granted_bytes: u64,
    /// The time since the first of these leases.
    pub age: Duration,
}

/// Lists the holders of leases, usually with one entry for each connection.
pub fn lease_holders() -> Result<Vec<LeaseHolder>> {
    // SAFETY: there is room for as many entries as the call is told, each with its own
    // struct_size.
    let raw = list(blank!(tenon_lease_holder), |out, n, total, err| unsafe {
        sys::tenon_lease_holders(out, n, total, err)
    })?;
    Ok(raw.iter().map(LeaseHolder::from_raw).collect())
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

/// Makes the library start no thread in this process. The process must then poll [`lease_fd`] and
/// call [`lease_poll`]. Call it before the first lend and the first use of a name.
pub fn lease_use_no_thread() -> Result<()> {
    // SAFETY: any thread may call this (lease.h).
    check(|err| unsafe { sys::tenon_lease_use_no_thread(err) })
}

/// Returns the fd to poll in a process without the library's thread. It is readable when
/// [`lease_poll`] has something to do. The library owns it. A child of fork gets another fd.
pub fn lease_fd() -> Result<RawFd> {
    let mut fd = -1;
    // SAFETY: fd belongs to this function.
    check(|err| unsafe { sys::tenon_lease_fd(&mut fd, err) })?;
    Ok(fd)
}

/// Does the work that is due in a process without the library's thread. It does not block and takes
/// about a millisecond at most. If more work is left, the fd stays readable. There is one
/// exception: releasing memory that a device has pinned may wait for the device.
pub fn lease_poll() -> Result<()> {
    // SAFETY: any thread may call this (lease.h).
    check(|err| unsafe { sys::tenon_lease_poll(err) })
}
