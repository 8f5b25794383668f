// The part of Checker that checks the types of an operator's operands. A call is refused if no
// overload of PyTorch 1.13 or of the newest PyTorch takes them. It is listed (Uses::partly_refused)
// if only one of the two takes them.
#include <algorithm>
#include <array>
#include <utility>

#include "modules/script/checker.h"
#include "modules/script/schema_show.h"

namespace tenon::script {
namespace {

using value::Type;
using value::TypeKind;

// An overload that takes a call of the given shape, and which of the two PyTorch versions have it.
struct Candidate {
  const Schema* schema = nullptr;
  std::array<bool, kTorchCount> is_in{};
};

// The candidates of the newest PyTorch come first.
std::vector<Candidate> candidates_of(std::span<const std::string> names, const CallShape& shape) {
  std::vector<Candidate> found;
  const auto consider = [&](std::string_view name, std::span<const Schema* const> schemas,
                            std::array<bool, kTorchCount> is_in) {
    const bool is_aten = name.starts_with("aten::");
    for (const Schema* schema : schemas) {
      const auto same = std::find_if(found.begin(), found.end(),
                                     [&](const Candidate& each) { return each.schema == schema; });
      if (same != found.end()) {
        for (size_t i = 0; i < kTorchCount; ++i) same->is_in[i] = same->is_in[i] || is_in[i];
      } else if (accepts(formals_of(*schema, is_aten), shape)) {
        found.push_back({schema, is_in});
      }
    }
  };
  const SchemaTable& table = SchemaTable::get();
  for (const std::string& name : names) {
    consider(name, table.schemas(name, Torch::kNewest), {false, true});
    consider(name, source_schemas(name), {true, true});
    consider(name, table.schemas(name, Torch::kOldest), {true, false});
  }
  return found;
}

std::vector<const Schema*> schemas_of(std::span<const Candidate> candidates) {
  std::vector<const Schema*> schemas;
  for (const Candidate& candidate : candidates) schemas.push_back(candidate.schema);
  return schemas;
}

std::string refusal_of_types(Torch refusing, const std::string& shown) {
  const SchemaTable& table = SchemaTable::get();
  const auto name_of = [&](Torch torch) {
    return "PyTorch " + std::string(table.versions()[table.version_of(torch)]);
  };
  const Torch taking = refusing == Torch::kOldest ? Torch::kNewest : Torch::kOldest;
  return name_of(refusing) + " refuses " + shown + " with operands of such types, and " +
         name_of(taking) + " takes them";
}

std::string with_article(const std::string& type) {
  if (type == "NoneType") return "None";
  return (std::string_view("AEIOUaeiou").find(type.front()) != std::string_view::npos ? "an "
                                                                                      : "a ") +
         type;
}

// Returns a sentence that says how the user can correct the operand. Empty: no way is known.
const char* remedy_of(const SchemaArgument& argument, const SchemaType& wanted,
                      const Type& given) noexcept {
  const auto wants = [&](TypeKind kind) {
    const SchemaType& type = wanted.kind == SchemaType::Kind::kOptional ? wanted.parts[0] : wanted;
    return type.kind == SchemaType::Kind::kSimple && type.simple == kind;
  };
  const TypeKind kind = given.kind();
  if (kind == TypeKind::kOptional)
    return ". Test it first, as in `if x is not None:`, or assert that it is not None";
  if (argument.name == "dtype" && kind == TypeKind::kStr)
    return ". TorchScript writes a dtype as a number: 6 is float32";
  if (wants(TypeKind::kFloat) && kind == TypeKind::kInt)
    return ". Write float(...) around it, or a literal such as 1.";
  if (wants(TypeKind::kInt) && kind == TypeKind::kFloat) return ". Write int(...) around it";
  if (wants(TypeKind::kBool) && kind == TypeKind::kTensor) return ". Write bool(...) around it";
  if (wants(TypeKind::kStr) && (kind == TypeKind::kInt || kind == TypeKind::kFloat))
    return ". Write str(...) around it";
  return "";
}

}  // namespace

Status Checker::check_operands(const Expr& call, std::span<const std::string> names,
                               const std::string& shown, const Receiver* self,
                               const Operands& given, const CallShape& shape, CheckedValue* out) {
  if (shape.open) return {};
  std::vector<OperandType> types;
  types.reserve(given.size());
  for (const Operand& operand : given) types.push_back({operand.keyword, operand.sure});
  const OperandType receiver{"self", self != nullptr ? self->sure : nullptr};
  const std::vector<Candidate> candidates = candidates_of(names, shape);
  const bool is_aten = names.front().starts_with("aten::");
  TypeMatch best;
  std::array<bool, kTorchCount> has_overload{};
  std::array<bool, kTorchCount> fits{};
  bool any_fits = false;
  bool may_be_several = false;  // some overload that fits has several results
  value::TypeRef returned;
  for (const Candidate& candidate : candidates) {
    const Schema& schema = *candidate.schema;
    const TypeMatch match =
        match_types(schema, self != nullptr ? &receiver : nullptr, types, is_aten);
    for (size_t i = 0; i < kTorchCount; ++i) {
      has_overload[i] = has_overload[i] || candidate.is_in[i];
      fits[i] = fits[i] || (candidate.is_in[i] && match.mismatches == 0);
    }
    if (match.mismatches == 0) {
      // The type of the result is known if every overload that PyTorch may take has the same.
      value::TypeRef type = result_type(schema);
      const bool is_same = type && (!any_fits || (returned && type->equals(*returned)));
      returned = is_same ? std::move(type) : value::TypeRef();
      any_fits = true;
      may_be_several = may_be_several || schema.returns.size() > 1;
    } else if (best.mismatches == 0 || match.mismatches < best.mismatches) {
      best = match;
    }
  }
  if (!any_fits && !candidates.empty())
    return wrong_operand(call, shown, self, given, schemas_of(candidates), best);
  // note_versions() has listed the call if a version has no overload for this number of arguments.
  for (const Torch torch : {Torch::kOldest, Torch::kNewest}) {
    const auto index = static_cast<size_t>(torch);
    if (has_overload[index] && !fits[index])
      TENON_TRY(note_partly_refused(call, torch, refusal_of_types(torch, shown)));
  }
  // `torch.max(x)` returns one Tensor, and `torch.max(x, 1)` returns two that have names.
  if (any_fits && !may_be_several) out->result_names = {};
  if (returned) {
    kept_types_.push_back(std::move(returned));
    const CheckedValue result = typed(kept_types_.back().get());
    out->type = result.type;
    out->owner = result.owner;
    out->name = result.name;
    out->is_foreign = result.is_foreign;
  }
  return {};
}

Status Checker::wrong_operand(const Expr& call, const std::string& shown, const Receiver* self,
                              const Operands& given, std::span<const Schema* const> candidates,
                              const TypeMatch& best) {
  if (is_quiet()) return {};
  const bool is_self = best.operand == SIZE_MAX;
  const Type* const type = is_self ? self->sure : given[best.operand].sure;
  const Range where = is_self ? self->range : given[best.operand].range;
  std::string text = shown + " takes " + with_article(show(*best.wanted)) + " as " +
                     best.argument->name + ", and gets " + with_article(type->print());
  if (candidates.size() > 1) {
    constexpr size_t kMostShown = 3;
    text += ". Its overloads for as many operands are ";
    for (size_t i = 0; i < candidates.size() && i < kMostShown; ++i)
      text += (i > 0 ? ", " : "") + show_arguments(*candidates[i]);
    if (candidates.size() > kMostShown) text += ", ...";
  }
  text += remedy_of(*best.argument, *best.wanted, *type);
  return refuse(where.nbytes() > 0 ? where : call.range, text);
}

}  // namespace tenon::script
