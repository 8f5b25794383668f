//! Lends weights that nobody can change any more. The borrower reads them in place, and is refused
//! when it tries to write.

use std::env;
use std::error::Error;
use std::io::stdin;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;

use tenon::{Connection, ErrorKind, Message, Tensor, Wait};

fn borrow() -> Result<(), Box<dyn Error>> {
    let connection = Connection::new(stdin().as_fd().try_clone_to_owned()?)?;
    let weights = connection.recv(Wait::FOREVER)?.find("weights").ok_or("no weights")?;
    // Nobody can change frozen memory, so it can be read as a plain &[f32].
    println!("borrower: the third weight is {}", weights.as_slice::<f32>()?[2]);
    match weights.writable() {
        Err(error) if error.kind() == ErrorKind::Permission => {
            println!("borrower: cannot write: {error}")
        }
        other => return Err(format!("it could be written: {other:?}").into()),
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    if env::args().nth(1).as_deref() == Some("borrow") {
        return borrow();
    }
    let (ours, theirs) = UnixStream::pair()?;
    let mut borrower =
        Command::new(env::current_exe()?).arg("borrow").stdin(OwnedFd::from(theirs)).spawn()?;

    let weights = Tensor::frozen(&[0.5f32, 1.5, 2.5, 3.5], &[4])?;
    let mut message = Message::new()?;
    message.add_read_only("weights", &weights)?;
    Connection::from_stream(ours)?.send(&message, Wait::FOREVER)?;
    if !borrower.wait()?.success() {
        return Err("the borrower failed".into());
    }
    println!("lender: lent once, {} bytes, nothing copied on the way", weights.nbytes());
    Ok(())
}
