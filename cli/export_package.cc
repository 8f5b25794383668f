// `tenon export --package`: writes one or several modules into one package of torch.package.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "archive_input.h"
#include "export_file.h"
#include "module_input.h"
#include "modules/archive/zip_writer.h"
#include "modules/module/export_package.h"
#include "modules/module/import.h"
#include "output.h"
#include "written.h"

namespace tenon::cli {
namespace {

using module::Module;
using module::PackageArchive;

// An input of the command line: FILE or NAME=FILE.
struct Given {
  std::string name;  // empty: made from the path
  std::string path;
};

// A path that contains "=" can be written with "/" or "./" at its beginning, because no name of a
// resource begins like that.
Given split_input(const std::string& text) {
  const size_t at = text.find('=');
  if (at == std::string::npos || text.starts_with('/') || text.starts_with('.')) return {{}, text};
  return {text.substr(0, at), text.substr(at + 1)};
}

class PackageBuilder {
 public:
  explicit PackageBuilder(const ExportCommandOptions& options) noexcept : options_(options) {
    // The new file gets new checksums, so damage in the old ones must be found here.
    reading_.check = archive::Check::kAll;
  }

  Status add(const std::string& text) {
    const Given given = split_input(text);
    const auto known = modules_.find(given.path);
    if (known != modules_.end()) return add_entry(given, known->second);
    TENON_ASSIGN(ArchiveInput input, ArchiveInput::open(given.path));
    read_nbytes_ += input.nbytes;
    if (container_kind(input) == ContainerKind::kPackage) return add_base(given, std::move(input));
    TENON_ASSIGN(const Ref<Module> module, import_input(input, {}, reading_));
    modules_.emplace(given.path, module);
    add_warnings(input.shown, *module);
    return add_entry(given, module);
  }

  Result<Written> write() {
    const ExportFile::Options filing = {.expected_nbytes = read_nbytes_,
                                        .shows_progress = !options_.json};
    TENON_ASSIGN(packing_.archive_name, module::archive_name_for({}, options_.to));
    TENON_ASSIGN(const std::unique_ptr<ExportFile> file, ExportFile::create(options_.to, filing));
    const Status packed = module::export_package(entries_, file.get(), packing_, &written_.report);
    if (!packed.is_ok()) return base_ ? with_shown_name(*base_, packed) : packed;
    TENON_TRY(file->commit());
    if (written_.report.oldest_pytorch.empty()) add_code_warnings();
    return std::move(written_);
  }

 private:
  Status add_base(const Given& given, ArchiveInput input) {
    if (!given.name.empty()) {
      return {
          Code::kInvalidArgument,
          input.shown + " is a package, whose modules have names. Give it without a name, as " +
              given.path +
              ", or write one of its modules into an archive first, with tenon export --module"};
    }
    if (base_) {
      return {Code::kInvalidArgument,
              base_->shown + " and " + input.shown +
                  " are packages, and a new package is made from one package at most. Write the "
                  "modules of the "
                  "other one into archives first, with tenon export --module"};
    }
    TENON_ASSIGN(packing_.base, open_package(input, reading_));
    base_ = std::move(input);
    return Status::ok();
  }

  Result<std::string> name_of(const Given& given) const {
    if (!given.name.empty()) return given.name;
    if (given.path != "-") return "models/" + archive::archive_name_of(given.path) + ".pkl";
    return Status(Code::kInvalidArgument,
                  "standard input gives no name to its module. Give one, such as models/net.pkl=-");
  }

  Status add_entry(const Given& given, const Ref<Module>& module) {
    TENON_ASSIGN(const std::string name, name_of(given));
    for (const WrittenResource& other : written_.resources) {
      if (other.name != name) continue;
      return {Code::kInvalidArgument,
              other.from + " and " + given.path + " would both be " + name +
                  ". Give one of them another name, such as models/other.pkl=" + given.path};
    }
    written_.resources.push_back({name, given.path});
    entries_.push_back({.name = name, .module = module, .bytes = {}});
    return Status::ok();
  }

  void add_warnings(const std::string& path, const Module& module) {
    const auto add = [&](const std::string& text) {
      written_.warnings.push_back(path + ": " + text);
    };
    const module::Package& package = module.package();
    for (const std::string& warning : package.report.warnings) add(warning);
    if (package.bytecode() != nullptr || !package.why_no_bytecode().is_ok())
      add("its bytecode is not written, because a package has none");
    const size_t files = package.extra_files.size();
    if (files > 0)
      add(plural_text(files, "extra file is", "extra files are") +
          " not written, because a package has none");
  }

  // Adds what PyTorch refuses in the code. An export writes unchanged code as it was read, even if
  // PyTorch refuses it.
  void add_code_warnings() {
    for (const auto& [path, module] : modules_) {
      const Status taken = module->check();
      if (!taken.is_ok())
        written_.warnings.push_back(
            path + ": PyTorch does not take this code, which is as it was: " + taken.message());
    }
  }

  const ExportCommandOptions& options_;
  module::ImportOptions reading_;
  module::PackageOptions packing_;
  std::optional<ArchiveInput> base_;            // the file of packing_.base
  std::map<std::string, Ref<Module>> modules_;  // by path
  std::vector<module::PackageEntry> entries_;
  uint64_t read_nbytes_ = 0;  // the size of all files
  Written written_;
};

}  // namespace

Result<Written> write_package(const ExportCommandOptions& options) {
  PackageBuilder builder(options);
  for (const std::string& input : options.from) TENON_TRY(builder.add(input));
  return builder.write();
}

}  // namespace tenon::cli
