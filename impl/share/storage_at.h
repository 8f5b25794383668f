// Finds the storage that has the bytes at an address.
//
// Other libraries (NumPy, PyTorch) get addresses of storages and come back with them, or with
// addresses of bytes further on. A storage can be found from the time when its address was given
// out until its last reference is released. Storages whose address nobody asked for cost nothing
// here. Private storages are left out: they cannot be lent, and one can lie over another storage's
// bytes.
#pragma once

#include <cstdint>

#include "base/counted.h"
#include "storage/storage.h"

namespace tenon::share {

// The address of a storage is about to be given out. If memory is lacking, the storage cannot be
// found.
void remember_address(storage::Storage* storage) noexcept;

// A living storage that has all `nbytes` bytes from `address` on, as a new reference; null: there
// is none. If several have them (ranges of one segment that were opened apart), it is one whose
// size, rounded up to a power of two, is the least. 0 bytes are looked for as one.
Ref<storage::Storage> find_storage_at(const void* address, uint64_t nbytes) noexcept;

}  // namespace tenon::share
