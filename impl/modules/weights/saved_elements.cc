#include "modules/weights/saved_elements.h"

#include <algorithm>
#include <string>
#include <vector>

#include "modules/weights/element_copy.h"
#include "os/limits.h"
#include "tensor/layout.h"
#include "tensor/scalar_type.h"

namespace tenon::weights {

using value::StorageValue;
using value::TensorLayout;
using value::TensorValue;

namespace {

constexpr uint64_t kSavedPieceNbytes = uint64_t{1} << 20;

Status bytes_in_pieces(const storage::Storage& bytes, uint64_t offset, uint64_t nbytes,
                       const TakePiece& take) {
  TENON_TRY(bytes.check_lender());
  // Bytes that another process can cut off are copied by calls that fail, because a load would
  // raise SIGBUS.
  std::vector<std::byte> copied(bytes.is_sealed() ? 0 : std::min(nbytes, kSavedPieceNbytes));
  while (nbytes > 0) {
    const uint64_t some = std::min(nbytes, kSavedPieceNbytes);
    std::span<const std::byte> piece;
    if (bytes.is_sealed()) {
      piece = {bytes.data() + offset, some};
    } else {
      TENON_TRY(bytes.read(offset, copied.data(), some));
      piece = std::span(copied).first(some);
    }
    TENON_TRY(take(piece));
    offset += some;
    nbytes -= some;
  }
  return Status::ok();
}

}  // namespace

Status check_savable(std::string_view name, const TensorValue& tensor) {
  const auto refuse = [&](const std::string& why) {
    return Status(Code::kUnsupported,
                  format("the tensor \"%.200s\" %s", std::string(name).c_str(), why.c_str()))
        .with("name", std::string(name));
  };
  if (tensor.layout() != TensorLayout::kStrided || tensor.quantizer())
    return refuse("is sparse or quantised, and a file of weights has plain elements only");
  if (tensor.is_conj() || tensor.is_neg())
    return refuse("is conjugated or negated lazily: resolve it first");
  if (tensor.storage()->is_meta()) return refuse("is on meta and has no elements");
  if (tensor.storage()->is_on_device())
    return refuse("is on " + tensor.device() + ": copy it to the CPU first");
  return Status::ok();
}

Status for_each_piece(const TensorValue& tensor, const TakePiece& take) {
  const uint64_t size = tensor::scalar_type_info(tensor.type()).nbytes;
  const uint64_t nbytes = tensor.numel() * size;
  if (nbytes == 0) return Status::ok();
  const StorageValue& storage = *tensor.storage();
  if (tensor.is_contiguous()) {
    return bytes_in_pieces(*storage.bytes(),
                           storage.byte_offset() + static_cast<uint64_t>(tensor.offset()) * size,
                           nbytes, take);
  }
  TENON_TRY(os::ask_headroom(nbytes));
  std::vector<std::byte> elements(nbytes);
  value::StridedSpec contiguous;
  contiguous.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  TENON_ASSIGN(contiguous.strides, tensor::contiguous_strides(contiguous.sizes));
  TENON_ASSIGN(contiguous.storage,
               StorageValue::create(tensor.type(), tensor.numel(), nullptr, 0, "meta"));
  TENON_ASSIGN(const value::TensorValueRef target, TensorValue::create(contiguous));
  TENON_TRY(copy_elements(tensor, *target, elements.data()));
  for (std::span<const std::byte> left = elements; !left.empty();) {
    const auto piece = left.first(std::min<uint64_t>(left.size(), kSavedPieceNbytes));
    TENON_TRY(take(piece));
    left = left.subspan(piece.size());
  }
  return Status::ok();
}

Status for_each_piece(const StorageValue& storage, const TakePiece& take) {
  if (storage.nbytes() == 0) return Status::ok();
  return bytes_in_pieces(*storage.bytes(), storage.byte_offset(), storage.nbytes(), take);
}

}  // namespace tenon::weights
