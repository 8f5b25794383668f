#include "modules/shared_weights/values.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "memory/spare.h"
#include "modules/archive/crc32.h"
#include "modules/weights/element_copy.h"
#include "modules/weights/safetensors_header.h"
#include "os/limits.h"
#include "os/named_file.h"
#include "share/cache.h"
#include "tensor/name.h"

namespace tenon::shared_weights {

using memory::Segment;
using value::TensorValue;

namespace {

constexpr size_t kTensorsAlignment = 64;
constexpr uint64_t kValuesHeadNbytes = uint64_t{1} << 20;

size_t element_nbytes(const TensorValue& tensor) noexcept {
  return tensor::scalar_type_info(tensor.type()).nbytes;
}

Status check_value(const PublishedTensor& each) {
  if (each.name == "__metadata__" || !tensor::is_utf8(each.name))
    return invalid(
        format("the name '%.200s' of a weight is no UTF-8, or has another meaning in a "
               "safetensors file",
               each.name.c_str()));
  const TensorValue& tensor = *each.tensor;
  const auto refuse = [&](const char* why) {
    return Status(Code::kUnsupported, format("the weight '%.200s' %s", each.name.c_str(), why))
        .with("name", each.name);
  };
  if (tensor.layout() != value::TensorLayout::kStrided || tensor.quantizer())
    return refuse("is sparse or quantised: publish its parts");
  if (tensor.is_conj() || tensor.is_neg())
    return refuse("is conjugated or negated lazily: resolve it first");
  if (tensor.storage()->is_meta() || tensor.storage()->is_on_device())
    return refuse("is not in the memory of the host: copy it there first");
  if (weights::safetensors_dtype_of(tensor.type()) == nullptr)
    return refuse("has an element type that safetensors does not have");
  return Status::ok();
}

// A text of JSON. The name is UTF-8.
void append_text(const std::string& text, std::string* out) {
  *out += '"';
  for (const char each : text) {
    if (static_cast<unsigned char>(each) < 0x20) {
      *out += format("\\u%04x", unsigned{static_cast<unsigned char>(each)});
    } else {
      if (each == '"' || each == '\\') *out += '\\';
      *out += each;
    }
  }
  *out += '"';
}

// Writes packed elements in the order of the indices.
Status write_elements(const TensorValue& from, std::byte* to) {
  const uint64_t nbytes = from.numel() * element_nbytes(from);
  if (nbytes == 0) return Status::ok();
  TENON_TRY(os::ask_headroom(nbytes));
  if (from.is_contiguous()) {
    const uint64_t begin =
        from.storage()->byte_offset() + static_cast<uint64_t>(from.offset()) * element_nbytes(from);
    return from.storage()->bytes()->read(begin, to, nbytes);
  }
  value::StridedSpec packed;
  TENON_ASSIGN(packed.storage,
               value::StorageValue::create(from.type(), from.numel(), nullptr, 0, "meta"));
  packed.sizes.assign(from.sizes().begin(), from.sizes().end());
  packed.strides.resize(packed.sizes.size());
  int64_t stride = 1;
  for (size_t dim = packed.sizes.size(); dim-- > 0; stride *= packed.sizes[dim])
    packed.strides[dim] = stride;
  TENON_ASSIGN(const value::TensorValueRef target, TensorValue::create(packed));
  return weights::copy_elements(from, *target, to);
}

}  // namespace

Result<ValuesFile> layout_values(const std::vector<PublishedTensor>& values) {
  if (values.empty()) return invalid("there are no weights to publish");
  for (const PublishedTensor& each : values) TENON_TRY(check_value(each));
  ValuesFile file;
  file.values = values;
  // A file has no gaps. So the largest elements come first, and all elements are aligned.
  std::ranges::sort(file.values, [](const PublishedTensor& one, const PublishedTensor& other) {
    const size_t size = element_nbytes(*one.tensor);
    const size_t other_size = element_nbytes(*other.tensor);
    return size != other_size ? size > other_size : one.name < other.name;
  });
  std::vector<std::string_view> names;
  names.reserve(values.size());
  for (const PublishedTensor& each : values) names.emplace_back(each.name);
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    return invalid(format("two weights have the name '%.200s'", std::string(*twice).c_str()));
  std::string header = "{";
  uint64_t at = 0;
  for (const PublishedTensor& each : file.values) {
    const TensorValue& tensor = *each.tensor;
    const uint64_t end = at + tensor.numel() * element_nbytes(tensor);
    if (at != 0 || header.size() > 1) header += ',';
    append_text(each.name, &header);
    header += R"(:{"dtype":")";
    header += weights::safetensors_dtype_of(tensor.type())->name;
    header += R"(","shape":[)";
    for (size_t dim = 0; dim < tensor.sizes().size(); ++dim)
      header +=
          format("%s%llu", dim == 0 ? "" : ",", as_llu(static_cast<uint64_t>(tensor.sizes()[dim])));
    header += format("],\"data_offsets\":[%llu,%llu]}", as_llu(at), as_llu(end));
    at = end;
  }
  header += '}';
  while ((sizeof(uint64_t) + header.size()) % kTensorsAlignment != 0) header += ' ';
  for (size_t i = 0; i < sizeof(uint64_t); ++i)
    file.head += static_cast<char>(static_cast<unsigned char>(header.size() >> (8 * i)));
  file.head += header;
  file.nbytes = file.head.size() + at;
  return file;
}

Result<Loaded> load_values(const ValuesFile& file, FileIdentity* identity) {
  const auto write = [&](std::byte* to) -> Status {
    TENON_TRY(os::ask_headroom(file.head.size()));
    std::memcpy(to, file.head.data(), file.head.size());
    to += file.head.size();
    for (const PublishedTensor& each : file.values) {
      TENON_TRY(write_elements(*each.tensor, to));
      to += each.tensor->numel() * element_nbytes(*each.tensor);
    }
    return Status::ok();
  };
  const auto make = [&]() -> Result<Ref<Segment>> {
    TENON_ASSIGN(Ref<Segment> segment, Segment::create(memory::Mode::kFrozen, file.nbytes));
    TENON_TRY(segment->fill(write));
    return segment;
  };
  Loaded loaded;
  TENON_ASSIGN(loaded.segment, memory::with_spare(make));
  TENON_TRY(loaded.segment->freeze());
  loaded.segment = share::intern_segment(std::move(loaded.segment));
  identity->nbytes = file.nbytes;
  identity->mtime_ns = os::real_time_ns();
  const auto head_nbytes = static_cast<size_t>(std::min(kValuesHeadNbytes, file.nbytes));
  identity->head_crc = archive::crc32(0, loaded.segment->base(), head_nbytes);
  return loaded;
}

}  // namespace tenon::shared_weights
