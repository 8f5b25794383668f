#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

#[cfg(not(target_os = "linux"))]
compile_error!("Tenon is for Linux");

#[macro_use]
mod raw;

mod arena;
mod by_cuda;
mod by_fd;
mod by_filename;
mod cell;
#[cfg(doctest)]
#[path = "../tests/compile_fail/mod.rs"]
mod compile_fail;
mod composite;
mod connection;
mod cuda_arena;
mod cuda_event;
mod cuda_pinned;
mod deposit;
mod descriptor;
mod dlpack;
mod dtype;
mod error;
mod export;
mod import;
mod lease;
mod member;
mod message;
mod module;
#[cfg(feature = "ndarray")]
mod ndarray;
mod object;
mod package;
mod panic;
mod publish;
#[cfg(feature = "tokio")]
mod publish_async;
mod queue;
#[cfg(feature = "tokio")]
mod queue_async;
#[cfg(feature = "tokio")]
mod readable;
mod scalar_type;
mod shared_weights;
mod spec;
mod stats;
mod storage;
mod storage_options;
mod tensor;
mod text;
mod value;
mod value_look;
mod value_tensor;
mod view;
mod wait;
mod weak;
mod weights;

pub use tenon_sys as sys;

pub use arena::{Arena, ArenaOptions, ArenaStats, Pages};
pub use by_cuda::{
    cuda_available, cuda_collect, release_cuda_counter, CudaForm, CudaHandle, CudaOptions,
    CudaTransport,
};
pub use by_fd::{Access, FdHandle, OpenOptions};
pub use by_filename::{
    leave_names, start_manager, sweep, unlink, FilenameHandle, FilenameOptions, SweepOptions,
    SweepResult,
};
pub use cell::{ReadCell, SharedCell};
pub use composite::{Composite, CompositeSpec, Quantizer, TensorLayout};
pub use connection::{Connection, ConnectionOptions, LenderGone, Peer};
pub use cuda_arena::{CudaArena, CudaArenaOptions, CudaArenaStats};
pub use cuda_event::{CudaEvent, CudaEventOptions};
pub use deposit::{
    deposit, deposit_stats, fetch, hand_over_deposits, set_deposit_limits, watch, withdraw,
    Deposit, DepositLimits, DepositStats, Fetched, KeepOptions, Ticket,
};
pub use descriptor::Descriptor;
pub use dlpack::{DlpackLegacyTensor, DlpackTensor};
pub use dtype::{Bool, DType, Element};
pub use error::{Error, ErrorKind, Result};
pub use export::{
    export_module, export_module_to, Bytecode, Durability, ExportOptions, ExportReport,
};
pub use import::{
    import_bytes, import_file, import_module, ImportCheck, ImportOptions, ImportReport,
};
pub use lease::{lease_fd, lease_holders, lease_poll, lease_use_no_thread, LeaseHolder};
pub use member::{Member, MemberKind};
pub use message::Message;
pub use module::{LoadOptions, LoadReport, Module};
pub use object::Object;
pub use package::{Package, PackageExport};
pub use publish::{
    PublishPolicy, Publisher, PublisherOptions, PublisherStats, PublisherSubscriber, Subscriber,
    SubscriberState, SubscriberStats,
};
pub use queue::{Queue, QueueMember, QueueMemberState, QueueOptions, QueueStats};
pub use scalar_type::ScalarType;
pub use shared_weights::{SharedWeights, SharedWeightsInfo, SharedWeightsOptions};
pub use spec::{Flags, TensorSpec};
pub use stats::{stats, version, Stats};
pub use storage::{trim, Mode, Storage, StorageMut};
pub use storage_options::{Filling, StorageOptions};
pub use tensor::{Index, Tensor, TensorMut};
pub use value::{type_text, Value, ValueKind};
pub use value_tensor::ValueTensorSpec;
pub use view::TensorView;
pub use wait::{Cancel, Wait};
pub use weak::WeakStorage;
pub use weights::{save_weights, SaveWeightsOptions, Weights, WeightsForm};
