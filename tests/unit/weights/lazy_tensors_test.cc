// These tests read weights of a safetensors file in memory. Their tensors are made when they are
// first asked for.
#include "modules/weights/lazy_tensors.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "modules/weights/weights.h"

namespace tenon::weights {
namespace {

constexpr size_t kLazyCount = 200;

// A file of kLazyCount tensors of 3 numbers of float32. Number n of tensor t is t * 3 + n.
std::vector<std::byte> file_of_floats() {
  std::string header = "{";
  for (size_t i = 0; i < kLazyCount; ++i) {
    header += (i == 0 ? "\"w" : ",\"w") + std::to_string(i) +
              R"(":{"dtype":"F32","shape":[3,1],"data_offsets":[)" + std::to_string(i * 12) + "," +
              std::to_string(i * 12 + 12) + "]}";
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t length = header.size();
  std::vector<std::byte> file(sizeof length + length + kLazyCount * 12);
  std::memcpy(file.data(), &length, sizeof length);
  std::memcpy(file.data() + sizeof length, header.data(), length);
  for (size_t i = 0; i < kLazyCount * 3; ++i) {
    const auto number = static_cast<float>(i);
    std::memcpy(file.data() + sizeof length + length + i * sizeof number, &number, sizeof number);
  }
  return file;
}

float first_number(const value::TensorValue& tensor) {
  float number = -1;
  std::memcpy(&number, tensor.storage()->data(), sizeof number);
  return number;
}

class LazyFile : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = Weights::read(archive::OwnedSource::create("w", file_of_floats()), "w", {});
    if (opened.status().code() == Code::kUnsupported) GTEST_SKIP() << "this build has no JSON";
    ASSERT_TRUE(opened.is_ok()) << opened.status().message();
    weights_ = std::move(opened).value();
  }
  Ref<Weights> weights_;
};

TEST_F(LazyFile, ATensorIsMadeOnceAndOutlivesTheFile) {
  ASSERT_EQ(weights_->list().size(), kLazyCount);
  EXPECT_TRUE(weights_->list()[7].lazy);
  EXPECT_FALSE(weights_->list()[7].made);
  const value::TensorValueRef first = weights_->tensor("w7").value();
  const value::TensorValueRef second = weights_->tensor("w7").value();
  EXPECT_EQ(first.get(), second.get());
  EXPECT_NE(first.get(), weights_->tensor("w8").value().get());
  EXPECT_EQ(std::vector<int64_t>(first->sizes().begin(), first->sizes().end()),
            (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(weights_->tensor("w200").status().code(), Code::kNotFound);
  weights_ = nullptr;
  EXPECT_EQ(first_number(*first), 21);
}

TEST_F(LazyFile, ManyThreadsGetTheSameTensors) {
  constexpr size_t kThreads = 4;
  std::vector<std::vector<value::TensorValueRef>> taken(kThreads);
  std::atomic<bool> is_begun{false};
  std::vector<std::thread> threads;
  for (auto& mine : taken) {
    threads.emplace_back([&] {
      while (!is_begun) std::this_thread::yield();
      for (const Weight& each : weights_->list())
        mine.push_back(weights_->tensor(each.name).value());
    });
  }
  is_begun = true;
  for (std::thread& thread : threads) thread.join();
  std::set<const value::TensorValue*> different;
  for (size_t i = 0; i < kLazyCount; ++i) {
    for (const auto& mine : taken) different.insert(mine[i].get());
    EXPECT_EQ(different.size(), i + 1);
    EXPECT_EQ(first_number(*taken[0][i]), static_cast<float>(i * 3));
  }
}

TEST_F(LazyFile, AReplacedWeightHasItsNewElements) {
  const value::TensorValueRef old = weights_->tensor("w1").value();
  ASSERT_TRUE(weights_->replace("w1", *weights_->tensor("w9").value()).is_ok());
  EXPECT_EQ(first_number(*weights_->tensor("w1").value()), 27);
  EXPECT_EQ(first_number(*old), 3);
  EXPECT_EQ(first_number(*weights_->tensor("w9").value()), 27);
}

}  // namespace
}  // namespace tenon::weights
