//! Kills a borrower and uses its memory again. usage: reclaim BORROWER...

use std::env;
use std::error::Error;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use tenon::{ArenaOptions, Connection, Message, StorageOptions, TensorMut, TensorSpec, Wait};

const NBYTES: u64 = 4 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().collect();
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(&args[1]);
    let mut borrower = command.args(&args[2..]).stdin(OwnedFd::from(theirs)).spawn()?;
    drop(command); // it has the borrower's end of the socket

    let arena = ArenaOptions::new().capacity(NBYTES).create()?; // room for one tensor of 4 MiB
    let in_arena = StorageOptions::new().arena(&arena);
    let weights = TensorMut::new(&in_arena.create(NBYTES)?, &TensorSpec::of::<f32>(&[1 << 20]))?;
    let connection = Connection::from_stream(ours)?;
    let mut message = Message::new()?;
    message.add("weights", &weights)?;
    connection.send(&message, Wait::FOREVER)?;
    connection.recv(Wait::FOREVER)?; // the borrower is done, and still holds the tensor
    drop((message, weights));
    let Err(error) = in_arena.create(NBYTES) else { return Err("there is room".into()) };
    println!("lender: no room. {}", error.detail("holders").unwrap_or(""));

    borrower.kill()?;
    in_arena.wait(Duration::from_secs(10)).create(NBYTES)?; // waits until there is room
    println!("lender: the borrower was killed, and its memory is free");
    borrower.wait()?;
    Ok(())
}
