// Reads the tensors and values of a module in PyTorch's flatbuffer form (contents_builder.h).
#include <map>
#include <string>
#include <utility>

#include "modules/flatbuffer/module_reader.h"
#include "modules/value/value.h"
#include "modules/weights/contents_builder.h"

namespace tenon::weights {

using flatbuffer::ModuleReader;
using value::StorageValue;
using value::StorageValueRef;
using value::Value;
using value::ValueKind;

namespace {

// Walks the values of a module. A value that several places share gets a name for each of them.
class ModuleValues {
 public:
  ModuleValues(const PartStorages& part, const pickle::PickleLimits& limits,
               Contents* contents) noexcept
      : part_(part), limits_(limits), contents_(contents) {}

  // The reader of the file has bounded the depth.
  Status add(const value::ValueRef& value) {
    // A shared value is walked for each of its names, and a short file can give it many.
    names_nbytes_ += name_.size();
    if (++visits_ > limits_.max_nodes) return over_limit("max_nodes");
    if (names_nbytes_ > limits_.max_names_nbytes) return over_limit("max_names_nbytes");
    switch (value->kind()) {
      case ValueKind::kTensor: add_tensor(value->as_tensor()); return Status::ok();
      case ValueKind::kObject: {
        if (value->is_opaque()) return add_below("state", value->state());
        for (const value::Attribute& each : value->attributes().all())
          TENON_TRY(add_below(each.name, each.value));
        return Status::ok();
      }
      case ValueKind::kTuple:
      case ValueKind::kList:
        for (size_t i = 0; i < value->items().size(); ++i)
          TENON_TRY(add_below(std::to_string(i), value->items()[i]));
        return Status::ok();
      case ValueKind::kDict:
        for (const value::DictEntry& each : value->entries())
          TENON_TRY(add_below(key_text(*each.key), each.value));
        return Status::ok();
      case ValueKind::kEnum: add_skipped(name_, "an enum", contents_); return Status::ok();
      default: add_value(name_, value, contents_); return Status::ok();
    }
  }

 private:
  static std::string key_text(const Value& key) {
    switch (key.kind()) {
      case ValueKind::kStr: return std::string(key.as_str());
      case ValueKind::kInt: return std::to_string(key.as_int());
      case ValueKind::kBool: return key.as_bool() ? "True" : "False";
      default: return value::value_kind_name(key.kind());
    }
  }

  Status add_below(const std::string& step, const value::ValueRef& value) {
    const size_t nbytes = name_.size();
    if (nbytes != 0) name_ += '.';
    name_ += step;
    TENON_TRY(add(value));
    name_.resize(nbytes);
    return Status::ok();
  }

  void add_tensor(const value::TensorValueRef& tensor) {
    Weight weight;
    weight.name = name_;
    const StorageValueRef& storage = tensor->storage();
    if (storage && storage->bytes()) weight.slot = part_.slot_of(storage->bytes().get());
    weight.made = tensor;
    contents_->weights.push_back(std::move(weight));
  }

  static Status over_limit(const char* limit) {
    return Status(Code::kResourceExhausted,
                  format("the names in the module exceed the limit %s", limit))
        .with("limit", limit);
  }

  const PartStorages& part_;
  const pickle::PickleLimits& limits_;
  Contents* contents_;
  std::string name_;
  uint64_t visits_ = 0;
  uint64_t names_nbytes_ = 0;
};

}  // namespace

Status read_flatbuffer_module(const module::ImportOptions& options, Contents* contents) {
  TENON_ASSIGN(ModuleReader reader, ModuleReader::open(*contents->source, options.pickle_limits));
  Part added;
  added.reader = archive::ZipReader::of_ranges(contents->source, reader.storages(), "storage ");
  contents->parts.push_back(std::move(added));
  PartStorages part(contents, options, false);
  std::map<std::pair<uint32_t, tensor::ScalarType>, StorageValueRef> known;
  const auto find = [&](uint32_t index, tensor::ScalarType type) -> Result<StorageValueRef> {
    StorageValueRef& storage = known[{index, type}];
    if (storage) return storage;
    TENON_ASSIGN(Ref<storage::Storage> bytes, part.known_bytes_of(index, type, "cpu"));
    const uint64_t numel =
        bytes ? part.record(index).nbytes / tensor::scalar_type_info(type).nbytes : 0;
    TENON_ASSIGN(storage, StorageValue::create(type, numel, std::move(bytes)));
    return storage;
  };
  TENON_TRY(reader.read_values(find, [](const std::string&) { return Status::ok(); }));
  TENON_ASSIGN(const value::ValueRef root, reader.root());
  TENON_TRY(ModuleValues(part, options.pickle_limits, contents).add(root));
  return part.finish();
}

}  // namespace tenon::weights
