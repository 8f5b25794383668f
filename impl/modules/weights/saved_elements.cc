#include "modules/weights/saved_elements.h"

#include <algorithm>
#include <string>
#include <vector>

#include "modules/weights/element_copy.h"
#include "os/limits.h"
#include "os/named_file.h"
#include "tensor/layout.h"
#include "tensor/scalar_type.h"

namespace tenon::weights {

using value::StorageValue;
using value::TensorLayout;
using value::TensorValue;

namespace {

constexpr uint64_t kSavedPieceNbytes = uint64_t{1} << 20;

}  // namespace

Status saved_tensor_error(Code code, std::string_view name, const std::string& why) {
  const std::string text(name);
  return Status(code, format("the tensor \"%.200s\" %s", text.c_str(), why.c_str()))
      .with("name", text);
}

Status check_savable(std::string_view name, const TensorValue& tensor) {
  const auto refuse = [&](const std::string& why) {
    return saved_tensor_error(Code::kUnsupported, name, why);
  };
  if (tensor.layout() != TensorLayout::kStrided)
    return refuse("is sparse, and a file of weights has dense tensors only: make it dense first");
  if (tensor.is_conj() || tensor.is_neg())
    return refuse("is conjugated or negated lazily: resolve it first");
  if (tensor.storage()->is_meta()) return refuse("is on meta and has no elements");
  if (tensor.storage()->is_on_device())
    return refuse("is on " + tensor.device() + ": copy it to the CPU first");
  return Status::ok();
}

ElementRange range_of(const TensorValue& tensor) noexcept {
  if (tensor.numel() == 0) return {};
  const uint64_t size = tensor::scalar_type_info(tensor.type()).nbytes;
  const auto begin = reinterpret_cast<uintptr_t>(tensor.storage()->data()) +
                     static_cast<uint64_t>(tensor.offset()) * size;
  uint64_t last = 0;
  for (size_t i = 0; i < tensor.sizes().size(); ++i) {
    last +=
        static_cast<uint64_t>(tensor.sizes()[i] - 1) * static_cast<uint64_t>(tensor.strides()[i]);
  }
  return {begin, begin + (last + 1) * size};
}

Status for_each_piece(ElementRange range, bool is_sealed, const TakePiece& take) {
  // Bytes that another process can cut off are copied by calls that fail, because a load would
  // raise SIGBUS.
  std::vector<std::byte> copied(
      is_sealed ? 0 : std::min<uint64_t>(range.end - range.begin, kSavedPieceNbytes));
  for (uintptr_t at = range.begin; at < range.end;) {
    const uint64_t some = std::min<uint64_t>(range.end - at, kSavedPieceNbytes);
    const auto* data = reinterpret_cast<const std::byte*>(at);
    if (!is_sealed) {
      TENON_TRY(os::copy_from_mapping(data, copied.data(), some));
      data = copied.data();
    }
    TENON_TRY(take({data, some}));
    at += some;
  }
  return Status::ok();
}

Status for_each_piece(const TensorValue& tensor, const TakePiece& take) {
  if (tensor.numel() == 0) return Status::ok();
  const storage::Storage& bytes = *tensor.storage()->bytes();
  TENON_TRY(bytes.check_lender());
  if (tensor.is_contiguous()) return for_each_piece(range_of(tensor), bytes.is_sealed(), take);
  const uint64_t nbytes = tensor.numel() * tensor::scalar_type_info(tensor.type()).nbytes;
  TENON_TRY(os::ask_headroom(nbytes));
  std::vector<std::byte> elements(nbytes);
  value::StridedSpec contiguous;
  contiguous.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  TENON_ASSIGN(contiguous.strides, tensor::contiguous_strides(contiguous.sizes));
  TENON_ASSIGN(contiguous.storage,
               StorageValue::create(tensor.type(), tensor.numel(), nullptr, 0, "meta"));
  TENON_ASSIGN(const value::TensorValueRef target, TensorValue::create(contiguous));
  TENON_TRY(copy_elements(tensor, *target, elements.data()));
  const auto begin = reinterpret_cast<uintptr_t>(elements.data());
  return for_each_piece({begin, begin + nbytes}, true, take);
}

}  // namespace tenon::weights
