// `tenon doctor`: checks whether CUDA can be used. The check starts the driver, as the first use by
// any program does.
#include "cuda/available.h"
#include "doctor.h"

namespace tenon::cli {

void check_cuda(Checks* out) {
  Check check{.id = "cuda", .title = "CUDA"};
  const Status status = cuda::available();
  check.facts = {{"available", status.is_ok()}};
  check.value = status.is_ok() ? "can be used" : status.message();
  if (!status.is_ok()) {
    check.level = Level::kNote;  // most machines have no device, and all else works there
    check.limits = "tensors in the memory of devices cannot be lent; all others can";
    for (const Detail& detail : status.info()->details) check.facts[detail.key] = detail.value;
  }
  out->push_back(check);
}

}  // namespace tenon::cli
