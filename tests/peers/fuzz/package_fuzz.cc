// libFuzzer target: it opens any bytes as a package, with each of its modules and records. Each of
// these must end in a typed error, or be readable to the last byte. A package that can be written
// again has the same modules.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "modules/archive/sink.h"
#include "modules/module/export_package.h"
#include "modules/module/package_archive.h"
#include "peers/fuzz/module_kit.h"

namespace {

using namespace tenon;
using namespace tenon::fuzz;
using module::PackageArchive;

Result<Ref<PackageArchive>> open(const MemoryFile& file) {
  module::ImportOptions options;
  options.pickle_limits.max_nbytes = uint64_t{1} << 20;
  options.pickle_limits.max_depth = 100;  // so that small files reach it
  options.zip_limits.max_kept_nbytes = uint64_t{1} << 20;
  options.zip_limits.max_inflated_nbytes = uint64_t{1} << 22;
  return PackageArchive::open(file.path(), options);
}

uint64_t read_all(const module::Module& module) {
  auto tensors = module.tensors();
  uint64_t sum = 0;
  if (!tensors.is_ok()) return sum;
  for (const module::NamedTensor& named : tensors.value()) {
    if (!named.value->is(value::ValueKind::kTensor) || !named.value->as_tensor()->storage())
      continue;
    sum += sum_of_bytes(*named.value->as_tensor()->storage());
  }
  return sum;
}

// Adds up the bytes of all modules. Returns false if one of them cannot be read.
bool read_modules(PackageArchive& package, uint64_t* sum) {
  bool are_good = true;
  for (const PackageArchive::Entry& entry : package.entries()) {
    auto module = package.module(entry.id);
    if (module.is_ok()) {
      *sum += read_all(*module.value());
    } else {
      demand_refusal(module.status(), true);
      are_good = false;
    }
  }
  return are_good;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  auto package = open(file);
  if (!package.is_ok()) {
    demand_refusal(package.status(), true);
    return 0;
  }
  for (const archive::ZipRecord& record : package.value()->reader().records()) {
    const auto text = package.value()->read_text(record.name);
    if (!text.is_ok()) demand_refusal(text.status(), true);
  }
  uint64_t sum = 0;
  const bool are_good = read_modules(*package.value(), &sum);
  module::PackageOptions options;
  options.base = package.value();
  archive::MemorySink sink;
  const Status written = module::export_package({}, &sink, options, nullptr);
  if (!written.is_ok()) {
    demand_refusal(written, true);
    return 0;
  }
  const MemoryFile again(sink.bytes().data(), sink.bytes().size());
  auto second = open(again);
  if (second.status().code() == Code::kResourceExhausted) return 0;
  require(second.is_ok(), "what was written is refused", second.status().message());
  require(second.value()->entries().size() <= package.value()->entries().size(),
          "there are more modules");
  uint64_t sum_again = 0;
  require(read_modules(*second.value(), &sum_again), "a module of the new package cannot be read");
  // A module that nothing needs is left out of the new package, and that may be the unreadable one.
  const bool has_all =
      are_good && second.value()->entries().size() == package.value()->entries().size();
  require(!has_all || sum == sum_again, "the tensors have other bytes");
  return 0;
}
