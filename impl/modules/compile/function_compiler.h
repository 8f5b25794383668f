// FunctionCompiler: compiles the source of one function into a graph. Unit makes one for each
// function. The class is implemented in several files, which the comments below name. graph.h
// explains Graph, Block and GraphValue, sugared_value.h explains SugaredValue, Iterable and
// Closure, and unit.h explains Header and Compiled.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "modules/compile/builder.h"
#include "modules/compile/environment.h"
#include "modules/compile/match.h"
#include "modules/compile/sugared_value.h"
#include "modules/compile/unit.h"
#include "modules/script/ast.h"

namespace tenon::compile {

// A compiled condition: a value, or the answer if it is known already, and the types that variables
// have on each branch.
struct Condition {
  GraphValue* value = nullptr;  // null: `known` is the answer
  bool known = false;
  using Refinements = std::map<std::string, TypeRef, std::less<>>;
  Refinements if_true;
  Refinements if_false;
};

// How a sequence of statements ends. To leave it means return, break or continue.
enum class Flow : uint8_t {
  kGoesOn,
  kMayLeave,  // some paths leave it
  kLeaves,    // all paths leave it
  kRaises,    // an exception ends it
};
Flow flow_of(script::StmtList statements);

// The arguments of the constructor must outlive the object. Call run() once. After an error `*out`
// is of no use.
class FunctionCompiler {
 public:
  FunctionCompiler(Unit* unit, const Header& header, Compiled* out)
      : unit_(*unit),
        header_(header),
        out_(*out),
        builder_(unit->classes(), unit->torch(), *header.source, unit->max_nodes(), &out->graph) {}

  Status run();

 private:
  // Counts one more level of nested expressions or blocks for as long as it lives.
  class Nesting {
   public:
    explicit Nesting(Unit* unit) : unit_(*unit) { ++unit_.nesting; }
    ~Nesting() { --unit_.nesting; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    bool is_too_deep() const noexcept { return unit_.nesting > Unit::kMaxNesting; }

   private:
    Unit& unit_;
  };
  Status too_deep() const;

  // statements.cc
  Status block(script::StmtList statements, Flow* flow);
  Status statement(const script::Stmt& stmt);
  Status assign_statement(const script::Stmt& stmt);
  Status assign(const script::Expr& target, SugaredValue given, const TypeRef& declared);
  Status assign_name(std::string_view name, GraphValue* value, const TypeRef& declared,
                     script::Range range);
  Status assign_items(const script::Expr& target, SugaredValue given);
  Status assign_attribute(const script::Expr& target, GraphValue* value);
  Status augmented(const script::Stmt& stmt);
  // The operator that an augmented assignment such as `a += b` calls for an `a` of type `type`. It
  // works in place for a Tensor or a list if PyTorch has such an operator.
  static std::string_view augmenting_name(script::Operator op, const Type& type);
  Status raise(const script::Stmt& stmt);
  // The message of the exception is `beginning` followed by the text of each word, without blanks.
  Status raise_error(std::string beginning, script::ExprList words);
  Status assertion(const script::Stmt& stmt);
  Status leave(const script::Stmt& stmt);
  Status delete_items(const script::Stmt& stmt);

  // branches.cc
  // `rest` are the statements after the `if` in its block. If one branch leaves, `rest` is compiled
  // into the other branch, and *took_rest is set.
  Status if_statement(const script::Stmt& stmt, script::StmtList rest, Flow* flow, bool* took_rest);
  Status only_way(const Condition& chosen, script::StmtList statements, script::StmtList other,
                  Flow* flow);
  // One branch of an `if`.
  struct Branch {
    Block* block = nullptr;
    Environment::Changes changes;
    Flow flow = Flow::kGoesOn;
    // After the statements of the branch, the types that its condition implied no longer hold.
    bool forgets = false;
  };
  Status way(const Condition::Refinements& known, Block* block, script::StmtList statements,
             script::StmtList rest, Branch* out);
  // Joins two branches. The variables that they changed become outputs of `node`.
  Status join(Node* node, Branch if_true, Branch if_false);
  Status if_not_left(script::StmtList rest, Flow* flow);
  // The state of one variable on each of two branches.
  struct Pair {
    Local ways[2];
  };
  using Changed = std::map<std::string, Pair, std::less<>>;
  // Handles a branch that leaves a round of a loop, if a variable that the loop carries has another
  // type there than on the branch that goes on. Keeps the variable's value on the branch that
  // leaves (see kFlagPrefix).
  Status keep_what_is_left(const Branch* const (&ways)[2], Changed* changed);
  TypeRef joined_type(std::string_view name, const Pair& pair,
                      const Branch* const (&ways)[2]) const;
  // The value of a variable that a loop carries to the next round: `kept` if the flag is set at run
  // time, and `usual` otherwise. If `flag` is null, the flag is set nowhere.
  Result<GraphValue*> handed_on(std::string_view name, GraphValue* usual, GraphValue* flag,
                                GraphValue* kept, const TypeRef& type);
  Status refine(const Condition::Refinements& known);

  // conditions.cc
  Status condition(const script::Expr& expr, Condition* out);
  Status comparison_with_none(const script::Expr& expr, Condition* out, bool* done);
  Status is_instance(const script::Expr& expr, Condition* out);
  Status logical(const script::Expr& expr, Condition* out);
  Result<GraphValue*> to_bool(GraphValue* value);
  Result<GraphValue*> bool_of(const Condition& condition);

  // loops.cc
  Status while_statement(const script::Stmt& stmt);
  Status for_statement(const script::Stmt& stmt);
  bool is_iterable_call(const script::Expr& expr) const;
  Status iterable(const script::Expr& expr, Iterable* out);
  Status iterable_of(GraphValue* given, script::Range range, Iterable* out);
  Result<GraphValue*> length_of(const Iterable& iterable);
  Result<SugaredValue> item_of(const Iterable& iterable, GraphValue* index);
  static constexpr size_t kMostUnrolled = 4096;
  // Makes the loop node, which carries the variables that the body changes. `head` compiles the
  // start of a round; its argument is the round's number.
  using Head = std::function<Status(GraphValue* index)>;
  Status loop(GraphValue* rounds, const script::Expr* condition, script::ExprList targets,
              script::StmtList body, const Head& head);

  // containers.cc
  // Compiles the element of one round, or its key and value for a dict.
  using Entry = std::function<Status(SugaredValue item, GraphValue** first, GraphValue** second)>;
  Status collect(const Iterable& over, bool is_dict, const TypeRef& hint, script::Range range,
                 const Entry& entry, SugaredValue* out);
  Status container_of(const script::Expr& expr, bool is_dict, const TypeRef& hint,
                      SugaredValue* out);
  Status comprehension(const script::Expr& expr, const TypeRef& hint, SugaredValue* out);
  Status call_container(const script::Expr& expr, std::string_view name, const TypeRef& hint,
                        SugaredValue* out);

  // expressions.cc
  Result<GraphValue*> value(const script::Expr& expr, const TypeRef& hint = nullptr);
  Result<GraphValue*> value_of(SugaredValue sugar, script::Range range);
  Status sugar(const script::Expr& expr, const TypeRef& hint, SugaredValue* out);
  Status name(const script::Expr& expr, SugaredValue* out);
  void name_sugar(std::string_view name, SugaredValue sugar);
  const SugaredValue* sugar_of_name(std::string_view name) const;
  Status number(const script::Expr& expr, SugaredValue* out);
  Status binary(const script::Expr& expr, SugaredValue* out);
  Status unary(const script::Expr& expr, SugaredValue* out);
  Status conditional(const script::Expr& expr, const TypeRef& hint, SugaredValue* out);
  Status list_display(const script::Expr& expr, const TypeRef& hint, SugaredValue* out);
  Status dict_display(const script::Expr& expr, const TypeRef& hint, SugaredValue* out);
  Status tuple_display(const script::Expr& expr, const TypeRef& hint, SugaredValue* out);
  bool is_tuple(const Type& type) const;
  // `dict(a=1)`, `dict(other, a=1)` and `dict()`.
  Status dict_of_keywords(const script::Expr& expr, const TypeRef& hint, SugaredValue* out);
  // A dict literal. `items` are its keys and values in turn. `hint` may be null.
  Status dict_of(std::vector<GraphValue*> items, const TypeRef& hint, SugaredValue* out);

  // attributes.cc
  Status attribute(const script::Expr& expr, SugaredValue* out);
  Status attribute_of(const SugaredValue& base, std::string_view name, script::Range range,
                      SugaredValue* out);
  Status attribute_of_value(GraphValue* base, std::string_view name, script::Range range,
                            SugaredValue* out);
  Status attribute_of_tensor(GraphValue* base, std::string_view name, SugaredValue* out,
                             bool* done);
  Status qualified_name(std::string name, script::Range range, SugaredValue* out);
  Result<GraphValue*> literal_of(const script::Source& source, const script::Expr& expr,
                                 const TypeRef& hint);

  // calls.cc
  Status call(const script::Expr& expr, const TypeRef& hint, SugaredValue* out);
  Status call_global(const script::Expr& expr, const SugaredValue& callee, const TypeRef& hint,
                     SugaredValue* out);
  Status call_sugar(const script::Expr& expr, const SugaredValue& callee,
                    const GivenArguments& given, SugaredValue* out);
  Status call_operator(std::string_view name, const GivenArguments& given, SugaredValue* out);
  // `of_object` says that the function is a method and its object stands before the dot.
  Status call_compiled(const Header& header, const GivenArguments& given, bool of_object,
                       SugaredValue* out);
  std::string_view instance_name(const GraphValue* object) const;
  Status call_interface(const SugaredValue& callee, const GivenArguments& given, SugaredValue* out);
  Status call_class(const std::string& name, const GivenArguments& given, SugaredValue* out);
  Status arguments(const script::Expr& call, size_t skip, GivenArguments* out);
  Status to_list(GraphValue* tensor, const TypeRef& hint, SugaredValue* out);
  Status cast(std::string_view to, const GivenArguments& given, SugaredValue* out);
  Result<bool> has_attribute(const Type& type, std::string_view name);
  Result<GraphValue*> operator_value(std::string_view name, std::vector<GraphValue*> operands);

  // forks.cc
  Status refuse_fork(const std::string& what) const;
  Status define_closure(const script::Stmt& stmt);
  Status call_closure(const Closure& closure, SugaredValue* out);
  Status fork(const script::Expr& expr, std::string_view name, SugaredValue* out);
  Status wait(GraphValue* future, TypeRef type, SugaredValue* out);

  // subscripts.cc
  Status subscript(const script::Expr& expr, const TypeRef& hint, SugaredValue* out);
  Status subscript_object(const script::Expr& expr, GraphValue* base, GraphValue* at,
                          const TypeRef& hint, SugaredValue* out);
  Status index_tensor(GraphValue* base, script::ExprList indices, SugaredValue* out);
  Result<GraphValue*> sliced(GraphValue* base, GraphValue* dimension, const script::Expr& slice);
  Status slice_tuple(GraphValue* base, const script::Expr& slice, SugaredValue* out);
  // `augmented` is null for a plain assignment of `value`. The right side of an augmented
  // assignment is evaluated after the target.
  Status assign_subscript(const script::Expr& target, GraphValue* value,
                          const script::Stmt* augmented);
  // Finds the view that the slices and ints among the indices make, and the tensors among them,
  // which are left for aten::index.
  Status view_of(GraphValue* base, script::ExprList indices, GraphValue** view,
                 std::vector<GraphValue*>* tensors);

  // The number that `value` is, if it is a constant int. False: it is none.
  static bool known_int(const GraphValue* value, int64_t* out);

  Unit& unit_;
  const Header& header_;
  Compiled& out_;
  Builder builder_;
  Environment environment_;
  size_t frame_ = 1;  // the Local::frame of variables that the current statements make
  // A name that a statement such as `f = __torch__.g` or `r = range(n)` gives to something that is
  // no value. The blocks inside `block` see the name.
  struct NamedSugar {
    SugaredValue sugar;
    const Block* block = nullptr;
  };
  std::map<std::string, NamedSugar, std::less<>> named_sugars_;
  std::deque<Closure> closures_;
  size_t loops_ = 0;
};

// Variables of the compiler, whose names no source can have. The first three are flags. They say
// how code is left, because a graph has no jumps. kLeft: the rest of this sequence of statements is
// not run.
inline constexpr std::string_view kLeft = "%left";
inline constexpr std::string_view kStopped = "%stopped";    // the loop ends
inline constexpr std::string_view kReturned = "%returned";  // the function ends
inline constexpr std::string_view kResult = "%result";      // the result of the function

// A variable may have one type on the path that leaves a round of a loop, and another type on the
// path that goes on, such as None and int after `if x is None: break`. After the two paths meet,
// the variable has the type of the path that goes on. Two more variables keep its value from the
// path that leaves: a flag, and the value.
inline constexpr std::string_view kFlagPrefix = "%kept ";
inline constexpr std::string_view kKeptPrefix = "%value ";
inline std::string name_of_flag(std::string_view variable) {
  return std::string(kFlagPrefix).append(variable);
}
inline std::string name_of_kept(std::string_view variable) {
  return std::string(kKeptPrefix).append(variable);
}

}  // namespace tenon::compile
