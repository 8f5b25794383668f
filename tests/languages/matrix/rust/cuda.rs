//! Makes the storages that the strategies on CUDA lend, and reads and writes the words of a handle.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::ptr::null_mut;
use std::time::Duration;

use tenon::{CudaArenaOptions, CudaHandle, CudaOptions, CudaTransport, Storage};

use crate::device;
use crate::line::{bytes_of, hex_of, number, or_dash, other, Outcome};
use crate::raw;

const TRANSPORTS: [(&str, CudaTransport); 5] = [
    ("none", CudaTransport::NoMemory),
    ("ipc", CudaTransport::Ipc),
    ("fd", CudaTransport::Fd),
    ("fabric", CudaTransport::Fabric),
    ("pool", CudaTransport::Pool),
];

/// The storage does not begin where its arena does, as in the arena of a host. The default stream
/// copies the bytes from a neighbour, so a reader that does not wait for the stream finds other
/// bytes.
pub fn make_storage(strategy: &str, data: &[u8]) -> Outcome<Storage> {
    let transport = if strategy == "cuda_fd" { CudaTransport::Fd } else { CudaTransport::NoMemory };
    let arena =
        CudaArenaOptions::new().device(1).capacity(1 << 20).transport(transport).create()?;
    let neighbour = arena.allocate(data.len() as u64 + 100, Duration::ZERO)?;
    let storage = arena.allocate(data.len() as u64, Duration::ZERO)?;
    device::write(&neighbour, data)?;
    device::copy(&storage, &neighbour, data.len())?;
    // SAFETY: NULL is the default stream.
    unsafe { neighbour.record_stream(null_mut())? };
    Ok(storage)
}

/// The words of a handle. The handle's fds go over the socket, if there is one.
pub fn lend(storage: &Storage, socket: Option<&UnixStream>) -> Outcome {
    // SAFETY: NULL is the default stream.
    let handle = unsafe { storage.share_cuda(null_mut(), CudaOptions::new())? };
    if let Some(socket) = socket {
        // SAFETY: the fds are the library's, which stay open as long as the storage lives.
        let fds: Vec<_> =
            handle.fds.iter().map(|fd| unsafe { BorrowedFd::borrow_raw(*fd) }).collect();
        raw::send_fds(socket, &fds)?;
    }
    let Some((transport, _)) =
        TRANSPORTS.iter().find(|(_, transport)| *transport == handle.transport)
    else {
        return other(format!("the handle is by {:?}", handle.transport));
    };
    let event: &[u8] = if handle.memory.is_empty() { &[] } else { &handle.event };
    Ok(format!(
        "{transport} {} {} {} {} {} {} {} {} {} {}",
        handle.device,
        hex_of(handle.uuid.as_ref().map_or(&[], |uuid| &uuid[..])),
        handle.nbytes,
        handle.offset,
        or_dash(handle.counter.clone()),
        handle.slot,
        u8::from(handle.event_required),
        hex_of(event),
        hex_of(&handle.memory),
        handle.fds.len(),
    ))
}

fn bytes(word: &str) -> Outcome<Vec<u8>> {
    if word == "-" {
        return Ok(Vec::new());
    }
    bytes_of(word)
}

pub fn open(words: &[&str], socket: Option<&UnixStream>) -> Outcome<Storage> {
    let [transport, device, uuid, nbytes, offset, counter, slot, event_required, event, memory, _] =
        *words
    else {
        return other(format!("a handle has not {} words", words.len()));
    };
    let Some((_, transport)) = TRANSPORTS.iter().find(|(name, _)| *name == transport) else {
        return other(format!("there is no transport {transport}"));
    };
    // These fds stay open until the handle is opened.
    let fds = socket.map_or_else(|| Ok(Vec::new()), raw::receive_fds)?;
    let mut handle = CudaHandle {
        transport: *transport,
        device: number(device)?,
        uuid: <[u8; 16]>::try_from(bytes(uuid)?).ok(),
        nbytes: number(nbytes)?,
        offset: number(offset)?,
        counter: counter.trim_start_matches('-').into(),
        slot: number(slot)?,
        event_required: event_required == "1",
        memory: bytes(memory)?,
        fds: fds.iter().map(AsRawFd::as_raw_fd).collect(),
        ..CudaHandle::default()
    };
    if let Ok(event) = <[u8; 64]>::try_from(bytes(event)?) {
        handle.event = event;
    }
    // SAFETY: NULL is the default stream.
    Ok(unsafe { handle.open(null_mut(), CudaOptions::new())? })
}
