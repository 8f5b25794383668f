// The part of PickledTensors that reads storages. A storage is a persistent id ("storage",
// torch.FloatStorage, key, device, numel).
#include "modules/archive/pickle_tensors.h"

namespace tenon::archive {
namespace {

using tensor::ScalarType;
using value::StorageValueRef;

constexpr size_t kMaxDeviceNbytes = 64;

}  // namespace

Result<ScalarType> PickledTensors::storage_type(pickle::NodeId id,
                                                std::optional<ScalarType> element) const {
  if (id == checked_.storage_class && !element) return checked_.type;
  if (tree_.kind(id) != pickle::NodeKind::kGlobal)
    return wrong(id, "the class of a storage", "a global");
  const bool of_torch = tree_.module(id) == "torch" || tree_.module(id) == "torch.cuda" ||
                        tree_.module(id) == "torch.storage";
  if (of_torch && tree_.name(id) == "UntypedStorage") return element.value_or(ScalarType::kByte);
  const std::optional<ScalarType> type =
      tensor::scalar_type_from_storage_name(of_torch ? tree_.name(id) : std::string_view());
  if (!type)
    return tree_.error(Code::kUnsupported, id,
                       format("the storage class %s is not known", tree_.describe(id).c_str()));
  if (element && *element != *type)
    return wrong(id, "the class of a storage", "that of its tensor's dtype");
  checked_.storage_class = id;
  checked_.type = *type;
  return *type;
}

Result<StorageValueRef> PickledTensors::read_storage(pickle::NodeId id,
                                                     std::optional<ScalarType> element) {
  if (tree_.kind(id) != pickle::NodeKind::kPersistent)
    return wrong(id, "a storage", "a persistent id");
  if (by_index_.empty()) by_index_.resize(tree_.persistent_count());
  StorageValueRef& known = by_index_[tree_.persistent_index(id)];
  if (!known) {
    TENON_ASSIGN(known, find_storage(id, element));
    return known;
  }
  if (element && known->type() != *element)
    return tree_.error(Code::kUnsupported, id, "a storage that tensors of two dtypes share");
  return known;
}

Status PickledTensors::check_device(pickle::NodeId id) {
  if (tree_.text(id).size() > kMaxDeviceNbytes) return wrong(id, "a device", "a short name");
  // find_storage decides where the bytes of a module's tensor go, so any device name is accepted
  // here. For a state dict, other devices than cpu and meta are accepted only with any_device.
  const bool is_of_module = !options_.general && value::is_device_name(tree_.text(id));
  if (!options_.any_device && !is_of_module) {
    if (const Status known = value::check_device(tree_.text(id)); !known.is_ok())
      return placed(id, known);
  }
  checked_.device = id;
  return Status::ok();
}

bool PickledTensors::is_storage(pickle::NodeId id) const noexcept {
  if (tree_.kind(id) != pickle::NodeKind::kPersistent) return false;
  const pickle::NodeId tuple = tree_.persistent_id(id);
  return tree_.kind(tuple) == pickle::NodeKind::kTuple && !tree_.children(tuple).empty() &&
         tree_.kind(tree_.children(tuple)[0]) == pickle::NodeKind::kStr &&
         tree_.text(tree_.children(tuple)[0]) == "storage";
}

// Reads the tuple of a storage. Archives of PyTorch 1.4 have a sixth element, None.
Result<PickledStorage> PickledTensors::storage_of(pickle::NodeId id,
                                                  std::optional<ScalarType> element) {
  const pickle::NodeId tuple = tree_.persistent_id(id);
  const std::span<const pickle::NodeId> parts = tree_.kind(tuple) == pickle::NodeKind::kTuple
                                                    ? tree_.children(tuple)
                                                    : std::span<const pickle::NodeId>();
  if (parts.size() < 5 || parts.size() > 6) return wrong(tuple, "a storage", "a tuple of 5");
  if (parts.size() == 6 && tree_.kind(parts[5]) != pickle::NodeKind::kNone) {
    return tree_.error(Code::kUnsupported, id, "a storage that is a view of another");
  }
  for (const size_t i : {size_t{0}, size_t{2}, size_t{3}}) {
    if (tree_.kind(parts[i]) != pickle::NodeKind::kStr)
      return wrong(parts[i], "the kind, key or device of a storage", "a str");
  }
  if (parts[0] != checked_.storage_word && tree_.text(parts[0]) != "storage") {
    return wrong(parts[0], "the kind of a persistent id", "'storage'");
  }
  checked_.storage_word = parts[0];

  PickledStorage storage;
  storage.node = id;
  storage.key = tree_.text(parts[2]);
  storage.device = tree_.text(parts[3]);
  TENON_ASSIGN(storage.type, storage_type(parts[1], element));
  TENON_ASSIGN(const int64_t numel, integer(parts[4], "the number of elements of a storage"));
  if (numel < 0) return wrong(parts[4], "the number of elements of a storage", "none below 0");
  storage.numel = static_cast<uint64_t>(numel);
  // The tuple of an untyped storage counts bytes.
  if (element && tree_.name(parts[1]) == "UntypedStorage")
    storage.numel /= tensor::scalar_type_info(*element).nbytes;
  if (parts[3] != checked_.device) TENON_TRY(check_device(parts[3]));
  return storage;
}

Result<StorageValueRef> PickledTensors::find_storage(pickle::NodeId id,
                                                     std::optional<ScalarType> element) {
  TENON_ASSIGN(const PickledStorage storage, storage_of(id, element));
  const auto refuse = [&](Code code, const char* what) {
    return tree_.error(code, id,
                       format("the storage '%.200s' %s", std::string(storage.key).c_str(), what));
  };
  if (options_.general) {
    const auto same = by_key_.find(storage.key);
    if (same != by_key_.end()) {
      if (same->second->type() == storage.type && same->second->numel() == storage.numel)
        return same->second;
      return refuse(Code::kUnsupported, "is there twice, and differs");
    }
  }
  if (!options_.find_storage)
    return tree_.error(Code::kUnsupported, id, "a tensor where none can be");
  TENON_ASSIGN(StorageValueRef found, options_.find_storage(storage));
  if (found->type() != storage.type || found->numel() < storage.numel)
    return refuse(Code::kInternal, "was found as another");
  if (options_.general) by_key_.emplace(storage.key, found);
  return found;
}

}  // namespace tenon::archive
