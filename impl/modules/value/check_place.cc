#include "modules/value/check_place.h"

#include <algorithm>
#include <utility>

#include "modules/value/dict_key.h"

namespace tenon::value {
namespace {

constexpr size_t kMaxShownValueNbytes = 200;
// An object can lack thousands of attributes of its class. The first few are enough.
constexpr size_t kMaxNamed = 10;

}  // namespace

std::string CheckPlace::text() const {
  if (above == nullptr) return std::string(name);
  const std::string path = above->text();
  if (separator != nullptr)
    return path.empty() ? std::string(name) : path + separator + std::string(name);
  return path + "[" + (key != nullptr ? key_text(*key) : std::to_string(index)) + "]";
}

std::string shown(std::string text) {
  if (text.size() > kMaxShownValueNbytes) text = text.substr(0, kMaxShownValueNbytes) + "...";
  return text;
}

std::string found_text(const Value& value) {
  const auto with_class = [&value](const char* what) {
    return shown(value.class_name()) + " (" + what + ")";
  };
  switch (value.kind()) {
    case ValueKind::kList:
      return value.declared_type() ? shown(value.declared_type()->print()) : "an untyped list";
    case ValueKind::kDict:
      return value.declared_type() ? shown(value.declared_type()->print()) : "an untyped dict";
    case ValueKind::kTuple: {
      if (!value.class_name().empty()) return with_class("a NamedTuple");
      return format("a tuple of %zu", value.items().size());
    }
    case ValueKind::kEnum: return with_class("an enum");
    case ValueKind::kObject: return with_class("an object");
    default: return value_kind_name(value.kind());
  }
}

std::string names_text(const std::string& class_name, const char* what,
                       const std::vector<std::string_view>& names) {
  std::string text = "an object of '" + shown(class_name) + "' " + what +
                     (names.size() == 1 ? " the attribute " : " the attributes ");
  for (size_t i = 0; i < std::min(names.size(), kMaxNamed); ++i) {
    text.append(i == 0 ? "'" : ", '").append(shown(std::string(names[i]))).push_back('\'');
  }
  if (names.size() > kMaxNamed) text += format(" and %zu more", names.size() - kMaxNamed);
  return text;
}

Status misfit(const CheckPlace& place, const std::string& what) {
  std::string path = place.text();
  Status status(Code::kInvalidArgument, path.empty() ? what : path + ": " + what);
  return std::move(status).with("where", std::move(path));
}

Status misfit(const CheckPlace& place, std::string wanted, std::string found) {
  Status status = misfit(place, wanted + " wanted, " + found + " found");
  return std::move(status).with("wanted", std::move(wanted)).with("found", std::move(found));
}

}  // namespace tenon::value
