#include "modules/module/archive_kind.h"

#include <charconv>
#include <string_view>
#include <utility>

#include "modules/module/code.h"

namespace tenon::module {

using archive::ZipReader;
using archive::ZipRecord;

Result<Ref<ZipReader>> open_archive(Ref<archive::ZipSource> source, const ImportOptions& options) {
  Result<Ref<ZipReader>> opened =
      ZipReader::open(std::move(source), options.check, options.zip_limits);
  // INCOMPATIBLE would tell of a difference between versions of PyTorch, which means nothing for a
  // file of another kind.
  if (opened.status().code() == Code::kIncompatible)
    return Status(Code::kUnsupported, opened.status().message());
  return opened;
}

Status check_is_module(const ZipReader& reader, const std::string& label) {
  const char* what = nullptr;
  if (reader.has("model.json")) {
    what =
        "an archive of PyTorch 1.0 to 1.3 (it has a record model.json), which no PyTorch reads "
        "today";
  } else if (reader.has("data.pkl") && reader.has("constants.pkl")) {
    return Status::ok();
  } else if (reader.has("bytecode.pkl")) {
    what =
        "an archive for the lite interpreter alone: it has bytecode and no code. Save the module "
        "by torch.jit.save";
  } else if (reader.has("data.pkl")) {
    what =
        "a torch.save file: tensors without a module. Script or trace the module, and save it by "
        "torch.jit.save";
  } else if (is_package(reader)) {
    what =
        "a torch.package archive, which has any number of modules. Open it with tenon_package_open";
  } else if (is_exported_program(reader)) {
    what =
        "a program of torch.export, and no module archive. Open its weights with "
        "tenon_open_weights, or save the module by torch.jit.save";
  } else {
    return Status(Code::kUnsupported, format("%s is no module archive: it has no record data.pkl. "
                                             "Give a file that torch.jit.save or Tenon wrote",
                                             label.c_str()));
  }
  return Status(Code::kUnsupported, format("%s is %s", label.c_str(), what));
}

bool is_package(const ZipReader& reader) {
  return reader.has(".data/extern_modules") || reader.has(".data/python_version");
}

bool is_exported_program(const ZipReader& reader) {
  return reader.has("archive_format") || reader.has("serialized_exported_program.json");
}

Result<int> read_version(const ZipReader& reader) {
  const std::string name = reader.has(".data/version") ? ".data/version" : "version";
  const ZipRecord* const record = reader.find(name);
  if (record == nullptr)
    return Status(Code::kCorrupt, "there is no record version").with("record", name);
  if (record->nbytes > 64)
    return Status(Code::kCorrupt, format("%s is no number", name.c_str())).with("record", name);
  TENON_ASSIGN(const std::string text, reader.read_text(*record));
  int version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  if (error != std::errc() || rest.find_first_not_of(" \r\n") != std::string_view::npos) {
    return Status(Code::kCorrupt, format("%s is no number", name.c_str())).with("record", name);
  }
  if (version < kOldestVersion || version > kNewestVersion) {
    return Status(Code::kUnsupported, format("%s is %d, and it is known from %d to %d",
                                             name.c_str(), version, kOldestVersion, kNewestVersion))
        .with("record", name);
  }
  return version;
}

bool is_foreign_endian(const ZipReader& reader) {
  const ZipRecord* const record = reader.find("byteorder");
  if (record == nullptr || record->nbytes > 16) return false;
  auto text = reader.read_text(*record);
  return text.is_ok() && text.value() == "big";
}

}  // namespace tenon::module
