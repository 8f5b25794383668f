// A sink for exports. It gives the lock of trees back while the sink behind it writes, because that
// sink can call a function of the user, or wait for a reader of a pipe that wants to change a
// module.
#pragma once

#include <cstddef>
#include <span>

#include "modules/archive/sink.h"
#include "modules/value/tree_lock.h"

namespace tenon::module {

class PausingSink final : public archive::Sink {
 public:
  // `sink` is borrowed.
  explicit PausingSink(archive::Sink* sink) noexcept : sink_(sink) {}
  Status write(std::span<const std::byte> bytes) override {
    const value::PauseReading pause;
    return sink_->write(bytes);
  }
  Status write_both(std::span<const std::byte> head, std::span<const std::byte> body) override {
    const value::PauseReading pause;
    return sink_->write_both(head, body);
  }

 private:
  archive::Sink* sink_;
};

}  // namespace tenon::module
