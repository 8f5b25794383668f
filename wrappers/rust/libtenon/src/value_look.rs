//! Reading values: their items, and conversions to Rust's types. A conversion of a value of another
//! kind, and an index past the end, give the error `InvalidArgument`.

use std::ffi::{c_char, CStr};
use std::ptr;

use crate::error::{check, make, ErrorKind, Result};
use crate::sys;
use crate::tensor::Tensor;
use crate::text::{c_text, owned};
use crate::value::Value;

impl Value {
    /// Returns the qualified name of a NamedTuple, an enum or an object; `""` for other values.
    pub fn class_name(&self) -> &str {
        // SAFETY: never NULL, and borrowed from the value (value.h).
        unsafe { CStr::from_ptr(sys::tenon_value_class_name(self.as_raw())) }
            .to_str()
            .unwrap_or_default()
    }

    /// Says whether the value is an object with a state. Such an object has no attributes, and the
    /// state is its only item.
    pub fn is_opaque(&self) -> bool {
        // SAFETY: self keeps the value alive, and any thread may call this (value.h).
        unsafe { sys::tenon_value_is_opaque(self.as_raw()) != 0 }
    }

    /// Returns the items of a tuple or list, the values of a dict or of an object's attributes, the
    /// value of an enum's member, or the state of an object. Other values have no items.
    pub fn items(&self) -> Result<Vec<Value>> {
        (0..self.raw_count()).map(|index| self.item(index)).collect()
    }

    /// Returns one of the [`items`](Value::items).
    pub fn item(&self, index: usize) -> Result<Value> {
        // SAFETY: self keeps the value alive, and out belongs to this function.
        Value::new(|out, err| unsafe { sys::tenon_value_item(self.as_raw(), index, out, err) })
    }

    /// Returns the number of items.
    pub fn count(&self) -> Result<usize> {
        Ok(self.raw_count())
    }

    fn raw_count(&self) -> usize {
        // SAFETY: self keeps the value alive.
        unsafe { sys::tenon_value_count(self.as_raw()) }
    }

    /// Returns the keys of a dict, in the order of its items.
    pub fn keys(&self) -> Result<Vec<Value>> {
        (0..self.raw_count())
            .map(|index| {
                // SAFETY: self keeps the value alive, and out belongs to this function.
                Value::new(|out, err| unsafe {
                    sys::tenon_value_key(self.as_raw(), index, out, err)
                })
            })
            .collect()
    }

    /// Returns the attributes of an object, in the order of its class. Other values have none. If
    /// another thread removes attributes meanwhile, others may be left out too.
    pub fn attributes(&self) -> Result<Vec<(String, Value)>> {
        let mut attributes = Vec::new();
        loop {
            // SAFETY: self keeps the value alive, and the name lives as long as the value.
            let name = unsafe { sys::tenon_value_attribute_name(self.as_raw(), attributes.len()) };
            if name.is_null() {
                return Ok(attributes);
            }
            // SAFETY: the name is a text that ends with NUL.
            let name = unsafe { owned(name) };
            match self.find(&name) {
                // Another thread has removed the attribute since. The next one has its index now.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                value => attributes.push((name, value?)),
            }
        }
    }

    /// Returns the value with a name: of an attribute of an object, or of a str key of a dict. The
    /// error is `NotFound` if there is none.
    pub fn find(&self, name: &str) -> Result<Value> {
        let name = c_text(name, "the name")?;
        // SAFETY: the name is borrowed for the call, and out belongs to this function.
        Value::new(|out, err| unsafe {
            sys::tenon_value_find(self.as_raw(), name.as_ptr(), out, err)
        })
    }

    /// Returns the bool, if the value is one.
    pub fn as_bool(&self) -> Result<bool> {
        let mut out = 0;
        // SAFETY: out is ours.
        check(|err| unsafe { sys::tenon_value_get_bool(self.as_raw(), &mut out, err) })?;
        Ok(out != 0)
    }

    /// Returns the int, if the value is one. A bool is not an int.
    pub fn as_int(&self) -> Result<i64> {
        let mut out = 0;
        // SAFETY: out is ours.
        check(|err| unsafe { sys::tenon_value_get_int(self.as_raw(), &mut out, err) })?;
        Ok(out)
    }

    /// Returns the float, if the value is one. An int is not a float.
    pub fn as_float(&self) -> Result<f64> {
        let mut out = 0.0;
        // SAFETY: out is ours.
        check(|err| unsafe { sys::tenon_value_get_float(self.as_raw(), &mut out, err) })?;
        Ok(out)
    }

    /// Returns the real and the imaginary part of the complex number, if the value is one.
    pub fn as_complex(&self) -> Result<(f64, f64)> {
        let (mut real, mut imaginary) = (0.0, 0.0);
        // SAFETY: both are ours.
        check(|err| unsafe {
            sys::tenon_value_get_complex(self.as_raw(), &mut real, &mut imaginary, err)
        })?;
        Ok((real, imaginary))
    }

    /// Returns the text, if the value is a str.
    pub fn as_str(&self) -> Result<&str> {
        let (mut out, mut nbytes) = (ptr::null::<c_char>(), 0);
        // SAFETY: both are ours.
        check(|err| unsafe {
            sys::tenon_value_get_str(self.as_raw(), &mut out, &mut nbytes, err)
        })?;
        // SAFETY: this many bytes are borrowed from the value.
        let bytes = unsafe { std::slice::from_raw_parts(out.cast::<u8>(), nbytes) };
        std::str::from_utf8(bytes).map_err(|error| {
            crate::Error::new(crate::ErrorKind::Corrupt, format!("a str is no UTF-8: {error}"))
        })
    }

    /// Returns the name of the device, if the value is one.
    pub fn as_device(&self) -> Result<&str> {
        let mut out = ptr::null();
        // SAFETY: out is ours.
        check(|err| unsafe { sys::tenon_value_get_device(self.as_raw(), &mut out, err) })?;
        // SAFETY: a NUL-terminated text, borrowed from the value.
        Ok(unsafe { CStr::from_ptr(out) }.to_str().unwrap_or_default())
    }

    /// Returns the tensor, over the same bytes, if a [`Tensor`] can express it. Otherwise
    /// [`tensor_spec`](Value::tensor_spec) describes it.
    pub fn to_tensor(&self) -> Result<Tensor> {
        // SAFETY: out is ours.
        let raw = make(|out, err| unsafe { sys::tenon_value_get_tensor(self.as_raw(), out, err) })?;
        // SAFETY: the reference is new. A Tensor over private, read-only memory needs bytes that
        // nobody changes. There are three kinds of such memory: it was private and read-only when
        // the tensor was put into the value, its owner lent it for good (import_bytes), or it is a
        // file whose importer promised that it does not change (ImportOptions::mapped).
        Ok(unsafe { Tensor::adopt(raw) })
    }

    /// Checks that the value and everything in it fits a type. The error has the details `where`,
    /// `wanted` and `found`.
    pub fn check(&self, type_text: &str) -> Result<()> {
        let type_text = c_text(type_text, "the type")?;
        // SAFETY: the type is borrowed for the call.
        check(|err| unsafe { sys::tenon_value_check(self.as_raw(), type_text.as_ptr(), err) })
    }
}
