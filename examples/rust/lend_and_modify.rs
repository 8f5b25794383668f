//! Lends a tensor to another process, which changes it in place.

use std::env;
use std::error::Error;
use std::io::stdin;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;

use tenon::{Connection, Message, TensorMut, Wait};

fn borrow() -> Result<(), Box<dyn Error>> {
    let connection = Connection::new(stdin().as_fd().try_clone_to_owned()?)?;
    let weight = connection.recv(Wait::FOREVER)?.find("weight").ok_or("no weight")?.writable()?;
    weight.cells::<f32>()?[999_999].set(42.0);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    if env::args().nth(1).as_deref() == Some("borrow") {
        return borrow();
    }
    let (ours, theirs) = UnixStream::pair()?;
    let mut borrower =
        Command::new(env::current_exe()?).arg("borrow").stdin(OwnedFd::from(theirs)).spawn()?;

    let weight = TensorMut::zeros::<f32>(&[1000, 1000])?;
    let mut message = Message::new()?;
    message.add_writable("weight", &weight)?;
    Connection::from_stream(ours)?.send(&message, Wait::FOREVER)?;
    if !borrower.wait()?.success() {
        return Err("the borrower failed".into());
    }
    println!("the last element is now {}", weight.cells::<f32>()?[999_999].get());
    Ok(())
}
