//! Weights that the processes of a machine share by a name: the first process loads the file, and
//! every other process maps the same memory.

use std::ffi::{c_char, c_void, CString};
use std::fmt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::error::{check, make, Result};
use crate::member::names;
use crate::panic;
use crate::sys;
use crate::text::{c_path, c_text, Names};
use crate::value::{Items, Value};
use crate::wait::Wait;

/// Says how to open shared weights.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct SharedWeightsOptions {
    directory: Option<CString>,
    group: Option<u32>,
    max_nbytes: u64,
    device: Option<CString>,
    progress: Option<Progress>,
    reuse: bool,
    budget_nbytes: u64,
}

#[derive(Clone)]
struct Progress(Arc<dyn Fn(u64, u64) + Send + Sync>);

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Progress")
    }
}

unsafe extern "C" fn tell(context: *mut c_void, done: u64, total: u64) {
    // SAFETY: open_raw gave this context, and borrows it until the call of the library ends.
    let progress = unsafe { &*context.cast::<Progress>() };
    panic::callback(|| (progress.0)(done, total));
}

impl SharedWeightsOptions {
    /// The processes meet in the user's own directory in `/dev/shm`, and any file is loaded.
    pub fn new() -> SharedWeightsOptions {
        SharedWeightsOptions::default()
    }

    /// Names the directory where the processes meet, which has an absolute path.
    pub fn directory(self, directory: impl AsRef<Path>) -> Result<Self> {
        Ok(SharedWeightsOptions { directory: Some(c_path(directory.as_ref())?), ..self })
    }

    /// Admits members of a group too. It needs a directory.
    pub fn group(self, gid: u32) -> Self {
        SharedWeightsOptions { group: Some(gid), ..self }
    }

    /// Sets the largest file that this process loads.
    pub fn max_nbytes(self, max_nbytes: u64) -> Self {
        SharedWeightsOptions { max_nbytes, ..self }
    }

    /// Names the device in whose memory the weights lie: `"cpu"` or `"cuda:0"`.
    pub fn device(self, device: &str) -> Result<Self> {
        Ok(SharedWeightsOptions { device: Some(c_text(device, "the device")?), ..self })
    }

    /// Calls a function with the bytes that are loaded and the bytes of the file, while this
    /// process loads or waits for the process that loads. A panic continues in the call that opens.
    pub fn progress(self, tell: impl Fn(u64, u64) + Send + Sync + 'static) -> Self {
        SharedWeightsOptions { progress: Some(Progress(Arc::new(tell))), ..self }
    }

    /// For [`SharedWeights::publish_values`]: writes the version into memory of an older one that
    /// nobody has any more (`TENON_SHARED_WEIGHTS_REUSE`).
    pub fn reuse(self, reuse: bool) -> Self {
        SharedWeightsOptions { reuse, ..self }
    }

    /// Sets the most bytes of all weights in the directory together.
    pub fn budget_nbytes(self, budget_nbytes: u64) -> Self {
        SharedWeightsOptions { budget_nbytes, ..self }
    }
}

/// Facts about shared weights. They change when other processes come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedWeightsInfo {
    /// The bytes of the shared memory.
    pub nbytes: u64,
    /// The size of the file when it was loaded.
    pub file_nbytes: u64,
    /// When the file was last changed before it was loaded, in nanoseconds since 1970.
    pub file_mtime_ns: i64,
    /// The CRC-32 of the first MiB of the file.
    pub file_crc: u64,
    /// The version of the weights under this name. The first is 1.
    pub version: u64,
    /// How many tensors there are.
    pub count: u64,
    /// This object loaded the file. Otherwise it found the weights in memory.
    pub loaded: bool,
    /// This process hands the weights to others now.
    pub serves: bool,
    /// The process that loaded the file, which may have ended.
    pub loader_pid: i32,
    /// The process that hands the weights to others, or 0 while another one is chosen.
    pub server_pid: i32,
    /// With `serves`, how many processes have the weights. Otherwise how many there were when this
    /// process came.
    pub holders: u32,
}

/// The weights of a name. The tensors are read-only. They stay usable without the `SharedWeights`,
/// and as long as one of them lives, this process hands the weights on to others.
///
/// ```no_run
/// use std::time::Duration;
/// use tenon::{SharedWeights, SharedWeightsOptions};
///
/// let options = SharedWeightsOptions::new();
/// let patience = Duration::from_secs(60);
/// let weights = SharedWeights::open("net.safetensors", "net", &options, patience)?;
/// let tensor = weights.tensor("fc.weight")?.to_tensor()?;
/// # let _ = tensor;
/// # Ok::<(), tenon::Error>(())
/// ```
pub struct SharedWeights {
    raw: NonNull<sys::tenon_shared_weights>,
}

handle!(
    SharedWeights,
    tenon_shared_weights,
    tenon_shared_weights_release,
    retain tenon_shared_weights_retain
);

impl SharedWeights {
    /// Opens the weights of a name. If no process has them, this process loads the file.
    /// [`ErrorKind::Permission`](crate::ErrorKind::Permission) with the detail `field` says that
    /// the name stands for another version of the file. The wait is for other processes.
    pub fn open<'w>(
        path: impl AsRef<Path>,
        name: &str,
        options: &SharedWeightsOptions,
        wait: impl Into<Wait<'w>>,
    ) -> Result<SharedWeights> {
        Self::open_raw(Some(&c_path(path.as_ref())?), name, options, wait.into())
    }

    /// Opens the weights of a name that another process has, and loads nothing.
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) says that no process has them.
    pub fn attach<'w>(
        name: &str,
        options: &SharedWeightsOptions,
        wait: impl Into<Wait<'w>>,
    ) -> Result<SharedWeights> {
        Self::open_raw(None, name, options, wait.into())
    }

    /// Publishes a file as the next version of the weights of a name. Newcomers get it, and
    /// processes that have an older version keep that one. The wait is for another process that
    /// publishes under the name.
    pub fn publish<'w>(
        path: impl AsRef<Path>,
        name: &str,
        options: &SharedWeightsOptions,
        wait: impl Into<Wait<'w>>,
    ) -> Result<SharedWeights> {
        let path = c_path(path.as_ref())?;
        // SAFETY: all arguments are borrowed for the call, and the result is a new reference.
        Self::made(name, options, wait.into(), |name, options, wait, out, err| unsafe {
            sys::tenon_publish_shared_weights(path.as_ptr(), name, options, wait, out, err)
        })
    }

    /// Publishes a copy of tensors as the next version.
    pub fn publish_values<'a, 'w, V: Into<Value>>(
        tensors: impl IntoIterator<Item = (&'a str, V)>,
        name: &str,
        options: &SharedWeightsOptions,
        wait: impl Into<Wait<'w>>,
    ) -> Result<SharedWeights> {
        let (keys, values): (Vec<_>, Vec<V>) = tensors.into_iter().unzip();
        let (keys, values) = (Names::new(keys, "the name of a weight")?, Items::new(values));
        let (texts, items) = (keys.raw.as_ptr(), values.as_ptr());
        // SAFETY: as for publish(). There are as many names as values.
        Self::made(name, options, wait.into(), |name, options, wait, out, err| unsafe {
            let n = values.len();
            sys::tenon_publish_shared_weights_values(texts, items, n, name, options, wait, out, err)
        })
    }

    fn open_raw(
        path: Option<&CString>,
        name: &str,
        options: &SharedWeightsOptions,
        wait: Wait<'_>,
    ) -> Result<SharedWeights> {
        let path = path.map_or(ptr::null(), |path| path.as_ptr());
        // SAFETY: all arguments are borrowed for the call, and the result is a new reference.
        Self::made(name, options, wait, |name, options, wait, out, err| unsafe {
            sys::tenon_open_shared_weights(path, name, options, wait, out, err)
        })
    }

    fn made(
        name: &str,
        options: &SharedWeightsOptions,
        wait: Wait<'_>,
        call: impl FnOnce(
            *const c_char,
            *const sys::tenon_shared_weights_options,
            *const sys::tenon_wait,
            *mut *mut sys::tenon_shared_weights,
            *mut *mut sys::tenon_error,
        ) -> sys::tenon_status,
    ) -> Result<SharedWeights> {
        let (name, wait) = (c_text(name, "the name")?, wait.raw());
        let group = options.group.map_or(0, |_| sys::TENON_SHARED_WEIGHTS_GROUP);
        let given = blank!(tenon_shared_weights_options {
            flags: group | if options.reuse { sys::TENON_SHARED_WEIGHTS_REUSE } else { 0 },
            group: options.group.unwrap_or(0),
            directory: options.directory.as_ref().map_or(ptr::null(), |path| path.as_ptr()),
            max_nbytes: options.max_nbytes,
            device: options.device.as_ref().map_or(ptr::null(), |device| device.as_ptr()),
            budget_nbytes: options.budget_nbytes,
            progress: options.progress.as_ref().map(|_| tell as _),
            progress_context: options
                .progress
                .as_ref()
                .map_or(ptr::null_mut(), |progress| ptr::from_ref(progress).cast_mut().cast()),
        });
        let mut opened = None;
        panic::release(|| {
            let raw = make(|out, err| call(name.as_ptr(), &given, &wait, out, err));
            opened = Some(raw.map(|raw| SharedWeights { raw }));
        });
        opened.expect("the closure ran")
    }

    /// Waits until the name has a newer version than this one, and gives the newest that is known.
    /// With a wait of 0 it only looks: [`ErrorKind::WouldBlock`](crate::ErrorKind::WouldBlock) says
    /// that there is none.
    pub fn changed<'w>(&self, wait: impl Into<Wait<'w>>) -> Result<u64> {
        let (wait, mut version) = (wait.into().raw(), 0);
        // SAFETY: self keeps the weights, and the other arguments live as long as the call.
        check(|err| unsafe {
            sys::tenon_shared_weights_changed(self.as_raw(), &wait, &mut version, err)
        })?;
        Ok(version)
    }

    /// Lists the names of all tensors in the order of the file.
    pub fn names(&self) -> Result<Vec<String>> {
        // SAFETY: self keeps the weights, and the list belongs to this function.
        names(make(|out, err| unsafe { sys::tenon_shared_weights_names(self.as_raw(), out, err) })?)
    }

    /// Gives a tensor, whose elements are read-only.
    pub fn tensor(&self, name: &str) -> Result<Value> {
        let name = c_text(name, "the name")?;
        // SAFETY: self keeps the weights, and the result is a new reference.
        Value::new(|out, err| unsafe {
            sys::tenon_shared_weights_tensor(self.as_raw(), name.as_ptr(), out, err)
        })
    }

    /// Lists the names of the values that are no tensors, as
    /// [`Weights::value_names`](crate::Weights::value_names) does.
    pub fn value_names(&self) -> Result<Vec<String>> {
        // SAFETY: self keeps the weights, and the list belongs to this function.
        names(make(|out, err| unsafe {
            sys::tenon_shared_weights_value_names(self.as_raw(), out, err)
        })?)
    }

    /// Gives a value that is no tensor.
    pub fn value(&self, name: &str) -> Result<Value> {
        let name = c_text(name, "the name")?;
        // SAFETY: self keeps the weights, and the result is a new reference.
        Value::new(|out, err| unsafe {
            sys::tenon_shared_weights_value(self.as_raw(), name.as_ptr(), out, err)
        })
    }

    /// Gives the facts of this moment.
    pub fn info(&self) -> Result<SharedWeightsInfo> {
        let mut raw = blank!(tenon_shared_weights_info);
        // SAFETY: raw belongs to this function, and has the size that it says.
        check(|err| unsafe { sys::tenon_shared_weights_info_get(self.as_raw(), &mut raw, err) })?;
        Ok(SharedWeightsInfo {
            nbytes: raw.nbytes,
            file_nbytes: raw.file_nbytes,
            file_mtime_ns: raw.file_mtime_ns,
            file_crc: raw.file_crc,
            version: raw.version,
            count: raw.count,
            loaded: raw.loaded != 0,
            serves: raw.serves != 0,
            loader_pid: raw.loader_pid,
            server_pid: raw.server_pid,
            holders: raw.holders,
        })
    }
}

impl fmt::Debug for SharedWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedWeights").field("names", &self.names().unwrap_or_default()).finish()
    }
}
