// Reads module archives with data.pkl (PyTorch 1.4 and later). Nothing in them is executed; every
// value is checked against the type that the code declares for it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "archive/pickle_reader.h"
#include "archive/zip_reader.h"
#include "base/status.h"
#include "module/device_map.h"
#include "module/module.h"
#include "storage/storage.h"

namespace tenon::module {

enum class Tensors {
  kMap,         // read-only views of the file
  kMapPrivate,  // writable views; what is written stays in this process
  kFill,        // copied into storages of their own, as ImportOptions::storage says
  kDevice,      // copied into memory of the CUDA device ImportOptions::device
};

struct ImportOptions {
  Tensors tensors = Tensors::kMap;
  archive::Check check = archive::Check::kStructure;
  storage::StorageOptions storage;  // of kFill: the arena, the mode
  int32_t device = 0;               // of kDevice: the ordinal
  // Where tensors of the devices that it names go; `tensors` says it for all others.
  DeviceMap device_map;
  // Whether Package::debug_tables is filled. PyTorch's debug tables have absolute paths of the
  // files of the person who saved the module, so nothing carries them unasked.
  bool debug_tables = false;
  archive::ZipLimits zip_limits;
  archive::PickleLimits pickle_limits;
};

// What is no module archive is refused as what it is: torch.save, lite interpreter only,
// flatbuffer, PyTorch 1.0 to 1.3.
Result<Ref<Module>> import_module(const std::string& path, const ImportOptions& options);
Result<Ref<Module>> import_module(int fd, const ImportOptions& options);
// The bytes are the caller's: with views they stay as they are until the last of them goes, which
// `release` (may be null) tells.
using ReleaseFunction = void (*)(void* context);
Result<Ref<Module>> import_module(std::span<const std::byte> bytes, ReleaseFunction release,
                                  void* context, const ImportOptions& options);

}  // namespace tenon::module
