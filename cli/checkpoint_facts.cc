#include "checkpoint_facts.h"

#include <cinttypes>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "modules/archive/pickle_state_dict.h"
#include "pickle/reader.h"
#include "storage/storage.h"

namespace tenon::cli {
namespace {

constexpr const char* kPickle = "data.pkl";

using storage::Storage;
using value::StorageValue;
using value::StorageValueRef;

// The storages that the pickle of a file names. Tensors are checked against their sizes. Their
// elements are never read, so they have no address.
class Storages {
 public:
  Storages(const archive::ZipReader& container, const pickle::PickleTree& tree) noexcept
      : container_(container), tree_(tree) {}

  archive::FindStorage finder() {
    return [this](const archive::PickledStorage& wanted) { return find(wanted); };
  }
  // The device of the elements when the file was written. A tensor on meta can have a storage that
  // the pickle does not name.
  std::string device_of(const StorageValue& storage) const {
    const auto found = devices_.find(&storage);
    return found == devices_.end() ? "meta" : found->second;
  }

 private:
  Result<StorageValueRef> find(const archive::PickledStorage& wanted) {
    const bool is_meta = wanted.device == "meta";
    Ref<Storage> bytes;
    if (!is_meta) {
      TENON_ASSIGN(bytes, bytes_of(wanted));
    }
    Result<StorageValueRef> made = StorageValue::create(wanted.type, wanted.numel, std::move(bytes),
                                                        0, is_meta ? "meta" : "cpu");
    if (!made.is_ok()) return tree_.error(Code::kCorrupt, wanted.node, made.status().message());
    devices_[made.value().get()] = std::string(wanted.device);
    return made;
  }

  Result<Ref<Storage>> bytes_of(const archive::PickledStorage& wanted) const {
    const std::string name = "data/" + std::string(wanted.key);
    const archive::ZipRecord* const record = container_.find(name);
    if (record == nullptr) {
      return tree_.error(Code::kCorrupt, wanted.node,
                         format("there is no record %.300s, which has a tensor's elements. Copy or "
                                "download the file again",
                                name.c_str()));
    }
    const uint64_t size = tensor::scalar_type_info(wanted.type).nbytes;
    uint64_t nbytes = 0;
    if (!checked_mul(wanted.numel, size, &nbytes) || nbytes > record->nbytes) {
      return tree_.error(Code::kCorrupt, wanted.node,
                         format("the record %.300s has %" PRIu64 " bytes, and its storage %" PRIu64
                                " elements of %" PRIu64 " bytes",
                                name.c_str(), record->nbytes, wanted.numel, size));
    }
    return Storage::wrap(nullptr, nbytes, [](void*) {}, nullptr, {.read_only = true});
  }

  const archive::ZipReader& container_;
  const pickle::PickleTree& tree_;
  std::map<const StorageValue*, std::string> devices_;
};

class CheckpointGatherer {
 public:
  CheckpointGatherer(ArchiveFacts* facts, const Storages& storages) noexcept
      : facts_(facts), storages_(storages) {}

  void add(const archive::NamedTensor& named) {
    const value::TensorValue& tensor = *named.tensor;
    TensorFact fact;
    fact.path = named.name;
    fact.kind = named.is_parameter ? "parameter" : "tensor";
    describe_tensor(tensor, &fact);
    const bool is_strided = tensor.layout() == value::TensorLayout::kStrided;
    const StorageValue& elements = is_strided ? *tensor.storage() : *tensor.values()->storage();
    if (storages_.device_of(elements) != "cpu")
      add_detail(storages_.device_of(elements), &fact.details);
    if (is_strided) {
      fact.storage = count_storage(elements);
    } else {
      count_parts({tensor.indices(), tensor.plain_indices(), tensor.values()});
    }
    if (tensor.quantizer())
      count_parts({tensor.quantizer()->scales, tensor.quantizer()->zero_points});
    facts_->tensors.push_back(std::move(fact));
  }

 private:
  // Counts the storages of sparse tensors and of tensors that are quantised per channel. TensorFact
  // does not name these storages.
  void count_parts(std::initializer_list<value::TensorValueRef> parts) {
    for (const value::TensorValueRef& part : parts) {
      if (part) (void)count_storage(*part->storage());
    }
  }

  size_t count_storage(const StorageValue& storage) {
    const auto [at, is_new] = numbers_.try_emplace(&storage, facts_->storages.size());
    if (is_new) {
      const uint64_t nbytes = storage.is_meta() ? 0 : storage.nbytes();
      facts_->storages.push_back(
          {tensor::scalar_type_info(storage.type()).name, storage.numel(), nbytes, 0});
    }
    ++facts_->storages[at->second].tensors;
    return at->second;
  }

  ArchiveFacts* facts_;
  const Storages& storages_;
  std::map<const StorageValue*, size_t> numbers_;
};

}  // namespace

bool is_checkpoint(const archive::ZipReader& container) noexcept {
  return container.has(kPickle) && !container.has("constants.pkl") &&
         !container.has("bytecode.pkl") && !container.has("model.json");
}

Status gather_checkpoint(ArchiveFacts* facts) {
  const archive::ZipReader& container = *facts->container;
  TENON_ASSIGN(const std::vector<std::byte> bytes, container.read(*container.find(kPickle)));
  pickle::PickleReadOptions reading;
  reading.dialect = pickle::PickleDialect::kGeneral;
  TENON_ASSIGN(const pickle::PickleTree tree, pickle::read_pickle(bytes, reading));
  Storages storages(container, tree);
  archive::StateDictOptions options;
  options.find_storage = storages.finder();
  options.any_device = true;
  TENON_ASSIGN(archive::StateDict read, archive::pickle_state_dict(tree, options));
  CheckpointGatherer gatherer(facts, storages);
  for (const archive::NamedTensor& named : read.tensors) {
    if (named.tensor) {
      gatherer.add(named);
    } else {
      read.leaves.push_back({named.name, nullptr, named.why.message()});
    }
  }
  for (const archive::StateDictLeaf& leaf : read.leaves) {
    if (++facts->n_others > ArchiveFacts::kMostOthers) continue;
    facts->others.push_back(leaf.value ? leaf.name : leaf.name + ": " + leaf.what);
  }
  return Status::ok();
}

}  // namespace tenon::cli
