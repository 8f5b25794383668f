// The checks of `tenon doctor`. A check tells one fact of this machine or process, the limits that
// follow from the fact, in numbers, and the change that would help. If a file under /proc is
// missing, the value of its check is "cannot be read", and that alone is no failure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memory/arena.h"
#include "output.h"

namespace tenon::cli {

// kNote: the fact is worth knowing, but seldom limits anything. kWarn: the fact limits real use.
// kFail: a part of Tenon does not work here. The worst level decides the exit code, for which kNote
// counts as kOk.
enum class Level { kOk, kNote, kWarn, kFail };

struct Check {
  std::string id;     // a word for scripts, whose meaning never changes
  std::string title;  // at most kTitleColumns characters
  Level level = Level::kOk;
  std::string value{};
  std::string limits{};         // the consequence, in numbers where there are any
  std::string change{};         // the command for a change, if there is something to change
  Json facts = Json::object();  // the same as numbers, for --json
};
inline constexpr size_t kTitleColumns = 18;
// The checks count room in segments of this size.
inline constexpr uint64_t kDefaultSegmentNbytes = memory::kArenaSegmentNbytes;
inline constexpr const char* kUnreadable = "cannot be read";

using Checks = std::vector<Check>;

// Each of these functions adds its checks to `out`.
void check_process_limits(Checks* out);                           // doctor_process.cc
void check_memory(Checks* out);                                   // doctor_memory.cc
void check_directory(const std::string& directory, Checks* out);  // doctor_directory.cc
void check_kernel(Checks* out);                                   // doctor_kernel.cc
// In doctor_surroundings.cc: checks of namespaces, systemd and the manager.
void check_surroundings(const std::string& directory, Checks* out);
void check_cuda(Checks* out);  // doctor_cuda.cc

// Reads a whole small file. Gives no value if the file cannot be read.
std::optional<std::string> read_text(const std::string& path);
// read_number() gives the number at the start of a file, and parse_count() that at the start of a
// text. They skip blanks, and give no value if there is no number.
std::optional<uint64_t> read_number(const std::string& path);
std::optional<uint64_t> parse_count(std::string_view text);
// Gives the number that follows `key` in the first line that begins with `key`. No value: there is
// no such line, or no number in it.
std::optional<uint64_t> find_number(std::string_view text, std::string_view key);
std::vector<std::string_view> split_text(std::string_view text, char separator);

// Gives a count as text, or `otherwise` if it is unknown.
std::string known_count(const std::optional<uint64_t>& count, const char* otherwise = kUnreadable);

// Gives null for an unknown fact.
template <typename T>
Json maybe(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace tenon::cli
