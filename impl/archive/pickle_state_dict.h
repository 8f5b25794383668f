// The tensors of a torch.save file by name: state dicts, and checkpoints that hold some. No object
// of Python is made. `tenon inspect` lists them.
#pragma once

#include <string>
#include <vector>

#include "archive/pickle_nodes.h"
#include "archive/pickle_to_values.h"
#include "base/status.h"
#include "value/tensor_value.h"

namespace tenon::archive {

struct NamedTensor {
  // The keys on the way, joined by dots: "fc.weight", "optimizer.state.0.exp_avg". Items of lists
  // and tuples count from 0. Empty if the file holds a tensor alone.
  std::string name;
  value::TensorValueRef tensor;  // what is pickled once and stands there twice is one
  bool is_parameter = false;
};

struct StateDict {
  std::vector<NamedTensor> tensors;  // in the order of the file
  // Names of what is no tensor and holds none that could be read: numbers and texts, but also
  // "epoch: a call of 'numpy.core.…'" for what only Python could make. At most kMaxOthers; how many
  // there are says n_others.
  std::vector<std::string> others;
  uint64_t n_others = 0;
  static constexpr size_t kMaxOthers = 64;
};

struct StateDictOptions {
  // Storages with equal keys are one, as in torch.load: called once per key.
  FindStorage find_storage;
  // Ask find_storage for storages of every device ("cuda:0"): a file has their bytes all the same.
  // Else such a tensor is refused.
  bool any_device = false;
  PickleLimits limits;
};

// `tree` is of the general dialect. Looks into dicts, OrderedDicts, lists and tuples; an error for
// a tensor that cannot be read, for two of one name, and for a root that is none of these and no
// tensor.
Result<StateDict> pickle_state_dict(const PickleTree& tree, const StateDictOptions& options);

}  // namespace tenon::archive
