// Reads the weights of an archive of torch.save (contents_builder.h). It is the file itself, or a
// record of the file, as in exported programs of PyTorch 2.6.
#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "modules/archive/pickle_state_dict.h"
#include "modules/module/archive_kind.h"
#include "modules/weights/contents_builder.h"
#include "pickle/reader.h"
#include "tensor/scalar_type.h"

namespace tenon::weights {

using archive::PickledStorage;
using archive::ZipReader;
using archive::ZipRecord;
using archive::ZipSource;
using pickle::PickleTree;
using value::StorageValue;
using value::StorageValueRef;

namespace {

// A source for one record's bytes in the file, as if they were a file of their own.
class RecordSource final : public ZipSource {
 public:
  static Ref<ZipSource> create(Ref<ZipSource> file, const ZipRecord& record) {
    return Ref<ZipSource>::adopt(new RecordSource(std::move(file), record));
  }
  Status read(uint64_t offset, void* to, uint64_t nbytes) const override {
    return file_->read(begin_ + offset, to, nbytes);
  }
  bool is_file() const noexcept override { return file_->is_file(); }

 private:
  RecordSource(Ref<ZipSource> file, const ZipRecord& record)
      : ZipSource(file->name() + ": " + std::string(record.name), file->base() + record.data_offset,
                  record.nbytes),
        file_(std::move(file)),
        begin_(record.data_offset) {}

  Ref<ZipSource> file_;
  uint64_t begin_;
};

// A reader of the inner archive's records as ranges of `file`, so that tensors are views of the
// file's only mapping.
Ref<ZipReader> ranges_of(const ZipReader& inner, Ref<ZipSource> file, uint64_t base) {
  std::vector<ZipReader::Range> ranges;
  for (const ZipRecord& record : inner.records())
    ranges.push_back({base + record.data_offset, record.nbytes});
  return ZipReader::of_ranges(std::move(file), ranges, "record ");
}

class SavedTensors {
 public:
  SavedTensors(const ZipReader& inner, bool is_module, PartStorages* part) noexcept
      : inner_(inner), is_module_(is_module), part_(part) {}

  Status read(const std::string& prefix, const pickle::PickleLimits& limits, Contents* out) {
    const ZipRecord* const pickle = inner_.find("data.pkl");
    if (pickle == nullptr) return wrong("has no record data.pkl");
    if (pickle->nbytes > limits.max_nbytes) {
      return Status(Code::kResourceExhausted,
                    "data.pkl has more bytes than the limit max_nbytes allows")
          .with("limit", "max_nbytes");
    }
    TENON_ASSIGN(const std::vector<std::byte> bytes, inner_.read(*pickle));
    pickle::PickleReadOptions read;
    read.dialect = is_module_ ? pickle::PickleDialect::kModule : pickle::PickleDialect::kGeneral;
    read.limits = limits;
    read.record = inner_.source()->name() + ": data.pkl";
    TENON_ASSIGN(const PickleTree tree, pickle::read_pickle(bytes, read));
    archive::StateDictOptions options;
    options.find_storage = [&](const PickledStorage& wanted) { return find(wanted, tree); };
    options.any_device = true;
    options.is_module = is_module_;
    options.limits = limits;
    TENON_ASSIGN(archive::StateDict found, archive::pickle_state_dict(tree, options));
    add_state_dict(std::move(found), prefix, *part_, out);
    return Status::ok();
  }

 private:
  Status wrong(const char* what) const {
    return {Code::kCorrupt, format("%s %s", inner_.source()->name().c_str(), what)};
  }

  Result<StorageValueRef> find(const PickledStorage& wanted, const PickleTree& tree) {
    if (wanted.device == "meta")
      return StorageValue::create(wanted.type, wanted.numel, nullptr, 0, "meta");
    const std::string name = "data/" + std::string(wanted.key);
    const ZipRecord* const record = inner_.find(name);
    if (record == nullptr)
      return tree.error(Code::kCorrupt, wanted.node,
                        format("there is no record %.300s", name.c_str()));
    uint64_t nbytes = 0;
    if (!checked_mul(wanted.numel, uint64_t{tensor::scalar_type_info(wanted.type).nbytes},
                     &nbytes) ||
        nbytes > record->nbytes)
      return tree.error(Code::kCorrupt, wanted.node,
                        format("the record %.300s has fewer bytes than its storage", name.c_str()));
    // The ranges of a nested archive cannot be inflated.
    if (record->deflated && &inner_ != &part_->reader())
      return Status(Code::kUnsupported,
                    format("the record %.300s of a nested archive is compressed", name.c_str()));
    Ref<storage::Storage> bytes;
    if (wanted.numel != 0) {
      TENON_ASSIGN(bytes,
                   part_->known_bytes_of(index_of(inner_, *record), wanted.type, wanted.device));
    }
    return StorageValue::create(wanted.type, wanted.numel, std::move(bytes));
  }

  const ZipReader& inner_;
  const bool is_module_;  // whether torch.jit.save wrote the archive
  PartStorages* part_;
};

}  // namespace

Status read_saved_tensors(const ZipRecord& record, const std::string& prefix,
                          const module::ImportOptions& options, Contents* contents) {
  Ref<ZipSource> file = contents->source;
  Ref<ZipSource> source;
  Part part;
  if (record.deflated) {
    TENON_ASSIGN(std::vector<std::byte> bytes, contents->archive->read(record));
    source = archive::OwnedSource::create(
        contents->source->name() + ": " + std::string(record.name), std::move(bytes));
    file = source;
    part.fixed_because = "the archive is compressed. Write it again uncompressed, as PyTorch does";
  } else {
    source = RecordSource::create(contents->source, record);
    part.base = record.data_offset;
    part.outer = record;
  }
  // Ranges have no checksum, so a copy of a record in an arena could not be checked later.
  // Everything is checked now, unless the caller asks for the structure only.
  const archive::Check check =
      options.check == archive::Check::kStructure ? options.check : archive::Check::kAll;
  TENON_ASSIGN(part.inner, ZipReader::open(std::move(source), check, options.zip_limits));
  part.reader = ranges_of(*part.inner, std::move(file), part.base);
  const Ref<ZipReader> inner = part.inner;
  const bool foreign_endian = module::is_foreign_endian(*inner);
  if (foreign_endian && part.fixed_because == nullptr)
    part.fixed_because = "the archive is big-endian";
  contents->parts.push_back(std::move(part));
  PartStorages storages(contents, options, foreign_endian);
  TENON_TRY(SavedTensors(*inner, false, &storages).read(prefix, options.pickle_limits, contents));
  return storages.finish();
}

Status read_state_dict(bool is_module, const module::ImportOptions& options, Contents* contents) {
  const bool foreign_endian = module::is_foreign_endian(*contents->archive);
  Part part;
  part.reader = contents->archive;
  if (foreign_endian) part.fixed_because = "the archive is big-endian";
  contents->parts.push_back(std::move(part));
  PartStorages storages(contents, options, foreign_endian);
  TENON_TRY(SavedTensors(*contents->archive, is_module, &storages)
                .read("", options.pickle_limits, contents));
  return storages.finish();
}

}  // namespace tenon::weights
