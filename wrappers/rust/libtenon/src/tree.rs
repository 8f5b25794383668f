//! Modules over one tree can be in several threads: a submodule that was looked up, the object that
//! a module is, a module that has two owners. The C library leaves it to its callers that nobody
//! looks at a tree while another changes it; who has which tree is not to be seen from outside, so
//! there is one lock for all. No code of a user's runs under it, but for the drop of what a change
//! lets go: an
//! export gives it back around each callback, since the C library itself refuses changes from the
//! first of them to the last.

use std::cell::Cell;
use std::sync::{PoisonError, RwLock};

use crate::error::{Error, ErrorKind, Result};
use crate::panic;

static TREES: RwLock<()> = RwLock::new(());

thread_local! {
    static HELD: Cell<bool> = const { Cell::new(false) };
}

/// That this thread has the lock, until it is dropped.
struct Held;

impl Held {
    fn new() -> Result<Held> {
        if HELD.with(|held| held.replace(true)) {
            return Err(Error::new(
                ErrorKind::Permission,
                "a module cannot be used by what is dropped while one is changed",
            ));
        }
        Ok(Held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.with(|held| held.set(false));
    }
}

/// A call that looks at a tree.
pub(crate) fn look<R>(call: impl FnOnce() -> Result<R>) -> Result<R> {
    let _held = Held::new()?;
    let _guard = TREES.read().unwrap_or_else(PoisonError::into_inner);
    call()
}

/// A call that changes one, and can make last releases.
pub(crate) fn change<R>(call: impl FnOnce() -> Result<R>) -> Result<R> {
    let mut result = None;
    panic::release(|| {
        result = Some(Held::new().and_then(|_held| {
            let _guard = TREES.write().unwrap_or_else(PoisonError::into_inner);
            call()
        }));
    });
    result.unwrap_or_else(|| unreachable!("release calls once"))
}

/// The lock of an export, which its callbacks give back while they run.
pub(crate) struct ExportGuard(Option<(std::sync::RwLockReadGuard<'static, ()>, Held)>);

impl ExportGuard {
    pub(crate) fn new() -> Result<ExportGuard> {
        let held = Held::new()?;
        Ok(ExportGuard(Some((TREES.read().unwrap_or_else(PoisonError::into_inner), held))))
    }

    /// Run a callback, which may look at modules, and change those that are not exported. It does
    /// not panic.
    pub(crate) fn without<R>(&mut self, callback: impl FnOnce() -> R) -> R {
        self.0 = None;
        let result = callback();
        // The callback gave back whatever it held itself.
        self.0 = ExportGuard::new().ok().and_then(|mut again| again.0.take());
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    // One test at a time. A thread here waits, inside `look`, for another one that looks too: a
    // third that has asked for the write lock in between is let in first, and then nobody goes on.
    // Outside of tests nothing under the lock waits for another thread.
    static ONE: Mutex<()> = Mutex::new(());

    #[test]
    fn pure_one_changes_or_many_look() {
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(look(|| Ok(1)).unwrap(), 1);
        let inner = change(|| Ok(look(|| Ok(2)).unwrap_err().kind())).unwrap();
        assert_eq!(inner, ErrorKind::Permission);
        let inner = look(|| Ok(change(|| Ok(3)).unwrap_err().kind())).unwrap();
        assert_eq!(inner, ErrorKind::Permission);
        let together = look(|| {
            Ok(std::thread::scope(|scope| scope.spawn(|| look(|| Ok(4)).unwrap()).join().unwrap()))
        });
        assert_eq!(together.unwrap(), 4);
        assert_eq!(change(|| Ok(5)).unwrap(), 5);
    }

    #[test]
    fn pure_a_callback_of_an_export_is_free() {
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut guard = ExportGuard::new().unwrap();
        assert!(look(|| Ok(())).is_err());
        assert_eq!(guard.without(|| change(|| Ok(6))).unwrap(), 6);
        assert!(look(|| Ok(())).is_err());
        drop(guard);
        assert!(look(|| Ok(())).is_ok());
    }
}
