// libFuzzer target: it opens any bytes as a file of weights. This must end in a typed error, or in
// weights that can be read to the last byte. If a weight can be replaced by itself, the new file
// has the same weights.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "modules/weights/weights.h"
#include "peers/fuzz/module_kit.h"

namespace {

using namespace tenon;
using namespace tenon::fuzz;
using weights::Weight;
using weights::Weights;

Result<Ref<Weights>> open(const std::string& path, module::Tensors tensors) {
  module::ImportOptions options;
  options.tensors = tensors;
  options.pickle_limits.max_nbytes = uint64_t{1} << 20;
  options.zip_limits.max_inflated_nbytes = uint64_t{1} << 22;
  options.zip_limits.max_read_nbytes = uint64_t{1} << 22;
  return Weights::open(path, options);
}

// The shards that an index names are files of this machine, and most of them do not exist.
void demand_refusal_of(const uint8_t* data, size_t size, const Status& status) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_index = first != std::string_view::npos && text[first] == '{';
  const bool is_of_shard = status.code() == Code::kNotFound || status.code() == Code::kPermission ||
                           status.code() == Code::kIo;
  if (!is_index || !is_of_shard) demand_refusal(status, true);
}

uint64_t sum_of(const value::TensorValue& tensor) {
  return tensor.storage() ? sum_of_bytes(*tensor.storage()) : 0;
}

uint64_t sum_of(const Weights& weights) {
  uint64_t sum = 0;
  for (const Weight& weight : weights.list()) {
    auto tensor = weights.tensor(weight.name);
    if (tensor.is_ok()) {
      sum += sum_of(*tensor.value());
    } else {
      demand_refusal(tensor.status(), true);
    }
  }
  return sum;
}

// Returns whether at least one weight was replaced by itself.
bool replace_all(Weights* weights) {
  bool is_any = false;
  for (const Weight& weight : weights->list()) {
    auto tensor = weights->tensor(weight.name);
    if (!tensor.is_ok()) continue;
    const Status replaced = weights->replace(weight.name, *tensor.value());
    if (!replaced.is_ok()) demand_refusal(replaced, true);
    is_any = is_any || replaced.is_ok();
  }
  return is_any;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  auto weights = open(file.path(), module::Tensors::kMap);
  if (!weights.is_ok()) {
    demand_refusal_of(data, size, weights.status());
    return 0;
  }
  const uint64_t sum = sum_of(*weights.value());
  auto filled = open(file.path(), module::Tensors::kFill);
  if (filled.is_ok()) {
    require(sum_of(*filled.value()) == sum, "the copied weights have other bytes");
  } else {
    demand_refusal(filled.status(), true);
  }
  if (!replace_all(weights.value().get())) return 0;
  require(sum_of(*weights.value()) == sum, "the replaced weights have other bytes");
  const std::string path = "/tmp/tenon-weights-fuzz-" + std::to_string(getpid());
  const Status written = weights.value()->rewrite(path, archive::Durability::kNone);
  if (!written.is_ok()) {
    demand_refusal(written, true);
    return 0;
  }
  auto again = open(path, module::Tensors::kMap);
  unlink(path.c_str());
  require(again.is_ok(), "what was written is refused", again.status().message());
  require(sum_of(*again.value()) == sum, "the written weights have other bytes");
  return 0;
}
