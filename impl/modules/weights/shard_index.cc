#include "modules/weights/shard_index.h"

#include <utility>

#include "modules/archive/zip_names.h"
#include "modules/weights/contents_builder.h"
#include "modules/weights/safetensors_header.h"

namespace tenon::weights {

Result<ShardIndex> open_shard_index(const archive::ZipSource& source, uint64_t max_nbytes) {
  ShardIndex index;
  index.folder = source.name().substr(0, source.name().rfind('/') + 1);
  TENON_ASSIGN(const auto file_of, read_shard_index(source, max_nbytes));
  for (const auto& [weight, file] : file_of) index.shards[file].insert(weight);
  for (const auto& [file, weights] : index.shards) {
    const char* const fault = archive::find_name_fault(file);
    if (fault == nullptr) continue;
    return Status(Code::kCorrupt, format("the index names the shard \"%.200s\", whose name %s",
                                         file.c_str(), fault))
        .with("path", text_of(file));
  }
  return index;
}

Status shard_error(const Status& why) {
  return Status(why.code(), "the shard " + why.message()).with_details_of(why);
}

Status shard_lacks(const std::string& file, const std::string& weight) {
  return Status(Code::kCorrupt, format("the index gives the weight \"%.200s\" to the shard "
                                       "\"%.200s\", which does not have it",
                                       weight.c_str(), file.c_str()))
      .with("name", weight)
      .with("path", file);
}

}  // namespace tenon::weights
