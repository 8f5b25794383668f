#include "modules/shared_weights/shards.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "modules/archive/crc32.h"
#include "modules/archive/file_mapping.h"
#include "modules/module/import.h"
#include "modules/weights/safetensors_header.h"
#include "modules/weights/safetensors_output.h"
#include "modules/weights/shard_index.h"
#include "os/file_kind.h"
#include "os/file_stream.h"

namespace tenon::shared_weights {

using weights::SafetensorsEntry;
using weights::SafetensorsHeader;

namespace {

constexpr uint64_t kMergedAlignment = 64;

uint64_t most_header_nbytes() { return module::ImportOptions{}.pickle_limits.max_nbytes; }

Status named(const std::string& file, const Status& why) {
  return Status(why.code(), file + ": " + why.message()).with_details_of(why);
}

Status of_index(const OpenedFile& index, const Status& why) { return named(label_of(index), why); }

// Continues the CRC of an identity with the identity of one of the files.
uint64_t add_to_crc(uint64_t crc, const FileIdentity& file) noexcept {
  static_assert(std::endian::native == std::endian::little);
  const auto mtime = static_cast<uint64_t>(file.mtime_ns);
  const std::array<uint64_t, 3> fields{file.nbytes, mtime, file.head_crc};
  const auto bytes = std::as_bytes(std::span(fields));
  return archive::crc32(static_cast<uint32_t>(crc), bytes.data(), bytes.size());
}

Result<std::array<std::byte, 16>> head_of(const OpenedFile& file) {
  std::array<std::byte, 16> head{};
  TENON_TRY(os::read_at(file.fd.get(), 0, head.data(),
                        std::min<uint64_t>(head.size(), file.identity.nbytes), file.path));
  return head;
}

// A safetensors entry, and the shard that has it.
struct MergedEntry {
  const OpenedFile* shard;
  SafetensorsEntry entry;
};

// Adds the entries that the index names.
Status take_shard(const OpenedFile& shard, const std::string& file,
                  const std::set<std::string, std::less<>>& wanted,
                  std::vector<MergedEntry>* entries, std::map<std::string, std::string>* metadata) {
  TENON_ASSIGN(const Ref<archive::ZipSource> source, archive::FileMapping::open(shard.path));
  Result<SafetensorsHeader> read = weights::read_safetensors_header(*source, most_header_nbytes());
  if (!read.is_ok()) return weights::shard_error(named(file, read.status()));
  SafetensorsHeader header = std::move(read).value();
  std::set<std::string_view> found;
  for (SafetensorsEntry& entry : header.entries) {
    const auto known = wanted.find(entry.name);
    if (known == wanted.end()) continue;
    found.insert(*known);
    entries->push_back({&shard, std::move(entry)});
  }
  for (const std::string& name : wanted)
    if (!found.contains(name)) return weights::shard_lacks(file, name);
  metadata->merge(header.metadata);  // of a key that two shards have, the first text stays
  return Status::ok();
}

Result<MergedFile> merge(const OpenedFile& index) {
  std::vector<MergedEntry> merged;
  std::map<std::string, std::string> metadata;
  const OpenedFile* shard = index.shards.data();
  for (const auto& [name, wanted] : index.index.shards)
    TENON_TRY(take_shard(*shard++, name, wanted, &merged, &metadata));
  // Wide element types come first, as in every safetensors file, so that each tensor is aligned.
  std::ranges::stable_sort(merged, std::ranges::greater{}, [](const MergedEntry& each) {
    return weights::safetensors_dtype_named(each.entry.dtype);
  });
  std::vector<SafetensorsEntry> entries;
  entries.reserve(merged.size());
  for (MergedEntry& each : merged) entries.push_back(std::move(each.entry));
  MergedFile file;
  TENON_ASSIGN(file.head, weights::safetensors_head(entries, metadata, kMergedAlignment));
  file.nbytes = file.head.size();
  for (size_t i = 0; i < merged.size(); ++i) {
    const SafetensorsEntry& entry = entries[i];
    if (entry.nbytes == 0) continue;
    FilePiece* const last = file.pieces.empty() ? nullptr : &file.pieces.back();
    if (last != nullptr && last->file == merged[i].shard &&
        last->from + last->nbytes == entry.offset) {
      last->nbytes += entry.nbytes;
    } else {
      file.pieces.push_back({merged[i].shard, entry.offset, file.nbytes, entry.nbytes});
    }
    if (!checked_add(file.nbytes, entry.nbytes, &file.nbytes))
      return Status(Code::kCorrupt, "the shards have more than 2^64 bytes of tensors");
  }
  return file;
}

}  // namespace

Result<bool> is_shard_index(const OpenedFile& file) {
  TENON_ASSIGN(const auto head, head_of(file));
  const auto nbytes = static_cast<size_t>(std::min<uint64_t>(head.size(), file.identity.nbytes));
  return os::is_json_object(std::span(head).first(nbytes));
}

Status open_shards(OpenedFile* index) {
  std::string text(std::min(index->identity.nbytes, most_header_nbytes() + 1), '\0');
  TENON_TRY(os::read_at(index->fd.get(), 0, text.data(), text.size(), index->path));
  const auto bytes = std::as_bytes(std::span(text));
  const Ref<archive::ZipSource> source =
      archive::OwnedSource::create(index->path, std::vector<std::byte>(bytes.begin(), bytes.end()));
  Result<weights::ShardIndex> read = weights::open_shard_index(*source, most_header_nbytes());
  if (!read.is_ok()) return of_index(*index, read.status());
  FileIdentity& whole = index->identity;
  whole.head_crc = add_to_crc(0, whole);
  index->index = std::move(read).value();
  index->is_index = true;
  for (const auto& [name, weights] : index->index.shards) {
    Result<OpenedFile> opened = open_one_file(index->index.folder + name);
    if (!opened.is_ok()) return of_index(*index, weights::shard_error(opened.status()));
    const FileIdentity& shard = opened.value().identity;
    if (!checked_add(whole.nbytes, shard.nbytes, &whole.nbytes))
      return of_index(*index, Status(Code::kCorrupt, "the shards have more than 2^64 bytes"));
    whole.mtime_ns = std::max(whole.mtime_ns, shard.mtime_ns);
    whole.head_crc = add_to_crc(whole.head_crc, shard);
    index->shards.push_back(std::move(opened).value());
  }
  return Status::ok();
}

Result<std::optional<MergedFile>> merge_shards(const OpenedFile& index) {
  for (const OpenedFile& shard : index.shards) {
    TENON_ASSIGN(const auto head, head_of(shard));
    if (!os::is_safetensors(head)) return std::optional<MergedFile>();
  }
  Result<MergedFile> merged = merge(index);
  if (!merged.is_ok()) return of_index(index, merged.status());
  return std::optional(std::move(merged).value());
}

Result<ShardValues> read_shard_values(const OpenedFile& index) {
  ShardValues values;
  TENON_ASSIGN(values.weights, weights::Weights::open(index.path, module::ImportOptions{}));
  for (const weights::Weight& weight : values.weights->list()) {
    Result<value::TensorValueRef> tensor = values.weights->tensor(weight.name);
    if (!tensor.is_ok()) return of_index(index, tensor.status()).with("name", weight.name);
    values.list.push_back({weight.name, std::move(tensor).value()});
  }
  Result<ValuesFile> file = layout_values(values.list);
  if (!file.is_ok()) return of_index(index, file.status());
  values.file = std::move(file).value();
  return values;
}

}  // namespace tenon::shared_weights
