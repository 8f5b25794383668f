// The bytes of a descriptor as structs, in versions 1.0 and 1.1. A descriptor lists segments of
// memory, the storages in them, and the tensors in the storages. docs/format/descriptor.md
// specifies every field. descriptor.cc reads and checks these structs, and descriptor_encode.cc
// writes them. The numbers here may never change.
//
// A field that is not used is 0, `reserved` included (proc_fd: -1). Otherwise the reader refuses
// the descriptor. Offsets and lengths are in bytes, except in Tensor and Composite, where `offset`
// and strides are in elements. A field that is named after a table is an index in that table.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tenon::tensor::wire {

static_assert(std::endian::native == std::endian::little,
              "the descriptor is little-endian and is copied as it stands");

inline constexpr std::array<uint8_t, 8> kMagic = {'T', 'E', 'N', 'O', 'N', 'D', 'S', 'C'};
inline constexpr uint16_t kMajor = 1;
inline constexpr uint16_t kMinor = 1;
// Feature bits. A reader refuses a descriptor with an unknown bit in Header::incompat
// (INCOMPATIBLE), and ignores unknown bits in Header::compat.
inline constexpr uint64_t kIncompatComposites = 1;  // there are composites
inline constexpr uint64_t kKnownIncompat = kIncompatComposites;
inline constexpr uint64_t kCompatLeased = 1;      // lease tokens follow the fds of the segments
inline constexpr uint64_t kCompatEmptyModes = 2;  // Storage::mode and access are set
// Every section begins at a multiple of this, counted from the start of the descriptor.
inline constexpr size_t kAlignment = 8;
inline constexpr uint64_t kMaxUserNbytes = 65536;

// Numbers of the format. descriptor.cc asserts that memory::Mode and memory::Access have the same
// numbers, and tests check those of the C header.
inline constexpr uint16_t kModeShared = 0;
inline constexpr uint16_t kModeLenderWrites = 1;
inline constexpr uint16_t kModeFrozen = 2;
inline constexpr uint32_t kAccessReadOnly = 1;
inline constexpr uint32_t kAccessWritable = 2;
inline constexpr uint32_t kTensorFlags = 0xf;  // requires grad, is a parameter, conjugated, negated

// The tables, in the order in which they lie behind the header. kDims has the sizes and then the
// strides of each tensor, kNames the bytes of all names without separators, kForgotten the ids of
// segments that the sender will not use again, and kUser the caller's own bytes.
enum SectionIndex : size_t {
  kSegments,
  kStorages,
  kTensors,
  kDims,
  kNames,
  kForgotten,
  kUser,
  kComposites,     // from version 1.1 on
  kCompositeDims,  // from version 1.1 on
  kSectionCount
};

struct Section {
  uint64_t offset;  // from the start of the descriptor
  uint64_t count;
  uint32_t record_nbytes;
  uint32_t reserved;
};

struct Header {
  std::array<uint8_t, 8> magic;
  uint16_t major;
  uint16_t minor;
  uint32_t header_nbytes;
  uint64_t total_nbytes;
  uint64_t incompat;
  uint64_t compat;
  uint32_t crc32;  // checksum()
  int32_t sender_pid;
  std::array<uint8_t, 16> boot_id;
  uint64_t pid_namespace;
  std::array<Section, kSectionCount> sections;  // version 1.0 has only the first kSections10
};
inline constexpr size_t kSections10 = kComposites;
inline constexpr size_t kHeaderNbytes10 =
    sizeof(Header) - (kSectionCount - kSections10) * sizeof(Section);

// A segment, and how the reader reaches it: `reach` is a tensor::Reach (descriptor.h), and says
// which of `fd_index`, `pid` and `proc_fd` are used. `id` is the sender's number for the segment on
// a connection. `device`, `inode` and `nonce` identify its file. `mode` and `access` are the
// sender's claims, and the reader believes the fd.
struct Segment {
  uint64_t id;
  uint64_t nbytes;
  uint64_t device;
  uint64_t inode;
  std::array<uint8_t, 16> nonce;
  uint32_t fd_index;
  int32_t pid;
  int32_t proc_fd;
  uint16_t reach;
  uint16_t mode;
  uint32_t access;
  uint32_t reserved;
};

// A storage takes mode and access from its segment. An empty storage of the host has no segment
// (0xffffffff), so its record has them itself, from version 1.1 on and with kCompatEmptyModes. They
// are 0 for every other storage.
struct Storage {
  uint64_t offset;
  uint64_t nbytes;
  uint32_t segment;
  uint32_t reserved;
  uint32_t mode;
  uint32_t access;
};
inline constexpr size_t kStorageNbytes10 = 24;

// `dims` is the index of the tensor's first size, and `name` that of the first byte of its name.
// Each tensor's dims and name begin where those of the tensor before end.
struct Tensor {
  uint64_t offset;
  uint32_t storage;
  uint32_t dims;
  uint32_t ndim;
  uint32_t flags;
  uint32_t name;
  uint32_t name_nbytes;
  uint8_t dtype_code;
  uint8_t dtype_bits;
  uint16_t dtype_lanes;
  uint32_t has_name;
};

// A sparse, nested or quantised tensor, which consists of `parts` tensors from `first_part` on, or
// a tensor on meta, which has none. `dims` is an index in kCompositeDims. docs/format/descriptor.md
// says which fields a layout uses.
struct Composite {
  uint32_t layout;
  uint32_t flags;
  uint32_t first_part;
  uint32_t parts;
  uint32_t dims;
  uint32_t ndim;
  uint32_t name;
  uint32_t name_nbytes;
  uint32_t has_name;
  uint32_t coalesced;
  uint32_t quantizer;
  int32_t dim;
  double scale;
  int64_t zero_point;
  uint64_t offset;
  uint8_t dtype_code;
  uint8_t dtype_bits;
  uint16_t dtype_lanes;
  uint32_t reserved;
};

static_assert(sizeof(Section) == 24 && kHeaderNbytes10 == 240 && sizeof(Header) == 288 &&
              sizeof(Segment) == 72);
static_assert(sizeof(Storage) == 32 && sizeof(Tensor) == 40 && sizeof(Composite) == 80);
static_assert(offsetof(Header, major) == 8 && offsetof(Header, incompat) == 24 &&
              offsetof(Header, crc32) == 40);
static_assert(offsetof(Header, boot_id) == 48 && offsetof(Header, sections) == 72);
static_assert(offsetof(Segment, nonce) == 32 && offsetof(Segment, reach) == 60 &&
              offsetof(Segment, reserved) == 68);
static_assert(offsetof(Composite, scale) == 48 && offsetof(Composite, dtype_code) == 72);
static_assert(offsetof(Storage, segment) == 16 && offsetof(Storage, mode) == kStorageNbytes10 &&
              offsetof(Tensor, dtype_code) == 32 && offsetof(Tensor, has_name) == 36);

// The size of one record of each section, in versions 1.0 and 1.1.
inline constexpr std::array<uint32_t, kSections10> kRecordNbytes10 = {
    sizeof(Segment), kStorageNbytes10, sizeof(Tensor), sizeof(int64_t), 1, sizeof(uint64_t), 1};
inline constexpr std::array<uint32_t, kSectionCount> kRecordNbytes = {
    sizeof(Segment),   sizeof(Storage), sizeof(Tensor), sizeof(int64_t), 1, sizeof(uint64_t), 1,
    sizeof(Composite), sizeof(int64_t)};
// Sections whose records a later minor version may lengthen. The others are plain numbers and
// bytes.
inline constexpr std::array<bool, kSectionCount> kRecordGrows = {true,  true,  true, false, false,
                                                                 false, false, true, false};
inline constexpr std::array<const char*, kSectionCount> kSectionName = {
    "segments",  "storages", "tensors",    "dims",          "names",
    "forgotten", "user",     "composites", "composite dims"};

// The CRC-32 (as in zip) of a whole descriptor of at least kHeaderNbytes10 bytes. The four bytes of
// Header::crc32 count as 0, whatever they are.
uint32_t checksum(const std::byte* bytes, size_t nbytes) noexcept;

}  // namespace tenon::tensor::wire
