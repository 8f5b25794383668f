// Reads the tensors of a torch.save file by name. The file can be a state dict, or a checkpoint
// that holds several. No Python object is made. `tenon inspect` and impl/modules/weights call this.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "modules/archive/pickle_to_values.h"
#include "modules/value/tensor_value.h"
#include "pickle/nodes.h"

namespace tenon::archive {

struct NamedTensor {
  // The keys that lead to the tensor, joined by dots: "fc.weight", "optimizer.state.0.exp_avg".
  // Items of lists and tuples are numbered from 0. Empty if the file is a single tensor.
  std::string name;
  value::TensorValueRef tensor;  // a tensor that is pickled once and has two names is one object
  bool is_parameter = false;
  // The error UNSUPPORTED if the tensor is of a kind that is not known. Then `tensor` is null.
  Status why;
};

// A value that is neither a tensor nor a container: a number, a text, None, or an object that only
// Python could make.
struct StateDictLeaf {
  std::string name;
  value::ValueRef value;  // null: it was skipped
  std::string what;       // what was skipped: "a call of 'numpy.core.multiarray.scalar'"
};

struct StateDict {
  std::vector<NamedTensor> tensors;  // in the order of the file
  std::vector<StateDictLeaf> leaves;
};

struct StateDictOptions {
  // Called once per key: storages with equal keys are one storage, as in torch.load.
  FindStorage find_storage;
  // Whether find_storage is asked for storages of every device ("cuda:0"), whose bytes are in the
  // file all the same. If not, a tensor on a device other than cpu and meta is refused.
  bool any_device = false;
  // Whether the pickle is that of a module archive (data.pkl of torch.jit.save). Then `tree` was
  // read with PickleDialect::kModule, and the attributes of objects have names too. What is in the
  // state of an object has "state" in its name: "conv.state.0".
  bool is_module = false;
  pickle::PickleLimits limits;
};

// `tree` was read with PickleDialect::kGeneral. Looks into dicts, OrderedDicts, defaultdicts, lists
// and tuples. A container that contains itself, and an object of any other class, is a leaf without
// a value. CORRUPT for a tensor that is malformed. UNSUPPORTED for two tensors of one name, and for
// a root that is neither a container nor a tensor. RESOURCE_EXHAUSTED beyond a limit. Other errors
// of find_storage than UNSUPPORTED are returned as they are. The result does not refer to `tree`.
Result<StateDict> pickle_state_dict(const pickle::PickleTree& tree,
                                    const StateDictOptions& options);

}  // namespace tenon::archive
