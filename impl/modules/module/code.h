// CodeSet holds all classes and functions of a module, by qualified name, and the constants that
// they use. Its content is what an archive has under code/, or what was built by calls. The text of
// a class stays the same, byte for byte, until the class is changed.
//
// A file is parsed when a caller first looks for something in it, which several threads may do at a
// time (base/once.h). The lock of modules/value/tree_lock.h guards the set: the caller of a const
// function holds ReadTrees, and the caller of any other ChangeTrees. A change is refused while the
// code is being exported.
//
// A Definition and a CodeFile live as long as their set. A body, and what find() gives, live until
// edit() is called for that class.
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
#include "modules/module/class_body.h"
#include "modules/module/code_file.h"
#include "modules/module/name_map.h"
#include "modules/script/parser.h"
#include "modules/value/check.h"
#include "modules/value/value.h"

namespace tenon::module {

// The version of the operators to which new code refers, and the range of versions that PyTorch
// reads (docs/format/archive.md).
inline constexpr int kNewCodeVersion = 10;
inline constexpr int kOldestVersion = 1;
inline constexpr int kNewestVersion = 10;
inline constexpr size_t kMaxNameNbytes = 4096;

// "__torch__.a.B" is B in the code file of "__torch__.a", which is the record
// "code/__torch__/a.py".
std::string_view qualifier_of(std::string_view qualified_name) noexcept;
std::string_view base_name_of(std::string_view qualified_name) noexcept;
// Gives "__torch__.MLP" for both "MLP" and "__torch__.MLP". INVALID_ARGUMENT for a text that is not
// a qualified name.
Result<std::string> full_class_name(std::string_view name);
// Whether the name is that of a custom C++ class, whose code is in PyTorch and in no archive.
bool is_custom_class(std::string_view qualified_name) noexcept;
// Makes a name for another class of the same name, as PyTorch does:
// "__torch__.a.___torch_mangle_0.B". It tries numbers from *next on, and sets *next to the number
// after the one in the name.
std::string mangled_name(std::string_view qualified_name, uint64_t* next,
                         const std::function<bool(const std::string&)>& is_taken);

class CodeSet final : public Counted, public value::ClassTable {
 public:
  // `label` is what errors call the code: "module __torch__.MLP", "archive model.pt". `version` is
  // the version of the files that are added.
  static Ref<CodeSet> create(std::string label, int version);

  const std::string& label() const noexcept { return label_; }
  int version() const noexcept { return version_; }

  // The functions from here on only read. find_definition() gives null if there is no such name.
  // CORRUPT, with line and caret, if the name would be in a file that cannot be parsed.
  Result<Definition*> find_definition(std::string_view qualified_name) const;
  // Finds the longest beginning of a dotted name that is a definition: "__torch__.E" for
  // "__torch__.E.RED".
  Result<Definition*> find_owner(std::string_view dotted_name) const;
  Result<const ClassBody*> body(const Definition& definition) const;
  // Finds a class and its body. NOT_FOUND if there is no such name.
  struct FoundClass {
    Definition* definition = nullptr;
    const ClassBody* body = nullptr;
  };
  Result<FoundClass> find_class(std::string_view qualified_name) const;
  // Whether the name is that of a module's class.
  bool is_module_class(std::string_view qualified_name) const;
  // The parsed file that holds the definition's text, and the item of the definition in this file.
  struct Text {
    std::shared_ptr<const script::File> file;
    const script::Item* item = nullptr;
    const script::Source& source() const noexcept { return file->source(); }
    std::string_view text() const noexcept { return source().text(item->extent); }
  };
  Result<Text> text(const Definition& definition) const;

  // The two functions through which value::check_value() asks about classes. They treat a class
  // that cannot be parsed as if it did not exist. find_definition() tells the reason.
  const value::ClassDecl* find(std::string_view class_name) const override;
  bool implements(std::string_view class_name, std::string_view declared) const override;
  // Whether a class has every method that an interface declares. The two may be from different
  // code.
  static bool implements_body(const ClassBody& implementation, const ClassBody& interface);
  // Whether an attribute of this type is a submodule: the type is a module's class or a module
  // interface.
  bool is_submodule_type(const value::Type& type) const;
  // Checks that every class that the type mentions is in this code, or is a custom C++ class.
  // Otherwise INVALID_ARGUMENT.
  Status check_type(const value::Type& type) const;

  // In the order in which they were added.
  std::span<const std::unique_ptr<CodeFile>> files() const noexcept { return files_; }
  CodeFile* find_file(std::string_view qualifier) const;
  const std::vector<value::ValueRef>& constants() const noexcept { return constants_; }
  // The data with which an export writes constants that were read as the same bytes again: the
  // values that the pickle memoised (archive::UnpickledValue::memoised), and the keys of the
  // storages.
  struct ConstantsOrigin {
    std::vector<value::ValueRef> memoised;
    std::map<value::StorageKey, std::string> keys;
  };
  const ConstantsOrigin& constants_origin() const noexcept { return constants_origin_; }

  // The functions from here on change the set. INVALID_ARGUMENT for a name that is taken, and
  // PERMISSION while an Export exists. A function that fails changes nothing. add_file(),
  // set_constants() and add_constant() do not look for an Export: their caller does.
  Status add_file(std::string qualifier, std::string text);
  void set_constants(std::vector<value::ValueRef> constants, ConstantsOrigin origin);
  size_t add_constant(value::ValueRef constant);
  Result<Definition*> add_class(std::string qualified_name, ClassBody body);
  // Adds the classes and functions of a source text.
  Status add_source(std::string_view qualifier, std::string_view source);
  // Gives the body for a change. From now on the class's text is printed from the body, when a
  // caller first asks for it. So make all changes before that, or call edit() again.
  Result<ClassBody*> edit(Definition& definition);
  // Copies a class under a new name, for an object that is to differ from the other objects of its
  // class.
  Result<Definition*> split(const Definition& definition);
  // The number of module objects that were made of a class, less those that got a class of their
  // own since. A class with one object can be changed in place. The number never falls when an
  // object is freed.
  static void count_object(Definition& definition) noexcept { ++definition.objects_; }
  static void discount_object(Definition& definition) noexcept { --definition.objects_; }
  static uint32_t objects(const Definition& definition) noexcept { return definition.objects_; }
  // Whether anything was changed since the code was read.
  bool is_changed() const noexcept { return is_changed_; }

  // Sets where the archive is mapped from which this code was read. An export reads tensors in this
  // range by system calls, which fail if the file is cut short. A load would raise SIGBUS. The
  // range is only compared with addresses, so the mapping may end before the set.
  void set_mapped(const std::byte* base, uint64_t nbytes) noexcept {
    mapped_ = base;
    mapped_nbytes_ = nbytes;
  }
  bool is_mapped(const std::byte* data) const noexcept {
    return mapped_ != nullptr && data >= mapped_ && data < mapped_ + mapped_nbytes_;
  }

  // PERMISSION while an Export of this code exists.
  Status check_may_change() const;
  // Refuses changes while it lives. A child that is forked meanwhile inherits the count, and no
  // other thread of the child takes it back, so changes stay refused there.
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
