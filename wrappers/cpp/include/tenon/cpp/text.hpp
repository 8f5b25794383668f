/// @file
/// Conversions of strings and arrays of strings for the C library. A program uses only Items and
/// Names by name.
#ifndef TENON_CPP_TEXT_HPP
#define TENON_CPP_TEXT_HPP

#include <tenon/cpp/error.hpp>

#include <concepts>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

TENON_CPP_BEGIN

/// Objects that a call takes as an argument: {a, b}, a vector, an array or a span of them. An Items
/// object is borrowed for the call: do not keep it.
template <class T>
class Items {
 public:
  Items(std::initializer_list<T> items) noexcept : items_(std::data(items), items.size()) {}
  template <class Others>
    requires(!std::same_as<Others, Items> &&
             std::is_convertible_v<const Others&, std::span<const T>>)
  Items(const Others& items) noexcept : items_(items) {}
  std::span<const T> get() const noexcept { return items_; }

 private:
  std::span<const T> items_;
};

/// Names that a call takes as an argument.
using Names = Items<std::string>;

namespace detail {

inline Error has_nul(std::string_view what) {
  return wrong(std::string(what) + " has a NUL in it");
}

// Whether the C library would read the whole text. The C library stops at the first NUL.
inline bool is_c_text(const std::string& text) noexcept {
  return text.find('\0') == std::string::npos;
}
inline bool is_c_text(const std::optional<std::string>& text) noexcept {
  return !text || is_c_text(*text);
}
inline const char* c_text(const std::optional<std::string>& text) noexcept {
  return text ? text->c_str() : nullptr;
}

// Copies a text and its NUL into an array of a C struct.
template <std::size_t kRoom>
Result<void> put(const std::string& text, char (&room)[kRoom], const char* what) {
  if (!is_c_text(text)) return has_nul(what);
  if (text.size() >= kRoom)
    return wrong(std::string(what) + " has " + std::to_string(text.size()) + " bytes, " +
                 std::to_string(kRoom - 1) + " are the most");
  std::memcpy(room, text.c_str(), text.size() + 1);
  return {};
}

// The result borrows the texts.
inline Result<std::vector<const char*>> c_texts(std::span<const std::string> texts,
                                                std::string_view what) {
  std::vector<const char*> c;
  c.reserve(texts.size());
  for (const std::string& text : texts) {
    if (!is_c_text(text)) return has_nul(what);
    c.push_back(text.c_str());
  }
  return c;
}

// Gives a view of a C string, which may be null.
inline std::string_view view_of(const char* text) noexcept {
  return text == nullptr ? std::string_view() : text;
}

// Calls function(out, capacity, nbytes, err), which writes as much of a text as fits and reports
// its whole length, until the whole text fits.
template <class Function>
Result<std::string> written(Function&& function) {
  std::string text(200, '\0');
  for (bool whole = false; !whole;) {
    std::size_t nbytes = 0;
    const Result<void> called = call(
        [&](tenon_error** err) { return function(text.data(), text.size() + 1, &nbytes, err); });
    if (!called) return called.error();
    whole = nbytes <= text.size();
    text.resize(nbytes);
  }
  return text;
}

}  // namespace detail

TENON_CPP_END

#endif
