#include "modules/module/import.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "modules/archive/file_mapping.h"
#include "modules/archive/pickle_to_values.h"
#include "modules/archive/zip_names.h"
#include "modules/archive/zip_source.h"
#include "modules/module/archive_kind.h"
#include "modules/module/assembly.h"
#include "modules/module/import_flatbuffer.h"
#include "modules/module/import_storages.h"
#include "modules/module/module_parts.h"
#include "os/file_kind.h"

namespace tenon::module {

using archive::ZipReader;
using archive::ZipRecord;
using archive::ZipSource;
using pickle::PickleTree;
using value::Value;
using value::ValueKind;

namespace {

constexpr std::string_view kCodeFolder = "code/";
constexpr std::string_view kData = "data/";
constexpr std::string_view kConstants = "constants/";
constexpr std::string_view kExtra = "extra/";
constexpr std::string_view kTracedInputs = "traced_inputs/";
constexpr std::string_view kBytecode = "bytecode.pkl";
// The folder in which old archives have the storages of bytecode.
constexpr std::string_view kOldBytecode = "bytecode/";

// The caller's memory as a source. It calls the caller's release function when the last view is
// gone.
class CallerMemory final : public ZipSource {
 public:
  static Ref<CallerMemory> create(std::span<const std::byte> bytes) {
    return Ref<CallerMemory>::adopt(new CallerMemory(bytes));
  }
  Status read(uint64_t offset, void* to, uint64_t nbytes) const override {
    if (nbytes != 0) std::memcpy(to, base() + offset, nbytes);
    return Status::ok();
  }
  // Sets the release function. It is set only after a successful import, because a failed one
  // leaves the memory with its owner.
  void release_with(ReleaseFunction function, void* context) noexcept {
    release_ = function;
    context_ = context;
  }

 private:
  explicit CallerMemory(std::span<const std::byte> bytes)
      : ZipSource("archive in memory", bytes.data(), bytes.size()) {}
  ~CallerMemory() override = default;
  void dispose() noexcept override {
    if (release_ != nullptr) release_(context_);
  }

  ReleaseFunction release_ = nullptr;
  void* context_ = nullptr;
};

class Importer {
 public:
  Importer(const ZipReader& reader, std::string label, const ImportOptions& options)
      : reader_(reader),
        options_(options),
        assembly_(std::move(label), options),
        storages_(reader, options, is_foreign_endian(reader), &assembly_.report()),
        parts_(reader, options, &assembly_, &storages_) {}

  Result<Ref<Module>> run() {
    ImportReport& report = assembly_.report();
    TENON_ASSIGN(const int version, read_version(reader_));
    report.archive_name = reader_.prefix();
    report.records = reader_.records().size();
    report_oddities(reader_.oddities());
    assembly_.start_code(version);
    TENON_TRY(read_records());
    TENON_TRY(parts_.read_constants("constants.pkl", std::string(kConstants),
                                    ModuleParts::Keep::kKeysAndMemo));
    TENON_ASSIGN(archive::UnpickledValue data,
                 parts_.read_values("data.pkl", std::string(kData), ModuleParts::Keep::kNothing));
    TENON_TRY(assembly_.set_root(std::move(data.root), "data.pkl"));
    TENON_TRY(read_traced_inputs());
    read_bytecode();
    TENON_TRY(storages_.finish());
    return assembly_.finish(storages_, *reader_.source());
  }

 private:
  void report_oddities(const archive::ZipOddities& found) {
    ImportReport& report = assembly_.report();
    report.without_crc = found.without_crc;
    const auto warn = [&](uint64_t count, const char* what, const std::string& first) {
      if (count == 0) return;
      report.warnings.push_back(format("%llu %s%s%.300s", static_cast<unsigned long long>(count),
                                       what, first.empty() ? "" : ", the first is ",
                                       first.c_str()));
    };
    warn(found.without_crc, "records have no checksum", found.first_without_crc);
    warn(found.outside_prefix, "files are not in the archive's directory",
         found.first_outside_prefix);
    warn(found.folders, "entries stand for a directory", {});
    warn(found.trailing_nbytes, "bytes follow the end of the archive, and are passed over", {});
  }

  // Reads code and extra files, and notes the names of the records that are not kept.
  Status read_records() {
    for (const ZipRecord& record : reader_.records()) {
      const std::string_view name = record.name;
      if (name.starts_with(kData)) continue;
      if (ModuleParts::is_code({}, name)) {
        TENON_TRY(parts_.read_code({}, record));
      } else if (name.starts_with(kExtra)) {
        TENON_TRY(assembly_.keep(record.name, record.nbytes));
        TENON_ASSIGN(std::string content, reader_.read_text(record));
        assembly_.add_extra_file(std::string(name.substr(kExtra.size())), std::move(content));
      } else if (name.starts_with(kTracedInputs)) {
        assembly_.package().traced_inputs_records.emplace_back(name);
        traced_inputs_have_bytes_ = traced_inputs_have_bytes_ || record.nbytes != 0;
      } else if (name == kBytecode || name.starts_with(kOldBytecode)) {
        bytecode_records_.emplace_back(name);
      } else if (options_.debug_tables && is_debug_table(name)) {
        TENON_TRY(assembly_.keep(record.name, record.nbytes));
        TENON_ASSIGN(std::string content, reader_.read_text(record));
        assembly_.package().debug_tables.push_back({std::string(name), std::move(content)});
      } else if (!is_known(name)) {
        assembly_.report().dropped.emplace_back(name);
      }
    }
    assembly_.add_misnamed_files();
    return Status::ok();
  }

  static bool is_known(std::string_view name) {
    static constexpr std::string_view kKnown[] = {
        "data.pkl",        "constants.pkl",      "version",
        ".data/version",   "byteorder",          ".data/serialization_id",
        ".format_version", ".storage_alignment", "traced_inputs.pkl"};
    return name.starts_with(kConstants) ||
           std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown);
  }

  static bool is_debug_table(std::string_view name) {
    if (name.starts_with(kCodeFolder))
      return name.ends_with(".debug_pkl") && archive::find_name_fault(name) == nullptr;
    return name == "mobile_debug_handles.pkl" || name == "callstack_debug_map.pkl" ||
           name == "delegated_backends.debug_pkl";
  }

  Status read_traced_inputs() {
    if (!reader_.has("traced_inputs.pkl")) return Status::ok();
    // PyTorch writes traced inputs with shapes and no bytes. Anything else is not PyTorch's, and
    // nothing needs it, so it is dropped.
    Status status = traced_inputs_have_bytes_ ? Status(Code::kUnsupported, "tensors with bytes")
                                              : read_traced_values();
    if (status.is_ok()) return status;
    assembly_.package().report.warnings.push_back("traced inputs are not kept: " +
                                                  status.message());
    assembly_.package().report.dropped.emplace_back("traced_inputs.pkl");
    assembly_.package().traced_inputs = nullptr;
    assembly_.package().traced_inputs_pickle.clear();
    assembly_.package().traced_inputs_records.clear();
    return Status::ok();
  }

  Status read_traced_values() {
    TENON_ASSIGN(assembly_.package().traced_inputs_pickle,
                 reader_.read_text(*reader_.find("traced_inputs.pkl")));
    const std::string& text = assembly_.package().traced_inputs_pickle;
    pickle::PickleReadOptions read;
    read.limits = options_.pickle_limits;
    read.record = "traced_inputs.pkl";
    TENON_ASSIGN(const PickleTree tree,
                 pickle::read_pickle(std::as_bytes(std::span(text.data(), text.size())), read));
    archive::ToValuesOptions to_values;
    to_values.find_storage = [](const archive::PickledStorage& wanted) {
      return value::StorageValue::create(wanted.type, wanted.numel, nullptr, 0, "meta");
    };
    to_values.limits = options_.pickle_limits;
    TENON_ASSIGN(archive::UnpickledValue inputs, archive::pickle_to_values(tree, to_values));
    const auto is_good = [](const value::DictEntry& entry) {
      return entry.key->is(ValueKind::kStr) && entry.value->is(ValueKind::kList);
    };
    if (!inputs.root->is(ValueKind::kDict) ||
        !std::all_of(inputs.root->entries().begin(), inputs.root->entries().end(), is_good)) {
      return Status(Code::kCorrupt, "no dict of lists");
    }
    assembly_.package().traced_inputs = std::move(inputs.root);
    return Status::ok();
  }

  void read_bytecode() {
    if (!reader_.has(std::string(kBytecode))) return drop_bytecode();
    const Status status = read_good_bytecode();
    if (status.is_ok()) return;
    assembly_.leave_bytecode(status);
    drop_bytecode();
  }

  void drop_bytecode() {
    for (std::string& name : bytecode_records_)
      assembly_.report().dropped.push_back(std::move(name));
  }

  Status read_good_bytecode() {
    const ZipRecord& record = *reader_.find(std::string(kBytecode));
    if (record.nbytes > options_.pickle_limits.max_nbytes) {
      return Status(Code::kResourceExhausted,
                    "bytecode.pkl has more bytes than the limit max_nbytes allows")
          .with("record", "bytecode.pkl");
    }
    TENON_TRY(assembly_.keep(record.name, record.nbytes));
    TENON_ASSIGN(std::string pickle, reader_.read_text(record));
    // PyTorch too decides this by the names of the records.
    const std::string directory(bytecode_records_.size() > 1 ? kOldBytecode : kConstants);
    return assembly_.keep_bytecode(std::move(pickle), directory, [&](const PickleTree& tree) {
      return storages_.finder(directory, tree, false);
    });
  }

  const ZipReader& reader_;
  const ImportOptions& options_;
  Assembly assembly_;
  ArchiveStorages storages_;
  ModuleParts parts_;
  std::vector<std::string> bytecode_records_;
  bool traced_inputs_have_bytes_ = false;
};

Result<bool> is_flatbuffer(const ZipSource& source) {
  std::array<std::byte, 8> head{};
  if (source.nbytes() < head.size()) return false;
  TENON_TRY(source.read(0, head.data(), head.size()));
  return os::is_flatbuffer_module(head);
}

Result<Ref<Module>> import_source(Ref<ZipSource> source, const std::string& label,
                                  const ImportOptions& options) {
  TENON_TRY(check_devices(options));
  TENON_ASSIGN(const bool in_other_form, is_flatbuffer(*source));
  if (in_other_form) return import_flatbuffer(std::move(source), label, options);
  TENON_ASSIGN(Ref<ZipReader> reader, open_archive(std::move(source), options));
  TENON_TRY(check_is_module(*reader, label));
  return Importer(*reader, label, options).run();
}

}  // namespace

Result<Ref<Module>> import_module(const std::string& path, const ImportOptions& options) {
  TENON_ASSIGN(Ref<ZipSource> file, archive::FileMapping::open(path));
  return import_source(std::move(file), "archive " + path.substr(path.rfind('/') + 1), options);
}

Result<Ref<Module>> import_module(int fd, const ImportOptions& options) {
  TENON_ASSIGN(Ref<ZipSource> file, archive::FileMapping::open(fd));
  return import_source(std::move(file), "archive of fd " + std::to_string(fd), options);
}

Result<Ref<Module>> import_module(std::span<const std::byte> bytes, ReleaseFunction release,
                                  void* context, const ImportOptions& options) {
  Ref<CallerMemory> memory = CallerMemory::create(bytes);
  auto imported = import_source(Ref<ZipSource>::share(memory.get()), "archive in memory", options);
  if (imported.is_ok()) memory->release_with(release, context);
  return imported;
}

}  // namespace tenon::module
