#include "share/storage_at.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <mutex>
#include <new>

#include "base/process_state.h"
#include "share/object_table.h"

namespace tenon::share {
namespace {

using storage::Storage;

// A storage has the level L if it has more than 2^(L-1) and at most 2^L bytes. The addresses of a
// level are cut into cells of 2^L bytes, and a storage belongs to the cell in which it begins. So a
// storage of level L that has an address begins in the address's cell or in the one before. Among
// storages that do not overlap, at most two are in one cell.
constexpr unsigned kLowestLevel = 6;  // blocks begin at multiples of 64 bytes
constexpr unsigned kLevels = 65;

struct Cells {
  struct Key {
    unsigned level;
    uint64_t cell;
    bool operator==(const Key&) const = default;
  };
  static Key key_of(const Storage& storage) noexcept {
    const unsigned level =
        std::max(kLowestLevel, static_cast<unsigned>(std::bit_width(storage.nbytes() - 1)));
    return {level, level < 64 ? first_byte(storage) >> level : 0};
  }
  static uint64_t hash(const Key& key) noexcept {
    return (key.cell + (uint64_t{key.level} << 58)) * 0x9e3779b97f4a7c15ULL;
  }
  static uint64_t first_byte(const Storage& storage) noexcept {
    return reinterpret_cast<uintptr_t>(storage.data());
  }
};

// Raw pointers are enough, for the reason that share/cache.cc gives: a storage removes its entry,
// under the lock, before its memory can be freed.
struct AddressState : ProcessState<LockRank::kStorageAddresses> {
  ObjectTable<Storage, Cells> storages;
  std::array<uint64_t, kLevels> counts{};  // storages of each level
};

AddressState& address_state() noexcept { return process_state<AddressState>(); }

// The table owns the second end hook of storages.
constexpr Storage::EndSlot kAddressSlot = Storage::EndSlot::kSecond;

bool is_remembered(const Storage& storage) noexcept { return storage.has_end_hook(kAddressSlot); }

void forget_address(Storage* storage) noexcept {
  AddressState& all = address_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.storages.erase(storage);
  --all.counts[Cells::key_of(*storage).level];
}

}  // namespace

void remember_address(Storage* storage) noexcept {
  if (is_remembered(*storage) || !storage->is_shared() || storage->nbytes() == 0) return;
  AddressState& all = address_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (is_remembered(*storage)) return;  // another thread was faster
  try {
    all.storages.insert_beside(storage);
  } catch (const std::bad_alloc&) {
    return;
  }
  ++all.counts[Cells::key_of(*storage).level];
  storage->call_at_end(kAddressSlot, &forget_address);
}

Ref<Storage> find_storage_at(const void* address, uint64_t nbytes) noexcept {
  const uint64_t wanted = reinterpret_cast<uintptr_t>(address);
  AddressState& all = address_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  // A storage that is being released is passed over, because its bytes may belong to another
  // storage by now.
  const auto has_it = [&](Storage& storage) {
    const uint64_t offset = wanted - Cells::first_byte(storage);
    return offset < storage.nbytes() && nbytes <= storage.nbytes() - offset && storage.try_retain();
  };
  for (unsigned level = kLowestLevel; level < kLevels; ++level) {
    if (all.counts[level] == 0) continue;
    const uint64_t cell = level < 64 ? wanted >> level : 0;
    for (const uint64_t each : {cell, cell - 1}) {
      if (Storage* const found = all.storages.find_if({level, each}, has_it); found != nullptr)
        return Ref<Storage>::adopt(found);
    }
  }
  return {};
}

}  // namespace tenon::share
