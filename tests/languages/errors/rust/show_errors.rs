//! Prints the text of some errors as the Rust wrapper gives it. A line has an id of
//! docs/guides/errors.md, a tab, the code, a tab and the error's Display. errors_test.py reads the
//! lines.
//! usage: show_errors FILE, which is no archive

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::{env, process};

use tenon::{
    import_module, Connection, Error, FilenameHandle, ImportOptions, OpenOptions, Storage,
    StorageOptions, Tensor, TensorSpec, Wait,
};

fn show<T>(id: &str, mistake: impl FnOnce() -> Result<T, Error>) -> bool {
    match mistake() {
        Ok(_) => false,
        Err(error) => {
            println!("{id}\t{}\t{error}", error.kind().code_name());
            true
        }
    }
}

/// Receives from a connection whose other end was closed.
fn receive_from_nobody() -> Result<(), Error> {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let connection = Connection::from_stream(ours)?;
    drop(theirs);
    connection.recv(Wait::FOREVER).map(drop)
}

fn connect_a_listening_socket() -> Result<Connection, Error> {
    let name = format!("tenon-show-errors-{}", process::id());
    let address = SocketAddr::from_abstract_name(name).expect("an address");
    Connection::new(UnixListener::bind_addr(&address).expect("a socket"))
}

fn main() {
    let file = env::args().nth(1).expect("usage: show_errors FILE");
    let storage: Storage = StorageOptions::new().create(4096).expect("a storage").into();
    let all_failed = show("shape", || Tensor::new(&storage, &TensorSpec::of::<f32>(&[2000])))
        & show("name_missing", || {
            FilenameHandle::new("/tenon-no-such-name", 16).open(OpenOptions::new(), Wait::NOT)
        })
        & show("peer_gone", receive_from_nobody)
        & show("listening", connect_a_listening_socket)
        & show("not_archive", || import_module(&file, &ImportOptions::new()));
    process::exit(if all_failed { 0 } else { 1 });
}
