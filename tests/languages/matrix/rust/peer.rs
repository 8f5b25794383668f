//! The commands of the Rust program in the matrix.

use std::collections::HashMap;
use std::env;
use std::os::unix::net::{UnixListener, UnixStream};

use tenon::{
    Access, ArenaOptions, Composite, Connection, Descriptor, FdHandle, FilenameHandle,
    FilenameOptions, Message, Object, OpenOptions, Storage, StorageMut, StorageOptions, Tensor,
    TensorSpec, Wait,
};

use crate::composite;
use crate::cuda;
use crate::device;
use crate::line::{
    bytes_of, dtype, dtype_word, hex_of, number, numbers, or_dash, other, pattern, word_of,
    Outcome, Refused,
};
use crate::object::{self, Part};
use crate::raw;

/// A tensor, and the objects that must live as long. A composite's tensor is its values, if it has
/// any.
#[derive(Default)]
struct Held {
    tensor: Option<Tensor>,
    composite: Option<Composite>,
    _descriptor: Option<Descriptor>,
}

impl Held {
    fn of(composite: Composite) -> Outcome<Held> {
        Ok(Held { tensor: composite.spec()?.values, composite: Some(composite), ..Held::default() })
    }
}

enum End {
    Tenon(Connection),
    Raw(UnixStream),
}

#[derive(Default)]
pub struct Peer {
    kept: HashMap<String, Held>,
    ends: HashMap<String, End>,
    listener: Option<UnixListener>,
}

impl Peer {
    pub fn act(&mut self, words: &[&str]) -> Outcome {
        match *words {
            ["read", key] => Ok(hex_of(&content(self.tensor(key)?)?)),
            ["write", key, seed] => self.write(key, number(seed)?),
            ["wait", end] => self.wait(end),
            ["close", end] => done(self.ends.remove(end)),
            ["drop", key] => done(self.kept.remove(key)),
            ["settle"] => {
                tenon::trim();
                let waiting = tenon::cuda_collect();
                let stats = tenon::stats()?;
                Ok(format!("{} {} {} {waiting}", stats.storages, stats.segments, stats.segment_fds))
            }
            ["quit"] => {
                *self = Peer::default();
                Ok(String::new())
            }
            ["listen", path] => {
                self.listener = Some(UnixListener::bind(path)?);
                Ok(String::new())
            }
            ["accept", end, kind] => {
                let Some(listener) = &self.listener else { return other("nothing listens") };
                let socket = raw::accept(listener)?;
                self.put(end, kind, socket)
            }
            ["connect", end, kind, path] => self.put(end, kind, UnixStream::connect(path)?),
            ["lend", key, strategy, end, nbytes, seed, dtype, sizes, strides, offset] => {
                let data = pattern(number(seed)?, number(nbytes)?);
                self.lend(key, strategy, end, &data, [dtype, sizes, strides, offset])
            }
            ["open", key, strategy, end, dtype, sizes, strides, offset, ref handle @ ..] => {
                self.open(key, strategy, end, [dtype, sizes, strides, offset], handle)
            }
            ["compose", key, ref words @ ..] => {
                self.kept.insert(key.into(), Held::of(composite::read(words)?)?);
                Ok(String::new())
            }
            ["send", end, ref keys @ ..] => self.send(end, keys),
            ["receive", end, ref keys @ ..] => self.receive(end, keys),
            ["tensor", key, nbytes, seed, ref shape @ ..] => {
                let storage = StorageOptions::new()
                    .copy_from(&pattern(number(seed)?, number(nbytes)?))?
                    .into();
                self.keep_tensor_over(key, &storage, shape)
            }
            ["view", key, from, ref shape @ ..] => {
                let storage = self.tensor(from)?.storage();
                self.keep_tensor_over(key, &storage, shape)
            }
            ["send_object", end, word] => {
                let find = |key: &str, is_tensor: bool| -> Outcome<Object> {
                    Ok(if is_tensor {
                        self.tensor(key)?.into()
                    } else {
                        self.composite(key)?.into()
                    })
                };
                self.connection(end)?
                    .send_object(&object::read(&mut word.split(';'), &find)?, raw::WAIT)?;
                Ok(String::new())
            }
            ["recv_object", end, ref keys @ ..] => self.recv_object(end, keys),
            ["composite", key] => composite::words(self.composite(key)?, content),
            ["check", key] => {
                let checked = self.composite(key)?.check()?;
                self.kept.insert(key.into(), Held::of(checked)?);
                Ok(String::new())
            }
            ["fork", _] => Err(Refused::Skip(
                "Rust has no fork of its own: a std program starts others by exec",
            )),
            _ => other(format!("unknown command {}", words.join(" "))),
        }
    }

    fn held(&self, key: &str) -> Outcome<&Held> {
        self.kept.get(key).map_or_else(|| other(format!("nothing is held as {key}")), Ok)
    }

    fn tensor(&self, key: &str) -> Outcome<&Tensor> {
        self.held(key)?.tensor.as_ref().map_or_else(|| other(format!("{key} has no elements")), Ok)
    }

    fn composite(&self, key: &str) -> Outcome<&Composite> {
        self.held(key)?
            .composite
            .as_ref()
            .map_or_else(|| other(format!("{key} is no composite")), Ok)
    }

    /// Sends a message of composites. Each has its key in its name.
    fn send(&self, end: &str, keys: &[&str]) -> Outcome {
        let mut message = Message::new()?;
        for key in keys {
            message.add_composite(format!("c{key}").as_str(), self.composite(key)?)?;
        }
        self.connection(end)?.send(&message, raw::WAIT)?;
        Ok(String::new())
    }

    fn receive(&mut self, end: &str, keys: &[&str]) -> Outcome {
        let message = self.connection(end)?.recv(raw::WAIT)?;
        if message.composite_count() != keys.len() {
            return other(format!("{} composites came", message.composite_count()));
        }
        let mut names = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            let Some(composite) = message.composite(index) else {
                return other(format!("composite {index} is missing"));
            };
            self.kept.insert((*key).into(), Held::of(composite)?);
            names.push(message.composite_name(index).unwrap_or("-"));
        }
        Ok(names.join(" "))
    }

    fn keep_tensor_over(&mut self, key: &str, storage: &Storage, shape: &[&str]) -> Outcome {
        let [dtype, sizes, strides, offset] = *shape else {
            return other("not four words of a tensor");
        };
        let tensor = tensor_over(storage, [dtype, sizes, strides, offset])?;
        self.kept.insert(key.into(), Held { tensor: Some(tensor), ..Held::default() });
        Ok(String::new())
    }

    /// Receives an object, and holds its tensors and composites.
    fn recv_object(&mut self, end: &str, keys: &[&str]) -> Outcome {
        let received = self.connection(end)?.recv_object(raw::WAIT)?;
        let mut left = keys.iter();
        let said = object::word(&received, &mut |part| {
            let Some(key) = left.next() else { return other("more tensors and composites came") };
            let (held, said) = match part {
                Part::Tensor(tensor) => {
                    let said = format!("{key}/{}", object::tensor_word(tensor, content)?);
                    (Held { tensor: Some(tensor.clone()), ..Held::default() }, said)
                }
                Part::Composite(composite) => (Held::of(composite.clone())?, (*key).into()),
            };
            self.kept.insert((*key).into(), held);
            Ok(said)
        })?;
        left.next().map_or(Ok(said), |_| other("fewer tensors and composites came"))
    }

    fn put(&mut self, end: &str, kind: &str, socket: UnixStream) -> Outcome {
        let put = match kind {
            "tenon" => End::Tenon(Connection::from_stream(socket)?),
            _ => End::Raw(socket),
        };
        self.ends.insert(end.into(), put);
        Ok(String::new())
    }

    fn connection(&self, end: &str) -> Outcome<&Connection> {
        match self.ends.get(end) {
            Some(End::Tenon(connection)) => Ok(connection),
            _ => other(format!("{end} is no connection")),
        }
    }

    fn socket(&self, end: &str) -> Outcome<&UnixStream> {
        match self.ends.get(end) {
            Some(End::Raw(socket)) => Ok(socket),
            _ => other(format!("{end} is no raw socket")),
        }
    }

    fn wait(&self, end: &str) -> Outcome {
        match self.ends.get(end) {
            Some(End::Tenon(connection)) => drop(connection.recv(raw::WAIT)?),
            Some(End::Raw(socket)) => raw::wait_for_a_byte(socket)?,
            None => return other(format!("there is no {end}")),
        }
        Ok(String::new())
    }

    fn write(&self, key: &str, seed: usize) -> Outcome {
        let tensor = self.tensor(key)?.writable()?;
        let places = places(&tensor);
        if device::has(&tensor.storage()) {
            let mut bytes = device::read(&tensor.storage())?;
            for (place, byte) in places.iter().zip(pattern(seed, places.len())) {
                bytes[*place] = byte;
            }
            device::write(&tensor.storage(), &bytes)?;
            return Ok(String::new());
        }
        let storage = tensor.storage_mut();
        for (place, byte) in places.iter().zip(pattern(seed, places.len())) {
            storage.cells()[*place].set(byte);
        }
        Ok(String::new())
    }

    fn lend(
        &mut self,
        key: &str,
        strategy: &str,
        end: &str,
        data: &[u8],
        shape: [&str; 4],
    ) -> Outcome {
        let storage: Storage = match strategy {
            "read_only" => StorageOptions::new().copy_frozen(data)?,
            "filename" => {
                let prefix = env::var("TENON_MATRIX_PREFIX").unwrap_or_else(|_| "tenon-".into());
                let storage = StorageMut::new_filename(
                    &FilenameOptions::new().prefix(prefix),
                    data.len() as u64,
                )?;
                storage.write(0, data)?;
                storage.into()
            }
            "cuda" | "cuda_handle" | "cuda_fd" => cuda::make_storage(strategy, data)?,
            "arena" | "arena_fd" => {
                // The storage must not begin where the arena does.
                let arena = ArenaOptions::new().capacity(1 << 20).create()?;
                let _neighbour = StorageOptions::new().arena(&arena).create(100)?;
                StorageOptions::new().arena(&arena).copy_from(data)?.into()
            }
            _ => StorageOptions::new().copy_from(data)?.into(),
        };
        let tensor = tensor_over(&storage, shape)?;
        let mut held = Held { tensor: Some(tensor.clone()), ..Held::default() };
        let name = format!("t{key}");
        let message = || -> tenon::Result<Message> {
            let mut message = Message::new()?;
            message.add(name.as_str(), &tensor)?;
            message.set_user_bytes(name.as_bytes())?;
            Ok(message)
        };
        let handle = match strategy {
            "fd" | "read_only" | "arena" | "cuda" => {
                self.connection(end)?.send(&message()?, raw::WAIT)?;
                String::new()
            }
            "bytes" => {
                let descriptor = Descriptor::bytes_only(&message()?)?;
                let bytes = hex_of(descriptor.bytes());
                held._descriptor = Some(descriptor);
                bytes
            }
            "cuda_handle" => cuda::lend(&storage, None)?,
            "cuda_fd" => cuda::lend(&storage, Some(self.socket(end)?))?,
            "raw_fd" | "arena_fd" => {
                let handle = storage.share_fd()?;
                let Some(fd) = handle.as_fd() else { return other("the storage has no fd") };
                raw::send_fd(self.socket(end)?, fd)?;
                let segment = if strategy == "arena_fd" {
                    format!(" {}", handle.segment_nbytes)
                } else {
                    String::new()
                };
                format!("{} {}{segment}", handle.offset, handle.nbytes)
            }
            "filename" => {
                handle_words(storage.share_filename(&FilenameOptions::new().for_torch(None), None)?)
            }
            "socket" => {
                let directory =
                    env::var("TENON_MATRIX_DIRECTORY").unwrap_or_else(|_| "/dev/shm".into());
                handle_words(
                    storage.share_filename(&FilenameOptions::new().directory(directory), None)?,
                )
            }
            _ => return other(format!("no strategy {strategy}")),
        };
        self.kept.insert(key.into(), held);
        Ok(handle)
    }

    fn open(
        &mut self,
        key: &str,
        strategy: &str,
        end: &str,
        shape: [&str; 4],
        handle: &[&str],
    ) -> Outcome {
        let message = match (strategy, handle) {
            ("fd" | "read_only" | "arena" | "cuda", []) => {
                Some(self.connection(end)?.recv(raw::WAIT)?)
            }
            ("bytes", [bytes]) => {
                Some(Descriptor::open(&bytes_of(bytes)?, &[], Access::Auto, OpenOptions::new())?)
            }
            _ => None,
        };
        let storage = match (strategy, handle) {
            _ if message.is_some() => None,
            ("cuda_handle", words) => Some(cuda::open(words, None)?),
            ("cuda_fd", words) => Some(cuda::open(words, Some(self.socket(end)?))?),
            ("raw_fd", [offset, nbytes]) | ("arena_fd", [offset, nbytes, _]) => {
                let handle = FdHandle::new(
                    raw::receive_fd(self.socket(end)?)?,
                    number(offset)?,
                    number(nbytes)?,
                );
                Some(handle.open(OpenOptions::new().allow_unsealed())?)
            }
            ("filename" | "socket", [manager, name, offset, nbytes]) => {
                let manager = (*manager != "-").then(|| (*manager).to_owned());
                let handle = FilenameHandle {
                    manager,
                    offset: number(offset)?,
                    ..FilenameHandle::new(*name, number(nbytes)?)
                };
                let options = if strategy == "filename" {
                    OpenOptions::new().allow_unsealed()
                } else {
                    OpenOptions::new()
                };
                Some(handle.open(options, Wait::at_most(raw::WAIT))?)
            }
            _ => {
                return other(format!(
                    "no strategy {strategy} with {} words of a handle",
                    handle.len()
                ))
            }
        };
        let tensor = match (&message, &storage) {
            (_, Some(storage)) => tensor_over(storage, shape)?,
            (Some(message), None) => {
                message.tensor(0).map_or_else(|| other("the message has no tensor"), Ok)?
            }
            (None, None) => return other("nothing was opened"),
        };
        let name = message.as_ref().and_then(|message| message.name(0)).unwrap_or("-").to_owned();
        let user = or_dash(message.as_ref().map_or_else(String::new, |message| {
            String::from_utf8_lossy(message.user_bytes()).into_owned()
        }));
        let (device, id) = tensor.storage().device();
        let says = format!(
            "{} {} {} {} {} {device}:{id} {name} {user} {}",
            dtype_word(tensor.dtype()),
            word_of(tensor.sizes()),
            word_of(tensor.strides()),
            tensor.offset(),
            u8::from(tensor.is_read_only()),
            hex_of(&content(&tensor)?),
        );
        self.kept.insert(key.into(), Held { tensor: Some(tensor), ..Held::default() });
        Ok(says)
    }
}

fn done<T>(removed: Option<T>) -> Outcome {
    removed.map_or_else(|| other("there is no such thing"), |_| Ok(String::new()))
}

fn handle_words(handle: FilenameHandle) -> String {
    format!(
        "{} {} {} {}",
        handle.manager.as_deref().unwrap_or("-"),
        handle.name,
        handle.offset,
        handle.nbytes
    )
}

fn tensor_over(storage: &Storage, [element, sizes, strides, offset]: [&str; 4]) -> Outcome<Tensor> {
    let (sizes, strides) = (numbers(sizes)?, numbers(strides)?);
    Ok(Tensor::new(
        storage,
        &TensorSpec::new(dtype(element)?, &sizes).strides(&strides).offset(number(offset)?),
    )?)
}

/// The offset of each byte of CONTENT in the storage.
fn places(tensor: &Tensor) -> Vec<usize> {
    let view = tensor.view();
    let nbytes = i64::from(view.dtype().bits_of_element()) / 8;
    let mut starts = vec![view.offset() as i64];
    for (size, stride) in view.sizes().iter().zip(view.strides()) {
        starts = starts
            .iter()
            .flat_map(|start| (0..*size).map(move |index| start + index * stride))
            .collect();
    }
    starts
        .iter()
        .flat_map(|start| (0..nbytes).map(move |byte| (start * nbytes + byte) as usize))
        .collect()
}

fn content(tensor: &Tensor) -> Outcome<Vec<u8>> {
    let storage = tensor.storage();
    if device::has(&storage) {
        let bytes = device::read(&storage)?;
        return Ok(places(tensor).iter().map(|place| bytes[*place]).collect());
    }
    let cells = storage.cells();
    Ok(places(tensor).iter().map(|place| cells[*place].get()).collect())
}
