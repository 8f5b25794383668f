// Writes the bytes of a descriptor: encode_descriptor() (descriptor.h). descriptor.cc reads them.
#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "tensor/descriptor.h"
#include "tensor/descriptor_wire.h"

namespace tenon::tensor {
namespace {

void store_bytes(std::byte* target, const void* source, size_t nbytes) noexcept {
  if (nbytes != 0) std::memcpy(target, source, nbytes);
}

struct Counts {
  uint64_t dims = 0;
  uint64_t names_nbytes = 0;
  uint64_t composite_dims = 0;
};

Counts count(const DescriptorContent& content) noexcept {
  Counts counts;
  for (const TensorRecord& tensor : content.tensors) {
    counts.dims += uint64_t{2} * tensor.ndim;
    if (tensor.has_name) counts.names_nbytes += tensor.name_nbytes;
  }
  for (const CompositeRecord& composite : content.composites) {
    counts.composite_dims += composite.n_dims();
    if (composite.has_name) counts.names_nbytes += composite.name_nbytes;
  }
  return counts;
}

bool tells_empty_modes(const DescriptorContent& content) noexcept {
  return std::ranges::any_of(content.storages, [](const StorageRecord& storage) {
    return storage.mode != 0 || storage.access != 0;
  });
}

// Makes the header. A content that version 1.0 can express is encoded in version 1.0, which every
// reader knows.
wire::Header make_header(const DescriptorContent& content, const Counts& n) {
  const std::array<uint64_t, wire::kSectionCount> counts = {
      content.segments.size(), content.storages.size(),
      content.tensors.size(),  n.dims,
      n.names_nbytes,          content.forgotten.size(),
      content.user.size(),     content.composites.size(),
      n.composite_dims};
  const bool empty_modes = tells_empty_modes(content);
  const bool has_composites = !content.composites.empty();
  const bool newer = empty_modes || has_composites;
  const size_t n_sections = newer ? wire::kSectionCount : wire::kSections10;
  const uint32_t* const record_nbytes =
      newer ? wire::kRecordNbytes.data() : wire::kRecordNbytes10.data();
  wire::Header header{};
  header.magic = wire::kMagic;
  header.major = wire::kMajor;
  header.minor = newer ? wire::kMinor : 0;
  header.header_nbytes = newer ? sizeof(wire::Header) : wire::kHeaderNbytes10;
  header.incompat = has_composites ? wire::kIncompatComposites : 0;
  header.compat =
      (content.leased ? wire::kCompatLeased : 0) | (empty_modes ? wire::kCompatEmptyModes : 0);
  header.sender_pid = content.sender_pid;
  header.boot_id = content.boot_id;
  header.pid_namespace = content.pid_namespace;
  uint64_t cursor = header.header_nbytes;
  for (size_t i = 0; i < n_sections; ++i) {
    header.sections[i] = {cursor, counts[i], record_nbytes[i], 0};
    cursor = round_up(cursor + counts[i] * record_nbytes[i], wire::kAlignment);
  }
  header.total_nbytes = cursor;
  return header;
}

// Fields that a segment's reach does not use get the one value that the decoder accepts.
void store_segments(std::byte* target, const DescriptorContent& content) noexcept {
  for (const SegmentRecord& segment : content.segments) {
    const bool by_fd = segment.reach == Reach::kFd || segment.reach == Reach::kDevice;
    const bool by_proc = segment.reach == Reach::kProc;
    wire::Segment record{};
    record.id = segment.id;
    record.nbytes = segment.nbytes;
    record.device = segment.device;
    record.inode = segment.inode;
    record.nonce = segment.nonce;
    record.fd_index = by_fd ? segment.fd_index : 0;
    record.pid = by_proc ? segment.pid : 0;
    record.proc_fd = by_proc ? segment.proc_fd : -1;
    record.reach = static_cast<uint16_t>(segment.reach);
    record.mode = segment.mode;
    record.access = segment.access;
    std::memcpy(target, &record, sizeof(record));
    target += sizeof(record);
  }
}

void store_storages(std::byte* target, const DescriptorContent& content,
                    size_t record_nbytes) noexcept {
  for (const StorageRecord& storage : content.storages) {
    const wire::Storage record{storage.offset, storage.nbytes, storage.segment, 0,
                               storage.mode,   storage.access};
    std::memcpy(target, &record, record_nbytes);
    target += record_nbytes;
  }
}

// Stores tensors, dims and names. Dims and names are laid out anew in the order of the tensors, as
// the format requires. Tensors of one shape may share their dims in `content`, but not in the
// bytes.
uint32_t store_tensors(std::byte* tensors, std::byte* dims, std::byte* names,
                       const DescriptorContent& content) noexcept {
  uint32_t n_dims = 0;
  uint32_t names_nbytes = 0;
  for (const TensorRecord& tensor : content.tensors) {
    wire::Tensor record{};
    record.offset = tensor.offset;
    record.storage = tensor.storage;
    record.dims = n_dims;
    record.ndim = tensor.ndim;
    record.flags = tensor.flags;
    record.dtype_code = tensor.dtype.code;
    record.dtype_bits = tensor.dtype.bits;
    record.dtype_lanes = tensor.dtype.lanes;
    store_bytes(dims + size_t{n_dims} * sizeof(int64_t), content.dims.data() + tensor.dims,
                size_t{2} * tensor.ndim * sizeof(int64_t));
    n_dims += 2 * tensor.ndim;
    if (tensor.has_name) {
      record.has_name = 1;
      record.name = names_nbytes;
      record.name_nbytes = tensor.name_nbytes;
      store_bytes(names + names_nbytes, content.names.data() + tensor.name, tensor.name_nbytes);
      names_nbytes += tensor.name_nbytes;
    }
    std::memcpy(tensors, &record, sizeof(record));
    tensors += sizeof(record);
  }
  return names_nbytes;
}

// Stores the composites. Their names follow those of the tensors, at `names_nbytes`.
void store_composites(std::byte* composites, std::byte* dims, std::byte* names,
                      uint32_t names_nbytes, const DescriptorContent& content) noexcept {
  uint32_t n_dims = 0;
  for (const CompositeRecord& composite : content.composites) {
    wire::Composite record{};
    record.layout = static_cast<uint32_t>(composite.layout);
    record.flags = composite.flags;
    record.first_part = composite.first_part;
    record.parts = composite.parts;
    record.dims = n_dims;
    record.ndim = composite.ndim;
    record.coalesced = static_cast<uint32_t>(composite.coalesced);
    record.quantizer = static_cast<uint32_t>(composite.quantizer);
    record.dim = composite.dim;
    record.scale = composite.scale;
    record.zero_point = composite.zero_point;
    record.offset = composite.offset;
    record.dtype_code = composite.dtype.code;
    record.dtype_bits = composite.dtype.bits;
    record.dtype_lanes = composite.dtype.lanes;
    const size_t own_dims = composite.n_dims();
    store_bytes(dims + size_t{n_dims} * sizeof(int64_t),
                content.composite_dims.data() + composite.dims, own_dims * sizeof(int64_t));
    n_dims += static_cast<uint32_t>(own_dims);
    if (composite.has_name) {
      record.has_name = 1;
      record.name = names_nbytes;
      record.name_nbytes = composite.name_nbytes;
      store_bytes(names + names_nbytes, content.names.data() + composite.name,
                  composite.name_nbytes);
      names_nbytes += composite.name_nbytes;
    }
    std::memcpy(composites, &record, sizeof(record));
    composites += sizeof(record);
  }
}

}  // namespace

std::vector<std::byte> encode_descriptor(const DescriptorContent& content, size_t ahead) {
  wire::Header header = make_header(content, count(content));
  std::vector<std::byte> bytes(ahead + header.total_nbytes);
  std::byte* const begin = bytes.data() + ahead;
  const auto section = [&](wire::SectionIndex index) {
    return begin + header.sections[index].offset;
  };
  store_segments(section(wire::kSegments), content);
  store_storages(section(wire::kStorages), content, header.sections[wire::kStorages].record_nbytes);
  const uint32_t names_nbytes =
      store_tensors(section(wire::kTensors), section(wire::kDims), section(wire::kNames), content);
  store_composites(section(wire::kComposites), section(wire::kCompositeDims), section(wire::kNames),
                   names_nbytes, content);
  store_bytes(section(wire::kForgotten), content.forgotten.data(),
              content.forgotten.size() * sizeof(uint64_t));
  store_bytes(section(wire::kUser), content.user.data(), content.user.size());
  store_bytes(begin, &header, header.header_nbytes);
  header.crc32 = wire::checksum(begin, header.total_nbytes);
  store_bytes(begin, &header, header.header_nbytes);
  return bytes;
}

}  // namespace tenon::tensor
