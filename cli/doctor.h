// The checks of `tenon doctor`. A check tells one fact of this machine or process, the limits that
// follow from it, in numbers, and the change that would help. It never fails because a file under
// /proc is missing: its value is then "cannot be read".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memory/arena.h"
#include "output.h"

namespace tenon::cli {

// kWarn: the fact limits real use. kFail: a part of Tenon does not work here.
enum class Level { kOk, kNote, kWarn, kFail };

struct Check {
  std::string id;     // a word for scripts, whose meaning never changes
  std::string title;  // at most kTitleColumns characters
  Level level = Level::kOk;
  std::string value{};
  std::string limits{};  // the consequence, in numbers where there are any
  std::string change{};  // the command for a change, if there is something to change
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
// In doctor_surroundings.cc: checks of namespaces, systemd and the manager.
void check_surroundings(const std::string& directory, Checks* out);
void check_cuda(Checks* out);  // doctor_cuda.cc

// Reads a whole small file. Gives nothing if it cannot be read.
std::optional<std::string> read_text(const std::string& path);
// read_number() and parse_count() give the number at the start of a file and of a text.
std::optional<uint64_t> read_number(const std::string& path);
std::optional<uint64_t> parse_count(std::string_view text);
// Gives the number after `key` at the start of a line.
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
