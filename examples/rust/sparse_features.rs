//! Lends a sparse matrix. The borrower checks its indices and reads it in place.

use std::env;
use std::error::Error;
use std::io::stdin;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;

use tenon::{Composite, CompositeSpec, Connection, Message, Tensor, TensorLayout, Wait};

fn borrow() -> Result<(), Box<dyn Error>> {
    let connection = Connection::new(stdin().as_fd().try_clone_to_owned()?)?;
    let message = connection.recv(Wait::FOREVER)?;
    // The lender could have sent an index that leads out of the matrix.
    let features = message.find_composite("features").ok_or("no features")?.check()?.spec()?;
    let (Some(first), Some(values)) = (features.indices, features.values) else {
        return Err("a part is missing".into());
    };
    let (first, values) = (first.as_slice::<i64>()?, values.as_slice::<f32>()?);
    print!("borrower: the rows sum to");
    for row in first.windows(2) {
        let mut sum = 0.0;
        for value in &values[row[0] as usize..row[1] as usize] {
            sum += value;
        }
        print!(" {sum}");
    }
    println!();
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    if env::args().nth(1).as_deref() == Some("borrow") {
        return borrow();
    }
    let (ours, theirs) = UnixStream::pair()?;
    let mut borrower =
        Command::new(env::current_exe()?).arg("borrow").stdin(OwnedFd::from(theirs)).spawn()?;

    // [[1, 0, 0, 2], [0, 0, 0, 0], [0, 3, 0, 0]]
    let features = Composite::new(&CompositeSpec {
        layout: TensorLayout::SparseCsr,
        sizes: vec![3, 4],
        values: Some(Tensor::frozen(&[1.0f32, 2.0, 3.0], &[3])?),
        indices: Some(Tensor::frozen(&[0i64, 2, 2, 3], &[4])?),
        plain_indices: Some(Tensor::frozen(&[0i64, 3, 1], &[3])?),
        ..CompositeSpec::default()
    })?;
    let mut message = Message::new()?;
    message.add_composite("features", &features)?;
    Connection::from_stream(ours)?.send(&message, Wait::FOREVER)?;
    if !borrower.wait()?.success() {
        return Err("the borrower failed".into());
    }
    println!("lender: lent 3 of 12 elements, nothing copied on the way");
    Ok(())
}
