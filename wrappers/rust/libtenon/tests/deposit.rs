//! Tests of deposits: receivers in other processes, whole messages and messages in pieces, limits,
//! and a lender that ends.

mod common;

use std::ffi::c_long;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::parent_id;
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use common::PATIENCE;
use tenon::{
    Access, Cancel, Deposit, DepositLimits, ErrorKind, Fetched, KeepOptions, Message, OpenOptions,
    StorageMut, StorageOptions, Tensor, TensorMut, TensorSpec, Wait,
};

/// The figures of deposits are those of the whole process, so the tests that read them run one
/// after another.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    common::watchdog();
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Starts the other process of a test. The stream carries bytes to and from it.
fn start(role: &str) -> (Child, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    (common::command(role).stdin(OwnedFd::from(theirs)).spawn().unwrap(), ours)
}

/// Returns the other end of that stream.
fn inherited() -> UnixStream {
    common::watchdog();
    UnixStream::from(common::inherited_socket())
}

fn put(stream: &mut UnixStream, bytes: &[u8]) {
    stream.write_all(&(bytes.len() as u32).to_le_bytes()).unwrap();
    stream.write_all(bytes).unwrap();
}

fn take(stream: &mut UnixStream) -> Vec<u8> {
    let mut nbytes = [0; 4];
    stream.read_exact(&mut nbytes).unwrap();
    let mut bytes = vec![0; u32::from_le_bytes(nbytes) as usize];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

fn ticket_of(tensor: &Tensor) -> Vec<u8> {
    let mut message = Message::new().unwrap();
    message.add("weight", tensor).unwrap();
    tenon::deposit(&message).unwrap().bytes().to_vec()
}

fn fetch(ticket: &[u8]) -> tenon::Result<Message> {
    tenon::fetch(ticket, Access::Auto, OpenOptions::new(), PATIENCE)
}

fn kind_of<T>(result: tenon::Result<T>) -> ErrorKind {
    result.map(|_| ()).unwrap_err().kind()
}

#[test]
fn a_message_is_fetched_once_and_given_back() {
    let _turn = turn();
    let (child, mut stream) = start("receiver");
    let weight = TensorMut::zeros::<f32>(&[8]).unwrap();
    put(&mut stream, &ticket_of(&weight));
    assert_eq!(take(&mut stream), b"held");
    assert_eq!(weight.cells::<f32>().unwrap()[7].get(), 42.0);
    let holders = tenon::lease_holders().unwrap();
    assert!(holders.iter().any(|holder| holder.pid.unsigned_abs() == child.id()));
    let storage = weight.storage().downgrade().unwrap();
    drop(weight);
    put(&mut stream, b"go");
    assert_eq!(take(&mut stream), b"over");
    common::soon(|| tenon::lease_holders().is_ok() && storage.is_expired());
    assert!(storage.is_expired());
    put(&mut stream, b"end");
    common::ends_well(child);
}

#[test]
#[ignore = "the other process of a test"]
fn receiver() {
    let mut stream = inherited();
    let ticket = take(&mut stream);
    let message = fetch(&ticket).unwrap();
    message.find("weight").unwrap().writable().unwrap().cells::<f32>().unwrap()[7].set(42.0);
    assert_eq!(kind_of(fetch(&ticket)), ErrorKind::NotFound);
    put(&mut stream, b"held");
    take(&mut stream);
    drop(message);
    put(&mut stream, b"over");
    take(&mut stream);
}

#[test]
fn a_killed_receiver_gives_back() {
    let _turn = turn();
    let (mut child, mut stream) = start("receiver");
    let weight = TensorMut::zeros::<f32>(&[8]).unwrap();
    put(&mut stream, &ticket_of(&weight));
    assert_eq!(take(&mut stream), b"held");
    let storage = weight.storage().downgrade().unwrap();
    drop(weight);
    child.kill().unwrap();
    child.wait().unwrap();
    common::soon(|| tenon::lease_holders().is_ok() && storage.is_expired());
    assert!(storage.is_expired());
}

#[test]
fn the_lender_fetches_the_same_storage() {
    let _turn = turn();
    let weight = TensorMut::zeros::<f32>(&[8]).unwrap();
    let ticket = ticket_of(&weight);
    let stats = tenon::deposit_stats().unwrap();
    assert_eq!((stats.messages, stats.segments), (1, 1));
    let message = fetch(&ticket).unwrap();
    assert_eq!(message.find("weight").unwrap().storage().id(), weight.storage().id());
    assert_eq!(kind_of(fetch(&ticket)), ErrorKind::NotFound);
    assert!(!tenon::withdraw(&ticket).unwrap());
}

#[test]
fn a_withdrawn_message_is_not_found() {
    let _turn = turn();
    let ticket = ticket_of(&TensorMut::zeros::<f32>(&[8]).unwrap());
    assert!(tenon::withdraw(&ticket).unwrap());
    assert!(!tenon::withdraw(&ticket).unwrap());
    let (child, mut stream) = start("receiver_of_nothing");
    put(&mut stream, &ticket);
    common::ends_well(child);
}

#[test]
fn a_message_that_its_carrier_let_go_of_is_taken_back() {
    let _turn = turn();
    let ticket = ticket_of(&TensorMut::zeros::<f32>(&[8]).unwrap());
    let (ours, marker) = UnixStream::pair().unwrap();
    let file = File::open("/proc/self/exe").unwrap();
    assert_eq!(
        kind_of(tenon::watch(&ticket, file.into(), Duration::ZERO)),
        ErrorKind::InvalidArgument
    );
    tenon::watch(&ticket, ours.into(), Duration::from_millis(1)).unwrap();
    assert_eq!(tenon::deposit_stats().unwrap().messages, 1);
    drop(marker);
    common::soon(|| tenon::deposit_stats().unwrap().messages == 0);
    assert_eq!(kind_of(fetch(&ticket)), ErrorKind::NotFound);
}

#[test]
#[ignore = "the other process of a test"]
fn receiver_of_nothing() {
    let mut stream = inherited();
    let ticket = take(&mut stream);
    assert_eq!(kind_of(fetch(&ticket)), ErrorKind::NotFound);
    // Only the process that deposited a message can take it back.
    assert_eq!(kind_of(tenon::withdraw(&ticket)), ErrorKind::InvalidArgument);
}

#[test]
fn in_pieces() {
    let _turn = turn();
    let (child, mut stream) = start("receiver_in_pieces");
    let deposit = Deposit::new().unwrap();
    let (unopened, opened) = (StorageMut::new(5000).unwrap(), StorageMut::new(100).unwrap());
    opened.write(99, &[8]).unwrap();
    let frozen = StorageOptions::new().copy_frozen(&[9u8; 100]).unwrap();
    put(&mut stream, &deposit.add_writable(&unopened).unwrap());
    put(&mut stream, &deposit.add_writable(&opened).unwrap());
    put(&mut stream, &deposit.add_read_only(&frozen).unwrap());
    put(&mut stream, &deposit.add(&StorageMut::new(0).unwrap()).unwrap());
    assert_eq!(kind_of(deposit.add_read_only(&unopened)), ErrorKind::Permission);
    put(&mut stream, deposit.head());
    let weak = unopened.downgrade().unwrap();
    drop((deposit, unopened));
    assert_eq!(take(&mut stream), b"held");
    common::soon(|| tenon::lease_holders().is_ok() && weak.is_expired());
    assert!(weak.is_expired());
    put(&mut stream, b"end");
    common::ends_well(child);
}

#[test]
#[ignore = "the other process of a test"]
fn receiver_in_pieces() {
    let mut stream = inherited();
    let records: Vec<_> = (0..4).map(|_| take(&mut stream)).collect();
    let head = take(&mut stream);
    let (shared, frozen) = {
        let mut fetched = Fetched::new(&head, Access::Auto, OpenOptions::new(), PATIENCE).unwrap();
        assert_eq!(
            kind_of(Fetched::new(&head, Access::Auto, OpenOptions::new(), PATIENCE)),
            ErrorKind::NotFound
        );
        let shared = fetched.storage(&records[1], PATIENCE).unwrap();
        assert_eq!(kind_of(fetched.storage(&records[1], PATIENCE)), ErrorKind::Corrupt);
        assert_eq!(fetched.storage(&records[3], PATIENCE).unwrap().nbytes(), 0);
        (shared, fetched.storage(&records[2], PATIENCE).unwrap())
    };
    put(&mut stream, b"held");
    take(&mut stream);
    assert_eq!(shared.writable().unwrap().cells()[99].get(), 8);
    let tensor = Tensor::new(&frozen, &TensorSpec::of::<u8>(&[100])).unwrap();
    assert_eq!(tensor.as_slice::<u8>().unwrap(), [9; 100]);
}

#[test]
fn a_message_in_pieces_is_taken_back() {
    let _turn = turn();
    let deposit = Deposit::new().unwrap();
    let storage = StorageMut::new(100).unwrap();
    deposit.add(&storage).unwrap();
    assert!(deposit.withdraw());
    assert!(!deposit.withdraw());
    assert_eq!(kind_of(deposit.add(&storage)), ErrorKind::InvalidArgument);
    assert_eq!(
        kind_of(Fetched::new(deposit.head(), Access::Auto, OpenOptions::new(), PATIENCE)),
        ErrorKind::NotFound
    );
}

#[test]
fn a_wait_for_a_stopped_lender_ends() {
    let _turn = turn();
    let (child, mut stream) = start("lender");
    let ticket = take(&mut stream);
    signal(&child, "STOP");
    common::soon(|| is_stopped(&child));
    assert!(is_stopped(&child));
    let fetch = |wait| tenon::fetch(&ticket, Access::ReadOnly, OpenOptions::new(), wait);
    let cancel = Cancel::new().unwrap();
    cancel.trigger();
    assert_eq!(kind_of(fetch(Wait::at_most(Duration::from_millis(1)))), ErrorKind::Timeout);
    assert_eq!(kind_of(fetch(Wait::FOREVER.cancelled_by(&cancel))), ErrorKind::Cancelled);
    assert_eq!(kind_of(fetch(Wait::NOT)), ErrorKind::WouldBlock);
    signal(&child, "CONT");
    assert!(fetch(Wait::at_most(PATIENCE)).unwrap().find("weight").unwrap().is_read_only());
    put(&mut stream, b"end");
    common::ends_well(child);
}

fn signal(child: &Child, name: &str) {
    let status = std::process::Command::new("kill")
        .args(["-s", name, &child.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

/// Says whether all threads of that process have stopped. A signal does not reach all of them at
/// once.
fn is_stopped(child: &Child) -> bool {
    std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().all(|task| {
        let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
        stat.rsplit(") ").next().unwrap().starts_with('T')
    })
}

#[test]
#[ignore = "the other process of a test"]
fn lender() {
    let mut stream = inherited();
    put(&mut stream, &ticket_of(&TensorMut::zeros::<f32>(&[8]).unwrap()));
    take(&mut stream);
    assert_eq!(tenon::hand_over_deposits(&KeepOptions::new()).unwrap(), 0);
}

#[test]
fn a_keeper_hands_out_what_a_lender_left() {
    let _turn = turn();
    let Some(program) =
        std::env::var_os("TENON_MANAGER").map(PathBuf::from).filter(|path| path.exists())
    else {
        eprintln!("skipped: tenon-manager is not built");
        return;
    };
    let (child, mut stream) = start("lender_that_ends");
    put(&mut stream, program.as_os_str().as_encoded_bytes());
    let ticket = take(&mut stream);
    common::ends_well(child);
    let message = fetch(&ticket).unwrap();
    assert_eq!(message.find("weight").unwrap().as_slice::<u8>().unwrap(), [1, 2, 3]);
}

#[test]
#[ignore = "the other process of a test"]
fn lender_that_ends() {
    extern "C" {
        fn syscall(number: c_long, ...) -> c_long;
    }
    const PIDFD_OPEN: c_long = 434;
    let mut stream = inherited();
    let program = String::from_utf8(take(&mut stream)).unwrap();
    put(&mut stream, &ticket_of(&Tensor::frozen(&[1u8, 2, 3], &[3]).unwrap()));
    // SAFETY: pidfd_open takes a pid and flags, and its result is a new fd.
    let parent = unsafe { File::from_raw_fd(syscall(PIDFD_OPEN, parent_id(), 0u32) as i32) };
    let pidfds = [parent.as_fd()];
    let options = KeepOptions::new().timeout(PATIENCE).pidfds(&pidfds).program(program);
    assert_eq!(tenon::hand_over_deposits(&options).unwrap(), 1);
}

/// The limits of a process stay, so this test runs in a process of its own.
#[test]
fn limits() {
    let (child, _stream) = start("lender_with_limits");
    common::ends_well(child);
}

#[test]
#[ignore = "the other process of a test"]
fn lender_with_limits() {
    common::watchdog();
    tenon::set_deposit_limits(&DepositLimits::new().max_unfetched_segments(1)).unwrap();
    let isolated = || {
        TensorMut::new(
            &StorageOptions::new().isolated().create(32).unwrap(),
            &TensorSpec::of::<f32>(&[8]),
        )
        .unwrap()
    };
    let first = ticket_of(&isolated());
    let mut message = Message::new().unwrap();
    message.add(None, &isolated()).unwrap();
    let error = tenon::deposit(&message).unwrap_err();
    assert_eq!(
        (error.kind(), error.detail("limit")),
        (ErrorKind::ResourceExhausted, Some("max_unfetched_segments"))
    );
    tenon::set_deposit_limits(&DepositLimits::new().max_unfetched_nbytes(40)).unwrap();
    let [second, third] = [0, 1].map(|_| ticket_of(&TensorMut::zeros::<f32>(&[8]).unwrap()));
    assert_eq!(kind_of(fetch(&second)), ErrorKind::NotFound);
    assert_eq!(tenon::deposit_stats().unwrap().expired, 1);
    fetch(&first).unwrap();
    fetch(&third).unwrap();
    tenon::set_deposit_limits(&DepositLimits::new().max_unfetched_time(Duration::from_millis(1)))
        .unwrap();
    let fourth = ticket_of(&TensorMut::zeros::<f32>(&[8]).unwrap());
    common::soon(|| tenon::deposit_stats().unwrap().expired == 2);
    assert_eq!(kind_of(fetch(&fourth)), ErrorKind::NotFound);
    assert_eq!(tenon::deposit_stats().unwrap().messages, 0);
    assert_eq!(tenon::hand_over_deposits(&KeepOptions::new()).unwrap(), 0);
}

#[test]
fn what_is_refused() {
    let _turn = turn();
    let private = StorageOptions::new().private().create(32).unwrap();
    let deposit = Deposit::new().unwrap();
    assert_eq!(kind_of(deposit.add(&private)), ErrorKind::Unsupported);
    assert!(deposit.withdraw());
    let mut ticket = ticket_of(&TensorMut::zeros::<f32>(&[8]).unwrap());
    assert_eq!(
        kind_of(tenon::fetch(&ticket, Access::Auto, OpenOptions::new().private_copy(), PATIENCE)),
        ErrorKind::Unsupported
    );
    assert_eq!(
        kind_of(Fetched::new(&ticket, Access::Auto, OpenOptions::new(), PATIENCE)),
        ErrorKind::Corrupt
    );
    assert!(tenon::withdraw(&ticket).unwrap());
    ticket[40] ^= 1;
    assert_eq!(kind_of(fetch(&ticket)), ErrorKind::Corrupt);
    assert_eq!(kind_of(tenon::withdraw(&ticket)), ErrorKind::Corrupt);
    assert_eq!(kind_of(fetch(&[])), ErrorKind::Corrupt);
    assert_eq!(
        kind_of(tenon::hand_over_deposits(&KeepOptions::new().family("a\0b"))),
        ErrorKind::InvalidArgument
    );
    assert_eq!(
        kind_of(tenon::hand_over_deposits(&KeepOptions::new().program("a\0b"))),
        ErrorKind::InvalidArgument
    );
}
