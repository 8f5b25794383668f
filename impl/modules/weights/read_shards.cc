// Reads an index of shards: files that together have the weights of a model (contents_builder.h).
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "modules/archive/file_mapping.h"
#include "modules/archive/zip_names.h"
#include "modules/weights/contents_builder.h"
#include "modules/weights/read_contents.h"
#include "modules/weights/safetensors_header.h"

namespace tenon::weights {
namespace {

class Shards {
 public:
  Shards(const module::ImportOptions& options, Contents* contents)
      : options_(options), contents_(contents), folder_(contents->source->name()) {
    folder_.resize(folder_.rfind('/') + 1);  // the empty text if there is no slash
  }

  Status run() {
    TENON_ASSIGN(const auto file_of,
                 read_shard_index(*contents_->source, options_.pickle_limits.max_nbytes));
    for (const auto& [weight, file] : file_of) shards_[file].emplace(weight, false);
    for (auto& [file, weights] : shards_) TENON_TRY(check_file(file));
    for (auto& [file, weights] : shards_) {
      TENON_ASSIGN(Contents shard, open(file));
      TENON_TRY(take(file, std::move(shard), &weights));
    }
    contents_->read_only_because =
        "an index of several files, which Tenon does not write. Open and rewrite one of these";
    return Status::ok();
  }

 private:
  // The weights that the index gives to a file, and whether the file has them.
  using Wanted = std::map<std::string_view, bool>;

  // Links are followed, because caches of models consist of them. But no name leads out of the
  // folder of the index by itself.
  static Status check_file(const std::string& file) {
    const char* const fault = archive::find_name_fault(file);
    if (fault == nullptr) return Status::ok();
    return Status(Code::kCorrupt, format("the index names the shard \"%.200s\", whose name %s",
                                         file.c_str(), fault))
        .with("path", text_of(file));
  }

  Result<Contents> open(const std::string& file) const {
    Result<Ref<archive::ZipSource>> source = archive::FileMapping::open(folder_ + file);
    Result<Contents> shard =
        source.is_ok() ? read_contents(std::move(source).value(), file, options_, Source::kShard)
                       : Result<Contents>(source.status());
    if (shard.is_ok()) return shard;
    return Status(shard.status().code(), "the shard " + shard.status().message())
        .with_details_of(shard.status());
  }

  Status take(const std::string& file, Contents shard, Wanted* wanted) {
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
    for (Weight& weight : shard.weights) {
      const auto found = wanted->find(weight.name);
      if (found == wanted->end()) {
        add_skipped(weight.name, "the shard " + file + " has it, and the index does not name it",
                    contents_);
        continue;
      }
      found->second = true;
      if (weight.slot != Weight::kNoSlot) weight.slot += first_slot;
      contents_->weights.push_back(std::move(weight));
    }
    for (const auto& [name, is_found] : *wanted) {
      if (is_found) continue;
      const std::string weight(name);
      return Status(Code::kCorrupt, format("the index gives the weight \"%.200s\" to the shard "
                                           "\"%.200s\", which does not have it",
                                           weight.c_str(), file.c_str()))
          .with("name", weight)
          .with("path", file);
    }
    // Each shard has values such as __metadata__.format, and these are usually equal.
    for (NamedValue& value : shard.values) {
      if (values_.insert(value.name).second) contents_->values.push_back(std::move(value));
    }
    for (std::string& line : shard.skipped) contents_->skipped.push_back(std::move(line));
    return Status::ok();
  }

  const module::ImportOptions& options_;
  Contents* contents_;
  std::string folder_;
  std::map<std::string, Wanted> shards_;
  std::set<std::string> values_;
};

}  // namespace

Status read_shards(const module::ImportOptions& options, Contents* contents) {
  return Shards(options, contents).run();
}

}  // namespace tenon::weights
