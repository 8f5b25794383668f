// Which of many names is spelled most like a given one: for "did you mean".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tenon::script {

class Nearest {
 public:
  explicit Nearest(std::string_view name) noexcept : name_(name) {}
  void consider(std::string_view candidate);
  // Empty: none is near enough (two letters, one in a short name).
  std::string_view best() const noexcept { return best_; }

 private:
  static constexpr size_t kMaxNbytes = 120;
  std::string_view name_;
  std::string_view best_;
  size_t best_distance_ = 3;
};

// "; did you mean relu?", for the end of a message; nothing if `nearest` is empty.
std::string did_you_mean(std::string_view nearest);

}  // namespace tenon::script
