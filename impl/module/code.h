// CodeSet: all classes and functions of a module, by qualified name, and the constants that they
// use. What an archive has under code/, or what was built. A class's text stays, byte for byte,
// until the class is changed.
//
// Files are parsed when something in them is looked for. Looking is for any number of threads;
// changing is for one, without any that looks, and is refused while the code is being exported.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "module/class_body.h"
#include "module/code_file.h"
#include "module/name_map.h"
#include "script/parser.h"
#include "value/check.h"
#include "value/value.h"

namespace tenon::module {

// Of the operators that new code means, and the range that PyTorch reads (docs/format/archive.md).
inline constexpr int kNewCodeVersion = 10;
inline constexpr int kOldestVersion = 1;
inline constexpr int kNewestVersion = 10;
inline constexpr size_t kMaxNameNbytes = 4096;

// "__torch__.a.B" is B in the code file of "__torch__.a", which is the record
// "code/__torch__/a.py".
std::string_view qualifier_of(std::string_view qualified_name) noexcept;
std::string_view base_name_of(std::string_view qualified_name) noexcept;
// "MLP" and "__torch__.MLP" are both the latter. INVALID_ARGUMENT for what is no qualified name.
Result<std::string> full_class_name(std::string_view name);
// Custom C++ classes, whose code PyTorch has and no archive.
bool is_custom_class(std::string_view qualified_name) noexcept;
// A name for another class of that name, as PyTorch makes one: "__torch__.a.___torch_mangle_0.B".
// Numbers are tried from *next on, which is left behind the one that is taken.
std::string mangled_name(std::string_view qualified_name, uint64_t* next,
                         const std::function<bool(const std::string&)>& is_taken);

class CodeSet final : public Counted, public value::ClassTable {
 public:
  // `label` is what errors call it: "module __torch__.MLP", "archive model.pt". `version` is that
  // of the files that are added.
  static Ref<CodeSet> create(std::string label, int version);

  const std::string& label() const noexcept { return label_; }
  int version() const noexcept { return version_; }

  // Looking. Null: there is none of that name. CORRUPT, with line and caret: it stands in a file
  // that cannot be parsed.
  Result<Definition*> find_definition(std::string_view qualified_name) const;
  // The longest beginning of a dotted name that is one: "__torch__.E" of "__torch__.E.RED".
  Result<Definition*> find_owner(std::string_view dotted_name) const;
  Result<const ClassBody*> body(const Definition& definition) const;
  // A class that must be there, with its body: NOT_FOUND, else.
  struct FoundClass {
    Definition* definition = nullptr;
    const ClassBody* body = nullptr;
  };
  Result<FoundClass> find_class(std::string_view qualified_name) const;
  // Whether there is such a class and it is a module's.
  bool is_module_class(std::string_view qualified_name) const;
  // The parsed file with the definition's text, and the item there.
  struct Text {
    std::shared_ptr<const script::File> file;
    const script::Item* item = nullptr;
    const script::Source& source() const noexcept { return file->source(); }
    std::string_view text() const noexcept { return source().text(item->extent); }
  };
  Result<Text> text(const Definition& definition) const;

  // For value::check_value. What cannot be parsed is as if it was not there; find_definition tells
  // why.
  const value::ClassDecl* find(std::string_view class_name) const override;
  bool implements(std::string_view class_name, std::string_view declared) const override;
  // Whether a class, of any code, has all that an interface wants.
  static bool implements_body(const ClassBody& implementation, const ClassBody& interface);
  // Whether an attribute of that type is a submodule: a module's class, or a module interface.
  bool is_submodule_type(const value::Type& type) const;
  // Every class that the type mentions must be here, or be a custom C++ class: else
  // INVALID_ARGUMENT.
  Status check_type(const value::Type& type) const;

  // In the order in which they were added.
  std::span<const std::unique_ptr<CodeFile>> files() const noexcept { return files_; }
  CodeFile* find_file(std::string_view qualifier) const;
  const std::vector<value::ValueRef>& constants() const noexcept { return constants_; }
  // Of constants that were read: what gives the same bytes again
  // (archive::UnpickledValue::memoised), and the keys of their storages.
  struct ConstantsOrigin {
    std::vector<value::ValueRef> memoised;
    std::map<value::StorageKey, std::string> keys;
  };
  const ConstantsOrigin& constants_origin() const noexcept { return constants_origin_; }

  // Changing. INVALID_ARGUMENT for a name that is taken.
  Status add_file(std::string qualifier, std::string text);
  void set_constants(std::vector<value::ValueRef> constants, ConstantsOrigin origin);
  size_t add_constant(value::ValueRef constant);
  Result<Definition*> add_class(std::string qualified_name, ClassBody body);
  // Classes and functions as source.
  Status add_source(std::string_view qualifier, std::string_view source);
  // The body, to change it; the class's text is printed from it from now on.
  Result<ClassBody*> edit(Definition& definition);
  // A copy of a class under a name of its own, for an object that is to differ from the others of
  // its class.
  Result<Definition*> split(const Definition& definition);
  // How many module objects were ever made of a class: with one, it can be changed in place.
  static void count_object(Definition& definition) noexcept { ++definition.objects_; }
  static void discount_object(Definition& definition) noexcept { --definition.objects_; }
  static uint32_t objects(const Definition& definition) noexcept { return definition.objects_; }
  // Whether anything was changed since the code was read.
  bool is_changed() const noexcept { return is_changed_; }

  // Where the archive is mapped that this was read from: its tensors are read by calls that fail if
  // the file is cut short.
  void set_mapped(const std::byte* base, uint64_t nbytes) noexcept {
    mapped_ = base;
    mapped_nbytes_ = nbytes;
  }
  bool is_mapped(const std::byte* data) const noexcept {
    return mapped_ != nullptr && data >= mapped_ && data < mapped_ + mapped_nbytes_;
  }

  // PERMISSION while an export goes on.
  Status check_may_change() const;
  class Export {
   public:
    explicit Export(Ref<CodeSet> code) noexcept : code_(std::move(code)) {
      code_->exports_.fetch_add(1, std::memory_order_acq_rel);
    }
    Export(Export&& other) noexcept = default;
    ~Export() {
      if (code_) code_->exports_.fetch_sub(1, std::memory_order_acq_rel);
    }

   private:
    Ref<CodeSet> code_;
  };

 private:
  CodeSet() = default;
  ~CodeSet() override = default;
  const Definition::Body& body_of(const Definition& definition) const;
  Result<CodeFile*> make_file(std::string_view qualifier);
  Status check_is_free(std::string_view qualified_name) const;
  std::unique_ptr<Definition::Decl> make_decl(const Definition& definition) const;

  std::string label_;
  int version_ = kNewCodeVersion;
  bool is_changed_ = false;
  std::vector<std::unique_ptr<CodeFile>> files_;
  ByName<CodeFile*> by_qualifier_;
  std::vector<value::ValueRef> constants_;
  ConstantsOrigin constants_origin_;
  const std::byte* mapped_ = nullptr;
  uint64_t mapped_nbytes_ = 0;
  mutable std::atomic<int> exports_{0};
};

}  // namespace tenon::module
