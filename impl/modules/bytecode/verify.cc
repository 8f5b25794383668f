#include "modules/bytecode/verify.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "modules/bytecode/slots.h"
#include "modules/bytecode/verify_names.h"
#include "modules/bytecode/verify_operands.h"

namespace tenon::bytecode {
namespace {

constexpr int64_t kWordBits = 64;
// The number of values that a LOOP has on the stack below the carried values: the number of rounds
// so far, the limit and the condition.
constexpr int64_t kLoopState = 3;

// The state before an instruction, as far as it is the same on all paths to it.
struct PathState {
  int64_t depth = 0;              // the number of values on the stack
  bool is_exact = true;           // whether `depth` is known
  std::vector<uint64_t> written;  // bit r - 1: register r has a value
};

class FunctionVerifier {
 public:
  FunctionVerifier(const Function& function, const VerifyOptions& options)
      : function_(function), options_(options), steps_left_(options.max_steps) {}

  Status run() {
    const size_t count = function_.instructions.size();
    if (count == 0) return fault(Code::kCorrupt, "it has no instruction");
    if (function_.has_schema && function_.returns.size() != 1) {
      return fault(Code::kCorrupt, format("it returns %zu values, and a function returns one",
                                          function_.returns.size()));
    }
    TENON_TRY(check_names(function_));
    TENON_ASSIGN(const std::vector<TypeShape> types, parse_types(function_));
    for (size_t i = 0; i < count; ++i) TENON_TRY(check_operands(function_, types, i));
    TENON_TRY(begin());
    for (size_t i = 0; i < count; ++i) {
      if (auto waiting = waiting_.find(i); waiting != waiting_.end()) {
        words_held_ -= words();
        TENON_TRY(join(i, std::move(waiting->second)));
        waiting_.erase(waiting);
      }
      while (!loops_.empty() && loops_.back().exit <= i) leave_loop();
      if (is_reachable_) TENON_TRY(step(i));
    }
    if (!is_reachable_) return Status::ok();
    return instruction_fault(Code::kCorrupt, function_, count - 1,
                             "the function ends here without RET");
  }

 private:
  // A loop that has begun and whose exit comes later.
  struct OpenLoop {
    size_t index = 0;
    size_t exit = 0;
    PathState entry;
  };

  size_t words() const noexcept {
    return static_cast<size_t>((function_.register_count + kWordBits - 1) / kWordBits);
  }

  Status begin() {
    const auto limit = static_cast<int64_t>(options_.max_words);
    if (function_.register_count < 0) return fault(Code::kCorrupt, "it has less than no registers");
    if (function_.register_count / kWordBits >= limit) {
      return fault(Code::kResourceExhausted, "it has more registers than the limit allows");
    }
    arities_.resize(function_.operators.size());
    for (size_t i = 0; options_.find_arity && i < arities_.size(); ++i) {
      arities_[i] =
          options_.find_arity(function_.operators[i].name, function_.operators[i].overload);
    }
    TENON_TRY(hold_words());
    state_.written.assign(words(), 0);
    state_.depth = static_cast<int64_t>(function_.arguments.size());
    if (function_.has_schema) return Status::ok();
    // Without a schema, the first instruction tells the number of arguments.
    const Instruction& first = function_.instructions.front();
    state_.is_exact = first.opcode == Opcode::kStore || first.opcode == Opcode::kStoreN;
    state_.depth = first.opcode == Opcode::kStoreN ? first.n : 1;
    return Status::ok();
  }

  Status step(size_t i) {
    const Instruction& instruction = function_.instructions[i];
    const int64_t x = instruction.x;
    switch (instruction.opcode) {
      case Opcode::kOp:
      case Opcode::kOpN: return call_operator(i);
      case Opcode::kRet: return end_function(i);
      case Opcode::kLoop: return begin_loop(i);
      default: break;
    }
    const StackEffect effect = stack_effect(instruction);
    TENON_TRY(pop(i, effect.pops));
    state_.depth += effect.pushes;
    switch (instruction.opcode) {
      case Opcode::kStore: set_register(x, true); break;
      case Opcode::kStoreN: return write_registers(i);
      case Opcode::kLoad:
      case Opcode::kMove:
        if (!has_register(x)) {
          return instruction_fault(
              Code::kCorrupt, function_, i,
              format("register %lld is read, and has no value on every path that leads here",
                     static_cast<long long>(x)));
        }
        if (instruction.opcode == Opcode::kMove) set_register(x, false);
        break;
      case Opcode::kDropR: set_register(x, false); break;
      case Opcode::kJf: return wait_at(i, target_of(i), state_);
      case Opcode::kJmp: return jump(i);
      case Opcode::kRaiseException: is_reachable_ = false; break;
      default: break;
    }
    return Status::ok();
  }

  Status call_operator(size_t i) {
    const Instruction& instruction = function_.instructions[i];
    const auto number = static_cast<size_t>(instruction.x);
    const StackEffect effect = operator_effect(function_, i, arities_[number]);
    if (effect.pops >= 0) TENON_TRY(pop(i, effect.pops));
    // Up to version 7, RAISE_EXCEPTION is an operator and no instruction.
    if (function_.operators[number].name == "prim::RaiseException") is_reachable_ = false;
    if (effect.pops < 0 || effect.pushes < 0) {
      state_.is_exact = false;
    } else {
      state_.depth += effect.pushes;
    }
    return Status::ok();
  }

  Status end_function(size_t i) {
    is_reachable_ = false;
    if (!state_.is_exact || state_.depth == 1) return Status::ok();
    return instruction_fault(
        Code::kCorrupt, function_, i,
        format("the stack has %lld values at the end, and a function returns one",
               static_cast<long long>(state_.depth)));
  }

  Status begin_loop(size_t i) {
    const int64_t needed = function_.instructions[i].n - 2 + kLoopState;
    TENON_TRY(need(i, needed));
    const size_t exit = target_of(i);
    if (!loops_.empty() && exit > loops_.back().exit) {
      return instruction_fault(
          Code::kCorrupt, function_, i,
          format("it leaves the loop of instruction %zu, in which it stands", loops_.back().index));
    }
    TENON_TRY(hold_words());
    loops_.push_back({i, exit, state_});
    PathState after = state_;
    after.depth -= kLoopState;
    return wait_at(i, exit, std::move(after));
  }

  void leave_loop() {
    words_held_ -= words();
    loops_.pop_back();
  }

  Status jump(size_t i) {
    is_reachable_ = false;
    const size_t target = target_of(i);
    if (target > i) return wait_at(i, target, std::move(state_));
    // The open loops are ordered by their first instructions.
    const auto loop =
        std::lower_bound(loops_.begin(), loops_.end(), target,
                         [](const OpenLoop& open, size_t wanted) { return open.index < wanted; });
    if (loop == loops_.end() || loop->index != target) {
      return instruction_fault(
          Code::kCorrupt, function_, i,
          format("it jumps back to the loop of instruction %zu from outside of it", target));
    }
    TENON_TRY(take_steps(words()));
    if (state_.is_exact && loop->entry.is_exact && state_.depth != loop->entry.depth) {
      return depth_fault(i, target, state_.depth, loop->entry.depth);
    }
    for (size_t word = 0; word < words(); ++word) {
      const uint64_t lost = loop->entry.written[word] & ~state_.written[word];
      if (lost == 0) continue;
      return instruction_fault(
          Code::kCorrupt, function_, i,
          format("register %lld has no value any more when the loop of instruction %zu goes round",
                 static_cast<long long>(word) * kWordBits + __builtin_ctzll(lost) + 1, target));
    }
    return Status::ok();
  }

  // Keeps the state until the verifier comes to `target`, a jump target behind instruction `from`.
  Status wait_at(size_t from, size_t target, PathState state) {
    if (auto present = waiting_.find(target); present != waiting_.end()) {
      return merge(from, target, &present->second, state);
    }
    TENON_TRY(hold_words());
    waiting_.emplace(target, std::move(state));
    return Status::ok();
  }

  Status join(size_t i, PathState state) {
    if (is_reachable_) return merge(i == 0 ? 0 : i - 1, i, &state_, state);
    state_ = std::move(state);
    is_reachable_ = true;
    return Status::ok();
  }

  Status merge(size_t from, size_t target, PathState* into, const PathState& other) {
    TENON_TRY(take_steps(words()));
    if (into->is_exact && other.is_exact && into->depth != other.depth) {
      return depth_fault(from, target, into->depth, other.depth);
    }
    into->is_exact = into->is_exact && other.is_exact;
    for (size_t word = 0; word < words(); ++word) into->written[word] &= other.written[word];
    return Status::ok();
  }

  Status depth_fault(size_t from, size_t target, int64_t one, int64_t other) const {
    return instruction_fault(
        Code::kCorrupt, function_, from,
        format("the paths to instruction %zu leave %lld values on the stack, and %lld", target,
               static_cast<long long>(one), static_cast<long long>(other)));
  }

  Status need(size_t i, int64_t count) const {
    if (!state_.is_exact || state_.depth >= count) return Status::ok();
    return instruction_fault(
        Code::kCorrupt, function_, i,
        format("it takes %lld values from a stack of %lld", static_cast<long long>(count),
               static_cast<long long>(state_.depth)));
  }

  Status pop(size_t i, int64_t count) {
    TENON_TRY(need(i, count));
    state_.depth -= count;
    return Status::ok();
  }

  size_t target_of(size_t i) const noexcept {
    return static_cast<size_t>(static_cast<int64_t>(i) + function_.instructions[i].x);
  }

  bool has_register(int64_t number) const noexcept {
    const auto bit = static_cast<uint64_t>(number - 1);
    return (state_.written[bit / kWordBits] >> (bit % kWordBits) & 1) != 0;
  }

  void set_register(int64_t number, bool has_value) noexcept {
    const auto bit = static_cast<uint64_t>(number - 1);
    const uint64_t mask = uint64_t{1} << (bit % kWordBits);
    uint64_t& word = state_.written[bit / kWordBits];
    word = has_value ? word | mask : word & ~mask;
  }

  Status write_registers(size_t i) {
    const Instruction& instruction = function_.instructions[i];
    const auto first = static_cast<uint64_t>(instruction.x - 1);
    const uint64_t end = first + static_cast<uint64_t>(instruction.n);
    TENON_TRY(take_steps((end - first) / kWordBits + 1));
    for (uint64_t bit = first; bit < end;) {
      const uint64_t word = bit / kWordBits;
      const uint64_t next = std::min<uint64_t>(end, (word + 1) * kWordBits);
      const uint64_t mask = next - bit == kWordBits
                                ? ~uint64_t{0}
                                : ((uint64_t{1} << (next - bit)) - 1) << (bit % kWordBits);
      state_.written[word] |= mask;
      bit = next;
    }
    return Status::ok();
  }

  // Counts one more state that is held. Call this before the state is copied.
  Status hold_words() {
    words_held_ += words();
    if (words_held_ > options_.max_words) {
      return fault(Code::kResourceExhausted,
                   "its registers and jumps take more memory than the limit allows");
    }
    return take_steps(words());
  }

  Status take_steps(uint64_t count) {
    if (count > steps_left_) {
      return fault(Code::kResourceExhausted,
                   "its registers and jumps take more steps to verify than the limit allows");
    }
    steps_left_ -= count;
    return Status::ok();
  }

  Status fault(Code code, const std::string& what) const {
    return function_fault(code, function_, what);
  }

  const Function& function_;
  const VerifyOptions& options_;
  uint64_t steps_left_;
  uint64_t words_held_ = 0;
  std::vector<std::optional<OperatorArity>> arities_;  // by operator; nothing: not known
  PathState state_;
  bool is_reachable_ = true;
  std::map<size_t, PathState> waiting_;  // by the instruction to which the paths lead
  std::vector<OpenLoop> loops_;          // the innermost loop is the last
};

}  // namespace

Status verify(const Function& function, const VerifyOptions& options) {
  return FunctionVerifier(function, options).run();
}

namespace {

// `slots` gives a Result with a pointer to the slots, or to null: they are not checked.
template <typename Slots>
Status verify_program(const Program& program, const VerifyOptions& options, Slots&& slots) {
  // The arities are cached, because functions call the same operators again and again, and the
  // caller's search takes long.
  std::map<std::pair<std::string_view, std::string_view>, std::optional<OperatorArity>> known;
  VerifyOptions sharing = options;
  if (options.find_arity) {
    sharing.find_arity = [&](const std::string& name, const std::string& overload) {
      const auto [found, is_new] = known.try_emplace({name, overload});
      if (is_new) found->second = options.find_arity(name, overload);
      return found->second;
    };
  }
  for (const Function& function : program.functions) TENON_TRY(verify(function, sharing));
  TENON_ASSIGN(const ModuleSlots* const known_slots, slots());
  if (known_slots == nullptr) return Status::ok();
  for (const Function& function : program.functions)
    TENON_TRY(check_slots(function, *known_slots, sharing.find_arity));
  return Status::ok();
}

}  // namespace

Status verify(const Program& program, const VerifyOptions& options) {
  std::optional<ModuleSlots> made;
  return verify_program(program, options, [&]() -> Result<const ModuleSlots*> {
    if (!options.module) return static_cast<const ModuleSlots*>(nullptr);
    TENON_ASSIGN(made, ModuleSlots::create(program, options.module, options.classes));
    return &*made;
  });
}

Status verify(const Program& program, const ModuleSlots& slots, const VerifyOptions& options) {
  return verify_program(program, options, [&]() -> Result<const ModuleSlots*> { return &slots; });
}

}  // namespace tenon::bytecode
