// Tests of DLPack in both directions, and of who calls the deleter and when.
#include <dlpack/dlpack.h>

#include "kit.h"

namespace {

using Dlpack = kit::Leaves;

struct Producer {
  float values[4] = {1, 2, 3, 4};
  std::int64_t sizes[1] = {4};
  int deleted = 0;

  template <class Managed>
  tenon::DlpackPtr<Managed> make(DLDeviceType device = kDLCPU) {
    auto* managed = new Managed{};
    managed->dl_tensor.data = values;
    managed->dl_tensor.device = {device, 0};
    managed->dl_tensor.ndim = 1;
    managed->dl_tensor.dtype = {kDLFloat, 32, 1};
    managed->dl_tensor.shape = sizes;
    managed->manager_ctx = this;
    managed->deleter = [](Managed* self) {
      ++static_cast<Producer*>(self->manager_ctx)->deleted;
      delete self;
    };
    if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>)
      managed->version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    return tenon::DlpackPtr<Managed>(managed);
  }
};

template <class Managed>
void in_and_out() {
  Producer producer;
  auto managed = producer.make<Managed>();
  {
    tenon::Tensor tensor = tenon::from_dlpack(std::move(managed));
    EXPECT_EQ(managed.get(), nullptr);  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(tensor.view<float>().data(), producer.values);
    EXPECT_FALSE(tensor.storage().is_shared());
    auto out = tenon::to_dlpack<Managed>(tensor);
    tensor.close();
    EXPECT_EQ(out->dl_tensor.data, producer.values);
    EXPECT_EQ(producer.deleted, 0);
  }
  EXPECT_EQ(producer.deleted, 1);

  auto elsewhere = producer.make<Managed>(kDLCUDA);
  kit::thrown_by<tenon::Unsupported>([&] { (void)tenon::from_dlpack(std::move(elsewhere)); });
  EXPECT_NE(elsewhere.get(), nullptr);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(producer.deleted, 1);
  elsewhere.reset();
  EXPECT_EQ(producer.deleted, 2);
}

TEST_F(Dlpack, Versioned) { in_and_out<DLManagedTensorVersioned>(); }
TEST_F(Dlpack, Legacy) { in_and_out<DLManagedTensor>(); }

TEST_F(Dlpack, ReadOnly) {
  const std::vector<float> values{1, 2};
  const tenon::Tensor frozen =
      tenon::Tensor::make_from<float>(values, {2}, {.mode = tenon::Mode::kFrozen});
  auto managed = tenon::to_dlpack(frozen);
  EXPECT_NE(managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY, 0U);
  tenon::Tensor back = tenon::from_dlpack(std::move(managed));
  EXPECT_TRUE(back.is_read_only());
  kit::thrown_by<tenon::PermissionDenied>([&] { (void)back.view_mut<float>(); });
  kit::thrown_by<tenon::PermissionDenied>([&] { (void)tenon::to_dlpack<DLManagedTensor>(frozen); });
}

TEST_F(Dlpack, AnotherMajorVersion) {
  Producer producer;
  auto managed = producer.make<DLManagedTensorVersioned>();
  managed->version.major = 99;
  kit::thrown_by<tenon::Incompatible>([&] { (void)tenon::from_dlpack(managed.get()); });
  EXPECT_EQ(producer.deleted, 0);
}

}  // namespace
