//! Deposits: messages for receivers that are not known yet, such as the readers of a queue. A
//! lender deposits a message and gets a ticket, which is bytes. The process that fetches the ticket
//! first has the message, under leases.

use std::ffi::{c_char, CString};
use std::fmt;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::path::PathBuf;
use std::ptr::{self, NonNull};
use std::time::Duration;

use crate::by_fd::{Access, OpenOptions};
use crate::error::{check, make, Result};
use crate::message::Message;
use crate::storage::{Storage, StorageMut};
use crate::sys;
use crate::text::c_path;
use crate::wait::Wait;

/// The ticket of a deposited message. The message stays deposited when the ticket is dropped.
pub struct Ticket {
    raw: NonNull<sys::tenon_ticket>,
}

handle!(pub Ticket, tenon_ticket, tenon_ticket_release);

impl Ticket {
    /// Returns the bytes to carry.
    pub fn bytes(&self) -> &[u8] {
        let mut nbytes = 0;
        // SAFETY: the bytes are borrowed from the ticket, and never NULL for a ticket.
        unsafe {
            std::slice::from_raw_parts(
                sys::tenon_ticket_bytes(self.as_raw(), &mut nbytes).cast(),
                nbytes,
            )
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("nbytes", &self.bytes().len()).finish()
    }
}

/// Deposits a message. The message and its tensors may be dropped afterwards, because this process
/// keeps them until the message is fetched or withdrawn.
///
/// ```
/// use tenon::{Access, Message, OpenOptions, Tensor, Wait};
///
/// let mut message = Message::new()?;
/// message.add("weight", &Tensor::frozen(&[1u8, 2, 3], &[3])?)?;
/// let ticket = tenon::deposit(&message)?.bytes().to_vec();
///
/// // The reader of the queue that carried the ticket:
/// let fetched = tenon::fetch(&ticket, Access::Auto, OpenOptions::new(), Wait::FOREVER)?;
/// assert_eq!(fetched.find("weight").unwrap().as_slice::<u8>()?, [1, 2, 3]);
/// # Ok::<(), tenon::Error>(())
/// ```
pub fn deposit(message: &Message) -> Result<Ticket> {
    Ok(Ticket {
        // SAFETY: the message is borrowed for the call.
        raw: make(|out, err| unsafe { sys::tenon_message_deposit(message.as_raw(), out, err) })?,
    })
}

/// Takes back a message of this process by the bytes of its ticket. The result is false if the
/// message was fetched or withdrawn before.
pub fn withdraw(ticket: &[u8]) -> Result<bool> {
    let mut withdrawn = 0;
    // SAFETY: the bytes are borrowed for the call.
    check(|err| unsafe {
        sys::tenon_ticket_withdraw(ticket.as_ptr().cast(), ticket.len(), &mut withdrawn, err)
    })?;
    Ok(withdrawn != 0)
}

/// Takes back a message of this process if nobody has fetched it by the time that `fd` has hung up
/// and `grace` has passed. The fd is one end of a pipe whose other end travels with the ticket. So
/// it hangs up when the message is read, and also when the carrier of the ticket ends with the
/// message unread. The fd is closed then, and after a failure at once.
pub fn watch(ticket: &[u8], fd: OwnedFd, grace: Duration) -> Result<()> {
    let grace = i64::try_from(grace.as_nanos()).unwrap_or(i64::MAX);
    // SAFETY: the bytes are borrowed for the call, and the fd is open.
    check(|err| unsafe {
        sys::tenon_ticket_watch(ticket.as_ptr().cast(), ticket.len(), fd.as_raw_fd(), grace, err)
    })?;
    let _ = fd.into_raw_fd(); // the library owns the fd now
    Ok(())
}

/// Fetches the message of a ticket. [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) means that
/// the message was fetched or withdrawn before. [`ErrorKind::PeerGone`](crate::ErrorKind::PeerGone)
/// means that the lender is gone and this process had no contact with it before. `wait` is how long
/// to wait for a lender that does not answer. If the wait ends first, the message stays with its
/// lender.
pub fn fetch<'w>(
    ticket: &[u8],
    access: Access,
    options: OpenOptions,
    wait: impl Into<Wait<'w>>,
) -> Result<Message> {
    let (options, wait) = (options.raw(access), wait.into().raw());
    // SAFETY: all arguments are borrowed for the call, and the result is a new reference.
    unsafe {
        let raw = make(|out, err| {
            sys::tenon_message_fetch(
                ticket.as_ptr().cast(),
                ticket.len(),
                &options,
                &wait,
                out,
                err,
            )
        })?;
        Ok(Message::adopt(raw))
    }
}

/// A message that is deposited in pieces, for a program that finds its storages one by one. The
/// message stays deposited when the `Deposit` is dropped.
///
/// ```
/// use std::time::Duration;
/// use tenon::{Access, Deposit, Fetched, OpenOptions, StorageMut};
///
/// let storage = StorageMut::new(64)?;
/// let deposit = Deposit::new()?;
/// let (head, record) = (deposit.head().to_vec(), deposit.add(&storage)?);
///
/// // The receiver:
/// let patience = Duration::from_secs(5);
/// let mut fetched = Fetched::new(&head, Access::Auto, OpenOptions::new(), patience)?;
/// assert_eq!(fetched.storage(&record, patience)?.nbytes(), 64);
/// # Ok::<(), tenon::Error>(())
/// ```
pub struct Deposit {
    raw: NonNull<sys::tenon_deposit>,
}

handle!(pub Deposit, tenon_deposit, tenon_deposit_release);

impl Deposit {
    /// Begins a message without storages.
    pub fn new() -> Result<Deposit> {
        // SAFETY: out is ours.
        Ok(Deposit { raw: make(|out, err| unsafe { sys::tenon_deposit_new(out, err) })? })
    }

    /// Returns the bytes with which a receiver begins. They must not be sent before all storages
    /// were added.
    pub fn head(&self) -> &[u8] {
        let mut nbytes = 0;
        // SAFETY: the bytes are borrowed from the deposit, and never NULL for a deposit.
        unsafe {
            std::slice::from_raw_parts(
                sys::tenon_deposit_head(self.as_raw(), &mut nbytes).cast(),
                nbytes,
            )
        }
    }

    /// Adds a storage, which the message keeps. The receiver gets the access that the storage's
    /// mode gives. The result is the storage's record, with which the receiver opens the storage.
    pub fn add(&self, storage: &Storage) -> Result<Vec<u8>> {
        self.add_as(storage, Access::Auto)
    }

    /// Adds a storage to which the receiver cannot write. The error is
    /// [`ErrorKind::Permission`](crate::ErrorKind::Permission) if its mode cannot enforce that.
    pub fn add_read_only(&self, storage: &Storage) -> Result<Vec<u8>> {
        self.add_as(storage, Access::ReadOnly)
    }

    /// Adds a storage to which the receiver may write as this process may.
    pub fn add_writable(&self, storage: &StorageMut) -> Result<Vec<u8>> {
        self.add_as(storage, Access::Writable)
    }

    fn add_as(&self, storage: &Storage, access: Access) -> Result<Vec<u8>> {
        let mut record = vec![0u8; sys::TENON_DEPOSIT_RECORD_NBYTES as usize];
        let mut nbytes = 0;
        // SAFETY: both are borrowed for the call, and record has the room that the call needs.
        check(|err| unsafe {
            sys::tenon_deposit_add(
                self.as_raw(),
                storage.as_raw(),
                access.raw(),
                record.as_mut_ptr().cast(),
                &mut nbytes,
                err,
            )
        })?;
        record.truncate(nbytes);
        Ok(record)
    }

    /// Takes the message back. The result is false if it was fetched or withdrawn before.
    pub fn withdraw(&self) -> bool {
        // SAFETY: self keeps the deposit.
        unsafe { sys::tenon_deposit_withdraw(self.as_raw()) != 0 }
    }
}

impl fmt::Debug for Deposit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deposit").field("head_nbytes", &self.head().len()).finish()
    }
}

/// A message that is fetched in pieces. When it is dropped, storages that were not opened are given
/// back. Storages that were opened stay valid.
pub struct Fetched {
    raw: NonNull<sys::tenon_fetched>,
}

handle!(pub Fetched, tenon_fetched, tenon_fetched_release);

impl Fetched {
    /// Begins to fetch a message by the [`head`](Deposit::head) of its deposit. From then on no
    /// other receiver can fetch the message. The options, the wait and the errors are those of
    /// [`fetch`].
    pub fn new<'w>(
        head: &[u8],
        access: Access,
        options: OpenOptions,
        wait: impl Into<Wait<'w>>,
    ) -> Result<Fetched> {
        let (options, wait) = (options.raw(access), wait.into().raw());
        // SAFETY: all arguments are borrowed for the call.
        let raw = make(|out, err| unsafe {
            sys::tenon_fetched_new(head.as_ptr().cast(), head.len(), &options, &wait, out, err)
        })?;
        Ok(Fetched { raw })
    }

    /// Opens a storage by its record, under its lease. A record can be opened once.
    pub fn storage<'w>(&mut self, record: &[u8], wait: impl Into<Wait<'w>>) -> Result<Storage> {
        let wait = wait.into().raw();
        // SAFETY: all arguments are borrowed for the call. self is borrowed exclusively, so only
        // one thread uses it.
        let raw = make(|out, err| unsafe {
            sys::tenon_fetched_storage(
                self.as_raw(),
                record.as_ptr().cast(),
                record.len(),
                &wait,
                out,
                err,
            )
        })?;
        // SAFETY: the reference is new. The seals say whether the storage is FROZEN.
        Ok(unsafe { Storage::adopt(raw) })
    }
}

impl fmt::Debug for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fetched")
    }
}

/// Limits the unfetched messages of this process. A limit of 0 means the library's default.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct DepositLimits {
    max_unfetched_segments: u64,
    max_unfetched_nbytes: u64,
    max_unfetched_time: Duration,
}

impl DepositLimits {
    /// All limits have their defaults.
    pub fn new() -> DepositLimits {
        DepositLimits::default()
    }

    /// Sets the most segments for which receivers may still ask. A deposit that needs one more is
    /// [`ErrorKind::ResourceExhausted`](crate::ErrorKind::ResourceExhausted). The default is half
    /// of the number of fds that this process may open.
    pub fn max_unfetched_segments(self, max_unfetched_segments: u64) -> Self {
        DepositLimits { max_unfetched_segments, ..self }
    }

    /// Sets the most bytes in the storages of unfetched messages. A deposit that exceeds this limit
    /// withdraws the oldest messages. By default there is no limit.
    pub fn max_unfetched_nbytes(self, max_unfetched_nbytes: u64) -> Self {
        DepositLimits { max_unfetched_nbytes, ..self }
    }

    /// Sets how long a message may stay unfetched before it is withdrawn. The default is for ever.
    pub fn max_unfetched_time(self, max_unfetched_time: Duration) -> Self {
        DepositLimits { max_unfetched_time, ..self }
    }
}

/// Sets the limits of this process and of the children that it forks from now on.
pub fn set_deposit_limits(limits: &DepositLimits) -> Result<()> {
    let raw = sys::tenon_deposit_limits {
        struct_size: size_of::<sys::tenon_deposit_limits>(),
        max_unfetched_segments: limits.max_unfetched_segments,
        max_unfetched_nbytes: limits.max_unfetched_nbytes,
        max_unfetched_ns: nanoseconds(limits.max_unfetched_time),
    };
    // SAFETY: borrowed for the call.
    check(|err| unsafe { sys::tenon_deposit_limits_set(&raw, err) })
}

/// Describes the unfetched messages of this process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DepositStats {
    /// Messages that nobody has fetched, or that their receiver is still opening.
    pub messages: u64,
    /// Segments for which receivers may still ask. It is 0 if `messages` is 0.
    pub segments: u64,
    /// Messages that were withdrawn by a limit, or because their carrier was gone, in all.
    pub expired: u64,
}

/// Returns the figures of this process's deposits.
pub fn deposit_stats() -> Result<DepositStats> {
    let mut raw = blank!(tenon_deposit_stats);
    // SAFETY: raw has its own struct_size.
    check(|err| unsafe { sys::tenon_deposit_stats_get(&mut raw, err) })?;
    Ok(DepositStats { messages: raw.messages, segments: raw.segments, expired: raw.expired })
}

/// Says how a keeper keeps the unfetched messages.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct KeepOptions<'a> {
    timeout: Option<Duration>,
    pidfds: &'a [BorrowedFd<'a>],
    family: Option<PathBuf>,
    program: Option<PathBuf>,
}

impl<'a> KeepOptions<'a> {
    /// All options have their defaults.
    pub fn new() -> KeepOptions<'a> {
        KeepOptions::default()
    }

    /// Sets how long the keeper stays at most. The default is 60 seconds.
    pub fn timeout(self, timeout: Duration) -> Self {
        KeepOptions { timeout: Some(timeout), ..self }
    }

    /// Sets the pidfds of processes that may fetch the messages.
    pub fn pidfds(self, pidfds: &'a [BorrowedFd<'a>]) -> Self {
        KeepOptions { pidfds, ..self }
    }

    /// Sets the path of a file on which processes that may fetch hold a shared flock.
    pub fn family(self, family: impl Into<PathBuf>) -> Self {
        KeepOptions { family: Some(family.into()), ..self }
    }

    /// Sets the path of tenon-manager. The default is that of
    /// [`start_manager`](crate::start_manager).
    pub fn program(self, program: impl Into<PathBuf>) -> Self {
        KeepOptions { program: Some(program.into()), ..self }
    }
}

/// Hands the unfetched messages of this process to a keeper, which is a process of its own. The
/// result is how many messages the keeper has. Call it last, while no other thread deposits. The
/// keeper ends when all messages are fetched or its time is over. If
/// [`pidfds`](KeepOptions::pidfds) or a [`family`](KeepOptions::family) is set, the keeper also
/// ends when none of these processes is left.
pub fn hand_over_deposits(options: &KeepOptions<'_>) -> Result<usize> {
    let family = options.family.as_deref().map(c_path).transpose()?;
    let program = options.program.as_deref().map(c_path).transpose()?;
    let pointer =
        |text: &Option<CString>| text.as_ref().map_or(ptr::null::<c_char>(), |text| text.as_ptr());
    let raw = sys::tenon_keep_options {
        struct_size: size_of::<sys::tenon_keep_options>(),
        // 0 would mean the library's default.
        timeout_ns: options.timeout.map_or(0, |timeout| nanoseconds(timeout).max(1)),
        // A BorrowedFd has the layout of its number.
        pidfds: options.pidfds.as_ptr().cast(),
        n_pidfds: options.pidfds.len() as u64,
        family: pointer(&family),
        program: pointer(&program),
    };
    let mut kept = 0;
    // SAFETY: all arguments are borrowed for the call.
    check(|err| unsafe { sys::tenon_deposit_hand_over(&raw, &mut kept, err) })?;
    Ok(kept)
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}
