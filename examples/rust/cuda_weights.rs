//! Lends weights on a GPU to another process, as a trainer does for its workers. The lender reads
//! an archive into device memory, and lends the tensors over a connection. Then it does the same
//! with the next archive. The worker uses the tensors in place, without a copy. Without CUDA the
//! program says why, and exits with 77, as a skipped test does. usage: cuda_weights FILE...

use std::env;
use std::error::Error;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode};

use tenon::{
    cuda_available, cuda_collect, export_module_to, import_bytes, import_module, Connection,
    ErrorKind, ExportOptions, ImportOptions, Message, Module, Tensor, Wait,
};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The host cannot read device memory, so the elements travel through an archive.
fn sum_of(tensor: &Tensor) -> tenon::Result<f64> {
    let mut module = Module::new("Weight")?;
    module.add_buffer("weight", tensor)?;
    let mut archive = Vec::new();
    export_module_to(&module, &mut archive, &ExportOptions::new())?;
    let copy = import_bytes(archive, &ImportOptions::new())?.value("weight")?.to_tensor()?;
    let sum = copy.cells::<f32>()?.iter().map(|cell| f64::from(cell.get())).sum();
    Ok(sum)
}

fn work(lender: &Connection) -> Outcome {
    let mut weights;
    loop {
        weights = match lender.recv(Wait::FOREVER) {
            Err(error) if error.kind() == ErrorKind::PeerGone => return Ok(()),
            next => next?, // the old weights go back to the lender
        };
        println!("{}:", std::str::from_utf8(weights.user_bytes())?);
        for (i, view) in weights.views().iter().enumerate() {
            let (tensor, name) = (view.to_tensor(), weights.name(i).ok_or("no name")?);
            let (_, device) = tensor.device();
            println!(
                "  {name}: {} {:?} on cuda:{device}, the sum is {}",
                tensor.dtype(),
                tensor.sizes(),
                sum_of(&tensor)?
            );
        }
    }
}

fn lend(worker: &Connection, file: &str) -> Outcome {
    let model = import_module(file, &ImportOptions::new().on_device(0))?;
    let mut message = Message::new()?;
    message.set_user_bytes(file.as_bytes())?;
    for member in model.tensors()? {
        message.add(member.name.as_str(), &member.value.ok_or("no value")?.to_tensor()?)?;
    }
    Ok(worker.send(&message, Wait::FOREVER)?)
}

fn run(files: &[String]) -> Outcome {
    // The worker is a new program, with its end of the socket as its standard input, because CUDA's
    // driver does not work in a child of fork.
    let (ours, theirs) = UnixStream::pair()?;
    let mut worker =
        Command::new(env::current_exe()?).arg("--worker").stdin(OwnedFd::from(theirs)).spawn()?;
    let connection = Connection::from_stream(ours)?;
    for file in files {
        lend(&connection, file)?;
    }
    drop(connection);
    // The lent memory exists as long as this process.
    if !worker.wait()?.success() {
        return Err("the worker failed".into());
    }
    println!("{} storages are still lent", cuda_collect());
    Ok(())
}

fn main() -> Outcome<ExitCode> {
    let files: Vec<String> = env::args().skip(1).collect();
    if files.first().is_some_and(|word| word == "--worker") {
        work(&Connection::new(io::stdin().as_fd().try_clone_to_owned()?)?)?;
    } else if files.is_empty() {
        return Err("usage: cuda_weights FILE...".into());
    } else if let Err(error) = cuda_available() {
        eprintln!("cuda_weights: {error}");
        return Ok(ExitCode::from(77));
    } else {
        run(&files)?;
    }
    Ok(ExitCode::SUCCESS)
}
