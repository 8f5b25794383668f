//! Tasks of tokio that wait for a queue. The fds of the queue (`Queue::recv_fd`, `Queue::send_fd`)
//! become readable when there may be a message, or room for one.

use std::os::fd::BorrowedFd;

use crate::error::Result;
use crate::message::Message;
use crate::queue::Queue;
use crate::readable::{when_readable, would_block};
use crate::wait::Wait;

impl Queue {
    /// Receives a message as [`recv`](Self::recv) does, in a task of tokio. If a message is there,
    /// the task does not wait. Any number of tasks may wait, in several runtimes too. If the future
    /// is dropped, no message is lost. The runtime must have its I/O driver
    /// (`Builder::enable_io`).
    ///
    /// The first message of a sender takes an exchange with the sender, for which the call blocks
    /// the thread for up to 20 ms.
    pub async fn recv_async(&self) -> Result<Message> {
        self.until_ready(|| self.recv(Wait::NOT), Queue::recv_fd).await
    }

    /// Sends a message as [`send`](Self::send) does, in a task of tokio. If there is room, the task
    /// does not wait. If the future is dropped before it has ended, nothing was sent.
    pub async fn send_async(&self, message: &Message) -> Result<()> {
        self.until_ready(|| self.send(message, Wait::NOT), Queue::send_fd).await
    }

    /// Calls `call` until its result is not WouldBlock.
    async fn until_ready<T>(
        &self,
        call: impl Fn() -> Result<T>,
        fd: impl for<'a> Fn(&'a Queue) -> Result<BorrowedFd<'a>>,
    ) -> Result<T> {
        let first = call();
        if !would_block(&first) {
            return first;
        }
        let waiting = Waiting { queue: self };
        let result = when_readable(fd(self)?, call).await;
        if result.is_ok() {
            std::mem::forget(waiting);
        }
        result
    }
}

/// A sender may have woken this process for a message that a dropped future does not receive. So
/// the drop passes the wake on. Other tasks of this process look once more.
struct Waiting<'q> {
    queue: &'q Queue,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.queue.pause_fds();
    }
}
