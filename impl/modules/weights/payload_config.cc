#include "modules/weights/payload_config.h"

#include <algorithm>
#include <utility>

#ifdef TENON_HAS_JSON
#include <nlohmann/json.hpp>
#endif

namespace tenon::weights {

#ifdef TENON_HAS_JSON

namespace {

using Json = nlohmann::json;

// PyTorch's lists have a depth of 7. More is allowed, for fields that this reader does not know.
constexpr size_t kMostDepth = 64;
constexpr size_t kMostDims = 64;

// The meaning of the value that is being read.
enum class JsonLevel : uint8_t {
  kRoot,     // {"config": …}
  kConfig,   // {name: payload}
  kPayload,  // {"path_name": …, "tensor_meta": …}
  kMeta,     // {"dtype": …, "sizes": …}
  kDevice,   // {"type": …, "index": …}
  kSizes,    // [symbol]
  kStrides,  // [symbol]
  kSize,     // {"as_int": …}, as the two below
  kStride,
  kOffset,
  kSkipped,  // a value that this reader does not know
};

// A bit for each field that a weight must have.
enum Field : uint32_t {
  kPathName = 1,
  kUsePickle = 2,
  kTensorMeta = 4,
  kDtype = 8,
  kSizesField = 16,
  kStridesField = 32,
  kOffsetField = 64,
  kLayoutField = 128,
  kDeviceField = 256,
  kRequiresGrad = 512,
  kAsInt = 1024,
  kDeviceType = 2048,
  kDeviceIndex = 4096,
};
constexpr uint32_t kPayloadFields = kPathName | kUsePickle | kTensorMeta;
constexpr uint32_t kMetaFields =
    kDtype | kSizesField | kStridesField | kOffsetField | kLayoutField | kDeviceField;

struct KnownField {
  JsonLevel place;
  std::string_view name;
  Field field;
};
constexpr KnownField kKnownFields[] = {
    {JsonLevel::kPayload, "path_name", kPathName},
    {JsonLevel::kPayload, "use_pickle", kUsePickle},
    {JsonLevel::kPayload, "tensor_meta", kTensorMeta},
    {JsonLevel::kMeta, "dtype", kDtype},
    {JsonLevel::kMeta, "sizes", kSizesField},
    {JsonLevel::kMeta, "strides", kStridesField},
    {JsonLevel::kMeta, "storage_offset", kOffsetField},
    {JsonLevel::kMeta, "layout", kLayoutField},
    {JsonLevel::kMeta, "device", kDeviceField},
    {JsonLevel::kMeta, "requires_grad", kRequiresGrad},
    {JsonLevel::kDevice, "type", kDeviceType},
    {JsonLevel::kDevice, "index", kDeviceIndex},
    {JsonLevel::kSize, "as_int", kAsInt},
    {JsonLevel::kStride, "as_int", kAsInt},
    {JsonLevel::kOffset, "as_int", kAsInt},
};

// Receives the events of the JSON parser. A function that returns false ends the reading, and
// `wrong_` says why.
class ConfigReader {
 public:
  std::vector<Payload> take() { return std::move(payloads_); }
  const std::string& wrong() const noexcept { return wrong_; }
  size_t wrong_at() const noexcept { return wrong_at_; }
  bool has_config() const noexcept { return has_config_; }

  bool null() {
    if (field_ == kTensorMeta || field_ == kDeviceIndex) return true;
    return ignore("is null");
  }
  bool boolean(bool value) {
    if (place() == JsonLevel::kPayload && field_ == kUsePickle)
      payloads_.back().use_pickle = value;
    else if (place() == JsonLevel::kMeta && field_ == kRequiresGrad)
      payloads_.back().requires_grad = value;
    else
      return ignore("is a boolean");
    return true;
  }
  bool number_integer(int64_t value) { return integer(value); }
  bool number_unsigned(uint64_t value) {
    return value > static_cast<uint64_t>(INT64_MAX) ? ignore("is too large")
                                                    : integer(static_cast<int64_t>(value));
  }
  bool number_float(double, const std::string&) { return ignore("is no integer"); }
  bool string(std::string& value) {
    if (place() == JsonLevel::kPayload && field_ == kPathName)
      payloads_.back().path_name = std::move(value);
    else if (place() == JsonLevel::kDevice && field_ == kDeviceType)
      device_ = std::move(value);
    else
      return ignore("is a text");
    return true;
  }
  bool binary(Json::binary_t&) { return false; }

  bool start_object(size_t) {
    switch (place()) {
      case JsonLevel::kRoot:
        if (frames_.empty()) return enter(JsonLevel::kRoot);
        if (!is_config_) return enter(JsonLevel::kSkipped);
        if (has_config_) return refuse("is there twice");
        has_config_ = true;
        return enter(JsonLevel::kConfig);
      case JsonLevel::kConfig: return enter(JsonLevel::kPayload);
      case JsonLevel::kPayload:
        if (field_ != kTensorMeta) return ignore_inside("is an object");
        payloads_.back().has_meta = true;
        return enter(JsonLevel::kMeta);
      case JsonLevel::kMeta:
        if (field_ == kDeviceField) {
          device_index_ = 0;
          return enter(JsonLevel::kDevice);
        }
        return field_ == kOffsetField ? enter(JsonLevel::kOffset) : ignore_inside("is an object");
      case JsonLevel::kSizes: return enter(JsonLevel::kSize);
      case JsonLevel::kStrides: return enter(JsonLevel::kStride);
      case JsonLevel::kSize:
      case JsonLevel::kStride:
      case JsonLevel::kOffset:
        // The number is an expression of symbols.
        payloads_.back().is_symbolic = true;
        return ignore_inside("is an object");
      default: return ignore_inside("is an object");
    }
  }

  bool key(std::string& name) {
    field_ = 0;
    if (place() == JsonLevel::kRoot) is_config_ = name == "config";
    if (place() == JsonLevel::kConfig) {
      payloads_.emplace_back();
      payloads_.back().name = std::move(name);
      return true;
    }
    for (const KnownField& known : kKnownFields) {
      if (known.place != place() || known.name != name) continue;
      field_ = known.field;
      if ((frames_.back().seen & field_) != 0) return refuse("is there twice");
      frames_.back().seen |= field_;
    }
    return true;
  }

  bool end_object() {
    const Frame done = frames_.back();
    frames_.pop_back();
    field_ = 0;
    switch (done.place) {
      case JsonLevel::kPayload: return has_all(done, kPayloadFields);
      case JsonLevel::kMeta: return has_all(done, kMetaFields);
      case JsonLevel::kDevice: return has_all(done, kDeviceType) && take_device();
      case JsonLevel::kSize:
      case JsonLevel::kStride:
      case JsonLevel::kOffset: return payloads_.back().is_symbolic || has_all(done, kAsInt);
      default: return true;
    }
  }

  bool start_array(size_t) {
    if (place() == JsonLevel::kMeta && field_ == kSizesField) return enter(JsonLevel::kSizes);
    if (place() == JsonLevel::kMeta && field_ == kStridesField) return enter(JsonLevel::kStrides);
    return ignore_inside("is a list");
  }
  bool end_array() {
    frames_.pop_back();
    field_ = 0;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const Json::exception&) {
    wrong_ = "is no JSON";
    wrong_at_ = position;
    return false;
  }

 private:
  struct Frame {
    JsonLevel place = JsonLevel::kRoot;
    uint32_t seen = 0;  // the fields that were read, as bits
  };

  JsonLevel place() const noexcept {
    return frames_.empty() ? JsonLevel::kRoot : frames_.back().place;
  }

  bool enter(JsonLevel place) {
    if (frames_.size() >= kMostDepth) return refuse("is too deep");
    frames_.push_back({place, 0});
    field_ = 0;
    return true;
  }

  bool refuse(const char* what) {
    wrong_ = "has a field that " + std::string(what);
    if (!payloads_.empty()) wrong_ += format(", at \"%.200s\"", payloads_.back().name.c_str());
    return false;
  }

  // Ignores the value of an unknown field. Refuses it if a known field has it.
  bool ignore(const char* what) {
    const bool is_known = field_ != 0 || place() == JsonLevel::kConfig ||
                          place() == JsonLevel::kSizes || place() == JsonLevel::kStrides ||
                          frames_.empty() || (place() == JsonLevel::kRoot && is_config_);
    return is_known ? refuse(what) : true;
  }
  bool ignore_inside(const char* what) { return ignore(what) && enter(JsonLevel::kSkipped); }

  bool has_all(const Frame& frame, uint32_t fields) {
    return (frame.seen & fields) == fields || refuse("is missing");
  }

  bool integer(int64_t value) {
    Payload* const payload = payloads_.empty() ? nullptr : &payloads_.back();
    switch (place()) {
      case JsonLevel::kMeta:
        if (field_ == kDtype)
          payload->dtype = value;
        else if (field_ == kLayoutField)
          payload->layout = value;
        else
          return ignore("is a number");
        return true;
      case JsonLevel::kSize:
        return field_ == kAsInt ? add_dim(&payload->sizes, value) : ignore("is a number");
      case JsonLevel::kStride:
        return field_ == kAsInt ? add_dim(&payload->strides, value) : ignore("is a number");
      case JsonLevel::kOffset:
        if (field_ != kAsInt) return ignore("is a number");
        payload->offset = value;
        return true;
      case JsonLevel::kDevice:
        if (field_ != kDeviceIndex) return ignore("is a number");
        device_index_ = value;
        return true;
      default: return ignore("is a number");
    }
  }

  bool add_dim(std::vector<int64_t>* dims, int64_t value) {
    if (dims->size() >= kMostDims) return refuse("has more than 64 dimensions");
    dims->push_back(value);
    return true;
  }

  bool take_device() {
    const bool has_one = device_ == "cpu" || device_ == "meta";
    payloads_.back().device = has_one ? device_ : device_ + ":" + std::to_string(device_index_);
    return true;
  }

  std::vector<Frame> frames_;
  uint32_t field_ = 0;  // the field of the next value; 0 if it is not known
  bool is_config_ = false;
  bool has_config_ = false;
  std::string device_;
  int64_t device_index_ = 0;
  std::vector<Payload> payloads_;
  std::string wrong_;
  size_t wrong_at_ = 0;
};

}  // namespace

Result<std::vector<Payload>> read_payload_config(std::string_view text, const std::string& record) {
  ConfigReader reader;
  const bool is_read = Json::sax_parse(text.begin(), text.end(), &reader);
  const std::string wrong =
      is_read && !reader.has_config() ? "has no list \"config\"" : reader.wrong();
  if (is_read && reader.has_config()) return reader.take();
  return Status(Code::kCorrupt, format("the record %.200s %s", record.c_str(), wrong.c_str()))
      .with("record", record)
      .with("offset", uint64_t{reader.wrong_at()});
}

#else

Result<std::vector<Payload>> read_payload_config(std::string_view, const std::string&) {
  return Status(Code::kUnsupported,
                "this build of Tenon reads no JSON, and so no such .pt2 archive: build it where "
                "nlohmann/json.hpp is installed "
                "(nlohmann-json3-dev of Debian)");
}

#endif

}  // namespace tenon::weights
