//! Objects: plain data with tensors in it. A [`Message`] carries an object to a program in any
//! language. An [`Object`] is a tree of Rust's own types. One call of the C library makes an object
//! of all its nodes, and one call reads them.

use std::ptr::NonNull;

use crate::by_fd::Access;
use crate::composite::Composite;
use crate::connection::Connection;
use crate::error::{check, make, Error, ErrorKind, Result};
use crate::message::{retained, Message};
use crate::panic;
use crate::sys;
use crate::tensor::{Tensor, TensorMut};
use crate::wait::Wait;

/// Plain data: one value, which can contain other values. In Python, `Connection.send_object` and
/// `recv_object` write and read the same data.
///
/// Values can be nested 200 deep. A key of a dict, and an item of a set, is `None`, a bool, a
/// number, a text, bytes or a tuple of these, and occurs once. The library checks these rules when
/// a message is made, not earlier. `Clone`, `Debug` and drop are recursive: they call themselves
/// for each level of nesting. So a program that builds a tree of many thousand levels must take it
/// apart itself.
///
/// A clone of a tensor or composite is one more reference to the same one. Two tensors over one
/// storage share that storage in the receiver too. The contents of a composite that was received
/// are not checked: [`Composite::check`] does that.
///
/// ```
/// use tenon::{Message, Object, Tensor};
///
/// let weight = Tensor::frozen(&[0.5f32, 1.5], &[2])?;
/// let state = Object::from([
///     ("step", Object::from(7)),
///     ("losses", vec![0.5, 0.25].into()),
///     ("weight", weight.into()),
/// ]);
/// let message = Message::from_object(&state)?;
///
/// // The receiver of the message:
/// let received = message.object()?;
/// assert_eq!(received.get("step").and_then(Object::as_i64), Some(7));
/// assert_eq!(received.get("losses").and_then(Object::items).map(<[Object]>::len), Some(2));
/// let Some(Object::Tensor(weight)) = received.get("weight") else { panic!("there is no weight") };
/// assert_eq!(weight.as_slice::<f32>()?, [0.5, 1.5]);
/// # Ok::<(), tenon::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Object {
    /// `None`.
    #[default]
    None,
    /// A bool.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A complex number: the real and the imaginary part.
    Complex(f64, f64),
    /// A text.
    Str(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A tensor. Its whole storage is lent, even if the tensor is a small part of the storage.
    Tensor(Tensor),
    /// A composite.
    Composite(Composite),
    /// A tuple.
    Tuple(Vec<Object>),
    /// A list.
    List(Vec<Object>),
    /// A set. Its items are in the order in which the sender wrote them.
    Set(Vec<Object>),
    /// A dict: its keys and values, in the order of its entries.
    Dict(Vec<(Object, Object)>),
}

impl Object {
    /// Returns the value of a key that is text, if the object is a dict that has the key. The cost
    /// grows with the number of entries.
    pub fn get(&self, key: &str) -> Option<&Object> {
        let (_, value) = self.entries()?.iter().find(|(found, _)| found.as_str() == Some(key))?;
        Some(value)
    }

    /// Returns the bool, if the object is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Object::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the integer, if the object is one. A bool is not an integer.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Object::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the float, if the object is one. An integer is not a float.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Object::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the text, if the object is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Object::Str(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the bytes, if the object is bytes.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Object::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns the tensor, if the object is one.
    pub fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            Object::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// Returns the composite, if the object is one.
    pub fn as_composite(&self) -> Option<&Composite> {
        match self {
            Object::Composite(composite) => Some(composite),
            _ => None,
        }
    }

    /// Returns the items of a tuple, a list or a set.
    pub fn items(&self) -> Option<&[Object]> {
        match self {
            Object::Tuple(items) | Object::List(items) | Object::Set(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the keys and values of a dict.
    pub fn entries(&self) -> Option<&[(Object, Object)]> {
        match self {
            Object::Dict(entries) => Some(entries),
            _ => None,
        }
    }

    /// Makes the C library's node of this value alone. Its pointers are borrowed from self.
    fn node(&self) -> sys::tenon_object_node {
        // The library refuses an object of 2^32 nodes, so it also refuses a container with so many
        // items.
        let container = |len: usize| {
            blank!(tenon_object_node { count: u32::try_from(len).unwrap_or(u32::MAX) })
        };
        let text = |bytes: &[u8]| {
            blank!(tenon_object_node { data: bytes.as_ptr().cast(), nbytes: bytes.len() })
        };
        let (kind, node) = match self {
            Object::None => (sys::TENON_OBJECT_NONE, blank!(tenon_object_node)),
            Object::Bool(value) => {
                (sys::TENON_OBJECT_BOOL, blank!(tenon_object_node { integer: i64::from(*value) }))
            }
            Object::Int(value) => {
                (sys::TENON_OBJECT_INT, blank!(tenon_object_node { integer: *value }))
            }
            Object::Float(value) => {
                (sys::TENON_OBJECT_FLOAT, blank!(tenon_object_node { real: *value }))
            }
            Object::Complex(real, imaginary) => (
                sys::TENON_OBJECT_COMPLEX,
                blank!(tenon_object_node { real: *real, imaginary: *imaginary }),
            ),
            Object::Str(value) => (sys::TENON_OBJECT_STR, text(value.as_bytes())),
            Object::Bytes(value) => (sys::TENON_OBJECT_BYTES, text(value)),
            Object::Tensor(value) => {
                (sys::TENON_OBJECT_TENSOR, blank!(tenon_object_node { tensor: value.as_raw() }))
            }
            Object::Composite(value) => (
                sys::TENON_OBJECT_COMPOSITE,
                blank!(tenon_object_node { composite: value.as_raw() }),
            ),
            Object::Tuple(items) => (sys::TENON_OBJECT_TUPLE, container(items.len())),
            Object::List(items) => (sys::TENON_OBJECT_LIST, container(items.len())),
            Object::Set(items) => (sys::TENON_OBJECT_SET, container(items.len())),
            Object::Dict(entries) => (sys::TENON_OBJECT_DICT, container(entries.len())),
        };
        sys::tenon_object_node { kind: kind as i32, ..node }
    }

    /// Makes the nodes of this value and of everything inside it, in the order that object.h
    /// requires.
    fn nodes(&self) -> Vec<sys::tenon_object_node> {
        let mut nodes = Vec::new();
        // The values that are still to come, with the next one last. Recursion could overflow the
        // stack.
        let mut waiting = vec![self];
        while let Some(object) = waiting.pop() {
            nodes.push(object.node());
            match object {
                Object::Tuple(items) | Object::List(items) | Object::Set(items) => {
                    waiting.extend(items.iter().rev())
                }
                Object::Dict(entries) => {
                    waiting.extend(entries.iter().rev().flat_map(|(key, value)| [value, key]))
                }
                _ => {}
            }
        }
        nodes
    }
}

/// One reference to an object of the C library.
struct RawObject(NonNull<sys::tenon_object>);

impl RawObject {
    fn new(object: &Object) -> Result<RawObject> {
        let nodes = object.nodes();
        // SAFETY: the nodes and everything to which they point are borrowed for the call.
        Ok(RawObject(make(|out, err| unsafe {
            sys::tenon_object_new(nodes.as_ptr(), nodes.len(), out, err)
        })?))
    }

    fn to_object(&self) -> Result<Object> {
        // SAFETY: self keeps the object.
        let count = unsafe { sys::tenon_object_count(self.0.as_ptr()) };
        let mut nodes = vec![blank!(tenon_object_node); count];
        // SAFETY: as above; there are count nodes, each of its own struct_size.
        check(|err| unsafe {
            sys::tenon_object_get_nodes(self.0.as_ptr(), 0, nodes.as_mut_ptr(), count, err)
        })?;

        // SAFETY: the library filled in the nodes, and self keeps the memory to which they point.
        unsafe { read(&nodes) }
    }
}

impl Drop for RawObject {
    fn drop(&mut self) {
        // SAFETY: the reference belongs to self, and nothing uses it afterwards.
        panic::release(|| unsafe { sys::tenon_object_release(self.0.as_ptr()) });
    }
}

/// Reads an object from all its nodes.
///
/// # Safety
/// The memory to which the nodes point is alive.
unsafe fn read(nodes: &[sys::tenon_object_node]) -> Result<Object> {
    // The items of a container follow the container. So the walk from the last node to the first
    // one has made the items of a container before it reaches the container. They are then the last
    // items of `made`, with the first one last.
    let mut made = Vec::new();
    for node in nodes.iter().rev() {
        // SAFETY: the caller's promise.
        let object = unsafe { read_node(node, &mut made)? };
        made.push(object);
    }
    Ok(made.pop().unwrap_or_default())
}

/// Reads one node. A container takes its items from the end of `made`.
///
/// # Safety
/// The memory to which the node points is alive.
unsafe fn read_node(node: &sys::tenon_object_node, made: &mut Vec<Object>) -> Result<Object> {
    let bytes = || match node.nbytes {
        0 => Vec::new(),
        // SAFETY: the caller promises that these bytes are alive.
        nbytes => unsafe { std::slice::from_raw_parts(node.data.cast::<u8>(), nbytes) }.to_vec(),
    };
    let mut take = |values: usize| made.drain(made.len() - values..).rev().collect::<Vec<Object>>();
    let count = node.count as usize;
    let unknown = || {
        Error::new(
            ErrorKind::Unsupported,
            format!("a value of a kind {} that this crate has no word for", node.kind),
        )
    };
    Ok(match u32::try_from(node.kind).map_err(|_| unknown())? {
        sys::TENON_OBJECT_NONE => Object::None,
        sys::TENON_OBJECT_BOOL => Object::Bool(node.integer != 0),
        sys::TENON_OBJECT_INT => Object::Int(node.integer),
        sys::TENON_OBJECT_FLOAT => Object::Float(node.real),
        sys::TENON_OBJECT_COMPLEX => Object::Complex(node.real, node.imaginary),
        sys::TENON_OBJECT_STR => Object::Str(String::from_utf8(bytes()).map_err(|error| {
            Error::new(ErrorKind::Corrupt, format!("a text is no UTF-8: {error}"))
        })?),
        sys::TENON_OBJECT_BYTES => Object::Bytes(bytes()),
        sys::TENON_OBJECT_TENSOR => {
            // SAFETY: the caller promises that the tensor is alive.
            Object::Tensor(unsafe { retained(node.tensor) }.ok_or_else(unknown)?)
        }
        sys::TENON_OBJECT_COMPOSITE => {
            // SAFETY: the caller promises that the composite is alive.
            Object::Composite(unsafe { Composite::retained(node.composite) }.ok_or_else(unknown)?)
        }
        sys::TENON_OBJECT_TUPLE => Object::Tuple(take(count)),
        sys::TENON_OBJECT_LIST => Object::List(take(count)),
        sys::TENON_OBJECT_SET => Object::Set(take(count)),
        sys::TENON_OBJECT_DICT => {
            let mut values = take(2 * count).into_iter();
            Object::Dict(std::iter::from_fn(|| Some((values.next()?, values.next()?))).collect())
        }
        _ => return Err(unknown()),
    })
}

impl Message {
    /// Makes a message that carries an object. Borrowers get the access to each storage that its
    /// mode gives. Nothing can be added to the message. If the object breaks a rule of [`Object`],
    /// the error is [`ErrorKind::InvalidArgument`]. Its detail `index` says which value is wrong,
    /// counted from 0 in the order in which a program would write them.
    pub fn from_object(object: &Object) -> Result<Message> {
        Message::from_object_with(object, Access::Auto)
    }

    /// Makes a message as [`from_object`](Self::from_object) does, with this access to every
    /// storage. The error is [`ErrorKind::Permission`] if the mode of a storage cannot enforce the
    /// access.
    pub fn from_object_with(object: &Object, access: Access) -> Result<Message> {
        let (object, options) = (RawObject::new(object)?, access.share_options());
        // SAFETY: the object and the options are borrowed for the call; the result is a new
        // reference.
        unsafe {
            Ok(Message::adopt(make(|out, err| {
                sys::tenon_message_new_from_object(object.0.as_ptr(), &options, out, err)
            })?))
        }
    }

    /// Reads the object that the message carries. The sender is not trusted: no function that the
    /// object names is called, and every tensor is checked against its storage. The contents of
    /// composites are not checked: [`Composite::check`] does that. Errors: [`ErrorKind::Corrupt`]
    /// (the message carries no object, or a malformed one), [`ErrorKind::Unsupported`] (the object
    /// is not plain data: it names a Python class, for example), [`ErrorKind::Incompatible`] (a
    /// later version of Tenon wrote it), [`ErrorKind::ResourceExhausted`].
    pub fn object(&self) -> Result<Object> {
        // SAFETY: self keeps the message, and out belongs to this function.
        RawObject(make(|out, err| unsafe {
            sys::tenon_object_new_from_message(self.as_raw(), out, err)
        })?)
        .to_object()
    }
}

impl Connection {
    /// Sends an object, as [`send`](Self::send) sends the message of [`Message::from_object`]. If
    /// the wait ends first, [`flush`](Self::flush) finishes the message. A second `send_object`
    /// would send the object twice.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tenon::{Connection, Object, TensorMut};
    ///
    /// let (ours, theirs) = std::os::unix::net::UnixStream::pair()?; // theirs: in another process
    /// let (ours, theirs) = (Connection::from_stream(ours)?, Connection::from_stream(theirs)?);
    ///
    /// let weight = TensorMut::zeros::<f32>(&[1000, 1000])?;
    /// let state = Object::from([("step", Object::from(1)), ("weight", (&weight).into())]);
    /// ours.send_object(&state, Duration::from_secs(5))?;
    ///
    /// let received = theirs.recv_object(Duration::from_secs(5))?;
    /// let lent = received.get("weight").and_then(Object::as_tensor).unwrap().writable()?;
    /// lent.cells::<f32>()?[999_999].set(42.0);
    /// assert_eq!(weight.cells::<f32>()?[999_999].get(), 42.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn send_object<'w>(&self, object: &Object, wait: impl Into<Wait<'w>>) -> Result<()> {
        self.send(&Message::from_object(object)?, wait)
    }

    /// Receives the next message, as [`recv`](Self::recv) does, and reads the object that it
    /// carries, as [`Message::object`] does. If this fails because the message has no valid object,
    /// the message is lost.
    pub fn recv_object<'w>(&self, wait: impl Into<Wait<'w>>) -> Result<Object> {
        self.recv(wait)?.object()
    }
}

impl From<bool> for Object {
    fn from(value: bool) -> Object {
        Object::Bool(value)
    }
}

impl From<i64> for Object {
    fn from(value: i64) -> Object {
        Object::Int(value)
    }
}

impl From<i32> for Object {
    fn from(value: i32) -> Object {
        Object::Int(value.into())
    }
}

impl From<f64> for Object {
    fn from(value: f64) -> Object {
        Object::Float(value)
    }
}

impl From<&str> for Object {
    fn from(text: &str) -> Object {
        Object::Str(text.to_owned())
    }
}

impl From<String> for Object {
    fn from(text: String) -> Object {
        Object::Str(text)
    }
}

impl From<&[u8]> for Object {
    fn from(bytes: &[u8]) -> Object {
        Object::Bytes(bytes.to_vec())
    }
}

/// A vector of `u8` becomes bytes, and every other vector becomes a list.
impl From<Vec<u8>> for Object {
    fn from(bytes: Vec<u8>) -> Object {
        Object::Bytes(bytes)
    }
}

impl From<Tensor> for Object {
    fn from(tensor: Tensor) -> Object {
        Object::Tensor(tensor)
    }
}

impl From<&Tensor> for Object {
    fn from(tensor: &Tensor) -> Object {
        Object::Tensor(tensor.clone())
    }
}

impl From<TensorMut> for Object {
    fn from(tensor: TensorMut) -> Object {
        Object::Tensor(tensor.into())
    }
}

impl From<&TensorMut> for Object {
    fn from(tensor: &TensorMut) -> Object {
        Object::from(tensor.as_ref())
    }
}

impl From<Composite> for Object {
    fn from(composite: Composite) -> Object {
        Object::Composite(composite)
    }
}

impl From<&Composite> for Object {
    fn from(composite: &Composite) -> Object {
        Object::Composite(composite.clone())
    }
}

/// `None` becomes Python's None.
impl<T: Into<Object>> From<Option<T>> for Object {
    fn from(value: Option<T>) -> Object {
        value.map_or(Object::None, Into::into)
    }
}

/// A vector becomes a list.
impl<T: Into<Object>> From<Vec<T>> for Object {
    fn from(items: Vec<T>) -> Object {
        Object::List(items.into_iter().map(Into::into).collect())
    }
}

/// An array of pairs becomes a dict.
impl<K: Into<Object>, V: Into<Object>, const N: usize> From<[(K, V); N]> for Object {
    fn from(entries: [(K, V); N]) -> Object {
        Object::Dict(entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pure_nodes_are_read_as_they_were_written() {
        let object = Object::from([("a", vec![1, 2].into()), ("b", Object::None)]);
        let nodes = object.nodes();
        // This is the example of object.h.
        let kinds: Vec<u32> = nodes.iter().map(|node| node.kind as u32).collect();
        let (dict, text, list, int) = (
            sys::TENON_OBJECT_DICT,
            sys::TENON_OBJECT_STR,
            sys::TENON_OBJECT_LIST,
            sys::TENON_OBJECT_INT,
        );
        assert_eq!(kinds, [dict, text, list, int, int, text, sys::TENON_OBJECT_NONE]);
        assert_eq!(nodes.iter().map(|node| node.count).collect::<Vec<_>>(), [2, 0, 2, 0, 0, 0, 0]);

        let tuple = Object::Tuple(vec![
            object,
            vec![7u8, 0].into(),
            "".into(),
            Object::Complex(0.5, 1.0),
            true.into(),
        ]);
        let set = Object::Set(vec![Object::List(vec![]), tuple, Object::Dict(vec![]), 0.25.into()]);
        // SAFETY: the nodes point into `set`.
        let read_again = unsafe { read(&set.nodes()) }.unwrap();
        assert_eq!(format!("{read_again:?}"), format!("{set:?}"));
    }

    #[test]
    fn pure_an_unknown_kind_is_unsupported() {
        for kind in [-1, sys::TENON_OBJECT_DICT as i32 + 1] {
            let node = blank!(tenon_object_node { kind });
            // SAFETY: the node has no pointers.
            let error = unsafe { read(&[node]) }.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
        }
    }
}
