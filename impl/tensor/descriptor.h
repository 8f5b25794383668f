// Encodes, decodes and validates the bytes of a descriptor, which docs/format/descriptor.md
// specifies. This file knows nothing of fds or mappings.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tensor/composite_rules.h"
#include "tensor/dtype.h"

namespace tenon::tensor {

// The way in which the opener gets to the memory of a segment.
enum class Reach : uint16_t {
  kFd = 1,  // fd number `fd_index` of the fds that travel with the bytes
  // A segment that crossed this connection before, under `id`. In a deposited message: the segment
  // whose serial in the depot is `id`, whose fd the receiver asks for (channel/ticket.h).
  kKnown = 2,
  kProc = 3,  // /proc/<pid>/fd/<proc_fd>, checked by device, inode, size and nonce
  // Memory of a device: number `fd_index` of the device segments that a connection sends ahead of
  // the descriptor.
  kDevice = 4,
};

struct SegmentRecord {
  // The sender's number for the segment on this connection (channel/segment_numbers.h), or the
  // serial of kKnown in a deposited message. Otherwise 0.
  uint64_t id = 0;
  Reach reach = Reach::kFd;
  uint16_t mode = 0;    // TENON_MODE_*
  uint32_t access = 0;  // TENON_ACCESS_READ_ONLY or TENON_ACCESS_WRITABLE
  uint64_t nbytes = 0;
  uint64_t device = 0;  // st_dev and st_ino as the sender sees them; kProc compares them
  uint64_t inode = 0;
  std::array<uint8_t, 16> nonce{};  // part of the memfd's name
  uint32_t fd_index = 0;
  int32_t pid = 0;
  int32_t proc_fd = -1;
};

inline constexpr uint32_t kNoSegment = 0xffffffffU;  // an empty storage

struct StorageRecord {
  uint32_t segment = kNoSegment;  // index into segments
  uint64_t offset = 0;
  uint64_t nbytes = 0;
  // Mode and access of an empty storage of the host, which has no segment to tell them. 0: not
  // told.
  uint32_t mode = 0;
  uint32_t access = 0;
};

struct TensorRecord {
  uint32_t storage = 0;  // index into storages
  DType dtype;
  uint32_t ndim = 0;
  uint32_t flags = 0;   // TENON_TENSOR_*
  uint64_t offset = 0;  // elements
  uint32_t dims = 0;    // index into DescriptorContent::dims of ndim sizes, then ndim strides
  uint32_t name = 0;    // the beginning of the name in DescriptorContent::names
  uint32_t name_nbytes = 0;
  bool has_name = false;
};

struct CompositeRecord {
  TensorLayout layout = TensorLayout::kStrided;
  Coalesced coalesced = Coalesced::kUnknown;
  QScheme quantizer = QScheme::kNone;
  uint32_t flags = 0;
  uint32_t first_part = 0;  // index into tensors, the other parts follow
  uint32_t parts = 0;
  // Index into DescriptorContent::composite_dims of ndim sizes, then, on meta, ndim strides.
  uint32_t dims = 0;
  uint32_t ndim = 0;
  uint32_t name = 0;  // as in TensorRecord
  uint32_t name_nbytes = 0;
  bool has_name = false;
  int32_t dim = 0;
  double scale = 0;
  int64_t zero_point = 0;
  uint64_t offset = 0;
  DType dtype{};

  size_t n_dims() const noexcept { return layout == TensorLayout::kMeta ? size_t{2} * ndim : ndim; }
};

// The contents of a message. The tables are flat, so that 10,000 tensors need only a few
// allocations.
struct DescriptorContent {
  int32_t sender_pid = 0;
  std::array<uint8_t, 16> boot_id{};  // of the machine; kProc compares it
  uint64_t pid_namespace = 0;         // inode of the sender's pid namespace; kProc compares it
  std::vector<SegmentRecord> segments;
  std::vector<StorageRecord> storages;
  std::vector<TensorRecord> tensors;
  std::vector<int64_t> dims;
  std::string names;  // all names, one after another, no separators
  // Segment ids that the sender will not use again on this connection.
  std::vector<uint64_t> forgotten;
  std::vector<std::byte> user;
  std::vector<CompositeRecord> composites;
  std::vector<int64_t> composite_dims;
  // The fds after those of the segments are tokens: their lenders keep the lent memory as long as
  // copies of the tokens are open.
  bool leased = false;
};

struct DescriptorLimits {
  uint64_t max_nbytes = uint64_t{64} << 20;
  uint64_t max_tensors = 1'000'000;  // also the most storages and the most composites
  uint64_t max_segments = 65'536;
};

// Encodes a content, which the caller has made and which is not checked. `ahead`: the number of
// bytes to leave free in front, which the caller fills.
std::vector<std::byte> encode_descriptor(const DescriptorContent& content, size_t ahead = 0);

// Decodes and validates a descriptor. `bytes` must be private to this process, because a peer that
// can still change them could do so after the checks. `n_fds` is the number of fds that came with
// the bytes, `n_devices` the number of device segments. Everything is validated before the result
// exists: magic, versions, feature words, checksum, section bounds, every index, every name, every
// layout against its storage, every storage against its segment. CORRUPT for whatever is wrong, and
// INCOMPATIBLE for a later format, both with the detail `field`. RESOURCE_EXHAUSTED, with the
// detail `limit`, beyond `limits`.
Result<DescriptorContent> decode_descriptor(std::span<const std::byte> bytes, uint64_t n_fds,
                                            const DescriptorLimits& limits, uint64_t n_devices = 0);

}  // namespace tenon::tensor
