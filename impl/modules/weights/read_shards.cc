// Reads an index of shards: files that together have the weights of a model (contents_builder.h).
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "modules/archive/file_mapping.h"
#include "modules/weights/contents_builder.h"
#include "modules/weights/read_contents.h"
#include "modules/weights/shard_index.h"

namespace tenon::weights {
namespace {

class Shards {
 public:
  Shards(const module::ImportOptions& options, Contents* contents)
      : options_(options), contents_(contents) {}

  Status run() {
    TENON_ASSIGN(const ShardIndex index,
                 open_shard_index(*contents_->source, options_.pickle_limits.max_nbytes));
    for (const auto& [file, wanted] : index.shards) {
      TENON_ASSIGN(Contents shard, open(index.folder, file));
      TENON_TRY(take(file, std::move(shard), wanted));
    }
    contents_->read_only_because =
        "an index of several files, which Tenon does not write. Open and rewrite one of these";
    return Status::ok();
  }

 private:
  Result<Contents> open(const std::string& folder, const std::string& file) const {
    Result<Ref<archive::ZipSource>> source = archive::FileMapping::open(folder + file);
    if (!source.is_ok()) return shard_error(source.status());
    Result<Contents> shard =
        read_contents(std::move(source).value(), file, options_, Source::kShard);
    return shard.is_ok() ? std::move(shard) : shard_error(shard.status());
  }

  Status take(const std::string& file, Contents shard,
              const std::set<std::string, std::less<>>& wanted) {
    const size_t first_part = contents_->parts.size();
    const size_t first_slot = contents_->slots.size();
    for (Part& part : shard.parts) {
      part.fixed_because = "it is in a shard. Open the shard itself";
      part.members.clear();
      contents_->parts.push_back(std::move(part));
    }
    for (Slot& slot : shard.slots) {
      slot.part += first_part;
      contents_->slots.push_back(std::move(slot));
    }
    std::set<std::string_view> found;
    for (Weight& weight : shard.weights) {
      const auto known = wanted.find(weight.name);
      if (known == wanted.end()) {
        add_skipped(weight.name, "the shard " + file + " has it, and the index does not name it",
                    contents_);
        continue;
      }
      found.insert(*known);
      if (weight.slot != Weight::kNoSlot) weight.slot += first_slot;
      contents_->weights.push_back(std::move(weight));
    }
    for (const std::string& name : wanted)
      if (!found.contains(name)) return shard_lacks(file, name);
    // Each shard has values such as __metadata__.format, and these are usually equal.
    for (NamedValue& value : shard.values) {
      if (values_.insert(value.name).second) contents_->values.push_back(std::move(value));
    }
    for (std::string& line : shard.skipped) contents_->skipped.push_back(std::move(line));
    return Status::ok();
  }

  const module::ImportOptions& options_;
  Contents* contents_;
  std::set<std::string> values_;
};

}  // namespace

Status read_shards(const module::ImportOptions& options, Contents* contents) {
  return Shards(options, contents).run();
}

}  // namespace tenon::weights
