// Composite is a tensor that is not one strided view of a storage: a sparse, nested, jagged or
// quantised tensor, which consists of several tensors, its parts, and of the facts that tie them
// together. A tensor on meta, PyTorch's device without memory, is a composite without parts. A
// tenon_composite of the C API is a Composite. It never changes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "tensor/composite_rules.h"
#include "tensor/tensor.h"

namespace tenon::tensor {

// The facts and the parts of a composite. The facts are those of CompositeShape
// (composite_rules.h). The parts are in the order of parts_of().
struct CompositeSpec {
  TensorLayout layout = TensorLayout::kStrided;
  Coalesced coalesced = Coalesced::kUnknown;
  QScheme quantizer = QScheme::kNone;
  uint32_t flags = 0;
  int32_t dim = 0;
  double scale = 0;
  int64_t zero_point = 0;
  uint64_t offset = 0;
  DType dtype;                   // meta
  std::vector<int64_t> sizes;    // sparse and meta
  std::vector<int64_t> strides;  // meta
  std::vector<Ref<Tensor>> parts;
};

class Composite : public Counted {
 public:
  // INVALID_ARGUMENT, with the detail `part` if a part is wrong. UNSUPPORTED for unknown flags. The
  // contents of the index parts are not checked here. check_contents() checks them.
  static Result<Ref<Composite>> create(CompositeSpec spec);

  TensorLayout layout() const noexcept { return spec_.layout; }
  // The spec. Sizes of nested and quantised tensors and the dtype, which follow from the parts, are
  // filled in.
  const CompositeSpec& spec() const noexcept { return spec_; }
  std::span<const Ref<Tensor>> parts() const noexcept { return spec_.parts; }
  // Null if the composite has no such part.
  Tensor* part(Part which) const noexcept;

 private:
  explicit Composite(CompositeSpec spec) : spec_(std::move(spec)) {}
  ~Composite() override = default;
  void dispose() noexcept override { spec_.parts.clear(); }

  CompositeSpec spec_;
};

// Checks the numbers in the parts of `composite` (indices, offsets, component sizes) against its
// sizes. A composite that passes makes no reader reach outside of its parts. CORRUPT, with the
// details `part` and `index`, if a number is wrong. The result is the composite itself, or one with
// copies of the checked parts: a part that some other process could still change, or that is not
// contiguous and aligned, is copied into private memory before the check. The values, the first
// part, are neither checked nor copied. UNSUPPORTED for checked parts on a device. PEER_GONE for a
// dropped one. RESOURCE_EXHAUSTED: no memory for a copy. A composite on meta or a quantised one has
// no such numbers and passes.
Result<Ref<Composite>> check_contents(Composite* composite);

}  // namespace tenon::tensor
