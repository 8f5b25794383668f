#include "weights_facts.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "modules/archive/file_mapping.h"
#include "modules/module/archive_kind.h"
#include "modules/weights/read_contents.h"
#include "modules/weights/weights.h"
#include "output.h"
#include "tensor/scalar_type.h"

namespace tenon::cli {
namespace {

using archive::ZipReader;
using archive::ZipRecord;
using weights::Contents;
using weights::Part;
using weights::Slot;
using weights::Weight;

// In the order of WeightsForm.
constexpr WeightsFormWords kFormWords[] = {
    {"pt2", "exported program", "an exported program", "a PT2 archive", "record", "records",
     "records", true},
    {"pytorch-2.6", "exported program", "an exported program", "the archive of PyTorch 2.6",
     "record", "records", "records", true},
    {"ptd", "flat tensors", "a file of ExecuTorch's weights",
     "a .ptd file of ExecuTorch, whose segments have no checksums", "segment", "segments",
     "segments in the file", false},
    {"safetensors", "safetensors", "a safetensors file",
     "a safetensors file, which has no checksums", "tensor", "tensors", "tensors in the file",
     false},
    {"npy", "array of NumPy", "an array of NumPy", "an .npy file of NumPy, which has no checksums",
     "array", "arrays", "arrays in the file", false},
    {"npz", "arrays of NumPy", "an archive of arrays of NumPy", "an .npz archive of NumPy",
     "record", "records", "records", true},
    {"legacy", "old file of torch.save", "a file of torch.save before PyTorch 1.6",
     "a file of torch.save before PyTorch 1.6, which has no checksums", "storage", "storages",
     "storages in the file", false},
    {"shards", "index of shards", "an index of shards", "an index of shards", "shard", "shards",
     "shards", false},
};

constexpr const char* kFirstProgram = "serialized_exported_program.json";
constexpr const char* kFirstVersion = "version";
constexpr const char* kPt2Version = "archive_version";

// The names of arrays in an .npz file may have slashes, and then the first part is no folder.
Result<Ref<ZipReader>> open_zip(const Ref<archive::ZipSource>& source) {
  const auto open = [&](archive::Prefix prefix) {
    return ZipReader::open(source, archive::Check::kStructure, {}, prefix);
  };
  TENON_ASSIGN(Ref<ZipReader> opened, open(archive::Prefix::kOptional));
  return weights_form(*opened) == WeightsForm::kNumpyArchive ? open(archive::Prefix::kNone)
                                                             : Result<Ref<ZipReader>>(opened);
}

// The names of the programs. The graph of a program is the record models/<name>.json.
std::vector<std::string> programs_in(const ZipReader& container) {
  constexpr std::string_view kFolder = "models/";
  constexpr std::string_view kEnd = ".json";
  std::vector<std::string> names;
  for (const ZipRecord& record : container.records()) {
    if (record.name.size() <= kFolder.size() + kEnd.size()) continue;
    if (!record.name.starts_with(kFolder) || !record.name.ends_with(kEnd)) continue;
    names.emplace_back(
        record.name.substr(kFolder.size(), record.name.size() - kFolder.size() - kEnd.size()));
  }
  return names;
}

std::string version_in(const ZipReader& container, const char* name) {
  constexpr uint64_t kMostNbytes = 64;
  const ZipRecord* const record = container.find(name);
  if (record == nullptr || record->nbytes > kMostNbytes) return {};
  Result<std::string> text = container.read_text(*record);
  // The reader of the weights reports a version that cannot be read.
  if (!text.is_ok()) return {};
  std::string version = std::move(text).value();
  version.erase(version.find_last_not_of(" \r\n") + 1);
  return version;
}

// Gives the message of an error without the name of the file, with which it may begin.
std::string message_in(const ArchiveInput& input, const Status& status) {
  std::string message = of_file(input, status).message();
  const std::string label = input.shown + ": ";
  return message.starts_with(label) ? message.substr(label.size()) : message;
}

// Gives the shards, by their names in the folder of the index.
std::vector<NestedArchive> shards_in(const Contents& contents) {
  const std::string& index = contents.source->name();
  const size_t folder = index.rfind('/') + 1;  // 0 if there is no slash
  std::vector<NestedArchive> shards;
  for (const Part& part : contents.parts) {
    const std::string& name = part.reader->source()->name();
    shards.push_back({name.substr(std::min(name.size(), folder)), part.reader});
  }
  return shards;
}

// The readers of the archives that are records of the file.
std::vector<NestedArchive> nested_in(const Contents& contents) {
  std::vector<NestedArchive> nested;
  for (const Part& part : contents.parts) {
    if (!part.inner) continue;
    // The source of such an archive has the names of the file and of the record.
    const std::string& name = part.inner->source()->name();
    nested.push_back(
        {name.substr(std::min(name.size(), contents.source->name().size() + 2)), part.inner});
  }
  return nested;
}

// Reads a record that has no checksum. Its bytes may be missing, which no other check finds.
Status read_unchecked(const ZipReader& reader, const ZipRecord& record) {
  constexpr uint64_t kMostNbytes = uint64_t{1} << 20;
  std::vector<std::byte> piece(std::min(record.nbytes, kMostNbytes));
  for (uint64_t done = 0; done < record.nbytes; done += piece.size()) {
    const uint64_t nbytes = std::min<uint64_t>(record.nbytes - done, piece.size());
    TENON_TRY(reader.source()->read(record.data_offset + done, piece.data(), nbytes));
  }
  return Status::ok();
}

// The damaged records. The bytes of such a record are not those that were written.
class RecordDamage {
 public:
  void find(const ZipReader& reader) {
    for (size_t i = 0; i < reader.records().size(); ++i) {
      const ZipRecord& record = reader.records()[i];
      Status status = record.has_crc() || record.deflated ? reader.verify(record)
                                                          : read_unchecked(reader, record);
      if (!status.is_ok()) found_.emplace(std::pair(&reader, i), std::move(status));
    }
  }

  // Null if the record is good.
  const Status* of(const ZipReader& reader, size_t record) const {
    const auto at = found_.find({&reader, record});
    return at == found_.end() ? nullptr : &at->second;
  }
  bool has(const ZipReader& reader) const {
    const auto at = found_.lower_bound({&reader, 0});
    return at != found_.end() && at->first.first == &reader;
  }
  // By the reader and the number of the record.
  const auto& all() const noexcept { return found_; }

 private:
  std::map<std::pair<const ZipReader*, size_t>, Status> found_;
};

void find_damage_in(const WeightsFacts& facts, RecordDamage* damage) {
  damage->find(*facts.container);
  for (const NestedArchive& nested : facts.nested) damage->find(*nested.reader);
}

class WeightsGatherer {
 public:
  WeightsGatherer(const ArchiveInput& input, const Contents& contents, WeightsFacts* facts) noexcept
      : input_(input), contents_(contents), facts_(facts) {}

  void gather(const RecordDamage& damage) {
    for (const Weight& weight : contents_.weights) {
      WeightFact fact;
      fact.tensor.path = weight.name;
      fact.tensor.kind = "weight";
      Result<value::TensorValueRef> tensor =
          weight.is_readable() ? weight.read() : Result<value::TensorValueRef>(weight.refusal);
      if (tensor.is_ok()) {
        describe(*tensor.value(), &fact.tensor);
      } else {
        fact.wrong = in_weight(weight, "cannot be read", tensor.status());
      }
      facts_->weights.push_back(std::move(fact));
    }
    add_damage(damage);
  }

  // The errors of `damage` that an error of a weight repeats.
  const std::set<const Status*>& told() const noexcept { return told_; }

 private:
  void add_damage(const RecordDamage& damage) {
    for (size_t i = 0; i < contents_.weights.size(); ++i) {
      const Weight& weight = contents_.weights[i];
      if (weight.slot == Weight::kNoSlot) continue;
      const Status* const status = damage_of(damage, contents_.slots[weight.slot]);
      if (status != nullptr) add_wrong(i, "is damaged", *status);
      seen_.insert(weight.slot);
    }
    for (size_t slot = 0; slot < contents_.slots.size(); ++slot) {
      const Status* const status =
          seen_.contains(slot) ? nullptr : damage_of(damage, contents_.slots[slot]);
      if (status != nullptr) add_damaged_part(*status);
    }
  }

  void add_wrong(size_t weight, const char* what, const Status& damage) {
    facts_->weights[weight].wrong = in_weight(contents_.weights[weight], what, damage);
    told_.insert(&damage);
  }

  Status in_weight(const Weight& weight, const char* what, const Status& why) const {
    Status status(why.code(), format("%s: the weight \"%.200s\" %s: ", input_.shown.c_str(),
                                     weight.name.c_str(), what) +
                                  message_in(input_, why));
    status = std::move(status).with_details_of(why);
    return status;
  }

  const Status* damage_of(const RecordDamage& damage, const Slot& slot) const {
    const Part& part = contents_.parts[slot.part];
    switch (facts_->form) {
      case WeightsForm::kShards: return damage.of(*part.reader, slot.record);
      case WeightsForm::kNumpyArchive:
        // A compressed record has no members. Reading it has checked it.
        return part.members.empty() ? nullptr
                                    : damage.of(*facts_->container, part.members[slot.record]);
      default: return damage.of(part.inner ? *part.inner : *facts_->container, slot.record);
    }
  }

  // Whether the tensor has records that no slot names: it is sparse, or quantised per channel.
  static bool has_more_records(const value::TensorValue& tensor) {
    return tensor.layout() != value::TensorLayout::kStrided ||
           (tensor.quantizer() && tensor.quantizer()->scales);
  }

  void add_damaged_part(const Status& status) {
    for (size_t i = 0; i < contents_.weights.size(); ++i) {
      const Weight& weight = contents_.weights[i];
      const bool may_need_it =
          weight.made && has_more_records(*weight.made) && facts_->weights[i].wrong.is_ok();
      if (may_need_it) add_wrong(i, "has several records, one of which may be damaged", status);
    }
  }

  void describe(const value::TensorValue& tensor, TensorFact* fact) {
    describe_tensor(tensor, fact);
    if (tensor.layout() != value::TensorLayout::kStrided) {
      count_parts({tensor.indices(), tensor.plain_indices(), tensor.values()});
    } else if (tensor.storage()->is_meta()) {
      add_detail("meta", &fact->details);
    } else {
      fact->storage = count_storage(*tensor.storage());
    }
    if (tensor.quantizer())
      count_parts({tensor.quantizer()->scales, tensor.quantizer()->zero_points});
  }

  void count_parts(std::initializer_list<value::TensorValueRef> parts) {
    for (const value::TensorValueRef& part : parts) {
      if (part) (void)count_storage(*part->storage());
    }
  }

  // Tensors of two element types may share one storage, which counts once.
  size_t count_storage(const value::StorageValue& storage) {
    const auto [at, is_new] = numbers_.try_emplace(storage.key().object, facts_->storages.size());
    if (is_new)
      facts_->storages.push_back({tensor::scalar_type_info(storage.type()).name, storage.numel(),
                                  storage.nbytes(), 0, storage.key()});
    StorageFact& fact = facts_->storages[at->second];
    ++fact.tensors;
    if (storage.nbytes() > fact.nbytes) {
      fact.nbytes = storage.nbytes();
      fact.numel = storage.numel();
      fact.dtype = tensor::scalar_type_info(storage.type()).name;
    }
    return at->second;
  }

  const ArchiveInput& input_;
  const Contents& contents_;
  WeightsFacts* facts_;
  std::map<const void*, size_t> numbers_;  // the numbers of the storages
  std::set<size_t> seen_;                  // the slots that a weight names
  std::set<const Status*> told_;
};

// Adds the damaged records that no other error names. A weight reports each error in `told`.
void add_wrong_records(const ArchiveInput& input, const RecordDamage& damage,
                       const std::set<const Status*>& told, WeightsFacts* facts) {
  std::set<std::string_view> names;
  const std::string unread(facts->why_no_weights.detail("record"));
  if (!unread.empty()) names.insert(unread);
  // Damage in a nested archive is damage in its record, too.
  for (const NestedArchive& nested : facts->nested) {
    if (damage.has(*nested.reader)) names.insert(nested.record);
  }
  for (const auto& [place, status] : damage.all()) {
    const auto& [reader, index] = place;
    const bool is_named =
        reader == facts->container.get() && names.contains(reader->records()[index].name);
    if (!is_named && !told.contains(&status))
      facts->wrong_records.push_back(of_file(input, status));
  }
}

std::optional<WeightsForm> plain_form(const ArchiveInput& input) {
  if (input.is_flat_tensors()) return WeightsForm::kFlatTensors;
  if (input.is_safetensors()) return WeightsForm::kSafetensors;
  if (input.is_numpy_array()) return WeightsForm::kNumpyArray;
  if (input.is_legacy_save()) return WeightsForm::kLegacySave;
  if (input.is_index()) return WeightsForm::kShards;
  return std::nullopt;
}

// The form of a file that container_kind() has found to be one of weights.
WeightsForm form_of(const ArchiveInput& input) {
  if (const std::optional<WeightsForm> plain = plain_form(input)) return *plain;
  Result<Ref<archive::ZipSource>> source = archive::FileMapping::open(input.fd.get());
  Result<Ref<ZipReader>> container =
      source.is_ok() ? open_zip(source.value()) : Result<Ref<ZipReader>>(source.status());
  if (!container.is_ok()) return WeightsForm::kPt2Archive;
  return weights_form(*container.value()).value_or(WeightsForm::kPt2Archive);
}

WeightsForm form_of(const ArchiveInput& input, const ZipReader& container) {
  if (const std::optional<WeightsForm> plain = plain_form(input)) return *plain;
  return weights_form(container).value_or(WeightsForm::kPt2Archive);
}

// Opens a file whose weights cannot be read, to get the facts that its records tell.
Result<Ref<ZipReader>> open_container(const ArchiveInput& input, const Status& why_no_weights,
                                      Ref<archive::ZipSource> source) {
  if (input.is_plain_weights()) return why_no_weights;
  return open_zip(source);
}

// An index leads to its shards by the names in its folder, so it is opened by its path.
Result<Ref<archive::ZipSource>> open_source(const ArchiveInput& input) {
  if (!input.is_index()) return archive::FileMapping::open(input.fd.get());
  if (input.is_stdin)
    return Status(Code::kUnsupported,
                  "standard input has JSON, as an index of shards does, and does not lead to the "
                  "shards. Give the path of the index");
  return archive::FileMapping::open(input.shown);
}

void take_parts(const Contents& read, const ArchiveInput& input, WeightsFacts* facts) {
  facts->nbytes = read.source->nbytes();
  if (!input.is_index()) {
    facts->container = read.archive ? read.archive : read.parts.front().reader;
    facts->nested = nested_in(read);
    return;
  }
  facts->container = ZipReader::of_ranges(read.source, {}, "");
  facts->nested = shards_in(read);
  std::map<std::string_view, uint64_t> sizes;
  for (const NestedArchive& shard : facts->nested)
    sizes.emplace(shard.record, shard.reader->source()->nbytes());
  facts->nbytes = 0;
  for (const auto& [name, nbytes] : sizes) facts->nbytes += nbytes;
}

void gather_container(const ArchiveInput& input, WeightsFacts* facts) {
  facts->form = form_of(input, *facts->container);
  if (input.is_plain_weights() || facts->form == WeightsForm::kNumpyArchive) return;
  facts->version = version_in(
      *facts->container, facts->form == WeightsForm::kFirstArchive ? kFirstVersion : kPt2Version);
  facts->programs = programs_in(*facts->container);
  add_oddities(*facts->container, &facts->warnings);
}

}  // namespace

const Status& WeightsFacts::wrong() const noexcept {
  if (!why_no_weights.is_ok()) return why_no_weights;
  for (const WeightFact& each : weights) {
    if (!each.wrong.is_ok()) return each.wrong;
  }
  return wrong_records.empty() ? why_no_weights : wrong_records.front();
}

const WeightsFormWords& words_of(WeightsForm form) noexcept {
  return kFormWords[static_cast<size_t>(form)];
}

std::optional<WeightsForm> weights_form(const ZipReader& container) {
  if (container.has(kFirstProgram)) return WeightsForm::kFirstArchive;
  if (module::is_exported_program(container)) return WeightsForm::kPt2Archive;
  const bool has_arrays = std::ranges::any_of(
      container.records(), [](const ZipRecord& record) { return record.name.ends_with(".npy"); });
  if (has_arrays) return WeightsForm::kNumpyArchive;
  return std::nullopt;
}

std::string weights_part_text(const WeightsFacts& facts) {
  const WeightsFormWords& words = words_of(facts.form);
  const bool is_index = facts.form == WeightsForm::kShards;
  return plural_text(is_index ? facts.nested.size() : facts.container->records().size(), words.part,
                     words.parts);
}

Result<WeightsFacts> gather_weights(const ArchiveInput& input, archive::Check check) {
  WeightsFacts facts;
  Result<Ref<archive::ZipSource>> source = open_source(input);
  if (!source.is_ok()) return of_file(input, source.status());
  Result<Contents> contents =
      weights::read_contents(source.value(), input.shown, {},
                             input.is_index() ? weights::Source::kPath : weights::Source::kMemory);
  if (contents.is_ok()) {
    take_parts(contents.value(), input, &facts);
  } else {
    facts.why_no_weights = of_file(input, contents.status());
    Result<Ref<ZipReader>> container = open_container(input, facts.why_no_weights, source.value());
    if (!container.is_ok()) return of_file(input, container.status());
    facts.container = std::move(container).value();
    facts.nbytes = input.nbytes;
  }
  gather_container(input, &facts);
  RecordDamage damage;
  if (check == archive::Check::kAll) find_damage_in(facts, &damage);
  std::set<const Status*> told;
  if (contents.is_ok()) {
    WeightsGatherer gatherer(input, contents.value(), &facts);
    gatherer.gather(damage);
    told = gatherer.told();
  }
  add_wrong_records(input, damage, told, &facts);
  return facts;
}

Status refuse_weights_option(const ArchiveInput& input, const char* option) {
  const char* const what = words_of(form_of(input)).what;
  return {Code::kInvalidArgument, format("%s is %s and no module, which %s is for. Leave out %s",
                                         input.shown.c_str(), what, option, option)};
}

Status refuse_weights_as_module(const ArchiveInput& input) {
  const WeightsForm form = form_of(input);
  if (form != WeightsForm::kPt2Archive && form != WeightsForm::kFirstArchive) {
    return {Code::kUnsupported,
            format("%s is %s and has no module. Its weights can be read with tenon_open_weights, "
                   "or with tenon.open_weights in Python",
                   input.shown.c_str(), words_of(form).what)};
  }
  return {Code::kUnsupported, input.shown +
                                  " is an exported program (.pt2) and no module. It can be written "
                                  "again with other weights: with "
                                  "tenon_weights_rewrite, or with tenon.open_weights in Python"};
}

}  // namespace tenon::cli
