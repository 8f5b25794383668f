// Checker: checks one function. check.cc uses it, and check.h says what the check is for.
//
// The class is implemented in several files:
// - checker_statements.cc and checker_loops.cc follow the paths through a body.
// - checker_conditions.cc says which conditions PyTorch decides while it compiles.
// - checker_expressions.cc and checker_attributes.cc say what an expression stands for.
// - checker_calls.cc says whether the arguments of a call fit by number and keyword.
// - checker_operands.cc says whether the types of the operands fit.
// - checker_literals.cc says which types literals and arithmetic have.
// - checker_versioned.cc says whether a call depends on the archive's version.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "modules/script/check.h"
#include "modules/script/checked_value.h"
#include "modules/script/operand_types.h"
#include "modules/script/scope.h"

namespace tenon::script {

// Whether PyTorch unrolls a loop. It unrolls a loop whose number of rounds it knows when it
// compiles. The body of an unrolled loop is no block of its own.
enum class Unrolled : uint8_t {
  kNo,
  kYes,
  kMaybe,
  kNever,  // the loop is over an empty tuple, and its body is not compiled
};

// Each call of function() needs a Checker of its own, because self_, returns_ and scope_ keep what
// function() put into them. The arguments of the constructor must outlive the object. `uses` may be
// null.
class Checker {
 public:
  Checker(const Environment& environment, const Source& source, const CheckOptions& options,
          Uses* uses)
      : environment_(environment), source_(source), options_(options), uses_(uses) {}

  // Checks a function with its body. `owner` is the class of a method, and null for a function at
  // file level. `declared` is the environment's declaration of the function. Null: it has none.
  Status function(const ClassDeclaration* owner, const FunctionDeclaration* declared,
                  const Function& function);
  // Checks the types and defaults of the parameters and the returned type, but not the body.
  Status header(const Function& function);
  // Checks an expression outside of any function, such as a constant's value.
  Status constant(const Expr& expr);
  // Checks that the types exist which an annotation names. `out` may be null. `*out` is set to the
  // type, or to null in code where nothing is refused. It lives as long as this object.
  Status annotation(const Expr& annotation, const value::Type** out);

 private:
  // Whether PyTorch knows a condition when it compiles, and so compiles one branch only.
  enum class Fixed : uint8_t {
    kNo,       // it does not, and compiles both branches
    kTrue,     // it compiles only the branch for true
    kFalse,    // it compiles only the branch for false
    kUnknown,  // the checker cannot tell which of the three holds
  };

  // One argument of a call.
  struct Operand {
    std::string_view keyword;           // empty: it is given by position
    const value::Type* type = nullptr;  // null: not known
    bool may_hold_tensor = true;
    bool is_starred = false;
    // The sure_type() of the value (checked_value.h): its type, if PyTorch certainly has the same.
    // Null: it may have another.
    const value::Type* sure = nullptr;
    Range range;
  };
  using Operands = std::vector<Operand>;

  // checker_loops.cc
  Status unrolled(const Expr& iterable, const CheckedValue& over, Unrolled* out);
  Status while_loop(const Stmt& stmt);
  Status for_loop(const Stmt& stmt, Flow* flow);

  // checker_statements.cc
  Status returned_type(const Function& function);
  Status parameters(const ClassDeclaration* owner, const Function& function);
  Status block(StmtList body, Flow* flow);
  Status statement(const Stmt& stmt, Flow* flow);
  Status assign(const Stmt& stmt);
  Status assign_to(const Expr& target, const CheckedValue& value, const Expr* written);
  Status assign_to_attribute(const Expr& target);
  Status unpack(const Expr& target, const CheckedValue& value, const Expr* written);
  Status augmented(const Stmt& stmt);
  Status returned(const Stmt& stmt);
  Status if_else(const Stmt& stmt, Flow* flow);
  Status asserted(const Stmt& stmt, Flow* flow);
  Status raised(const Stmt& stmt);
  Status with_statement(const Stmt& stmt);
  Status nested(const Function& function);
  Status deleted(const Stmt& stmt);

  // checker_conditions.cc
  Status condition(const Expr& expr, Fixed* fixed);
  Status compared_with_none(const Expr& expr, Fixed* fixed);
  Status called_condition(const Expr& call, Fixed* fixed);
  static Fixed is_instance(const CheckedValue& asked, const Expr& types);
  void mark_tested(const Expr& expr);

  // checker_expressions.cc
  // Finds what the expression stands for, which need not be a value.
  Status checked_value(const Expr& expr, CheckedValue* out);
  // Like checked_value(), and refuses an expression that is no value.
  Status value(const Expr& expr, CheckedValue* out);
  Status require_value(const Expr& expr, const CheckedValue& meaning);
  // Checks a list of expressions that must be values. `holds_no_tensor` may be null. It is set to
  // whether none of the values may hold a Tensor.
  Status values(ExprList list, bool* holds_no_tensor = nullptr);
  Status name(const Expr& expr, CheckedValue* out);
  Status undefined(const Expr& expr);
  Status subscript(const Expr& expr, CheckedValue* out);
  Status unary(const Expr& expr, CheckedValue* out);
  Status binary(const Expr& expr, CheckedValue* out);
  Status comprehension(const Expr& expr, CheckedValue* out);
  Status conditional(const Expr& expr, CheckedValue* out);
  CheckedValue of_qualified_name(std::string name);
  CheckedValue typed(const value::Type* type) const;

  // checker_attributes.cc
  Status attribute(const Expr& expr, CheckedValue* out);
  Status attribute_of(const Expr& whole, const CheckedValue& base, std::string_view name,
                      Range where, CheckedValue* out);
  Status attribute_of_value(const CheckedValue& base, std::string_view name, Range where,
                            CheckedValue* out);
  Status member(const ClassDeclaration& owner, std::string_view name, Range where,
                CheckedValue* out);
  Status no_member(const ClassDeclaration& owner, std::string_view name, Range where);
  Status class_attribute(const CheckedValue& base, std::string_view name, Range where,
                         CheckedValue* out);
  Status constant_entry(std::string_view name, Range where);

  // checker_calls.cc
  // `skip` is the number of leading positional arguments of `call` that the callee does not get,
  // such as the function that `fork` is given. `given` has the other arguments in their order.
  // `receiver` is the number of leading parameters that a call does not give: 1 for a method.
  // `shown` is the operator's name as code writes it, "torch.relu", for messages.
  Status call(const Expr& expr, CheckedValue* out);
  Status call_global(const Expr& expr, Global global, CheckedValue* out);
  Status call_operator(const Expr& call, const CheckedValue& callee, const Operands& given,
                       size_t skip, CheckedValue* out);
  Status call_class(const Expr& call, const CheckedValue& callee, size_t skip, CheckedValue* out);
  Status call_object(const Expr& call, const CheckedValue& callee, size_t skip, CheckedValue* out);
  Status call_meaning(const Expr& call, const CheckedValue& callee, const Operands& given,
                      size_t skip, CheckedValue* out);
  Status call_declared(const Expr& call, const FunctionDeclaration& function, size_t receiver,
                       size_t skip, CheckedValue* out);
  Status call_with_type(const Expr& call, Global global, CheckedValue* out);
  Status get_attribute(const Expr& call, Global global, CheckedValue* out);
  Status fork(const Expr& call, CheckedValue* out);
  Status arguments(const Expr& call, size_t skip, Operands* given = nullptr);
  Status operand(const Expr& expr, std::string_view keyword, Operands* given);
  Status types_of_isinstance(const Expr& expr);
  Status not_accepted(const Expr& call, std::string_view what, const CallShape& shape,
                      const std::string& takes);
  void used_operator(std::string_view name, VersionSpan versions);
  Status note_versions(const Expr& call, const std::string& shown, Overloads listed,
                       VersionSpan span);
  // Lists a call that only the PyTorch `refusing` refuses. `sentence` says what it refuses. The
  // call is an error if CheckOptions make `refusing` decide.
  Status note_partly_refused(const Expr& call, Torch refusing, std::string sentence);

  // checker_operands.cc
  struct Receiver {
    const value::Type* sure = nullptr;
    Range range;
  };
  // `names` are the operators that the call may mean, such as "aten::len" and "prim::len". `self`
  // is the value before the dot, or null.
  Status check_operands(const Expr& call, std::span<const std::string> names,
                        const std::string& shown, const Receiver* self, const Operands& given,
                        const CallShape& shape, CheckedValue* out);
  Status wrong_operand(const Expr& call, const std::string& shown, const Receiver* self,
                       const Operands& given, std::span<const Schema* const> candidates,
                       const TypeMatch& best);

  // checker_literals.cc
  Status sequence(const Expr& expr, CheckedValue* out);
  Status dictionary(const Expr& expr, CheckedValue* out);
  const value::Type* keep(Result<value::TypeRef> type);
  static const value::Type* type_of_unary(Operator op, const CheckedValue& operand) noexcept;
  static const value::Type* type_of_binary(Operator op, const CheckedValue& left,
                                           const CheckedValue& right) noexcept;

  // checker_versioned.cc
  static const Operand* find_operand(const Operands& given, std::string_view keyword,
                                     size_t position);
  static bool depends_on_version(std::string_view name, const CheckedValue& callee,
                                 const Operands& given);
  void note_versioned(std::string_view name);
  void note_versioned_call(std::string_view name, const CheckedValue& callee,
                           const Operands& given);
  void note_method_of_unknown(const Expr& callee, const CheckedValue& called);
  void note_division(const CheckedValue& dividend, const CheckedValue& divisor);
  void note_division_in_place(const CheckedValue& dividend, const CheckedValue& divisor);

  // Returns the error `what`. Returns success in quiet code, and the caller goes on.
  Status refuse(Range range, const std::string& what) const;
  // Whether this code is quiet: PyTorch may not compile it at all, so the checker refuses nothing
  // and counts nothing as used. Only note_versioned() fills Uses::versioned_operators all the same.
  bool is_quiet() const noexcept { return quiet_ > 0; }

  const Environment& environment_;
  const Source& source_;
  const CheckOptions& options_;
  Uses* uses_;
  Scope scope_;
  int quiet_ = 0;     // how many constructs around this point make it quiet
  int closures_ = 0;  // how many nested functions are around this point
  const FunctionDeclaration* self_ = nullptr;  // of the function that is checked; null: none
  const value::Type* returns_ = nullptr;       // null: not annotated
  std::vector<value::TypeRef> kept_types_;
};

}  // namespace tenon::script
