//! Messages: tensors that travel together, with optional names and user bytes.

use std::ffi::{c_char, CStr, CString};
use std::fmt;
use std::ptr::{self, NonNull};

use crate::by_fd::Access;
use crate::error::{check, make, Error, ErrorKind, Result};
use crate::sys;
use crate::tensor::{Tensor, TensorMut};
use crate::view::TensorView;

/// Tensors that travel together. Adding a tensor checks whether it can be lent. The parts of a
/// [`Composite`](crate::Composite) that was added are tensors of the message too, without names.
///
/// ```
/// use tenon::{Message, Tensor, TensorMut};
///
/// let weight = Tensor::frozen(&[1.0f32, 2.0], &[2])?;
/// let state = TensorMut::zeros::<i64>(&[4])?;
/// let mut message = Message::new()?;
/// message.add_read_only("weight", &weight)?;
/// message.add_writable("state", &state)?;
/// message.set_user_bytes(b"step 1")?;
/// assert_eq!(message.find("weight").unwrap().as_slice::<f32>()?, [1.0, 2.0]);
/// # Ok::<(), tenon::Error>(())
/// ```
pub struct Message {
    raw: NonNull<sys::tenon_message>,
}

handle!(pub Message, tenon_message, tenon_message_release);

impl Message {
    /// Makes an empty message.
    pub fn new() -> Result<Message> {
        // SAFETY: out is ours.
        Ok(Message { raw: make(|out, err| unsafe { sys::tenon_message_new(out, err) })? })
    }

    /// Adds a tensor. Its borrowers get the access that its mode gives. The name is a `&str` or
    /// `None`.
    pub fn add<'n>(&mut self, name: impl Into<Option<&'n str>>, tensor: &Tensor) -> Result<()> {
        self.add_one(name.into(), tensor, Access::Auto)
    }

    /// Adds a tensor to which borrowers cannot write. The error is [`ErrorKind::Permission`] if its
    /// mode cannot enforce that.
    pub fn add_read_only<'n>(
        &mut self,
        name: impl Into<Option<&'n str>>,
        tensor: &Tensor,
    ) -> Result<()> {
        self.add_one(name.into(), tensor, Access::ReadOnly)
    }

    /// Adds a tensor to which borrowers may write as this process may.
    pub fn add_writable<'n>(
        &mut self,
        name: impl Into<Option<&'n str>>,
        tensor: &TensorMut,
    ) -> Result<()> {
        self.add_one(name.into(), tensor, Access::Writable)
    }

    fn add_one(&mut self, name: Option<&str>, tensor: &Tensor, access: Access) -> Result<()> {
        let name = name.map(c_name).transpose()?;
        self.add_raw(&[tensor.as_raw()], &[c_pointer(&name)], access)
    }

    /// Adds tensors, all of them or none, in one call.
    pub fn add_all<'t, N, T, I>(&mut self, tensors: I, access: Access) -> Result<()>
    where
        I: IntoIterator<Item = (Option<N>, &'t T)>,
        N: AsRef<str>,
        T: AsRef<Tensor> + 't,
    {
        let (raws, names) = named(tensors, |tensor| tensor.as_ref().as_raw())?;
        self.add_raw(&raws, &c_pointers(&names), access)
    }

    fn add_raw(
        &mut self,
        tensors: &[*mut sys::tenon_tensor],
        names: &[*const c_char],
        access: Access,
    ) -> Result<()> {
        debug_assert_eq!(tensors.len(), names.len());
        let options = access.share_options();
        // SAFETY: the arrays have the same number of living tensors and of names, and are borrowed
        // for the call.
        check(|err| unsafe {
            sys::tenon_message_add(
                self.as_raw(),
                tensors.as_ptr(),
                names.as_ptr(),
                tensors.len(),
                &options,
                err,
            )
        })
    }

    /// Sets the user bytes, at most 65,536. They replace those that were set before.
    pub fn set_user_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        // SAFETY: borrowed for the call.
        check(|err| unsafe {
            sys::tenon_message_set_user_bytes(
                self.as_raw(),
                bytes.as_ptr().cast(),
                bytes.len(),
                err,
            )
        })
    }

    /// Returns the number of tensors. The parts of composites are among them.
    pub fn len(&self) -> usize {
        // SAFETY: self keeps the message.
        unsafe { sys::tenon_message_count(self.as_raw()) }
    }

    /// Says whether there are no tensors. A composite on meta has no parts, so a message that has
    /// only such composites is empty too.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns one tensor, counted from 0. The parts of composites are among the tensors
    /// ([`composite_parts`](Self::composite_parts) says where).
    pub fn tensor(&self, index: usize) -> Option<Tensor> {
        // SAFETY: borrowed from the message, or NULL past the end.
        unsafe { retained(sys::tenon_message_tensor(self.as_raw(), index)) }
    }

    /// Returns the name of one tensor. It is `None` if the tensor has no name, if there is none
    /// with that index, or if the name is not UTF-8.
    pub fn name(&self, index: usize) -> Option<&str> {
        // SAFETY: self keeps the message.
        let name = unsafe { sys::tenon_message_name(self.as_raw(), index) };
        // SAFETY: the name ends with NUL, and is borrowed from the message.
        (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_str().ok()).flatten()
    }

    /// Returns the first tensor of that name.
    pub fn find(&self, name: &str) -> Option<Tensor> {
        let name = CString::new(name).ok()?;
        // SAFETY: the name is borrowed for the call; the result is borrowed from the message, or
        // NULL.
        unsafe { retained(sys::tenon_message_find(self.as_raw(), name.as_ptr())) }
    }

    /// Describes all tensors, with their names, shapes and places, in two calls of the C library,
    /// however many there are. The parts of composites are among them.
    pub fn views(&self) -> Vec<TensorView<'_>> {
        let len = self.len();
        let mut views: Vec<TensorView<'_>> = Vec::with_capacity(len);
        if len == 0 {
            return views;
        }
        let out: *mut sys::tenon_tensor_view = views.as_mut_ptr().cast();
        // SAFETY: there is room for len views, which are transparent over the C struct. The first
        // one says how large each is, and on success all are filled in.
        unsafe {
            ptr::addr_of_mut!((*out).struct_size)
                .write(std::mem::size_of::<sys::tenon_tensor_view>());
            check(|err| sys::tenon_message_get_views(self.as_raw(), out, len, err))
                // The documentation names only NULL, a struct that is too small, and fewer tensors
                // as errors.
                .unwrap_or_else(|error| unreachable!("{error}"));
            views.set_len(len);
        }
        views
    }

    /// Returns the user bytes.
    pub fn user_bytes(&self) -> &[u8] {
        let mut nbytes = 0;
        // SAFETY: the bytes are borrowed from the message, and NULL if there are none.
        unsafe {
            let data = sys::tenon_message_user_bytes(self.as_raw(), &mut nbytes);
            if data.is_null() {
                return &[];
            }
            std::slice::from_raw_parts(data.cast(), nbytes)
        }
    }

    /// # Safety
    /// The caller gives one reference to a living message away.
    pub(crate) unsafe fn adopt(raw: NonNull<sys::tenon_message>) -> Message {
        Message { raw }
    }
}

/// # Safety
/// `raw` is NULL or a living tensor.
pub(crate) unsafe fn retained(raw: *mut sys::tenon_tensor) -> Option<Tensor> {
    // SAFETY: the caller's promise. The new reference belongs to the Tensor.
    unsafe { NonNull::new(sys::tenon_tensor_retain(raw)).map(|raw| Tensor::adopt(raw)) }
}

fn c_pointer(name: &Option<CString>) -> *const c_char {
    name.as_ref().map_or(ptr::null(), |name| name.as_ptr())
}

/// Collects the pointers of the items that are added, and their names.
pub(crate) fn named<N: AsRef<str>, T, R>(
    items: impl IntoIterator<Item = (Option<N>, T)>,
    as_raw: impl Fn(T) -> R,
) -> Result<(Vec<R>, Vec<Option<CString>>)> {
    let (mut raws, mut names) = (Vec::new(), Vec::new());
    for (name, item) in items {
        raws.push(as_raw(item));
        names.push(name.map(|name| c_name(name.as_ref())).transpose()?);
    }
    Ok((raws, names))
}

pub(crate) fn c_pointers(names: &[Option<CString>]) -> Vec<*const c_char> {
    names.iter().map(c_pointer).collect()
}

fn c_name(name: &str) -> Result<CString> {
    CString::new(name).map_err(|_| {
        Error::new(ErrorKind::InvalidArgument, format!("the name {name:?} has a NUL in it"))
    })
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Message");
        out.field("tensors", &self.views()).field("composites", &self.composite_count());
        out.field("user_bytes", &self.user_bytes().len()).finish()
    }
}
