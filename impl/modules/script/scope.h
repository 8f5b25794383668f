// Scope: which local variables are set at a point of a function, and what they stand for there. The
// checker updates it while it walks over a function.
//
// A variable is set at a point if every path to the point sets it. Where paths branch, the checker
// follows one after the other. The scope records what one path changes, and undoes it before the
// next path. So a branch costs time for the variables that it changes, and not for all variables.
#pragma once

#include <cstdint>
#include <string_view>

#include "modules/script/checked_value.h"
#include "modules/script/source.h"
#include "modules/script/undo_log.h"

namespace tenon::script {

// Whether the code after a statement is reached.
enum class Flow : uint8_t {
  kGoesOn,
  kMayEnd,  // PyTorch may know more than the checker, and so compile nothing after the statement
  kEnds,    // the statement returns or raises, and nothing after it is compiled
};

enum class Set : uint8_t { kNo, kMaybe, kYes };

struct Variable {
  Set set = Set::kNo;
  CheckedValue meaning;
  // Why the variable is not set although some code sets it. `where` is the statement that is the
  // reason.
  enum class Lost : uint8_t { kNever, kNotIfFalse, kNotIfTrue, kInLoop, kInner, kDeleted };
  Lost lost = Lost::kNever;
  Range where;
};

class Scope {
 public:
  // Null: no code has set the name so far. Valid until the next call that is not const.
  const Variable* find(std::string_view name) const { return log_.find(name); }
  void set(std::string_view name, CheckedValue meaning);
  void unset(std::string_view name, Range where);
  // Sets CheckedValue::was_tested, because PyTorch may know more of the variable from here on.
  void mark_tested(std::string_view name);

  using Changes = UndoLog<Variable>::Changes;

  // begin() opens a mark. take() with that mark undoes the changes since then and returns them.
  // Pairs of begin() and take() nest like brackets.
  size_t begin() { return log_.begin(); }
  Changes take(size_t mark) { return log_.take(mark); }

  // Joins the changes of the two branches of an `if`. `where` is the `if` statement.
  void meet(Changes if_true, Flow flow_true, Changes if_false, Flow flow_false, Range where);
  // Makes changes that take() has undone once more.
  void apply(Changes changes);
  // Joins the changes of a loop's body. A variable that was not set before the loop is not set
  // after it. If PyTorch may have unrolled the loop, the variable may be set.
  void leave_loop(Changes body, bool may_be_unrolled, Range where);
  // Drops the changes of a nested function or a comprehension, because its variables are its own.
  void leave_inner(const Changes& inner, Range where);

  // The name of a set variable that is spelled most like `name`. Empty: none is near enough.
  std::string_view nearest(std::string_view name) const;

 private:
  UndoLog<Variable> log_;
};

}  // namespace tenon::script
