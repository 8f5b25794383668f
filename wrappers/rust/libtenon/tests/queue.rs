//! Tests of queues: one process alone, other processes that join by the storage, waits that end,
//! and members that die.

mod common;

use std::ffi::{c_int, c_short, c_ulong};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use common::PATIENCE;
use tenon::{
    Cancel, Connection, ErrorKind, FdHandle, Message, OpenOptions, Queue, QueueMemberState,
    QueueOptions, StorageMut, StorageOptions, TensorMut, TensorSpec, Wait,
};

fn numbered(number: f32) -> Message {
    let tensor = TensorMut::zeros::<f32>(&[8]).unwrap();
    tensor.cells::<f32>().unwrap()[7].set(number);
    let mut message = Message::new().unwrap();
    message.add("x", &tensor).unwrap();
    message
}

fn send_number(queue: &Queue, number: f32) {
    queue.send(&numbered(number), PATIENCE).unwrap();
}

fn number_in(message: &Message) -> f32 {
    message.find("x").unwrap().cells::<f32>().unwrap()[7].get()
}

fn receive_number(queue: &Queue) -> f32 {
    number_in(&queue.recv(PATIENCE).unwrap())
}

fn tell(connection: &Connection) {
    connection.send(&Message::new().unwrap(), PATIENCE).unwrap();
}

fn send_storage(connection: &Connection, storage: &StorageMut) {
    let sizes = [storage.nbytes() as i64];
    let all = TensorMut::new(storage, &TensorSpec::of::<u8>(&sizes)).unwrap();
    let mut message = Message::new().unwrap();
    message.add_writable("queue", &all).unwrap();
    connection.send(&message, PATIENCE).unwrap();
}

fn join_received(connection: &Connection) -> Queue {
    let message = connection.recv(PATIENCE).unwrap();
    let storage = message.find("queue").unwrap().writable().unwrap().storage();
    Queue::join(&storage.writable().unwrap(), QueueOptions::new()).unwrap()
}

#[test]
fn one_process_sends_to_itself() {
    let queue = Queue::new(QueueOptions::new().members(2).capacity(8).slot_nbytes(2048)).unwrap();
    let weight = TensorMut::zeros::<f32>(&[8]).unwrap();
    let mut message = Message::new().unwrap();
    message.add("x", &weight).unwrap();
    queue.send(&message, Wait::FOREVER).unwrap();
    send_number(&queue, 2.0);
    assert_eq!(queue.stats().unwrap().waiting, 2);
    let received = queue.recv(PATIENCE).unwrap();
    received.find("x").unwrap().writable().unwrap().cells::<f32>().unwrap()[7].set(42.0);
    assert_eq!(weight.cells::<f32>().unwrap()[7].get(), 42.0);
    assert_eq!(receive_number(&queue), 2.0);
    let stats = queue.stats().unwrap();
    assert_eq!((stats.waiting, stats.sent, stats.received, stats.lost), (0, 2, 2, 0));
    assert!(format!("{queue:?}").contains("sent: 2"));
    send_number(&queue, 3.0);
    assert_eq!((queue.discard().unwrap(), queue.stats().unwrap().waiting), (1, 0));
}

#[test]
fn a_message_that_was_not_dropped_comes_again() {
    let queue = Queue::new(QueueOptions::new().members(2).redeliver()).unwrap();
    let other = Queue::join(&queue.storage(), QueueOptions::new()).unwrap();
    send_number(&queue, 1.0);
    let taken = other.recv(PATIENCE).unwrap();
    other.leave();
    let again = queue.recv(PATIENCE).unwrap();
    assert_eq!((taken.redelivered(), again.redelivered()), (0, 1));
    assert_eq!(number_in(&again), 1.0);
}

#[repr(C)]
struct PollFd {
    fd: RawFd,
    events: c_short,
    revents: c_short,
}

extern "C" {
    fn poll(fds: *mut PollFd, n: c_ulong, timeout_ms: c_int) -> c_int;
}

fn is_readable(fd: BorrowedFd<'_>, timeout_ms: c_int) -> bool {
    const POLLIN: c_short = 1;
    let mut entry = PollFd { fd: fd.as_raw_fd(), events: POLLIN, revents: 0 };
    // SAFETY: there is one entry, which belongs to this function.
    unsafe { poll(&mut entry, 1, timeout_ms) == 1 }
}

#[test]
fn fds_are_readable_while_there_may_be_a_message_or_room() {
    let queue = Queue::new(QueueOptions::new().capacity(2)).unwrap();
    let (messages, room) = (queue.recv_fd().unwrap(), queue.send_fd().unwrap());
    let kind = |result: tenon::Result<Message>| result.unwrap_err().kind();
    assert!(is_readable(messages, 0) && is_readable(room, 0));
    assert_eq!(kind(queue.recv(Wait::NOT)), ErrorKind::WouldBlock);
    assert!(!is_readable(messages, 0));
    send_number(&queue, 1.0);
    assert!(is_readable(messages, 10_000));
    send_number(&queue, 2.0);
    assert!(queue.send(&numbered(3.0), Wait::NOT).is_err());
    assert!(!is_readable(room, 0));
    assert_eq!(receive_number(&queue), 1.0);
    assert!(is_readable(room, 10_000));
    assert_eq!(receive_number(&queue), 2.0);
    assert_eq!(kind(queue.recv(Wait::NOT)), ErrorKind::WouldBlock);
    assert!(queue.members().unwrap()[0].is_asleep);
    queue.pause_fds();
    assert!(!queue.members().unwrap()[0].is_asleep && is_readable(messages, 0));
    queue.leave();
    assert!(queue.recv_fd().is_err() && queue.send_fd().is_err());
}

#[test]
fn several_messages_in_one_call() {
    let queue = Queue::new(QueueOptions::new().capacity(4)).unwrap();
    let messages: Vec<_> = (0..6).map(|i| numbered(i as f32)).collect();
    let all: Vec<_> = messages.iter().collect();
    assert_eq!(queue.recv_many(3, Wait::NOT).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(queue.send_many(&all, Wait::NOT).unwrap(), 4);
    assert_eq!(queue.send_many(&all, Wait::NOT).unwrap_err().kind(), ErrorKind::WouldBlock);
    let mut received = queue.recv_many(3, PATIENCE).unwrap();
    assert_eq!(received.len(), 3);
    assert_eq!(queue.send_many(&all[4..], PATIENCE).unwrap(), 2);
    received.extend(queue.recv_many(99, PATIENCE).unwrap());
    let numbers: Vec<_> = received.iter().map(number_in).collect();
    assert_eq!(numbers, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert!(queue.recv_many(0, Wait::NOT).unwrap().is_empty());
}

#[test]
fn threads_share_a_queue() {
    const EACH: usize = 200;
    common::watchdog();
    let queue = Queue::new(QueueOptions::new().capacity(4)).unwrap();
    let mut sums = std::thread::scope(|scope| {
        let receivers = [(); 2].map(|()| {
            scope.spawn(|| (0..EACH).map(|_| f64::from(receive_number(&queue))).sum::<f64>())
        });
        for sender in 0..2 {
            let queue = &queue;
            scope.spawn(move || (0..EACH).for_each(|i| send_number(queue, (sender + i) as f32)));
        }
        receivers.map(|receiver| receiver.join().unwrap())
    });
    sums[0] += sums[1];
    assert_eq!(sums[0], (EACH * (EACH - 1) + EACH) as f64);
}

#[test]
fn another_process_joins_by_the_storage_of_a_message() {
    common::watchdog();
    let (child, connection) = common::start("joins_by_a_message", &[]);
    let queue = Queue::new(QueueOptions::new()).unwrap();
    send_storage(&connection, &queue.storage());
    for number in 0..10 {
        send_number(&queue, number as f32);
    }
    connection.recv(PATIENCE).unwrap();
    assert_eq!(receive_number(&queue), 99.0);
    let members = queue.members().unwrap();
    assert_eq!(members.len(), 2);
    assert_eq!(members[1].pid.unsigned_abs(), child.id());
    assert_eq!((members[1].state, members[1].is_self), (QueueMemberState::Here, false));
    assert!(members[0].is_self && members[0].uid == members[1].uid);
    tell(&connection);
    common::ends_well(child);
    assert_eq!(queue.members().unwrap()[1].state, QueueMemberState::Left);
}

#[test]
#[ignore = "the other process of a test"]
fn joins_by_a_message() {
    common::watchdog();
    let connection = common::inherited();
    let queue = join_received(&connection);
    for number in 0..10 {
        assert_eq!(receive_number(&queue), number as f32);
    }
    send_number(&queue, 99.0);
    tell(&connection);
    connection.recv(PATIENCE).unwrap(); // the message needs its sender until it was received
}

#[test]
fn another_process_joins_by_an_fd() {
    common::watchdog();
    let queue = Queue::new(QueueOptions::new()).unwrap();
    let handle = queue.storage().share_fd().unwrap();
    let (offset, nbytes) = (handle.offset.to_string(), handle.nbytes.to_string());
    let child = common::command("joins_by_an_fd")
        .stdin(handle.as_fd().unwrap().try_clone_to_owned().unwrap())
        .envs([("TENON_OFFSET", offset), ("TENON_NBYTES", nbytes)])
        .spawn()
        .unwrap();
    let weight = TensorMut::zeros::<f32>(&[8]).unwrap();
    let mut message = Message::new().unwrap();
    message.add("x", &weight).unwrap();
    queue.send(&message, PATIENCE).unwrap();
    common::ends_well(child);
    assert_eq!(weight.cells::<f32>().unwrap()[7].get(), 42.0);
}

#[test]
#[ignore = "the other process of a test"]
fn joins_by_an_fd() {
    common::watchdog();
    let number = |name| std::env::var(name).unwrap().parse().unwrap();
    let fd = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let storage = FdHandle::new(fd, number("TENON_OFFSET"), number("TENON_NBYTES"))
        .into_storage(OpenOptions::new())
        .unwrap();
    let queue = Queue::join(&storage.writable().unwrap(), QueueOptions::new()).unwrap();
    drop(storage);
    let message = queue.recv(PATIENCE).unwrap();
    message.find("x").unwrap().writable().unwrap().cells::<f32>().unwrap()[7].set(42.0);
}

#[test]
fn wrong_arguments() {
    let options = QueueOptions::new();
    for wrong in [options.members(257), options.capacity(3), options.slot_nbytes(65)] {
        assert_eq!(Queue::new(wrong).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let queue = Queue::new(options.capacity(4).members(2)).unwrap();
    let other = Queue::join(&queue.storage(), options.capacity(8)).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::InvalidArgument);
    let none = Queue::join(&StorageMut::new(9000).unwrap(), options).unwrap_err();
    assert_eq!((none.kind(), none.detail("field")), (ErrorKind::Corrupt, Some("queue")));
    let private = StorageOptions::new().private().create(9000).unwrap();
    assert_eq!(Queue::join(&private, options).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let _second = Queue::join(&queue.storage(), options).unwrap();
    let third = Queue::join(&queue.storage(), options).unwrap_err();
    assert_eq!(
        (third.kind(), third.detail("limit")),
        (ErrorKind::ResourceExhausted, Some("members"))
    );
}

#[test]
fn waits_end() {
    common::watchdog();
    let queue = Queue::new(QueueOptions::new().capacity(2)).unwrap();
    let kind = |wait: Wait<'_>| queue.recv(wait).unwrap_err().kind();
    assert_eq!(kind(Wait::NOT), ErrorKind::WouldBlock);
    assert_eq!(kind(Duration::from_millis(1).into()), ErrorKind::Timeout);
    let cancel = Cancel::new().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| cancel.trigger());
        assert_eq!(kind(Wait::FOREVER.cancelled_by(&cancel)), ErrorKind::Cancelled);
    });
    // A send waits while as many messages as the capacity wait.
    send_number(&queue, 1.0);
    send_number(&queue, 2.0);
    let third = numbered(3.0);
    assert_eq!(queue.send(&third, Wait::NOT).unwrap_err().kind(), ErrorKind::WouldBlock);
    let soon = Duration::from_millis(1);
    assert_eq!(queue.send(&third, soon).unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(receive_number(&queue), 1.0);
    queue.send(&third, Wait::FOREVER).unwrap();
    assert_eq!((receive_number(&queue), receive_number(&queue)), (2.0, 3.0));
}

#[test]
fn leaving_ends_the_waits_of_this_process() {
    common::watchdog();
    let queue = Queue::new(QueueOptions::new()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            common::soon(|| queue.members().unwrap()[0].is_asleep);
            queue.leave();
        });
        let ended = queue.recv(Wait::FOREVER).unwrap_err();
        assert_eq!(ended.kind(), ErrorKind::InvalidArgument);
    });
    queue.leave();
    let refused = queue.send(&numbered(1.0), PATIENCE).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn the_order_of_drops_does_not_matter() {
    let queue = Queue::new(QueueOptions::new()).unwrap();
    let storage = queue.storage();
    let second = Queue::join(&storage, QueueOptions::new()).unwrap();
    drop(storage);
    send_number(&queue, 5.0);
    drop(queue);
    // The first member has left. Its message is still there, and outlives the queue.
    let message = second.recv(PATIENCE).unwrap();
    drop(second);
    assert_eq!(number_in(&message), 5.0);
}

#[test]
fn a_death_is_reported_once_with_its_pid() {
    common::watchdog();
    for (options, reports) in
        [(QueueOptions::new(), true), (QueueOptions::new().ignore_deaths(), false)]
    {
        let (mut child, connection) = common::start("joins_and_waits", &[]);
        let queue = Queue::new(options).unwrap();
        send_storage(&connection, &queue.storage());
        send_number(&queue, 1.0);
        connection.recv(PATIENCE).unwrap();
        let pid = child.id().to_string();
        child.kill().unwrap();
        child.wait().unwrap();
        // A member begins to watch another one in the first call that follows the other's join.
        let soon = Duration::from_millis(1);
        if reports {
            let told = queue.recv(PATIENCE).unwrap_err();
            assert_eq!(told.kind(), ErrorKind::PeerGone);
            assert_eq!(
                (told.detail("pid"), told.detail("member")),
                (Some(pid.as_str()), Some("1"))
            );
        } else {
            assert_eq!(queue.recv(soon).unwrap_err().kind(), ErrorKind::Timeout);
            common::soon(|| queue.members().unwrap()[1].state == QueueMemberState::Dead);
        }
        assert_eq!(queue.members().unwrap()[1].state, QueueMemberState::Dead);
        // The death is told at most once, and the queue goes on.
        assert_eq!(queue.recv(soon).unwrap_err().kind(), ErrorKind::Timeout);
        send_number(&queue, 2.0);
        assert_eq!(receive_number(&queue), 2.0);
    }
}

#[test]
#[ignore = "the other process of a test"]
fn joins_and_waits() {
    common::watchdog();
    let connection = common::inherited();
    let queue = join_received(&connection);
    let _message = queue.recv(PATIENCE).unwrap();
    tell(&connection);
    std::thread::sleep(PATIENCE);
}
