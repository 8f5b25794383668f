// libFuzzer target: it imports any records as a module archive. This must end in a typed error, or
// in a module whose tensors can all be read. A module that can be written again has the same class
// and the same tensors in the new file.
//
// An input is no zip file, because nearly every change of one only breaks a checksum. Its first
// line has the options, and each record follows as a line "@@NAME" and its bytes up to the next
// such line. import_corpus.py makes such an input from an archive.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "modules/archive/sink.h"
#include "modules/archive/zip_writer.h"
#include "modules/module/export.h"
#include "modules/module/import.h"
#include "modules/module/module.h"
#include "peers/fuzz/module_kit.h"

namespace {

using namespace tenon;
using namespace tenon::fuzz;
using module::Module;

// Returns false for records that no archive can have, such as two of one name.
bool make_archive(std::string_view input, archive::MemorySink* sink) {
  Result<archive::ZipWriter> writer = archive::ZipWriter::create(sink);
  require(writer.is_ok(), "no archive can be written");
  while (!input.empty()) {
    if (!input.starts_with("@@")) return false;
    const size_t line = std::min(input.find('\n'), input.size());
    const std::string_view name = input.substr(2, line - 2);
    input.remove_prefix(std::min(line + 1, input.size()));
    const size_t next = std::min(input.find("\n@@"), input.size());
    const std::string_view bytes = input.substr(0, next);
    input.remove_prefix(std::min(next + 1, input.size()));
    const bool is_code = name.starts_with("code/");
    if (!writer.value()
             .add_text(name, bytes,
                       is_code ? archive::Compression::kDeflated : archive::Compression::kStored)
             .is_ok())
      return false;
  }
  return writer.value().finish().is_ok();
}

Result<Ref<Module>> read_archive(const archive::MemorySink& sink) {
  module::ImportOptions options;
  options.debug_tables = true;
  options.pickle_limits.max_nbytes = uint64_t{1} << 20;
  options.pickle_limits.max_depth = 100;  // so that small files reach it
  options.zip_limits.max_kept_nbytes = uint64_t{1} << 20;
  return module::import_module(sink.bytes(), nullptr, nullptr, options);
}

struct Sum {
  size_t tensors = 0;
  uint64_t bytes = 0;
  bool operator==(const Sum&) const = default;
};

Result<Sum> sum_of(const Module& module) {
  TENON_ASSIGN(const std::vector<module::NamedTensor> tensors, module.tensors());
  Sum sum;
  sum.tensors = tensors.size();
  for (const module::NamedTensor& named : tensors) {
    if (!named.value->is(value::ValueKind::kTensor) || !named.value->as_tensor()->storage())
      continue;
    sum.bytes += sum_of_bytes(*named.value->as_tensor()->storage());
  }
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t first = input.find('\n');
  if (first == std::string_view::npos) return 0;
  const std::string_view words = input.substr(0, first);
  input.remove_prefix(first + 1);
  archive::MemorySink made;
  if (!make_archive(input, &made)) return 0;
  Result<Ref<Module>> module = read_archive(made);
  if (!module.is_ok()) {
    demand_refusal(module.status(), false);
    return 0;
  }
  Result<Sum> sum = sum_of(*module.value());
  if (!sum.is_ok()) return 0;
  module::ExportOptions options;
  options.debug_tables = true;
  if (words.find("compile") != std::string_view::npos)
    options.bytecode = module::Bytecode::kCompile;
  archive::MemorySink sink;
  const Status written = module::export_module(*module.value(), &sink, options, nullptr);
  if (!written.is_ok()) {
    demand_refusal(written, true);
    return 0;
  }
  Result<Ref<Module>> again = read_archive(sink);
  if (again.status().code() == Code::kResourceExhausted) return 0;
  require(again.is_ok(), "what was written is refused", again.status().message());
  require(again.value()->class_name() == module.value()->class_name(), "the class is another one");
  Result<Sum> sum_again = sum_of(*again.value());
  require(sum_again.is_ok() && sum_again.value() == sum.value(), "the tensors have other bytes");
  return 0;
}
