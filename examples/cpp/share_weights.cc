// A borrower of a model's weights. usage: share_weights FD, where FD is one end of a connected
// AF_UNIX socket.
//
// It says "ready". Then the first message brings the tensors. After that each message asks for
// something in its user bytes, and gets an answer:
//    sum      read every float32 weight in place
//    add N    add 1 to weight N of the first tensor, in place
// It ends when the lender closes its end.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <string_view>
#include <tenon/tenon.hpp>

namespace {

void say(tenon::Connection& connection, std::string_view text) {
  tenon::Message message = tenon::Message::make();
  message.set_user_bytes(std::as_bytes(std::span(text)));
  connection.send(message);
}

double sum_of(const tenon::Message& weights) {
  double sum = 0;
  for (const tenon::TensorView& view : weights.views()) {
    for (const float value : view.view<float>()) sum += static_cast<double>(value);
  }
  return sum;
}

// Returns the time in nanoseconds, on the clock that the lender uses too.
long long now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

void borrow(int fd) {
  auto connection = tenon::Connection::make(fd);
  say(connection, "ready");
  const tenon::Message weights = connection.recv();
  tenon::Tensor first = weights[0];
  [[maybe_unused]] const volatile float byte = first.view<float>()[0];
  const long long first_byte_ns = now_ns();
  std::string command;
  while (true) {
    if (command.starts_with("add ")) {
      std::size_t at = 0;
      std::from_chars(command.data() + 4, command.data() + command.size(), at);
      const auto values = first.view_mut<float>();
      if (at < values.size()) values[at] += 1;
    }
    char text[160];
    std::snprintf(text, sizeof text,
                  "{\"sum\": %.17g, \"first_byte_ns\": %lld, \"bytes_copied\": %llu}",
                  command == "sum" ? sum_of(weights) : 0.0, first_byte_ns,
                  static_cast<unsigned long long>(tenon::stats().bytes_copied));
    say(connection, text);
    const tenon::Message message = connection.recv();
    const auto bytes = message.user_bytes();
    command.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: share_weights FD\n";
    return 2;
  }
  borrow(std::stoi(argv[1]));
} catch (const tenon::PeerGone&) {
  return 0;
} catch (const std::exception& error) {
  std::cerr << "share_weights: " << error.what() << "\n";
  return 1;
}
