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
};

struct StateDict {
  std::vector<NamedTensor> tensors;  // in the order of the file
  // The names of values that are neither tensors nor containers: numbers and texts. A value that
  // only Python could make has its description too: "epoch: a call of 'numpy.core.…'". This list
  // has at most kMaxOthers names, and n_others is the full count.
  std::vector<std::string> others;
  uint64_t n_others = 0;
  static constexpr size_t kMaxOthers = 64;
};

struct StateDictOptions {
  // Called once per key: storages with equal keys are one storage, as in torch.load.
  FindStorage find_storage;
  // Whether find_storage is asked for storages of every device ("cuda:0"), whose bytes are in the
  // file all the same. If not, a tensor on a device other than cpu and meta is refused.
  bool any_device = false;
  pickle::PickleLimits limits;
};

// `tree` was read with PickleDialect::kGeneral. Looks into dicts, OrderedDicts, lists and tuples.
// CORRUPT or UNSUPPORTED for a tensor that cannot be read. UNSUPPORTED for two tensors of one name,
// for a container that contains itself, and for a root that is neither a container nor a tensor.
// RESOURCE_EXHAUSTED beyond a limit. Errors of find_storage are returned as they are. The result
// does not refer to `tree`.
Result<StateDict> pickle_state_dict(const pickle::PickleTree& tree,
                                    const StateDictOptions& options);

}  // namespace tenon::archive
