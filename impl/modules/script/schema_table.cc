#include "modules/script/schema_table.h"

#include <libdeflate.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/immortal.h"
#include "base/once.h"
#include "modules/script/nearest.h"
#include "modules/script/schema_parse.h"
#include "modules/script/schema_table_data.h"

namespace tenon::script {
namespace {

std::string inflate() {
  struct Free {
    void operator()(libdeflate_decompressor* decompressor) const noexcept {
      libdeflate_free_decompressor(decompressor);
    }
  };
  const std::unique_ptr<libdeflate_decompressor, Free> decompressor(
      libdeflate_alloc_decompressor());
  if (!decompressor) throw std::bad_alloc();
  std::string text(kSchemaTableNbytes, '\0');
  const libdeflate_result result =
      libdeflate_deflate_decompress(decompressor.get(), kSchemaTableDeflated,
                                    kSchemaTableDeflatedNbytes, text.data(), text.size(), nullptr);
  // The data is part of the library, so this cannot fail. abort() stands here because an assert
  // would put the paths of the build machine into the library.
  if (result != LIBDEFLATE_SUCCESS) std::abort();
  return text;
}

// Takes the text up to `end` off `*text` and returns it. `end` itself is taken off too.
std::string_view take(std::string_view* text, char end) noexcept {
  const size_t size = std::min(text->find(end), text->size());
  const std::string_view word = text->substr(0, size);
  text->remove_prefix(std::min(size + 1, text->size()));
  return word;
}

struct TheTable {
  Once<const SchemaTable> once;
};

}  // namespace

bool Overloads::next(Overload* out) noexcept {
  if (lines_.empty()) return false;
  std::string_view line = take(&lines_, '\n');
  line.remove_prefix(1);
  out->name = take(&line, ' ');
  out->versions.first = static_cast<uint8_t>(take(&line, ' ').front() - 'a');
  out->versions.last = static_cast<uint8_t>(take(&line, ' ').front() - 'a');
  out->arguments = line;
  return true;
}

const SchemaTable& SchemaTable::get() {
  return immortal<TheTable>().once.get(
      [] { return std::unique_ptr<const SchemaTable>(new SchemaTable()); });
}

SchemaTable::SchemaTable() : text_(inflate()) {
  std::string_view rest = text_;
  std::string_view versions = take(&rest, '\n');
  take(&versions, ' ');
  while (!versions.empty()) versions_.push_back(take(&versions, ' '));
  while (!rest.empty()) {
    std::string_view head = take(&rest, '\n');
    Entry entry{take(&head, ' '), head, {}};
    const char* const begin = rest.data();
    while (rest.starts_with(' ')) take(&rest, '\n');
    entry.lines = std::string_view(begin, static_cast<size_t>(rest.data() - begin));
    entries_.push_back(entry);
  }
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  for (const Entry& entry : entries_) {
    if (!entry.name.starts_with('.')) continue;
    Overloads methods(entry.lines);
    for (Overload method; methods.next(&method);) class_methods_.push_back(method.name);
  }
  std::sort(class_methods_.begin(), class_methods_.end());
  columns_ = {find_version("1.13").value_or(0), all_versions().last};
  parsed_ = std::make_unique<Once<Parsed>[]>(entries_.size());
}

std::optional<uint8_t> SchemaTable::find_version(std::string_view version) const noexcept {
  const auto found = std::find(versions_.begin(), versions_.end(), version);
  if (found == versions_.end()) return {};
  return static_cast<uint8_t>(found - versions_.begin());
}

const SchemaTable::Entry* SchemaTable::lookup(std::string_view name) const noexcept {
  const auto found =
      std::lower_bound(entries_.begin(), entries_.end(), name,
                       [](const Entry& entry, std::string_view key) { return entry.name < key; });
  return found != entries_.end() && found->name == name ? &*found : nullptr;
}

Overloads SchemaTable::find(std::string_view qualified_name) const noexcept {
  const Entry* const entry = lookup(qualified_name);
  return entry != nullptr && !qualified_name.starts_with('.') ? Overloads(entry->lines)
                                                              : Overloads();
}

std::span<const Schema* const> SchemaTable::schemas(std::string_view qualified_name,
                                                    Torch torch) const {
  const Parsed* const found = parsed(qualified_name);
  return found != nullptr ? std::span<const Schema* const>(found->of[static_cast<size_t>(torch)])
                          : std::span<const Schema* const>();
}

std::vector<const Schema*> SchemaTable::schemas_in(std::string_view qualified_name,
                                                   uint8_t version) const {
  std::vector<const Schema*> schemas;
  const Parsed* const found = parsed(qualified_name);
  if (found == nullptr) return schemas;
  for (const Parsed::Line& line : found->typed) {
    if (line.versions.first <= version && version <= line.versions.last)
      schemas.push_back(line.schema.get());
  }
  return schemas;
}

const SchemaTable::Parsed* SchemaTable::parsed(std::string_view qualified_name) const {
  const Entry* const entry = lookup(qualified_name);
  if (entry == nullptr || qualified_name.starts_with('.')) return nullptr;
  return &parsed_[static_cast<size_t>(entry - entries_.data())].get([&] { return parse(*entry); });
}

std::unique_ptr<SchemaTable::Parsed> SchemaTable::parse(const Entry& entry) const {
  auto parsed = std::make_unique<Parsed>();
  std::vector<const Schema*> by_line;  // null: the line has no types
  Overloads overloads(entry.lines);
  for (Overload overload; overloads.next(&overload);) {
    auto schema = std::make_unique<Schema>();
    if (!parse_schema(entry.name, overload.name, overload.arguments, schema.get())) {
      by_line.push_back(nullptr);
      continue;
    }
    by_line.push_back(schema.get());
    for (size_t torch = 0; torch < kTorchCount; ++torch) {
      if (overload.versions.first <= columns_[torch] && columns_[torch] <= overload.versions.last)
        parsed->of[torch].push_back(schema.get());
    }
    parsed->typed.push_back({overload.versions, std::move(schema)});
  }
  if (!entry.order.empty()) {
    std::vector<const Schema*>& oldest = parsed->of[static_cast<size_t>(Torch::kOldest)];
    oldest.clear();
    for (std::string_view rest = entry.order; !rest.empty();) {
      const std::string_view number = take(&rest, ',');
      size_t line = by_line.size();
      std::from_chars(number.data(), number.data() + number.size(), line);
      if (line < by_line.size() && by_line[line] != nullptr) oldest.push_back(by_line[line]);
    }
  }
  return parsed;
}

std::vector<std::string_view> SchemaTable::operators() const {
  std::vector<std::string_view> names;
  for (const Entry& entry : entries_) {
    if (!entry.name.starts_with('.')) names.push_back(entry.name);
  }
  return names;
}

bool SchemaTable::knows_namespace(std::string_view name_space) const noexcept {
  const auto found =
      std::lower_bound(entries_.begin(), entries_.end(), name_space,
                       [](const Entry& entry, std::string_view key) { return entry.name < key; });
  return found != entries_.end() && found->name.starts_with(name_space) &&
         found->name.substr(name_space.size()).starts_with("::");
}

Overloads SchemaTable::find_class(std::string_view qualified_name) const noexcept {
  if (!qualified_name.starts_with(kCustomClasses)) return {};
  // The table's name of a custom class begins with the dot before it.
  const Entry* const entry = lookup(qualified_name.substr(kCustomClasses.size() - 1));
  return entry != nullptr ? Overloads(entry->lines) : Overloads();
}

bool SchemaTable::any_class_has(std::string_view method) const noexcept {
  return std::binary_search(class_methods_.begin(), class_methods_.end(), method);
}

std::string_view SchemaTable::nearest(std::string_view qualified_name) const {
  const size_t colon = qualified_name.find("::");
  if (colon == std::string_view::npos) return {};
  const std::string_view prefix = qualified_name.substr(0, colon + 2);
  Nearest nearest(qualified_name.substr(prefix.size()));
  for (const Entry& entry : entries_) {
    if (entry.name.starts_with(prefix)) nearest.consider(entry.name.substr(prefix.size()));
  }
  return nearest.best();
}

}  // namespace tenon::script
