// Written by bindgen from capi/include/tenon; ../../update-bindings.sh writes it anew.

pub const TENON_VERSION_MAJOR: u32 = 0;
pub const TENON_VERSION_MINOR: u32 = 1;
pub const TENON_VERSION_PATCH: u32 = 0;
pub const TENON_ABI_VERSION: u32 = 1;
///What a call came to. Codes are never renumbered and never reused; each stands for one thing that a caller can do.
pub type tenon_status = i32;
pub const TENON_OK: _bindgen_ty_1 = 0;
///the call is wrong whatever the state of the machine: mend the program
pub const TENON_INVALID_ARGUMENT: _bindgen_ty_1 = 1;
///the object does not allow it: ask for other access, or another mode at birth
pub const TENON_PERMISSION: _bindgen_ty_1 = 2;
///no such object (any more)
pub const TENON_NOT_FOUND: _bindgen_ty_1 = 3;
///bytes or an fd from outside are not what they claim: do not trust the peer
pub const TENON_CORRUPT: _bindgen_ty_1 = 4;
///made by a version that this one does not read: upgrade one side
pub const TENON_INCOMPATIBLE: _bindgen_ty_1 = 5;
///a limit was met, the detail "limit" names it: raise it, or free something
pub const TENON_RESOURCE_EXHAUSTED: _bindgen_ty_1 = 6;
///this build, kernel or object cannot do it: choose another way
pub const TENON_UNSUPPORTED: _bindgen_ty_1 = 7;
///the other process closed its end or died
pub const TENON_PEER_GONE: _bindgen_ty_1 = 8;
///a wait with timeout 0 had nothing: poll, then call again
pub const TENON_WOULD_BLOCK: _bindgen_ty_1 = 9;
///the time is over: call again to go on
pub const TENON_TIMEOUT: _bindgen_ty_1 = 10;
///a signal ended an interruptible wait: call again to go on
pub const TENON_INTERRUPTED: _bindgen_ty_1 = 11;
///tenon_cancel_trigger ended the wait: call again to go on
pub const TENON_CANCELLED: _bindgen_ty_1 = 12;
///the system refused for a reason that fits no other code: see detail "errno"
pub const TENON_IO: _bindgen_ty_1 = 13;
///a defect in Tenon: please report it
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
///Who may write to a shared storage. Chosen at birth, because the kernel's seals belong to the memory and not to a lend.
pub type tenon_mode = u32;
///lender and borrowers write
pub const TENON_MODE_SHARED: _bindgen_ty_2 = 0;
///only the lender writes, through memory; borrowers cannot, whatever they try
pub const TENON_MODE_LENDER_WRITES: _bindgen_ty_2 = 1;
///filled with tenon_storage_write, then frozen: nobody writes again, the lender included
pub const TENON_MODE_FROZEN: _bindgen_ty_2 = 2;
pub type _bindgen_ty_2 = ::core::ffi::c_uint;
///a segment of its own: a borrower can reach nothing but this storage
pub const TENON_STORAGE_ISOLATED: _bindgen_ty_3 = 1;
///ordinary memory of this process; cannot be lent
pub const TENON_STORAGE_PRIVATE: _bindgen_ty_3 = 2;
///all bytes 0 at birth (otherwise a reused block keeps what its last owner wrote)
pub const TENON_STORAGE_ZEROED: _bindgen_ty_3 = 4;
///tenon_storage_wrap only: the wrapped memory must not be written
pub const TENON_STORAGE_READ_ONLY: _bindgen_ty_3 = 8;
pub type _bindgen_ty_3 = ::core::ffi::c_uint;
///How a storage is made. NULL, where one is taken, means all zero: TENON_MODE_SHARED, in the arena, 64-byte aligned.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_storage_options {
    ///sizeof(tenon_storage_options), set by the caller
    pub struct_size: usize,
    ///TENON_MODE_*; ignored for private and wrapped memory
    pub mode: tenon_mode,
    ///TENON_STORAGE_*
    pub flags: u32,
    ///bytes, a power of two up to 4096; 0: 64
    pub alignment: u64,
    ///borrowed for the call; where it is born, in the arena's mode; NULL: in the library's own
    pub arena: *mut tenon_arena,
    ///borrowed for the call; how long a full arena is waited for; NULL: not at all
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
///A device, in DLPack's numbers: type 1 is the CPU.
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
///a signal whose handler returned ends the wait with TENON_INTERRUPTED
pub const TENON_WAIT_INTERRUPTIBLE: _bindgen_ty_4 = 1;
pub type _bindgen_ty_4 = ::core::ffi::c_uint;
///How long a call may wait. A NULL wait, where one is taken, means: for ever, not interruptible.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_wait {
    ///sizeof(tenon_wait), set by the caller
    pub struct_size: usize,
    ///nanoseconds on CLOCK_MONOTONIC; < 0: for ever; 0: do not wait (TENON_WOULD_BLOCK)
    pub timeout_ns: i64,
    ///borrowed for the call; NULL: cannot be cancelled
    pub cancel: *mut tenon_cancel,
    ///TENON_WAIT_*
    pub flags: u32,
    ///0
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
///Kinds of pages, from the ordinary up.
pub type tenon_pages = u32;
///THP where the machine gives them to shared memory, else ordinary ones
pub const TENON_PAGES_AUTO: _bindgen_ty_5 = 0;
///ordinary pages, 4 KiB on x86
pub const TENON_PAGES_SMALL: _bindgen_ty_5 = 1;
///transparent huge pages
pub const TENON_PAGES_THP: _bindgen_ty_5 = 2;
///pages of the pool that the administrator set aside; PyTorch cannot open such memory
pub const TENON_PAGES_HUGETLB: _bindgen_ty_5 = 3;
pub type _bindgen_ty_5 = ::core::ffi::c_uint;
///never swapped out; counts against RLIMIT_MEMLOCK
pub const TENON_ARENA_LOCKED: _bindgen_ty_6 = 1;
///pages or node that cannot be had are an error; without it the next best is taken, and told
pub const TENON_ARENA_EXACT: _bindgen_ty_6 = 2;
pub type _bindgen_ty_6 = ::core::ffi::c_uint;
///How an arena is made. NULL, where one is taken, means all zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_arena_options {
    ///sizeof(tenon_arena_options), set by the caller
    pub struct_size: usize,
    ///TENON_MODE_SHARED or TENON_MODE_LENDER_WRITES; of all its storages
    pub mode: tenon_mode,
    ///TENON_ARENA_*
    pub flags: u32,
    ///most bytes that it can hold; 0: as much address space as can be had, at most 1 TiB
    pub capacity_nbytes: u64,
    ///of each storage, bytes, a power of two from 64 to 4096; 0: 64
    pub alignment: u64,
    ///TENON_PAGES_*
    pub pages: tenon_pages,
    ///0: wherever; n + 1: memory of node n only
    pub numa_node_plus_1: i32,
    ///TENON_PAGES_HUGETLB: size of the pool's pages; 0: the machine's default
    pub huge_page_nbytes: u64,
    ///memory that is made ready in the background, from the start on; 0: none
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
///What an arena holds, and what it got. All figures are of one moment.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_arena_stats {
    ///sizeof(tenon_arena_stats), set by the caller
    pub struct_size: usize,
    ///what it can hold
    pub bytes_capacity: u64,
    ///memory that it has from the system
    pub bytes_reserved: u64,
    ///in storages of this process
    pub bytes_live: u64,
    ///under leases, whether their storage still lives here or not
    pub bytes_lent: u64,
    ///reserved, and nobody's
    pub bytes_free: u64,
    ///the longest free piece
    pub bytes_largest_free: u64,
    ///lent without a lease (by fd, by name) and released: never used again
    pub bytes_retired: u64,
    ///the most that was live or lent at once
    pub bytes_peak: u64,
    ///storages of this process
    pub blocks_live: u64,
    ///blocks under leases
    pub blocks_lent: u64,
    ///of the free bytes, how many in 1,000 lie outside the longest piece
    pub fragmentation: u32,
    ///which pages it got: TENON_PAGES_*, not AUTO
    pub pages: tenon_pages,
    ///and of what size
    pub page_nbytes: u64,
    ///the node that it is bound to; -1: none
    pub numa_node: i32,
    ///1 if never swapped out
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
///An element type in DLPack's numbers: code, bits of one lane, lanes (1 for a scalar).
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
pub const TENON_DTYPE_INT: _bindgen_ty_7 = 0;
pub const TENON_DTYPE_UINT: _bindgen_ty_7 = 1;
pub const TENON_DTYPE_FLOAT: _bindgen_ty_7 = 2;
pub const TENON_DTYPE_BFLOAT: _bindgen_ty_7 = 4;
pub const TENON_DTYPE_COMPLEX: _bindgen_ty_7 = 5;
pub const TENON_DTYPE_BOOL: _bindgen_ty_7 = 6;
pub const TENON_DTYPE_FLOAT8_E3M4: _bindgen_ty_7 = 7;
pub const TENON_DTYPE_FLOAT8_E4M3: _bindgen_ty_7 = 8;
pub const TENON_DTYPE_FLOAT8_E4M3B11FNUZ: _bindgen_ty_7 = 9;
pub const TENON_DTYPE_FLOAT8_E4M3FN: _bindgen_ty_7 = 10;
pub const TENON_DTYPE_FLOAT8_E4M3FNUZ: _bindgen_ty_7 = 11;
pub const TENON_DTYPE_FLOAT8_E5M2: _bindgen_ty_7 = 12;
pub const TENON_DTYPE_FLOAT8_E5M2FNUZ: _bindgen_ty_7 = 13;
pub const TENON_DTYPE_FLOAT8_E8M0FNU: _bindgen_ty_7 = 14;
pub const TENON_DTYPE_FLOAT6_E2M3FN: _bindgen_ty_7 = 15;
pub const TENON_DTYPE_FLOAT6_E3M2FN: _bindgen_ty_7 = 16;
pub const TENON_DTYPE_FLOAT4_E2M1FN: _bindgen_ty_7 = 17;
pub type _bindgen_ty_7 = ::core::ffi::c_uint;
///room for every name, with its NUL
pub const TENON_DTYPE_MAX_NAME_NBYTES: _bindgen_ty_8 = 32;
pub type _bindgen_ty_8 = ::core::ffi::c_uint;
///An element type in PyTorch's numbers, which stand in archives. More of them than DLPack has: see tenon_scalar_type_to_dtype.
pub type tenon_scalar_type = i32;
pub const TENON_SCALAR_TYPE_BYTE: _bindgen_ty_9 = 0;
pub const TENON_SCALAR_TYPE_CHAR: _bindgen_ty_9 = 1;
pub const TENON_SCALAR_TYPE_SHORT: _bindgen_ty_9 = 2;
pub const TENON_SCALAR_TYPE_INT: _bindgen_ty_9 = 3;
pub const TENON_SCALAR_TYPE_LONG: _bindgen_ty_9 = 4;
pub const TENON_SCALAR_TYPE_HALF: _bindgen_ty_9 = 5;
pub const TENON_SCALAR_TYPE_FLOAT: _bindgen_ty_9 = 6;
pub const TENON_SCALAR_TYPE_DOUBLE: _bindgen_ty_9 = 7;
pub const TENON_SCALAR_TYPE_COMPLEX_HALF: _bindgen_ty_9 = 8;
pub const TENON_SCALAR_TYPE_COMPLEX_FLOAT: _bindgen_ty_9 = 9;
pub const TENON_SCALAR_TYPE_COMPLEX_DOUBLE: _bindgen_ty_9 = 10;
pub const TENON_SCALAR_TYPE_BOOL: _bindgen_ty_9 = 11;
pub const TENON_SCALAR_TYPE_QINT8: _bindgen_ty_9 = 12;
pub const TENON_SCALAR_TYPE_QUINT8: _bindgen_ty_9 = 13;
pub const TENON_SCALAR_TYPE_QINT32: _bindgen_ty_9 = 14;
pub const TENON_SCALAR_TYPE_BFLOAT16: _bindgen_ty_9 = 15;
pub const TENON_SCALAR_TYPE_QUINT4X2: _bindgen_ty_9 = 16;
pub const TENON_SCALAR_TYPE_QUINT2X4: _bindgen_ty_9 = 17;
pub const TENON_SCALAR_TYPE_BITS1X8: _bindgen_ty_9 = 18;
pub const TENON_SCALAR_TYPE_BITS2X4: _bindgen_ty_9 = 19;
pub const TENON_SCALAR_TYPE_BITS4X2: _bindgen_ty_9 = 20;
pub const TENON_SCALAR_TYPE_BITS8: _bindgen_ty_9 = 21;
pub const TENON_SCALAR_TYPE_BITS16: _bindgen_ty_9 = 22;
pub const TENON_SCALAR_TYPE_FLOAT8_E5M2: _bindgen_ty_9 = 23;
pub const TENON_SCALAR_TYPE_FLOAT8_E4M3FN: _bindgen_ty_9 = 24;
pub const TENON_SCALAR_TYPE_FLOAT8_E5M2FNUZ: _bindgen_ty_9 = 25;
pub const TENON_SCALAR_TYPE_FLOAT8_E4M3FNUZ: _bindgen_ty_9 = 26;
pub const TENON_SCALAR_TYPE_UINT16: _bindgen_ty_9 = 27;
pub const TENON_SCALAR_TYPE_UINT32: _bindgen_ty_9 = 28;
pub const TENON_SCALAR_TYPE_UINT64: _bindgen_ty_9 = 29;
pub const TENON_SCALAR_TYPE_UINT1: _bindgen_ty_9 = 30;
pub const TENON_SCALAR_TYPE_UINT2: _bindgen_ty_9 = 31;
pub const TENON_SCALAR_TYPE_UINT3: _bindgen_ty_9 = 32;
pub const TENON_SCALAR_TYPE_UINT4: _bindgen_ty_9 = 33;
pub const TENON_SCALAR_TYPE_UINT5: _bindgen_ty_9 = 34;
pub const TENON_SCALAR_TYPE_UINT6: _bindgen_ty_9 = 35;
pub const TENON_SCALAR_TYPE_UINT7: _bindgen_ty_9 = 36;
pub const TENON_SCALAR_TYPE_INT1: _bindgen_ty_9 = 37;
pub const TENON_SCALAR_TYPE_INT2: _bindgen_ty_9 = 38;
pub const TENON_SCALAR_TYPE_INT3: _bindgen_ty_9 = 39;
pub const TENON_SCALAR_TYPE_INT4: _bindgen_ty_9 = 40;
pub const TENON_SCALAR_TYPE_INT5: _bindgen_ty_9 = 41;
pub const TENON_SCALAR_TYPE_INT6: _bindgen_ty_9 = 42;
pub const TENON_SCALAR_TYPE_INT7: _bindgen_ty_9 = 43;
pub const TENON_SCALAR_TYPE_FLOAT8_E8M0FNU: _bindgen_ty_9 = 44;
pub const TENON_SCALAR_TYPE_FLOAT4_E2M1FN_X2: _bindgen_ty_9 = 45;
pub const TENON_SCALAR_TYPE_BCOMPLEX32: _bindgen_ty_9 = 46;
pub type _bindgen_ty_9 = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_tensor {
    _unused: [u8; 0],
}
///travels with the tensor; means nothing to Tenon
pub const TENON_TENSOR_REQUIRES_GRAD: _bindgen_ty_10 = 1;
///travels with the tensor; means nothing to Tenon
pub const TENON_TENSOR_IS_PARAMETER: _bindgen_ty_10 = 2;
///the elements are to be read conjugated
pub const TENON_TENSOR_CONJ: _bindgen_ty_10 = 4;
///the elements are to be read negated
pub const TENON_TENSOR_NEG: _bindgen_ty_10 = 8;
pub type _bindgen_ty_10 = ::core::ffi::c_uint;
///dimensions at most
pub const TENON_TENSOR_MAX_NDIM: _bindgen_ty_11 = 64;
pub type _bindgen_ty_11 = ::core::ffi::c_uint;
///The shape of a tensor over a storage. Sizes, strides and offset count elements; a stride may be 0 or negative.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_tensor_spec {
    ///sizeof(tenon_tensor_spec), set by the caller, also for output
    pub struct_size: usize,
    ///under 8 bits: packed, lowest bits first, and then contiguous tensors only
    pub dtype: tenon_dtype,
    ///0 to TENON_TENSOR_MAX_NDIM
    pub ndim: i32,
    ///ndim numbers >= 0; NULL if ndim is 0
    pub sizes: *const i64,
    ///ndim numbers; NULL on input: contiguous, last dimension fastest
    pub strides: *const i64,
    ///of the element with index 0, 0, … from the start of the storage
    pub offset: u64,
    ///TENON_TENSOR_*
    pub flags: u32,
    ///0
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
///All that a reader of a tensor asks for, in one call. Pointers are borrowed from the tensor. Sizes, strides and offset count elements.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_tensor_view {
    ///sizeof(tenon_tensor_view), set by the caller
    pub struct_size: usize,
    ///the tensor itself, borrowed
    pub tensor: *mut tenon_tensor,
    ///in a message: as tenon_message_name; else NULL
    pub name: *const ::core::ffi::c_char,
    ///as tenon_tensor_data
    pub data: *const ::core::ffi::c_void,
    ///the same address; NULL if the storage is read-only
    pub data_mut: *mut ::core::ffi::c_void,
    ///ndim numbers; NULL if ndim is 0
    pub sizes: *const i64,
    ///ndim numbers; NULL if ndim is 0
    pub strides: *const i64,
    ///of the element with index 0, 0, … from the start of the storage
    pub offset: u64,
    ///as tenon_tensor_numel
    pub numel: u64,
    ///as tenon_tensor_nbytes
    pub nbytes: u64,
    ///as in the spec
    pub dtype: tenon_dtype,
    ///0 to TENON_TENSOR_MAX_NDIM
    pub ndim: i32,
    ///TENON_TENSOR_*
    pub flags: u32,
    ///as tenon_tensor_is_contiguous
    pub is_contiguous: i32,
    ///as tenon_storage_device: whose address `data` is
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
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_value {
    _unused: [u8; 0],
}
pub const TENON_VALUE_NONE: _bindgen_ty_12 = 0;
pub const TENON_VALUE_BOOL: _bindgen_ty_12 = 1;
pub const TENON_VALUE_INT: _bindgen_ty_12 = 2;
pub const TENON_VALUE_FLOAT: _bindgen_ty_12 = 3;
pub const TENON_VALUE_COMPLEX: _bindgen_ty_12 = 4;
pub const TENON_VALUE_STR: _bindgen_ty_12 = 5;
pub const TENON_VALUE_DEVICE: _bindgen_ty_12 = 6;
pub const TENON_VALUE_TENSOR: _bindgen_ty_12 = 7;
pub const TENON_VALUE_TUPLE: _bindgen_ty_12 = 8;
pub const TENON_VALUE_LIST: _bindgen_ty_12 = 9;
pub const TENON_VALUE_DICT: _bindgen_ty_12 = 10;
pub const TENON_VALUE_ENUM: _bindgen_ty_12 = 11;
pub const TENON_VALUE_OBJECT: _bindgen_ty_12 = 12;
pub type _bindgen_ty_12 = ::core::ffi::c_uint;
pub const TENON_TENSOR_LAYOUT_STRIDED: _bindgen_ty_13 = 0;
pub const TENON_TENSOR_LAYOUT_SPARSE_COO: _bindgen_ty_13 = 1;
pub const TENON_TENSOR_LAYOUT_SPARSE_CSR: _bindgen_ty_13 = 2;
pub const TENON_TENSOR_LAYOUT_SPARSE_CSC: _bindgen_ty_13 = 4;
pub const TENON_TENSOR_LAYOUT_SPARSE_BSR: _bindgen_ty_13 = 5;
pub const TENON_TENSOR_LAYOUT_SPARSE_BSC: _bindgen_ty_13 = 6;
///How the elements of a tensor lie, in PyTorch's numbers.
pub type _bindgen_ty_13 = ::core::ffi::c_uint;
pub const TENON_QUANTIZER_NONE: _bindgen_ty_14 = 0;
pub const TENON_QUANTIZER_PER_TENSOR_AFFINE: _bindgen_ty_14 = 1;
pub const TENON_QUANTIZER_PER_CHANNEL_AFFINE: _bindgen_ty_14 = 2;
pub const TENON_QUANTIZER_PER_CHANNEL_AFFINE_FLOAT_QPARAMS: _bindgen_ty_14 = 3;
///How quantised elements stand for numbers.
pub type _bindgen_ty_14 = ::core::ffi::c_uint;
///of COO; of CSR and BSR the row pointers, of CSC and BSC the column pointers
pub const TENON_TENSOR_PART_INDICES: _bindgen_ty_15 = 1;
///of CSR and BSR the columns, of CSC and BSC the rows
pub const TENON_TENSOR_PART_PLAIN_INDICES: _bindgen_ty_15 = 2;
///of all sparse ones
pub const TENON_TENSOR_PART_VALUES: _bindgen_ty_15 = 3;
///quantised per channel
pub const TENON_TENSOR_PART_SCALES: _bindgen_ty_15 = 4;
///quantised per channel
pub const TENON_TENSOR_PART_ZERO_POINTS: _bindgen_ty_15 = 5;
///The tensors that a sparse or quantised tensor is made of.
pub type _bindgen_ty_15 = ::core::ffi::c_uint;
///nobody said
pub const TENON_COALESCED_UNKNOWN: _bindgen_ty_16 = 0;
pub const TENON_COALESCED_NO: _bindgen_ty_16 = 1;
pub const TENON_COALESCED_YES: _bindgen_ty_16 = 2;
pub type _bindgen_ty_16 = ::core::ffi::c_uint;
///All that PyTorch knows of a tensor, where a tenon_tensor has no word for it. Sizes, strides and offset count elements.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_value_tensor_spec {
    ///sizeof(tenon_value_tensor_spec), set by the caller, also for output
    pub struct_size: usize,
    ///TENON_SCALAR_TYPE_*; of a sparse tensor that of its values, and not read on input
    pub scalar_type: tenon_scalar_type,
    ///TENON_TENSOR_LAYOUT_*
    pub layout: i32,
    ///0 to TENON_TENSOR_MAX_NDIM
    pub ndim: i32,
    ///TENON_TENSOR_REQUIRES_GRAD, TENON_TENSOR_CONJ, TENON_TENSOR_NEG
    pub flags: u32,
    ///ndim numbers >= 0; NULL if ndim is 0
    pub sizes: *const i64,
    ///ndim numbers >= 0; NULL on input: contiguous; NULL on output if sparse
    pub strides: *const i64,
    ///of the element with index 0, 0, … from the first of the storage
    pub offset: i64,
    ///borrowed; NULL if sparse or on meta
    pub storage: *mut tenon_storage,
    ///bytes: where in `storage` the elements begin that PyTorch calls the tensor's storage
    pub storage_offset: u64,
    ///how many these are; 0 on input: all of `storage`, on meta as many as are needed
    pub storage_numel: u64,
    ///borrowed: "cpu", "cuda:0" or "meta"; NULL on input: where `storage` is
    pub device: *const ::core::ffi::c_char,
    ///quantised per tensor
    pub scale: f64,
    ///quantised per tensor
    pub zero_point: i64,
    ///quantised per channel
    pub axis: i64,
    ///TENON_QUANTIZER_*
    pub quantizer: i32,
    ///TENON_COALESCED_*, of COO
    pub coalesced: i32,
    ///borrowed, and NULL on output: tenon_value_tensor_part gives it. A value of kind tensor, as the next
    pub indices: *mut tenon_value,
    ///likewise
    pub plain_indices: *mut tenon_value,
    ///likewise
    pub values: *mut tenon_value,
    ///likewise
    pub scales: *mut tenon_value,
    ///likewise
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
pub const TENON_MEMBER_PARAMETER: _bindgen_ty_17 = 0;
pub const TENON_MEMBER_BUFFER: _bindgen_ty_17 = 1;
pub const TENON_MEMBER_ATTRIBUTE: _bindgen_ty_17 = 2;
pub const TENON_MEMBER_CONSTANT: _bindgen_ty_17 = 3;
pub const TENON_MEMBER_SUBMODULE: _bindgen_ty_17 = 4;
pub const TENON_MEMBER_METHOD: _bindgen_ty_17 = 5;
///What a name of a module stands for.
pub type _bindgen_ty_17 = ::core::ffi::c_uint;
///parameters and buffers that are not among the given ones keep what they have
pub const TENON_LOAD_ALLOW_MISSING: _bindgen_ty_18 = 1;
///given names that the module has not are left out
pub const TENON_LOAD_ALLOW_UNEXPECTED: _bindgen_ty_18 = 2;
///change nothing, say what would be missing and unexpected
pub const TENON_LOAD_CHECK_ONLY: _bindgen_ty_18 = 4;
pub type _bindgen_ty_18 = ::core::ffi::c_uint;
///One member. Everything in it is borrowed from the list that it came from.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_member {
    ///sizeof(tenon_member), set by the caller
    pub struct_size: usize,
    ///TENON_MEMBER_*
    pub kind: i32,
    ///its name; a path in a list of tensors
    pub name: *const ::core::ffi::c_char,
    ///declared type, of submodules their class; "" for methods
    pub type_: *const ::core::ffi::c_char,
    ///of methods, and of constants, as it stands in the class; else ""
    pub source: *const ::core::ffi::c_char,
    ///NULL for submodules, methods, and constants that are no literals
    pub value: *mut tenon_value,
    ///of submodules, else NULL
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
///A named piece of bytes: an extra file, or a file of code.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_file {
    pub name: *const ::core::ffi::c_char,
    ///may be NULL if nbytes is 0
    pub data: *const ::core::ffi::c_void,
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
///the system writes it when it likes
pub const TENON_DURABILITY_NONE: _bindgen_ty_19 = 0;
///fsync of the file
pub const TENON_DURABILITY_FILE: _bindgen_ty_19 = 1;
///and of the directory that names it
pub const TENON_DURABILITY_FILE_AND_DIRECTORY: _bindgen_ty_19 = 2;
///How sure an export is that the file is on the disk when it returns.
pub type _bindgen_ty_19 = ::core::ffi::c_uint;
///code is written as it is, without the check of tenon_module_check
pub const TENON_EXPORT_UNCHECKED: _bindgen_ty_20 = 1;
///tensors on a CUDA device are written as its own ("cuda:0": others cannot load it); else as the CPU's
pub const TENON_EXPORT_KEEP_DEVICE: _bindgen_ty_20 = 2;
pub type _bindgen_ty_20 = ::core::ffi::c_uint;
///read-only views of the file; where that cannot be, copies
pub const TENON_IMPORT_MAP: _bindgen_ty_21 = 0;
///writable views; what is written stays in this process
pub const TENON_IMPORT_MAP_PRIVATE: _bindgen_ty_21 = 1;
///copies in storages of their own, in an arena if one is given
pub const TENON_IMPORT_FILL: _bindgen_ty_21 = 2;
///copies in memory of a CUDA device: one allocation, which goes with the last tensor in it
pub const TENON_IMPORT_DEVICE: _bindgen_ty_21 = 3;
///Where an import's tensors are.
pub type _bindgen_ty_21 = ::core::ffi::c_uint;
///directory, headers, bounds, overlaps, references; checksums of pickles and code
pub const TENON_IMPORT_CHECK_STRUCTURE: _bindgen_ty_22 = 0;
///and the checksum of each tensor that is copied
pub const TENON_IMPORT_CHECK_FILL: _bindgen_ty_22 = 1;
///and that of every record
pub const TENON_IMPORT_CHECK_ALL: _bindgen_ty_22 = 2;
///What an import checks.
pub type _bindgen_ty_22 = ::core::ffi::c_uint;
/**Gets bytes of an archive, in order. Must not throw, and cannot change the module.
 @return nbytes; a negative errno, with which the export ends as it would for a file (-ENOSPC: TENON_RESOURCE_EXHAUSTED, most others:
         TENON_IO); every other number ends it with TENON_IO.*/
pub type tenon_write_function = ::core::option::Option<
    unsafe extern "C" fn(
        context: *mut ::core::ffi::c_void,
        data: *const ::core::ffi::c_void,
        nbytes: usize,
    ) -> i64,
>;
/**Asked once for each export, before anything is written, for more extra files.
 @return TENON_OK and *files, *n: borrowed until the export returns; another code ends the export with it. Must not throw, and cannot
         change the module. Files whose names the export has already are left out.*/
pub type tenon_extra_files_hook = ::core::option::Option<
    unsafe extern "C" fn(
        context: *mut ::core::ffi::c_void,
        module: *const tenon_module,
        files: *mut *const tenon_file,
        n: *mut usize,
    ) -> tenon_status,
>;
///NULL, where one is taken, means all zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_export_options {
    ///sizeof(tenon_export_options), set by the caller
    pub struct_size: usize,
    ///borrowed array of n_extra_files, of this export only; they win over the module's own
    pub extra_files: *const tenon_file,
    pub n_extra_files: usize,
    ///may be NULL
    pub hook: tenon_extra_files_hook,
    pub hook_context: *mut ::core::ffi::c_void,
    ///the folder inside the archive; NULL: the file's name without its extension, else "archive"
    pub archive_name: *const ::core::ffi::c_char,
    ///0: by the rule of docs/format/archive.md; else 1 to 10, refused if some code means something else there
    pub file_version: i32,
    ///TENON_DURABILITY_*; 0 but for an export to a path
    pub durability: i32,
    ///TENON_EXPORT_*
    pub flags: u32,
    ///borrowed: in which tensors on a CUDA device were written; NULL: the default stream
    pub stream: *mut ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_export_options",
    ][::core::mem::size_of::<tenon_export_options>() - 72usize];
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
};
///What was written.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_export_report {
    ///sizeof(tenon_export_report), set by the caller
    pub struct_size: usize,
    ///of the archive
    pub nbytes: u64,
    ///in it
    pub records: u64,
    ///of the operators
    pub version: i32,
    ///of the hook, because others had their names
    pub skipped_files: u32,
    ///that runs it, as far as operators and element types tell: "1.13"; "": nobody knows
    pub oldest_pytorch: [::core::ffi::c_char; 16usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_export_report",
    ][::core::mem::size_of::<tenon_export_report>() - 48usize];
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
};
///NULL, where one is taken, means all zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_import_options {
    ///sizeof(tenon_import_options), set by the caller
    pub struct_size: usize,
    ///TENON_IMPORT_MAP and so on
    pub tensors: i32,
    ///TENON_IMPORT_CHECK_*
    pub check: i32,
    ///borrowed, of TENON_IMPORT_FILL; NULL: the default home
    pub arena: *mut tenon_arena,
    ///likewise, without an arena
    pub mode: tenon_mode,
    ///of TENON_IMPORT_DEVICE: ordinal in this process's numbering; else 0
    pub device: i32,
    ///of all compressed records together; 0: 1 GiB
    pub max_inflated_nbytes: u64,
    ///0: 1,000,000
    pub max_records: u64,
    ///of values in values, up to 1,000; 0: 512
    pub max_depth: u64,
    /**Where tensors go that were saved on certain devices: pairs like "cuda:1=cuda:0,mps=cpu", borrowed for the call. The left
 side is a device as the archive names it, or a kind ("cuda") for each number that has no pair of its own. The right side is
 "cpu", or a CUDA device by its ordinal in this process, whose memory gets copies. Tensors of other devices go as `tensors`
 says: to the CPU, unless that is TENON_IMPORT_DEVICE. NULL: no pair.*/
    pub device_map: *const ::core::ffi::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of tenon_import_options",
    ][::core::mem::size_of::<tenon_import_options>() - 64usize];
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
};
///What an import found.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_import_report {
    ///sizeof(tenon_import_report), set by the caller
    pub struct_size: usize,
    ///of the operators; 0: the module was not imported
    pub version: i32,
    ///in the archive
    pub records: u32,
    ///that are views of the file
    pub mapped_storages: u64,
    pub mapped_nbytes: u64,
    ///that were copied
    pub filled_storages: u64,
    pub filled_nbytes: u64,
    ///storages that had to be copied because they lie badly in the file
    pub misaligned: u64,
    ///likewise, because they are compressed
    pub compressed: u64,
    ///likewise, because their bytes are the other way round
    pub foreign_endian: u64,
    ///records whose checksum nobody computed
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
///By which way a handle leads to the memory. PyTorch opens the first only; TENON_CUDA_FABRIC alone reaches other machines.
pub type tenon_cuda_transport = u32;
///of an empty storage; as an option: as the memory can travel, the first of the others that it can
pub const TENON_CUDA_NO_MEMORY: _bindgen_ty_23 = 0;
///cuIpcGetMemHandle: of cudaMalloc's memory; PyTorch's default
pub const TENON_CUDA_IPC: _bindgen_ty_23 = 1;
///an fd for each piece of memory that is mapped piece by piece (cuMemCreate with such handles)
pub const TENON_CUDA_FD: _bindgen_ty_23 = 2;
///the fabric handle of one such piece
pub const TENON_CUDA_FABRIC: _bindgen_ty_23 = 3;
///an fd of the memory pool, which was made with such handles (cudaMallocFromPoolAsync)
pub const TENON_CUDA_POOL: _bindgen_ty_23 = 4;
pub type _bindgen_ty_23 = ::core::ffi::c_uint;
///The bytes of an IPC handle, by the versions of PyTorch that write them. All are read.
pub type tenon_cuda_form = u32;
///up to 2.4; every later one reads it too, but for some builds of mid-2024
pub const TENON_CUDA_FORM_A: _bindgen_ty_24 = 0;
///those builds
pub const TENON_CUDA_FORM_B: _bindgen_ty_24 = 1;
///2.6, 2.7
pub const TENON_CUDA_FORM_C: _bindgen_ty_24 = 2;
///2.8 to 2.12
pub const TENON_CUDA_FORM_D: _bindgen_ty_24 = 3;
///2.13 and later
pub const TENON_CUDA_FORM_E: _bindgen_ty_24 = 4;
pub type _bindgen_ty_24 = ::core::ffi::c_uint;
///open: options.device is the device, whatever the handle says
pub const TENON_CUDA_ON_DEVICE: _bindgen_ty_25 = 1;
///share: a read-only storage, too, though its receiver can write it
pub const TENON_CUDA_LET_WRITE: _bindgen_ty_25 = 2;
///open: so that the device refuses this process's writes; by FD and FABRIC only
pub const TENON_CUDA_READ_ONLY: _bindgen_ty_25 = 4;
///open: what the driver opened is kept for the next handle of the same memory, see tenon_open_cuda
pub const TENON_CUDA_KEEP_OPEN: _bindgen_ty_25 = 8;
///open: take the memory of PyTorch's expandable segments from another user's process, too
pub const TENON_CUDA_OTHER_USER: _bindgen_ty_25 = 16;
pub type _bindgen_ty_25 = ::core::ffi::c_uint;
///How device memory is lent and opened. NULL, where one is taken, means all zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_cuda_options {
    ///sizeof(tenon_cuda_options), set by the caller
    pub struct_size: usize,
    /**TENON_CUDA_ON_DEVICE, TENON_CUDA_LET_WRITE, TENON_CUDA_READ_ONLY, TENON_CUDA_KEEP_OPEN,
TENON_CUDA_OTHER_USER*/
    pub flags: u32,
    ///share, of an IPC handle: TENON_CUDA_FORM_*
    pub form: tenon_cuda_form,
    ///open, with TENON_CUDA_ON_DEVICE: ordinal in this process's numbering
    pub device: i32,
    ///share: the way to take, or 0
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
/**How to reach device memory: the eight items of PyTorch's tuple (its order in brackets), and what it lacks. Where there are fds it is no
 handle without them: numbers of another process lead nowhere.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_cuda_handle {
    ///sizeof(tenon_cuda_handle), set by the caller, also for output
    pub struct_size: usize,
    ///TENON_CUDA_*; on input not looked at: the memory handle says it
    pub transport: tenon_cuda_transport,
    ///[0] ordinal in the sender's numbering
    pub device: i32,
    ///of the device, which wins over the ordinal; all 0: not known, as in PyTorch's tuple
    pub uuid: [u8; 16usize],
    ///[2] bytes of the storage
    pub nbytes: u64,
    ///[3] bytes from where the memory handle leads
    pub offset: u64,
    ///[5] index of the counter in its file
    pub slot: u64,
    ///[7] 1: the bytes are good once the event has passed; 0: they are already
    pub event_required: u32,
    ///bytes that are used of `memory`; 0: an empty storage
    pub memory_nbytes: u32,
    ///input: borrowed, `memory_nbytes` of them, instead of `memory`; NULL on output
    pub long_memory: *const u8,
    ///[1] the memory handle
    pub memory: [u8; 128usize],
    ///[6] the event's handle
    pub event: [u8; 64usize],
    ///[4] name of the counter's file; "" for an empty storage
    pub counter: [::core::ffi::c_char; 256usize],
    /**FD, POOL: the fds that go with it, to be sent by SCM_RIGHTS in this order. Output: the library's, valid
until the storage's last release. Input: borrowed for the call*/
    pub fds: *const i32,
    ///how many: at most 253
    pub n_fds: u32,
    ///0
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
///What a handle allows, or an opener asks for.
pub type tenon_access = u32;
///share: what the mode gives; open: what the handle gives
pub const TENON_ACCESS_AUTO: _bindgen_ty_26 = 0;
///share: the kernel must enforce it, so TENON_MODE_SHARED is refused; open: map to read
pub const TENON_ACCESS_READ_ONLY: _bindgen_ty_26 = 1;
///both sides write; TENON_MODE_SHARED only
pub const TENON_ACCESS_WRITABLE: _bindgen_ty_26 = 2;
pub type _bindgen_ty_26 = ::core::ffi::c_uint;
///writes stay in this process; pages not written yet still show the lender's later writes
pub const TENON_OPEN_PRIVATE_COW: _bindgen_ty_27 = 1;
///copy the bytes now: a snapshot, in private memory
pub const TENON_OPEN_PRIVATE_COPY: _bindgen_ty_27 = 2;
///the fd is the library's once the call succeeds; on failure it stays the caller's
pub const TENON_OPEN_ADOPT_FD: _bindgen_ty_27 = 4;
///take memory that its owner can cut short (PyTorch's, plain files): a later load may meet SIGBUS
pub const TENON_OPEN_ALLOW_UNSEALED: _bindgen_ty_27 = 8;
///tenon_open_filename, tenon_descriptor_open: take memory that belongs to another user
pub const TENON_OPEN_OTHER_USER: _bindgen_ty_27 = 16;
///tenon_open_filename: do not tell the manager that the handle names
pub const TENON_OPEN_NO_MANAGER: _bindgen_ty_27 = 32;
///tenon_open_filename: a message was received, so also do what tenon_filename_decref does
pub const TENON_OPEN_DECREF: _bindgen_ty_27 = 64;
pub type _bindgen_ty_27 = ::core::ffi::c_uint;
///How to reach a storage by fd. The fd carries the bytes; offset and sizes say where. Everything in bytes.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_fd_handle {
    ///sizeof(tenon_fd_handle), set by the caller, also for output
    pub struct_size: usize,
    ///close-on-exec; -1 for an empty storage
    pub fd: i32,
    ///TENON_ACCESS_READ_ONLY or TENON_ACCESS_WRITABLE; on input AUTO: what the fd and its seals give
    pub access: tenon_access,
    ///of the storage in the segment
    pub offset: u64,
    ///of the storage
    pub nbytes: u64,
    ///of the whole segment; 0 on input: ask the fd
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
///What a lend asks for. NULL, where one is taken, means all zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_share_options {
    ///sizeof(tenon_share_options), set by the caller
    pub struct_size: usize,
    ///TENON_ACCESS_*
    pub access: tenon_access,
    ///0
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
///How to open what was lent. NULL, where one is taken, means all zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_open_options {
    ///sizeof(tenon_open_options), set by the caller
    pub struct_size: usize,
    ///TENON_ACCESS_*
    pub access: tenon_access,
    ///TENON_OPEN_*
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
///share: PyTorch must be able to open it, so a manager is asked to guard the name
pub const TENON_FILENAME_TORCH: _bindgen_ty_28 = 1;
///share: also do what tenon_filename_incref does
pub const TENON_FILENAME_IN_FLIGHT: _bindgen_ty_28 = 2;
///the members of options.group may open it too
pub const TENON_FILENAME_GROUP: _bindgen_ty_28 = 4;
pub type _bindgen_ty_28 = ::core::ffi::c_uint;
///How a name is made. NULL, where one is taken, means all zero. All strings are borrowed for the call.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_filename_options {
    ///sizeof(tenon_filename_options), set by the caller
    pub struct_size: usize,
    ///share: what borrowers get; a file cannot be lent TENON_ACCESS_READ_ONLY to its own user
    pub access: tenon_access,
    ///TENON_FILENAME_*
    pub flags: u32,
    ///permission bits; 0: 0600, this user alone. 0644 lets other users read a file, and open a socket's memory
    pub mode: u32,
    ///gid, with TENON_FILENAME_GROUP
    pub group: u32,
    ///absolute; NULL: /dev/shm, the only one in which PyTorch looks
    pub directory: *const ::core::ffi::c_char,
    ///of the name; 128 unguessable bits follow it; NULL: "tenon-"
    pub prefix: *const ::core::ffi::c_char,
    ///the whole name, without a slash; NULL: prefix and random bits
    pub name: *const ::core::ffi::c_char,
    ///with TENON_FILENAME_TORCH, the socket of a running manager; NULL: this user's, started if there is none
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
///How to reach a storage by name. For a file that PyTorch shares: its tuple (manager, name, nbytes), offset 0.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_filename_handle {
    ///sizeof(tenon_filename_handle), set by the caller, also for output
    pub struct_size: usize,
    ///what the handle allows; on input AUTO: what the name gives
    pub access: tenon_access,
    ///0
    pub reserved: u32,
    ///bytes: of the storage in the payload of a file, or in the segment behind a socket
    pub offset: u64,
    ///bytes of the storage
    pub nbytes: u64,
    ///the socket of the manager that guards the name; "" if none does
    pub manager: [::core::ffi::c_char; 108usize],
    ///"/leaf" in /dev/shm, or an absolute path; "" for an empty storage that has none
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
///count, remove nothing
pub const TENON_SWEEP_DRY_RUN: _bindgen_ty_29 = 1;
///also remove PyTorch's own dead files (name torch_PID_…, nobody holds it, its maker is gone)
pub const TENON_SWEEP_TORCH: _bindgen_ty_29 = 2;
pub type _bindgen_ty_29 = ::core::ffi::c_uint;
///What to sweep. NULL, where one is taken, means all zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_sweep_options {
    ///sizeof(tenon_sweep_options), set by the caller
    pub struct_size: usize,
    ///TENON_SWEEP_*
    pub flags: u32,
    ///0
    pub reserved: u32,
    ///absolute; NULL: /dev/shm
    pub directory: *const ::core::ffi::c_char,
    ///PyTorch's files younger than this stay, they may be in a message; 0: 60 seconds
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
///What a sweep found.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_sweep_result {
    ///sizeof(tenon_sweep_result), set by the caller
    pub struct_size: usize,
    ///names that somebody holds
    pub live: u64,
    ///names that nobody holds and a message may be about
    pub in_flight: u64,
    ///names that nobody holds: those removed, or, in a dry run, to be removed
    pub dead: u64,
    ///names of other users, and others that could not be looked at: left alone
    pub unsure: u64,
    ///bytes of memory that the dead ones have or had
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
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_message {
    _unused: [u8; 0],
}
///bytes of the user's own in one message
pub const TENON_MESSAGE_MAX_USER_NBYTES: _bindgen_ty_30 = 65536;
///bytes of one tensor's name, without the NUL
pub const TENON_MESSAGE_MAX_NAME_NBYTES: _bindgen_ty_30 = 4096;
pub type _bindgen_ty_30 = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_connection {
    _unused: [u8; 0],
}
///the socket is the library's once tenon_connection_new succeeds
pub const TENON_CONNECTION_ADOPT_SOCKET: _bindgen_ty_31 = 1;
///refuse a peer that is not of this process's (effective) user, or root
pub const TENON_CONNECTION_SAME_USER: _bindgen_ty_31 = 2;
///the same, but the members of options.group are let in too
pub const TENON_CONNECTION_GROUP: _bindgen_ty_31 = 4;
///send read-only storages on a CUDA device too, though their receiver can write them
pub const TENON_CONNECTION_CUDA_LET_WRITE: _bindgen_ty_31 = 8;
///as TENON_CUDA_KEEP_OPEN, for device memory that is received
pub const TENON_CONNECTION_CUDA_KEEP_OPEN: _bindgen_ty_31 = 16;
/**Take named files that Tenon made (tenon/by_filename.h), though they have no seals, if tenon_connection_peer tells of this
  process's (effective) user, or of root: a process that could end this one anyway.*/
pub const TENON_CONNECTION_NAMED_FILES: _bindgen_ty_31 = 32;
pub type _bindgen_ty_31 = ::core::ffi::c_uint;
/**What happens to received memory when its lender is gone. The lender is gone when nobody holds the
 other end of the socket any more: its process ended, or everybody who had that end closed it.*/
pub type tenon_lender_gone = u32;
///Received memory stays valid. Messages that were sent before the end are still delivered.
pub const TENON_LENDER_GONE_KEEP: _bindgen_ty_32 = 0;
/**Received memory is dropped.
 - Calls that would give its bytes out, or lend it on, return TENON_PEER_GONE.
   tenon_storage_data and tenon_tensor_data return NULL.
 - Memory of the CPU is unmapped when its storage goes. Pointers that were given out before are
   valid until then.
 - Memory of a device is closed as soon as the streams that use it here have passed. Pointers to
   it lead nowhere then.
 - tenon_recv returns TENON_PEER_GONE, also for messages that were sent before the end.
 - A storage that came over two such connections stays valid until both lenders are gone. A
   storage that is lent again, over another connection, is valid again.
 - Private openings, and this process's own memory that came home, stay valid.
 A borrower that releases the connection first keeps what came over it.*/
pub const TENON_LENDER_GONE_DROP: _bindgen_ty_32 = 1;
pub type _bindgen_ty_32 = ::core::ffi::c_uint;
///Limits and options of one connection. NULL, where one is taken, means all zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_connection_options {
    ///sizeof(tenon_connection_options), set by the caller
    pub struct_size: usize,
    ///TENON_CONNECTION_*
    pub flags: u32,
    ///TENON_ACCESS_* for what is received, as in tenon_open_options
    pub open_access: tenon_access,
    ///TENON_OPEN_* for what is received, but not ADOPT_FD
    pub open_flags: u32,
    ///gid, with TENON_CONNECTION_GROUP; else 0
    pub group: u32,
    ///largest descriptor accepted, in bytes; 0: 64 MiB
    pub max_message_nbytes: u64,
    ///most tensors accepted in one message; 0: 1,000,000
    pub max_tensors: u64,
    /**most segments that the peer may have open here through this connection; 0: a half of
RLIMIT_NOFILE, a quarter of vm.max_map_count, or 65,536, whichever is least*/
    pub max_segments: u64,
    /**most address space that the peer's memory may take here through this connection, in bytes.
A segment counts whole, as long as it is mapped; 0: a quarter of the address space (32 TiB on
x86-64). All peers of a process may take half of it*/
    pub max_mapped_nbytes: u64,
    ///TENON_LENDER_GONE_*, for what is received
    pub on_lender_gone: tenon_lender_gone,
    ///0
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
/**Who is at the other end of a connection, as the kernel tells it (SO_PEERCRED), in the numbers of this process's namespaces.
 As of the moment when the socket was connected: of who called connect, in whoever accepted; of who called listen, in whoever
 connected; of who called socketpair, in both ends. A socket that was handed on since, or inherited, still tells of that one,
 and its pid can be another process's by now. A user or group that this user namespace does not map shows as 65534 (the
 kernel's overflowuid): who runs as that one in such a namespace cannot tell strangers from itself.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_peer {
    ///sizeof(tenon_peer), set by the caller
    pub struct_size: usize,
    ///0: of a pid namespace that this process does not see
    pub pid: i32,
    ///effective user id
    pub uid: u32,
    ///effective group id; its other groups are not told
    pub gid: u32,
    ///0
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
///How an arena on a device is made.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_cuda_arena_options {
    ///sizeof(tenon_cuda_arena_options), set by the caller
    pub struct_size: usize,
    ///ordinal in this process's numbering
    pub device: i32,
    /**TENON_CUDA_IPC, TENON_CUDA_FD or TENON_CUDA_FABRIC: how it is to be lent; 0: IPC where the device
has it, for PyTorch opens that, else FD*/
    pub transport: tenon_cuda_transport,
    ///bytes, all of which are taken at once; rounded up to what the device gives
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
///What an arena on a device holds. All figures are of one moment.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_cuda_arena_stats {
    ///sizeof(tenon_cuda_arena_stats), set by the caller
    pub struct_size: usize,
    ///ordinal
    pub device: i32,
    ///how it is lent
    pub transport: tenon_cuda_transport,
    ///what it can hold
    pub bytes_capacity: u64,
    ///in storages, or kept by a stream or a receiver
    pub bytes_used: u64,
    ///nobody's
    pub bytes_free: u64,
    ///the longest free piece
    pub bytes_largest_free: u64,
    ///the most that was used at once
    pub bytes_peak: u64,
    ///storages, or what is kept of them
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
///it has an IPC handle, by which other processes open it
pub const TENON_CUDA_EVENT_INTERPROCESS: _bindgen_ty_33 = 1;
pub type _bindgen_ty_33 = ::core::ffi::c_uint;
///How an event is made or opened. NULL, where one is taken, means all zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_cuda_event_options {
    ///sizeof(tenon_cuda_event_options), set by the caller
    pub struct_size: usize,
    ///TENON_CUDA_EVENT_*; of an event that is opened: 0
    pub flags: u32,
    ///ordinal in this process's numbering
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
pub struct tenon_descriptor {
    _unused: [u8; 0],
}
/**no fds travel: the opener fetches them from this process through /proc, so this
process must live, and hold the descriptor, until then; same user (or
TENON_OPEN_OTHER_USER) and pid namespace*/
pub const TENON_DESCRIPTOR_BYTES_ONLY: _bindgen_ty_34 = 1;
pub type _bindgen_ty_34 = ::core::ffi::c_uint;
///How a descriptor is made. NULL, where one is taken, means all zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_descriptor_options {
    ///sizeof(tenon_descriptor_options), set by the caller
    pub struct_size: usize,
    ///TENON_DESCRIPTOR_*
    pub flags: u32,
    ///0
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
///Who holds leases of this process's blocks.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_lease_holder {
    ///sizeof(tenon_lease_holder), set by the caller
    pub struct_size: usize,
    ///as the kernel tells it; 0: of a pid namespace that this process does not see
    pub pid: i32,
    ///as the kernel tells it
    pub uid: u32,
    ///that stand now
    pub leases: u64,
    ///of their blocks; a block with two leases counts twice
    pub nbytes: u64,
    ///leases ever granted
    pub granted: u64,
    ///of their blocks
    pub granted_bytes: u64,
    ///since the first of them
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
///What this library holds and has done in this process. All figures are of one moment, not of one instant.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tenon_stats {
    ///sizeof(tenon_stats), set by the caller
    pub struct_size: usize,
    ///payload bytes that the library copied since the process began (new_from, write, read, private copies)
    pub bytes_copied: u64,
    ///storages alive
    pub storages: u64,
    ///segments mapped, own and opened
    pub segments: u64,
    ///fds that those segments hold
    pub segment_fds: u64,
    ///bytes of memory that own segments have reserved from the system
    pub bytes_reserved: u64,
    ///bytes of them in living storages
    pub bytes_live: u64,
    ///bytes of them that were lent and released: not used again until their segment goes
    pub bytes_retired: u64,
    ///bytes of storages that belong to other processes and are open here
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
    /**The name of a status code, as in "RESOURCE_EXHAUSTED".
 @param[in] status  any number.
 @return static storage, never NULL; "UNKNOWN" for a number that is no code.
 @since 0.1. Any thread, signal handlers too.*/
    pub fn tenon_status_name(status: tenon_status) -> *const ::core::ffi::c_char;
    /**The code of an error: the same number that the failed call returned.
 @param[in] error  borrowed; NULL is allowed.
 @return the code; TENON_OK for NULL.
 @since 0.1. Any thread.*/
    pub fn tenon_error_code(error: *const tenon_error) -> tenon_status;
    /**One line of UTF-8 text that names the object and the cause.
 @param[in] error  borrowed; NULL is allowed.
 @return borrowed from the error, valid until its release; "" for NULL; never NULL.
 @since 0.1. Any thread.*/
    pub fn tenon_error_message(error: *const tenon_error) -> *const ::core::ffi::c_char;
    /**One detail of an error, as text. Keys in use: "errno" (a decimal number), "limit" (the name of the limit that was
 met), "limit_value", "in_use", "wanted", "path", "fd", "pid", "uid", "field" (of a descriptor), "option" (the option that would allow
 it); of a full arena "live", "lent", "retired", "free" (bytes) and "holders" (who has leases of it, as text); where memory, fds or
 mappings are short "left" (of the limit), and of this process "live", "lent", "retired" and "kept" (bytes); of a value that does not fit
 its type "where" (in the value), "wanted" and "found"; of text that does not parse "column" (from 1, in bytes), and "type" or "file",
 "line" and "excerpt"; of an archive "record" and "offset" (bytes), and "opcode" of a pickle in it; of a module "name" (what is taken or
 given twice), "missing" and "unexpected" (how many), and "operator", "module" and "other_module" (whose versions do not go together); of
 CUDA's driver "cuda_error" (a decimal number), "cuda_error_name" and "driver_version" (11040 is 11.4).
 @param[in] error  borrowed; NULL is allowed.
 @param[in] key    borrowed, NUL-terminated; NULL is allowed.
 @return borrowed from the error, valid until its release; NULL if it has no such detail.
 @since 0.1. Any thread.*/
    pub fn tenon_error_detail(
        error: *const tenon_error,
        key: *const ::core::ffi::c_char,
    ) -> *const ::core::ffi::c_char;
    /**The key of detail number `index`, so that all details can be listed.
 @param[in] error  borrowed; NULL is allowed.
 @param[in] index  from 0.
 @return borrowed from the error, valid until its release; NULL past the end.
 @since 0.1. Any thread.*/
    pub fn tenon_error_detail_key(
        error: *const tenon_error,
        index: usize,
    ) -> *const ::core::ffi::c_char;
    /**The error that led to this one.
 @param[in] error  borrowed; NULL is allowed.
 @return borrowed from `error`, valid until its release; NULL if there is none.
 @since 0.1. Any thread.*/
    pub fn tenon_error_cause(error: *const tenon_error) -> *const tenon_error;
    /**Give an error back.
 @param[in] error  consumed; NULL is allowed.
 @since 0.1. Any thread, also another than the one that met the error.*/
    pub fn tenon_error_release(error: *mut tenon_error);
    /**Make a storage of `nbytes` bytes. Its memory is reserved before the call returns: a full machine is an error here and
 no SIGBUS later. (Two processes that race for the last bytes of a memory cgroup can still meet the kernel's OOM killer.)
 The bytes are zero when the memory is fresh, and unspecified when a block is used again; see TENON_STORAGE_ZEROED.
 @param[in]  options  borrowed; NULL: defaults.
 @param[in]  nbytes   0 is allowed: an empty storage, which has no segment and can be lent all the same.
 @param[out] out      new reference, release with tenon_storage_release; untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED (detail "limit": what was met), TENON_UNSUPPORTED.
 @since 0.1. Any thread. A child of fork never allocates from its parent's arena.*/
    pub fn tenon_storage_new(
        options: *const tenon_storage_options,
        nbytes: u64,
        out: *mut *mut tenon_storage,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Make a storage that holds a copy of `nbytes` bytes at `data`. Faster than new and write: fresh memory is filled by the
 kernel in one pass. With TENON_MODE_FROZEN the storage comes back frozen. The copied bytes are counted in
 tenon_stats.bytes_copied.
 @param[in]  options  borrowed; NULL: defaults.
 @param[in]  data     borrowed for the call; may be NULL if nbytes is 0.
 @param[in]  nbytes   bytes to copy.
 @param[out] out      new reference, release with tenon_storage_release; untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return as tenon_storage_new.
 @since 0.1. Any thread.*/
    pub fn tenon_storage_new_from(
        options: *const tenon_storage_options,
        data: *const ::core::ffi::c_void,
        nbytes: u64,
        out: *mut *mut tenon_storage,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Make a private storage over memory that belongs to somebody else. It cannot be lent (tenon_share_fd: TENON_UNSUPPORTED).
 @param[in]  data     kept until the storage dies; may be NULL if nbytes is 0.
 @param[in]  nbytes   bytes at `data`.
 @param[in]  release  called once with `context` when the last reference goes, on the thread that released it; NULL:
                      nothing is called. Not called if this function fails.
 @param[in]  context  handed to `release`.
 @param[in]  options  borrowed; only TENON_STORAGE_READ_ONLY counts; NULL: defaults.
 @param[out] out      new reference, release with tenon_storage_release; untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
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
    /**Take one more strong reference.
 @param[in] storage  borrowed; NULL is allowed.
 @return `storage`, now with one reference more, to be released too.
 @since 0.1. Any thread.*/
    pub fn tenon_storage_retain(storage: *mut tenon_storage) -> *mut tenon_storage;
    /**Give one strong reference back. The last one frees the bytes; weak references to it are expired from then on.
 @param[in] storage  consumed; NULL is allowed.
 @since 0.1. Any thread.*/
    pub fn tenon_storage_release(storage: *mut tenon_storage);
    /**The bytes, to read.
 @param[in] storage  borrowed; NULL is allowed.
 @return borrowed from the storage, valid until its last release; NULL for an empty storage, for one
         that was dropped (tenon_storage_check_lender), and for NULL. For a storage on a CUDA device
         it is an address of that device, which only work there may follow (tenon_storage_device
         tells).
 @since 0.1. Any thread.*/
    pub fn tenon_storage_data(
        storage: *const tenon_storage,
    ) -> *const ::core::ffi::c_void;
    /**The bytes, to write.
 @param[in]  storage  borrowed.
 @param[out] out      borrowed from the storage, valid until its last release; NULL for an empty one; untouched on failure. Of a device's
                      storage as tenon_storage_data.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (read-only; a TENON_MODE_FROZEN storage is filled with
         tenon_storage_write), TENON_PEER_GONE (dropped, see tenon_storage_check_lender).
 @since 0.1. Any thread; who orders the writes is the callers' affair.*/
    pub fn tenon_storage_data_mut(
        storage: *mut tenon_storage,
        out: *mut *mut ::core::ffi::c_void,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Ask whether the lender of a storage is gone, and the storage was dropped for that
 (TENON_LENDER_GONE_DROP).
 @param[in]  storage  borrowed; NULL is allowed.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_PEER_GONE for a storage that was dropped, TENON_OK for any other and for NULL.
 @since 0.1. Any thread. The lender can be gone the moment after.*/
    pub fn tenon_storage_check_lender(
        storage: *const tenon_storage,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The size in bytes.
 @param[in] storage  borrowed; NULL is allowed.
 @return bytes; 0 for NULL.
 @since 0.1. Any thread.*/
    pub fn tenon_storage_nbytes(storage: *const tenon_storage) -> u64;
    /**The device that holds the bytes.
 @param[in] storage  borrowed; NULL is allowed.
 @return {1, 0} for the CPU, {2, N} for CUDA device N in this process's numbering; {0, 0} for NULL.
 @since 0.1. Any thread.*/
    pub fn tenon_storage_device(storage: *const tenon_storage) -> tenon_device;
    /**Ask, before an address of that device is followed on the host, whether the host can: what a wrapper calls that gives bytes out as a
 slice, a span or a buffer.
 @param[in]  device  as tenon_storage_device gives it, or tenon_tensor_view.device.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK for the CPU, and for {0, 0}, where nothing is; TENON_UNSUPPORTED: only work of the device reads and writes the bytes.
 @since 0.1. Any thread.*/
    pub fn tenon_device_check_host(
        device: tenon_device,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The mode: the one chosen at birth, or, for an opened storage, the one that the segment's seals enforce.
 @param[in] storage  borrowed; NULL is allowed.
 @return TENON_MODE_*; TENON_MODE_SHARED for private memory and for NULL.
 @since 0.1. Any thread.*/
    pub fn tenon_storage_mode(storage: *const tenon_storage) -> tenon_mode;
    /**Whether this process must not write to the bytes through memory.
 @param[in] storage  borrowed; NULL is allowed.
 @return 1 if read-only (opened so, wrapped so, or TENON_MODE_FROZEN), else 0.
 @since 0.1. Any thread.*/
    pub fn tenon_storage_is_read_only(
        storage: *const tenon_storage,
    ) -> ::core::ffi::c_int;
    /**Whether the bytes lie in memory that can be lent.
 @param[in] storage  borrowed; NULL is allowed.
 @return 1 for shared memory, for a device's (some of which tenon_share_cuda refuses all the same), and for an empty storage that is not
         private; else 0.
 @since 0.1. Any thread.*/
    pub fn tenon_storage_is_shared(storage: *const tenon_storage) -> ::core::ffi::c_int;
    /**Whether the kernel holds the size of the segment, so that reading can never meet SIGBUS because somebody cut it short.
 @param[in] storage  borrowed; NULL is allowed.
 @return 1 if sealed, or if there is nothing to cut (private, empty); 0 for an unsealed one (opened with
         TENON_OPEN_ALLOW_UNSEALED, or made where memfd_create is denied, see tenon_share_fd), for a view of a module archive's
         file, and for NULL.
 @since 0.1. Any thread.*/
    pub fn tenon_storage_is_sealed(storage: *const tenon_storage) -> ::core::ffi::c_int;
    /**Whether two storages of this process are views of the same bytes (same segment and range, whatever the access).
 @param[in] a  borrowed; NULL is allowed.
 @param[in] b  borrowed; NULL is allowed.
 @return 1 if both lie over the same memory, else 0; an empty storage has no memory and is the same as none.
 @since 0.1. Any thread.*/
    pub fn tenon_storage_same_memory(
        a: *const tenon_storage,
        b: *const tenon_storage,
    ) -> ::core::ffi::c_int;
    /**A number for this storage object, never given to another one in this process: fit for a hash key.
 @param[in] storage  borrowed; NULL is allowed.
 @return the id, > 0; 0 for NULL.
 @since 0.1. Any thread.*/
    pub fn tenon_storage_id(storage: *const tenon_storage) -> u64;
    /**How many strong references there are at this moment; for tests and debugging, since it can change at once.
 @param[in] storage  borrowed; NULL is allowed.
 @return the count; 0 for NULL.
 @since 0.1. Any thread.*/
    pub fn tenon_storage_use_count(storage: *const tenon_storage) -> u64;
    /**Copy bytes into a storage. The only way to fill a TENON_MODE_FROZEN one. Counted in tenon_stats.bytes_copied.
 @param[in]  storage  borrowed.
 @param[in]  offset   bytes from the start of the storage.
 @param[in]  data     borrowed for the call; may be NULL if nbytes is 0.
 @param[in]  nbytes   bytes to copy; offset + nbytes must not pass the end.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (read-only or frozen), TENON_RESOURCE_EXHAUSTED, TENON_IO,
         TENON_UNSUPPORTED (a device's storage: what is given to its streams copies there), TENON_PEER_GONE (dropped).
         After a failure some of the bytes may have been written.
 @since 0.1. Any thread; who orders the writes is the callers' affair.*/
    pub fn tenon_storage_write(
        storage: *mut tenon_storage,
        offset: u64,
        data: *const ::core::ffi::c_void,
        nbytes: u64,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Copy bytes out of a storage. Unlike a load through tenon_storage_data, this gives an error and no SIGBUS when the file
 under an unsealed storage was cut short. Counted in tenon_stats.bytes_copied.
 @param[in]  storage  borrowed.
 @param[in]  offset   bytes from the start of the storage.
 @param[out] data     the caller's, at least nbytes bytes; may be NULL if nbytes is 0.
 @param[in]  nbytes   bytes to copy; offset + nbytes must not pass the end.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT (the file was cut short), TENON_IO, TENON_UNSUPPORTED (a device's storage),
 TENON_PEER_GONE (dropped). After a failure some of the bytes at `data` may have been written.
 @since 0.1. Any thread.*/
    pub fn tenon_storage_read(
        storage: *const tenon_storage,
        offset: u64,
        data: *mut ::core::ffi::c_void,
        nbytes: u64,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**End the filling of a TENON_MODE_FROZEN storage: the kernel refuses every later write, by anybody. Freezing a frozen
 storage again is fine. Only a frozen one can be lent.
 @param[in]  storage  borrowed.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (not of that mode), TENON_IO.
 @since 0.1. Any thread; a write that runs at the same time is either whole or refused.*/
    pub fn tenon_storage_freeze(
        storage: *mut tenon_storage,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Give memory back to the system that the arena keeps warm for later storages. Otherwise that happens only when memory, fds or
 mappings are short: before a new storage is refused for want of them, all that is kept is given back and it is tried once more.
 @return bytes given back.
 @since 0.1. Any thread.*/
    pub fn tenon_storage_trim() -> u64;
    /**Make a cancel, not triggered. It uses one fd.
 @param[out] out  new reference, release with tenon_cancel_release; untouched on failure.
 @param[out] err  optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread. After fork, parent and child trigger the same object.*/
    pub fn tenon_cancel_new(
        out: *mut *mut tenon_cancel,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**End every wait that uses this cancel, now and later, with TENON_CANCELLED.
 @param[in] cancel  borrowed; NULL is allowed.
 @since 0.1. Any thread, and async-signal-safe: a signal handler may call it.*/
    pub fn tenon_cancel_trigger(cancel: *mut tenon_cancel);
    /**Make a triggered cancel fit for use again.
 @param[in] cancel  borrowed; NULL is allowed. No wait may be using it.
 @since 0.1.*/
    pub fn tenon_cancel_reset(cancel: *mut tenon_cancel);
    /**Give a cancel back.
 @param[in] cancel  consumed; NULL is allowed. No wait may be using it.
 @since 0.1. Any thread.*/
    pub fn tenon_cancel_release(cancel: *mut tenon_cancel);
    /**Make an arena.
 @param[in]  options  borrowed; NULL: defaults.
 @param[out] out      new reference, release with tenon_arena_release; untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED (fds, mappings, address space, RLIMIT_MEMLOCK; with
         EXACT: huge pages), TENON_UNSUPPORTED (TENON_MODE_FROZEN: a frozen storage has a segment of its own; with EXACT:
         the kernel has no such pages).
 @since 0.1. Any thread.*/
    pub fn tenon_arena_new(
        options: *const tenon_arena_options,
        out: *mut *mut tenon_arena,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Take one more reference.
 @param[in] arena  borrowed; NULL is allowed.
 @return `arena`, to be released too.
 @since 0.1. Any thread.*/
    pub fn tenon_arena_retain(arena: *mut tenon_arena) -> *mut tenon_arena;
    /**Give one reference back. Its memory goes when the last storage in it is released and the last lease on it has ended.
 @param[in] arena  consumed; NULL is allowed.
 @since 0.1. Any thread.*/
    pub fn tenon_arena_release(arena: *mut tenon_arena);
    /**What it holds and what it got. Looks for leases that ended first.
 @param[in]     arena  borrowed.
 @param[in,out] out    the caller's; out->struct_size says how much may be written; untouched on failure.
 @param[out]    err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT.
 @since 0.1. Any thread.*/
    pub fn tenon_arena_stats_get(
        arena: *const tenon_arena,
        out: *mut tenon_arena_stats,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Take memory from the system ahead of need.
 @param[in]  arena   borrowed.
 @param[in]  nbytes  from the arena's start; more than its capacity means all of it.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED (what was taken stays), TENON_UNSUPPORTED (in a child of fork).
 @since 0.1. Any thread; allocations of other threads go on in between.*/
    pub fn tenon_arena_reserve(
        arena: *mut tenon_arena,
        nbytes: u64,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The name of an element type, as numpy and PyTorch have it: "float32", "bfloat16", "float8_e4m3fn"; with more lanes than one, "uint8x4";
 of a type that has none, "dtype_3_64" (code and bits).
 @param[in]  dtype     any numbers.
 @param[out] out       borrowed, room for `capacity` bytes; gets the name, cut if it does not fit, and a NUL; may be NULL if capacity is
 0.
 @param[in]  capacity  bytes; TENON_DTYPE_MAX_NAME_NBYTES is enough for every name.
 @return bytes of the whole name, without the NUL.
 @since 0.1. Any thread.*/
    pub fn tenon_dtype_name(
        dtype: tenon_dtype,
        out: *mut ::core::ffi::c_char,
        capacity: usize,
    ) -> usize;
    /**The element type of a name that tenon_dtype_name gives.
 @param[in]  name  borrowed.
 @param[out] out   borrowed; untouched on failure.
 @param[out] err   optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (there is no such name).
 @since 0.1. Any thread.*/
    pub fn tenon_dtype_parse(
        name: *const ::core::ffi::c_char,
        out: *mut tenon_dtype,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The bytes of a packed tensor: what a storage needs to hold it.
 @param[in]  dtype  of an element.
 @param[in]  sizes  borrowed array of ndim numbers >= 0, in elements; may be NULL if ndim is 0.
 @param[in]  ndim   0 to 64.
 @param[out] out    borrowed; bytes: numel * bits * lanes / 8, rounded up; untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (an unknown type, a negative size, or more bytes than an int64_t counts).
 @since 0.1. Any thread.*/
    pub fn tenon_dtype_nbytes(
        dtype: tenon_dtype,
        sizes: *const i64,
        ndim: i32,
        out: *mut u64,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The name of an element type, as torch.dtype has it: "float32", "qint8", "bits16".
 @param[in] type  any number.
 @return static storage; NULL for a number that is no element type.
 @since 0.1. Any thread.*/
    pub fn tenon_scalar_type_name(
        type_: tenon_scalar_type,
    ) -> *const ::core::ffi::c_char;
    /**The name of PyTorch's storage class for an element type: "FloatStorage".
 @param[in] type  any number.
 @return static storage; NULL for a number that is no element type.
 @since 0.1. Any thread.*/
    pub fn tenon_scalar_type_storage_name(
        type_: tenon_scalar_type,
    ) -> *const ::core::ffi::c_char;
    /**The bytes of one element of a storage. Of quint4x2 and quint2x4 this is the byte that 2 or 4 elements of a tensor share.
 @param[in] type  any number.
 @return bytes; 0 for a number that is no element type.
 @since 0.1. Any thread.*/
    pub fn tenon_scalar_type_nbytes(type_: tenon_scalar_type) -> u64;
    /**The oldest PyTorch that is known to read a storage of an element type.
 @param[in] type  any number.
 @return static storage, as "2.1"; "1.4" for all that are older; NULL for a number that is no element type.
 @since 0.1. Any thread.*/
    pub fn tenon_scalar_type_since(
        type_: tenon_scalar_type,
    ) -> *const ::core::ffi::c_char;
    /**The element type of a name: torch.dtype's ("float32"), PyTorch's own ("Float") or its storage class ("FloatStorage").
 @param[in]  name  borrowed.
 @param[out] out   borrowed; untouched on failure.
 @param[out] err   optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (there is no such name).
 @since 0.1. Any thread.*/
    pub fn tenon_scalar_type_parse(
        name: *const ::core::ffi::c_char,
        out: *mut tenon_scalar_type,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**DLPack's element type for one of PyTorch's. Quantised types, bits, integers under 8 bits (a byte each in PyTorch) and bcomplex32 have
 none.
 @param[in]  type  of an element.
 @param[out] out   borrowed; untouched on failure.
 @param[out] err   optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (no element type), TENON_UNSUPPORTED (it has none in DLPack).
 @since 0.1. Any thread.*/
    pub fn tenon_scalar_type_to_dtype(
        type_: tenon_scalar_type,
        out: *mut tenon_dtype,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**PyTorch's element type for one of DLPack's.
 @param[in]  dtype  of an element.
 @param[out] out    borrowed; untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_UNSUPPORTED (PyTorch has none).
 @since 0.1. Any thread.*/
    pub fn tenon_scalar_type_from_dtype(
        dtype: tenon_dtype,
        out: *mut tenon_scalar_type,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Make a tensor over a storage. Every element it can name must lie inside the storage; nothing is read or moved.
 @param[in]  storage  borrowed; the tensor takes a reference of its own.
 @param[in]  spec     borrowed for the call, its arrays too.
 @param[out] out      new reference, release with tenon_tensor_release; untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also when sizes, strides or offset overflow or leave the storage), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_tensor_new(
        storage: *mut tenon_storage,
        spec: *const tenon_tensor_spec,
        out: *mut *mut tenon_tensor,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Take one more reference.
 @param[in] tensor  borrowed; NULL is allowed.
 @return `tensor`, now with one reference more, to be released too.
 @since 0.1. Any thread.*/
    pub fn tenon_tensor_retain(tensor: *mut tenon_tensor) -> *mut tenon_tensor;
    /**Give one reference back.
 @param[in] tensor  consumed; NULL is allowed.
 @since 0.1. Any thread.*/
    pub fn tenon_tensor_release(tensor: *mut tenon_tensor);
    /**The shape.
 @param[in]     tensor  borrowed.
 @param[in,out] out     out->struct_size set by the caller; sizes and strides are borrowed from the tensor, never NULL
                        if ndim > 0, valid until its last release; untouched on failure.
 @param[out]    err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT.
 @since 0.1. Any thread.*/
    pub fn tenon_tensor_get_spec(
        tensor: *const tenon_tensor,
        out: *mut tenon_tensor_spec,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The storage under a tensor.
 @param[in] tensor  borrowed; NULL is allowed.
 @return borrowed from the tensor, valid until its last release (tenon_storage_retain keeps it); NULL for NULL.
 @since 0.1. Any thread.*/
    pub fn tenon_tensor_storage(tensor: *const tenon_tensor) -> *mut tenon_storage;
    /**The element with index 0, 0, …, to read.
 @param[in] tensor  borrowed; NULL is allowed.
 @return borrowed from the tensor, valid until its last release; NULL for NULL, and for a tensor over a storage
         that is empty or was dropped. For a storage on a CUDA device it is an address of that device,
         as tenon_storage_data says.
 @since 0.1. Any thread.*/
    pub fn tenon_tensor_data(tensor: *const tenon_tensor) -> *const ::core::ffi::c_void;
    /**The element with index 0, 0, …, to write.
 @param[in]  tensor  borrowed.
 @param[out] out     borrowed from the tensor, valid until its last release; untouched on failure. As tenon_tensor_data.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (the storage is read-only),
         TENON_PEER_GONE (the storage was dropped, see tenon_storage_check_lender).
 @since 0.1. Any thread; who orders the writes is the callers' affair.*/
    pub fn tenon_tensor_data_mut(
        tensor: *mut tenon_tensor,
        out: *mut *mut ::core::ffi::c_void,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The number of elements.
 @param[in] tensor  borrowed; NULL is allowed.
 @return the product of the sizes (1 for ndim 0); 0 for NULL.
 @since 0.1. Any thread.*/
    pub fn tenon_tensor_numel(tensor: *const tenon_tensor) -> u64;
    /**The bytes that the elements take when packed: numel * bits * lanes / 8, rounded up.
 @param[in] tensor  borrowed; NULL is allowed.
 @return bytes; 0 for NULL.
 @since 0.1. Any thread.*/
    pub fn tenon_tensor_nbytes(tensor: *const tenon_tensor) -> u64;
    /**Whether the elements lie packed, last dimension fastest.
 @param[in] tensor  borrowed; NULL is allowed.
 @return 1 if so (also for a tensor without elements), else 0; 0 for NULL.
 @since 0.1. Any thread.*/
    pub fn tenon_tensor_is_contiguous(tensor: *const tenon_tensor) -> ::core::ffi::c_int;
    /**Shape and data at once.
 @param[in]     tensor  borrowed.
 @param[in,out] out     out->struct_size set by the caller, the rest is filled in; valid until the tensor's last release; untouched
                        on failure.
 @param[out]    err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT.
 @since 0.1. Any thread.*/
    pub fn tenon_tensor_get_view(
        tensor: *mut tenon_tensor,
        out: *mut tenon_tensor_view,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Make None.
 @param[out] out  new reference, release with tenon_value_release; untouched on failure.
 @param[out] err  optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_value_new_none(
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Make a bool.
 @param[in]  value  0: False; everything else: True.
 @param[out] out    new reference, release with tenon_value_release; untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_value_new_bool(
        value: ::core::ffi::c_int,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Make an int. A dtype, a layout and a memory format are ints too, in PyTorch's numbers (TENON_SCALAR_TYPE_*).
 @param[in]  value  any number.
 @param[out] out    new reference, release with tenon_value_release; untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_value_new_int(
        value: i64,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Make a float.
 @param[in]  value  any number, an infinity or a NaN.
 @param[out] out    new reference, release with tenon_value_release; untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_value_new_float(
        value: f64,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Make a complex number.
 @param[in]  real       its real part.
 @param[in]  imaginary  its imaginary part.
 @param[out] out        new reference, release with tenon_value_release; untouched on failure.
 @param[out] err        optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_value_new_complex(
        real: f64,
        imaginary: f64,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Make a str.
 @param[in]  utf8    borrowed, nbytes bytes of UTF-8, any NUL among them is text too; copied; may be NULL if nbytes is 0.
 @param[in]  nbytes  how many.
 @param[out] out     new reference, release with tenon_value_release; untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also for what is no UTF-8), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_value_new_str(
        utf8: *const ::core::ffi::c_char,
        nbytes: usize,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Make a device.
 @param[in]  name  borrowed, as "cpu" or "cuda:0"; copied.
 @param[out] out   new reference, release with tenon_value_release; untouched on failure.
 @param[out] err   optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_value_new_device(
        name: *const ::core::ffi::c_char,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Make a value of a tensor. Nothing is copied. Tensors over one storage share it in an archive too, where they have one element type; a
 storage goes there whole, even if the tensor is a small part of it.
 @param[in]  tensor  borrowed; the value keeps its storage.
 @param[out] out     new reference, release with tenon_value_release; untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also for negative strides, and flags that the element type cannot have), TENON_UNSUPPORTED
         (PyTorch has no such element type), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_value_new_tensor(
        tensor: *mut tenon_tensor,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Make a value of a tensor that is quantised, sparse, on meta, or of an element type that DLPack has not. Every element it can name must
 lie inside its storage; what the indices of a sparse one say is not looked at.
 @param[in]  spec  borrowed for the call, what it points to too; the value takes references of its own.
 @param[out] out   new reference, release with tenon_value_release; untouched on failure.
 @param[out] err   optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (a device that is not the storage's), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_value_new_tensor_from_spec(
        spec: *const tenon_value_tensor_spec,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Make a tuple.
 @param[in]  class_name  borrowed, a NamedTuple's qualified name; NULL for a plain tuple; copied.
 @param[in]  items       borrowed array of n; the value takes a reference to each; may be NULL if n is 0.
 @param[in]  n           how many.
 @param[out] out         new reference, release with tenon_value_release; untouched on failure.
 @param[out] err         optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_value_new_tuple(
        class_name: *const ::core::ffi::c_char,
        items: *const *mut tenon_value,
        n: usize,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Make a list. The items are checked against its type.
 @param[in]  type   borrowed, as "List[Optional[int]]"; NULL: the list says none, and takes the one that is declared where it is put.
 @param[in]  items  borrowed array of n; the value takes a reference to each; may be NULL if n is 0.
 @param[in]  n      how many.
 @param[out] out    new reference, release with tenon_value_release; untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (details "column" of a bad type; "where", "wanted" and "found" of an item),
 TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_value_new_list(
        type_: *const ::core::ffi::c_char,
        items: *const *mut tenon_value,
        n: usize,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Make a dict, which keeps the order of its entries. Keys and values are checked against its type.
 @param[in]  type    borrowed, as "Dict[str, Tensor]"; NULL: as for a list.
 @param[in]  keys    borrowed array of n, none of them twice; the value takes a reference to each; may be NULL if n is 0.
 @param[in]  values  borrowed array of n; the value takes a reference to each; may be NULL if n is 0.
 @param[in]  n       how many.
 @param[out] out     new reference, release with tenon_value_release; untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (as for a list; also for a key that stands there twice), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_value_new_dict(
        type_: *const ::core::ffi::c_char,
        keys: *const *mut tenon_value,
        values: *const *mut tenon_value,
        n: usize,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Make a member of an enum.
 @param[in]  class_name  borrowed, the enum's qualified name; copied.
 @param[in]  value       borrowed, an int, a float or a str; the result takes a reference.
 @param[out] out         new reference, release with tenon_value_release; untouched on failure.
 @param[out] err         optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_value_new_enum(
        class_name: *const ::core::ffi::c_char,
        value: *mut tenon_value,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Make an object with attributes. Modules are made with tenon_module_new; this is for plain classes.
 @param[in]  class_name  borrowed, its qualified name; copied.
 @param[in]  names       borrowed array of n strings, none of them twice; copied; may be NULL if n is 0.
 @param[in]  values      borrowed array of n; the object takes a reference to each; may be NULL if n is 0.
 @param[in]  n           how many.
 @param[out] out         new reference, release with tenon_value_release; untouched on failure.
 @param[out] err         optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_value_new_object(
        class_name: *const ::core::ffi::c_char,
        names: *const *const ::core::ffi::c_char,
        values: *const *mut tenon_value,
        n: usize,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Make an object that has a state and no attributes: of a class with __getstate__, or of a custom C++ class.
 @param[in]  class_name  borrowed, as "__torch__.torch.classes.quantized.LinearPackedParamsBase"; copied.
 @param[in]  state       borrowed; the object takes a reference.
 @param[out] out         new reference, release with tenon_value_release; untouched on failure.
 @param[out] err         optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_value_new_opaque(
        class_name: *const ::core::ffi::c_char,
        state: *mut tenon_value,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Take one more reference.
 @param[in] value  borrowed; NULL is allowed.
 @return `value`, now with one reference more, to be released too.
 @since 0.1. Any thread.*/
    pub fn tenon_value_retain(value: *mut tenon_value) -> *mut tenon_value;
    /**Give one reference back.
 @param[in] value  consumed; NULL is allowed.
 @since 0.1. Any thread.*/
    pub fn tenon_value_release(value: *mut tenon_value);
    /**What a value is.
 @param[in] value  borrowed; NULL is allowed.
 @return TENON_VALUE_*; -1 for NULL.
 @since 0.1. Any thread.*/
    pub fn tenon_value_kind(value: *const tenon_value) -> i32;
    /**The type that a value shows by itself: "List[int]" as the list says, "List[Any]" if it says none, "Tuple[int, str]" of its items, a class
 by its name. Of a tuple that is too large for a type, "tuple".
 @param[in]  value     borrowed.
 @param[out] out       borrowed, room for `capacity` bytes; gets the text, cut if it does not fit, and a NUL; may be NULL if capacity is
 0.
 @param[in]  capacity  bytes.
 @param[out] nbytes    bytes of the whole text, without the NUL; may be NULL; untouched on failure.
 @param[out] err       optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_value_type(
        value: *const tenon_value,
        out: *mut ::core::ffi::c_char,
        capacity: usize,
        nbytes: *mut usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The qualified name of a NamedTuple, an enum or an object.
 @param[in] value  borrowed; NULL is allowed.
 @return borrowed from the value, valid until its last release; "" for what has none; never NULL.
 @since 0.1. Any thread.*/
    pub fn tenon_value_class_name(
        value: *const tenon_value,
    ) -> *const ::core::ffi::c_char;
    /**Whether an object has a state and no attributes.
 @param[in] value  borrowed; NULL is allowed.
 @return 1 if so, else 0; 0 for NULL.
 @since 0.1. Any thread.*/
    pub fn tenon_value_is_opaque(value: *const tenon_value) -> ::core::ffi::c_int;
    /**How many items there are: of a tuple or a list; entries of a dict; attributes of an object; 1 of an enum (its value) and of an object
 with a state.
 @param[in] value  borrowed; NULL is allowed.
 @return the count; 0 for every other kind and for NULL.
 @since 0.1. Any thread; an object of a module not beside calls that change the module.*/
    pub fn tenon_value_count(value: *const tenon_value) -> usize;
    /**One item, of those that tenon_value_count counts; of a dict the value of an entry, of an object that of an attribute.
 @param[in]  value  borrowed.
 @param[in]  index  from 0.
 @param[out] out    new reference, release with tenon_value_release; untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also past the end).
 @since 0.1. Any thread; an object of a module not beside calls that change the module.*/
    pub fn tenon_value_item(
        value: *const tenon_value,
        index: usize,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**One key of a dict.
 @param[in]  value  borrowed, a dict.
 @param[in]  index  from 0.
 @param[out] out    new reference, release with tenon_value_release; untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also past the end).
 @since 0.1. Any thread.*/
    pub fn tenon_value_key(
        value: *const tenon_value,
        index: usize,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The name of one attribute of an object.
 @param[in] value  borrowed; NULL is allowed.
 @param[in] index  from 0.
 @return borrowed from the object, valid until its last release or until the attribute is removed; NULL past the end, for what is no
 object with attributes, and for NULL.
 @since 0.1. Any thread; an object of a module not beside calls that change the module.*/
    pub fn tenon_value_attribute_name(
        value: *const tenon_value,
        index: usize,
    ) -> *const ::core::ffi::c_char;
    /**The value of a name: an attribute of an object, or what a dict has under that str.
 @param[in]  value  borrowed, an object or a dict.
 @param[in]  name   borrowed.
 @param[out] out    new reference, release with tenon_value_release; untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (another kind), TENON_NOT_FOUND.
 @since 0.1. Any thread; an object of a module not beside calls that change the module.*/
    pub fn tenon_value_find(
        value: *const tenon_value,
        name: *const ::core::ffi::c_char,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The number in a bool.
 @param[in]  value  borrowed.
 @param[out] out    0 or 1; untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (another kind).
 @since 0.1. Any thread.*/
    pub fn tenon_value_get_bool(
        value: *const tenon_value,
        out: *mut ::core::ffi::c_int,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The number in an int.
 @param[in]  value  borrowed.
 @param[out] out    the number; untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (another kind; a bool is no int).
 @since 0.1. Any thread.*/
    pub fn tenon_value_get_int(
        value: *const tenon_value,
        out: *mut i64,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The number in a float.
 @param[in]  value  borrowed.
 @param[out] out    the number; untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (another kind; an int is no float).
 @since 0.1. Any thread.*/
    pub fn tenon_value_get_float(
        value: *const tenon_value,
        out: *mut f64,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The number in a complex.
 @param[in]  value      borrowed.
 @param[out] real       its real part; untouched on failure.
 @param[out] imaginary  its imaginary part; untouched on failure.
 @param[out] err        optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (another kind).
 @since 0.1. Any thread.*/
    pub fn tenon_value_get_complex(
        value: *const tenon_value,
        real: *mut f64,
        imaginary: *mut f64,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The text of a str.
 @param[in]  value   borrowed.
 @param[out] out     borrowed from the value, valid until its last release, with a NUL behind it; untouched on failure.
 @param[out] nbytes  its bytes, without that NUL: there may be others in the text; may be NULL; untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (another kind).
 @since 0.1. Any thread.*/
    pub fn tenon_value_get_str(
        value: *const tenon_value,
        out: *mut *const ::core::ffi::c_char,
        nbytes: *mut usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The name in a device.
 @param[in]  value  borrowed.
 @param[out] out    borrowed from the value, valid until its last release; untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (another kind).
 @since 0.1. Any thread.*/
    pub fn tenon_value_get_device(
        value: *const tenon_value,
        out: *mut *const ::core::ffi::c_char,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The tensor in a value, over the same bytes.
 @param[in]  value  borrowed.
 @param[out] out    new reference, release with tenon_tensor_release; untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (another kind), TENON_UNSUPPORTED (quantised, sparse, on meta, or of an element type that DLPack
         has not: see tenon_value_get_tensor_spec), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_value_get_tensor(
        value: *const tenon_value,
        out: *mut *mut tenon_tensor,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**All that is known of the tensor in a value.
 @param[in]     value  borrowed.
 @param[in,out] out    out->struct_size set by the caller; pointers in it are borrowed from the value, valid until its last release;
                       untouched on failure.
 @param[out]    err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (another kind).
 @since 0.1. Any thread.*/
    pub fn tenon_value_get_tensor_spec(
        value: *const tenon_value,
        out: *mut tenon_value_tensor_spec,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**One of the tensors that a sparse or quantised tensor is made of.
 @param[in]  value  borrowed.
 @param[in]  part   TENON_TENSOR_PART_*.
 @param[out] out    new reference to a value of kind tensor, release with tenon_value_release; untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (another kind, no such part), TENON_NOT_FOUND (this tensor has none), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_value_tensor_part(
        value: *const tenon_value,
        part: i32,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Check that a value fits a type, all the way down: an int is no float, and a list or dict that says its type says this one. Classes fit by
 their names alone.
 @param[in]  value  borrowed.
 @param[in]  type   borrowed.
 @param[out] err    optional, see rule 2 in tenon.h; with details "where", "wanted" and "found".
 @return TENON_OK, TENON_INVALID_ARGUMENT (it does not fit, or `type` is none), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread; an object of a module not beside calls that change the module.*/
    pub fn tenon_value_check(
        value: *mut tenon_value,
        type_: *const ::core::ffi::c_char,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**A type in PyTorch's own text: "Union[str, None]" is "Optional[str]".
 @param[in]  type      borrowed, as a person may write it.
 @param[out] out       borrowed, room for `capacity` bytes; gets the text, cut if it does not fit, and a NUL; may be NULL if capacity is
 0.
 @param[in]  capacity  bytes.
 @param[out] nbytes    bytes of the whole text, without the NUL; may be NULL; untouched on failure.
 @param[out] err       optional, see rule 2 in tenon.h; with the detail "column".
 @return TENON_OK, TENON_INVALID_ARGUMENT (it is no type), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_type_text(
        type_: *const ::core::ffi::c_char,
        out: *mut ::core::ffi::c_char,
        capacity: usize,
        nbytes: *mut usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Make a module of a new class, with nothing but the attribute `training`, which is True.
 @param[in]  class_name  borrowed, "MLP" or a qualified name as "__torch__.my.MLP"; copied.
 @param[out] out         new reference, release with tenon_module_release; untouched on failure.
 @param[out] err         optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_module_new(
        class_name: *const ::core::ffi::c_char,
        out: *mut *mut tenon_module,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Take one more reference.
 @param[in] module  borrowed; NULL is allowed.
 @return `module`, now with one reference more, to be released too.
 @since 0.1. Any thread.*/
    pub fn tenon_module_retain(module: *mut tenon_module) -> *mut tenon_module;
    /**Give one reference back.
 @param[in] module  consumed; NULL is allowed.
 @since 0.1. Any thread.*/
    pub fn tenon_module_release(module: *mut tenon_module);
    /**The qualified name of a module's class.
 @param[in]  module    borrowed.
 @param[out] out       borrowed, room for `capacity` bytes; gets the text, cut if it does not fit, and a NUL; may be NULL if capacity is
 0.
 @param[in]  capacity  bytes.
 @param[out] nbytes    bytes of the whole text, without the NUL; may be NULL; untouched on failure.
 @param[out] err       optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread, not beside a change.*/
    pub fn tenon_module_class_name(
        module: *const tenon_module,
        out: *mut ::core::ffi::c_char,
        capacity: usize,
        nbytes: *mut usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The object that a module is. Equal pointers are the same module: a submodule with two owners is there twice.
 @param[in]  module  borrowed.
 @param[out] out     new reference, release with tenon_value_release; untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT.
 @since 0.1. Any thread.*/
    pub fn tenon_module_object(
        module: *const tenon_module,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Add a parameter.
 @param[in]  module  borrowed.
 @param[in]  name    borrowed; any text without dots, as "weight" or "0"; copied.
 @param[in]  tensor  borrowed, a value of kind tensor; NULL: a parameter that is None, as `bias=None`. The module takes a reference.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also a name that is taken), TENON_PERMISSION, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. One thread at a time.*/
    pub fn tenon_module_add_parameter(
        module: *mut tenon_module,
        name: *const ::core::ffi::c_char,
        tensor: *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Add a buffer.
 @param[in]  module  borrowed.
 @param[in]  name    borrowed; copied.
 @param[in]  tensor  borrowed, as for a parameter.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return as for a parameter.
 @since 0.1. One thread at a time.*/
    pub fn tenon_module_add_buffer(
        module: *mut tenon_module,
        name: *const ::core::ffi::c_char,
        tensor: *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Add an attribute of a declared type.
 @param[in]  module  borrowed.
 @param[in]  name    borrowed; copied.
 @param[in]  type    borrowed, as "Dict[str, int]"; classes by their qualified names, defined before. NULL: the type that the value
 shows by itself (tenon_value_type).
 @param[in]  value   borrowed; the module takes a reference.
 @param[out] err     optional, see rule 2 in tenon.h; with details "where", "wanted" and "found" of what does not fit.
 @return as for a parameter.
 @since 0.1. One thread at a time.*/
    pub fn tenon_module_add_attribute(
        module: *mut tenon_module,
        name: *const ::core::ffi::c_char,
        type_: *const ::core::ffi::c_char,
        value: *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Add a constant, which PyTorch calls Final: it stands in the class and cannot change when the module runs.
 @param[in]  module  borrowed.
 @param[in]  name    borrowed; copied.
 @param[in]  type    borrowed, as for an attribute.
 @param[in]  value   borrowed; the module takes a reference.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return as for a parameter.
 @since 0.1. One thread at a time.*/
    pub fn tenon_module_add_constant(
        module: *mut tenon_module,
        name: *const ::core::ffi::c_char,
        type_: *const ::core::ffi::c_char,
        value: *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Add a submodule. One module may be added in several places, and is shared by them then, here and in the archive.
 @param[in]  module  borrowed.
 @param[in]  name    borrowed; copied.
 @param[in]  child   borrowed, built or imported; the module takes a reference. It must not contain `module`.
 @param[in]  type    borrowed, the qualified name of an interface that the child has; NULL: the child's own class.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return as for a parameter, and TENON_NOT_FOUND (no such interface is defined).
 @since 0.1. One thread at a time.*/
    pub fn tenon_module_add_submodule(
        module: *mut tenon_module,
        name: *const ::core::ffi::c_char,
        child: *mut tenon_module,
        type_: *const ::core::ffi::c_char,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Define methods: one `def` or more in TorchScript, docs/format/script.md. One that is there already is replaced.
 @param[in]  module  borrowed; it alone gets the methods, and no other module of its class.
 @param[in]  source  borrowed; copied.
 @param[out] err     optional, see rule 2 in tenon.h; with details "file", "line", "column" and "excerpt".
 @return TENON_OK, TENON_INVALID_ARGUMENT (also for what cannot be parsed), TENON_UNSUPPORTED (what is Python and not TorchScript),
         TENON_PERMISSION, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. One thread at a time.*/
    pub fn tenon_module_define(
        module: *mut tenon_module,
        source: *const ::core::ffi::c_char,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Define what methods and types use: functions, NamedTuples, enums, interfaces and plain classes, as `class P(NamedTuple): ...`.
 @param[in]  module     borrowed; its code gets the definitions.
 @param[in]  qualifier  borrowed, "__torch__" or a name below it: of `class P` comes "<qualifier>.P".
 @param[in]  source     borrowed; copied.
 @param[out] err        optional, see rule 2 in tenon.h; with details "file", "line", "column" and "excerpt".
 @return as tenon_module_define.
 @since 0.1. One thread at a time.*/
    pub fn tenon_module_define_types(
        module: *mut tenon_module,
        qualifier: *const ::core::ffi::c_char,
        source: *const ::core::ffi::c_char,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Say which methods PyTorch runs before or after forward.
 @param[in]  module          borrowed.
 @param[in]  before_forward  1: before; 0: after.
 @param[in]  names           borrowed array of n names of methods, in the order of their runs; copied.
 @param[in]  n               how many; 0: none any more.
 @param[out] err             optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND (no such method), TENON_PERMISSION, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. One thread at a time.*/
    pub fn tenon_module_set_hooks(
        module: *mut tenon_module,
        before_forward: ::core::ffi::c_int,
        names: *const *const ::core::ffi::c_char,
        n: usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Keep the example inputs of a traced method in the archive, for who asks PyTorch for them. Their tensors are written without bytes.
 @param[in]  module  borrowed.
 @param[in]  method  borrowed.
 @param[in]  inputs  borrowed array of n; the module takes a reference to each.
 @param[in]  n       how many.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. One thread at a time.*/
    pub fn tenon_module_set_traced_inputs(
        module: *mut tenon_module,
        method: *const ::core::ffi::c_char,
        inputs: *const *mut tenon_value,
        n: usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Put a file beside the module, which goes into every archive of it: extra/<name> there.
 @param[in]  module  borrowed.
 @param[in]  name    borrowed; copied. One of that name is replaced.
 @param[in]  data    borrowed, nbytes bytes; copied; may be NULL if nbytes is 0.
 @param[in]  nbytes  how many.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. One thread at a time.*/
    pub fn tenon_module_set_extra_file(
        module: *mut tenon_module,
        name: *const ::core::ffi::c_char,
        data: *const ::core::ffi::c_void,
        nbytes: usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Take such a file away.
 @param[in]  module  borrowed.
 @param[in]  name    borrowed.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_NOT_FOUND, TENON_PERMISSION.
 @since 0.1. One thread at a time.*/
    pub fn tenon_module_remove_extra_file(
        module: *mut tenon_module,
        name: *const ::core::ffi::c_char,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Replace a parameter, buffer or attribute. The shape and the element type of a tensor may change. Whatever else below `module` held the
 same tensor has the new one too. Where a parameter requires a gradient, what takes its place requires one too, if its elements can:
 a tensor without TENON_TENSOR_REQUIRES_GRAD says nothing about it. To freeze a parameter, remove it and add it again.
 @param[in]  module  borrowed.
 @param[in]  path    borrowed.
 @param[in]  value   borrowed; the module takes a reference. NULL: None.
 @param[out] err     optional, see rule 2 in tenon.h; with details "where", "wanted" and "found".
 @return TENON_OK, TENON_INVALID_ARGUMENT (it does not fit the declared type), TENON_NOT_FOUND, TENON_PERMISSION,
         TENON_RESOURCE_EXHAUSTED.
 @since 0.1. One thread at a time.*/
    pub fn tenon_module_set(
        module: *mut tenon_module,
        path: *const ::core::ffi::c_char,
        value: *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Replace a submodule.
 @param[in]  module  borrowed.
 @param[in]  path    borrowed.
 @param[in]  child   borrowed; as for tenon_module_add_submodule. Another class is fine unless an interface is declared that it has not.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return as tenon_module_set.
 @since 0.1. One thread at a time.*/
    pub fn tenon_module_set_submodule(
        module: *mut tenon_module,
        path: *const ::core::ffi::c_char,
        child: *mut tenon_module,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Take a member away: a parameter, buffer, attribute, constant, submodule or method.
 @param[in]  module  borrowed.
 @param[in]  path    borrowed.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_PERMISSION, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. One thread at a time.*/
    pub fn tenon_module_remove(
        module: *mut tenon_module,
        path: *const ::core::ffi::c_char,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Replace parameters and buffers by their paths, all of them or, on failure, none. A parameter that requires a gradient goes on to require
 one, as in tenon_module_set.
 @param[in]  module      borrowed.
 @param[in]  paths       borrowed array of n.
 @param[in]  tensors     borrowed array of n; values of kind tensor, or NULL for None; the module takes a reference to each.
 @param[in]  n           how many.
 @param[in]  flags       TENON_LOAD_*.
 @param[out] missing     new reference to the paths of the module that are not among the given ones; release with tenon_name_list_release;
 may be NULL; untouched on failure.
 @param[out] unexpected  new reference to the given paths that the module has not; likewise.
 @param[out] err         optional, see rule 2 in tenon.h; the message names the first missing and unexpected ones, the details "missing"
                         and "unexpected" have their numbers.
 @return TENON_OK, TENON_INVALID_ARGUMENT (something is missing, unexpected, twice there, or does not fit), TENON_PERMISSION,
         TENON_UNSUPPORTED (flags), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. One thread at a time.*/
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
    /**Check the code as an export does: names, operators, numbers and keywords of arguments. Types of operands are not checked. Nothing is
 written.
 @param[in]  module  borrowed.
 @param[out] err     optional, see rule 2 in tenon.h; with details "file", "line", "column" and "excerpt".
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread, not beside a change.*/
    pub fn tenon_module_check(
        module: *const tenon_module,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**All members of a module, in the order in which its class declares them, methods last.
 @param[in]  module  borrowed.
 @param[out] out     new reference to a list, release with tenon_member_list_release; untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT (code of an archive that cannot be parsed), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread, not beside a change.*/
    pub fn tenon_module_members(
        module: *const tenon_module,
        out: *mut *mut tenon_member_list,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The member of a path.
 @param[in]  module  borrowed.
 @param[in]  path    borrowed, "encoder.0.weight".
 @param[out] out     new reference to a list of this one member, release with tenon_member_list_release; untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h; the message names the part of the path that is not there.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_CORRUPT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread, not beside a change.*/
    pub fn tenon_module_find(
        module: *const tenon_module,
        path: *const ::core::ffi::c_char,
        out: *mut *mut tenon_member_list,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Every parameter and buffer below a module, named by its path, in the order of the tree; a shared one under each of its paths. Those that
 are None are left out.
 @param[in]  module  borrowed.
 @param[out] out     new reference to a list, release with tenon_member_list_release; untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread, not beside a change.*/
    pub fn tenon_module_tensors(
        module: *const tenon_module,
        out: *mut *mut tenon_member_list,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**How many members a list has.
 @param[in] list  borrowed; NULL is allowed.
 @return the count; 0 for NULL.
 @since 0.1. Any thread.*/
    pub fn tenon_member_list_count(list: *const tenon_member_list) -> usize;
    /**One member of a list.
 @param[in]     list   borrowed.
 @param[in]     index  from 0.
 @param[in,out] out    out->struct_size set by the caller; what it points to is borrowed from the list, valid until its release;
                       untouched on failure.
 @param[out]    err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also past the end).
 @since 0.1. Any thread.*/
    pub fn tenon_member_list_get(
        list: *const tenon_member_list,
        index: usize,
        out: *mut tenon_member,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Let a list go.
 @param[in] list  consumed; NULL is allowed.
 @since 0.1. Any thread.*/
    pub fn tenon_member_list_release(list: *mut tenon_member_list);
    /**The extra files that a module has.
 @param[in]  module  borrowed.
 @param[out] out     new reference to a list, release with tenon_file_list_release; untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread, not beside a change.*/
    pub fn tenon_module_extra_files(
        module: *const tenon_module,
        out: *mut *mut tenon_file_list,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The code of a module's classes and functions, as an export writes it: one file for each qualifier, "__torch__/my/layers.py".
 @param[in]  module  borrowed.
 @param[out] out     new reference to a list, release with tenon_file_list_release; untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread, not beside a change.*/
    pub fn tenon_module_code_files(
        module: *const tenon_module,
        out: *mut *mut tenon_file_list,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**What CONSTANTS.c0, CONSTANTS.c1, … are in the code that tenon_module_code_files gives.
 @param[in]  module  borrowed.
 @param[out] out     new reference to a tuple, release with tenon_value_release; untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread, not beside a change.*/
    pub fn tenon_module_constants(
        module: *const tenon_module,
        out: *mut *mut tenon_value,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**How many files a list has.
 @param[in] list  borrowed; NULL is allowed.
 @return the count; 0 for NULL.
 @since 0.1. Any thread.*/
    pub fn tenon_file_list_count(list: *const tenon_file_list) -> usize;
    /**One file of a list.
 @param[in]  list   borrowed.
 @param[in]  index  from 0.
 @param[out] out    what it points to is borrowed from the list, valid until its release; there is a NUL behind data; untouched on
 failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also past the end).
 @since 0.1. Any thread.*/
    pub fn tenon_file_list_get(
        list: *const tenon_file_list,
        index: usize,
        out: *mut tenon_file,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Let a list go.
 @param[in] list  consumed; NULL is allowed.
 @since 0.1. Any thread.*/
    pub fn tenon_file_list_release(list: *mut tenon_file_list);
    /**How many names a list has.
 @param[in] list  borrowed; NULL is allowed.
 @return the count; 0 for NULL.
 @since 0.1. Any thread.*/
    pub fn tenon_name_list_count(list: *const tenon_name_list) -> usize;
    /**One name of a list.
 @param[in] list   borrowed; NULL is allowed.
 @param[in] index  from 0.
 @return borrowed from the list, valid until its release; NULL past the end and for NULL.
 @since 0.1. Any thread.*/
    pub fn tenon_name_list_get(
        list: *const tenon_name_list,
        index: usize,
    ) -> *const ::core::ffi::c_char;
    /**Let a list go.
 @param[in] list  consumed; NULL is allowed.
 @since 0.1. Any thread.*/
    pub fn tenon_name_list_release(list: *mut tenon_name_list);
    /**Write a module as a file. Either all of it is there, under its name, or what was there before still is; nothing else is left behind.
 Tensors go to the file from where they are; those on a CUDA device through 8 MiB of pinned memory, for each device that there is. What
 was given to options.stream before the call is done before they are read, and this returns when they are: the host waits, no stream does.
 @param[in]     module   borrowed.
 @param[in]     path     borrowed; the directory exists, and a file of that name is replaced.
 @param[in]     options  borrowed; may be NULL.
 @param[in,out] report   report->struct_size set by the caller; may be NULL; untouched on failure.
 @param[out]    err      optional, see rule 2 in tenon.h; of code with details "file", "line", "column" and "excerpt".
 @return TENON_OK, TENON_INVALID_ARGUMENT (also for code that PyTorch would refuse, and for versions that do not go together: then with
         details "operator", "module" and "other_module"), TENON_UNSUPPORTED (unknown flags; tensors on a device in a child of fork),
         TENON_PERMISSION, TENON_NOT_FOUND (the directory), TENON_CORRUPT (code of an archive that cannot be parsed, a mapped file that
         was cut short), TENON_RESOURCE_EXHAUSTED (also a full disk), TENON_IO, others as CUDA's driver says.
 @since 0.1. Any thread, not beside a change of the module.*/
    pub fn tenon_export_module(
        module: *const tenon_module,
        path: *const ::core::ffi::c_char,
        options: *const tenon_export_options,
        report: *mut tenon_export_report,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**As tenon_export_module, to an open file, pipe or socket, from its current position on.
 @param[in]     module   borrowed.
 @param[in]     fd       borrowed, stays open; after a failure it may have got some of the bytes.
 @param[in]     options  borrowed; may be NULL.
 @param[in,out] report   as above.
 @param[out]    err      optional, see rule 2 in tenon.h.
 @return as tenon_export_module, and TENON_PEER_GONE (nobody reads the pipe or socket any more).
 @since 0.1. Any thread, not beside a change of the module.*/
    pub fn tenon_export_module_fd(
        module: *const tenon_module,
        fd: ::core::ffi::c_int,
        options: *const tenon_export_options,
        report: *mut tenon_export_report,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**As tenon_export_module, to a function.
 @param[in]     module   borrowed.
 @param[in]     write    called with one piece after the other, on this thread; after a failure it may have got some.
 @param[in]     context  handed to it.
 @param[in]     options  borrowed; may be NULL.
 @param[in,out] report   as above.
 @param[out]    err      optional, see rule 2 in tenon.h.
 @return as tenon_export_module, and what `write` stands for.
 @since 0.1. Any thread, not beside a change of the module.*/
    pub fn tenon_export_module_to(
        module: *const tenon_module,
        write: tenon_write_function,
        context: *mut ::core::ffi::c_void,
        options: *const tenon_export_options,
        report: *mut tenon_export_report,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Read an archive of PyTorch 1.4 or later. The file must not be changed as long as views of it are used; replacing it by rename is
 harmless. Tensors that were saved from another device come to the CPU, unless TENON_IMPORT_DEVICE is asked for; with that, they are whole
 when this returns, for every stream.
 @param[in]  path     borrowed.
 @param[in]  options  borrowed; may be NULL.
 @param[out] out      new reference, release with tenon_module_release; untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h; with details "record" and "offset".
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_PERMISSION, TENON_CORRUPT, TENON_UNSUPPORTED (another kind of file,
         which the message names; no CUDA; a version that PyTorch has not), TENON_RESOURCE_EXHAUSTED (also the
         limits of options, and the device's memory), TENON_IO.
 @since 0.1. Any thread.*/
    pub fn tenon_import_module(
        path: *const ::core::ffi::c_char,
        options: *const tenon_import_options,
        out: *mut *mut tenon_module,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**As tenon_import_module, from an open file, whatever its position.
 @param[in]  fd       borrowed; may be closed afterwards.
 @param[in]  options  borrowed; may be NULL.
 @param[out] out      new reference, release with tenon_module_release; untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return as tenon_import_module.
 @since 0.1. Any thread.*/
    pub fn tenon_import_module_fd(
        fd: ::core::ffi::c_int,
        options: *const tenon_import_options,
        out: *mut *mut tenon_module,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**As tenon_import_module, from memory.
 @param[in]  data     borrowed, nbytes bytes, which must stay and not change until `release` is called; with TENON_IMPORT_MAP_PRIVATE they
                      are copied.
 @param[in]  nbytes   how many.
 @param[in]  release  called once, from any thread, when nothing needs the bytes any more, at the latest with the last tensor over them;
                      not called on failure; may be NULL.
 @param[in]  context  handed to it.
 @param[in]  options  borrowed; may be NULL.
 @param[out] out      new reference, release with tenon_module_release; untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return as tenon_import_module.
 @since 0.1. Any thread.*/
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
    /**What the import of a module found. Of a module that no import gave, all of it is 0.
 @param[in]     module  borrowed, the root that an import gave.
 @param[in,out] out     out->struct_size set by the caller; untouched on failure.
 @param[out]    err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT.
 @since 0.1. Any thread.*/
    pub fn tenon_module_import_report(
        module: *const tenon_module,
        out: *mut tenon_import_report,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**What an import found remarkable, one line each: records that an export does not write again, code that cannot be parsed, operators that
 mean something else at this version than today.
 @param[in]  module  borrowed, the root that an import gave.
 @param[out] out     new reference to a list, release with tenon_name_list_release; untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread, not beside a change.*/
    pub fn tenon_module_warnings(
        module: *const tenon_module,
        out: *mut *mut tenon_name_list,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Tell whether this process can use CUDA, and if not, why. The library is one for machines with and without a GPU: it looks for NVIDIA's
 driver (11.4 or newer) when a function of this header is called first, starts it (cuInit) and counts its devices, which can take a
 tenth of a second and more. No context is made, and no memory of a device is taken. What came of it is kept until the process ends:
 later calls cost next to nothing, and a driver that was installed meanwhile is not seen. But a refusal that can pass (the system's
 daemons are not ready yet, another process has the device for itself, memory is short) is not kept: the next call asks again.
 @param[out] err  optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_UNSUPPORTED: the library was built without CUDA, there is no driver or an older one (details "path",
         "driver_version"), it has no device or refused to start (details "cuda_error", "cuda_error_name"), or this process is a child
         of fork of one that had started it. TENON_RESOURCE_EXHAUSTED: no memory to ask.
 @since 0.1. Any thread; others that ask meanwhile wait for the first. Fork: the driver does not work in a child of a process that had
        started it, and Tenon does not call it there. A child of a process that never used CUDA may start it for itself.*/
    pub fn tenon_cuda_available(err: *mut *mut tenon_error) -> tenon_status;
    /**Lend a storage on a CUDA device. No byte is copied. What was given to `stream` until now is done before work of the receiver's begins: by
 an interprocess event, or, when 1,000 of them are on the way or the device has none, by waiting for the stream here.
 @param[in]     storage  borrowed.
 @param[in]     stream   in which the bytes were written; borrowed for the call.
 @param[in]     options  borrowed; NULL: defaults.
 @param[in,out] out      out->struct_size set by the caller, the rest is filled in; nothing in it needs to be freed; untouched on failure.
 @param[out]    err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (not on a CUDA device; an unknown form or transport), TENON_PERMISSION (a read-only storage,
         without TENON_CUDA_LET_WRITE; a counter's name that somebody's file has, details "path", "errno"), TENON_UNSUPPORTED (no
         CUDA; memory that came by an IPC handle; memory that cannot travel, or not by the transport that was asked for: the driver is
         asked, and the message says what it answers), TENON_RESOURCE_EXHAUSTED, others as the driver says (details "cuda_error",
         "cuda_error_name"). On failure nothing is lent.
 @since 0.1. Any thread.*/
    pub fn tenon_share_cuda(
        storage: *mut tenon_storage,
        stream: *mut ::core::ffi::c_void,
        options: *const tenon_cuda_options,
        out: *mut tenon_cuda_handle,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Open device memory that Tenon or PyTorch lends. All handles of one allocation are opened once, and closed with the last storage. Bytes
 that this process holds already give the same storage with one reference more, and in the process that sent it a handle gives the memory
 itself. With TENON_CUDA_KEEP_OPEN what the driver opened stays so when its last storage has gone, until tenon_cuda_collect, or until 64
 others were opened so. That is for senders that do not free meanwhile what they lent, as PyTorch with its cache of memory: to free
 device memory that another process has open is not defined. By an IPC handle the next one of the same memory always finds it open; by
 fds and the fabric as long as the sender's storage lives; memory of a pool is closed all the same. What is given to `stream` from now on
 waits for the sender's work, on the device; the storage counts as used in that stream. A counter's file that may not be opened from here
 is tried again at the end, and until that works the sender's memory waits.
 @param[in]  handle   borrowed.
 @param[in]  stream   in which the bytes will be used; borrowed until the storage's last release: destroy it after that.
 @param[in]  options  borrowed; NULL: defaults.
 @param[out] out      new reference, release with tenon_storage_release: its last release, once the streams have passed, gives the memory
                      back to the sender; untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (no such device, a handle or an fd that the driver does not know, another number of fds than
         belong to it, a range outside of the allocation), TENON_CORRUPT, TENON_INCOMPATIBLE (a memory handle of a newer version; detail
         "version"), TENON_UNSUPPORTED (no CUDA; a segment of PyTorch's of fabric handles, or of form E; read-only where the device cannot
         keep it), TENON_NOT_FOUND (this process does not see the device of that UUID), TENON_PERMISSION and TENON_PEER_GONE (PyTorch's
         expandable segments, whose fds are fetched from their process: it may not be traced from here, or has ended),
         TENON_RESOURCE_EXHAUSTED, others as the driver says (details "cuda_error", "cuda_error_name"). On failure nothing is open, and
         the handle is as good as before.
 @since 0.1. Any thread.*/
    pub fn tenon_open_cuda(
        handle: *const tenon_cuda_handle,
        stream: *mut ::core::ffi::c_void,
        options: *const tenon_cuda_options,
        out: *mut *mut tenon_storage,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Take a message back that will not be opened, on its receiver's side: what opening and releasing it would do to its counter. Needs no
 CUDA.
 @param[in] counter  borrowed; tenon_cuda_handle.counter.
 @param[in] slot     tenon_cuda_handle.slot.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, also if the file is gone with its sender; TENON_INVALID_ARGUMENT (no name in /dev/shm, a slot beyond the file),
         TENON_CORRUPT (no counter file, or it was taken back before), TENON_PERMISSION.
 @since 0.1. Any thread.*/
    pub fn tenon_release_cuda_counter(
        counter: *const ::core::ffi::c_char,
        slot: u64,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Say that work in that stream uses a storage: what was given to it until the storage's last release has passed before the memory is given
 back. The host does not wait for it. In a child of fork, where nothing is given to streams, it does nothing.
 @param[in]  storage  borrowed; on a CUDA device.
 @param[in]  stream   borrowed until the storage's last release: destroy it after that. A default stream is that of the calling thread and
                      of its current context, whoever releases the storage.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (not on a CUDA device), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_storage_record_stream(
        storage: *mut tenon_storage,
        stream: *mut ::core::ffi::c_void,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Let what is given to `stream` from now on come after what was given until now to the streams in which the storage is used here: that of
 the call that opened it or of the connection over which it came, and those of tenon_storage_record_stream. For whoever uses it in yet
 another stream, as DLPack's consumers do. The host does not wait. `stream` itself is not recorded.
 @param[in]  storage  borrowed; on a CUDA device.
 @param[in]  stream   borrowed for the call.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (not on a CUDA device, a stream that the driver does not know), TENON_UNSUPPORTED (no CUDA, a
         child of fork), TENON_RESOURCE_EXHAUSTED, others as the driver says (details "cuda_error", "cuda_error_name"). On failure it may
         come after some of them only.
 @since 0.1. Any thread.*/
    pub fn tenon_storage_order_stream(
        storage: *mut tenon_storage,
        stream: *mut ::core::ffi::c_void,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Give device memory back that nobody uses any more: look at all that was released here and still had a receiver or a stream. What was only
 kept open (TENON_CUDA_KEEP_OPEN) is closed.
 @return how many storages' memory waits on.
 @since 0.1. Any thread.*/
    pub fn tenon_cuda_collect() -> u64;
    /**Lend a storage: get an fd, an offset and a size that another process can open. No byte is copied or moved. The block is
 not used for another storage after its release, because nobody tells this process when the borrower is done; the
 memory goes back to the system with its segment. Who is lent one storage of a segment can read all of that segment (and
 write it, in TENON_MODE_SHARED): TENON_STORAGE_ISOLATED gives a storage a segment of its own.
 Where a seccomp filter or a policy denies memfd_create, storages of TENON_MODE_SHARED lie in nameless files of /dev/shm instead.
 Such a file takes no seals: tenon_storage_is_sealed says 0, whoever has the fd can cut it short, and it is opened only with
 TENON_OPEN_ALLOW_UNSEALED. Over a connection it goes without a lease. The other modes need seals and are refused there.
 @param[in]     storage  borrowed.
 @param[in]     options  borrowed; NULL: defaults.
 @param[in,out] out      out->struct_size set by the caller, the rest is filled in; out->fd is the caller's, close it with
                         tenon_fd_handle_close once it was sent; untouched on failure.
 @param[out]    err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (read-only lend of TENON_MODE_SHARED, writable lend of another
         mode, not frozen yet: detail "option" names the way out), TENON_UNSUPPORTED (private memory),
         TENON_RESOURCE_EXHAUSTED (fds).
 @since 0.1. Any thread.*/
    pub fn tenon_share_fd(
        storage: *mut tenon_storage,
        options: *const tenon_share_options,
        out: *mut tenon_fd_handle,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Open what was lent. Before anything is mapped: the fd is a regular file in memory (or any regular file with
 TENON_OPEN_ALLOW_UNSEALED), is as large as the handle says, allows the access, and is sealed against shrinking. The same
 segment, range and access that this process already holds gives the same storage, with one reference more; private
 opens always give a new one.
 @param[in]  handle   borrowed; handle->fd is borrowed too and may be closed after the call (TENON_OPEN_ADOPT_FD:
                      consumed on success).
 @param[in]  options  borrowed; NULL: defaults.
 @param[out] out      new reference, release with tenon_storage_release; untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (closed fd, wrong type, range outside), TENON_PERMISSION (unsealed, or writable
         access to read-only memory; detail "option"), TENON_CORRUPT (smaller than the handle says),
         TENON_RESOURCE_EXHAUSTED (fds, mappings, memory), TENON_UNSUPPORTED.
 @since 0.1. Any thread.*/
    pub fn tenon_open_fd(
        handle: *const tenon_fd_handle,
        options: *const tenon_open_options,
        out: *mut *mut tenon_storage,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Close handle->fd, if there is one, and set it to -1. The storage that was lent is not affected.
 @param[in,out] handle  borrowed; NULL is allowed.
 @since 0.1. Any thread.*/
    pub fn tenon_fd_handle_close(handle: *mut tenon_fd_handle);
    /**Make a storage that lives in a named file of its own, in PyTorch's layout, TENON_MODE_SHARED. The file appears whole, under its name, or
 not at all. Its memory is reserved first: a full directory is an error here and no SIGBUS later. A process that may write the file can
 still cut it short, which is a SIGBUS for all who use it, this process among them. Memory from tenon_storage_new that
 tenon_share_filename lends by a socket is sealed against that.
 @param[in]  options  borrowed; NULL: defaults. access is not looked at.
 @param[in]  nbytes   payload bytes, all 0 at first. 0 is allowed: PyTorch makes a file of a header alone for it, and so does this.
 @param[out] out      new reference, release with tenon_storage_release; untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (name or directory), TENON_PERMISSION (the name is taken, or the directory is closed),
         TENON_RESOURCE_EXHAUSTED (detail "limit": what was met), TENON_NOT_FOUND (no such directory), TENON_UNSUPPORTED.
         On failure no file is left.
 @since 0.1. Any thread. A child of fork holds what it inherited; the name goes when the last of them lets go.*/
    pub fn tenon_storage_new_filename(
        options: *const tenon_filename_options,
        nbytes: u64,
        out: *mut *mut tenon_storage,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Lend a storage by name. No byte is copied or moved, but for private memory (below).
  - A storage in a named file gives that name.
  - Any other shared storage gets a socket: the segment's, or one of its own if options name it. The first such lend starts the library's
    one thread (rule 10 in tenon.h). TENON_FILENAME_TORCH is refused: PyTorch opens files only, and memory that has no name cannot get
 one.
  - Private memory that the library made and whose bytes were never handed out (tenon_storage_data and the like) moves into a new file;
    any other is refused, since a pointer to the old place may be in use.
 @param[in]     storage  borrowed.
 @param[in]     options  borrowed; NULL: defaults.
 @param[in]     wait     borrowed; how long to wait for a manager; NULL: 5 seconds.
 @param[in,out] out      out->struct_size set by the caller, the rest is filled in; nothing in it needs to be freed; untouched on failure.
 @param[out]    err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (access, name taken), TENON_UNSUPPORTED (detail "option"),
         TENON_RESOURCE_EXHAUSTED, TENON_NOT_FOUND (no manager program, no directory), TENON_PEER_GONE, TENON_CORRUPT, TENON_TIMEOUT,
         TENON_INTERRUPTED, TENON_CANCELLED (of the manager; detail "path").
 @since 0.1. Any thread; moving private memory must not run beside other calls on the same storage.*/
    pub fn tenon_share_filename(
        storage: *mut tenon_storage,
        options: *const tenon_filename_options,
        wait: *const tenon_wait,
        out: *mut tenon_filename_handle,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Open what was lent by name, by Tenon or by PyTorch. The same memory, range and access that this process already holds, by name or by fd,
 gives the same storage with one reference more. If handle->manager is set, the name is registered there, as PyTorch does.
 @param[in]  handle   borrowed.
 @param[in]  options  borrowed; NULL: defaults. Besides the flags of tenon_open_fd: TENON_OPEN_OTHER_USER, TENON_OPEN_NO_MANAGER,
                      TENON_OPEN_DECREF.
 @param[in]  wait     borrowed; how long to wait for the lender behind a socket, or for a manager; NULL: 5 seconds.
 @param[out] out      new reference, release with tenon_storage_release; untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND (no such name, or its last holder just let go), TENON_PERMISSION (unsealed,
         read-only, another user's; detail "option"), TENON_CORRUPT (a link, a pipe, a file too small, a count that cannot be, a socket
         that speaks something else), TENON_PEER_GONE (nobody behind the socket, or the manager died), TENON_TIMEOUT,
         TENON_RESOURCE_EXHAUSTED, TENON_INCOMPATIBLE. Details name the object: "path". On failure nothing is held or counted.
 @since 0.1. Any thread.*/
    pub fn tenon_open_filename(
        handle: *const tenon_filename_handle,
        options: *const tenon_open_options,
        wait: *const tenon_wait,
        out: *mut *mut tenon_storage,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Count one message in flight: the name outlives the sender's own references until somebody opens it with TENON_OPEN_DECREF or calls
 tenon_filename_decref (PyTorch's receivers do), as long as this process lives, and for 60 seconds after an orderly exit. What a killed
 process had in flight goes with it.
 @param[in]  handle  borrowed; of a storage that this process holds.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND (this process holds no such storage).
 @since 0.1. Any thread.*/
    pub fn tenon_filename_incref(
        handle: *const tenon_filename_handle,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Take back one tenon_filename_incref: the message was received, or will never be.
 @param[in]  handle  borrowed.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, also if the name is gone; TENON_INVALID_ARGUMENT, TENON_PERMISSION, TENON_CORRUPT, TENON_TIMEOUT.
 @since 0.1. Any thread.*/
    pub fn tenon_filename_decref(
        handle: *const tenon_filename_handle,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Do now what exit() does for names: take this process's part out of their counts, keep the files that it has in flight for 60 seconds, and
 end the names behind which it hands out memory. For a process that ends in order but with _exit(), such as one that Python's
 multiprocessing forked, or a Go program; others need not call it.
 @since 0.1. Any thread. Storages stay valid.*/
    pub fn tenon_filename_leave();
    /**Take a name away. Who has it open keeps the memory; nobody opens it any more. A process of PyTorch's that holds it aborts when it lets
 go: leave such names to their holders.
 @param[in]  name  borrowed; as in tenon_filename_handle.name.
 @param[out] err   optional, see rule 2 in tenon.h.
 @return TENON_OK, also if there is no such name; TENON_INVALID_ARGUMENT, TENON_PERMISSION (also for what is neither a file nor a socket).
 @since 0.1. Any thread.*/
    pub fn tenon_filename_unlink(
        name: *const ::core::ffi::c_char,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Remove the names in a directory that nobody holds: files that Tenon made, sockets without a lender, and on request PyTorch's. The kernel
 is asked (a write lease is given only on a file that nobody has open or mapped), so a holder in any container, Tenon or not, is seen.
 Making and releasing names sweeps a little too, and the library's thread removes what a killed process leaves: this call is for the rest.
 @param[in]     options  borrowed; NULL: defaults.
 @param[in,out] out      out->struct_size set by the caller, the rest is filled in; NULL is allowed; untouched on failure.
 @param[out]    err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND, TENON_PERMISSION (the directory), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_filename_sweep(
        options: *const tenon_sweep_options,
        out: *mut tenon_sweep_result,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The socket of this user's manager, which is started if there is none: a small process that speaks PyTorch's protocol, guards the names
 that PyTorch processes hold, and ends by itself when its last client is gone. Hand it to PyTorch as the first item of its tuple.
 @param[in]  program  borrowed; the path of tenon-manager; NULL: TENON_MANAGER of the environment, else beside the library.
 @param[in]  wait     borrowed; NULL: 5 seconds.
 @param[out] out      108 bytes of the caller's, filled with a NUL-terminated path; untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND (no such program), TENON_PERMISSION, TENON_PEER_GONE (it ended at once),
         TENON_TIMEOUT, TENON_INTERRUPTED, TENON_CANCELLED, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread. The caller is a client of the manager from then on, until the process ends.*/
    pub fn tenon_manager_start(
        program: *const ::core::ffi::c_char,
        wait: *const tenon_wait,
        out: *mut ::core::ffi::c_char,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Make an empty message.
 @param[out] out  new reference, release with tenon_message_release; untouched on failure.
 @param[out] err  optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_message_new(
        out: *mut *mut tenon_message,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Add tensors, all of them or none. Whether each can be lent is checked here. Tensors of one message that share a
 storage share it on arrival.
 @param[in]  message  borrowed.
 @param[in]  tensors  borrowed array of n; the message takes a reference to each.
 @param[in]  names    NULL, or a borrowed array of n strings, UTF-8, each NULL or at most 4,096 bytes; copied.
 @param[in]  n        how many.
 @param[in]  options  borrowed; NULL: defaults. As in tenon_share_fd.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION, TENON_UNSUPPORTED (private memory), TENON_RESOURCE_EXHAUSTED,
         TENON_PEER_GONE (a storage was dropped).
 @since 0.1. One thread at a time per message.*/
    pub fn tenon_message_add(
        message: *mut tenon_message,
        tensors: *const *mut tenon_tensor,
        names: *const *const ::core::ffi::c_char,
        n: usize,
        options: *const tenon_share_options,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Set the user's bytes, in place of those set before.
 @param[in]  message  borrowed.
 @param[in]  data     borrowed for the call; may be NULL if nbytes is 0.
 @param[in]  nbytes   at most TENON_MESSAGE_MAX_USER_NBYTES.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. One thread at a time per message.*/
    pub fn tenon_message_set_user_bytes(
        message: *mut tenon_message,
        data: *const ::core::ffi::c_void,
        nbytes: usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**How many tensors there are.
 @param[in] message  borrowed; NULL is allowed.
 @return the count; 0 for NULL.
 @since 0.1. Any thread.*/
    pub fn tenon_message_count(message: *const tenon_message) -> usize;
    /**One tensor.
 @param[in] message  borrowed; NULL is allowed.
 @param[in] index    from 0.
 @return borrowed from the message, valid until its last release (tenon_tensor_retain keeps it); NULL past the end.
 @since 0.1. Any thread.*/
    pub fn tenon_message_tensor(
        message: *const tenon_message,
        index: usize,
    ) -> *mut tenon_tensor;
    /**The name of one tensor.
 @param[in] message  borrowed; NULL is allowed.
 @param[in] index    from 0.
 @return NUL-terminated UTF-8, borrowed from the message, valid until the next tenon_message_add or its release; NULL: no name, or past
         the end.
 @since 0.1. Any thread.*/
    pub fn tenon_message_name(
        message: *const tenon_message,
        index: usize,
    ) -> *const ::core::ffi::c_char;
    /**The first tensor of that name.
 @param[in] message  borrowed; NULL is allowed.
 @param[in] name     borrowed; NULL is allowed.
 @return borrowed from the message; NULL: none.
 @since 0.1. Any thread.*/
    pub fn tenon_message_find(
        message: *const tenon_message,
        name: *const ::core::ffi::c_char,
    ) -> *mut tenon_tensor;
    /**The first n tensors of a message at once, for callers to whom each call is dear.
 @param[in]     message  borrowed.
 @param[in,out] out      array of n; out[0].struct_size set by the caller is the size of each, and is written to the others; valid until
                         the message's release, names until the next tenon_message_add; untouched on failure.
 @param[in]     n        at most tenon_message_count; 0 is allowed.
 @param[out]    err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also if there are fewer).
 @since 0.1. Any thread.*/
    pub fn tenon_message_get_views(
        message: *const tenon_message,
        out: *mut tenon_tensor_view,
        n: usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The user's bytes.
 @param[in]  message  borrowed; NULL is allowed.
 @param[out] nbytes   how many; may be NULL.
 @return borrowed from the message; NULL if there are none.
 @since 0.1. Any thread.*/
    pub fn tenon_message_user_bytes(
        message: *const tenon_message,
        nbytes: *mut usize,
    ) -> *const ::core::ffi::c_void;
    /**Give a message back, and its references to the tensors.
 @param[in] message  consumed; NULL is allowed.
 @since 0.1. Any thread.*/
    pub fn tenon_message_release(message: *mut tenon_message);
    /**Put a connection on a socket. The socket may be blocking or not; its flags are not changed. Without
 TENON_CONNECTION_SAME_USER and TENON_CONNECTION_GROUP any peer is good: whoever made the socket has decided. With
 one of them the peer's tenon_peer decides, and its groups of the same moment (SO_PEERGROUPS).
 @param[in]  socket   a connected AF_UNIX socket, borrowed until the release (TENON_CONNECTION_ADOPT_SOCKET: consumed on
                      success). Nobody else may read from it or write to it.
 @param[in]  options  borrowed; NULL: defaults.
 @param[out] out      new reference, release with tenon_connection_release; untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (closed fd, not a connected AF_UNIX stream or seqpacket socket; a group without its
         flag), TENON_PERMISSION (the peer is another user's; details "pid", "uid"), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread. After fork only the process that made the connection may use it; the child may release it.*/
    pub fn tenon_connection_new(
        socket: ::core::ffi::c_int,
        options: *const tenon_connection_options,
        out: *mut *mut tenon_connection,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The fd to poll. When it is readable, call tenon_recv with timeout 0 until it says TENON_WOULD_BLOCK (edge rule: several
 messages can be taken off the socket at once); after an unfinished send, poll for writing and call tenon_send.
 @param[in] connection  borrowed; NULL is allowed.
 @return the socket, borrowed; -1 for NULL.
 @since 0.1. Any thread.*/
    pub fn tenon_connection_fd(
        connection: *const tenon_connection,
    ) -> ::core::ffi::c_int;
    /**Who is at the other end.
 @param[in]     connection  borrowed.
 @param[in,out] out         out->struct_size set by the caller, the rest is filled in; untouched on failure.
 @param[out]    err         optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT.
 @since 0.1. Any thread; also in a child of fork.*/
    pub fn tenon_connection_peer(
        connection: *const tenon_connection,
        out: *mut tenon_peer,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The fd that tells when the lender is gone. It is readable (POLLIN) from then on; with
 TENON_LENDER_GONE_DROP, after the memory was dropped. The library's thread hears the end some
 microseconds after it. In a process that chose to have no thread, tenon_lease_poll hears it.
 Poll the fd, and do not read from it.
 @param[in]  connection  borrowed.
 @param[out] out         the fd, borrowed from the connection and valid until its release;
                         untouched on failure.
 @param[out] err         optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (another connection on the same socket watches its
         lender), TENON_RESOURCE_EXHAUSTED, TENON_UNSUPPORTED (in a child of fork).
 @since 0.1. Any thread. A child of fork hears nothing: what came to its parent stays valid there.*/
    pub fn tenon_connection_gone_fd(
        connection: *mut tenon_connection,
        out: *mut ::core::ffi::c_int,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Name the stream in which memory of a CUDA device is used here. Tensors on devices travel in messages as others do, by the driver's
 handles and under leases: a receiver that is killed, and a message that nobody reads, give the memory back. What was given to the stream
 before a send is done before work of the receiver's begins; what is given to it after a receive waits for the sender's, and what was
 received counts as used in it until its storage goes. Neither call waits for the device, but a send when 1,000 events are on the way.
 @param[in]  connection  borrowed.
 @param[in]  device      ordinal in this process's numbering.
 @param[in]  stream      borrowed until the connection's release, and the last release of what was received meanwhile; a CUstream or
                         cudaStream_t. NULL: the default stream, as without this call.
 @param[out] err         optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread; messages that are being sent or received meanwhile have the one or the other.*/
    pub fn tenon_connection_set_stream(
        connection: *mut tenon_connection,
        device: i32,
        stream: *mut ::core::ffi::c_void,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Send a message. Delivered whole or not at all, in order. If the wait ends first (TENON_WOULD_BLOCK, TENON_TIMEOUT,
 TENON_INTERRUPTED, TENON_CANCELLED) the message may be half sent: the connection keeps it, and the next call goes on
 where this one stopped, be it with the same message (sent once all the same), with another (kept too, and sent after it) or
 with NULL. The same message is sent anew once this call, or a later one of the same thread, has returned TENON_OK. Messages sent before
 the earlier ones are through wait in memory: let the socket drain.
 @param[in]  connection  borrowed.
 @param[in]  message     borrowed; what is lent stays valid for the peer after its release. NULL: only finish what an
                         earlier call left.
 @param[in]  wait        borrowed; NULL: wait for ever.
 @param[out] err         optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PEER_GONE, TENON_RESOURCE_EXHAUSTED (limit "RLIMIT_NOFILE" with
         ETOOMANYREFS: too many fds in flight, the next call goes on; limit "send_queue": 4,096 messages or 256 MiB of
         descriptors wait because the peer does not read, and this message is not kept; memory), TENON_UNSUPPORTED (in a
         child of fork; memory of a device that cannot travel), TENON_PERMISSION (a read-only storage on a device, without
         TENON_CONNECTION_CUDA_LET_WRITE), the four of an ended wait, TENON_IO, others as the device's driver says.
 @since 0.1. Any thread; sends queue behind each other, a send and a receive run at the same time.*/
    pub fn tenon_send(
        connection: *mut tenon_connection,
        message: *const tenon_message,
        wait: *const tenon_wait,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Receive the next message. If the wait ends first nothing is lost: the next call goes on.
 @param[in]  connection  borrowed.
 @param[in]  wait        borrowed; NULL: wait for ever.
 @param[out] out         new reference, release with tenon_message_release; untouched on failure.
 @param[out] err         optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PEER_GONE (all messages sent before the end are delivered first),
         TENON_RESOURCE_EXHAUSTED (limit "RLIMIT_NOFILE": the kernel dropped fds that found no place; that message, and
         later ones that need the same segments, cannot be opened; limit "max_mapped_nbytes" or "mapped_nbytes": the peer's
         memory, or that of all peers, would take too much address space; mappings; memory), TENON_CORRUPT (what came is no
         message: the connection is of no more use), TENON_INCOMPATIBLE, TENON_PERMISSION, TENON_UNSUPPORTED (in a child
         of fork; memory of a device that cannot be opened so), TENON_NOT_FOUND (of a device that this process does not see), the
         four of an ended wait, TENON_IO, others as the device's driver says.
 @since 0.1. Any thread; receives queue behind each other, a send and a receive run at the same time.*/
    pub fn tenon_recv(
        connection: *mut tenon_connection,
        wait: *const tenon_wait,
        out: *mut *mut tenon_message,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Give a connection back. A message half sent is never finished: the peer gets TENON_PEER_GONE. What was received stays valid.
 @param[in] connection  consumed; NULL is allowed. No other call may be using it.
 @since 0.1. Any thread. In a child of fork: if a thread of the parent's was using it at that moment, the child closes its copy of an
 adopted socket and keeps the rest until it ends.*/
    pub fn tenon_connection_release(connection: *mut tenon_connection);
    /**Make an arena on a device.
 @param[in]  options  borrowed.
 @param[out] out      new reference, release with tenon_cuda_arena_release; untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (no options, no capacity, no such device, another transport), TENON_UNSUPPORTED (no CUDA, or the
         device has no such way to lend), TENON_RESOURCE_EXHAUSTED (device memory), others as the driver says (details "cuda_error",
         "cuda_error_name").
 @since 0.1. Any thread.*/
    pub fn tenon_cuda_arena_new(
        options: *const tenon_cuda_arena_options,
        out: *mut *mut tenon_cuda_arena,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Take one more reference.
 @param[in] arena  borrowed; NULL is allowed.
 @return `arena`, to be released too.
 @since 0.1. Any thread.*/
    pub fn tenon_cuda_arena_retain(
        arena: *mut tenon_cuda_arena,
    ) -> *mut tenon_cuda_arena;
    /**Give one reference back. Its memory goes when the last storage in it has gone and nobody keeps it any more.
 @param[in] arena  consumed; NULL is allowed.
 @since 0.1. Any thread.*/
    pub fn tenon_cuda_arena_release(arena: *mut tenon_cuda_arena);
    /**A storage in an arena, at a multiple of 256 bytes of the device. If there is no room it is looked for what was given back meanwhile, and
 then waited for as `wait` says, looking again every millisecond.
 @param[in]  arena   borrowed; the storage keeps it.
 @param[in]  nbytes  bytes; their content is what it happens to be. 0: an empty storage, which takes no room.
 @param[in]  wait    borrowed for the call; NULL: not at all.
 @param[out] out     new reference, release with tenon_storage_release; untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED (full: details "limit" = "arena", "limit_value", "wanted", "in_use",
         "holders"; memory), TENON_UNSUPPORTED (in a child of fork), the four of an ended wait, with the same details.
 @since 0.1. Any thread.*/
    pub fn tenon_cuda_arena_allocate(
        arena: *mut tenon_cuda_arena,
        nbytes: u64,
        wait: *const tenon_wait,
        out: *mut *mut tenon_storage,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**What it holds. Looks for what was given back first, as tenon_cuda_collect does, but closes nothing that is kept open.
 @param[in]     arena  borrowed.
 @param[in,out] out    the caller's; out->struct_size says how much may be written; untouched on failure.
 @param[out]    err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT.
 @since 0.1. Any thread.*/
    pub fn tenon_cuda_arena_stats_get(
        arena: *const tenon_cuda_arena,
        out: *mut tenon_cuda_arena_stats,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Make an event. Until it is recorded it is complete.
 @param[in]  options  borrowed; NULL: defaults.
 @param[out] out      new reference, release with tenon_cuda_event_release; untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (no such device), TENON_UNSUPPORTED (no CUDA; INTERPROCESS on a device without CUDA IPC, as in
         MIG mode; a child of fork), TENON_RESOURCE_EXHAUSTED, others as the driver says (details "cuda_error", "cuda_error_name").
 @since 0.1. Any thread. Makes the device's primary context, if nobody has yet, which takes some hundred megabytes and a while.*/
    pub fn tenon_cuda_event_new(
        options: *const tenon_cuda_event_options,
        out: *mut *mut tenon_cuda_event,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Open another process's event. Both then mean the same mark, whichever of them records it. The process that made the event has to keep it
 until all others have released it: CUDA does not define what happens to them otherwise, nor what an event of a process that died says.
 @param[in]  handle   borrowed; the 64 bytes of tenon_cuda_event_ipc_handle, or of cudaIpcGetEventHandle, as PyTorch's.
 @param[in]  options  borrowed; NULL: defaults. The device is the one on which it was made, in this process's numbering.
 @param[out] out      new reference, release with tenon_cuda_event_release; untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (no such device; INTERPROCESS; a handle that leads to no event any more, or that this process
         made: the driver opens it elsewhere only), TENON_UNSUPPORTED (no CUDA or no CUDA IPC; a child of fork), TENON_RESOURCE_EXHAUSTED,
         others as the driver says (details "cuda_error", "cuda_error_name").
 @since 0.1. Any thread. Makes the device's primary context, as above.*/
    pub fn tenon_cuda_event_from_ipc_handle(
        handle: *const u8,
        options: *const tenon_cuda_event_options,
        out: *mut *mut tenon_cuda_event,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Take one more reference.
 @param[in] event  borrowed; NULL is allowed.
 @return `event`, to be released too.
 @since 0.1. Any thread.*/
    pub fn tenon_cuda_event_retain(
        event: *mut tenon_cuda_event,
    ) -> *mut tenon_cuda_event;
    /**Give one reference back. With the last the event goes. Streams that wait for it go on waiting, and nobody waits for them; but other
 processes must have released it before the one that made it does.
 @param[in] event  consumed; NULL is allowed.
 @since 0.1. Any thread. In a child of fork the parent's event stays.*/
    pub fn tenon_cuda_event_release(event: *mut tenon_cuda_event);
    /**Put the mark into a stream: the event is complete when all that was given to the stream until now has passed. An older mark of the same
 event is forgotten; who waits for that one already goes on doing so.
 @param[in]  event   borrowed.
 @param[in]  stream  borrowed for the call; of the event's context.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (also for a stream of another context), TENON_UNSUPPORTED (a child of fork), others as the
         driver says (details "cuda_error", "cuda_error_name").
 @since 0.1. Any thread. Waits for nothing.*/
    pub fn tenon_cuda_event_record(
        event: *mut tenon_cuda_event,
        stream: *mut ::core::ffi::c_void,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Let a stream wait: what is given to it from now on begins when the mark that was recorded last has been reached, in whichever process.
 The host does not wait. Of an event that nobody recorded: nothing.
 @param[in]  event   borrowed.
 @param[in]  stream  borrowed for the call; of any device.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (a child of fork), others as the driver says (details "cuda_error",
         "cuda_error_name").
 @since 0.1. Any thread. Waits for nothing.*/
    pub fn tenon_cuda_event_wait(
        event: *const tenon_cuda_event,
        stream: *mut ::core::ffi::c_void,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Ask whether the event is complete.
 @param[in]  event  borrowed.
 @param[out] out    1: what was before the mark has passed, or nobody recorded it; 0: not yet; untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (a child of fork), others as the driver says, also for what went wrong on the
         device before (details "cuda_error", "cuda_error_name").
 @since 0.1. Any thread. Waits for nothing.*/
    pub fn tenon_cuda_event_query(
        event: *const tenon_cuda_event,
        out: *mut ::core::ffi::c_int,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Wait here, on the host, until the event is complete. A wait that something else can end, and any wait for another process's event, looks
 again and again, at most a millisecond apart, and so goes on to a mark that is recorded meanwhile; one for ever for an event of this
 process sleeps in the driver.
 @param[in]  event  borrowed.
 @param[in]  wait   borrowed; NULL: for ever, not interruptible.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_WOULD_BLOCK, TENON_TIMEOUT, TENON_INTERRUPTED, TENON_CANCELLED, TENON_UNSUPPORTED (a
         child of fork), others as the driver says, also for what went wrong on the device before (details "cuda_error",
         "cuda_error_name").
 @since 0.1. Any thread.*/
    pub fn tenon_cuda_event_synchronize(
        event: *const tenon_cuda_event,
        wait: *const tenon_wait,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The handle by which other processes open the event: a CUipcEventHandle, the same each time. It is as good as the event is alive.
 @param[in]  event  borrowed; made with TENON_CUDA_EVENT_INTERPROCESS.
 @param[out] out    the caller's, 64 bytes, filled in; untouched on failure.
 @param[out] err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (made without INTERPROCESS), TENON_UNSUPPORTED (another process's event: only who made it can
 lend it; a device without CUDA IPC; a child of fork), others as the driver says (details "cuda_error", "cuda_error_name").
 @since 0.1. Any thread.*/
    pub fn tenon_cuda_event_ipc_handle(
        event: *const tenon_cuda_event,
        out: *mut u8,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Let a CUDA device reach the bytes of a shared storage, and say by which address. The memory of the whole segment is registered with the
 driver and can no longer be swapped: that of a TENON_STORAGE_ISOLATED storage, or of one over 8 MiB, is its own; others share segments of
 64 MiB, which get all of their memory now. An arena has to be reserved up to its capacity before (tenon_arena_reserve). Pinning again is
 cheap and gives the same address; for another device it may be another one.
 @param[in]  storage  borrowed. Not private, and not on a device. A TENON_MODE_FROZEN one is pinned when it is frozen. What is read-only
                      here the device may only read, if it can be kept to that.
 @param[in]  device   ordinal in this process's numbering.
 @param[out] out      borrowed from the storage: where the device finds its first byte, nearly always tenon_storage_data; NULL for
                      an empty one; untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (no such device, a device's storage), TENON_PERMISSION (not frozen yet),
         TENON_UNSUPPORTED (no CUDA here, private memory, read-only memory for a device that cannot be kept from writing it, a
         child of fork), TENON_RESOURCE_EXHAUSTED (detail "limit": "memory of the segment" if not all of it has memory, or what was
         met in making that), others as the driver says (details "cuda_error", "cuda_error_name").
 @since 0.1. Any thread. Waits for no device.*/
    pub fn tenon_storage_pin(
        storage: *mut tenon_storage,
        device: i32,
        out: *mut *mut ::core::ffi::c_void,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Whether this process has pinned the segment in which the storage lies, for this storage or for another one.
 @param[in] storage  borrowed; NULL is allowed.
 @return 1 if so, else 0; 0 for an empty storage, which has no memory, and in a child of fork of the process that did.
 @since 0.1. Any thread.*/
    pub fn tenon_storage_is_pinned(storage: *const tenon_storage) -> ::core::ffi::c_int;
    /**Encode a message. The descriptor keeps the tensors and the fds alive until its release.
 @param[in]  message  borrowed.
 @param[in]  options  borrowed; NULL: defaults.
 @param[out] out      new reference, release with tenon_descriptor_release; untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED (fds, memory).
 @since 0.1. Any thread.*/
    pub fn tenon_descriptor_new(
        message: *const tenon_message,
        options: *const tenon_descriptor_options,
        out: *mut *mut tenon_descriptor,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The bytes to carry.
 @param[in]  descriptor  borrowed; NULL is allowed.
 @param[out] nbytes      how many; may be NULL.
 @return borrowed from the descriptor, valid until its release; NULL for NULL.
 @since 0.1. Any thread.*/
    pub fn tenon_descriptor_bytes(
        descriptor: *const tenon_descriptor,
        nbytes: *mut usize,
    ) -> *const ::core::ffi::c_void;
    /**The fds to carry, in this order (SCM_RIGHTS, or inherited).
 @param[in]  descriptor  borrowed; NULL is allowed.
 @param[out] n           how many; 0 for a bytes-only one; may be NULL.
 @return borrowed from the descriptor, valid until its release: do not close them; NULL if there are none.
 @since 0.1. Any thread.*/
    pub fn tenon_descriptor_fds(
        descriptor: *const tenon_descriptor,
        n: *mut usize,
    ) -> *const i32;
    /**Give a descriptor back; its fds are closed.
 @param[in] descriptor  consumed; NULL is allowed.
 @since 0.1. Any thread.*/
    pub fn tenon_descriptor_release(descriptor: *mut tenon_descriptor);
    /**Open a descriptor that came from another process. The bytes are copied to private memory and validated whole before
 any of them is used; each segment is checked as tenon_open_fd does. The bytes of TENON_DESCRIPTOR_BYTES_ONLY name a
 process, and its memory is opened with the rights of this one. So that process must be of this process's effective user,
 unless TENON_OPEN_OTHER_USER says that whoever wrote the bytes is trusted with those rights.
 @param[in]  bytes    borrowed for the call; nobody is trusted about them; may be NULL if nbytes is 0.
 @param[in]  nbytes   how many; 0 bytes are as CORRUPT as any others that are too few.
 @param[in]  fds      borrowed array of n_fds fds, which stay the caller's (TENON_OPEN_ADOPT_FD: consumed on success);
                      NULL if n_fds is 0.
 @param[in]  n_fds    as many as the descriptor was made with.
 @param[in]  options  borrowed; NULL: defaults. As in tenon_open_fd.
 @param[out] out      new reference, release with tenon_message_release; untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h; detail "field" names the part that is wrong.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT, TENON_INCOMPATIBLE (version or feature not known),
         TENON_PERMISSION (bytes-only, of another user's process: details "option", "pid", "uid"), TENON_PEER_GONE
         (bytes-only, and its process or fd is gone), TENON_WOULD_BLOCK (bytes-only: a file lease is held on the memory, or
         its file system does not answer), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_descriptor_open(
        bytes: *const ::core::ffi::c_void,
        nbytes: usize,
        fds: *const i32,
        n_fds: usize,
        options: *const tenon_open_options,
        out: *mut *mut tenon_message,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Take a tensor from another framework, without a copy. The read-only flag is honoured. On the CPU its storage is private: it cannot be
 lent. On a CUDA device it can (tenon/by_cuda.h), and then the deleter waits for whoever it was lent to and for the streams that use it;
 what wrote it must be done, or in a stream that is named when it is lent.
 @param[in]  managed  consumed on success: its deleter is called once, when the last reference to the storage goes, on
                      the thread that released it. On failure it stays the caller's, who calls the deleter.
 @param[out] out      new reference, release with tenon_tensor_release; untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_INCOMPATIBLE (another major version: nothing of it was read),
         TENON_UNSUPPORTED (another device, no CUDA, an opaque dtype), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_tensor_from_dlpack(
        managed: *mut DLManagedTensorVersioned,
        out: *mut *mut tenon_tensor,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**As tenon_tensor_from_dlpack, for the form without a version, which cannot say read-only: the bytes count as writable.
 @param[in]  managed  consumed on success, as above.
 @param[out] out      new reference, release with tenon_tensor_release; untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_tensor_from_dlpack_legacy(
        managed: *mut DLManagedTensor,
        out: *mut *mut tenon_tensor,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Hand a tensor to another framework, without a copy. The flag READ_ONLY is set if its storage is read-only.
 @param[in]  tensor  borrowed; the result takes a reference of its own.
 @param[out] out     the caller's or the next consumer's, who calls its deleter once, on any thread; untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (conjugate or negative bit), TENON_RESOURCE_EXHAUSTED,
         TENON_PEER_GONE (the storage was dropped).
 @since 0.1. Any thread.*/
    pub fn tenon_tensor_to_dlpack(
        tensor: *mut tenon_tensor,
        out: *mut *mut DLManagedTensorVersioned,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**As tenon_tensor_to_dlpack, in the form without a version. Refused for a read-only tensor: the consumer could not know,
 and would be killed at its first write.
 @param[in]  tensor  borrowed; the result takes a reference of its own.
 @param[out] out     as above; untouched on failure.
 @param[out] err     optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (read-only), TENON_UNSUPPORTED, TENON_RESOURCE_EXHAUSTED,
         TENON_PEER_GONE (the storage was dropped).
 @since 0.1. Any thread.*/
    pub fn tenon_tensor_to_dlpack_legacy(
        tensor: *mut tenon_tensor,
        out: *mut *mut DLManagedTensor,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Who holds leases, one entry for each connection that does.
 @param[in,out] out    array of n; out[0].struct_size set by the caller is the size of each, and is written to the others;
                       may be NULL if n is 0; untouched on failure.
 @param[in]     n      room in `out`.
 @param[out]    total  how many there are; the first n of them are in `out`.
 @param[out]    err    optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_lease_holders(
        out: *mut tenon_lease_holder,
        n: usize,
        total: *mut usize,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Have no thread: from now on the process itself looks after what ends, by polling tenon_lease_fd and calling
 tenon_lease_poll. Before the first lend and the first use of a name. A child of fork inherits the choice.
 @param[out] err  optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (the thread runs already).
 @since 0.1. Any thread.*/
    pub fn tenon_lease_use_no_thread(err: *mut *mut tenon_error) -> tenon_status;
    /**The fd to poll, readable when tenon_lease_poll has something to do. Without a thread only.
 @param[out] out  borrowed; another one in a child of fork; untouched on failure.
 @param[out] err  optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED (fds).
 @since 0.1. Any thread.*/
    pub fn tenon_lease_fd(out: *mut i32, err: *mut *mut tenon_error) -> tenon_status;
    /**Do what is due: leases of borrowers that are gone, names, doorbells. Never blocks; about a millisecond at most, and the
 fd stays readable if there is more. But the end of memory that a device has pinned may wait for the device.
 @param[out] err  optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT (the process has a thread for it), TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread; of calls at once one works and the others return.*/
    pub fn tenon_lease_poll(err: *mut *mut tenon_error) -> tenon_status;
    /**Fill in the figures.
 @param[in,out] out  the caller's; out->struct_size says how much may be written; untouched on failure.
 @param[out]    err  optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT.
 @since 0.1. Any thread.*/
    pub fn tenon_stats_get(
        out: *mut tenon_stats,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**The version of the library that is loaded (which may be newer than this header).
 @return "MAJOR.MINOR.PATCH"; static storage, never NULL.
 @since 0.1. Any thread, any time.*/
    pub fn tenon_version_string() -> *const ::core::ffi::c_char;
    /**The version of the library that is loaded, as one number: MAJOR * 1000000 + MINOR * 1000 + PATCH.
 @return the number.
 @since 0.1. Any thread, any time.*/
    pub fn tenon_version_number() -> u32;
    /**The ABI of the library that is loaded. Compare it with TENON_ABI_VERSION before the first other call.
 @return the ABI version.
 @since 0.1. Any thread, any time.*/
    pub fn tenon_abi_version() -> u32;
    /**Make a weak reference to a storage.
 @param[in]  storage  borrowed.
 @param[out] out      new reference, release with tenon_weak_release; untouched on failure.
 @param[out] err      optional, see rule 2 in tenon.h.
 @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 @since 0.1. Any thread.*/
    pub fn tenon_weak_ref(
        storage: *mut tenon_storage,
        out: *mut *mut tenon_weak,
        err: *mut *mut tenon_error,
    ) -> tenon_status;
    /**Take one more reference to the same weak object. The storage may have expired; it is not asked.
 @param[in] weak  borrowed; NULL is allowed.
 @return `weak`, now with one reference more, to be released too.
 @since 0.1. Any thread.*/
    pub fn tenon_weak_retain(weak: *mut tenon_weak) -> *mut tenon_weak;
    /**Get the storage back, if it is still alive. A race with its last release has one winner: either this call returns a
 storage that is whole, or NULL.
 @param[in] weak  borrowed; NULL is allowed.
 @return a new strong reference, release with tenon_storage_release; NULL: expired (or `weak` is NULL).
 @since 0.1. Any thread.*/
    pub fn tenon_weak_lock(weak: *const tenon_weak) -> *mut tenon_storage;
    /**Whether the storage is gone. Once 1, always 1.
 @param[in] weak  borrowed; NULL is allowed.
 @return 1 if expired or NULL, else 0 (which may be out of date at once: use tenon_weak_lock to be sure).
 @since 0.1. Any thread.*/
    pub fn tenon_weak_expired(weak: *const tenon_weak) -> ::core::ffi::c_int;
    /**The id of the storage, the same number as its tenon_storage_id, also after it expired.
 @param[in] weak  borrowed; NULL is allowed.
 @return the id, > 0; 0 for NULL.
 @since 0.1. Any thread.*/
    pub fn tenon_weak_id(weak: *const tenon_weak) -> u64;
    /**Give a weak reference back. What others hold of the same storage stays.
 @param[in] weak  consumed; NULL is allowed.
 @since 0.1. Any thread.*/
    pub fn tenon_weak_release(weak: *mut tenon_weak);
}
