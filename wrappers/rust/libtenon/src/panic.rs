//! Panics in the user's callbacks (owners, deleters). They must never cross the library's C++
//! frames. So a panic is kept while those frames are on the stack, and continues in the Rust frame
//! that made the last release.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::thread;

thread_local! {
    /// Whether a Rust frame below runs `release`.
    static CATCHING: Cell<bool> = const { Cell::new(false) };
    static CAUGHT: RefCell<Option<Box<dyn Any + Send>>> = const { RefCell::new(None) };
}

/// Runs a callback of the library. It returns normally even if the callback panics.
pub(crate) fn callback(body: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
        let catching = CATCHING.try_with(Cell::get).unwrap_or(false);
        let mut payload = Some(payload);
        if catching {
            // If one release has two panics, the first one continues.
            let _ = CAUGHT.try_with(|caught| {
                let mut caught = caught.borrow_mut();
                if caught.is_none() {
                    *caught = payload.take();
                }
            });
        }
        discard(payload);
    }
}

/// Drops a panic that no frame can continue. The panic hook has reported it already. Dropping the
/// payload can panic again.
fn discard(payload: impl Any) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
}

/// Runs a call that can make a last release, and so a callback. If the callback panics, the panic
/// continues from here, unless this thread is panicking already.
pub(crate) fn release(body: impl FnOnce()) {
    let outer = CATCHING.try_with(|catching| catching.replace(true)).unwrap_or(true);
    body();
    let _ = CATCHING.try_with(|catching| catching.set(outer));
    if let Some(payload) = CAUGHT.try_with(|caught| caught.borrow_mut().take()).ok().flatten() {
        if thread::panicking() {
            discard(payload);
        } else {
            resume_unwind(payload);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caught(body: impl FnOnce()) -> Option<&'static str> {
        catch_unwind(AssertUnwindSafe(body))
            .err()
            .map(|payload| *payload.downcast_ref::<&str>().unwrap())
    }

    #[test]
    fn pure_a_panic_goes_on_after_the_release() {
        let mut reached = false;
        let text = caught(|| {
            release(|| {
                callback(|| panic!("one"));
                callback(|| panic!("two"));
                reached = true;
            })
        });
        assert_eq!((text, reached), (Some("one"), true));
        assert_eq!(caught(|| release(|| {})), None);
    }

    #[test]
    fn pure_a_release_inside_a_callback() {
        let text = caught(|| release(|| callback(|| release(|| callback(|| panic!("inner"))))));
        assert_eq!(text, Some("inner"));
        assert_eq!(caught(|| release(|| {})), None);
    }

    #[test]
    fn pure_without_a_release_below_it_is_swallowed() {
        assert_eq!(caught(|| callback(|| panic!("nobody is there"))), None);
        assert_eq!(caught(|| release(|| {})), None);
    }

    #[test]
    fn pure_during_another_panic_it_is_swallowed() {
        struct Releases;
        impl Drop for Releases {
            fn drop(&mut self) {
                release(|| callback(|| panic!("second")));
            }
        }
        let text = caught(|| {
            let _releases = Releases;
            panic!("first");
        });
        assert_eq!(text, Some("first"));
        assert_eq!(caught(|| release(|| {})), None);
    }
}
