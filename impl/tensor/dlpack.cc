#include "tensor/dlpack.h"

#include <dlpack/dlpack.h>

#include <algorithm>
#include <memory>

#include "base/checked.h"
#include "device/by_cuda.h"
#include "share/storage_at.h"

namespace tenon::tensor {
namespace {

constexpr uint64_t kReadOnly = 1;       // DLPACK_FLAG_BITMASK_READ_ONLY
constexpr uint64_t kSubBytePadded = 4;  // DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED

template <typename Managed>
void call_deleter(void* context) {
  auto* managed = static_cast<Managed*>(context);
  if (managed->deleter != nullptr) managed->deleter(managed);
}

// Finds the lowest and the highest element of the tensor, relative to its data pointer.
Status find_extent(std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t* low,
                   int64_t* high) {
  *low = 0;
  *high = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t step = 0;
    if (!checked_mul(sizes[i] - 1, strides[i], &step) ||
        !checked_add(step < 0 ? *low : *high, step, step < 0 ? low : high)) {
      return Status(Code::kInvalidArgument, "the sizes and strides of the DLPack tensor overflow");
    }
  }
  return Status::ok();
}

Result<Ref<Tensor>> take(const DLTensor& from, bool read_only, void (*release)(void*),
                         void* context) {
  const bool on_cuda = from.device.device_type == kDLCUDA;
  // Pinned memory belongs to the host. PyTorch gives every pinned CPU tensor this device type.
  if (from.device.device_type != kDLCPU && from.device.device_type != kDLCUDAHost && !on_cuda) {
    return Status(Code::kUnsupported,
                  format("the DLPack tensor is on device type %d, and only the CPU (1), CUDA (2) "
                         "and CUDA's pinned memory of the host (3) are "
                         "supported",
                         static_cast<int>(from.device.device_type)));
  }
  const auto wrap = [&](void* data, uint64_t nbytes, void (*then)(void*),
                        void* with) -> Result<Ref<Storage>> {
    if (on_cuda)
      return device::wrap_cuda(static_cast<std::byte*>(data), nbytes, from.device.device_id, then,
                               with, read_only);
    storage::StorageOptions options;
    options.read_only = read_only;
    return Storage::wrap(data, nbytes, then, with, options);
  };
  if (from.ndim < 0 || from.ndim > kMaxNdim)
    return Status(
        Code::kInvalidArgument,
        format("the DLPack tensor has %d dimensions, 0 to %d are possible", from.ndim, kMaxNdim));
  if (from.ndim > 0 && from.shape == nullptr)
    return Status(Code::kInvalidArgument, "the DLPack tensor has no shape");
  if (from.dtype.code == kDLOpaqueHandle)
    return Status(Code::kUnsupported, "the elements of the DLPack tensor are opaque handles");
  const DType dtype{from.dtype.code, from.dtype.bits, from.dtype.lanes};
  TENON_TRY(check_dtype(dtype));
  const std::span<const int64_t> sizes(from.shape, static_cast<size_t>(from.ndim));
  for (const int64_t size : sizes) {
    if (size < 0) return Status(Code::kInvalidArgument, "the DLPack tensor has a negative size");
  }
  std::vector<int64_t> packed;
  if (from.strides == nullptr) {
    TENON_ASSIGN(packed, contiguous_strides(sizes));
  }
  const std::span<const int64_t> strides =
      from.strides == nullptr ? std::span<const int64_t>(packed)
                              : std::span<const int64_t>(from.strides, sizes.size());
  Layout layout{dtype, sizes, strides, 0};
  const bool empty =
      std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size == 0; });
  if (empty) {
    TENON_ASSIGN(Ref<Storage> storage, wrap(nullptr, 0, nullptr, nullptr));
    TENON_ASSIGN(Ref<Tensor> tensor, Tensor::create(std::move(storage), layout, 0));
    // Nobody will read these bytes, so the producer gets its tensor back now.
    release(context);
    return tensor;
  }
  if (from.data == nullptr)
    return Status(Code::kInvalidArgument, "the DLPack tensor has elements and no data");
  int64_t low = 0;
  int64_t high = 0;
  TENON_TRY(find_extent(sizes, strides, &low, &high));
  const auto bits = static_cast<int64_t>(dtype.element_bits());
  int64_t count = 0;
  int64_t total_bits = 0;
  if (low == INT64_MIN || !checked_add(high, int64_t{1}, &count) ||
      !checked_add(count, -low, &count) || !checked_mul(count, bits, &total_bits)) {
    return Status(Code::kInvalidArgument, "the sizes and strides of the DLPack tensor overflow");
  }
  // The storage begins at the lowest element. With a negative stride that lies before the data
  // pointer.
  const int64_t shift_bits = -low * bits;
  if (shift_bits % 8 != 0)
    return Status(Code::kUnsupported, "elements under 8 bits must be contiguous");
  layout.offset = static_cast<uint64_t>(-low);
  const auto nbytes = static_cast<uint64_t>((total_bits + 7) / 8);
  uint64_t begin = 0;
  uint64_t end = 0;
  const auto shift = static_cast<uint64_t>(shift_bits / 8);
  if (!checked_add(uint64_t{reinterpret_cast<uintptr_t>(from.data)}, from.byte_offset, &begin) ||
      begin < shift || !checked_add(begin - shift, nbytes, &end)) {
    return Status(Code::kInvalidArgument,
                  "data and byte_offset of the DLPack tensor leave the address space");
  }
  auto* first = static_cast<std::byte*>(from.data) + from.byte_offset - shift;
  TENON_TRY(check_layout(layout, nbytes));
  // If a step fails, the caller must still own the context. So wrap() first gets a claim without a
  // release function, and `release` is added when nothing can fail any more.
  auto claim = std::make_unique<std::pair<void (*)(void*), void*>>(nullptr, context);
  auto* raw = claim.get();
  TENON_ASSIGN(Ref<Storage> storage,
               wrap(
                   first, nbytes,
                   [](void* it) {
                     const std::unique_ptr<std::pair<void (*)(void*), void*>> owned(
                         static_cast<std::pair<void (*)(void*), void*>*>(it));
                     if (owned->first != nullptr) owned->first(owned->second);
                   },
                   raw));
  (void)claim.release();
  Ref<Tensor> tensor = Tensor::create_checked(std::move(storage), layout, 0);
  raw->first = release;
  return tensor;
}

// A managed tensor that Tenon exports, with the objects to which it points.
template <typename Managed>
struct Export {
  Managed managed{};
  Ref<Tensor> tensor;
  std::vector<int64_t> dims;
};

template <typename Managed>
Result<Managed*> give(const Ref<Tensor>& tensor, Export<Managed>** out) {
  TENON_TRY(tensor->storage()->check_lender());
  share::remember_address(tensor->storage().get());
  if ((tensor->flags() & (kFlagConj | kFlagNeg)) != 0) {
    return Status(Code::kUnsupported,
                  "DLPack has no conjugate and no negative bit: resolve the tensor first");
  }
  auto exported = std::make_unique<Export<Managed>>();
  exported->tensor = tensor;
  const auto sizes = tensor->sizes();
  const auto strides = tensor->strides();
  exported->dims.assign(sizes.begin(), sizes.end());
  exported->dims.insert(exported->dims.end(), strides.begin(), strides.end());
  DLTensor& to = exported->managed.dl_tensor;
  // The pointer includes the offset, because many consumers ignore byte_offset.
  to.data = const_cast<std::byte*>(tensor->data());
  to.byte_offset = 0;
  to.device = {static_cast<DLDeviceType>(tensor->storage()->device().type),
               tensor->storage()->device().id};
  to.ndim = static_cast<int32_t>(sizes.size());
  to.dtype = {tensor->dtype().code, tensor->dtype().bits, tensor->dtype().lanes};
  to.shape = exported->dims.data();
  to.strides = exported->dims.data() + sizes.size();
  exported->managed.manager_ctx = exported.get();
  exported->managed.deleter = [](Managed* self) {
    delete static_cast<Export<Managed>*>(self->manager_ctx);
  };
  *out = exported.release();
  return &(*out)->managed;
}

}  // namespace

Result<Ref<Tensor>> from_dlpack(DLManagedTensorVersioned* managed) {
  if (managed->version.major != DLPACK_MAJOR_VERSION) {
    return Status(Code::kIncompatible,
                  format("DLPack version %u.%u came, and %d.x is read", managed->version.major,
                         managed->version.minor, DLPACK_MAJOR_VERSION));
  }
  if ((managed->flags & kSubBytePadded) != 0 && managed->dl_tensor.dtype.bits < 8) {
    return Status(Code::kUnsupported, "elements under 8 bits that are padded to a byte each");
  }
  return take(managed->dl_tensor, (managed->flags & kReadOnly) != 0,
              &call_deleter<DLManagedTensorVersioned>, managed);
}

Result<Ref<Tensor>> from_dlpack(DLManagedTensor* managed) {
  return take(managed->dl_tensor, false, &call_deleter<DLManagedTensor>, managed);
}

Result<DLManagedTensorVersioned*> to_dlpack(const Ref<Tensor>& tensor) {
  Export<DLManagedTensorVersioned>* exported = nullptr;
  TENON_ASSIGN(DLManagedTensorVersioned * managed, give(tensor, &exported));
  managed->version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  managed->flags = tensor->storage()->is_read_only() ? kReadOnly : 0;
  return managed;
}

Result<DLManagedTensor*> to_dlpack_legacy(const Ref<Tensor>& tensor) {
  if (tensor->storage()->is_read_only()) {
    return Status(Code::kPermission,
                  "the tensor is read-only, which DLPack without a version cannot say: its "
                  "consumer would be killed at the first write; "
                  "use DLPack with a version (tenon_tensor_to_dlpack)")
        .with("option", std::string("tenon_tensor_to_dlpack"));
  }
  Export<DLManagedTensor>* exported = nullptr;
  return give(tensor, &exported);
}

}  // namespace tenon::tensor
