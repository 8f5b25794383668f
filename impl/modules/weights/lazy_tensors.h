// Makes the tensors of a file when they are first asked for. A program that opens 10,000 weights
// and reads a few of them does not pay for the others. read_safetensors() fills a LazyTensors, and
// Weight::read() asks it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "modules/archive/zip_reader.h"
#include "modules/value/tensor_value.h"
#include "tensor/scalar_type.h"

namespace tenon::weights {

// Each tensor is contiguous, and is a read-only view of a whole record. One thread calls set(), and
// any thread may call get() after that. There is no lock, so a child of fork never waits for a
// thread of its parent.
class LazyTensors final : public Counted {
 public:
  // One tensor for each record of `reader`. None of them is set yet.
  static Ref<LazyTensors> create(Ref<archive::ZipReader> reader) {
    return Ref<LazyTensors>::adopt(new LazyTensors(std::move(reader)));
  }

  // The caller has checked that the elements fill the record, that there is at least one element,
  // and that the address of the record fits the type (ArchiveStorages::can_view()).
  void set(size_t record, tensor::ScalarType type, std::span<const int64_t> sizes);
  bool is_set(size_t record) const noexcept { return shapes_[record].is_set; }

  // The tensor of a record that was set, which is the same one each time. RESOURCE_EXHAUSTED: the
  // machine has no room for pages of the file.
  Result<value::TensorValueRef> get(size_t record) const;

 private:
  struct Shape {
    uint64_t first_size = 0;  // an index of sizes_
    uint32_t dims = 0;
    tensor::ScalarType type = tensor::ScalarType::kByte;
    bool is_set = false;
  };
  explicit LazyTensors(Ref<archive::ZipReader> reader)
      : reader_(std::move(reader)),
        shapes_(reader_->records().size()),
        made_(reader_->records().size()) {}
  ~LazyTensors() override = default;
  void dispose() noexcept override;
  Result<value::TensorValueRef> make(size_t record) const;

  Ref<archive::ZipReader> reader_;
  std::vector<Shape> shapes_;
  std::vector<int64_t> sizes_;  // of all tensors
  // Each pointer that is not null is a reference to the tensor. It never changes after that.
  mutable std::vector<std::atomic<const value::TensorValue*>> made_;
};

}  // namespace tenon::weights
