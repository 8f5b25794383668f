// Finds the storage that has the bytes at an address. The C API and DLPack call it.
//
// Other libraries (NumPy, PyTorch) get addresses of storages, and later pass them back, or pass
// addresses of bytes further on. A storage can be found from the time when its address was given
// out until its last reference is released. Storages whose address nobody asked for cost nothing
// here. Private storages are left out: they cannot be lent, and one can lie over another storage's
// bytes.
//
// Both functions take LockRank::kStorageAddresses (base/lock_rank.h). In a forked child they find
// the storages that it has inherited.
#pragma once

#include <cstdint>

#include "base/counted.h"
#include "storage/storage.h"

namespace tenon::share {

// Call this before the address of a storage is given out. If memory is lacking, the storage cannot
// be found.
void remember_address(storage::Storage* storage) noexcept;

// Gives a new reference to a living storage that has all `nbytes` bytes from `address` on; null if
// there is none. If several storages have them (ranges of one segment that were opened apart), the
// result is one whose size, rounded up to a power of two, is the least. 0 bytes are looked for as
// one.
Ref<storage::Storage> find_storage_at(const void* address, uint64_t nbytes) noexcept;

}  // namespace tenon::share
