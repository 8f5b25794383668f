// What `tenon doctor` looks at. A check says one fact of this machine or process, what it limits in
// numbers, and what to change. It never fails for want of a file under /proc: then its value is
// "cannot be read".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memory/arena.h"
#include "output.h"

namespace tenon::cli {

// kWarn: limits real use; kFail: something of Tenon does not work here.
enum class Level { kOk, kNote, kWarn, kFail };

struct Check {
  std::string id;     // a word for scripts; never changes its meaning
  std::string title;  // at most kTitleColumns
  Level level = Level::kOk;
  std::string value{};
  std::string limits{};  // what that means, in numbers where it has any
  std::string change{};  // the command, where there is something to change
  Json facts = Json::object();
};
inline constexpr size_t kTitleColumns = 18;
inline constexpr uint64_t kDefaultSegmentNbytes = memory::kArenaSegmentNbytes;
inline constexpr const char* kUnreadable = "cannot be read";

using Checks = std::vector<Check>;

void check_process_limits(Checks* out);                           // doctor_process.cc
void check_memory(Checks* out);                                   // doctor_memory.cc
void check_directory(const std::string& directory, Checks* out);  // doctor_directory.cc
void check_kernel(Checks* out);                                   // doctor_kernel.cc
// doctor_surroundings.cc: namespaces, systemd, the manager.
void check_surroundings(const std::string& directory, Checks* out);
void check_cuda(Checks* out);  // doctor_cuda.cc

// A whole small file; nothing if it cannot be read.
std::optional<std::string> read_text(const std::string& path);
// The number at the start of a file or text.
std::optional<uint64_t> read_number(const std::string& path);
std::optional<uint64_t> parse_count(std::string_view text);
// The number behind `key` at the start of a line.
std::optional<uint64_t> find_number(std::string_view text, std::string_view key);
std::vector<std::string_view> split_text(std::string_view text, char separator);

// A count as text, or `otherwise`.
std::string known_count(const std::optional<uint64_t>& count, const char* otherwise = kUnreadable);

// A fact that may be missing: null then.
template <typename T>
Json maybe(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace tenon::cli
