//! Tests of tasks of tokio that wait for a queue.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::PATIENCE;
use tenon::{ErrorKind, Message, Queue, QueueOptions};
use tokio::time::{sleep, timeout};

const SHORT: Duration = Duration::from_millis(20);

fn numbered(number: u64) -> Message {
    let mut message = Message::new().unwrap();
    message.set_user_bytes(&number.to_le_bytes()).unwrap();
    message
}

fn number_in(message: &Message) -> u64 {
    u64::from_le_bytes(message.user_bytes().try_into().unwrap())
}

async fn receive(queue: &Queue) -> u64 {
    number_in(&timeout(PATIENCE, queue.recv_async()).await.unwrap().unwrap())
}

#[tokio::test]
async fn a_task_waits_for_a_message() {
    common::watchdog();
    let queue = Arc::new(Queue::new(QueueOptions::new()).unwrap());
    queue.send_async(&numbered(1)).await.unwrap();
    assert_eq!(receive(&queue).await, 1);
    for number in 2..10 {
        let waits = tokio::spawn({
            let queue = queue.clone();
            async move { receive(&queue).await }
        });
        sleep(Duration::from_millis(5)).await;
        assert!(!waits.is_finished());
        queue.send(&numbered(number), PATIENCE).unwrap();
        assert_eq!(waits.await.unwrap(), number);
    }
}

#[tokio::test]
async fn a_task_waits_for_room() {
    common::watchdog();
    let queue = Queue::new(QueueOptions::new().capacity(2)).unwrap();
    for number in 0..2 {
        queue.send_async(&numbered(number)).await.unwrap();
    }
    let late = numbered(2);
    assert!(timeout(SHORT, queue.send_async(&late)).await.is_err());
    let (sent, received) = tokio::join!(queue.send_async(&late), async {
        sleep(SHORT).await;
        receive(&queue).await
    });
    sent.unwrap();
    assert_eq!((received, receive(&queue).await, receive(&queue).await), (0, 1, 2));
}

#[tokio::test]
async fn a_dropped_future_loses_nothing() {
    common::watchdog();
    let queue = Queue::new(QueueOptions::new()).unwrap();
    let other = Queue::join(&queue.storage(), QueueOptions::new()).unwrap();
    for number in 0..20 {
        assert!(timeout(Duration::from_millis(1), queue.recv_async()).await.is_err());
        // A sender passes over a member whose tasks do not wait any more.
        assert!(queue.members().unwrap().iter().all(|member| !member.is_asleep));
        queue.send(&numbered(number), PATIENCE).unwrap();
        let receiver = if number % 2 == 0 { &queue } else { &other };
        assert_eq!(receive(receiver).await, number);
    }
}

#[tokio::test]
async fn leaving_ends_the_wait_of_a_task() {
    common::watchdog();
    let queue = Queue::new(QueueOptions::new()).unwrap();
    let (received, ()) = tokio::join!(queue.recv_async(), async {
        sleep(SHORT).await;
        queue.leave();
    });
    assert_eq!(received.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

/// Tasks of several threads, a thread that waits in `recv`, and a second runtime share one queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_message_goes_to_one_task() {
    const EACH: u64 = 2000;
    const STOP: u64 = u64::MAX;
    common::watchdog();
    let queue = Arc::new(Queue::new(QueueOptions::new().capacity(4)).unwrap());
    async fn sum(queue: Arc<Queue>) -> u64 {
        let mut sum = 0;
        loop {
            match receive(&queue).await {
                STOP => return sum,
                number => sum += number,
            }
        }
    }
    let mut receivers: Vec<_> = (0..3).map(|_| tokio::spawn(sum(queue.clone()))).collect();
    let other_runtime = queue.clone();
    receivers.push(tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(sum(other_runtime))
    }));
    let blocking = queue.clone();
    receivers.push(tokio::task::spawn_blocking(move || {
        let mut sum = 0;
        loop {
            match number_in(&blocking.recv(PATIENCE).unwrap()) {
                STOP => return sum,
                number => sum += number,
            }
        }
    }));
    let senders: Vec<_> = (0..2)
        .map(|first| {
            let queue = queue.clone();
            tokio::spawn(async move {
                for i in 0..EACH {
                    let message = numbered(first * EACH + i);
                    timeout(PATIENCE, queue.send_async(&message)).await.unwrap().unwrap();
                }
            })
        })
        .collect();
    for sender in senders {
        sender.await.unwrap();
    }
    // All numbers are received before a receiver stops.
    while queue.stats().unwrap().waiting > 0 {
        sleep(Duration::from_millis(1)).await;
    }
    for _ in 0..receivers.len() {
        queue.send_async(&numbered(STOP)).await.unwrap();
    }
    let mut total = 0;
    for receiver in receivers {
        total += receiver.await.unwrap();
    }
    assert_eq!(total, 2 * EACH * (2 * EACH - 1) / 2);
}
