// Reads the lists of weights in a .pt2 archive: model_weights_config.json and
// model_constants_config.json (docs/format/exported_program.md). The numbers are only checked for
// their types. The caller checks them against the record that has the elements.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tenon::weights {

// One weight as the list describes it.
struct Payload {
  std::string name;
  std::string path_name;  // the name of its record, in the folder of the list
  std::string device = "cpu";
  bool use_pickle = false;
  // False for an object that is no tensor. The fields below then mean nothing.
  bool has_meta = false;
  bool is_symbolic = false;  // some size, stride or offset is an expression
  bool requires_grad = false;
  int64_t dtype = 0;   // a number of torch._export.serde.schema.ScalarType
  int64_t layout = 0;  // a number of torch._export.serde.schema.Layout
  int64_t offset = 0;  // in elements, as the strides
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
};

// The weights in the order of the list. CORRUPT, with the detail "offset" of the fault, if the text
// is no such list. Time and memory are linear in the text, and the depth is bounded. UNSUPPORTED in
// a build without JSON.
Result<std::vector<Payload>> read_payload_config(std::string_view text, const std::string& record);

}  // namespace tenon::weights
