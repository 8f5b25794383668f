// Writes values as a pickle, in the bytes that PyTorch's C++ pickler writes for them: the same
// opcodes and the same memo. Exports call it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "modules/value/tensor_value.h"
#include "modules/value/value.h"

namespace tenon::archive {

// Gives a storage its key. It is called once per storage of one pickle, when the first tensor over
// that storage is written. The writer of the archive must then put the storage's bytes into the
// record <directory>/<key>.
using NameStorage = std::function<Result<std::string>(const value::StorageValueRef& storage)>;

// Gives the keys "0", "1", … in the order of first use, as PyTorch names the storages of data.pkl.
class SequentialKeys {
 public:
  // The object must outlive the function.
  NameStorage namer();
  // The storages, indexed by their keys. Complete once the pickle is written.
  const std::vector<value::StorageValueRef>& storages() const noexcept { return storages_; }

 private:
  std::vector<value::StorageValueRef> storages_;
};

struct FromValuesOptions {
  NameStorage name_storage;  // null: a tensor is refused with UNSUPPORTED
  // UnpickledValue::memoised: values that are put into the memo even if nothing refers to the
  // entry. Borrowed for the call. May be null.
  const std::vector<value::ValueRef>* memoised = nullptr;
  // Writes the device of storages that are on a device. Otherwise "cpu" is written for them.
  bool keep_device = false;
  std::string record = "data.pkl";  // the record's name in messages
  // The name of None's type, in the type texts of lists and dicts.
  std::string_view none_name = value::Type::kNoneName;
};

// UNSUPPORTED for a tensor that PyTorch's pickle has no form for (CSC, BSR and BSC).
// INVALID_ARGUMENT for values that contain themselves or are nested deeper than
// value::kMaxWalkDepth, for a class name that is no qualified name, and for an item that its list's
// type does not allow. An error of name_storage is returned as it is. The caller holds ReadTrees
// (value/tree_lock.h) if other threads can reach the objects.
Result<std::vector<std::byte>> values_to_pickle(const value::ValueRef& root,
                                                const FromValuesOptions& options);

}  // namespace tenon::archive
