#include "tensor/composite.h"

#include <utility>

namespace tenon::tensor {
namespace {

// Whether the other parts must be on the device of the values. Sizes, strides and offsets of a
// nested tensor's components are in the host's memory, wherever its elements are.
bool must_be_beside_values(TensorLayout layout) noexcept { return layout != TensorLayout::kNested; }

Status check_devices(const CompositeSpec& spec) {
  if (spec.parts.empty()) return Status::ok();
  const std::span<const Part> names = parts_of(spec.layout, spec.quantizer);
  const storage::Device of_values = spec.parts[0]->storage()->device();
  for (size_t i = 1; i < spec.parts.size(); ++i) {
    const storage::Device device = spec.parts[i]->storage()->device();
    const bool beside = device.type == of_values.type && device.id == of_values.id;
    const bool good = must_be_beside_values(spec.layout)
                          ? beside
                          : spec.parts[i]->storage()->device_memory() == nullptr;
    if (good) continue;
    return invalid(format("the %s are on another device than %s", part_name(names[i]),
                          must_be_beside_values(spec.layout) ? "the values" : "the CPU"))
        .with("part", std::string(part_key(names[i])));
  }
  return Status::ok();
}

}  // namespace

Result<Ref<Composite>> Composite::create(CompositeSpec spec) {
  std::array<PartShape, kMaxParts> parts;
  const size_t count = spec.parts.size();
  if (count > kMaxParts) {
    return invalid(format(
        "%zu parts are more than the %zu that a layout can have: pass the parts of the layout only",
        count, kMaxParts));
  }
  for (size_t i = 0; i < count; ++i) {
    if (!spec.parts[i])
      return invalid(
          format("part %zu of a %s tensor is missing", i, tensor_layout_name(spec.layout)));
    parts[i] = {spec.parts[i]->dtype(), spec.parts[i]->sizes(), spec.parts[i]->strides()};
  }
  const CompositeShape shape{spec.layout,     spec.coalesced, spec.quantizer,
                             spec.flags,      spec.dim,       spec.scale,
                             spec.zero_point, spec.offset,    spec.dtype,
                             spec.sizes,      spec.strides,   std::span(parts).first(count)};
  TENON_TRY(check_composite(shape));
  TENON_TRY(check_devices(spec));
  if (!is_sparse(spec.layout) && spec.layout != TensorLayout::kMeta)
    spec.sizes = sizes_from_parts(shape);
  if (count > 0) spec.dtype = spec.parts[0]->dtype();
  return Ref<Composite>::adopt(new Composite(std::move(spec)));
}

Tensor* Composite::part(Part which) const noexcept {
  const std::span<const Part> names = parts_of(spec_.layout, spec_.quantizer);
  for (size_t i = 0; i < spec_.parts.size(); ++i) {
    if (names[i] == which) return spec_.parts[i].get();
  }
  return nullptr;
}

}  // namespace tenon::tensor
