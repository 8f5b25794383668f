#include "modules/weights/read_contents.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <string_view>
#include <utility>

#include "modules/weights/contents_builder.h"
#include "os/file_kind.h"
#include "tensor/name.h"

namespace tenon::weights {

using archive::ZipReader;
using archive::ZipRecord;

namespace {

// The records of PyTorch 2.6, whose archive has one file of torch.save for the weights and one for
// the constants.
constexpr const char* kProgram = "serialized_exported_program.json";
constexpr const char* kStateDict = "serialized_state_dict.pt";
constexpr const char* kConstants = "serialized_constants.pt";
constexpr const char* kSchemaVersion = "version";
constexpr int kNewestSchema = 8;
// The records of later versions.
constexpr const char* kFormat = "archive_format";
constexpr const char* kFormatVersion = "archive_version";
constexpr int kNewestFormat = 0;

constexpr uint64_t kMostVersionNbytes = 64;

// The number at the start of a record's text, or `otherwise` if there is no such record.
Result<int> number_in(const ZipReader& archive, const char* name, int otherwise) {
  const ZipRecord* const record = archive.find(name);
  if (record == nullptr) return otherwise;
  int number = -1;
  if (record->nbytes <= kMostVersionNbytes) {
    TENON_ASSIGN(const std::string text, archive.read_text(*record));
    std::from_chars(text.data(), text.data() + text.size(), number);
  }
  if (number < 0)
    return Status(Code::kCorrupt, format("the record %s is no version", name)).with("record", name);
  return number;
}

Status check_version(const ZipReader& archive, const char* name, int newest) {
  TENON_ASSIGN(const int version, number_in(archive, name, newest));
  if (version <= newest) return Status::ok();
  return Status(Code::kUnsupported,
                format("the record %s is %d, and Tenon knows up to %d", name, version, newest))
      .with("record", name);
}

Status read_first_form(const module::ImportOptions& options, Contents* contents) {
  const ZipReader& archive = *contents->archive;
  TENON_TRY(check_version(archive, kSchemaVersion, kNewestSchema));
  for (const char* const name : {kStateDict, kConstants}) {
    const ZipRecord* const record = archive.find(name);
    if (record == nullptr)
      return Status(Code::kCorrupt, format("there is no record %s", name)).with("record", name);
    TENON_TRY(read_saved_tensors(*record, "", options, contents));
  }
  return Status::ok();
}

// NumPy writes each array as a record <name>.npy.
bool is_npz(const ZipReader& archive) {
  return std::ranges::any_of(archive.records(),
                             [](const ZipRecord& record) { return record.name.ends_with(".npy"); });
}

const char* other_kind(const ZipReader& archive) {
  if (archive.has("model.json"))
    return "It is a module archive of PyTorch 1.0 to 1.3. Load and save it with PyTorch 1.4 to 2.4";
  if (archive.has(".data/extern_modules"))
    return "It is a torch.package archive. Open it with tenon_package_open";
  return "Give a file that torch.export.save, torch.save or numpy.savez wrote";
}

Status read_archive(const module::ImportOptions& options, Contents* contents) {
  const auto open = [&](archive::Prefix prefix) {
    return ZipReader::open(contents->source, archive::Check::kStructure, options.zip_limits,
                           prefix);
  };
  Result<Ref<ZipReader>> opened = open(archive::Prefix::kOptional);
  // INCOMPATIBLE speaks of versions of PyTorch, which do not matter for another kind of file.
  if (opened.status().code() == Code::kIncompatible)
    return {Code::kUnsupported, opened.status().message()};
  TENON_ASSIGN(contents->archive, std::move(opened));
  const bool has_form = contents->archive->has(kProgram) || contents->archive->has(kFormat) ||
                        contents->archive->has("data.pkl");
  if (!has_form && is_npz(*contents->archive)) {
    // The names of arrays may have slashes, and the first part of such a name is no folder.
    TENON_ASSIGN(contents->archive, open(archive::Prefix::kNone));
    return read_npz(options, contents);
  }
  const ZipReader& archive = *contents->archive;
  if (options.check == archive::Check::kAll) TENON_TRY(archive.verify_all());
  if (archive.has(kProgram)) return read_first_form(options, contents);
  if (archive.has("data.pkl") && !archive.has(kFormat)) {
    const bool is_module = archive.has("constants.pkl") || archive.has("bytecode.pkl");
    return read_state_dict(is_module, options, contents);
  }
  if (!archive.has(kFormat))
    return {Code::kUnsupported,
            format("is an archive without weights that Tenon reads. %s", other_kind(archive))};
  TENON_TRY(check_version(archive, kFormatVersion, kNewestFormat));
  return read_payloads(options, contents);
}

Status read_any_form(std::span<const std::byte> head, const module::ImportOptions& options,
                     Source from, Contents* contents) {
  if (os::is_flat_tensor(head)) return read_flat_tensors(options, contents);
  if (os::is_flatbuffer_module(head)) return read_flatbuffer_module(options, contents);
  if (os::is_numpy_array(head)) return read_npy(options, contents);
  if (os::is_pickle(head)) return read_legacy_save(options, contents);
  if (os::is_safetensors(head)) return read_safetensors(options, contents);
  if (os::is_json_object(head)) {
    if (from == Source::kPath) return read_shards(options, contents);
    if (from == Source::kShard) return {Code::kCorrupt, "is a file of JSON, and no shard"};
    return {Code::kUnsupported,
            "is an index of shards, and only its path leads to them: give the path of the index"};
  }
  return read_archive(options, contents);
}

// The C API gives names as UTF-8 texts that end with NUL, so a name must be UTF-8 without NUL.
Status index_weights(Contents* contents) {
  const std::vector<Weight>& weights = contents->weights;
  contents->weights_by_name.reserve(weights.size());
  for (const Weight& weight : weights) {
    const bool is_text =
        tensor::is_utf8(weight.name) && weight.name.find('\0') == std::string::npos;
    if (!is_text) return {Code::kCorrupt, "the name of a weight is no text in UTF-8"};
    if (!contents->weights_by_name.add_next(weights))
      return {Code::kCorrupt, format("two weights have the name \"%.200s\"", weight.name.c_str())};
  }
  return Status::ok();
}

// Of two values with one name, as of {"a.b": 1, "a": {"b": 2}}, the first one is kept.
void index_values(Contents* contents) {
  std::vector<NamedValue>& values = contents->values;
  contents->values_by_name.reserve(values.size());
  size_t kept = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i != kept) std::swap(values[kept], values[i]);
    if (contents->values_by_name.add_next(values)) {
      ++kept;
    } else {
      add_skipped(values[kept].name, "a second value of this name", contents);
    }
  }
  values.resize(kept);
}

}  // namespace

Result<Contents> read_contents(Ref<archive::ZipSource> source, const std::string& label,
                               const module::ImportOptions& options, Source from) {
  Contents contents;
  contents.source = std::move(source);
  std::array<std::byte, 16> head{};
  const uint64_t nbytes = std::min<uint64_t>(head.size(), contents.source->nbytes());
  TENON_TRY(contents.source->read(0, head.data(), nbytes));
  Status status = read_any_form(std::span(head).first(nbytes), options, from, &contents);
  if (status.is_ok()) status = index_weights(&contents);
  if (status.is_ok()) {
    index_values(&contents);
    return contents;
  }
  // The messages of the zip reader already contain the file's name.
  const bool has_name = status.message().starts_with(contents.source->name());
  const std::string message = text_of((has_name ? "" : label + ": ") + status.message());
  return Status(status.code(), message).with_details_of(status);
}

}  // namespace tenon::weights
