// tenon/composite.h: composite tensors, and composites in messages (impl/tensor/composite.h).
#include <tenon/composite.h>

#include <array>
#include <span>
#include <utility>

#include "boundary.h"
#include "by_fd.h"
#include "handles.h"
#include "tensor/layout.h"

using namespace tenon::capi;
using tenon::Code;
using tenon::Ref;
using tenon::Result;
using tenon::Status;
using tenon::tensor::Coalesced;
using tenon::tensor::Composite;
using tenon::tensor::CompositeSpec;
using tenon::tensor::Message;
using tenon::tensor::Part;
using tenon::tensor::QScheme;
using tenon::tensor::Tensor;
using tenon::tensor::TensorLayout;

static_assert(static_cast<int>(TensorLayout::kSparseCsc) == TENON_TENSOR_LAYOUT_SPARSE_CSC &&
              static_cast<int>(TensorLayout::kSparseBsc) == TENON_TENSOR_LAYOUT_SPARSE_BSC &&
              static_cast<int>(TensorLayout::kJagged) == TENON_TENSOR_LAYOUT_JAGGED &&
              static_cast<int>(TensorLayout::kQuantized) == TENON_TENSOR_LAYOUT_QUANTIZED);
static_assert(static_cast<int>(QScheme::kPerTensorAffine) == TENON_QUANTIZER_PER_TENSOR_AFFINE &&
              static_cast<int>(QScheme::kPerChannelAffineFloatQParams) ==
                  TENON_QUANTIZER_PER_CHANNEL_AFFINE_FLOAT_QPARAMS);
static_assert(static_cast<int>(Coalesced::kYes) == TENON_COALESCED_YES);

namespace {

struct PartField {
  Part part;
  tenon_tensor* tenon_composite_spec::* field;
};
constexpr std::array kPartFields = {
    PartField{Part::kValues, &tenon_composite_spec::values},
    PartField{Part::kIndices, &tenon_composite_spec::indices},
    PartField{Part::kPlainIndices, &tenon_composite_spec::plain_indices},
    PartField{Part::kOffsets, &tenon_composite_spec::offsets},
    PartField{Part::kLengths, &tenon_composite_spec::lengths},
    PartField{Part::kComponentSizes, &tenon_composite_spec::component_sizes},
    PartField{Part::kComponentStrides, &tenon_composite_spec::component_strides},
    PartField{Part::kScales, &tenon_composite_spec::scales},
    PartField{Part::kZeroPoints, &tenon_composite_spec::zero_points},
};

tenon_tensor* field_of(const tenon_composite_spec& spec, Part part) noexcept {
  return spec.*std::ranges::find(kPartFields, part, &PartField::part)->field;
}

// Checks that the numbers of a spec are valid for the core's enums.
Status check_numbers(const tenon_composite_spec& spec) {
  if (spec.layout < 0 || spec.layout > UINT8_MAX ||
      tenon::tensor::tensor_layout_name(static_cast<TensorLayout>(spec.layout)) == nullptr) {
    return tenon::invalid(tenon::format("there is no layout %d", spec.layout));
  }
  if (spec.layout == TENON_TENSOR_LAYOUT_QUANTIZED && spec.quantizer == TENON_QUANTIZER_NONE) {
    return tenon::invalid("a quantised tensor without a quantizer");
  }
  if (spec.quantizer < 0 || spec.quantizer > TENON_QUANTIZER_PER_CHANNEL_AFFINE_FLOAT_QPARAMS) {
    return tenon::invalid(tenon::format("there is no quantizer %d", spec.quantizer));
  }
  if (spec.coalesced < 0 || spec.coalesced > TENON_COALESCED_YES)
    return tenon::invalid(tenon::format("coalesced is %d", spec.coalesced));
  TENON_TRY(check_argument(spec.ndim >= 0 && spec.ndim <= TENON_TENSOR_MAX_NDIM,
                           "ndim is not from 0 to 64"));
  TENON_TRY(check_argument(spec.axis == 0 || spec.layout == TENON_TENSOR_LAYOUT_QUANTIZED,
                           "axis is set, and the tensor is not quantised"));
  return check_argument(spec.ragged_dim == 0 || spec.layout == TENON_TENSOR_LAYOUT_JAGGED,
                        "ragged_dim is set, and the tensor is not jagged");
}

Status take_parts(const tenon_composite_spec& from, CompositeSpec* to) {
  const std::span<const Part> parts = tenon::tensor::parts_of(to->layout, to->quantizer);
  for (const PartField& row : kPartFields) {
    const bool has_part = std::ranges::find(parts, row.part) != parts.end();
    if (from.*row.field == nullptr || has_part) continue;
    return tenon::invalid(tenon::format("a %s tensor has no %s",
                                        tenon::tensor::tensor_layout_name(to->layout),
                                        tenon::tensor::part_name(row.part)))
        .with("part", std::string(tenon::tensor::part_key(row.part)));
  }
  for (const Part part : parts) {
    tenon_tensor* const given = field_of(from, part);
    if (given == nullptr && part == Part::kLengths) continue;
    if (given == nullptr) {
      return tenon::invalid(tenon::format("a %s tensor without %s",
                                          tenon::tensor::tensor_layout_name(to->layout),
                                          tenon::tensor::part_name(part)))
          .with("part", std::string(tenon::tensor::part_key(part)));
    }
    to->parts.push_back(Ref<Tensor>::share(object(given)));
  }
  return Status::ok();
}

Result<CompositeSpec> core_spec(const tenon_composite_spec& from) {
  TENON_TRY(check_numbers(from));
  CompositeSpec to;
  to.layout = static_cast<TensorLayout>(from.layout);
  to.coalesced = static_cast<Coalesced>(from.coalesced);
  to.quantizer = static_cast<QScheme>(from.quantizer);
  to.flags = from.flags;
  to.dim = to.layout == TensorLayout::kJagged ? from.ragged_dim : from.axis;
  to.scale = from.scale;
  to.zero_point = from.zero_point;
  to.offset = from.offset;
  const bool meta = to.layout == TensorLayout::kMeta;
  const auto ndim = static_cast<size_t>(from.ndim);
  if (meta || tenon::tensor::is_sparse(to.layout)) {
    TENON_TRY(check_argument(ndim == 0 || from.sizes != nullptr, "sizes is NULL"));
    to.sizes.assign(from.sizes, from.sizes + ndim);
  }
  if (meta) {
    to.dtype = {from.dtype.code, from.dtype.bits, from.dtype.lanes};
    if (from.strides == nullptr) {
      TENON_ASSIGN(to.strides, tenon::tensor::contiguous_strides(to.sizes));
    } else {
      to.strides.assign(from.strides, from.strides + ndim);
    }
  } else if (from.strides != nullptr) {
    return tenon::invalid("only a meta tensor has strides of its own");
  }
  TENON_TRY(take_parts(from, &to));
  return to;
}

tenon_composite_spec public_spec(const Composite& composite) noexcept {
  const CompositeSpec& from = composite.spec();
  tenon_composite_spec to{};
  to.layout = static_cast<int32_t>(from.layout);
  to.ndim = static_cast<int32_t>(from.sizes.size());
  to.sizes = from.sizes.empty() ? nullptr : from.sizes.data();
  to.strides = from.strides.empty() ? nullptr : from.strides.data();
  to.offset = from.offset;
  to.dtype = {from.dtype.code, from.dtype.bits, from.dtype.lanes};
  to.flags = from.flags;
  for (const PartField& row : kPartFields)
    to.*row.field = handle<tenon_tensor>(composite.part(row.part));
  to.scale = from.scale;
  to.zero_point = from.zero_point;
  (from.layout == TensorLayout::kJagged ? to.ragged_dim : to.axis) = from.dim;
  to.quantizer = static_cast<int32_t>(from.quantizer);
  to.coalesced = static_cast<int32_t>(from.coalesced);
  return to;
}

const Message::CompositeItem* item_at(const tenon_message* message, size_t index) noexcept {
  return index < tenon_message_composite_count(message) ? &object(message)->composites()[index]
                                                        : nullptr;
}

}  // namespace

extern "C" {

tenon_status tenon_composite_new(const tenon_composite_spec* spec, tenon_composite** out,
                                 tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(spec != nullptr, "spec is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    tenon_composite_spec given{};
    TENON_TRY(read_struct(spec, "tenon_composite_spec", &given));
    TENON_ASSIGN(CompositeSpec core, core_spec(given));
    TENON_ASSIGN(Ref<Composite> composite, Composite::create(std::move(core)));
    *out = handle<tenon_composite>(composite.detach());
    return Status::ok();
  });
}

tenon_composite* tenon_composite_retain(tenon_composite* composite) noexcept {
  if (composite != nullptr) object(composite)->retain();
  return composite;
}

void tenon_composite_release(tenon_composite* composite) noexcept {
  if (composite != nullptr) object(composite)->release();
}

tenon_status tenon_composite_get_spec(const tenon_composite* composite, tenon_composite_spec* out,
                                      tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(composite != nullptr, "composite is NULL"));
    TENON_TRY(check_output(out, "tenon_composite_spec"));
    write_struct(out, public_spec(*object(composite)));
    return Status::ok();
  });
}

tenon_status tenon_composite_check(tenon_composite* composite, tenon_composite** out,
                                   tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(composite != nullptr, "composite is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(Ref<Composite> checked, tenon::tensor::check_contents(object(composite)));
    *out = handle<tenon_composite>(checked.detach());
    return Status::ok();
  });
}

tenon_status tenon_message_add_composites(tenon_message* message,
                                          tenon_composite* const* composites,
                                          const char* const* names, size_t n,
                                          const tenon_share_options* options,
                                          tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(message != nullptr, "message is NULL"));
    TENON_TRY(check_argument(composites != nullptr || n == 0, "composites is NULL"));
    TENON_TRY(check_argument(n <= SIZE_MAX / sizeof(void*) / 256, "n is larger than memory"));
    TENON_ASSIGN(const tenon::memory::Access access, read_share_options(options));
    return object(message)->add({reinterpret_cast<Composite* const*>(composites), n}, names,
                                access);
  });
}

size_t tenon_message_composite_count(const tenon_message* message) noexcept {
  return message == nullptr ? 0 : object(message)->composites().size();
}

tenon_composite* tenon_message_composite(const tenon_message* message, size_t index) noexcept {
  const Message::CompositeItem* const item = item_at(message, index);
  return item == nullptr ? nullptr : handle<tenon_composite>(item->composite.get());
}

size_t tenon_message_composite_parts(const tenon_message* message, size_t index,
                                     size_t* n_parts) noexcept {
  const Message::CompositeItem* const item = item_at(message, index);
  if (n_parts != nullptr) *n_parts = item == nullptr ? 0 : item->composite->parts().size();
  return item == nullptr ? tenon_message_count(message) : item->first_part;
}

const char* tenon_message_composite_name(const tenon_message* message, size_t index) noexcept {
  const Message::CompositeItem* const item = item_at(message, index);
  const std::string* const name = item == nullptr ? nullptr : object(message)->name_of(*item);
  return name == nullptr ? nullptr : name->c_str();
}

tenon_composite* tenon_message_find_composite(const tenon_message* message,
                                              const char* name) noexcept {
  if (message == nullptr || name == nullptr) return nullptr;
  const Message::CompositeItem* const found = object(message)->find_composite(name);
  return found == nullptr ? nullptr : handle<tenon_composite>(found->composite.get());
}
}
