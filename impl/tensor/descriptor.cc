#include "tensor/descriptor.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/checked.h"
#include "base/zeros.h"
#include "memory/mode.h"
#include "tensor/descriptor_wire.h"
#include "tensor/layout.h"
#include "tensor/name.h"

namespace tenon::tensor {
namespace wire {

uint32_t checksum(const std::byte* bytes, size_t nbytes) noexcept {
  std::array<std::byte, kHeaderNbytes10> header;
  std::memcpy(header.data(), bytes, header.size());
  std::memset(header.data() + offsetof(Header, crc32), 0, sizeof(uint32_t));
  const uint32_t of_header = libdeflate_crc32(0, header.data(), header.size());
  return libdeflate_crc32(of_header, bytes + header.size(), nbytes - header.size());
}

}  // namespace wire

namespace {

using memory::Access;
using memory::Mode;

static_assert(static_cast<uint16_t>(Mode::kShared) == wire::kModeShared &&
              static_cast<uint16_t>(Mode::kFrozen) == wire::kModeFrozen);
static_assert(static_cast<uint16_t>(Mode::kLenderWrites) == wire::kModeLenderWrites &&
              memory::kModes == wire::kModeFrozen + 1);
static_assert(static_cast<uint32_t>(Access::kReadOnly) == wire::kAccessReadOnly);
static_assert(static_cast<uint32_t>(Access::kWritable) == wire::kAccessWritable);

// memcpy must not get the null pointer of an empty vector, not even for no bytes.
void copy_bytes(void* target, const void* source, size_t nbytes) noexcept {
  if (nbytes != 0) std::memcpy(target, source, nbytes);
}

template <typename T>
T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

Status corrupt(const char* field, std::string message) {
  return Status(Code::kCorrupt, std::move(message)).with("field", field);
}

Status incompatible(const char* field, std::string message) {
  return Status(Code::kIncompatible, std::move(message)).with("field", field);
}

// The status for a limit of the reader, which is not one of the format.
Status over_limit(const char* field, const char* limit, uint64_t value, uint64_t wanted) {
  return Status(Code::kResourceExhausted, format("the message's %s are over the limit %s of its "
                                                 "receiver: %llu, and %llu are allowed; "
                                                 "raise the limit there, or send less at "
                                                 "once",
                                                 field, limit, as_llu(wanted), as_llu(value)))
      .with("limit", limit)
      .with("limit_value", value)
      .with("wanted", wanted)
      .with("field", field);
}

// The place of each section, after it was checked to lie inside the bytes.
struct Sections {
  const std::byte* base = nullptr;
  std::array<wire::Section, wire::kSectionCount> table{};

  size_t count(wire::SectionIndex index) const noexcept {
    return static_cast<size_t>(table[index].count);
  }
  const std::byte* at(wire::SectionIndex index, size_t i) const noexcept {
    return base + table[index].offset + i * table[index].record_nbytes;
  }
};

// Reads and checks the header. Before the feature words, it reads only the magic and the major
// version, because a later version may have moved or redefined everything else.
Result<wire::Header> read_header(std::span<const std::byte> bytes, const DescriptorLimits& limits) {
  if (bytes.size() < offsetof(wire::Header, header_nbytes)) {
    return corrupt("magic", format("the descriptor of %zu bytes is cut short", bytes.size()));
  }
  if (std::memcmp(bytes.data(), wire::kMagic.data(), wire::kMagic.size()) != 0) {
    return corrupt("magic", "the bytes are no descriptor: they do not begin with its magic");
  }
  const auto major = load<uint16_t>(bytes.data() + offsetof(wire::Header, major));
  if (major != wire::kMajor) {
    return incompatible(
        "version",
        format("the descriptor has major version %u, this library reads %u", major, wire::kMajor));
  }
  if (bytes.size() < offsetof(wire::Header, compat)) {
    return corrupt("header", format("the descriptor of %zu bytes is cut short", bytes.size()));
  }
  const auto incompat = load<uint64_t>(bytes.data() + offsetof(wire::Header, incompat));
  if ((incompat & ~wire::kKnownIncompat) != 0) {
    return incompatible(
        "incompat", format("the descriptor uses features that this library does not know: 0x%llx",
                           as_llu(incompat & ~wire::kKnownIncompat)));
  }
  if (bytes.size() > limits.max_nbytes)
    return over_limit("bytes", "max_message_nbytes", limits.max_nbytes, bytes.size());
  if (bytes.size() < wire::kHeaderNbytes10)
    return corrupt("header", format("the descriptor of %zu bytes is cut short", bytes.size()));

  wire::Header header{};
  std::memcpy(&header, bytes.data(), wire::kHeaderNbytes10);
  if (header.total_nbytes != bytes.size()) {
    return corrupt("total_size", format("the descriptor claims %llu bytes and has %zu",
                                        as_llu(header.total_nbytes), bytes.size()));
  }
  if (header.crc32 != wire::checksum(bytes.data(), bytes.size()))
    return corrupt("checksum", "the descriptor's checksum does not match its bytes");
  const size_t known_nbytes = header.minor == 0 ? wire::kHeaderNbytes10 : sizeof(wire::Header);
  const bool newer = header.minor > wire::kMinor;
  const bool fits =
      newer ? header.header_nbytes >= known_nbytes : header.header_nbytes == known_nbytes;
  if (!fits || header.header_nbytes > bytes.size() ||
      header.header_nbytes % wire::kAlignment != 0) {
    return corrupt("header_size",
                   format("a descriptor of version %u.%u cannot have a header of %u bytes",
                          header.major, header.minor, header.header_nbytes));
  }
  std::memcpy(&header, bytes.data(), known_nbytes);
  if (header.sender_pid < 0)
    return corrupt("sender_pid", format("the descriptor's sender has pid %d", header.sender_pid));
  return header;
}

// Reads and checks the table of sections. Each section begins at the end of the one before, rounded
// up. So no sections overlap, and no byte stays unchecked.
Result<Sections> read_sections(std::span<const std::byte> bytes, const wire::Header& header) {
  Sections sections;
  sections.base = bytes.data();
  sections.table = header.sections;
  const bool newer = header.minor > wire::kMinor;
  const size_t n_sections = header.minor == 0 ? wire::kSections10 : wire::kSectionCount;
  const uint32_t* const record_nbytes =
      header.minor == 0 ? wire::kRecordNbytes10.data() : wire::kRecordNbytes.data();
  uint64_t cursor = header.header_nbytes;
  for (size_t i = 0; i < n_sections; ++i) {
    const wire::Section& section = sections.table[i];
    const char* name = wire::kSectionName[i];
    if (section.offset != cursor || section.reserved != 0) {
      return corrupt("section", format("the descriptor's section %s begins at %llu, expected %llu",
                                       name, as_llu(section.offset), as_llu(cursor)));
    }
    const bool longer = newer && wire::kRecordGrows[i];
    const bool fits = longer ? section.record_nbytes >= record_nbytes[i] &&
                                   section.record_nbytes % wire::kAlignment == 0
                             : section.record_nbytes == record_nbytes[i];
    if (!fits)
      return corrupt("section", format("the descriptor's section %s has records of %u bytes", name,
                                       section.record_nbytes));
    uint64_t nbytes = 0;
    if (!checked_mul(section.count, uint64_t{section.record_nbytes}, &nbytes) ||
        !range_inside(cursor, nbytes, bytes.size())) {
      return corrupt("section",
                     format("the descriptor's section %s of %llu records leaves its %zu bytes",
                            name, as_llu(section.count), bytes.size()));
    }
    const uint64_t end = cursor + nbytes;
    cursor = round_up(end, wire::kAlignment);
    if (cursor > bytes.size())
      return corrupt("section",
                     format("the descriptor ends inside the padding of section %s", name));
    if (!is_zero(bytes.subspan(end, cursor - end)))
      return corrupt("padding", format("the padding after section %s is not zero", name));
  }
  // A newer minor version may have its own sections after the known ones.
  if (newer ? cursor > bytes.size() : cursor != bytes.size()) {
    return corrupt("total_size", format("the descriptor has %llu bytes after its last section",
                                        as_llu(bytes.size() - cursor)));
  }
  return sections;
}

Status check_limits(const Sections& sections, const DescriptorLimits& limits) {
  const auto over = [&](wire::SectionIndex index, const char* limit, uint64_t value) {
    return over_limit(wire::kSectionName[index], limit, value, sections.count(index));
  };
  if (sections.count(wire::kTensors) > limits.max_tensors)
    return over(wire::kTensors, "max_tensors", limits.max_tensors);
  if (sections.count(wire::kComposites) > limits.max_tensors)
    return over(wire::kComposites, "max_tensors", limits.max_tensors);
  if (sections.count(wire::kStorages) > limits.max_tensors)
    return over(wire::kStorages, "max_tensors", limits.max_tensors);
  if (sections.count(wire::kSegments) > limits.max_segments)
    return over(wire::kSegments, "max_segments", limits.max_segments);
  if (sections.count(wire::kUser) > wire::kMaxUserNbytes) {
    return corrupt("user", format("the descriptor has %zu user bytes, more than %llu",
                                  sections.count(wire::kUser), as_llu(wire::kMaxUserNbytes)));
  }
  return Status::ok();
}

// The numbers of fds and of device segments that came with the bytes.
struct Came {
  uint64_t fds = 0;
  uint64_t devices = 0;
};

Status check_segment(const wire::Segment& record, size_t i, const Came& came) {
  const auto reach = static_cast<Reach>(record.reach);
  if (reach != Reach::kFd && reach != Reach::kKnown && reach != Reach::kProc &&
      (reach != Reach::kDevice || came.devices == 0)) {
    return corrupt("segment.reach",
                   format("segment %zu is reached in an unknown way: %u", i, record.reach));
  }
  // Empty storages of a device lie in a segment too.
  if ((record.nbytes == 0 && reach != Reach::kDevice) ||
      record.nbytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return corrupt("segment.nbytes",
                   format("segment %zu cannot have %llu bytes", i, as_llu(record.nbytes)));
  }
  if (record.mode > wire::kModeFrozen)
    return corrupt("segment.mode", format("segment %zu has an unknown mode: %u", i, record.mode));
  if (record.access != wire::kAccessReadOnly && record.access != wire::kAccessWritable) {
    return corrupt("segment.access",
                   format("segment %zu has an unknown access: %u", i, record.access));
  }
  if (record.mode != wire::kModeShared && record.access != wire::kAccessReadOnly) {
    return corrupt(
        "segment.access",
        format("segment %zu is lent writable, which its mode %u does not allow", i, record.mode));
  }
  if (reach == Reach::kDevice && (record.fd_index >= came.devices || record.id != 0)) {
    return corrupt("segment.device", format("segment %zu names device segment %u of %llu", i,
                                            record.fd_index, as_llu(came.devices)));
  }
  if (reach == Reach::kFd ? record.fd_index >= came.fds
                          : record.fd_index != 0 && reach != Reach::kDevice) {
    return corrupt("segment.fd_index",
                   format("segment %zu names fd %u of %llu", i, record.fd_index, as_llu(came.fds)));
  }
  if (reach == Reach::kKnown && record.id == 0)
    return corrupt("segment.id", format("segment %zu is known by no id", i));
  const bool by_proc = reach == Reach::kProc;
  if (by_proc ? record.pid <= 0 || record.proc_fd < 0 : record.pid != 0 || record.proc_fd != -1) {
    return corrupt("segment.proc",
                   format("segment %zu names fd %d of process %d", i, record.proc_fd, record.pid));
  }
  if (record.reserved != 0)
    return corrupt("segment.reserved",
                   format("segment %zu has reserved bytes that are not zero", i));
  return Status::ok();
}

bool has_duplicate(std::vector<uint64_t>* values) {
  std::sort(values->begin(), values->end());
  return std::adjacent_find(values->begin(), values->end()) != values->end();
}

Status read_segments(const Sections& sections, const Came& came, DescriptorContent* out) {
  const size_t n = sections.count(wire::kSegments);
  out->segments.resize(n);
  std::vector<uint64_t> ids;
  std::vector<uint64_t> fds;
  for (size_t i = 0; i < n; ++i) {
    const auto record = load<wire::Segment>(sections.at(wire::kSegments, i));
    TENON_TRY(check_segment(record, i, came));
    SegmentRecord& segment = out->segments[i];
    segment.id = record.id;
    segment.reach = static_cast<Reach>(record.reach);
    segment.mode = record.mode;
    segment.access = record.access;
    segment.nbytes = record.nbytes;
    segment.device = record.device;
    segment.inode = record.inode;
    segment.nonce = record.nonce;
    segment.fd_index = record.fd_index;
    segment.pid = record.pid;
    segment.proc_fd = record.proc_fd;
    if (n == 1) break;
    if (segment.id != 0) ids.push_back(segment.id);
    if (segment.reach == Reach::kFd) fds.push_back(segment.fd_index);
  }
  if (has_duplicate(&ids)) return corrupt("segment.id", "two segments have one id");
  if (has_duplicate(&fds)) return corrupt("segment.fd_index", "two segments have one fd");
  return Status::ok();
}

// Checks mode and access of a storage record. Only an empty storage of the host, which has no
// segment, may have them, and only from version 1.1 on.
Status check_empty_mode(const wire::Storage& record, size_t i, bool is_told) {
  if (record.mode == 0 && record.access == 0) return Status::ok();
  if (record.segment != kNoSegment || !is_told)
    return corrupt("storage.mode", format("storage %zu cannot have a mode of its own", i));
  if (record.mode > wire::kModeFrozen)
    return corrupt("storage.mode", format("storage %zu has an unknown mode: %u", i, record.mode));
  const bool read_only = record.access == wire::kAccessReadOnly;
  if (!read_only && (record.access != wire::kAccessWritable || record.mode != wire::kModeShared)) {
    return corrupt("storage.access", format("storage %zu of mode %u has the access %u", i,
                                            record.mode, record.access));
  }
  return Status::ok();
}

Status read_storages(const Sections& sections, const wire::Header& header, DescriptorContent* out) {
  const size_t n = sections.count(wire::kStorages);
  out->storages.resize(n);
  for (size_t i = 0; i < n; ++i) {
    wire::Storage record{};
    std::memcpy(&record, sections.at(wire::kStorages, i),
                header.minor == 0 ? wire::kStorageNbytes10 : sizeof(record));
    if (record.reserved != 0)
      return corrupt("storage.reserved",
                     format("storage %zu has reserved bytes that are not zero", i));
    const bool on_device = record.segment < out->segments.size() &&
                           out->segments[record.segment].reach == Reach::kDevice;
    if (record.nbytes == 0) {
      if ((record.segment != kNoSegment && !on_device) || record.offset != 0) {
        return corrupt(
            "storage.segment",
            format("storage %zu is empty and yet has a place in segment %u", i, record.segment));
      }
    } else {
      if (record.segment >= out->segments.size()) {
        return corrupt("storage.segment", format("storage %zu lies in segment %u of %zu", i,
                                                 record.segment, out->segments.size()));
      }
      if (!range_inside(record.offset, record.nbytes, out->segments[record.segment].nbytes)) {
        return corrupt("storage.range",
                       format("storage %zu of %llu bytes at %llu leaves segment %u of %llu bytes",
                              i, as_llu(record.nbytes), as_llu(record.offset), record.segment,
                              as_llu(out->segments[record.segment].nbytes)));
      }
    }
    TENON_TRY(check_empty_mode(record, i, (header.compat & wire::kCompatEmptyModes) != 0));
    out->storages[i] = {record.segment, record.offset, record.nbytes, record.mode, record.access};
  }
  return Status::ok();
}

// The position in the dims and the names, which lie one after another in the order of the tensors.
// That limits the memory of the opener to the size of the bytes. Otherwise a million tensors could
// all claim the same 64 dimensions and the same 4 KiB of name.
struct TensorCursor {
  uint64_t dims = 0;
  uint64_t names = 0;
};

// Checks the name of a tensor or of a composite. `what` says which, and `record` is either.
template <typename Record>
Status check_name(const Record& record, const char* what, size_t i,
                  const DescriptorContent& content, TensorCursor* cursor) {
  const std::string field = std::string(what) + ".name";
  if (record.has_name > 1)
    return corrupt(field.c_str(),
                   format("%s %zu neither has a name nor has none: %u", what, i, record.has_name));
  if (record.has_name == 0) {
    if (record.name == 0 && record.name_nbytes == 0) return Status::ok();
    return corrupt(field.c_str(), format("%s %zu has no name and yet a place for it", what, i));
  }
  if (record.name != cursor->names ||
      !range_inside(cursor->names, record.name_nbytes, content.names.size())) {
    return corrupt(field.c_str(),
                   format("%s %zu has its name of %u bytes at %u, expected %llu", what, i,
                          record.name_nbytes, record.name, as_llu(cursor->names)));
  }
  if (!is_valid_name(std::string_view(content.names).substr(record.name, record.name_nbytes))) {
    return corrupt(field.c_str(),
                   format("%s %zu has a name that is no UTF-8 of at most %zu bytes without NUL",
                          what, i, kMaxNameNbytes));
  }
  cursor->names += record.name_nbytes;
  return Status::ok();
}

Status check_tensor(const wire::Tensor& record, size_t i, const DescriptorContent& content,
                    TensorCursor* cursor) {
  if (record.storage >= content.storages.size()) {
    return corrupt("tensor.storage", format("tensor %zu lies in storage %u of %zu", i,
                                            record.storage, content.storages.size()));
  }
  if (record.ndim > static_cast<uint32_t>(kMaxNdim))
    return corrupt("tensor.ndim", format("tensor %zu has %u dimensions", i, record.ndim));
  if (record.dims != cursor->dims ||
      !range_inside(cursor->dims, uint64_t{2} * record.ndim, content.dims.size())) {
    return corrupt("tensor.dims",
                   format("tensor %zu has its %u sizes and strides at %u, expected %llu", i,
                          record.ndim, record.dims, as_llu(cursor->dims)));
  }
  cursor->dims += uint64_t{2} * record.ndim;
  if ((record.flags & ~wire::kTensorFlags) != 0)
    return corrupt("tensor.flags", format("tensor %zu has unknown flags: 0x%x", i, record.flags));
  TENON_TRY(check_name(record, "tensor", i, content, cursor));
  const std::span<const int64_t> dims =
      std::span(content.dims).subspan(record.dims, size_t{2} * record.ndim);
  const Layout layout{{record.dtype_code, record.dtype_bits, record.dtype_lanes},
                      dims.first(record.ndim),
                      dims.last(record.ndim),
                      record.offset};
  const Status status = check_layout(layout, content.storages[record.storage].nbytes);
  if (!status.is_ok())
    return corrupt("tensor.layout", format("tensor %zu: %s", i, status.message().c_str()));
  return Status::ok();
}

Status read_tensors(const Sections& sections, DescriptorContent* out, uint64_t* names_read) {
  out->dims.resize(sections.count(wire::kDims));
  copy_bytes(out->dims.data(), sections.at(wire::kDims, 0), out->dims.size() * sizeof(int64_t));
  out->names.assign(reinterpret_cast<const char*>(sections.at(wire::kNames, 0)),
                    sections.count(wire::kNames));
  const size_t n = sections.count(wire::kTensors);
  out->tensors.resize(n);
  TensorCursor cursor;
  for (size_t i = 0; i < n; ++i) {
    const auto record = load<wire::Tensor>(sections.at(wire::kTensors, i));
    TENON_TRY(check_tensor(record, i, *out, &cursor));
    out->tensors[i] = {
        record.storage,      {record.dtype_code, record.dtype_bits, record.dtype_lanes},
        record.ndim,         record.flags,
        record.offset,       record.dims,
        record.name,         record.name_nbytes,
        record.has_name == 1};
  }
  if (cursor.dims != out->dims.size())
    return corrupt("dims", format("%llu of %zu dims belong to no tensor",
                                  as_llu(out->dims.size() - cursor.dims), out->dims.size()));
  *names_read = cursor.names;
  return Status::ok();
}

// Where the previous composite ended, among the tensors, the dims of composites and the names.
struct CompositeCursor {
  uint64_t parts = 0;
  TensorCursor rest;
};

CompositeRecord record_of(const wire::Composite& record) noexcept {
  CompositeRecord made;
  made.layout = static_cast<TensorLayout>(record.layout);
  made.coalesced = static_cast<Coalesced>(record.coalesced);
  made.quantizer = static_cast<QScheme>(record.quantizer);
  made.flags = record.flags;
  made.first_part = record.first_part;
  made.parts = record.parts;
  made.dims = record.dims;
  made.ndim = record.ndim;
  made.name = record.name;
  made.name_nbytes = record.name_nbytes;
  made.has_name = record.has_name == 1;
  made.dim = record.dim;
  made.scale = record.scale;
  made.zero_point = record.zero_point;
  made.offset = record.offset;
  made.dtype = {record.dtype_code, record.dtype_bits, record.dtype_lanes};
  return made;
}

// Checks the parts, which are tensors without a name, one after another, and belong to no other
// composite.
Status check_parts(const wire::Composite& record, size_t i, const DescriptorContent& content,
                   CompositeCursor* cursor) {
  if (record.parts > kMaxParts || record.first_part < cursor->parts ||
      !range_inside(record.first_part, record.parts, content.tensors.size())) {
    return corrupt("composite.parts",
                   format("composite %zu has %u parts from tensor %u on, of %zu", i, record.parts,
                          record.first_part, content.tensors.size()));
  }
  cursor->parts = uint64_t{record.first_part} + record.parts;
  for (uint32_t part = 0; part < record.parts; ++part) {
    if (content.tensors[record.first_part + part].has_name) {
      return corrupt("composite.parts",
                     format("part %u of composite %zu has a name of its own", part, i));
    }
  }
  return Status::ok();
}

CompositeShape shape_of(const CompositeRecord& record, const DescriptorContent& content,
                        std::array<PartShape, kMaxParts>* parts) noexcept {
  for (uint32_t i = 0; i < record.parts; ++i) {
    const TensorRecord& tensor = content.tensors[record.first_part + i];
    const std::span<const int64_t> dims =
        std::span(content.dims).subspan(tensor.dims, size_t{2} * tensor.ndim);
    (*parts)[i] = {tensor.dtype, dims.first(tensor.ndim), dims.last(tensor.ndim)};
  }
  const std::span<const int64_t> dims =
      std::span(content.composite_dims).subspan(record.dims, record.n_dims());
  return {.layout = record.layout,
          .coalesced = record.coalesced,
          .quantizer = record.quantizer,
          .flags = record.flags,
          .dim = record.dim,
          .scale = record.scale,
          .zero_point = record.zero_point,
          .offset = record.offset,
          .dtype = record.dtype,
          .sizes = dims.first(record.ndim),
          .strides = dims.subspan(record.ndim),
          .parts = std::span(*parts).first(record.parts)};
}

Status read_composite(const wire::Composite& record, size_t i, const DescriptorContent& content,
                      CompositeCursor* cursor, CompositeRecord* out) {
  constexpr uint32_t kMostOfByte = std::numeric_limits<uint8_t>::max();
  if (record.layout > kMostOfByte || record.coalesced > kMostOfByte ||
      record.quantizer > kMostOfByte) {
    return corrupt("composite.layout",
                   format("composite %zu has an unknown layout: %u", i, record.layout));
  }
  if (record.reserved != 0)
    return corrupt("composite.reserved",
                   format("composite %zu has reserved bytes that are not zero", i));
  TENON_TRY(check_parts(record, i, content, cursor));
  TENON_TRY(check_name(record, "composite", i, content, &cursor->rest));
  *out = record_of(record);
  if (record.ndim > static_cast<uint32_t>(kMaxNdim)) {
    return corrupt("composite.dims", format("composite %zu has %u dimensions", i, record.ndim));
  }
  if (record.dims != cursor->rest.dims ||
      !range_inside(cursor->rest.dims, out->n_dims(), content.composite_dims.size())) {
    return corrupt("composite.dims",
                   format("composite %zu has its %u sizes at %u, expected %llu", i, record.ndim,
                          record.dims, as_llu(cursor->rest.dims)));
  }
  cursor->rest.dims += out->n_dims();
  std::array<PartShape, kMaxParts> parts;
  const Status status = check_composite(shape_of(*out, content, &parts));
  if (status.is_ok()) return Status::ok();
  return corrupt("composite.layout", format("composite %zu: %s", i, status.message().c_str()))
      .with_details_of(status);
}

Status read_composites(const Sections& sections, uint64_t names_read, DescriptorContent* out) {
  const size_t n = sections.count(wire::kComposites);
  out->composite_dims.resize(sections.count(wire::kCompositeDims));
  copy_bytes(out->composite_dims.data(), sections.at(wire::kCompositeDims, 0),
             out->composite_dims.size() * sizeof(int64_t));
  out->composites.resize(n);
  CompositeCursor cursor;
  cursor.rest.names = names_read;
  for (size_t i = 0; i < n; ++i) {
    const auto record = load<wire::Composite>(sections.at(wire::kComposites, i));
    TENON_TRY(read_composite(record, i, *out, &cursor, &out->composites[i]));
  }
  if (cursor.rest.dims != out->composite_dims.size()) {
    return corrupt("composite_dims", format("%llu of %zu dims belong to no composite",
                                            as_llu(out->composite_dims.size() - cursor.rest.dims),
                                            out->composite_dims.size()));
  }
  if (cursor.rest.names != out->names.size()) {
    return corrupt("names",
                   format("%llu of %zu bytes of names belong to no tensor",
                          as_llu(out->names.size() - cursor.rest.names), out->names.size()));
  }
  return Status::ok();
}

}  // namespace

Result<DescriptorContent> decode_descriptor(std::span<const std::byte> bytes, uint64_t n_fds,
                                            const DescriptorLimits& limits, uint64_t n_devices) {
  TENON_ASSIGN(const wire::Header header, read_header(bytes, limits));
  TENON_ASSIGN(const Sections sections, read_sections(bytes, header));
  TENON_TRY(check_limits(sections, limits));
  // From here on every count is known to match bytes that exist, so no allocation is much larger
  // than the bytes.
  DescriptorContent content;
  content.sender_pid = header.sender_pid;
  content.boot_id = header.boot_id;
  content.pid_namespace = header.pid_namespace;
  content.leased = (header.compat & wire::kCompatLeased) != 0;
  const bool has_composites = (header.incompat & wire::kIncompatComposites) != 0;
  if (has_composites != (sections.count(wire::kComposites) > 0)) {
    return corrupt("incompat",
                   format("the descriptor has %zu composites, and its feature word says otherwise",
                          sections.count(wire::kComposites)));
  }
  TENON_TRY(read_segments(sections, {n_fds, n_devices}, &content));
  TENON_TRY(read_storages(sections, header, &content));
  uint64_t names_read = 0;
  TENON_TRY(read_tensors(sections, &content, &names_read));
  TENON_TRY(read_composites(sections, names_read, &content));
  content.forgotten.resize(sections.count(wire::kForgotten));
  copy_bytes(content.forgotten.data(), sections.at(wire::kForgotten, 0),
             content.forgotten.size() * sizeof(uint64_t));
  if (std::find(content.forgotten.begin(), content.forgotten.end(), uint64_t{0}) !=
      content.forgotten.end()) {
    return corrupt("forgotten", "the descriptor forgets a segment without an id");
  }
  content.user.resize(sections.count(wire::kUser));
  copy_bytes(content.user.data(), sections.at(wire::kUser, 0), content.user.size());
  return content;
}

}  // namespace tenon::tensor
