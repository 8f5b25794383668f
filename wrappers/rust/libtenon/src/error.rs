//! Errors of the C library, and the few that this crate itself finds, with code, message, details
//! and cause.

use std::error::Error as StdError;
use std::ffi::CStr;
use std::fmt;
use std::io;
use std::ptr::{self, NonNull};

use crate::sys;

/// What a call came to.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $code:ident),* $(,)?) => {
        /// What went wrong, by what a caller can do about it. The first fourteen are the codes of
        /// the C library.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $($(#[$doc])* $name,)*
            /// A typed view was asked for with an element type that is not the tensor's. Its code
            /// is `INVALID_ARGUMENT`.
            WrongElement,
            /// A typed view was asked for over bytes that are not aligned for the element. Its code
            /// is `INVALID_ARGUMENT`.
            Misaligned,
            /// A slice was asked for of elements that do not lie packed. Its code is
            /// `INVALID_ARGUMENT`.
            NotContiguous,
            /// A plain slice was asked for of bytes that somebody may still write (see the crate's
            /// page). Its code is `PERMISSION`.
            MayChange,
        }

        impl ErrorKind {
            /// The kind of a code of the C library; `None` for `TENON_OK` and for a number that is
            /// no code.
            pub fn from_code(code: i32) -> Option<ErrorKind> {
                match u32::try_from(code).ok()? {
                    $(sys::$code => Some(ErrorKind::$name),)*
                    _ => None,
                }
            }

            /// The C library's number for it.
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
    /// The call is wrong whatever the state of the machine: mend the program.
    InvalidArgument = TENON_INVALID_ARGUMENT,
    /// The object does not allow it: ask for other access, or another mode at birth.
    Permission = TENON_PERMISSION,
    /// No such object (any more).
    NotFound = TENON_NOT_FOUND,
    /// Bytes or an fd from outside are not what they claim: do not trust the peer.
    Corrupt = TENON_CORRUPT,
    /// Made by a version that this one does not read: upgrade one side.
    Incompatible = TENON_INCOMPATIBLE,
    /// A limit was met, the detail `limit` names it: raise it, or free something.
    ResourceExhausted = TENON_RESOURCE_EXHAUSTED,
    /// This build, kernel or object cannot do it: choose another way.
    Unsupported = TENON_UNSUPPORTED,
    /// The other process closed its end or died.
    PeerGone = TENON_PEER_GONE,
    /// A call that may not wait had nothing: poll, then call again.
    WouldBlock = TENON_WOULD_BLOCK,
    /// The time is over: call again to go on.
    Timeout = TENON_TIMEOUT,
    /// A signal ended an interruptible wait: call again to go on.
    Interrupted = TENON_INTERRUPTED,
    /// `Cancel::trigger` ended the wait: call again to go on.
    Cancelled = TENON_CANCELLED,
    /// The system refused for a reason that fits no other kind: see the detail `errno`.
    Io = TENON_IO,
    /// A defect in Tenon: please report it.
    Internal = TENON_INTERNAL,
}

impl ErrorKind {
    /// The name of its code, such as `"RESOURCE_EXHAUSTED"`.
    pub fn code_name(self) -> &'static str {
        // SAFETY: static storage, never NULL, any thread (error.h).
        unsafe { CStr::from_ptr(sys::tenon_status_name(self.code())) }.to_str().unwrap_or("UNKNOWN")
    }
}

/// Why a call failed. A value: it can be kept, sent to another thread, and read there.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    code: i32,
    message: String,
    details: Vec<(String, String)>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The C library's code, also if it is newer than this crate and has no kind here (that is
    /// [`ErrorKind::Internal`] then).
    pub fn code(&self) -> i32 {
        self.0.code
    }

    /// One line that names the object and the cause.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Everything that is known beside the text. Keys in use: `errno`, `limit`, `limit_value`,
    /// `in_use`, `wanted`, `path`, `fd`, `pid`, `field`, `option`; of composites `part` and
    /// `index`; of objects `index` and `offset`; of modules and archives `where`, `found`, `file`,
    /// `line`, `column`, `excerpt`, `record`, `offset` and others.
    pub fn details(&self) -> impl ExactSizeIterator<Item = (&str, &str)> + '_ {
        self.0.details.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// One detail.
    pub fn detail(&self, key: &str) -> Option<&str> {
        self.details().find(|(found, _)| *found == key).map(|(_, value)| value)
    }

    /// An error that this crate itself finds.
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

    /// What a user's code said is the cause.
    pub(crate) fn caused_by(mut self, source: Box<dyn StdError + Send + Sync>) -> Error {
        self.0.source = Some(source);
        self
    }

    /// Read an error of the library's.
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
        // SAFETY: the error lives (above); its strings are NUL-terminated and never NULL but past
        // the end (error.h).
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
    // SAFETY: as above.
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

/// A call that gives nothing but a status.
pub(crate) fn check(
    call: impl FnOnce(*mut *mut sys::tenon_error) -> sys::tenon_status,
) -> Result<()> {
    let mut raw = ptr::null_mut();
    let status = call(&mut raw);
    if status == sys::TENON_OK as sys::tenon_status {
        return Ok(());
    }
    // SAFETY: the call failed, so what it wrote is a new error, which is ours (rule 2 in tenon.h).
    unsafe {
        let error = Error::read(raw, status);
        sys::tenon_error_release(raw);
        Err(error)
    }
}

/// A call that gives a new reference.
pub(crate) fn make<T>(
    call: impl FnOnce(*mut *mut T, *mut *mut sys::tenon_error) -> sys::tenon_status,
) -> Result<NonNull<T>> {
    let mut out = ptr::null_mut();
    check(|err| call(&mut out, err))?;
    NonNull::new(out)
        .ok_or_else(|| Error::new(ErrorKind::Internal, "the call gave nothing and no error"))
}
