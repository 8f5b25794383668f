//! Values: what an attribute of a module, an argument or a constant can be.

use std::convert::Infallible;
use std::fmt;
use std::ptr::{self, NonNull};

use crate::error::{make, Error, Result};
use crate::sys;
use crate::tensor::{Tensor, TensorMut};
use crate::text::{c_text, sized, Names};

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $raw:ident),* $(,)?) => {
        /// The kind of a [`Value`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ValueKind {
            $($(#[$doc])* $name,)*
        }

        impl ValueKind {
            fn from_raw(raw: i32) -> Option<ValueKind> {
                match u32::try_from(raw).ok()? {
                    $(sys::$raw => Some(ValueKind::$name),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// `None`.
    None = TENON_VALUE_NONE,
    /// A bool.
    Bool = TENON_VALUE_BOOL,
    /// An int. A dtype, a layout and a memory format are ints too, in PyTorch's numbers.
    Int = TENON_VALUE_INT,
    /// A float.
    Float = TENON_VALUE_FLOAT,
    /// A complex number.
    Complex = TENON_VALUE_COMPLEX,
    /// A text.
    Str = TENON_VALUE_STR,
    /// A device.
    Device = TENON_VALUE_DEVICE,
    /// A tensor.
    Tensor = TENON_VALUE_TENSOR,
    /// A tuple, perhaps a NamedTuple.
    Tuple = TENON_VALUE_TUPLE,
    /// A list.
    List = TENON_VALUE_LIST,
    /// A dict.
    Dict = TENON_VALUE_DICT,
    /// A member of an enum.
    Enum = TENON_VALUE_ENUM,
    /// An object with attributes, or with a state.
    Object = TENON_VALUE_OBJECT,
}

/// What an attribute of a module, an argument or a constant can be. A value never changes, with one
/// exception: a change of a module changes the attributes of its objects. A clone is one more
/// reference to the same value. A tensor or a container in two places is one object in an archive,
/// and stays one when the archive is read again.
///
/// Types are written as in TorchScript: `"Optional[Tensor]"`, `"Dict[str, List[int]]"`.
///
/// ```
/// use tenon::Value;
///
/// let sizes = Value::list(Some("List[int]"), [4, 3])?;
/// assert_eq!(sizes.type_text()?, "List[int]");
/// assert_eq!(sizes.item(1)?.as_int()?, 3);
/// # Ok::<(), tenon::Error>(())
/// ```
pub struct Value {
    raw: NonNull<sys::tenon_value>,
}

handle!(pub Value, tenon_value, tenon_value_release, retain tenon_value_retain, fn into_raw);

impl Value {
    /// Returns the value None.
    pub fn none() -> Value {
        // SAFETY: out is ours.
        Value::plain(|out, err| unsafe { sys::tenon_value_new_none(out, err) })
    }

    /// Makes a complex number.
    pub fn complex(real: f64, imaginary: f64) -> Value {
        // SAFETY: out is ours.
        Value::plain(|out, err| unsafe { sys::tenon_value_new_complex(real, imaginary, out, err) })
    }

    /// Makes a device, such as `"cpu"` or `"cuda:0"`.
    pub fn device(name: &str) -> Result<Value> {
        let name = c_text(name, "the device")?;
        // SAFETY: name is borrowed for the call.
        Value::new(|out, err| unsafe { sys::tenon_value_new_device(name.as_ptr(), out, err) })
    }

    /// Makes a value from a tensor. Nothing is copied. Tensors over one storage share that storage
    /// in an archive too. An export writes the whole storage.
    pub fn tensor(tensor: &Tensor) -> Result<Value> {
        // SAFETY: the tensor is borrowed for the call, and the value keeps the storage.
        Value::new(|out, err| unsafe { sys::tenon_value_new_tensor(tensor.as_raw(), out, err) })
    }

    /// Makes a tuple.
    pub fn tuple<V: Into<Value>>(items: impl IntoIterator<Item = V>) -> Result<Value> {
        let items = Items::new(items);
        // SAFETY: n items are borrowed for the call, and the value takes references of its own.
        Value::new(|out, err| unsafe {
            sys::tenon_value_new_tuple(ptr::null(), items.as_ptr(), items.len(), out, err)
        })
    }

    /// Makes a NamedTuple with a qualified name.
    pub fn named_tuple<V: Into<Value>>(
        class_name: &str,
        items: impl IntoIterator<Item = V>,
    ) -> Result<Value> {
        let (name, items) = (c_text(class_name, "the class")?, Items::new(items));
        // SAFETY: as above.
        Value::new(|out, err| unsafe {
            sys::tenon_value_new_tuple(name.as_ptr(), items.as_ptr(), items.len(), out, err)
        })
    }

    /// Makes a list of a type such as `"List[Optional[int]]"`, and checks the items against it.
    /// Without a type, the list gets the type that is declared for the place where it is put.
    pub fn list<V: Into<Value>>(
        type_text: Option<&str>,
        items: impl IntoIterator<Item = V>,
    ) -> Result<Value> {
        let type_text = type_text.map(|text| c_text(text, "the type")).transpose()?;
        let items = Items::new(items);
        let raw_type = type_text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
        // SAFETY: as above.
        Value::new(|out, err| unsafe {
            sys::tenon_value_new_list(raw_type, items.as_ptr(), items.len(), out, err)
        })
    }

    /// Makes a dict, which keeps the order of its entries. Its type is as for a list, such as
    /// `"Dict[str, Tensor]"`.
    pub fn dict<K: Into<Value>, V: Into<Value>>(
        type_text: Option<&str>,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Value> {
        let type_text = type_text.map(|text| c_text(text, "the type")).transpose()?;
        let (keys, values): (Vec<Value>, Vec<Value>) =
            entries.into_iter().map(|(key, value)| (key.into(), value.into())).unzip();
        let (keys, values) = (Items::new(keys), Items::new(values));
        let raw_type = type_text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
        // SAFETY: as above, and there are as many keys as values.
        Value::new(|out, err| unsafe {
            sys::tenon_value_new_dict(
                raw_type,
                keys.as_ptr(),
                values.as_ptr(),
                keys.len(),
                out,
                err,
            )
        })
    }

    /// Makes a member of the enum with a qualified name. `value` is an int, a float or a str.
    pub fn enum_member(class_name: &str, value: impl Into<Value>) -> Result<Value> {
        let (name, value) = (c_text(class_name, "the class")?, value.into());
        // SAFETY: all is borrowed for the call, and the value takes a reference of its own.
        Value::new(|out, err| unsafe {
            sys::tenon_value_new_enum(name.as_ptr(), value.as_raw(), out, err)
        })
    }

    /// Makes an object of a plain class with attributes. [`Module::new`](crate::Module::new) makes
    /// modules.
    pub fn object<'a, V: Into<Value>>(
        class_name: &str,
        attributes: impl IntoIterator<Item = (&'a str, V)>,
    ) -> Result<Value> {
        let name = c_text(class_name, "the class")?;
        let (names, values): (Vec<&str>, Vec<Value>) =
            attributes.into_iter().map(|(name, value)| (name, value.into())).unzip();
        let (names, values) = (Names::new(names, "the attribute")?, Items::new(values));
        // SAFETY: as above, and there are as many names as values.
        Value::new(|out, err| unsafe {
            sys::tenon_value_new_object(
                name.as_ptr(),
                names.raw.as_ptr(),
                values.as_ptr(),
                values.len(),
                out,
                err,
            )
        })
    }

    /// Makes an object that has a state and no attributes. Its class has `__getstate__`, or is a
    /// custom C++ class.
    pub fn opaque(class_name: &str, state: impl Into<Value>) -> Result<Value> {
        let (name, state) = (c_text(class_name, "the class")?, state.into());
        // SAFETY: as above.
        Value::new(|out, err| unsafe {
            sys::tenon_value_new_opaque(name.as_ptr(), state.as_raw(), out, err)
        })
    }

    /// Returns the kind of the value.
    pub fn kind(&self) -> ValueKind {
        // SAFETY: self keeps the value alive, and any thread may call this (value.h).
        let raw = unsafe { sys::tenon_value_kind(self.as_raw()) };
        ValueKind::from_raw(raw).unwrap_or_else(|| unreachable!("a value of kind {raw}"))
    }

    /// Returns the type that the value shows by itself. A list shows its own type, such as
    /// `"List[int]"`. A tuple shows the types of its items, such as `"Tuple[int, str]"`. An object
    /// shows the name of its class.
    pub fn type_text(&self) -> Result<String> {
        // SAFETY: self keeps the value alive, and the buffer has the size that the call is told.
        sized(|out, capacity, nbytes, err| unsafe {
            sys::tenon_value_type(self.as_raw(), out, capacity, nbytes, err)
        })
    }

    /// Says whether both are the same value, and so one object in an archive.
    pub fn is_same(&self, other: &Value) -> bool {
        self.raw == other.raw
    }

    pub(crate) fn new<F>(call: F) -> Result<Value>
    where
        F: FnOnce(*mut *mut sys::tenon_value, *mut *mut sys::tenon_error) -> sys::tenon_status,
    {
        Ok(Value { raw: make(call)? })
    }

    /// Makes a value by a call that fails only if there is no memory, which is fatal in Rust too.
    fn plain<F>(call: F) -> Value
    where
        F: FnOnce(*mut *mut sys::tenon_value, *mut *mut sys::tenon_error) -> sys::tenon_status,
    {
        Value::new(call).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Takes a reference of its own to a value that another owner keeps.
    ///
    /// # Safety
    /// `raw` is NULL or a living value.
    pub(crate) unsafe fn retained(raw: *mut sys::tenon_value) -> Option<Value> {
        // SAFETY: the caller's promise.
        NonNull::new(unsafe { sys::tenon_value_retain(raw) }).map(|raw| Value { raw })
    }
}

/// Values, and the array of their pointers that the C library takes.
pub(crate) struct Items {
    _values: Vec<Value>,
    raw: Vec<*mut sys::tenon_value>,
}

impl Items {
    pub(crate) fn new<V: Into<Value>>(values: impl IntoIterator<Item = V>) -> Items {
        let values: Vec<Value> = values.into_iter().map(Into::into).collect();
        let raw = values.iter().map(Value::as_raw).collect();
        Items { _values: values, raw }
    }

    pub(crate) fn as_ptr(&self) -> *const *mut sys::tenon_value {
        self.raw.as_ptr()
    }

    pub(crate) fn len(&self) -> usize {
        self.raw.len()
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({})", self.type_text().map_err(|_| fmt::Error)?)
    }
}

impl From<&Value> for Value {
    fn from(value: &Value) -> Value {
        value.clone()
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        // SAFETY: out is ours.
        Value::plain(|out, err| unsafe { sys::tenon_value_new_bool(value.into(), out, err) })
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        // SAFETY: out is ours.
        Value::plain(|out, err| unsafe { sys::tenon_value_new_int(value, out, err) })
    }
}

impl From<i32> for Value {
    fn from(value: i32) -> Value {
        Value::from(i64::from(value))
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        // SAFETY: out is ours.
        Value::plain(|out, err| unsafe { sys::tenon_value_new_float(value, out, err) })
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        // SAFETY: this many bytes of UTF-8 are borrowed for the call.
        Value::plain(|out, err| unsafe {
            sys::tenon_value_new_str(text.as_ptr().cast(), text.len(), out, err)
        })
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::from(text.as_str())
    }
}

/// `None` becomes Python's None.
impl<V: Into<Value>> From<Option<V>> for Value {
    fn from(value: Option<V>) -> Value {
        value.map_or_else(Value::none, Into::into)
    }
}

impl TryFrom<&Tensor> for Value {
    type Error = Error;

    fn try_from(tensor: &Tensor) -> Result<Value> {
        Value::tensor(tensor)
    }
}

impl TryFrom<&TensorMut> for Value {
    type Error = Error;

    fn try_from(tensor: &TensorMut) -> Result<Value> {
        Value::tensor(tensor)
    }
}

/// With this conversion a function can take a `Value` as well as a type that must become one.
impl From<Infallible> for Error {
    fn from(never: Infallible) -> Error {
        match never {}
    }
}

/// Returns a type in PyTorch's own spelling: `"Union[str, None]"` becomes `"Optional[str]"`.
pub fn type_text(text: &str) -> Result<String> {
    let text = c_text(text, "the type")?;
    // SAFETY: the text is borrowed, and the buffer has the size that the call is told.
    sized(|out, capacity, nbytes, err| unsafe {
        sys::tenon_type_text(text.as_ptr(), out, capacity, nbytes, err)
    })
}

impl Value {
    /// Takes over a reference from C.
    ///
    /// # Safety
    /// `raw` is a living value, and its owner gives one reference away. The storages in it fulfil
    /// the conditions of [`Storage::from_raw`](crate::Storage::from_raw).
    pub unsafe fn from_raw(raw: NonNull<sys::tenon_value>) -> Value {
        Value { raw }
    }
}
