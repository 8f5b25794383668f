#include "modules/module/device_map.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace tenon::module {
namespace {

bool is_digits(std::string_view text) noexcept {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Whether the text has the form "mps" or "cuda:1".
bool is_device(std::string_view text) noexcept {
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const bool is_kind = !kind.empty() && std::all_of(kind.begin(), kind.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || c == '_';
  });
  return is_kind && (colon == std::string_view::npos || is_digits(text.substr(colon + 1)));
}

std::optional<DeviceMap::Target> parse_target(std::string_view text) noexcept {
  constexpr std::string_view kCuda = "cuda:";
  if (text == "cpu") return DeviceMap::Target{};
  if (!text.starts_with(kCuda) || !is_digits(text.substr(kCuda.size()))) return std::nullopt;
  DeviceMap::Target target;
  const auto [end, error] =
      std::from_chars(text.data() + kCuda.size(), text.data() + text.size(), target.ordinal);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return target;
}

Status refuse_pair(std::string_view pair, const char* what) {
  constexpr size_t kShown = 64;
  return Status(Code::kInvalidArgument,
                format("the device map has \"%s\", %s: write pairs like cuda:1=cuda:0,mps=cpu",
                       std::string(pair.substr(0, kShown)).c_str(), what))
      .with("field", std::string("device_map"));
}

}  // namespace

Result<DeviceMap> DeviceMap::parse(std::string_view text) {
  DeviceMap map;
  for (bool is_over = text.empty(); !is_over;) {
    const size_t comma = text.find(',');
    const std::string_view pair = text.substr(0, comma);
    is_over = comma == std::string_view::npos;
    if (!is_over) text.remove_prefix(comma + 1);
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos) return refuse_pair(pair, "which has no =");
    const std::string_view device = pair.substr(0, equals);
    if (!is_device(device)) return refuse_pair(pair, "which begins with no device");
    const std::optional<Target> target = parse_target(pair.substr(equals + 1));
    if (!target) return refuse_pair(pair, "which leads neither to cpu nor to a cuda:N");
    const auto is_same = [&](const Entry& entry) { return entry.device == device; };
    if (std::any_of(map.entries_.begin(), map.entries_.end(), is_same))
      return refuse_pair(pair, "whose device has a pair already");
    map.entries_.push_back({std::string(device), *target});
  }
  return map;
}

std::optional<DeviceMap::Target> DeviceMap::find(std::string_view device) const noexcept {
  const std::string_view kind = device.substr(0, device.find(':'));
  const Entry* found = nullptr;
  for (const Entry& entry : entries_) {
    if (entry.device == device) return entry.target;
    if (entry.device == kind) found = &entry;
  }
  return found != nullptr ? std::optional(found->target) : std::nullopt;
}

std::vector<int32_t> DeviceMap::ordinals() const {
  std::vector<int32_t> ordinals;
  for (const Entry& entry : entries_) {
    if (entry.target.ordinal != Target::kCpu) ordinals.push_back(entry.target.ordinal);
  }
  return ordinals;
}

}  // namespace tenon::module
