// Reads module archives with data.pkl (PyTorch 1.4 and later). Nothing in them is executed. Every
// value is checked against the type that the code declares for it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "modules/archive/zip_reader.h"
#include "modules/module/device_map.h"
#include "modules/module/module.h"
#include "pickle/reader.h"
#include "storage/storage.h"

namespace tenon::module {

// Views keep the mapping alive. If the file is cut short later, a load from a view raises SIGBUS.
// If the mode asks for a view, a tensor is copied all the same if its record is compressed, begins
// at an address that does not fit its type, or has numbers of the other byte order.
enum class Tensors {
  kMap,         // read-only views of the file
  kMapPrivate,  // writable views; writes stay in this process. Bytes of the caller are copied
  kFill,        // copied into storages of their own (ImportOptions::storage)
  kDevice,      // copied into memory of a CUDA device (ImportOptions::device)
};

// The options are borrowed for the call, and so is the arena in `storage`.
struct ImportOptions {
  Tensors tensors = Tensors::kMap;
  archive::Check check = archive::Check::kStructure;
  storage::StorageOptions storage;  // for kFill: the arena, the mode
  int32_t device = 0;               // for kDevice: the ordinal
  // Says where tensors of the devices that it names go. `tensors` decides for all others.
  DeviceMap device_map;
  // Whether Package::debug_tables is filled. PyTorch's debug tables have absolute paths of the
  // files of the person who saved the module, so nothing carries them unasked.
  bool debug_tables = false;
  // Whether Module::complete() reads the code and the bytecode of a flatbuffer, and checks its
  // values against the code. An archive, and a file with Check::kAll, is always read at once.
  bool defers = false;
  archive::ZipLimits zip_limits;
  pickle::PickleLimits pickle_limits;
};

// UNSUPPORTED for a file that is not a module archive. The message names its kind: torch.save, lite
// interpreter only, flatbuffer, PyTorch 1.0 to 1.3. The other errors are those of
// tenon_import_module (tenon/archive.h). A child of fork gets UNSUPPORTED for a device. The fd is
// borrowed for the call. Any thread may import.
Result<Ref<Module>> import_module(const std::string& path, const ImportOptions& options);
Result<Ref<Module>> import_module(int fd, const ImportOptions& options);
// The caller owns the bytes and must not change them while a view of them exists. If the import
// succeeds, `release` (may be null) is called when the library needs them no more, on any thread.
// If the import fails, it is never called.
using ReleaseFunction = void (*)(void* context);
Result<Ref<Module>> import_module(std::span<const std::byte> bytes, ReleaseFunction release,
                                  void* context, const ImportOptions& options);

}  // namespace tenon::module
