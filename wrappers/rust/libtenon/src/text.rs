//! Conversions of texts between Rust and C, for the other files of the crate.

use std::ffi::{c_char, CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::{check, Error, ErrorKind, Result};
use crate::sys;

/// Makes a text for a C function. A NUL inside is an error that names `what`.
pub(crate) fn c_text(text: &str, what: &str) -> Result<CString> {
    CString::new(text).map_err(|_| {
        Error::new(ErrorKind::InvalidArgument, format!("{what} {text:?} has a NUL in it"))
    })
}

pub(crate) fn c_path(path: &Path) -> Result<CString> {
    let bytes = OsStr::as_bytes(path.as_os_str());
    CString::new(bytes).map_err(|_| {
        Error::new(ErrorKind::InvalidArgument, format!("the path {path:?} has a NUL in it"))
    })
}

/// As c_text, but the error has the text as the detail "path".
pub(crate) fn c_string(text: &OsStr, what: &str) -> Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| {
        Error::new(ErrorKind::InvalidArgument, format!("{what} {text:?} has a NUL in it"))
            .with("path", text.to_string_lossy())
    })
}

/// Writes a text, with a NUL behind it, into an array for C.
pub(crate) fn put<const N: usize>(array: &mut [c_char; N], text: &str, what: &str) -> Result<()> {
    let bytes = c_string(OsStr::new(text), what)?.into_bytes_with_nul();
    if bytes.len() > N {
        let text = format!("{what} {text:?} has {} bytes, {} are the most", bytes.len() - 1, N - 1);
        return Err(Error::new(ErrorKind::InvalidArgument, text));
    }
    for (to, from) in array.iter_mut().zip(bytes) {
        *to = from as c_char;
    }
    Ok(())
}

/// Reads a text, which ends with a NUL, from an array that C wrote.
pub(crate) fn taken<const N: usize>(array: &[c_char; N]) -> String {
    debug_assert!(array.contains(&0));
    // SAFETY: the library ends every text with NUL (tenon.h), and a blank array has only NULs.
    unsafe { CStr::from_ptr(array.as_ptr()) }.to_string_lossy().into_owned()
}

/// Names, and the array of their pointers that C takes.
pub(crate) struct Names {
    _texts: Vec<CString>,
    pub(crate) raw: Vec<*const c_char>,
}

impl Names {
    pub(crate) fn new<'a>(names: impl IntoIterator<Item = &'a str>, what: &str) -> Result<Names> {
        let texts = names.into_iter().map(|name| c_text(name, what)).collect::<Result<Vec<_>>>()?;
        let raw = texts.iter().map(|text| text.as_ptr()).collect();
        Ok(Names { _texts: texts, raw })
    }
}

/// Copies a text of the library. Bytes that are not UTF-8 are replaced.
///
/// # Safety
/// `raw` is NULL or a NUL-terminated string.
pub(crate) unsafe fn owned(raw: *const c_char) -> String {
    if raw.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(raw) }.to_string_lossy().into_owned()
}

/// Gets a text from a function that fills a buffer, and that tells how long the buffer should be.
pub(crate) fn sized(
    call: impl Fn(*mut c_char, usize, *mut usize, *mut *mut sys::tenon_error) -> sys::tenon_status,
) -> Result<String> {
    let mut buffer = vec![0u8; 256];
    loop {
        let mut nbytes = 0;
        check(|err| call(buffer.as_mut_ptr().cast(), buffer.len(), &mut nbytes, err))?;
        if nbytes < buffer.len() {
            buffer.truncate(nbytes);
            return Ok(String::from_utf8(buffer)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()));
        }
        buffer.resize(nbytes + 1, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pure_a_nul_is_named() {
        assert_eq!(c_text("a", "the name").unwrap().to_bytes(), b"a");
        let error = c_text("a\0b", "the name").unwrap_err();
        assert_eq!(
            (error.kind(), error.message()),
            (ErrorKind::InvalidArgument, r#"the name "a\0b" has a NUL in it"#)
        );
        assert_eq!(c_path(Path::new("a\0b")).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(Names::new(["a", "b"], "the name").unwrap().raw.len(), 2);
    }
}
