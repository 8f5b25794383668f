//! Tests of connections: between threads, between processes, and with waits that end.

mod common;

use std::ffi::c_long;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use common::PATIENCE;
use tenon::{
    Access, Cancel, Connection, ConnectionOptions, ErrorKind, FilenameOptions, LenderGone, Message,
    OpenOptions, StorageMut, StorageOptions, Tensor, TensorMut, TensorSpec, Wait,
};

#[test]
fn lent_to_another_process_and_written_there() {
    common::watchdog();
    let (child, connection) = common::start("borrower", &[]);
    let shared = TensorMut::zeros::<f32>(&[1000, 1000]).unwrap();
    let frozen = Tensor::frozen(&[0.5f64, 1.5], &[2]).unwrap();
    let mut message = Message::new().unwrap();
    message.add_writable("shared", &shared).unwrap();
    message.add_read_only("frozen", &frozen).unwrap();
    message.set_user_bytes(b"hello").unwrap();
    connection.send(&message, PATIENCE).unwrap();
    let answer = connection.recv(PATIENCE).unwrap();
    assert_eq!(answer.user_bytes(), b"done");
    assert_eq!(shared.cells::<f32>().unwrap()[999_999].get(), 42.0);
    common::ends_well(child);
    assert_eq!(connection.recv(PATIENCE).unwrap_err().kind(), ErrorKind::PeerGone);
}

#[test]
#[ignore = "the other process of a test"]
fn borrower() {
    common::watchdog();
    let connection = ConnectionOptions::new().ring().connect(common::inherited_socket()).unwrap();
    let message = connection.recv(PATIENCE).unwrap();
    assert_eq!(message.user_bytes(), b"hello");
    let frozen = message.find("frozen").unwrap();
    assert_eq!(frozen.as_slice::<f64>().unwrap(), [0.5, 1.5]);
    assert_eq!(frozen.writable().unwrap_err().kind(), ErrorKind::Permission);
    let shared = message.find("shared").unwrap();
    drop(message);
    assert_eq!(shared.as_slice::<f32>().unwrap_err().kind(), ErrorKind::MayChange);
    shared.writable().unwrap().cells::<f32>().unwrap()[999_999].set(42.0);
    let mut answer = Message::new().unwrap();
    answer.set_user_bytes(b"done").unwrap();
    connection.send(&answer, PATIENCE).unwrap();
}

#[test]
fn a_named_file_is_taken_if_the_borrower_says_so() {
    let folder = common::Folder::new();
    let storage =
        StorageMut::new_filename(&FilenameOptions::new().directory(&folder.0), 64).unwrap();
    let tensor = TensorMut::new(&storage, &TensorSpec::of::<u8>(&[64])).unwrap();
    for named_files in ["", "yes"] {
        let (child, connection) =
            common::start("borrower_of_a_named_file", &[("TENON_NAMED_FILES", named_files)]);
        let mut message = Message::new().unwrap();
        message.add_writable("file", &tensor).unwrap();
        connection.send(&message, PATIENCE).unwrap();
        common::ends_well(child);
    }
}

#[test]
#[ignore = "the other process of a test"]
fn borrower_of_a_named_file() {
    common::watchdog();
    if std::env::var("TENON_NAMED_FILES").unwrap().is_empty() {
        assert_eq!(common::inherited().recv(PATIENCE).unwrap_err().kind(), ErrorKind::Permission);
    } else {
        let connection =
            ConnectionOptions::new().named_files().connect(common::inherited_socket()).unwrap();
        assert!(connection.recv(PATIENCE).unwrap().find("file").is_some());
    }
}

#[test]
fn bytes_outlive_a_lender_that_was_killed() {
    common::watchdog();
    let (mut child, connection) = common::start("lender", &[]);
    let message = connection.recv(PATIENCE).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(connection.recv(PATIENCE).unwrap_err().kind(), ErrorKind::PeerGone);
    assert!(message.find("x").unwrap().as_slice::<u8>().unwrap().iter().all(|byte| *byte == 3));
}

#[test]
fn memory_of_a_killed_lender_is_dropped() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut child = common::command("lender").stdin(OwnedFd::from(theirs)).spawn().unwrap();
    let connection =
        ConnectionOptions::new().on_lender_gone(LenderGone::Drop).connect(ours).unwrap();
    let message = connection.recv(PATIENCE).unwrap();
    let tensor = message.find("x").unwrap();
    let storage = tensor.storage();
    assert!(storage.check_lender().is_ok());
    let before = tensor.view();
    child.kill().unwrap();
    child.wait().unwrap();
    common::soon(|| storage.check_lender().is_err());
    assert!(connection.gone_fd().unwrap().as_raw_fd() >= 0);
    // A tensor keeps its bytes.
    assert!(before.as_slice::<u8>().unwrap().iter().all(|byte| *byte == 3));
    assert_eq!(storage.check_lender().unwrap_err().kind(), ErrorKind::PeerGone);
    assert!(storage.cells().is_empty());
    assert_eq!(tensor.as_slice::<u8>().unwrap_err().kind(), ErrorKind::PeerGone);
    assert_eq!(tensor.cells::<u8>().unwrap_err().kind(), ErrorKind::PeerGone);
    assert_eq!(
        Message::new().unwrap().add("again", &tensor).unwrap_err().kind(),
        ErrorKind::PeerGone
    );
    assert_eq!(connection.recv(PATIENCE).unwrap_err().kind(), ErrorKind::PeerGone);
}

#[test]
#[ignore = "the other process of a test"]
fn lender() {
    common::watchdog();
    let connection = common::inherited();
    let mut message = Message::new().unwrap();
    message.add("x", &Tensor::frozen(&[3u8; 5000], &[5000]).unwrap()).unwrap();
    connection.send(&message, PATIENCE).unwrap();
    let _ = connection.recv(Wait::FOREVER);
}

#[test]
fn three_hundred_tensors_in_one_message() {
    let (ours, theirs) = common::pair();
    let storage = StorageOptions::new().zeroed().create(300 * 4096).unwrap();
    let names: Vec<String> = (0..300).map(|i| format!("t{i}")).collect();
    let tensors: Vec<TensorMut> = (0..300)
        .map(|i| {
            TensorMut::new(&storage, &TensorSpec::of::<u32>(&[1024]).offset(i * 1024)).unwrap()
        })
        .collect();
    for (i, tensor) in tensors.iter().enumerate() {
        tensor.cells::<u32>().unwrap()[i].set(i as u32);
    }
    let mut message = Message::new().unwrap();
    message.add_all(names.iter().map(Some).zip(&tensors), Access::Auto).unwrap();
    ours.send(&message, PATIENCE).unwrap();
    let received = theirs.recv(PATIENCE).unwrap();
    let views = received.views();
    assert_eq!(views.len(), 300);
    for (i, view) in views.iter().enumerate() {
        assert_eq!(view.name(), Some(names[i].as_str()));
        assert_eq!(view.cells::<u32>().unwrap()[i].get(), i as u32);
    }
}

#[test]
fn cancelled_from_another_thread() {
    common::watchdog();
    let (ours, _theirs) = common::pair();
    let mut cancel = Cancel::new().unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| ours.recv(Wait::FOREVER.cancelled_by(&cancel)).unwrap_err());
        cancel.trigger();
        assert_eq!(waiter.join().unwrap().kind(), ErrorKind::Cancelled);
    });
    // The cancel stays triggered until it is reset.
    assert_eq!(
        ours.recv(Wait::at_most(PATIENCE).cancelled_by(&cancel)).unwrap_err().kind(),
        ErrorKind::Cancelled
    );
    cancel.reset();
    assert_eq!(
        ours.recv(Wait::at_most(Duration::from_millis(1)).cancelled_by(&cancel))
            .unwrap_err()
            .kind(),
        ErrorKind::Timeout
    );
}

#[test]
fn a_half_sent_message_goes_on() {
    let (ours, theirs) = common::pair();
    let mut big = Message::new().unwrap();
    big.set_user_bytes(&[1; 65536]).unwrap();
    let mut sent = 0;
    loop {
        sent += 1;
        match ours.send(&big, Wait::NOT) {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                break;
            }
        }
    }
    std::thread::scope(|scope| {
        scope.spawn(|| ours.flush(PATIENCE).unwrap());
        for _ in 0..sent {
            assert_eq!(theirs.recv(PATIENCE).unwrap().user_bytes(), [1; 65536]);
        }
    });
    assert_eq!(theirs.recv(Wait::NOT).unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn limits_and_access_of_one_connection() {
    let (one, other) = UnixStream::pair().unwrap();
    let sender = Connection::try_from(one).unwrap();
    let receiver = ConnectionOptions::new()
        .open(Access::ReadOnly, OpenOptions::new())
        .max_tensors(1)
        .connect(other)
        .unwrap();
    let tensor = TensorMut::zeros::<u8>(&[4]).unwrap();
    let mut message = Message::new().unwrap();
    message.add("x", &tensor).unwrap();
    sender.send(&message, PATIENCE).unwrap();
    let received = receiver.recv(PATIENCE).unwrap().find("x").unwrap();
    assert!(received.is_read_only());
    message.add("y", &tensor).unwrap();
    sender.send(&message, PATIENCE).unwrap();
    let error = receiver.recv(PATIENCE).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ResourceExhausted | ErrorKind::Corrupt), "{error:?}");
}

#[test]
fn the_peer_of_a_pair_made_it() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let connection = ConnectionOptions::new().same_user().connect(ours).unwrap();
    let peer = connection.peer().unwrap();
    let of_proc = std::fs::metadata("/proc/self").unwrap();
    assert_eq!(
        (peer.pid, peer.uid, peer.gid),
        (std::process::id() as i32, of_proc.uid(), of_proc.gid())
    );
}

/// Makes a pair of sockets in a thread that is another user with an additional group. Only root can
/// do that, and the result is None for other users.
fn strangers() -> Option<(UnixStream, UnixStream)> {
    extern "C" {
        fn syscall(number: c_long, ...) -> c_long;
    }
    #[cfg(target_arch = "x86_64")]
    const SETGROUPS_SETRESGID_SETRESUID: [c_long; 3] = [116, 119, 117];
    #[cfg(not(target_arch = "x86_64"))]
    const SETGROUPS_SETRESGID_SETRESUID: [c_long; 3] = [159, 149, 147];
    let [setgroups, setresgid, setresuid] = SETGROUPS_SETRESGID_SETRESUID;
    let become_another = move || {
        const GROUPS: [u32; 2] = [65532, 65533];
        let (same, other): (c_long, c_long) = (-1, 65534);
        // SAFETY: these system calls bypass libc, so that only this thread becomes another user.
        // The groups outlive the call.
        let became = unsafe {
            syscall(setgroups, 2 as c_long, GROUPS.as_ptr()) == 0
                && syscall(setresgid, same, other, same) == 0
                && syscall(setresuid, same, other, same) == 0
        };
        became.then(|| UnixStream::pair().unwrap())
    };
    std::thread::spawn(become_another).join().unwrap()
}

#[test]
fn another_users_peer() {
    let Some((ours, _theirs)) = strangers() else {
        eprintln!("skipped: only root can become another user");
        return;
    };
    for options in [ConnectionOptions::new().same_user(), ConnectionOptions::new().group(65531)] {
        let error = options.connect(ours.try_clone().unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Permission);
        assert_eq!(error.detail("uid"), Some("65534"));
        assert_eq!(error.detail("pid"), Some(std::process::id().to_string().as_str()));
    }
    for options in [ConnectionOptions::new(), ConnectionOptions::new().same_user().group(65533)] {
        let peer = options.connect(ours.try_clone().unwrap()).unwrap().peer().unwrap();
        assert_eq!((peer.uid, peer.gid), (65534, 65534));
    }
}

#[test]
fn what_is_no_socket_is_refused_and_closed() {
    let file = std::fs::File::open("/dev/null").unwrap();
    assert_eq!(
        Connection::try_from(OwnedFd::from(file)).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
}

#[test]
fn the_socket_can_be_polled() {
    let (ours, _theirs) = common::pair();
    assert_eq!(ours.as_fd().as_raw_fd(), ours.as_raw_fd());
    assert!(ours.as_raw_fd() >= 0);
}
