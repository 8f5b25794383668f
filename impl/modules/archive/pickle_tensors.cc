#include "modules/archive/pickle_tensors.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"

namespace tenon::archive {
namespace {

using tensor::ScalarType;
using value::StorageValueRef;
using value::TensorValueRef;

// A call that wraps a tensor can wrap another such call, as for a Parameter of a subclass. No
// pickler writes more levels than these.
constexpr int kMaxWrappings = 4;

// A copy of a strided or sparse tensor that differs only in requires_grad.
Result<TensorValueRef> with_requires_grad(const TensorValueRef& tensor, bool requires_grad) {
  if (tensor->requires_grad() == requires_grad) return tensor;
  if (tensor->layout() != value::TensorLayout::kStrided) {
    value::SparseSpec spec;
    spec.layout = tensor->layout();
    spec.sizes.assign(tensor->sizes().begin(), tensor->sizes().end());
    spec.requires_grad = requires_grad;
    spec.indices = tensor->indices();
    spec.plain_indices = tensor->plain_indices();
    spec.values = tensor->values();
    spec.is_coalesced = tensor->is_coalesced();
    return value::TensorValue::create_sparse(spec);
  }
  value::StridedSpec spec;
  spec.storage = tensor->storage();
  spec.sizes.assign(tensor->sizes().begin(), tensor->sizes().end());
  spec.strides.assign(tensor->strides().begin(), tensor->strides().end());
  spec.offset = tensor->offset();
  spec.requires_grad = requires_grad;
  spec.is_conj = tensor->is_conj();
  spec.is_neg = tensor->is_neg();
  spec.quantizer = tensor->quantizer();
  return value::TensorValue::create(spec);
}

// Gives the number of elements that a storage needs for these sizes and strides. False if a number
// is negative, or if the result overflows.
bool reach_of(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
              uint64_t* out) {
  uint64_t last = 0;
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) {
    *out = 0;
    return true;
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    uint64_t step = 0;
    if (sizes[i] < 0 || strides[i] < 0) return false;
    if (!checked_mul(static_cast<uint64_t>(sizes[i]) - 1, static_cast<uint64_t>(strides[i]), &step))
      return false;
    if (!checked_add(last, step, &last)) return false;
  }
  return checked_add(last, uint64_t{1}, out);
}

}  // namespace

PickledTensors::Form PickledTensors::form_of(std::string_view module,
                                             std::string_view name) noexcept {
  if (module == "torch._tensor" && name == "_rebuild_from_type_v2") return Form::kFromType;
  if (module != "torch._utils") return Form::kNone;
  if (name == "_rebuild_tensor_v2") return Form::kV2;
  if (name == "_rebuild_tensor") return Form::kV1;
  if (name == "_rebuild_tensor_v3") return Form::kV3;
  if (name == "_rebuild_qtensor") return Form::kQuantised;
  if (name == "_rebuild_sparse_tensor" || name == "_rebuild_sparse_csr_tensor")
    return Form::kSparse;
  if (name == "_rebuild_meta_tensor_no_storage") return Form::kMeta;
  if (name == "_rebuild_parameter" || name == "_rebuild_parameter_with_state")
    return Form::kParameter;
  return Form::kNone;
}

PickledTensors::Form PickledTensors::form(pickle::NodeId id) const noexcept {
  if (tree_.kind(id) != pickle::NodeKind::kReduce) return Form::kNone;
  const pickle::NodeId callable = tree_.callable(id);
  if (callable != checked_.callable) {
    checked_.form = form_of(tree_.module(callable), tree_.name(callable));
    checked_.callable = callable;
  }
  return checked_.form;
}

bool PickledTensors::is_tensor(pickle::NodeId id) const noexcept {
  if (form(id) != Form::kNone) return true;
  if (tree_.kind(id) != pickle::NodeKind::kReduce) return false;
  const std::string_view module = tree_.module(tree_.callable(id));
  return module == "torch._utils" || module == "torch._tensor";
}

bool PickledTensors::is_parameter(pickle::NodeId id) const noexcept {
  if (form(id) == Form::kParameter) return true;
  const std::span<const pickle::NodeId> arguments = form(id) == Form::kFromType
                                                        ? pickle::call_arguments(tree_, id)
                                                        : std::span<const pickle::NodeId>();
  return arguments.size() > 1 &&
         (pickle::is_global(tree_, arguments[0], "torch._utils", "_rebuild_parameter") ||
          pickle::is_global(tree_, arguments[1], "torch.nn.parameter", "Parameter"));
}

Status PickledTensors::wrong(pickle::NodeId id, const char* what, const char* wanted) const {
  return tree_.error(Code::kCorrupt, id,
                     format("%s is %s, expected %s", what, tree_.describe(id).c_str(), wanted));
}

Status PickledTensors::placed(pickle::NodeId id, const Status& status) const {
  const Code code = status.code() == Code::kInvalidArgument ? Code::kCorrupt : status.code();
  return tree_.error(code, id, status.message()).caused_by(status);
}

Status PickledTensors::check_count(const Call& call, size_t min, size_t max) const {
  const size_t count = call.arguments.size();
  if (count >= min && count <= max) return Status::ok();
  return tree_.error(Code::kCorrupt, call.node,
                     format("%s has %zu arguments, expected %zu to %zu",
                            tree_.describe(call.node).c_str(), count, min, max));
}

Result<int64_t> PickledTensors::integer(pickle::NodeId id, const char* what) const {
  if (tree_.kind(id) != pickle::NodeKind::kInt) return wrong(id, what, "an int");
  return tree_.integer(id);
}

Result<bool> PickledTensors::boolean(pickle::NodeId id, const char* what) const {
  if (tree_.kind(id) != pickle::NodeKind::kBool) return wrong(id, what, "a bool");
  return tree_.boolean(id);
}

Status PickledTensors::read_dims(pickle::NodeId id, const char* what,
                                 std::vector<int64_t>* out) const {
  constexpr size_t kMaxDims = 64;
  if (tree_.kind(id) == pickle::NodeKind::kReduce &&
      pickle::is_call_of(tree_, id, "torch", "Size")) {
    const std::span<const pickle::NodeId> arguments = pickle::call_arguments(tree_, id);
    if (arguments.size() != 1) return wrong(id, what, "a tuple of ints");
    id = arguments[0];
  }
  if (tree_.kind(id) != pickle::NodeKind::kTuple && tree_.kind(id) != pickle::NodeKind::kList)
    return wrong(id, what, "a tuple of ints");
  const std::span<const pickle::NodeId> children = tree_.children(id);
  if (children.size() > kMaxDims) return wrong(id, what, "at most 64 dimensions");
  out->resize(children.size());
  for (size_t i = 0; i < children.size(); ++i) {
    if (tree_.kind(children[i]) != pickle::NodeKind::kInt)
      return wrong(children[i], what, "an int");
    (*out)[i] = tree_.integer(children[i]);
  }
  return Status::ok();
}

Result<ScalarType> PickledTensors::scalar_type(pickle::NodeId id) const {
  std::optional<ScalarType> found;
  if (tree_.kind(id) == pickle::NodeKind::kInt)
    found = tensor::scalar_type_from_number(tree_.integer(id));
  if (tree_.kind(id) == pickle::NodeKind::kGlobal && tree_.module(id) == "torch")
    found = tensor::scalar_type_from_dtype_name(tree_.name(id));
  if (!found) return wrong(id, "dtype", "one of PyTorch's");
  return *found;
}

Result<value::TensorLayout> PickledTensors::layout(pickle::NodeId id) const {
  constexpr std::string_view kPrefix = "torch.";
  std::optional<value::TensorLayout> found;
  if (tree_.kind(id) == pickle::NodeKind::kInt)
    found = value::tensor_layout_from_number(tree_.integer(id));
  if (pickle::is_call_of(tree_, id, "torch.serialization", "_get_layout")) {
    const std::span<const pickle::NodeId> arguments = pickle::call_arguments(tree_, id);
    if (arguments.size() == 1 && tree_.kind(arguments[0]) == pickle::NodeKind::kStr &&
        tree_.text(arguments[0]).starts_with(kPrefix)) {
      found = value::tensor_layout_from_name(tree_.text(arguments[0]).substr(kPrefix.size()));
    }
  }
  if (!found)
    return tree_.error(
        Code::kUnsupported, id,
        format("the layout %s of a tensor is not known", tree_.describe(id).c_str()));
  return *found;
}

// Checks that the hooks are None or an OrderedDict without entries. Hooks are Python functions,
// which no archive can contain.
Status PickledTensors::check_hooks(pickle::NodeId id) const {
  if (tree_.kind(id) == pickle::NodeKind::kNone) return Status::ok();
  const bool is_known =
      tree_.kind(id) == pickle::NodeKind::kReduce && tree_.callable(id) == checked_.hooks;
  if (!is_known && !pickle::is_call_of(tree_, id, "collections", "OrderedDict"))
    return wrong(id, "backward hooks", "an OrderedDict");
  checked_.hooks = tree_.callable(id);
  if (!pickle::call_arguments(tree_, id).empty() || !tree_.call(id).items.empty()) {
    return tree_.error(Code::kUnsupported, id, "a tensor with backward hooks");
  }
  return Status::ok();
}

Result<TensorValueRef> PickledTensors::read(pickle::NodeId id) { return read(id, 0); }

Result<TensorValueRef> PickledTensors::read(pickle::NodeId id, int depth) {
  Call call{id, form(id), {}};
  if (!is_tensor(id)) return wrong(id, "a tensor", "a call that makes one");
  if (call.form == Form::kNone) {
    return tree_.error(
        Code::kUnsupported, id,
        format("%s makes no tensor that is known", tree_.describe(tree_.callable(id)).c_str()));
  }
  if (depth > kMaxWrappings) return wrong(id, "a tensor", "one that is wrapped less often");
  if (tree_.kind(tree_.args(id)) != pickle::NodeKind::kTuple)
    return wrong(tree_.args(id), "the arguments of a tensor", "a tuple");
  call.arguments = pickle::call_arguments(tree_, id);
  return read_call(call, depth);
}

Result<TensorValueRef> PickledTensors::read_call(const Call& call, int depth) {
  switch (call.form) {
    case Form::kMeta: return read_meta(call);
    case Form::kSparse: return read_sparse(call);
    case Form::kParameter: return read_parameter(call, depth);
    case Form::kFromType: return read_from_type(call, depth);
    default: return read_strided(call);
  }
}

// Reads a part of a tensor. Only forms without parts of their own are accepted, so a file cannot
// cause a recursion here.
Result<TensorValueRef> PickledTensors::read_part(pickle::NodeId id) {
  const Form of = form(id);
  if (of != Form::kV1 && of != Form::kV2 && of != Form::kV3)
    return wrong(id, "a part of a tensor", "a strided tensor");
  return read(id, kMaxWrappings);
}

// The arguments are (storage, offset, sizes, strides), and then, by form: kV1: nothing. kV2:
// requires_grad, hooks, [math bits]. kV3: requires_grad, hooks, dtype, [math bits]. kQuantised:
// quantizer, requires_grad, hooks.
Result<TensorValueRef> PickledTensors::read_strided(const Call& call) {
  static constexpr size_t kMin[] = {0, 4, 6, 7, 7};
  static constexpr size_t kMax[] = {0, 4, 7, 8, 7};
  const auto form = static_cast<size_t>(call.form);
  TENON_TRY(check_count(call, kMin[form], kMax[form]));
  const std::span<const pickle::NodeId> arguments = call.arguments;
  value::StridedSpec spec;
  std::optional<ScalarType> element;
  if (call.form == Form::kV3) {
    TENON_ASSIGN(element, scalar_type(arguments[6]));
  }
  TENON_ASSIGN(spec.storage, read_storage(arguments[0], element));
  TENON_ASSIGN(spec.offset, integer(arguments[1], "the offset of a tensor"));
  spec.sizes.swap(sizes_);
  spec.strides.swap(strides_);
  TENON_TRY(read_dims(arguments[2], "the sizes of a tensor", &spec.sizes));
  TENON_TRY(read_dims(arguments[3], "the strides of a tensor", &spec.strides));
  if (call.form == Form::kQuantised) TENON_TRY(read_quantizer(arguments[4], &spec));
  if (call.form != Form::kV1) {
    const size_t next = call.form == Form::kQuantised ? 5 : 4;
    TENON_ASSIGN(spec.requires_grad, boolean(arguments[next], "requires_grad"));
    TENON_TRY(check_hooks(arguments[next + 1]));
  }
  const size_t bits = call.form == Form::kV3 ? 7 : 6;
  if (call.form != Form::kQuantised && arguments.size() > bits)
    TENON_TRY(read_math_bits(arguments[bits], &spec));
  Result<TensorValueRef> made = value::TensorValue::create(spec);
  if (!made.is_ok()) return placed(call.node, made.status());
  spec.sizes.swap(sizes_);
  spec.strides.swap(strides_);
  return made;
}

// The argument is {"conj": True, "neg": True} or has one of the two, with a type tag or without.
Status PickledTensors::read_math_bits(pickle::NodeId id, value::StridedSpec* spec) const {
  if (tree_.kind(id) == pickle::NodeKind::kNone) return Status::ok();
  if (pickle::is_call_of(tree_, id, "torch.jit._pickle", "restore_type_tag") &&
      !pickle::call_arguments(tree_, id).empty()) {
    id = pickle::call_arguments(tree_, id)[0];
  }
  if (tree_.kind(id) != pickle::NodeKind::kDict)
    return wrong(id, "the math bits of a tensor", "a dict");
  const std::span<const pickle::NodeId> entries = tree_.children(id);
  // There are only these two. A longer dict is refused before it is walked, because many tensors
  // may share it.
  if (entries.size() > 4) return wrong(id, "the math bits of a tensor", "conj and neg");
  for (size_t i = 0; i + 1 < entries.size(); i += 2) {
    TENON_ASSIGN(const bool set, boolean(entries[i + 1], "a math bit"));
    const std::string_view name = tree_.kind(entries[i]) == pickle::NodeKind::kStr
                                      ? tree_.text(entries[i])
                                      : std::string_view();
    if (name != "conj" && name != "neg") {
      return tree_.error(
          Code::kUnsupported, entries[i],
          format("a tensor with %s is not known", tree_.describe(entries[i]).c_str()));
    }
    (name == "conj" ? spec->is_conj : spec->is_neg) = set;
  }
  return Status::ok();
}

// The quantizer is (scheme, scale, zero point), or (scheme, scales, zero points, axis) with two
// tensors.
Status PickledTensors::read_quantizer(pickle::NodeId id, value::StridedSpec* spec) {
  if (tree_.kind(id) != pickle::NodeKind::kTuple || tree_.children(id).empty())
    return wrong(id, "a quantizer", "a tuple");
  const std::span<const pickle::NodeId> parts = tree_.children(id);
  value::Quantizer quantizer;
  std::optional<value::QScheme> scheme;
  if (tree_.kind(parts[0]) == pickle::NodeKind::kGlobal && tree_.module(parts[0]) == "torch") {
    scheme = value::qscheme_from_name(tree_.name(parts[0]));
  }
  if (!scheme) {
    return tree_.error(Code::kUnsupported, parts[0],
                       format("the quantizer %s is not known", tree_.describe(parts[0]).c_str()));
  }
  quantizer.scheme = *scheme;
  const bool per_tensor = *scheme == value::QScheme::kPerTensorAffine;
  if (parts.size() != (per_tensor ? 3 : 4))
    return wrong(id, "a quantizer", per_tensor ? "a tuple of 3" : "a tuple of 4");
  if (per_tensor) {
    if (tree_.kind(parts[1]) != pickle::NodeKind::kFloat)
      return wrong(parts[1], "a scale", "a float");
    quantizer.scale = tree_.real(parts[1]);
    TENON_ASSIGN(quantizer.zero_point, integer(parts[2], "a zero point"));
  } else {
    TENON_ASSIGN(quantizer.scales, read_part(parts[1]));
    TENON_ASSIGN(quantizer.zero_points, read_part(parts[2]));
    TENON_ASSIGN(quantizer.axis, integer(parts[3], "the axis of a quantizer"));
  }
  spec->quantizer = std::move(quantizer);
  return Status::ok();
}

// The arguments are (dtype, sizes, strides, requires_grad). The tensor has no bytes.
Result<TensorValueRef> PickledTensors::read_meta(const Call& call) {
  TENON_TRY(check_count(call, 4, 4));
  value::StridedSpec spec;
  TENON_ASSIGN(const ScalarType type, scalar_type(call.arguments[0]));
  TENON_TRY(read_dims(call.arguments[1], "the sizes of a tensor", &spec.sizes));
  TENON_TRY(read_dims(call.arguments[2], "the strides of a tensor", &spec.strides));
  TENON_ASSIGN(spec.requires_grad, boolean(call.arguments[3], "requires_grad"));
  uint64_t numel = 0;
  if (spec.sizes.size() != spec.strides.size() || !reach_of(spec.sizes, spec.strides, &numel)) {
    return wrong(call.arguments[2], "the strides of a tensor", "some that fit its sizes");
  }
  Result<StorageValueRef> storage = value::StorageValue::create(type, numel, nullptr, 0, "meta");
  if (!storage.is_ok()) return placed(call.node, storage.status());
  spec.storage = std::move(storage).value();
  Result<TensorValueRef> made = value::TensorValue::create(spec);
  if (!made.is_ok()) return placed(call.node, made.status());
  return made;
}

// PyTorch's C++ pickler writes (layout, sizes, requires_grad, part…, hooks). Python writes (layout,
// (part…, sizes)), and for COO also is_coalesced behind the sizes. The old
// _rebuild_sparse_csr_tensor has the same arguments.
Result<TensorValueRef> PickledTensors::read_sparse(const Call& call) {
  TENON_TRY(check_count(call, 2, 7));
  value::SparseSpec spec;
  TENON_ASSIGN(spec.layout, layout(call.arguments[0]));
  const bool is_coo = spec.layout == value::TensorLayout::kSparseCoo;
  const size_t n_parts = is_coo ? 2 : 3;
  if (spec.layout == value::TensorLayout::kStrided)
    return wrong(call.arguments[0], "the layout of a sparse tensor", "a sparse one");
  std::span<const pickle::NodeId> parts;
  if (options_.general && call.arguments.size() == 2) {
    if (tree_.kind(call.arguments[1]) != pickle::NodeKind::kTuple)
      return wrong(call.arguments[1], "the parts of a sparse tensor", "a tuple");
    const std::span<const pickle::NodeId> data = tree_.children(call.arguments[1]);
    if (data.size() != n_parts + 1 && !(is_coo && data.size() == 4)) {
      return wrong(call.arguments[1], "the parts of a sparse tensor",
                   is_coo ? "3 or 4 of them" : "4 of them");
    }
    parts = data.first(n_parts);
    TENON_TRY(read_dims(data[n_parts], "the sizes of a tensor", &spec.sizes));
    if (data.size() > n_parts + 1 && tree_.kind(data[n_parts + 1]) != pickle::NodeKind::kNone) {
      TENON_ASSIGN(spec.is_coalesced, boolean(data[n_parts + 1], "is_coalesced"));
    }
  } else {
    TENON_TRY(check_count(call, n_parts + 4, n_parts + 4));
    TENON_TRY(read_dims(call.arguments[1], "the sizes of a tensor", &spec.sizes));
    TENON_ASSIGN(spec.requires_grad, boolean(call.arguments[2], "requires_grad"));
    parts = call.arguments.subspan(3, n_parts);
    TENON_TRY(check_hooks(call.arguments.back()));
  }
  TENON_ASSIGN(spec.indices, read_part(parts[0]));
  if (!is_coo) {
    TENON_ASSIGN(spec.plain_indices, read_part(parts[1]));
  }
  TENON_ASSIGN(spec.values, read_part(parts.back()));
  Result<TensorValueRef> made = value::TensorValue::create_sparse(spec);
  if (!made.is_ok()) return placed(call.node, made.status());
  return made;
}

// The arguments are (tensor, requires_grad, hooks). _rebuild_parameter_with_state has a fourth, the
// Python attributes, which is ignored.
Result<TensorValueRef> PickledTensors::read_parameter(const Call& call, int depth) {
  TENON_TRY(check_count(call, 3, 4));
  TENON_ASSIGN(const TensorValueRef tensor, read(call.arguments[0], depth + 1));
  TENON_ASSIGN(const bool requires_grad, boolean(call.arguments[1], "requires_grad"));
  TENON_TRY(check_hooks(call.arguments[2]));
  Result<TensorValueRef> made = with_requires_grad(tensor, requires_grad);
  if (!made.is_ok()) return placed(call.node, made.status());
  return made;
}

// The arguments are (function, class, arguments of the function, state). The call stands for a
// tensor with Python attributes or of a subclass. Only the tensor in it is read.
Result<TensorValueRef> PickledTensors::read_from_type(const Call& call, int depth) {
  TENON_TRY(check_count(call, 4, 4));
  const pickle::NodeId function = call.arguments[0];
  if (depth >= kMaxWrappings) return wrong(call.node, "a tensor", "one that is wrapped less often");
  if (tree_.kind(function) != pickle::NodeKind::kGlobal)
    return wrong(function, "the function of a tensor", "a global");
  Call inner{call.node, form_of(tree_.module(function), tree_.name(function)), {}};
  if (inner.form == Form::kNone || inner.form == Form::kFromType) {
    return tree_.error(
        Code::kUnsupported, function,
        format("%s makes no tensor that is known", tree_.describe(function).c_str()));
  }
  if (tree_.kind(call.arguments[2]) != pickle::NodeKind::kTuple)
    return wrong(call.arguments[2], "the arguments of a tensor", "a tuple");
  inner.arguments = tree_.children(call.arguments[2]);
  return read_call(inner, depth + 1);
}

}  // namespace tenon::archive
