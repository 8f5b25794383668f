// libFuzzer target: it imports any bytes as a flatbuffer, once with everything read at once and
// once with the code read at the first use. Both must end in the same typed error or in a module.
// Every byte of that module's tensors can be read. If the module can be written as a flatbuffer, an
// import accepts the new file, and the module has the same class and the same tensors.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "modules/archive/sink.h"
#include "modules/module/export.h"
#include "modules/module/import.h"
#include "modules/module/module.h"
#include "os/file_kind.h"
#include "peers/fuzz/module_kit.h"

namespace {

using namespace tenon;
using namespace tenon::fuzz;
using module::Module;
using module::NamedTensor;

Result<Ref<Module>> imported(std::span<const std::byte> bytes, bool defers = false) {
  module::ImportOptions options;
  options.defers = defers;
  options.pickle_limits.max_nbytes = uint64_t{1} << 20;
  options.pickle_limits.max_depth = 100;  // so that small files reach it
  options.zip_limits.max_kept_nbytes = uint64_t{1} << 20;
  return module::import_module(bytes, nullptr, nullptr, options);
}

uint64_t read_tensors(const std::vector<NamedTensor>& tensors) {
  uint64_t sum = 0;
  for (const NamedTensor& named : tensors) {
    if (!named.value->is(value::ValueKind::kTensor)) continue;
    sum += sum_of_bytes(*named.value->as_tensor()->storage());
  }
  return sum;
}

void check_written_again(const Module& module, uint64_t sum, size_t tensors) {
  module::ExportOptions options;
  options.form = module::Form::kFlatbuffer;
  archive::MemorySink sink;
  const Status written = module::export_module(module, &sink, options, nullptr);
  if (!written.is_ok()) return demand_refusal(written, true);
  Result<Ref<Module>> again = imported(sink.bytes());
  // A part that many places share is written once for each place. So the new file can exceed the
  // limits.
  if (again.status().code() == Code::kResourceExhausted) return;
  require(again.is_ok(), "what was written is refused", again.status().message());
  require(again.value()->class_name() == module.class_name(), "the class is another one");
  Result<std::vector<NamedTensor>> found = again.value()->tensors();
  require(found.is_ok() && found.value().size() == tensors, "there are other tensors");
  require(read_tensors(found.value()) == sum, "the tensors have other bytes");
}

// The first use of a deferred module must end as the import at once did.
void check_first_use(std::span<const std::byte> bytes, Result<Ref<Module>>& at_once) {
  Result<Ref<Module>> opened = imported(bytes, true);
  Result<Module*> used = opened.is_ok() ? opened.value()->complete() : opened.status();
  require(used.status().code() == at_once.status().code(), "the first use ends otherwise",
          used.status().message());
  if (!used.is_ok()) return;
  require(opened.value()->complete().value() == used.value(), "the second use has another module");
  require(used.value()->class_name() == at_once.value()->class_name(),
          "the class at the first use is another one");
  require(used.value()->package().why_no_bytecode().code() ==
              at_once.value()->package().why_no_bytecode().code(),
          "the bytecode is judged otherwise");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  if (!os::is_flatbuffer_module(bytes)) return 0;
  Result<Ref<Module>> module = imported(bytes);
  check_first_use(bytes, module);
  if (!module.is_ok()) {
    demand_refusal(module.status(), false);
    return 0;
  }
  Result<std::vector<NamedTensor>> tensors = module.value()->tensors();
  if (!tensors.is_ok()) return 0;
  check_written_again(*module.value(), read_tensors(tensors.value()), tensors.value().size());
  return 0;
}
