// ModuleParts reads the parts of a module in an archive: its pickles and its files of code. A
// module archive has them in one place, and a torch.package archive in another, so both importers
// use this class.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "modules/archive/pickle_to_values.h"
#include "modules/archive/zip_reader.h"
#include "modules/module/assembly.h"
#include "modules/module/import.h"
#include "modules/module/import_storages.h"

namespace tenon::module {

class ModuleParts {
 public:
  // The arguments are borrowed. The functions fail with CORRUPT for a record that is missing or
  // wrong, and with RESOURCE_EXHAUSTED beyond a limit of the options.
  ModuleParts(const archive::ZipReader& reader, const ImportOptions& options, Assembly* assembly,
              ArchiveStorages* storages) noexcept
      : reader_(&reader), options_(&options), assembly_(assembly), storages_(storages) {}

  // Whether a record is a file of code: it lies below `folder`, and its name there is
  // "code/<module>.py".
  static bool is_code(std::string_view folder, std::string_view name) noexcept;
  Status read_code(std::string_view folder, const archive::ZipRecord& record);
  // The data that is kept of a pickle besides its values, so that an export can write the same
  // bytes.
  enum class Keep : uint8_t { kNothing, kKeys, kKeysAndMemo };
  // Reads the pickle `record`. The tensors in it have their bytes in records of `directory`.
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
