#include "object/object_to_pickle.h"

#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "object/split_tensors.h"
#include "pickle/opcodes.h"

namespace tenon::object {
namespace {

using pickle::Opcode;
using tensor::Composite;
using tensor::CompositeSpec;
using tensor::Part;
using tensor::Tensor;

constexpr uint8_t kProtocol = 4;

// Writes the opcodes of protocol 4, whose memo entries have no explicit numbers. The Python
// wrapper's reader with an allow-list accepts only such opcodes (docs/format/object.md).
class Writer {
 public:
  explicit Writer(const Object& object) : object_(object) {
    constexpr size_t kFewNbytes = 192;  // enough for one tensor
    out_.bytes.reserve(kFewNbytes);
    opcode(Opcode::kProto);
    number(kProtocol, 1);
  }

  SplitPickle run() {
    struct Frame {
      const Node* node;
      uint64_t left;
    };
    std::vector<Frame> open;
    for (const Node& node : object_.nodes()) {
      if (!open.empty()) --open.back().left;
      begin(node);
      if (is_container(node.kind)) open.push_back({&node, node.child_count()});
      while (!open.empty() && open.back().left == 0) {
        end(*open.back().node);
        open.pop_back();
      }
    }
    opcode(Opcode::kStop);
    return std::move(out_);
  }

 private:
  void begin(const Node& node) {
    switch (node.kind) {
      case Kind::kNone: opcode(Opcode::kNone); break;
      case Kind::kBool:
        opcode(node.content.integer != 0 ? Opcode::kNewTrue : Opcode::kNewFalse);
        break;
      case Kind::kInt: integer(node.content.integer); break;
      case Kind::kFloat: real(node.content.real); break;
      case Kind::kComplex:
        global("builtins", "complex");
        real(node.content.complex.real);
        real(node.content.complex.imaginary);
        opcode(Opcode::kTuple2);
        opcode(Opcode::kReduce);
        break;
      case Kind::kStr: text(object_.text(node)); break;
      case Kind::kBytes: bytes(object_.text(node)); break;
      case Kind::kTensor: tensor(*object_.tensor(node)); break;
      case Kind::kComposite: composite(*object_.composite(node)); break;
      case Kind::kTuple: opcode(node.count == 0 ? Opcode::kEmptyTuple : Opcode::kMark); break;
      case Kind::kList: begin_items(Opcode::kEmptyList, node); break;
      case Kind::kSet: begin_items(Opcode::kEmptySet, node); break;
      case Kind::kDict: begin_items(Opcode::kEmptyDict, node); break;
    }
  }

  void begin_items(Opcode empty, const Node& node) {
    opcode(empty);
    if (node.count > 0) opcode(Opcode::kMark);
  }

  void end(const Node& node) {
    if (node.count == 0) return;
    switch (node.kind) {
      case Kind::kTuple: opcode(Opcode::kTuple); break;
      case Kind::kList: opcode(Opcode::kAppends); break;
      case Kind::kSet: opcode(Opcode::kAddItems); break;
      default: opcode(Opcode::kSetItems); break;
    }
  }

  void tensor(const Tensor& tensor) {
    global(kSplitModule, "_tensor");
    opcode(Opcode::kMark);
    integer(static_cast<int64_t>(storage_number(tensor)));
    integer(tensor.dtype().code | int64_t{tensor.dtype().bits} << 8 |
            int64_t{tensor.dtype().lanes} << 16);
    integers(tensor.sizes());
    integers(tensor.strides());
    integer(static_cast<int64_t>(tensor.offset()));  // check_layout() limits it
    integer(tensor.flags());
    opcode(Opcode::kTuple);
    opcode(Opcode::kReduce);
  }

  void composite(const Composite& composite) {
    const CompositeSpec& spec = composite.spec();
    const bool is_meta = spec.layout == tensor::TensorLayout::kMeta;
    const bool is_jagged = spec.layout == tensor::TensorLayout::kJagged;
    global(kSplitModule, "_composite");
    opcode(Opcode::kMark);
    text(tensor::tensor_layout_name(spec.layout));
    opcode(Opcode::kEmptyDict);
    const std::span<const Part> parts = tensor::parts_of(spec.layout, spec.quantizer);
    for (size_t i = 0; i < spec.parts.size(); ++i) {
      text(tensor::part_key(parts[i]));
      tensor(*spec.parts[i]);
      opcode(Opcode::kSetItem);
    }
    if (is_meta || tensor::is_sparse(spec.layout)) {
      integers(spec.sizes);
    } else {
      opcode(Opcode::kNone);
    }
    if (is_meta) {
      integers(spec.strides);
      integer(spec.flags);
      text(tensor::dtype_name(spec.dtype).text);
    } else {
      opcode(Opcode::kNone);
      integer(spec.flags);
      opcode(Opcode::kNone);
    }
    opcode(Opcode::kEmptyDict);
    opcode(Opcode::kMark);
    field("axis", is_jagged ? 0 : spec.dim);
    field("ragged_dim", is_jagged ? spec.dim : 0);
    field("quantizer", static_cast<int64_t>(spec.quantizer));
    field("coalesced", static_cast<int64_t>(spec.coalesced));
    text("scale");
    real(spec.scale);
    field("zero_point", spec.zero_point);
    text("offset");
    integer(static_cast<int64_t>(spec.offset));
    opcode(Opcode::kSetItems);
    opcode(Opcode::kTuple);
    opcode(Opcode::kReduce);
  }

  void field(std::string_view name, int64_t value) {
    text(name);
    integer(value);
  }

  size_t storage_number(const Tensor& tensor) {
    // Few storages are found faster without a table.
    constexpr size_t kFewStorages = 8;
    const size_t count = out_.storages.size();
    if (numbers_.empty()) {
      for (size_t i = 0; i < count; ++i)
        if (out_.storages[i].get() == tensor.storage().get()) return i;
      if (count < kFewStorages) {
        out_.storages.push_back(tensor.storage());
        return count;
      }
      for (size_t i = 0; i < count; ++i) numbers_.emplace(out_.storages[i].get(), i);
    }
    const auto [entry, is_new] = numbers_.try_emplace(tensor.storage().get(), count);
    if (is_new) out_.storages.push_back(tensor.storage());
    return entry->second;
  }

  void integers(std::span<const int64_t> values) {
    if (values.empty()) return opcode(Opcode::kEmptyTuple);
    opcode(Opcode::kMark);
    for (const int64_t value : values) integer(value);
    opcode(Opcode::kTuple);
  }

  void opcode(Opcode opcode) { out_.bytes.push_back(static_cast<std::byte>(opcode)); }

  void number(uint64_t value, size_t nbytes) {
    for (size_t i = 0; i < nbytes; ++i)
      out_.bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
  }

  void integer(int64_t value) {
    if (value >= 0 && value <= UINT8_MAX) {
      opcode(Opcode::kBinInt1);
      return number(static_cast<uint64_t>(value), 1);
    }
    if (value >= INT32_MIN && value <= INT32_MAX) {
      opcode(Opcode::kBinInt);
      return number(static_cast<uint64_t>(value), 4);
    }
    opcode(Opcode::kLong1);
    number(8, 1);
    number(static_cast<uint64_t>(value), 8);
  }

  void real(double value) {
    opcode(Opcode::kBinFloat);
    number(__builtin_bswap64(std::bit_cast<uint64_t>(value)), 8);
  }

  void text(std::string_view text) {
    sized(Opcode::kShortBinUnicode, Opcode::kBinUnicode, Opcode::kBinUnicode8, text);
  }
  void bytes(std::string_view bytes) {
    sized(Opcode::kShortBinBytes, Opcode::kBinBytes, Opcode::kBinBytes8, bytes);
  }
  void sized(Opcode short_form, Opcode form, Opcode long_form, std::string_view content) {
    const bool is_short = content.size() <= UINT8_MAX;
    const bool is_long = content.size() > UINT32_MAX;
    opcode(is_short ? short_form : is_long ? long_form : form);
    number(content.size(), is_short ? 1 : is_long ? 8 : 4);
    const auto* from = reinterpret_cast<const std::byte*>(content.data());
    out_.bytes.insert(out_.bytes.end(), from, from + content.size());
  }

  // Writes the global in full once, and later refers to the memo.
  void global(std::string_view module, std::string_view name) {
    for (size_t i = 0; i < n_globals_; ++i) {
      if (globals_[i] != name) continue;
      opcode(Opcode::kBinGet);
      return number(i, 1);
    }
    globals_[n_globals_++] = name;
    text(module);
    text(name);
    opcode(Opcode::kStackGlobal);
    opcode(Opcode::kMemoize);
  }

  const Object& object_;
  SplitPickle out_;
  std::unordered_map<const storage::Storage*, size_t> numbers_;  // empty if there are few
  // The names of the globals in the order of their memo numbers: complex, _tensor and _composite.
  std::array<std::string_view, 3> globals_;
  size_t n_globals_ = 0;
};

}  // namespace

SplitPickle object_to_pickle(const Object& object) { return Writer(object).run(); }

}  // namespace tenon::object
