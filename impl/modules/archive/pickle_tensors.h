// Reads tensors and their storages from the nodes of a pickle. A tensor is a call of a function of
// torch._utils or torch._tensor. pickle_to_values() and pickle_state_dict() use this class.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "modules/archive/pickle_to_values.h"
#include "modules/value/tensor_value.h"
#include "pickle/nodes.h"
#include "tensor/scalar_type.h"

namespace tenon::archive {

class PickledTensors {
 public:
  struct Options {
    // As in ToValuesOptions (pickle_to_values.h). Null: a tensor with a storage is refused.
    FindStorage find_storage;
    // As in StateDictOptions (pickle_state_dict.h).
    bool any_device = false;
    // Whether the pickle is a file of torch.save. torch.load makes one storage for equal keys.
    // torch.jit.load makes one each time that the pickle spells out a persistent id. Python also
    // writes sparse tensors in a form of its own, which is accepted only if `general` is true.
    bool general = false;
  };

  // `tree` must outlive this object. One thread at a time may use the object.
  PickledTensors(const pickle::PickleTree& tree, Options options)
      : tree_(tree), options_(std::move(options)) {}

  // Whether the node calls a function of PyTorch that makes tensors. The function may be unknown
  // here, and the call malformed.
  bool is_tensor(pickle::NodeId id) const noexcept;
  // Whether that call makes a torch.nn.Parameter.
  bool is_parameter(pickle::NodeId id) const noexcept;
  // Makes a new tensor at each call. A caller that wants one tensor per node keeps it. The errors
  // are those of pickle_to_values(), and those of find_storage.
  Result<value::TensorValueRef> read(pickle::NodeId id);

  // Whether the node is the persistent id of a storage. storage_of() reads it. `element` is the
  // element type if the tensor says it and the storage does not. The result borrows from the tree.
  bool is_storage(pickle::NodeId id) const noexcept;
  Result<PickledStorage> storage_of(pickle::NodeId id, std::optional<tensor::ScalarType> element);

 private:
  enum class Form : uint8_t {
    kNone,
    kV1,
    kV2,
    kV3,
    kQuantised,
    kSparse,
    kMeta,
    kParameter,
    kFromType
  };
  // One call. Its arguments were a tuple.
  struct Call {
    pickle::NodeId node = pickle::kNoNode;
    Form form = Form::kNone;
    std::span<const pickle::NodeId> arguments;
  };

  static Form form_of(std::string_view module, std::string_view name) noexcept;
  Form form(pickle::NodeId id) const noexcept;

  Result<value::TensorValueRef> read(pickle::NodeId id, int depth);
  Result<value::TensorValueRef> read_call(const Call& call, int depth);
  Result<value::TensorValueRef> read_strided(const Call& call);
  Result<value::TensorValueRef> read_meta(const Call& call);
  Result<value::TensorValueRef> read_sparse(const Call& call);
  Result<value::TensorValueRef> read_parameter(const Call& call, int depth);
  Result<value::TensorValueRef> read_from_type(const Call& call, int depth);
  Result<value::TensorValueRef> read_part(pickle::NodeId id);  // the part must be a strided tensor

  Status read_quantizer(pickle::NodeId id, value::StridedSpec* spec);
  Status read_math_bits(pickle::NodeId id, value::StridedSpec* spec) const;
  Result<value::StorageValueRef> read_storage(pickle::NodeId id,
                                              std::optional<tensor::ScalarType> element);
  Result<value::StorageValueRef> find_storage(pickle::NodeId id,
                                              std::optional<tensor::ScalarType> element);
  Result<tensor::ScalarType> storage_type(pickle::NodeId id,
                                          std::optional<tensor::ScalarType> element) const;

  Status check_device(pickle::NodeId id);
  Status check_count(const Call& call, size_t min, size_t max) const;
  Status check_hooks(pickle::NodeId id) const;
  Result<int64_t> integer(pickle::NodeId id, const char* what) const;
  Result<bool> boolean(pickle::NodeId id, const char* what) const;
  Status read_dims(pickle::NodeId id, const char* what, std::vector<int64_t>* out) const;
  Result<tensor::ScalarType> scalar_type(pickle::NodeId id) const;
  Result<value::TensorLayout> layout(pickle::NodeId id) const;
  Status wrong(pickle::NodeId id, const char* what, const char* wanted) const;
  // Turns an error of impl/modules/value about the file's content into an error with the place in
  // the file.
  Status placed(pickle::NodeId id, const Status& status) const;

  // A cache of the last nodes that were checked, and what they mean. A pickle has the callable of
  // its tensors and the class of their storages once, and refers to them.
  struct CheckedNodes {
    pickle::NodeId callable = pickle::kNoNode;
    Form form = Form::kNone;
    pickle::NodeId storage_class = pickle::kNoNode;
    tensor::ScalarType type = tensor::ScalarType::kByte;
    pickle::NodeId storage_word = pickle::kNoNode;  // 'storage'
    pickle::NodeId device = pickle::kNoNode;        // a device that was accepted
    pickle::NodeId hooks = pickle::kNoNode;         // OrderedDict
  };

  const pickle::PickleTree& tree_;
  const Options options_;
  mutable CheckedNodes checked_;
  // The sizes and strides of the last tensor. The next tensor reuses their memory.
  std::vector<int64_t> sizes_;
  std::vector<int64_t> strides_;
  std::vector<value::StorageValueRef> by_index_;  // by persistent_index(); empty until the first
                                                  // storage is read
  std::map<std::string_view, value::StorageValueRef> by_key_;
};

}  // namespace tenon::archive
