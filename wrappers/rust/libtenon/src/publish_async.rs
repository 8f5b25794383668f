//! Tasks of tokio that wait for a message of a publisher.

use std::os::fd::AsFd;

use crate::error::Result;
use crate::message::Message;
use crate::publish::Subscriber;
use crate::readable::{when_readable, would_block};
use crate::wait::Wait;

impl Subscriber {
    /// Receives the next message as [`recv`](Self::recv) does, in a task of tokio. If a message is
    /// there, the task does not wait. Any number of tasks may wait, in several runtimes too. If the
    /// future is dropped, no message is lost. The runtime must have its I/O driver
    /// (`Builder::enable_io`).
    pub async fn recv_async(&self) -> Result<Message> {
        let first = self.recv(Wait::NOT);
        if !would_block(&first) {
            return first;
        }
        when_readable(self.as_fd(), || self.recv(Wait::NOT)).await
    }
}
