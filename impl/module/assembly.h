// What an import makes of the parts of a file, whatever its form: code, constants, the root object, extra
// files and bytecode become a Module. The readers of archives and of flatbuffers fill it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "archive/pickle_to_values.h"
#include "base/status.h"
#include "module/import.h"
#include "module/import_storages.h"
#include "module/module.h"
#include "value/check.h"

namespace tenon::module {

class Assembly {
 public:
  // `options` is borrowed. `label` is what messages call the file.
  Assembly(std::string label, const ImportOptions& options);

  const std::string& label() const noexcept { return label_; }
  Package& package() noexcept { return *package_; }
  ImportReport& report() noexcept { return package_->report; }
  // The version is known before the code is read.
  void start_code(int version);

  // Of code and extra files, which stay in memory: RESOURCE_EXHAUSTED beyond max_kept_nbytes. A file may
  // be sparse, and have less on the disk than it costs here.
  Status keep(std::string_view name, uint64_t nbytes);
  // So many bytes of the file were read, which allows the checks of values more steps.
  void allow_steps(uint64_t nbytes) noexcept;
  Status add_code(std::string qualifier, std::string text);
  // Under its own name, unless that would lead somewhere if somebody unpacked it. Such a file has to wait
  // until all others have their names.
  void add_extra_file(std::string name, std::string content);
  void add_misnamed_files();

  // Whether the code has that class. For readers of values.
  Status check_class(std::string_view name) const;
  // Checks the values against the code. `place` is the part of the file that they are from, for messages.
  Status set_constants(std::vector<ValueRef> values, CodeSet::ConstantsOrigin origin, const char* place);
  Status set_root(ValueRef root, const char* place);
  const ValueRef& root() const noexcept { return root_; }

  // Verifies the bytecode and keeps it. `directory` is where the storages of its constants are, by `finder`.
  using Finder = std::function<archive::FindStorage(const archive::PickleTree& tree)>;
  Status keep_bytecode(std::string pickle, const std::string& directory, const Finder& finder);
  // Bytecode is for another interpreter than the code: bytecode that is bad leaves the module good.
  void leave_bytecode(const Status& why);

  // The source is that of the storages.
  Ref<Module> finish(const ArchiveStorages& storages, const archive::ZipSource& source);

 private:
  value::CheckOptions check_options();

  std::string label_;
  const ImportOptions& options_;
  std::shared_ptr<Package> package_;
  Ref<CodeSet> code_;
  ValueRef root_;
  std::vector<ExtraFile> misnamed_;
  uint64_t kept_nbytes_ = 0;
  uint64_t steps_left_;  // of the checks of all values
};

}  // namespace tenon::module
