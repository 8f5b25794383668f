// This test looks up names of a message in a forked child. The C tests and those of the wrappers
// test messages.
#include "tensor/message.h"

#include <gtest/gtest.h>
#include <tenon/dtype.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>

#include "tensor/layout.h"
#include "unit/os/surroundings.h"

namespace tenon::tensor {
namespace {

constexpr int kItems = 20'000;

TEST(Message, AForkedChildFindsNamesWhileAThreadOfItsParentDoes) {
  const int64_t size = 1;
  const DType dtype{TENON_DTYPE_UINT, 8, 1};
  Ref<Storage> storage = Storage::create({.is_private = true}, 1).value();
  const Ref<Tensor> tensor =
      Tensor::create(std::move(storage), {dtype, {&size, 1}, {&size, 1}, 0}, 0).value();
  for (int round = 0; round < 5; ++round) {
    Message message;
    for (int i = 0; i < kItems; ++i)
      message.add_received(tensor, memory::Access::kAuto, "tensor " + std::to_string(i));
    const std::string last = "tensor " + std::to_string(kItems - 1);
    std::atomic<bool> begun{false};
    // The first find() of a message makes the index, which takes milliseconds.
    const std::jthread thread([&] {
      begun = true;
      EXPECT_EQ(message.find(last), &message.items().back());
    });
    while (!begun) std::this_thread::yield();
    tenon::test::ForkChild child(
        [&](int) { ::_exit(message.find(last) == &message.items().back() ? 7 : 1); });
    ASSERT_EQ(child.reap(), 7) << "round " << round;
  }
}

}  // namespace
}  // namespace tenon::tensor
