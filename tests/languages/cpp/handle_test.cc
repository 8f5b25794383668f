// Tests of ownership: moves, copies, double close, use after move, and deleters that throw.
#include <stdexcept>
#include <type_traits>

#include "kit.h"

namespace {

using Handle = kit::Leaves;

static_assert(std::is_copy_constructible_v<tenon::Storage> &&
              std::is_copy_constructible_v<tenon::Tensor>);
static_assert(!std::is_copy_constructible_v<tenon::Message> &&
              !std::is_copy_constructible_v<tenon::Connection>);
static_assert(!std::is_copy_constructible_v<tenon::Cancel>);
static_assert(std::is_copy_constructible_v<tenon::WeakStorage> &&
              std::is_copy_assignable_v<tenon::WeakStorage>);
static_assert(!std::is_copy_constructible_v<tenon::Descriptor> &&
              !std::is_copy_constructible_v<tenon::FdHandle>);
static_assert(std::is_nothrow_move_constructible_v<tenon::Storage> &&
              std::is_nothrow_move_constructible_v<tenon::Message>);
static_assert(sizeof(tenon::Storage) == sizeof(void*) && sizeof(tenon::Tensor) == sizeof(void*));

// Hides a self-assignment from the compiler's warnings.
template <class T>
T& itself(T& object) {
  return object;
}

TEST_F(Handle, CopyIsOneMoreReference) {
  tenon::Storage first = tenon::Storage::make(64);
  EXPECT_EQ(first.use_count(), 1U);
  {
    const tenon::Storage second = first;
    EXPECT_EQ(first.use_count(), 2U);
    EXPECT_EQ(first, second);
    EXPECT_EQ(std::hash<tenon::Storage>()(first), std::hash<tenon::Storage>()(second));
  }
  EXPECT_EQ(first.use_count(), 1U);
  first = itself(first);
  EXPECT_EQ(first.use_count(), 1U);
  tenon::Storage other = tenon::Storage::make(64);
  EXPECT_FALSE(first == other);
  const tenon::WeakStorage weak = tenon::WeakStorage::make(other);
  other = first;
  EXPECT_TRUE(weak.expired());
  EXPECT_EQ(first.use_count(), 2U);
}

TEST_F(Handle, FoundByAnAddress) {
  tenon::Storage storage = tenon::Storage::make(100);
  const std::byte* const data = storage.bytes().data();
  {
    const tenon::StorageAt found = tenon::Storage::at(data + 30, 70);
    EXPECT_EQ(found.storage, storage);
    EXPECT_EQ(found.offset, 30U);
  }
  EXPECT_EQ(storage.use_count(), 1U);
  EXPECT_CODE(kNotFound, tenon::Storage::try_at(data + 30, 71));
  EXPECT_THROW((void)tenon::Storage::at(&storage), tenon::NotFound);
  storage.close();
  EXPECT_CODE(kNotFound, tenon::Storage::try_at(data));
}

TEST_F(Handle, MoveLeavesAnEmptyOne) {
  tenon::Storage first = tenon::Storage::make(64);
  const std::uint64_t id = first.id();
  tenon::Storage second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(second.id(), id);
  second = std::move(itself(second));
  ASSERT_TRUE(second);
  EXPECT_EQ(second.use_count(), 1U);
  tenon::Message message = tenon::Message::make();
  message = std::move(itself(message));
  EXPECT_TRUE(message);
  tenon::FdHandle handle = tenon::share_fd(second);
  handle = std::move(itself(handle));
  EXPECT_GE(handle.fd(), 0);
}

TEST_F(Handle, UseAfterMoveIsAnError) {
  tenon::Storage storage;
  EXPECT_EQ(storage.nbytes(), 0U);
  EXPECT_EQ(storage.bytes().size(), 0U);
  EXPECT_EQ(storage.id(), 0U);
  EXPECT_EQ(storage.use_count(), 0U);
  EXPECT_FALSE(storage.is_shared());
  std::byte room[4] = {};
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)storage.bytes_mut(); });
  kit::thrown_by<tenon::InvalidArgument>([&] { storage.write(room); });
  kit::thrown_by<tenon::InvalidArgument>([&] { storage.read(room); });
  kit::thrown_by<tenon::InvalidArgument>([&] { storage.freeze(); });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)tenon::WeakStorage::make(storage); });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)tenon::share_fd(storage); });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)tenon::share_filename(storage); });
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { (void)tenon::Tensor::over(storage, {1}, tenon::kDtypeOf<float>); });

  tenon::Tensor tensor;
  EXPECT_EQ(tensor.numel(), 0U);
  EXPECT_FALSE(tensor.storage());
  EXPECT_FALSE(tensor.is_contiguous());
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)tensor.view(); });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)tensor.view<float>(); });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)tensor.view_mut<float>(); });

  tenon::Message message;
  EXPECT_EQ(message.size(), 0U);
  EXPECT_FALSE(message.tensor(0));
  EXPECT_FALSE(message.find("a"));
  EXPECT_FALSE(message.name(0));
  EXPECT_EQ(message.user_bytes().size(), 0U);
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)message.views(); });
  kit::thrown_by<tenon::InvalidArgument>([&] { message.add(tensor); });
  kit::thrown_by<tenon::InvalidArgument>([&] { message.set_user_bytes(room); });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)tenon::Descriptor::make(message); });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)message[0]; });
  kit::thrown_by<tenon::NotFound>([&] { (void)message["a"]; });

  tenon::Connection connection;
  EXPECT_EQ(connection.fd(), -1);
  const tenon::Message whole = tenon::Message::make();
  kit::thrown_by<tenon::InvalidArgument>([&] { connection.send(whole); });
  kit::thrown_by<tenon::InvalidArgument>([&] { connection.flush(); });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)connection.recv(); });

  const tenon::WeakStorage weak;
  EXPECT_FALSE(weak.lock());
  EXPECT_TRUE(weak.expired());
  const tenon::Cancel cancel;
  cancel.trigger();
  const tenon::Descriptor descriptor;
  EXPECT_EQ(descriptor.bytes().size(), 0U);
  EXPECT_EQ(descriptor.fds().size(), 0U);
}

TEST_F(Handle, DoubleCloseIsHarmless) {
  tenon::Storage storage = tenon::Storage::make(64);
  const tenon::WeakStorage weak = tenon::WeakStorage::make(storage);
  tenon::FdHandle handle = tenon::share_fd(storage);
  storage.close();
  EXPECT_TRUE(weak.expired());
  EXPECT_FALSE(storage);
  storage.close();
  handle.close();
  EXPECT_EQ(handle.fd(), -1);
  handle.close();
  const kit::Sockets sockets;
  tenon::Connection connection = tenon::Connection::make(sockets.here);
  connection.close();
  connection.close();
}

TEST_F(Handle, AdoptAndDetach) {
  tenon_storage* raw = nullptr;
  ASSERT_EQ(tenon_storage_new(nullptr, 64, &raw, nullptr), TENON_OK);
  tenon::Storage storage = tenon::Storage::adopt(raw);
  EXPECT_EQ(storage.use_count(), 1U);
  {
    const tenon::Storage more = tenon::Storage::retain(storage.get());
    EXPECT_EQ(storage.use_count(), 2U);
  }
  EXPECT_EQ(storage.detach(), raw);
  EXPECT_FALSE(storage);
  EXPECT_EQ(tenon_storage_use_count(raw), 1U);
  tenon_storage_release(raw);
}

// ---- deleters that throw

struct Thrown : std::runtime_error {
  explicit Thrown(int n) : std::runtime_error("thrown by a deleter"), number(n) {}
  int number;
};

std::atomic<int> g_handed_over{0};

void count_thrown(std::exception_ptr thrown) noexcept {
  try {
    std::rethrow_exception(std::move(thrown));
  } catch (const Thrown& error) {
    g_handed_over += error.number;
  } catch (...) {
    g_handed_over = -1000;
  }
}

class Deleters : public kit::Leaves {
 protected:
  void SetUp() override {
    Leaves::SetUp();
    g_handed_over = 0;
    before_ = tenon::set_deleter_exception_handler(count_thrown);
  }
  void TearDown() override {
    tenon::set_deleter_exception_handler(before_);
    Leaves::TearDown();
  }
  static tenon::Storage throwing(int number) {
    return tenon::Storage::wrap({}, [number] { throw Thrown(number); });
  }

 private:
  tenon::DeleterExceptionHandler before_ = nullptr;
};

TEST_F(Deleters, CloseGivesTheObjectItself) {
  tenon::Storage storage = throwing(7);
  tenon::Storage copy = storage;
  storage.close();  // not the last reference
  try {
    copy.close();
    FAIL() << "nothing was thrown";
  } catch (const Thrown& error) {
    EXPECT_EQ(error.number, 7);
  }
  EXPECT_FALSE(copy);
  copy.close();
  EXPECT_EQ(g_handed_over, 0);
}

TEST_F(Deleters, ThroughATensorAndAMessage) {
  tenon::Tensor tensor = tenon::Tensor::over(throwing(5), {0}, tenon::kDtypeOf<float>);
  EXPECT_THROW(tensor.close(), Thrown);
  EXPECT_EQ(g_handed_over, 0);
}

TEST_F(Deleters, ADestructorHandsOver) {
  {
    const tenon::Storage storage = throwing(3);
  }
  EXPECT_EQ(g_handed_over, 3);
  tenon::Storage storage = throwing(4);
  storage = tenon::Storage();
  EXPECT_EQ(g_handed_over, 7);
}

TEST_F(Deleters, OnAnotherThread) {
  tenon::Storage storage = throwing(11);
  std::thread([last = std::move(storage)]() mutable {
    const tenon::Storage here = std::move(last);
  }).join();
  EXPECT_EQ(g_handed_over, 11);
}

TEST_F(Deleters, OneThatEndsAnother) {
  // The inner close gets the inner exception, and the outer close gets the outer one.
  int inner = 0;
  tenon::Storage below = throwing(1);
  tenon::Storage outer = tenon::Storage::wrap({}, [&] {
    try {
      below.close();
    } catch (const Thrown& error) {
      inner = error.number;
    }
    throw Thrown(2);
  });
  try {
    outer.close();
    FAIL() << "nothing was thrown";
  } catch (const Thrown& error) {
    EXPECT_EQ(error.number, 2);
  }
  EXPECT_EQ(inner, 1);
  // Only one of two exceptions can leave close(). The handler receives the other one.
  tenon::Storage first = tenon::Storage::wrap({}, [&] {
    {
      const tenon::Storage second = throwing(100);
    }
    throw Thrown(1);
  });
  EXPECT_THROW(first.close(), Thrown);
  EXPECT_EQ(g_handed_over, 1);
}

TEST_F(Deleters, WhatIsKeptIsDestroyed) {
  auto shared = std::make_shared<std::vector<float>>(16, 1.5F);
  const std::weak_ptr<std::vector<float>> watch = shared;
  const auto bytes = std::as_writable_bytes(std::span(*shared));
  tenon::Storage storage = tenon::Storage::wrap(bytes, std::move(shared));
  const tenon::Tensor tensor = tenon::Tensor::over(storage, {16}, tenon::kDtypeOf<float>);
  storage.close();
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(tensor.view<float>()[15], 1.5F);
  tenon::Tensor last = tensor;
  EXPECT_FALSE(watch.expired());
}

TEST_F(Deleters, KeeperIsNotCalledOnFailure) {
  bool called = false;
  auto kept = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = kept;
  // A span without an address.
  const std::span<std::byte> nowhere(static_cast<std::byte*>(nullptr), 8);
  kit::thrown_by<tenon::InvalidArgument>([&] {
    (void)tenon::Storage::wrap(nowhere,
                               [&called, kept = std::move(kept)] { called = kept != nullptr; });
  });
  EXPECT_FALSE(called);
  EXPECT_TRUE(watch.expired());
}

}  // namespace
