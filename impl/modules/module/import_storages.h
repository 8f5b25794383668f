// ArchiveStorages gives the storages of an archive: views of its mapping, or copies. The importers
// give its finders to the readers of pickles. Storages with the same key are one storage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "modules/archive/pickle_to_values.h"
#include "modules/archive/zip_reader.h"
#include "modules/module/device_map.h"
#include "modules/module/import.h"
#include "modules/module/import_device.h"

namespace tenon::module {

// Whether this process has the CUDA devices to which the options send tensors. The errors are those
// of cuda::find_device(), UNSUPPORTED among them: there is no driver, or this is a child of fork.
Status check_devices(const ImportOptions& options);

// Makes a read-only view of a record that is not deflated, in the memory or the mapping of its
// source. The view keeps the source alive. Any thread may call this. RESOURCE_EXHAUSTED: the
// machine has no room for the record's pages.
Result<Ref<storage::Storage>> view_of(const archive::ZipReader& reader,
                                      const archive::ZipRecord& record);

// One thread at a time may use the object. The storages that it gives keep their mapping or memory
// alive, and may outlive it.
class ArchiveStorages {
 public:
  // All arguments are borrowed. `report` may be null until count_in() is called.
  ArchiveStorages(const archive::ZipReader& reader, const ImportOptions& options,
                  bool foreign_endian, ImportReport* report) noexcept
      : reader_(&reader), options_(&options), foreign_endian_(foreign_endian), report_(report) {}

  // Gives a function that finds the storages that a pickle names, in the records of `directory`
  // ("data/" or "constants/"). `tree` is that pickle, for messages. `keep_keys`: keys() gets their
  // keys. The function borrows `tree` and this object. CORRUPT if there is no record, or if it is
  // too small or has wrong bytes.
  archive::FindStorage finder(std::string directory, const pickle::PickleTree& tree,
                              bool keep_keys);
  // Gives the storage in the record with that index: as many elements of the type as the record has
  // room for. Flatbuffers call this, because they say no more of a storage than its bytes. `device`
  // is where the elements were saved.
  Result<value::StorageValueRef> whole(size_t record, tensor::ScalarType type,
                                       std::string_view device = "cpu");
  // Whether whole() gives view_of() for elements of this type that were saved on the CPU, so that a
  // caller can make the storage at any later time.
  bool can_view(size_t record, tensor::ScalarType type) const noexcept;
  // The beginning of the file's mapping in which the views are. Null: there is none.
  const std::byte* mapped_base() const noexcept;
  // The keys of the storages, if their finder was told to keep them.
  using Keys = std::map<value::StorageKey, std::string>;
  const Keys& keys() const noexcept { return keys_; }
  // Call this after the last storage. Then the bytes of all storages are complete. Until then, do
  // not read storages on a device.
  Status finish();
  // For an archive of several modules, of which the caller may read any number. Call this before a
  // module is read, with the report in which its storages are to be counted.
  void count_in(ImportReport* report) noexcept {
    report_ = report;
    reads_all_ = false;
    saved_on_device_ = 0;
  }
  // The number of storages that were saved on another device and came to the CPU although no option
  // said so, and the first such device.
  uint64_t saved_on_device() const noexcept { return saved_on_device_; }
  const std::string& first_device() const noexcept { return first_device_; }

 private:
  const archive::ZipRecord* find_record(std::string_view directory, std::string_view key);
  Result<value::StorageValueRef> find(std::string_view directory,
                                      const archive::PickledStorage& wanted,
                                      const pickle::PickleTree& tree);
  // `device` is where the elements were saved. The caller has checked that the record has room for
  // `numel` elements of the type.
  Result<value::StorageValueRef> make(const archive::ZipRecord& record, tensor::ScalarType type,
                                      uint64_t numel, std::string_view device);
  DeviceMap::Target target_of(std::string_view device);
  DeviceFiller& filler_of(DeviceMap::Target target);
  Result<Ref<storage::Storage>> open(const archive::ZipRecord& record,
                                     const tensor::ScalarTypeInfo& type, DeviceMap::Target target);
  // Whether a view of the record has elements of the type that this machine can read.
  bool is_readable_in_place(const archive::ZipRecord& record,
                            const tensor::ScalarTypeInfo& type) const noexcept;
  Result<Ref<storage::Storage>> view(const archive::ZipRecord& record);
  // `swap_nbytes` is the size of the numbers whose bytes are reversed. 1: nothing is reversed.
  Result<Ref<storage::Storage>> fill(const archive::ZipRecord& record, uint64_t swap_nbytes,
                                     bool into_private);

  const archive::ZipReader* reader_;
  const ImportOptions* options_;
  size_t next_ = 0;  // the index after that of the record found last
  bool foreign_endian_;
  ImportReport* report_;
  bool reads_all_ = true;
  Ref<const Counted> private_mapping_;  // for kMapPrivate, made when a view first needs it
  std::byte* private_base_ = nullptr;
  // By record. Empty until there is a view.
  std::vector<Ref<storage::Storage>> views_;
  // By record, `swap_nbytes` and ordinal.
  std::map<std::tuple<size_t, uint64_t, int32_t>, Ref<storage::Storage>> filled_;
  Keys keys_;
  uint64_t saved_on_device_ = 0;
  std::string first_device_;
  std::map<int32_t, DeviceFiller> fillers_;  // by ordinal
};

}  // namespace tenon::module
