//! Queues: many processes send messages to many processes, and each message goes to exactly one of
//! them.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};

use crate::error::{check, list, make, Result};
use crate::message::Message;
use crate::storage::{Storage, StorageMut};
use crate::sys;
use crate::wait::Wait;

/// Says how to make a queue or to join one. A number of 0 means the library's default. To join,
/// leave [`members`](Self::members), [`capacity`](Self::capacity) and
/// [`slot_nbytes`](Self::slot_nbytes) unset, or give the queue's own numbers.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct QueueOptions {
    members: u32,
    capacity: u32,
    slot_nbytes: u32,
    max_message_nbytes: u64,
    max_tensors: u64,
    flags: u32,
}

impl QueueOptions {
    /// All options have their defaults.
    pub fn new() -> QueueOptions {
        QueueOptions::default()
    }

    /// Sets the most processes that can be members at a time, 1 to 256. The default is 32.
    pub fn members(self, members: u32) -> Self {
        QueueOptions { members, ..self }
    }

    /// Sets how many messages of one member can wait, a power of two from 2 to 65,536. The default
    /// is 128. When so many wait, the member's next send waits for a receiver.
    pub fn capacity(self, capacity: u32) -> Self {
        QueueOptions { capacity, ..self }
    }

    /// Sets the bytes of a slot, which holds the description of one message: a multiple of 64, from
    /// 64 to 65,536. The default is 1,024. The queue takes `members * capacity * slot_nbytes`
    /// bytes.
    pub fn slot_nbytes(self, slot_nbytes: u32) -> Self {
        QueueOptions { slot_nbytes, ..self }
    }

    /// Sets the largest descriptor that is accepted, in bytes.
    pub fn max_message_nbytes(self, max_message_nbytes: u64) -> Self {
        QueueOptions { max_message_nbytes, ..self }
    }

    /// Sets the most tensors that are accepted in one message.
    pub fn max_tensors(self, max_tensors: u64) -> Self {
        QueueOptions { max_tensors, ..self }
    }

    /// Makes [`Queue::send`] and [`Queue::recv`] not report that a member has died.
    pub fn ignore_deaths(self) -> Self {
        QueueOptions { flags: self.flags | sys::TENON_QUEUE_IGNORE_DEATHS, ..self }
    }

    /// Makes a message come again if its receiver dies, or leaves the queue, before it has dropped
    /// the message. All of `TENON_QUEUE_REDELIVER` in `tenon/queue.h` holds. To join, leave it out,
    /// or set it if the queue has it.
    pub fn redeliver(self) -> Self {
        QueueOptions { flags: self.flags | sys::TENON_QUEUE_REDELIVER, ..self }
    }

    fn raw(&self) -> sys::tenon_queue_options {
        blank!(tenon_queue_options {
            flags: self.flags,
            members: self.members,
            capacity: self.capacity,
            slot_nbytes: self.slot_nbytes,
            max_message_nbytes: self.max_message_nbytes,
            max_tensors: self.max_tensors,
        })
    }
}

/// The membership of this process in a queue. A queue lies in a storage. Another process opens that
/// storage, in any way in which storages travel, and joins the queue with it. Processes join and
/// leave at any time. A drop leaves the queue.
///
/// Sends of one member wait for each other, and so do receives. A send and a receive can run at the
/// same time. The messages of one sender are received in the order in which it sent them. After
/// `fork` only the process that joined may use the membership. The child joins again with
/// [`storage`](Self::storage).
///
/// ```
/// use std::time::Duration;
/// use tenon::{Message, Queue, QueueOptions, TensorMut};
///
/// let queue = Queue::new(QueueOptions::new().members(8))?;
/// let other = Queue::join(&queue.storage(), QueueOptions::new())?; // would be in another process
///
/// let weight = TensorMut::zeros::<f32>(&[1000])?;
/// let mut message = Message::new()?;
/// message.add("weight", &weight)?;
/// queue.send(&message, Duration::from_secs(5))?;
///
/// let received = other.recv(Duration::from_secs(5))?;
/// received.find("weight").unwrap().writable()?.cells::<f32>()?[999].set(42.0);
/// assert_eq!(weight.cells::<f32>()?[999].get(), 42.0);
/// # Ok::<(), tenon::Error>(())
/// ```
pub struct Queue {
    raw: NonNull<sys::tenon_queue>,
}

handle!(pub Queue, tenon_queue, tenon_queue_release);

impl Queue {
    /// Makes a queue in a new storage, and makes this process its first member.
    pub fn new(options: QueueOptions) -> Result<Queue> {
        let options = options.raw();
        // SAFETY: options is borrowed for the call.
        Ok(Queue { raw: make(|out, err| unsafe { sys::tenon_queue_new(&options, out, err) })? })
    }

    /// Joins the queue that lies in a storage. The membership keeps the storage. If the storage
    /// holds no queue, the error is [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt). If the queue
    /// has as many members as it can have, the error is
    /// [`ErrorKind::ResourceExhausted`](crate::ErrorKind::ResourceExhausted), whose detail `limit`
    /// is `members`.
    pub fn join(storage: &StorageMut, options: QueueOptions) -> Result<Queue> {
        let options = options.raw();
        // SAFETY: both are borrowed for the call.
        let raw = make(|out, err| unsafe {
            sys::tenon_queue_join(storage.as_raw(), &options, out, err)
        })?;
        Ok(Queue { raw })
    }

    /// Returns the storage in which the queue lies, to hand it to other processes. The program must
    /// not write to it: the members would no longer find their messages.
    pub fn storage(&self) -> StorageMut {
        // SAFETY: the queue keeps its storage, which is never NULL. The call adds a reference, and
        // the storage is writable in each member.
        unsafe {
            let raw = sys::tenon_queue_storage(self.as_raw());
            sys::tenon_storage_retain(raw);
            StorageMut(Storage::adopt(NonNull::new_unchecked(raw)))
        }
    }

    /// Sends a message to one of the processes that receive from the queue, this process included.
    /// If the capacity of this member is used up, the call waits for room. After a failure nothing
    /// was sent, and the call can be repeated. Lent storages stay valid for the receiver after the
    /// message is dropped here. [`ErrorKind::PeerGone`](crate::ErrorKind::PeerGone) with the detail
    /// `member` reports once that a member has died, and the queue goes on.
    pub fn send<'w>(&self, message: &Message, wait: impl Into<Wait<'w>>) -> Result<()> {
        let wait = wait.into().raw();
        // SAFETY: all arguments are borrowed for the call.
        check(|err| unsafe { sys::tenon_queue_send(self.as_raw(), message.as_raw(), &wait, err) })
    }

    /// Receives a message. If the wait ends first, nothing is lost.
    /// [`ErrorKind::PeerGone`](crate::ErrorKind::PeerGone) reports once that a member has died
    /// (details `pid` and `member`). With the detail `lost`, a message went with its sender. The
    /// queue goes on after both.
    pub fn recv<'w>(&self, wait: impl Into<Wait<'w>>) -> Result<Message> {
        let wait = wait.into().raw();
        // SAFETY: all arguments are borrowed for the call, and the result is a new reference.
        unsafe {
            Ok(Message::adopt(make(|out, err| {
                sys::tenon_queue_recv(self.as_raw(), &wait, out, err)
            })?))
        }
    }

    /// Sends messages in their order, and waits until all are sent. Returns how many were sent. If
    /// the wait ends or another error comes before the last one, the result is smaller, and a call
    /// with the others gives the error. If none was sent, this call gives it.
    pub fn send_many<'w>(&self, messages: &[&Message], wait: impl Into<Wait<'w>>) -> Result<usize> {
        let wait = wait.into().raw();
        let raw: Vec<*const sys::tenon_message> =
            messages.iter().map(|each| each.as_raw().cast_const()).collect();
        let mut sent = 0;
        // SAFETY: all arguments are borrowed for the call, and raw has as many entries as it says.
        check(|err| unsafe {
            sys::tenon_queue_send_many(
                self.as_raw(),
                raw.as_ptr(),
                raw.len(),
                &wait,
                &mut sent,
                err,
            )
        })?;
        Ok(sent)
    }

    /// Receives up to `most` messages: waits for the first one, and then takes those that are
    /// there. An error that comes after the first message is the result of the next receive.
    pub fn recv_many<'w>(&self, most: usize, wait: impl Into<Wait<'w>>) -> Result<Vec<Message>> {
        let wait = wait.into().raw();
        let mut raw = vec![ptr::null_mut(); most];
        let mut received = 0;
        // SAFETY: all arguments are borrowed for the call, and raw has room for as many pointers as
        // the call is told.
        check(|err| unsafe {
            sys::tenon_queue_recv_many(
                self.as_raw(),
                &wait,
                raw.as_mut_ptr(),
                most,
                &mut received,
                err,
            )
        })?;
        // SAFETY: the call wrote `received` new references, none of which is NULL.
        Ok(raw[..received]
            .iter()
            .map(|&each| unsafe { Message::adopt(NonNull::new_unchecked(each)) })
            .collect())
    }

    /// Takes back the messages of this member that no process has received, and returns how many
    /// they were. Each message is either received or taken back.
    pub fn discard(&self) -> Result<usize> {
        let mut discarded = 0;
        // SAFETY: all arguments are borrowed for the call.
        check(|err| unsafe { sys::tenon_queue_discard(self.as_raw(), &mut discarded, err) })?;
        Ok(discarded)
    }

    /// Returns the fd by which an event loop waits for messages. When it is readable, call
    /// [`recv`](Self::recv) with [`Wait::NOT`]. The fd stays readable until that has returned
    /// [`ErrorKind::WouldBlock`](crate::ErrorKind::WouldBlock), and it may be readable in vain. Do
    /// not read from it. From then until the next receive this process counts as asleep: a sender
    /// may wake it instead of another receiver. With the feature `tokio`, `recv_async` does this.
    pub fn recv_fd(&self) -> Result<BorrowedFd<'_>> {
        // SAFETY: self keeps the queue.
        self.fd(|out, err| unsafe { sys::tenon_queue_recv_fd(self.as_raw(), out, err) })
    }

    /// Returns the fd by which an event loop waits for room. It is readable when there may be room,
    /// until [`send`](Self::send) with [`Wait::NOT`] has returned
    /// [`ErrorKind::WouldBlock`](crate::ErrorKind::WouldBlock).
    pub fn send_fd(&self) -> Result<BorrowedFd<'_>> {
        // SAFETY: self keeps the queue.
        self.fd(|out, err| unsafe { sys::tenon_queue_send_fd(self.as_raw(), out, err) })
    }

    fn fd(
        &self,
        call: impl FnOnce(*mut i32, *mut *mut sys::tenon_error) -> sys::tenon_status,
    ) -> Result<BorrowedFd<'_>> {
        let mut fd = -1;
        check(|err| call(&mut fd, err))?;
        // SAFETY: the fd belongs to the queue, and is open as long as the queue lives.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Says that the program does not look at the fds for now, so that senders wake other
    /// receivers. Both fds become readable. The next call with [`Wait::NOT`] that returns
    /// [`ErrorKind::WouldBlock`](crate::ErrorKind::WouldBlock) ends the pause.
    pub fn pause_fds(&self) {
        // SAFETY: self keeps the queue, and any thread may call this (queue.h).
        unsafe { sys::tenon_queue_pause_fds(self.as_raw()) }
    }

    /// Returns the figures of this moment.
    pub fn stats(&self) -> Result<QueueStats> {
        let mut raw = blank!(tenon_queue_stats);
        // SAFETY: raw belongs to this function, and has the size that it says.
        check(|err| unsafe { sys::tenon_queue_stats_get(self.as_raw(), &mut raw, err) })?;
        Ok(QueueStats {
            waiting: raw.waiting,
            sent: raw.sent,
            received: raw.received,
            lost: raw.lost,
        })
    }

    /// Lists the members in the order of their numbers.
    pub fn members(&self) -> Result<Vec<QueueMember>> {
        // SAFETY: there is room for as many entries as the call is told, each with its own
        // struct_size.
        let raw = list(blank!(tenon_queue_member), |out, n, total, err| unsafe {
            sys::tenon_queue_members(self.as_raw(), out, n, total, err)
        })?;
        Ok(raw.iter().map(QueueMember::from_raw).collect())
    }

    /// Leaves the queue. Threads of this process that wait in it get
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument), and so do later calls.
    /// Messages that were sent stay in the queue as long as this process lives. A second call does
    /// nothing.
    pub fn leave(&self) {
        // SAFETY: self keeps the queue, and any thread may call this (queue.h).
        unsafe { sys::tenon_queue_leave(self.as_raw()) }
    }
}

impl Message {
    /// Returns how often this received message had been delivered before
    /// ([`QueueOptions::redeliver`]).
    pub fn redelivered(&self) -> u32 {
        // SAFETY: the message is borrowed for the call.
        unsafe { sys::tenon_queue_redelivered(self.as_raw()) }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("stats", &self.stats().ok()).finish()
    }
}

/// Figures about a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Messages in the queue that no process has received yet.
    pub waiting: u64,
    /// Messages that this member has sent.
    pub sent: u64,
    /// Messages that this member has received.
    pub received: u64,
    /// Messages of this member that a process took which died before it had them.
    pub lost: u64,
}

/// What a member of a queue is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueMemberState {
    /// It is about to become a member.
    Joining,
    /// It is a member.
    Here,
    /// It left in order.
    Left,
    /// Its process ended while it was a member.
    Dead,
    /// Its entry holds a number that this crate does not know.
    Unknown,
}

/// A member of a queue, or one that has gone and whose place nobody has taken since. The member
/// itself wrote these facts, and they may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueMember {
    /// The member's number in the queue.
    pub index: u32,
    /// What the member is doing.
    pub state: QueueMemberState,
    /// The process id, as the member itself sees it.
    pub pid: i32,
    /// The member's effective user id.
    pub uid: u32,
    /// How many messages it has sent that no process has received yet.
    pub waiting: u64,
    /// It sleeps until there is a message or room for one.
    pub is_asleep: bool,
    /// It is this member.
    pub is_self: bool,
}

impl QueueMember {
    fn from_raw(raw: &sys::tenon_queue_member) -> QueueMember {
        QueueMember {
            index: raw.index,
            state: match raw.state {
                sys::TENON_QUEUE_MEMBER_JOINING => QueueMemberState::Joining,
                sys::TENON_QUEUE_MEMBER_HERE => QueueMemberState::Here,
                sys::TENON_QUEUE_MEMBER_LEFT => QueueMemberState::Left,
                sys::TENON_QUEUE_MEMBER_DEAD => QueueMemberState::Dead,
                _ => QueueMemberState::Unknown,
            },
            pid: raw.pid,
            uid: raw.uid,
            waiting: raw.waiting,
            is_asleep: raw.asleep != 0,
            is_self: raw.self_ != 0,
        }
    }
}
