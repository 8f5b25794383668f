// FunctionCompiler: one function's source becomes a graph.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compile/builder.h"
#include "compile/environment.h"
#include "compile/match.h"
#include "compile/sugar.h"
#include "compile/unit.h"
#include "script/ast.h"

namespace tenon::compile {

// What a condition says: a value, or the answer that is known already, and what is known of
// variables on each way.
struct Condition {
  GraphValue* value = nullptr;  // null: `known` is the answer
  bool known = false;
  using Refinements = std::map<std::string, TypeRef, std::less<>>;
  Refinements if_true;
  Refinements if_false;
};

// How a sequence of statements ends.
enum class Flow : uint8_t {
  kGoesOn,
  kMayLeave,  // by return, break or continue on some ways
  kLeaves,    // on all ways
  kRaises,    // an exception ends it
};
Flow flow_of(script::StmtList statements);

class FunctionCompiler {
 public:
  FunctionCompiler(Unit* unit, const Header& header, Compiled* out)
      : unit_(*unit),
        header_(header),
        out_(*out),
        builder_(unit->classes(), unit->torch(), *header.source, unit->max_nodes(), &out->graph) {}

  Status run();

 private:
  // One level more of an expression or a block, as long as it lives.
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
  Status assign(const script::Expr& target, Sugar given, const TypeRef& declared);
  Status assign_name(std::string_view name, GraphValue* value, const TypeRef& declared,
                     script::Range range);
  Status assign_items(const script::Expr& target, Sugar given);
  Status assign_attribute(const script::Expr& target, GraphValue* value);
  Status augmented(const script::Stmt& stmt);
  // The operator that `a += b` and its like call for an `a` of this type. It changes a Tensor or a
  // list itself, where PyTorch has such an operator.
  static std::string_view augmenting_name(script::Operator op, const Type& type);
  Status raise(const script::Stmt& stmt);
  // The message of the exception is `beginning` and the text of each word, with nothing between.
  Status raise_error(std::string beginning, script::ExprList words);
  Status assertion(const script::Stmt& stmt);
  Status leave(const script::Stmt& stmt);
  Status delete_items(const script::Stmt& stmt);

  // branches.cc
  // `rest`: what follows the `if` in its block. It is compiled into the way that goes on, if the
  // other one leaves; then *took_rest is set.
  Status if_statement(const script::Stmt& stmt, script::StmtList rest, Flow* flow, bool* took_rest);
  Status only_way(const Condition& chosen, script::StmtList statements, script::StmtList other,
                  Flow* flow);
  struct Way {
    Block* block = nullptr;
    Environment::Changes changes;
    Flow flow = Flow::kGoesOn;
    bool forgets = false;  // what follows its statements: what the condition told
  };
  Status way(const Condition::Refinements& known, Block* block, script::StmtList statements,
             script::StmtList rest, Way* out);
  // Variables where two ways meet become outputs of `node`.
  Status join(Node* node, Way if_true, Way if_false);
  Status if_not_left(script::StmtList rest, Flow* flow);
  // What the variables stand for on each of two ways.
  struct Pair {
    Local ways[2];
  };
  using Changed = std::map<std::string, Pair, std::less<>>;
  // Where a way leaves a round, and a variable that the loop carries has another type than on the
  // way that goes on: keeps what the variable is there.
  Status keep_what_is_left(const Way* const (&ways)[2], Changed* changed);
  TypeRef joined_type(std::string_view name, const Pair& pair, const Way* const (&ways)[2]) const;
  // What a loop hands on of a variable: `kept` where the flag is set, and `usual` elsewhere. The
  // flag may be null: it is set nowhere.
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
  Result<Sugar> item_of(const Iterable& iterable, GraphValue* index);
  static constexpr size_t kMostUnrolled = 4096;
  // The loop node, with what the body changes carried on. `head` runs at the start of each round,
  // with its number.
  using Head = std::function<Status(GraphValue* index)>;
  Status loop(GraphValue* rounds, const script::Expr* condition, script::ExprList targets,
              script::StmtList body, const Head& head);

  // containers.cc
  // Gives the element of one round, or the key and what it leads to.
  using Entry = std::function<Status(Sugar item, GraphValue** first, GraphValue** second)>;
  Status collect(const Iterable& over, bool is_dict, const TypeRef& hint, script::Range range,
                 const Entry& entry, Sugar* out);
  Status container_of(const script::Expr& expr, bool is_dict, const TypeRef& hint, Sugar* out);
  Status comprehension(const script::Expr& expr, const TypeRef& hint, Sugar* out);
  Status call_container(const script::Expr& expr, std::string_view name, const TypeRef& hint,
                        Sugar* out);

  // expressions.cc
  Result<GraphValue*> value(const script::Expr& expr, const TypeRef& hint = nullptr);
  Result<GraphValue*> value_of(Sugar sugar, script::Range range);
  Status sugar(const script::Expr& expr, const TypeRef& hint, Sugar* out);
  Status name(const script::Expr& expr, Sugar* out);
  void name_sugar(std::string_view name, Sugar sugar);
  const Sugar* sugar_of_name(std::string_view name) const;
  Status number(const script::Expr& expr, Sugar* out);
  Status binary(const script::Expr& expr, Sugar* out);
  Status unary(const script::Expr& expr, Sugar* out);
  Status conditional(const script::Expr& expr, const TypeRef& hint, Sugar* out);
  Status list_display(const script::Expr& expr, const TypeRef& hint, Sugar* out);
  Status dict_display(const script::Expr& expr, const TypeRef& hint, Sugar* out);
  Status tuple_display(const script::Expr& expr, const TypeRef& hint, Sugar* out);
  bool is_tuple(const Type& type) const;
  // `dict(a=1)`, `dict(other, a=1)` and `dict()`.
  Status dict_of_keywords(const script::Expr& expr, const TypeRef& hint, Sugar* out);
  // A dict literal of keys and values that take turns. `hint` may be null.
  Status dict_of(std::vector<GraphValue*> items, const TypeRef& hint, Sugar* out);

  // attributes.cc
  Status attribute(const script::Expr& expr, Sugar* out);
  Status attribute_of(const Sugar& base, std::string_view name, script::Range range, Sugar* out);
  Status attribute_of_value(GraphValue* base, std::string_view name, script::Range range,
                            Sugar* out);
  Status attribute_of_tensor(GraphValue* base, std::string_view name, Sugar* out, bool* done);
  Status qualified_name(std::string name, script::Range range, Sugar* out);
  Result<GraphValue*> literal_of(const script::Source& source, const script::Expr& expr,
                                 const TypeRef& hint);

  // calls.cc
  Status call(const script::Expr& expr, const TypeRef& hint, Sugar* out);
  Status call_global(const script::Expr& expr, const Sugar& callee, const TypeRef& hint,
                     Sugar* out);
  Status call_sugar(const script::Expr& expr, const Sugar& callee, const GivenArguments& given,
                    Sugar* out);
  Status call_operator(std::string_view name, const GivenArguments& given, Sugar* out);
  // `of_object`: the function is a method, and its object stands before the dot.
  Status call_compiled(const Header& header, const GivenArguments& given, bool of_object,
                       Sugar* out);
  std::string_view instance_name(const GraphValue* object) const;
  Status call_interface(const Sugar& callee, const GivenArguments& given, Sugar* out);
  Status call_class(const std::string& name, const GivenArguments& given, Sugar* out);
  Status arguments(const script::Expr& call, size_t skip, GivenArguments* out);
  Status to_list(GraphValue* tensor, const TypeRef& hint, Sugar* out);
  Status cast(std::string_view to, const GivenArguments& given, Sugar* out);
  Result<bool> has_attribute(const Type& type, std::string_view name);
  Result<GraphValue*> operator_value(std::string_view name, std::vector<GraphValue*> operands);

  // forks.cc
  Status refuse_fork(const std::string& what) const;
  Status define_closure(const script::Stmt& stmt);
  Status call_closure(const Closure& closure, Sugar* out);
  Status fork(const script::Expr& expr, std::string_view name, Sugar* out);
  Status wait(GraphValue* future, TypeRef type, Sugar* out);

  // subscripts.cc
  Status subscript(const script::Expr& expr, const TypeRef& hint, Sugar* out);
  Status subscript_object(const script::Expr& expr, GraphValue* base, GraphValue* at,
                          const TypeRef& hint, Sugar* out);
  Status index_tensor(GraphValue* base, script::ExprList indices, Sugar* out);
  Result<GraphValue*> sliced(GraphValue* base, GraphValue* dimension, const script::Expr& slice);
  Status slice_tuple(GraphValue* base, const script::Expr& slice, Sugar* out);
  // `augmented` is null for a plain assignment of `value`. What an augmented one assigns is
  // evaluated after the target.
  Status assign_subscript(const script::Expr& target, GraphValue* value,
                          const script::Stmt* augmented);
  // The views that slices and ints make, and what is left for aten::index.
  Status view_of(GraphValue* base, script::ExprList indices, GraphValue** view,
                 std::vector<GraphValue*>* tensors);

  // What a constant number is; false: it is none.
  static bool known_int(const GraphValue* value, int64_t* out);

  Unit& unit_;
  const Header& header_;
  Compiled& out_;
  Builder builder_;
  Environment environment_;
  size_t frame_ = 1;  // the Local::frame of variables that the current statements make
  // `f = __torch__.g` and `r = range(n)`: a name for what is no value. Blocks within `block` see
  // it.
  struct NamedSugar {
    Sugar sugar;
    const Block* block = nullptr;
  };
  std::map<std::string, NamedSugar, std::less<>> named_sugars_;
  std::deque<Closure> closures_;
  size_t loops_ = 0;
};

// Names that no source can have: how a function is left.
inline constexpr std::string_view kLeft =
    "%left";  // the rest of this sequence of statements is not run
inline constexpr std::string_view kStopped = "%stopped";    // the loop ends
inline constexpr std::string_view kReturned = "%returned";  // the function ends
inline constexpr std::string_view kResult = "%result";

// A variable may have another type where a round is left than where the round goes on, such as
// None and int after `if x is None: break`. There the variable has the type of the way that goes
// on. Two variables beside it keep what it is on the way that is left: a flag, and the value.
inline constexpr std::string_view kFlagPrefix = "%kept ";
inline constexpr std::string_view kKeptPrefix = "%value ";
inline std::string name_of_flag(std::string_view variable) {
  return std::string(kFlagPrefix).append(variable);
}
inline std::string name_of_kept(std::string_view variable) {
  return std::string(kKeptPrefix).append(variable);
}

}  // namespace tenon::compile
