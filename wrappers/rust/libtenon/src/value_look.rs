//! What is in a value.

use std::ffi::{c_char, CStr};
use std::ptr;

use crate::error::{check, make, Result};
use crate::sys;
use crate::tensor::Tensor;
use crate::text::{c_text, owned};
use crate::tree;
use crate::value::{Value, ValueKind};

impl Value {
    /// The qualified name of a NamedTuple, an enum or an object; `""` for what has none.
    pub fn class_name(&self) -> &str {
        // SAFETY: never NULL, and borrowed from the value (value.h).
        unsafe { CStr::from_ptr(sys::tenon_value_class_name(self.as_raw())) }
            .to_str()
            .unwrap_or_default()
    }

    /// Whether an object has a state, which is its only item, and no attributes.
    pub fn is_opaque(&self) -> bool {
        // SAFETY: self keeps it alive; any thread (value.h).
        unsafe { sys::tenon_value_is_opaque(self.as_raw()) != 0 }
    }

    /// The items of a tuple or list, the values of a dict or of an object's attributes, the value
    /// of an enum's member, the state of an object; of everything else none.
    pub fn items(&self) -> Result<Vec<Value>> {
        self.look(|| (0..self.raw_count()).map(|index| self.raw_item(index)).collect())
    }

    /// One of the [`items`](Value::items).
    pub fn item(&self, index: usize) -> Result<Value> {
        self.look(|| self.raw_item(index))
    }

    /// How many items there are.
    pub fn count(&self) -> Result<usize> {
        self.look(|| Ok(self.raw_count()))
    }

    /// The keys of a dict, in the order of its items.
    pub fn keys(&self) -> Result<Vec<Value>> {
        (0..self.raw_count())
            .map(|index| {
                // SAFETY: self keeps it alive; out is ours.
                Value::new(|out, err| unsafe {
                    sys::tenon_value_key(self.as_raw(), index, out, err)
                })
            })
            .collect()
    }

    /// The attributes of an object, in the order of its class; of everything else none.
    pub fn attributes(&self) -> Result<Vec<(String, Value)>> {
        if self.kind() != ValueKind::Object || self.is_opaque() {
            return Ok(Vec::new());
        }
        self.look(|| {
            (0..self.raw_count())
                .map(|index| {
                    // SAFETY: borrowed from the value until the attribute is removed, which the
                    // lock keeps away.
                    let name =
                        unsafe { owned(sys::tenon_value_attribute_name(self.as_raw(), index)) };
                    Ok((name, self.raw_item(index)?))
                })
                .collect()
        })
    }

    /// An attribute of an object, or what a dict has under that str.
    pub fn find(&self, name: &str) -> Result<Value> {
        let name = c_text(name, "the name")?;
        self.look(|| {
            // SAFETY: name is borrowed for the call; out is ours.
            Value::new(|out, err| unsafe {
                sys::tenon_value_find(self.as_raw(), name.as_ptr(), out, err)
            })
        })
    }

    /// The bool, if it is one.
    pub fn as_bool(&self) -> Result<bool> {
        let mut out = 0;
        // SAFETY: out is ours.
        check(|err| unsafe { sys::tenon_value_get_bool(self.as_raw(), &mut out, err) })?;
        Ok(out != 0)
    }

    /// The int, if it is one; a bool is none.
    pub fn as_int(&self) -> Result<i64> {
        let mut out = 0;
        // SAFETY: out is ours.
        check(|err| unsafe { sys::tenon_value_get_int(self.as_raw(), &mut out, err) })?;
        Ok(out)
    }

    /// The float, if it is one; an int is none.
    pub fn as_float(&self) -> Result<f64> {
        let mut out = 0.0;
        // SAFETY: out is ours.
        check(|err| unsafe { sys::tenon_value_get_float(self.as_raw(), &mut out, err) })?;
        Ok(out)
    }

    /// Real and imaginary part of the complex number, if it is one.
    pub fn as_complex(&self) -> Result<(f64, f64)> {
        let (mut real, mut imaginary) = (0.0, 0.0);
        // SAFETY: both are ours.
        check(|err| unsafe {
            sys::tenon_value_get_complex(self.as_raw(), &mut real, &mut imaginary, err)
        })?;
        Ok((real, imaginary))
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Result<&str> {
        let (mut out, mut nbytes) = (ptr::null::<c_char>(), 0);
        // SAFETY: both are ours.
        check(|err| unsafe {
            sys::tenon_value_get_str(self.as_raw(), &mut out, &mut nbytes, err)
        })?;
        // SAFETY: so many bytes, borrowed from the value.
        let bytes = unsafe { std::slice::from_raw_parts(out.cast::<u8>(), nbytes) };
        std::str::from_utf8(bytes).map_err(|error| {
            crate::Error::new(crate::ErrorKind::Corrupt, format!("a str is no UTF-8: {error}"))
        })
    }

    /// The name of the device, if it is one.
    pub fn as_device(&self) -> Result<&str> {
        let mut out = ptr::null();
        // SAFETY: out is ours.
        check(|err| unsafe { sys::tenon_value_get_device(self.as_raw(), &mut out, err) })?;
        // SAFETY: a NUL-terminated text, borrowed from the value.
        Ok(unsafe { CStr::from_ptr(out) }.to_str().unwrap_or_default())
    }

    /// The tensor, over the same bytes, if it is one that a [`Tensor`] can be; else
    /// [`tensor_spec`](Value::tensor_spec) tells of it.
    pub fn to_tensor(&self) -> Result<Tensor> {
        // SAFETY: out is ours.
        let raw = make(|out, err| unsafe { sys::tenon_value_get_tensor(self.as_raw(), out, err) })?;
        // SAFETY: a new reference. What is private and read-only there was so when it was put in,
        // is memory that its owner lent for good (import_bytes), or a file whose importer promised
        // that it stays as it is (ImportOptions::mapped).
        Ok(unsafe { Tensor::adopt(raw) })
    }

    /// Check that it fits a type, all the way down. The error's details are `where`, `wanted` and
    /// `found`.
    pub fn check(&self, type_text: &str) -> Result<()> {
        let type_text = c_text(type_text, "the type")?;
        tree::look(|| {
            // SAFETY: the type is borrowed for the call.
            check(|err| unsafe { sys::tenon_value_check(self.as_raw(), type_text.as_ptr(), err) })
        })
    }

    /// Only the attributes of objects can change.
    fn look<R>(&self, call: impl FnOnce() -> Result<R>) -> Result<R> {
        if self.kind() == ValueKind::Object {
            tree::look(call)
        } else {
            call()
        }
    }

    fn raw_count(&self) -> usize {
        // SAFETY: self keeps it alive.
        unsafe { sys::tenon_value_count(self.as_raw()) }
    }

    fn raw_item(&self, index: usize) -> Result<Value> {
        // SAFETY: self keeps it alive; out is ours.
        Value::new(|out, err| unsafe { sys::tenon_value_item(self.as_raw(), index, out, err) })
    }
}
