// `tenon inspect` of a file with the bytes of a descriptor (docs/format/descriptor.md).
#include <tenon/by_fd.h>
#include <tenon/storage.h>
#include <tenon/tensor.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

#include "commands.h"
#include "inspect.h"
#include "output.h"
#include "tensor/descriptor.h"
#include "tensor/descriptor_wire.h"

namespace tenon::cli {
namespace {

using tensor::CompositeRecord;
using tensor::DescriptorContent;
using tensor::Reach;
using tensor::SegmentRecord;
using tensor::StorageRecord;
using tensor::TensorRecord;

constexpr size_t kShownUserNbytes = 32;

template <typename Bytes>
std::string hex(const Bytes& bytes, size_t most = std::numeric_limits<size_t>::max()) {
  std::string text;
  for (const auto byte : bytes) {
    if (text.size() / 2 == most) return text + "…";
    text += format("%02x", static_cast<unsigned>(byte));
  }
  return text;
}

const char* mode_name(uint16_t mode) noexcept {
  switch (mode) {
    case TENON_MODE_SHARED: return "shared";
    case TENON_MODE_LENDER_WRITES: return "lender writes";
    case TENON_MODE_FROZEN: return "frozen";
    default: return "unknown";
  }
}

const char* access_name(uint32_t access) noexcept {
  return access == TENON_ACCESS_WRITABLE ? "writable" : "read-only";
}

std::string reach_text(const SegmentRecord& segment) {
  switch (segment.reach) {
    case Reach::kFd: return format("fd %u that travels along", segment.fd_index);
    case Reach::kKnown: return "crossed before";
    case Reach::kProc: return format("/proc/%d/fd/%d", segment.pid, segment.proc_fd);
    case Reach::kDevice: return format("device segment %u of its message", segment.fd_index);
  }
  return "unknown";
}

const char* reach_name(Reach reach) noexcept {
  switch (reach) {
    case Reach::kFd: return "fd";
    case Reach::kKnown: return "known";
    case Reach::kProc: return "proc";
    case Reach::kDevice: return "device";
  }
  return "unknown";
}

struct Flag {
  uint32_t bit;
  const char* name;
};
constexpr Flag kFlags[] = {{TENON_TENSOR_REQUIRES_GRAD, "requires_grad"},
                           {TENON_TENSOR_IS_PARAMETER, "is_parameter"},
                           {TENON_TENSOR_CONJ, "conj"},
                           {TENON_TENSOR_NEG, "neg"}};

std::span<const int64_t> sizes_of(const DescriptorContent& content, const TensorRecord& record) {
  return std::span(content.dims).subspan(record.dims, record.ndim);
}

std::span<const int64_t> strides_of(const DescriptorContent& content, const TensorRecord& record) {
  return std::span(content.dims).subspan(record.dims + record.ndim, record.ndim);
}

template <typename Record>
std::string_view name_of(const DescriptorContent& content, const Record& record) {
  return std::string_view(content.names).substr(record.name, record.name_nbytes);
}

std::string first_numbers_text(std::span<const int64_t> numbers) {
  constexpr size_t kShown = 8;
  std::string text = "[";
  for (size_t i = 0; i < numbers.size() && i < kShown; ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
  if (numbers.size() > kShown) text += format(", … %zu more", numbers.size() - kShown);
  return text + "]";
}

// Gives `otherwise` if all bytes are 0, which means that the id is not given.
std::string id_text(const std::array<uint8_t, 16>& id, const char* otherwise) {
  return std::any_of(id.begin(), id.end(), [](uint8_t byte) { return byte != 0; }) ? hex(id)
                                                                                   : otherwise;
}

tensor::wire::Header header_of(std::span<const std::byte> bytes) {
  tensor::wire::Header header{};
  // The bytes were decoded, so the header is complete.
  std::memcpy(&header, bytes.data(), tensor::wire::kHeaderNbytes10);
  return header;
}

std::string flags_text(uint32_t bits) {
  std::string flags;
  for (const Flag& flag : kFlags) {
    if ((bits & flag.bit) != 0) flags += (flags.empty() ? "" : ",") + std::string(flag.name);
  }
  return flags.empty() ? "-" : flags;
}

std::string parts_text(const CompositeRecord& record) {
  std::string text;
  const auto parts = tensor::parts_of(record.layout, record.quantizer);
  for (uint32_t i = 0; i < record.parts; ++i) {
    text +=
        format("%s%s %u", i == 0 ? "" : ", ", tensor::part_name(parts[i]), record.first_part + i);
  }
  return text.empty() ? "-" : text;
}

std::span<const int64_t> sizes_of(const DescriptorContent& content, const CompositeRecord& record) {
  return std::span(content.composite_dims).subspan(record.dims, record.ndim);
}

void print_composites(const DescriptorContent& content) {
  print_text("\n");
  Table table({{"COMPOSITE", true}, {"LAYOUT"}, {"SIZES"}, {"TENSORS"}, {"FLAGS"}, {"NAME"}});
  for (size_t i = 0; i < content.composites.size(); ++i) {
    const CompositeRecord& record = content.composites[i];
    const bool tells_sizes =
        record.layout == tensor::TensorLayout::kMeta || tensor::is_sparse(record.layout);
    table.add({{std::to_string(i)},
               {tensor::tensor_layout_name(record.layout)},
               {tells_sizes ? first_numbers_text(sizes_of(content, record)) : "-"},
               {parts_text(record)},
               {flags_text(record.flags)},
               {record.has_name ? "'" + safe_text(name_of(content, record)) + "'" : "-"}});
  }
  table.print();
}

void print_content(std::span<const std::byte> bytes, const DescriptorContent& content) {
  const tensor::wire::Header header = header_of(bytes);
  print_text(format("descriptor %u.%u, %s, checksum %08x", header.major, header.minor,
                    size_text(bytes.size()).c_str(), header.crc32) +
             format(", features 0x%" PRIx64 " required and 0x%" PRIx64 " optional\n",
                    header.incompat, header.compat));
  const auto number = [](uint64_t value) {
    return value == 0 ? std::string("not told") : std::to_string(value);
  };
  print_text("sender: pid " + number(static_cast<uint64_t>(content.sender_pid)) +
             ", pid namespace " + number(content.pid_namespace) + ", boot id " +
             id_text(content.boot_id, "not told") + "\n");
  if (!content.segments.empty()) {
    print_text("\n");
    Table table({{"SEGMENT", true},
                 {"SIZE", true},
                 {"MODE"},
                 {"ACCESS"},
                 {"REACHED BY"},
                 {"ID", true},
                 {"DEVICE", true},
                 {"INODE", true},
                 {"NONCE"}});
    for (size_t i = 0; i < content.segments.size(); ++i) {
      const SegmentRecord& segment = content.segments[i];
      table.add({{std::to_string(i)},
                 {size_text(segment.nbytes)},
                 {mode_name(segment.mode)},
                 {access_name(segment.access)},
                 {reach_text(segment)},
                 {std::to_string(segment.id)},
                 {std::to_string(segment.device)},
                 {std::to_string(segment.inode)},
                 {id_text(segment.nonce, "-")}});
    }
    table.print();
  }
  if (!content.storages.empty()) {
    print_text("\n");
    Table table(
        {{"STORAGE", true}, {"SEGMENT", true}, {"OFFSET", true}, {"BYTES", true}, {"SIZE", true}});
    for (size_t i = 0; i < content.storages.size(); ++i) {
      const StorageRecord& storage = content.storages[i];
      table.add({{std::to_string(i)},
                 {storage.segment == tensor::kNoSegment ? "-" : std::to_string(storage.segment)},
                 {std::to_string(storage.offset)},
                 {std::to_string(storage.nbytes)},
                 {size_text(storage.nbytes)}});
    }
    table.print();
  }
  if (!content.tensors.empty()) {
    print_text("\n");
    Table table({{"TENSOR", true},
                 {"STORAGE", true},
                 {"DTYPE"},
                 {"SIZES"},
                 {"STRIDES"},
                 {"OFFSET", true},
                 {"FLAGS"},
                 {"NAME"}});
    for (size_t i = 0; i < content.tensors.size(); ++i) {
      const TensorRecord& record = content.tensors[i];
      table.add({{std::to_string(i)},
                 {std::to_string(record.storage)},
                 {tensor::dtype_name(record.dtype).text},
                 {first_numbers_text(sizes_of(content, record))},
                 {first_numbers_text(strides_of(content, record))},
                 {std::to_string(record.offset)},
                 {flags_text(record.flags)},
                 {record.has_name ? "'" + safe_text(name_of(content, record)) + "'" : "-"}});
    }
    table.print();
  }
  if (!content.composites.empty()) print_composites(content);
  print_text("\n" + plural_text(content.segments.size(), "segment", "segments") + ", " +
             plural_text(content.storages.size(), "storage", "storages") + ", " +
             plural_text(content.tensors.size(), "tensor", "tensors") + ", " +
             plural_text(content.forgotten.size(), "forgotten segment", "forgotten segments") +
             ", " + plural_text(content.user.size(), "user byte", "user bytes") + "\n");
  for (const uint64_t id : content.forgotten)
    print_text(format("forgotten: segment id %" PRIu64 "\n", id));
  if (!content.user.empty())
    print_text("user bytes: " + hex(content.user, kShownUserNbytes) + "\n");
}

Json flags_json(uint32_t bits) {
  Json flags = Json::array();
  for (const Flag& flag : kFlags) {
    if ((bits & flag.bit) != 0) flags.push_back(flag.name);
  }
  return flags;
}

Json composites_json(const DescriptorContent& content) {
  Json composites = Json::array();
  for (const CompositeRecord& record : content.composites) {
    Json parts = Json::object();
    const auto names = tensor::parts_of(record.layout, record.quantizer);
    for (uint32_t i = 0; i < record.parts; ++i)
      parts[tensor::part_key(names[i])] = record.first_part + i;
    composites.push_back(
        {{"layout", tensor::tensor_layout_name(record.layout)},
         {"sizes", sizes_of(content, record)},
         {"parts", std::move(parts)},
         {"flags", flags_json(record.flags)},
         {"name", record.has_name ? Json(name_of(content, record)) : Json(nullptr)}});
  }
  return composites;
}

Json content_json(std::span<const std::byte> bytes, const DescriptorContent& content) {
  const tensor::wire::Header header = header_of(bytes);
  Json segments = Json::array();
  for (const SegmentRecord& segment : content.segments) {
    const bool by_fd = segment.reach == Reach::kFd;
    const bool by_proc = segment.reach == Reach::kProc;
    const bool on_device = segment.reach == Reach::kDevice;
    segments.push_back({{"nbytes", segment.nbytes},
                        {"mode", mode_name(segment.mode)},
                        {"access", access_name(segment.access)},
                        {"reach", reach_name(segment.reach)},
                        {"fd_index", by_fd ? Json(segment.fd_index) : Json(nullptr)},
                        {"device_segment", on_device ? Json(segment.fd_index) : Json(nullptr)},
                        {"pid", by_proc ? Json(segment.pid) : Json(nullptr)},
                        {"proc_fd", by_proc ? Json(segment.proc_fd) : Json(nullptr)},
                        {"id", segment.id},
                        {"device", segment.device},
                        {"inode", segment.inode},
                        {"nonce", hex(segment.nonce)}});
  }
  Json storages = Json::array();
  for (const StorageRecord& storage : content.storages) {
    const bool empty = storage.segment == tensor::kNoSegment;
    storages.push_back({{"segment", empty ? Json(nullptr) : Json(storage.segment)},
                        {"offset", storage.offset},
                        {"nbytes", storage.nbytes}});
  }
  Json tensors = Json::array();
  for (const TensorRecord& record : content.tensors) {
    tensors.push_back({{"storage", record.storage},
                       {"dtype", tensor::dtype_name(record.dtype).text},
                       {"sizes", sizes_of(content, record)},
                       {"strides", strides_of(content, record)},
                       {"offset", record.offset},
                       {"flags", flags_json(record.flags)},
                       {"name", record.has_name ? Json(name_of(content, record)) : Json(nullptr)}});
  }
  return {{"kind", "descriptor"},
          {"version", format("%u.%u", header.major, header.minor)},
          {"nbytes", bytes.size()},
          {"checksum", format("%08x", header.crc32)},
          {"incompat", header.incompat},
          {"compat", header.compat},
          {"sender_pid", content.sender_pid},
          {"pid_namespace", content.pid_namespace},
          {"boot_id", hex(content.boot_id)},
          {"segments", std::move(segments)},
          {"storages", std::move(storages)},
          {"tensors", std::move(tensors)},
          {"composites", composites_json(content)},
          {"forgotten", content.forgotten},
          {"user", hex(content.user)}};
}

}  // namespace

int inspect_descriptor(std::span<const std::byte> bytes, const std::string& source, bool json) {
  // A file does not tell which fds and device segments travel with the bytes, so any number is
  // accepted.
  constexpr uint64_t kAny = std::numeric_limits<uint64_t>::max();
  Result<DescriptorContent> decoded = tensor::decode_descriptor(bytes, kAny, {}, kAny);
  if (!decoded.is_ok()) {
    const Status& status = decoded.status();
    std::string field(status.detail("field"));
    if (!field.empty()) field = " (field " + field + ")";
    print_error(source + ": " + code_name(status.code()) + ": " + status.message() + field);
    if (json) print_json({{"kind", "descriptor"}, {"error", status_json(status)}});
    return kExitProblem;
  }
  if (json) {
    print_json(content_json(bytes, decoded.value()));
  } else {
    print_content(bytes, decoded.value());
  }
  return kExitOk;
}

}  // namespace tenon::cli
