// Sizes that no machine has are refused at once, by an error that names the limit.
#include <array>

#include "process/fault/kit.h"

namespace fault {
namespace {

constexpr std::array<uint64_t, 10> kSizes = {
    uint64_t{1} << 40,          (uint64_t{1} << 40) + 1,
    uint64_t{1} << 47,          (uint64_t{1} << 62) + 12345,
    (uint64_t{1} << 63) - 4096, (uint64_t{1} << 63) - 1,
    uint64_t{1} << 63,          (uint64_t{1} << 63) + 1,
    UINT64_MAX - 4095,          UINT64_MAX};

TEST(Huge, NewInAllModesAndFlags) {
  IN_CHILD([] {
    const Held before = hold();
    unsigned char source = 0;
    tenon_storage* storage = nullptr;
    for (const uint64_t nbytes : kSizes) {
      for (const tenon_mode mode : kModes) {
        for (uint32_t flags = 0; flags < 8; ++flags) {
          tenon_storage_options options = storage_options(mode, flags);
          for (const uint64_t alignment : {uint64_t{0}, uint64_t{4096}}) {
            options.alignment = alignment;
            Outcome outcome = CALL(tenon_storage_new(&options, nbytes, &storage, err));
            CHECK_SAYING(outcome.status == TENON_RESOURCE_EXHAUSTED &&
                             !outcome.detail("limit").empty() &&
                             !outcome.detail("limit_value").empty(),
                         outcome.text());
            outcome = CALL(tenon_storage_new_from(&options, &source, nbytes, &storage, err));
            CHECK_SAYING(outcome.status == TENON_RESOURCE_EXHAUSTED &&
                             !outcome.detail("limit").empty() &&
                             !outcome.detail("limit_value").empty(),
                         outcome.text());
            CHECK(storage == nullptr);
          }
        }
      }
    }
    CHECK_HELD(before);
  });
}

TEST(Huge, RangesAndHandles) {
  IN_CHILD([] {
    const Held before = hold();
    tenon_storage* storage = new_storage(4096, 1);
    std::array<unsigned char, 16> bytes{};
    tenon_fd_handle handle = handle_over(-1, 0);
    REQUIRE_OK(tenon_share_fd(storage, nullptr, &handle, err));
    tenon_storage* opened = nullptr;
    for (const uint64_t huge : kSizes) {
      CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_storage_read(storage, huge, bytes.data(), 1, err));
      CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_storage_read(storage, 1, bytes.data(), huge, err));
      CHECK_STATUS(TENON_INVALID_ARGUMENT,
                   tenon_storage_write(storage, huge, bytes.data(), 1, err));
      CHECK_STATUS(TENON_INVALID_ARGUMENT,
                   tenon_storage_write(storage, 1, bytes.data(), huge, err));
      for (const uint32_t flags :
           {uint32_t{0}, uint32_t{TENON_OPEN_PRIVATE_COW}, uint32_t{TENON_OPEN_PRIVATE_COPY},
            uint32_t{TENON_OPEN_ALLOW_UNSEALED}}) {
        const tenon_open_options options = open_options(flags);
        for (int field = 0; field < 3; ++field) {
          tenon_fd_handle bad = handle;
          (field == 0 ? bad.offset : field == 1 ? bad.nbytes : bad.segment_nbytes) = huge;
          const Outcome outcome = CALL(tenon_open_fd(&bad, &options, &opened, err));
          CHECK_SAYING(outcome.status == TENON_INVALID_ARGUMENT || outcome.status == TENON_CORRUPT,
                       outcome.text());
          bad.segment_nbytes = 0;
          if (field < 2) {
            const Outcome unnamed = CALL(tenon_open_fd(&bad, &options, &opened, err));
            CHECK_SAYING(
                unnamed.status == TENON_INVALID_ARGUMENT || unnamed.status == TENON_CORRUPT,
                unnamed.text());
          }
        }
      }
      const std::array<int64_t, 2> sizes = {static_cast<int64_t>(huge), 3};
      tenon_tensor_spec spec = bytes_spec(sizes.data());
      tenon_tensor* tensor = nullptr;
      CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_tensor_new(storage, &spec, &tensor, err));
      spec.ndim = 2;
      CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_tensor_new(storage, &spec, &tensor, err));
    }
    CHECK(opened == nullptr);
    tenon_fd_handle_close(&handle);
    tenon_storage_release(storage);
    CHECK_HELD(before);
  });
}

}  // namespace
}  // namespace fault
