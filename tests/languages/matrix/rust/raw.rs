//! Bare sockets, without a connection on them, which carry fds beside one byte.

use std::io::{ErrorKind, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::net::{
    recvmsg, sendmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use crate::line::{other, Outcome, Refused};

pub const WAIT: Duration = Duration::from_secs(10);
const MOST_FDS: usize = 253;

fn status<T>(status: &str, text: &str) -> Outcome<T> {
    Err(Refused::Error { status: status.into(), text: text.into() })
}

fn wait_readable(fd: impl AsFd) -> Outcome<()> {
    let timeout = Timespec { tv_sec: WAIT.as_secs() as i64, tv_nsec: 0 };
    match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
        Ok(0) => status("TIMEOUT", "nothing came"),
        Ok(_) => Ok(()),
        Err(errno) => other(errno.to_string()),
    }
}

pub fn accept(listener: &UnixListener) -> Outcome<UnixStream> {
    wait_readable(listener)?;
    Ok(listener.accept()?.0)
}

pub fn wait_for_a_byte(mut socket: &UnixStream) -> Outcome<()> {
    wait_readable(socket)?;
    match socket.read(&mut [0]) {
        Ok(0) => status("PEER_GONE", "the other end is closed"),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {
            status("PEER_GONE", "the other end is closed")
        }
        Err(error) => Err(error.into()),
    }
}

pub fn send_fd(socket: &UnixStream, fd: BorrowedFd<'_>) -> Outcome<()> {
    send_fds(socket, &[fd])
}

/// Sends one byte and at most 253 fds, the kernel's limit. There may be no fds.
pub fn send_fds(socket: &UnixStream, fds: &[BorrowedFd<'_>]) -> Outcome<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    match sendmsg(socket, &[IoSlice::new(b"*")], &mut control, SendFlags::NOSIGNAL) {
        Ok(_) => Ok(()),
        Err(errno) => other(errno.to_string()),
    }
}

pub fn receive_fd(socket: &UnixStream) -> Outcome<OwnedFd> {
    receive_fds(socket)?.pop().map_or_else(|| other("no fd came with the byte"), Ok)
}

pub fn receive_fds(socket: &UnixStream) -> Outcome<Vec<OwnedFd>> {
    wait_readable(socket)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    match recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)
    {
        Err(errno) => return other(errno.to_string()),
        Ok(received) if received.bytes == 0 => {
            return status("PEER_GONE", "the other end is closed")
        }
        Ok(_) => {}
    }
    let mut all = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            all.extend(fds);
        }
    }
    Ok(all)
}
