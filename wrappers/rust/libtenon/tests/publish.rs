//! Tests of publishers and subscribers: one process alone, other processes that come by a path or
//! by an inherited socket, each policy, waits that end, and processes that die.

mod common;

use std::ffi::{c_int, c_short, c_ulong};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use common::{Folder, PATIENCE};
use tenon::{
    Cancel, ConnectionOptions, Error, ErrorKind, Message, PublishPolicy, Publisher,
    PublisherOptions, Subscriber, SubscriberState, TensorMut, Wait,
};

const SOON: Duration = Duration::from_millis(1);

fn numbered(number: f32) -> Message {
    let tensor = TensorMut::zeros::<f32>(&[8]).unwrap();
    tensor.cells::<f32>().unwrap()[7].set(number);
    let mut message = Message::new().unwrap();
    message.add("x", &tensor).unwrap();
    message
}

fn publish_number(publisher: &Publisher, number: f32) {
    publisher.publish(&numbered(number), PATIENCE).unwrap();
}

fn number_in(message: &Message) -> f32 {
    message.find("x").unwrap().cells::<f32>().unwrap()[7].get()
}

fn next_number(subscriber: &Subscriber) -> f32 {
    number_in(&subscriber.recv(PATIENCE).unwrap())
}

fn has_nothing(subscriber: &Subscriber) -> bool {
    subscriber.recv(Wait::NOT).unwrap_err().kind() == ErrorKind::WouldBlock
}

/// Makes a subscriber in this process.
fn subscribe_here(publisher: &Publisher) -> Subscriber {
    let (ours, theirs) = UnixStream::pair().unwrap();
    publisher.add(ours).unwrap();
    Subscriber::new(theirs, ConnectionOptions::new()).unwrap()
}

fn is_named(error: &Error, kind: ErrorKind, pid: u32) -> bool {
    error.kind() == kind && error.detail("pid") == Some(&pid.to_string())
}

#[test]
fn a_loop_ends_with_the_publisher() {
    let mut publisher = Some(Publisher::new(PublisherOptions::new()).unwrap());
    let subscriber = subscribe_here(publisher.as_ref().unwrap());
    for number in 1..=3 {
        publish_number(publisher.as_ref().unwrap(), number as f32);
    }
    let mut numbers = Vec::new();
    for message in subscriber.messages() {
        numbers.push(number_in(&message.unwrap()));
        if numbers.len() == 3 {
            drop(publisher.take());
        }
    }
    assert_eq!(numbers, [1.0, 2.0, 3.0]);
    assert!(subscriber.messages().next().is_none());
}

#[test]
fn one_process_publishes_to_itself() {
    let publisher = Publisher::new(PublisherOptions::new()).unwrap();
    publish_number(&publisher, 0.0); // nobody is there
    let (first, second) = (subscribe_here(&publisher), subscribe_here(&publisher));
    assert_eq!((next_number(&first), next_number(&second)), (0.0, 0.0));
    let weight = TensorMut::zeros::<f32>(&[8]).unwrap();
    let mut message = Message::new().unwrap();
    message.add("x", &weight).unwrap();
    publisher.publish(&message, Wait::FOREVER).unwrap();
    drop(message);
    let received = first.recv(PATIENCE).unwrap();
    received.find("x").unwrap().writable().unwrap().cells::<f32>().unwrap()[7].set(42.0);
    assert_eq!(weight.cells::<f32>().unwrap()[7].get(), 42.0);
    assert_eq!(next_number(&second), 42.0);
    assert!(has_nothing(&first) && has_nothing(&second));
    drop(first);
    publish_number(&publisher, 3.0);
    let stats = publisher.stats().unwrap();
    assert_eq!((stats.published, stats.dropped, stats.subscribers, stats.gone), (3, 0, 1, 0));
    assert!(format!("{publisher:?}").contains("published: 3"));
    drop(publisher);
    assert_eq!(next_number(&second), 3.0);
    let end = second.recv(PATIENCE).unwrap_err();
    assert!(is_named(&end, ErrorKind::PeerGone, std::process::id()));
    let seen = second.stats().unwrap();
    assert_eq!((seen.received, seen.dropped), (3, 0));
    assert_eq!(seen.pid.unsigned_abs(), std::process::id());
    assert!(format!("{second:?}").contains("received: 3"));
}

#[test]
fn a_late_subscriber_gets_the_latest_message() {
    let options = PublisherOptions::new();
    for (options, keeps) in [(options, true), (options.forget_latest(), false)] {
        let publisher = Publisher::new(options).unwrap();
        publish_number(&publisher, 1.0);
        publish_number(&publisher, 2.0);
        let late = subscribe_here(&publisher);
        assert!(!keeps || next_number(&late) == 2.0);
        assert!(has_nothing(&late));
        publish_number(&publisher, 3.0);
        assert_eq!(next_number(&late), 3.0);
    }
}

#[test]
fn block_waits_for_room() {
    common::watchdog();
    let publisher = Publisher::new(PublisherOptions::new().capacity(2)).unwrap();
    let (slow, quick) = (subscribe_here(&publisher), subscribe_here(&publisher));
    for number in [1.0, 2.0] {
        publish_number(&publisher, number);
        assert_eq!(next_number(&quick), number);
    }
    let third = numbered(3.0);
    let me = std::process::id();
    let refused = |wait: Wait<'_>| publisher.publish(&third, wait).unwrap_err();
    assert!(is_named(&refused(Wait::NOT), ErrorKind::WouldBlock, me));
    assert!(is_named(&refused(SOON.into()), ErrorKind::Timeout, me));
    let cancel = Cancel::new().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| cancel.trigger());
        assert_eq!(refused(Wait::FOREVER.cancelled_by(&cancel)).kind(), ErrorKind::Cancelled);
    });
    assert!(has_nothing(&quick)); // no subscriber got it
    assert_eq!(next_number(&slow), 1.0);
    publisher.publish(&third, Wait::FOREVER).unwrap();
    assert_eq!((next_number(&slow), next_number(&slow), next_number(&quick)), (2.0, 3.0, 3.0));
}

#[test]
fn error_names_the_slow_subscriber() {
    let options = PublisherOptions::new().policy(PublishPolicy::Error).capacity(2);
    let publisher = Publisher::new(options).unwrap();
    let slow = subscribe_here(&publisher);
    publish_number(&publisher, 1.0);
    publish_number(&publisher, 2.0);
    let full = publisher.publish(&numbered(3.0), Wait::FOREVER).unwrap_err();
    assert!(is_named(&full, ErrorKind::ResourceExhausted, std::process::id()));
    assert_eq!(full.detail("limit"), Some("capacity"));
    assert_eq!((next_number(&slow), next_number(&slow)), (1.0, 2.0));
    assert!(has_nothing(&slow));
}

#[test]
fn drop_oldest_keeps_the_newest() {
    let options = PublisherOptions::new().policy(PublishPolicy::DropOldest).capacity(2);
    let publisher = Publisher::new(options.slot_nbytes(2048)).unwrap();
    let slow = subscribe_here(&publisher);
    for number in 0..5 {
        publish_number(&publisher, number as f32);
    }
    let all = publisher.subscribers().unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].state, all[0].is_asleep), (SubscriberState::Joining, false));
    assert_eq!(all[0].pid.unsigned_abs(), std::process::id());
    assert_eq!((all[0].waiting, all[0].published, all[0].dropped), (2, 5, 3));
    assert_eq!((next_number(&slow), next_number(&slow)), (3.0, 4.0));
    let seen = slow.stats().unwrap();
    assert_eq!((seen.received, seen.dropped, seen.uid), (2, 3, all[0].uid));
    assert_eq!(publisher.stats().unwrap().dropped, 3);
    assert_eq!(publisher.subscribers().unwrap()[0].state, SubscriberState::Here);
    drop(slow);
    assert_eq!(publisher.subscribers().unwrap()[0].state, SubscriberState::Left);
}

#[test]
fn a_removed_subscriber_receives_what_waits() {
    common::watchdog();
    let publisher = Publisher::new(PublisherOptions::new().capacity(1)).unwrap();
    let slow = subscribe_here(&publisher);
    let me = std::process::id();
    publish_number(&publisher, 1.0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(SOON);
            publisher.remove(me as i32).unwrap();
        });
        publish_number(&publisher, 2.0);
    });
    assert_eq!(next_number(&slow), 1.0);
    assert!(is_named(&slow.recv(PATIENCE).unwrap_err(), ErrorKind::PeerGone, me));
    let stats = publisher.stats().unwrap();
    assert_eq!((stats.subscribers, stats.gone), (0, 0));
    assert!(is_named(&publisher.remove(me as i32).unwrap_err(), ErrorKind::NotFound, me));
}

#[repr(C)]
struct PollFd {
    fd: c_int,
    events: c_short,
    revents: c_short,
}

extern "C" {
    fn poll(fds: *mut PollFd, n: c_ulong, timeout_ms: c_int) -> c_int;
}

fn is_readable(subscriber: &Subscriber) -> bool {
    const POLLIN: c_short = 1;
    let mut entry = PollFd { fd: subscriber.as_fd().as_raw_fd(), events: POLLIN, revents: 0 };
    // SAFETY: there is one entry, which belongs to this function.
    unsafe { poll(&mut entry, 1, 0) == 1 }
}

#[test]
fn the_fd_is_readable_when_there_is_a_message() {
    let publisher = Publisher::new(PublisherOptions::new()).unwrap();
    let subscriber = subscribe_here(&publisher);
    for _ in 0..3 {
        assert!(has_nothing(&subscriber));
        assert!(!is_readable(&subscriber));
        publish_number(&publisher, 1.0);
        publish_number(&publisher, 2.0);
        assert!(is_readable(&subscriber));
        assert_eq!((next_number(&subscriber), next_number(&subscriber)), (1.0, 2.0));
    }
    assert!(has_nothing(&subscriber));
    drop(publisher);
    assert!(is_readable(&subscriber));
    assert_eq!(subscriber.recv(Wait::NOT).unwrap_err().kind(), ErrorKind::PeerGone);
}

#[test]
fn waits_of_a_subscriber_end() {
    common::watchdog();
    let publisher = Publisher::new(PublisherOptions::new()).unwrap();
    let subscriber = subscribe_here(&publisher);
    let kind = |wait: Wait<'_>| subscriber.recv(wait).unwrap_err().kind();
    assert_eq!(kind(SOON.into()), ErrorKind::Timeout);
    let cancel = Cancel::new().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            common::soon(|| publisher.subscribers().unwrap()[0].is_asleep);
            cancel.trigger();
        });
        assert_eq!(kind(Wait::FOREVER.cancelled_by(&cancel)), ErrorKind::Cancelled);
    });
    publish_number(&publisher, 1.0);
    assert_eq!(next_number(&subscriber), 1.0);
}

#[test]
fn another_process_connects_by_the_path() {
    common::watchdog();
    let folder = Folder::new();
    let path = folder.0.join("weights");
    let publisher = Publisher::new(PublisherOptions::new()).unwrap();
    publisher.listen(&path, 0o640).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    publish_number(&publisher, 0.0);
    let (child, connection) =
        common::start("connects_by_the_path", &[("TENON_PATH", path.to_str().unwrap())]);
    connection.recv(PATIENCE).unwrap();
    let all = publisher.subscribers().unwrap();
    assert_eq!((all.len(), all[0].pid.unsigned_abs()), (1, child.id()));
    for number in 1..10 {
        publish_number(&publisher, number as f32);
    }
    let weight = TensorMut::zeros::<f32>(&[8]).unwrap();
    let mut message = Message::new().unwrap();
    message.add("x", &weight).unwrap();
    publisher.publish(&message, PATIENCE).unwrap();
    connection.recv(PATIENCE).unwrap();
    assert_eq!(weight.cells::<f32>().unwrap()[7].get(), 42.0);
    drop(publisher);
    common::ends_well(child);
    assert!(folder.names().is_empty()); // the socket is removed
}

#[test]
#[ignore = "the other process of a test"]
fn connects_by_the_path() {
    common::watchdog();
    let connection = common::inherited();
    let path = std::env::var("TENON_PATH").unwrap();
    let subscriber = Subscriber::connect(path, ConnectionOptions::new(), PATIENCE).unwrap();
    let tell = || connection.send(&Message::new().unwrap(), PATIENCE).unwrap();
    tell();
    for number in 0..10 {
        assert_eq!(next_number(&subscriber), number as f32);
    }
    let message = subscriber.recv(PATIENCE).unwrap();
    message.find("x").unwrap().writable().unwrap().cells::<f32>().unwrap()[7].set(42.0);
    tell();
    let end = subscriber.recv(PATIENCE).unwrap_err();
    assert!(is_named(&end, ErrorKind::PeerGone, std::os::unix::process::parent_id()));
}

#[test]
fn a_killed_subscriber_is_named_once() {
    common::watchdog();
    let options = PublisherOptions::new();
    for (options, reports) in [(options, true), (options.ignore_deaths(), false)] {
        let publisher = Publisher::new(options).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut child =
            common::command("takes_one_and_waits").stdin(OwnedFd::from(theirs)).spawn().unwrap();
        publisher.add(ours).unwrap();
        let other = subscribe_here(&publisher);
        publish_number(&publisher, 1.0);
        // The subscriber has inherited its socket. The kernel tells its pid when it takes the
        // lease.
        let pid = child.id();
        let is_seen = |state| {
            let all = publisher.subscribers().unwrap();
            all.iter().any(|each| each.pid.unsigned_abs() == pid && each.state == state)
        };
        common::soon(|| is_seen(SubscriberState::Here));
        assert!(is_seen(SubscriberState::Here));
        child.kill().unwrap();
        common::soon(|| is_seen(SubscriberState::Gone));
        assert!(is_seen(SubscriberState::Gone));
        child.wait().unwrap();
        if reports {
            let told = publisher.publish(&numbered(9.0), PATIENCE).unwrap_err();
            assert!(is_named(&told, ErrorKind::PeerGone, pid));
        }
        // The death is told at most once, the publisher goes on, and the other one misses nothing.
        publish_number(&publisher, 2.0);
        assert_eq!((next_number(&other), next_number(&other)), (1.0, 2.0));
        assert!(has_nothing(&other));
        let stats = publisher.stats().unwrap();
        assert_eq!((stats.gone, stats.subscribers), (1, 1));
    }
}

#[test]
#[ignore = "the other process of a test"]
fn takes_one_and_waits() {
    common::watchdog();
    let subscriber = Subscriber::new(common::inherited_socket(), ConnectionOptions::new()).unwrap();
    let _message = subscriber.recv(PATIENCE).unwrap();
    std::thread::sleep(PATIENCE);
}

#[test]
fn what_a_killed_publisher_published_is_received() {
    common::watchdog();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut child =
        common::command("publishes_and_dies").stdin(OwnedFd::from(theirs)).spawn().unwrap();
    let subscriber = Subscriber::new(ours, ConnectionOptions::new()).unwrap();
    for number in 0..5 {
        assert_eq!(next_number(&subscriber), number as f32);
    }
    assert_eq!(subscriber.recv(PATIENCE).unwrap_err().kind(), ErrorKind::PeerGone);
    assert!(child.wait().unwrap().signal().is_some());
}

#[test]
#[ignore = "the other process of a test"]
fn publishes_and_dies() {
    common::watchdog();
    let publisher = Publisher::new(PublisherOptions::new()).unwrap();
    publisher.add(common::inherited_socket()).unwrap();
    for number in 0..5 {
        publish_number(&publisher, number as f32);
    }
    std::process::abort();
}

#[test]
fn wrong_arguments() {
    let options = PublisherOptions::new();
    for wrong in [options.capacity(3), options.slot_nbytes(65)] {
        assert_eq!(Publisher::new(wrong).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let publisher = Publisher::new(options.max_subscribers(1).same_user()).unwrap();
    let file = || std::fs::File::open("/dev/null").unwrap();
    assert_eq!(publisher.add(file()).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let folder = Folder::new();
    let path = folder.0.join("no/such");
    let nowhere = publisher.listen(&path, 0).unwrap_err();
    assert_eq!((nowhere.kind(), nowhere.detail("path")), (ErrorKind::NotFound, path.to_str()));
    assert_eq!(publisher.listen("/a\0b", 0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let kind = |path, options| Subscriber::connect(path, options, SOON).unwrap_err().kind();
    assert_eq!(kind("/tmp/no/such", ConnectionOptions::new()), ErrorKind::NotFound);
    assert_eq!(kind("/tmp/no/such", ConnectionOptions::new().ring()), ErrorKind::Unsupported);
    assert_eq!(kind("/a\0b", ConnectionOptions::new()), ErrorKind::InvalidArgument);
    let none = Subscriber::new(file(), ConnectionOptions::new()).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::InvalidArgument);
    let _only = subscribe_here(&publisher);
    let (second, _theirs) = UnixStream::pair().unwrap();
    let full = publisher.add(second).unwrap_err();
    assert_eq!(
        (full.kind(), full.detail("limit")),
        (ErrorKind::ResourceExhausted, Some("subscribers"))
    );
}
