// Composite: a tensor that is no single strided view of a storage, but parts that are, and what
// ties them together. A tenon_composite is one of these; it never changes.
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

// What a composite is made of. Its parts are in the order of parts_of().
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
  // INVALID_ARGUMENT, with the detail `part` where a part is to blame. What the indices say is not
  // looked at: check_contents() does that.
  static Result<Ref<Composite>> create(CompositeSpec spec);

  TensorLayout layout() const noexcept { return spec_.layout; }
  // The spec with everything filled in that follows from the parts: sizes of what is nested or
  // quantised, and the dtype.
  const CompositeSpec& spec() const noexcept { return spec_; }
  std::span<const Ref<Tensor>> parts() const noexcept { return spec_.parts; }
  // Null: it has no such part.
  Tensor* part(Part which) const noexcept;

 private:
  explicit Composite(CompositeSpec spec) : spec_(std::move(spec)) {}
  ~Composite() override = default;
  void dispose() noexcept override { spec_.parts.clear(); }

  CompositeSpec spec_;
};

// Holds the numbers in the parts of `composite` (indices, offsets, component sizes) against its
// sizes: what passes makes no reader reach outside of its parts. CORRUPT, with the detail `part`,
// for what does not. The answer is the composite itself, or one that differs in the parts that were
// looked at: what some other process could still change is copied into private memory first.
// UNSUPPORTED on a device.
Result<Ref<Composite>> check_contents(Composite* composite);

}  // namespace tenon::tensor
