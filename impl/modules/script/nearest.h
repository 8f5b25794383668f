// Nearest: finds the name that is spelled most like a given one, for "did you mean" in messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tenon::script {

// The name and the candidates are borrowed, and best() is one of the candidates.
class Nearest {
 public:
  explicit Nearest(std::string_view name) noexcept : name_(name) {}
  void consider(std::string_view candidate);
  // Empty: no candidate is near enough. A near name is at most two edits away, or one if the
  // shorter of the two names has fewer than four letters. An edit inserts, removes or changes a
  // letter, or swaps two neighbouring ones. Names of more than kMaxNbytes are never near.
  std::string_view best() const noexcept { return best_; }

 private:
  static constexpr size_t kMaxNbytes = 120;
  std::string_view name_;
  std::string_view best_;
  size_t best_distance_ = 3;
};

// Returns "; did you mean relu?" for the end of a message, or an empty text if `nearest` is empty.
std::string did_you_mean(std::string_view nearest);

}  // namespace tenon::script
