//! Element types of tensors, and the Rust types that can stand for them.

use std::ffi::{CStr, CString};
use std::fmt;
use std::str::FromStr;

use crate::error::{check, Error, ErrorKind};
use crate::sys;

/// An element type, in the three numbers that DLPack uses. It is shown and parsed as text:
/// `float32`, `bfloat16`, `float8_e4m3fn`, `uint8x4`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DType {
    /// The type code: `DType::INT`, `DType::FLOAT` and so on.
    pub code: u8,
    /// The size of one lane in bits.
    pub bits: u8,
    /// The number of values in one element; 1 for a scalar.
    pub lanes: u16,
}

macro_rules! dtypes {
    ($($name:ident $text:literal $code:ident $bits:literal),* $(,)?) => {
        #[allow(missing_docs)] // the names say it
        impl DType {
            $(pub const $name: DType = DType::new(sys::$code as u8, $bits);)*
        }

        #[cfg(test)]
        const NAMES: &[(&str, DType)] = &[$(($text, DType::$name)),*];
    };
}

dtypes! {
    BOOL "bool" TENON_DTYPE_BOOL 8,
    I8 "int8" TENON_DTYPE_INT 8,
    I16 "int16" TENON_DTYPE_INT 16,
    I32 "int32" TENON_DTYPE_INT 32,
    I64 "int64" TENON_DTYPE_INT 64,
    U8 "uint8" TENON_DTYPE_UINT 8,
    U16 "uint16" TENON_DTYPE_UINT 16,
    U32 "uint32" TENON_DTYPE_UINT 32,
    U64 "uint64" TENON_DTYPE_UINT 64,
    F16 "float16" TENON_DTYPE_FLOAT 16,
    F32 "float32" TENON_DTYPE_FLOAT 32,
    F64 "float64" TENON_DTYPE_FLOAT 64,
    BF16 "bfloat16" TENON_DTYPE_BFLOAT 16,
    C32 "complex32" TENON_DTYPE_COMPLEX 32,
    C64 "complex64" TENON_DTYPE_COMPLEX 64,
    C128 "complex128" TENON_DTYPE_COMPLEX 128,
    F8_E3M4 "float8_e3m4" TENON_DTYPE_FLOAT8_E3M4 8,
    F8_E4M3 "float8_e4m3" TENON_DTYPE_FLOAT8_E4M3 8,
    F8_E4M3B11FNUZ "float8_e4m3b11fnuz" TENON_DTYPE_FLOAT8_E4M3B11FNUZ 8,
    F8_E4M3FN "float8_e4m3fn" TENON_DTYPE_FLOAT8_E4M3FN 8,
    F8_E4M3FNUZ "float8_e4m3fnuz" TENON_DTYPE_FLOAT8_E4M3FNUZ 8,
    F8_E5M2 "float8_e5m2" TENON_DTYPE_FLOAT8_E5M2 8,
    F8_E5M2FNUZ "float8_e5m2fnuz" TENON_DTYPE_FLOAT8_E5M2FNUZ 8,
    F8_E8M0FNU "float8_e8m0fnu" TENON_DTYPE_FLOAT8_E8M0FNU 8,
    F6_E2M3FN "float6_e2m3fn" TENON_DTYPE_FLOAT6_E2M3FN 6,
    F6_E3M2FN "float6_e3m2fn" TENON_DTYPE_FLOAT6_E3M2FN 6,
    F4_E2M1FN "float4_e2m1fn" TENON_DTYPE_FLOAT4_E2M1FN 4,
    I1 "int1" TENON_DTYPE_INT 1,
    I2 "int2" TENON_DTYPE_INT 2,
    I4 "int4" TENON_DTYPE_INT 4,
    U1 "uint1" TENON_DTYPE_UINT 1,
    U2 "uint2" TENON_DTYPE_UINT 2,
    U4 "uint4" TENON_DTYPE_UINT 4,
}

impl DType {
    /// Makes the type of a scalar of `bits` bits. Whether such a type exists is checked when a
    /// tensor is made.
    pub const fn new(code: u8, bits: u8) -> DType {
        DType { code, bits, lanes: 1 }
    }

    /// Returns the same type with several lanes.
    pub const fn with_lanes(self, lanes: u16) -> DType {
        DType { lanes, ..self }
    }

    /// Returns the number of bits in one element: those of all its lanes together.
    pub const fn bits_of_element(self) -> u32 {
        self.bits as u32 * self.lanes as u32
    }

    pub(crate) fn from_raw(raw: sys::tenon_dtype) -> DType {
        DType { code: raw.code, bits: raw.bits, lanes: raw.lanes }
    }

    pub(crate) fn raw(self) -> sys::tenon_dtype {
        sys::tenon_dtype { code: self.code, bits: self.bits, lanes: self.lanes }
    }
}

/// Shows the name, such as `float32` or `bfloat16`, or `uint8x4` if there are several lanes. A type
/// without a name of its own is shown by its code and bits, such as `dtype_3_64`.
impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if cfg!(miri) {
            // Miri runs no foreign code.
            return write!(f, "dtype_{}_{}x{}", self.code, self.bits, self.lanes);
        }
        let mut name = [0u8; sys::TENON_DTYPE_MAX_NAME_NBYTES as usize];
        // SAFETY: name has that many bytes, and the library writes a text that ends with NUL.
        unsafe { sys::tenon_dtype_name(self.raw(), name.as_mut_ptr().cast(), name.len()) };
        let text = CStr::from_bytes_until_nul(&name).map_err(|_| fmt::Error)?;
        f.write_str(text.to_str().map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for DType {
    type Err = Error;

    fn from_str(text: &str) -> Result<DType, Error> {
        let Ok(name) = CString::new(text) else {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("there is no element type {text:?}"),
            ));
        };
        let mut raw = sys::tenon_dtype { code: 0, bits: 0, lanes: 0 };
        // SAFETY: all arguments are borrowed for the call.
        check(|err| unsafe { sys::tenon_dtype_parse(name.as_ptr(), &mut raw, err) })?;
        Ok(DType::from_raw(raw))
    }
}

/// A Rust type that can stand for the elements of a tensor.
///
/// # Safety
/// - Every bit pattern is a value of the type, because other processes write any bytes. (So the
///   element of bools is [`Bool`] and not `bool`.)
/// - The type has no padding, and consists of units of `align_of::<Self>()` bytes, which is 1, 2, 4
///   or 8. The cells of a tensor read and write each unit atomically.
/// - It has `DTYPE.bits_of_element()` bits, laid out as DLPack lays out that element type.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// The element type of a tensor of this Rust type.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($type:ty => $dtype:ident),* $(,)?) => {
        $(
            // SAFETY: this is a number, or an array of two. It has no padding, every pattern is a
            // value, and it is aligned to 1, 2, 4 or 8 bytes.
            unsafe impl Element for $type {
                const DTYPE: DType = DType::$dtype;
            }
        )*
    };
}

elements! {
    i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    f32 => F32, f64 => F64,
    [f32; 2] => C64, [f64; 2] => C128,
    Bool => BOOL,
}

#[cfg(feature = "half")]
elements! {
    half::f16 => F16, half::bf16 => BF16, [half::f16; 2] => C32,
}

/// An element of a tensor of bools. It is a byte to which another process may have given any value.
/// Every value except 0 is true.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Bool(pub u8);

impl Bool {
    /// Says whether the element is true.
    pub const fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool {
    fn from(value: bool) -> Bool {
        Bool(value.into())
    }
}

impl From<Bool> for bool {
    fn from(value: Bool) -> bool {
        value.get()
    }
}

impl PartialEq for Bool {
    fn eq(&self, other: &Bool) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Bool {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_dtypes_are_one_to_one() {
        for (name, dtype) in NAMES {
            assert_eq!(dtype.to_string(), *name);
            assert_eq!(name.parse::<DType>().unwrap(), *dtype);
        }
        assert_eq!("uint8x4".parse::<DType>().unwrap(), DType::U8.with_lanes(4));
        assert_eq!(DType::U8.with_lanes(4).to_string(), "uint8x4");
        assert_eq!("dtype_3_64".parse::<DType>().unwrap().to_string(), "dtype_3_64");
    }

    #[test]
    fn no_such_name() {
        for text in ["", "float", "float32x0", "xfloat32", "float32x", "dtype_300_1"] {
            let error = text.parse::<DType>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.message().contains(text));
        }
    }

    #[test]
    fn pure_sizes_are_those_of_the_dtypes() {
        fn same<T: Element>() {
            assert_eq!(std::mem::size_of::<T>() * 8, T::DTYPE.bits_of_element() as usize);
            assert_eq!(std::mem::size_of::<T>() % std::mem::align_of::<T>(), 0);
        }
        same::<i8>();
        same::<u16>();
        same::<i32>();
        same::<f64>();
        same::<[f32; 2]>();
        same::<[f64; 2]>();
        same::<Bool>();
        #[cfg(feature = "half")]
        same::<half::bf16>();
    }
}
