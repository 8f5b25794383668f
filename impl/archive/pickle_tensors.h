// The calls of torch._utils that stand for tensors, and the storages below them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "archive/pickle_nodes.h"
#include "archive/pickle_to_values.h"
#include "base/status.h"
#include "value/scalar_type.h"
#include "value/tensor_value.h"

namespace tenon::archive {

class PickledTensors {
 public:
  struct Options {
    FindStorage find_storage;
    bool any_device = false;
    // A file of torch.save. torch.load takes equal keys for one storage, where torch.jit.load takes
    // one for each time that a pickle spells it out; and Python writes sparse tensors in a form of
    // its own.
    bool general = false;
  };

  // `tree` must outlive this.
  PickledTensors(const PickleTree& tree, Options options)
      : tree_(tree), options_(std::move(options)) {}

  // Whether this node is a call of what makes tensors in PyTorch, known here or not, well-formed or
  // not.
  bool is_tensor(NodeId id) const noexcept;
  // Whether that call is one of torch.nn.Parameter's.
  bool is_parameter(NodeId id) const noexcept;
  // A tensor of its own each time: who wants one per node keeps it.
  Result<value::TensorValueRef> read(NodeId id);

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
  // One call, with its arguments checked to be a tuple.
  struct Call {
    NodeId node = kNoNode;
    Form form = Form::kNone;
    std::span<const NodeId> arguments;
  };

  static Form form_of(std::string_view module, std::string_view name) noexcept;
  Form form(NodeId id) const noexcept;

  Result<value::TensorValueRef> read(NodeId id, int depth);
  Result<value::TensorValueRef> read_call(const Call& call, int depth);
  Result<value::TensorValueRef> read_strided(const Call& call);
  Result<value::TensorValueRef> read_meta(const Call& call);
  Result<value::TensorValueRef> read_sparse(const Call& call);
  Result<value::TensorValueRef> read_parameter(const Call& call, int depth);
  Result<value::TensorValueRef> read_from_type(const Call& call, int depth);
  Result<value::TensorValueRef> read_part(NodeId id);  // one that is strided itself

  Status read_quantizer(NodeId id, value::StridedSpec* spec);
  Status read_math_bits(NodeId id, value::StridedSpec* spec) const;
  Result<value::StorageValueRef> read_storage(NodeId id, std::optional<value::ScalarType> element);
  Result<value::StorageValueRef> find_storage(NodeId id, std::optional<value::ScalarType> element);
  Result<value::ScalarType> storage_type(NodeId id, std::optional<value::ScalarType> element) const;

  Status check_device(NodeId id);
  Status check_count(const Call& call, size_t min, size_t max) const;
  Status check_hooks(NodeId id) const;
  Result<int64_t> integer(NodeId id, const char* what) const;
  Result<bool> boolean(NodeId id, const char* what) const;
  Status read_dims(NodeId id, const char* what, std::vector<int64_t>* out) const;
  Result<value::ScalarType> scalar_type(NodeId id) const;
  Result<value::TensorLayout> layout(NodeId id) const;
  Status wrong(NodeId id, const char* what, const char* wanted) const;
  // What impl/value refuses in what a file says, with the place in the file.
  Status placed(NodeId id, const Status& status) const;

  // A pickle has the callable of its tensors and the class of their storages once, and refers to
  // them: what the last one means is kept.
  struct Known {
    NodeId callable = kNoNode;
    Form form = Form::kNone;
    NodeId storage_class = kNoNode;
    value::ScalarType type = value::ScalarType::kByte;
    NodeId storage_word = kNoNode;  // 'storage'
    NodeId device = kNoNode;        // one that was checked
    NodeId hooks = kNoNode;         // OrderedDict
  };

  const PickleTree& tree_;
  const Options options_;
  mutable Known known_;
  // Of the last tensor: their memory serves the next.
  std::vector<int64_t> sizes_;
  std::vector<int64_t> strides_;
  std::vector<value::StorageValueRef> by_index_;  // of persistent ids; empty until there is one
  std::map<std::string_view, value::StorageValueRef> by_key_;
};

// Whether a node is the global `module name`, or a call of it.
bool is_global(const PickleTree& tree, NodeId id, std::string_view module,
               std::string_view name) noexcept;
bool is_call_of(const PickleTree& tree, NodeId id, std::string_view module,
                std::string_view name) noexcept;
// The arguments of a call, if they are a tuple; else nothing.
std::span<const NodeId> call_arguments(const PickleTree& tree, NodeId id) noexcept;

}  // namespace tenon::archive
