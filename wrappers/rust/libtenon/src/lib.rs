#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

#[cfg(not(target_os = "linux"))]
compile_error!("Tenon is for Linux");

mod arena;
mod by_fd;
mod by_filename;
mod cell;
#[cfg(doctest)]
mod compile_fail;
mod connection;
mod descriptor;
mod dlpack;
mod dtype;
mod error;
mod lease;
mod message;
#[cfg(feature = "ndarray")]
mod ndarray;
mod panic;
mod spec;
mod stats;
mod storage;
mod storage_options;
mod tensor;
mod view;
mod wait;
mod weak;

pub use tenon_sys as sys;

pub use arena::{Arena, ArenaOptions, ArenaStats, Pages};
pub use by_fd::{Access, FdHandle, OpenOptions};
pub use by_filename::{leave_names, start_manager, sweep, unlink, FilenameHandle, FilenameOptions, SweepOptions, SweepResult};
pub use cell::{ReadCell, SharedCell};
pub use connection::{Connection, ConnectionOptions, Peer};
pub use descriptor::Descriptor;
pub use dlpack::{DlpackLegacyTensor, DlpackTensor};
pub use dtype::{Bool, DType, Element};
pub use error::{Error, ErrorKind, Result};
pub use lease::{lease_fd, lease_holders, lease_poll, lease_use_no_thread, LeaseHolder};
pub use message::Message;
pub use spec::{Flags, TensorSpec};
pub use stats::{stats, version, Stats};
pub use storage::{trim, Mode, Storage, StorageMut};
pub use storage_options::{Filling, StorageOptions};
pub use tensor::{Tensor, TensorMut};
pub use view::TensorView;
pub use wait::{Cancel, Wait};
pub use weak::WeakStorage;
