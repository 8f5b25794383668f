// The tests of descriptors use these contents. unsound() is a second implementation of the checks
// that make a content sound.
#pragma once

#include <tenon/by_fd.h>
#include <tenon/tensor.h>

#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tensor/descriptor.h"
#include "tensor/descriptor_wire.h"
#include "tensor/layout.h"

namespace tenon::tensor::test {

using Bytes = std::vector<std::byte>;
__extension__ using Wide = __int128;

inline constexpr DType kFloat32{TENON_DTYPE_FLOAT, 32, 1};

template <typename T>
T get(const Bytes& bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

template <typename T>
void put(Bytes* bytes, size_t offset, T value) {
  std::memcpy(bytes->data() + offset, &value, sizeof(value));
}

// Writes the right size and checksum into changed bytes, so that the decoder reaches the later
// checks.
inline void fix_sum(Bytes* bytes) {
  put<uint64_t>(bytes, 16, bytes->size());
  put<uint32_t>(bytes, 40, wire::checksum(bytes->data(), bytes->size()));
}

// Returns the offset of record `i` of a section.
inline size_t record_at(const Bytes& bytes, wire::SectionIndex section, size_t i = 0) {
  const size_t entry = 72 + 24 * static_cast<size_t>(section);
  return get<uint64_t>(bytes, entry) + i * get<uint32_t>(bytes, entry + 16);
}

inline void add_tensor(DescriptorContent* content, uint32_t storage, DType dtype,
                       const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                       uint64_t offset = 0, const char* name = nullptr, uint32_t flags = 0) {
  TensorRecord tensor;
  tensor.storage = storage;
  tensor.dtype = dtype;
  tensor.ndim = static_cast<uint32_t>(sizes.size());
  tensor.flags = flags;
  tensor.offset = offset;
  tensor.dims = static_cast<uint32_t>(content->dims.size());
  content->dims.insert(content->dims.end(), sizes.begin(), sizes.end());
  content->dims.insert(content->dims.end(), strides.begin(), strides.end());
  if (name != nullptr) {
    tensor.has_name = true;
    tensor.name = static_cast<uint32_t>(content->names.size());
    tensor.name_nbytes = static_cast<uint32_t>(std::strlen(name));
    content->names += name;
  }
  content->tensors.push_back(tensor);
}

inline SegmentRecord fd_segment(uint64_t nbytes, uint32_t fd_index = 0) {
  SegmentRecord segment;
  segment.reach = Reach::kFd;
  segment.mode = TENON_MODE_SHARED;
  segment.access = TENON_ACCESS_WRITABLE;
  segment.nbytes = nbytes;
  segment.fd_index = fd_index;
  return segment;
}

// Returns one float32 tensor of 2 x 3 in a segment of one page.
inline DescriptorContent one_tensor() {
  DescriptorContent content;
  content.sender_pid = 4711;
  content.segments = {fd_segment(4096)};
  content.storages = {{0, 64, 24}};
  add_tensor(&content, 0, kFloat32, {2, 3}, {3, 1}, 0, "weight");
  return content;
}

// Returns a content with one of everything that version 1.0 can say. The content needs two fds.
inline DescriptorContent everything() {
  DescriptorContent content;
  content.sender_pid = 4711;
  content.pid_namespace = 4026531836;
  for (size_t i = 0; i < 16; ++i) content.boot_id[i] = static_cast<uint8_t>(0xb0 + i);

  SegmentRecord shared = fd_segment(uint64_t{1} << 40, 1);
  shared.id = 1;
  shared.device = 25;
  shared.inode = 1001;
  SegmentRecord lender_writes = fd_segment(1 << 20, 0);
  lender_writes.id = 2;
  lender_writes.mode = TENON_MODE_LENDER_WRITES;
  lender_writes.access = TENON_ACCESS_READ_ONLY;
  SegmentRecord known;
  known.id = 3;
  known.reach = Reach::kKnown;
  known.mode = TENON_MODE_FROZEN;
  known.access = TENON_ACCESS_READ_ONLY;
  known.nbytes = 8192;
  SegmentRecord proc;
  proc.reach = Reach::kProc;
  proc.mode = TENON_MODE_SHARED;
  proc.access = TENON_ACCESS_READ_ONLY;
  proc.nbytes = 4096;
  proc.device = 25;
  proc.inode = 1004;
  proc.pid = 4711;
  proc.proc_fd = 17;
  for (size_t i = 0; i < 16; ++i) proc.nonce[i] = static_cast<uint8_t>(i);
  content.segments = {shared, lender_writes, known, proc};
  content.storages = {{0, (uint64_t{1} << 40) - 4096, 4096},
                      {1, 0, 1 << 20},
                      {2, 64, 256},
                      {3, 0, 64},
                      {kNoSegment, 0, 0},
                      {0, 128, 64}};

  add_tensor(&content, 0, kFloat32, {16, 64}, {64, 1}, 0, "encoder.weight",
             TENON_TENSOR_REQUIRES_GRAD | TENON_TENSOR_IS_PARAMETER);
  add_tensor(&content, 0, kFloat32, {64, 16}, {1, 64}, 0, "encoder.weight.T");
  add_tensor(&content, 0, kFloat32, {1024}, {-1}, 1023,
             "r\xc3\xbc"
             "ckw\xc3\xa4rts \xf0\x9f\x94\xa7");
  add_tensor(&content, 1, {TENON_DTYPE_COMPLEX, 64, 1}, {1000, 5}, {0, 2}, 7, nullptr,
             TENON_TENSOR_CONJ);
  add_tensor(&content, 1, {TENON_DTYPE_COMPLEX, 128, 1}, {}, {}, 3, "",
             TENON_TENSOR_CONJ | TENON_TENSOR_NEG);
  add_tensor(&content, 2, {TENON_DTYPE_FLOAT4_E2M1FN, 4, 1}, {3, 5}, {5, 1}, 2, "fp4");
  add_tensor(&content, 2, {TENON_DTYPE_FLOAT8_E4M3FN, 8, 1}, {256}, {1}, 0, "fp8");
  add_tensor(&content, 2, {TENON_DTYPE_INT, 8, 4}, {2, 1, 1}, {4, 99, -99}, 0, "lanes");
  add_tensor(&content, 3, {TENON_DTYPE_BFLOAT, 16, 1}, std::vector<int64_t>(64, 1),
             std::vector<int64_t>(64, 1), 31, "deep");
  add_tensor(&content, 4, {TENON_DTYPE_BOOL, 8, 1}, {0, 7}, {7, 1}, 0, "empty");
  add_tensor(&content, 5, {TENON_DTYPE_UINT, 64, 1}, {8}, {1});
  content.forgotten = {9, 7, 0xffffffffffffffff};
  for (int i = 0; i < 13; ++i) content.user.push_back(static_cast<std::byte>(i));
  return content;
}

inline SegmentRecord device_segment(uint64_t nbytes, uint32_t index = 0) {
  SegmentRecord segment = fd_segment(nbytes, index);
  segment.reach = Reach::kDevice;
  return segment;
}

// Returns tensors in memory of devices, and one in memory of the host. The content needs one fd and
// three device segments.
inline DescriptorContent on_devices() {
  DescriptorContent content;
  content.sender_pid = 4711;
  content.segments = {device_segment(4096, 2), fd_segment(4096), device_segment(0, 0),
                      device_segment(uint64_t{1} << 40, 1)};
  content.segments[1].id = 1;
  content.segments[3].access = TENON_ACCESS_READ_ONLY;
  content.storages = {{0, 64, 24}, {1, 0, 4096},
                      {2, 0, 0},   {3, (uint64_t{1} << 40) - 512, 512},
                      {0, 0, 0},   {kNoSegment, 0, 0}};
  add_tensor(&content, 0, kFloat32, {2, 3}, {3, 1}, 0, "weight");
  add_tensor(&content, 1, kFloat32, {1024}, {1}, 0, "host");
  add_tensor(&content, 2, kFloat32, {0, 7}, {7, 1}, 0, "empty on a device");
  add_tensor(&content, 3, {TENON_DTYPE_BFLOAT, 16, 1}, {256}, {1}, 0, "last");
  add_tensor(&content, 4, kFloat32, {0}, {1});
  add_tensor(&content, 5, kFloat32, {0}, {1}, 0, "empty");
  return content;
}

inline void add_composite(DescriptorContent* content, CompositeRecord record,
                          const std::vector<int64_t>& dims = {}, const char* name = nullptr) {
  record.dims = static_cast<uint32_t>(content->composite_dims.size());
  record.ndim =
      static_cast<uint32_t>(record.layout == TensorLayout::kMeta ? dims.size() / 2 : dims.size());
  content->composite_dims.insert(content->composite_dims.end(), dims.begin(), dims.end());
  if (name != nullptr) {
    record.has_name = true;
    record.name = static_cast<uint32_t>(content->names.size());
    record.name_nbytes = static_cast<uint32_t>(std::strlen(name));
    content->names += name;
  }
  content->composites.push_back(record);
}

// Adds parts, each with its own dtype. They are contiguous tensors without a name, at the start of
// storage 0. Returns the index of the first part.
inline uint32_t add_parts(DescriptorContent* content,
                          const std::vector<std::pair<DType, std::vector<int64_t>>>& parts) {
  const auto first = static_cast<uint32_t>(content->tensors.size());
  for (const auto& [dtype, sizes] : parts)
    add_tensor(content, 0, dtype, sizes, contiguous_strides(sizes).value());
  return first;
}

inline constexpr DType kInt64{TENON_DTYPE_INT, 64, 1};
inline constexpr DType kInt32{TENON_DTYPE_INT, 32, 1};
inline constexpr DType kFloat64{TENON_DTYPE_FLOAT, 64, 1};
inline constexpr DType kUInt4{TENON_DTYPE_UINT, 4, 1};

// Returns a content with one of everything that version 1.1 adds: each layout, a tensor between
// composites, and empty storages with a mode. The content needs one fd.
inline DescriptorContent composites() {
  DescriptorContent content;
  content.sender_pid = 4711;
  content.segments = {fd_segment(4096)};
  content.storages = {{0, 0, 4096},
                      {kNoSegment, 0, 0, TENON_MODE_FROZEN, TENON_ACCESS_READ_ONLY},
                      {kNoSegment, 0, 0, TENON_MODE_SHARED, TENON_ACCESS_READ_ONLY}};
  add_tensor(&content, 1, kFloat32, {0}, {1}, 0, "frozen");
  uint32_t first = add_parts(&content, {{kFloat32, {5, 7}}, {kInt64, {2, 5}}});
  add_composite(&content,
                {.layout = TensorLayout::kSparseCoo,
                 .coalesced = Coalesced::kYes,
                 .flags = 3,
                 .first_part = first,
                 .parts = 2},
                {3, 4, 7}, "coo");
  first = add_parts(&content, {{kFloat32, {2, 5}}, {kInt32, {2, 4}}, {kInt32, {2, 5}}});
  add_composite(&content, {.layout = TensorLayout::kSparseCsr, .first_part = first, .parts = 3},
                {2, 3, 4}, "csr");
  first = add_parts(&content, {{kFloat64, {5}}, {kInt64, {5}}, {kInt64, {5}}});
  add_composite(&content, {.layout = TensorLayout::kSparseCsc, .first_part = first, .parts = 3},
                {3, 4});
  add_tensor(&content, 2, kFloat32, {0}, {1}, 0, "between");
  first = add_parts(&content, {{kFloat32, {5, 2, 3}}, {kInt64, {3}}, {kInt64, {5}}});
  add_composite(&content, {.layout = TensorLayout::kSparseBsr, .first_part = first, .parts = 3},
                {4, 6});
  first = add_parts(&content, {{kFloat32, {5, 2, 3}}, {kInt64, {3}}, {kInt64, {5}}});
  add_composite(&content, {.layout = TensorLayout::kSparseBsc, .first_part = first, .parts = 3},
                {4, 6}, "");
  first = add_parts(&content, {{kFloat32, {9, 2}}, {kInt64, {4}}});
  add_composite(&content,
                {.layout = TensorLayout::kJagged, .first_part = first, .parts = 2, .dim = 1}, {},
                "jagged");
  first = add_parts(&content, {{kFloat32, {2, 9}}, {kInt64, {4}}, {kInt64, {3}}});
  add_composite(
      &content,
      {.layout = TensorLayout::kJagged, .flags = 1, .first_part = first, .parts = 3, .dim = 2});
  first =
      add_parts(&content, {{kFloat32, {20}}, {kInt64, {3, 2}}, {kInt64, {3, 2}}, {kInt64, {3}}});
  add_composite(&content, {.layout = TensorLayout::kNested, .first_part = first, .parts = 4});
  add_composite(&content,
                {.layout = TensorLayout::kMeta,
                 .flags = 13,
                 .first_part = static_cast<uint32_t>(content.tensors.size()),
                 .offset = 5,
                 .dtype = {TENON_DTYPE_COMPLEX, 64, 1}},
                {1 << 20, 1 << 20, 1 << 20, 1}, "meta");
  first = add_parts(&content, {{{TENON_DTYPE_UINT, 8, 1}, {2, 3}}});
  add_composite(&content, {.layout = TensorLayout::kQuantized,
                           .quantizer = QScheme::kPerTensorAffine,
                           .first_part = first,
                           .parts = 1,
                           .scale = 0.5,
                           .zero_point = -3});
  first = add_parts(&content, {{kInt32, {2, 3}}, {kFloat64, {3}}, {kInt64, {3}}});
  add_composite(&content, {.layout = TensorLayout::kQuantized,
                           .quantizer = QScheme::kPerChannelAffine,
                           .first_part = first,
                           .parts = 3,
                           .dim = 1});
  first = add_parts(&content, {{kUInt4, {2, 3}}, {kFloat32, {2}}, {kFloat32, {2}}});
  add_composite(&content, {.layout = TensorLayout::kQuantized,
                           .quantizer = QScheme::kPerChannelAffineFloatQParams,
                           .first_part = first,
                           .parts = 3});
  return content;
}

// Returns a random sound content. `n_fds` receives how many fds the content needs.
inline DescriptorContent random_content(std::mt19937_64* random, uint64_t* n_fds) {
  const auto below = [&](uint64_t n) { return (*random)() % n; };
  DescriptorContent content;
  content.sender_pid = static_cast<int32_t>(below(1 << 22));
  content.pid_namespace = (*random)();
  for (uint8_t& byte : content.boot_id) byte = static_cast<uint8_t>(below(256));
  *n_fds = 0;
  const size_t n_segments = below(5);
  for (size_t i = 0; i < n_segments; ++i) {
    SegmentRecord segment;
    segment.id = below(2) == 0 ? 0 : 1000 + i;
    segment.reach = static_cast<Reach>(1 + below(3));
    segment.mode = static_cast<uint16_t>(below(3));
    segment.access = segment.mode == TENON_MODE_SHARED && below(2) == 0 ? TENON_ACCESS_WRITABLE
                                                                        : TENON_ACCESS_READ_ONLY;
    segment.nbytes = 4096 * (1 + below(1000));
    segment.device = (*random)();
    segment.inode = (*random)();
    for (uint8_t& byte : segment.nonce) byte = static_cast<uint8_t>(below(256));
    if (segment.reach == Reach::kFd) segment.fd_index = static_cast<uint32_t>((*n_fds)++);
    if (segment.reach == Reach::kKnown) segment.id = 1000 + i;
    if (segment.reach == Reach::kProc) {
      segment.pid = static_cast<int32_t>(1 + below(1 << 22));
      segment.proc_fd = static_cast<int32_t>(below(1024));
    }
    content.segments.push_back(segment);
  }
  const size_t n_storages = 1 + below(6);
  for (size_t i = 0; i < n_storages; ++i) {
    if (n_segments == 0 || below(4) == 0) {
      content.storages.push_back({kNoSegment, 0, 0});
      continue;
    }
    const auto segment = static_cast<uint32_t>(below(n_segments));
    const uint64_t offset = below(content.segments[segment].nbytes);
    content.storages.push_back(
        {segment, offset, 1 + below(content.segments[segment].nbytes - offset)});
  }
  const DType dtypes[] = {kFloat32,
                          {TENON_DTYPE_UINT, 8, 1},
                          {TENON_DTYPE_INT, 16, 3},
                          {TENON_DTYPE_FLOAT4_E2M1FN, 4, 1},
                          {TENON_DTYPE_COMPLEX, 128, 1}};
  const char* names[] = {nullptr, "", "a", "layer.0.weight", "\xe6\x9f\x84", "\xf4\x8f\xbf\xbf"};
  const size_t n_tensors = below(20);
  while (content.tensors.size() < n_tensors) {
    const auto storage = static_cast<uint32_t>(below(n_storages));
    const DType dtype = dtypes[below(5)];
    std::vector<int64_t> sizes(below(5));
    std::vector<int64_t> strides(sizes.size());
    for (size_t i = 0; i < sizes.size(); ++i) {
      sizes[i] = static_cast<int64_t>(below(6));
      strides[i] = static_cast<int64_t>(below(9)) - 4;
    }
    if (below(2) == 0) strides = contiguous_strides(sizes).value();
    const uint64_t offset = below(50);
    if (!check_layout({dtype, sizes, strides, offset}, content.storages[storage].nbytes).is_ok()) {
      if (below(50) == 0) break;  // some random sets of storages are all too small
      continue;
    }
    add_tensor(&content, storage, dtype, sizes, strides, offset, names[below(6)],
               static_cast<uint32_t>(below(16)));
  }
  content.forgotten.resize(below(4));
  for (uint64_t& id : content.forgotten) id = 1 + below(1000);
  content.user.resize(below(40));
  for (std::byte& byte : content.user) byte = static_cast<std::byte>(below(256));
  return content;
}

// Returns "" for a sound content, and otherwise the name of the fault. The function shares no code
// with the decoder, and computes in 128 bits, so that no overflow can hide.
inline std::string unsound(const DescriptorContent& content, uint64_t n_fds,
                           uint64_t n_devices = 0) {
  for (const SegmentRecord& segment : content.segments) {
    if (segment.reach == Reach::kFd && segment.fd_index >= n_fds) return "fd";
    if (segment.reach == Reach::kDevice && (segment.fd_index >= n_devices || segment.id != 0))
      return "device";
    if (segment.reach != Reach::kDevice && segment.nbytes == 0) return "segment without bytes";
    if (segment.mode != TENON_MODE_SHARED && segment.access == TENON_ACCESS_WRITABLE)
      return "access";
  }
  for (const StorageRecord& storage : content.storages) {
    if (storage.segment == kNoSegment) {
      if (storage.nbytes != 0) return "empty storage";
    } else {
      if (storage.segment >= content.segments.size()) return "segment index";
      if (storage.nbytes == 0 && content.segments[storage.segment].reach != Reach::kDevice)
        return "empty storage of the host";
      if (static_cast<Wide>(storage.offset) + storage.nbytes >
          content.segments[storage.segment].nbytes)
        return "storage range";
    }
  }
  for (const TensorRecord& tensor : content.tensors) {
    if (tensor.storage >= content.storages.size()) return "storage index";
    if (tensor.ndim > 64 || uint64_t{tensor.dims} + 2 * tensor.ndim > content.dims.size())
      return "dims";
    if (tensor.has_name && uint64_t{tensor.name} + tensor.name_nbytes > content.names.size())
      return "name";
    Wide low = tensor.offset;
    Wide high = tensor.offset;
    bool empty = false;
    for (uint32_t i = 0; i < tensor.ndim; ++i) {
      const int64_t size = content.dims[tensor.dims + i];
      const int64_t stride = content.dims[tensor.dims + tensor.ndim + i];
      if (size < 0) return "size";
      if (size == 0) {
        empty = true;
        continue;
      }
      const Wide reach = static_cast<Wide>(size - 1) * stride;
      (reach < 0 ? low : high) += reach;
    }
    const Wide bits = tensor.dtype.element_bits();
    const Wide end = empty ? static_cast<Wide>(tensor.offset) * bits : (high + 1) * bits;
    if (bits == 0 || (!empty && low < 0) ||
        end > static_cast<Wide>(content.storages[tensor.storage].nbytes) * 8)
      return "layout";
  }
  uint64_t parts = 0;
  for (const CompositeRecord& composite : content.composites) {
    if (composite.first_part < parts ||
        uint64_t{composite.first_part} + composite.parts > content.tensors.size())
      return "parts";
    parts = uint64_t{composite.first_part} + composite.parts;
    if (uint64_t{composite.dims} + composite.n_dims() > content.composite_dims.size())
      return "composite dims";
    if (composite.has_name &&
        uint64_t{composite.name} + composite.name_nbytes > content.names.size())
      return "composite name";
    const auto part = [&](uint32_t i) -> const TensorRecord& {
      return content.tensors[composite.first_part + i];
    };
    const auto size = [&](uint32_t i, uint32_t dim) { return content.dims[part(i).dims + dim]; };
    switch (composite.layout) {
      case TensorLayout::kSparseCoo:
        if (composite.parts != 2 || part(1).ndim != 2 || part(0).ndim == 0 ||
            size(1, 1) != size(0, 0))
          return "coo";
        if (size(1, 0) + part(0).ndim - 1 != composite.ndim) return "coo dimensions";
        break;
      case TensorLayout::kSparseCsr:
      case TensorLayout::kSparseCsc:
      case TensorLayout::kSparseBsr:
      case TensorLayout::kSparseBsc: {
        const bool blocks = composite.layout == TensorLayout::kSparseBsr ||
                            composite.layout == TensorLayout::kSparseBsc;
        if (composite.parts != 3 || part(1).ndim == 0 || part(1).ndim != part(2).ndim)
          return "compressed";
        const uint32_t batch = part(1).ndim - 1;
        if (part(0).ndim + 1 != composite.ndim + (blocks ? 2 : 0) ||
            size(0, batch) != size(2, batch))
          return "compressed values";
        break;
      }
      case TensorLayout::kJagged:
        if (composite.parts != 2 && composite.parts != 3) return "jagged";
        if (composite.dim < 1 || static_cast<uint32_t>(composite.dim) > part(0).ndim ||
            part(1).ndim != 1 || size(1, 0) < 1)
          return "jagged";
        break;
      case TensorLayout::kNested:
        if (composite.parts != 4 || part(1).ndim != 2 || part(2).ndim != 2 || part(3).ndim != 1)
          return "nested";
        if (size(1, 0) != size(3, 0) || size(2, 0) != size(3, 0) || size(1, 1) != size(2, 1))
          return "nested sizes";
        break;
      case TensorLayout::kMeta:
        if (composite.parts != 0) return "meta";
        break;
      case TensorLayout::kQuantized:
        if (composite.parts != (composite.quantizer == QScheme::kPerTensorAffine ? 1U : 3U))
          return "quantised";
        if (composite.parts == 3 && size(0, static_cast<uint32_t>(composite.dim)) != size(1, 0))
          return "channels";
        break;
      default: return "layout of parts";
    }
  }
  return "";
}

}  // namespace tenon::tensor::test
