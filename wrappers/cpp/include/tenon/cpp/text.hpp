// Texts and arrays of them, as the C library reads and writes them. Nothing here is for callers by its own name, but Items.
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

/// Objects that a call takes: {a, b}, a vector, an array or a span of them. Borrowed for the call: do not keep one.
template <class T>
class Items {
 public:
  Items(std::initializer_list<T> items) noexcept : items_(std::data(items), items.size()) {}
  template <class Others>
    requires(!std::same_as<Others, Items> && std::is_convertible_v<const Others&, std::span<const T>>)
  Items(const Others& items) noexcept : items_(items) {}
  std::span<const T> get() const noexcept { return items_; }

 private:
  std::span<const T> items_;
};

/// Names that a call takes.
using Names = Items<std::string>;

namespace detail {

inline Error has_nul(std::string_view what) { return wrong(std::string(what) + " has a NUL in it"); }

// A text that the C library reads up to its NUL.
inline bool is_c_text(const std::string& text) noexcept { return text.find('\0') == std::string::npos; }
inline bool is_c_text(const std::optional<std::string>& text) noexcept { return !text || is_c_text(*text); }
inline const char* c_text(const std::optional<std::string>& text) noexcept { return text ? text->c_str() : nullptr; }

// Into an array of C's, with its NUL.
template <std::size_t kRoom>
Result<void> put(const std::string& text, char (&room)[kRoom], const char* what) {
  if (!is_c_text(text)) return has_nul(what);
  if (text.size() >= kRoom)
    return wrong(std::string(what) + " has " + std::to_string(text.size()) + " bytes, " + std::to_string(kRoom - 1) + " are the most");
  std::memcpy(room, text.c_str(), text.size() + 1);
  return {};
}

// Borrows the texts.
inline Result<std::vector<const char*>> c_texts(std::span<const std::string> texts, std::string_view what) {
  std::vector<const char*> c;
  c.reserve(texts.size());
  for (const std::string& text : texts) {
    if (!is_c_text(text)) return has_nul(what);
    c.push_back(text.c_str());
  }
  return c;
}

// What may be null, in static storage or borrowed.
inline std::string_view view_of(const char* text) noexcept { return text == nullptr ? std::string_view() : text; }

// function(out, capacity, nbytes, err) writes as much of a text as there is room for, and says how long it is.
template <class Function>
Result<std::string> written(Function&& function) {
  std::string text(200, '\0');
  for (bool whole = false; !whole;) {
    std::size_t nbytes = 0;
    const Result<void> called = call([&](tenon_error** err) { return function(text.data(), text.size() + 1, &nbytes, err); });
    if (!called) return called.error();
    whole = nbytes <= text.size();
    text.resize(nbytes);
  }
  return text;
}

}  // namespace detail

TENON_CPP_END

#endif
