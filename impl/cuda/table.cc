#include "cuda/table.h"

#include <cstddef>
#include <string>

namespace tenon::cuda {
namespace {

template <typename Function>
void take_function(Driver* driver, Function* to, const char* name, int version, Part part,
                   const FunctionSource& source) {
  *to =
      version <= driver->version ? reinterpret_cast<Function>(source.find(name, version)) : nullptr;
  const char*& lacks = driver->lacks[static_cast<size_t>(part)];
  if (*to == nullptr && lacks == nullptr) lacks = name;
}

#define FUNCTION(name, version, part) \
  static_assert(Part::part != Part::kCore || version <= kOldestDriver);
#include "cuda/functions.inc"
#undef FUNCTION

}  // namespace

std::string version_text(int version) {
  return format("%d.%d", version / 1000, version % 1000 / 10);
}

Status Driver::has(Part part) const {
  const char* name = lacks[static_cast<size_t>(part)];
  if (name == nullptr) return Status::ok();
  return Status(Code::kUnsupported,
                "the CUDA driver " + path + " (" + version_text(version) + ") lacks " + name)
      .with("path", path)
      .with("driver_version", version);
}

Status fill(Driver* driver, const FunctionSource& source) {
#define FUNCTION(name, version, part) \
  take_function(driver, &driver->name, #name, version, Part::part, source);
#include "cuda/functions.inc"
#undef FUNCTION
  return driver->has(Part::kCore);
}

}  // namespace tenon::cuda
