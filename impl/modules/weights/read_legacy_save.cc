// Reads a file that torch.save wrote before PyTorch 1.6, and that it writes today on request
// (docs/format/safetensors.md): pickles of a magic number, a version, facts of the machine, the
// object and the keys of its storages, and then the bytes of each storage (contents_builder.h).
#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "modules/archive/pickle_state_dict.h"
#include "modules/archive/pickle_tensors.h"
#include "modules/weights/contents_builder.h"
#include "pickle/reader.h"
#include "tensor/scalar_type.h"

namespace tenon::weights {

using archive::PickledStorage;
using archive::ZipReader;
using pickle::NodeId;
using pickle::NodeKind;
using pickle::PickleTree;
using value::StorageValue;
using value::StorageValueRef;

namespace {

// The integer 0x1950a86a20f9469cfc6c as a pickle has it.
constexpr std::string_view kLegacyMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr int64_t kLegacyVersion = 1001;
// The first attempt to read a pickle takes this many bytes. Most are shorter.
constexpr uint64_t kFirstAttemptNbytes = uint64_t{256} << 10;

// The tree borrows the bytes, which do not move when the object does.
struct LegacyPickle {
  std::vector<std::byte> bytes;
  PickleTree tree;
};

class LegacySave {
 public:
  LegacySave(const module::ImportOptions& options, Contents* contents) noexcept
      : options_(options), contents_(contents), source_(*contents->source) {}

  Status run() {
    TENON_TRY(read_head());
    TENON_ASSIGN(const LegacyPickle object, next_pickle("the pickle"));
    TENON_TRY(find_storages(object.tree));
    TENON_TRY(read_keys());
    Part added;
    added.reader = ZipReader::of_ranges(contents_->source, ranges_, "storage ");
    contents_->parts.push_back(std::move(added));
    PartStorages part(contents_, options_, false);
    archive::StateDictOptions options;
    options.find_storage = [&](const PickledStorage& wanted) {
      return find(wanted, object.tree, &part);
    };
    options.any_device = true;
    options.limits = options_.pickle_limits;
    TENON_ASSIGN(archive::StateDict found, archive::pickle_state_dict(object.tree, options));
    add_state_dict(std::move(found), "", part, contents_);
    return part.finish();
  }

 private:
  static constexpr size_t kNoRange = SIZE_MAX;
  // A storage that the object's pickle mentions.
  struct Expected {
    uint64_t numel = 0;
    uint32_t element_nbytes = 0;
    size_t range = kNoRange;
  };

  // Reads the pickle at at_, and moves at_ behind it. The file does not say how long a pickle is.
  Result<LegacyPickle> next_pickle(const char* name) {
    const uint64_t rest = source_.nbytes() - at_;
    if (rest == 0)
      return Status(Code::kCorrupt,
                    format("%s is missing: the file is cut short. Copy or download it again", name))
          .with("offset", at_);
    const uint64_t most = std::min(rest, options_.pickle_limits.max_nbytes);
    for (uint64_t nbytes = std::min(most, kFirstAttemptNbytes);;
         nbytes = std::min(most, 4 * nbytes)) {
      LegacyPickle read;
      read.bytes.resize(nbytes);
      TENON_TRY(source_.read(at_, read.bytes.data(), nbytes));
      bool is_cut_short = false;
      pickle::PickleReadOptions reading;
      reading.dialect = pickle::PickleDialect::kGeneral;
      reading.limits = options_.pickle_limits;
      reading.record = name;
      reading.is_cut_short = &is_cut_short;
      Result<PickleTree> tree = pickle::read_pickle(read.bytes, reading);
      if (is_cut_short && nbytes < most) continue;
      if (is_cut_short && most < rest) {
        return Status(Code::kResourceExhausted,
                      format("%s has more bytes than the limit max_nbytes allows", name))
            .with("limit", "max_nbytes");
      }
      TENON_ASSIGN(read.tree, std::move(tree));
      at_ += read.tree.nbytes();
      return read;
    }
  }

  Status read_head() {
    TENON_ASSIGN(const LegacyPickle magic, next_pickle("the first pickle"));
    const NodeId root = magic.tree.root();
    if (magic.tree.kind(root) != NodeKind::kLong || magic.tree.text(root) != kLegacyMagic) {
      return {
          Code::kUnsupported,
          format("is a pickle of %s, and no file of torch.save. Save tensors by torch.save, and "
                 "a module by torch.jit.save",
                 magic.tree.describe(root).c_str())};
    }
    TENON_ASSIGN(const LegacyPickle version, next_pickle("the pickle of the version"));
    const bool is_known = version.tree.kind(version.tree.root()) == NodeKind::kInt &&
                          version.tree.integer(version.tree.root()) == kLegacyVersion;
    if (!is_known) {
      return {Code::kUnsupported, format("is a file of torch.save of the version %s, and 1001 is "
                                         "known",
                                         version.tree.describe(version.tree.root()).c_str())};
    }
    // PyTorch writes the elements as little-endian on every machine, so these facts do not matter.
    return next_pickle("the pickle of the machine").status();
  }

  // Notes the storages of the whole pickle, also of what is skipped: their sizes say where the
  // bytes of the next storage begin.
  Status find_storages(const PickleTree& tree) {
    archive::PickledTensors tensors(tree,
                                    {.find_storage = nullptr, .any_device = true, .general = true});
    for (NodeId id = 0; id < tree.count(); ++id) {
      if (!tensors.is_storage(id)) continue;
      TENON_ASSIGN(const PickledStorage storage, tensors.storage_of(id, {}));
      const Expected expected{storage.numel, tensor::scalar_type_info(storage.type).nbytes,
                              kNoRange};
      const auto [known, is_new] = expected_.emplace(std::string(storage.key), expected);
      if (!is_new && (known->second.numel != expected.numel ||
                      known->second.element_nbytes != expected.element_nbytes))
        return tree.error(Code::kCorrupt, id, "a storage that is there twice, and differs");
    }
    return Status::ok();
  }

  Status read_keys() {
    TENON_ASSIGN(const LegacyPickle keys, next_pickle("the pickle of the storages' keys"));
    const PickleTree& tree = keys.tree;
    if (tree.kind(tree.root()) != NodeKind::kList)
      return tree.error(Code::kCorrupt, tree.root(), "the keys of the storages are no list");
    for (const NodeId key : tree.children(tree.root())) {
      const auto found = tree.kind(key) == NodeKind::kStr
                             ? expected_.find(std::string(tree.text(key)))
                             : expected_.end();
      if (found == expected_.end() || found->second.range != kNoRange) {
        return tree.error(
            Code::kCorrupt, key,
            format("%s is the key of no storage, or of one before", tree.describe(key).c_str()));
      }
      TENON_TRY(add_range(found->first, &found->second));
    }
    return Status::ok();
  }

  // The number of elements, in 8 bytes, comes before the elements.
  Status add_range(const std::string& key, Expected* expected) {
    const auto wrong = [&](const char* what) {
      return Status(Code::kCorrupt,
                    format("the storage '%.200s' at byte %llu %s", key.c_str(), as_llu(at_), what))
          .with("offset", at_);
    };
    uint64_t numel = 0;
    if (source_.nbytes() - at_ < sizeof numel)
      return wrong("is missing: the file is cut short. Copy or download it again");
    TENON_TRY(source_.read(at_, &numel, sizeof numel));
    if (numel != expected->numel) return wrong("has another size than its tensors say");
    at_ += sizeof numel;
    uint64_t nbytes = 0;
    if (!checked_mul(numel, uint64_t{expected->element_nbytes}, &nbytes) ||
        nbytes > source_.nbytes() - at_)
      return wrong("has too few bytes: the file is cut short. Copy or download it again");
    expected->range = ranges_.size();
    ranges_.push_back({at_, nbytes});
    at_ += nbytes;
    return Status::ok();
  }

  Result<StorageValueRef> find(const PickledStorage& wanted, const PickleTree& tree,
                               PartStorages* part) const {
    if (wanted.device == "meta")
      return StorageValue::create(wanted.type, wanted.numel, nullptr, 0, "meta");
    const auto found = expected_.find(std::string(wanted.key));
    if (found == expected_.end() || found->second.range == kNoRange)
      return tree.error(Code::kCorrupt, wanted.node, "the file has no bytes of a storage");
    Ref<storage::Storage> bytes;
    if (wanted.numel != 0) {
      TENON_ASSIGN(bytes, part->known_bytes_of(found->second.range, wanted.type, wanted.device));
    }
    return StorageValue::create(wanted.type, wanted.numel, std::move(bytes));
  }

  const module::ImportOptions& options_;
  Contents* contents_;
  const archive::ZipSource& source_;
  uint64_t at_ = 0;
  std::map<std::string, Expected, std::less<>> expected_;  // by key
  std::vector<ZipReader::Range> ranges_;
};

}  // namespace

Status read_legacy_save(const module::ImportOptions& options, Contents* contents) {
  return LegacySave(options, contents).run();
}

}  // namespace tenon::weights
