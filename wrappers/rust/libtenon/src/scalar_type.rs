//! PyTorch's element types, which archives use.

use std::ffi::{c_char, CStr};
use std::fmt;
use std::str::FromStr;

use crate::dtype::DType;
use crate::error::{check, Error, Result};
use crate::sys;
use crate::text::c_text;

/// An element type in PyTorch's numbers. There are more of them than DLPack has: see
/// [`dtype`](ScalarType::dtype).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScalarType(i32);

macro_rules! scalar_types {
    ($($name:ident: $raw:ident,)*) => {
        #[allow(missing_docs)] // the names are PyTorch's
        impl ScalarType {
            $(pub const $name: ScalarType = ScalarType(sys::$raw as i32);)*
        }
    };
}

scalar_types! {
    BYTE: TENON_SCALAR_TYPE_BYTE,
    CHAR: TENON_SCALAR_TYPE_CHAR,
    SHORT: TENON_SCALAR_TYPE_SHORT,
    INT: TENON_SCALAR_TYPE_INT,
    LONG: TENON_SCALAR_TYPE_LONG,
    HALF: TENON_SCALAR_TYPE_HALF,
    FLOAT: TENON_SCALAR_TYPE_FLOAT,
    DOUBLE: TENON_SCALAR_TYPE_DOUBLE,
    COMPLEX_HALF: TENON_SCALAR_TYPE_COMPLEX_HALF,
    COMPLEX_FLOAT: TENON_SCALAR_TYPE_COMPLEX_FLOAT,
    COMPLEX_DOUBLE: TENON_SCALAR_TYPE_COMPLEX_DOUBLE,
    BOOL: TENON_SCALAR_TYPE_BOOL,
    QINT8: TENON_SCALAR_TYPE_QINT8,
    QUINT8: TENON_SCALAR_TYPE_QUINT8,
    QINT32: TENON_SCALAR_TYPE_QINT32,
    BFLOAT16: TENON_SCALAR_TYPE_BFLOAT16,
    QUINT4X2: TENON_SCALAR_TYPE_QUINT4X2,
    QUINT2X4: TENON_SCALAR_TYPE_QUINT2X4,
    BITS1X8: TENON_SCALAR_TYPE_BITS1X8,
    BITS2X4: TENON_SCALAR_TYPE_BITS2X4,
    BITS4X2: TENON_SCALAR_TYPE_BITS4X2,
    BITS8: TENON_SCALAR_TYPE_BITS8,
    BITS16: TENON_SCALAR_TYPE_BITS16,
    FLOAT8_E5M2: TENON_SCALAR_TYPE_FLOAT8_E5M2,
    FLOAT8_E4M3FN: TENON_SCALAR_TYPE_FLOAT8_E4M3FN,
    FLOAT8_E5M2FNUZ: TENON_SCALAR_TYPE_FLOAT8_E5M2FNUZ,
    FLOAT8_E4M3FNUZ: TENON_SCALAR_TYPE_FLOAT8_E4M3FNUZ,
    UINT16: TENON_SCALAR_TYPE_UINT16,
    UINT32: TENON_SCALAR_TYPE_UINT32,
    UINT64: TENON_SCALAR_TYPE_UINT64,
    UINT1: TENON_SCALAR_TYPE_UINT1,
    UINT2: TENON_SCALAR_TYPE_UINT2,
    UINT3: TENON_SCALAR_TYPE_UINT3,
    UINT4: TENON_SCALAR_TYPE_UINT4,
    UINT5: TENON_SCALAR_TYPE_UINT5,
    UINT6: TENON_SCALAR_TYPE_UINT6,
    UINT7: TENON_SCALAR_TYPE_UINT7,
    INT1: TENON_SCALAR_TYPE_INT1,
    INT2: TENON_SCALAR_TYPE_INT2,
    INT3: TENON_SCALAR_TYPE_INT3,
    INT4: TENON_SCALAR_TYPE_INT4,
    INT5: TENON_SCALAR_TYPE_INT5,
    INT6: TENON_SCALAR_TYPE_INT6,
    INT7: TENON_SCALAR_TYPE_INT7,
    FLOAT8_E8M0FNU: TENON_SCALAR_TYPE_FLOAT8_E8M0FNU,
    FLOAT4_E2M1FN_X2: TENON_SCALAR_TYPE_FLOAT4_E2M1FN_X2,
    BCOMPLEX32: TENON_SCALAR_TYPE_BCOMPLEX32,
}

impl ScalarType {
    /// Makes the type with PyTorch's number, whether such a type exists or not.
    pub const fn from_raw(raw: i32) -> ScalarType {
        ScalarType(raw)
    }

    /// Returns PyTorch's number.
    pub const fn raw(self) -> i32 {
        self.0
    }

    /// Returns the name that torch.dtype uses, such as `"float32"` or `"qint8"`; `None` for a
    /// number that is not an element type.
    pub fn name(self) -> Option<&'static str> {
        // SAFETY: any number is allowed, and the text is in static storage (scalar_type.h).
        unsafe { text(sys::tenon_scalar_type_name(self.0)) }
    }

    /// Returns the name of PyTorch's storage class, such as `"FloatStorage"`.
    pub fn storage_name(self) -> Option<&'static str> {
        // SAFETY: as above.
        unsafe { text(sys::tenon_scalar_type_storage_name(self.0)) }
    }

    /// Returns the oldest PyTorch that is known to read a storage of this type, such as `"2.1"`. It
    /// is `"1.4"` for all types that are older.
    pub fn since(self) -> Option<&'static str> {
        // SAFETY: as above.
        unsafe { text(sys::tenon_scalar_type_since(self.0)) }
    }

    /// Returns the size of one element of a storage in bytes; 0 for a number that is not an element
    /// type.
    pub fn nbytes(self) -> u64 {
        // SAFETY: any number is allowed (scalar_type.h).
        unsafe { sys::tenon_scalar_type_nbytes(self.0) }
    }

    /// Returns DLPack's element type for it, if there is one.
    pub fn dtype(self) -> Result<DType> {
        let mut raw = sys::tenon_dtype { code: 0, bits: 0, lanes: 0 };
        // SAFETY: raw belongs to this function.
        check(|err| unsafe { sys::tenon_scalar_type_to_dtype(self.0, &mut raw, err) })?;
        Ok(DType::from_raw(raw))
    }

    /// Returns PyTorch's element type for one of DLPack's, if there is one.
    pub fn of(dtype: DType) -> Result<ScalarType> {
        let mut raw = 0;
        // SAFETY: raw belongs to this function.
        check(|err| unsafe { sys::tenon_scalar_type_from_dtype(dtype.raw(), &mut raw, err) })?;
        Ok(ScalarType(raw))
    }
}

/// # Safety
/// `raw` is NULL or in static storage.
unsafe fn text(raw: *const c_char) -> Option<&'static str> {
    // SAFETY: the caller's promise.
    (!raw.is_null()).then(|| unsafe { CStr::from_ptr(raw) }.to_str().unwrap_or_default())
}

impl fmt::Display for ScalarType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "scalar_type_{}", self.0),
        }
    }
}

impl fmt::Debug for ScalarType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The default is `float32`, as in PyTorch.
impl Default for ScalarType {
    fn default() -> ScalarType {
        ScalarType::FLOAT
    }
}

/// Parses torch.dtype's name (`"float32"`), PyTorch's own (`"Float"`) or the name of its storage
/// class (`"FloatStorage"`).
impl FromStr for ScalarType {
    type Err = Error;

    fn from_str(name: &str) -> Result<ScalarType> {
        let name = c_text(name, "the element type")?;
        let mut raw = 0;
        // SAFETY: all arguments are borrowed for the call.
        check(|err| unsafe { sys::tenon_scalar_type_parse(name.as_ptr(), &mut raw, err) })?;
        Ok(ScalarType(raw))
    }
}
