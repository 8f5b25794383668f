#include "modules/bytecode/slots.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "modules/bytecode/verify_operands.h"
#include "modules/value/walk.h"

namespace tenon::bytecode {

using value::ClassDecl;
using value::Value;
using value::ValueKind;
using value::ValueRef;

namespace {

using KnownClass = ModuleSlots::Class;

// For each slot below `limit`: whether any instruction sets it.
std::vector<bool> slots_that_are_set(const Program& program, size_t limit) {
  std::vector<bool> is_set(limit, false);
  for (const Function& function : program.functions) {
    for (const Instruction& instruction : function.instructions) {
      const auto slot = static_cast<size_t>(std::max(instruction.x, 0));
      if (instruction.opcode == Opcode::kSetAttr && slot < limit) is_set[slot] = true;
    }
  }
  return is_set;
}

const ClassDecl* find_object_class(const value::ClassTable* classes, std::string_view name) {
  const ClassDecl* const found = classes == nullptr ? nullptr : classes->find(name);
  return found != nullptr && found->kind == ClassDecl::Kind::kObject ? found : nullptr;
}

// Tells which registers only one instruction of a function writes. Such a register always has the
// value that this instruction gave it.
class SoleWriters {
 public:
  explicit SoleWriters(const Function& function) {
    for (const Instruction& instruction : function.instructions) {
      const bool is_range = instruction.opcode == Opcode::kStoreN;
      if (!is_range && instruction.opcode != Opcode::kStore) continue;
      const int64_t first = instruction.x;
      changes_.push_back({first, 1});
      changes_.push_back({first + (is_range ? instruction.n : 1), -1});
    }
    std::sort(changes_.begin(), changes_.end());
    int64_t writers = 0;
    for (Change& change : changes_) writers = change.writers += writers;
  }

  bool has(int64_t number) const {
    const auto behind = std::upper_bound(
        changes_.begin(), changes_.end(), number,
        [](int64_t wanted, const Change& change) { return wanted < change.first; });
    return behind != changes_.begin() && std::prev(behind)->writers == 1;
  }

 private:
  // The registers from `first` up to the next entry have `writers` writers each.
  struct Change {
    int64_t first = 0;
    int64_t writers = 0;
    auto operator<=>(const Change&) const = default;
  };
  std::vector<Change> changes_;
};

// The classes of the values at the top of the stack. Null: the class is not known. The classes of
// all values below are not known either. The size is bounded: an instruction that pushes many
// values makes the stack forget the values below them.
class ClassStack {
 public:
  void clear() noexcept { top_.clear(); }
  size_t size() const noexcept { return top_.size(); }

  void push(const KnownClass* known) {
    if (top_.size() >= kMaxKnown) top_.erase(top_.begin(), top_.begin() + kMaxKnown / 2);
    top_.push_back(known);
  }

  void push_unknown(int64_t count) {
    if (count >= kMaxPushed) return clear();
    for (int64_t i = 0; i < count; ++i) push(nullptr);
  }

  const KnownClass* pop() {
    if (top_.empty()) return nullptr;
    const KnownClass* const known = top_.back();
    top_.pop_back();
    return known;
  }

  void drop(int64_t count) {
    top_.resize(top_.size() - std::min(top_.size(), static_cast<size_t>(count)));
  }

 private:
  static constexpr size_t kMaxKnown = 256;
  static constexpr int64_t kMaxPushed = 64;
  std::vector<const KnownClass*> top_;
};

// Goes through a function once. Where paths meet, it forgets the classes on the stack.
class SlotChecker {
 public:
  SlotChecker(const Function& function, const ModuleSlots& slots, const FindArity& find_arity)
      : function_(function), slots_(slots), find_arity_(find_arity), writers_(function) {}

  Status run() {
    note_targets();
    begin();
    for (size_t i = 0; i < function_.instructions.size(); ++i) {
      if (is_target_[i]) stack_.clear();
      TENON_TRY(step(i));
    }
    return Status::ok();
  }

 private:
  void note_targets() {
    const size_t count = function_.instructions.size();
    is_target_.assign(count, false);
    for (size_t i = 0; i < count; ++i) {
      const Opcode opcode = function_.instructions[i].opcode;
      if (opcode != Opcode::kJf && opcode != Opcode::kJmp && opcode != Opcode::kLoop) continue;
      is_target_[static_cast<size_t>(static_cast<int64_t>(i) + function_.instructions[i].x)] = true;
    }
  }

  void begin() {
    size_t inputs = function_.arguments.size();
    const Instruction& first = function_.instructions.front();
    // Without a schema, the first instruction tells the number of inputs.
    if (!function_.has_schema)
      inputs = first.opcode == Opcode::kStoreN ? static_cast<size_t>(first.n) : 1;
    if (inputs == 0) return;
    stack_.push(slots_.self_of(function_));
    for (size_t i = 1; i < inputs; ++i) stack_.push(nullptr);
  }

  Status step(size_t i) {
    const Instruction& instruction = function_.instructions[i];
    switch (instruction.opcode) {
      case Opcode::kOp:
      case Opcode::kOpN: apply(effect_of_operator(i)); break;
      case Opcode::kLoad:
      case Opcode::kMove: stack_.push(class_in(instruction.x)); break;
      case Opcode::kStore: store(instruction.x, 1); break;
      case Opcode::kStoreN: store(instruction.x, instruction.n); break;
      case Opcode::kGetAttr: return get_attribute(i);
      case Opcode::kSetAttr: stack_.drop(1); return check_slot(i, stack_.pop());
      case Opcode::kJmp:
      case Opcode::kLoop:
      case Opcode::kRet:
      case Opcode::kRaiseException: stack_.clear(); break;
      default: apply(stack_effect(instruction)); break;
    }
    return Status::ok();
  }

  Status get_attribute(size_t i) {
    const KnownClass* const known = stack_.pop();
    TENON_TRY(check_slot(i, known));
    stack_.push(known == nullptr
                    ? nullptr
                    : known->inner_at(static_cast<size_t>(function_.instructions[i].x)));
    return Status::ok();
  }

  Status check_slot(size_t i, const KnownClass* known) const {
    const auto slot = static_cast<size_t>(function_.instructions[i].x);
    if (known == nullptr && slot >= slots_.largest()) {
      return instruction_fault(
          Code::kCorrupt, function_, i,
          format("there is no attribute %zu, for no object of the module has more than %zu", slot,
                 slots_.largest()));
    }
    if (known == nullptr || slot < known->count) return Status::ok();
    return instruction_fault(
        Code::kCorrupt, function_, i,
        format("there is no attribute %zu, for an object of the class %.300s has %zu", slot,
               known->name.c_str(), known->count));
  }

  StackEffect effect_of_operator(size_t i) {
    const auto number = static_cast<size_t>(function_.instructions[i].x);
    const auto [found, is_new] = arities_.try_emplace(number);
    if (is_new && find_arity_)
      found->second =
          find_arity_(function_.operators[number].name, function_.operators[number].overload);
    return operator_effect(function_, i, found->second);
  }

  void apply(const StackEffect& effect) {
    if (effect.pops < 0 || effect.pushes < 0) return stack_.clear();
    stack_.drop(effect.pops);
    stack_.push_unknown(effect.pushes);
  }

  // Stores the top `count` values of the stack into the registers from `first` on. The last
  // register gets the topmost value.
  void store(int64_t first, int64_t count) {
    const int64_t known = std::min(count, static_cast<int64_t>(stack_.size()));
    for (int64_t i = 1; i <= known; ++i) {
      const KnownClass* const value = stack_.pop();
      const int64_t number = first + count - i;
      if (value != nullptr && writers_.has(number)) registers_[number] = value;
    }
  }

  const KnownClass* class_in(int64_t number) const {
    const auto found = registers_.find(number);
    return found == registers_.end() ? nullptr : found->second;
  }

  const Function& function_;
  const ModuleSlots& slots_;
  const FindArity& find_arity_;
  const SoleWriters writers_;
  std::vector<bool> is_target_;  // by instruction: whether some instruction jumps to it
  ClassStack stack_;
  std::unordered_map<int64_t, const KnownClass*> registers_;  // only registers with a known class
  std::unordered_map<size_t, std::optional<OperatorArity>> arities_;
};

}  // namespace

Result<ModuleSlots> ModuleSlots::create(const Program& program, const ValueRef& module,
                                        const value::ClassTable* classes) {
  ModuleSlots slots;
  if (module->is(ValueKind::kObject)) slots.root_ = module->class_name();
  std::vector<ValueRef> objects;
  TENON_TRY(value::for_each(*module, [&](Value& object, size_t) -> Status {
    if (!object.is(ValueKind::kObject)) return Status::ok();
    objects.push_back(ValueRef::share(&object));
    slots.count_object(object, classes);
    return Status::ok();
  }));
  const std::vector<bool> is_set = slots_that_are_set(program, slots.largest_);
  for (const ValueRef& object : objects) slots.note_inner(*object, is_set);
  // A method may get an object of a declared class from its caller.
  for (const Function& function : program.functions) {
    for (const Argument& argument : function.arguments) {
      const ClassDecl* const decl = argument.type.starts_with("__torch__.")
                                        ? find_object_class(classes, argument.type)
                                        : nullptr;
      if (decl != nullptr) slots.largest_ = std::max(slots.largest_, decl->fields.size());
    }
  }
  return slots;
}

void ModuleSlots::count_object(const Value& object, const value::ClassTable* classes) {
  size_t count = object.is_opaque() ? 0 : object.attributes().size();
  if (object.is_opaque()) {
    // The object has a state. Its __setstate__ sets the attributes that its class declares.
    const ClassDecl* const decl = find_object_class(classes, object.class_name());
    if (decl == nullptr) return;
    count = decl->fields.size();
  }
  KnownClass& known = classes_[object.class_name()];
  if (known.name.empty()) known.name = object.class_name();
  known.count = std::max(known.count, count);
  largest_ = std::max(largest_, count);
}

void ModuleSlots::note_inner(const Value& object, const std::vector<bool>& is_set) {
  const auto found = classes_.find(object.class_name());
  if (found == classes_.end()) return;
  KnownClass& known = found->second;
  const size_t count = object.is_opaque() ? 0 : object.attributes().size();
  const bool is_first = !known.has_inner;
  known.has_inner = true;
  known.inner.resize(is_first ? count : std::min(count, known.inner.size()), nullptr);
  for (size_t slot = 0; slot < known.inner.size(); ++slot) {
    const Value& value = *object.attributes().all()[slot].value;
    const auto there = value.is(ValueKind::kObject) && !is_set[slot]
                           ? classes_.find(value.class_name())
                           : classes_.end();
    const KnownClass* const inner = there == classes_.end() ? nullptr : &there->second;
    if (is_first) known.inner[slot] = inner;
    if (known.inner[slot] != inner) known.inner[slot] = nullptr;
  }
}

const KnownClass* ModuleSlots::self_of(const Function& function) const {
  const size_t dot = function.name.rfind('.');
  const std::string_view name = dot == std::string::npos
                                    ? std::string_view()
                                    : std::string_view(function.name).substr(0, dot);
  const std::string_view method =
      std::string_view(function.name).substr(dot == std::string::npos ? 0 : dot + 1);
  if (const auto found = classes_.find(name); found != classes_.end()) return &found->second;
  // The lite interpreter finds a method of the root by its last name. It finds __setstate__ and
  // __getstate__ by the whole name.
  if (method == "__setstate__" || method == "__getstate__") return nullptr;
  const auto root = classes_.find(root_);
  return root == classes_.end() ? nullptr : &root->second;
}

Status check_slots(const Function& function, const ModuleSlots& slots,
                   const FindArity& find_arity) {
  return SlotChecker(function, slots, find_arity).run();
}

}  // namespace tenon::bytecode
