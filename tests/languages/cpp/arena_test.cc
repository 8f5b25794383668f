// Tests of arenas: storages that are born in one, refusals, and waits for room.
#include <cstring>
#include <set>

#include "kit.h"

namespace {

using namespace std::chrono_literals;
using kit::kMiB;
using Arenas = kit::Leaves;

TEST_F(Arenas, AFreshOne) {
  const tenon::Arena arena = tenon::Arena::make({.capacity_nbytes = 4 * kMiB});
  const tenon::ArenaStats now = arena.stats();
  EXPECT_EQ(now.bytes_capacity, 4 * kMiB);
  EXPECT_EQ(now.bytes_live + now.bytes_lent + now.bytes_retired + now.bytes_peak + now.blocks_live +
                now.blocks_lent,
            0U);
  EXPECT_NE(now.pages, tenon_pages{TENON_PAGES_AUTO});
  EXPECT_GE(now.page_nbytes, 4096U);
  EXPECT_EQ(now.numa_node, -1);
  EXPECT_EQ(now.locked, 0U);
}

TEST_F(Arenas, OneSegmentForAll) {
  const tenon::Stats before = tenon::stats();
  const tenon::Arena arena = tenon::Arena::make({.capacity_nbytes = 4 * kMiB});
  std::vector<tenon::Tensor> tensors;
  for (int i = 0; i < 100; ++i) tensors.push_back(tenon::zeros<float>({25}, {.arena = &arena}));
  const std::vector<float> values{1, 2, 3};
  tensors.push_back(tenon::Tensor::make_from<float>(values, {3}, {.arena = &arena}));
  EXPECT_EQ(kit::copy_of(tensors.back().view<float>()), values);
  EXPECT_EQ(tenon::stats().segments, before.segments + 1);
  EXPECT_EQ(tenon::stats().segment_fds, before.segment_fds + 1);
  EXPECT_EQ(arena.stats().blocks_live, 101U);
  const tenon::FdHandle handle = tenon::share_fd(tensors[50].storage());
  EXPECT_EQ(handle.segment_nbytes(), 4 * kMiB);
}

TEST_F(Arenas, ModeAndAlignmentAreTheArenas) {
  const tenon::Arena arena = tenon::Arena::make(
      {.mode = tenon::Mode::kLenderWrites, .capacity_nbytes = kMiB, .alignment = 1024});
  for (int i = 0; i < 3; ++i) {
    const tenon::Storage storage = tenon::Storage::make(8, {.arena = &arena});
    EXPECT_EQ(storage.mode(), tenon::Mode::kLenderWrites);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(storage.bytes().data()) % 1024, 0U);
  }
}

TEST_F(Arenas, StoragesOutliveIt) {
  tenon::Arena arena = tenon::Arena::make({.capacity_nbytes = kMiB});
  const tenon::Tensor tensor = tenon::zeros<float>({4}, {.arena = &arena});
  const tenon::Arena copy = arena;
  arena.close();
  arena.close();
  EXPECT_FALSE(arena);
  EXPECT_EQ(copy.stats().blocks_live, 1U);
  EXPECT_CODE(kInvalidArgument, arena.try_stats());
  EXPECT_CODE(kInvalidArgument, arena.try_reserve(1));
  EXPECT_EQ(tensor.view<float>()[3], 0.0F);
}

TEST_F(Arenas, AFreedBlockIsUsedAgain) {
  const tenon::Arena arena = tenon::Arena::make({.capacity_nbytes = kMiB});
  std::set<const std::byte*> places;
  for (int i = 0; i < 100; ++i) {
    const tenon::Storage storage = tenon::Storage::make(1000, {.arena = &arena});
    places.insert(storage.bytes().data());
  }
  EXPECT_EQ(places.size(), 1U);
}

TEST_F(Arenas, Full) {
  const tenon::Arena arena = tenon::Arena::make({.capacity_nbytes = kMiB});
  tenon::Storage keep = tenon::Storage::make(kMiB, {.arena = &arena});
  const tenon::Result<tenon::Storage> full = tenon::Storage::try_make(1, {.arena = &arena});
  ASSERT_EQ(full.code(), tenon::Code::kResourceExhausted);
  EXPECT_EQ(full.error().detail("limit"), "arena");
  EXPECT_EQ(full.error().detail("limit_value"), "1048576");
  EXPECT_EQ(full.error().detail("live"), "1048576");
  EXPECT_EQ(full.error().detail("lent"), "0");
  EXPECT_EQ(full.error().detail("holders"), "nobody");
  const tenon::Result<tenon::Storage> late =
      tenon::Storage::try_make(1, {.arena = &arena, .wait = {.timeout = 10ms}});
  ASSERT_EQ(late.code(), tenon::Code::kTimeout);
  EXPECT_EQ(late.error().detail("holders"), "nobody");
  // No wait can make room for this.
  EXPECT_CODE(
      kResourceExhausted,
      tenon::Storage::try_make(kMiB + 1, {.arena = &arena, .wait = {.timeout = kit::kPatience}}));
  EXPECT_CODE(kInvalidArgument,
              tenon::Storage::try_make(1, {.arena = &arena, .wait = {.timeout = -1ns}}));
  keep.close();
  EXPECT_TRUE(tenon::Storage::try_make(1, {.arena = &arena}));
}

TEST_F(Arenas, AWaitEndsWhenAnotherThreadFrees) {
  const tenon::Arena arena = tenon::Arena::make({.capacity_nbytes = kMiB});
  tenon::Storage keep = tenon::Storage::make(kMiB, {.arena = &arena});
  std::thread other([&] {
    std::this_thread::sleep_for(50ms);  // until the other thread waits
    keep.close();
  });
  const std::vector<std::byte> bytes(kMiB, std::byte{7});
  const tenon::Storage storage =
      tenon::Storage::make_from(bytes, {.arena = &arena, .wait = {.timeout = kit::kPatience}});
  other.join();
  EXPECT_EQ(std::memcmp(storage.bytes().data(), bytes.data(), bytes.size()), 0);
}

TEST_F(Arenas, AWaitIsCancelled) {
  const tenon::Arena arena = tenon::Arena::make({.capacity_nbytes = kMiB});
  const tenon::Storage keep = tenon::Storage::make(kMiB, {.arena = &arena});
  const tenon::Cancel cancel = tenon::Cancel::make();
  std::thread other([&] { cancel.trigger(); });
  kit::thrown_by<tenon::Cancelled>(
      [&] { (void)tenon::Storage::make(1, {.arena = &arena, .wait = {.cancel = &cancel}}); });
  other.join();
}

TEST_F(Arenas, Refused) {
  const auto code = [](const tenon::ArenaOptions& options) {
    return tenon::Arena::try_make(options).code();
  };
  EXPECT_EQ(code({.mode = tenon::Mode::kFrozen}), tenon::Code::kUnsupported);
  EXPECT_EQ(code({.mode = static_cast<tenon::Mode>(3)}), tenon::Code::kInvalidArgument);
  for (const std::uint64_t alignment : {3U, 32U, 8192U})
    EXPECT_EQ(code({.alignment = alignment}), tenon::Code::kInvalidArgument);
  EXPECT_EQ(code({.pages = static_cast<tenon::Pages>(4)}), tenon::Code::kInvalidArgument);
  EXPECT_EQ(code({.capacity_nbytes = UINT64_MAX}), tenon::Code::kInvalidArgument);
  EXPECT_EQ(code({.numa_node = -1}), tenon::Code::kInvalidArgument);
  EXPECT_EQ(code({.numa_node = INT32_MAX}), tenon::Code::kInvalidArgument);
  const tenon::Arena arena = tenon::Arena::make({.capacity_nbytes = kMiB});
  const auto refused = [](const tenon::StorageOptions& options) {
    return tenon::Storage::try_make(1, options).code();
  };
  EXPECT_EQ(refused({.isolated = true, .arena = &arena}), tenon::Code::kInvalidArgument);
  EXPECT_EQ(refused({.private_memory = true, .arena = &arena}), tenon::Code::kInvalidArgument);
  EXPECT_EQ(refused({.mode = tenon::Mode::kFrozen, .arena = &arena}),
            tenon::Code::kInvalidArgument);
}

TEST_F(Arenas, Reserve) {
  tenon::Arena arena = tenon::Arena::make({.capacity_nbytes = 4 * kMiB});
  arena.reserve(kMiB);
  EXPECT_GE(arena.stats().bytes_reserved, kMiB);
  arena.reserve(UINT64_MAX);
  EXPECT_EQ(arena.stats().bytes_free, 4 * kMiB);
  const tenon::Arena ready =
      tenon::Arena::make({.capacity_nbytes = 4 * kMiB, .prefault_nbytes = kMiB});
  while (ready.stats().bytes_reserved < kMiB) std::this_thread::sleep_for(1ms);
}

TEST_F(Arenas, AChildDoesNotAllocateInIt) {
  const tenon::Arena arena = tenon::Arena::make({.capacity_nbytes = kMiB});
  kit::Child child([&] {
    return tenon::Storage::try_make(1, {.arena = &arena}).code() == tenon::Code::kUnsupported;
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
