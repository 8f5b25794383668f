//! How a task of tokio waits until a call can succeed: by an fd that is readable then.

use std::os::fd::BorrowedFd;

use tokio::io::unix::AsyncFd;
use tokio::io::Interest;

use crate::error::{Error, ErrorKind, Result};

pub(crate) fn would_block<T>(result: &Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

/// Calls `call`, and again each time that the fd becomes readable, until its result is not
/// WouldBlock.
pub(crate) async fn when_readable<T>(
    fd: BorrowedFd<'_>,
    call: impl Fn() -> Result<T>,
) -> Result<T> {
    // A runtime can watch an fd once only, so each task has an fd of its own to the same file.
    let fd = fd.try_clone_to_owned().map_err(io_error)?;
    // Later versions of tokio prefer a function that versions for Rust 1.78 do not have.
    #[allow(deprecated)]
    let fd = AsyncFd::with_interest(fd, Interest::READABLE).map_err(io_error)?;
    // Before the runtime watched the fd, another thread may have taken away what made it readable.
    let mut result = call();
    while would_block(&result) {
        let mut guard = fd.readable().await.map_err(io_error)?;
        // The runtime hears only of changes. If the fd changes from here on, clear_ready() does
        // nothing.
        result = call();
        if would_block(&result) {
            guard.clear_ready();
        }
    }
    result
}

fn io_error(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("tokio cannot watch an fd of the library: {error}"))
        .caused_by(Box::new(error))
}
