//! Lends a tensor to another program. usage: lender shared|frozen BORROWER...

use std::env;
use std::error::Error;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;

use tenon::{Connection, Message, Tensor, TensorMut, Wait};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().collect();
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(&args[2]);
    let mut borrower = command.args(&args[3..]).stdin(OwnedFd::from(theirs)).spawn()?;
    drop(command); // it has the borrower's end of the socket

    let ones = [1.0f32; 1000];
    let weights: Tensor = match args[1].as_str() {
        "frozen" => Tensor::frozen(&ones, &[1000])?,
        _ => TensorMut::copy_of(&ones, &[1000])?.into(),
    };
    let connection = Connection::from_stream(ours)?;
    let mut message = Message::new()?;
    message.add("weights", &weights)?;
    connection.send(&message, Wait::FOREVER)?;
    connection.recv(Wait::FOREVER)?; // the borrower is done
    println!("lender: the first weight is {}", weights.cells::<f32>()?[0].get());
    drop(connection);
    borrower.wait()?;
    Ok(())
}
