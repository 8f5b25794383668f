// From values to the bytes that PyTorch's C++ pickler writes for them: the same opcodes, the same
// memo.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "value/tensor_value.h"
#include "value/value.h"

namespace tenon::archive {

// The key of a storage. Called once per storage of one pickle, when its first tensor is written.
// The storage is one that whoever writes the archive has to put into the record <directory>/<key>.
using NameStorage = std::function<Result<std::string>(const value::StorageValueRef& storage)>;

// "0", "1", … in the order of first use, as PyTorch names the storages of data.pkl.
class SequentialKeys {
 public:
  NameStorage namer();
  // By key. Valid once the pickle is written.
  const std::vector<value::StorageValueRef>& storages() const noexcept { return storages_; }

 private:
  std::vector<value::StorageValueRef> storages_;
};

struct FromValuesOptions {
  NameStorage name_storage;  // null: a tensor is refused
  // UnpickledValue::memoised: what is put into the memo though nothing refers to it. May be null.
  const std::vector<value::ValueRef>* memoised = nullptr;
  // Of storages on a device; else "cpu" is written.
  bool keep_device = false;
  std::string record = "data.pkl";  // what messages call it
  // Of the type of None, in the types of lists and dicts.
  std::string_view none_name = value::Type::kNoneName;
};

// UNSUPPORTED for a tensor that PyTorch's pickle has no form for (CSC, BSR and BSC),
// INVALID_ARGUMENT for values that contain themselves or are nested deeper than
// value::kMaxWalkDepth, for a class name that is none, and for an item that its list's type does
// not allow.
Result<std::vector<std::byte>> values_to_pickle(const value::ValueRef& root,
                                                const FromValuesOptions& options);

}  // namespace tenon::archive
