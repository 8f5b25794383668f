//! Measures what the Rust wrapper adds to its C calls. It also receives and views 300 tensors of 4
//! KiB, in Rust and by the C calls.
//!
//! A sample is the mean over many calls of one kind, made in turn through the wrapper and through
//! the C header. Both check errors. Another process sends the 300 tensors in one message each time,
//! in a known segment. The time runs from the call that receives the message, which is already in
//! the socket, until the first byte of each tensor was read. Rows are printed as
//! tests/bench/bench.h prints them.
//! usage: wrapper_rust [--smoke]

use std::hint::black_box;
use std::io::{stdin, stdout, Read, Write};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::ptr::{null, null_mut};
use std::time::Instant;

use tenon::{
    sys, Access, Connection, Message, OpenOptions, StorageMut, Tensor, TensorMut, TensorSpec, Wait,
};

const NBYTES: u64 = 4096;
const TENSORS: usize = 300;

fn row(measure: &str, unit: &str, goal: &str, ours: &[f64], theirs: &[f64]) {
    let join = |samples: &[f64]| {
        samples.iter().map(|sample| format!("{sample:.6}")).collect::<Vec<_>>().join(", ")
    };
    println!(
        "{{\"measure\": \"{measure}, Rust\", \"unit\": \"{unit}\", \"against\": \"C\", \
         \"goal\": {goal}, \"ours\": [{}], \"theirs\": [{}]}}",
        join(ours),
        join(theirs)
    );
}

fn ns_each(calls: u32, mut call: impl FnMut()) -> f64 {
    let begin = Instant::now();
    for _ in 0..calls {
        call();
    }
    begin.elapsed().as_nanos() as f64 / f64::from(calls)
}

fn compare(
    measure: &str,
    rounds: usize,
    calls: u32,
    mut ours: impl FnMut(),
    mut theirs: impl FnMut(),
) {
    let (mut our_samples, mut their_samples) = (Vec::new(), Vec::new());
    let warm_up = rounds / 10 + 1;
    for round in 0..rounds + warm_up {
        let samples = (ns_each(calls, &mut ours), ns_each(calls, &mut theirs));
        if round >= warm_up {
            our_samples.push(samples.0);
            their_samples.push(samples.1);
        }
    }
    row(measure, "ns", "{\"of\": \"ours-theirs\", \"at_most\": 100}", &our_samples, &their_samples);
}

/// Makes a C call and checks its error.
fn ok(call: impl FnOnce(*mut *mut sys::tenon_error) -> sys::tenon_status) {
    let mut error = null_mut();
    assert_eq!(call(&mut error), 0);
}

fn calls(rounds: usize, each: u32) {
    let sizes = [NBYTES as i64 / 4];
    let tensor = TensorMut::zeros::<f32>(&sizes).unwrap();
    let storage = tensor.storage();
    let frozen = Tensor::frozen(&[0f32; NBYTES as usize / 4], &sizes).unwrap();
    // SAFETY: here and below, as the wrapper says of the same calls.
    compare(
        "new and release of a storage of 4 KiB",
        rounds,
        each,
        || drop(StorageMut::new(NBYTES).unwrap()),
        || unsafe {
            let mut storage = null_mut();
            ok(|err| sys::tenon_storage_new(null(), NBYTES, &mut storage, err));
            sys::tenon_storage_release(storage);
        },
    );
    compare(
        "new and release of a tensor",
        rounds,
        each,
        || drop(Tensor::new(&storage, &TensorSpec::of::<f32>(&sizes)).unwrap()),
        || unsafe {
            let spec = sys::tenon_tensor_spec {
                struct_size: size_of::<sys::tenon_tensor_spec>(),
                dtype: sys::tenon_dtype { code: 2, bits: 32, lanes: 1 },
                ndim: 1,
                sizes: sizes.as_ptr(),
                ..zeroed()
            };
            let mut tensor = null_mut();
            ok(|err| sys::tenon_tensor_new(storage.as_raw(), &spec, &mut tensor, err));
            sys::tenon_tensor_release(tensor);
        },
    );
    let view_in_c = |tensor: &Tensor| unsafe {
        let mut view =
            sys::tenon_tensor_view { struct_size: size_of::<sys::tenon_tensor_view>(), ..zeroed() };
        ok(|err| sys::tenon_tensor_get_view(tensor.as_raw(), &mut view, err));
        black_box(view.data);
    };
    compare(
        "view of a tensor (cells)",
        rounds,
        each,
        || _ = black_box(tensor.cells::<f32>().unwrap()),
        || view_in_c(&tensor),
    );
    compare(
        "view of a frozen tensor (slice)",
        rounds,
        each,
        || _ = black_box(frozen.as_slice::<f32>().unwrap()),
        || view_in_c(&frozen),
    );
    compare(
        "one more reference and its release",
        rounds,
        each,
        || drop(Tensor::clone(&tensor)),
        || unsafe { sys::tenon_tensor_release(sys::tenon_tensor_retain(tensor.as_raw())) },
    );
    let blank = || sys::tenon_fd_handle {
        struct_size: size_of::<sys::tenon_fd_handle>(),
        fd: -1,
        access: 0,
        offset: 0,
        nbytes: 0,
        segment_nbytes: 0,
    };
    compare(
        "share by fd",
        rounds,
        each,
        || drop(storage.share_fd().unwrap()),
        || unsafe {
            let mut handle = blank();
            ok(|err| sys::tenon_share_fd(storage.as_raw(), null(), &mut handle, err));
            sys::tenon_fd_handle_close(&mut handle);
        },
    );
    let handle = storage.share_fd().unwrap();
    let mut raw_handle = blank();
    ok(|err| unsafe { sys::tenon_share_fd(storage.as_raw(), null(), &mut raw_handle, err) });
    compare(
        "open by fd of what is known",
        rounds,
        each,
        || drop(handle.open(OpenOptions::new()).unwrap()),
        || unsafe {
            let mut opened = null_mut();
            ok(|err| sys::tenon_open_fd(&raw_handle, null(), &mut opened, err));
            sys::tenon_storage_release(opened);
        },
    );
    unsafe { sys::tenon_fd_handle_close(&mut raw_handle) };
    let (here, there) = UnixStream::pair().unwrap();
    let (here, there) =
        (Connection::from_stream(here).unwrap(), Connection::from_stream(there).unwrap());
    compare(
        "send and receive of a tensor",
        rounds,
        each / 10 + 1,
        || {
            let mut message = Message::new().unwrap();
            message.add("weight", &tensor).unwrap();
            here.send(&message, Wait::FOREVER).unwrap();
            drop(there.recv(Wait::FOREVER).unwrap());
        },
        || unsafe {
            let mut message = null_mut();
            let (added, name) = (tensor.as_raw(), c"weight".as_ptr());
            ok(|err| sys::tenon_message_new(&mut message, err));
            ok(|err| sys::tenon_message_add(message, &added, &name, 1, null(), err));
            ok(|err| sys::tenon_send(here.as_raw(), message, null(), err));
            sys::tenon_message_release(message);
            ok(|err| sys::tenon_recv(there.as_raw(), null(), &mut message, err));
            sys::tenon_message_release(message);
        },
    );
}

/// The other process: it sends the message once for each byte that arrives.
fn lend() {
    let connection = Connection::new(stdin().as_fd().try_clone_to_owned().unwrap()).unwrap();
    let mut turns = UnixStream::from(stdout().as_fd().try_clone_to_owned().unwrap());
    let tensors: Vec<_> =
        (0..TENSORS).map(|_| TensorMut::zeros::<f32>(&[NBYTES as i64 / 4]).unwrap()).collect();
    let mut message = Message::new().unwrap();
    message
        .add_all(
            tensors.iter().enumerate().map(|(i, tensor)| (Some(format!("weight {i}")), tensor)),
            Access::Auto,
        )
        .unwrap();
    while turns.read(&mut [0]).unwrap() == 1 {
        connection.send(&message, Wait::FOREVER).unwrap();
        turns.write_all(&[0]).unwrap();
    }
}

fn receive(connection: &Connection) {
    let message = connection.recv(Wait::FOREVER).unwrap();
    for view in message.views() {
        black_box(view.cells::<f32>().unwrap()[0].get());
    }
}

fn receive_in_c(connection: &Connection) {
    unsafe {
        let mut message = null_mut();
        ok(|err| sys::tenon_recv(connection.as_raw(), null(), &mut message, err));
        let mut views = vec![zeroed::<sys::tenon_tensor_view>(); sys::tenon_message_count(message)];
        views[0].struct_size = size_of::<sys::tenon_tensor_view>();
        ok(|err| sys::tenon_message_get_views(message, views.as_mut_ptr(), views.len(), err));
        for view in &views {
            black_box(view.data.cast::<f32>().read_volatile());
        }
        sys::tenon_message_release(message);
    }
}

fn many(rounds: usize) {
    let ((ours, theirs), (mut turns, their_turns)) =
        (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    let mut lender = Command::new(std::env::current_exe().unwrap())
        .arg("lend")
        .stdin(OwnedFd::from(theirs))
        .stdout(OwnedFd::from(their_turns))
        .spawn()
        .unwrap();
    let connection = Connection::from_stream(ours).unwrap();
    let (mut our_samples, mut their_samples) = (Vec::new(), Vec::new());
    let warm_up = rounds / 10 + 1;
    let mut timed = |receive: fn(&Connection)| {
        turns.write_all(&[0]).unwrap();
        // The other process answers when the message is in the socket.
        turns.read_exact(&mut [0]).unwrap();
        let begin = Instant::now();
        receive(&connection);
        begin.elapsed().as_nanos() as f64 / 1e6
    };
    for round in 0..rounds + warm_up {
        let samples = (timed(receive), timed(receive_in_c));
        if round >= warm_up {
            our_samples.push(samples.0);
            their_samples.push(samples.1);
        }
    }
    row(
        "300 x 4 KiB received and viewed",
        "ms",
        "{\"of\": \"ours\", \"at_most\": 0.2}",
        &our_samples,
        &their_samples,
    );
    drop(turns);
    assert!(lender.wait().unwrap().success());
}

fn main() {
    let argument = std::env::args().nth(1);
    if argument.as_deref() == Some("lend") {
        return lend();
    }
    let smoke = argument.as_deref() == Some("--smoke");
    calls(if smoke { 2 } else { 200 }, if smoke { 10 } else { 500 });
    many(if smoke { 2 } else { 500 });
}
