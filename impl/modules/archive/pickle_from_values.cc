#include "modules/archive/pickle_from_values.h"

#include <map>
#include <unordered_map>
#include <utility>

#include "modules/archive/pickle_tensor_writer.h"
#include "modules/value/walk.h"
#include "pickle/writer.h"

namespace tenon::archive {
namespace {

using value::TypeKind;
using value::Value;
using value::ValueKind;
using value::ValueRef;

// The function for lists of this type that PyTorch writes in a special form: one call with the bare
// items. Null for other lists.
const char* typed_list_function(const Value& list) {
  if (!list.declared_type()) return nullptr;
  switch (list.declared_type()->element()->kind()) {
    case TypeKind::kInt: return "build_intlist";
    case TypeKind::kFloat: return "build_doublelist";
    case TypeKind::kBool: return "build_boollist";
    case TypeKind::kTensor: return "build_tensorlist";
    default: return nullptr;
  }
}

ValueKind typed_list_item(const Value& list) {
  switch (list.declared_type()->element()->kind()) {
    case TypeKind::kInt: return ValueKind::kInt;
    case TypeKind::kFloat: return ValueKind::kFloat;
    case TypeKind::kBool: return ValueKind::kBool;
    default: return ValueKind::kTensor;
  }
}

constexpr size_t kLongText = 64;

class ValuePickler {
 public:
  explicit ValuePickler(const FromValuesOptions& options)
      : options_(options), tensors_(&writer_, options) {}

  Result<std::vector<std::byte>> run(const ValueRef& root);

 private:
  struct Memo {
    bool counted = false;  // count() has met the value
    bool wanted = false;   // the value must be put into the memo
    bool open = false;     // count() is inside the value, so a second meeting is a cycle
    bool written = false;
    uint32_t number = 0;
  };
  struct Frame {
    Value* value = nullptr;
    Memo* memo = nullptr;  // only for a value with identity
    size_t next = 0;
    size_t count = 0;
  };

  Status count(Value& root);
  Status write(Value& root);
  Result<bool> begin(Value& value, Frame* frame);  // false: the value has been written completely
  void end(const Frame& frame);
  Status begin_list(const Value& list);
  void end_list(const Value& list);
  void write_text(const Value& text);
  void write_tag(const value::Type& type);
  Status write_class(const Value& value);
  void write_device(const std::string& device);
  Status error(Code code, const std::string& message) const {
    return Status(code, options_.record + ": " + message).with("record", options_.record);
  }

  const FromValuesOptions& options_;
  pickle::PickleWriter writer_;
  PickledTensorWriter tensors_;
  std::unordered_map<const Value*, Memo> memo_;
  std::map<std::string, uint32_t> devices_;
  // Caches of the memo numbers of long texts and of types. Many values may share one, and so each
  // is compared with others, or printed, only once.
  std::unordered_map<const Value*, uint32_t> texts_;
  std::unordered_map<const value::Type*, uint32_t> types_;
};

Result<std::vector<std::byte>> ValuePickler::run(const ValueRef& root) {
  if (options_.memoised != nullptr) {
    for (const ValueRef& value : *options_.memoised) memo_[value.get()].wanted = true;
  }
  TENON_TRY(count(*root));
  TENON_TRY(write(*root));
  return writer_.finish();
}

// Finds the values that occur in more than one place. Also checks that no value contains itself, so
// that write() ends.
Status ValuePickler::count(Value& root) {
  std::vector<Frame> stack;
  const auto enter = [&](Value& value) -> Status {
    // A value without identity has no values below it either.
    if (!value::has_identity(value.kind())) return Status::ok();
    Memo& memo = memo_[&value];
    if (memo.open)
      return error(Code::kInvalidArgument,
                   format("a %s contains itself", value::value_kind_name(value.kind())));
    if (memo.counted) {
      memo.wanted = true;
      return Status::ok();
    }
    memo.counted = true;
    const size_t children = value.child_count();
    if (children == 0) return Status::ok();
    if (stack.size() >= value::kMaxWalkDepth) {
      return error(Code::kInvalidArgument,
                   format("the values are nested deeper than %zu", value::kMaxWalkDepth));
    }
    memo.open = true;
    stack.push_back({&value, &memo, 0, children});
    return Status::ok();
  };
  TENON_TRY(enter(root));
  while (!stack.empty()) {
    Frame& frame = stack.back();
    if (frame.next == frame.count) {
      frame.memo->open = false;
      stack.pop_back();
      continue;
    }
    TENON_TRY(enter(frame.value->child(frame.next++)));
  }
  return Status::ok();
}

Status ValuePickler::write(Value& root) {
  std::vector<Frame> stack;
  Frame first;
  TENON_ASSIGN(const bool is_open, begin(root, &first));
  if (is_open) stack.push_back(first);
  while (!stack.empty()) {
    Frame& frame = stack.back();
    if (frame.next == frame.count) {
      end(frame);
      stack.pop_back();
      continue;
    }
    const Value& value = *frame.value;
    if (value.is(ValueKind::kObject) && !value.is_opaque())
      writer_.text(value.attributes().all()[frame.next].name);
    Frame below;
    TENON_ASSIGN(const bool has_children, begin(frame.value->child(frame.next++), &below));
    if (has_children) stack.push_back(below);
  }
  return Status::ok();
}

Result<bool> ValuePickler::begin(Value& value, Frame* frame) {
  frame->value = &value;
  if (value::has_identity(value.kind())) {
    frame->memo = &memo_[&value];
    if (frame->memo->written) {
      writer_.get(frame->memo->number);
      return false;
    }
  }
  switch (value.kind()) {
    case ValueKind::kNone: writer_.opcode(pickle::Opcode::kNone); return false;
    case ValueKind::kBool: writer_.boolean(value.as_bool()); return false;
    case ValueKind::kInt: writer_.integer(value.as_int()); return false;
    case ValueKind::kFloat: writer_.real(value.as_float()); return false;
    case ValueKind::kStr: write_text(value); return false;
    case ValueKind::kDevice: write_device(value.as_device()); return false;
    case ValueKind::kComplex:
      writer_.global("builtins", "complex");
      writer_.real(value.as_complex().real());
      writer_.real(value.as_complex().imag());
      writer_.short_tuple(2);
      writer_.opcode(pickle::Opcode::kReduce);
      break;
    case ValueKind::kTensor: TENON_TRY(tensors_.write(*value.as_tensor())); break;
    case ValueKind::kTuple:
      if (value.child_count() > pickle::PickleWriter::kShortTuple)
        writer_.opcode(pickle::Opcode::kMark);
      break;
    case ValueKind::kList: TENON_TRY(begin_list(value)); break;
    case ValueKind::kDict:
      if (value.declared_type()) writer_.global("torch.jit._pickle", "restore_type_tag");
      writer_.opcode(pickle::Opcode::kEmptyDict);
      writer_.opcode(pickle::Opcode::kMark);
      break;
    case ValueKind::kEnum: TENON_TRY(write_class(value)); break;
    case ValueKind::kObject:
      TENON_TRY(write_class(value));
      writer_.opcode(pickle::Opcode::kEmptyTuple);
      writer_.opcode(pickle::Opcode::kNewObj);
      if (value.is_opaque()) break;
      writer_.opcode(pickle::Opcode::kEmptyDict);
      writer_.opcode(pickle::Opcode::kMark);
      break;
  }
  frame->count = value.child_count();
  return true;
}

void ValuePickler::end(const Frame& frame) {
  const Value& value = *frame.value;
  switch (value.kind()) {
    case ValueKind::kTuple:
      if (frame.count > pickle::PickleWriter::kShortTuple) {
        writer_.opcode(pickle::Opcode::kTuple);
      } else {
        writer_.short_tuple(frame.count);
      }
      break;
    case ValueKind::kList: end_list(value); break;
    case ValueKind::kDict:
      writer_.opcode(pickle::Opcode::kSetItems);
      if (value.declared_type()) write_tag(*value.declared_type());
      break;
    case ValueKind::kEnum: writer_.opcode(pickle::Opcode::kReduce); break;
    case ValueKind::kObject:
      if (!value.is_opaque()) writer_.opcode(pickle::Opcode::kSetItems);
      writer_.opcode(pickle::Opcode::kBuild);
      break;
    default: break;
  }
  if (frame.memo != nullptr && frame.memo->wanted) {
    frame.memo->number = writer_.put();
    frame.memo->written = true;
  }
}

// Both forms contain the bare items. They differ in the places of the call's opcodes.
Status ValuePickler::begin_list(const Value& list) {
  if (const char* function = typed_list_function(list); function != nullptr) {
    const ValueKind wanted = typed_list_item(list);
    for (const ValueRef& item : list.items()) {
      if (item->is(wanted)) continue;
      return error(Code::kInvalidArgument,
                   format("a %s holds a %s", list.declared_type()->print().c_str(),
                          value::value_kind_name(item->kind())));
    }
    writer_.global("torch.jit._pickle", function);
    writer_.opcode(pickle::Opcode::kMark);
  } else if (list.declared_type()) {
    writer_.global("torch.jit._pickle", "restore_type_tag");
  }
  writer_.opcode(pickle::Opcode::kEmptyList);
  writer_.opcode(pickle::Opcode::kMark);
  return Status::ok();
}

void ValuePickler::end_list(const Value& list) {
  writer_.opcode(pickle::Opcode::kAppends);
  if (typed_list_function(list) != nullptr) {
    writer_.opcode(pickle::Opcode::kTuple);
    writer_.opcode(pickle::Opcode::kReduce);
  } else if (list.declared_type()) {
    write_tag(*list.declared_type());
  }
}

void ValuePickler::write_text(const Value& text) {
  if (text.as_str().size() < kLongText) {
    writer_.text(text.as_str());
  } else if (const auto known = texts_.find(&text); known != texts_.end()) {
    writer_.get(known->second);
  } else {
    texts_.emplace(&text, writer_.text(text.as_str()));
  }
}

void ValuePickler::write_tag(const value::Type& type) {
  if (const auto known = types_.find(&type); known != types_.end()) {
    writer_.get(known->second);
  } else {
    types_.emplace(&type, writer_.text(type.print(options_.none_name)));
  }
  writer_.short_tuple(2);
  writer_.opcode(pickle::Opcode::kReduce);
}

Status ValuePickler::write_class(const Value& value) {
  const std::string& name = value.class_name();
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos || !value::is_qualified_name(name)) {
    return error(Code::kInvalidArgument,
                 format("'%s' is no qualified name of a class", name.c_str()));
  }
  writer_.global(std::string_view(name).substr(0, dot), std::string_view(name).substr(dot + 1));
  return Status::ok();
}

void ValuePickler::write_device(const std::string& device) {
  const auto known = devices_.find(device);
  if (known != devices_.end()) return writer_.get(known->second);
  writer_.global("torch", "device");
  writer_.text(device);
  writer_.short_tuple(1);
  writer_.opcode(pickle::Opcode::kReduce);
  devices_.emplace(device, writer_.put());
}

}  // namespace

NameStorage SequentialKeys::namer() {
  return [this](const value::StorageValueRef& storage) -> Result<std::string> {
    storages_.push_back(storage);
    return std::to_string(storages_.size() - 1);
  };
}

Result<std::vector<std::byte>> values_to_pickle(const ValueRef& root,
                                                const FromValuesOptions& options) {
  return ValuePickler(options).run(root);
}

}  // namespace tenon::archive
