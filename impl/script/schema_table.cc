#include "script/schema_table.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/immortal.h"
#include "base/once.h"
#include "script/nearest.h"
#include "script/schema_table_data.h"

namespace tenon::script {
namespace {

std::string inflate() {
  struct Free {
    void operator()(libdeflate_decompressor* decompressor) const noexcept { libdeflate_free_decompressor(decompressor); }
  };
  const std::unique_ptr<libdeflate_decompressor, Free> decompressor(libdeflate_alloc_decompressor());
  if (!decompressor) throw std::bad_alloc();
  std::string text(kSchemaTableNbytes, '\0');
  const libdeflate_result result = libdeflate_deflate_decompress(decompressor.get(), kSchemaTableDeflated, kSchemaTableDeflatedNbytes,
                                                                 text.data(), text.size(), nullptr);
  if (result != LIBDEFLATE_SUCCESS) std::abort();  // the data is ours. An assert would put this machine's paths into the library
  return text;
}

// Up to `end`, which is taken too.
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
  return immortal<TheTable>().once.get([] { return std::unique_ptr<const SchemaTable>(new SchemaTable()); });
}

SchemaTable::SchemaTable() : text_(inflate()) {
  std::string_view rest = text_;
  std::string_view versions = take(&rest, '\n');
  take(&versions, ' ');
  while (!versions.empty()) versions_.push_back(take(&versions, ' '));
  while (!rest.empty()) {
    Entry entry{take(&rest, '\n'), {}};
    const char* const begin = rest.data();
    while (rest.starts_with(' ')) take(&rest, '\n');
    entry.lines = std::string_view(begin, static_cast<size_t>(rest.data() - begin));
    entries_.push_back(entry);
  }
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  for (const Entry& entry : entries_) {
    if (!entry.name.starts_with('.')) continue;
    Overloads methods(entry.lines);
    for (Overload method; methods.next(&method);) class_methods_.push_back(method.name);
  }
  std::sort(class_methods_.begin(), class_methods_.end());
}

const SchemaTable::Entry* SchemaTable::lookup(std::string_view name) const noexcept {
  const auto found =
      std::lower_bound(entries_.begin(), entries_.end(), name, [](const Entry& entry, std::string_view key) { return entry.name < key; });
  return found != entries_.end() && found->name == name ? &*found : nullptr;
}

Overloads SchemaTable::find(std::string_view qualified_name) const noexcept {
  const Entry* const entry = lookup(qualified_name);
  return entry != nullptr && !qualified_name.starts_with('.') ? Overloads(entry->lines) : Overloads();
}

bool SchemaTable::knows_namespace(std::string_view name_space) const noexcept {
  const auto found = std::lower_bound(entries_.begin(), entries_.end(), name_space,
                                      [](const Entry& entry, std::string_view key) { return entry.name < key; });
  return found != entries_.end() && found->name.starts_with(name_space) && found->name.substr(name_space.size()).starts_with("::");
}

Overloads SchemaTable::find_class(std::string_view qualified_name) const noexcept {
  if (!qualified_name.starts_with(kCustomClasses)) return {};
  // The dot before the class's own name is in the table.
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
