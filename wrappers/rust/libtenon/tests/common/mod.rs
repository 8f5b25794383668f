//! Helpers of several tests: a second process, and an end for tests that hang.
#![allow(dead_code, unreachable_pub)] // each test file uses its part

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tenon::Connection;

/// A time that is longer than any step of a test and shorter than CTest's limit.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Ends this process if it still runs after a minute and a half.
pub fn watchdog() {
    std::thread::spawn(|| {
        std::thread::sleep(PATIENCE + PATIENCE / 2);
        eprintln!("the watchdog ends this test");
        std::process::abort();
    });
}

/// Starts this test program again, as the `#[ignore]`d test `role`, with one end of a socket as its
/// standard input.
pub fn start(role: &str, arguments: &[(&str, &str)]) -> (Child, Connection) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let child =
        command(role).envs(arguments.iter().copied()).stdin(OwnedFd::from(theirs)).spawn().unwrap();
    (child, Connection::from_stream(ours).unwrap())
}

pub fn command(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", role, "--ignored", "--nocapture", "--test-threads=1"])
        .stdout(Stdio::null())
        .stdin(Stdio::null());
    command
}

/// Makes the connection on the end that `start` gave.
pub fn inherited() -> Connection {
    Connection::new(inherited_socket()).unwrap()
}

pub fn inherited_socket() -> OwnedFd {
    std::io::stdin().as_fd().try_clone_to_owned().unwrap()
}

pub fn ends_well(mut child: Child) {
    let status = child.wait().unwrap();
    assert!(status.success(), "the other process ended with {status}");
}

/// Waits until the condition holds, because the library's thread does its work at its own time. The
/// wait is limited, so the caller checks the condition afterwards.
pub fn soon(holds: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Makes a connected pair in this process.
pub fn pair() -> (Connection, Connection) {
    let (one, other) = UnixStream::pair().unwrap();
    (Connection::from_stream(one).unwrap(), Connection::from_stream(other).unwrap())
}

/// A folder in /dev/shm for one test, which is removed at the end of the test.
pub struct Folder(pub std::path::PathBuf);

impl Folder {
    pub fn new() -> Folder {
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let path = format!(
            "/dev/shm/tenon-rust-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        std::fs::create_dir(&path).unwrap();
        Folder(path.into())
    }

    pub fn names(&self) -> Vec<String> {
        std::fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
