// Assembly makes a Module from the parts of a file: code, constants, the root object, extra files
// and bytecode. The importers of archives and of flatbuffers read these parts, and call the
// functions of Assembly in the order in which they stand here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "modules/archive/pickle_to_values.h"
#include "modules/bytecode/program.h"
#include "modules/module/import.h"
#include "modules/module/import_storages.h"
#include "modules/module/kept_bytecode.h"
#include "modules/module/module.h"
#include "modules/value/check.h"

namespace tenon::module {

// One thread uses an Assembly. If keep_bytecode() or keep_program() fails, the importer calls
// leave_bytecode() and goes on, because a module may have no bytecode. After a failure of any other
// function the Assembly is of no use.
class Assembly {
 public:
  // `options` is borrowed. `label` is what messages call the file.
  Assembly(std::string label, const ImportOptions& options);

  const std::string& label() const noexcept { return label_; }
  Package& package() noexcept { return *package_; }
  ImportReport& report() noexcept { return package_->report; }
  // `version` says to which version of the operators the code refers. Call this before any code is
  // added.
  void start_code(int version);

  // Counts bytes that stay in memory, such as code and extra files. Call it before they are read,
  // because a sparse file takes less room on the disk than in memory. RESOURCE_EXHAUSTED beyond
  // max_kept_nbytes.
  Status keep(std::string_view name, uint64_t nbytes);
  // Tells how many bytes of the file hold values. Each of these bytes allows the checks of all
  // values a number of further steps.
  void allow_steps(uint64_t nbytes) noexcept;
  Status add_code(std::string qualifier, std::string text);
  // Keeps an extra file. A name that would lead out of a folder, if somebody unpacked the file, is
  // changed. add_misnamed_files() changes these names, so call it after all other names are known.
  void add_extra_file(std::string name, std::string content);
  void add_misnamed_files();

  // CORRUPT if the code has no class of that name. The readers of values call this.
  Status check_class(std::string_view name) const;
  // set_constants() and set_root() check the values against the types that the code declares.
  // `place` is the part of the file that holds the values, for messages. CORRUPT for a value that
  // does not fit, and RESOURCE_EXHAUSTED if the checks need more steps than allow_steps() gave.
  Status set_constants(std::vector<ValueRef> values, CodeSet::ConstantsOrigin origin,
                       const char* place);
  Status set_root(ValueRef root, const char* place);

  // Verifies the record bytecode.pkl and keeps it. `finder` finds the storages in `directory` that
  // the record names. The errors are those of KeptBytecode::create().
  using Finder = std::function<archive::FindStorage(const pickle::PickleTree& tree)>;
  Status keep_bytecode(std::string pickle, const std::string& directory, const Finder& finder);
  // Keeps a program of the flatbuffer form, which is verified when it is first needed. `names` has
  // the storages' keys in `directory`.
  Status keep_program(bytecode::Program program, const std::string& directory,
                      std::map<value::StorageKey, std::string> names);
  // Notes why the module has no bytecode. Bad bytecode is not an error, because PyTorch runs the
  // code without it.
  void leave_bytecode(const Status& why);

  // `source` is the file in which the storages lie.
  Ref<Module> finish(const ArchiveStorages& storages, const archive::ZipSource& source);

 private:
  value::CheckOptions check_options();
  KeptBytecode::Options keeping_options() const;

  std::string label_;
  const ImportOptions& options_;
  std::shared_ptr<Package> package_;
  Ref<CodeSet> code_;
  ValueRef root_;
  std::vector<ExtraFile> misnamed_;
  uint64_t kept_nbytes_ = 0;
  uint64_t steps_left_;  // for the checks of all values
};

}  // namespace tenon::module
