#include "modules/weights/patched_file.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "modules/archive/crc32.h"

namespace tenon::weights {

namespace {

constexpr uint64_t kPieceNbytes = uint64_t{256} << 10;

}  // namespace

void PatchedFile::replace(uint64_t offset, uint64_t nbytes, Ref<storage::Storage> bytes,
                          uint64_t from) {
  if (nbytes != 0) patches_[offset] = {nbytes, std::move(bytes), from, 0};
}

void PatchedFile::replace(uint64_t offset, uint32_t number) {
  patches_[offset] = {sizeof number, nullptr, 0, number};
}

Status PatchedFile::read(uint64_t offset, std::span<std::byte> to) const {
  auto next = patches_.upper_bound(offset);
  if (next != patches_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second.nbytes > offset) next = before;
  }
  while (!to.empty()) {
    const bool is_patch = next != patches_.end() && next->first <= offset;
    const uint64_t limit =
        next == patches_.end() ? UINT64_MAX : next->first + (is_patch ? next->second.nbytes : 0);
    const auto nbytes = static_cast<size_t>(std::min<uint64_t>(to.size(), limit - offset));
    if (!is_patch) {
      TENON_TRY(source_.read(offset, to.data(), nbytes));
    } else if (const Patch& patch = next->second; patch.bytes) {
      TENON_TRY(patch.bytes->read(patch.from + (offset - next->first), to.data(), nbytes));
    } else {
      std::memcpy(to.data(),
                  reinterpret_cast<const std::byte*>(&patch.number) + (offset - next->first),
                  nbytes);
    }
    if (is_patch && offset + nbytes == limit) ++next;
    offset += nbytes;
    to = to.subspan(nbytes);
  }
  return Status::ok();
}

template <typename Take>
Status PatchedFile::for_each_piece(uint64_t offset, uint64_t nbytes, Take take) const {
  std::vector<std::byte> piece(static_cast<size_t>(std::min(nbytes, kPieceNbytes)));
  for (uint64_t done = 0; done < nbytes; done += piece.size()) {
    piece.resize(static_cast<size_t>(std::min(nbytes - done, kPieceNbytes)));
    TENON_TRY(read(offset + done, piece));
    TENON_TRY(take(std::span<const std::byte>(piece)));
  }
  return Status::ok();
}

Result<uint32_t> PatchedFile::crc32(uint64_t offset, uint64_t nbytes) const {
  uint32_t crc = 0;
  TENON_TRY(for_each_piece(offset, nbytes, [&crc](std::span<const std::byte> piece) {
    crc = archive::crc32(crc, piece.data(), piece.size());
    return Status::ok();
  }));
  return crc;
}

Status PatchedFile::write(archive::Sink* sink) const {
  return for_each_piece(0, source_.nbytes(),
                        [sink](std::span<const std::byte> piece) { return sink->write(piece); });
}

}  // namespace tenon::weights
