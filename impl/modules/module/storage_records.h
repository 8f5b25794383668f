// StorageRecords writes the bytes of storages as records of an archive, whether they lie in memory,
// in a mapped file or on a CUDA device. The exporters of archives and packages use it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "cuda/host_copy.h"
#include "cuda/stream.h"
#include "modules/archive/zip_writer.h"
#include "modules/module/device_copies.h"
#include "modules/module/resolve.h"
#include "modules/value/tensor_value.h"

namespace tenon::module {

class StorageRecords {
 public:
  // `writer` and `resolved` are borrowed. Copies from a device wait for the work that was given to
  // `stream` before.
  StorageRecords(archive::ZipWriter* writer, const Resolved& resolved, cuda::Stream stream) noexcept
      : writer_(writer), resolved_(&resolved), copies_(stream) {}

  // Writes one record. A small storage on a device may be held back, so that it is read together
  // with the next ones. Its bytes must exist until finish(). PEER_GONE if the lender of the storage
  // is gone and the storage was dropped, CORRUPT if a mapped file was cut short.
  Status write(const std::string& name, const value::StorageValue& storage);
  // Writes the records that are held back. Call this before any other record is added.
  Status finish();

 private:
  Status write_from_device(const std::string& name, const value::StorageValue& storage);
  Status hold_back(const std::string& name, const value::StorageValue& storage);

  archive::ZipWriter* writer_;
  const Resolved* resolved_;
  DeviceCopies copies_;
  // The small storages of one device that are held back. The module keeps their bytes alive.
  std::vector<std::string> held_names_;
  std::vector<cuda::HostCopy::Range> held_;
  uint64_t held_nbytes_ = 0;
  int32_t held_device_ = 0;
};

}  // namespace tenon::module
