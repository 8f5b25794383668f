// The part of FunctionCompiler that compiles calls.
#include <algorithm>
#include <utility>

#include "modules/compile/function_compiler.h"
#include "modules/script/schema_table.h"
#include "modules/script/signature.h"

namespace tenon::compile {

using script::ClassKind;
using script::Expr;
using script::ExprKind;
using script::Global;
using script::Schema;

namespace {

// The operators behind bool(), int(), float(), complex() and str().
struct Cast {
  std::string_view name;
  std::string_view operation;
  TypeKind type;
};
constexpr Cast kCasts[] = {
    {"bool", "aten::Bool", TypeKind::kBool},    {"int", "aten::Int", TypeKind::kInt},
    {"float", "aten::Float", TypeKind::kFloat}, {"complex", "aten::Complex", TypeKind::kComplex},
    {"str", "aten::str", TypeKind::kStr},
};

std::string called_name(std::string_view qualified_name) {
  const size_t colon = qualified_name.find("::");
  const std::string_view name_space = qualified_name.substr(0, colon);
  const std::string name(qualified_name.substr(colon + 2));
  return name_space == "aten" ? "torch." + name : "ops." + std::string(name_space) + "." + name;
}

}  // namespace

// PyTorch's name for the object whose method is called, in debug tables.
std::string_view FunctionCompiler::instance_name(const GraphValue* object) const {
  const std::vector<GraphValue*>& parameters = out_.graph.body().inputs;
  if (object->node != nullptr && object->node->kind == NodeKind::kGetAttribute)
    return object->node->name;
  return !parameters.empty() && object == parameters[0] ? "SELF" : "INSTANCE_NAME_UNKNOWN";
}

bool FunctionCompiler::known_int(const GraphValue* value, int64_t* out) {
  if (value->node == nullptr || value->node->kind != NodeKind::kConstant ||
      !value->node->constant->is(value::ValueKind::kInt))
    return false;
  *out = value->node->constant->as_int();
  return true;
}

Status FunctionCompiler::arguments(const Expr& call, size_t skip, GivenArguments* out) {
  const script::ExprList positional = call.arguments();
  for (size_t i = skip; i < positional.size(); ++i) {
    const Expr& expr = *positional[i];
    if (expr.kind == ExprKind::kStarred) {
      TENON_ASSIGN(GraphValue* const several, value(expr.child(0)));
      if (!is_tuple(*several->type))
        return builder_.refuse(expr.range, "only a tuple can be given with a star");
      for (GraphValue* item : builder_.unpack(several))
        out->positional.push_back({{}, item, expr.range});
      continue;
    }
    TENON_ASSIGN(GraphValue* const given, value(expr));
    out->positional.push_back({{}, given, expr.range});
  }
  for (const script::Keyword& keyword : call.keywords) {
    TENON_ASSIGN(GraphValue* const given, value(*keyword.value));
    out->keywords.push_back({keyword.name, given, keyword.value->range});
  }
  return {};
}

Status FunctionCompiler::call(const Expr& expr, const TypeRef& hint, SugaredValue* out) {
  SugaredValue callee;
  TENON_TRY(sugar(expr.child(0), nullptr, &callee));
  if (callee.kind == SugaredValue::Kind::kGlobal) return call_global(expr, callee, hint, out);
  // The type of a `.tolist()` comes from the code around it.
  if (callee.kind == SugaredValue::Kind::kOperator && callee.value != nullptr &&
      callee.name == "aten::tolist")
    return to_list(callee.value, hint, out);
  GivenArguments given;
  TENON_TRY(arguments(expr, 0, &given));
  return call_sugar(expr, callee, given, out);
}

Status FunctionCompiler::call_sugar(const Expr& expr, const SugaredValue& callee,
                                    const GivenArguments& given, SugaredValue* out) {
  switch (callee.kind) {
    case SugaredValue::Kind::kOperator: {
      const Given self{{}, callee.value, expr.child(0).range};
      GivenArguments all = given;
      if (callee.value != nullptr) all.self = &self;
      return call_operator(callee.name, all, out);
    }
    case SugaredValue::Kind::kCast: {
      if (!given.positional.empty() || !given.keywords.empty())
        return builder_.refuse(callee.name + "() takes no arguments");
      TENON_ASSIGN(GraphValue* const made,
                   operator_value("aten::to", {callee.value, builder_.integer(callee.number)}));
      *out = SugaredValue::of(made);
      return {};
    }
    case SugaredValue::Kind::kFunction: return call_compiled(*callee.header, given, false, out);
    case SugaredValue::Kind::kMethod: {
      GivenArguments all = given;
      all.positional.insert(all.positional.begin(), Given{{}, callee.value, expr.child(0).range});
      return call_compiled(*callee.header, all, true, out);
    }
    case SugaredValue::Kind::kInterface: return call_interface(callee, given, out);
    case SugaredValue::Kind::kCustom: {
      if (!given.positional.empty() || !given.keywords.empty())
        return builder_.refuse(callee.name + "() takes no arguments");
      Node* const node = builder_.append(NodeKind::kInterfaceCall, {callee.value});
      node->name = callee.name;
      *out = SugaredValue::of(builder_.graph().add_output(node, callee.returns));
      return {};
    }
    case SugaredValue::Kind::kClass: return call_class(callee.name, given, out);
    case SugaredValue::Kind::kValue:
      if (callee.value->type->kind() == TypeKind::kClass &&
          !callee.value->type->class_name().starts_with(script::kCustomClasses)) {
        SugaredValue method;
        const ClassInfo* info = nullptr;
        TENON_ASSIGN(info, builder_.classes().find(callee.value->type->class_name()));
        const bool is_module = info != nullptr && (info->declaration->is_module() ||
                                                   info->kind() == ClassKind::kModuleInterface);
        TENON_TRY(attribute_of_value(callee.value, is_module ? "forward" : "__call__",
                                     expr.child(0).range, &method));
        if (method.kind != SugaredValue::Kind::kMethod &&
            method.kind != SugaredValue::Kind::kInterface)
          break;
        return call_sugar(expr, method, given, out);
      }
      break;
    case SugaredValue::Kind::kClosure:
      return builder_.refuse(expr.child(0).range,
                             callee.name + " is a nested function, which only fork calls");
    default: break;
  }
  return builder_.refuse(expr.child(0).range, "this cannot be called");
}

Result<GraphValue*> FunctionCompiler::operator_value(std::string_view name,
                                                     std::vector<GraphValue*> operands) {
  GivenArguments given;
  for (GraphValue* operand : operands) given.positional.push_back({{}, operand, builder_.range()});
  SugaredValue made;
  TENON_TRY(call_operator(name, given, &made));
  return value_of(std::move(made), builder_.range());
}

Status FunctionCompiler::call_operator(std::string_view name, const GivenArguments& given,
                                       SugaredValue* out) {
  const std::span<const Schema* const> listed =
      script::SchemaTable::get().schemas(name, unit_.torch());
  const Unit::SourceOperators& from_source = unit_.source_operators(name);
  if (listed.empty() && from_source.schemas.empty()) {
    const std::string kind = given.self != nullptr
                                 ? with_article(*given.self->value->type) + " has no method "
                                 : "PyTorch has no operator ";
    return builder_.refuse(kind + (given.self != nullptr
                                       ? std::string(name.substr(name.find("::") + 2))
                                       : called_name(name)));
  }
  std::vector<const Schema*> candidates;
  candidates.reserve(listed.size() + from_source.schemas.size());
  candidates.insert(candidates.end(), listed.begin(), listed.end());
  candidates.insert(candidates.end(), from_source.schemas.begin(), from_source.schemas.end());
  TENON_ASSIGN(Match matched, match(&builder_, called_name(name), candidates, given));
  if (matched.candidate >= listed.size()) {
    const Header& header = *from_source.headers[matched.candidate - listed.size()];
    TENON_ASSIGN(const Compiled* const compiled, unit_.compile(header));
    Graph& graph = builder_.graph();
    const Call* const call = graph.add_call({&builder_.source(), builder_.range(), {}, {}, {}});
    *out = SugaredValue::of(
        graph.inline_graph(compiled->graph, matched.inputs, builder_.block(), call)[0]);
    return {};
  }
  const Schema& schema = *candidates[matched.candidate];
  if (name == "prim::Enter" || name == "prim::Exit" || name == "prim::fork")
    return builder_.unsupported("the lite interpreter of PyTorch has no " + called_name(name));
  if (name == "aten::wait") return wait(matched.inputs[0], matched.returns[0], out);
  // As in PyTorch, a Device from a constant text is a constant.
  if (name == "aten::device" && matched.inputs.size() == 1 && matched.inputs[0]->node != nullptr &&
      matched.inputs[0]->node->kind == NodeKind::kConstant &&
      matched.inputs[0]->node->constant->is(value::ValueKind::kStr)) {
    *out = SugaredValue::of(
        builder_.constant(value::Value::of_device(matched.inputs[0]->node->constant->as_str())));
    return {};
  }
  const std::vector<GraphValue*> results =
      builder_.append_operator(schema, std::move(matched.inputs), std::move(matched.returns));
  if (results.size() == 1) {
    *out = SugaredValue::of(results[0]);
  } else if (results.empty()) {
    *out = SugaredValue::of(builder_.none());
  } else {
    *out = SugaredValue::of(SugaredValue::Kind::kValues, std::string(name));
    out->values = results;
  }
  return {};
}

Status FunctionCompiler::call_compiled(const Header& header, const GivenArguments& given,
                                       bool of_object, SugaredValue* out) {
  const Schema* const candidates[] = {&header.schema};
  const size_t colon = header.name.rfind('.');
  TENON_ASSIGN(Match matched, match(&builder_, header.name.substr(colon + 1), candidates, given));
  TENON_ASSIGN(const Graph* const called, unit_.called_graph(header));
  TENON_TRY(builder_.check_room(called->node_count()));
  builder_.append(NodeKind::kCalled, matched.inputs);
  Graph& graph = builder_.graph();
  Call call{&builder_.source(), builder_.range(), {}, {}, header.function->name};
  if (of_object) {
    call.module = header.owner;
    call.instance = instance_name(matched.inputs[0]);
  }
  *out = SugaredValue::of(
      graph.inline_graph(*called, matched.inputs, builder_.block(), graph.add_call(call))[0]);
  return builder_.check_size();
}

Status FunctionCompiler::call_interface(const SugaredValue& callee, const GivenArguments& given,
                                        SugaredValue* out) {
  if (!callee.header->returns)
    return builder_.refuse("the interface's method does not say what it returns");
  const Schema* const candidates[] = {&callee.header->schema};
  GivenArguments all = given;
  all.positional.insert(all.positional.begin(), Given{{}, callee.value, builder_.range()});
  TENON_ASSIGN(Match matched, match(&builder_, callee.name, candidates, all));
  unit_.note_interface_call(callee.name);
  Node* const node = builder_.append(NodeKind::kInterfaceCall, std::move(matched.inputs));
  node->name = callee.name;
  *out = SugaredValue::of(builder_.graph().add_output(node, callee.header->returns));
  return {};
}

Status FunctionCompiler::call_class(const std::string& name, const GivenArguments& given,
                                    SugaredValue* out) {
  TENON_ASSIGN(const ClassInfo* const info, builder_.classes().find(name));
  if (info == nullptr || info->kind() != ClassKind::kNamedTuple)
    return builder_.unsupported(
        "the lite interpreter of PyTorch makes no objects of classes, and this makes one of " +
        name);
  Schema schema;
  schema.name = name;
  for (const script::ParameterDeclaration& field : info->declaration->fields) {
    script::SchemaArgument argument;
    argument.name = field.name;
    argument.type = schema_type(field.type ? *field.type : *Type::tensor());
    schema.arguments.push_back(std::move(argument));
  }
  const Schema* const candidates[] = {&schema};
  TENON_ASSIGN(Match matched,
               match(&builder_, name.substr(name.rfind('.') + 1), candidates, given));
  Result<TypeRef> type = Type::class_type(name);
  if (!type.is_ok()) return builder_.refuse(type.status().message());
  *out = SugaredValue::of(builder_.append_value(
      NodeKind::kTupleConstruct, std::move(matched.inputs), std::move(type).value()));
  return {};
}

// The operator gets the depth of the list and the kind of its elements as arguments beside the
// Tensor.
Status FunctionCompiler::to_list(GraphValue* tensor, const TypeRef& hint, SugaredValue* out) {
  if (!hint)
    return builder_.refuse("say of what type the list is, as in annotate(List[int], x.tolist())");
  int64_t depth = 0;
  TypeRef element = hint;
  for (; element->kind() == TypeKind::kList; element = element->element()) ++depth;
  constexpr TypeKind kElements[] = {TypeKind::kInt, TypeKind::kFloat, TypeKind::kBool,
                                    TypeKind::kComplex};
  const TypeKind* const kind =
      std::find(std::begin(kElements), std::end(kElements), element->kind());
  const std::span<const Schema* const> listed =
      script::SchemaTable::get().schemas("prim::tolist", unit_.torch());
  if (kind == std::end(kElements) || listed.empty())
    return builder_.refuse("tolist() gives lists of int, float, bool or complex");
  std::vector<GraphValue*> operands = {tensor, builder_.integer(depth),
                                       builder_.integer(kind - std::begin(kElements))};
  *out = SugaredValue::of(builder_.append_operator(*listed[0], std::move(operands), {hint})[0]);
  return {};
}

Status FunctionCompiler::cast(std::string_view to, const GivenArguments& given, SugaredValue* out) {
  const Cast* const found = std::find_if(std::begin(kCasts), std::end(kCasts),
                                         [&](const Cast& each) { return each.name == to; });
  if (given.positional.size() == 1 && given.keywords.empty() &&
      given.positional[0].value->type->kind() == found->type) {
    *out = SugaredValue::of(given.positional[0].value);
    return {};
  }
  return call_operator(found->operation, given, out);
}

Result<bool> FunctionCompiler::has_attribute(const Type& type, std::string_view name) {
  if (type.kind() != TypeKind::kClass) return false;
  TENON_ASSIGN(const ClassInfo* const info, builder_.classes().find(type.class_name()));
  return info != nullptr &&
         (info->attributes.contains(name) || info->find_method(name) != nullptr ||
          info->find_constant(name) != nullptr);
}

Status FunctionCompiler::call_global(const Expr& expr, const SugaredValue& callee,
                                     const TypeRef& hint, SugaredValue* out) {
  const script::ExprList given = expr.arguments();
  switch (callee.global) {
    case Global::kAnnotate:
    case Global::kUncheckedCast: {
      if (given.size() != 2) return builder_.refuse(callee.name + " takes a type and a value");
      TENON_ASSIGN(TypeRef type, script::annotation_type(builder_.source(), *given[0]));
      TENON_ASSIGN(GraphValue* const value, this->value(*given[1], type));
      if (callee.global == Global::kUncheckedCast) {
        TENON_ASSIGN(GraphValue* const made, builder_.unchecked_cast(value, std::move(type)));
        *out = SugaredValue::of(made);
        return {};
      }
      GraphValue* const converted = convert(&builder_, value, type, true);
      if (converted == nullptr || !is_subtype(builder_.classes(), *converted->type, *type))
        return builder_.refuse("this is " + with_article(*value->type) + ", and annotate says " +
                               type->print());
      *out = SugaredValue::of(converted);
      // A None keeps the Optional type that annotate names.
      if (converted->type->kind() == TypeKind::kNone && converted->node != nullptr &&
          converted->node->kind == NodeKind::kConstant)
        *out = SugaredValue::of(builder_.constant(value::Value::none(), std::move(type)));
      return {};
    }
    case Global::kUninitialized: {
      if (given.size() != 1) return builder_.refuse("uninitialized takes a type");
      TENON_ASSIGN(TypeRef type, script::annotation_type(builder_.source(), *given[0]));
      *out = SugaredValue::of(builder_.append_value(NodeKind::kUninitialized, {}, std::move(type)));
      return {};
    }
    case Global::kIsInstance: {
      Condition made;
      TENON_TRY(is_instance(expr, &made));
      TENON_ASSIGN(GraphValue* const answer, bool_of(made));
      *out = SugaredValue::of(answer);
      return {};
    }
    case Global::kGetAttr:
    case Global::kHasAttr: {
      if (given.size() < 2 || given[1]->kind != ExprKind::kString)
        return builder_.refuse(callee.name + " takes a value and a name");
      if (callee.global == Global::kHasAttr) {
        TENON_ASSIGN(GraphValue* const base, value(*given[0]));
        TENON_ASSIGN(const bool has, has_attribute(*base->type, given[1]->text));
        *out = SugaredValue::of(builder_.constant(value::Value::of_bool(has)));
        return {};
      }
      SugaredValue base;
      TENON_TRY(sugar(*given[0], nullptr, &base));
      if (given.size() > 2 && base.kind == SugaredValue::Kind::kValue &&
          base.value->type->kind() == TypeKind::kClass) {
        TENON_ASSIGN(const bool has, has_attribute(*base.value->type, given[1]->text));
        if (!has) return sugar(*given[2], hint, out);
      }
      return attribute_of(base, given[1]->text, expr.range, out);
    }
    case Global::kFork: return fork(expr, callee.name, out);
    case Global::kPrint: {
      GivenArguments operands;
      TENON_TRY(arguments(expr, 0, &operands));
      return call_operator("prim::Print", operands, out);
    }
    case Global::kCast: {
      GivenArguments operands;
      TENON_TRY(arguments(expr, 0, &operands));
      return cast(callee.name, operands, out);
    }
    case Global::kOperator: {
      GivenArguments operands;
      TENON_TRY(arguments(expr, 0, &operands));
      const std::string prim = "prim::" + callee.name;
      const bool is_prim = !script::SchemaTable::get().schemas(prim, unit_.torch()).empty();
      return call_operator(is_prim ? prim : "aten::" + callee.name, operands, out);
    }
    case Global::kIterable: {
      const bool has_items = callee.name == "dict" && (given.empty() || !expr.keywords.empty());
      return has_items ? dict_of_keywords(expr, hint, out)
                       : call_container(expr, callee.name, hint, out);
    }
    default: break;
  }
  return builder_.refuse(expr.child(0).range, callee.name + " cannot be called");
}

}  // namespace tenon::compile
