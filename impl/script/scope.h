// Which local names are set at a point of a function, on every way that reaches it; and what they
// stand for.
//
// Ways that part and meet are followed one after the other: what one of them changes is recorded
// and taken back, so that the cost is that of what changes, and not of all names at every branch.
#pragma once

#include <cstdint>
#include <string_view>

#include "script/meaning.h"
#include "script/source.h"
#include "script/undo_log.h"

namespace tenon::script {

// Whether what follows a statement is reached.
enum class Flow : uint8_t {
  kGoesOn,
  kMayEnd,  // PyTorch may have left out the way on, for something that it knows and the checker
            // does not
  kEnds,    // returned or raised: what follows is not compiled
};

enum class Set : uint8_t { kNo, kMaybe, kYes };

struct Variable {
  Set set = Set::kNo;
  Meaning meaning;
  // Why it is not set although something sets it; `where` is the statement that decides.
  enum class Lost : uint8_t { kNever, kNotIfFalse, kNotIfTrue, kInLoop, kInner, kDeleted };
  Lost lost = Lost::kNever;
  Range where;
};

class Scope {
 public:
  // Null: no such name was ever set. Until the next call that is not const.
  const Variable* find(std::string_view name) const { return log_.find(name); }
  void set(std::string_view name, Meaning meaning);
  void unset(std::string_view name, Range where);
  // Its meaning is less sure than it was: see Meaning::was_tested.
  void mark_tested(std::string_view name);

  using Changes = UndoLog<Variable>::Changes;

  // What happens after begin() is taken back by the take() that belongs to it, in the order of
  // brackets.
  size_t begin() { return log_.begin(); }
  Changes take(size_t mark) { return log_.take(mark); }

  // The two ways of an `if` meet. `where`: the statement.
  void meet(Changes if_true, Flow flow_true, Changes if_false, Flow flow_false, Range where);
  // As if it had happened here.
  void apply(Changes changes);
  // A loop's body: what was not set before is not set after, or may be set, where PyTorch may have
  // unrolled the loop.
  void leave_loop(Changes body, bool may_be_unrolled, Range where);
  // What a nested function or a comprehension set stays there.
  void leave_inner(const Changes& inner, Range where);

  // A name that is set, spelled most like this one; empty: none is.
  std::string_view nearest(std::string_view name) const;

 private:
  UndoLog<Variable> log_;
};

}  // namespace tenon::script
