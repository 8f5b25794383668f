// A worker of the example inference_server. usage: inference_worker FD, where FD is its socket to
// the front end.
//
// The first message over the socket brings two queues and the weights. After that everything goes
// through the queues. A request is a tensor, and its user bytes are its number. The worker says
// that it has the request (the number and its own pid, without a tensor), and sends the answer in a
// tensor of its own with the same user bytes. A request without a tensor ends the worker.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>
#include <tenon/tenon.hpp>
#include <vector>

namespace {

void send(tenon::Queue& answers, std::span<const std::byte> mark, const tenon::Tensor* tensor) {
  tenon::Message message = tenon::Message::make();
  message.set_user_bytes(mark);
  if (tensor != nullptr) message.add(*tensor);
  answers.send(message);
}

// Gives relu(x * weights) in a new tensor.
tenon::Tensor multiply(const tenon::Tensor& x, std::span<const float> weights) {
  const tenon::TensorView shape = x.view();
  const std::span<const std::int64_t> sizes = shape.sizes();
  if (sizes.size() != 2 || static_cast<std::uint64_t>(sizes[1] * sizes[1]) != weights.size())
    throw std::runtime_error("a request of another shape");
  const auto width = static_cast<std::size_t>(sizes[1]);
  tenon::Tensor y = tenon::empty<float>(sizes);
  const auto from = x.view<float>();
  const auto to = y.view_mut<float>();
  for (std::size_t at = 0; at < to.size(); ++at) {
    const std::size_t row = at / width;
    const std::size_t column = at % width;
    float sum = 0;
    for (std::size_t i = 0; i < width; ++i)
      sum += from[row * width + i] * weights[i * width + column];
    to[at] = std::max(sum, 0.0F);
  }
  return y;
}

void work(int fd) {
  const std::string front_end = std::to_string(getppid());
  auto connection = tenon::Connection::make(fd);
  const tenon::Message start = connection.recv();
  auto requests = tenon::Queue::join(start["requests"].storage());
  auto answers = tenon::Queue::join(start["answers"].storage(), {.ignore_deaths = true});
  const tenon::Tensor weights = start["weights"];
  connection.send(tenon::Message::make());
  while (true) {
    tenon::Message request;
    try {
      request = requests.recv();
    } catch (const tenon::PeerGone& gone) {
      if (gone.detail("pid") == front_end) return;
      continue;  // another worker has died
    }
    if (request.size() == 0) return;
    const auto number = request.user_bytes();
    std::vector<std::byte> mark(number.begin(), number.end());
    const auto pid = static_cast<std::uint32_t>(getpid());
    const auto bytes = std::as_bytes(std::span(&pid, 1));  // little-endian, as everywhere in Tenon
    mark.insert(mark.end(), bytes.begin(), bytes.end());
    send(answers, mark, nullptr);
    const tenon::Tensor y = multiply(request[0], weights.view<float>());
    send(answers, mark, &y);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: inference_worker FD\n";
    return 2;
  }
  work(std::stoi(argv[1]));
} catch (const std::exception& error) {
  std::cerr << "inference_worker: " << error.what() << "\n";
  return 1;
}
