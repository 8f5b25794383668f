//! Reads a borrowed tensor and writes to it. Its standard input is a socket to the lender.

use std::error::Error;
use std::io::stdin;
use std::os::fd::AsFd;

use tenon::{Connection, ErrorKind, Message, Wait};

fn main() -> Result<(), Box<dyn Error>> {
    let lender = Connection::new(stdin().as_fd().try_clone_to_owned()?)?;
    let message = lender.recv(Wait::FOREVER)?;
    let weights = message.find("weights").ok_or("no weights")?;
    println!("borrower: the first weight is {}", weights.cells::<f32>()?[0].get());
    match weights.writable() {
        Ok(writable) => writable.cells::<f32>()?[0].set(42.0),
        Err(error) => println!("borrower: cannot write: {error}"),
    }
    lender.send(&Message::new()?, Wait::FOREVER)?; // the borrower is done
    match lender.recv(Wait::FOREVER) {
        Err(error) if error.kind() == ErrorKind::PeerGone => Ok(()), // it closed the connection
        other => Err(format!("expected the end, got {other:?}").into()),
    }
}
