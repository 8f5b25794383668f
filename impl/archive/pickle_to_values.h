// From the nodes of a module archive's pickle (data.pkl, constants.pkl) to values.
//
// What the pickle shares is shared: one node is one value, one pickled storage one storage. Lists
// and dicts have the types that the pickle says; those that archives of versions 1 and 2 leave bare
// have none (declared_type() is null), and whoever has the code fills them in. An object has
// attributes if its state is a bare dict, which is what PyTorch writes for a class without
// __getstate__; every other state, and that of a custom C++ class (__torch__.torch.classes.*), is
// kept as it is.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "archive/pickle_nodes.h"
#include "archive/pickle_reader.h"
#include "base/status.h"
#include "value/tensor_value.h"
#include "value/value.h"

namespace tenon::archive {

// One storage as the pickle tells of it.
struct PickledStorage {
  std::string_view key;  // its record is data/<key>
  value::ScalarType type = value::ScalarType::kByte;
  uint64_t numel = 0;
  // One that check_device() takes or a CUDA device, unless any_device asks for all.
  std::string_view device;
  NodeId node = kNoNode;
};

// Called once per pickled storage, in the order in which tensors need them.
using FindStorage = std::function<Result<value::StorageValueRef>(const PickledStorage& storage)>;

// Called once per class of the pickle, before its first object or enum is made: whether the archive
// has that class. An error ends the reading.
using CheckClass = std::function<Status(std::string_view class_name)>;

struct ToValuesOptions {
  FindStorage find_storage;  // null: a tensor is refused
  CheckClass check_class;    // null: every name that can be a class is taken
  bool memoised = true;      // whether UnpickledValue::memoised is wanted
  PickleLimits limits;       // max_depth, max_name_nbytes and max_names_nbytes are looked at
};

struct UnpickledValue {
  value::ValueRef root;
  // The values that PyTorch's pickler put into its memo: those that something besides the archive
  // held, shared within it or not. Given to values_to_pickle, it writes the same bytes again. It
  // has no other use: drop it as soon as any value is replaced.
  std::vector<value::ValueRef> memoised;
};

// CORRUPT for what PyTorch never writes, UNSUPPORTED (by name) for globals, devices and tensors
// that are not known here, RESOURCE_EXHAUSTED beyond a limit; all with the details record and
// offset. A value that contains itself is CORRUPT.
Result<UnpickledValue> pickle_to_values(const PickleTree& tree, const ToValuesOptions& options);

}  // namespace tenon::archive
