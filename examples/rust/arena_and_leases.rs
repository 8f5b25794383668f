//! Two workers borrow from one arena. One worker is killed, and the blocks that it held come back
//! to the lender. The other worker reads on.

use std::env;
use std::error::Error;
use std::io::stdin;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::Duration;

use tenon::{
    Arena, ArenaOptions, Connection, ErrorKind, Message, StorageOptions, TensorMut, TensorSpec,
    Wait,
};

const TENSORS: usize = 8;
const ELEMENTS: usize = 1 << 18;
const NBYTES: u64 = ELEMENTS as u64 * 4;

fn work() -> Result<(), Box<dyn Error>> {
    let lender = Connection::new(stdin().as_fd().try_clone_to_owned()?)?;
    let weights = lender.recv(Wait::FOREVER)?;
    lender.send(&Message::new()?, Wait::FOREVER)?;
    lender.recv(Wait::FOREVER)?; // meanwhile the lender kills one worker
    let last = weights.tensor(TENSORS - 1).ok_or("no tensor")?;
    println!("a worker still reads {}", last.cells::<f32>()?[ELEMENTS - 1].get());
    Ok(()) // the leases end with the message and its tensors
}

fn start() -> Result<(Child, Connection), Box<dyn Error>> {
    let (ours, theirs) = UnixStream::pair()?;
    let worker =
        Command::new(env::current_exe()?).arg("work").stdin(OwnedFd::from(theirs)).spawn()?;
    Ok((worker, Connection::from_stream(ours)?))
}

/// Makes tensors in the arena, and drops them as soon as they are sent. From then on the worker's
/// leases keep their memory.
fn lend(worker: &Connection, arena: &Arena) -> tenon::Result<()> {
    let mut message = Message::new()?;
    for _ in 0..TENSORS {
        let storage = StorageOptions::new().arena(arena).copy_from(&vec![42.0f32; ELEMENTS])?;
        message.add_writable(
            None,
            &TensorMut::new(&storage, &TensorSpec::of::<f32>(&[ELEMENTS as i64]))?,
        )?;
    }
    worker.send(&message, Wait::FOREVER)?;
    worker.recv(Wait::FOREVER).map(drop) // the worker has the tensors
}

fn print_holders() -> tenon::Result<()> {
    for each in tenon::lease_holders()? {
        println!("process {} holds {} leases of {} bytes", each.pid, each.leases, each.nbytes);
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    if env::args().nth(1).as_deref() == Some("work") {
        return work();
    }
    let ((mut first, to_first), (mut second, to_second)) = (start()?, start()?);
    let arena = ArenaOptions::new().capacity(2 * TENSORS as u64 * NBYTES).create()?;
    lend(&to_first, &arena)?;
    lend(&to_second, &arena)?;
    print_holders()?;
    match StorageOptions::new().arena(&arena).create(NBYTES) {
        Err(error) if error.kind() == ErrorKind::ResourceExhausted => println!("full: {error}"),
        other => return Err(format!("it is not full: {other:?}").into()),
    }

    first.kill()?; // SIGKILL

    // Waits until there is room.
    let storage =
        StorageOptions::new().arena(&arena).wait(Duration::from_secs(10)).create(NBYTES)?;
    println!("one worker was killed, and there is room");
    print_holders()?;
    to_second.send(&Message::new()?, Wait::FOREVER)?;
    if !second.wait()?.success() {
        return Err("a worker failed".into());
    }
    let now = arena.stats()?;
    println!("{} blocks are lent, {} bytes are in use", now.blocks_lent, now.bytes_live);
    drop(storage);
    first.wait()?;
    Ok(())
}
