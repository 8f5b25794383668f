//! Tests of tasks of tokio that wait for a publisher.

mod common;

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use common::PATIENCE;
use tenon::{ConnectionOptions, ErrorKind, Message, Publisher, PublisherOptions, Subscriber};
use tokio::time::{sleep, timeout};

const SHORT: Duration = Duration::from_millis(20);

fn numbered(number: u64) -> Message {
    let mut message = Message::new().unwrap();
    message.set_user_bytes(&number.to_le_bytes()).unwrap();
    message
}

async fn next(subscriber: &Subscriber) -> u64 {
    let message = timeout(PATIENCE, subscriber.recv_async()).await.unwrap().unwrap();
    u64::from_le_bytes(message.user_bytes().try_into().unwrap())
}

fn pair(capacity: u32) -> (Publisher, Arc<Subscriber>) {
    let publisher = Publisher::new(PublisherOptions::new().capacity(capacity)).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    publisher.add(ours).unwrap();
    (publisher, Arc::new(Subscriber::new(theirs, ConnectionOptions::new()).unwrap()))
}

#[tokio::test]
async fn a_task_waits_for_a_message() {
    common::watchdog();
    let (publisher, subscriber) = pair(4);
    publisher.publish(&numbered(1), PATIENCE).unwrap();
    assert_eq!(next(&subscriber).await, 1);
    for number in 2..10 {
        let waits = tokio::spawn({
            let subscriber = subscriber.clone();
            async move { next(&subscriber).await }
        });
        sleep(Duration::from_millis(5)).await;
        assert!(!waits.is_finished());
        publisher.publish(&numbered(number), PATIENCE).unwrap();
        assert_eq!(waits.await.unwrap(), number);
    }
}

#[tokio::test]
async fn a_dropped_future_loses_nothing() {
    common::watchdog();
    let (publisher, subscriber) = pair(4);
    for number in 0..20 {
        assert!(timeout(Duration::from_millis(1), subscriber.recv_async()).await.is_err());
        publisher.publish(&numbered(number), PATIENCE).unwrap();
        assert_eq!(next(&subscriber).await, number);
    }
}

#[tokio::test]
async fn the_end_of_the_publisher_ends_the_wait_of_a_task() {
    common::watchdog();
    let (publisher, subscriber) = pair(4);
    let (received, ()) = tokio::join!(subscriber.recv_async(), async {
        sleep(SHORT).await;
        drop(publisher);
    });
    let end = received.unwrap_err();
    assert_eq!(end.kind(), ErrorKind::PeerGone);
    assert_eq!(end.detail("pid"), Some(&*std::process::id().to_string()));
}

/// Tasks of several threads, a thread that waits in `recv`, and a second runtime share one
/// subscriber.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_message_goes_to_one_task() {
    const N: u64 = 4000;
    const STOP: u64 = u64::MAX;
    common::watchdog();
    let (publisher, subscriber) = pair(4);
    async fn sum(subscriber: Arc<Subscriber>) -> u64 {
        let mut sum = 0;
        loop {
            match next(&subscriber).await {
                STOP => return sum,
                number => sum += number,
            }
        }
    }
    let mut receivers: Vec<_> = (0..3).map(|_| tokio::spawn(sum(subscriber.clone()))).collect();
    let other_runtime = subscriber.clone();
    receivers.push(tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(sum(other_runtime))
    }));
    let blocking = subscriber.clone();
    receivers.push(tokio::task::spawn_blocking(move || {
        let mut sum = 0;
        loop {
            let message = blocking.recv(PATIENCE).unwrap();
            match u64::from_le_bytes(message.user_bytes().try_into().unwrap()) {
                STOP => return sum,
                number => sum += number,
            }
        }
    }));
    let n_receivers = receivers.len();
    tokio::task::spawn_blocking(move || {
        // The messages arrive in order, so all numbers are received before a receiver stops.
        for number in (0..N).chain(std::iter::repeat(STOP).take(n_receivers)) {
            if number % 500 == 0 {
                std::thread::sleep(SHORT); // all receivers wait
            }
            publisher.publish(&numbered(number), PATIENCE).unwrap();
        }
        publisher
    })
    .await
    .unwrap();
    let mut total = 0;
    for receiver in receivers {
        total += receiver.await.unwrap();
    }
    assert_eq!(total, N * (N - 1) / 2);
}
