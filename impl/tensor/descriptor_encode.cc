#include <cstring>

#include "base/checked.h"
#include "tensor/descriptor.h"
#include "tensor/descriptor_wire.h"

namespace tenon::tensor {
namespace {

void store_bytes(std::byte* target, const void* source, size_t nbytes) noexcept {
  if (nbytes != 0) std::memcpy(target, source, nbytes);
}

wire::Header make_header(const DescriptorContent& content, uint64_t n_dims, uint64_t names_nbytes) {
  const std::array<uint64_t, wire::kSectionCount> counts = {
      content.segments.size(),  content.storages.size(), content.tensors.size(), n_dims, names_nbytes,
      content.forgotten.size(), content.user.size()};
  wire::Header header{};
  header.magic = wire::kMagic;
  header.major = wire::kMajor;
  header.minor = wire::kMinor;
  header.header_nbytes = sizeof(wire::Header);
  header.compat = content.leased ? wire::kCompatLeased : 0;
  header.sender_pid = content.sender_pid;
  header.boot_id = content.boot_id;
  header.pid_namespace = content.pid_namespace;
  uint64_t cursor = sizeof(wire::Header);
  for (size_t i = 0; i < wire::kSectionCount; ++i) {
    header.sections[i] = {cursor, counts[i], wire::kRecordNbytes[i], 0};
    cursor = round_up(cursor + counts[i] * wire::kRecordNbytes[i], wire::kAlignment);
  }
  header.total_nbytes = cursor;
  return header;
}

// Fields that a segment's reach has no use for get the one value that the decoder accepts.
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

void store_storages(std::byte* target, const DescriptorContent& content) noexcept {
  for (const StorageRecord& storage : content.storages) {
    const wire::Storage record{storage.offset, storage.nbytes, storage.segment, 0};
    std::memcpy(target, &record, sizeof(record));
    target += sizeof(record);
  }
}

// Dims and names are laid out anew, in the order of the tensors, as the format wants them: tensors of one shape may share their dims in
// `content`, but not in the bytes.
void store_tensors(std::byte* tensors, std::byte* dims, std::byte* names, const DescriptorContent& content) noexcept {
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
    store_bytes(dims + size_t{n_dims} * sizeof(int64_t), content.dims.data() + tensor.dims, size_t{2} * tensor.ndim * sizeof(int64_t));
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
}

}  // namespace

std::vector<std::byte> encode_descriptor(const DescriptorContent& content, size_t ahead) {
  uint64_t n_dims = 0;
  uint64_t names_nbytes = 0;
  for (const TensorRecord& tensor : content.tensors) {
    n_dims += uint64_t{2} * tensor.ndim;
    if (tensor.has_name) names_nbytes += tensor.name_nbytes;
  }
  wire::Header header = make_header(content, n_dims, names_nbytes);
  std::vector<std::byte> bytes(ahead + header.total_nbytes);
  std::byte* const begin = bytes.data() + ahead;
  const auto section = [&](wire::SectionIndex index) { return begin + header.sections[index].offset; };
  store_segments(section(wire::kSegments), content);
  store_storages(section(wire::kStorages), content);
  store_tensors(section(wire::kTensors), section(wire::kDims), section(wire::kNames), content);
  store_bytes(section(wire::kForgotten), content.forgotten.data(), content.forgotten.size() * sizeof(uint64_t));
  store_bytes(section(wire::kUser), content.user.data(), content.user.size());
  store_bytes(begin, &header, sizeof(header));
  header.crc32 = wire::checksum(begin, header.total_nbytes);
  store_bytes(begin, &header, sizeof(header));
  return bytes;
}

}  // namespace tenon::tensor
