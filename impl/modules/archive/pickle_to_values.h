// Makes values from the nodes of a module archive's pickle (data.pkl, constants.pkl). Imports call
// it.
//
// Sharing is kept: one node becomes one value, and one pickled storage becomes one storage. Lists
// and dicts have the types that the pickle says. Archives of versions 1 and 2 may say none. Then
// declared_type() is null, and a caller that has the code fills the type in. An object gets
// attributes if its state is a bare dict, which PyTorch writes for a class without __getstate__.
// Any other state is kept as it is, and so is the state of a custom C++ class
// (__torch__.torch.classes.*).
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "modules/value/tensor_value.h"
#include "modules/value/value.h"
#include "pickle/nodes.h"
#include "pickle/reader.h"

namespace tenon::archive {

// One storage as the pickle describes it. The texts are views into the pickle, which are valid only
// until FindStorage returns.
struct PickledStorage {
  std::string_view key;  // its record is data/<key>
  tensor::ScalarType type = tensor::ScalarType::kByte;
  uint64_t numel = 0;
  // In a module archive, a device name that check_device() or is_device_name() accepts. In a file
  // of torch.save, "cpu" or "meta", or any short name if StateDictOptions::any_device is set.
  std::string_view device;
  pickle::NodeId node = pickle::kNoNode;
};

// Finds a storage. It is called once per pickled storage, in the order in which tensors need them.
// The result must have the type and at least the `numel` that were asked for, or the reading fails
// with INTERNAL.
using FindStorage = std::function<Result<value::StorageValueRef>(const PickledStorage& storage)>;

// Checks that the archive has a class. It is called once per class of the pickle, before the first
// object or enum of that class is made. An error ends the reading.
using CheckClass = std::function<Status(std::string_view class_name)>;

struct ToValuesOptions {
  FindStorage find_storage;     // null: a tensor is refused with UNSUPPORTED
  CheckClass check_class;       // null: every qualified name is accepted
  bool memoised = true;         // whether UnpickledValue::memoised is wanted
  pickle::PickleLimits limits;  // only max_depth, max_name_nbytes and max_names_nbytes are used
};

struct UnpickledValue {
  value::ValueRef root;
  // The values that PyTorch's pickler put into its memo. It does so with each value to which the
  // saving process had another reference, so the pickle may mention such a value only once. With
  // this list values_to_pickle() writes the same bytes again. The list has no other use. Drop it as
  // soon as any value is replaced.
  std::vector<value::ValueRef> memoised;
};

// The module of the functions that make lists and dicts of declared types.
inline constexpr std::string_view kTypedListModule = "torch.jit._pickle";
// Whether the classes of that module are PyTorch's custom classes in C++.
bool is_custom_module(std::string_view module) noexcept;

// CORRUPT for content that PyTorch never writes, and for a value that contains itself. UNSUPPORTED,
// by name, for globals, devices and tensors that are not known here. RESOURCE_EXHAUSTED beyond a
// limit. All have the details record and offset. INVALID_ARGUMENT of find_storage or check_class
// becomes CORRUPT, and their other errors keep their codes. The values do not refer to `tree`.
Result<UnpickledValue> pickle_to_values(const pickle::PickleTree& tree,
                                        const ToValuesOptions& options);

}  // namespace tenon::archive
