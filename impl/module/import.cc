#include "module/import.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "archive/file_mapping.h"
#include "archive/pickle_to_values.h"
#include "archive/zip_names.h"
#include "archive/zip_source.h"
#include "cuda/device.h"
#include "module/archive_kind.h"
#include "module/conform.h"
#include "module/import_storages.h"
#include "module/kept_bytecode.h"
#include "os/limits.h"
#include "value/walk.h"

namespace tenon::module {

using archive::PickleTree;
using archive::ZipReader;
using archive::ZipRecord;
using archive::ZipSource;
using value::Value;
using value::ValueKind;

namespace {

constexpr std::string_view kCode = "code/";
constexpr std::string_view kCodeEnd = ".py";
constexpr std::string_view kData = "data/";
constexpr std::string_view kConstants = "constants/";
constexpr std::string_view kExtra = "extra/";
constexpr std::string_view kTracedInputs = "traced_inputs/";
constexpr std::string_view kBytecode = "bytecode.pkl";
// Where old archives have the storages of bytecode.
constexpr std::string_view kOldBytecode = "bytecode/";

// How many steps the check of an archive's values may take (value::CheckOptions): so many for each byte of
// its pickles and its code, and some for the smallest. The values of PyTorch's own archives take about one
// for two bytes.
constexpr uint64_t kStepsPerByte = 64;
constexpr uint64_t kLeastSteps = uint64_t{1} << 18;
// What a pickle's node costs as a value, at most on average.
constexpr uint64_t kNodeNbytes = 160;

// Memory of the caller's, who is told when the last view of it is gone.
class CallerMemory final : public ZipSource {
 public:
  static Ref<CallerMemory> create(std::span<const std::byte> bytes) { return Ref<CallerMemory>::adopt(new CallerMemory(bytes)); }
  Status read(uint64_t offset, void* to, uint64_t nbytes) const override {
    if (nbytes != 0) std::memcpy(to, base() + offset, nbytes);
    return Status::ok();
  }
  // From now on: an import that fails leaves the memory with its owner.
  void release_with(ReleaseFunction function, void* context) noexcept {
    release_ = function;
    context_ = context;
  }

 private:
  explicit CallerMemory(std::span<const std::byte> bytes) : ZipSource("archive in memory", bytes.data(), bytes.size()) {}
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
        label_(std::move(label)),
        options_(options),
        package_(std::make_shared<Package>()),
        storages_(reader, options, is_foreign_endian(), &package_->report) {}

  Result<Ref<Module>> run() {
    ImportReport& report = package_->report;
    TENON_ASSIGN(report.version, read_version(reader_));
    report.archive_name = reader_.prefix();
    report.records = reader_.records().size();
    report_oddities(reader_.oddities());
    code_ = CodeSet::create(label_, report.version);
    package_->is_whole_archive = true;
    TENON_TRY(read_records());
    TENON_TRY(read_constants());
    TENON_TRY(read_data());
    TENON_TRY(read_traced_inputs());
    read_bytecode();
    TENON_TRY(storages_.finish());
    report_moved();
    code_->set_mapped(storages_.mapped_base(), reader_.source()->nbytes());
    return Module::wrap(root_, code_, package_);
  }

 private:
  // PyTorch takes every other word, and none, for little.
  bool is_foreign_endian() const {
    const ZipRecord* const record = reader_.find("byteorder");
    if (record == nullptr || record->nbytes > 16) return false;
    auto text = reader_.read_text(*record);
    return text.is_ok() && text.value() == "big";
  }

  void report_oddities(const archive::ZipOddities& found) {
    ImportReport& report = package_->report;
    report.without_crc = found.without_crc;
    const auto warn = [&](uint64_t count, const char* what, const std::string& first) {
      if (count == 0) return;
      report.warnings.push_back(
          format("%llu %s%s%.300s", static_cast<unsigned long long>(count), what, first.empty() ? "" : ", the first is ", first.c_str()));
    };
    warn(found.without_crc, "records have no checksum", found.first_without_crc);
    warn(found.outside_prefix, "files are not in the archive's directory", found.first_outside_prefix);
    warn(found.folders, "entries stand for a directory", {});
    warn(found.trailing_nbytes, "bytes follow the end of the archive, and are passed over", {});
  }

  void report_moved() {
    if (storages_.saved_on_device() == 0) return;
    package_->report.warnings.push_back(
        format("%llu storages of tensors were saved on another device (%.64s); their tensors are on the CPU here",
               as_llu(storages_.saved_on_device()), storages_.first_device().c_str()));
  }

  // Code, extra files, and the names of what is not kept.
  Status read_records() {
    for (const ZipRecord& record : reader_.records()) {
      const std::string_view name = record.name;
      if (name.starts_with(kData)) continue;
      if (name.starts_with(kCode) && name.ends_with(kCodeEnd)) {
        TENON_TRY(read_code(record));
      } else if (name.starts_with(kExtra)) {
        TENON_TRY(keep(record));
        TENON_ASSIGN(const std::vector<std::byte> bytes, reader_.read(record));
        add_extra_file(std::string(name.substr(kExtra.size())), bytes);
      } else if (name.starts_with(kTracedInputs)) {
        package_->traced_inputs_records.emplace_back(name);
        traced_inputs_have_bytes_ = traced_inputs_have_bytes_ || record.nbytes != 0;
      } else if (name == kBytecode || name.starts_with(kOldBytecode)) {
        bytecode_records_.emplace_back(name);
      } else if (options_.debug_tables && is_debug_table(name)) {
        TENON_TRY(keep(record));
        TENON_ASSIGN(std::string content, reader_.read_text(record));
        package_->debug_tables.push_back({std::string(name), std::move(content)});
      } else if (!is_known(name)) {
        package_->report.dropped.emplace_back(name);
      }
    }
    add_misnamed_files();
    return Status::ok();
  }

  // Under its own name, unless that would lead somewhere if somebody unpacked it.
  void add_extra_file(std::string name, std::span<const std::byte> bytes) {
    std::string content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (archive::find_name_fault(name) == nullptr)
      package_->extra_files.push_back({std::move(name), std::move(content)});
    else
      misnamed_.push_back({std::move(name), std::move(content)});
  }

  // After all others, whose names are taken.
  void add_misnamed_files() {
    for (ExtraFile& file : misnamed_) {
      std::string safe = archive::safe_name(file.name);
      std::vector<ExtraFile>& files = package_->extra_files;
      const bool is_taken = std::any_of(files.begin(), files.end(), [&](const ExtraFile& other) { return other.name == safe; });
      package_->report.warnings.push_back(
          format("the name of the extra file \"%.200s\" %s: it is %s%.200s%s", file.name.c_str(), archive::find_name_fault(file.name),
                 is_taken ? "not kept, for there is a \"" : "kept as \"", safe.c_str(), is_taken ? "\" already" : "\""));
      if (is_taken)
        package_->report.dropped.push_back("extra/" + file.name);
      else
        files.push_back({std::move(safe), std::move(file.content)});
    }
  }

  static bool is_known(std::string_view name) {
    static constexpr std::string_view kKnown[] = {"data.pkl",        "constants.pkl",      "version",
                                                  ".data/version",   "byteorder",          ".data/serialization_id",
                                                  ".format_version", ".storage_alignment", "traced_inputs.pkl"};
    return name.starts_with(kConstants) || std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown);
  }

  static bool is_debug_table(std::string_view name) {
    if (name.starts_with(kCode)) return name.ends_with(".debug_pkl") && archive::find_name_fault(name) == nullptr;
    return name == "mobile_debug_handles.pkl" || name == "callstack_debug_map.pkl" || name == "delegated_backends.debug_pkl";
  }

  Status read_code(const ZipRecord& record) {
    std::string qualifier(record.name.substr(kCode.size(), record.name.size() - kCode.size() - kCodeEnd.size()));
    std::replace(qualifier.begin(), qualifier.end(), '/', '.');
    if (code_record_of(qualifier) != record.name || !value::is_qualified_name(qualifier)) {
      // PyTorch never looks for such a file.
      package_->report.dropped.emplace_back(record.name);
      return Status::ok();
    }
    TENON_TRY(keep(record));
    TENON_ASSIGN(const std::vector<std::byte> bytes, reader_.read(record));
    steps_left_ += kStepsPerByte * bytes.size();
    return code_->add_file(std::move(qualifier), std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }

  // A file may be sparse, and have less on the disk than it costs here.
  Status keep(const ZipRecord& record) {
    kept_nbytes_ += record.nbytes;
    const uint64_t limit = options_.zip_limits.max_kept_nbytes;
    if (kept_nbytes_ <= limit) return Status::ok();
    return Status(Code::kResourceExhausted, format("%s: code and extra files up to %.300s have over %llu bytes, the limit max_kept_nbytes",
                                                   label_.c_str(), std::string(record.name).c_str(), as_llu(limit)))
        .with("limit", "max_kept_nbytes")
        .with("limit_value", limit);
  }

  Result<archive::UnpickledValue> read_values(const std::string& record_name, const std::string& directory) {
    const ZipRecord* const record = reader_.find(record_name);
    if (record == nullptr) return Status(Code::kCorrupt, "there is no record " + record_name).with("record", record_name);
    TENON_ASSIGN(const std::vector<std::byte> bytes, reader_.read(*record));
    steps_left_ += kStepsPerByte * bytes.size();
    archive::PickleReadOptions read;
    read.limits = options_.pickle_limits;
    read.record = record_name;
    TENON_ASSIGN(const PickleTree tree, archive::read_pickle(bytes, read));
    TENON_TRY(os::ask_headroom(kNodeNbytes * tree.count()));
    archive::ToValuesOptions to_values;
    to_values.find_storage = storages_.finder(directory, tree, directory == kConstants);
    to_values.check_class = [this](std::string_view name) { return check_class(name); };
    to_values.memoised = directory == kConstants;
    to_values.limits = options_.pickle_limits;
    return archive::pickle_to_values(tree, to_values);
  }

  Status check_class(std::string_view name) const {
    if (is_custom_class(name)) return Status::ok();
    TENON_ASSIGN(const Definition* found, code_->find_definition(name));
    if (found != nullptr && found->is_class()) return Status::ok();
    return Status(Code::kCorrupt, format("there is no code of the class %.300s", std::string(name).c_str()));
  }

  value::CheckOptions check_options() {
    value::CheckOptions check;
    check.classes = code_.get();
    check.max_depth = options_.pickle_limits.max_depth;
    check.steps_left = &steps_left_;
    return check;
  }

  // What does not fit, from impl/value, is the archive's fault here.
  static Status in_record(const Status& status, const char* record) {
    if (status.is_ok() || status.code() != Code::kInvalidArgument) return status;
    return Status(Code::kCorrupt, std::string(record) + ": " + status.message()).with("record", record).caused_by(status);
  }

  Status read_constants() {
    TENON_ASSIGN(archive::UnpickledValue constants, read_values("constants.pkl", std::string(kConstants)));
    if (!constants.root->is(ValueKind::kTuple)) {
      return Status(Code::kCorrupt, format("constants.pkl: a %s, and no tuple", value::value_kind_name(constants.root->kind())))
          .with("record", "constants.pkl");
    }
    std::vector<ValueRef> values(constants.root->items().begin(), constants.root->items().end());
    Conformer conformer(*code_);
    for (size_t i = 0; i < values.size(); ++i) {
      if (!values[i]->is(ValueKind::kObject) || values[i]->is_opaque()) continue;
      TENON_TRY(conformer.conform_object(values[i]));
      TENON_TRY(in_record(value::check_object(*values[i], "c" + std::to_string(i), check_options()), "constants.pkl"));
    }
    CodeSet::ConstantsOrigin origin;
    origin.memoised = std::move(constants.memoised);
    origin.keys = storages_.keys();
    code_->set_constants(std::move(values), std::move(origin));
    return Status::ok();
  }

  Status read_data() {
    TENON_ASSIGN(archive::UnpickledValue data, read_values("data.pkl", std::string(kData)));
    root_ = std::move(data.root);
    if (!root_->is(ValueKind::kObject) || !code_->is_module_class(root_->class_name())) {
      return Status(Code::kCorrupt, format("data.pkl: a %s, and no module", value::value_kind_name(root_->kind())))
          .with("record", "data.pkl");
    }
    Conformer conformer(*code_);
    TENON_TRY(conformer.conform_object(root_));
    if (!root_->is_opaque()) TENON_TRY(in_record(value::check_object(*root_, {}, check_options()), "data.pkl"));
    // One class after the other: of many objects in a row the class is looked up once.
    Definition* definition = nullptr;
    return value::for_each(*root_, [&](Value& below, size_t) -> Status {
      if (!below.is(ValueKind::kObject) || is_custom_class(below.class_name())) return Status::ok();
      if (definition == nullptr || definition->name() != below.class_name()) {
        TENON_ASSIGN(const CodeSet::FoundClass found, code_->find_class(below.class_name()));
        definition = found.body->kind == ClassKind::kModule ? found.definition : nullptr;
      }
      if (definition != nullptr) CodeSet::count_object(*definition);
      return Status::ok();
    });
  }

  Status read_traced_inputs() {
    if (!reader_.has("traced_inputs.pkl")) return Status::ok();
    // Their tensors have shapes and no bytes; anything else is not what PyTorch writes, and nothing needs them.
    Status status = traced_inputs_have_bytes_ ? Status(Code::kUnsupported, "tensors with bytes") : read_traced_values();
    if (status.is_ok()) return status;
    package_->report.warnings.push_back("traced inputs are not kept: " + status.message());
    package_->report.dropped.emplace_back("traced_inputs.pkl");
    package_->traced_inputs = nullptr;
    package_->traced_inputs_pickle.clear();
    package_->traced_inputs_records.clear();
    return Status::ok();
  }

  Status read_traced_values() {
    TENON_ASSIGN(package_->traced_inputs_pickle, reader_.read_text(*reader_.find("traced_inputs.pkl")));
    const std::string& text = package_->traced_inputs_pickle;
    archive::PickleReadOptions read;
    read.limits = options_.pickle_limits;
    read.record = "traced_inputs.pkl";
    TENON_ASSIGN(const PickleTree tree, archive::read_pickle(std::as_bytes(std::span(text.data(), text.size())), read));
    archive::ToValuesOptions to_values;
    to_values.find_storage = [](const archive::PickledStorage& wanted) {
      return value::StorageValue::create(wanted.type, wanted.numel, nullptr, 0, "meta");
    };
    to_values.limits = options_.pickle_limits;
    TENON_ASSIGN(archive::UnpickledValue inputs, archive::pickle_to_values(tree, to_values));
    const auto is_good = [](const value::DictEntry& entry) { return entry.key->is(ValueKind::kStr) && entry.value->is(ValueKind::kList); };
    if (!inputs.root->is(ValueKind::kDict) || !std::all_of(inputs.root->entries().begin(), inputs.root->entries().end(), is_good)) {
      return Status(Code::kCorrupt, "no dict of lists");
    }
    package_->traced_inputs = std::move(inputs.root);
    return Status::ok();
  }

  // Bytecode is for another interpreter than the code: bytecode that is bad leaves the module good.
  void read_bytecode() {
    if (!reader_.has(std::string(kBytecode))) {
      for (std::string& name : bytecode_records_) package_->report.dropped.push_back(std::move(name));
      return;
    }
    const Status status = read_good_bytecode();
    if (status.is_ok()) return;
    package_->why_no_bytecode = status;
    package_->report.warnings.push_back("bytecode is not kept: " + status.message());
    for (std::string& name : bytecode_records_) package_->report.dropped.push_back(std::move(name));
  }

  Status read_good_bytecode() {
    const ZipRecord& record = *reader_.find(std::string(kBytecode));
    if (record.nbytes > options_.pickle_limits.max_nbytes) {
      return Status(Code::kResourceExhausted, "bytecode.pkl has more bytes than the limit max_nbytes allows")
          .with("record", "bytecode.pkl");
    }
    TENON_TRY(keep(record));
    TENON_ASSIGN(std::string pickle, reader_.read_text(record));
    // PyTorch decides by the names of the records too.
    const std::string directory(bytecode_records_.size() > 1 ? kOldBytecode : kConstants);
    KeptBytecode::Options keeping;
    keeping.finder = [&](const PickleTree& tree) { return storages_.finder(directory, tree, false); };
    keeping.check_class = [this](std::string_view name) { return check_class(name); };
    keeping.classes = code_.get();
    keeping.limits = options_.pickle_limits;
    TENON_ASSIGN(package_->bytecode, KeptBytecode::create(std::move(pickle), directory, root_, keeping));
    return Status::ok();
  }

  const ZipReader& reader_;
  std::string label_;
  const ImportOptions& options_;
  std::shared_ptr<Package> package_;
  ArchiveStorages storages_;
  Ref<CodeSet> code_;
  ValueRef root_;
  std::vector<ExtraFile> misnamed_;
  std::vector<std::string> bytecode_records_;
  uint64_t kept_nbytes_ = 0;
  uint64_t steps_left_ = kLeastSteps;  // of the checks of all values
  bool traced_inputs_have_bytes_ = false;
};

Result<Ref<Module>> import_source(Ref<ZipSource> source, const std::string& label, const ImportOptions& options) {
  if (options.tensors == Tensors::kDevice) TENON_TRY(cuda::find_device(options.device).status());
  for (const int32_t ordinal : options.device_map.ordinals()) TENON_TRY(cuda::find_device(ordinal).status());
  Result<Ref<ZipReader>> opened = ZipReader::open(std::move(source), options.check, options.zip_limits);
  // Another kind of file, to which the difference between versions of PyTorch means nothing.
  if (opened.status().code() == Code::kIncompatible) return Status(Code::kUnsupported, opened.status().message());
  TENON_ASSIGN(Ref<ZipReader> reader, std::move(opened));
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

Result<Ref<Module>> import_module(std::span<const std::byte> bytes, ReleaseFunction release, void* context, const ImportOptions& options) {
  Ref<CallerMemory> memory = CallerMemory::create(bytes);
  auto imported = import_source(Ref<ZipSource>::share(memory.get()), "archive in memory", options);
  if (imported.is_ok()) memory->release_with(release, context);
  return imported;
}

}  // namespace tenon::module
