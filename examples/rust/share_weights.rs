//! A model's weights, lent and borrowed.
//!
//!     share_weights FD                              a borrower; FD is one end of a connected
//!                                                   AF_UNIX socket
//!     share_weights lend MODEL [PROGRAM ARG...]     the lender of a safetensors file to PROGRAM
//!                                                   (this one if there is none), in whose
//!                                                   arguments FD stands for its end of the socket
//!
//! The borrower says "ready". Then the first message brings the tensors. After that each message
//! asks for something in its user bytes, and gets an answer:
//!
//!     sum      read every float32 weight in place
//!     add N    add 1 to weight N of the first tensor, in place
//!
//! It ends when the lender closes its end.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use safetensors::SafeTensors;
use tenon::{
    Connection, DType, ErrorKind, Message, StorageMut, Tensor, TensorMut, TensorSpec, Wait,
};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn sum_of<'t>(weights: impl IntoIterator<Item = &'t Tensor>) -> tenon::Result<f64> {
    let mut sum = 0.0;
    for tensor in weights {
        sum += tensor.cells::<f32>()?.iter().map(|cell| f64::from(cell.get())).sum::<f64>();
    }
    Ok(sum)
}

fn say(connection: &Connection, text: &str) -> tenon::Result<()> {
    let mut message = Message::new()?;
    message.set_user_bytes(text.as_bytes())?;
    connection.send(&message, Wait::FOREVER)
}

/// Reads the clock that every process sees. An Instant does not show its number.
fn monotonic_ns() -> i128 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` belongs to this function.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

fn borrow(connection: &Connection) -> Outcome {
    say(connection, "ready")?;
    let message = connection.recv(Wait::FOREVER)?;
    let weights: Vec<Tensor> = message.views().iter().map(|view| view.to_tensor()).collect();
    let first = weights.first().ok_or("no weights")?;
    let _ = first.cells::<f32>()?.first().map(|cell| cell.get());
    let first_byte_ns = monotonic_ns();
    let answer = |sum: f64| -> tenon::Result<()> {
        let copied = tenon::stats()?.bytes_copied;
        say(
            connection,
            &format!(
                "{{\"sum\": {sum}, \"first_byte_ns\": {first_byte_ns}, \
                 \"bytes_copied\": {copied}}}"
            ),
        )
    };
    answer(0.0)?;
    loop {
        let message = match connection.recv(Wait::FOREVER) {
            Err(error) if error.kind() == ErrorKind::PeerGone => return Ok(()),
            message => message?,
        };
        let command = std::str::from_utf8(message.user_bytes())?;
        if let Some(at) = command.strip_prefix("add ") {
            let writable = first.writable()?;
            let cell =
                writable.cells::<f32>()?.get(at.parse::<usize>()?).ok_or("no such weight")?;
            cell.set(cell.get() + 1.0);
        }
        answer(if command == "sum" { sum_of(&weights)? } else { 0.0 })?;
    }
}

/// Loads all weights of the file into one storage. This is the only copy: from the file into memory
/// that can be lent.
fn load(path: &Path) -> Outcome<Vec<(String, TensorMut)>> {
    let file = fs::read(path)?;
    let model = SafeTensors::deserialize(&file)?;
    let mut tensors = model.tensors();
    tensors.sort_by(|(a, _), (b, _)| a.cmp(b));
    let padded = |nbytes: usize| (nbytes as u64).next_multiple_of(64);
    let storage = StorageMut::new(tensors.iter().map(|(_, view)| padded(view.data().len())).sum())?;
    let mut weights = Vec::new();
    let mut place = 0;
    for (name, view) in tensors {
        if view.dtype() != safetensors::Dtype::F32 {
            return Err(
                format!("{name} is of {:?}; this example is for float32", view.dtype()).into()
            );
        }
        storage.write(place, view.data())?;
        let sizes: Vec<i64> = view.shape().iter().map(|size| *size as i64).collect();
        weights.push((
            name,
            TensorMut::new(&storage, &TensorSpec::new(DType::F32, &sizes).offset(place / 4))?,
        ));
        place += padded(view.data().len());
    }
    Ok(weights)
}

/// Reads a number from the borrower's answer.
fn number(answer: &Message, key: &str) -> Outcome<f64> {
    let text = std::str::from_utf8(answer.user_bytes())?;
    let (_, rest) =
        text.split_once(&format!("\"{key}\": ")).ok_or_else(|| format!("no {key} in {text}"))?;
    Ok(rest.split([',', '}']).next().unwrap_or_default().parse()?)
}

fn check(holds: bool, promise: &str) -> Outcome {
    if holds {
        Ok(())
    } else {
        Err(format!("it should be that {promise}").into())
    }
}

fn lend(model: &Path, command: &[OsString]) -> Outcome {
    let weights = load(model)?;
    let (_, first) = weights.first().ok_or("the file has no tensors")?;
    let copied = tenon::stats()?.bytes_copied;
    println!(
        "loaded   {} tensors, {} bytes, into one storage",
        weights.len(),
        first.storage().nbytes()
    );

    // The borrower gets its end of the socket as its standard input.
    let (ours, theirs) = UnixStream::pair()?;
    let this = [env::current_exe()?.into_os_string(), "FD".into()];
    let (program, arguments) =
        if command.is_empty() { &this } else { command }.split_first().ok_or("no program")?;
    let arguments =
        arguments.iter().map(|each| if each == "FD" { "0".into() } else { each.clone() });
    let mut borrower =
        Command::new(program).args(arguments).stdin(OwnedFd::from(theirs)).spawn()?;
    let connection = Connection::from_stream(ours)?;
    let patience = Duration::from_secs(120);
    check(
        connection.recv(patience)?.user_bytes() == b"ready",
        "the borrower says that it is ready",
    )?;
    let ask = |command: &str| -> Outcome<Message> {
        say(&connection, command)?;
        Ok(connection.recv(patience)?)
    };

    let mut message = Message::new()?;
    message
        .add_all(weights.iter().map(|(name, tensor)| (Some(name), tensor)), tenon::Access::Auto)?;
    let started = Instant::now();
    connection.send(&message, patience)?;
    let answer = connection.recv(patience)?;
    println!(
        "lent     the same {} tensors; the answer came after {} µs",
        weights.len(),
        started.elapsed().as_micros()
    );
    check(number(&answer, "bytes_copied")? == 0.0, "the borrower copied nothing")?;
    check(tenon::stats()?.bytes_copied == copied, "lending copies nothing")?;
    println!("copied   0 bytes there, 0 bytes here for the lend");

    let here = sum_of(weights.iter().map(|(_, tensor)| &**tensor))?;
    let there = number(&ask("sum")?, "sum")?;
    check(
        (there - here).abs() <= 1e-6 * here.abs().max(1.0),
        "the borrower reads the same weights",
    )?;
    println!("read     by the borrower, in place: the sum of all weights is {there:.6}");

    let before = first.cells::<f32>()?[0].get();
    ask("add 0")?;
    let after = first.cells::<f32>()?[0].get();
    check(after == before + 1.0, "the borrower's write is seen here")?;
    println!(
        "written  by the borrower, in place: weight 0: {before:+.4} -> {after:+.4}, \
         seen by the lender"
    );

    drop(connection);
    check(borrower.wait()?.success(), "the borrower ends in order")
}

fn run() -> Outcome {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    match arguments.as_slice() {
        [lend_it, model, command @ ..] if lend_it == "lend" => lend(Path::new(model), command),
        [fd] => {
            let fd = fd.to_str().and_then(|fd| fd.parse().ok()).ok_or("FD is a number")?;
            // SAFETY: the program that started this one gave it the socket.
            borrow(&Connection::new(unsafe { OwnedFd::from_raw_fd(fd) })?)
        }
        _ => Err("usage: share_weights FD | share_weights lend MODEL [PROGRAM ARG...]".into()),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("share_weights: {error}");
            ExitCode::FAILURE
        }
    }
}
