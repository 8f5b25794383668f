#include "modules/shared_weights/values.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "memory/spare.h"
#include "modules/archive/crc32.h"
#include "modules/weights/saved_elements.h"
#include "os/limits.h"
#include "os/named_file.h"
#include "share/cache.h"

namespace tenon::shared_weights {

using memory::Segment;

namespace {

constexpr uint64_t kTensorsAlignment = 64;
constexpr uint64_t kValuesHeadNbytes = uint64_t{1} << 20;

}  // namespace

Result<ValuesFile> layout_values(std::span<const weights::SavedTensor> values) {
  if (values.empty()) return invalid("there are no weights to publish");
  TENON_TRY(weights::check_saved(weights::SavedForm::kSafetensors, values));
  ValuesFile file;
  TENON_ASSIGN(file.layout, weights::lay_out_safetensors(values, {}, kTensorsAlignment));
  file.nbytes = file.layout.head.size() + file.layout.nbytes;
  return file;
}

Result<Loaded> load_values(const ValuesFile& file, const Buffer* buffer, FileIdentity* identity) {
  const auto write = [&](std::byte* to) -> Status {
    const std::string& head = file.layout.head;
    TENON_TRY(os::ask_headroom(head.size()));
    std::memcpy(to, head.data(), head.size());
    to += head.size();
    const auto copy = [&to](std::span<const std::byte> piece) -> Status {
      TENON_TRY(os::ask_headroom(piece.size()));
      std::memcpy(to, piece.data(), piece.size());
      to += piece.size();
      return Status::ok();
    };
    for (const weights::SavedTensor* const each : file.layout.tensors)
      TENON_TRY(weights::for_each_piece(*each->tensor, copy));
    return Status::ok();
  };
  const auto make = [&]() -> Result<Ref<Segment>> {
    TENON_ASSIGN(Ref<Segment> segment, Segment::create(memory::Mode::kFrozen, file.nbytes));
    TENON_TRY(segment->fill(write));
    return segment;
  };
  Loaded loaded;
  loaded.file_nbytes = file.nbytes;
  if (buffer != nullptr) {
    TENON_TRY(write(buffer->base()));
    TENON_ASSIGN(loaded.segment, buffer->open_view());
  } else {
    TENON_ASSIGN(loaded.segment, memory::with_spare(make));
    TENON_TRY(loaded.segment->freeze());
    loaded.segment = share::intern_segment(std::move(loaded.segment));
  }
  identity->nbytes = file.nbytes;
  identity->mtime_ns = os::real_time_ns();
  const auto head_nbytes = static_cast<size_t>(std::min(kValuesHeadNbytes, file.nbytes));
  identity->head_crc = archive::crc32(0, loaded.segment->base(), head_nbytes);
  return loaded;
}

}  // namespace tenon::shared_weights
