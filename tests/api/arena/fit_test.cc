// These tests check which storages fit into an arena, to the last byte and for all sizes of arena
// and storage.
#include "process/lease/agent.h"
#include "support/sized.h"

namespace leases {
namespace {

// Only the alignment costs space. A storage as large as its arena fits, and so do as many storages
// as the sizes allow.
TEST(Fit, WhatFitsIsFound) {
  IN_CHILD([] {
    for (const uint64_t capacity : {uint64_t{4096}, kMiB, 25 * kMiB, 25 * kMiB + 4096}) {
      const Arena arena(capacity);
      for (uint64_t round = 0; round < 3; ++round) {
        tenon_storage* all = new_in(arena, capacity - round, 1);
        CHECK_FULL(arena, 64);
        tenon_storage_release(all);
        // Four smaller storages fit, and then the large one again.
        std::vector<tenon_storage*> parts;
        for (int i = 0; i < 4; ++i) parts.push_back(new_in(arena, capacity / 4, 2));
        for (tenon_storage* each : parts) tenon_storage_release(each);
      }
    }
    for (const uint64_t nbytes : {uint64_t{1025}, uint64_t{65'537}, uint64_t{100'000}}) {
      const uint64_t block = (nbytes + 63) / 64 * 64;
      const Arena arena(64 * block);
      std::vector<tenon_storage*> all;
      for (uint64_t i = 0; i < 64; ++i) all.push_back(new_in(arena, nbytes, i));
      CHECK_EQ(stats(arena).bytes_live, 64 * block);
      // The error of a full arena counts the bytes that were lent without a lease.
      auto handle = tenon::test::sized<tenon_fd_handle>();
      REQUIRE_OK(tenon_share_fd(all.back(), nullptr, &handle, err));
      tenon_fd_handle_close(&handle);
      tenon_storage_release(all.back());
      all.pop_back();
      const Outcome full = CHECK_FULL(arena, nbytes);
      CHECK_EQ(std::stoull(full.detail("retired")), block);
      CHECK_SAYING(full.message.find(std::to_string(block) + " are retired") != std::string::npos,
                   full.text());
      for (tenon_storage* each : all) tenon_storage_release(each);
    }
  });
}

}  // namespace
}  // namespace leases
