#include "checkpoint_facts.h"

#include <cinttypes>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "archive/pickle_reader.h"
#include "archive/pickle_state_dict.h"

namespace tenon::cli {
namespace {

constexpr const char* kPickle = "data.pkl";

// The storages of a file, as its pickle tells of them.
class Storages {
 public:
  explicit Storages(const archive::ZipReader& container) noexcept : container_(container) {}

  archive::FindStorage finder() {
    return [this](const archive::PickledStorage& wanted) { return find(wanted); };
  }
  // A tensor on meta can have a storage of its own, which the pickle does not name.
  std::string device_of(const value::StorageValue& storage) const {
    const auto found = devices_.find(&storage);
    return found == devices_.end() ? "meta" : found->second;
  }

 private:
  Result<value::StorageValueRef> find(const archive::PickledStorage& wanted) {
    if (wanted.device != "meta") TENON_TRY(check_record(wanted));
    // To list a storage its bytes are not needed. A storage on meta has none.
    TENON_ASSIGN(value::StorageValueRef made, value::StorageValue::create(wanted.type, wanted.numel, nullptr, 0, "meta"));
    devices_[made.get()] = std::string(wanted.device);
    return made;
  }

  Status check_record(const archive::PickledStorage& wanted) const {
    const std::string name = "data/" + std::string(wanted.key);
    const archive::ZipRecord* const record = container_.find(name);
    if (record == nullptr) {
      return Status(Code::kCorrupt, format("there is no record %s, which has a tensor's elements: the file is not whole", name.c_str()))
          .with("record", name);
    }
    const uint64_t size = value::scalar_type_info(wanted.type).nbytes;
    if (wanted.numel <= record->nbytes / size) return Status::ok();
    return Status(Code::kCorrupt, format("the record %s has %" PRIu64 " bytes, and its storage %" PRIu64 " elements of %" PRIu64 " bytes",
                                         name.c_str(), record->nbytes, wanted.numel, size))
        .with("record", name);
  }

  const archive::ZipReader& container_;
  std::map<const value::StorageValue*, std::string> devices_;
};

class CheckpointGatherer {
 public:
  CheckpointGatherer(ArchiveFacts* facts, const Storages& storages) noexcept : facts_(facts), storages_(storages) {}

  void add(const archive::NamedTensor& named) {
    const value::TensorValue& tensor = *named.tensor;
    TensorFact fact;
    fact.path = named.name;
    fact.kind = named.is_parameter ? "parameter" : "tensor";
    fact.dtype = value::scalar_type_info(tensor.type()).name;
    fact.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
    const bool is_strided = tensor.layout() == value::TensorLayout::kStrided;
    const value::StorageValue& elements = is_strided ? *tensor.storage() : *tensor.values()->storage();
    add_tensor_details(tensor, &fact.details);
    if (storages_.device_of(elements) != "cpu") add_detail(storages_.device_of(elements), &fact.details);
    if (is_strided) {
      fact.strides.assign(tensor.strides().begin(), tensor.strides().end());
      fact.offset = tensor.offset();
      fact.storage = count_storage(elements);
    } else {
      for (const value::TensorValueRef& part : {tensor.indices(), tensor.plain_indices(), tensor.values()}) {
        if (part) (void)count_storage(*part->storage());
      }
    }
    facts_->tensors.push_back(std::move(fact));
  }

 private:
  size_t count_storage(const value::StorageValue& storage) {
    const auto [at, is_new] = numbers_.try_emplace(&storage, facts_->storages.size());
    if (is_new) {
      const uint64_t nbytes = storages_.device_of(storage) == "meta" ? 0 : storage.nbytes();
      facts_->storages.push_back({value::scalar_type_info(storage.type()).name, storage.numel(), nbytes, 0});
    }
    ++facts_->storages[at->second].tensors;
    return at->second;
  }

  ArchiveFacts* facts_;
  const Storages& storages_;
  std::map<const value::StorageValue*, size_t> numbers_;
};

}  // namespace

bool is_checkpoint(const archive::ZipReader& container) noexcept {
  return container.has(kPickle) && !container.has("constants.pkl") && !container.has("bytecode.pkl") && !container.has("model.json");
}

Status gather_checkpoint(ArchiveFacts* facts) {
  const archive::ZipReader& container = *facts->container;
  TENON_ASSIGN(const std::vector<std::byte> bytes, container.read(*container.find(kPickle)));
  archive::PickleReadOptions reading;
  reading.dialect = archive::PickleDialect::kGeneral;
  TENON_ASSIGN(const archive::PickleTree tree, archive::read_pickle(bytes, reading));
  Storages storages(container);
  archive::StateDictOptions options;
  options.find_storage = storages.finder();
  options.any_device = true;
  TENON_ASSIGN(archive::StateDict read, archive::pickle_state_dict(tree, options));
  CheckpointGatherer gatherer(facts, storages);
  for (const archive::NamedTensor& named : read.tensors) gatherer.add(named);
  facts->others = std::move(read.others);
  facts->n_others = read.n_others;
  return Status::ok();
}

}  // namespace tenon::cli
