#include "object/split_tensors.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "tensor/layout.h"
#include "tensor/scalar_type.h"

namespace tenon::object {
namespace {

using pickle::NodeId;
using pickle::NodeKind;
using tensor::CompositeSpec;
using tensor::DType;
using tensor::Part;
using tensor::QScheme;
using tensor::Tensor;
using tensor::TensorLayout;

constexpr int64_t kNoStorage = -1;  // the number that stands for a torch storage without bytes

constexpr std::array kLayouts = {
    TensorLayout::kSparseCoo, TensorLayout::kSparseCsr, TensorLayout::kSparseCsc,
    TensorLayout::kSparseBsr, TensorLayout::kSparseBsc, TensorLayout::kJagged,
    TensorLayout::kNested,    TensorLayout::kMeta,      TensorLayout::kQuantized,
};

}  // namespace

bool is_byte_tensor(const Tensor& tensor) noexcept {
  return tensor.dtype() == kByte && tensor::is_contiguous(tensor.sizes(), tensor.strides());
}

bool SplitTensors::is_known(NodeId id) const noexcept {
  static constexpr std::string_view kNames[] = {
      "_tensor", "_torch_tensor", "_storage", "_torch_storage", "_composite", "_torch_composite"};
  if (tree_.is_long_call(id) || tree_.module(tree_.callable(id)) != kSplitModule) return false;
  return std::ranges::find(kNames, tree_.name(tree_.callable(id))) != std::end(kNames);
}

bool SplitTensors::is_composite(NodeId id) const noexcept {
  return tree_.name(tree_.callable(id)).ends_with("_composite");
}

Result<Ref<Tensor>> SplitTensors::read_tensor(NodeId id) {
  const std::string_view name = tree_.name(tree_.callable(id));
  const std::span<const NodeId> arguments = pickle::call_arguments(tree_, id);
  const bool of_torch = name.starts_with("_torch");
  return name.ends_with("_tensor") ? read_view(id, arguments, of_torch)
                                   : read_whole(id, arguments, of_torch);
}

// The arguments of _tensor are: number, element type, sizes, strides, offset, flags. _torch_tensor
// has the name of the element type instead.
Result<Ref<Tensor>> SplitTensors::read_view(NodeId id, std::span<const NodeId> arguments,
                                            bool of_torch) {
  TENON_TRY(check_count(id, arguments.size(), 6));
  TENON_ASSIGN(const Bytes bytes, find_bytes(arguments[0], of_torch));
  tensor::Layout layout;
  TENON_ASSIGN(layout.dtype,
               of_torch ? dtype_from_torch(arguments[1]) : dtype_from_number(arguments[1]));
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  TENON_TRY(read_shape(arguments[2], arguments[3], &sizes, &strides));
  layout.sizes = sizes;
  layout.strides = strides;
  TENON_ASSIGN(layout.offset, natural(arguments[4], "the offset"));
  TENON_ASSIGN(const uint32_t flag_bits, flags(arguments[5]));
  return over(id, bytes, layout, flag_bits);
}

// The argument of _storage is the number. Those of _torch_storage are the number, and the name of
// an element type or None.
Result<Ref<Tensor>> SplitTensors::read_whole(NodeId id, std::span<const NodeId> arguments,
                                             bool of_torch) {
  TENON_TRY(check_count(id, arguments.size(), of_torch ? 2 : 1));
  TENON_ASSIGN(const Bytes bytes, find_bytes(arguments[0], of_torch));
  DType dtype = kByte;
  if (of_torch && tree_.kind(arguments[1]) != NodeKind::kNone) {
    TENON_ASSIGN(dtype, dtype_from_torch(arguments[1]));
  }
  const std::array<int64_t, 1> sizes = {
      static_cast<int64_t>(bytes.nbytes / (dtype.element_bits() / 8))};
  const std::array<int64_t, 1> strides = {1};
  return over(id, bytes, {dtype, sizes, strides, 0}, 0);
}

// Makes a tensor over `bytes`. Its layout counts from the first byte of the storage that was sent,
// which may lie inside a larger storage here.
Result<Ref<Tensor>> SplitTensors::over(NodeId id, const Bytes& bytes, tensor::Layout layout,
                                       uint32_t flags) const {
  if (const Status inside = tensor::check_layout(layout, bytes.nbytes); !inside.is_ok())
    return placed(id, inside);
  const uint64_t bits = layout.dtype.element_bits();
  if (bytes.begin * 8 % bits != 0) {
    return tree_.error(
        Code::kUnsupported, id,
        format("the storage begins at byte %llu of its memory, which is no whole element of %s",
               as_llu(bytes.begin), tensor::dtype_name(layout.dtype).text));
  }
  layout.offset += bytes.begin * 8 / bits;
  Result<Ref<Tensor>> made = Tensor::create(bytes.storage, layout, flags);
  if (!made.is_ok()) return placed(id, made.status());
  return made;
}

Result<SplitTensors::Bytes> SplitTensors::find_bytes(NodeId number, bool of_torch) const {
  TENON_ASSIGN(const int64_t index, integer(number, "the number of a storage"));
  if (of_torch && index == kNoStorage) {
    return Bytes{tensor::Storage::open_empty(memory::Mode::kShared, false), 0, 0};
  }
  if (index < 0 || static_cast<uint64_t>(index) >= storages_.size()) {
    return tree_.error(Code::kCorrupt, number,
                       format("storage %lld is named, and %zu came with the object",
                              static_cast<long long>(index), storages_.size()));
  }
  const Tensor& found = *storages_[static_cast<size_t>(index)];
  if (!is_byte_tensor(found)) {
    return tree_.error(
        Code::kCorrupt, number,
        format("storage %lld came as a tensor of %s, and a contiguous one of uint8 is expected",
               static_cast<long long>(index), tensor::dtype_name(found.dtype()).text));
  }
  return bytes_of(found);
}

// The arguments of _composite are: layout, parts by name, sizes or None, strides or None, flags,
// element type or None, numbers by name.
Result<Ref<tensor::Composite>> SplitTensors::read_composite(NodeId id) {
  const std::span<const NodeId> arguments = pickle::call_arguments(tree_, id);
  TENON_TRY(check_count(id, arguments.size(), 7));
  TENON_ASSIGN(const std::string_view layout, text(arguments[0], "the layout"));
  const auto known = std::ranges::find_if(
      kLayouts, [&](TensorLayout each) { return layout == tensor::tensor_layout_name(each); });
  if (known == kLayouts.end()) {
    return tree_.error(
        Code::kUnsupported, arguments[0],
        format("%s is no layout that is known", tree_.describe(arguments[0]).c_str()));
  }
  CompositeSpec spec;
  spec.layout = *known;
  const bool is_meta = spec.layout == TensorLayout::kMeta;
  TENON_TRY(read_numbers(arguments[6], &spec));  // the quantizer decides which parts there are
  TENON_TRY(read_parts(arguments[1], &spec));
  if (is_meta || tensor::is_sparse(spec.layout))
    TENON_TRY(read_dims(arguments[2], "the sizes", &spec.sizes));
  if (is_meta) TENON_TRY(read_dims(arguments[3], "the strides", &spec.strides));
  TENON_ASSIGN(spec.flags, flags(arguments[4]));
  if (is_meta) {
    TENON_ASSIGN(spec.dtype, dtype_from_name(arguments[5]));
  } else if (spec.layout == TensorLayout::kQuantized &&
             tree_.kind(arguments[5]) != NodeKind::kNone) {
    TENON_TRY(unpack_values(id, arguments, &spec));
  }
  Result<Ref<tensor::Composite>> made = tensor::Composite::create(std::move(spec));
  if (!made.is_ok()) return placed(id, made.status());
  return made;
}

// If the elements of a quantised tensor of PyTorch are packed, its values are the bytes of its
// storage. Sizes, strides, element type and offset, which other quantised tensors do not have, then
// say where the elements lie.
Status SplitTensors::unpack_values(NodeId id, std::span<const NodeId> arguments,
                                   CompositeSpec* spec) {
  const Tensor& bytes = *spec->parts[0];
  if (!is_byte_tensor(bytes)) {
    return wrong(arguments[1], "the values of a packed tensor", "the bytes of a storage");
  }
  tensor::Layout layout;
  TENON_ASSIGN(layout.dtype, dtype_from_name(arguments[5]));
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  TENON_TRY(read_shape(arguments[2], arguments[3], &sizes, &strides));
  layout.sizes = sizes;
  layout.strides = strides;
  layout.offset = std::exchange(spec->offset, 0);
  TENON_ASSIGN(spec->parts[0], over(id, bytes_of(bytes), layout, 0));
  return Status::ok();
}

Status SplitTensors::read_parts(NodeId id, CompositeSpec* spec) {
  if (tree_.kind(id) != NodeKind::kDict) return wrong(id, "the parts", "a dict");
  const std::span<const NodeId> children = tree_.children(id);
  const std::span<const Part> wanted = tensor::parts_of(spec->layout, spec->quantizer);
  std::vector<NodeId> found(wanted.size(), pickle::kNoNode);
  for (size_t i = 0; i + 1 < children.size(); i += 2) {
    TENON_ASSIGN(const std::string_view name, text(children[i], "the name of a part"));
    const auto part =
        std::ranges::find_if(wanted, [name](Part each) { return name == tensor::part_key(each); });
    if (part == wanted.end()) {
      return tree_.error(
          Code::kCorrupt, children[i],
          format("a %s tensor has no part %s", tensor::tensor_layout_name(spec->layout),
                 tree_.describe(children[i]).c_str()));
    }
    NodeId& place = found[static_cast<size_t>(part - wanted.begin())];
    if (place != pickle::kNoNode)
      return tree_.error(Code::kCorrupt, children[i], "a part stands there twice");
    place = children[i + 1];
  }
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] == pickle::kNoNode && wanted[i] == Part::kLengths) continue;
    if (found[i] == pickle::kNoNode) {
      return tree_
          .error(Code::kCorrupt, id,
                 format("a %s tensor without %s", tensor::tensor_layout_name(spec->layout),
                        tensor::part_name(wanted[i])))
          .with("part", std::string(tensor::part_key(wanted[i])));
    }
    if (tree_.kind(found[i]) != NodeKind::kReduce || !is_known(found[i]) ||
        is_composite(found[i])) {
      return wrong(found[i], tensor::part_name(wanted[i]), "a tensor");
    }
    TENON_ASSIGN(Ref<Tensor> part, read_tensor(found[i]));
    spec->parts.push_back(std::move(part));
  }
  return Status::ok();
}

Status SplitTensors::read_numbers(NodeId id, CompositeSpec* spec) const {
  if (tree_.kind(id) != NodeKind::kDict) return wrong(id, "the numbers of a composite", "a dict");
  const auto small = [this](NodeId node, const std::string& name, int64_t most) -> Result<int64_t> {
    TENON_ASSIGN(const int64_t number, integer(node, name.c_str()));
    if (number >= 0 && number <= most) return number;
    return tree_.error(Code::kCorrupt, node,
                       format("%s is %lld", name.c_str(), static_cast<long long>(number)));
  };
  const std::span<const NodeId> children = tree_.children(id);
  for (size_t i = 0; i + 1 < children.size(); i += 2) {
    TENON_ASSIGN(const std::string_view pickled_name, text(children[i], "the name of a number"));
    const std::string name(pickled_name);
    const NodeId value = children[i + 1];
    if (name == "quantizer") {
      TENON_ASSIGN(
          const int64_t number,
          small(value, name, static_cast<int64_t>(QScheme::kPerChannelAffineFloatQParams)));
      spec->quantizer = static_cast<QScheme>(number);
    } else if (name == "coalesced") {
      TENON_ASSIGN(const int64_t number,
                   small(value, name, static_cast<int64_t>(tensor::Coalesced::kYes)));
      spec->coalesced = static_cast<tensor::Coalesced>(number);
    } else if (name == "axis" || name == "ragged_dim") {
      TENON_ASSIGN(const int64_t number, small(value, name, tensor::kMaxNdim));
      if ((name == "ragged_dim") == (spec->layout == TensorLayout::kJagged)) {
        spec->dim = static_cast<int32_t>(number);
      } else if (number != 0) {
        return wrong(value, name.c_str(), "0 for this layout");
      }
    } else if (name == "zero_point") {
      TENON_ASSIGN(spec->zero_point, integer(value, "zero_point"));
    } else if (name == "offset") {
      TENON_ASSIGN(spec->offset, natural(value, "the offset"));
    } else if (name == "scale" && tree_.kind(value) == NodeKind::kFloat) {
      spec->scale = tree_.real(value);
    } else {
      return tree_.error(
          Code::kCorrupt, children[i],
          format("a composite has no such number: %s", tree_.describe(children[i]).c_str()));
    }
  }
  // Without a quantizer there would be no list of parts.
  if (spec->layout == TensorLayout::kQuantized && spec->quantizer == QScheme::kNone)
    return wrong(id, "a quantised tensor", "a quantizer");
  return Status::ok();
}

Result<int64_t> SplitTensors::integer(NodeId id, const char* what) const {
  if (tree_.kind(id) != NodeKind::kInt) return wrong(id, what, "an int");
  return tree_.integer(id);
}

Result<uint64_t> SplitTensors::natural(NodeId id, const char* what) const {
  TENON_ASSIGN(const int64_t number, integer(id, what));
  if (number < 0) return wrong(id, what, "at least 0");
  return static_cast<uint64_t>(number);
}

Result<uint32_t> SplitTensors::flags(NodeId id) const {
  TENON_ASSIGN(const uint64_t bits, natural(id, "the flags"));
  if (bits > UINT32_MAX)
    return tree_.error(Code::kUnsupported, id, format("flags 0x%llx are not known", as_llu(bits)));
  return static_cast<uint32_t>(bits);
}

Result<std::string_view> SplitTensors::text(NodeId id, const char* what) const {
  if (tree_.kind(id) != NodeKind::kStr) return wrong(id, what, "a str");
  return tree_.text(id);
}

Status SplitTensors::read_dims(NodeId id, const char* what, std::vector<int64_t>* out) const {
  if (tree_.kind(id) != NodeKind::kTuple && tree_.kind(id) != NodeKind::kList)
    return wrong(id, what, "a tuple of ints");
  const std::span<const NodeId> children = tree_.children(id);
  if (children.size() > static_cast<size_t>(tensor::kMaxNdim))
    return wrong(id, what, "at most 64 ints");
  for (const NodeId child : children) {
    TENON_ASSIGN(const int64_t dim, integer(child, what));
    out->push_back(dim);
  }
  return Status::ok();
}

Status SplitTensors::read_shape(NodeId sizes_id, NodeId strides_id, std::vector<int64_t>* sizes,
                                std::vector<int64_t>* strides) const {
  TENON_TRY(read_dims(sizes_id, "the sizes", sizes));
  TENON_TRY(read_dims(strides_id, "the strides", strides));
  if (sizes->size() != strides->size())
    return wrong(strides_id, "the strides", "as many as there are sizes");
  return Status::ok();
}

Result<DType> SplitTensors::dtype_from_number(NodeId id) const {
  TENON_ASSIGN(const int64_t number, integer(id, "the element type"));
  const DType dtype{static_cast<uint8_t>(number), static_cast<uint8_t>(number >> 8),
                    static_cast<uint16_t>(number >> 16)};
  if (number < 0 || number > UINT32_MAX) return wrong(id, "the element type", "32 bits");
  if (const Status known = tensor::check_dtype(dtype); !known.is_ok()) return placed(id, known);
  return dtype;
}

Result<DType> SplitTensors::dtype_from_name(NodeId id) const {
  TENON_ASSIGN(const std::string_view name, text(id, "the element type"));
  Result<DType> dtype = tensor::parse_dtype(name);
  if (!dtype.is_ok()) return placed(id, dtype.status());
  return dtype;
}

Result<DType> SplitTensors::dtype_from_torch(NodeId id) const {
  TENON_ASSIGN(const std::string_view name, text(id, "the element type"));
  const std::optional<tensor::ScalarType> type = tensor::scalar_type_from_dtype_name(name);
  if (type && tensor::scalar_type_info(*type).has_dtype())
    return tensor::scalar_type_info(*type).dtype;
  return tree_.error(
      Code::kUnsupported, id,
      format("Tenon has no element type for torch's %s", tree_.describe(id).c_str()));
}

Status SplitTensors::check_count(NodeId id, size_t given, size_t wanted) const {
  if (given == wanted) return Status::ok();
  return tree_.error(Code::kCorrupt, id,
                     format("%s is given %zu arguments, expected %zu",
                            tree_.describe(tree_.callable(id)).c_str(), given, wanted));
}

Status SplitTensors::wrong(NodeId id, const char* what, const char* wanted) const {
  return tree_.error(Code::kCorrupt, id,
                     format("%s is %s, expected %s", what, tree_.describe(id).c_str(), wanted));
}

Status SplitTensors::placed(NodeId id, const Status& status) const {
  const Code code = status.code() == Code::kInvalidArgument ? Code::kCorrupt : status.code();
  return tree_.error(code, id, status.message()).with_details_of(status).caused_by(status);
}

}  // namespace tenon::object
