//! Waits: how long a call may wait, and how another thread ends a wait.

use std::fmt;
use std::ptr::{self, NonNull};
use std::time::Duration;

use crate::error::{make, Result};
use crate::sys;

/// Says how long a call may wait. A [`Duration`] converts into a `Wait`.
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
    /// Waits for ever.
    pub const FOREVER: Wait<'static> = Wait { timeout_ns: -1, cancel: None, interruptible: false };
    /// Does not wait. A call that would have to wait returns
    /// [`ErrorKind::WouldBlock`](crate::ErrorKind::WouldBlock).
    pub const NOT: Wait<'static> = Wait { timeout_ns: 0, cancel: None, interruptible: false };

    /// Waits for that time at most. Then the error is
    /// [`ErrorKind::Timeout`](crate::ErrorKind::Timeout). Zero means [`Wait::NOT`].
    pub fn at_most(timeout: Duration) -> Wait<'a> {
        Wait {
            timeout_ns: i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX),
            cancel: None,
            interruptible: false,
        }
    }

    /// Lets [`Cancel::trigger`] end the wait with
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled).
    pub fn cancelled_by(self, cancel: &'a Cancel) -> Self {
        Wait { cancel: Some(cancel), ..self }
    }

    /// Lets a signal whose handler returned end the wait with
    /// [`ErrorKind::Interrupted`](crate::ErrorKind::Interrupted).
    pub fn interruptible(self) -> Self {
        Wait { interruptible: true, ..self }
    }

    pub(crate) fn raw(&self) -> sys::tenon_wait {
        blank!(tenon_wait {
            timeout_ns: self.timeout_ns,
            cancel: self.cancel.map_or(ptr::null_mut(), |cancel| cancel.raw.as_ptr()),
            flags: if self.interruptible { sys::TENON_WAIT_INTERRUPTIBLE } else { 0 },
        })
    }
}

impl From<Duration> for Wait<'_> {
    fn from(timeout: Duration) -> Self {
        Wait::at_most(timeout)
    }
}

/// Ends waits from another thread or from a signal handler. One `Cancel` serves any number of
/// waits, at once or one after another.
pub struct Cancel {
    raw: NonNull<sys::tenon_cancel>,
}

handle!(Cancel, tenon_cancel, tenon_cancel_release);

impl Cancel {
    /// Makes a cancel that is not triggered. It uses one fd.
    pub fn new() -> Result<Cancel> {
        // SAFETY: out is ours.
        Ok(Cancel { raw: make(|out, err| unsafe { sys::tenon_cancel_new(out, err) })? })
    }

    /// Ends every wait that uses this cancel, now and later. A signal handler may call this
    /// function.
    pub fn trigger(&self) {
        // SAFETY: self keeps the cancel alive. Any thread may call this, and it is
        // async-signal-safe (wait.h).
        unsafe { sys::tenon_cancel_trigger(self.as_raw()) }
    }

    /// Makes the cancel usable again after [`trigger`](Self::trigger).
    pub fn reset(&mut self) {
        // SAFETY: no wait can be using the cancel, because a Wait borrows it and self is borrowed
        // exclusively.
        unsafe { sys::tenon_cancel_reset(self.as_raw()) }
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cancel")
    }
}
