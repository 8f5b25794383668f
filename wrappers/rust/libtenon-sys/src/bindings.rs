// Written by bindgen from capi/include/tenon; ../../update-bindings.sh writes it anew.

pub const TENON_VERSION_MAJOR: u32 = 0;
pub const TENON_VERSION_MINOR: u32 = 1;
pub const TENON_VERSION_PATCH: u32 = 0;
pub const TENON_ABI_VERSION: u32 = 1;
/**The outcome of a call. Each code stands for one way in which a caller can react to the failure.
 Codes are never renumbered and never reused.*/
pub type tenon_status = i32;
///The call succeeded.
pub const TENON_OK: _bindgen_ty_1 = 0;
///The call is wrong in every state of the machine. Fix the program.
pub const TENON_INVALID_ARGUMENT: _bindgen_ty_1 = 1;
///The object does not allow the access. Ask for other access, or create it in another mode.
pub const TENON_PERMISSION: _bindgen_ty_1 = 2;
///The object does not exist, or no longer exists.
pub const TENON_NOT_FOUND: _bindgen_ty_1 = 3;
///Bytes or an fd from outside are not what they claim to be. Do not trust the peer.
pub const TENON_CORRUPT: _bindgen_ty_1 = 4;
///The object has a format version that this library does not read. Upgrade one side.
pub const TENON_INCOMPATIBLE: _bindgen_ty_1 = 5;
///A limit was reached; the detail "limit" names it. Raise the limit, or free something.
pub const TENON_RESOURCE_EXHAUSTED: _bindgen_ty_1 = 6;
///This build, this kernel or this object cannot do the operation. Choose another way.
pub const TENON_UNSUPPORTED: _bindgen_ty_1 = 7;
///The other process closed its end or died.
pub const TENON_PEER_GONE: _bindgen_ty_1 = 8;
///The timeout is 0, and the call would have to wait. Poll, then call again.
pub const TENON_WOULD_BLOCK: _bindgen_ty_1 = 9;
///The timeout is over. Call again to continue.
pub const TENON_TIMEOUT: _bindgen_ty_1 = 10;
///A signal ended an interruptible wait. Call again to continue.
pub const TENON_INTERRUPTED: _bindgen_ty_1 = 11;
///tenon_cancel_trigger ended the wait. Call again to continue.
pub const TENON_CANCELLED: _bindgen_ty_1 = 12;
///The system refused for a reason that fits no other code. The detail "errno" has its number.
pub const TENON_IO: _bindgen_ty_1 = 13;
///Tenon has a defect. Please report it.
pub const TENON_INTERNAL: _bindgen_ty_1 = 14;
pub type _bindgen_ty_1 = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_error {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_storage {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_arena {
    _unused: [u8; 0],
}
/**The mode of a storage says who may write to it once it is shared. The mode is chosen when the
 storage is made, because the kernel's seals belong to the memory and not to a single lend.*/
pub type tenon_mode = u32;
///The lender and its borrowers may write.
pub const TENON_MODE_SHARED: _bindgen_ty_2 = 0;
///Only the lender may write, through its mapping. The kernel refuses every borrower's write.
pub const TENON_MODE_LENDER_WRITES: _bindgen_ty_2 = 1;
/**The storage is filled with tenon_storage_write and then frozen. Afterwards nobody can write to
 it, not even the lender.*/
pub const TENON_MODE_FROZEN: _bindgen_ty_2 = 2;
pub type _bindgen_ty_2 = ::core::ffi::c_uint;
///The storage gets a segment of its own: a borrower can reach no other storage through it.
pub const TENON_STORAGE_ISOLATED: _bindgen_ty_3 = 1;
///The storage lies in ordinary memory of this process and cannot be lent.
pub const TENON_STORAGE_PRIVATE: _bindgen_ty_3 = 2;
/**All bytes of a new storage are 0. Without this flag, a reused block may keep the bytes of the
 storage that lay there before.*/
pub const TENON_STORAGE_ZEROED: _bindgen_ty_3 = 4;
///For tenon_storage_wrap only: the wrapped memory must not be written.
pub const TENON_STORAGE_READ_ONLY: _bindgen_ty_3 = 8;
/**The caller promises to write all bytes of the new storage before it lends or reads them.

 Without this flag, a reused block that was lent before is cleared first, which takes about as
 long as filling it. With this flag it is not cleared. If the caller breaks the promise, a
 borrower reads the bytes of an earlier storage of this process. That storage was lent too,
 perhaps to another borrower, and its borrower may have written those bytes. A storage that is
 released without being lent need not be filled: its block is cleared for the next storage.

 The flag changes nothing for fresh memory, for mode TENON_MODE_FROZEN, for a private storage
 and in tenon_storage_new_from. With TENON_STORAGE_ZEROED it is TENON_INVALID_ARGUMENT. A
 library that does not know the flag refuses it with TENON_UNSUPPORTED.*/
pub const TENON_STORAGE_WILL_FILL: _bindgen_ty_3 = 16;
pub type _bindgen_ty_3 = ::core::ffi::c_uint;
/**How to make a storage. A NULL pointer to these options means that all fields are zero: mode
 TENON_MODE_SHARED, one of the library's own arenas, 64-byte alignment.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_storage_options {
    ///sizeof(tenon_storage_options), set by the caller.
    pub struct_size: usize,
    ///TENON_MODE_*. It is ignored for private and for wrapped memory.
    pub mode: tenon_mode,
    ///TENON_STORAGE_*.
    pub flags: u32,
    ///The alignment in bytes, a power of two up to 4096. 0 means 64.
    pub alignment: u64,
    /**The arena to allocate from, borrowed for the call. The storage gets the arena's mode, so `mode`
 must be 0 or the arena's mode, and the flags ISOLATED and PRIVATE are not allowed. NULL means
 one of the library's own arenas.*/
    pub arena: *mut tenon_arena,
    ///How long to wait for room when `arena` is full, borrowed for the call. NULL means not to wait.
    pub wait: *const tenon_wait,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_storage_options",
    ][::core::mem::size_of::<tenon_storage_options>() - 40usize];
    [
        "Alignment of tenon_storage_options",
    ][::core::mem::align_of::<tenon_storage_options>() - 8usize];
    [
        "Offset of field: tenon_storage_options::struct_size",
    ][::core::mem::offset_of!(tenon_storage_options, struct_size) - 0usize];
    [
        "Offset of field: tenon_storage_options::mode",
    ][::core::mem::offset_of!(tenon_storage_options, mode) - 8usize];
    [
        "Offset of field: tenon_storage_options::flags",
    ][::core::mem::offset_of!(tenon_storage_options, flags) - 12usize];
    [
        "Offset of field: tenon_storage_options::alignment",
    ][::core::mem::offset_of!(tenon_storage_options, alignment) - 16usize];
    [
        "Offset of field: tenon_storage_options::arena",
    ][::core::mem::offset_of!(tenon_storage_options, arena) - 24usize];
    [
        "Offset of field: tenon_storage_options::wait",
    ][::core::mem::offset_of!(tenon_storage_options, wait) - 32usize];
};
///A device, in DLPack's numbers. Type 1 is the CPU.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_device {
    pub type_: i32,
    pub id: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of tenon_device"][::core::mem::size_of::<tenon_device>() - 8usize];
    ["Alignment of tenon_device"][::core::mem::align_of::<tenon_device>() - 4usize];
    [
        "Offset of field: tenon_device::type_",
    ][::core::mem::offset_of!(tenon_device, type_) - 0usize];
    [
        "Offset of field: tenon_device::id",
    ][::core::mem::offset_of!(tenon_device, id) - 4usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_cancel {
    _unused: [u8; 0],
}
///A signal whose handler has returned ends the wait with TENON_INTERRUPTED.
pub const TENON_WAIT_INTERRUPTIBLE: _bindgen_ty_4 = 1;
pub type _bindgen_ty_4 = ::core::ffi::c_uint;
/**How long a call may wait. A NULL pointer to a tenon_wait means that the call waits for ever and
 is not interruptible, unless the function's comment names another default.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_wait {
    ///sizeof(tenon_wait), set by the caller.
    pub struct_size: usize,
    /**Nanoseconds on CLOCK_MONOTONIC. A negative number means for ever. 0 means that the call does
 not wait and returns TENON_WOULD_BLOCK instead.*/
    pub timeout_ns: i64,
    ///The cancel, borrowed for the call. NULL means that the wait cannot be cancelled.
    pub cancel: *mut tenon_cancel,
    ///TENON_WAIT_*.
    pub flags: u32,
    ///It must be 0.
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of tenon_wait"][::core::mem::size_of::<tenon_wait>() - 32usize];
    ["Alignment of tenon_wait"][::core::mem::align_of::<tenon_wait>() - 8usize];
    [
        "Offset of field: tenon_wait::struct_size",
    ][::core::mem::offset_of!(tenon_wait, struct_size) - 0usize];
    [
        "Offset of field: tenon_wait::timeout_ns",
    ][::core::mem::offset_of!(tenon_wait, timeout_ns) - 8usize];
    [
        "Offset of field: tenon_wait::cancel",
    ][::core::mem::offset_of!(tenon_wait, cancel) - 16usize];
    [
        "Offset of field: tenon_wait::flags",
    ][::core::mem::offset_of!(tenon_wait, flags) - 24usize];
    [
        "Offset of field: tenon_wait::reserved",
    ][::core::mem::offset_of!(tenon_wait, reserved) - 28usize];
};
///Kinds of memory pages, from ordinary pages upwards.
pub type tenon_pages = u32;
///Transparent huge pages if the machine gives them to shared memory, else ordinary pages.
pub const TENON_PAGES_AUTO: _bindgen_ty_5 = 0;
///Ordinary pages, 4 KiB on x86.
pub const TENON_PAGES_SMALL: _bindgen_ty_5 = 1;
///Transparent huge pages.
pub const TENON_PAGES_THP: _bindgen_ty_5 = 2;
///Pages of the pool that the administrator set aside. PyTorch cannot open such memory.
pub const TENON_PAGES_HUGETLB: _bindgen_ty_5 = 3;
pub type _bindgen_ty_5 = ::core::ffi::c_uint;
///The memory is never swapped out. It counts against RLIMIT_MEMLOCK.
pub const TENON_ARENA_LOCKED: _bindgen_ty_6 = 1;
/**If the machine cannot give the requested pages or the requested NUMA node, the call fails.
 Without this flag the arena takes the next best memory, and tenon_arena_stats tells its kind.*/
pub const TENON_ARENA_EXACT: _bindgen_ty_6 = 2;
pub type _bindgen_ty_6 = ::core::ffi::c_uint;
///How to make an arena. A NULL pointer to these options means that all fields are zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_arena_options {
    ///sizeof(tenon_arena_options), set by the caller.
    pub struct_size: usize,
    ///The mode of all storages in the arena: TENON_MODE_SHARED or TENON_MODE_LENDER_WRITES.
    pub mode: tenon_mode,
    ///TENON_ARENA_*.
    pub flags: u32,
    /**The most bytes that the arena can hold. 0 means as much address space as is available, at most
 1 TiB.*/
    pub capacity_nbytes: u64,
    ///The alignment of each storage in bytes, a power of two from 64 to 4096. 0 means 64.
    pub alignment: u64,
    ///TENON_PAGES_*.
    pub pages: tenon_pages,
    ///0 means memory of any NUMA node. n + 1 means memory of node n only.
    pub numa_node_plus_1: i32,
    ///For TENON_PAGES_HUGETLB: the size of the pool's pages in bytes. 0 means the machine's default.
    pub huge_page_nbytes: u64,
    /**How many bytes, from the arena's start, the service thread prepares in the background. 0 means
 none.*/
    pub prefault_nbytes: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_arena_options",
    ][::core::mem::size_of::<tenon_arena_options>() - 56usize];
    [
        "Alignment of tenon_arena_options",
    ][::core::mem::align_of::<tenon_arena_options>() - 8usize];
    [
        "Offset of field: tenon_arena_options::struct_size",
    ][::core::mem::offset_of!(tenon_arena_options, struct_size) - 0usize];
    [
        "Offset of field: tenon_arena_options::mode",
    ][::core::mem::offset_of!(tenon_arena_options, mode) - 8usize];
    [
        "Offset of field: tenon_arena_options::flags",
    ][::core::mem::offset_of!(tenon_arena_options, flags) - 12usize];
    [
        "Offset of field: tenon_arena_options::capacity_nbytes",
    ][::core::mem::offset_of!(tenon_arena_options, capacity_nbytes) - 16usize];
    [
        "Offset of field: tenon_arena_options::alignment",
    ][::core::mem::offset_of!(tenon_arena_options, alignment) - 24usize];
    [
        "Offset of field: tenon_arena_options::pages",
    ][::core::mem::offset_of!(tenon_arena_options, pages) - 32usize];
    [
        "Offset of field: tenon_arena_options::numa_node_plus_1",
    ][::core::mem::offset_of!(tenon_arena_options, numa_node_plus_1) - 36usize];
    [
        "Offset of field: tenon_arena_options::huge_page_nbytes",
    ][::core::mem::offset_of!(tenon_arena_options, huge_page_nbytes) - 40usize];
    [
        "Offset of field: tenon_arena_options::prefault_nbytes",
    ][::core::mem::offset_of!(tenon_arena_options, prefault_nbytes) - 48usize];
};
///Figures about the contents of an arena and the kind of its memory. All figures are of one moment.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_arena_stats {
    ///sizeof(tenon_arena_stats), set by the caller.
    pub struct_size: usize,
    ///The most bytes that the arena can hold.
    pub bytes_capacity: u64,
    ///Memory that the arena has taken from the system.
    pub bytes_reserved: u64,
    ///Bytes in storages of this process.
    pub bytes_live: u64,
    ///Bytes under leases, whether their storage still lives in this process or not.
    pub bytes_lent: u64,
    ///Bytes that are reserved and not in use.
    pub bytes_free: u64,
    ///The size of the longest free range.
    pub bytes_largest_free: u64,
    ///Bytes that were lent without a lease (by fd, by name) and released. They are never reused.
    pub bytes_retired: u64,
    ///The most bytes that were live or lent at one time.
    pub bytes_peak: u64,
    ///The number of storages of this process.
    pub blocks_live: u64,
    ///The number of blocks under leases.
    pub blocks_lent: u64,
    ///How many of 1,000 free bytes lie outside the longest free range.
    pub fragmentation: u32,
    ///The pages that the arena got: TENON_PAGES_*, but not AUTO.
    pub pages: tenon_pages,
    ///The size of these pages in bytes.
    pub page_nbytes: u64,
    ///The NUMA node to which the memory is bound. It is -1 if the memory is not bound.
    pub numa_node: i32,
    ///1 if the memory is never swapped out.
    pub locked: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_arena_stats",
    ][::core::mem::size_of::<tenon_arena_stats>() - 112usize];
    [
        "Alignment of tenon_arena_stats",
    ][::core::mem::align_of::<tenon_arena_stats>() - 8usize];
    [
        "Offset of field: tenon_arena_stats::struct_size",
    ][::core::mem::offset_of!(tenon_arena_stats, struct_size) - 0usize];
    [
        "Offset of field: tenon_arena_stats::bytes_capacity",
    ][::core::mem::offset_of!(tenon_arena_stats, bytes_capacity) - 8usize];
    [
        "Offset of field: tenon_arena_stats::bytes_reserved",
    ][::core::mem::offset_of!(tenon_arena_stats, bytes_reserved) - 16usize];
    [
        "Offset of field: tenon_arena_stats::bytes_live",
    ][::core::mem::offset_of!(tenon_arena_stats, bytes_live) - 24usize];
    [
        "Offset of field: tenon_arena_stats::bytes_lent",
    ][::core::mem::offset_of!(tenon_arena_stats, bytes_lent) - 32usize];
    [
        "Offset of field: tenon_arena_stats::bytes_free",
    ][::core::mem::offset_of!(tenon_arena_stats, bytes_free) - 40usize];
    [
        "Offset of field: tenon_arena_stats::bytes_largest_free",
    ][::core::mem::offset_of!(tenon_arena_stats, bytes_largest_free) - 48usize];
    [
        "Offset of field: tenon_arena_stats::bytes_retired",
    ][::core::mem::offset_of!(tenon_arena_stats, bytes_retired) - 56usize];
    [
        "Offset of field: tenon_arena_stats::bytes_peak",
    ][::core::mem::offset_of!(tenon_arena_stats, bytes_peak) - 64usize];
    [
        "Offset of field: tenon_arena_stats::blocks_live",
    ][::core::mem::offset_of!(tenon_arena_stats, blocks_live) - 72usize];
    [
        "Offset of field: tenon_arena_stats::blocks_lent",
    ][::core::mem::offset_of!(tenon_arena_stats, blocks_lent) - 80usize];
    [
        "Offset of field: tenon_arena_stats::fragmentation",
    ][::core::mem::offset_of!(tenon_arena_stats, fragmentation) - 88usize];
    [
        "Offset of field: tenon_arena_stats::pages",
    ][::core::mem::offset_of!(tenon_arena_stats, pages) - 92usize];
    [
        "Offset of field: tenon_arena_stats::page_nbytes",
    ][::core::mem::offset_of!(tenon_arena_stats, page_nbytes) - 96usize];
    [
        "Offset of field: tenon_arena_stats::numa_node",
    ][::core::mem::offset_of!(tenon_arena_stats, numa_node) - 104usize];
    [
        "Offset of field: tenon_arena_stats::locked",
    ][::core::mem::offset_of!(tenon_arena_stats, locked) - 108usize];
};
/**The transport of a handle: the way in which the driver lets the memory travel. PyTorch opens only
 TENON_CUDA_IPC. Only TENON_CUDA_FABRIC reaches other machines.*/
pub type tenon_cuda_transport = u32;
/**In a handle: the storage is empty. As an option: the first of the following transports that the
 driver offers for the memory.*/
pub const TENON_CUDA_NO_MEMORY: _bindgen_ty_7 = 0;
///An IPC handle (cuIpcGetMemHandle) of memory from cudaMalloc. It is PyTorch's default.
pub const TENON_CUDA_IPC: _bindgen_ty_7 = 1;
/**An fd for each piece of memory that is mapped piece by piece. cuMemCreate must have made the
 pieces with handles of that type.*/
pub const TENON_CUDA_FD: _bindgen_ty_7 = 2;
///The fabric handle of one such piece.
pub const TENON_CUDA_FABRIC: _bindgen_ty_7 = 3;
/**An fd of the memory pool from which the memory comes (cudaMallocFromPoolAsync). The pool must
 have been made with handles of that type.*/
pub const TENON_CUDA_POOL: _bindgen_ty_7 = 4;
pub type _bindgen_ty_7 = ::core::ffi::c_uint;
/**The layouts of an IPC handle's bytes, by the versions of PyTorch that write them. Tenon reads all
 of them.*/
pub type tenon_cuda_form = u32;
/**PyTorch up to 2.4 writes this layout. Every later version reads it too, except for some builds
 of mid-2024.*/
pub const TENON_CUDA_FORM_A: _bindgen_ty_8 = 0;
///The excepted builds of mid-2024 write it.
pub const TENON_CUDA_FORM_B: _bindgen_ty_8 = 1;
///PyTorch 2.6 and 2.7 write this layout.
pub const TENON_CUDA_FORM_C: _bindgen_ty_8 = 2;
///PyTorch 2.8 to 2.12 write this layout.
pub const TENON_CUDA_FORM_D: _bindgen_ty_8 = 3;
///PyTorch 2.13 and later write this layout.
pub const TENON_CUDA_FORM_E: _bindgen_ty_8 = 4;
pub type _bindgen_ty_8 = ::core::ffi::c_uint;
///tenon_open_cuda: options.device is the device, whatever the handle says.
pub const TENON_CUDA_ON_DEVICE: _bindgen_ty_9 = 1;
///tenon_share_cuda: lend a read-only storage too, although its receiver can write to it.
pub const TENON_CUDA_LET_WRITE: _bindgen_ty_9 = 2;
/**tenon_open_cuda: the device refuses writes by this process. Only TENON_CUDA_FD and
 TENON_CUDA_FABRIC can do this.*/
pub const TENON_CUDA_READ_ONLY: _bindgen_ty_9 = 4;
/**tenon_open_cuda: memory that the driver has opened stays open for the next handle of the same
 memory. The comment of tenon_open_cuda says when that is safe.*/
pub const TENON_CUDA_KEEP_OPEN: _bindgen_ty_9 = 8;
///tenon_open_cuda: open PyTorch's expandable segments from another user's process too.
pub const TENON_CUDA_OTHER_USER: _bindgen_ty_9 = 16;
pub type _bindgen_ty_9 = ::core::ffi::c_uint;
///How to lend or open device memory. A NULL pointer to these options means all fields are zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_cuda_options {
    ///sizeof(tenon_cuda_options), set by the caller.
    pub struct_size: usize,
    /**TENON_CUDA_ON_DEVICE, TENON_CUDA_LET_WRITE, TENON_CUDA_READ_ONLY, TENON_CUDA_KEEP_OPEN,
 TENON_CUDA_OTHER_USER.*/
    pub flags: u32,
    ///tenon_share_cuda, for an IPC handle: TENON_CUDA_FORM_*.
    pub form: tenon_cuda_form,
    ///tenon_open_cuda with TENON_CUDA_ON_DEVICE: the ordinal in this process's numbering.
    pub device: i32,
    ///tenon_share_cuda: the transport to use, TENON_CUDA_*.
    pub transport: tenon_cuda_transport,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_cuda_options",
    ][::core::mem::size_of::<tenon_cuda_options>() - 24usize];
    [
        "Alignment of tenon_cuda_options",
    ][::core::mem::align_of::<tenon_cuda_options>() - 8usize];
    [
        "Offset of field: tenon_cuda_options::struct_size",
    ][::core::mem::offset_of!(tenon_cuda_options, struct_size) - 0usize];
    [
        "Offset of field: tenon_cuda_options::flags",
    ][::core::mem::offset_of!(tenon_cuda_options, flags) - 8usize];
    [
        "Offset of field: tenon_cuda_options::form",
    ][::core::mem::offset_of!(tenon_cuda_options, form) - 12usize];
    [
        "Offset of field: tenon_cuda_options::device",
    ][::core::mem::offset_of!(tenon_cuda_options, device) - 16usize];
    [
        "Offset of field: tenon_cuda_options::transport",
    ][::core::mem::offset_of!(tenon_cuda_options, transport) - 20usize];
};
/**A handle with which another process can open device memory. It has the eight items of PyTorch's
 tuple, whose index stands in brackets, and fields that the tuple lacks. A handle that has fds
 must travel together with them (SCM_RIGHTS), because the numbers alone mean nothing in another
 process.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_cuda_handle {
    ///sizeof(tenon_cuda_handle), set by the caller, also for output.
    pub struct_size: usize,
    ///TENON_CUDA_*. It is ignored on input, because the bytes in `memory` say the transport.
    pub transport: tenon_cuda_transport,
    ///[0] The device's ordinal in the sender's numbering.
    pub device: i32,
    /**The UUID of the device, which takes precedence over the ordinal. All 0 means that the UUID is
 not known, as in PyTorch's tuple.*/
    pub uuid: [u8; 16usize],
    ///[2] The size of the storage in bytes.
    pub nbytes: u64,
    /**[3] Where the storage begins, in bytes from the start of the memory to which the memory handle
 leads.*/
    pub offset: u64,
    ///[5] The index of the counter in its file.
    pub slot: u64,
    ///[7] 1: the bytes are valid once the event is complete. 0: they are valid already.
    pub event_required: u32,
    ///How many bytes of `memory` are in use. 0 for an empty storage.
    pub memory_nbytes: u32,
    /**On input: a memory handle that is too long for `memory`, borrowed for the call. It is used
 instead of `memory`, and memory_nbytes is then its size, at most 1 MiB. NULL on output.*/
    pub long_memory: *const u8,
    ///[1] The memory handle.
    pub memory: [u8; 128usize],
    ///[6] The event's handle.
    pub event: [u8; 64usize],
    ///[4] The name of the counter's file. "" for an empty storage.
    pub counter: [::core::ffi::c_char; 256usize],
    /**For TENON_CUDA_FD and TENON_CUDA_POOL: the fds that must be sent with the handle, in this
 order. On output they belong to the library and are valid until the storage's last release. On
 input they are borrowed for the call.*/
    pub fds: *const i32,
    ///How many fds there are, at most 253.
    pub n_fds: u32,
    ///0 on output. Set it to 0 on input.
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_cuda_handle",
    ][::core::mem::size_of::<tenon_cuda_handle>() - 536usize];
    [
        "Alignment of tenon_cuda_handle",
    ][::core::mem::align_of::<tenon_cuda_handle>() - 8usize];
    [
        "Offset of field: tenon_cuda_handle::struct_size",
    ][::core::mem::offset_of!(tenon_cuda_handle, struct_size) - 0usize];
    [
        "Offset of field: tenon_cuda_handle::transport",
    ][::core::mem::offset_of!(tenon_cuda_handle, transport) - 8usize];
    [
        "Offset of field: tenon_cuda_handle::device",
    ][::core::mem::offset_of!(tenon_cuda_handle, device) - 12usize];
    [
        "Offset of field: tenon_cuda_handle::uuid",
    ][::core::mem::offset_of!(tenon_cuda_handle, uuid) - 16usize];
    [
        "Offset of field: tenon_cuda_handle::nbytes",
    ][::core::mem::offset_of!(tenon_cuda_handle, nbytes) - 32usize];
    [
        "Offset of field: tenon_cuda_handle::offset",
    ][::core::mem::offset_of!(tenon_cuda_handle, offset) - 40usize];
    [
        "Offset of field: tenon_cuda_handle::slot",
    ][::core::mem::offset_of!(tenon_cuda_handle, slot) - 48usize];
    [
        "Offset of field: tenon_cuda_handle::event_required",
    ][::core::mem::offset_of!(tenon_cuda_handle, event_required) - 56usize];
    [
        "Offset of field: tenon_cuda_handle::memory_nbytes",
    ][::core::mem::offset_of!(tenon_cuda_handle, memory_nbytes) - 60usize];
    [
        "Offset of field: tenon_cuda_handle::long_memory",
    ][::core::mem::offset_of!(tenon_cuda_handle, long_memory) - 64usize];
    [
        "Offset of field: tenon_cuda_handle::memory",
    ][::core::mem::offset_of!(tenon_cuda_handle, memory) - 72usize];
    [
        "Offset of field: tenon_cuda_handle::event",
    ][::core::mem::offset_of!(tenon_cuda_handle, event) - 200usize];
    [
        "Offset of field: tenon_cuda_handle::counter",
    ][::core::mem::offset_of!(tenon_cuda_handle, counter) - 264usize];
    [
        "Offset of field: tenon_cuda_handle::fds",
    ][::core::mem::offset_of!(tenon_cuda_handle, fds) - 520usize];
    [
        "Offset of field: tenon_cuda_handle::n_fds",
    ][::core::mem::offset_of!(tenon_cuda_handle, n_fds) - 528usize];
    [
        "Offset of field: tenon_cuda_handle::reserved",
    ][::core::mem::offset_of!(tenon_cuda_handle, reserved) - 532usize];
};
///The access that a handle allows, or that the caller of an open function asks for.
pub type tenon_access = u32;
///To share: the access that the storage's mode gives. To open: the access that the handle gives.
pub const TENON_ACCESS_AUTO: _bindgen_ty_10 = 0;
/**To share: the borrower can only read. The kernel must be able to enforce this, so
 TENON_MODE_SHARED is refused. To open: map the memory read-only.*/
pub const TENON_ACCESS_READ_ONLY: _bindgen_ty_10 = 1;
///Both sides write. Only TENON_MODE_SHARED allows it.
pub const TENON_ACCESS_WRITABLE: _bindgen_ty_10 = 2;
pub type _bindgen_ty_10 = ::core::ffi::c_uint;
/**Map the memory copy-on-write: this process's writes stay in this process. Pages that it has not
 written yet still show later writes of the lender. If the lender's file is cut short, the pages
 beyond its new end are lost, written or not.*/
pub const TENON_OPEN_PRIVATE_COW: _bindgen_ty_11 = 1;
///Copy the bytes now into private memory. The result is a snapshot.
pub const TENON_OPEN_PRIVATE_COPY: _bindgen_ty_11 = 2;
///The library owns the fd once the call has succeeded. After a failure it is still the caller's.
pub const TENON_OPEN_ADOPT_FD: _bindgen_ty_11 = 4;
/**Accept memory that its owner can cut short, such as PyTorch's memory or a plain file. A later
 load from such memory can cause a SIGBUS.*/
pub const TENON_OPEN_ALLOW_UNSEALED: _bindgen_ty_11 = 8;
///For tenon_open_filename and tenon_descriptor_open: accept memory of another user.
pub const TENON_OPEN_OTHER_USER: _bindgen_ty_11 = 16;
///For tenon_open_filename: do not register with the manager that the handle names.
pub const TENON_OPEN_NO_MANAGER: _bindgen_ty_11 = 32;
///For tenon_open_filename: a message was received, so also do what tenon_filename_decref does.
pub const TENON_OPEN_DECREF: _bindgen_ty_11 = 64;
pub type _bindgen_ty_11 = ::core::ffi::c_uint;
/**A handle with which another process can open a storage. The fd leads to the segment, and the
 other fields say where in the segment the storage lies. All sizes and offsets are in bytes.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_fd_handle {
    ///sizeof(tenon_fd_handle), set by the caller, also for output.
    pub struct_size: usize,
    ///The fd, which is close-on-exec. It is -1 for an empty storage.
    pub fd: i32,
    /**TENON_ACCESS_READ_ONLY or TENON_ACCESS_WRITABLE. On input it may be TENON_ACCESS_AUTO, which
 stands for the access that the fd and its seals give.*/
    pub access: tenon_access,
    ///Where the storage begins in the segment.
    pub offset: u64,
    ///The size of the storage.
    pub nbytes: u64,
    ///The size of the whole segment. If it is 0 on input, the library takes the size from the fd.
    pub segment_nbytes: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of tenon_fd_handle"][::core::mem::size_of::<tenon_fd_handle>() - 40usize];
    [
        "Alignment of tenon_fd_handle",
    ][::core::mem::align_of::<tenon_fd_handle>() - 8usize];
    [
        "Offset of field: tenon_fd_handle::struct_size",
    ][::core::mem::offset_of!(tenon_fd_handle, struct_size) - 0usize];
    [
        "Offset of field: tenon_fd_handle::fd",
    ][::core::mem::offset_of!(tenon_fd_handle, fd) - 8usize];
    [
        "Offset of field: tenon_fd_handle::access",
    ][::core::mem::offset_of!(tenon_fd_handle, access) - 12usize];
    [
        "Offset of field: tenon_fd_handle::offset",
    ][::core::mem::offset_of!(tenon_fd_handle, offset) - 16usize];
    [
        "Offset of field: tenon_fd_handle::nbytes",
    ][::core::mem::offset_of!(tenon_fd_handle, nbytes) - 24usize];
    [
        "Offset of field: tenon_fd_handle::segment_nbytes",
    ][::core::mem::offset_of!(tenon_fd_handle, segment_nbytes) - 32usize];
};
///How to lend a storage. A NULL pointer to these options means that all fields are zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_share_options {
    ///sizeof(tenon_share_options), set by the caller.
    pub struct_size: usize,
    ///TENON_ACCESS_*.
    pub access: tenon_access,
    ///It must be 0.
    pub flags: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_share_options",
    ][::core::mem::size_of::<tenon_share_options>() - 16usize];
    [
        "Alignment of tenon_share_options",
    ][::core::mem::align_of::<tenon_share_options>() - 8usize];
    [
        "Offset of field: tenon_share_options::struct_size",
    ][::core::mem::offset_of!(tenon_share_options, struct_size) - 0usize];
    [
        "Offset of field: tenon_share_options::access",
    ][::core::mem::offset_of!(tenon_share_options, access) - 8usize];
    [
        "Offset of field: tenon_share_options::flags",
    ][::core::mem::offset_of!(tenon_share_options, flags) - 12usize];
};
///How to open a lent storage. A NULL pointer to these options means that all fields are zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_open_options {
    ///sizeof(tenon_open_options), set by the caller.
    pub struct_size: usize,
    ///TENON_ACCESS_*.
    pub access: tenon_access,
    ///TENON_OPEN_*.
    pub flags: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_open_options",
    ][::core::mem::size_of::<tenon_open_options>() - 16usize];
    [
        "Alignment of tenon_open_options",
    ][::core::mem::align_of::<tenon_open_options>() - 8usize];
    [
        "Offset of field: tenon_open_options::struct_size",
    ][::core::mem::offset_of!(tenon_open_options, struct_size) - 0usize];
    [
        "Offset of field: tenon_open_options::access",
    ][::core::mem::offset_of!(tenon_open_options, access) - 8usize];
    [
        "Offset of field: tenon_open_options::flags",
    ][::core::mem::offset_of!(tenon_open_options, flags) - 12usize];
};
///To share: PyTorch must be able to open the name, so ask a manager to guard it.
pub const TENON_FILENAME_TORCH: _bindgen_ty_12 = 1;
///To share: also do what tenon_filename_incref does.
pub const TENON_FILENAME_IN_FLIGHT: _bindgen_ty_12 = 2;
///Members of options.group may open the name too.
pub const TENON_FILENAME_GROUP: _bindgen_ty_12 = 4;
pub type _bindgen_ty_12 = ::core::ffi::c_uint;
/**How to make a name. A NULL pointer to these options means that all fields are zero. All strings
 are borrowed for the call.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_filename_options {
    ///sizeof(tenon_filename_options), set by the caller.
    pub struct_size: usize,
    /**To share: the access that borrowers get. A file cannot be lent TENON_ACCESS_READ_ONLY, because
 a process of the same user could write to it nevertheless.*/
    pub access: tenon_access,
    ///TENON_FILENAME_*.
    pub flags: u32,
    /**The permission bits, 0600 to 0666; the owner's two bits must be set. 0 means 0600: this user
 only. 0644 lets other users read a file, or open the memory behind a socket.*/
    pub mode: u32,
    ///The group id for TENON_FILENAME_GROUP. Without that flag it must be 0.
    pub group: u32,
    ///An absolute path. NULL means /dev/shm, the only directory in which PyTorch looks.
    pub directory: *const ::core::ffi::c_char,
    ///The beginning of the name; 128 unguessable bits follow it. NULL means "tenon-".
    pub prefix: *const ::core::ffi::c_char,
    ///The whole name, without a slash. NULL means prefix and random bits.
    pub name: *const ::core::ffi::c_char,
    /**For TENON_FILENAME_TORCH: the socket of a running manager. NULL means this user's manager,
 which is started if none runs.*/
    pub manager: *const ::core::ffi::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_filename_options",
    ][::core::mem::size_of::<tenon_filename_options>() - 56usize];
    [
        "Alignment of tenon_filename_options",
    ][::core::mem::align_of::<tenon_filename_options>() - 8usize];
    [
        "Offset of field: tenon_filename_options::struct_size",
    ][::core::mem::offset_of!(tenon_filename_options, struct_size) - 0usize];
    [
        "Offset of field: tenon_filename_options::access",
    ][::core::mem::offset_of!(tenon_filename_options, access) - 8usize];
    [
        "Offset of field: tenon_filename_options::flags",
    ][::core::mem::offset_of!(tenon_filename_options, flags) - 12usize];
    [
        "Offset of field: tenon_filename_options::mode",
    ][::core::mem::offset_of!(tenon_filename_options, mode) - 16usize];
    [
        "Offset of field: tenon_filename_options::group",
    ][::core::mem::offset_of!(tenon_filename_options, group) - 20usize];
    [
        "Offset of field: tenon_filename_options::directory",
    ][::core::mem::offset_of!(tenon_filename_options, directory) - 24usize];
    [
        "Offset of field: tenon_filename_options::prefix",
    ][::core::mem::offset_of!(tenon_filename_options, prefix) - 32usize];
    [
        "Offset of field: tenon_filename_options::name",
    ][::core::mem::offset_of!(tenon_filename_options, name) - 40usize];
    [
        "Offset of field: tenon_filename_options::manager",
    ][::core::mem::offset_of!(tenon_filename_options, manager) - 48usize];
};
/**A handle with which another process can open a storage by name. For a file that PyTorch shares it
 holds PyTorch's tuple (manager, name, nbytes), with offset 0.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_filename_handle {
    ///sizeof(tenon_filename_handle), set by the caller, also for output.
    pub struct_size: usize,
    /**The access that the handle allows. On input, TENON_ACCESS_AUTO stands for the access that the
 name gives.*/
    pub access: tenon_access,
    ///It must be 0.
    pub reserved: u32,
    ///Bytes from the start of a file's payload, or from the start of the segment behind a socket.
    pub offset: u64,
    ///The size of the storage in bytes.
    pub nbytes: u64,
    ///The socket of the manager that guards the name. It is "" if there is none.
    pub manager: [::core::ffi::c_char; 108usize],
    /**"/leaf" for a name in /dev/shm, otherwise an absolute path. It is "" for an empty storage that
 has no name.*/
    pub name: [::core::ffi::c_char; 256usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_filename_handle",
    ][::core::mem::size_of::<tenon_filename_handle>() - 400usize];
    [
        "Alignment of tenon_filename_handle",
    ][::core::mem::align_of::<tenon_filename_handle>() - 8usize];
    [
        "Offset of field: tenon_filename_handle::struct_size",
    ][::core::mem::offset_of!(tenon_filename_handle, struct_size) - 0usize];
    [
        "Offset of field: tenon_filename_handle::access",
    ][::core::mem::offset_of!(tenon_filename_handle, access) - 8usize];
    [
        "Offset of field: tenon_filename_handle::reserved",
    ][::core::mem::offset_of!(tenon_filename_handle, reserved) - 12usize];
    [
        "Offset of field: tenon_filename_handle::offset",
    ][::core::mem::offset_of!(tenon_filename_handle, offset) - 16usize];
    [
        "Offset of field: tenon_filename_handle::nbytes",
    ][::core::mem::offset_of!(tenon_filename_handle, nbytes) - 24usize];
    [
        "Offset of field: tenon_filename_handle::manager",
    ][::core::mem::offset_of!(tenon_filename_handle, manager) - 32usize];
    [
        "Offset of field: tenon_filename_handle::name",
    ][::core::mem::offset_of!(tenon_filename_handle, name) - 140usize];
};
///Count the names, and remove none.
pub const TENON_SWEEP_DRY_RUN: _bindgen_ty_13 = 1;
/**Also remove PyTorch's own dead files: files named torch_PID_… that no process holds and whose
 maker has ended.*/
pub const TENON_SWEEP_TORCH: _bindgen_ty_13 = 2;
pub type _bindgen_ty_13 = ::core::ffi::c_uint;
///How to sweep. A NULL pointer to these options means that all fields are zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_sweep_options {
    ///sizeof(tenon_sweep_options), set by the caller.
    pub struct_size: usize,
    ///TENON_SWEEP_*.
    pub flags: u32,
    ///It must be 0.
    pub reserved: u32,
    ///An absolute path. NULL means /dev/shm.
    pub directory: *const ::core::ffi::c_char,
    /**PyTorch's files that are younger than this stay, because a message may refer to them. 0 means
 60 seconds.*/
    pub min_age_ns: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_sweep_options",
    ][::core::mem::size_of::<tenon_sweep_options>() - 32usize];
    [
        "Alignment of tenon_sweep_options",
    ][::core::mem::align_of::<tenon_sweep_options>() - 8usize];
    [
        "Offset of field: tenon_sweep_options::struct_size",
    ][::core::mem::offset_of!(tenon_sweep_options, struct_size) - 0usize];
    [
        "Offset of field: tenon_sweep_options::flags",
    ][::core::mem::offset_of!(tenon_sweep_options, flags) - 8usize];
    [
        "Offset of field: tenon_sweep_options::reserved",
    ][::core::mem::offset_of!(tenon_sweep_options, reserved) - 12usize];
    [
        "Offset of field: tenon_sweep_options::directory",
    ][::core::mem::offset_of!(tenon_sweep_options, directory) - 16usize];
    [
        "Offset of field: tenon_sweep_options::min_age_ns",
    ][::core::mem::offset_of!(tenon_sweep_options, min_age_ns) - 24usize];
};
///The names that a sweep found.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_sweep_result {
    ///sizeof(tenon_sweep_result), set by the caller.
    pub struct_size: usize,
    ///Names that some process holds.
    pub live: u64,
    ///Names that no process holds, but to which a message in flight may refer.
    pub in_flight: u64,
    ///Names that no process holds and that were removed, or would be removed in a dry run.
    pub dead: u64,
    /**Names that were left alone: names of other users, names that could not be examined, and
 PyTorch's dead files if TENON_SWEEP_TORCH is not set.*/
    pub unsure: u64,
    ///The bytes of memory that the dead names have, or had before they were removed.
    pub removed_nbytes: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_sweep_result",
    ][::core::mem::size_of::<tenon_sweep_result>() - 48usize];
    [
        "Alignment of tenon_sweep_result",
    ][::core::mem::align_of::<tenon_sweep_result>() - 8usize];
    [
        "Offset of field: tenon_sweep_result::struct_size",
    ][::core::mem::offset_of!(tenon_sweep_result, struct_size) - 0usize];
    [
        "Offset of field: tenon_sweep_result::live",
    ][::core::mem::offset_of!(tenon_sweep_result, live) - 8usize];
    [
        "Offset of field: tenon_sweep_result::in_flight",
    ][::core::mem::offset_of!(tenon_sweep_result, in_flight) - 16usize];
    [
        "Offset of field: tenon_sweep_result::dead",
    ][::core::mem::offset_of!(tenon_sweep_result, dead) - 24usize];
    [
        "Offset of field: tenon_sweep_result::unsure",
    ][::core::mem::offset_of!(tenon_sweep_result, unsure) - 32usize];
    [
        "Offset of field: tenon_sweep_result::removed_nbytes",
    ][::core::mem::offset_of!(tenon_sweep_result, removed_nbytes) - 40usize];
};
/**An element type in DLPack's numbers: a type code (TENON_DTYPE_*), the bits of one lane, and the
 number of lanes (1 for a scalar).*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_dtype {
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of tenon_dtype"][::core::mem::size_of::<tenon_dtype>() - 4usize];
    ["Alignment of tenon_dtype"][::core::mem::align_of::<tenon_dtype>() - 2usize];
    [
        "Offset of field: tenon_dtype::code",
    ][::core::mem::offset_of!(tenon_dtype, code) - 0usize];
    [
        "Offset of field: tenon_dtype::bits",
    ][::core::mem::offset_of!(tenon_dtype, bits) - 1usize];
    [
        "Offset of field: tenon_dtype::lanes",
    ][::core::mem::offset_of!(tenon_dtype, lanes) - 2usize];
};
pub const TENON_DTYPE_INT: _bindgen_ty_14 = 0;
pub const TENON_DTYPE_UINT: _bindgen_ty_14 = 1;
pub const TENON_DTYPE_FLOAT: _bindgen_ty_14 = 2;
pub const TENON_DTYPE_BFLOAT: _bindgen_ty_14 = 4;
pub const TENON_DTYPE_COMPLEX: _bindgen_ty_14 = 5;
pub const TENON_DTYPE_BOOL: _bindgen_ty_14 = 6;
pub const TENON_DTYPE_FLOAT8_E3M4: _bindgen_ty_14 = 7;
pub const TENON_DTYPE_FLOAT8_E4M3: _bindgen_ty_14 = 8;
pub const TENON_DTYPE_FLOAT8_E4M3B11FNUZ: _bindgen_ty_14 = 9;
pub const TENON_DTYPE_FLOAT8_E4M3FN: _bindgen_ty_14 = 10;
pub const TENON_DTYPE_FLOAT8_E4M3FNUZ: _bindgen_ty_14 = 11;
pub const TENON_DTYPE_FLOAT8_E5M2: _bindgen_ty_14 = 12;
pub const TENON_DTYPE_FLOAT8_E5M2FNUZ: _bindgen_ty_14 = 13;
pub const TENON_DTYPE_FLOAT8_E8M0FNU: _bindgen_ty_14 = 14;
pub const TENON_DTYPE_FLOAT6_E2M3FN: _bindgen_ty_14 = 15;
pub const TENON_DTYPE_FLOAT6_E3M2FN: _bindgen_ty_14 = 16;
pub const TENON_DTYPE_FLOAT4_E2M1FN: _bindgen_ty_14 = 17;
pub type _bindgen_ty_14 = ::core::ffi::c_uint;
///The most bytes of a name, with its NUL.
pub const TENON_DTYPE_MAX_NAME_NBYTES: _bindgen_ty_15 = 32;
pub type _bindgen_ty_15 = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_tensor {
    _unused: [u8; 0],
}
///Tenon carries this flag along and does not use it.
pub const TENON_TENSOR_REQUIRES_GRAD: _bindgen_ty_16 = 1;
///Tenon carries this flag along and does not use it.
pub const TENON_TENSOR_IS_PARAMETER: _bindgen_ty_16 = 2;
///A reader must conjugate the elements.
pub const TENON_TENSOR_CONJ: _bindgen_ty_16 = 4;
///A reader must negate the elements.
pub const TENON_TENSOR_NEG: _bindgen_ty_16 = 8;
pub type _bindgen_ty_16 = ::core::ffi::c_uint;
///The most dimensions of a tensor.
pub const TENON_TENSOR_MAX_NDIM: _bindgen_ty_17 = 64;
pub type _bindgen_ty_17 = ::core::ffi::c_uint;
/**The layout of a tensor over a storage. Sizes, strides and the offset are in elements. A stride
 may be 0 or negative.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_tensor_spec {
    ///sizeof(tenon_tensor_spec), set by the caller, also for output.
    pub struct_size: usize,
    /**The element type. Elements of fewer than 8 bits are packed, lowest bits first, and their
 tensors must be contiguous.*/
    pub dtype: tenon_dtype,
    ///The number of dimensions, 0 to TENON_TENSOR_MAX_NDIM.
    pub ndim: i32,
    ///ndim sizes, each >= 0. It is NULL if ndim is 0.
    pub sizes: *const i64,
    ///ndim strides. NULL on input means contiguous elements, with the last dimension fastest.
    pub strides: *const i64,
    ///The distance from the start of the storage to the element with index 0, 0, …
    pub offset: u64,
    ///TENON_TENSOR_*.
    pub flags: u32,
    ///It must be 0.
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of tenon_tensor_spec"][::core::mem::size_of::<tenon_tensor_spec>() - 48usize];
    [
        "Alignment of tenon_tensor_spec",
    ][::core::mem::align_of::<tenon_tensor_spec>() - 8usize];
    [
        "Offset of field: tenon_tensor_spec::struct_size",
    ][::core::mem::offset_of!(tenon_tensor_spec, struct_size) - 0usize];
    [
        "Offset of field: tenon_tensor_spec::dtype",
    ][::core::mem::offset_of!(tenon_tensor_spec, dtype) - 8usize];
    [
        "Offset of field: tenon_tensor_spec::ndim",
    ][::core::mem::offset_of!(tenon_tensor_spec, ndim) - 12usize];
    [
        "Offset of field: tenon_tensor_spec::sizes",
    ][::core::mem::offset_of!(tenon_tensor_spec, sizes) - 16usize];
    [
        "Offset of field: tenon_tensor_spec::strides",
    ][::core::mem::offset_of!(tenon_tensor_spec, strides) - 24usize];
    [
        "Offset of field: tenon_tensor_spec::offset",
    ][::core::mem::offset_of!(tenon_tensor_spec, offset) - 32usize];
    [
        "Offset of field: tenon_tensor_spec::flags",
    ][::core::mem::offset_of!(tenon_tensor_spec, flags) - 40usize];
    [
        "Offset of field: tenon_tensor_spec::reserved",
    ][::core::mem::offset_of!(tenon_tensor_spec, reserved) - 44usize];
};
/**The properties of a tensor that a reader needs, filled in by one call. The pointers are borrowed
 from the tensor. Sizes, strides and the offset are in elements.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_tensor_view {
    ///sizeof(tenon_tensor_view), set by the caller.
    pub struct_size: usize,
    ///The tensor itself, borrowed.
    pub tensor: *mut tenon_tensor,
    ///For a tensor in a message the tenon_message_name, else NULL.
    pub name: *const ::core::ffi::c_char,
    ///See tenon_tensor_data.
    pub data: *const ::core::ffi::c_void,
    ///The same address as data. It is NULL if the storage is read-only.
    pub data_mut: *mut ::core::ffi::c_void,
    ///ndim sizes. It is NULL if ndim is 0.
    pub sizes: *const i64,
    ///ndim strides. It is NULL if ndim is 0.
    pub strides: *const i64,
    ///From the start of the storage to the element with index 0, 0, …
    pub offset: u64,
    ///See tenon_tensor_numel.
    pub numel: u64,
    ///See tenon_tensor_nbytes.
    pub nbytes: u64,
    ///The element type, as in the spec.
    pub dtype: tenon_dtype,
    ///0 to TENON_TENSOR_MAX_NDIM.
    pub ndim: i32,
    ///TENON_TENSOR_*.
    pub flags: u32,
    ///See tenon_tensor_is_contiguous.
    pub is_contiguous: i32,
    ///The device on which data is an address; see tenon_storage_device.
    pub device: tenon_device,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_tensor_view",
    ][::core::mem::size_of::<tenon_tensor_view>() - 104usize];
    [
        "Alignment of tenon_tensor_view",
    ][::core::mem::align_of::<tenon_tensor_view>() - 8usize];
    [
        "Offset of field: tenon_tensor_view::struct_size",
    ][::core::mem::offset_of!(tenon_tensor_view, struct_size) - 0usize];
    [
        "Offset of field: tenon_tensor_view::tensor",
    ][::core::mem::offset_of!(tenon_tensor_view, tensor) - 8usize];
    [
        "Offset of field: tenon_tensor_view::name",
    ][::core::mem::offset_of!(tenon_tensor_view, name) - 16usize];
    [
        "Offset of field: tenon_tensor_view::data",
    ][::core::mem::offset_of!(tenon_tensor_view, data) - 24usize];
    [
        "Offset of field: tenon_tensor_view::data_mut",
    ][::core::mem::offset_of!(tenon_tensor_view, data_mut) - 32usize];
    [
        "Offset of field: tenon_tensor_view::sizes",
    ][::core::mem::offset_of!(tenon_tensor_view, sizes) - 40usize];
    [
        "Offset of field: tenon_tensor_view::strides",
    ][::core::mem::offset_of!(tenon_tensor_view, strides) - 48usize];
    [
        "Offset of field: tenon_tensor_view::offset",
    ][::core::mem::offset_of!(tenon_tensor_view, offset) - 56usize];
    [
        "Offset of field: tenon_tensor_view::numel",
    ][::core::mem::offset_of!(tenon_tensor_view, numel) - 64usize];
    [
        "Offset of field: tenon_tensor_view::nbytes",
    ][::core::mem::offset_of!(tenon_tensor_view, nbytes) - 72usize];
    [
        "Offset of field: tenon_tensor_view::dtype",
    ][::core::mem::offset_of!(tenon_tensor_view, dtype) - 80usize];
    [
        "Offset of field: tenon_tensor_view::ndim",
    ][::core::mem::offset_of!(tenon_tensor_view, ndim) - 84usize];
    [
        "Offset of field: tenon_tensor_view::flags",
    ][::core::mem::offset_of!(tenon_tensor_view, flags) - 88usize];
    [
        "Offset of field: tenon_tensor_view::is_contiguous",
    ][::core::mem::offset_of!(tenon_tensor_view, is_contiguous) - 92usize];
    [
        "Offset of field: tenon_tensor_view::device",
    ][::core::mem::offset_of!(tenon_tensor_view, device) - 96usize];
};
///Picks one index of a dimension. The view lacks that dimension.
pub const TENON_INDEX_NUMBER: _bindgen_ty_18 = 0;
///Picks every step-th index of a dimension.
pub const TENON_INDEX_SLICE: _bindgen_ty_18 = 1;
///Adds a dimension of size 1, as numpy's newaxis does.
pub const TENON_INDEX_NEW_AXIS: _bindgen_ty_18 = 2;
///Keeps all dimensions that the other items leave over.
pub const TENON_INDEX_ELLIPSIS: _bindgen_ty_18 = 3;
///What an item of an index does; see tenon_tensor_index.
pub type _bindgen_ty_18 = ::core::ffi::c_uint;
///An item of an index. Its numbers count the elements of one dimension.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_index {
    ///sizeof(tenon_index), set by the caller.
    pub struct_size: usize,
    ///TENON_INDEX_*.
    pub kind: i32,
    ///It must be 0.
    pub reserved: u32,
    /**NUMBER: the index, from -size to size - 1. A negative one counts from the end. SLICE: the first
 index. Ignored for the other kinds.*/
    pub start: i64,
    /**SLICE: the end of the slice, which the slice leaves out. Bounds are read as in Python: a
 negative start or stop counts from the end, and one that lies beyond an end of the dimension
 means that end. So INT64_MAX means the last end. For a negative step a stop of INT64_MIN
 includes the index 0.*/
    pub stop: i64,
    ///SLICE: the distance between two picked indices, not 0. If negative, start is above stop.
    pub step: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of tenon_index"][::core::mem::size_of::<tenon_index>() - 40usize];
    ["Alignment of tenon_index"][::core::mem::align_of::<tenon_index>() - 8usize];
    [
        "Offset of field: tenon_index::struct_size",
    ][::core::mem::offset_of!(tenon_index, struct_size) - 0usize];
    [
        "Offset of field: tenon_index::kind",
    ][::core::mem::offset_of!(tenon_index, kind) - 8usize];
    [
        "Offset of field: tenon_index::reserved",
    ][::core::mem::offset_of!(tenon_index, reserved) - 12usize];
    [
        "Offset of field: tenon_index::start",
    ][::core::mem::offset_of!(tenon_index, start) - 16usize];
    [
        "Offset of field: tenon_index::stop",
    ][::core::mem::offset_of!(tenon_index, stop) - 24usize];
    [
        "Offset of field: tenon_index::step",
    ][::core::mem::offset_of!(tenon_index, step) - 32usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_message {
    _unused: [u8; 0],
}
///The most user bytes in one message.
pub const TENON_MESSAGE_MAX_USER_NBYTES: _bindgen_ty_19 = 65536;
///The most bytes in a tensor's name, without the NUL.
pub const TENON_MESSAGE_MAX_NAME_NBYTES: _bindgen_ty_19 = 4096;
pub type _bindgen_ty_19 = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_composite {
    _unused: [u8; 0],
}
///A tenon_tensor, never a composite.
pub const TENON_TENSOR_LAYOUT_STRIDED: _bindgen_ty_20 = 0;
pub const TENON_TENSOR_LAYOUT_SPARSE_COO: _bindgen_ty_20 = 1;
pub const TENON_TENSOR_LAYOUT_SPARSE_CSR: _bindgen_ty_20 = 2;
pub const TENON_TENSOR_LAYOUT_SPARSE_CSC: _bindgen_ty_20 = 4;
pub const TENON_TENSOR_LAYOUT_SPARSE_BSR: _bindgen_ty_20 = 5;
pub const TENON_TENSOR_LAYOUT_SPARSE_BSC: _bindgen_ty_20 = 6;
///Components of different sizes in one dimension.
pub const TENON_TENSOR_LAYOUT_JAGGED: _bindgen_ty_20 = 7;
///Components of different sizes in any dimension.
pub const TENON_TENSOR_LAYOUT_NESTED: _bindgen_ty_20 = 64;
///Sizes and an element type, but no elements.
pub const TENON_TENSOR_LAYOUT_META: _bindgen_ty_20 = 65;
///Integers that represent numbers.
pub const TENON_TENSOR_LAYOUT_QUANTIZED: _bindgen_ty_20 = 66;
/**How the elements of a tensor are laid out: in PyTorch's numbers, and from 64 on in Tenon's own.
 PyTorch's mkldnn layout has no number here, because it is private to one process.*/
pub type _bindgen_ty_20 = ::core::ffi::c_uint;
pub const TENON_QUANTIZER_NONE: _bindgen_ty_21 = 0;
pub const TENON_QUANTIZER_PER_TENSOR_AFFINE: _bindgen_ty_21 = 1;
pub const TENON_QUANTIZER_PER_CHANNEL_AFFINE: _bindgen_ty_21 = 2;
pub const TENON_QUANTIZER_PER_CHANNEL_AFFINE_FLOAT_QPARAMS: _bindgen_ty_21 = 3;
///How quantised elements represent numbers.
pub type _bindgen_ty_21 = ::core::ffi::c_uint;
///It is not known.
pub const TENON_COALESCED_UNKNOWN: _bindgen_ty_22 = 0;
pub const TENON_COALESCED_NO: _bindgen_ty_22 = 1;
pub const TENON_COALESCED_YES: _bindgen_ty_22 = 2;
/**Whether a COO tensor is coalesced. In a coalesced tensor the indices are sorted, and no two are
 equal.*/
pub type _bindgen_ty_22 = ::core::ffi::c_uint;
/**The layout and the parts of a composite. Every part is borrowed. A field that the layout does not
 use must be 0 or NULL on input, except for `dtype` and `sizes`, which are then ignored.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_composite_spec {
    ///sizeof(tenon_composite_spec), set by the caller, also for output.
    pub struct_size: usize,
    ///TENON_TENSOR_LAYOUT_*, not TENON_TENSOR_LAYOUT_STRIDED.
    pub layout: i32,
    ///The number of dimensions, 0 to TENON_TENSOR_MAX_NDIM.
    pub ndim: i32,
    /**ndim sizes. The caller sets them for sparse and meta layouts. For other layouts they are
 ignored on input. On output a size is -1 if it can differ from component to component. NULL if
 ndim is 0.*/
    pub sizes: *const i64,
    ///Meta: ndim strides. NULL on input means contiguous elements. For other layouts it is NULL.
    pub strides: *const i64,
    /**Meta: the distance from the start of the storage that the tensor would have. For other layouts
 it is 0.*/
    pub offset: u64,
    /**The element type. The caller sets it for meta. For other layouts it is the type of `values`,
 and it is ignored on input.*/
    pub dtype: tenon_dtype,
    ///TENON_TENSOR_REQUIRES_GRAD, TENON_TENSOR_IS_PARAMETER. Meta: all TENON_TENSOR_*.
    pub flags: u32,
    /**The elements, for all layouts but meta. The dimensions are:
 - COO: the non-zeros, then the dense dimensions.
 - CSR, CSC, BSR, BSC: the batch, the non-zeros, for BSR and BSC the two block dimensions, then
   the dense dimensions.
 - Jagged: those of the whole tensor without the first one. All components lie one after another
   in the ragged dimension.
 - Nested: one dimension, contiguous.
 - Quantised: those of the whole tensor. The type is int8, uint8, int32, uint4 or uint2.*/
    pub values: *mut tenon_tensor,
    /**COO: the indices, sparse dimensions by non-zeros. CSR and BSR: the row pointers. CSC and BSC:
 the column pointers. The type of this part and of the next three is int64 or int32.*/
    pub indices: *mut tenon_tensor,
    ///CSR and BSR: the column indices. CSC and BSC: the row indices.
    pub plain_indices: *mut tenon_tensor,
    /**Jagged: where each component begins along the ragged dimension of `values`, and last where the
 last component ends. Nested: where each component begins in `values`, as int64.*/
    pub offsets: *mut tenon_tensor,
    ///Jagged: the length of each component. NULL if each component ends where the next one begins.
    pub lengths: *mut tenon_tensor,
    ///Nested: components by dimensions, int64.
    pub component_sizes: *mut tenon_tensor,
    ///Nested: components by dimensions, int64.
    pub component_strides: *mut tenon_tensor,
    ///Quantised per channel: one float64 for each channel, or float32 with float parameters.
    pub scales: *mut tenon_tensor,
    ///Quantised per channel: one int64 for each channel, or float32 with float parameters.
    pub zero_points: *mut tenon_tensor,
    ///Quantised per tensor: an element represents the number (element - zero_point) * scale.
    pub scale: f64,
    ///Quantised per tensor: see `scale`.
    pub zero_point: i64,
    ///Quantised per channel: the dimension of the channels.
    pub axis: i32,
    ///Jagged: the dimension in which components differ, from 1 on. Dimension 0 counts the components.
    pub ragged_dim: i32,
    ///TENON_QUANTIZER_*.
    pub quantizer: i32,
    ///COO: TENON_COALESCED_*.
    pub coalesced: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_composite_spec",
    ][::core::mem::size_of::<tenon_composite_spec>() - 152usize];
    [
        "Alignment of tenon_composite_spec",
    ][::core::mem::align_of::<tenon_composite_spec>() - 8usize];
    [
        "Offset of field: tenon_composite_spec::struct_size",
    ][::core::mem::offset_of!(tenon_composite_spec, struct_size) - 0usize];
    [
        "Offset of field: tenon_composite_spec::layout",
    ][::core::mem::offset_of!(tenon_composite_spec, layout) - 8usize];
    [
        "Offset of field: tenon_composite_spec::ndim",
    ][::core::mem::offset_of!(tenon_composite_spec, ndim) - 12usize];
    [
        "Offset of field: tenon_composite_spec::sizes",
    ][::core::mem::offset_of!(tenon_composite_spec, sizes) - 16usize];
    [
        "Offset of field: tenon_composite_spec::strides",
    ][::core::mem::offset_of!(tenon_composite_spec, strides) - 24usize];
    [
        "Offset of field: tenon_composite_spec::offset",
    ][::core::mem::offset_of!(tenon_composite_spec, offset) - 32usize];
    [
        "Offset of field: tenon_composite_spec::dtype",
    ][::core::mem::offset_of!(tenon_composite_spec, dtype) - 40usize];
    [
        "Offset of field: tenon_composite_spec::flags",
    ][::core::mem::offset_of!(tenon_composite_spec, flags) - 44usize];
    [
        "Offset of field: tenon_composite_spec::values",
    ][::core::mem::offset_of!(tenon_composite_spec, values) - 48usize];
    [
        "Offset of field: tenon_composite_spec::indices",
    ][::core::mem::offset_of!(tenon_composite_spec, indices) - 56usize];
    [
        "Offset of field: tenon_composite_spec::plain_indices",
    ][::core::mem::offset_of!(tenon_composite_spec, plain_indices) - 64usize];
    [
        "Offset of field: tenon_composite_spec::offsets",
    ][::core::mem::offset_of!(tenon_composite_spec, offsets) - 72usize];
    [
        "Offset of field: tenon_composite_spec::lengths",
    ][::core::mem::offset_of!(tenon_composite_spec, lengths) - 80usize];
    [
        "Offset of field: tenon_composite_spec::component_sizes",
    ][::core::mem::offset_of!(tenon_composite_spec, component_sizes) - 88usize];
    [
        "Offset of field: tenon_composite_spec::component_strides",
    ][::core::mem::offset_of!(tenon_composite_spec, component_strides) - 96usize];
    [
        "Offset of field: tenon_composite_spec::scales",
    ][::core::mem::offset_of!(tenon_composite_spec, scales) - 104usize];
    [
        "Offset of field: tenon_composite_spec::zero_points",
    ][::core::mem::offset_of!(tenon_composite_spec, zero_points) - 112usize];
    [
        "Offset of field: tenon_composite_spec::scale",
    ][::core::mem::offset_of!(tenon_composite_spec, scale) - 120usize];
    [
        "Offset of field: tenon_composite_spec::zero_point",
    ][::core::mem::offset_of!(tenon_composite_spec, zero_point) - 128usize];
    [
        "Offset of field: tenon_composite_spec::axis",
    ][::core::mem::offset_of!(tenon_composite_spec, axis) - 136usize];
    [
        "Offset of field: tenon_composite_spec::ragged_dim",
    ][::core::mem::offset_of!(tenon_composite_spec, ragged_dim) - 140usize];
    [
        "Offset of field: tenon_composite_spec::quantizer",
    ][::core::mem::offset_of!(tenon_composite_spec, quantizer) - 144usize];
    [
        "Offset of field: tenon_composite_spec::coalesced",
    ][::core::mem::offset_of!(tenon_composite_spec, coalesced) - 148usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_connection {
    _unused: [u8; 0],
}
///The library owns the socket once tenon_connection_new has succeeded.
pub const TENON_CONNECTION_ADOPT_SOCKET: _bindgen_ty_23 = 1;
///Refuse a peer whose user is neither this process's (effective) user nor root.
pub const TENON_CONNECTION_SAME_USER: _bindgen_ty_23 = 2;
///As TENON_CONNECTION_SAME_USER, but also accept members of options.group.
pub const TENON_CONNECTION_GROUP: _bindgen_ty_23 = 4;
///Also send read-only storages on a CUDA device, although the receiver can write to them.
pub const TENON_CONNECTION_CUDA_LET_WRITE: _bindgen_ty_23 = 8;
///As TENON_CUDA_KEEP_OPEN, for device memory that is received.
pub const TENON_CONNECTION_CUDA_KEEP_OPEN: _bindgen_ty_23 = 16;
/**Accept named files that Tenon made (tenon/by_filename.h), although they have no seals, if
 tenon_connection_peer reports this process's (effective) user or root. A process of that user
 could end this process anyway.*/
pub const TENON_CONNECTION_NAMED_FILES: _bindgen_ty_23 = 32;
/**Send through a ring in shared memory. While the receiver is awake, a message whose segments it
 knows then takes no system call. Messages still cross on the socket if they bring fds, if their
 descriptor has more than about 1,000 bytes, or while 64 messages wait in the ring. The order
 stays. The receiver needs no flag. If no memory can be had for the ring, all messages cross on
 the socket. A ring takes 68 KiB.*/
pub const TENON_CONNECTION_RING: _bindgen_ty_23 = 64;
pub type _bindgen_ty_23 = ::core::ffi::c_uint;
/**What happens to received memory when its lender is gone. The lender is gone when no process holds
 the other end of the socket any more: the lender's process ended, or all holders closed that end.*/
pub type tenon_lender_gone = u32;
/**Received memory stays valid, unless it also arrived over a connection with
 TENON_LENDER_GONE_DROP. Messages that were sent before the lender ended are still delivered.*/
pub const TENON_LENDER_GONE_KEEP: _bindgen_ty_24 = 0;
/**Received memory is dropped.
 - Calls that would give out its bytes, or lend it again, return TENON_PEER_GONE.
   tenon_storage_data and tenon_tensor_data return NULL.
 - Memory of the CPU is unmapped when its storage is released. Pointers that were given out
   before are valid until then.
 - Memory of a device is closed as soon as the streams that use it in this process have passed.
   Pointers to it are invalid from then on.
 - tenon_recv returns TENON_PEER_GONE, also if messages that were sent before are still unread.
 - A storage that arrived over two such connections stays valid until both lenders are gone. A
   storage that is lent again over another connection becomes valid again.
 - Private openings stay valid, and so does this process's own memory that was sent back to it.
 - If the borrower releases the connection before the lender is gone, it keeps the memory that
   it received.*/
pub const TENON_LENDER_GONE_DROP: _bindgen_ty_24 = 1;
pub type _bindgen_ty_24 = ::core::ffi::c_uint;
///Limits and options of a connection. A NULL pointer to them means that all fields are zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_connection_options {
    ///sizeof(tenon_connection_options), set by the caller.
    pub struct_size: usize,
    ///TENON_CONNECTION_*.
    pub flags: u32,
    ///TENON_ACCESS_* for received storages, as in tenon_open_options.
    pub open_access: tenon_access,
    /**Flags for received storages: TENON_OPEN_PRIVATE_COW, TENON_OPEN_PRIVATE_COPY,
 TENON_OPEN_ALLOW_UNSEALED. Any other flag is TENON_UNSUPPORTED.*/
    pub open_flags: u32,
    ///The group id for TENON_CONNECTION_GROUP. Without that flag it must be 0.
    pub group: u32,
    ///The largest descriptor that is accepted, in bytes. 0 means 64 MiB.
    pub max_message_nbytes: u64,
    ///The most tensors that are accepted in one message. 0 means 1,000,000.
    pub max_tensors: u64,
    /**The most segments that the peer may keep open in this process through this connection. 0 means
 a half of RLIMIT_NOFILE, a quarter of vm.max_map_count, or 65,536, whichever is least.*/
    pub max_segments: u64,
    /**The most address space, in bytes, that the peer's memory may take in this process through this
 connection. A segment counts with its whole size as long as it is mapped. 0 means a quarter of
 the address space (32 TiB on x86-64). All peers of a process together may take half of the
 address space.*/
    pub max_mapped_nbytes: u64,
    ///TENON_LENDER_GONE_*, for received memory.
    pub on_lender_gone: tenon_lender_gone,
    ///It must be 0.
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_connection_options",
    ][::core::mem::size_of::<tenon_connection_options>() - 64usize];
    [
        "Alignment of tenon_connection_options",
    ][::core::mem::align_of::<tenon_connection_options>() - 8usize];
    [
        "Offset of field: tenon_connection_options::struct_size",
    ][::core::mem::offset_of!(tenon_connection_options, struct_size) - 0usize];
    [
        "Offset of field: tenon_connection_options::flags",
    ][::core::mem::offset_of!(tenon_connection_options, flags) - 8usize];
    [
        "Offset of field: tenon_connection_options::open_access",
    ][::core::mem::offset_of!(tenon_connection_options, open_access) - 12usize];
    [
        "Offset of field: tenon_connection_options::open_flags",
    ][::core::mem::offset_of!(tenon_connection_options, open_flags) - 16usize];
    [
        "Offset of field: tenon_connection_options::group",
    ][::core::mem::offset_of!(tenon_connection_options, group) - 20usize];
    [
        "Offset of field: tenon_connection_options::max_message_nbytes",
    ][::core::mem::offset_of!(tenon_connection_options, max_message_nbytes) - 24usize];
    [
        "Offset of field: tenon_connection_options::max_tensors",
    ][::core::mem::offset_of!(tenon_connection_options, max_tensors) - 32usize];
    [
        "Offset of field: tenon_connection_options::max_segments",
    ][::core::mem::offset_of!(tenon_connection_options, max_segments) - 40usize];
    [
        "Offset of field: tenon_connection_options::max_mapped_nbytes",
    ][::core::mem::offset_of!(tenon_connection_options, max_mapped_nbytes) - 48usize];
    [
        "Offset of field: tenon_connection_options::on_lender_gone",
    ][::core::mem::offset_of!(tenon_connection_options, on_lender_gone) - 56usize];
    [
        "Offset of field: tenon_connection_options::reserved",
    ][::core::mem::offset_of!(tenon_connection_options, reserved) - 60usize];
};
/**The process at the other end of a connection. The kernel reports it (SO_PEERCRED) in the numbers
 of this process's namespaces, as of the moment when the socket was connected. After accept, this
 struct describes the process that called connect. After connect, it describes the process that
 called listen. For a socketpair, both ends describe the process that called socketpair.

 If the socket was passed on or inherited since, these numbers still describe the first process,
 and another process may have its pid by now. A user or group that this user namespace does not
 map appears as 65534 (the kernel's overflowuid). A process that runs as user 65534 in such a
 namespace cannot tell unmapped users from its own user.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_peer {
    ///sizeof(tenon_peer), set by the caller.
    pub struct_size: usize,
    ///It is 0 if this process cannot see the pid namespace.
    pub pid: i32,
    ///The effective user id.
    pub uid: u32,
    ///The effective group id. The peer's other groups are not reported.
    pub gid: u32,
    ///It is 0.
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of tenon_peer"][::core::mem::size_of::<tenon_peer>() - 24usize];
    ["Alignment of tenon_peer"][::core::mem::align_of::<tenon_peer>() - 8usize];
    [
        "Offset of field: tenon_peer::struct_size",
    ][::core::mem::offset_of!(tenon_peer, struct_size) - 0usize];
    [
        "Offset of field: tenon_peer::pid",
    ][::core::mem::offset_of!(tenon_peer, pid) - 8usize];
    [
        "Offset of field: tenon_peer::uid",
    ][::core::mem::offset_of!(tenon_peer, uid) - 12usize];
    [
        "Offset of field: tenon_peer::gid",
    ][::core::mem::offset_of!(tenon_peer, gid) - 16usize];
    [
        "Offset of field: tenon_peer::reserved",
    ][::core::mem::offset_of!(tenon_peer, reserved) - 20usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_cuda_arena {
    _unused: [u8; 0],
}
///How to make an arena on a device.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_cuda_arena_options {
    ///sizeof(tenon_cuda_arena_options), set by the caller.
    pub struct_size: usize,
    ///The device's ordinal in this process's numbering.
    pub device: i32,
    /**The transport of the memory: TENON_CUDA_IPC, TENON_CUDA_FD or TENON_CUDA_FABRIC. 0 means
 TENON_CUDA_IPC if the device has it, because PyTorch opens that, and otherwise TENON_CUDA_FD.*/
    pub transport: tenon_cuda_transport,
    /**The size of the arena in bytes, rounded up to a size that the device can allocate. All of it is
 allocated at once.*/
    pub capacity_nbytes: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_cuda_arena_options",
    ][::core::mem::size_of::<tenon_cuda_arena_options>() - 24usize];
    [
        "Alignment of tenon_cuda_arena_options",
    ][::core::mem::align_of::<tenon_cuda_arena_options>() - 8usize];
    [
        "Offset of field: tenon_cuda_arena_options::struct_size",
    ][::core::mem::offset_of!(tenon_cuda_arena_options, struct_size) - 0usize];
    [
        "Offset of field: tenon_cuda_arena_options::device",
    ][::core::mem::offset_of!(tenon_cuda_arena_options, device) - 8usize];
    [
        "Offset of field: tenon_cuda_arena_options::transport",
    ][::core::mem::offset_of!(tenon_cuda_arena_options, transport) - 12usize];
    [
        "Offset of field: tenon_cuda_arena_options::capacity_nbytes",
    ][::core::mem::offset_of!(tenon_cuda_arena_options, capacity_nbytes) - 16usize];
};
///Figures about the contents of an arena on a device. All figures are of one moment.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_cuda_arena_stats {
    ///sizeof(tenon_cuda_arena_stats), set by the caller.
    pub struct_size: usize,
    ///The device's ordinal.
    pub device: i32,
    ///The transport by which the memory is lent.
    pub transport: tenon_cuda_transport,
    ///The most bytes that the arena can hold.
    pub bytes_capacity: u64,
    ///Bytes that are in storages, or that a stream or a receiver still uses.
    pub bytes_used: u64,
    ///Bytes that are not in use.
    pub bytes_free: u64,
    ///The size of the longest free range.
    pub bytes_largest_free: u64,
    ///The most bytes that were in use at one time.
    pub bytes_peak: u64,
    ///The number of blocks that are in storages, or that a stream or a receiver still uses.
    pub blocks_used: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_cuda_arena_stats",
    ][::core::mem::size_of::<tenon_cuda_arena_stats>() - 64usize];
    [
        "Alignment of tenon_cuda_arena_stats",
    ][::core::mem::align_of::<tenon_cuda_arena_stats>() - 8usize];
    [
        "Offset of field: tenon_cuda_arena_stats::struct_size",
    ][::core::mem::offset_of!(tenon_cuda_arena_stats, struct_size) - 0usize];
    [
        "Offset of field: tenon_cuda_arena_stats::device",
    ][::core::mem::offset_of!(tenon_cuda_arena_stats, device) - 8usize];
    [
        "Offset of field: tenon_cuda_arena_stats::transport",
    ][::core::mem::offset_of!(tenon_cuda_arena_stats, transport) - 12usize];
    [
        "Offset of field: tenon_cuda_arena_stats::bytes_capacity",
    ][::core::mem::offset_of!(tenon_cuda_arena_stats, bytes_capacity) - 16usize];
    [
        "Offset of field: tenon_cuda_arena_stats::bytes_used",
    ][::core::mem::offset_of!(tenon_cuda_arena_stats, bytes_used) - 24usize];
    [
        "Offset of field: tenon_cuda_arena_stats::bytes_free",
    ][::core::mem::offset_of!(tenon_cuda_arena_stats, bytes_free) - 32usize];
    [
        "Offset of field: tenon_cuda_arena_stats::bytes_largest_free",
    ][::core::mem::offset_of!(tenon_cuda_arena_stats, bytes_largest_free) - 40usize];
    [
        "Offset of field: tenon_cuda_arena_stats::bytes_peak",
    ][::core::mem::offset_of!(tenon_cuda_arena_stats, bytes_peak) - 48usize];
    [
        "Offset of field: tenon_cuda_arena_stats::blocks_used",
    ][::core::mem::offset_of!(tenon_cuda_arena_stats, blocks_used) - 56usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_cuda_event {
    _unused: [u8; 0],
}
///The event has an IPC handle, with which other processes open it.
pub const TENON_CUDA_EVENT_INTERPROCESS: _bindgen_ty_25 = 1;
pub type _bindgen_ty_25 = ::core::ffi::c_uint;
///How to make or open an event. A NULL pointer to these options means all fields are zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_cuda_event_options {
    ///sizeof(tenon_cuda_event_options), set by the caller.
    pub struct_size: usize,
    ///TENON_CUDA_EVENT_*. 0 for an event that is opened.
    pub flags: u32,
    ///The device's ordinal in this process's numbering.
    pub device: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_cuda_event_options",
    ][::core::mem::size_of::<tenon_cuda_event_options>() - 16usize];
    [
        "Alignment of tenon_cuda_event_options",
    ][::core::mem::align_of::<tenon_cuda_event_options>() - 8usize];
    [
        "Offset of field: tenon_cuda_event_options::struct_size",
    ][::core::mem::offset_of!(tenon_cuda_event_options, struct_size) - 0usize];
    [
        "Offset of field: tenon_cuda_event_options::flags",
    ][::core::mem::offset_of!(tenon_cuda_event_options, flags) - 8usize];
    [
        "Offset of field: tenon_cuda_event_options::device",
    ][::core::mem::offset_of!(tenon_cuda_event_options, device) - 12usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_ticket {
    _unused: [u8; 0],
}
/**Limits of the messages of this process that wait to be fetched. Set struct_size to
 sizeof(tenon_deposit_limits).*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_deposit_limits {
    pub struct_size: usize,
    /**The most segments that receivers may still ask for. A deposit that needs one more is
 TENON_RESOURCE_EXHAUSTED with the limit "max_unfetched_segments". 0 means half of the most fds
 that this process may open.*/
    pub max_unfetched_segments: u64,
    /**The most bytes in the storages of unfetched messages. A storage in two messages counts twice. A
 deposit that exceeds this limit withdraws the oldest messages, but never the newest one. 0
 means no limit.*/
    pub max_unfetched_nbytes: u64,
    ///The age in nanoseconds at which an unfetched message is withdrawn. 0 means never.
    pub max_unfetched_ns: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_deposit_limits",
    ][::core::mem::size_of::<tenon_deposit_limits>() - 32usize];
    [
        "Alignment of tenon_deposit_limits",
    ][::core::mem::align_of::<tenon_deposit_limits>() - 8usize];
    [
        "Offset of field: tenon_deposit_limits::struct_size",
    ][::core::mem::offset_of!(tenon_deposit_limits, struct_size) - 0usize];
    [
        "Offset of field: tenon_deposit_limits::max_unfetched_segments",
    ][::core::mem::offset_of!(tenon_deposit_limits, max_unfetched_segments) - 8usize];
    [
        "Offset of field: tenon_deposit_limits::max_unfetched_nbytes",
    ][::core::mem::offset_of!(tenon_deposit_limits, max_unfetched_nbytes) - 16usize];
    [
        "Offset of field: tenon_deposit_limits::max_unfetched_ns",
    ][::core::mem::offset_of!(tenon_deposit_limits, max_unfetched_ns) - 24usize];
};
/**Figures about the messages of this process that wait to be fetched. The figures are of one
 moment.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_deposit_stats {
    ///sizeof(tenon_deposit_stats), set by the caller.
    pub struct_size: usize,
    /**The number of messages that nobody has fetched, or whose receiver is still opening their
 storages. While it is not 0, a receiver may need this process.*/
    pub messages: u64,
    ///The number of segments that receivers may still ask for. It is 0 if `messages` is 0.
    pub segments: u64,
    /**How many messages were withdrawn because of max_unfetched_nbytes or max_unfetched_ns, or
 because their carrier was gone (tenon_ticket_watch), since this process began.*/
    pub expired: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_deposit_stats",
    ][::core::mem::size_of::<tenon_deposit_stats>() - 32usize];
    [
        "Alignment of tenon_deposit_stats",
    ][::core::mem::align_of::<tenon_deposit_stats>() - 8usize];
    [
        "Offset of field: tenon_deposit_stats::struct_size",
    ][::core::mem::offset_of!(tenon_deposit_stats, struct_size) - 0usize];
    [
        "Offset of field: tenon_deposit_stats::messages",
    ][::core::mem::offset_of!(tenon_deposit_stats, messages) - 8usize];
    [
        "Offset of field: tenon_deposit_stats::segments",
    ][::core::mem::offset_of!(tenon_deposit_stats, segments) - 16usize];
    [
        "Offset of field: tenon_deposit_stats::expired",
    ][::core::mem::offset_of!(tenon_deposit_stats, expired) - 24usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_deposit {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_fetched {
    _unused: [u8; 0],
}
///The most bytes in the record of one storage.
pub const TENON_DEPOSIT_RECORD_NBYTES: _bindgen_ty_26 = 512;
pub type _bindgen_ty_26 = ::core::ffi::c_uint;
/**How a keeper keeps messages that are not fetched yet. Set struct_size to
 sizeof(tenon_keep_options).*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_keep_options {
    pub struct_size: usize,
    ///The longest time that the keeper stays, in nanoseconds. 0 means 60 seconds.
    pub timeout_ns: i64,
    /**The pidfds of processes that may still fetch, at most 1,024, borrowed for the call. NULL is
 allowed if n_pidfds is 0.*/
    pub pidfds: *const i32,
    pub n_pidfds: u64,
    /**The path of a file on which processes that may still fetch hold a shared flock, borrowed for
 the call. NULL means no file. The keeper ends when none of the processes of `pidfds` and
 `family` is left. If neither is given, it stays until all messages are fetched or its time is
 over.*/
    pub family: *const ::core::ffi::c_char,
    /**The program to start, borrowed for the call. NULL means tenon-manager, which is found as in
 tenon_manager_start.*/
    pub program: *const ::core::ffi::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_keep_options",
    ][::core::mem::size_of::<tenon_keep_options>() - 48usize];
    [
        "Alignment of tenon_keep_options",
    ][::core::mem::align_of::<tenon_keep_options>() - 8usize];
    [
        "Offset of field: tenon_keep_options::struct_size",
    ][::core::mem::offset_of!(tenon_keep_options, struct_size) - 0usize];
    [
        "Offset of field: tenon_keep_options::timeout_ns",
    ][::core::mem::offset_of!(tenon_keep_options, timeout_ns) - 8usize];
    [
        "Offset of field: tenon_keep_options::pidfds",
    ][::core::mem::offset_of!(tenon_keep_options, pidfds) - 16usize];
    [
        "Offset of field: tenon_keep_options::n_pidfds",
    ][::core::mem::offset_of!(tenon_keep_options, n_pidfds) - 24usize];
    [
        "Offset of field: tenon_keep_options::family",
    ][::core::mem::offset_of!(tenon_keep_options, family) - 32usize];
    [
        "Offset of field: tenon_keep_options::program",
    ][::core::mem::offset_of!(tenon_keep_options, program) - 40usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_descriptor {
    _unused: [u8; 0],
}
/**The descriptor carries no fds. Its opener fetches them from this process through /proc. So this
 process must live and keep the descriptor until then, and the opener must be in the same pid
 namespace and be of the same user (or use TENON_OPEN_OTHER_USER).*/
pub const TENON_DESCRIPTOR_BYTES_ONLY: _bindgen_ty_27 = 1;
pub type _bindgen_ty_27 = ::core::ffi::c_uint;
///How to make a descriptor. A NULL pointer to these options means that all fields are zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_descriptor_options {
    ///sizeof(tenon_descriptor_options), set by the caller.
    pub struct_size: usize,
    ///TENON_DESCRIPTOR_*.
    pub flags: u32,
    ///It must be 0.
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_descriptor_options",
    ][::core::mem::size_of::<tenon_descriptor_options>() - 16usize];
    [
        "Alignment of tenon_descriptor_options",
    ][::core::mem::align_of::<tenon_descriptor_options>() - 8usize];
    [
        "Offset of field: tenon_descriptor_options::struct_size",
    ][::core::mem::offset_of!(tenon_descriptor_options, struct_size) - 0usize];
    [
        "Offset of field: tenon_descriptor_options::flags",
    ][::core::mem::offset_of!(tenon_descriptor_options, flags) - 8usize];
    [
        "Offset of field: tenon_descriptor_options::reserved",
    ][::core::mem::offset_of!(tenon_descriptor_options, reserved) - 12usize];
};
///A borrower that holds leases of this process's blocks.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_lease_holder {
    ///sizeof(tenon_lease_holder), set by the caller.
    pub struct_size: usize,
    /**The borrower's process id, from the kernel. It is 0 if this process cannot see the pid
 namespace.*/
    pub pid: i32,
    ///The borrower's user id, from the kernel.
    pub uid: u32,
    ///The number of leases that the borrower holds now.
    pub leases: u64,
    ///The bytes in the blocks of these leases. A block with two leases counts twice.
    pub nbytes: u64,
    /**The number of leases that were ever granted to the borrower. It is 0 for a receiver of
 deposits.*/
    pub granted: u64,
    /**The bytes in the blocks of the leases that were ever granted to the borrower. It is 0 for a
 receiver of deposits.*/
    pub granted_bytes: u64,
    ///The time in nanoseconds since this process began to lend to the borrower.
    pub age_ns: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_lease_holder",
    ][::core::mem::size_of::<tenon_lease_holder>() - 56usize];
    [
        "Alignment of tenon_lease_holder",
    ][::core::mem::align_of::<tenon_lease_holder>() - 8usize];
    [
        "Offset of field: tenon_lease_holder::struct_size",
    ][::core::mem::offset_of!(tenon_lease_holder, struct_size) - 0usize];
    [
        "Offset of field: tenon_lease_holder::pid",
    ][::core::mem::offset_of!(tenon_lease_holder, pid) - 8usize];
    [
        "Offset of field: tenon_lease_holder::uid",
    ][::core::mem::offset_of!(tenon_lease_holder, uid) - 12usize];
    [
        "Offset of field: tenon_lease_holder::leases",
    ][::core::mem::offset_of!(tenon_lease_holder, leases) - 16usize];
    [
        "Offset of field: tenon_lease_holder::nbytes",
    ][::core::mem::offset_of!(tenon_lease_holder, nbytes) - 24usize];
    [
        "Offset of field: tenon_lease_holder::granted",
    ][::core::mem::offset_of!(tenon_lease_holder, granted) - 32usize];
    [
        "Offset of field: tenon_lease_holder::granted_bytes",
    ][::core::mem::offset_of!(tenon_lease_holder, granted_bytes) - 40usize];
    [
        "Offset of field: tenon_lease_holder::age_ns",
    ][::core::mem::offset_of!(tenon_lease_holder, age_ns) - 48usize];
};
/**An element type in PyTorch's numbers, which archives contain. PyTorch has element types that
 DLPack lacks; see tenon_scalar_type_to_dtype.*/
pub type tenon_scalar_type = i32;
pub const TENON_SCALAR_TYPE_BYTE: _bindgen_ty_28 = 0;
pub const TENON_SCALAR_TYPE_CHAR: _bindgen_ty_28 = 1;
pub const TENON_SCALAR_TYPE_SHORT: _bindgen_ty_28 = 2;
pub const TENON_SCALAR_TYPE_INT: _bindgen_ty_28 = 3;
pub const TENON_SCALAR_TYPE_LONG: _bindgen_ty_28 = 4;
pub const TENON_SCALAR_TYPE_HALF: _bindgen_ty_28 = 5;
pub const TENON_SCALAR_TYPE_FLOAT: _bindgen_ty_28 = 6;
pub const TENON_SCALAR_TYPE_DOUBLE: _bindgen_ty_28 = 7;
pub const TENON_SCALAR_TYPE_COMPLEX_HALF: _bindgen_ty_28 = 8;
pub const TENON_SCALAR_TYPE_COMPLEX_FLOAT: _bindgen_ty_28 = 9;
pub const TENON_SCALAR_TYPE_COMPLEX_DOUBLE: _bindgen_ty_28 = 10;
pub const TENON_SCALAR_TYPE_BOOL: _bindgen_ty_28 = 11;
pub const TENON_SCALAR_TYPE_QINT8: _bindgen_ty_28 = 12;
pub const TENON_SCALAR_TYPE_QUINT8: _bindgen_ty_28 = 13;
pub const TENON_SCALAR_TYPE_QINT32: _bindgen_ty_28 = 14;
pub const TENON_SCALAR_TYPE_BFLOAT16: _bindgen_ty_28 = 15;
pub const TENON_SCALAR_TYPE_QUINT4X2: _bindgen_ty_28 = 16;
pub const TENON_SCALAR_TYPE_QUINT2X4: _bindgen_ty_28 = 17;
pub const TENON_SCALAR_TYPE_BITS1X8: _bindgen_ty_28 = 18;
pub const TENON_SCALAR_TYPE_BITS2X4: _bindgen_ty_28 = 19;
pub const TENON_SCALAR_TYPE_BITS4X2: _bindgen_ty_28 = 20;
pub const TENON_SCALAR_TYPE_BITS8: _bindgen_ty_28 = 21;
pub const TENON_SCALAR_TYPE_BITS16: _bindgen_ty_28 = 22;
pub const TENON_SCALAR_TYPE_FLOAT8_E5M2: _bindgen_ty_28 = 23;
pub const TENON_SCALAR_TYPE_FLOAT8_E4M3FN: _bindgen_ty_28 = 24;
pub const TENON_SCALAR_TYPE_FLOAT8_E5M2FNUZ: _bindgen_ty_28 = 25;
pub const TENON_SCALAR_TYPE_FLOAT8_E4M3FNUZ: _bindgen_ty_28 = 26;
pub const TENON_SCALAR_TYPE_UINT16: _bindgen_ty_28 = 27;
pub const TENON_SCALAR_TYPE_UINT32: _bindgen_ty_28 = 28;
pub const TENON_SCALAR_TYPE_UINT64: _bindgen_ty_28 = 29;
pub const TENON_SCALAR_TYPE_UINT1: _bindgen_ty_28 = 30;
pub const TENON_SCALAR_TYPE_UINT2: _bindgen_ty_28 = 31;
pub const TENON_SCALAR_TYPE_UINT3: _bindgen_ty_28 = 32;
pub const TENON_SCALAR_TYPE_UINT4: _bindgen_ty_28 = 33;
pub const TENON_SCALAR_TYPE_UINT5: _bindgen_ty_28 = 34;
pub const TENON_SCALAR_TYPE_UINT6: _bindgen_ty_28 = 35;
pub const TENON_SCALAR_TYPE_UINT7: _bindgen_ty_28 = 36;
pub const TENON_SCALAR_TYPE_INT1: _bindgen_ty_28 = 37;
pub const TENON_SCALAR_TYPE_INT2: _bindgen_ty_28 = 38;
pub const TENON_SCALAR_TYPE_INT3: _bindgen_ty_28 = 39;
pub const TENON_SCALAR_TYPE_INT4: _bindgen_ty_28 = 40;
pub const TENON_SCALAR_TYPE_INT5: _bindgen_ty_28 = 41;
pub const TENON_SCALAR_TYPE_INT6: _bindgen_ty_28 = 42;
pub const TENON_SCALAR_TYPE_INT7: _bindgen_ty_28 = 43;
pub const TENON_SCALAR_TYPE_FLOAT8_E8M0FNU: _bindgen_ty_28 = 44;
pub const TENON_SCALAR_TYPE_FLOAT4_E2M1FN_X2: _bindgen_ty_28 = 45;
pub const TENON_SCALAR_TYPE_BCOMPLEX32: _bindgen_ty_28 = 46;
///PyTorch's element types and their numbers.
pub type _bindgen_ty_28 = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_value {
    _unused: [u8; 0],
}
pub const TENON_VALUE_NONE: _bindgen_ty_29 = 0;
pub const TENON_VALUE_BOOL: _bindgen_ty_29 = 1;
pub const TENON_VALUE_INT: _bindgen_ty_29 = 2;
pub const TENON_VALUE_FLOAT: _bindgen_ty_29 = 3;
pub const TENON_VALUE_COMPLEX: _bindgen_ty_29 = 4;
pub const TENON_VALUE_STR: _bindgen_ty_29 = 5;
pub const TENON_VALUE_DEVICE: _bindgen_ty_29 = 6;
pub const TENON_VALUE_TENSOR: _bindgen_ty_29 = 7;
pub const TENON_VALUE_TUPLE: _bindgen_ty_29 = 8;
pub const TENON_VALUE_LIST: _bindgen_ty_29 = 9;
pub const TENON_VALUE_DICT: _bindgen_ty_29 = 10;
pub const TENON_VALUE_ENUM: _bindgen_ty_29 = 11;
pub const TENON_VALUE_OBJECT: _bindgen_ty_29 = 12;
///The kinds of values.
pub type _bindgen_ty_29 = ::core::ffi::c_uint;
///The indices of COO, the row pointers of CSR and BSR, the column pointers of CSC and BSC.
pub const TENON_TENSOR_PART_INDICES: _bindgen_ty_30 = 1;
///The column indices of CSR and BSR, the row indices of CSC and BSC.
pub const TENON_TENSOR_PART_PLAIN_INDICES: _bindgen_ty_30 = 2;
///The values of every sparse tensor.
pub const TENON_TENSOR_PART_VALUES: _bindgen_ty_30 = 3;
///The scales of a tensor that is quantised per channel.
pub const TENON_TENSOR_PART_SCALES: _bindgen_ty_30 = 4;
///The zero points of a tensor that is quantised per channel.
pub const TENON_TENSOR_PART_ZERO_POINTS: _bindgen_ty_30 = 5;
///The tensors that make up a sparse or a quantised tensor.
pub type _bindgen_ty_30 = ::core::ffi::c_uint;
/**The full description of a tensor in PyTorch's terms, with properties that a tenon_tensor cannot
 express. Sizes, strides and `offset` are in elements.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_value_tensor_spec {
    ///sizeof(tenon_value_tensor_spec), set by the caller, also for output.
    pub struct_size: usize,
    /**TENON_SCALAR_TYPE_*. For a sparse tensor it is the type of its values, and it is ignored on
 input.*/
    pub scalar_type: tenon_scalar_type,
    ///TENON_TENSOR_LAYOUT_*.
    pub layout: i32,
    ///The number of dimensions, 0 to TENON_TENSOR_MAX_NDIM.
    pub ndim: i32,
    ///TENON_TENSOR_REQUIRES_GRAD, TENON_TENSOR_CONJ, TENON_TENSOR_NEG.
    pub flags: u32,
    ///ndim sizes, each >= 0. NULL if ndim is 0.
    pub sizes: *const i64,
    /**ndim strides, each >= 0. NULL on input means contiguous elements. On output it is NULL for a
 sparse tensor, and if ndim is 0.*/
    pub strides: *const i64,
    ///The distance from the first element of the storage to the element with index 0, 0, …
    pub offset: i64,
    ///The memory of the elements, borrowed. NULL for a sparse tensor and for a tensor on meta.
    pub storage: *mut tenon_storage,
    /**Where PyTorch's storage of the tensor begins, in bytes from the start of `storage`. PyTorch's
 storage can be a part of `storage`.*/
    pub storage_offset: u64,
    /**The size of PyTorch's storage in elements. 0 on input means the rest of `storage`, or, on meta,
 as many elements as the tensor needs.*/
    pub storage_numel: u64,
    ///"cpu", "cuda:0" or "meta", borrowed. NULL on input means the device of `storage`.
    pub device: *const ::core::ffi::c_char,
    ///The scale of a tensor that is quantised per tensor.
    pub scale: f64,
    ///The zero point of a tensor that is quantised per tensor.
    pub zero_point: i64,
    ///The dimension of the channels of a tensor that is quantised per channel.
    pub axis: i64,
    ///TENON_QUANTIZER_*.
    pub quantizer: i32,
    ///TENON_COALESCED_*, for a COO tensor.
    pub coalesced: i32,
    /**See TENON_TENSOR_PART_INDICES. This pointer and the next four are borrowed values of kind
 tensor. They are NULL on output: use tenon_value_tensor_part.*/
    pub indices: *mut tenon_value,
    ///See TENON_TENSOR_PART_PLAIN_INDICES. Borrowed, and NULL on output.
    pub plain_indices: *mut tenon_value,
    ///See TENON_TENSOR_PART_VALUES. Borrowed, and NULL on output.
    pub values: *mut tenon_value,
    ///See TENON_TENSOR_PART_SCALES. Borrowed, and NULL on output.
    pub scales: *mut tenon_value,
    ///See TENON_TENSOR_PART_ZERO_POINTS. Borrowed, and NULL on output.
    pub zero_points: *mut tenon_value,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_value_tensor_spec",
    ][::core::mem::size_of::<tenon_value_tensor_spec>() - 152usize];
    [
        "Alignment of tenon_value_tensor_spec",
    ][::core::mem::align_of::<tenon_value_tensor_spec>() - 8usize];
    [
        "Offset of field: tenon_value_tensor_spec::struct_size",
    ][::core::mem::offset_of!(tenon_value_tensor_spec, struct_size) - 0usize];
    [
        "Offset of field: tenon_value_tensor_spec::scalar_type",
    ][::core::mem::offset_of!(tenon_value_tensor_spec, scalar_type) - 8usize];
    [
        "Offset of field: tenon_value_tensor_spec::layout",
    ][::core::mem::offset_of!(tenon_value_tensor_spec, layout) - 12usize];
    [
        "Offset of field: tenon_value_tensor_spec::ndim",
    ][::core::mem::offset_of!(tenon_value_tensor_spec, ndim) - 16usize];
    [
        "Offset of field: tenon_value_tensor_spec::flags",
    ][::core::mem::offset_of!(tenon_value_tensor_spec, flags) - 20usize];
    [
        "Offset of field: tenon_value_tensor_spec::sizes",
    ][::core::mem::offset_of!(tenon_value_tensor_spec, sizes) - 24usize];
    [
        "Offset of field: tenon_value_tensor_spec::strides",
    ][::core::mem::offset_of!(tenon_value_tensor_spec, strides) - 32usize];
    [
        "Offset of field: tenon_value_tensor_spec::offset",
    ][::core::mem::offset_of!(tenon_value_tensor_spec, offset) - 40usize];
    [
        "Offset of field: tenon_value_tensor_spec::storage",
    ][::core::mem::offset_of!(tenon_value_tensor_spec, storage) - 48usize];
    [
        "Offset of field: tenon_value_tensor_spec::storage_offset",
    ][::core::mem::offset_of!(tenon_value_tensor_spec, storage_offset) - 56usize];
    [
        "Offset of field: tenon_value_tensor_spec::storage_numel",
    ][::core::mem::offset_of!(tenon_value_tensor_spec, storage_numel) - 64usize];
    [
        "Offset of field: tenon_value_tensor_spec::device",
    ][::core::mem::offset_of!(tenon_value_tensor_spec, device) - 72usize];
    [
        "Offset of field: tenon_value_tensor_spec::scale",
    ][::core::mem::offset_of!(tenon_value_tensor_spec, scale) - 80usize];
    [
        "Offset of field: tenon_value_tensor_spec::zero_point",
    ][::core::mem::offset_of!(tenon_value_tensor_spec, zero_point) - 88usize];
    [
        "Offset of field: tenon_value_tensor_spec::axis",
    ][::core::mem::offset_of!(tenon_value_tensor_spec, axis) - 96usize];
    [
        "Offset of field: tenon_value_tensor_spec::quantizer",
    ][::core::mem::offset_of!(tenon_value_tensor_spec, quantizer) - 104usize];
    [
        "Offset of field: tenon_value_tensor_spec::coalesced",
    ][::core::mem::offset_of!(tenon_value_tensor_spec, coalesced) - 108usize];
    [
        "Offset of field: tenon_value_tensor_spec::indices",
    ][::core::mem::offset_of!(tenon_value_tensor_spec, indices) - 112usize];
    [
        "Offset of field: tenon_value_tensor_spec::plain_indices",
    ][::core::mem::offset_of!(tenon_value_tensor_spec, plain_indices) - 120usize];
    [
        "Offset of field: tenon_value_tensor_spec::values",
    ][::core::mem::offset_of!(tenon_value_tensor_spec, values) - 128usize];
    [
        "Offset of field: tenon_value_tensor_spec::scales",
    ][::core::mem::offset_of!(tenon_value_tensor_spec, scales) - 136usize];
    [
        "Offset of field: tenon_value_tensor_spec::zero_points",
    ][::core::mem::offset_of!(tenon_value_tensor_spec, zero_points) - 144usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_module {
    _unused: [u8; 0],
}
pub const TENON_MEMBER_PARAMETER: _bindgen_ty_31 = 0;
pub const TENON_MEMBER_BUFFER: _bindgen_ty_31 = 1;
pub const TENON_MEMBER_ATTRIBUTE: _bindgen_ty_31 = 2;
pub const TENON_MEMBER_CONSTANT: _bindgen_ty_31 = 3;
pub const TENON_MEMBER_SUBMODULE: _bindgen_ty_31 = 4;
pub const TENON_MEMBER_METHOD: _bindgen_ty_31 = 5;
///The state of an object, or a part of that state.
pub const TENON_MEMBER_STATE: _bindgen_ty_31 = 6;
///The kinds of members of a module.
pub type _bindgen_ty_31 = ::core::ffi::c_uint;
///Parameters and buffers for which no tensor is given keep the tensors that they have.
pub const TENON_LOAD_ALLOW_MISSING: _bindgen_ty_32 = 1;
///Paths that the caller gives and that the module does not have are ignored.
pub const TENON_LOAD_ALLOW_UNEXPECTED: _bindgen_ty_32 = 2;
/**The call makes all checks and changes nothing. Combine it with the two flags above to get the
 lists of missing and unexpected paths, because without them the call fails.*/
pub const TENON_LOAD_CHECK_ONLY: _bindgen_ty_32 = 4;
pub type _bindgen_ty_32 = ::core::ffi::c_uint;
///One member of a module. Everything in it is borrowed from the list that gave it.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_member {
    ///sizeof(tenon_member), set by the caller.
    pub struct_size: usize,
    ///TENON_MEMBER_*.
    pub kind: i32,
    /**The member's name. For a state it is the part of the path from "state" on. In the list of
 tenon_module_tensors it is the tensor's path.*/
    pub name: *const ::core::ffi::c_char,
    ///The declared type. For a submodule it is the name of its class, for a method it is "".
    pub type_: *const ::core::ffi::c_char,
    /**The source of a method, or the text of a constant as the source of its class contains it. ""
 for other members.*/
    pub source: *const ::core::ffi::c_char,
    /**The value. NULL for a submodule, for a method, and for a constant whose text is neither a
 literal nor the name of one of tenon_module_constants. NULL for all attributes of a module that
 has a state instead of attributes (tenon_value_is_opaque).*/
    pub value: *mut tenon_value,
    ///The submodule. NULL for other members.
    pub module: *mut tenon_module,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of tenon_member"][::core::mem::size_of::<tenon_member>() - 56usize];
    ["Alignment of tenon_member"][::core::mem::align_of::<tenon_member>() - 8usize];
    [
        "Offset of field: tenon_member::struct_size",
    ][::core::mem::offset_of!(tenon_member, struct_size) - 0usize];
    [
        "Offset of field: tenon_member::kind",
    ][::core::mem::offset_of!(tenon_member, kind) - 8usize];
    [
        "Offset of field: tenon_member::name",
    ][::core::mem::offset_of!(tenon_member, name) - 16usize];
    [
        "Offset of field: tenon_member::type_",
    ][::core::mem::offset_of!(tenon_member, type_) - 24usize];
    [
        "Offset of field: tenon_member::source",
    ][::core::mem::offset_of!(tenon_member, source) - 32usize];
    [
        "Offset of field: tenon_member::value",
    ][::core::mem::offset_of!(tenon_member, value) - 40usize];
    [
        "Offset of field: tenon_member::module",
    ][::core::mem::offset_of!(tenon_member, module) - 48usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_member_list {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_name_list {
    _unused: [u8; 0],
}
///Bytes with a name: an extra file, or a file of code.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_file {
    pub name: *const ::core::ffi::c_char,
    ///NULL is allowed if nbytes is 0.
    pub data: *const ::core::ffi::c_void,
    ///How many bytes there are at data.
    pub nbytes: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of tenon_file"][::core::mem::size_of::<tenon_file>() - 24usize];
    ["Alignment of tenon_file"][::core::mem::align_of::<tenon_file>() - 8usize];
    [
        "Offset of field: tenon_file::name",
    ][::core::mem::offset_of!(tenon_file, name) - 0usize];
    [
        "Offset of field: tenon_file::data",
    ][::core::mem::offset_of!(tenon_file, data) - 8usize];
    [
        "Offset of field: tenon_file::nbytes",
    ][::core::mem::offset_of!(tenon_file, nbytes) - 16usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_file_list {
    _unused: [u8; 0],
}
///The system writes the file at some later time.
pub const TENON_DURABILITY_NONE: _bindgen_ty_33 = 0;
///The export calls fsync on the file.
pub const TENON_DURABILITY_FILE: _bindgen_ty_33 = 1;
///The export calls fsync on the file and on the directory that names it.
pub const TENON_DURABILITY_FILE_AND_DIRECTORY: _bindgen_ty_33 = 2;
///Whether the file is certainly on the disk when an export returns.
pub type _bindgen_ty_33 = ::core::ffi::c_uint;
/**The export writes the code as it is, without the check of tenon_module_check. An archive that
 was imported and whose code has not changed is never checked. With bytecode of a version below
 8, which is for an old PyTorch, the check also accepts calls that the newest PyTorch refuses
 and PyTorch 1.13 accepts.*/
pub const TENON_EXPORT_UNCHECKED: _bindgen_ty_34 = 1;
/**Tensors on a CUDA device are written as tensors of that device, such as "cuda:0". A machine
 without such a device cannot load them. Without this flag they are written as tensors of the
 CPU.*/
pub const TENON_EXPORT_KEEP_DEVICE: _bindgen_ty_34 = 2;
/**The export writes debug tables, from which PyTorch's errors name modules and source lines.
 - With TENON_BYTECODE_COMPILE it makes tables for the new bytecode. Their lines are those of
   the files from which the module was made, if the import read the archive's tables
   (TENON_IMPORT_DEBUG_TABLES) and the code was not changed. Otherwise their lines are those of
   the archive's own code.
 - Without TENON_BYTECODE_COMPILE it writes all tables of the archive from which the module
   came, or none if the code was changed or if the export does not write the bytecode to which
   some tables belong.

 Tables of an archive contain absolute paths of the person who saved the module.*/
pub const TENON_EXPORT_DEBUG_TABLES: _bindgen_ty_34 = 4;
/**The export writes PyTorch's flatbuffer form instead of a zip archive: one buffer with the
 bytecode, the values, the code and the extra files. torch.jit.load and the lite loader of
 PyTorch 1.13 and later read this form. It always has bytecode: if the module's archive has none
 that fits, the export makes new bytecode. It has no debug tables and says nothing about
 devices. The whole buffer is in memory until it is written.

 TENON_UNSUPPORTED for contents that the form cannot hold: 2 GiB or more, tensors that are
 sparse, meta or lazily conjugated, and a size, stride or offset of 2^31 elements or more.
 TENON_UNSUPPORTED too if the library was built without FlatBuffers.*/
pub const TENON_EXPORT_FLATBUFFER: _bindgen_ty_34 = 8;
pub type _bindgen_ty_34 = ::core::ffi::c_uint;
/**The export writes the bytecode of the archive from which the module came, if it still fits: the
 code, the version and the order of attributes must be those of that archive. The weights may
 differ.*/
pub const TENON_BYTECODE_KEEP: _bindgen_ty_35 = 0;
///The export writes no bytecode.
pub const TENON_BYTECODE_DROP: _bindgen_ty_35 = 1;
///The export compiles bytecode from the code, whether or not the archive had any.
pub const TENON_BYTECODE_COMPILE: _bindgen_ty_35 = 2;
///How an export treats bytecode, which the lite interpreter of PyTorch runs.
pub type _bindgen_ty_35 = ::core::ffi::c_uint;
/**Each call of an operator passes all arguments, also those that equal their defaults. PyTorch:
 default_value_for_unspecified_arg.*/
pub const TENON_EMIT_DEFAULT_INPUTS: _bindgen_ty_36 = 1;
/**A call of an operator with an `out` argument passes all arguments before `out`, also those that
 equal their defaults. PyTorch: default_args_before_out_args is off.*/
pub const TENON_EMIT_DEFAULTS_BEFORE_OUT: _bindgen_ty_36 = 2;
/**The bytecode calls operators such as aten::dim like all others, although bytecode of version 8
 has instructions for them. PyTorch: emit_promoted_ops is off.*/
pub const TENON_EMIT_PLAIN_OPERATORS: _bindgen_ty_36 = 4;
/**Methods that are called through an interface get no functions. Such a call fails at run time.
 PyTorch: mobile_interface_call_export is off.*/
pub const TENON_EMIT_NO_INTERFACE_METHODS: _bindgen_ty_36 = 8;
/**A forked function runs at the place of the fork, in the same thread, and waiting for it gives
 its result. Its exception comes from fork and not from wait. The lite interpreter has no fork:
 without this switch, code that forks is TENON_UNSUPPORTED.*/
pub const TENON_EMIT_FORKS_AT_ONCE: _bindgen_ty_36 = 16;
/**The form of the bytecode of TENON_BYTECODE_COMPILE. PyTorch's exporter has the first four
 switches too. The first three do not change what the bytecode does in PyTorch 1.13 or later.*/
pub type _bindgen_ty_36 = ::core::ffi::c_uint;
/**The tensors are read-only views of the file. A tensor that cannot be a view is copied, and
 tenon_import_report counts the reasons. Neither the views nor these copies can be lent.*/
pub const TENON_IMPORT_MAP: _bindgen_ty_37 = 0;
///As TENON_IMPORT_MAP, but the views are writable. Writes stay in this process.
pub const TENON_IMPORT_MAP_PRIVATE: _bindgen_ty_37 = 1;
///The tensors are copied into storages that can be lent, in an arena if one is given.
pub const TENON_IMPORT_FILL: _bindgen_ty_37 = 2;
/**The tensors are copied to a CUDA device, where they can be lent. Without a device_map they lie
 in one allocation, which is freed with the last tensor in it.*/
pub const TENON_IMPORT_DEVICE: _bindgen_ty_37 = 3;
///Where an import puts tensors.
pub type _bindgen_ty_37 = ::core::ffi::c_uint;
/**The import reads the debug tables too, so that an export can write them
 (TENON_EXPORT_DEBUG_TABLES).*/
pub const TENON_IMPORT_DEBUG_TABLES: _bindgen_ty_38 = 1;
pub type _bindgen_ty_38 = ::core::ffi::c_uint;
/**The directory of the zip file, all headers, bounds, overlaps and references, and the checksums
 of pickles and code.*/
pub const TENON_IMPORT_CHECK_STRUCTURE: _bindgen_ty_39 = 0;
///As TENON_IMPORT_CHECK_STRUCTURE, and the checksum of each tensor that is copied.
pub const TENON_IMPORT_CHECK_FILL: _bindgen_ty_39 = 1;
/**As TENON_IMPORT_CHECK_STRUCTURE, and the checksum of every record. A flatbuffer has no
 checksums. Its code and bytecode are read and checked in the import, and not at the first use
 of the module (tenon/module.h).*/
pub const TENON_IMPORT_CHECK_ALL: _bindgen_ty_39 = 2;
///The level of an import: how much of the file it verifies.
pub type _bindgen_ty_39 = ::core::ffi::c_uint;
/**A function that receives the bytes of an archive, in order and at most 1 GiB in one call. It must
 not throw and cannot change the module.
 @return nbytes if the function has taken all bytes. A negative errno ends the export with the
         code that this errno gives for a file: -ENOSPC gives TENON_RESOURCE_EXHAUSTED, most
         others give TENON_IO. Any other number ends the export with TENON_IO.*/
pub type tenon_write_function = ::core::option::Option<
    unsafe extern "C" fn(
        context: *mut ::core::ffi::c_void,
        data: *const ::core::ffi::c_void,
        nbytes: usize,
    ) -> i64,
>;
/**A function that gives more extra files. Each export calls it once, before anything is written.
 Files whose names the export has already are skipped. The function must not throw and cannot
 change the module.
 @return TENON_OK, and then *files and *n, which must stay valid until the export returns. Any
         other code ends the export with that code.*/
pub type tenon_extra_files_hook = ::core::option::Option<
    unsafe extern "C" fn(
        context: *mut ::core::ffi::c_void,
        module: *const tenon_module,
        files: *mut *const tenon_file,
        n: *mut usize,
    ) -> tenon_status,
>;
///How to export. A NULL pointer to these options means that all fields are zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_export_options {
    ///sizeof(tenon_export_options), set by the caller.
    pub struct_size: usize,
    /**An array of n_extra_files files for this export only, borrowed for the call. They replace the
 module's own extra files of the same names.*/
    pub extra_files: *const tenon_file,
    ///How many files there are in extra_files.
    pub n_extra_files: usize,
    ///A function that gives more extra files. May be NULL.
    pub hook: tenon_extra_files_hook,
    ///Handed to `hook`.
    pub hook_context: *mut ::core::ffi::c_void,
    /**The folder inside the archive. NULL means the name of the file without its extension, or
 "archive" for an export that has no path. With TENON_EXPORT_FLATBUFFER it must be NULL.*/
    pub archive_name: *const ::core::ffi::c_char,
    /**The version of the archive. 0 means the version by the rule of docs/format/archive.md. A number
 from 1 to 10 is used as it is. The export is refused if some code would mean something else in
 that version.*/
    pub file_version: i32,
    ///TENON_DURABILITY_*. Must be 0 unless the export writes to a path.
    pub durability: i32,
    ///TENON_EXPORT_*.
    pub flags: u32,
    /**The stream in which tensors on a CUDA device were written, borrowed for the call. NULL means
 the default stream.*/
    pub stream: *mut ::core::ffi::c_void,
    ///TENON_BYTECODE_*.
    pub bytecode: i32,
    /**For TENON_BYTECODE_COMPILE: the methods of the module that get bytecode, with commas between
 them, such as "forward,predict". Their bytecode includes the methods and functions that they
 call. NULL means all methods. Otherwise it must be NULL.*/
    pub methods: *const ::core::ffi::c_char,
    /**For TENON_BYTECODE_COMPILE: the version of the bytecode. A runtime refuses bytecode that is
 newer than itself. The versions 4 to 7 are for the runtimes of old PyTorch versions
 (docs/format/bytecode.md). 0 means 8, the version that PyTorch writes. Otherwise it must be 0.*/
    pub bytecode_version: i32,
    ///For TENON_BYTECODE_COMPILE: TENON_EMIT_*. Otherwise it must be 0.
    pub emit_flags: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_export_options",
    ][::core::mem::size_of::<tenon_export_options>() - 96usize];
    [
        "Alignment of tenon_export_options",
    ][::core::mem::align_of::<tenon_export_options>() - 8usize];
    [
        "Offset of field: tenon_export_options::struct_size",
    ][::core::mem::offset_of!(tenon_export_options, struct_size) - 0usize];
    [
        "Offset of field: tenon_export_options::extra_files",
    ][::core::mem::offset_of!(tenon_export_options, extra_files) - 8usize];
    [
        "Offset of field: tenon_export_options::n_extra_files",
    ][::core::mem::offset_of!(tenon_export_options, n_extra_files) - 16usize];
    [
        "Offset of field: tenon_export_options::hook",
    ][::core::mem::offset_of!(tenon_export_options, hook) - 24usize];
    [
        "Offset of field: tenon_export_options::hook_context",
    ][::core::mem::offset_of!(tenon_export_options, hook_context) - 32usize];
    [
        "Offset of field: tenon_export_options::archive_name",
    ][::core::mem::offset_of!(tenon_export_options, archive_name) - 40usize];
    [
        "Offset of field: tenon_export_options::file_version",
    ][::core::mem::offset_of!(tenon_export_options, file_version) - 48usize];
    [
        "Offset of field: tenon_export_options::durability",
    ][::core::mem::offset_of!(tenon_export_options, durability) - 52usize];
    [
        "Offset of field: tenon_export_options::flags",
    ][::core::mem::offset_of!(tenon_export_options, flags) - 56usize];
    [
        "Offset of field: tenon_export_options::stream",
    ][::core::mem::offset_of!(tenon_export_options, stream) - 64usize];
    [
        "Offset of field: tenon_export_options::bytecode",
    ][::core::mem::offset_of!(tenon_export_options, bytecode) - 72usize];
    [
        "Offset of field: tenon_export_options::methods",
    ][::core::mem::offset_of!(tenon_export_options, methods) - 80usize];
    [
        "Offset of field: tenon_export_options::bytecode_version",
    ][::core::mem::offset_of!(tenon_export_options, bytecode_version) - 88usize];
    [
        "Offset of field: tenon_export_options::emit_flags",
    ][::core::mem::offset_of!(tenon_export_options, emit_flags) - 92usize];
};
///The report of an export.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_export_report {
    ///sizeof(tenon_export_report), set by the caller.
    pub struct_size: usize,
    ///The size of the archive in bytes.
    pub nbytes: u64,
    ///The number of records in the archive. 0 for a flatbuffer.
    pub records: u64,
    ///The archive's version, which says what its operators mean.
    pub version: i32,
    ///How many files of the hook were skipped because their names were in use.
    pub skipped_files: u32,
    /**The oldest PyTorch that can run the archive, as far as operators and element types tell, such
 as "1.13". "" if that is not known.*/
    pub oldest_pytorch: [::core::ffi::c_char; 16usize],
    ///The number of functions in the archive's bytecode. 0 if it has none.
    pub bytecode_functions: u32,
    ///The number of debug tables that were written.
    pub debug_tables: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_export_report",
    ][::core::mem::size_of::<tenon_export_report>() - 56usize];
    [
        "Alignment of tenon_export_report",
    ][::core::mem::align_of::<tenon_export_report>() - 8usize];
    [
        "Offset of field: tenon_export_report::struct_size",
    ][::core::mem::offset_of!(tenon_export_report, struct_size) - 0usize];
    [
        "Offset of field: tenon_export_report::nbytes",
    ][::core::mem::offset_of!(tenon_export_report, nbytes) - 8usize];
    [
        "Offset of field: tenon_export_report::records",
    ][::core::mem::offset_of!(tenon_export_report, records) - 16usize];
    [
        "Offset of field: tenon_export_report::version",
    ][::core::mem::offset_of!(tenon_export_report, version) - 24usize];
    [
        "Offset of field: tenon_export_report::skipped_files",
    ][::core::mem::offset_of!(tenon_export_report, skipped_files) - 28usize];
    [
        "Offset of field: tenon_export_report::oldest_pytorch",
    ][::core::mem::offset_of!(tenon_export_report, oldest_pytorch) - 32usize];
    [
        "Offset of field: tenon_export_report::bytecode_functions",
    ][::core::mem::offset_of!(tenon_export_report, bytecode_functions) - 48usize];
    [
        "Offset of field: tenon_export_report::debug_tables",
    ][::core::mem::offset_of!(tenon_export_report, debug_tables) - 52usize];
};
///How to import. A NULL pointer to these options means that all fields are zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_import_options {
    ///sizeof(tenon_import_options), set by the caller.
    pub struct_size: usize,
    ///Where the tensors go: TENON_IMPORT_MAP, MAP_PRIVATE, FILL or DEVICE.
    pub tensors: i32,
    ///TENON_IMPORT_CHECK_*.
    pub check: i32,
    /**For TENON_IMPORT_FILL: the arena for the copies, borrowed for the call. NULL means one of the
 library's own arenas. Otherwise it must be NULL.*/
    pub arena: *mut tenon_arena,
    /**For TENON_IMPORT_FILL: the mode of the copies. With an arena it must be 0 or the arena's mode.
 Otherwise it must be 0.*/
    pub mode: tenon_mode,
    ///For TENON_IMPORT_DEVICE: the device's ordinal in this process's numbering. Otherwise 0.
    pub device: i32,
    ///The most bytes that all compressed records together may have when inflated. 0 means 1 GiB.
    pub max_inflated_nbytes: u64,
    ///The most records. 0 means 1,000,000.
    pub max_records: u64,
    ///How deep values may be nested in values, up to 1,000. 0 means 512.
    pub max_depth: u64,
    /**Where to put tensors that were saved on certain devices. It is a list of pairs such as
 "cuda:1=cuda:0,mps=cpu", borrowed for the call. The left side of a pair is a device as the
 archive names it, or a kind of device ("cuda"), which stands for each number that has no pair
 of its own. The right side is "cpu", or a CUDA device by its ordinal in this process, to which
 the tensors are copied. Tensors of devices without a pair go where `tensors` says: to the
 device with TENON_IMPORT_DEVICE, otherwise to the CPU. NULL means no pairs.*/
    pub device_map: *const ::core::ffi::c_char,
    ///TENON_IMPORT_DEBUG_TABLES, or 0.
    pub flags: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_import_options",
    ][::core::mem::size_of::<tenon_import_options>() - 72usize];
    [
        "Alignment of tenon_import_options",
    ][::core::mem::align_of::<tenon_import_options>() - 8usize];
    [
        "Offset of field: tenon_import_options::struct_size",
    ][::core::mem::offset_of!(tenon_import_options, struct_size) - 0usize];
    [
        "Offset of field: tenon_import_options::tensors",
    ][::core::mem::offset_of!(tenon_import_options, tensors) - 8usize];
    [
        "Offset of field: tenon_import_options::check",
    ][::core::mem::offset_of!(tenon_import_options, check) - 12usize];
    [
        "Offset of field: tenon_import_options::arena",
    ][::core::mem::offset_of!(tenon_import_options, arena) - 16usize];
    [
        "Offset of field: tenon_import_options::mode",
    ][::core::mem::offset_of!(tenon_import_options, mode) - 24usize];
    [
        "Offset of field: tenon_import_options::device",
    ][::core::mem::offset_of!(tenon_import_options, device) - 28usize];
    [
        "Offset of field: tenon_import_options::max_inflated_nbytes",
    ][::core::mem::offset_of!(tenon_import_options, max_inflated_nbytes) - 32usize];
    [
        "Offset of field: tenon_import_options::max_records",
    ][::core::mem::offset_of!(tenon_import_options, max_records) - 40usize];
    [
        "Offset of field: tenon_import_options::max_depth",
    ][::core::mem::offset_of!(tenon_import_options, max_depth) - 48usize];
    [
        "Offset of field: tenon_import_options::device_map",
    ][::core::mem::offset_of!(tenon_import_options, device_map) - 56usize];
    [
        "Offset of field: tenon_import_options::flags",
    ][::core::mem::offset_of!(tenon_import_options, flags) - 64usize];
};
///The report of an import.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_import_report {
    ///sizeof(tenon_import_report), set by the caller.
    pub struct_size: usize,
    ///The archive's version, which says what its operators mean. 0: the module was not imported.
    pub version: i32,
    ///The number of records in the archive. For a flatbuffer it is the number of storages.
    pub records: u32,
    ///The number of storages that are views of the file.
    pub mapped_storages: u64,
    ///The bytes in these storages.
    pub mapped_nbytes: u64,
    ///The number of storages that were copied.
    pub filled_storages: u64,
    ///The bytes in these storages.
    pub filled_nbytes: u64,
    ///How many storages had to be copied because of their alignment in the file.
    pub misaligned: u64,
    ///How many storages had to be copied because they are compressed.
    pub compressed: u64,
    ///How many storages had to be copied because they have the other byte order.
    pub foreign_endian: u64,
    ///How many records have no checksum, because their writer computed none.
    pub without_crc: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_import_report",
    ][::core::mem::size_of::<tenon_import_report>() - 80usize];
    [
        "Alignment of tenon_import_report",
    ][::core::mem::align_of::<tenon_import_report>() - 8usize];
    [
        "Offset of field: tenon_import_report::struct_size",
    ][::core::mem::offset_of!(tenon_import_report, struct_size) - 0usize];
    [
        "Offset of field: tenon_import_report::version",
    ][::core::mem::offset_of!(tenon_import_report, version) - 8usize];
    [
        "Offset of field: tenon_import_report::records",
    ][::core::mem::offset_of!(tenon_import_report, records) - 12usize];
    [
        "Offset of field: tenon_import_report::mapped_storages",
    ][::core::mem::offset_of!(tenon_import_report, mapped_storages) - 16usize];
    [
        "Offset of field: tenon_import_report::mapped_nbytes",
    ][::core::mem::offset_of!(tenon_import_report, mapped_nbytes) - 24usize];
    [
        "Offset of field: tenon_import_report::filled_storages",
    ][::core::mem::offset_of!(tenon_import_report, filled_storages) - 32usize];
    [
        "Offset of field: tenon_import_report::filled_nbytes",
    ][::core::mem::offset_of!(tenon_import_report, filled_nbytes) - 40usize];
    [
        "Offset of field: tenon_import_report::misaligned",
    ][::core::mem::offset_of!(tenon_import_report, misaligned) - 48usize];
    [
        "Offset of field: tenon_import_report::compressed",
    ][::core::mem::offset_of!(tenon_import_report, compressed) - 56usize];
    [
        "Offset of field: tenon_import_report::foreign_endian",
    ][::core::mem::offset_of!(tenon_import_report, foreign_endian) - 64usize];
    [
        "Offset of field: tenon_import_report::without_crc",
    ][::core::mem::offset_of!(tenon_import_report, without_crc) - 72usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_package {
    _unused: [u8; 0],
}
///One resource of a package that is written: a module, or a file.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_package_entry {
    ///The name of the record, such as "models/net.pkl". Borrowed.
    pub name: *const ::core::ffi::c_char,
    ///A module, borrowed. NULL means a file with the bytes at `data`.
    pub module: *const tenon_module,
    ///The bytes of a file, borrowed. NULL for a module.
    pub data: *const ::core::ffi::c_void,
    ///How many bytes there are at `data`. 0 for a module.
    pub nbytes: usize,
    ///Must be 0.
    pub reserved: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_package_entry",
    ][::core::mem::size_of::<tenon_package_entry>() - 40usize];
    [
        "Alignment of tenon_package_entry",
    ][::core::mem::align_of::<tenon_package_entry>() - 8usize];
    [
        "Offset of field: tenon_package_entry::name",
    ][::core::mem::offset_of!(tenon_package_entry, name) - 0usize];
    [
        "Offset of field: tenon_package_entry::module",
    ][::core::mem::offset_of!(tenon_package_entry, module) - 8usize];
    [
        "Offset of field: tenon_package_entry::data",
    ][::core::mem::offset_of!(tenon_package_entry, data) - 16usize];
    [
        "Offset of field: tenon_package_entry::nbytes",
    ][::core::mem::offset_of!(tenon_package_entry, nbytes) - 24usize];
    [
        "Offset of field: tenon_package_entry::reserved",
    ][::core::mem::offset_of!(tenon_package_entry, reserved) - 32usize];
};
///How to write a package. A NULL pointer to these options means that all fields are zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_package_options {
    ///sizeof(tenon_package_options), set by the caller.
    pub struct_size: usize,
    ///TENON_EXPORT_UNCHECKED, TENON_EXPORT_KEEP_DEVICE.
    pub flags: u32,
    ///TENON_DURABILITY_*.
    pub durability: i32,
    /**A package, borrowed for the call. Everything in it that no entry replaces is written again: its
 modules as they are now, and all other records byte for byte. A module of the base that no
 record of the new package needs is left out, and so is its storage. NULL means no base.*/
    pub base: *mut tenon_package,
    /**Names of Python modules that the package's pickles need and the package does not contain, such
 as "numpy". Borrowed. The names of the base, and the name that script modules need, are written
 anyway.*/
    pub externs: *const *const ::core::ffi::c_char,
    ///How many names there are.
    pub n_externs: usize,
    /**The name of the folder in the zip file, borrowed. NULL means the file's name without its
 extension.*/
    pub archive_name: *const ::core::ffi::c_char,
    ///As in tenon_export_options.
    pub stream: *mut ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_package_options",
    ][::core::mem::size_of::<tenon_package_options>() - 56usize];
    [
        "Alignment of tenon_package_options",
    ][::core::mem::align_of::<tenon_package_options>() - 8usize];
    [
        "Offset of field: tenon_package_options::struct_size",
    ][::core::mem::offset_of!(tenon_package_options, struct_size) - 0usize];
    [
        "Offset of field: tenon_package_options::flags",
    ][::core::mem::offset_of!(tenon_package_options, flags) - 8usize];
    [
        "Offset of field: tenon_package_options::durability",
    ][::core::mem::offset_of!(tenon_package_options, durability) - 12usize];
    [
        "Offset of field: tenon_package_options::base",
    ][::core::mem::offset_of!(tenon_package_options, base) - 16usize];
    [
        "Offset of field: tenon_package_options::externs",
    ][::core::mem::offset_of!(tenon_package_options, externs) - 24usize];
    [
        "Offset of field: tenon_package_options::n_externs",
    ][::core::mem::offset_of!(tenon_package_options, n_externs) - 32usize];
    [
        "Offset of field: tenon_package_options::archive_name",
    ][::core::mem::offset_of!(tenon_package_options, archive_name) - 40usize];
    [
        "Offset of field: tenon_package_options::stream",
    ][::core::mem::offset_of!(tenon_package_options, stream) - 48usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_shared_weights {
    _unused: [u8; 0],
}
/**Admit members of options.group besides the user and root, and accept a server that is a member
 of that group. It needs options.directory.*/
pub const TENON_SHARED_WEIGHTS_GROUP: _bindgen_ty_40 = 1;
/**For tenon_publish_shared_weights_values: the version lies in LENDER_WRITES memory, which nobody
 but this process can write. A later version with this flag is written into the memory of an
 older version of this process that nobody has any more, because fresh memory costs several
 times as much as the copy. Two buffers alternate, and there are more of them only while readers
 hold older versions. The buffers are given back when this process has released all versions of
 the name that it published with this flag, so release a version after the next one is
 published.

 A tensor keeps its version, and so do the lease of a connection, an fd of tenon_share_fd and
 the mapping that a child of fork inherits. The kernel tells whether there are any. Before Linux
 5.3 it cannot, and then no memory is written again.*/
pub const TENON_SHARED_WEIGHTS_REUSE: _bindgen_ty_40 = 2;
pub type _bindgen_ty_40 = ::core::ffi::c_uint;
/**Called on the thread of tenon_open_shared_weights while this process loads the file, and while it
 waits for the process that loads it. It must not throw or longjmp, and may not fork.
 @param[in] context  options.progress_context.
 @param[in] done     the bytes that are loaded.
 @param[in] total    the bytes of the file.*/
pub type tenon_shared_weights_progress = ::core::option::Option<
    unsafe extern "C" fn(context: *mut ::core::ffi::c_void, done: u64, total: u64),
>;
///How to open shared weights. A NULL pointer means that all fields are zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_shared_weights_options {
    ///sizeof(tenon_shared_weights_options), set by the caller.
    pub struct_size: usize,
    ///TENON_SHARED_WEIGHTS_*.
    pub flags: u32,
    ///The group id for TENON_SHARED_WEIGHTS_GROUP. Without that flag it must be 0.
    pub group: u32,
    /**Borrowed: the absolute path of a directory of this machine. All processes that share a name
 must name the same directory. NULL means /dev/shm/tenon-weights-UID.*/
    pub directory: *const ::core::ffi::c_char,
    ///The largest file that this process loads, or index with its shards. 0 means no limit.
    pub max_nbytes: u64,
    ///May be NULL.
    pub progress: tenon_shared_weights_progress,
    ///The first argument of `progress`.
    pub progress_context: *mut ::core::ffi::c_void,
    /**Borrowed: the device in whose memory the weights lie, "cpu" or "cuda:N". N is the number of
 the device in this process. NULL means "cpu". A name on a device means other weights than the
 same name on another device or on the CPU. A process may call the device by another number
 than its peers, because the files of the name have the UUID of the device. The file is streamed
 to the device, and is never whole in the memory of the CPU.*/
    pub device: *const ::core::ffi::c_char,
    /**The most bytes that the weights of all names in the directory may have together. A load or a
 publication that would exceed it is refused before it begins. All versions that a process has
 count, and so do those that are still being loaded. 0 means no limit.*/
    pub budget_nbytes: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_shared_weights_options",
    ][::core::mem::size_of::<tenon_shared_weights_options>() - 64usize];
    [
        "Alignment of tenon_shared_weights_options",
    ][::core::mem::align_of::<tenon_shared_weights_options>() - 8usize];
    [
        "Offset of field: tenon_shared_weights_options::struct_size",
    ][::core::mem::offset_of!(tenon_shared_weights_options, struct_size) - 0usize];
    [
        "Offset of field: tenon_shared_weights_options::flags",
    ][::core::mem::offset_of!(tenon_shared_weights_options, flags) - 8usize];
    [
        "Offset of field: tenon_shared_weights_options::group",
    ][::core::mem::offset_of!(tenon_shared_weights_options, group) - 12usize];
    [
        "Offset of field: tenon_shared_weights_options::directory",
    ][::core::mem::offset_of!(tenon_shared_weights_options, directory) - 16usize];
    [
        "Offset of field: tenon_shared_weights_options::max_nbytes",
    ][::core::mem::offset_of!(tenon_shared_weights_options, max_nbytes) - 24usize];
    [
        "Offset of field: tenon_shared_weights_options::progress",
    ][::core::mem::offset_of!(tenon_shared_weights_options, progress) - 32usize];
    [
        "Offset of field: tenon_shared_weights_options::progress_context",
    ][::core::mem::offset_of!(tenon_shared_weights_options, progress_context) - 40usize];
    [
        "Offset of field: tenon_shared_weights_options::device",
    ][::core::mem::offset_of!(tenon_shared_weights_options, device) - 48usize];
    [
        "Offset of field: tenon_shared_weights_options::budget_nbytes",
    ][::core::mem::offset_of!(tenon_shared_weights_options, budget_nbytes) - 56usize];
};
///Facts about shared weights. They change when other processes come and go.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_shared_weights_info {
    ///sizeof(tenon_shared_weights_info), set by the caller.
    pub struct_size: usize,
    ///The bytes of the shared memory.
    pub nbytes: u64,
    ///The size of the file when it was loaded. For an index: the sum with its shards.
    pub file_nbytes: u64,
    ///When the file was last changed before it was loaded, since 1970.
    pub file_mtime_ns: i64,
    ///The CRC-32 of the first MiB of the file.
    pub file_crc: u64,
    ///The version of the weights under this name. The first one is 1.
    pub version: u64,
    ///How many tensors there are.
    pub count: u64,
    ///1: this object loaded the file. 0: it found the weights in memory.
    pub loaded: u32,
    ///1: this process hands the weights to others now.
    pub serves: u32,
    ///The process that loaded the file. It may have ended.
    pub loader_pid: i32,
    /**The process that hands the weights to others. 0: it has ended, and its successor is being
  chosen, or this process is a child of fork.*/
    pub server_pid: i32,
    /**If `serves` is 1: how many processes have the weights. Otherwise how many there were when this
  process came.*/
    pub holders: u32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_shared_weights_info",
    ][::core::mem::size_of::<tenon_shared_weights_info>() - 80usize];
    [
        "Alignment of tenon_shared_weights_info",
    ][::core::mem::align_of::<tenon_shared_weights_info>() - 8usize];
    [
        "Offset of field: tenon_shared_weights_info::struct_size",
    ][::core::mem::offset_of!(tenon_shared_weights_info, struct_size) - 0usize];
    [
        "Offset of field: tenon_shared_weights_info::nbytes",
    ][::core::mem::offset_of!(tenon_shared_weights_info, nbytes) - 8usize];
    [
        "Offset of field: tenon_shared_weights_info::file_nbytes",
    ][::core::mem::offset_of!(tenon_shared_weights_info, file_nbytes) - 16usize];
    [
        "Offset of field: tenon_shared_weights_info::file_mtime_ns",
    ][::core::mem::offset_of!(tenon_shared_weights_info, file_mtime_ns) - 24usize];
    [
        "Offset of field: tenon_shared_weights_info::file_crc",
    ][::core::mem::offset_of!(tenon_shared_weights_info, file_crc) - 32usize];
    [
        "Offset of field: tenon_shared_weights_info::version",
    ][::core::mem::offset_of!(tenon_shared_weights_info, version) - 40usize];
    [
        "Offset of field: tenon_shared_weights_info::count",
    ][::core::mem::offset_of!(tenon_shared_weights_info, count) - 48usize];
    [
        "Offset of field: tenon_shared_weights_info::loaded",
    ][::core::mem::offset_of!(tenon_shared_weights_info, loaded) - 56usize];
    [
        "Offset of field: tenon_shared_weights_info::serves",
    ][::core::mem::offset_of!(tenon_shared_weights_info, serves) - 60usize];
    [
        "Offset of field: tenon_shared_weights_info::loader_pid",
    ][::core::mem::offset_of!(tenon_shared_weights_info, loader_pid) - 64usize];
    [
        "Offset of field: tenon_shared_weights_info::server_pid",
    ][::core::mem::offset_of!(tenon_shared_weights_info, server_pid) - 68usize];
    [
        "Offset of field: tenon_shared_weights_info::holders",
    ][::core::mem::offset_of!(tenon_shared_weights_info, holders) - 72usize];
    [
        "Offset of field: tenon_shared_weights_info::reserved",
    ][::core::mem::offset_of!(tenon_shared_weights_info, reserved) - 76usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_weights {
    _unused: [u8; 0],
}
///A safetensors file, as the package safetensors writes it (docs/format/safetensors.md).
pub const TENON_WEIGHTS_SAFETENSORS: _bindgen_ty_41 = 0;
/**A file as torch.save writes it of a dict of tensors. torch.load reads it, also with
  weights_only=True. Tensors whose memory overlaps share a storage in the file.*/
pub const TENON_WEIGHTS_TORCH_SAVE: _bindgen_ty_41 = 1;
/**An archive of arrays (.npz) as numpy.savez writes it. numpy.load reads it. NumPy has no
  bfloat16 and no 8-bit floats.*/
pub const TENON_WEIGHTS_NPZ: _bindgen_ty_41 = 2;
///The forms of file that tenon_save_weights writes.
pub type _bindgen_ty_41 = ::core::ffi::c_uint;
/**For TENON_WEIGHTS_SAFETENSORS and TENON_WEIGHTS_NPZ: write each tensor with its own elements,
 also where tensors share memory. Without this flag such tensors are refused.*/
pub const TENON_SAVE_DUPLICATE_SHARED: _bindgen_ty_42 = 1;
pub type _bindgen_ty_42 = ::core::ffi::c_uint;
/**Called on the thread of tenon_save_weights, after each few MiB and at the end. It must not throw
 or longjmp, and may not fork.
 @param[in] context  options.progress_context.
 @param[in] done     the bytes of elements that are written.
 @param[in] total    the bytes of elements of all tensors.*/
pub type tenon_save_progress = ::core::option::Option<
    unsafe extern "C" fn(context: *mut ::core::ffi::c_void, done: u64, total: u64),
>;
///How to save weights. A NULL pointer to these options means that all fields are zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_save_weights_options {
    ///sizeof(tenon_save_weights_options), set by the caller.
    pub struct_size: usize,
    ///TENON_WEIGHTS_*.
    pub form: i32,
    ///TENON_DURABILITY_*.
    pub durability: i32,
    ///TENON_SAVE_*.
    pub flags: u32,
    ///Must be 0.
    pub reserved: u32,
    /**Borrowed: the keys and texts of a safetensors file's `__metadata__`, `metadata_count` of each.
  A key may not come twice.*/
    pub metadata_keys: *const *const ::core::ffi::c_char,
    pub metadata_texts: *const *const ::core::ffi::c_char,
    ///0 unless the form is TENON_WEIGHTS_SAFETENSORS.
    pub metadata_count: usize,
    ///May be NULL.
    pub progress: tenon_save_progress,
    ///The first argument of `progress`.
    pub progress_context: *mut ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_save_weights_options",
    ][::core::mem::size_of::<tenon_save_weights_options>() - 64usize];
    [
        "Alignment of tenon_save_weights_options",
    ][::core::mem::align_of::<tenon_save_weights_options>() - 8usize];
    [
        "Offset of field: tenon_save_weights_options::struct_size",
    ][::core::mem::offset_of!(tenon_save_weights_options, struct_size) - 0usize];
    [
        "Offset of field: tenon_save_weights_options::form",
    ][::core::mem::offset_of!(tenon_save_weights_options, form) - 8usize];
    [
        "Offset of field: tenon_save_weights_options::durability",
    ][::core::mem::offset_of!(tenon_save_weights_options, durability) - 12usize];
    [
        "Offset of field: tenon_save_weights_options::flags",
    ][::core::mem::offset_of!(tenon_save_weights_options, flags) - 16usize];
    [
        "Offset of field: tenon_save_weights_options::reserved",
    ][::core::mem::offset_of!(tenon_save_weights_options, reserved) - 20usize];
    [
        "Offset of field: tenon_save_weights_options::metadata_keys",
    ][::core::mem::offset_of!(tenon_save_weights_options, metadata_keys) - 24usize];
    [
        "Offset of field: tenon_save_weights_options::metadata_texts",
    ][::core::mem::offset_of!(tenon_save_weights_options, metadata_texts) - 32usize];
    [
        "Offset of field: tenon_save_weights_options::metadata_count",
    ][::core::mem::offset_of!(tenon_save_weights_options, metadata_count) - 40usize];
    [
        "Offset of field: tenon_save_weights_options::progress",
    ][::core::mem::offset_of!(tenon_save_weights_options, progress) - 48usize];
    [
        "Offset of field: tenon_save_weights_options::progress_context",
    ][::core::mem::offset_of!(tenon_save_weights_options, progress_context) - 56usize];
};
///How to write weights. A NULL pointer to these options means that all fields are zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_weights_rewrite_options {
    ///sizeof(tenon_weights_rewrite_options), set by the caller.
    pub struct_size: usize,
    ///TENON_DURABILITY_*.
    pub durability: i32,
    ///Must be 0.
    pub flags: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_weights_rewrite_options",
    ][::core::mem::size_of::<tenon_weights_rewrite_options>() - 16usize];
    [
        "Alignment of tenon_weights_rewrite_options",
    ][::core::mem::align_of::<tenon_weights_rewrite_options>() - 8usize];
    [
        "Offset of field: tenon_weights_rewrite_options::struct_size",
    ][::core::mem::offset_of!(tenon_weights_rewrite_options, struct_size) - 0usize];
    [
        "Offset of field: tenon_weights_rewrite_options::durability",
    ][::core::mem::offset_of!(tenon_weights_rewrite_options, durability) - 8usize];
    [
        "Offset of field: tenon_weights_rewrite_options::flags",
    ][::core::mem::offset_of!(tenon_weights_rewrite_options, flags) - 12usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_object {
    _unused: [u8; 0],
}
pub const TENON_OBJECT_NONE: _bindgen_ty_43 = 0;
pub const TENON_OBJECT_BOOL: _bindgen_ty_43 = 1;
pub const TENON_OBJECT_INT: _bindgen_ty_43 = 2;
pub const TENON_OBJECT_FLOAT: _bindgen_ty_43 = 3;
pub const TENON_OBJECT_COMPLEX: _bindgen_ty_43 = 4;
pub const TENON_OBJECT_STR: _bindgen_ty_43 = 5;
pub const TENON_OBJECT_BYTES: _bindgen_ty_43 = 6;
pub const TENON_OBJECT_TENSOR: _bindgen_ty_43 = 7;
pub const TENON_OBJECT_COMPOSITE: _bindgen_ty_43 = 8;
pub const TENON_OBJECT_TUPLE: _bindgen_ty_43 = 9;
pub const TENON_OBJECT_LIST: _bindgen_ty_43 = 10;
pub const TENON_OBJECT_SET: _bindgen_ty_43 = 11;
pub const TENON_OBJECT_DICT: _bindgen_ty_43 = 12;
///The kinds of values.
pub type _bindgen_ty_43 = ::core::ffi::c_uint;
///How deep values can be nested.
pub const TENON_OBJECT_MAX_DEPTH: _bindgen_ty_44 = 200;
pub type _bindgen_ty_44 = ::core::ffi::c_uint;
/**One value of an object. The nodes of an object form an array, in the order in which the object is
 written as text. The items of a tuple, list or set follow it. The keys and values of a dict
 follow it in turn. Everything inside an item follows that item. For example, the dict
 `{"a": [1, 2], "b": None}` is these seven nodes:

     DICT of 2, STR "a", LIST of 2, INT 1, INT 2, STR "b", NONE*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_object_node {
    ///sizeof(tenon_object_node), set by the caller.
    pub struct_size: usize,
    ///TENON_OBJECT_*.
    pub kind: i32,
    /**TUPLE, LIST and SET: the number of items. DICT: the number of entries, each of which is two
 values, first the key. Ignored on input and 0 on output for the other kinds.*/
    pub count: u32,
    /**The index of the first node behind this value and everything inside it. For an item of a
 container that is the next item. Ignored on input.*/
    pub next: usize,
    ///BOOL: 0 or 1. INT: the number.
    pub integer: i64,
    ///FLOAT: the number. COMPLEX: the real part.
    pub real: f64,
    ///COMPLEX: the imaginary part.
    pub imaginary: f64,
    /**STR: UTF-8. BYTES: any bytes. No NUL follows. Borrowed: from the caller on input, and from the
 object on output. It may be NULL if nbytes is 0.*/
    pub data: *const ::core::ffi::c_char,
    ///How many bytes there are at `data`.
    pub nbytes: usize,
    ///TENSOR: the tensor. Borrowed, like `data`.
    pub tensor: *mut tenon_tensor,
    ///COMPOSITE: the composite. Borrowed, like `data`.
    pub composite: *mut tenon_composite,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of tenon_object_node"][::core::mem::size_of::<tenon_object_node>() - 80usize];
    [
        "Alignment of tenon_object_node",
    ][::core::mem::align_of::<tenon_object_node>() - 8usize];
    [
        "Offset of field: tenon_object_node::struct_size",
    ][::core::mem::offset_of!(tenon_object_node, struct_size) - 0usize];
    [
        "Offset of field: tenon_object_node::kind",
    ][::core::mem::offset_of!(tenon_object_node, kind) - 8usize];
    [
        "Offset of field: tenon_object_node::count",
    ][::core::mem::offset_of!(tenon_object_node, count) - 12usize];
    [
        "Offset of field: tenon_object_node::next",
    ][::core::mem::offset_of!(tenon_object_node, next) - 16usize];
    [
        "Offset of field: tenon_object_node::integer",
    ][::core::mem::offset_of!(tenon_object_node, integer) - 24usize];
    [
        "Offset of field: tenon_object_node::real",
    ][::core::mem::offset_of!(tenon_object_node, real) - 32usize];
    [
        "Offset of field: tenon_object_node::imaginary",
    ][::core::mem::offset_of!(tenon_object_node, imaginary) - 40usize];
    [
        "Offset of field: tenon_object_node::data",
    ][::core::mem::offset_of!(tenon_object_node, data) - 48usize];
    [
        "Offset of field: tenon_object_node::nbytes",
    ][::core::mem::offset_of!(tenon_object_node, nbytes) - 56usize];
    [
        "Offset of field: tenon_object_node::tensor",
    ][::core::mem::offset_of!(tenon_object_node, tensor) - 64usize];
    [
        "Offset of field: tenon_object_node::composite",
    ][::core::mem::offset_of!(tenon_object_node, composite) - 72usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_publisher {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_subscriber {
    _unused: [u8; 0],
}
///What tenon_publish does when a subscriber has no room for another message.
pub type tenon_publish_policy = u32;
///It waits until every subscriber has room.
pub const TENON_PUBLISH_BLOCK: _bindgen_ty_45 = 0;
/**It withdraws the oldest message that the subscriber has not taken, and never waits. If a
 subscriber has not read its socket for so long that the socket is full, a message that needs
 the socket does not reach this subscriber.*/
pub const TENON_PUBLISH_DROP_OLDEST: _bindgen_ty_45 = 1;
///It fails with TENON_RESOURCE_EXHAUSTED, and no subscriber gets the message.
pub const TENON_PUBLISH_ERROR: _bindgen_ty_45 = 2;
pub type _bindgen_ty_45 = ::core::ffi::c_uint;
///Refuse a subscriber whose user is neither this process's (effective) user nor root.
pub const TENON_PUBLISHER_SAME_USER: _bindgen_ty_46 = 1;
///As TENON_PUBLISHER_SAME_USER, but also accept members of options.group.
pub const TENON_PUBLISHER_GROUP: _bindgen_ty_46 = 2;
///tenon_publish does not report that a subscriber is gone.
pub const TENON_PUBLISHER_IGNORE_DEATHS: _bindgen_ty_46 = 4;
///A new subscriber does not get the latest message. Otherwise the publisher keeps its memory.
pub const TENON_PUBLISHER_FORGET_LATEST: _bindgen_ty_46 = 8;
pub type _bindgen_ty_46 = ::core::ffi::c_uint;
///How to make a publisher. A NULL pointer means that all fields are zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_publisher_options {
    ///sizeof(tenon_publisher_options), set by the caller.
    pub struct_size: usize,
    ///TENON_PUBLISHER_*.
    pub flags: u32,
    ///TENON_PUBLISH_*.
    pub policy: tenon_publish_policy,
    ///The group id for TENON_PUBLISHER_GROUP. Without that flag it must be 0.
    pub group: u32,
    ///How many messages can wait for one subscriber, a power of two up to 65,536. 0 means 64.
    pub capacity: u32,
    /**The bytes of a slot, which holds the description of one message: a multiple of 64, from 64 to
 65,536. 0 means 1,024. A message of a few tensors fits into 1,024 bytes. The description of
 a larger message crosses on the socket, which takes longer. Each subscriber takes capacity *
 slot_nbytes bytes, 64 KiB by default.*/
    pub slot_nbytes: u32,
    ///The most subscribers at a time. 0 means 256.
    pub max_subscribers: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_publisher_options",
    ][::core::mem::size_of::<tenon_publisher_options>() - 32usize];
    [
        "Alignment of tenon_publisher_options",
    ][::core::mem::align_of::<tenon_publisher_options>() - 8usize];
    [
        "Offset of field: tenon_publisher_options::struct_size",
    ][::core::mem::offset_of!(tenon_publisher_options, struct_size) - 0usize];
    [
        "Offset of field: tenon_publisher_options::flags",
    ][::core::mem::offset_of!(tenon_publisher_options, flags) - 8usize];
    [
        "Offset of field: tenon_publisher_options::policy",
    ][::core::mem::offset_of!(tenon_publisher_options, policy) - 12usize];
    [
        "Offset of field: tenon_publisher_options::group",
    ][::core::mem::offset_of!(tenon_publisher_options, group) - 16usize];
    [
        "Offset of field: tenon_publisher_options::capacity",
    ][::core::mem::offset_of!(tenon_publisher_options, capacity) - 20usize];
    [
        "Offset of field: tenon_publisher_options::slot_nbytes",
    ][::core::mem::offset_of!(tenon_publisher_options, slot_nbytes) - 24usize];
    [
        "Offset of field: tenon_publisher_options::max_subscribers",
    ][::core::mem::offset_of!(tenon_publisher_options, max_subscribers) - 28usize];
};
///Figures about a publisher.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_publisher_stats {
    ///sizeof(tenon_publisher_stats), set by the caller.
    pub struct_size: usize,
    ///Messages that were published.
    pub published: u64,
    /**Messages that a subscriber did not get because of TENON_PUBLISH_DROP_OLDEST, counted for each
 subscriber.*/
    pub dropped: u64,
    ///Subscribers now, also those that have left or are gone and are not removed yet.
    pub subscribers: u64,
    ///Subscribers that died or broke the protocol, and that the publisher has removed.
    pub gone: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_publisher_stats",
    ][::core::mem::size_of::<tenon_publisher_stats>() - 40usize];
    [
        "Alignment of tenon_publisher_stats",
    ][::core::mem::align_of::<tenon_publisher_stats>() - 8usize];
    [
        "Offset of field: tenon_publisher_stats::struct_size",
    ][::core::mem::offset_of!(tenon_publisher_stats, struct_size) - 0usize];
    [
        "Offset of field: tenon_publisher_stats::published",
    ][::core::mem::offset_of!(tenon_publisher_stats, published) - 8usize];
    [
        "Offset of field: tenon_publisher_stats::dropped",
    ][::core::mem::offset_of!(tenon_publisher_stats, dropped) - 16usize];
    [
        "Offset of field: tenon_publisher_stats::subscribers",
    ][::core::mem::offset_of!(tenon_publisher_stats, subscribers) - 24usize];
    [
        "Offset of field: tenon_publisher_stats::gone",
    ][::core::mem::offset_of!(tenon_publisher_stats, gone) - 32usize];
};
///What a subscriber is doing.
pub type tenon_subscriber_state = u32;
///It has not read anything yet.
pub const TENON_SUBSCRIBER_JOINING: _bindgen_ty_47 = 1;
pub const TENON_SUBSCRIBER_HERE: _bindgen_ty_47 = 2;
///It has left in order. The next tenon_publish removes it.
pub const TENON_SUBSCRIBER_LEFT: _bindgen_ty_47 = 3;
///It has died or broken the protocol. The next tenon_publish removes and reports it.
pub const TENON_SUBSCRIBER_GONE: _bindgen_ty_47 = 4;
pub type _bindgen_ty_47 = ::core::ffi::c_uint;
///A subscriber, as its publisher sees it.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_publisher_subscriber {
    ///sizeof(tenon_publisher_subscriber), set by the caller.
    pub struct_size: usize,
    ///TENON_SUBSCRIBER_*.
    pub state: tenon_subscriber_state,
    /**The process id, as the kernel told it last: when the socket was connected, or when the
 subscriber took leases.*/
    pub pid: i32,
    ///The effective user id.
    pub uid: u32,
    ///1: it sleeps until there is a message.
    pub asleep: u32,
    ///Messages that it has not taken.
    pub waiting: u64,
    ///Messages that were published since it came, also those that it did not get.
    pub published: u64,
    ///How many of these it did not get, because of TENON_PUBLISH_DROP_OLDEST.
    pub dropped: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_publisher_subscriber",
    ][::core::mem::size_of::<tenon_publisher_subscriber>() - 48usize];
    [
        "Alignment of tenon_publisher_subscriber",
    ][::core::mem::align_of::<tenon_publisher_subscriber>() - 8usize];
    [
        "Offset of field: tenon_publisher_subscriber::struct_size",
    ][::core::mem::offset_of!(tenon_publisher_subscriber, struct_size) - 0usize];
    [
        "Offset of field: tenon_publisher_subscriber::state",
    ][::core::mem::offset_of!(tenon_publisher_subscriber, state) - 8usize];
    [
        "Offset of field: tenon_publisher_subscriber::pid",
    ][::core::mem::offset_of!(tenon_publisher_subscriber, pid) - 12usize];
    [
        "Offset of field: tenon_publisher_subscriber::uid",
    ][::core::mem::offset_of!(tenon_publisher_subscriber, uid) - 16usize];
    [
        "Offset of field: tenon_publisher_subscriber::asleep",
    ][::core::mem::offset_of!(tenon_publisher_subscriber, asleep) - 20usize];
    [
        "Offset of field: tenon_publisher_subscriber::waiting",
    ][::core::mem::offset_of!(tenon_publisher_subscriber, waiting) - 24usize];
    [
        "Offset of field: tenon_publisher_subscriber::published",
    ][::core::mem::offset_of!(tenon_publisher_subscriber, published) - 32usize];
    [
        "Offset of field: tenon_publisher_subscriber::dropped",
    ][::core::mem::offset_of!(tenon_publisher_subscriber, dropped) - 40usize];
};
///Figures about a subscriber.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_subscriber_stats {
    ///sizeof(tenon_subscriber_stats), set by the caller.
    pub struct_size: usize,
    ///Messages that it has received.
    pub received: u64,
    ///Messages that the publisher withdrew before this subscriber took them.
    pub dropped: u64,
    ///The publisher's process id, as in tenon_peer.
    pub pid: i32,
    ///The publisher's effective user id.
    pub uid: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_subscriber_stats",
    ][::core::mem::size_of::<tenon_subscriber_stats>() - 32usize];
    [
        "Alignment of tenon_subscriber_stats",
    ][::core::mem::align_of::<tenon_subscriber_stats>() - 8usize];
    [
        "Offset of field: tenon_subscriber_stats::struct_size",
    ][::core::mem::offset_of!(tenon_subscriber_stats, struct_size) - 0usize];
    [
        "Offset of field: tenon_subscriber_stats::received",
    ][::core::mem::offset_of!(tenon_subscriber_stats, received) - 8usize];
    [
        "Offset of field: tenon_subscriber_stats::dropped",
    ][::core::mem::offset_of!(tenon_subscriber_stats, dropped) - 16usize];
    [
        "Offset of field: tenon_subscriber_stats::pid",
    ][::core::mem::offset_of!(tenon_subscriber_stats, pid) - 24usize];
    [
        "Offset of field: tenon_subscriber_stats::uid",
    ][::core::mem::offset_of!(tenon_subscriber_stats, uid) - 28usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_queue {
    _unused: [u8; 0],
}
/**tenon_queue_send and tenon_queue_recv do not report that a member has died. A lost message is
 still reported.*/
pub const TENON_QUEUE_IGNORE_DEATHS: _bindgen_ty_48 = 1;
/**The queue delivers a message again if its receiver died, or left the queue, before it
 acknowledged the message. A receiver acknowledges a message when it releases the message
 (tenon_message_release), so it keeps the message until it is done with it. A message that was
 acknowledged is never delivered again. tenon_queue_redelivered tells how often a message was
 delivered before. Such a message may come after later ones of its sender.

 The sender keeps each message until it is acknowledged, and puts it back itself. A message
 whose sender has died or left too is lost with its receiver. `capacity` counts the messages
 that are not acknowledged yet: a sender waits for room while the oldest of `capacity` messages
 is not acknowledged.

 A queue is made with this flag or without. To join, leave it out, or give it if the queue has
 it.*/
pub const TENON_QUEUE_REDELIVER: _bindgen_ty_48 = 2;
pub type _bindgen_ty_48 = ::core::ffi::c_uint;
///How to make a queue or to join one. A NULL pointer means that all fields are zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_queue_options {
    ///sizeof(tenon_queue_options), set by the caller.
    pub struct_size: usize,
    ///TENON_QUEUE_*.
    pub flags: u32,
    /**The most members at a time, 1 to 256. 0 means 32. For tenon_queue_join this field and the next
 two are 0 or the queue's own numbers.*/
    pub members: u32,
    /**How many messages of one member can wait in the queue, a power of two from 2 to 65,536. 0 means
 128. When so many wait, the member's next send waits for a receiver.*/
    pub capacity: u32,
    /**The bytes of a slot, which holds the description of one message: a multiple of 64, from 64 to
 65,536. 0 means 1,024. A message of a few tensors fits into 1,024 bytes. The description of
 a larger message goes into memory of its own, which takes a little longer. All slots exist from
 the start: the queue takes members * capacity * slot_nbytes bytes, 4 MiB by default.*/
    pub slot_nbytes: u32,
    ///It must be 0.
    pub reserved: u32,
    ///The largest descriptor that is accepted, in bytes. 0 means 64 MiB.
    pub max_message_nbytes: u64,
    ///The most tensors that are accepted in one message. 0 means 1,000,000.
    pub max_tensors: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_queue_options",
    ][::core::mem::size_of::<tenon_queue_options>() - 48usize];
    [
        "Alignment of tenon_queue_options",
    ][::core::mem::align_of::<tenon_queue_options>() - 8usize];
    [
        "Offset of field: tenon_queue_options::struct_size",
    ][::core::mem::offset_of!(tenon_queue_options, struct_size) - 0usize];
    [
        "Offset of field: tenon_queue_options::flags",
    ][::core::mem::offset_of!(tenon_queue_options, flags) - 8usize];
    [
        "Offset of field: tenon_queue_options::members",
    ][::core::mem::offset_of!(tenon_queue_options, members) - 12usize];
    [
        "Offset of field: tenon_queue_options::capacity",
    ][::core::mem::offset_of!(tenon_queue_options, capacity) - 16usize];
    [
        "Offset of field: tenon_queue_options::slot_nbytes",
    ][::core::mem::offset_of!(tenon_queue_options, slot_nbytes) - 20usize];
    [
        "Offset of field: tenon_queue_options::reserved",
    ][::core::mem::offset_of!(tenon_queue_options, reserved) - 24usize];
    [
        "Offset of field: tenon_queue_options::max_message_nbytes",
    ][::core::mem::offset_of!(tenon_queue_options, max_message_nbytes) - 32usize];
    [
        "Offset of field: tenon_queue_options::max_tensors",
    ][::core::mem::offset_of!(tenon_queue_options, max_tensors) - 40usize];
};
///Figures about a queue.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_queue_stats {
    ///sizeof(tenon_queue_stats), set by the caller.
    pub struct_size: usize,
    ///Messages in the queue that no process has received yet.
    pub waiting: u64,
    ///Messages that this member has sent.
    pub sent: u64,
    ///Messages that this member has received.
    pub received: u64,
    /**Messages of this member that are lost, because the process that took them died before it had
 fetched them. Messages without tensors that fit into a slot are not counted. In a
 queue that redelivers: messages that could not be put back.*/
    pub lost: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of tenon_queue_stats"][::core::mem::size_of::<tenon_queue_stats>() - 40usize];
    [
        "Alignment of tenon_queue_stats",
    ][::core::mem::align_of::<tenon_queue_stats>() - 8usize];
    [
        "Offset of field: tenon_queue_stats::struct_size",
    ][::core::mem::offset_of!(tenon_queue_stats, struct_size) - 0usize];
    [
        "Offset of field: tenon_queue_stats::waiting",
    ][::core::mem::offset_of!(tenon_queue_stats, waiting) - 8usize];
    [
        "Offset of field: tenon_queue_stats::sent",
    ][::core::mem::offset_of!(tenon_queue_stats, sent) - 16usize];
    [
        "Offset of field: tenon_queue_stats::received",
    ][::core::mem::offset_of!(tenon_queue_stats, received) - 24usize];
    [
        "Offset of field: tenon_queue_stats::lost",
    ][::core::mem::offset_of!(tenon_queue_stats, lost) - 32usize];
};
///What a member of a queue is doing.
pub type tenon_queue_member_state = u32;
///It is about to become a member.
pub const TENON_QUEUE_MEMBER_JOINING: _bindgen_ty_49 = 1;
pub const TENON_QUEUE_MEMBER_HERE: _bindgen_ty_49 = 2;
///It left in order.
pub const TENON_QUEUE_MEMBER_LEFT: _bindgen_ty_49 = 3;
///Its process ended while it was a member.
pub const TENON_QUEUE_MEMBER_DEAD: _bindgen_ty_49 = 4;
pub type _bindgen_ty_49 = ::core::ffi::c_uint;
///A member of a queue, or one that has gone and whose place nobody has taken since.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_queue_member {
    ///sizeof(tenon_queue_member), set by the caller.
    pub struct_size: usize,
    ///The member's number in the queue.
    pub index: u32,
    ///TENON_QUEUE_MEMBER_*.
    pub state: tenon_queue_member_state,
    ///The process id, as the member itself sees it.
    pub pid: i32,
    ///The member's effective user id. The member wrote it itself.
    pub uid: u32,
    ///How many messages it has sent that no process has received yet.
    pub waiting: u64,
    ///1: it sleeps, or waits by an fd, until there is a message or room for one.
    pub asleep: u32,
    ///1: it is this member.
    pub self_: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_queue_member",
    ][::core::mem::size_of::<tenon_queue_member>() - 40usize];
    [
        "Alignment of tenon_queue_member",
    ][::core::mem::align_of::<tenon_queue_member>() - 8usize];
    [
        "Offset of field: tenon_queue_member::struct_size",
    ][::core::mem::offset_of!(tenon_queue_member, struct_size) - 0usize];
    [
        "Offset of field: tenon_queue_member::index",
    ][::core::mem::offset_of!(tenon_queue_member, index) - 8usize];
    [
        "Offset of field: tenon_queue_member::state",
    ][::core::mem::offset_of!(tenon_queue_member, state) - 12usize];
    [
        "Offset of field: tenon_queue_member::pid",
    ][::core::mem::offset_of!(tenon_queue_member, pid) - 16usize];
    [
        "Offset of field: tenon_queue_member::uid",
    ][::core::mem::offset_of!(tenon_queue_member, uid) - 20usize];
    [
        "Offset of field: tenon_queue_member::waiting",
    ][::core::mem::offset_of!(tenon_queue_member, waiting) - 24usize];
    [
        "Offset of field: tenon_queue_member::asleep",
    ][::core::mem::offset_of!(tenon_queue_member, asleep) - 32usize];
    [
        "Offset of field: tenon_queue_member::self_",
    ][::core::mem::offset_of!(tenon_queue_member, self_) - 36usize];
};
/**The memory that the library holds in this process, and the bytes that it has copied. The figures
 are read one after another, so other threads can change some of them in between.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_stats {
    ///sizeof(tenon_stats), set by the caller.
    pub struct_size: usize,
    /**The payload bytes that the library has copied since the process began, for example in
 tenon_storage_new_from, tenon_storage_write, tenon_storage_read and private copies.*/
    pub bytes_copied: u64,
    ///The number of storages that are alive.
    pub storages: u64,
    ///The number of mapped segments, this process's own and opened ones.
    pub segments: u64,
    ///The number of fds that these segments hold.
    pub segment_fds: u64,
    ///The bytes of memory that this process's own segments have reserved from the system.
    pub bytes_reserved: u64,
    ///The part of bytes_reserved that lies in living storages.
    pub bytes_live: u64,
    /**The part of bytes_reserved that was lent without a lease and released. It is not reused, and is
 freed together with its segment.*/
    pub bytes_retired: u64,
    ///The bytes in storages that belong to other processes and are open in this process.
    pub bytes_opened: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of tenon_stats"][::core::mem::size_of::<tenon_stats>() - 72usize];
    ["Alignment of tenon_stats"][::core::mem::align_of::<tenon_stats>() - 8usize];
    [
        "Offset of field: tenon_stats::struct_size",
    ][::core::mem::offset_of!(tenon_stats, struct_size) - 0usize];
    [
        "Offset of field: tenon_stats::bytes_copied",
    ][::core::mem::offset_of!(tenon_stats, bytes_copied) - 8usize];
    [
        "Offset of field: tenon_stats::storages",
    ][::core::mem::offset_of!(tenon_stats, storages) - 16usize];
    [
        "Offset of field: tenon_stats::segments",
    ][::core::mem::offset_of!(tenon_stats, segments) - 24usize];
    [
        "Offset of field: tenon_stats::segment_fds",
    ][::core::mem::offset_of!(tenon_stats, segment_fds) - 32usize];
    [
        "Offset of field: tenon_stats::bytes_reserved",
    ][::core::mem::offset_of!(tenon_stats, bytes_reserved) - 40usize];
    [
        "Offset of field: tenon_stats::bytes_live",
    ][::core::mem::offset_of!(tenon_stats, bytes_live) - 48usize];
    [
        "Offset of field: tenon_stats::bytes_retired",
    ][::core::mem::offset_of!(tenon_stats, bytes_retired) - 56usize];
    [
        "Offset of field: tenon_stats::bytes_opened",
    ][::core::mem::offset_of!(tenon_stats, bytes_opened) - 64usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_weak {
    _unused: [u8; 0],
}
extern "C" {
    /**Returns the name of a status code, such as "RESOURCE_EXHAUSTED".
 @param[in] status  any number.
 @return a string in static storage, never NULL. It is "UNKNOWN" for a number that is not a code.
 @since 0.1. Any thread and any signal handler may call this function.*/
    pub fn tenon_status_name(status: tenon_status) -> *const ::core::ffi::c_char;
    /**Returns the code of an error, which is the number that the failed call returned.
 @param[in] error  borrowed. NULL is allowed.
 @return the code; TENON_OK for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_error_code(error: *const tenon_error) -> tenon_status;
    /**Returns one line of UTF-8 text that names the object, the cause and the remedy.
 @param[in] error  borrowed. NULL is allowed.
 @return a string, borrowed from the error and valid until the error is released. It is "" for
         NULL, and never NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_error_message(error: *const tenon_error) -> *const ::core::ffi::c_char;
    /**Returns one detail of an error, as text. A program can act on details without reading the
 message. These keys are in use:
 - Any error: "errno" (a decimal number), "path", "fd", "pid", "uid", "field" (of a descriptor or
   a struct), "option" (the option or the call that would allow the operation), "version" (of a
   format that this library does not read).
 - A limit: "limit" (its name), "limit_value", "in_use", "wanted".
 - A full arena: "live", "lent", "retired" and "free" (bytes), and "holders" (a text that says
   which processes hold leases of its blocks).
 - Too little memory, too few fds or too few mappings: "left" (how much of the limit is left), and
   "live", "lent", "retired" and "kept" (bytes of this process).
 - An arena's pages or NUMA node: "pages", "huge_page_nbytes", "sizes", "shmem_enabled" (the
   kernel's setting), "numa_node", "nodes".
 - An index of a tensor: "item" (the place in the array of items), and "dimension" and "size" (the
   size of that dimension).
 - A composite: "part" (the field of the wrong part in tenon_composite_spec) and "index" (the
   place in that part, in elements).
 - A value that does not fit its type: "where" (the place in the value), "wanted" and "found".
 - Text that cannot be parsed: "column" (from 1, in bytes), and "type" or "file", "line" and
   "excerpt".
 - An archive: "record" and "offset" (bytes), and "opcode" for a pickle in the archive.
 - A module: "name" (a name that exists already or is given twice), "class", "missing" and
   "unexpected" (numbers of tensors), and "operator", "module" and "other_module" (two modules
   that need different versions of an operator).
 - An index of shards: "name" (of a weight) and "path" (of the shard that lacks it).
 - Weights that are saved: "name" (of a tensor) and "other" (of a tensor that shares its memory).
 - A queue: "member" (a member's number), and "lost" (how many messages are lost).
 - CUDA's driver: "cuda_error" (a decimal number), "cuda_error_name" and "driver_version" (11040
   means 11.4).
 @param[in] error  borrowed. NULL is allowed.
 @param[in] key    borrowed, a string that ends with NUL. NULL is allowed.
 @return a string, borrowed from the error and valid until the error is released. NULL means that
         the error has no such detail.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_error_detail(
        error: *const tenon_error,
        key: *const ::core::ffi::c_char,
    ) -> *const ::core::ffi::c_char;
    /**Returns the key of detail number `index`, so that a program can list all details.
 @param[in] error  borrowed. NULL is allowed.
 @param[in] index  counts from 0.
 @return a string, borrowed from the error and valid until the error is released. NULL means that
         `index` is past the last detail.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_error_detail_key(
        error: *const tenon_error,
        index: usize,
    ) -> *const ::core::ffi::c_char;
    /**Returns the error that led to this error.
 @param[in] error  borrowed. NULL is allowed.
 @return an error, borrowed from `error` and valid until `error` is released. NULL means that
         there is none.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_error_cause(error: *const tenon_error) -> *const tenon_error;
    /**Releases an error.
 @param[in] error  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function, not only the thread whose call failed.*/
    pub fn tenon_error_release(error: *mut tenon_error);
    /**Makes a storage of `nbytes` bytes. The memory is reserved before the call returns, so a machine
 that has no memory left causes an error here and not a SIGBUS later. If two processes race for
 the last bytes of a memory cgroup, the kernel's OOM killer can still end one of them. The bytes
 are zero if the memory is fresh, and unspecified if a block is reused; see TENON_STORAGE_ZEROED
 and TENON_STORAGE_WILL_FILL.
 @param[in]  options  borrowed. NULL means the defaults.
 @param[in]  nbytes   the size in bytes. 0 gives an empty storage, which has no segment and can be
                      lent nevertheless.
 @param[out] out      new reference; release it with tenon_storage_release. It is untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED (the detail "limit" names the
         limit that was reached), TENON_UNSUPPORTED, TENON_PERMISSION (a security policy denies
         sealed memory, and the mode needs seals), or, after a wait for a full arena,
         TENON_TIMEOUT, TENON_INTERRUPTED or TENON_CANCELLED.
 @since 0.1. Any thread may call this function. A child of fork cannot allocate from its parent's
         arena.*/
    pub fn tenon_storage_new(
        options: *const tenon_storage_options,
        nbytes: u64,
        out: *mut *mut tenon_storage,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes a storage that holds a copy of the `nbytes` bytes at `data`. This is faster than
 tenon_storage_new followed by tenon_storage_write, because the kernel can fill fresh memory in
 one pass. A storage of mode TENON_MODE_FROZEN is frozen when the call returns. The copied bytes
 count in tenon_stats.bytes_copied.
 @param[in]  options  borrowed. NULL means the defaults.
 @param[in]  data     borrowed for the call. It may be NULL if nbytes is 0.
 @param[in]  nbytes   how many bytes to copy.
 @param[out] out      new reference; release it with tenon_storage_release. It is untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return the same codes as tenon_storage_new.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_storage_new_from(
        options: *const tenon_storage_options,
        data: *const ::core::ffi::c_void,
        nbytes: u64,
        out: *mut *mut tenon_storage,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes a private storage over memory that the caller provides. The storage cannot be lent:
 tenon_share_fd returns TENON_UNSUPPORTED.
 @param[in]  data     kept until the storage ends: the memory must stay valid until then. It may
                      be NULL if nbytes is 0.
 @param[in]  nbytes   how many bytes there are at `data`.
 @param[in]  release  called once with `context` when the last reference to the storage is
                      released, on the thread that released it. If it is NULL, no function is
                      called. If tenon_storage_wrap fails, `release` is not called.
 @param[in]  context  handed to `release`.
 @param[in]  options  borrowed. NULL means the defaults. Only the flag TENON_STORAGE_READ_ONLY has
                      an effect; any other flag is TENON_UNSUPPORTED.
 @param[out] out      new reference; release it with tenon_storage_release. It is untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED, TENON_UNSUPPORTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_storage_wrap(
        data: *mut ::core::ffi::c_void,
        nbytes: u64,
        release: ::core::option::Option<
            unsafe extern "C" fn(context: *mut ::core::ffi::c_void),
        >,
        context: *mut ::core::ffi::c_void,
        options: *const tenon_storage_options,
        out: *mut *mut tenon_storage,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Adds a strong reference.
 @param[in] storage  borrowed. NULL is allowed.
 @return `storage`, as a new reference that must be released too.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_storage_retain(storage: *mut tenon_storage) -> *mut tenon_storage;
    /**Releases a strong reference. The last release frees the bytes, and weak references to the storage
 are expired from then on.
 @param[in] storage  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_storage_release(storage: *mut tenon_storage);
    /**Returns a pointer to the bytes, for reading.
 @param[in] storage  borrowed. NULL is allowed.
 @return a pointer borrowed from the storage and valid until its last release. It is NULL for an
         empty storage, for a storage that was dropped (see tenon_storage_check_lender), and for
         NULL. For a storage on a CUDA device it is an address of that device, and only work on
         that device may access it. tenon_storage_device tells which device that is.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_storage_data(
        storage: *const tenon_storage,
    ) -> *const ::core::ffi::c_void;
    /**Gives a pointer to the bytes, for writing.
 @param[in]  storage  borrowed.
 @param[out] out      borrowed from the storage and valid until its last release. It is NULL for
                      an empty storage. For a storage on a device it is an address of that device,
                      as in tenon_storage_data. It is untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (the storage is read-only; use
         tenon_storage_write to fill a storage of mode TENON_MODE_FROZEN), TENON_PEER_GONE (the
         storage was dropped, see tenon_storage_check_lender).
 @since 0.1. Any thread may call this function. The callers must order their writes (rule 8 in
         tenon.h).*/
    pub fn tenon_storage_data_mut(
        storage: *mut tenon_storage,
        out: *mut *mut ::core::ffi::c_void,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Finds the storage that has the `nbytes` bytes at an address. Use this function when another
 library (NumPy, PyTorch) gives back an address that it got from a storage or computed from such
 an address. Memory that is already Tenon's can then be lent without a copy.

 A storage is found from the time when its address was given out by tenon_storage_data,
 tenon_storage_data_mut, tenon_tensor_data, tenon_tensor_data_mut or an export by DLPack, until
 its last reference is released. Private and empty storages are not found. If several storages
 have the bytes, because ranges of one segment were opened separately, the result is one of the
 smallest.
 @param[in]  address  borrowed for the call and not dereferenced, so any address will do. For a
                      storage on a CUDA device it is an address of that device.
 @param[in]  nbytes   how many bytes the storage must have from `address` on. 0 means 1.
 @param[out] out      new reference; release it with tenon_storage_release. It is untouched on
                      failure.
 @param[out] offset   how many bytes into the storage the address lies. NULL is allowed. It is
                      untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND.
 @since 0.1. Any thread may call this function. A child of fork finds what its parent found.*/
    pub fn tenon_storage_at(
        address: *const ::core::ffi::c_void,
        nbytes: u64,
        out: *mut *mut tenon_storage,
        offset: *mut u64,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Checks whether a storage was dropped because its lender is gone (TENON_LENDER_GONE_DROP).
 @param[in]  storage  borrowed. NULL is allowed.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_PEER_GONE for a storage that was dropped, TENON_OK for any other storage and for
         NULL.
 @since 0.1. Any thread may call this function. The lender can end right after the call.*/
    pub fn tenon_storage_check_lender(
        storage: *const tenon_storage,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Returns the size of a storage in bytes.
 @param[in] storage  borrowed. NULL is allowed.
 @return the size in bytes; 0 for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_storage_nbytes(storage: *const tenon_storage) -> u64;
    /**Returns the device that holds the bytes.
 @param[in] storage  borrowed. NULL is allowed.
 @return {1, 0} for the CPU, {2, N} for CUDA device N in this process's numbering; {0, 0} for
         NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_storage_device(storage: *const tenon_storage) -> tenon_device;
    /**Checks whether the host can access addresses of a device. A wrapper calls this function before it
 gives bytes out as a slice, a span or a buffer.
 @param[in]  device  a device from tenon_storage_device or from tenon_tensor_view.device.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK for the CPU, and for {0, 0}, which stands for no memory at all.
         TENON_UNSUPPORTED for any other device: only work on that device can read and write the
         bytes.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_device_check_host(
        device: tenon_device,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Returns the mode of a storage. It is the mode that was chosen when the storage was made, or, for
 an opened storage, the mode that the segment's seals enforce.
 @param[in] storage  borrowed. NULL is allowed.
 @return TENON_MODE_*; TENON_MODE_SHARED for private memory and for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_storage_mode(storage: *const tenon_storage) -> tenon_mode;
    /**Tells whether this process must not write to the bytes through memory.
 @param[in] storage  borrowed. NULL is allowed.
 @return 1 if the storage is read-only, otherwise 0. A storage is read-only if it was opened
         read-only, wraps read-only memory, or has mode TENON_MODE_FROZEN.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_storage_is_read_only(
        storage: *const tenon_storage,
    ) -> ::core::ffi::c_int;
    /**Tells whether the bytes lie in memory that can be lent.
 @param[in] storage  borrowed. NULL is allowed.
 @return 1 for shared memory, for memory of a device (tenon_share_cuda refuses some of that
         nevertheless), and for an empty storage that is not private; otherwise 0.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_storage_is_shared(storage: *const tenon_storage) -> ::core::ffi::c_int;
    /**Tells whether the kernel guarantees the size of the segment. If so, nobody can cut the memory
 short, and reading it never causes a SIGBUS for that reason.
 @param[in] storage  borrowed. NULL is allowed.
 @return 1 if the segment is sealed, or if there is no file that could be cut short (private
         memory, memory of a device, an empty storage). The result is 0 for an unsealed segment
         (opened with TENON_OPEN_ALLOW_UNSEALED, or made where memfd_create is denied, see
         tenon_share_fd), for a copy-on-write opening of an unsealed file
         (TENON_OPEN_PRIVATE_COW), for a view of a module archive's file, and for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_storage_is_sealed(storage: *const tenon_storage) -> ::core::ffi::c_int;
    /**Tells whether two storages of this process are views of the same bytes: the same range of the
 same segment, whatever the access.
 @param[in] a  borrowed. NULL is allowed.
 @param[in] b  borrowed. NULL is allowed.
 @return 1 if both storages lie over the same memory, otherwise 0. An empty storage has no memory,
         so the result is 0 for it, even when it is compared with itself.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_storage_same_memory(
        a: *const tenon_storage,
        b: *const tenon_storage,
    ) -> ::core::ffi::c_int;
    /**Returns a number that identifies this storage object. No other storage object in this process
 ever gets the same number, so it can be a hash key.
 @param[in] storage  borrowed. NULL is allowed.
 @return the id, > 0; 0 for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_storage_id(storage: *const tenon_storage) -> u64;
    /**Returns how many strong references to a storage there are. The number can change at any moment:
 use it for tests and debugging only.
 @param[in] storage  borrowed. NULL is allowed.
 @return the count; 0 for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_storage_use_count(storage: *const tenon_storage) -> u64;
    /**Copies bytes into a storage. Only this function can fill a storage of mode TENON_MODE_FROZEN
 after it was made. The bytes count in tenon_stats.bytes_copied.
 @param[in]  storage  borrowed.
 @param[in]  offset   bytes from the start of the storage.
 @param[in]  data     borrowed for the call. It may be NULL if nbytes is 0.
 @param[in]  nbytes   how many bytes to copy. offset + nbytes must not exceed the size of the
                      storage.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (the storage is read-only or frozen;
         or a seccomp filter forbids process_vm_writev, which copies into unsealed memory that is
         a named file's or private), TENON_CORRUPT (the file under such memory was cut short),
         TENON_RESOURCE_EXHAUSTED, TENON_IO, TENON_UNSUPPORTED (the storage is on a device, where
         only work in the device's streams copies; or a child of fork fills a storage that its
         parent made), TENON_PEER_GONE (the storage was dropped). After a failure, some of the
         bytes may have been written.
 @since 0.1. Any thread may call this function. The callers must order their writes (rule 8 in
         tenon.h).*/
    pub fn tenon_storage_write(
        storage: *mut tenon_storage,
        offset: u64,
        data: *const ::core::ffi::c_void,
        nbytes: u64,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Copies bytes out of a storage. If the file under an unsealed storage was cut short, this function
 returns an error where a load through tenon_storage_data would cause a SIGBUS. The bytes count in
 tenon_stats.bytes_copied.
 @param[in]  storage  borrowed.
 @param[in]  offset   bytes from the start of the storage.
 @param[out] data     the caller's buffer, with room for at least nbytes bytes. It may be NULL if
                      nbytes is 0.
 @param[in]  nbytes   how many bytes to copy. offset + nbytes must not exceed the size of the
                      storage.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT (the file was cut short),
         TENON_PERMISSION (a seccomp filter forbids process_vm_readv, which copies out of unsealed
         memory that is a named file's or private), TENON_IO, TENON_UNSUPPORTED (the storage is on
         a device), TENON_PEER_GONE (the storage was dropped). After a failure, some of the bytes
         at `data` may have been written.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_storage_read(
        storage: *const tenon_storage,
        offset: u64,
        data: *mut ::core::ffi::c_void,
        nbytes: u64,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Freezes a storage of mode TENON_MODE_FROZEN. From then on the kernel refuses every write by any
 process. Only a frozen storage of this mode can be lent. Freezing a storage again has no effect
 and is not an error.
 @param[in]  storage  borrowed.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (the storage has another mode), TENON_IO,
         TENON_UNSUPPORTED (a child of fork freezes a storage that its parent made).
 @since 0.1. Any thread may call this function. A write that runs at the same time is either done
         as a whole or refused.*/
    pub fn tenon_storage_freeze(
        storage: *mut tenon_storage,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Returns kept memory to the system: free memory that the library keeps for later storages. Without
 this call the library returns kept memory only when memory, fds or mappings run short. Before it
 refuses a new storage for lack of them, it returns all kept memory and tries once more.
 @return how many bytes were returned to the system.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_storage_trim() -> u64;
    /**Makes a cancel that is not triggered. It uses one fd.
 @param[out] out  new reference; release it with tenon_cancel_release. It is untouched on failure.
 @param[out] err  optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function. After fork, parent and child trigger the same
         object.*/
    pub fn tenon_cancel_new(
        out: *mut *mut tenon_cancel,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Ends every wait that uses this cancel with TENON_CANCELLED. A wait that begins later ends too,
 until tenon_cancel_reset is called.
 @param[in] cancel  borrowed. NULL is allowed.
 @since 0.1. Any thread may call this function. It is async-signal-safe, so a signal handler may
         call it too.*/
    pub fn tenon_cancel_trigger(cancel: *mut tenon_cancel);
    /**Makes a triggered cancel usable again.
 @param[in] cancel  borrowed. NULL is allowed. No wait may be using it.
 @since 0.1.*/
    pub fn tenon_cancel_reset(cancel: *mut tenon_cancel);
    /**Releases a cancel.
 @param[in] cancel  consumed. NULL is allowed. No wait may be using it.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_cancel_release(cancel: *mut tenon_cancel);
    /**Makes an arena.
 @param[in]  options  borrowed. NULL means the defaults.
 @param[out] out      new reference; release it with tenon_arena_release. It is untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED (fds, mappings, address space,
         RLIMIT_MEMLOCK; with TENON_ARENA_EXACT also huge pages), TENON_UNSUPPORTED
         (TENON_MODE_FROZEN, because a frozen storage has a segment of its own; with
         TENON_ARENA_EXACT also pages that the kernel does not have).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_arena_new(
        options: *const tenon_arena_options,
        out: *mut *mut tenon_arena,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Adds a reference.
 @param[in] arena  borrowed. NULL is allowed.
 @return `arena`, as a new reference that must be released too.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_arena_retain(arena: *mut tenon_arena) -> *mut tenon_arena;
    /**Releases a reference. The arena's memory is freed once the last storage in it is released and the
 last lease on it has ended.
 @param[in] arena  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_arena_release(arena: *mut tenon_arena);
    /**Gives the figures of an arena. Before that, the call ends the leases whose borrowers have given
 them back or are gone.
 @param[in]     arena  borrowed.
 @param[in,out] out    the caller's. out->struct_size says how much the call may write. It is
                       untouched on failure.
 @param[out]    err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_arena_stats_get(
        arena: *const tenon_arena,
        out: *mut tenon_arena_stats,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Takes memory from the system before it is needed.
 @param[in]  arena   borrowed.
 @param[in]  nbytes  bytes from the arena's start. A number above its capacity means the whole
                     arena.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED (memory that was taken before
         the failure stays with the arena), TENON_UNSUPPORTED (in a child of fork).
 @since 0.1. Any thread may call this function. Other threads can allocate during the call.*/
    pub fn tenon_arena_reserve(
        arena: *mut tenon_arena,
        nbytes: u64,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Tells whether this process can use CUDA, and if not, why. One build of the library serves
 machines with and without a GPU. The first call that needs CUDA looks for NVIDIA's driver (11.4
 or newer), starts it (cuInit) and counts its devices. That can take a tenth of a second and more.
 It makes no context and takes no memory of a device.

 The result is kept until the process ends. So later calls cost next to nothing, and they do not
 see a driver that is installed later. A failure that may be temporary is not kept, and the next
 call tries again. Such a failure means that the system's daemons are not ready yet, that another
 process has the device for itself, or that memory is short.
 @param[out] err  optional, see rule 2 in tenon.h.
 @return TENON_OK, or
 - TENON_UNSUPPORTED: the library was built without CUDA; there is no driver, or it is too old
   (details "path", "driver_version"); the driver has no device, or refused to start (details
   "cuda_error", "cuda_error_name"); or this process is a child of fork of a process that had
   started the driver.
 - TENON_RESOURCE_EXHAUSTED: there is no memory to ask the driver.
 @since 0.1. Any thread may call this function. While the first call runs, calls by other threads
         wait for it. Fork: the driver does not work in the child of a process that had started
         it, and Tenon does not call it there. The child of a process that never used CUDA may
         start the driver for itself.*/
    pub fn tenon_cuda_available(err: *mut *mut tenon_error) -> tenon_status;
    /**Lends a storage on a CUDA device: fills in a handle for one receiver. No byte is copied. All work
 that was given to `stream` before the call is complete before the receiver's work begins. An
 interprocess event gives this order on the devices, without a wait of the host. If 1,000 such
 events are in flight, or if the device has no such events, the call waits for the stream instead.
 @param[in]     storage  borrowed.
 @param[in]     stream   the stream in which the bytes were written, borrowed for the call.
 @param[in]     options  borrowed. NULL means the defaults.
 @param[in,out] out      struct_size set by the caller, the other fields filled in by the call.
                         Nothing in it needs to be freed. Untouched on failure.
 @param[out]    err      optional, see rule 2 in tenon.h.
 @return TENON_OK, or one of these codes, and then nothing is lent:
 - TENON_INVALID_ARGUMENT: the storage is not on a CUDA device; the form or the transport is
   unknown; a flag is for tenon_open_cuda only.
 - TENON_PERMISSION: the storage is read-only, and TENON_CUDA_LET_WRITE is not set; or another
   file has the name of the counter's file (details "path", "errno").
 - TENON_UNSUPPORTED: there is no CUDA; the memory came by an IPC handle; or the memory cannot be
   lent, or not by the requested transport. In that case the driver was asked, and the message has
   its answer.
 - TENON_PEER_GONE: the storage was dropped (tenon_storage_check_lender).
 - TENON_RESOURCE_EXHAUSTED.
 - Other codes for errors of the driver (details "cuda_error", "cuda_error_name").
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_share_cuda(
        storage: *mut tenon_storage,
        stream: *mut ::core::ffi::c_void,
        options: *const tenon_cuda_options,
        out: *mut tenon_cuda_handle,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Opens device memory that Tenon or PyTorch lends. The driver opens each allocation once in this
 process, however many handles lead to it, and closes it with the last storage in it. If this
 process has a storage of the same bytes already, the call returns that storage with one reference
 more. In the process that sent the handle, the call returns the memory itself.

 Work that is given to `stream` after the call waits for the sender's work, on the device. The
 storage counts as used in that stream. If the counter's file cannot be opened now, the library
 tries again when the storage ends. Until that works, the sender does not get its memory back.

 TENON_CUDA_KEEP_OPEN: memory that the driver has opened stays open after its last storage has
 ended, until tenon_cuda_collect, or until 64 other allocations were opened with this flag. Use
 this flag only if the sender does not free the lent memory meanwhile. PyTorch, for example, keeps
 such memory in its cache. Freeing device memory that another process has open is undefined. The
 next IPC handle of the same memory always finds it open. The next handle by TENON_CUDA_FD or
 TENON_CUDA_FABRIC finds it open as long as the sender's storage lives. Memory of a pool is closed
 in spite of the flag.
 @param[in]  handle   borrowed.
 @param[in]  stream   the stream in which the bytes will be used, borrowed until the storage's
                      last release. Destroy it only after that.
 @param[in]  options  borrowed. NULL means the defaults.
 @param[out] out      new reference; release it with tenon_storage_release. After the last release
                      the memory is given back to the sender as soon as the work in the streams
                      that use it is complete. Untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, or one of these codes, and then nothing is open and the handle can still be
         used:
 - TENON_INVALID_ARGUMENT: there is no such device; the driver does not know a handle or an fd;
   the number of fds does not fit the handle; the range leaves the allocation.
 - TENON_CORRUPT: the bytes are not a memory handle.
 - TENON_INCOMPATIBLE: the memory handle has a newer version (detail "version").
 - TENON_UNSUPPORTED: there is no CUDA; the memory is one of PyTorch's expandable segments with
   fabric handles or in form E; or TENON_CUDA_READ_ONLY is set, and the memory cannot be opened in
   that way.
 - TENON_NOT_FOUND: this process does not see the device with that UUID.
 - TENON_PERMISSION, TENON_PEER_GONE: the fds of PyTorch's expandable segments are fetched from
   the process that made them. TENON_PERMISSION: this process may not trace that process, or that
   process belongs to another user and TENON_CUDA_OTHER_USER is not set. TENON_PEER_GONE: that
   process has ended.
 - TENON_RESOURCE_EXHAUSTED.
 - Other codes for errors of the driver (details "cuda_error", "cuda_error_name").
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_open_cuda(
        handle: *const tenon_cuda_handle,
        stream: *mut ::core::ffi::c_void,
        options: *const tenon_cuda_options,
        out: *mut *mut tenon_storage,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives up a handle that its receiver will not open. The receiver calls this function so that the
 sender gets its memory back. The counter changes as it does when a handle is opened and its
 storage released. No CUDA is needed.
 @param[in] counter  borrowed, the field tenon_cuda_handle.counter.
 @param[in] slot     the field tenon_cuda_handle.slot.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, also if the file no longer exists because its sender has ended;
         TENON_INVALID_ARGUMENT (`counter` is not a name in /dev/shm, or `slot` is beyond the
         file), TENON_CORRUPT (the file is not a counter file, or the handle was given up or
         released before), TENON_PERMISSION.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_release_cuda_counter(
        counter: *const ::core::ffi::c_char,
        slot: u64,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Records that work in a stream uses a storage. The memory is not given back before all work is
 complete that was given to the stream until the storage's last release. The host does not wait.
 In a child of fork, which cannot give work to streams, the call does nothing.
 @param[in]  storage  borrowed, a storage on a CUDA device.
 @param[in]  stream   borrowed until the storage's last release. Destroy it only after that. A
                      default stream is the one of the calling thread and of its current context,
                      whichever thread releases the storage.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (the storage is not on a CUDA device), TENON_PEER_GONE
         (the storage was dropped, see tenon_storage_check_lender), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_storage_record_stream(
        storage: *mut tenon_storage,
        stream: *mut ::core::ffi::c_void,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Lets a stream wait for the other streams in which a storage is used. Work that is given to
 `stream` after the call begins when all work is complete that was given to those streams before
 the call. Those streams are the stream of the call that opened the storage, or of the connection
 over which it came, and the streams of tenon_storage_record_stream. A program that uses the
 storage in yet another stream calls this function, as consumers of DLPack do. The host does not
 wait. `stream` itself is not recorded as using the storage.
 @param[in]  storage  borrowed, a storage on a CUDA device.
 @param[in]  stream   borrowed for the call.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (the storage is not on a CUDA device, or the driver does
         not know the stream), TENON_PEER_GONE (the storage was dropped, see
         tenon_storage_check_lender), TENON_UNSUPPORTED (no CUDA, or a child of fork),
         TENON_RESOURCE_EXHAUSTED, other codes for errors of the driver (details "cuda_error",
         "cuda_error_name"). After a failure, `stream` may wait for some of the streams only.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_storage_order_stream(
        storage: *mut tenon_storage,
        stream: *mut ::core::ffi::c_void,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives back device memory that is not used any more. The call checks all memory whose storage was
 released in this process and that still had a receiver or a stream. It also closes memory that
 was only kept open (TENON_CUDA_KEEP_OPEN). If it frees the memory of an arena, it waits for the
 device's work (tenon_cuda_arena_release).
 @return for how many storages the memory must still wait.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_cuda_collect() -> u64;
    /**Lends a storage by fd: gives an fd, an offset and a size with which another process can open it.
 No byte is copied or moved.

 The lender is not told when the borrower is done. So after the storage's release, its block is
 not used for another storage, and the memory returns to the system together with the segment.

 A borrower of one storage can read the whole segment in which the storage lies, and can write to
 the whole segment if its mode is TENON_MODE_SHARED. TENON_STORAGE_ISOLATED gives a storage a
 segment of its own.

 Where a seccomp filter or a security policy denies memfd_create, storages of TENON_MODE_SHARED
 lie in nameless files of /dev/shm instead. Such a file has no seals: tenon_storage_is_sealed
 returns 0, every process that has the fd can cut the file short, and it can only be opened with
 TENON_OPEN_ALLOW_UNSEALED. A connection sends such storages without a lease. The other modes need
 seals, so storages of those modes cannot be made there.
 @param[in]     storage  borrowed.
 @param[in]     options  borrowed. NULL means the defaults.
 @param[in,out] out      struct_size set by the caller, the other fields filled in by the call.
                         out->fd belongs to the caller, who closes it with tenon_fd_handle_close
                         after sending it. It is untouched on failure.
 @param[out]    err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (a read-only lend of
         TENON_MODE_SHARED, a writable lend of another mode, or a storage that is not frozen yet;
         the detail "option" names the remedy), TENON_UNSUPPORTED (private memory, or memory of a
         device), TENON_PEER_GONE (the storage was dropped, see tenon_storage_check_lender),
         TENON_RESOURCE_EXHAUSTED (fds).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_share_fd(
        storage: *mut tenon_storage,
        options: *const tenon_share_options,
        out: *mut tenon_fd_handle,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Opens a storage that another process lent by fd. Before it maps anything, the call checks that
 the fd is a regular file in memory, is as large as the handle says, allows the access, and is
 sealed against shrinking. With TENON_OPEN_ALLOW_UNSEALED or TENON_OPEN_PRIVATE_COPY any regular
 file is accepted, sealed or not.

 If this process already holds the same range of the same segment with the same access, the call
 gives the same storage with one more reference. Private openings always give a new storage.
 @param[in]  handle   borrowed. handle->fd is borrowed too and may be closed after the call. With
                      TENON_OPEN_ADOPT_FD it is consumed on success.
 @param[in]  options  borrowed. NULL means the defaults.
 @param[out] out      new reference; release it with tenon_storage_release. It is untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (a closed fd, an fd of the wrong type, a range outside
         the segment), TENON_PERMISSION (unsealed memory, or writable access to read-only memory;
         the detail "option" names the remedy), TENON_CORRUPT (the file is smaller than the handle
         says), TENON_RESOURCE_EXHAUSTED (fds, mappings, memory), TENON_UNSUPPORTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_open_fd(
        handle: *const tenon_fd_handle,
        options: *const tenon_open_options,
        out: *mut *mut tenon_storage,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Closes handle->fd, if there is one, and sets it to -1. The lent storage is not affected.
 @param[in,out] handle  borrowed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_fd_handle_close(handle: *mut tenon_fd_handle);
    /**Makes a storage of mode TENON_MODE_SHARED that lies in a named file of its own, in PyTorch's
 layout. The file appears under its name as a whole or not at all. Its memory is reserved first,
 so a full directory causes an error here and not a SIGBUS later.

 A process that may write to the file can cut it short later. All processes that use the file,
 this one included, then get a SIGBUS. Memory from tenon_storage_new, which tenon_share_filename
 lends through a socket, is sealed against that.
 @param[in]  options  borrowed. NULL means the defaults. The field access is ignored.
 @param[in]  nbytes   the size of the payload in bytes. All bytes are 0 at first. 0 is allowed and
                      makes a file that has only a header, as PyTorch does.
 @param[out] out      new reference; release it with tenon_storage_release. It is untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (the name, the mode or the directory), TENON_PERMISSION
         (the name exists already, or this process may not write to the directory),
         TENON_RESOURCE_EXHAUSTED (the detail "limit" names the limit that was reached),
         TENON_NOT_FOUND (there is no such directory), TENON_UNSUPPORTED. After a failure no file
         is left behind.
 @since 0.1. Any thread may call this function. A child of fork holds the storages that it
         inherited. The name is removed when the last holder has released it.*/
    pub fn tenon_storage_new_filename(
        options: *const tenon_filename_options,
        nbytes: u64,
        out: *mut *mut tenon_storage,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Lends a storage by name. No byte is copied or moved, except for private memory (see below).
  - A storage in a named file is lent under that name.
  - Any other shared storage is lent through a socket: the socket of its segment, or a new socket
    if the options name one. The service thread hands out the memory (rule 10 in tenon.h).
    TENON_FILENAME_TORCH is refused, because PyTorch opens only files, and memory that has no name
    cannot get one.
  - Private memory moves into a new file, if the library made it and no pointer to its bytes was
    ever given out (by tenon_storage_data and similar functions). Other private memory is refused,
    because a pointer to the old place may be in use.
 @param[in]     storage  borrowed.
 @param[in]     options  borrowed. NULL means the defaults.
 @param[in]     wait     borrowed. It says how long to wait for a manager. NULL means 5 seconds.
 @param[in,out] out      struct_size set by the caller, the other fields filled in by the call.
                         The handle owns nothing that must be freed. It is untouched on failure.
 @param[out]    err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (the access, or a name that exists
         already), TENON_UNSUPPORTED (the detail "option" names the remedy),
         TENON_RESOURCE_EXHAUSTED, TENON_NOT_FOUND (there is no manager program or no such
         directory), TENON_PEER_GONE (the storage was dropped, or the manager died), TENON_CORRUPT
         (the manager's answer), or one of the four codes of a wait for the manager that ended
         (see tenon_send; detail "path").
 @since 0.1. Any thread may call this function. While private memory moves, no other call may use
         the same storage.*/
    pub fn tenon_share_filename(
        storage: *mut tenon_storage,
        options: *const tenon_filename_options,
        wait: *const tenon_wait,
        out: *mut tenon_filename_handle,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Opens a storage that Tenon or PyTorch lent by name. If this process already holds the same range
 of the same memory with the same access, by name or by fd, the call gives the same storage with
 one more reference. If handle->manager is set, the name is registered with that manager, as
 PyTorch does.
 @param[in]  handle   borrowed.
 @param[in]  options  borrowed. NULL means the defaults. The flags TENON_OPEN_OTHER_USER,
                      TENON_OPEN_NO_MANAGER and TENON_OPEN_DECREF are possible besides those of
                      tenon_open_fd. TENON_OPEN_ADOPT_FD is not possible.
 @param[in]  wait     borrowed. It says how long to wait for the lender behind a socket, or for a
                      manager. NULL means 5 seconds.
 @param[out] out      new reference; release it with tenon_storage_release. It is untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, or one of these codes. The detail "path" names the object. After a failure
         nothing is held or counted.
 - TENON_INVALID_ARGUMENT.
 - TENON_NOT_FOUND: the name does not exist, or its last holder has just released it.
 - TENON_PERMISSION: the memory is unsealed, read-only, or another user's. The detail "option"
   names the remedy.
 - TENON_CORRUPT: the name leads to a link or a pipe, the file is too small, its count is
   impossible, or the socket speaks another protocol.
 - TENON_PEER_GONE: no process listens on the socket, or the manager died.
 - The four codes of a wait that ended (see tenon_send).
 - TENON_RESOURCE_EXHAUSTED, TENON_INCOMPATIBLE, TENON_UNSUPPORTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_open_filename(
        handle: *const tenon_filename_handle,
        options: *const tenon_open_options,
        wait: *const tenon_wait,
        out: *mut *mut tenon_storage,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Counts one message in flight. The name then outlives the sender's own references, until a
 receiver opens the name with TENON_OPEN_DECREF or calls tenon_filename_decref (PyTorch's
 receivers do the same). The name stays as long as this process lives, and for 60 seconds after an
 orderly exit. If this process is killed, its messages in flight are lost.
 @param[in]  handle  borrowed. It must be the handle of a storage that this process holds.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND (this process holds no such storage).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_filename_incref(
        handle: *const tenon_filename_handle,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Undoes one tenon_filename_incref: the message was received, or will never be received.
 @param[in]  handle  borrowed.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, also if the name does not exist any more; TENON_INVALID_ARGUMENT,
         TENON_PERMISSION, TENON_CORRUPT, TENON_TIMEOUT.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_filename_decref(
        handle: *const tenon_filename_handle,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives up the names of this process now, as exit() does later. The call subtracts this process
 from the counts of its files, keeps the files of its messages in flight for 60 seconds, and ends
 the sockets through which this process hands out memory and serves deposits.

 Call it in a process that ends in order but with _exit(), such as a process that Python's
 multiprocessing forked, or a Go program. Other processes need not call it.
 @since 0.1. Any thread may call this function. Storages stay valid.*/
    pub fn tenon_filename_leave();
    /**Removes a name. Processes that have it open keep the memory, and no process can open it any more.
 If a PyTorch process holds the name, that process aborts when it releases the memory: leave such
 names to their holders.
 @param[in]  name  borrowed, in the form of tenon_filename_handle.name.
 @param[out] err   optional, see rule 2 in tenon.h.
 @return TENON_OK, also if there is no such name; TENON_INVALID_ARGUMENT; TENON_PERMISSION, also
         if the name is neither a file nor a socket.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_filename_unlink(
        name: *const ::core::ffi::c_char,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Removes the names in a directory that no process holds: files that Tenon made, sockets without a
 lender, and on request PyTorch's files. The call asks the kernel, which gives a write lease only
 on a file that no other process has open or mapped. So it sees every holder, whether it uses
 Tenon or not, and in whatever container it runs.

 Making and releasing names also sweeps a little, and the service thread removes the names of
 killed processes. This call removes all others.
 @param[in]     options  borrowed. NULL means the defaults.
 @param[in,out] out      struct_size set by the caller, the other fields filled in by the call.
                         NULL is allowed. It is untouched on failure.
 @param[out]    err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND or TENON_PERMISSION (the directory),
         TENON_RESOURCE_EXHAUSTED (also if no fd is left for a name; some names may have been
         removed before).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_filename_sweep(
        options: *const tenon_sweep_options,
        out: *mut tenon_sweep_result,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives the socket of this user's manager, and starts the manager if none runs. The manager is a
 small process that speaks PyTorch's protocol, guards the names that PyTorch processes hold, and
 ends by itself when its last client is gone. Give the socket's path to PyTorch as the first item
 of its tuple.
 @param[in]  program  borrowed, the path of the program tenon-manager. NULL means the environment
                      variable TENON_MANAGER, or else the program beside the library.
 @param[in]  wait     borrowed. NULL means 5 seconds.
 @param[out] out      the caller's buffer of 108 bytes. The call writes a path that ends with NUL.
                      It is untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND (there is no such program),
         TENON_PERMISSION, TENON_PEER_GONE (the manager ended at once), TENON_RESOURCE_EXHAUSTED,
         or one of the four codes of a wait that ended (see tenon_send).
 @since 0.1. Any thread may call this function. From then on this process is a client of the
         manager until it ends.*/
    pub fn tenon_manager_start(
        program: *const ::core::ffi::c_char,
        wait: *const tenon_wait,
        out: *mut ::core::ffi::c_char,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Writes the name of an element type, as numpy and PyTorch write it: "float32", "bfloat16",
 "float8_e4m3fn". A type with more than one lane has a name like "uint8x4". A type without a name
 gets a text like "dtype_3_64" (code and bits).
 @param[in]  dtype     any numbers.
 @param[out] out       the caller's buffer, with room for `capacity` bytes. The call writes the
                       name, cut off if it does not fit, and a NUL. `out` may be NULL if capacity
                       is 0.
 @param[in]  capacity  bytes. TENON_DTYPE_MAX_NAME_NBYTES is enough for every name.
 @return the length of the whole name in bytes, without the NUL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_dtype_name(
        dtype: tenon_dtype,
        out: *mut ::core::ffi::c_char,
        capacity: usize,
    ) -> usize;
    /**Finds the element type that has a given name. It reads every name that tenon_dtype_name writes.
 @param[in]  name  borrowed.
 @param[out] out   the caller's. It is untouched on failure.
 @param[out] err   optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (there is no such name).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_dtype_parse(
        name: *const ::core::ffi::c_char,
        out: *mut tenon_dtype,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Computes how many bytes a packed tensor takes, which is the size of a storage for it.
 @param[in]  dtype  the type of one element.
 @param[in]  sizes  borrowed, an array of ndim sizes >= 0. It may be NULL if ndim is 0.
 @param[in]  ndim   0 to 64.
 @param[out] out    the caller's. The call stores the size in bytes: numel * bits * lanes / 8,
                    rounded up. It is untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (an unknown type, a negative size, or more bytes than an
         int64_t can count).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_dtype_nbytes(
        dtype: tenon_dtype,
        sizes: *const i64,
        ndim: i32,
        out: *mut u64,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes a tensor over a storage. Every element that the layout can address must lie inside the
 storage. No byte is read or moved.
 @param[in]  storage  borrowed. The tensor takes a reference of its own.
 @param[in]  spec     borrowed for the call, including its arrays.
 @param[out] out      new reference; release it with tenon_tensor_release. It is untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also if sizes, strides or offset overflow or reach
         beyond the storage), TENON_UNSUPPORTED (unknown flags), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_tensor_new(
        storage: *mut tenon_storage,
        spec: *const tenon_tensor_spec,
        out: *mut *mut tenon_tensor,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes a tensor with the same elements in another shape. No byte is read or moved, and the flags
 stay. Like PyTorch's Tensor.view, this also takes a tensor that is not contiguous if strides for
 the new shape exist.
 @param[in]  tensor  borrowed. The new tensor takes a reference of its own to the storage.
 @param[in]  sizes   borrowed for the call: ndim sizes. One of them may be -1, which stands for
                     the size that makes the number of elements right. It may be NULL if ndim is
                     0.
 @param[in]  ndim    the number of dimensions of the new shape, 0 to TENON_TENSOR_MAX_NDIM.
 @param[out] out     new reference; release it with tenon_tensor_release. It is untouched on
                     failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (the elements do not fit the shape, or would have to be
         copied), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_tensor_reshape(
        tensor: *const tenon_tensor,
        sizes: *const i64,
        ndim: i32,
        out: *mut *mut tenon_tensor,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes a tensor that reads the same bytes as elements of another type. No byte is read or moved,
 and the flags stay. If the elements of the two types have different sizes, the last dimension
 takes up the difference: 6 elements of 16 bits become 3 elements of 32 bits, or 12 of 8 bits.
 Then the tensor must be contiguous and have a dimension, and its offset and its last dimension
 must be whole numbers of the new elements.
 @param[in]  tensor  borrowed. The new tensor takes a reference of its own to the storage.
 @param[in]  dtype   the new element type.
 @param[out] out     new reference; release it with tenon_tensor_release. It is untouched on
                     failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also for an unknown type), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_tensor_view_dtype(
        tensor: *const tenon_tensor,
        dtype: tenon_dtype,
        out: *mut *mut tenon_tensor,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes a tensor of the elements that an index picks, as numpy and PyTorch do with numbers, slices,
 None and the ellipsis. The items stand for the dimensions in their order. Dimensions without an
 item are kept whole, at the end or where the ellipsis stands. No byte is read or moved, and the
 flags stay. Elements of fewer than 8 bits can only be picked if the result is contiguous and
 begins on a byte.
 @param[in]  tensor  borrowed. The new tensor takes a reference of its own to the storage.
 @param[in]  items   borrowed array of n items, for the call. items[0].struct_size is the size of
                     every element. It may be NULL if n is 0.
 @param[in]  n       the number of items. There is at most one ellipsis, and there are at most as
                     many numbers and slices as the tensor has dimensions.
 @param[out] out     new reference; release it with tenon_tensor_release. It is untouched on
                     failure.
 @param[out] err     optional, see rule 2 in tenon.h. An error about an item has the detail
                     "item", its place in `items`. For a number outside of its dimension it also
                     has "dimension" and "size".
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (a reserved field is not 0),
         TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_tensor_index(
        tensor: *const tenon_tensor,
        items: *const tenon_index,
        n: usize,
        out: *mut *mut tenon_tensor,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Adds a reference.
 @param[in] tensor  borrowed. NULL is allowed.
 @return `tensor`, as a new reference that must be released too.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_tensor_retain(tensor: *mut tenon_tensor) -> *mut tenon_tensor;
    /**Releases a reference.
 @param[in] tensor  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_tensor_release(tensor: *mut tenon_tensor);
    /**Gives the layout of a tensor.
 @param[in]     tensor  borrowed.
 @param[in,out] out     struct_size set by the caller, the other fields filled in by the call.
                        sizes and strides are borrowed from the tensor, valid until its last
                        release, and never NULL if ndim > 0. It is untouched on failure.
 @param[out]    err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_tensor_get_spec(
        tensor: *const tenon_tensor,
        out: *mut tenon_tensor_spec,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Returns the storage under a tensor.
 @param[in] tensor  borrowed. NULL is allowed.
 @return the storage, borrowed from the tensor and valid until the tensor's last release. Use
         tenon_storage_retain to keep it longer. It is NULL for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_tensor_storage(tensor: *const tenon_tensor) -> *mut tenon_storage;
    /**Returns a pointer to the element with index 0, 0, …, for reading.
 @param[in] tensor  borrowed. NULL is allowed.
 @return a pointer borrowed from the tensor and valid until its last release. It is NULL for NULL,
         and if the tensor's storage is empty or was dropped. For a storage on a CUDA device it is
         an address of that device, as in tenon_storage_data.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_tensor_data(tensor: *const tenon_tensor) -> *const ::core::ffi::c_void;
    /**Gives a pointer to the element with index 0, 0, …, for writing.
 @param[in]  tensor  borrowed.
 @param[out] out     borrowed from the tensor and valid until its last release. It is NULL if the
                     storage is empty. For a storage on a CUDA device it is an address of that
                     device, as in tenon_storage_data. It is untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (the storage is read-only),
         TENON_PEER_GONE (the storage was dropped, see tenon_storage_check_lender).
 @since 0.1. Any thread may call this function. The callers must order their writes (rule 8 in
         tenon.h).*/
    pub fn tenon_tensor_data_mut(
        tensor: *mut tenon_tensor,
        out: *mut *mut ::core::ffi::c_void,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Returns the number of elements.
 @param[in] tensor  borrowed. NULL is allowed.
 @return the product of the sizes, which is 1 if ndim is 0; 0 for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_tensor_numel(tensor: *const tenon_tensor) -> u64;
    /**Returns how many bytes the elements take when they are packed: numel * bits * lanes / 8, rounded
 up.
 @param[in] tensor  borrowed. NULL is allowed.
 @return the size in bytes; 0 for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_tensor_nbytes(tensor: *const tenon_tensor) -> u64;
    /**Tells whether the elements lie packed in memory, with the last dimension fastest.
 @param[in] tensor  borrowed. NULL is allowed.
 @return 1 if the elements are packed, also if there are none; otherwise 0, also for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_tensor_is_contiguous(tensor: *const tenon_tensor) -> ::core::ffi::c_int;
    /**Gives the layout, the data pointer and the other properties of a tensor in one call.
 @param[in]     tensor  borrowed.
 @param[in,out] out     struct_size set by the caller, the other fields filled in by the call.
                        They are valid until the tensor's last release. It is untouched on
                        failure.
 @param[out]    err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_tensor_get_view(
        tensor: *mut tenon_tensor,
        out: *mut tenon_tensor_view,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes an empty message.
 @param[out] out  new reference; release it with tenon_message_release. It is untouched on
                  failure.
 @param[out] err  optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_message_new(
        out: *mut *mut tenon_message,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Adds tensors to a message. The call adds all of them or, on failure, none. It checks for each
 tensor whether it can be lent. Tensors of one message that share a storage share it in the
 receiver too.
 @param[in]  message  borrowed.
 @param[in]  tensors  borrowed, an array of n tensors. The message takes a reference to each.
 @param[in]  names    NULL, or a borrowed array of n strings in UTF-8. Each string is NULL or has
                      at most 4,096 bytes. The strings are copied.
 @param[in]  n        the number of tensors.
 @param[in]  options  borrowed. NULL means the defaults. They have the same meaning as in
                      tenon_share_fd.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION, TENON_UNSUPPORTED (a tensor lies in
         private memory), TENON_RESOURCE_EXHAUSTED, TENON_PEER_GONE (a storage was dropped).
 @since 0.1. Only one thread at a time may use the message.*/
    pub fn tenon_message_add(
        message: *mut tenon_message,
        tensors: *const *mut tenon_tensor,
        names: *const *const ::core::ffi::c_char,
        n: usize,
        options: *const tenon_share_options,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Sets the user bytes of a message. They replace the user bytes that were set before.
 @param[in]  message  borrowed.
 @param[in]  data     borrowed for the call. It may be NULL if nbytes is 0.
 @param[in]  nbytes   at most TENON_MESSAGE_MAX_USER_NBYTES.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Only one thread at a time may use the message.*/
    pub fn tenon_message_set_user_bytes(
        message: *mut tenon_message,
        data: *const ::core::ffi::c_void,
        nbytes: usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Returns the number of tensors in a message.
 @param[in] message  borrowed. NULL is allowed.
 @return the count; 0 for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_message_count(message: *const tenon_message) -> usize;
    /**Returns one tensor of a message.
 @param[in] message  borrowed. NULL is allowed.
 @param[in] index    counts from 0.
 @return the tensor, borrowed from the message and valid until the message is released. Use
         tenon_tensor_retain to keep it longer. It is NULL if `index` is past the last tensor.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_message_tensor(
        message: *const tenon_message,
        index: usize,
    ) -> *mut tenon_tensor;
    /**Returns the name of one tensor of a message.
 @param[in] message  borrowed. NULL is allowed.
 @param[in] index    counts from 0.
 @return a UTF-8 string that ends with NUL, borrowed from the message and valid until the next
         tenon_message_add or until the message is released. It is NULL if the tensor has no name,
         or if `index` is past the last tensor.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_message_name(
        message: *const tenon_message,
        index: usize,
    ) -> *const ::core::ffi::c_char;
    /**Returns the first tensor of a message that has a given name.
 @param[in] message  borrowed. NULL is allowed.
 @param[in] name     borrowed. NULL is allowed.
 @return the tensor, borrowed from the message. It is NULL if there is none.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_message_find(
        message: *const tenon_message,
        name: *const ::core::ffi::c_char,
    ) -> *mut tenon_tensor;
    /**Gives the views of the first n tensors of a message in one call. It is for callers for which
 every call is expensive, such as wrappers in other languages.
 @param[in]     message  borrowed.
 @param[in,out] out      the caller's array of n views. The caller sets out[0].struct_size, which
                         is the size of every element. The call writes it to the other elements
                         and fills in all fields. The views are valid until the message is
                         released, their names until the next tenon_message_add. It is untouched
                         on failure.
 @param[in]     n        at most tenon_message_count. 0 is allowed.
 @param[out]    err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also if the message has fewer than n tensors).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_message_get_views(
        message: *const tenon_message,
        out: *mut tenon_tensor_view,
        n: usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Returns the user bytes of a message.
 @param[in]  message  borrowed. NULL is allowed.
 @param[out] nbytes   how many bytes there are. It may be NULL.
 @return the bytes, borrowed from the message. It is NULL if there are none.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_message_user_bytes(
        message: *const tenon_message,
        nbytes: *mut usize,
    ) -> *const ::core::ffi::c_void;
    /**Releases a message and its references to the tensors.
 @param[in] message  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_message_release(message: *mut tenon_message);
    /**Makes a composite. The shapes, the element types and the devices of the parts must fit each
 other. The call does not read the numbers in the indices, offsets and component sizes;
 tenon_composite_check checks them.
 @param[in]  spec  borrowed for the call, including its arrays. The composite takes a reference to
                   each part.
 @param[out] out   new reference; release it with tenon_composite_release. It is untouched on
                   failure.
 @param[out] err   optional, see rule 2 in tenon.h. If a part is wrong, the detail `part` names
                   it.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (unknown flags),
         TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_composite_new(
        spec: *const tenon_composite_spec,
        out: *mut *mut tenon_composite,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Adds a reference.
 @param[in] composite  borrowed. NULL is allowed.
 @return `composite`, as a new reference that must be released too.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_composite_retain(
        composite: *mut tenon_composite,
    ) -> *mut tenon_composite;
    /**Releases a reference. The last one releases the references to the parts.
 @param[in] composite  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_composite_release(composite: *mut tenon_composite);
    /**Gives the layout, the sizes and the parts of a composite.
 @param[in]     composite  borrowed.
 @param[in,out] out        struct_size set by the caller, the other fields filled in by the call.
                           The pointers are borrowed from the composite and valid until its last
                           release. It is untouched on failure.
 @param[out]    err        optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_composite_get_spec(
        composite: *const tenon_composite,
        out: *mut tenon_composite_spec,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Checks the numbers in the indices, offsets and component sizes of a composite. A reader that
 follows the numbers of the result stays inside the parts. Frameworks do not check these numbers:
 a column index that is too large makes the newest PyTorch read memory outside the tensor. The
 rules are PyTorch's. Indices are within the sizes. Row and column pointers go from 0 to the
 number of non-zeros and never decrease. The plain indices of one line ascend, and so do the
 indices of a coalesced tensor. A quantised tensor has none of these numbers, so the call returns
 it as it is.

 If another process can still write such a part, the call copies the part into private memory
 first and checks the copy. A part in a frozen storage or in private memory needs no copy, unless
 the memory is a copy-on-write opening or a view of a file, or the part is misaligned or not
 contiguous. The values are never copied. The whole cost is one pass over the checked parts.
 @param[in]  composite  borrowed.
 @param[out] out        new reference to the same composite, or to one with the copied parts.
                        Release it with tenon_composite_release. It is untouched on failure.
 @param[out] err        optional, see rule 2 in tenon.h. The details `part` and `index` say where
                        the wrong number is.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT (a number is wrong), TENON_UNSUPPORTED
         (the parts are on a device), TENON_PEER_GONE (a storage was dropped),
         TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_composite_check(
        composite: *mut tenon_composite,
        out: *mut *mut tenon_composite,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Adds composites to a message. The call adds all of them or, on failure, none. The parts of each
 composite become tensors of the message, without names and one after another, behind the tensors
 that the message has already. Parts that share a storage share it in the receiver too. A version
 of Tenon that does not know composites refuses to receive such a message with TENON_INCOMPATIBLE.
 @param[in]  message     borrowed.
 @param[in]  composites  borrowed, an array of n composites. The message takes a reference to
                         each.
 @param[in]  names       NULL, or a borrowed array of n strings, as in tenon_message_add.
 @param[in]  n           the number of composites.
 @param[in]  options     borrowed. NULL means the defaults. They have the same meaning as in
                         tenon_share_fd, for every part.
 @param[out] err         optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION, TENON_UNSUPPORTED (a part lies in
         private memory), TENON_RESOURCE_EXHAUSTED, TENON_PEER_GONE (a storage was dropped).
 @since 0.1. Only one thread at a time may use the message.*/
    pub fn tenon_message_add_composites(
        message: *mut tenon_message,
        composites: *const *mut tenon_composite,
        names: *const *const ::core::ffi::c_char,
        n: usize,
        options: *const tenon_share_options,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Returns the number of composites in a message. Their parts count in tenon_message_count.
 @param[in] message  borrowed. NULL is allowed.
 @return the count; 0 for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_message_composite_count(message: *const tenon_message) -> usize;
    /**Returns one composite of a message. The composites are in the order of their parts.
 @param[in] message  borrowed. NULL is allowed.
 @param[in] index    counts from 0.
 @return the composite, borrowed from the message and valid until the message is released. Use
         tenon_composite_retain to keep it longer. It is NULL if `index` is past the last
         composite.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_message_composite(
        message: *const tenon_message,
        index: usize,
    ) -> *mut tenon_composite;
    /**Returns where the parts of a composite are among the tensors of its message. A reader that needs
 tensors and composites in the order of sending goes through the tensors. Where the parts of a
 composite begin, it takes the composite and skips the parts.
 @param[in]  message  borrowed. NULL is allowed.
 @param[in]  index    which composite, counted from 0.
 @param[out] n_parts  how many parts there are, 0 on meta. It may be NULL.
 @return the index of the first part for tenon_message_tensor; the others follow. On meta it is
         the index of the tensor before which the composite was added. It is
         tenon_message_count, and n_parts 0, if `index` is past the last composite.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_message_composite_parts(
        message: *const tenon_message,
        index: usize,
        n_parts: *mut usize,
    ) -> usize;
    /**Returns the name of one composite of a message.
 @param[in] message  borrowed. NULL is allowed.
 @param[in] index    counts from 0.
 @return a UTF-8 string, borrowed as that of tenon_message_name. It is NULL if the composite has
         no name, or if `index` is past the last composite.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_message_composite_name(
        message: *const tenon_message,
        index: usize,
    ) -> *const ::core::ffi::c_char;
    /**Returns the first composite of a message that has a given name.
 @param[in] message  borrowed. NULL is allowed.
 @param[in] name     borrowed. NULL is allowed.
 @return the composite, borrowed from the message. It is NULL if there is none.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_message_find_composite(
        message: *const tenon_message,
        name: *const ::core::ffi::c_char,
    ) -> *mut tenon_composite;
    /**Makes a connection on a socket. The socket may be blocking or non-blocking, and its flags are not
 changed. Without TENON_CONNECTION_SAME_USER and TENON_CONNECTION_GROUP every peer is accepted,
 because the program that made the socket has decided who can connect. With one of these flags,
 the peer's tenon_peer decides, together with the groups that the peer had at the same moment
 (SO_PEERGROUPS).
 @param[in]  socket   a connected AF_UNIX socket, borrowed until the connection is released. With
                      TENON_CONNECTION_ADOPT_SOCKET it is consumed on success. No other code may
                      read from the socket or write to it.
 @param[in]  options  borrowed. NULL means the defaults.
 @param[out] out      new reference; release it with tenon_connection_release. It is untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (`socket` is closed or is not a connected AF_UNIX stream
         or seqpacket socket, or a group is given without TENON_CONNECTION_GROUP, or
         TENON_LENDER_GONE_DROP is given and another connection on the same socket already watches
         for its lender's end), TENON_UNSUPPORTED (unknown flags), TENON_PERMISSION (the peer
         belongs to another user; details "pid", "uid"), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function. After fork only the process that made the
         connection can use it. The child may release it.*/
    pub fn tenon_connection_new(
        socket: ::core::ffi::c_int,
        options: *const tenon_connection_options,
        out: *mut *mut tenon_connection,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Returns the fd to poll. When it is readable, call tenon_recv with timeout 0 until it returns
 TENON_WOULD_BLOCK: one read from the socket can take several messages, and the fd does not become
 readable again for them. After an unfinished send, poll for writing and then call tenon_send.
 @param[in] connection  borrowed. NULL is allowed.
 @return the socket, borrowed; -1 for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_connection_fd(
        connection: *const tenon_connection,
    ) -> ::core::ffi::c_int;
    /**Gives the process at the other end of a connection.
 @param[in]     connection  borrowed.
 @param[in,out] out         struct_size set by the caller, the other fields filled in by the call.
                            It is untouched on failure.
 @param[out]    err         optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT.
 @since 0.1. Any thread may call this function, also in a child of fork.*/
    pub fn tenon_connection_peer(
        connection: *const tenon_connection,
        out: *mut tenon_peer,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives the fd that tells when the lender is gone (tenon_lender_gone). The fd is readable (POLLIN)
 from that moment on. With TENON_LENDER_GONE_DROP the memory has been dropped by then. The service
 thread (rule 10 in tenon.h) notices the end within microseconds. In a process that chose to have
 no thread, tenon_lease_poll notices it. Poll the fd, and do not read from it.
 @param[in]  connection  borrowed.
 @param[out] out         the fd, borrowed from the connection and valid until its release. It is
                         untouched on failure.
 @param[out] err         optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (another connection on the same socket already watches
         for its lender's end), TENON_RESOURCE_EXHAUSTED, TENON_UNSUPPORTED (in a child of fork).
 @since 0.1. Any thread may call this function. A child of fork is not told: memory that its
         parent received stays valid in the child.*/
    pub fn tenon_connection_gone_fd(
        connection: *mut tenon_connection,
        out: *mut ::core::ffi::c_int,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Names the stream in which this process uses memory of a CUDA device that it sends or receives
 over a connection. Tensors on devices travel in messages like other tensors, by the driver's
 handles and under leases. The lender gets the memory back from a receiver that is killed and from
 a message that nobody reads.

 Work that the sender gave to its stream before tenon_send is complete before the receiver's work
 begins. Work that the receiver gives to its stream after tenon_recv waits for the sender's work.
 A received storage counts as used in the receiver's stream until the storage is released. Neither
 call waits for the device, with one exception: tenon_send waits for the stream when 1,000 events
 are in flight.
 @param[in]  connection  borrowed.
 @param[in]  device      the device's ordinal in this process's numbering.
 @param[in]  stream      a CUstream or cudaStream_t, borrowed until the connection is released and
                         until the last release of every storage that was received meanwhile. NULL
                         means the default stream, which is also used without this call.
 @param[out] err         optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED, TENON_UNSUPPORTED (the
         connection of a parent of this process).
 @since 0.1. Any thread may call this function. A message that another thread sends or receives
         at the same time uses either the old or the new stream.*/
    pub fn tenon_connection_set_stream(
        connection: *mut tenon_connection,
        device: i32,
        stream: *mut ::core::ffi::c_void,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Sends a message. A message is delivered as a whole or not at all, and messages arrive in the
 order in which they were sent.

 If the wait ends first (TENON_WOULD_BLOCK, TENON_TIMEOUT, TENON_INTERRUPTED, TENON_CANCELLED),
 part of the message may be sent already. The connection keeps the message, and the next call
 continues where this call stopped. The next call may pass the same message, which is not sent
 twice. It may pass another message, which is kept too and sent after the first. Or it may pass
 NULL. Once this call, or a later call by the same thread, has returned TENON_OK, passing the same
 message sends it again. While earlier messages are unfinished, later messages wait in memory.
 Then give the peer time to read the socket.
 @param[in]  connection  borrowed.
 @param[in]  message     borrowed. The storages that it lends stay valid for the peer after the
                         message is released. NULL: the call only finishes messages that earlier
                         calls left unfinished.
 @param[in]  wait        borrowed. NULL means to wait for ever.
 @param[out] err         optional, see rule 2 in tenon.h.
 @return TENON_OK, the four codes of a wait that ended (see above), or
 - TENON_INVALID_ARGUMENT.
 - TENON_PEER_GONE: the peer closed its end or died, or a storage of the message was dropped.
 - TENON_RESOURCE_EXHAUSTED, limit "RLIMIT_NOFILE", errno ETOOMANYREFS: too many fds are in
   flight. The next call continues.
 - TENON_RESOURCE_EXHAUSTED, limit "send_queue": the peer does not read, and 4,096 messages or 256
   MiB of descriptors are waiting. This message is not kept.
 - TENON_RESOURCE_EXHAUSTED for other limits: memory, or SO_SNDBUF of a seqpacket socket.
 - TENON_UNSUPPORTED: this process is a child of fork, or memory of a device cannot travel.
 - TENON_PERMISSION: a storage on a device is read-only, and TENON_CONNECTION_CUDA_LET_WRITE is
   not set.
 - TENON_IO, and other codes for errors of the device's driver.
 @since 0.1. Any thread may call this function. Sends wait for each other. A send and a receive
         can run at the same time.*/
    pub fn tenon_send(
        connection: *mut tenon_connection,
        message: *const tenon_message,
        wait: *const tenon_wait,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Receives the next message. If the wait ends first, nothing is lost: the next call continues.
 After TENON_CORRUPT every later call fails. Any other failure about one message loses that
 message, and the next call receives the message behind it. If there was no memory for the call
 itself, the message stays, and the next call tries again.
 @param[in]  connection  borrowed.
 @param[in]  wait        borrowed. NULL means to wait for ever.
 @param[out] out         new reference; release it with tenon_message_release. It is untouched on
                         failure.
 @param[out] err         optional, see rule 2 in tenon.h.
 @return TENON_OK, one of the four codes of a wait that ended (see tenon_send), or
 - TENON_INVALID_ARGUMENT.
 - TENON_PEER_GONE: the peer closed its end or died. All messages that the peer sent before are
   delivered first, except with TENON_LENDER_GONE_DROP.
 - TENON_RESOURCE_EXHAUSTED, limit "RLIMIT_NOFILE": this process had no room for the message's
   fds, and the kernel dropped them. This message, and later messages that need the same segments,
   cannot be opened.
 - TENON_RESOURCE_EXHAUSTED, limit "max_mapped_nbytes" or "mapped_nbytes": the memory of this
   peer, or of all peers, would take too much address space.
 - TENON_RESOURCE_EXHAUSTED for other limits: the limits in the options, mappings, memory.
 - TENON_CORRUPT: the received bytes are not a message. The connection cannot be used any more.
 - TENON_INCOMPATIBLE: the peer uses a version of the format that this library does not read.
 - TENON_PERMISSION: a segment cannot be opened with the wanted access, or it has no seals (see
   tenon_open_fd).
 - TENON_IO.
 - TENON_UNSUPPORTED: this process is a child of fork, or memory of a device cannot be opened in
   the requested way.
 - TENON_NOT_FOUND: the memory is on a device that this process does not see.
 - Other codes for errors of the device's driver.
 @since 0.1. Any thread may call this function. Receives wait for each other. A send and a
         receive can run at the same time.*/
    pub fn tenon_recv(
        connection: *mut tenon_connection,
        wait: *const tenon_wait,
        out: *mut *mut tenon_message,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Releases a connection. A message that was sent only in part is never finished, and the peer gets
 TENON_PEER_GONE. Storages that were received stay valid.
 @param[in] connection  consumed. NULL is allowed. No other call may be using the connection.
 @since 0.1. Any thread may call this function. In a child of fork: if a thread of the parent was
         using the connection at the moment of the fork, the child closes its copy of an adopted
         socket and keeps the rest of the connection's memory until it ends.*/
    pub fn tenon_connection_release(connection: *mut tenon_connection);
    /**Makes an arena on a device.
 @param[in]  options  borrowed.
 @param[out] out      new reference; release it with tenon_cuda_arena_release. Untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (`options` is NULL; capacity_nbytes is 0; there is no
         such device; the transport is another one), TENON_UNSUPPORTED (there is no CUDA, or the
         device cannot lend memory by that transport), TENON_RESOURCE_EXHAUSTED (device memory),
         other codes for errors of the driver (details "cuda_error", "cuda_error_name").
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_cuda_arena_new(
        options: *const tenon_cuda_arena_options,
        out: *mut *mut tenon_cuda_arena,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Adds a reference.
 @param[in] arena  borrowed. NULL is allowed.
 @return `arena`, as a new reference that must be released too.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_cuda_arena_retain(
        arena: *mut tenon_cuda_arena,
    ) -> *mut tenon_cuda_arena;
    /**Releases a reference. The arena's memory is freed once the last storage in it is released and no
 stream and no receiver uses it any more. The driver waits for the device's work when it frees
 memory. So a send, a receive or another call in which an arena ends does not free the memory
 itself. tenon_cuda_collect, the next call that ends a storage on a device, or a call that finds
 too little memory frees it.
 @param[in] arena  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_cuda_arena_release(arena: *mut tenon_cuda_arena);
    /**Allocates a storage in an arena. Its address on the device is a multiple of 256 bytes. If there
 is no room, the call checks for memory that was given back meanwhile, as tenon_cuda_collect does.
 If there is still no room, it waits as `wait` says and checks again, at most a millisecond apart.
 The call does not wait if `nbytes` is more than the arena's capacity.
 @param[in]  arena   borrowed. The storage keeps the arena alive.
 @param[in]  nbytes  the size in bytes. The content of the bytes is unspecified. 0 gives an empty
                     storage, which takes no room.
 @param[in]  wait    borrowed for the call. NULL: do not wait.
 @param[out] out     new reference; release it with tenon_storage_release. Untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED (memory; or the arena is full,
         with the details "limit" = "arena", "limit_value", "wanted", "in_use" and "holders"),
         TENON_UNSUPPORTED (in a child of fork), or, after a wait that ended, TENON_TIMEOUT,
         TENON_INTERRUPTED or TENON_CANCELLED, with the same details. A wait with timeout 0 gives
         TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_cuda_arena_allocate(
        arena: *mut tenon_cuda_arena,
        nbytes: u64,
        wait: *const tenon_wait,
        out: *mut *mut tenon_storage,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives the figures of an arena. The call checks for memory that was given back first, as
 tenon_cuda_collect does, but it closes nothing that is kept open (TENON_CUDA_KEEP_OPEN).
 @param[in]     arena  borrowed.
 @param[in,out] out    the caller's. out->struct_size says how much the call may write. Untouched
                       on failure.
 @param[out]    err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_cuda_arena_stats_get(
        arena: *const tenon_cuda_arena,
        out: *mut tenon_cuda_arena_stats,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes an event. The event is complete until it is recorded.
 @param[in]  options  borrowed. NULL means the defaults.
 @param[out] out      new reference; release it with tenon_cuda_event_release. Untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (there is no such device), TENON_UNSUPPORTED (no CUDA;
         TENON_CUDA_EVENT_INTERPROCESS on a device without CUDA IPC, as in MIG mode; a child of
         fork), TENON_RESOURCE_EXHAUSTED, other codes for errors of the driver (details
         "cuda_error", "cuda_error_name").
 @since 0.1. Any thread may call this function. If the device's primary context does not exist
         yet, the call makes it, which takes some hundred megabytes and some time.*/
    pub fn tenon_cuda_event_new(
        options: *const tenon_cuda_event_options,
        out: *mut *mut tenon_cuda_event,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Opens an event of another process. Both events are then the same mark, whichever process records
 it. The process that made the event must keep it until all other processes have released it. If
 it does not, or if that process dies, CUDA does not define the behaviour of the other processes'
 events.
 @param[in]  handle   borrowed, the 64 bytes of tenon_cuda_event_ipc_handle or of
                      cudaIpcGetEventHandle, which PyTorch uses too.
 @param[in]  options  borrowed. NULL means the defaults. The device is the one on which the event
                      was made, in this process's numbering.
 @param[out] out      new reference; release it with tenon_cuda_event_release. Untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (there is no such device; TENON_CUDA_EVENT_INTERPROCESS
         is set; the handle leads to no event any more; or this process made the handle, which the
         driver opens in other processes only), TENON_UNSUPPORTED (no CUDA; no CUDA IPC; a child
         of fork), TENON_RESOURCE_EXHAUSTED, other codes for errors of the driver (details
         "cuda_error", "cuda_error_name").
 @since 0.1. Any thread may call this function. It makes the device's primary context if
         necessary, as tenon_cuda_event_new does.*/
    pub fn tenon_cuda_event_from_ipc_handle(
        handle: *const u8,
        options: *const tenon_cuda_event_options,
        out: *mut *mut tenon_cuda_event,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Adds a reference.
 @param[in] event  borrowed. NULL is allowed.
 @return `event`, as a new reference that must be released too.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_cuda_event_retain(
        event: *mut tenon_cuda_event,
    ) -> *mut tenon_cuda_event;
    /**Releases a reference. The last release destroys the event. Streams that already wait for it
 continue to wait, and the release waits for none of them. Before the process that made the event
 destroys it, other processes must have released it.
 @param[in] event  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function. A release in a child of fork does not destroy the
         parent's event.*/
    pub fn tenon_cuda_event_release(event: *mut tenon_cuda_event);
    /**Records an event in a stream. The event is complete when all work is complete that was given to
 the stream before the call. The new mark replaces an older mark of the same event, but streams
 that already wait for the older mark go on waiting for it.
 @param[in]  event   borrowed.
 @param[in]  stream  borrowed for the call, a stream of the event's context.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also for a stream of another context),
         TENON_UNSUPPORTED (a child of fork), other codes for errors of the driver (details
         "cuda_error", "cuda_error_name").
 @since 0.1. Any thread may call this function. The host does not wait.*/
    pub fn tenon_cuda_event_record(
        event: *mut tenon_cuda_event,
        stream: *mut ::core::ffi::c_void,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Lets a stream wait for an event. Work that is given to the stream after the call begins when the
 mark that was recorded last is reached, whichever process recorded it. The host does not wait. If
 the event was never recorded, the stream does not wait either.
 @param[in]  event   borrowed.
 @param[in]  stream  borrowed for the call, a stream of any device.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (a child of fork), other codes for
         errors of the driver (details "cuda_error", "cuda_error_name").
 @since 0.1. Any thread may call this function. The host does not wait.*/
    pub fn tenon_cuda_event_wait(
        event: *const tenon_cuda_event,
        stream: *mut ::core::ffi::c_void,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Tells whether an event is complete.
 @param[in]  event  borrowed.
 @param[out] out    1 if the work before the mark is complete, or if the event was never recorded.
                    Otherwise 0. Untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (a child of fork), other codes for
         errors of the driver, which include errors of earlier work on the device (details
         "cuda_error", "cuda_error_name").
 @since 0.1. Any thread may call this function. The host does not wait.*/
    pub fn tenon_cuda_event_query(
        event: *const tenon_cuda_event,
        out: *mut ::core::ffi::c_int,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Waits on the host until an event is complete. If nothing but the event can end the wait, and this
 process made the event, the thread sleeps in the driver. Otherwise the call polls the event, at
 most a millisecond apart. A call that polls also waits for a mark that is recorded during the
 wait.
 @param[in]  event  borrowed.
 @param[in]  wait   borrowed. NULL: wait for ever, and do not let a signal end the wait.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_WOULD_BLOCK, TENON_TIMEOUT, TENON_INTERRUPTED,
         TENON_CANCELLED, TENON_UNSUPPORTED (a child of fork), other codes for errors of the
         driver, which include errors of earlier work on the device (details "cuda_error",
         "cuda_error_name").
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_cuda_event_synchronize(
        event: *const tenon_cuda_event,
        wait: *const tenon_wait,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives the handle with which other processes open an event. It is a CUipcEventHandle, and it is
 the same in each call. The handle is valid as long as the event exists.
 @param[in]  event  borrowed, made with TENON_CUDA_EVENT_INTERPROCESS.
 @param[out] out    the caller's 64 bytes, filled in by the call. Untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (the event was made without
         TENON_CUDA_EVENT_INTERPROCESS), TENON_UNSUPPORTED (the event is another process's, and
         only the process that made it can lend it; a device without CUDA IPC; a child of fork),
         other codes for errors of the driver (details "cuda_error", "cuda_error_name").
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_cuda_event_ipc_handle(
        event: *const tenon_cuda_event,
        out: *mut u8,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Lets a CUDA device access the bytes of a shared storage, and gives their address on the device.
 The memory of the whole segment is registered with the driver and can no longer be swapped out. A
 storage with TENON_STORAGE_ISOLATED, and a storage of more than 8 MiB, has a segment of its own.
 Other storages share segments of 64 MiB, and all memory of such a segment is allocated by this
 call. An arena must be reserved up to its capacity first (tenon_arena_reserve). Pinning a storage
 again costs little and gives the same address. The address for another device may be different.
 @param[in]  storage  borrowed. It must be neither private nor on a device. A storage of mode
                      TENON_MODE_FROZEN must be frozen first. If the storage is read-only in this
                      process, the device may only read it.
 @param[in]  device   the device's ordinal in this process's numbering.
 @param[out] out      the address at which the device finds the first byte, borrowed from the
                      storage. It is nearly always the address of tenon_storage_data. NULL for an
                      empty storage. Untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (there is no such device, or the storage is on a
         device), TENON_PERMISSION (the storage is not frozen yet), TENON_UNSUPPORTED (there is no
         CUDA; the storage is private; it is read-only, and this device cannot be kept from
         writing to it; a child of fork), TENON_RESOURCE_EXHAUSTED (the detail "limit" is "memory
         of the segment" if a part of the segment has no memory, or the limit that was reached
         when memory was allocated), other codes for errors of the driver (details "cuda_error",
         "cuda_error_name").
 @since 0.1. Any thread may call this function. It waits for no device.*/
    pub fn tenon_storage_pin(
        storage: *mut tenon_storage,
        device: i32,
        out: *mut *mut ::core::ffi::c_void,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Tells whether this process has pinned the segment in which a storage lies, for this storage or
 for another storage of the segment.
 @param[in] storage  borrowed. NULL is allowed.
 @return 1 if the segment is pinned, otherwise 0. It is 0 for an empty storage, which has no
         memory, and in a child of fork of the process that pinned the segment.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_storage_is_pinned(storage: *const tenon_storage) -> ::core::ffi::c_int;
    /**Deposits a message. The caller may release the message and its tensors afterwards. The first
 deposit of a process makes its socket in /dev/shm and starts the service thread (rule 10 in
 tenon.h).
 @param[in]  message  borrowed. Each storage must be shared memory.
 @param[out] out      new reference; release it with tenon_ticket_release. It is untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (memory of a device),
         TENON_RESOURCE_EXHAUSTED (fds, memory, leases, the limit max_unfetched_segments, or
         1,048,576 messages that wait or are held), TENON_PEER_GONE (a storage was dropped).
 @since 0.1. Any thread may call this function. A child of fork begins without deposits: those of
         its parent stay with the parent.*/
    pub fn tenon_message_deposit(
        message: *const tenon_message,
        out: *mut *mut tenon_ticket,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Returns the bytes that the program must send.
 @param[in]  ticket  borrowed. NULL is allowed.
 @param[out] nbytes  how many bytes there are. NULL is allowed.
 @return the bytes, borrowed from the ticket and valid until its release. NULL for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_ticket_bytes(
        ticket: *const tenon_ticket,
        nbytes: *mut usize,
    ) -> *const ::core::ffi::c_void;
    /**Releases a ticket. The message stays deposited.
 @param[in] ticket  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_ticket_release(ticket: *mut tenon_ticket);
    /**Takes back a message of this process that nobody has fetched.
 @param[in]  bytes      borrowed for the call: a ticket.
 @param[in]  nbytes     how many bytes there are at `bytes`.
 @param[out] withdrawn  1: the message was taken back. 0: it was fetched or withdrawn before. NULL
                        is allowed.
 @param[out] err        optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (another process deposited the message), TENON_CORRUPT,
         TENON_INCOMPATIBLE.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_ticket_withdraw(
        bytes: *const ::core::ffi::c_void,
        nbytes: usize,
        withdrawn: *mut ::core::ffi::c_int,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Takes a message of this process back when its carrier has dropped the ticket unread.

 Only the carrier can tell that nobody will read a ticket any more. A carrier that takes fds, such
 as an AF_UNIX socket, tells it by a marker. Make a pipe, send its write end with the ticket,
 close that end in this process, and pass the read end to this function. The kernel closes the
 marker in two cases: a receiver reads the ticket and does not ask for fds, or the carrier ends
 with the ticket unread. Then the read end hangs up. If nobody has fetched the message `grace_ns`
 later, it is taken back. A receiver that has read the ticket and has not fetched yet needs this
 grace.

 A carrier that is a pipe takes no fds. Pass a duplicate of its write end to this function
 instead. The duplicate hangs up when no process has the read end any more, so that nobody can
 read what is left in the pipe. Until the message is fetched, this duplicate keeps the pipe open,
 and a reader sees no end of file.

 Each watched message takes an fd. The watches may take an eighth of the limit of open files, and
 at least 16. A watch ends when its message is fetched or handed over to a keeper.
 @param[in]  bytes     borrowed for the call: a ticket, or the head of a message that is deposited
                       in pieces.
 @param[in]  nbytes    how many bytes there are at `bytes`.
 @param[in]  fd        an end of a pipe or of a socket. Once the call has succeeded, the library
                       owns the fd and closes it. After a failure it is still the caller's.
 @param[in]  grace_ns  nanoseconds from the moment when the hang-up is noticed, at least 0.
 @param[out] err       optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (another process deposited the message, or a keeper has
         it; `fd` is not an open end of a pipe or socket; `grace_ns` is negative), TENON_CORRUPT,
         TENON_INCOMPATIBLE, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function. The service thread, or tenon_lease_poll in a
         process without one, looks for hang-ups four times a second. A child of fork watches
         nothing of its parent's.*/
    pub fn tenon_ticket_watch(
        bytes: *const ::core::ffi::c_void,
        nbytes: usize,
        fd: i32,
        grace_ns: i64,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Fetches the message of a ticket. If the wait ends first, the message stays unfetched.
 @param[in]  bytes    borrowed for the call: a ticket. The call copies the bytes before it checks
                      them.
 @param[in]  nbytes   how many bytes there are at `bytes`.
 @param[in]  options  borrowed. NULL means the defaults. Private openings (TENON_OPEN_PRIVATE_COW,
                      TENON_OPEN_PRIVATE_COPY) are TENON_UNSUPPORTED.
 @param[in]  wait     borrowed. It says how long to wait for a lender that does not answer. NULL
                      means for ever. A call that needs nothing from the lender does not wait.
 @param[out] out      new reference; release it with tenon_message_release. It is untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_NOT_FOUND (the message was fetched before, or withdrawn), TENON_PEER_GONE
         (the lender is gone, and this process has not met it or lacks a segment of the message),
         TENON_CORRUPT, TENON_INCOMPATIBLE, TENON_PERMISSION (the lender belongs to another user),
         TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, TENON_RESOURCE_EXHAUSTED, or one of the four
         codes of a wait that ended (see tenon_send).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_message_fetch(
        bytes: *const ::core::ffi::c_void,
        nbytes: usize,
        options: *const tenon_open_options,
        wait: *const tenon_wait,
        out: *mut *mut tenon_message,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Sets the limits of this process and of the children that it forks from now on. A message that was
 deposited while both max_unfetched_nbytes and max_unfetched_ns were 0 is not counted for these
 two limits. The receiver of a message that was withdrawn gets TENON_NOT_FOUND.
 @param[in]  limits  borrowed.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_deposit_limits_set(
        limits: *const tenon_deposit_limits,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives the figures of this process's deposits.
 @param[in,out] out  the caller's. out->struct_size says how much the call may write. It is
                     untouched on failure.
 @param[out]    err  optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_deposit_stats_get(
        out: *mut tenon_deposit_stats,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Begins a message whose storages are added one by one. A receiver begins to fetch with the
 message's head (tenon_deposit_head). So the head must not leave this process before all storages
 are added.
 @param[out] out  new reference; release it with tenon_deposit_release. It is untouched on
                  failure.
 @param[out] err  optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_deposit_new(
        out: *mut *mut tenon_deposit,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Returns the head of a message that is deposited in pieces: the bytes with which a receiver calls
 tenon_fetched_new.
 @param[in]  deposit  borrowed. NULL is allowed.
 @param[out] nbytes   how many bytes there are. NULL is allowed.
 @return the bytes, borrowed from the deposit and valid until its release. NULL for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_deposit_head(
        deposit: *const tenon_deposit,
        nbytes: *mut usize,
    ) -> *const ::core::ffi::c_void;
    /**Adds a storage to a message that is deposited in pieces, and writes the storage's record. The
 message keeps the storage. The receiver opens the storage by its record (tenon_fetched_storage).
 @param[in]  deposit  borrowed.
 @param[in]  storage  borrowed. It must be shared memory.
 @param[in]  access   TENON_ACCESS_*, as for tenon_share_fd.
 @param[out] out      the caller's buffer of TENON_DEPOSIT_RECORD_NBYTES bytes. The call writes
                      the record. It is untouched on failure.
 @param[out] nbytes   how many bytes of `out` were written. It is untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (the message was withdrawn, fetched or handed over to a
         keeper, or the parent of this process made it), TENON_UNSUPPORTED (private memory, memory
         of a device, or memory that was lent on under more than 29 tokens), TENON_PERMISSION,
         TENON_PEER_GONE (the storage was dropped), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_deposit_add(
        deposit: *mut tenon_deposit,
        storage: *mut tenon_storage,
        access: tenon_access,
        out: *mut ::core::ffi::c_void,
        nbytes: *mut usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Takes back a message that was deposited in pieces and that nobody has fetched.
 @param[in] deposit  borrowed. NULL is allowed.
 @return 1: the message was taken back. 0: it was fetched or withdrawn before, or `deposit` is
         NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_deposit_withdraw(deposit: *mut tenon_deposit) -> ::core::ffi::c_int;
    /**Releases the object of a message that is deposited in pieces. The message stays deposited.
 @param[in] deposit  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_deposit_release(deposit: *mut tenon_deposit);
    /**Begins to fetch a message in pieces. On success this process has the message, and no other
 process can fetch it.
 @param[in]  head     borrowed for the call: the bytes of tenon_deposit_head. The call copies the
                      bytes before it checks them.
 @param[in]  nbytes   how many bytes there are at `head`.
 @param[in]  options  borrowed. NULL means the defaults. Private openings (TENON_OPEN_PRIVATE_COW,
                      TENON_OPEN_PRIVATE_COPY) are TENON_UNSUPPORTED.
 @param[in]  wait     borrowed, as for tenon_message_fetch.
 @param[out] out      new reference; release it with tenon_fetched_release once the last storage
                      is opened. It is untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return the same codes as tenon_message_fetch. A ticket of tenon_message_deposit is TENON_CORRUPT
         here.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_fetched_new(
        head: *const ::core::ffi::c_void,
        nbytes: usize,
        options: *const tenon_open_options,
        wait: *const tenon_wait,
        out: *mut *mut tenon_fetched,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Opens a storage of a message that is fetched in pieces, under its lease. Each record can be
 opened once.
 @param[in]  fetched  borrowed.
 @param[in]  record   borrowed for the call: the bytes that tenon_deposit_add wrote. The call
                      copies the bytes before it checks them.
 @param[in]  nbytes   how many bytes there are at `record`.
 @param[in]  wait     borrowed, as for tenon_message_fetch.
 @param[out] out      new reference; release it with tenon_storage_release. It is untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_CORRUPT (the bytes are not a record, or the lease in the record belongs
         to another message or was opened before), TENON_UNSUPPORTED (a child of fork opens a
         message that its parent deposited and fetched itself), and the other codes of
         tenon_message_fetch.
 @since 0.1. One thread at a time may use `fetched`.*/
    pub fn tenon_fetched_storage(
        fetched: *mut tenon_fetched,
        record: *const ::core::ffi::c_void,
        nbytes: usize,
        wait: *const tenon_wait,
        out: *mut *mut tenon_storage,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Releases a message that is fetched in pieces, and gives back the storages that were not opened.
 Storages that were opened stay.
 @param[in] fetched  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_fetched_release(fetched: *mut tenon_fetched);
    /**Hands the unfetched messages of this process to a keeper, so that receivers can still fetch them
 after this process has ended. A keeper is a process of its own. It has the fds of the messages'
 segments, and it maps none of the lender's memory. Make this call last: a message that is
 deposited afterwards goes into a new depot, and ends with this process.
 @param[in]  options  borrowed. NULL means the defaults.
 @param[out] n_kept   how many messages the keeper has. 0 means that no keeper was started. NULL
                      is allowed.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK (also if there was nothing to keep), TENON_INVALID_ARGUMENT, TENON_NOT_FOUND
         (there is no such program, or no such file as `family`), TENON_PERMISSION,
         TENON_PEER_GONE (the keeper ended at once), TENON_TIMEOUT (the keeper did not start
         within 10 seconds), TENON_RESOURCE_EXHAUSTED. After a failure there is no keeper: this
         process still serves its messages, and they end with it.
 @since 0.1. Any thread may call this function. No other thread may deposit during the call.*/
    pub fn tenon_deposit_hand_over(
        options: *const tenon_keep_options,
        n_kept: *mut usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Encodes a message as a descriptor. The descriptor keeps the tensors and the fds alive until it is
 released.
 @param[in]  message  borrowed.
 @param[in]  options  borrowed. NULL means the defaults.
 @param[out] out      new reference; release it with tenon_descriptor_release. It is untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (memory of a device), TENON_PEER_GONE
         (a storage was dropped), TENON_RESOURCE_EXHAUSTED (fds, memory).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_descriptor_new(
        message: *const tenon_message,
        options: *const tenon_descriptor_options,
        out: *mut *mut tenon_descriptor,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Returns the bytes that the program must send.
 @param[in]  descriptor  borrowed. NULL is allowed.
 @param[out] nbytes      how many bytes there are. It may be NULL.
 @return the bytes, borrowed from the descriptor and valid until its release. It is NULL for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_descriptor_bytes(
        descriptor: *const tenon_descriptor,
        nbytes: *mut usize,
    ) -> *const ::core::ffi::c_void;
    /**Returns the fds that the program must pass on in this order, by SCM_RIGHTS or by inheritance.
 @param[in]  descriptor  borrowed. NULL is allowed.
 @param[out] n           how many fds there are; 0 for a descriptor with
                         TENON_DESCRIPTOR_BYTES_ONLY. It may be NULL.
 @return the fds, borrowed from the descriptor and valid until its release: do not close them. It
         is NULL if there are none.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_descriptor_fds(
        descriptor: *const tenon_descriptor,
        n: *mut usize,
    ) -> *const i32;
    /**Releases a descriptor and closes its fds.
 @param[in] descriptor  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_descriptor_release(descriptor: *mut tenon_descriptor);
    /**Opens a descriptor that came from another process. The call copies the bytes to private memory
 and validates all of them before it uses any, and it checks each segment as tenon_open_fd does.

 The bytes of a descriptor with TENON_DESCRIPTOR_BYTES_ONLY name a process, whose memory is opened
 with the rights of this process. So that process must run as this process's effective user.
 TENON_OPEN_OTHER_USER lifts this rule. With this flag the caller trusts the writer of the bytes
 with those rights.
 @param[in]  bytes    borrowed for the call. They need not come from a trusted process. It may be
                      NULL if nbytes is 0.
 @param[in]  nbytes   how many bytes there are, at most 64 MiB. 0 bytes are TENON_CORRUPT, like
                      any other number that is too small.
 @param[in]  fds      borrowed, an array of n_fds fds, which stay the caller's. With
                      TENON_OPEN_ADOPT_FD they are consumed on success. It is NULL if n_fds is 0.
 @param[in]  n_fds    the number of fds with which the descriptor was made, at most 65,536.
 @param[in]  options  borrowed. NULL means the defaults. They have the same meaning as in
                      tenon_open_fd, and TENON_OPEN_OTHER_USER is possible too.
 @param[out] out      new reference; release it with tenon_message_release. It is untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h. The detail "field" names the part of the
                      descriptor that is wrong.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT, TENON_INCOMPATIBLE (an unknown version
         or feature), TENON_RESOURCE_EXHAUSTED, the codes of tenon_open_fd, or for a descriptor
         with TENON_DESCRIPTOR_BYTES_ONLY
 - TENON_PERMISSION: the process that the bytes name is another user's (details "option", "pid",
   "uid").
 - TENON_PEER_GONE: that process or its fd does not exist any more, or it was on another machine.
 - TENON_UNSUPPORTED: that process is in another pid namespace.
 - TENON_WOULD_BLOCK: a process holds a file lease on the memory, or the memory's file system does
   not answer.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_descriptor_open(
        bytes: *const ::core::ffi::c_void,
        nbytes: usize,
        fds: *const i32,
        n_fds: usize,
        options: *const tenon_open_options,
        out: *mut *mut tenon_message,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Takes a tensor from another framework, without a copy. DLPack's read-only flag is respected. In
 host memory the storage is private, so it cannot be lent. On a CUDA device it can be lent
 (tenon/by_cuda.h). The deleter is then called only when the borrowers have released the storage
 and the work in the streams that use it is complete. The work that wrote the tensor must be
 complete, or must be in the stream that is named when the storage is lent.
 @param[in]  managed  consumed on success: its deleter is called once, when the last reference to
                      the storage is released, on the thread that released it. After a failure it
                      is still the caller's, who must call the deleter.
 @param[out] out      new reference; release it with tenon_tensor_release. It is untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_INCOMPATIBLE (another major version of DLPack, in
         which case no other field was read), TENON_UNSUPPORTED (another kind of device, no CUDA,
         or an element type that DLPack calls opaque), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_tensor_from_dlpack(
        managed: *mut DLManagedTensorVersioned,
        out: *mut *mut tenon_tensor,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Takes a tensor from another framework in DLPack's older form, which has no version. That form
 cannot say that a tensor is read-only, so the bytes count as writable. In all else this function
 is like tenon_tensor_from_dlpack.
 @param[in]  managed  consumed on success, as in tenon_tensor_from_dlpack.
 @param[out] out      new reference; release it with tenon_tensor_release. It is untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_tensor_from_dlpack_legacy(
        managed: *mut DLManagedTensor,
        out: *mut *mut tenon_tensor,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives a tensor to another framework, without a copy. DLPack's flag READ_ONLY is set if the
 tensor's storage is read-only.
 @param[in]  tensor  borrowed. The result takes a reference of its own.
 @param[out] out     the caller's. The caller, or the consumer to which the caller passes it,
                     calls its deleter once, on any thread. It is untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (the conjugate or the negative bit is
         set), TENON_RESOURCE_EXHAUSTED, TENON_PEER_GONE (the storage was dropped).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_tensor_to_dlpack(
        tensor: *mut tenon_tensor,
        out: *mut *mut DLManagedTensorVersioned,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives a tensor to another framework in DLPack's older form, which has no version. A read-only
 tensor is refused, because its consumer could not know that the tensor is read-only, and its
 first write would kill the process.
 @param[in]  tensor  borrowed. The result takes a reference of its own.
 @param[out] out     the caller's, as in tenon_tensor_to_dlpack. It is untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (the tensor is read-only),
         TENON_UNSUPPORTED, TENON_RESOURCE_EXHAUSTED, TENON_PEER_GONE (the storage was dropped).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_tensor_to_dlpack_legacy(
        tensor: *mut tenon_tensor,
        out: *mut *mut DLManagedTensor,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Lists the holders of leases. There is one entry for each connection whose peer holds leases. A
 connection whose peer has forked can have several entries. A descriptor with fds has an entry of
 its own, and so has each process that fetches deposits.
 @param[in,out] out    the caller's array of n entries. The caller sets out[0].struct_size, which
                       is the size of every entry. The call writes it to the other entries and
                       fills in all fields. `out` may be NULL if n is 0. It is untouched on
                       failure.
 @param[in]     n      how many entries fit into `out`.
 @param[out]    total  how many entries there are. The first n of them are in `out`.
 @param[out]    err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_lease_holders(
        out: *mut tenon_lease_holder,
        n: usize,
        total: *mut usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes the library start no service thread in this process (rule 10 in tenon.h). From then on the
 process must do that thread's work: it polls tenon_lease_fd and calls tenon_lease_poll. Call this
 function before the first call that starts the thread. A child of fork inherits the choice.
 @param[out] err  optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (the service thread runs already).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_lease_use_no_thread(err: *mut *mut tenon_error) -> tenon_status;
    /**Gives the fd to poll in a process without a service thread. It is readable when tenon_lease_poll
 has something to do.
 @param[out] out  borrowed. A child of fork gets another fd. It is untouched on failure.
 @param[out] err  optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (the process did not call tenon_lease_use_no_thread),
         TENON_RESOURCE_EXHAUSTED (fds).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_lease_fd(out: *mut i32, err: *mut *mut tenon_error) -> tenon_status;
    /**Does the work that is due in a process without a service thread. The call ends the leases of
 borrowers that are gone, and reads the bells with which borrowers announce that they gave blocks
 back. It notices lenders that are gone. It answers openers of names and receivers of deposits,
 withdraws deposits that waited too long, and removes the names of dead processes. The call does
 not block and takes about a millisecond at most. If more work is left, the fd stays readable.
 There is one exception: releasing memory that a device has pinned may wait for the device.
 @param[out] err  optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (the process did not call tenon_lease_use_no_thread),
         TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function. If several threads call it at once, one of them
         works and the others return at once.*/
    pub fn tenon_lease_poll(err: *mut *mut tenon_error) -> tenon_status;
    /**Returns the name of an element type, as torch.dtype writes it: "float32", "qint8", "bits16".
 @param[in] type  any number.
 @return a string in static storage. NULL for a number that is not an element type.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_scalar_type_name(
        type_: tenon_scalar_type,
    ) -> *const ::core::ffi::c_char;
    /**Returns the name of PyTorch's storage class for an element type, such as "FloatStorage".
 @param[in] type  any number.
 @return a string in static storage. NULL for a number that is not an element type.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_scalar_type_storage_name(
        type_: tenon_scalar_type,
    ) -> *const ::core::ffi::c_char;
    /**Returns the size of one element of a storage. For quint4x2 and quint2x4 it is the size of the
 byte that 2 or 4 elements of a tensor share.
 @param[in] type  any number.
 @return the size in bytes; 0 for a number that is not an element type.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_scalar_type_nbytes(type_: tenon_scalar_type) -> u64;
    /**Returns the oldest version of PyTorch that is known to read a storage of an element type.
 @param[in] type  any number.
 @return a string in static storage, such as "2.1". It is "1.4" for every type that PyTorch 1.4 or
         an older version reads. NULL for a number that is not an element type.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_scalar_type_since(
        type_: tenon_scalar_type,
    ) -> *const ::core::ffi::c_char;
    /**Finds the element type that has a given name. The name can be the one of torch.dtype ("float32"),
 the one that PyTorch uses inside ("Float"), or the one of its storage class ("FloatStorage").
 @param[in]  name  borrowed.
 @param[out] out   the caller's. Untouched on failure.
 @param[out] err   optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (there is no such name).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_scalar_type_parse(
        name: *const ::core::ffi::c_char,
        out: *mut tenon_scalar_type,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Finds DLPack's element type for one of PyTorch's. DLPack has none for quantised types, for bits
 types, for integers of fewer than 8 bits (each of which takes a whole byte in PyTorch), and for
 bcomplex32.
 @param[in]  type  PyTorch's element type.
 @param[out] out   the caller's. Untouched on failure.
 @param[out] err   optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (`type` is not an element type), TENON_UNSUPPORTED
         (DLPack has no such element type).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_scalar_type_to_dtype(
        type_: tenon_scalar_type,
        out: *mut tenon_dtype,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Finds PyTorch's element type for one of DLPack's.
 @param[in]  dtype  DLPack's element type.
 @param[out] out    the caller's. Untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_UNSUPPORTED (PyTorch has no such element type).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_scalar_type_from_dtype(
        dtype: tenon_dtype,
        out: *mut tenon_scalar_type,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes the value None.
 @param[out] out  new reference; release it with tenon_value_release. Untouched on failure.
 @param[out] err  optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_new_none(
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes a bool.
 @param[in]  value  0 means False, any other number means True.
 @param[out] out    new reference; release it with tenon_value_release. Untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_new_bool(
        value: ::core::ffi::c_int,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes an int. A dtype, a layout and a memory format are ints too, in PyTorch's numbers
 (TENON_SCALAR_TYPE_* for a dtype).
 @param[in]  value  any number.
 @param[out] out    new reference; release it with tenon_value_release. Untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_new_int(
        value: i64,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes a float.
 @param[in]  value  any number, including an infinity and a NaN.
 @param[out] out    new reference; release it with tenon_value_release. Untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_new_float(
        value: f64,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes a complex number.
 @param[in]  real       the real part.
 @param[in]  imaginary  the imaginary part.
 @param[out] out        new reference; release it with tenon_value_release. Untouched on failure.
 @param[out] err        optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_new_complex(
        real: f64,
        imaginary: f64,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes a str.
 @param[in]  utf8    borrowed, nbytes bytes of UTF-8; copied by the call. A NUL among them is part
                     of the text. May be NULL if nbytes is 0.
 @param[in]  nbytes  how many bytes there are at `utf8`.
 @param[out] out     new reference; release it with tenon_value_release. Untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also if the bytes are not UTF-8),
         TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_new_str(
        utf8: *const ::core::ffi::c_char,
        nbytes: usize,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes a device.
 @param[in]  name  borrowed, such as "cpu" or "cuda:0"; copied by the call.
 @param[out] out   new reference; release it with tenon_value_release. Untouched on failure.
 @param[out] err   optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_new_device(
        name: *const ::core::ffi::c_char,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes a value from a tensor. Nothing is copied. Tensors over one storage share that storage in an
 archive too, if they have the same element type. An export writes the whole storage, even if the
 tensor is a small part of it.
 @param[in]  tensor  borrowed. The value keeps the tensor's storage alive.
 @param[out] out     new reference; release it with tenon_value_release. Untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also for negative strides, and for flags that the
         element type cannot have), TENON_UNSUPPORTED (PyTorch has no such element type),
         TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_new_tensor(
        tensor: *mut tenon_tensor,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes a value from the description of a tensor. This also works for tensors that are quantised,
 sparse or on meta, and for element types that DLPack lacks. Every element that the layout can
 address must lie inside the storage. The contents of a sparse tensor's indices are not checked.
 @param[in]  spec  borrowed for the call, with everything that it points to. The value takes
                   references of its own.
 @param[out] out   new reference; release it with tenon_value_release. Untouched on failure.
 @param[out] err   optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (`device` is neither "cpu", "meta"
         nor the device of `storage`; unknown flags), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_new_tensor_from_spec(
        spec: *const tenon_value_tensor_spec,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes a tuple.
 @param[in]  class_name  borrowed, the qualified name of a NamedTuple; copied by the call. NULL
                         makes a plain tuple.
 @param[in]  items       borrowed array of n values. The tuple takes a reference to each. May be
                         NULL if n is 0.
 @param[in]  n           how many items.
 @param[out] out         new reference; release it with tenon_value_release. Untouched on failure.
 @param[out] err         optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_new_tuple(
        class_name: *const ::core::ffi::c_char,
        items: *const *mut tenon_value,
        n: usize,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes a list. The items are checked against the list's type.
 @param[in]  type   borrowed, such as "List[Optional[int]]". NULL makes a list without a type of
                    its own. Such a list gets the type that is declared for the place where it is
                    put, for example by tenon_module_add_attribute.
 @param[in]  items  borrowed array of n values. The list takes a reference to each. May be NULL if
                    n is 0.
 @param[in]  n      how many items.
 @param[out] out    new reference; release it with tenon_value_release. Untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (`type` is not the type of a list, with the detail
         "column" if it cannot be parsed; an item does not fit, with the details "where", "wanted"
         and "found"), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_new_list(
        type_: *const ::core::ffi::c_char,
        items: *const *mut tenon_value,
        n: usize,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes a dict, which keeps the order of its entries. Keys and values are checked against the
 dict's type.
 @param[in]  type    borrowed, such as "Dict[str, Tensor]". NULL makes a dict without a type of
                     its own, as in tenon_value_new_list.
 @param[in]  keys    borrowed array of n values, all different. The dict takes a reference to
                     each. May be NULL if n is 0.
 @param[in]  values  borrowed array of n values. The dict takes a reference to each. May be NULL
                     if n is 0.
 @param[in]  n       how many entries.
 @param[out] out     new reference; release it with tenon_value_release. Untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (as in tenon_value_new_list; also if a key is given
         twice), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_new_dict(
        type_: *const ::core::ffi::c_char,
        keys: *const *mut tenon_value,
        values: *const *mut tenon_value,
        n: usize,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes a member of an enum.
 @param[in]  class_name  borrowed, the qualified name of the enum; copied by the call.
 @param[in]  value       borrowed, an int, a float or a str. The result takes a reference.
 @param[out] out         new reference; release it with tenon_value_release. Untouched on failure.
 @param[out] err         optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_new_enum(
        class_name: *const ::core::ffi::c_char,
        value: *mut tenon_value,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes an object of a plain class, with attributes. For a module, use tenon_module_new.
 @param[in]  class_name  borrowed, the qualified name of the class; copied by the call.
 @param[in]  names       borrowed array of n strings, all different; copied by the call. May be
                         NULL if n is 0.
 @param[in]  values      borrowed array of n values. The object takes a reference to each. May be
                         NULL if n is 0.
 @param[in]  n           how many attributes.
 @param[out] out         new reference; release it with tenon_value_release. Untouched on failure.
 @param[out] err         optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_new_object(
        class_name: *const ::core::ffi::c_char,
        names: *const *const ::core::ffi::c_char,
        values: *const *mut tenon_value,
        n: usize,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes an object that has a state instead of attributes. Such an object is of a class with
 __getstate__ or of a custom C++ class.
 @param[in]  class_name  borrowed, such as
                         "__torch__.torch.classes.quantized.LinearPackedParamsBase"; copied by the
                         call.
 @param[in]  state       borrowed. The object takes a reference.
 @param[out] out         new reference; release it with tenon_value_release. Untouched on failure.
 @param[out] err         optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_new_opaque(
        class_name: *const ::core::ffi::c_char,
        state: *mut tenon_value,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Adds a reference.
 @param[in] value  borrowed. NULL is allowed.
 @return `value`, as a new reference that must be released too.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_retain(value: *mut tenon_value) -> *mut tenon_value;
    /**Releases a reference.
 @param[in] value  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_release(value: *mut tenon_value);
    /**Returns the kind of a value.
 @param[in] value  borrowed. NULL is allowed.
 @return TENON_VALUE_*; -1 for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_kind(value: *const tenon_value) -> i32;
    /**Writes a value's own type. A list gives the type that it was made with, such as "List[int]", or
 "List[Any]" if it was made without one. A tuple gives the types of its items, such as
 "Tuple[int, str]", or "tuple" if it is too large for a type. A NamedTuple, an enum member and an
 object give the name of their class.
 @param[in]  value     borrowed.
 @param[out] out       the caller's buffer, with room for `capacity` bytes. The call writes the
                       type, cut off if it does not fit, and a NUL. `out` may be NULL if capacity
                       is 0.
 @param[in]  capacity  bytes.
 @param[out] nbytes    the length of the whole type in bytes, without the NUL. May be NULL.
                       Untouched on failure.
 @param[out] err       optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_type(
        value: *const tenon_value,
        out: *mut ::core::ffi::c_char,
        capacity: usize,
        nbytes: *mut usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Returns the qualified name of a NamedTuple, an enum or an object.
 @param[in] value  borrowed. NULL is allowed.
 @return a string, borrowed from the value and valid until the value's last release. It is "" for
         a value that has no such name and for NULL, and never NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_class_name(
        value: *const tenon_value,
    ) -> *const ::core::ffi::c_char;
    /**Tells whether an object has a state instead of attributes.
 @param[in] value  borrowed. NULL is allowed.
 @return 1 for an object with a state. 0 for any other value and for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_is_opaque(value: *const tenon_value) -> ::core::ffi::c_int;
    /**Returns how many items a value has. A dict has one item for each entry, and an object has one for
 each attribute. An enum member has one item, its value. An object with a state has one item, the
 state.
 @param[in] value  borrowed. NULL is allowed.
 @return the number of items; 0 for a value that is neither a tuple, a list, a dict, an enum
         member nor an object, and for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_count(value: *const tenon_value) -> usize;
    /**Gives one of the items that tenon_value_count counts. For a dict it is the value of an entry, for
 an object the value of an attribute.
 @param[in]  value  borrowed.
 @param[in]  index  counts from 0.
 @param[out] out    new reference; release it with tenon_value_release. Untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also if `index` is past the last item).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_item(
        value: *const tenon_value,
        index: usize,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives one key of a dict.
 @param[in]  value  borrowed, a dict.
 @param[in]  index  counts from 0.
 @param[out] out    new reference; release it with tenon_value_release. Untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also if `index` is past the last entry).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_key(
        value: *const tenon_value,
        index: usize,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Returns the name of one attribute of an object.
 @param[in] value  borrowed. NULL is allowed.
 @param[in] index  counts from 0.
 @return a string, borrowed from the object and valid until the object's last release, even if the
         attribute is removed. NULL if `index` is past the last attribute, if the value is not an
         object with attributes, for NULL, and if there is no memory for a copy of the name.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_attribute_name(
        value: *const tenon_value,
        index: usize,
    ) -> *const ::core::ffi::c_char;
    /**Finds a value by name: an attribute of an object, or the value of the dict entry whose key is
 that str.
 @param[in]  value  borrowed, an object or a dict.
 @param[in]  name   borrowed.
 @param[out] out    new reference; release it with tenon_value_release. Untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (the value is of another kind, or is an object with a
         state), TENON_NOT_FOUND.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_find(
        value: *const tenon_value,
        name: *const ::core::ffi::c_char,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives the number in a bool.
 @param[in]  value  borrowed.
 @param[out] out    0 or 1. Untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (the value is of another kind).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_get_bool(
        value: *const tenon_value,
        out: *mut ::core::ffi::c_int,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives the number in an int.
 @param[in]  value  borrowed.
 @param[out] out    the number. Untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (the value is of another kind; a bool is not an int).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_get_int(
        value: *const tenon_value,
        out: *mut i64,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives the number in a float.
 @param[in]  value  borrowed.
 @param[out] out    the number. Untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (the value is of another kind; an int is not a float).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_get_float(
        value: *const tenon_value,
        out: *mut f64,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives the two numbers in a complex number.
 @param[in]  value      borrowed.
 @param[out] real       the real part. Untouched on failure.
 @param[out] imaginary  the imaginary part. Untouched on failure.
 @param[out] err        optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (the value is of another kind).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_get_complex(
        value: *const tenon_value,
        real: *mut f64,
        imaginary: *mut f64,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives the text of a str.
 @param[in]  value   borrowed.
 @param[out] out     the text, borrowed from the value and valid until the value's last release. A
                     NUL follows it. Untouched on failure.
 @param[out] nbytes  the length of the text in bytes, without that NUL. The text itself may
                     contain NULs. `nbytes` may be NULL. Untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (the value is of another kind).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_get_str(
        value: *const tenon_value,
        out: *mut *const ::core::ffi::c_char,
        nbytes: *mut usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives the name of a device.
 @param[in]  value  borrowed.
 @param[out] out    the name, borrowed from the value and valid until the value's last release.
                    Untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (the value is of another kind).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_get_device(
        value: *const tenon_value,
        out: *mut *const ::core::ffi::c_char,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes a tenon_tensor from the tensor in a value, over the same bytes.
 @param[in]  value  borrowed.
 @param[out] out    new reference; release it with tenon_tensor_release. Untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (the value is of another kind), TENON_UNSUPPORTED (the
         tensor is quantised, sparse or on meta, or DLPack lacks its element type: use
         tenon_value_get_tensor_spec), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_get_tensor(
        value: *const tenon_value,
        out: *mut *mut tenon_tensor,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives the full description of the tensor in a value.
 @param[in]     value  borrowed.
 @param[in,out] out    struct_size set by the caller, the other fields filled in by the call. The
                       pointers are borrowed from the value and valid until its last release.
                       Untouched on failure.
 @param[out]    err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (the value is of another kind).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_get_tensor_spec(
        value: *const tenon_value,
        out: *mut tenon_value_tensor_spec,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives one of the tensors that make up a sparse or a quantised tensor.
 @param[in]  value  borrowed.
 @param[in]  part   TENON_TENSOR_PART_*.
 @param[out] out    new reference to a value of kind tensor; release it with tenon_value_release.
                    Untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (the value is of another kind; `part` is not a part),
         TENON_NOT_FOUND (this tensor has no such part), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_tensor_part(
        value: *const tenon_value,
        part: i32,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Checks whether a value and everything in it fit a type. An int does not fit float. A list that
 has a type of its own fits no other type of list, and the same holds for dicts. Classes are
 compared by their names alone, because this function does not know their code. A tuple without a
 class name fits every class, because the class may be a NamedTuple.
 @param[in]  value  borrowed.
 @param[in]  type   borrowed.
 @param[out] err    optional, see rule 2 in tenon.h, with the details "where", "wanted" and
                    "found".
 @return TENON_OK, TENON_INVALID_ARGUMENT (the value does not fit, or `type` is not a type),
         TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_value_check(
        value: *mut tenon_value,
        type_: *const ::core::ffi::c_char,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Writes a type as PyTorch writes it. For example, "Union[str, None]" becomes "Optional[str]".
 @param[in]  type      borrowed, in any form that TorchScript allows.
 @param[out] out       the caller's buffer, with room for `capacity` bytes. The call writes the
                       type, cut off if it does not fit, and a NUL. `out` may be NULL if capacity
                       is 0.
 @param[in]  capacity  bytes.
 @param[out] nbytes    the length of the whole type in bytes, without the NUL. May be NULL.
                       Untouched on failure.
 @param[out] err       optional, see rule 2 in tenon.h, with the detail "column".
 @return TENON_OK, TENON_INVALID_ARGUMENT (`type` is not a type), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_type_text(
        type_: *const ::core::ffi::c_char,
        out: *mut ::core::ffi::c_char,
        capacity: usize,
        nbytes: *mut usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes a module of a new class. Its only member is the attribute `training`, which is True.
 @param[in]  class_name  borrowed; copied by the call. "MLP" means "__torch__.MLP". A qualified
                         name, such as "__torch__.my.MLP", is allowed too.
 @param[out] out         new reference; release it with tenon_module_release. Untouched on
                         failure.
 @param[out] err         optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_new(
        class_name: *const ::core::ffi::c_char,
        out: *mut *mut tenon_module,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Adds a reference.
 @param[in] module  borrowed. NULL is allowed.
 @return `module`, as a new reference that must be released too.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_retain(module: *mut tenon_module) -> *mut tenon_module;
    /**Releases a reference.
 @param[in] module  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_release(module: *mut tenon_module);
    /**Writes the qualified name of a module's class.
 @param[in]  module    borrowed.
 @param[out] out       the caller's buffer, with room for `capacity` bytes. The call writes the
                       name, cut off if it does not fit, and a NUL. `out` may be NULL if capacity
                       is 0.
 @param[in]  capacity  bytes.
 @param[out] nbytes    the length of the whole name in bytes, without the NUL. May be NULL.
                       Untouched on failure.
 @param[out] err       optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_class_name(
        module: *const tenon_module,
        out: *mut ::core::ffi::c_char,
        capacity: usize,
        nbytes: *mut usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives the object of a module, as a value. Two modules are the same if and only if they give equal
 pointers. A submodule with two owners is in the tree twice and gives the same pointer at both
 places.
 @param[in]  module  borrowed.
 @param[out] out     new reference; release it with tenon_value_release. Untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_object(
        module: *const tenon_module,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Adds a parameter.
 @param[in]  module  borrowed.
 @param[in]  name    borrowed; copied by the call. It is any text without dots and without control
                     characters, such as "weight" or "0".
 @param[in]  tensor  borrowed, a value of kind tensor. The module takes a reference of its own.
                     NULL adds a parameter that is None, as `bias=None` does in PyTorch.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also if the module has a member of that name),
         TENON_PERMISSION (an export runs), TENON_UNSUPPORTED (the module has a state instead of
         attributes, see tenon_value_is_opaque), TENON_CORRUPT (the module comes from an archive,
         and the code of its class cannot be parsed), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_add_parameter(
        module: *mut tenon_module,
        name: *const ::core::ffi::c_char,
        tensor: *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Adds a buffer.
 @param[in]  module  borrowed.
 @param[in]  name    borrowed; copied by the call, as in tenon_module_add_parameter.
 @param[in]  tensor  borrowed, as in tenon_module_add_parameter.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return the same codes as tenon_module_add_parameter.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_add_buffer(
        module: *mut tenon_module,
        name: *const ::core::ffi::c_char,
        tensor: *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Adds an attribute with a declared type.
 @param[in]  module  borrowed.
 @param[in]  name    borrowed; copied by the call, as in tenon_module_add_parameter.
 @param[in]  type    borrowed, such as "Dict[str, int]". A class is written with its qualified
                     name and must have been defined before. NULL means the value's own type
                     (tenon_value_type).
 @param[in]  value   borrowed. The module takes a reference of its own.
 @param[out] err     optional, see rule 2 in tenon.h. If the value does not fit the type, the
                     details "where", "wanted" and "found" say what does not fit.
 @return the same codes as tenon_module_add_parameter.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_add_attribute(
        module: *mut tenon_module,
        name: *const ::core::ffi::c_char,
        type_: *const ::core::ffi::c_char,
        value: *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Adds a constant, which PyTorch calls Final. It is part of the class and cannot change while the
 module runs.
 @param[in]  module  borrowed.
 @param[in]  name    borrowed; copied by the call. It must be an identifier.
 @param[in]  type    borrowed, as in tenon_module_add_attribute. May be NULL.
 @param[in]  value   borrowed. The module takes a reference of its own. No tensor in it may
                     require a gradient.
 @param[out] err     optional, see rule 2 in tenon.h, with details as in
                     tenon_module_add_attribute.
 @return the same codes as tenon_module_add_parameter.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_add_constant(
        module: *mut tenon_module,
        name: *const ::core::ffi::c_char,
        type_: *const ::core::ffi::c_char,
        value: *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Adds a submodule. One module may be added in several places. These places then share it, in this
 process and in the archive.
 @param[in]  module  borrowed.
 @param[in]  name    borrowed; copied by the call, as in tenon_module_add_parameter.
 @param[in]  child   borrowed, a module that was built or imported. `module` takes a reference to
                     it. `child` must not contain `module`.
 @param[in]  type    borrowed, the qualified name of an interface that the child implements. NULL
                     means the child's own class.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return the same codes as tenon_module_add_parameter, or TENON_NOT_FOUND (no such interface is
         defined).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_add_submodule(
        module: *mut tenon_module,
        name: *const ::core::ffi::c_char,
        child: *mut tenon_module,
        type_: *const ::core::ffi::c_char,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Defines methods. The source is one or more `def`s in TorchScript (docs/format/script.md). A
 method that the module has already is replaced. No other module of the same class gets the
 methods: if there are other such modules, this module gets a class of its own first.
 @param[in]  module  borrowed.
 @param[in]  source  borrowed; copied by the call.
 @param[out] err     optional, see rule 2 in tenon.h. The details "file", "line", "column" and
                     "excerpt" name the place in the source.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also if the source cannot be parsed), TENON_UNSUPPORTED
         (the source is Python that TorchScript lacks), TENON_PERMISSION (an export runs),
         TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_define(
        module: *mut tenon_module,
        source: *const ::core::ffi::c_char,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Defines functions and types that methods and declared types use: functions, NamedTuples, enums,
 interfaces and plain classes, written as in `class P(NamedTuple): ...`.
 @param[in]  module     borrowed. Its code gets the definitions.
 @param[in]  qualifier  borrowed, "__torch__" or a name below it. `class P` becomes the class
                        "<qualifier>.P".
 @param[in]  source     borrowed; copied by the call.
 @param[out] err        optional, see rule 2 in tenon.h. The details "file", "line", "column" and
                        "excerpt" name the place in the source.
 @return the same codes as tenon_module_define. A name that is defined already is
         TENON_INVALID_ARGUMENT.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_define_types(
        module: *mut tenon_module,
        qualifier: *const ::core::ffi::c_char,
        source: *const ::core::ffi::c_char,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Sets the methods that PyTorch runs before or after forward.
 @param[in]  module          borrowed.
 @param[in]  before_forward  not 0: the methods run before forward. 0: they run after it.
 @param[in]  names           borrowed array of n names of methods, in the order in which they run.
                             Copied by the call. May be NULL if n is 0.
 @param[in]  n               how many methods. 0 removes all hooks of this kind.
 @param[out] err             optional, see rule 2 in tenon.h.
 @return the same codes as tenon_module_add_parameter, or TENON_NOT_FOUND (there is no such
         method).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_set_hooks(
        module: *mut tenon_module,
        before_forward: ::core::ffi::c_int,
        names: *const *const ::core::ffi::c_char,
        n: usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Stores example inputs of a traced method. Archives of the module contain them, so that PyTorch
 can give them to a program that asks for them. The archive has the shapes and element types of
 their tensors, but not their bytes. Example inputs that were stored for that method before are
 replaced.
 @param[in]  module  borrowed.
 @param[in]  method  borrowed, the name of a method.
 @param[in]  inputs  borrowed array of n values. The module takes a reference to each. May be NULL
                     if n is 0.
 @param[in]  n       how many inputs.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND (there is no such method),
         TENON_PERMISSION (an export runs), TENON_CORRUPT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_set_traced_inputs(
        module: *mut tenon_module,
        method: *const ::core::ffi::c_char,
        inputs: *const *mut tenon_value,
        n: usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Adds an extra file, which every archive of the module contains as the record extra/NAME. A file
 of the same name is replaced. The file belongs to this tenon_module: an export writes the extra
 files of the module that it exports, and not those of its submodules.
 @param[in]  module  borrowed.
 @param[in]  name    borrowed; copied by the call.
 @param[in]  data    borrowed, nbytes bytes; copied by the call. It may be NULL if nbytes is 0.
 @param[in]  nbytes  how many bytes there are at `data`.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (an export runs),
         TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_set_extra_file(
        module: *mut tenon_module,
        name: *const ::core::ffi::c_char,
        data: *const ::core::ffi::c_void,
        nbytes: usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Removes an extra file.
 @param[in]  module  borrowed.
 @param[in]  name    borrowed.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND (there is no such file),
         TENON_PERMISSION (an export runs).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_remove_extra_file(
        module: *mut tenon_module,
        name: *const ::core::ffi::c_char,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Replaces the value of a parameter, a buffer or an attribute, a state, or a part of a state. A new
 tensor may have another shape and another element type. In the state of a C++ class the element
 type must stay the same. Every other place below `module` that holds the same tensor gets the new
 tensor too.

 If the old parameter requires a gradient, the new tensor will require one too, unless elements of
 its type cannot have one. This holds also if the new tensor lacks TENON_TENSOR_REQUIRES_GRAD. To
 freeze a parameter, remove it and add it again.
 @param[in]  module  borrowed.
 @param[in]  path    borrowed.
 @param[in]  value   borrowed. The module takes a reference of its own. NULL means None.
 @param[out] err     optional, see rule 2 in tenon.h, with the details "where", "wanted" and
                     "found".
 @return TENON_OK, TENON_INVALID_ARGUMENT (the value does not fit the declared type; the path
         leads to a submodule, a constant or a method), TENON_NOT_FOUND (there is no such member),
         TENON_PERMISSION (an export runs), TENON_CORRUPT (the code of an archive cannot be
         parsed), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_set(
        module: *mut tenon_module,
        path: *const ::core::ffi::c_char,
        value: *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives an object a state. The new state replaces a state that the object has. A module that has
 attributes loses their values, and its class keeps their types: PyTorch calls __setstate__, which
 assigns values to them. tenon_module_set replaces a part of a state.

 An export and tenon_module_check refuse a class whose __getstate__ returns another type than
 __setstate__ takes, or whose __setstate__ can end without assigning all attributes.
 @param[in]  module  borrowed.
 @param[in]  path    borrowed, the path of the object. "" means the module itself.
 @param[in]  state   borrowed. The object takes a reference of its own. NULL means None.
 @param[out] err     optional, see rule 2 in tenon.h, with the details "where", "wanted" and
                     "found".
 @return TENON_OK, TENON_INVALID_ARGUMENT (the state is not of the type that __setstate__ takes;
         the module's class lacks one of the two methods; the path does not lead to an object),
         TENON_NOT_FOUND (there is no such member), TENON_UNSUPPORTED (the module has submodules,
         which no __setstate__ can make), TENON_PERMISSION (an export runs), TENON_CORRUPT (the
         code of an archive cannot be parsed), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_set_state(
        module: *mut tenon_module,
        path: *const ::core::ffi::c_char,
        state: *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Replaces a submodule. The new submodule may be of another class. If the submodule is declared by
 an interface, the new one must implement that interface.
 @param[in]  module  borrowed.
 @param[in]  path    borrowed.
 @param[in]  child   borrowed, as in tenon_module_add_submodule.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return the same codes as tenon_module_set, or TENON_UNSUPPORTED (the submodule is declared
         neither by a class nor by an interface, for example as Optional).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_set_submodule(
        module: *mut tenon_module,
        path: *const ::core::ffi::c_char,
        child: *mut tenon_module,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Removes a member: a parameter, a buffer, an attribute, a constant, a submodule or a method.
 @param[in]  module  borrowed.
 @param[in]  path    borrowed.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return the same codes as tenon_module_add_parameter, or TENON_NOT_FOUND (there is no such
         member).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_remove(
        module: *mut tenon_module,
        path: *const ::core::ffi::c_char,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Replaces parameters, buffers and tensors of states by their paths. The call replaces all of them
 or, on failure, none. A parameter that requires a gradient still requires one afterwards, as in
 tenon_module_set.
 @param[in]  module      borrowed.
 @param[in]  paths       borrowed array of n paths. May be NULL if n is 0.
 @param[in]  tensors     borrowed array of n values of kind tensor. NULL in the array means None.
                         The module takes a reference to each. May be NULL if n is 0.
 @param[in]  n           how many.
 @param[in]  flags       TENON_LOAD_*.
 @param[out] missing     new reference to the list of the module's paths for which no tensor was
                         given; release it with tenon_name_list_release. A path is not missing if
                         the module has None there, if a tensor was given for another path of the
                         same parameter or buffer, or if it leads into a state. May be NULL.
                         Untouched on failure.
 @param[out] unexpected  new reference to the list of the given paths that the module does not
                         have, as for `missing`. May be NULL. Untouched on failure.
 @param[out] err         optional, see rule 2 in tenon.h. The message names the first missing and
                         unexpected paths. The details "missing" and "unexpected" have the numbers
                         of such paths.
 @return TENON_OK, TENON_INVALID_ARGUMENT (a path is missing, unexpected or given twice; a tensor
         does not fit the declared type; two different tensors are given for one shared tensor),
         TENON_PERMISSION (an export runs), TENON_UNSUPPORTED (unknown flags), TENON_CORRUPT (the
         code of an archive cannot be parsed), TENON_RESOURCE_EXHAUSTED (also for a tree with too
         many paths, see tenon_module_tensors).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_load(
        module: *mut tenon_module,
        paths: *const *const ::core::ffi::c_char,
        tensors: *const *mut tenon_value,
        n: usize,
        flags: u32,
        missing: *mut *mut tenon_name_list,
        unexpected: *mut *mut tenon_name_list,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Checks the code of a module as an export does: names, operators, and the number, the keywords and
 the types of arguments. The call writes nothing. Code that the newest PyTorch refuses is an
 error. A call that only PyTorch 1.13 refuses is not an error: tenon_module_warnings lists it. In
 a module that was imported and whose code was not changed, a call that PyTorch 1.13 accepts is
 not an error either. The check leaves operands to PyTorch if their type depends on values at run
 time.
 @param[in]  module  borrowed.
 @param[out] err     optional, see rule 2 in tenon.h. The details "file", "line", "column" and
                     "excerpt" name the place in the code.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (an object has attributes although
         its class has __getstate__ and __setstate__, or a state although its class lacks one of
         them; detail "class"), TENON_CORRUPT (the code of an archive cannot
         be parsed), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_check(
        module: *const tenon_module,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Lists all members of a module, in the order in which its class declares them. Constants follow
 the other attributes, and methods come last.
 @param[in]  module  borrowed.
 @param[out] out     new reference to a list; release it with tenon_member_list_release. Untouched
                     on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT (the code of an archive cannot be
         parsed), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_members(
        module: *const tenon_module,
        out: *mut *mut tenon_member_list,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Finds the member at a path.
 @param[in]  module  borrowed.
 @param[in]  path    borrowed, such as "encoder.0.weight".
 @param[out] out     new reference to a list with this one member; release it with
                     tenon_member_list_release. Untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h. The message names the part of the path that
                     does not exist.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_CORRUPT (the code of an archive
         cannot be parsed), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_find(
        module: *const tenon_module,
        path: *const ::core::ffi::c_char,
        out: *mut *mut tenon_member_list,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Lists every parameter, every buffer and every tensor of a state below a module, in the order of
 the tree. The name of each entry is its path. A shared tensor has an entry for each of its paths.
 Parameters and buffers that are None are left out.
 @param[in]  module  borrowed.
 @param[out] out     new reference to a list; release it with tenon_member_list_release. Untouched
                     on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT (the code of an archive cannot be
         parsed), TENON_RESOURCE_EXHAUSTED (also for a tree with more than 1,000,000 paths, limit
         "paths", or with more than 128 MiB of paths, limit "paths_nbytes").
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_tensors(
        module: *const tenon_module,
        out: *mut *mut tenon_member_list,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Lists the states below a module: the states of modules, of objects that are attributes of
 modules, and of objects in such states.
 @param[in]  module  borrowed.
 @param[out] out     new reference to a list of paths, such as "conv.state"; release it with
                     tenon_name_list_release. Untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return the same codes as tenon_module_tensors.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_states(
        module: *const tenon_module,
        out: *mut *mut tenon_name_list,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Returns how many members a list has.
 @param[in] list  borrowed. NULL is allowed.
 @return the count; 0 for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_member_list_count(list: *const tenon_member_list) -> usize;
    /**Gives one member of a list.
 @param[in]     list   borrowed.
 @param[in]     index  counts from 0.
 @param[in,out] out    struct_size set by the caller, the other fields filled in by the call. The
                       pointers are borrowed from the list and valid until its release. Untouched
                       on failure.
 @param[out]    err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also if `index` is past the last member).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_member_list_get(
        list: *const tenon_member_list,
        index: usize,
        out: *mut tenon_member,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Releases a list.
 @param[in] list  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_member_list_release(list: *mut tenon_member_list);
    /**Lists the extra files of a module.
 @param[in]  module  borrowed.
 @param[out] out     new reference to a list; release it with tenon_file_list_release. Untouched
                     on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_extra_files(
        module: *const tenon_module,
        out: *mut *mut tenon_file_list,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Lists the code of a module's classes and functions, as an export writes it. There is one file for
 each qualifier, with a name like "__torch__/my/layers.py".
 @param[in]  module  borrowed.
 @param[out] out     new reference to a list; release it with tenon_file_list_release. Untouched
                     on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT (the code of an archive cannot be
         parsed), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_code_files(
        module: *const tenon_module,
        out: *mut *mut tenon_file_list,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives the values that the code from tenon_module_code_files calls CONSTANTS.c0, CONSTANTS.c1, …
 @param[in]  module  borrowed.
 @param[out] out     new reference to a tuple; release it with tenon_value_release. Untouched on
                     failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT (the code of an archive cannot be
         parsed), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_constants(
        module: *const tenon_module,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Returns how many files a list has.
 @param[in] list  borrowed. NULL is allowed.
 @return the count; 0 for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_file_list_count(list: *const tenon_file_list) -> usize;
    /**Gives one file of a list.
 @param[in]  list   borrowed.
 @param[in]  index  counts from 0.
 @param[out] out    the caller's, filled in by the call. Its pointers are borrowed from the list
                    and valid until its release. The byte after the data is a NUL. Untouched on
                    failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also if `index` is past the last file).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_file_list_get(
        list: *const tenon_file_list,
        index: usize,
        out: *mut tenon_file,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Releases a list.
 @param[in] list  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_file_list_release(list: *mut tenon_file_list);
    /**Returns how many names a list has.
 @param[in] list  borrowed. NULL is allowed.
 @return the count; 0 for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_name_list_count(list: *const tenon_name_list) -> usize;
    /**Returns one name of a list.
 @param[in] list   borrowed. NULL is allowed.
 @param[in] index  counts from 0.
 @return the name, borrowed from the list and valid until its release. NULL if `index` is past the
         last name, and NULL for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_name_list_get(
        list: *const tenon_name_list,
        index: usize,
    ) -> *const ::core::ffi::c_char;
    /**Releases a list.
 @param[in] list  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_name_list_release(list: *mut tenon_name_list);
    /**Writes a module to a file. When the call returns, the path names either the complete new file or
 the same file as before. The call leaves no other file behind.

 Tensors in host memory are written directly from where they lie. Tensors on a CUDA device go
 through 8 MiB of pinned memory for each device. They are read after all work that was given to
 options.stream before the call. The host waits for these reads, and no stream of the program
 waits for them. When the call returns, the tensors have been read.
 @param[in]     module   borrowed.
 @param[in]     path     borrowed. Its directory must exist. A file of that name is replaced. If
                         the path is a symbolic link, the file to which it leads is replaced.
 @param[in]     options  borrowed. NULL means the defaults.
 @param[in,out] report   struct_size set by the caller, the other fields filled in by the call.
                         May be NULL. Untouched on failure.
 @param[out]    err      optional, see rule 2 in tenon.h. For code, the details "file", "line",
                         "column" and "excerpt" name the place.
 @return TENON_OK, or the code that the hook returned, or
 - TENON_INVALID_ARGUMENT: also for code that PyTorch would refuse, and for code of versions that
   cannot be in one archive (details "operator", "module" and "other_module").
 - TENON_UNSUPPORTED: unknown flags; tensors on a device in a child of fork; an object that has
   attributes although PyTorch reads a state of its class, or the other way round (detail
   "class"); code that bytecode cannot express, or that options.bytecode_version cannot (details
   "file", "line" and "column").
 - TENON_PERMISSION: this process may not write there.
 - TENON_NOT_FOUND: the directory does not exist.
 - TENON_CORRUPT: code of an archive cannot be parsed, or a mapped file was cut short.
 - TENON_RESOURCE_EXHAUSTED: also if the disk is full.
 - TENON_PEER_GONE: the storage of a tensor was dropped (tenon_storage_check_lender).
 - TENON_IO.
 - Other codes for errors of CUDA's driver.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_export_module(
        module: *const tenon_module,
        path: *const ::core::ffi::c_char,
        options: *const tenon_export_options,
        report: *mut tenon_export_report,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Writes a module to an open file, a pipe or a socket, from its current position on. In all else
 this function is like tenon_export_module.
 @param[in]     module   borrowed.
 @param[in]     fd       borrowed and not closed. After a failure, some bytes may have been
                         written to it.
 @param[in]     options  borrowed. NULL means the defaults.
 @param[in,out] report   as in tenon_export_module.
 @param[out]    err      optional, see rule 2 in tenon.h.
 @return the same codes as tenon_export_module. TENON_PEER_GONE also means that no process reads
         the pipe or the socket any more.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_export_module_fd(
        module: *const tenon_module,
        fd: ::core::ffi::c_int,
        options: *const tenon_export_options,
        report: *mut tenon_export_report,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Passes the bytes of a module's archive to a function. In all else this function is like
 tenon_export_module.
 @param[in]     module   borrowed.
 @param[in]     write    called with one piece after another, on this thread. After a failure it
                         may have received some of the pieces.
 @param[in]     context  handed to `write`.
 @param[in]     options  borrowed. NULL means the defaults.
 @param[in,out] report   as in tenon_export_module.
 @param[out]    err      optional, see rule 2 in tenon.h.
 @return the same codes as tenon_export_module, and the codes for the results of `write`
         (tenon_write_function).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_export_module_to(
        module: *const tenon_module,
        write: tenon_write_function,
        context: *mut ::core::ffi::c_void,
        options: *const tenon_export_options,
        report: *mut tenon_export_report,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Lists the operators that bytecode of a module calls, such as "aten::add.Tensor". The list has
 each operator once, sorted by name. A mobile build of PyTorch needs this list. The call writes no
 file. It accepts code that forks, as TENON_EMIT_FORKS_AT_ONCE does.
 @param[in]  module   borrowed.
 @param[in]  methods  borrowed; as in tenon_export_options. NULL means all methods.
 @param[out] out      new reference to a list; release it with tenon_name_list_release. Untouched
                      on failure.
 @param[out] err      optional, see rule 2 in tenon.h. The details "file", "line", "column" and
                      "excerpt" name the place in the code.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND (a method), TENON_UNSUPPORTED (the lite
         interpreter cannot run some code), TENON_CORRUPT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_export_opnames(
        module: *const tenon_module,
        methods: *const ::core::ffi::c_char,
        out: *mut *mut tenon_name_list,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Reads an archive of PyTorch 1.4 or later, or a flatbuffer. The file must not be changed while
 views of it are in use. Replacing the file by rename is harmless.

 The code and the bytecode of a flatbuffer are read and checked when the module is first used. See
 "First use" in tenon/module.h.

 Tensors that were saved on another device than the CPU are put on the CPU, unless `tensors` or
 `device_map` in the options says otherwise. Tensors that were copied to a CUDA device are
 complete when the call returns, and every stream may use them.
 @param[in]  path     borrowed.
 @param[in]  options  borrowed. NULL means the defaults.
 @param[out] out      new reference; release it with tenon_module_release. Untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h, with the details "record" and "offset".
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_PERMISSION, TENON_CORRUPT,
         TENON_UNSUPPORTED (the file is of another kind, which the message names; there is no
         CUDA; PyTorch has no such version; it is a flatbuffer, and the library was built without
         FlatBuffers), TENON_RESOURCE_EXHAUSTED (also for the limits in the
         options, and for the device's memory), TENON_IO.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_import_module(
        path: *const ::core::ffi::c_char,
        options: *const tenon_import_options,
        out: *mut *mut tenon_module,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Reads an archive from an open file, whatever its position. In all else this function is like
 tenon_import_module.
 @param[in]  fd       borrowed. It must be a regular file that is open for reading. It may be
                      closed after the call.
 @param[in]  options  borrowed. NULL means the defaults.
 @param[out] out      new reference; release it with tenon_module_release. Untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return the same codes as tenon_import_module.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_import_module_fd(
        fd: ::core::ffi::c_int,
        options: *const tenon_import_options,
        out: *mut *mut tenon_module,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Reads an archive from memory. In all else this function is like tenon_import_module. With
 TENON_IMPORT_MAP the tensors are views of that memory. With TENON_IMPORT_MAP_PRIVATE they are
 copied.
 @param[in]  data     borrowed, nbytes bytes. They must stay valid and must not change until
                      `release` is called.
 @param[in]  nbytes   how many bytes there are at `data`.
 @param[in]  release  called once, on any thread, when nothing needs the bytes any more. That is
                      at the latest when the last tensor over them is released. If the import
                      fails, `release` is not called. May be NULL.
 @param[in]  context  handed to `release`.
 @param[in]  options  borrowed. NULL means the defaults.
 @param[out] out      new reference; release it with tenon_module_release. Untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return the same codes as tenon_import_module.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_import_module_memory(
        data: *const ::core::ffi::c_void,
        nbytes: usize,
        release: ::core::option::Option<
            unsafe extern "C" fn(context: *mut ::core::ffi::c_void),
        >,
        context: *mut ::core::ffi::c_void,
        options: *const tenon_import_options,
        out: *mut *mut tenon_module,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives the report of the import that made a module. For a module that no import function returned,
 all fields are 0.
 @param[in]     module  borrowed, a module that an import function returned.
 @param[in,out] out     struct_size set by the caller, the other fields filled in by the call.
                        Untouched on failure.
 @param[out]    err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, or an error of the file at the first use.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_import_report(
        module: *const tenon_module,
        out: *mut tenon_import_report,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Lists warnings about a module, one line each. For every module these are the calls that PyTorch
 1.13 refuses and the newest PyTorch accepts, or the reverse: "PyTorch 1.13 refuses
 torch.scaled_dot_product_attention, and PyTorch 2.2 has it, in code/__torch__.py:3:12". A module
 with code that both versions refuse has no lines about calls. A module that an import function
 returned also has lines about the import. Examples are records that an export does not write
 again, code that cannot be parsed, tensors that were saved on another device, and operators that
 have another meaning in the archive's version than today.
 @param[in]  module  borrowed.
 @param[out] out     new reference to a list; release it with tenon_name_list_release. Untouched
                     on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_module_warnings(
        module: *const tenon_module,
        out: *mut *mut tenon_name_list,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Opens a package. The file must not be changed while views of it are in use. Replacing the file
 by rename is harmless.
 @param[in]  path     borrowed.
 @param[in]  options  borrowed. They hold for all modules of the package. The package keeps a
                      reference to their arena. TENON_IMPORT_DEBUG_TABLES has no effect. NULL
                      means the defaults.
 @param[out] out      new reference; release it with tenon_package_release. Untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h, with the details "record" and "offset".
 @return TENON_OK, TENON_UNSUPPORTED (the file is of another kind), and the other codes of
         tenon_import_module.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_package_open(
        path: *const ::core::ffi::c_char,
        options: *const tenon_import_options,
        out: *mut *mut tenon_package,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Adds a reference.
 @param[in] package  borrowed. NULL is allowed.
 @return `package`, as a new reference that must be released too.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_package_retain(package: *mut tenon_package) -> *mut tenon_package;
    /**Releases a reference. Modules of the package stay usable.
 @param[in] package  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_package_release(package: *mut tenon_package);
    /**Lists the script modules of a package. Each is listed by its resource, or by its id if it has no
 resource.
 @param[in]  package  borrowed.
 @param[out] out      new reference to a list; release it with tenon_name_list_release. Untouched
                      on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_package_modules(
        package: *const tenon_package,
        out: *mut *mut tenon_name_list,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Reads a script module of a package. Every call for the same module gives a tenon_module over the
 same objects, with the changes that were made to them. A module that cannot be read does not
 affect other modules.
 @param[in]  package  borrowed.
 @param[in]  name     borrowed: a resource or an id.
 @param[out] out      new reference; release it with tenon_module_release. Untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h, with the details "record" and "offset".
 @return TENON_OK, TENON_NOT_FOUND (the message lists the names), and the other codes of
         tenon_import_module.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_package_module(
        package: *mut tenon_package,
        name: *const ::core::ffi::c_char,
        out: *mut *mut tenon_module,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Lists the records of a package in their order, also the records that PyTorch keeps below
 ".data/".
 @param[in]  package  borrowed.
 @param[out] out      new reference to a list; release it with tenon_name_list_release. Untouched
                      on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_package_records(
        package: *const tenon_package,
        out: *mut *mut tenon_name_list,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Copies the bytes of a record: a pickle, a Python source, a file, or a storage such as
 ".data/0.storage".
 @param[in]  package  borrowed.
 @param[in]  name     borrowed.
 @param[out] out      new reference to a list that has this one file; release it with
                      tenon_file_list_release. Untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_CORRUPT,
         TENON_RESOURCE_EXHAUSTED, TENON_IO.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_package_read(
        package: *const tenon_package,
        name: *const ::core::ffi::c_char,
        out: *mut *mut tenon_file_list,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Writes a package that torch.package.PackageImporter reads. The package contains each class, each
 constant and each storage once, however many of its modules use it. Where two modules have
 different classes of one name, one class gets another name. The file is written whole or not at
 all: an old file of that name stays until the new one is complete. The path may be the file of
 `options.base`.
 @param[in]     entries  borrowed array of n entries. Several entries may have the same module.
 @param[in]     n        how many entries there are.
 @param[in]     path     borrowed. Its directory must exist.
 @param[in]     options  borrowed. NULL means the defaults.
 @param[in,out] report   struct_size set by the caller, the other fields filled in by the call.
                         May be NULL. Untouched on failure.
 @param[out]    err      optional, see rule 2 in tenon.h. For code, the details "file", "line",
                         "column" and "excerpt" name the place.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also if a name is not valid or is given twice),
         TENON_UNSUPPORTED (also a base that is big-endian), and the other codes of
         tenon_export_module.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_export_package(
        entries: *const tenon_package_entry,
        n: usize,
        path: *const ::core::ffi::c_char,
        options: *const tenon_package_options,
        report: *mut tenon_export_report,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Opens weights by name. If no process has them, this process loads the file into shared memory.
 Otherwise it maps the memory that another process has, however long ago that one loaded it.

 The path only says which file is meant. The weights of a name stay as they were loaded when the
 file changes. A process that opens the name with a changed file gets an error. Without a path the
 call gives the newest version.
 @param[in]  path     borrowed. NULL means to load nothing: the call succeeds only if a process
                      has the weights.
 @param[in]  name     borrowed: at most 200 bytes, without a slash, not beginning with a dot.
 @param[in]  options  borrowed. NULL means the defaults.
 @param[in]  wait     borrowed. It bounds the wait for other processes. NULL means to wait for
                      ever. Only its cancel ends a load that this process does itself.
 @param[out] out      new reference; release it with tenon_shared_weights_release. Untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, or
 - TENON_INVALID_ARGUMENT: a name or a directory that is not allowed; an empty file; a device that
   this process does not see.
 - TENON_NOT_FOUND: there is no such file or directory; or the path is NULL, and no process has
   the weights.
 - TENON_PERMISSION with the detail "field": the name stands for another file, or for another
   version of the file. The detail "pid" names the process that hands it out.
 - TENON_PERMISSION without "field": the weights are another user's, or the file or the directory
   may not be used.
 - TENON_TIMEOUT, TENON_WOULD_BLOCK: the wait ended while another process was loading, or did not
   answer. The detail "pid" names that process, which may be stopped (SIGSTOP).
 - TENON_INTERRUPTED, TENON_CANCELLED.
 - TENON_RESOURCE_EXHAUSTED: no memory, or a limit, such as "max_nbytes", "budget_nbytes" or
   "device memory".
 - TENON_CORRUPT: the file changed while it was loaded, or is broken; or another program listens
   on the socket.
 - TENON_INCOMPATIBLE: a process has the weights with a later version of Tenon.
 - TENON_UNSUPPORTED: a file of another kind, as from tenon_open_weights; a directory on a network
   file system. For a device: there is no driver, it cannot lend the device's memory by an fd, or
   this process is a child of fork. With the detail "name": no view of the device's memory can
 show that tensor, because its record is compressed, misaligned or of the other byte order.
 - TENON_IO.
 @since 0.1. Any thread may call this function. A child of fork that calls it has weights of its
         own, and the weights that it has inherited stay readable but are not handed on.*/
    pub fn tenon_open_shared_weights(
        path: *const ::core::ffi::c_char,
        name: *const ::core::ffi::c_char,
        options: *const tenon_shared_weights_options,
        wait: *const tenon_wait,
        out: *mut *mut tenon_shared_weights,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Publishes a file as the next version of the weights of a name. The call loads the file first, and
 then switches in one step. If no process has weights of the name, the file becomes version 1.

 Processes that have an older version keep it. Its memory is freed when the last of them releases
 it. The new version lives as long as a process has it, so the publisher keeps `out` until another
 process has opened the name. If no process has the new version any more, then a process with the
 newest older version hands that one out again.
 @param[in]  path     borrowed.
 @param[in]  name     borrowed, as for tenon_open_shared_weights.
 @param[in]  options  borrowed. NULL means the defaults.
 @param[in]  wait     borrowed. It bounds the wait for another process that publishes under this
                      name. NULL means to wait for ever. Only its cancel ends a load.
 @param[out] out      new reference; release it with tenon_shared_weights_release. Untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, or an error after which no process sees a change:
 - TENON_TIMEOUT, TENON_WOULD_BLOCK: the wait ended while another process publishes. The detail
   "pid" names that process, which may be stopped (SIGSTOP).
 - TENON_PERMISSION: the weights are another user's, or a file or the directory may not be used.
 - TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_INTERRUPTED, TENON_CANCELLED,
   TENON_RESOURCE_EXHAUSTED, TENON_CORRUPT, TENON_UNSUPPORTED, TENON_IO, as from
   tenon_open_shared_weights.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_publish_shared_weights(
        path: *const ::core::ffi::c_char,
        name: *const ::core::ffi::c_char,
        options: *const tenon_shared_weights_options,
        wait: *const tenon_wait,
        out: *mut *mut tenon_shared_weights,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Publishes tensors as the next version of the weights of a name, such as those of a trainer. Does
 what tenon_publish_shared_weights does, as if the tensors were a safetensors file. The elements
 are copied once, and must not change during the call. The tensors may be views, and of any
 strides. With TENON_SHARED_WEIGHTS_REUSE the memory of an older version is written again.
 @param[in]  names    borrowed: `count` names in UTF-8, each of them once.
 @param[in]  values   borrowed: for each name a value of a tensor.
 @param[in]  count    at least 1.
 @param[in]  name     borrowed, as for tenon_open_shared_weights.
 @param[in]  options  borrowed. NULL means the defaults. `progress` is not called.
 @param[in]  wait     borrowed, as for tenon_publish_shared_weights.
 @param[out] out      new reference; release it with tenon_shared_weights_release. Untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, or an error after which no process sees a change: those of
         tenon_publish_shared_weights, and
 - TENON_INVALID_ARGUMENT: no tensor, a value that is no tensor, or a name twice.
 - TENON_UNSUPPORTED: TENON_SHARED_WEIGHTS_REUSE before Linux 5.1; or a safetensors file has no
   such element type; or a tensor is sparse, quantised, conjugated lazily, or on another device
   than the CPU. The detail "name" names it. Or options.device names another device than the CPU:
   save the tensors to a file (tenon_save_weights), and publish that file.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_publish_shared_weights_values(
        names: *const *const ::core::ffi::c_char,
        values: *const *mut tenon_value,
        count: usize,
        name: *const ::core::ffi::c_char,
        options: *const tenon_shared_weights_options,
        wait: *const tenon_wait,
        out: *mut *mut tenon_shared_weights,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Waits until the name has a newer version than `weights`. Open the name again without a path to
 get it.
 @param[in]  weights  borrowed.
 @param[in]  wait     borrowed. A timeout of 0 only looks. NULL means to wait for ever.
 @param[out] version  optional: the newest version of which this process knows. Untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, or
 - TENON_TIMEOUT, or with a timeout of 0 TENON_WOULD_BLOCK: there is no newer version.
 - TENON_UNSUPPORTED: this process is a child of fork, and its parent opened the weights.
 - TENON_INVALID_ARGUMENT, TENON_INTERRUPTED, TENON_CANCELLED, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_shared_weights_changed(
        weights: *const tenon_shared_weights,
        wait: *const tenon_wait,
        version: *mut u64,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives an fd for poll that is readable while the name has a newer version than `weights`. Do not
 read it.
 @param[in]  weights  borrowed.
 @param[out] out      borrowed: it lives as long as the weights. Untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED as from tenon_shared_weights_changed,
         TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_shared_weights_changed_fd(
        weights: *const tenon_shared_weights,
        out: *mut ::core::ffi::c_int,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Adds a reference.
 @param[in] weights  borrowed. NULL is allowed.
 @return `weights`, as a new reference that must be released too.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_shared_weights_retain(
        weights: *mut tenon_shared_weights,
    ) -> *mut tenon_shared_weights;
    /**Releases a reference. Values that tenon_shared_weights_tensor gave stay usable. This process
 hands the weights on until the last of them is released.
 @param[in] weights  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_shared_weights_release(weights: *mut tenon_shared_weights);
    /**Lists the names of all tensors in the order of the file.
 @param[in]  weights  borrowed.
 @param[out] out      new reference to a list; release it with tenon_name_list_release. Untouched
                      on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_shared_weights_names(
        weights: *const tenon_shared_weights,
        out: *mut *mut tenon_name_list,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives a tensor as a value, as tenon_weights_tensor does. Its elements are read-only.
 @param[in]  weights  borrowed.
 @param[in]  name     borrowed.
 @param[out] out      new reference; release it with tenon_value_release. Untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_UNSUPPORTED,
         TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_shared_weights_tensor(
        weights: *const tenon_shared_weights,
        name: *const ::core::ffi::c_char,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives facts about shared weights.
 @param[in]     weights  borrowed.
 @param[in,out] out      struct_size set by the caller, the other fields filled in by the call. It
                         is untouched on failure.
 @param[out]    err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_shared_weights_info_get(
        weights: *const tenon_shared_weights,
        out: *mut tenon_shared_weights_info,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Lists the names of the values in the file that are no tensors, as tenon_weights_value_names does.
 @param[in]  weights  borrowed.
 @param[out] out      new reference to a list; release it with tenon_name_list_release. Untouched
                      on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_shared_weights_value_names(
        weights: *const tenon_shared_weights,
        out: *mut *mut tenon_name_list,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives a value of tenon_shared_weights_value_names.
 @param[in]  weights  borrowed.
 @param[in]  name     borrowed.
 @param[out] out      new reference; release it with tenon_value_release. Untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_shared_weights_value(
        weights: *const tenon_shared_weights,
        name: *const ::core::ffi::c_char,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Opens a file of weights and reads its tensors. The file must not be changed while views of it are
 in use. Replacing the file by rename is harmless, also by tenon_weights_rewrite.
 @param[in]  path     borrowed. The contents of the file, not its name, decide about its form.
 @param[in]  options  borrowed. They say where the tensors go, as for a module.
                      TENON_IMPORT_DEBUG_TABLES has no effect. NULL means the defaults: read-only
                      views of the file.
 @param[out] out      new reference; release it with tenon_weights_release. Untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_PERMISSION, TENON_CORRUPT (also
         for an index that names a weight which its shard lacks: the details "name" and "path"
 have both), TENON_UNSUPPORTED (the file is of another kind or of a newer version; the library was
         built without JSON and the file is a safetensors file or a .pt2 file of PyTorch's newest
         form; it was built without FlatBuffers and the file is a .ptd file),
         TENON_RESOURCE_EXHAUSTED, TENON_IO.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_open_weights(
        path: *const ::core::ffi::c_char,
        options: *const tenon_import_options,
        out: *mut *mut tenon_weights,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Adds a reference.
 @param[in] weights  borrowed. NULL is allowed.
 @return `weights`, as a new reference that must be released too.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_weights_retain(weights: *mut tenon_weights) -> *mut tenon_weights;
    /**Releases a reference. Values that tenon_weights_tensor gave stay usable.
 @param[in] weights  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_weights_release(weights: *mut tenon_weights);
    /**Lists the names of all weights in the order of the file.
 @param[in]  weights  borrowed.
 @param[out] out      new reference to a list; release it with tenon_name_list_release. Untouched
                      on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_weights_names(
        weights: *const tenon_weights,
        out: *mut *mut tenon_name_list,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives a weight as a value. Weights that share a storage in the file share it in memory. Data of a
 .ptd file that is not a tensor is given as a tensor of bytes. After tenon_weights_replace this
 function gives the new elements. Values that it gave before keep the old elements.
 @param[in]  weights  borrowed.
 @param[in]  name     borrowed.
 @param[out] out      new reference; release it with tenon_value_release. Untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_UNSUPPORTED (the file has no
         plain elements of this weight; the message says why), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_weights_tensor(
        weights: *const tenon_weights,
        name: *const ::core::ffi::c_char,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Lists the names of the values in the file that are no tensors: the numbers, texts, booleans and
 None in a file of torch.save or in a module, and the texts of `__metadata__` in a safetensors
 file, as "__metadata__.format". The names are formed as those of tensors.
 @param[in]  weights  borrowed.
 @param[out] out      new reference to a list; release it with tenon_name_list_release. Untouched
                      on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_weights_value_names(
        weights: *const tenon_weights,
        out: *mut *mut tenon_name_list,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives a value of tenon_weights_value_names.
 @param[in]  weights  borrowed.
 @param[in]  name     borrowed.
 @param[out] out      new reference; release it with tenon_value_release. Untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_weights_value(
        weights: *const tenon_weights,
        name: *const ::core::ffi::c_char,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Lists what the file has and the library cannot read, such as an object of a class of Python. Each
 line has the name and the reason: "sampler: an object of 'mine.Sampler'". The list is empty if
 everything in the file is a weight or a value.
 @param[in]  weights  borrowed.
 @param[out] out      new reference to a list of lines; release it with tenon_name_list_release.
                      Untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_weights_skipped(
        weights: *const tenon_weights,
        out: *mut *mut tenon_name_list,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Replaces the elements of a weight. The element type and the shape must be those of the weight,
 because the program depends on them. The layout may differ. Weights that share a storage with
 this one change with it. The file does not change.

 The library may use the tensor's elements in place, without a copy. So they must not change
 before the last tenon_weights_rewrite.
 @param[in] weights  borrowed.
 @param[in] name     borrowed.
 @param[in] tensor   borrowed: a value of kind tensor in the memory of the CPU.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also for another element type or shape),
         TENON_NOT_FOUND, TENON_UNSUPPORTED (a weight of a .ptd file, of a shard, of a compressed
         record or of a big-endian file, and a weight that is sparse, quantised or expanded; a
 tensor on a device), TENON_CORRUPT (the file was cut short), TENON_PEER_GONE,
         TENON_RESOURCE_EXHAUSTED, TENON_IO.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_weights_replace(
        weights: *mut tenon_weights,
        name: *const ::core::ffi::c_char,
        tensor: *const tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Writes a copy of the opened file that contains the replaced weights. The new file has the same
 size, and the same bytes except those of the replaced weights and their checksums. The file is
 written whole or not at all: an old file of that name stays until the new one is complete. The
 path may be the file that was opened.
 @param[in]  weights  borrowed.
 @param[in]  path     borrowed. Its directory must exist.
 @param[in]  options  borrowed. NULL means the defaults.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_PERMISSION, TENON_UNSUPPORTED (a
         .ptd file or an index), TENON_CORRUPT (the file was changed or cut short),
 TENON_PEER_GONE, TENON_RESOURCE_EXHAUSTED, TENON_IO.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_weights_rewrite(
        weights: *const tenon_weights,
        path: *const ::core::ffi::c_char,
        options: *const tenon_weights_rewrite_options,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Saves tensors under names as a new file. The elements are written from where they are, without a
 second copy in memory. Only a tensor that is not contiguous is copied first. The file is written
 whole or not at all: an old file of that name stays until the new one is complete.

 The elements must not change during the call.
 @param[in]  path     borrowed. Its directory must exist.
 @param[in]  names    borrowed: `count` names. A name may not come twice.
 @param[in]  tensors  borrowed: `count` values of kind tensor, whose elements are in the memory of
                      the CPU.
 @param[in]  count    may be 0. Then `names` and `tensors` may be NULL.
 @param[in]  options  borrowed. NULL means the defaults.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, or
 - TENON_INVALID_ARGUMENT: also for a name that comes twice, that is `__metadata__`, or that no
   record of an .npz file can have; for tensors that share memory in a safetensors or .npz file,
   or that share it and have different element types, whose names are the details "name" and
   "other"; and for metadata in a file of another form.
 - TENON_NOT_FOUND, TENON_PERMISSION: the directory.
 - TENON_UNSUPPORTED: a tensor that the form cannot express. It is sparse, lazily conjugated or
   negated, on a device, or of an element type that the form lacks; it is quantised, and the form
   is not TORCH_SAVE; or the library was built without JSON, and the form is SAFETENSORS. The
   detail "name" has the tensor's name.
 - TENON_CORRUPT: the elements lie in a mapped file that was cut short.
 - TENON_RESOURCE_EXHAUSTED, TENON_IO.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_save_weights(
        path: *const ::core::ffi::c_char,
        names: *const *const ::core::ffi::c_char,
        tensors: *const *const tenon_value,
        count: usize,
        options: *const tenon_save_weights_options,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes an object from an array of nodes.
 @param[in]  nodes  borrowed array of n nodes: one value and everything inside it. Only the fields
                    of a node's kind are read. nodes[0].struct_size is the size of every element.
                    Text and bytes are copied. The object takes a reference to each tensor and
                    composite.
 @param[in]  n      the number of nodes, at least 1.
 @param[out] out    new reference; release it with tenon_object_release. It is untouched on
                    failure.
 @param[out] err    optional, see rule 2 in tenon.h. The detail `index` says which node is wrong.
 @return TENON_OK, TENON_INVALID_ARGUMENT (there is no such kind; the nodes are too few or too
         many for their counts; values are nested deeper than TENON_OBJECT_MAX_DEPTH; a text is
         not UTF-8; a key of a dict or an item of a set occurs twice, or is not None, a bool, a
         number, text, bytes or a tuple of these), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_object_new(
        nodes: *const tenon_object_node,
        n: usize,
        out: *mut *mut tenon_object,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Adds a reference.
 @param[in] object  borrowed. NULL is allowed.
 @return `object`, as a new reference that must be released too.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_object_retain(object: *mut tenon_object) -> *mut tenon_object;
    /**Releases a reference. The last release also releases the references to tensors and composites.
 @param[in] object  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_object_release(object: *mut tenon_object);
    /**Returns the number of nodes of an object.
 @param[in] object  borrowed. NULL is allowed.
 @return the count, at least 1; 0 for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_object_count(object: *const tenon_object) -> usize;
    /**Gives n nodes of an object, from an index on. Node 0 is the whole object.
 @param[in]     object  borrowed.
 @param[in]     begin   the index of the first node, counted from 0.
 @param[in,out] out     the caller's array of n nodes. The caller sets out[0].struct_size, which
                        is the size of every element. The call writes it to the other elements and
                        fills in all fields. The pointers are borrowed from the object and valid
                        until its last release. It is untouched on failure.
 @param[in]     n       how many nodes. May be 0.
 @param[out]    err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also if the object has fewer nodes).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_object_get_nodes(
        object: *const tenon_object,
        begin: usize,
        out: *mut tenon_object_node,
        n: usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Finds the value that a dict has for a text key. The cost grows with the number of entries.
 @param[in]  object  borrowed.
 @param[in]  dict    the index of a node of kind DICT; 0 if the whole object is a dict.
 @param[in]  key     borrowed, UTF-8.
 @param[out] out     the index of the value's node. It is untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (there is no such node, or it is of another kind),
         TENON_NOT_FOUND (the dict has no such key).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_object_find(
        object: *const tenon_object,
        dict: usize,
        key: *const ::core::ffi::c_char,
        out: *mut usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes a message that carries an object. A receiver reads the object with
 tenon_object_new_from_message, or in Python with `Connection.recv_object`. The storages of the
 object's tensors are lent whole, even if a tensor is a small part of its storage.
 @param[in]  object   borrowed.
 @param[in]  options  borrowed. NULL means the defaults. They have the same meaning as in
                      tenon_share_fd, for every storage.
 @param[out] out      new reference; release it with tenon_message_release. Nothing may be added
                      to the message. It is untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION, TENON_UNSUPPORTED (a tensor lies in
         private memory), TENON_RESOURCE_EXHAUSTED, TENON_PEER_GONE (a storage was dropped).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_message_new_from_object(
        object: *const tenon_object,
        options: *const tenon_share_options,
        out: *mut *mut tenon_message,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Reads the object that a message carries. The sender is not trusted: nothing that it names is
 called, and every tensor is checked against its storage. Tensors and storages of PyTorch become
 tensors, an OrderedDict becomes a dict, a bytearray becomes bytes and a frozenset becomes a set.
 The contents of composites are not checked; tenon_composite_check does that.
 @param[in]  message  borrowed. The object takes references of its own to the tensors.
 @param[out] out      new reference; release it with tenon_object_release. It is untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h. The detail `offset` says where in the
                      pickle an error is, in bytes.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT (the message carries no object, or one
         with errors), TENON_INCOMPATIBLE (a later version of Tenon wrote the object),
         TENON_UNSUPPORTED (the object has a class or function of Python, an integer of more than
         64 bits, a container that contains itself, or an element type that Tenon lacks; the error
         message names it), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_object_new_from_message(
        message: *const tenon_message,
        out: *mut *mut tenon_object,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes a publisher without subscribers.
 @param[in]  options  borrowed. NULL means the defaults.
 @param[out] out      new reference; release it with tenon_publisher_release. It is untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (a number that a publisher cannot have, an unknown
         policy, a group without TENON_PUBLISHER_GROUP), TENON_UNSUPPORTED (unknown flags).
 @since 0.1. Any thread may call this function. After fork only the process that made the
         publisher can use it. A child has no copies of its sockets, because fork closes them
         there: the subscribers are told when the process that made the publisher ends, even if
         a child of it lives on. The child may release its copy.*/
    pub fn tenon_publisher_new(
        options: *const tenon_publisher_options,
        out: *mut *mut tenon_publisher,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Makes a local socket to which subscribers connect (tenon_subscriber_connect). The service thread
 (rule 10 in tenon.h) takes them as they come. The socket of a process that has ended is replaced.
 The release of the publisher removes the socket. A publisher can have several.
 @param[in]  publisher  borrowed.
 @param[in]  path       borrowed. The directory must exist, and may be a mount that containers
                        share.
 @param[in]  mode       the permission bits of the socket: who may connect must be able to write
                        to it. 0 means 0600, or 0660 with TENON_PUBLISHER_GROUP, which also gives
                        the socket to options.group.
 @param[out] err        optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (a path that no socket can have), TENON_NOT_FOUND (no
         such directory), TENON_PERMISSION (somebody listens there already, or another file is
         there, or this user may not make it), TENON_RESOURCE_EXHAUSTED, TENON_TIMEOUT (another
         process has locked the directory for a second), TENON_UNSUPPORTED (this process is
         a child of fork). Errors about the path have the detail "path".
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_publisher_listen(
        publisher: *mut tenon_publisher,
        path: *const ::core::ffi::c_char,
        mode: u32,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Takes the process at the other end of a socket as a subscriber. That process calls
 tenon_subscriber_new on its end, which it has inherited or received. Unless the publisher was
 made with TENON_PUBLISHER_FORGET_LATEST, the subscriber gets the latest message first.
 @param[in]  publisher  borrowed.
 @param[in]  socket     a connected AF_UNIX socket (stream or seqpacket), consumed on success.
 @param[out] err        optional, see rule 2 in tenon.h.
 @return TENON_OK, or
 - TENON_INVALID_ARGUMENT: `socket` is closed or is not a connected AF_UNIX socket.
 - TENON_PERMISSION: TENON_PUBLISHER_SAME_USER or TENON_PUBLISHER_GROUP do not admit the peer.
 - TENON_RESOURCE_EXHAUSTED, limit "subscribers": there are max_subscribers already.
 - TENON_RESOURCE_EXHAUSTED for other limits.
 - TENON_PEER_GONE: the other end is closed.
 - TENON_UNSUPPORTED: this process is a child of fork, or memfd_create is denied.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_publisher_add(
        publisher: *mut tenon_publisher,
        socket: ::core::ffi::c_int,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Sends a message to every subscriber. After a failure no subscriber gets the message, and the call
 can be repeated. Without subscribers the call succeeds.
 @param[in]  publisher  borrowed.
 @param[in]  message    borrowed. The storages that it lends stay valid for the subscribers after
                        the message is released. Unless the publisher was made with
                        TENON_PUBLISHER_FORGET_LATEST, it keeps them until the next message.
 @param[in]  wait       borrowed. NULL means to wait for ever.
 @param[out] err        optional, see rule 2 in tenon.h.
 @return TENON_OK, or
 - TENON_WOULD_BLOCK, TENON_TIMEOUT, TENON_INTERRUPTED, TENON_CANCELLED: the wait ended. The
   detail "pid" names the subscriber that has no room. Without it, another thread is publishing.
 - TENON_RESOURCE_EXHAUSTED, limit "capacity": the policy is TENON_PUBLISH_ERROR, and the
   subscriber of the detail "pid" has no room.
 - TENON_RESOURCE_EXHAUSTED for other limits.
 - TENON_PEER_GONE with the detail "pid": the process of a subscriber has ended without leaving,
   or broke the protocol. Each is reported once, unless TENON_PUBLISHER_IGNORE_DEATHS is set. A
   subscriber that left in order, or ended before it read anything, is removed without a report.
 - TENON_PEER_GONE without "pid": a storage of the message was dropped.
 - TENON_INVALID_ARGUMENT.
 - TENON_UNSUPPORTED: memory of a device, or this process is a child of fork.
 @since 0.1. Any thread may call this function. Calls on one publisher wait for each other.*/
    pub fn tenon_publish(
        publisher: *mut tenon_publisher,
        message: *const tenon_message,
        wait: *const tenon_wait,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Removes the subscribers of a process, for example one that tenon_publish has named as slow. They
 receive what waits for them, and then TENON_PEER_GONE. A tenon_publish that waits for one of them
 goes on. The removal is not reported.
 @param[in]  publisher  borrowed.
 @param[in]  pid        the process id, as in tenon_publisher_subscriber.
 @param[out] err        optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND (no subscriber is of this process),
         TENON_RESOURCE_EXHAUSTED, TENON_UNSUPPORTED (this process is a child of fork).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_publisher_remove(
        publisher: *mut tenon_publisher,
        pid: i32,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Lists the subscribers of a publisher.
 @param[in]     publisher  borrowed.
 @param[in,out] out        the caller's array of n entries. The caller sets out[0].struct_size,
                           which is the size of every entry. The call writes it to the other
                           entries and fills in all fields. `out` may be NULL if n is 0. It is
                           untouched on failure.
 @param[in]     n          how many entries fit into `out`.
 @param[out]    total      how many entries there are. The first n of them are in `out`.
 @param[out]    err        optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function. In a child of fork there are no entries.*/
    pub fn tenon_publisher_subscribers(
        publisher: *mut tenon_publisher,
        out: *mut tenon_publisher_subscriber,
        n: usize,
        total: *mut usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives figures about a publisher. They change while they are read.
 @param[in]     publisher  borrowed.
 @param[in,out] out        struct_size set by the caller, the other fields filled in by the call.
                           It is untouched on failure.
 @param[out]    err        optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT.
 @since 0.1. Any thread may call this function. In a child of fork all figures are 0.*/
    pub fn tenon_publisher_stats_get(
        publisher: *mut tenon_publisher,
        out: *mut tenon_publisher_stats,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Releases a publisher, and removes its sockets. No thread may be inside a call on it. Subscribers
 still receive what was published, and then TENON_PEER_GONE. In a child of fork the call only
 frees the child's memory.
 @param[in] publisher  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_publisher_release(publisher: *mut tenon_publisher);
    /**Makes a subscriber on one end of a socket, whose other end the publisher takes or has taken
 (tenon_publisher_add).
 @param[in]  socket   a connected AF_UNIX socket, as for tenon_connection_new.
 @param[in]  options  borrowed. NULL means the defaults. TENON_CONNECTION_RING is
                      TENON_UNSUPPORTED, because a subscriber always has a ring.
 @param[out] out      new reference; release it with tenon_subscriber_release. It is untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return as from tenon_connection_new.
 @since 0.1. Any thread may call this function. After fork only the process that made the
         subscriber can use it. A child has no copy of an adopted socket, because fork closes it
         there: the publisher is told when the process that made the subscriber ends, even if
         a child of it lives on. The child may release its copy, and use messages that were
         received.*/
    pub fn tenon_subscriber_new(
        socket: ::core::ffi::c_int,
        options: *const tenon_connection_options,
        out: *mut *mut tenon_subscriber,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Connects to the socket of a publisher, and waits until the publisher has taken this subscriber.
 Every message that is published after this call reaches the subscriber. The latest message before
 that comes first, unless the publisher has TENON_PUBLISHER_FORGET_LATEST.
 @param[in]  path     borrowed. The path that the publisher gave to tenon_publisher_listen.
 @param[in]  options  borrowed. NULL means the defaults. As for tenon_subscriber_new, and
                      TENON_CONNECTION_ADOPT_SOCKET makes no difference.
 @param[in]  wait     borrowed. NULL means to wait for ever.
 @param[out] out      new reference; release it with tenon_subscriber_release. It is untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, or
 - TENON_NOT_FOUND: there is no such path.
 - TENON_PEER_GONE: the publisher has ended, does not admit this process, or has as many
   subscribers as it takes.
 - TENON_PERMISSION: this user may not connect to the socket, or `options` do not admit the
   publisher's user.
 - TENON_CORRUPT: the path leads to something else.
 - TENON_WOULD_BLOCK, TENON_TIMEOUT, TENON_INTERRUPTED, TENON_CANCELLED: the wait ended.
 - TENON_RESOURCE_EXHAUSTED, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_subscriber_connect(
        path: *const ::core::ffi::c_char,
        options: *const tenon_connection_options,
        wait: *const tenon_wait,
        out: *mut *mut tenon_subscriber,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Receives the next message. If the wait ends first, nothing is lost.
 @param[in]  subscriber  borrowed.
 @param[in]  wait        borrowed. NULL means to wait for ever.
 @param[out] out         new reference; release it with tenon_message_release. It is untouched on
                         failure.
 @param[out] err         optional, see rule 2 in tenon.h.
 @return TENON_OK, or
 - TENON_WOULD_BLOCK, TENON_TIMEOUT, TENON_INTERRUPTED, TENON_CANCELLED: the wait ended.
 - TENON_PEER_GONE: the publisher is gone, and all that it published is received. The detail "pid"
   names its process.
 - The other codes of tenon_recv, which mean the same: after TENON_CORRUPT the subscriber cannot
   be used any more, and another failure may lose one message.
 @since 0.1. Any thread may call this function. Receives wait for each other.*/
    pub fn tenon_subscriber_recv(
        subscriber: *mut tenon_subscriber,
        wait: *const tenon_wait,
        out: *mut *mut tenon_message,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Returns the fd to poll. When it is readable, call tenon_subscriber_recv with timeout 0 until it
 returns TENON_WOULD_BLOCK. Do the same before the first poll: the fd becomes readable only for
 messages that come after a call has returned TENON_WOULD_BLOCK.
 @param[in] subscriber  borrowed. NULL is allowed.
 @return the socket, borrowed; -1 for NULL, and in a child of fork if the subscriber has adopted
         the socket.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_subscriber_fd(
        subscriber: *const tenon_subscriber,
    ) -> ::core::ffi::c_int;
    /**Gives figures about a subscriber. They change while they are read.
 @param[in]     subscriber  borrowed.
 @param[in,out] out         struct_size set by the caller, the other fields filled in by the call.
                            It is untouched on failure.
 @param[out]    err         optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT.
 @since 0.1. Any thread may call this function, also in a child of fork.*/
    pub fn tenon_subscriber_stats_get(
        subscriber: *const tenon_subscriber,
        out: *mut tenon_subscriber_stats,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Releases a subscriber, which leaves its publisher in order. Received memory stays valid. No
 thread may be inside a call on it. In a child of fork the call does not tell the publisher.
 @param[in] subscriber  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_subscriber_release(subscriber: *mut tenon_subscriber);
    /**Makes a queue in a new storage, and makes this process its first member.
 @param[in]  options  borrowed. NULL means the defaults.
 @param[out] out      new reference; release it with tenon_queue_release. It is untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (a number that a queue cannot have),
         TENON_RESOURCE_EXHAUSTED, TENON_PERMISSION or TENON_UNSUPPORTED (memfd_create is denied).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_queue_new(
        options: *const tenon_queue_options,
        out: *mut *mut tenon_queue,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Joins the queue that lies in a storage. In a child of fork, join again with the storage of the
 inherited queue (tenon_queue_storage).
 @param[in]  storage  borrowed; the membership keeps it. It must be opened writable.
 @param[in]  options  borrowed. NULL means the defaults.
 @param[out] out      new reference; release it with tenon_queue_release. It is untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, or
 - TENON_INVALID_ARGUMENT: the storage is private, read-only, on a device or may be cut short, or
   the options name numbers that the queue does not have.
 - TENON_CORRUPT, TENON_INCOMPATIBLE: the storage holds no queue that this version of Tenon knows
   (detail "field" is "queue").
 - TENON_RESOURCE_EXHAUSTED, limit "members": the queue has as many members as it can have. A
   member that has gone counts as long as messages of it wait in the queue.
 - TENON_RESOURCE_EXHAUSTED for other limits.
 - TENON_PEER_GONE: the storage was dropped (tenon_storage_check_lender).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_queue_join(
        storage: *mut tenon_storage,
        options: *const tenon_queue_options,
        out: *mut *mut tenon_queue,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives the storage in which a queue lies, to hand it to other processes. No other code may write
 to it.
 @param[in] queue  borrowed. NULL is allowed.
 @return borrowed, as long as the queue lives; NULL for NULL.
 @since 0.1. Any thread may call this function, also in a child of fork.*/
    pub fn tenon_queue_storage(queue: *const tenon_queue) -> *mut tenon_storage;
    /**Sends a message to one of the processes that receive from the queue, this process included. If
 `capacity` messages of this member wait, the call waits for room. After a failure nothing was
 sent, and the call can be repeated.
 @param[in]  queue    borrowed.
 @param[in]  message  borrowed. The storages that it lends stay valid for the receiver after the
                      message is released.
 @param[in]  wait     borrowed. NULL means to wait for ever. A cancel ends the wait within 20 ms.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, or
 - TENON_WOULD_BLOCK, TENON_TIMEOUT, TENON_INTERRUPTED, TENON_CANCELLED: the wait ended.
 - TENON_INVALID_ARGUMENT: this process has left the queue, or slot_nbytes is too small even to
   refer to a message that does not fit into a slot.
 - TENON_PEER_GONE with the details "pid" and "member": a member has died. Each death is reported
   once.
 - TENON_PEER_GONE without "member": a storage of the message was dropped.
 - TENON_UNSUPPORTED: memory of a device, or this process is a child of fork.
 - TENON_PERMISSION: a storage that is not frozen yet.
 - TENON_RESOURCE_EXHAUSTED: a limit of leases, segments or memory.
 - TENON_CORRUPT: another member has overwritten this member's part of the queue.
 @since 0.1. Any thread may call this function. Sends of one member wait for each other.*/
    pub fn tenon_queue_send(
        queue: *mut tenon_queue,
        message: *const tenon_message,
        wait: *const tenon_wait,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Receives a message. If the wait ends first, nothing is lost. The first message of a sender takes
 an exchange with that sender, for which even a call with timeout 0 waits up to 20 ms. After each
 failure but TENON_INVALID_ARGUMENT and TENON_UNSUPPORTED the next call goes on.
 @param[in]  queue  borrowed.
 @param[in]  wait   borrowed. NULL means to wait for ever. A cancel ends the wait within 20 ms.
 @param[out] out    new reference; release it with tenon_message_release. It is untouched on
                    failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, or
 - TENON_WOULD_BLOCK, TENON_TIMEOUT, TENON_INTERRUPTED, TENON_CANCELLED: the wait ended. If a
   sender does not answer and its message waits for it, the detail "pid" names that sender.
 - TENON_INVALID_ARGUMENT: this process has left the queue.
 - TENON_PEER_GONE: a member has died (details "pid" and "member"). Each death is reported once.
 - TENON_PEER_GONE with the detail "lost": the sender of a message is gone, and so is the message.
 - TENON_NOT_FOUND: the sender has withdrawn the message (tenon_deposit_limits_set).
 - TENON_CORRUPT, TENON_INCOMPATIBLE: the member of the details "pid" and "member" sent bytes that
   are no message of this version. No message of that member is received here any more.
 - TENON_UNSUPPORTED: this process is a child of fork.
 - TENON_RESOURCE_EXHAUSTED: no memory, fds or address space. The message stays, and a later call
   tries again.
 - TENON_RESOURCE_EXHAUSTED with the detail "lost": the message is larger than max_message_nbytes
   or max_tensors allow. It is lost.
 @since 0.1. Any thread may call this function. Receives of one member wait for each other.*/
    pub fn tenon_queue_recv(
        queue: *mut tenon_queue,
        wait: *const tenon_wait,
        out: *mut *mut tenon_message,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Sends messages in their order, each as tenon_queue_send does, and waits until all are sent. If
 the wait ends or another failure comes after the first message, the call returns TENON_OK and the
 number of messages that it sent. Call it again with the others, and that call gives the failure.
 If the failure comes before the first message, this call gives it.
 @param[in]  queue     borrowed.
 @param[in]  messages  an array of n borrowed messages. NULL is allowed if n is 0.
 @param[in]  n         how many messages there are.
 @param[in]  wait      borrowed. NULL means to wait for ever.
 @param[out] sent      how many messages were sent. It is untouched on failure.
 @param[out] err       optional, see rule 2 in tenon.h.
 @return as tenon_queue_send.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_queue_send_many(
        queue: *mut tenon_queue,
        messages: *const *const tenon_message,
        n: usize,
        wait: *const tenon_wait,
        sent: *mut usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Receives up to n messages, and at most 1,024. The call waits for the first message as
 tenon_queue_recv does, and then takes the messages that are there. A failure that comes after the
 first message is the result of the next receive. If n is 0, the call receives nothing and does
 not wait.
 @param[in]  queue     borrowed.
 @param[in]  wait      borrowed. NULL means to wait for ever.
 @param[out] out       an array of n pointers. The call writes the first *received of them: new
                       references; release each with tenon_message_release. NULL is allowed if n
                       is 0. It is untouched on failure.
 @param[in]  n         how many messages fit into `out`.
 @param[out] received  how many messages the call received. It is untouched on failure.
 @param[out] err       optional, see rule 2 in tenon.h.
 @return as tenon_queue_recv.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_queue_recv_many(
        queue: *mut tenon_queue,
        wait: *const tenon_wait,
        out: *mut *mut tenon_message,
        n: usize,
        received: *mut usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Tells how often a message was delivered before, to processes that died or left the queue without
 an acknowledgement (TENON_QUEUE_REDELIVER).
 @param[in] message  borrowed. NULL is allowed.
 @return 0 for a message that comes for the first time, or not by such a queue.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_queue_redelivered(message: *const tenon_message) -> u32;
    /**Takes back the messages that this member has sent and that no process has received. Their
 storages are no longer lent. Each message is either received or taken back. The call begins with
 the newest message, so a receiver that receives meanwhile gets older ones. A send of this process
 that waits for room goes on. The call never waits, and it can follow tenon_queue_leave.
 @param[in]  queue      borrowed.
 @param[out] discarded  how many messages were taken back. It is untouched on failure.
 @param[out] err        optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED, TENON_UNSUPPORTED (this
         process is a child of fork).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_queue_discard(
        queue: *mut tenon_queue,
        discarded: *mut usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives the fd by which an event loop waits for messages (poll, epoll, asyncio, tokio). It is
 readable (POLLIN) when tenon_queue_recv may have something to return: a message, a death, or the
 error after tenon_queue_leave. When it is readable, call tenon_queue_recv with timeout 0. The fd
 stays readable until such a call has returned TENON_WOULD_BLOCK, and it may be readable in vain.

 From that TENON_WOULD_BLOCK until the next receive this process counts as asleep in
 tenon_queue_recv (tenon_queue_member.asleep): a sender may wake it instead of another receiver.
 So receive soon when the fd is readable, and call tenon_queue_pause_fds when the program does not
 look at the fd any more. Other threads may call tenon_queue_recv with any timeout meanwhile.

 The first call starts a thread, which sleeps until another process wakes this one, and which ends
 when the queue is left. A program that only calls tenon_queue_recv has no such thread.
 @param[in]  queue  borrowed.
 @param[out] out    the fd, borrowed from the queue and valid until its release. Do not read from
                    it. It is untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (this process has left the queue),
         TENON_RESOURCE_EXHAUSTED (fds or threads), TENON_UNSUPPORTED (in a child of fork).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_queue_recv_fd(
        queue: *mut tenon_queue,
        out: *mut ::core::ffi::c_int,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives the fd by which an event loop waits for room. It is readable (POLLIN, although the program
 wants to send) when tenon_queue_send may not have to wait: there may be room, or there is a death
 to report, or tenon_queue_leave was called. The fd stays readable until tenon_queue_send with
 timeout 0 has returned TENON_WOULD_BLOCK. Everything else that tenon_queue_recv_fd says holds for
 this fd and for sends.
 @param[in]  queue  borrowed.
 @param[out] out    the fd, borrowed from the queue and valid until its release. Do not read from
                    it. It is untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return as tenon_queue_recv_fd.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_queue_send_fd(
        queue: *mut tenon_queue,
        out: *mut ::core::ffi::c_int,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Says that the program will not look at the fds of the queue for a while, so that senders wake
 other receivers. If a sender has woken this process for a message, the call wakes another
 receiver. Both fds become readable. The next receive (or send) with timeout 0 that returns
 TENON_WOULD_BLOCK ends the pause of its fd. The call never waits. It does nothing for receives
 while another thread is receiving, and nothing for sends while another thread is sending.
 @param[in] queue  borrowed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_queue_pause_fds(queue: *mut tenon_queue);
    /**Gives the options of a membership. members, capacity and slot_nbytes are those with which the
 queue was made. The other fields are those that this member gave.
 @param[in]     queue  borrowed.
 @param[in,out] out    struct_size set by the caller, the other fields filled in by the call. It
                       is untouched on failure.
 @param[out]    err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT.
 @since 0.1. Any thread may call this function, also in a child of fork.*/
    pub fn tenon_queue_options_get(
        queue: *const tenon_queue,
        out: *mut tenon_queue_options,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives the size of the storage that a queue with these options takes, for a process that opens the
 storage by a name.
 @param[in]  options  borrowed. NULL means the defaults.
 @param[out] nbytes   the size in bytes. It is untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (a number that a queue cannot have).
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_queue_nbytes(
        options: *const tenon_queue_options,
        nbytes: *mut u64,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Gives figures about a queue. They change while they are read.
 @param[in]     queue  borrowed.
 @param[in,out] out    struct_size set by the caller, the other fields filled in by the call. It
                       is untouched on failure.
 @param[out]    err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function, also in a child of fork.*/
    pub fn tenon_queue_stats_get(
        queue: *const tenon_queue,
        out: *mut tenon_queue_stats,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Lists the members of a queue, and those that have gone and whose place nobody has taken. Each
 member wrote its entry itself, and a hostile one may have written anything.
 @param[in]     queue  borrowed.
 @param[in,out] out    the caller's array of n entries. The caller sets out[0].struct_size, which
                       is the size of every entry. The call writes it to the other entries and
                       fills in all fields. `out` may be NULL if n is 0. It is untouched on
                       failure.
 @param[in]     n      how many entries fit into `out`.
 @param[out]    total  how many entries there are. The first n of them are in `out`.
 @param[out]    err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function, also in a child of fork.*/
    pub fn tenon_queue_members(
        queue: *const tenon_queue,
        out: *mut tenon_queue_member,
        n: usize,
        total: *mut usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Leaves the queue. Calls that wait on this membership return TENON_INVALID_ARGUMENT, and so do
 later sends and receives. Messages that this member sent stay in the queue as long as this
 process lives. A second call does nothing. A process that ends by exit() leaves its queues by
 itself.
 @param[in] queue  borrowed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_queue_leave(queue: *mut tenon_queue);
    /**Releases a membership, which leaves the queue. No thread may be inside a call on it. In a child
 of fork the call only frees the child's memory.
 @param[in] queue  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_queue_release(queue: *mut tenon_queue);
    /**Gives the figures of this process.
 @param[in,out] out  the caller's. out->struct_size says how much the call may write. It is
                     untouched on failure.
 @param[out]    err  optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_stats_get(
        out: *mut tenon_stats,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Returns the version of the loaded library, which may be newer than this header.
 @return "MAJOR.MINOR.PATCH", a string in static storage, never NULL.
 @since 0.1. Any thread may call this function at any time.*/
    pub fn tenon_version_string() -> *const ::core::ffi::c_char;
    /**Returns the version of the loaded library as one number: MAJOR * 1000000 + MINOR * 1000 + PATCH.
 @return the number.
 @since 0.1. Any thread may call this function at any time.*/
    pub fn tenon_version_number() -> u32;
    /**Returns the ABI version of the loaded library. Compare it with TENON_ABI_VERSION before the first
 call of any other function.
 @return the ABI version.
 @since 0.1. Any thread may call this function at any time.*/
    pub fn tenon_abi_version() -> u32;
    /**Makes a weak reference to a storage.
 @param[in]  storage  borrowed.
 @param[out] out      new reference; release it with tenon_weak_release. It is untouched on
                      failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_weak_ref(
        storage: *mut tenon_storage,
        out: *mut *mut tenon_weak,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Adds a reference to the same weak reference object. The call does not look at the storage, which
 may have expired.
 @param[in] weak  borrowed. NULL is allowed.
 @return `weak`, as a new reference that must be released too.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_weak_retain(weak: *mut tenon_weak) -> *mut tenon_weak;
    /**Gives the storage back, if it is still alive. If the call races with the storage's last release,
 it returns either a complete storage or NULL.
 @param[in] weak  borrowed. NULL is allowed.
 @return a new strong reference; release it with tenon_storage_release. It is NULL if the storage
         has expired or if `weak` is NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_weak_lock(weak: *const tenon_weak) -> *mut tenon_storage;
    /**Tells whether the storage has expired. An expired storage never comes back, so after the first 1
 the result is always 1.
 @param[in] weak  borrowed. NULL is allowed.
 @return 1 if the storage has expired or if `weak` is NULL; otherwise 0, which may be out of date
         at once: only tenon_weak_lock gives certainty.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_weak_expired(weak: *const tenon_weak) -> ::core::ffi::c_int;
    /**Returns the id of the storage, which is its tenon_storage_id. The id stays available after the
 storage has expired.
 @param[in] weak  borrowed. NULL is allowed.
 @return the id, > 0; 0 for NULL.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_weak_id(weak: *const tenon_weak) -> u64;
    /**Releases a weak reference. Other references to the same storage are not affected.
 @param[in] weak  consumed. NULL is allowed.
 @since 0.1. Any thread may call this function.*/
    pub fn tenon_weak_release(weak: *mut tenon_weak);
}
