// The operators that PyTorch has: which overloads, with which arguments, in which of its versions. Made from PyTorch itself by
// tools/make_schema_table.py and built in, deflated; inflated when it is first asked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "script/arguments.h"

namespace tenon::script {

// The versions of the table, as indices: 0 is the oldest that it knows.
struct VersionSpan {
  uint8_t first = 0;
  uint8_t last = 0;
};

struct Overload {
  std::string_view name;  // "-" where it has none
  VersionSpan versions;
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

  VersionSpan all_versions() const noexcept { return {0, static_cast<uint8_t>(versions_.size() - 1)}; }

  // Of "aten::relu". Empty: there is none.
  Overloads find(std::string_view qualified_name) const noexcept;
  // Some operator of "aten" is in the table; if none is, the table does not know which the namespace has.
  bool knows_namespace(std::string_view name_space) const noexcept;

  // The methods of "__torch__.torch.classes.quantized.LinearPackedParamsBase". Empty: there is no such class.
  Overloads find_class(std::string_view qualified_name) const noexcept;
  // Some custom class has a method of that name.
  bool any_class_has(std::string_view method) const noexcept;

  // The name in the same namespace, without that, which is spelled most like it; empty: none is.
  std::string_view nearest(std::string_view qualified_name) const;

 private:
  SchemaTable();
  struct Entry {
    std::string_view name;
    std::string_view lines;
  };
  const Entry* lookup(std::string_view name) const noexcept;

  std::string text_;
  std::vector<std::string_view> versions_;
  std::vector<Entry> entries_;  // by name
  std::vector<std::string_view> class_methods_;
};

inline constexpr std::string_view kCustomClasses = "__torch__.torch.classes.";

}  // namespace tenon::script
