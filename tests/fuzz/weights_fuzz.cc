// libFuzzer target: whatever a file of weights says, opening it ends in a typed error or in weights
// that can be read to the last byte. If a weight can be replaced by itself, the file that is
// written has the same weights.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "weights/weights.h"

namespace {

using namespace tenon;
using weights::Weight;
using weights::Weights;

void demand(bool holds, const char* what, const std::string& more = "") {
  if (holds) return;
  std::fprintf(stderr, "weights_fuzz: %s: %s\n", what, more.c_str());
  std::abort();
}

// A memory file with the bytes. Weights are opened and written by a path.
class MemoryFile {
 public:
  MemoryFile(const void* data, size_t nbytes) : fd_(memfd_create("weights_fuzz", MFD_CLOEXEC)) {
    demand(fd_ >= 0 && write(fd_, data, nbytes) == static_cast<ssize_t>(nbytes), "no memory file");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(fd_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

Result<Ref<Weights>> open(const std::string& path, module::Tensors tensors) {
  module::ImportOptions options;
  options.tensors = tensors;
  options.pickle_limits.max_nbytes = uint64_t{1} << 20;
  options.zip_limits.max_inflated_nbytes = uint64_t{1} << 22;
  options.zip_limits.max_read_nbytes = uint64_t{1} << 22;
  return Weights::open(path, options);
}

void demand_refusal(const Status& status) {
  const Code code = status.code();
  const bool is_typed =
      code == Code::kCorrupt || code == Code::kUnsupported || code == Code::kResourceExhausted || code == Code::kInvalidArgument;
  demand(is_typed && !status.message().empty(), "an unexpected refusal", status.message());
}

uint64_t sum_of(const value::TensorValue& tensor) {
  uint64_t sum = 0;
  if (!tensor.storage()) return sum;
  const value::StorageValue& storage = *tensor.storage();
  for (uint64_t i = 0; storage.data() != nullptr && i < storage.nbytes(); ++i) sum += static_cast<uint64_t>(storage.data()[i]);
  return sum;
}

uint64_t sum_of(const Weights& weights) {
  uint64_t sum = 0;
  for (const Weight& weight : weights.list()) {
    auto tensor = weights.tensor(weight.name);
    if (tensor.is_ok()) {
      sum += sum_of(*tensor.value());
    } else {
      demand_refusal(tensor.status());
    }
  }
  return sum;
}

// Whether some weight was replaced by itself.
bool replace_all(Weights* weights) {
  bool is_any = false;
  for (const Weight& weight : weights->list()) {
    auto tensor = weights->tensor(weight.name);
    if (!tensor.is_ok()) continue;
    const Status replaced = weights->replace(weight.name, *tensor.value());
    if (!replaced.is_ok()) demand_refusal(replaced);
    is_any = is_any || replaced.is_ok();
  }
  return is_any;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  auto weights = open(file.path(), module::Tensors::kMap);
  if (!weights.is_ok()) {
    demand_refusal(weights.status());
    return 0;
  }
  const uint64_t sum = sum_of(*weights.value());
  auto filled = open(file.path(), module::Tensors::kFill);
  if (filled.is_ok()) {
    demand(sum_of(*filled.value()) == sum, "the copied weights have other bytes");
  } else {
    demand_refusal(filled.status());
  }
  if (!replace_all(weights.value().get())) return 0;
  demand(sum_of(*weights.value()) == sum, "the replaced weights have other bytes");
  const std::string path = "/tmp/tenon-weights-fuzz-" + std::to_string(getpid());
  const Status written = weights.value()->rewrite(path, archive::Durability::kNone);
  if (!written.is_ok()) {
    demand_refusal(written);
    return 0;
  }
  auto again = open(path, module::Tensors::kMap);
  unlink(path.c_str());
  demand(again.is_ok(), "what was written is refused", again.status().message());
  demand(sum_of(*again.value()) == sum, "the written weights have other bytes");
  return 0;
}
