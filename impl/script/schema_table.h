// The operators that PyTorch has: which overloads, with which arguments, in which of its versions.
// tools/make_schema_table.py makes the table from PyTorch itself. The library has it deflated, and
// inflates it when somebody first asks.
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
#include "script/arguments.h"
#include "script/schema.h"

namespace tenon::script {

// The versions of the table, as indices: 0 is the oldest that it knows.
struct VersionSpan {
  uint8_t first = 0;
  uint8_t last = 0;
};

// The two versions whose schemas have types.
enum class Torch : uint8_t { kOldest /* 1.13 */, kNewest };
inline constexpr size_t kTorchCount = 2;

struct Overload {
  std::string_view name;  // "-" where it has none
  VersionSpan versions;
  // For Formals::parse(); with types and results, if 1.13 or the newest PyTorch has the overload.
  std::string_view arguments;
};

// The overloads of one operator, or the methods of one custom class: lines of the table's text.
class Overloads {
 public:
  Overloads() noexcept = default;
  explicit Overloads(std::string_view lines) noexcept : lines_(lines) {}
  bool empty() const noexcept { return lines_.empty(); }
  // False at the end.
  bool next(Overload* out) noexcept;

 private:
  std::string_view lines_;
};

class SchemaTable {
 public:
  // Safe from any thread.
  static const SchemaTable& get();

  // "1.4", ..., the oldest first.
  const std::vector<std::string_view>& versions() const noexcept { return versions_; }

  // The place of "1.9" in versions(). Nothing: the table does not know it.
  std::optional<uint8_t> find_version(std::string_view version) const noexcept;

  // The place of one of the two in versions().
  uint8_t version_of(Torch torch) const noexcept { return columns_[static_cast<size_t>(torch)]; }

  VersionSpan all_versions() const noexcept {
    return {0, static_cast<uint8_t>(versions_.size() - 1)};
  }

  // Of "aten::relu". Empty: there is none.
  Overloads find(std::string_view qualified_name) const noexcept;
  // The overloads of "aten::relu" in the order in which that PyTorch tries them. Empty: it has
  // none. They are parsed at the first call and live as long as the process. Safe from any thread.
  std::span<const Schema* const> schemas(std::string_view qualified_name, Torch torch) const;
  // Likewise for any version of versions() whose schemas have types, from 1.8 to 1.10 among others.
  // They stand in the newest PyTorch's order. A schema of an older version says what a call has to
  // give. How a type is spelled there can be a later version's.
  std::vector<const Schema*> schemas_in(std::string_view qualified_name, uint8_t version) const;
  // Some operator of "aten" is in the table; if none is, the table does not know which the
  // namespace has.
  bool knows_namespace(std::string_view name_space) const noexcept;

  // The names of all operators, "aten::relu", in order.
  std::vector<std::string_view> operators() const;

  // The methods of "__torch__.torch.classes.quantized.LinearPackedParamsBase". Empty: there is no
  // such class.
  Overloads find_class(std::string_view qualified_name) const noexcept;
  // Some custom class has a method of that name.
  bool any_class_has(std::string_view method) const noexcept;

  // The name in the same namespace, without that, which is spelled most like it; empty: none is.
  std::string_view nearest(std::string_view qualified_name) const;

 private:
  SchemaTable();
  struct Entry {
    std::string_view name;
    std::string_view order;  // "2,0,1": the lines that 1.13 has, in its order; empty: as they stand
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
  std::array<uint8_t, kTorchCount> columns_{};  // of each Torch, in versions_
  std::unique_ptr<Once<Parsed>[]> parsed_;      // by the index of entries_
};

inline constexpr std::string_view kCustomClasses = "__torch__.torch.classes.";

}  // namespace tenon::script
