#include "doctor.h"

#include <fcntl.h>
#include <sys/utsname.h>
#include <tenon/version.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <iterator>

#include "commands.h"
#include "os/fd.h"

namespace tenon::cli {
namespace {

struct LevelWords {
  const char* name;
  const char* one;
  const char* many;
  Colour colour;
};

const LevelWords& words_of(Level level) noexcept {
  static constexpr LevelWords kWords[] = {{"ok", "ok", "ok", Colour::kGreen},
                                          {"note", "note", "notes", Colour::kBlue},
                                          {"warn", "warning", "warnings", Colour::kYellow},
                                          {"fail", "failure", "failures", Colour::kRed}};
  return kWords[static_cast<size_t>(level)];
}

int exit_code_of(Level worst) noexcept {
  switch (worst) {
    case Level::kOk:
    case Level::kNote: return kExitOk;
    case Level::kWarn: return 1;
    case Level::kFail: return 2;
  }
  return 2;
}

size_t count_level(const Checks& checks, Level level) {
  return static_cast<size_t>(std::count_if(
      checks.begin(), checks.end(), [level](const Check& check) { return check.level == level; }));
}

std::string kernel_text() {
  utsname names{};
  if (uname(&names) != 0) return kUnreadable;
  return std::string(names.sysname) + " " + names.release + " " + names.machine;
}

void print_checks(const Checks& checks) {
  constexpr size_t kLevelColumns = 6;
  constexpr size_t kIndent = kLevelColumns + kTitleColumns + 2;
  print_text(paint(Colour::kBold, safe_text("Tenon " + std::string(tenon_version_string()) +
                                            " on " + kernel_text())) +
             "\n");
  for (const Check& check : checks) {
    const LevelWords& words = words_of(check.level);
    const std::string level = words.name;
    print_text(paint(words.colour, level) + std::string(kLevelColumns - level.size(), ' ') +
               check.title + std::string(kTitleColumns + 2 - check.title.size(), ' '));
    print_wrapped(safe_text(check.value), kIndent);
    if (!check.limits.empty()) {
      print_text(std::string(kIndent, ' '));
      print_wrapped(safe_text(check.limits), kIndent);
    }
    // The command is not wrapped, so that it can be copied.
    if (!check.change.empty())
      print_text(std::string(kIndent, ' ') +
                 paint(Colour::kBold, "change: " + safe_text(check.change)) + "\n");
  }
  std::string total = plural_text(checks.size(), "check", "checks") + ":";
  for (const Level level : {Level::kOk, Level::kNote, Level::kWarn, Level::kFail}) {
    const size_t count = count_level(checks, level);
    total += (level == Level::kOk ? " " : ", ") +
             plural_text(count, words_of(level).one, words_of(level).many);
  }
  print_text(total + "\n");
}

void print_checks_json(const Checks& checks, Level worst) {
  Json list = Json::array();
  for (const Check& check : checks) {
    list.push_back({{"id", check.id},
                    {"title", check.title},
                    {"level", words_of(check.level).name},
                    {"value", check.value},
                    {"limits", check.limits},
                    {"change", check.change},
                    {"facts", check.facts}});
  }
  print_json({{"version", tenon_version_string()},
              {"kernel", kernel_text()},
              {"uid", geteuid()},
              {"level", words_of(worst).name},
              {"checks", std::move(list)}});
}

}  // namespace

int run_doctor(const DoctorOptions& options) {
  // A write beyond RLIMIT_FSIZE must fail and not kill this process.
  std::signal(SIGXFSZ, SIG_IGN);
  Checks checks;
  check_process_limits(&checks);
  check_memory(&checks);
  check_directory(options.directory, &checks);
  check_kernel(&checks);
  check_surroundings(options.directory, &checks);
  check_cuda(&checks);
  Level worst = Level::kOk;
  for (const Check& check : checks) worst = std::max(worst, check.level);
  if (options.json) {
    print_checks_json(checks, worst);
  } else {
    print_checks(checks);
  }
  return exit_code_of(worst);
}

std::optional<std::string> read_text(const std::string& path) {
  const os::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) return std::nullopt;
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t got = read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
  }
}

std::optional<uint64_t> parse_count(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

std::optional<uint64_t> read_number(const std::string& path) {
  const auto text = read_text(path);
  return text ? parse_count(*text) : std::nullopt;
}

std::vector<std::string_view> split_text(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t at = 0;
  for (;;) {
    const size_t end = text.find(separator, at);
    parts.push_back(text.substr(at, end - at));
    if (end == std::string_view::npos) return parts;
    at = end + 1;
  }
}

std::optional<uint64_t> find_number(std::string_view text, std::string_view key) {
  for (const std::string_view line : split_text(text, '\n')) {
    if (line.starts_with(key)) return parse_count(line.substr(key.size()));
  }
  return std::nullopt;
}

std::string known_count(const std::optional<uint64_t>& count, const char* otherwise) {
  return count.has_value() ? count_text(count.value_or(0)) : otherwise;
}

}  // namespace tenon::cli
