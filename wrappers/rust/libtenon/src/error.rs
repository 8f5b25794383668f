//! Errors: those of the C library, and the few that this crate itself finds. An error has a code, a
//! message, details and a cause.

use std::error::Error as StdError;
use std::ffi::CStr;
use std::fmt;
use std::io;
use std::ptr::{self, NonNull};

use crate::sys;

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $code:ident),* $(,)?) => {
        /// Says what went wrong. Each kind stands for one thing that a caller can do about the
        /// failure. The first fourteen kinds are the codes of the C library.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $($(#[$doc])* $name,)*
            /// The element type that was asked for is not that of the tensor. The code is
            /// `INVALID_ARGUMENT`.
            WrongElement,
            /// The bytes are not aligned for the element type that was asked for. The code is
            /// `INVALID_ARGUMENT`.
            Misaligned,
            /// The elements do not lie packed, so there is no slice of them. The code is
            /// `INVALID_ARGUMENT`.
            NotContiguous,
            /// Somebody may still write to the bytes, so there is no plain slice of them (see the
            /// crate's page). The code is `PERMISSION`.
            MayChange,
        }

        impl ErrorKind {
            /// Returns the kind of a code of the C library; `None` for `TENON_OK` and for a number
            /// that is not a code.
            pub fn from_code(code: i32) -> Option<ErrorKind> {
                match u32::try_from(code).ok()? {
                    $(sys::$code => Some(ErrorKind::$name),)*
                    _ => None,
                }
            }

            /// Returns the C library's number for the kind.
            pub fn code(self) -> i32 {
                let code = match self {
                    $(ErrorKind::$name => sys::$code,)*
                    ErrorKind::WrongElement | ErrorKind::Misaligned | ErrorKind::NotContiguous => {
                        sys::TENON_INVALID_ARGUMENT
                    }
                    ErrorKind::MayChange => sys::TENON_PERMISSION,
                };
                code as i32
            }
        }
    };
}

kinds! {
    /// The call is wrong whatever the state of the machine. Fix the program.
    InvalidArgument = TENON_INVALID_ARGUMENT,
    /// The object does not allow the access. Ask for other access, or make the object in another
    /// mode.
    Permission = TENON_PERMISSION,
    /// The object does not exist, or no longer exists.
    NotFound = TENON_NOT_FOUND,
    /// Bytes or an fd from outside are not what they claim to be. Do not trust the peer.
    Corrupt = TENON_CORRUPT,
    /// A version that this library does not read made the object. Upgrade one side.
    Incompatible = TENON_INCOMPATIBLE,
    /// A limit was reached; the detail `limit` names it. Raise the limit, or free something.
    ResourceExhausted = TENON_RESOURCE_EXHAUSTED,
    /// This build, this kernel or this object cannot do it. Choose another way.
    Unsupported = TENON_UNSUPPORTED,
    /// The other process closed its end or died.
    PeerGone = TENON_PEER_GONE,
    /// A call that may not wait would have had to. Poll, then call again.
    WouldBlock = TENON_WOULD_BLOCK,
    /// The time is over. Call again to continue.
    Timeout = TENON_TIMEOUT,
    /// A signal ended an interruptible wait. Call again to continue.
    Interrupted = TENON_INTERRUPTED,
    /// `Cancel::trigger` ended the wait. Call again to continue.
    Cancelled = TENON_CANCELLED,
    /// The system refused for a reason that fits no other kind. The detail `errno` has its number.
    Io = TENON_IO,
    /// Tenon has a defect. Please report it.
    Internal = TENON_INTERNAL,
}

impl ErrorKind {
    /// Returns the name of the kind's code, such as `"RESOURCE_EXHAUSTED"`.
    pub fn code_name(self) -> &'static str {
        // SAFETY: static storage, never NULL, any thread (error.h).
        unsafe { CStr::from_ptr(sys::tenon_status_name(self.code())) }.to_str().unwrap_or("UNKNOWN")
    }
}

/// Says why a call failed. An error is a plain value: it can be kept, and sent to another thread.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    code: i32,
    message: String,
    details: Vec<(String, String)>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the C library's code. If the code is newer than this crate, the kind is
    /// [`ErrorKind::Internal`].
    pub fn code(&self) -> i32 {
        self.0.code
    }

    /// Returns one line that names the object and the cause.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the facts that are known beside the text. These keys are in use, among others:
    /// `errno`, `limit`, `limit_value`, `in_use`, `wanted`, `path`, `fd`, `pid`, `field`, `option`;
    /// for composites `part` and `index`; for objects `index` and `offset`; for modules and
    /// archives `where`, `found`, `file`, `line`, `column`, `excerpt`, `record` and `offset`.
    pub fn details(&self) -> impl ExactSizeIterator<Item = (&str, &str)> + '_ {
        self.0.details.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Returns one detail.
    pub fn detail(&self, key: &str) -> Option<&str> {
        self.details().find(|(found, _)| *found == key).map(|(_, value)| value)
    }

    /// Makes an error that this crate itself found.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            kind,
            code: kind.code(),
            message: message.into(),
            details: Vec::new(),
            source: None,
        }))
    }

    pub(crate) fn with(mut self, key: &str, value: impl Into<String>) -> Error {
        self.0.details.push((key.to_owned(), value.into()));
        self
    }

    /// Makes an error of the user's code the cause of this error.
    pub(crate) fn caused_by(mut self, source: Box<dyn StdError + Send + Sync>) -> Error {
        self.0.source = Some(source);
        self
    }

    /// Reads an error of the library.
    ///
    /// # Safety
    /// `raw` is NULL or a living tenon_error.
    unsafe fn read(raw: *const sys::tenon_error, code: i32) -> Error {
        let kind = ErrorKind::from_code(code).unwrap_or(ErrorKind::Internal);
        if raw.is_null() {
            return Error(Box::new(Inner {
                kind,
                code,
                message: "no reason was given".to_owned(),
                details: Vec::new(),
                source: None,
            }));
        }
        // SAFETY: the caller promises that the error lives. Its strings end with NUL, and are NULL
        // only past the last detail (error.h).
        unsafe {
            let mut details = Vec::new();
            loop {
                let key = sys::tenon_error_detail_key(raw, details.len());
                if key.is_null() {
                    break;
                }
                details.push((text(key), text(sys::tenon_error_detail(raw, key))));
            }
            let cause = sys::tenon_error_cause(raw);
            let source = (!cause.is_null())
                .then(|| Box::new(Error::read(cause, sys::tenon_error_code(cause))) as _);
            Error(Box::new(Inner {
                kind,
                code,
                message: text(sys::tenon_error_message(raw)),
                details,
                source,
            }))
        }
    }
}

/// # Safety
/// `raw` is NULL or a NUL-terminated string.
unsafe fn text(raw: *const std::ffi::c_char) -> String {
    if raw.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(raw) }.to_string_lossy().into_owned()
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Error");
        out.field("kind", &self.0.kind).field("message", &self.0.message);
        for (key, value) in self.details() {
            out.field(key, &value);
        }
        if let Some(source) = &self.0.source {
            out.field("source", source);
        }
        out.finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match error.kind() {
            ErrorKind::InvalidArgument
            | ErrorKind::WrongElement
            | ErrorKind::Misaligned
            | ErrorKind::NotContiguous => io::ErrorKind::InvalidInput,
            ErrorKind::Permission | ErrorKind::MayChange => io::ErrorKind::PermissionDenied,
            ErrorKind::NotFound => io::ErrorKind::NotFound,
            ErrorKind::Corrupt | ErrorKind::Incompatible => io::ErrorKind::InvalidData,
            ErrorKind::ResourceExhausted => io::ErrorKind::OutOfMemory,
            ErrorKind::Unsupported => io::ErrorKind::Unsupported,
            ErrorKind::PeerGone => io::ErrorKind::ConnectionReset,
            ErrorKind::WouldBlock => io::ErrorKind::WouldBlock,
            ErrorKind::Timeout => io::ErrorKind::TimedOut,
            ErrorKind::Interrupted => io::ErrorKind::Interrupted,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

/// Runs a call that gives nothing but a status.
pub(crate) fn check(
    call: impl FnOnce(*mut *mut sys::tenon_error) -> sys::tenon_status,
) -> Result<()> {
    let mut raw = ptr::null_mut();
    let status = call(&mut raw);
    if status == sys::TENON_OK as sys::tenon_status {
        return Ok(());
    }
    // SAFETY: the call failed, so it wrote a new error, which belongs to this function (rule 2 in
    // tenon.h).
    unsafe {
        let error = Error::read(raw, status);
        sys::tenon_error_release(raw);
        Err(error)
    }
}

/// Runs a call that gives a new reference.
pub(crate) fn make<T>(
    call: impl FnOnce(*mut *mut T, *mut *mut sys::tenon_error) -> sys::tenon_status,
) -> Result<NonNull<T>> {
    let mut out = ptr::null_mut();
    check(|err| call(&mut out, err))?;
    NonNull::new(out)
        .ok_or_else(|| Error::new(ErrorKind::Internal, "the call gave nothing and no error"))
}

/// Calls `call(out, n, total, err)`, which fills in as many structs as fit into the n that it is
/// given, until all fit. Each of them is `empty` before the call.
pub(crate) fn list<T: Clone>(
    empty: T,
    call: impl Fn(*mut T, usize, *mut usize, *mut *mut sys::tenon_error) -> sys::tenon_status,
) -> Result<Vec<T>> {
    let (mut raw, mut total) = (Vec::new(), 0);
    loop {
        // There may be more of them at the next call.
        raw.resize(total + 1, empty.clone());
        check(|err| call(raw.as_mut_ptr(), raw.len(), &mut total, err))?;
        if total <= raw.len() {
            raw.truncate(total);
            return Ok(raw);
        }
    }
}
