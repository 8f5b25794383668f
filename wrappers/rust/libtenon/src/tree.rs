//! The lock for trees of modules. Several threads can have modules over one tree: a submodule, the
//! object that a module is, or a module that has two owners. The C library leaves it to its callers
//! that no thread reads a tree while another thread changes it. A caller cannot see which modules
//! belong to one tree, so there is one lock for all trees.
//!
//! No code of the user runs under the lock, except for the drop of what a change removes. An export
//! releases the lock around each callback. It can do that because the C library itself refuses
//! changes from the first callback to the last.

use std::cell::Cell;
use std::sync::{PoisonError, RwLock};

use crate::error::{Error, ErrorKind, Result};
use crate::panic;

static TREES: RwLock<()> = RwLock::new(());

thread_local! {
    static HELD: Cell<bool> = const { Cell::new(false) };
}

/// Says that this thread has the lock, until it is dropped.
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

/// Runs a call that reads a tree.
pub(crate) fn look<R>(call: impl FnOnce() -> Result<R>) -> Result<R> {
    let _held = Held::new()?;
    let _guard = TREES.read().unwrap_or_else(PoisonError::into_inner);
    call()
}

/// Runs a call that changes a tree, and that can make last releases.
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

/// The lock of an export. The export gives it back while a callback runs.
pub(crate) struct ExportGuard(Option<(std::sync::RwLockReadGuard<'static, ()>, Held)>);

impl ExportGuard {
    pub(crate) fn new() -> Result<ExportGuard> {
        let held = Held::new()?;
        Ok(ExportGuard(Some((TREES.read().unwrap_or_else(PoisonError::into_inner), held))))
    }

    /// Runs a callback, which may read modules, and change those that are not exported. The
    /// callback must not panic.
    pub(crate) fn without<R>(&mut self, callback: impl FnOnce() -> R) -> R {
        self.0 = None;
        let result = callback();
        // The callback has released every lock that it took.
        self.0 = ExportGuard::new().ok().and_then(|mut again| again.0.take());
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    // Only one of these tests may run at a time. A thread of a test waits, inside `look`, for
    // another thread that calls `look` too. If a third thread asks for the write lock in between,
    // it gets the lock before that other thread, and all of them wait for ever. Outside of tests no
    // code waits for another thread while it holds the lock.
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
