#include "archive_print.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace tenon::cli {
namespace {

uint64_t line_count(const std::string& text) {
  return static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

void print_title(const char* text) { print_text("\n" + paint(Colour::kBold, text) + "\n"); }

void print_records(const archive::ZipReader& container, const char* title) {
  print_title(title);
  Table table({{"OFFSET", true}, {"BYTES", true}, {"IN FILE", true}, {"CRC-32"}, {"NAME"}});
  for (const archive::ZipRecord& record : container.records()) {
    table.add({{std::to_string(record.data_offset)},
               {std::to_string(record.nbytes)},
               {record.deflated ? std::to_string(record.stored_nbytes) : "stored"},
               {record.has_crc() ? format("%08x", record.crc) : "none"},
               {safe_text(record.name)}});
  }
  table.print();
}

Json records_json(const archive::ZipReader& container) {
  Json records = Json::array();
  for (const archive::ZipRecord& record : container.records()) {
    records.push_back(
        {{"name", std::string(record.name)},
         {"offset", record.data_offset},
         {"nbytes", record.nbytes},
         {"nbytes_in_file", record.deflated ? record.stored_nbytes : record.nbytes},
         {"deflated", record.deflated},
         {"crc32", record.has_crc() ? Json(format("%08x", record.crc)) : Json(nullptr)}});
  }
  return records;
}

std::string numbers_text(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

std::string storages_text(const std::vector<StorageFact>& storages, const char* sharers) {
  uint64_t nbytes = 0;
  uint64_t shared = 0;
  for (const StorageFact& storage : storages) {
    nbytes += storage.nbytes;
    shared += storage.tensors > 1 ? 1 : 0;
  }
  return plural_text(storages.size(), "storage", "storages") + ", " + size_text(nbytes) + ", " +
         count_text(shared) + " of them shared by several " + sharers;
}

Json storages_json(const std::vector<StorageFact>& storages) {
  Json list = Json::array();
  for (const StorageFact& storage : storages)
    list.push_back({{"dtype", storage.dtype},
                    {"numel", storage.numel},
                    {"nbytes", storage.nbytes},
                    {"tensors", storage.tensors}});
  return list;
}

void print_code(const std::vector<CodeFact>& code, bool with_text) {
  if (code.empty()) return;
  print_title("code");
  for (const CodeFact& file : code) {
    print_text(safe_text(file.name) + ": " + plural_text(line_count(file.text), "line", "lines") +
               "\n");
    if (!with_text) continue;
    // The text is printed line by line, because its line breaks are harmless and must not be
    // escaped.
    for (size_t at = 0; at < file.text.size();) {
      const size_t end = std::min(file.text.find('\n', at), file.text.size());
      print_text("    " + safe_text(std::string_view(file.text).substr(at, end - at)) + "\n");
      at = end + 1;
    }
  }
}

Json code_json(const std::vector<CodeFact>& code) {
  Json files = Json::array();
  for (const CodeFact& file : code) files.push_back({{"name", file.name}, {"text", file.text}});
  return files;
}

void print_warnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) {
    print_text(paint(Colour::kYellow, "warning: "));
    print_wrapped(safe_text(warning), 9);
  }
}

std::string runs_with_text(const std::string& oldest_pytorch) {
  return oldest_pytorch.empty() ? "which PyTorch it needs is not known"
                                : "runs with PyTorch " + oldest_pytorch + " or newer";
}

Json text_json(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json error_json(const Status& status) {
  return status.is_ok() ? Json(nullptr) : status_json(status);
}

}  // namespace tenon::cli
