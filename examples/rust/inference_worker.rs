//! A worker of the example inference_server.
//!
//!     inference_worker FD     FD is its socket to the front end
//!
//! The first message over the socket brings two queues and the weights. After that everything goes
//! through the queues. A request is a tensor, and its user bytes are its number. The worker says
//! that it has the request (the number and its own pid, without a tensor), and sends the answer in
//! a tensor of its own with the same user bytes. A request without a tensor ends the worker.

use std::env;
use std::error::Error;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::parent_id;
use std::process;

use tenon::{
    Connection, ErrorKind, Message, Queue, QueueOptions, ReadCell, Tensor, TensorMut, Wait,
};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn join(start: &Message, name: &str, options: QueueOptions) -> Outcome<Queue> {
    let bytes = start.find(name).ok_or("the first message lacks a queue")?;
    Ok(Queue::join(&bytes.writable()?.storage_mut(), options)?)
}

fn send(answers: &Queue, mark: &[u8], tensor: Option<&Tensor>) -> tenon::Result<()> {
    let mut message = Message::new()?;
    message.set_user_bytes(mark)?;
    if let Some(tensor) = tensor {
        message.add(None, tensor)?;
    }
    answers.send(&message, Wait::FOREVER)
}

/// Gives relu(x * weights) in a new tensor.
fn multiply(x: &Tensor, weights: &[ReadCell<f32>]) -> Outcome<TensorMut> {
    let &[rows, width] = x.sizes() else { return Err("a request that is no matrix".into()) };
    let (rows, width) = (usize::try_from(rows)?, usize::try_from(width)?);
    if weights.len() != width * width {
        return Err("a request of another width".into());
    }
    let y = TensorMut::zeros::<f32>(x.sizes())?;
    let (from, to) = (x.cells::<f32>()?, y.cells::<f32>()?);
    for row in 0..rows {
        for column in 0..width {
            let sum: f32 = (0..width)
                .map(|i| from[row * width + i].get() * weights[i * width + column].get())
                .sum();
            to[row * width + column].set(sum.max(0.0));
        }
    }
    Ok(y)
}

fn main() -> Outcome {
    let fd = env::args().nth(1).ok_or("usage: inference_worker FD")?.parse()?;
    let front_end = parent_id().to_string();
    // SAFETY: the front end started this program with this fd, and nothing else here uses it.
    let connection = Connection::new(unsafe { OwnedFd::from_raw_fd(fd) })?;
    let start = connection.recv(Wait::FOREVER)?;
    let requests = join(&start, "requests", QueueOptions::new())?;
    let answers = join(&start, "answers", QueueOptions::new().ignore_deaths())?;
    let weights = start.find("weights").ok_or("the first message lacks the weights")?;
    connection.send(&Message::new()?, Wait::FOREVER)?;
    loop {
        let request = match requests.recv(Wait::FOREVER) {
            Ok(request) => request,
            Err(gone) if gone.kind() == ErrorKind::PeerGone => {
                if gone.detail("pid") == Some(&front_end) {
                    return Ok(());
                }
                continue; // another worker has died
            }
            Err(error) => return Err(error.into()),
        };
        let Some(x) = request.tensor(0) else { return Ok(()) };
        let mark = [request.user_bytes(), &process::id().to_le_bytes()].concat();
        send(&answers, &mark, None)?;
        let y = multiply(&x, weights.cells::<f32>()?)?;
        send(&answers, &mark, Some(&y))?;
    }
}
