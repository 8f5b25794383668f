// Work in a stream that ends when a test opens its gate. Each stand_in() needs one open(), and the
// gate must outlive that work. Tests use it so that no result depends on timing.
#pragma once

#include "share_kit.h"

namespace cuda_test {

class Gate {
 public:
  Gate() { EXPECT_EQ(pipe(ends_), 0); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() {
    close(ends_[0]);
    close(ends_[1]);
  }
  void stand_in(CUstream stream) {
    load_code();
    auto* const launch =
        reinterpret_cast<PFN_cuLaunchHostFunc_v10000>(dlsym(library(), "cuLaunchHostFunc"));
    ASSERT_NE(launch, nullptr);
    const auto stay = [](void* self) {
      char byte = 0;
      EXPECT_EQ(read(static_cast<Gate*>(self)->ends_[0], &byte, 1), 1);
    };
    EXPECT_EQ(launch(stream, stay, this), CUDA_SUCCESS);
  }
  void open() { EXPECT_EQ(write(ends_[1], "g", 1), 1); }

 private:
  int ends_[2] = {-1, -1};
};

}  // namespace cuda_test
