// SchemaTable: the overloads and arguments of PyTorch's operators in its versions. The checker and
// the compiler look operators up here. tools/make_schema_table.py makes the table from PyTorch
// itself. The library contains the deflated text, and inflates it at the first use. There is no
// lock (base/once.h), so a forked child may use it too.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/once.h"
#include "modules/script/arguments.h"
#include "modules/script/schema.h"

namespace tenon::script {

// A range of PyTorch versions, as indices into SchemaTable::versions(). 0 is the oldest version
// that the table knows. `last` is in the range.
struct VersionSpan {
  uint8_t first = 0;
  uint8_t last = 0;
};

// The two versions for which the checker and the compiler have all schemas with types, in the order
// in which PyTorch tries them. (SchemaTable::schemas_in() serves some older versions.)
enum class Torch : uint8_t { kOldest /* 1.13 */, kNewest };
inline constexpr size_t kTorchCount = 2;

struct Overload {
  std::string_view name;  // "-" where it has none
  VersionSpan versions;
  // A text for Formals::parse(). It has types and results if a version with types has the overload
  // (see schemas_in()).
  std::string_view arguments;
};

// The overloads of one operator, or the methods of one custom class: lines of the table's text.
class Overloads {
 public:
  Overloads() noexcept = default;
  explicit Overloads(std::string_view lines) noexcept : lines_(lines) {}
  bool empty() const noexcept { return lines_.empty(); }
  // Takes the next overload. False at the end.
  bool next(Overload* out) noexcept;

 private:
  std::string_view lines_;
};

class SchemaTable {
 public:
  // Safe from any thread, as all functions of the class are. Throws std::bad_alloc. The table lives
  // as long as the process, and so do all texts and schemas that its functions return.
  static const SchemaTable& get();

  // "1.4", ..., the oldest first.
  const std::vector<std::string_view>& versions() const noexcept { return versions_; }

  // The index of a version such as "1.9" in versions(). Nothing: the table does not know it.
  std::optional<uint8_t> find_version(std::string_view version) const noexcept;

  // The index of `torch` in versions().
  uint8_t version_of(Torch torch) const noexcept { return columns_[static_cast<size_t>(torch)]; }

  VersionSpan all_versions() const noexcept {
    return {0, static_cast<uint8_t>(versions_.size() - 1)};
  }

  // The overloads of an operator such as "aten::relu". Empty: there is no such operator.
  Overloads find(std::string_view qualified_name) const noexcept;
  // The schemas of an operator such as "aten::relu", in the order in which `torch` tries them.
  // Empty: it has none. They are parsed at the first call and live as long as the process. Safe
  // from any thread.
  std::span<const Schema* const> schemas(std::string_view qualified_name, Torch torch) const;
  // The schemas of an operator in one version of PyTorch. The table has types for 1.8 to 1.10, for
  // 1.13 and for the newest. For other versions, overloads that none of these has are left out. The
  // schemas are in the newest PyTorch's order. A schema of an older version says which arguments a
  // call must give, but it can have a type in the spelling of a later version.
  std::vector<const Schema*> schemas_in(std::string_view qualified_name, uint8_t version) const;
  // Whether the table has an operator of a namespace such as "aten". If it has none, it does not
  // know which operators the namespace has.
  bool knows_namespace(std::string_view name_space) const noexcept;

  // The names of all operators, such as "aten::relu", in alphabetical order.
  std::vector<std::string_view> operators() const;

  // The methods of a custom class such as
  // "__torch__.torch.classes.quantized.LinearPackedParamsBase". Empty: there is no such class.
  Overloads find_class(std::string_view qualified_name) const noexcept;
  // Whether some custom class has a method of that name.
  bool any_class_has(std::string_view method) const noexcept;

  // The name of the operator in the same namespace that is spelled most like this one, without the
  // namespace. Empty: none is near enough.
  std::string_view nearest(std::string_view qualified_name) const;

 private:
  SchemaTable();
  struct Entry {
    std::string_view name;
    // "2,0,1": the lines that 1.13 has, in its order. Empty: it has them in the order of `lines`.
    std::string_view order;
    std::string_view lines;
  };
  struct Parsed {
    struct Line {
      VersionSpan versions;
      std::unique_ptr<const Schema> schema;
    };
    std::vector<Line> typed;
    std::array<std::vector<const Schema*>, kTorchCount> of;
  };
  const Entry* lookup(std::string_view name) const noexcept;
  std::unique_ptr<Parsed> parse(const Entry& entry) const;
  const Parsed* parsed(std::string_view qualified_name) const;  // null: there is no such operator

  std::string text_;
  std::vector<std::string_view> versions_;
  std::vector<Entry> entries_;  // by name
  std::vector<std::string_view> class_methods_;
  std::array<uint8_t, kTorchCount> columns_{};  // the index of each Torch in versions_
  std::unique_ptr<Once<Parsed>[]> parsed_;      // by the index of entries_
};

inline constexpr std::string_view kCustomClasses = "__torch__.torch.classes.";

}  // namespace tenon::script
