//! Publishers and subscribers: one process publishes messages, and each of them reaches every
//! subscriber.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::ptr::NonNull;

use crate::connection::ConnectionOptions;
use crate::error::{check, list, make, ErrorKind, Result};
use crate::message::Message;
use crate::sys;
use crate::text::c_path;
use crate::wait::Wait;

/// Says what [`Publisher::publish`] does when a subscriber has no room for another message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PublishPolicy {
    /// It waits until every subscriber has room.
    #[default]
    Block,
    /// It withdraws the oldest message that the subscriber has not taken, and never waits. If a
    /// subscriber has not read its socket for so long that the socket is full, a message that needs
    /// the socket does not reach this subscriber.
    DropOldest,
    /// It fails with [`ErrorKind::ResourceExhausted`](crate::ErrorKind::ResourceExhausted), and no
    /// subscriber gets the message.
    Error,
}

/// Says how to make a publisher. A number of 0 means the library's default.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct PublisherOptions {
    policy: PublishPolicy,
    capacity: u32,
    slot_nbytes: u32,
    max_subscribers: u32,
    flags: u32,
    group: u32,
}

impl PublisherOptions {
    /// All options have their defaults.
    pub fn new() -> PublisherOptions {
        PublisherOptions::default()
    }

    /// Sets what a publish does when a subscriber has no room.
    pub fn policy(self, policy: PublishPolicy) -> Self {
        PublisherOptions { policy, ..self }
    }

    /// Sets how many messages can wait for one subscriber, a power of two up to 65,536. The default
    /// is 64.
    pub fn capacity(self, capacity: u32) -> Self {
        PublisherOptions { capacity, ..self }
    }

    /// Sets the bytes of a slot, which holds the description of one message: a multiple of 64, from
    /// 64 to 65,536. The default is 1,024. Each subscriber takes `capacity * slot_nbytes` bytes.
    pub fn slot_nbytes(self, slot_nbytes: u32) -> Self {
        PublisherOptions { slot_nbytes, ..self }
    }

    /// Sets the most subscribers at a time. The default is 256.
    pub fn max_subscribers(self, max_subscribers: u32) -> Self {
        PublisherOptions { max_subscribers, ..self }
    }

    /// Refuses a subscriber whose user is neither this process's user nor root.
    pub fn same_user(self) -> Self {
        PublisherOptions { flags: self.flags | sys::TENON_PUBLISHER_SAME_USER, ..self }
    }

    /// As [`same_user`](Self::same_user), but accepts the members of a group too.
    pub fn group(self, gid: u32) -> Self {
        PublisherOptions { group: gid, flags: self.flags | sys::TENON_PUBLISHER_GROUP, ..self }
    }

    /// Makes [`Publisher::publish`] not report that a subscriber is gone.
    pub fn ignore_deaths(self) -> Self {
        PublisherOptions { flags: self.flags | sys::TENON_PUBLISHER_IGNORE_DEATHS, ..self }
    }

    /// Does not give a new subscriber the latest message. Otherwise the publisher keeps the memory
    /// of that message.
    pub fn forget_latest(self) -> Self {
        PublisherOptions { flags: self.flags | sys::TENON_PUBLISHER_FORGET_LATEST, ..self }
    }

    fn raw(&self) -> sys::tenon_publisher_options {
        blank!(tenon_publisher_options {
            flags: self.flags,
            policy: match self.policy {
                PublishPolicy::Block => sys::TENON_PUBLISH_BLOCK,
                PublishPolicy::DropOldest => sys::TENON_PUBLISH_DROP_OLDEST,
                PublishPolicy::Error => sys::TENON_PUBLISH_ERROR,
            },
            group: self.group,
            capacity: self.capacity,
            slot_nbytes: self.slot_nbytes,
            max_subscribers: self.max_subscribers,
        })
    }
}

/// Sends messages to all its subscribers. A drop removes the sockets on which the publisher
/// listens. Subscribers still receive what was published, and then
/// [`ErrorKind::PeerGone`](crate::ErrorKind::PeerGone).
///
/// Publishes wait for each other. A subscriber receives the messages in the order in which they
/// were published. After `fork` only the process that made the publisher may use it.
///
/// ```
/// use std::time::Duration;
/// use tenon::{ConnectionOptions, Message, Publisher, PublisherOptions, Subscriber, TensorMut};
///
/// # let path = format!("/tmp/tenon-doc-{}", std::process::id());
/// let publisher = Publisher::new(PublisherOptions::new())?;
/// publisher.listen(&path, 0)?;
///
/// let weight = TensorMut::zeros::<f32>(&[1000])?;
/// let mut message = Message::new()?;
/// message.add("weight", &weight)?;
/// publisher.publish(&message, Duration::from_secs(5))?;
///
/// // Would be in another process. It gets the latest message although it comes later.
/// let patience = Duration::from_secs(5);
/// let subscriber = Subscriber::connect(&path, ConnectionOptions::new(), patience)?;
/// let received = subscriber.recv(patience)?;
/// received.find("weight").unwrap().writable()?.cells::<f32>()?[999].set(42.0);
/// assert_eq!(weight.cells::<f32>()?[999].get(), 42.0);
/// # Ok::<(), tenon::Error>(())
/// ```
pub struct Publisher {
    raw: NonNull<sys::tenon_publisher>,
}

handle!(pub Publisher, tenon_publisher, tenon_publisher_release);

impl Publisher {
    /// Makes a publisher without subscribers.
    pub fn new(options: PublisherOptions) -> Result<Publisher> {
        let options = options.raw();
        // SAFETY: options is borrowed for the call.
        let raw = make(|out, err| unsafe { sys::tenon_publisher_new(&options, out, err) })?;
        Ok(Publisher { raw })
    }

    /// Makes a local socket with this path, to which subscribers connect
    /// ([`Subscriber::connect`]). `mode` is the permission bits of the socket: who may connect must
    /// be able to write to it. 0 means 0600, or 0660 with [`PublisherOptions::group`], which also
    /// gives the socket to that group. The socket of a process that has ended is replaced. A
    /// publisher can have several sockets.
    pub fn listen(&self, path: impl AsRef<Path>, mode: u32) -> Result<()> {
        let path = c_path(path.as_ref())?;
        // SAFETY: path is borrowed for the call.
        check(|err| unsafe { sys::tenon_publisher_listen(self.as_raw(), path.as_ptr(), mode, err) })
    }

    /// Takes the process at the other end of a connected AF_UNIX socket as a subscriber. That
    /// process calls [`Subscriber::new`] on its end. The publisher owns the socket, which is closed
    /// after a failure too. Without [`PublisherOptions::forget_latest`] the subscriber gets the
    /// latest message first.
    pub fn add(&self, socket: impl Into<OwnedFd>) -> Result<()> {
        let socket = socket.into();
        // SAFETY: the call takes the socket on success, and otherwise it is closed here.
        check(|err| unsafe { sys::tenon_publisher_add(self.as_raw(), socket.as_raw_fd(), err) })?;
        let _ = socket.into_raw_fd();
        Ok(())
    }

    /// Sends a message to every subscriber. After a failure no subscriber gets the message, and the
    /// call can be repeated. If the wait ends first, or if [`PublishPolicy::Error`] finds no room,
    /// the detail `pid` names the subscriber that has no room. Lent storages stay valid for the
    /// subscribers after the message is dropped here.
    /// [`ErrorKind::PeerGone`](crate::ErrorKind::PeerGone) with the detail `pid` reports once that
    /// a subscriber is gone, and the publisher goes on.
    pub fn publish<'w>(&self, message: &Message, wait: impl Into<Wait<'w>>) -> Result<()> {
        let wait = wait.into().raw();
        // SAFETY: all arguments are borrowed for the call.
        check(|err| unsafe { sys::tenon_publish(self.as_raw(), message.as_raw(), &wait, err) })
    }

    /// Removes the subscribers of a process, for example one that an error has named as slow. They
    /// receive what waits for them, and then [`ErrorKind::PeerGone`](crate::ErrorKind::PeerGone). A
    /// publish that waits for one of them goes on. The removal is not reported. If no subscriber is
    /// of this process, the error is [`ErrorKind::NotFound`](crate::ErrorKind::NotFound).
    pub fn remove(&self, pid: i32) -> Result<()> {
        // SAFETY: self keeps the publisher, and any thread may call this (publish.h).
        check(|err| unsafe { sys::tenon_publisher_remove(self.as_raw(), pid, err) })
    }

    /// Lists the subscribers.
    pub fn subscribers(&self) -> Result<Vec<PublisherSubscriber>> {
        // SAFETY: there is room for as many entries as the call is told, each with its own
        // struct_size.
        let raw = list(blank!(tenon_publisher_subscriber), |out, n, total, err| unsafe {
            sys::tenon_publisher_subscribers(self.as_raw(), out, n, total, err)
        })?;
        Ok(raw.iter().map(PublisherSubscriber::from_raw).collect())
    }

    /// Returns the figures of this moment.
    pub fn stats(&self) -> Result<PublisherStats> {
        let mut raw = blank!(tenon_publisher_stats);
        // SAFETY: raw belongs to this function, and has the size that it says.
        check(|err| unsafe { sys::tenon_publisher_stats_get(self.as_raw(), &mut raw, err) })?;
        Ok(PublisherStats {
            published: raw.published,
            dropped: raw.dropped,
            subscribers: raw.subscribers,
            gone: raw.gone,
        })
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("stats", &self.stats().ok()).finish()
    }
}

/// Figures about a publisher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublisherStats {
    /// Messages that were published.
    pub published: u64,
    /// Messages that subscribers did not get because of [`PublishPolicy::DropOldest`], of all
    /// subscribers together.
    pub dropped: u64,
    /// Subscribers now.
    pub subscribers: u64,
    /// Subscribers that are gone without having left, and that the publisher has removed.
    pub gone: u64,
}

/// What a subscriber is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubscriberState {
    /// It has not read anything yet.
    Joining,
    /// It is a subscriber.
    Here,
    /// It has left in order. The next publish removes it.
    Left,
    /// It is gone. The next publish removes and reports it.
    Gone,
    /// Its entry holds a number that this crate does not know.
    Unknown,
}

/// A subscriber, as its publisher sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublisherSubscriber {
    /// What the subscriber is doing.
    pub state: SubscriberState,
    /// The process id, as the kernel told it last: when the socket was connected, or when the
    /// subscriber took leases.
    pub pid: i32,
    /// The effective user id.
    pub uid: u32,
    /// It sleeps until there is a message.
    pub is_asleep: bool,
    /// How many messages it has not taken.
    pub waiting: u64,
    /// How many messages were published since it came, also those that it did not get.
    pub published: u64,
    /// How many of these were withdrawn before it took them.
    pub dropped: u64,
}

impl PublisherSubscriber {
    fn from_raw(raw: &sys::tenon_publisher_subscriber) -> PublisherSubscriber {
        PublisherSubscriber {
            state: match raw.state {
                sys::TENON_SUBSCRIBER_JOINING => SubscriberState::Joining,
                sys::TENON_SUBSCRIBER_HERE => SubscriberState::Here,
                sys::TENON_SUBSCRIBER_LEFT => SubscriberState::Left,
                sys::TENON_SUBSCRIBER_GONE => SubscriberState::Gone,
                _ => SubscriberState::Unknown,
            },
            pid: raw.pid,
            uid: raw.uid,
            is_asleep: raw.asleep != 0,
            waiting: raw.waiting,
            published: raw.published,
            dropped: raw.dropped,
        }
    }
}

/// Receives what one publisher sends. A drop leaves the publisher in order. Received memory stays
/// valid. Receives wait for each other. After `fork` only the process that made the subscriber may
/// use it. [`Publisher`] has an example.
pub struct Subscriber {
    raw: NonNull<sys::tenon_subscriber>,
}

handle!(pub Subscriber, tenon_subscriber, tenon_subscriber_release);

impl Subscriber {
    /// Makes a subscriber on one end of a socket, whose other end the publisher takes or has taken
    /// ([`Publisher::add`]). The subscriber owns the socket, which is closed after a failure too. A
    /// subscriber always has a ring, so [`ConnectionOptions::ring`] is
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported).
    pub fn new(socket: impl Into<OwnedFd>, options: ConnectionOptions) -> Result<Subscriber> {
        let socket = socket.into();
        let options = options.raw();
        // SAFETY: options is borrowed for the call. The call takes the socket on success, and
        // otherwise it is closed here.
        let raw = make(|out, err| unsafe {
            sys::tenon_subscriber_new(socket.as_raw_fd(), &options, out, err)
        })?;
        let _ = socket.into_raw_fd();
        Ok(Subscriber { raw })
    }

    /// Connects to the socket of a publisher ([`Publisher::listen`]), and waits until the publisher
    /// has taken this subscriber. Every message that is published after this call reaches it, and
    /// the latest one before comes first.
    pub fn connect<'w>(
        path: impl AsRef<Path>,
        options: ConnectionOptions,
        wait: impl Into<Wait<'w>>,
    ) -> Result<Subscriber> {
        let path = c_path(path.as_ref())?;
        let (options, wait) = (options.raw(), wait.into().raw());
        // SAFETY: all arguments are borrowed for the call.
        let raw = make(|out, err| unsafe {
            sys::tenon_subscriber_connect(path.as_ptr(), &options, &wait, out, err)
        })?;
        Ok(Subscriber { raw })
    }

    /// Receives the next message. If the wait ends first, nothing is lost.
    /// [`ErrorKind::PeerGone`](crate::ErrorKind::PeerGone) with the detail `pid` says that the
    /// publisher is gone, and that all that it published is received.
    pub fn recv<'w>(&self, wait: impl Into<Wait<'w>>) -> Result<Message> {
        let wait = wait.into().raw();
        // SAFETY: all arguments are borrowed for the call, and the result is a new reference.
        unsafe {
            Ok(Message::adopt(make(|out, err| {
                sys::tenon_subscriber_recv(self.as_raw(), &wait, out, err)
            })?))
        }
    }

    /// Receives messages without a time limit. The iterator ends when the publisher is gone and all
    /// that it published is received. Any other error is the last item, and a new iterator goes on
    /// behind it.
    pub fn messages(&self) -> impl Iterator<Item = Result<Message>> + '_ {
        let mut is_over = false;
        std::iter::from_fn(move || {
            let next = (!is_over).then(|| self.recv(Wait::FOREVER))?;
            is_over = next.is_err();
            Some(next)
                .filter(|next| !matches!(next, Err(error) if error.kind() == ErrorKind::PeerGone))
        })
    }

    /// Returns the figures of this moment.
    pub fn stats(&self) -> Result<SubscriberStats> {
        let mut raw = blank!(tenon_subscriber_stats);
        // SAFETY: raw belongs to this function, and has the size that it says.
        check(|err| unsafe { sys::tenon_subscriber_stats_get(self.as_raw(), &mut raw, err) })?;
        Ok(SubscriberStats {
            received: raw.received,
            dropped: raw.dropped,
            pid: raw.pid,
            uid: raw.uid,
        })
    }
}

/// Gives the socket, for polling. When it is readable, call [`recv`](Subscriber::recv) with
/// [`Wait::NOT`] until that returns [`WouldBlock`](crate::ErrorKind::WouldBlock). Call it so before
/// the first poll too, because the fd does not become readable for a message that comes before such
/// a call has found nothing.
impl AsFd for Subscriber {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the socket belongs to the subscriber, and is open as long as the subscriber
        // lives.
        unsafe { BorrowedFd::borrow_raw(self.as_raw_fd()) }
    }
}

impl AsRawFd for Subscriber {
    fn as_raw_fd(&self) -> RawFd {
        // SAFETY: self keeps the subscriber, and any thread may call this (publish.h).
        unsafe { sys::tenon_subscriber_fd(self.as_raw()) }
    }
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber").field("stats", &self.stats().ok()).finish()
    }
}

/// Figures about a subscriber.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriberStats {
    /// Messages that it has received.
    pub received: u64,
    /// Messages that the publisher withdrew before this subscriber took them.
    pub dropped: u64,
    /// The publisher's process id, as in [`Peer`](crate::Peer).
    pub pid: i32,
    /// The publisher's effective user id.
    pub uid: u32,
}
