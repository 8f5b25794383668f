//! Tests of leases: a block that another process holds is not reused, and it comes back however
//! that process ends. This is the only test of its program, because the holders are those of the
//! whole process.

mod common;

use common::PATIENCE;
use tenon::{
    Arena, ArenaOptions, Connection, ErrorKind, Message, StorageOptions, TensorMut, TensorSpec,
};

const MIB: u64 = 1 << 20;

/// Lends a tensor that fills the arena to the other end, waits until that end has it, and drops
/// everything here.
fn lend_all(arena: &Arena, connection: &Connection) {
    let storage = StorageOptions::new().arena(arena).zeroed().create(MIB).unwrap();
    let mut message = Message::new().unwrap();
    message
        .add("all", &TensorMut::new(&storage, &TensorSpec::of::<u8>(&[1 << 20])).unwrap())
        .unwrap();
    connection.send(&message, PATIENCE).unwrap();
    connection.recv(PATIENCE).unwrap();
}

#[test]
fn leases() {
    common::watchdog();
    let arena = ArenaOptions::new().capacity(MIB).create().unwrap();
    let options = StorageOptions::new().arena(&arena);
    let (child, connection) = common::start("borrower", &[]);
    lend_all(&arena, &connection);
    let now = arena.stats().unwrap();
    assert_eq!((now.blocks_live, now.blocks_lent, now.bytes_lent), (0, 1, MIB));
    let holders = tenon::lease_holders().unwrap();
    assert_eq!(holders.len(), 1);
    assert_eq!(
        (holders[0].pid.unsigned_abs(), holders[0].leases, holders[0].nbytes),
        (child.id(), 1, MIB)
    );
    assert_eq!((holders[0].granted, holders[0].granted_bytes), (1, MIB));
    assert!(!holders[0].age.is_zero());
    let full = options.create(1).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::ResourceExhausted);
    assert!(full.detail("holders").unwrap().contains(&format!("pid {} ", child.id())));
    connection.send(&Message::new().unwrap(), PATIENCE).unwrap();
    options.wait(PATIENCE).create(MIB).unwrap();
    common::ends_well(child);

    let (mut child, connection) = common::start("borrower", &[]);
    lend_all(&arena, &connection);
    child.kill().unwrap();
    child.wait().unwrap();
    options.wait(PATIENCE).create(MIB).unwrap();
    assert!(tenon::lease_holders().unwrap().is_empty());

    for refused in
        [tenon::lease_use_no_thread(), tenon::lease_poll(), tenon::lease_fd().map(|_| ())]
    {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let status = common::command("without_a_thread").status().unwrap();
    assert!(status.success(), "the process without a thread ended with {status}");
}

#[test]
#[ignore = "the other process of a test"]
fn borrower() {
    common::watchdog();
    let connection = common::inherited();
    let message = connection.recv(PATIENCE).unwrap();
    connection.send(&Message::new().unwrap(), PATIENCE).unwrap();
    connection.recv(PATIENCE).unwrap(); // wait for the message that ends this role
    drop(message);
}

#[test]
#[ignore = "the other process of a test"]
fn without_a_thread() {
    common::watchdog();
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    tenon::lease_use_no_thread().unwrap();
    assert!(tenon::lease_fd().unwrap() >= 0);
    let arena = ArenaOptions::new().capacity(MIB).create().unwrap();
    let (mut child, connection) = common::start("borrower", &[]);
    lend_all(&arena, &connection);
    tenon::lease_poll().unwrap();
    assert_eq!(arena.stats().unwrap().blocks_lent, 1);
    assert_eq!(threads(), before);
    child.kill().unwrap();
    child.wait().unwrap();
    while arena.stats().unwrap().blocks_lent > 0 {
        tenon::lease_poll().unwrap();
    }
}
