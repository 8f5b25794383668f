//! Waits: how long a call may take, and how it is ended from outside.

use std::fmt;
use std::mem::size_of;
use std::ptr::{self, NonNull};
use std::time::Duration;

use crate::error::{make, Result};
use crate::sys;

/// How long a call may wait. A [`Duration`] becomes one by itself.
///
/// ```
/// use std::time::Duration;
/// use tenon::{Cancel, Wait};
///
/// let cancel = Cancel::new()?;
/// let wait = Wait::at_most(Duration::from_secs(5)).cancelled_by(&cancel);
/// # let _ = wait;
/// # Ok::<(), tenon::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Wait<'a> {
    timeout_ns: i64,
    cancel: Option<&'a Cancel>,
    interruptible: bool,
}

impl<'a> Wait<'a> {
    /// For ever.
    pub const FOREVER: Wait<'static> = Wait { timeout_ns: -1, cancel: None, interruptible: false };
    /// Not at all: what would wait is [`ErrorKind::WouldBlock`](crate::ErrorKind::WouldBlock).
    pub const NOT: Wait<'static> = Wait { timeout_ns: 0, cancel: None, interruptible: false };

    /// As long as that, then [`ErrorKind::Timeout`](crate::ErrorKind::Timeout). Zero is
    /// [`Wait::NOT`].
    pub fn at_most(timeout: Duration) -> Wait<'a> {
        Wait {
            timeout_ns: i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX),
            cancel: None,
            interruptible: false,
        }
    }

    /// [`Cancel::trigger`] ends it with [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled).
    pub fn cancelled_by(self, cancel: &'a Cancel) -> Self {
        Wait { cancel: Some(cancel), ..self }
    }

    /// A signal whose handler returned ends it with
    /// [`ErrorKind::Interrupted`](crate::ErrorKind::Interrupted).
    pub fn interruptible(self) -> Self {
        Wait { interruptible: true, ..self }
    }

    pub(crate) fn raw(&self) -> sys::tenon_wait {
        sys::tenon_wait {
            struct_size: size_of::<sys::tenon_wait>(),
            timeout_ns: self.timeout_ns,
            cancel: self.cancel.map_or(ptr::null_mut(), |cancel| cancel.raw.as_ptr()),
            flags: if self.interruptible { sys::TENON_WAIT_INTERRUPTIBLE } else { 0 },
            reserved: 0,
        }
    }
}

impl From<Duration> for Wait<'_> {
    fn from(timeout: Duration) -> Self {
        Wait::at_most(timeout)
    }
}

/// Ends waits from outside. One serves any number of waits, at once or in turn.
pub struct Cancel {
    raw: NonNull<sys::tenon_cancel>,
}

// SAFETY: any thread may trigger (wait.h); reset and release, which no wait may meet, need it
// exclusively here.
unsafe impl Send for Cancel {}
// SAFETY: as above.
unsafe impl Sync for Cancel {}

impl Cancel {
    /// Not triggered. Uses one fd.
    pub fn new() -> Result<Cancel> {
        // SAFETY: out is ours.
        Ok(Cancel { raw: make(|out, err| unsafe { sys::tenon_cancel_new(out, err) })? })
    }

    /// End every wait that uses this cancel, now and later. Also from a signal handler.
    pub fn trigger(&self) {
        // SAFETY: self keeps it alive; any thread, async-signal-safe (wait.h).
        unsafe { sys::tenon_cancel_trigger(self.raw.as_ptr()) }
    }

    /// Make it fit for use again.
    pub fn reset(&mut self) {
        // SAFETY: no wait can be using it: a Wait borrows it, and self is borrowed exclusively.
        unsafe { sys::tenon_cancel_reset(self.raw.as_ptr()) }
    }
}

impl Drop for Cancel {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and no wait borrows it.
        unsafe { sys::tenon_cancel_release(self.raw.as_ptr()) }
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cancel")
    }
}
