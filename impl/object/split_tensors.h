// Reads the tensors of a split pickle, which names its storages by numbers. A tensor is a call of a
// function of tenon.pickle (docs/format/object.md). object_from_pickle() uses this class.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "pickle/nodes.h"
#include "tensor/composite.h"
#include "tensor/tensor.h"

namespace tenon::object {

inline constexpr std::string_view kSplitModule = "tenon.pickle";

// The element type of a tensor that stands for the bytes of a storage.
inline constexpr tensor::DType kByte{1, 8, 1};
// Whether a tensor can stand for the bytes of a storage: its elements are bytes, one after another.
bool is_byte_tensor(const tensor::Tensor& tensor) noexcept;

class SplitTensors {
 public:
  // `tree` and `storages` must outlive this object.
  SplitTensors(const pickle::PickleTree& tree, std::span<const Ref<tensor::Tensor>> storages)
      : tree_(tree), storages_(storages) {}

  // Whether a kReduce node calls one of these functions.
  bool is_known(pickle::NodeId id) const noexcept;
  bool is_composite(pickle::NodeId id) const noexcept;
  // The tensor or composite of a known call. A storage is read as the tensor over all of its
  // elements. CORRUPT and UNSUPPORTED, with the detail `offset`, as from object_from_pickle().
  Result<Ref<tensor::Tensor>> read_tensor(pickle::NodeId id);
  Result<Ref<tensor::Composite>> read_composite(pickle::NodeId id);

 private:
  // The bytes of one storage that came with the pickle.
  struct Bytes {
    Ref<tensor::Storage> storage;
    uint64_t begin = 0;
    uint64_t nbytes = 0;
  };

  Result<Ref<tensor::Tensor>> read_view(pickle::NodeId id,
                                        std::span<const pickle::NodeId> arguments, bool of_torch);
  Result<Ref<tensor::Tensor>> read_whole(pickle::NodeId id,
                                         std::span<const pickle::NodeId> arguments, bool of_torch);
  Result<Ref<tensor::Tensor>> over(pickle::NodeId id, const Bytes& bytes, tensor::Layout layout,
                                   uint32_t flags) const;
  // `tensor` must be a byte tensor (is_byte_tensor()).
  static Bytes bytes_of(const tensor::Tensor& tensor) {
    return {tensor.storage(), tensor.offset_nbytes(), tensor.nbytes()};
  }
  Result<Bytes> find_bytes(pickle::NodeId number, bool of_torch) const;
  Status read_parts(pickle::NodeId id, tensor::CompositeSpec* spec);
  Status unpack_values(pickle::NodeId id, std::span<const pickle::NodeId> arguments,
                       tensor::CompositeSpec* spec);
  Status read_numbers(pickle::NodeId id, tensor::CompositeSpec* spec) const;

  Result<int64_t> integer(pickle::NodeId id, const char* what) const;
  Result<uint64_t> natural(pickle::NodeId id, const char* what) const;
  Result<uint32_t> flags(pickle::NodeId id) const;
  Result<std::string_view> text(pickle::NodeId id, const char* what) const;
  Status read_dims(pickle::NodeId id, const char* what, std::vector<int64_t>* out) const;
  // Sizes and strides must be equally many.
  Status read_shape(pickle::NodeId sizes_id, pickle::NodeId strides_id, std::vector<int64_t>* sizes,
                    std::vector<int64_t>* strides) const;
  Result<tensor::DType> dtype_from_number(pickle::NodeId id) const;
  Result<tensor::DType> dtype_from_name(pickle::NodeId id) const;  // Tenon's name
  Result<tensor::DType> dtype_from_torch(pickle::NodeId id) const;
  Status check_count(pickle::NodeId id, size_t given, size_t wanted) const;
  Status wrong(pickle::NodeId id, const char* what, const char* wanted) const;
  // Adds the place in the pickle to an error of impl/tensor.
  Status placed(pickle::NodeId id, const Status& status) const;

  const pickle::PickleTree& tree_;
  const std::span<const Ref<tensor::Tensor>> storages_;
};

}  // namespace tenon::object
