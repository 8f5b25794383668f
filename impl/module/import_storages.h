// Gives the storages of an archive: views of its mapping, or copies. What is shared by its key is
// one storage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "archive/pickle_to_values.h"
#include "archive/zip_reader.h"
#include "base/status.h"
#include "module/device_map.h"
#include "module/import.h"
#include "module/import_device.h"

namespace tenon::module {

// Whether this process has the CUDA devices to which the options send tensors.
Status check_devices(const ImportOptions& options);

class ArchiveStorages {
 public:
  // All borrowed.
  ArchiveStorages(const archive::ZipReader& reader, const ImportOptions& options,
                  bool foreign_endian, ImportReport* report) noexcept
      : reader_(&reader), options_(&options), foreign_endian_(foreign_endian), report_(report) {}

  // Of the records in `directory`, "data/" or "constants/"; `tree` is the pickle that they are in,
  // for messages.
  archive::FindStorage finder(std::string directory, const archive::PickleTree& tree,
                              bool keep_keys);
  // The storage in the record at that place: as many elements of the type as the record has room
  // for. Flatbuffers say no more of a storage than its bytes. `device` is where the elements were
  // saved.
  Result<value::StorageValueRef> whole(size_t record, value::ScalarType type,
                                       std::string_view device = "cpu");
  // Of the mapping of the file that views are in; null: there is none.
  const std::byte* mapped_base() const noexcept;
  // By storage: the key in that directory, if the finder was to keep them.
  using Keys = std::map<value::StorageKey, std::string>;
  const Keys& keys() const noexcept { return keys_; }
  // After the last: the bytes of all are there.
  Status finish();
  // For an archive of several modules, of which any number may be read: the report in which the
  // storages that are made from now on are counted. Before the first.
  void count_in(ImportReport* report) noexcept {
    report_ = report;
    reads_all_ = false;
    saved_on_device_ = 0;
  }
  // How many storages were saved on another device and came to the CPU although no option said so,
  // and the first such device.
  uint64_t saved_on_device() const noexcept { return saved_on_device_; }
  const std::string& first_device() const noexcept { return first_device_; }

 private:
  const archive::ZipRecord* find_record(std::string_view directory, std::string_view key) noexcept;
  Result<value::StorageValueRef> find(std::string_view directory,
                                      const archive::PickledStorage& wanted,
                                      const archive::PickleTree& tree);
  // `device` is where the elements were saved. The record has `numel` elements of the type, or
  // more.
  Result<value::StorageValueRef> make(const archive::ZipRecord& record, value::ScalarType type,
                                      uint64_t numel, std::string_view device);
  DeviceMap::Target target_of(std::string_view device);
  DeviceFiller& filler_of(DeviceMap::Target target);
  Result<Ref<storage::Storage>> open(const archive::ZipRecord& record,
                                     const value::ScalarTypeInfo& type, DeviceMap::Target target);
  Result<Ref<storage::Storage>> view(const archive::ZipRecord& record);
  // `swap_nbytes`: of the numbers whose bytes are turned round; 1: of none.
  Result<Ref<storage::Storage>> fill(const archive::ZipRecord& record, uint64_t swap_nbytes,
                                     bool into_private);

  const archive::ZipReader* reader_;
  const ImportOptions* options_;
  size_t next_ = 0;  // of the records, behind the one that was found last
  bool foreign_endian_;
  ImportReport* report_;
  bool reads_all_ = true;
  Ref<const Counted> private_mapping_;  // of kMapPrivate, once it is needed
  std::byte* private_base_ = nullptr;
  // By record; empty until there is one.
  std::vector<Ref<storage::Storage>> views_;
  // By record, `swap_nbytes` and ordinal.
  std::map<std::tuple<size_t, uint64_t, int32_t>, Ref<storage::Storage>> filled_;
  Keys keys_;
  uint64_t saved_on_device_ = 0;
  std::string first_device_;
  std::map<int32_t, DeviceFiller> fillers_;  // by ordinal
};

}  // namespace tenon::module
