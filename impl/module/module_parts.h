// Reads the parts of which a module in an archive consists: its pickles and its files of code. A
// module archive has them in one place, a torch.package archive in another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "archive/pickle_to_values.h"
#include "archive/zip_reader.h"
#include "base/status.h"
#include "module/assembly.h"
#include "module/import.h"
#include "module/import_storages.h"

namespace tenon::module {

class ModuleParts {
 public:
  // The arguments are borrowed.
  ModuleParts(const archive::ZipReader& reader, const ImportOptions& options, Assembly* assembly,
              ArchiveStorages* storages) noexcept
      : reader_(&reader), options_(&options), assembly_(assembly), storages_(storages) {}

  // A file of code: a record below `folder` whose name within it is "code/<module>.py".
  static bool is_code(std::string_view folder, std::string_view name) noexcept;
  Status read_code(std::string_view folder, const archive::ZipRecord& record);
  // What is kept of a pickle besides its values, so that it can be written as it was.
  enum class Keep : uint8_t { kNothing, kKeys, kKeysAndMemo };
  // The tensors in the pickle have their bytes in records of `directory`.
  Result<archive::UnpickledValue> read_values(const std::string& record,
                                              const std::string& directory, Keep keep);
  Status read_constants(const std::string& record, const std::string& directory, Keep keep);

 private:
  const archive::ZipReader* reader_;
  const ImportOptions* options_;
  Assembly* assembly_;
  ArchiveStorages* storages_;
};

}  // namespace tenon::module
