// The functions of StorageValue, and the names of devices (tensor_value.h).
#include <algorithm>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "base/immortal.h"
#include "modules/value/tensor_value.h"

namespace tenon::value {
namespace {

constexpr size_t kMaxShownPlaceNbytes = 64;

struct Places {
  const std::string cpu = "cpu";
  const std::string meta = "meta";
};

const std::string& place_of(const Ref<storage::Storage>& bytes) noexcept {
  const bool is_on_device = bytes && bytes->device_memory() != nullptr;
  return is_on_device ? bytes->device_memory()->name() : immortal<Places>().cpu;
}

}  // namespace

Status check_device(std::string_view device) {
  if (device == "cpu" || device == "meta") return Status::ok();
  return {Code::kUnsupported,
          format("tensors on device '%s' are not supported: only those on cpu and meta are",
                 std::string(device.substr(0, kMaxShownPlaceNbytes)).c_str())};
}

bool is_device_name(std::string_view device) noexcept {
  const auto is_digit = [](char letter) { return letter >= '0' && letter <= '9'; };
  const auto is_word = [](char letter) {
    return (letter >= 'a' && letter <= 'z') || letter == '_';
  };
  const size_t colon = std::min(device.find(':'), device.size());
  const std::string_view kind = device.substr(0, colon);
  if (kind.empty() || !std::all_of(kind.begin(), kind.end(), is_word)) return false;
  if (colon == device.size()) return true;
  // There is only one cpu and one meta, so they have no number.
  if (kind == "cpu" || kind == "meta") return false;
  const std::string_view index = device.substr(colon + 1);
  return !index.empty() && std::all_of(index.begin(), index.end(), is_digit);
}

Result<StorageValueRef> StorageValue::create(tensor::ScalarType type, uint64_t numel,
                                             Ref<storage::Storage> bytes, uint64_t byte_offset,
                                             std::optional<std::string_view> device) {
  const bool is_meta = device == "meta";
  const std::string& where = place_of(bytes);
  if (device && !is_meta && *device != where) {
    TENON_TRY(check_device(*device));
    return invalid(format("the bytes of a storage on %s are on %s", std::string(*device).c_str(),
                          where.c_str()));
  }
  const tensor::ScalarTypeInfo& info = tensor::scalar_type_info(type);
  uint64_t nbytes = 0;
  if (!checked_mul(numel, uint64_t{info.nbytes}, &nbytes) ||
      nbytes > uint64_t{std::numeric_limits<int64_t>::max()}) {
    return invalid(format("a storage of %llu elements of type %s is larger than 2^63 bytes",
                          as_llu(numel), info.name));
  }
  if (is_meta) {
    if (bytes) return invalid("a storage on meta has no bytes, and some were given");
  } else if (!bytes) {
    if (numel > 0) return invalid(format("no bytes for a storage of %llu elements", as_llu(numel)));
    bytes = storage::Storage::open_empty(storage::Mode::kShared, false);
    byte_offset = 0;
  } else if (!range_inside(byte_offset, nbytes, bytes->nbytes())) {
    return invalid(
        format("%llu elements of type %s from byte %llu on leave the %llu bytes that there are",
               as_llu(numel), info.name, as_llu(byte_offset), as_llu(bytes->nbytes())));
  }
  auto* const made = new StorageValue();
  StorageValueRef storage = StorageValueRef::adopt(made);
  made->type_ = type;
  made->numel_ = numel;
  made->byte_offset_ = byte_offset;
  made->bytes_ = std::move(bytes);
  made->is_meta_ = is_meta;
  return storage;
}

Result<StorageValueRef> StorageValue::whole(tensor::ScalarType type, Ref<storage::Storage> bytes) {
  const uint64_t numel = bytes->nbytes() / tensor::scalar_type_info(type).nbytes;
  return create(type, numel, std::move(bytes));
}

const std::string& StorageValue::device() const noexcept {
  return is_meta_ ? immortal<Places>().meta : place_of(bytes_);
}

const std::byte* StorageValue::data() const noexcept {
  if (!bytes_ || numel_ == 0 || is_on_device()) return nullptr;
  return bytes_->data() + byte_offset_;
}

StorageKey StorageValue::key() const noexcept {
  if (!bytes_) return {this, 0, numel_, type_};
  return {bytes_.get(), byte_offset_, numel_, type_};
}

}  // namespace tenon::value
