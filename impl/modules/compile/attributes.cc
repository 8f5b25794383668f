// The part of FunctionCompiler that compiles attributes, such as `x.shape` and `self.layer`.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "modules/compile/custom_classes.h"
#include "modules/compile/function_compiler.h"
#include "modules/compile/literal.h"
#include "modules/script/ast_walk.h"
#include "modules/script/schema_table.h"
#include "modules/script/signature.h"

namespace tenon::compile {

using script::ClassKind;
using script::Expr;
using script::Global;

namespace {

// A method that casts, such as `x.float()`, with the number of its ScalarType.
struct CastMethod {
  std::string_view name;
  int64_t scalar_type;
};
constexpr auto kCastMethods = std::to_array<CastMethod>({
    {"byte", 0},
    {"char", 1},
    {"short", 2},
    {"int", 3},
    {"long", 4},
    {"half", 5},
    {"float", 6},
    {"double", 7},
    {"cfloat", 9},
    {"cdouble", 10},
    {"bool", 11},
    {"bfloat16", 15},
});

// The attributes of a Tensor that are operators of prim.
constexpr auto kTensorAttributes = std::to_array<std::string_view>({
    "H",
    "T",
    "data",
    "device",
    "dtype",
    "grad",
    "is_cpu",
    "is_cuda",
    "is_ipu",
    "is_leaf",
    "is_maia",
    "is_meta",
    "is_mkldnn",
    "is_mps",
    "is_mtia",
    "is_nested",
    "is_ort",
    "is_quantized",
    "is_sparse",
    "is_sparse_bsc",
    "is_sparse_bsr",
    "is_sparse_csc",
    "is_sparse_csr",
    "is_vulkan",
    "is_xla",
    "is_xpu",
    "itemsize",
    "layout",
    "mH",
    "mT",
    "name",
    "nbytes",
    "ndim",
    "requires_grad",
    "retains_grad",
    "shape",
});

}  // namespace

Status FunctionCompiler::attribute(const Expr& expr, SugaredValue* out) {
  SugaredValue base;
  TENON_TRY(sugar(expr.child(0), nullptr, &base));
  return attribute_of(base, expr.text, expr.range, out);
}

Status FunctionCompiler::attribute_of(const SugaredValue& base, std::string_view name,
                                      script::Range range, SugaredValue* out) {
  const std::string text(name);
  switch (base.kind) {
    case SugaredValue::Kind::kNamespace:
      *out = SugaredValue::of(SugaredValue::Kind::kOperator, base.name + "::" + text);
      return {};
    case SugaredValue::Kind::kQualified: return qualified_name(base.name + "." + text, range, out);
    case SugaredValue::Kind::kGlobal:
      if (base.global == Global::kOps) {
        *out = SugaredValue::of(SugaredValue::Kind::kNamespace, text);
        return {};
      }
      if (base.global == Global::kConstants) {
        const std::span<const value::ValueRef> constants = unit_.constants();
        const size_t index = constant_index(text);
        if (index >= constants.size())
          return builder_.refuse(range, "the archive has no constant " + text);
        TypeRef type = type_of_literal(*constants[index]);
        if (!type && constants[index]->is(value::ValueKind::kObject)) {
          Result<TypeRef> made = Type::class_type(constants[index]->class_name());
          if (made.is_ok()) type = std::move(made).value();
        }
        if (!type && constants[index]->is(value::ValueKind::kList))
          type = constants[index]->declared_type();
        if (!type)
          return builder_.refuse(range,
                                 "the lite interpreter of PyTorch has no constant of this kind");
        *out = SugaredValue::of(builder_.constant(constants[index], std::move(type)));
        return {};
      }
      break;
    case SugaredValue::Kind::kClass: {
      TENON_ASSIGN(const ClassInfo* const info, builder_.classes().find(base.name));
      if (info != nullptr && info->kind() == ClassKind::kEnum)
        return builder_.unsupported("the lite interpreter of PyTorch has no values of enums");
      if (info != nullptr && info->find_method(name) != nullptr) {
        // The method has no object before the dot. PyTorch prints the call of a hook in this way.
        TENON_ASSIGN(const Header* const header, unit_.method_header(base.name, name));
        *out = SugaredValue::of(SugaredValue::Kind::kFunction, text);
        out->header = header;
        return {};
      }
      break;
    }
    case SugaredValue::Kind::kValue:
    case SugaredValue::Kind::kValues: {
      if (base.kind == SugaredValue::Kind::kValues) {
        const std::optional<size_t> at = script::find_result(script::result_names(base.name), name);
        if (at && *at < base.values.size()) {
          *out = SugaredValue::of(base.values[*at]);
          return {};
        }
      }
      TENON_ASSIGN(GraphValue* const value, value_of(base, range));
      return attribute_of_value(value, name, range, out);
    }
    default: break;
  }
  if (name == "__new__") {
    // PyTorch prints `with torch.no_grad():` with a statement before it that makes the object. So
    // the error names the `with` if the function has one.
    bool has_with = false;
    script::walk(*header_.function, {{}, [&](const script::Stmt& stmt) {
                                       has_with |= stmt.kind == script::StmtKind::kWith;
                                     }});
    return builder_.unsupported(
        has_with ? "the lite interpreter of PyTorch has no `with`"
                 : "the lite interpreter of PyTorch makes no objects of classes");
  }
  return builder_.refuse(range, "there is nothing of the name " + text + " here");
}

Status FunctionCompiler::qualified_name(std::string name, script::Range range, SugaredValue* out) {
  const script::Declarations& declarations = builder_.classes().declarations();
  if (declarations.find_class(name) != nullptr || name.starts_with(script::kCustomClasses)) {
    *out = SugaredValue::of(SugaredValue::Kind::kClass, std::move(name));
    return {};
  }
  if (declarations.find_function(name) != nullptr) {
    TENON_ASSIGN(const Header* const header, unit_.header(name));
    *out = SugaredValue::of(SugaredValue::Kind::kFunction, std::move(name));
    out->header = header;
    return {};
  }
  if (name.size() > 4096) return builder_.refuse(range, "this name is too long");
  *out = SugaredValue::of(SugaredValue::Kind::kQualified, std::move(name));
  return {};
}

Status FunctionCompiler::attribute_of_tensor(GraphValue* base, std::string_view name,
                                             SugaredValue* out, bool* done) {
  const auto cast = std::find_if(kCastMethods.begin(), kCastMethods.end(),
                                 [&](const CastMethod& each) { return each.name == name; });
  if (cast != kCastMethods.end()) {
    *out = SugaredValue::of(SugaredValue::Kind::kCast, std::string(name), base);
    out->number = cast->scalar_type;
    *done = true;
    return {};
  }
  const bool is_part = name == "real" || name == "imag";
  if (!is_part && std::find(kTensorAttributes.begin(), kTensorAttributes.end(), name) ==
                      kTensorAttributes.end())
    return {};
  *done = true;
  if (is_part) {
    TENON_ASSIGN(GraphValue* const made, operator_value("aten::" + std::string(name), {base}));
    *out = SugaredValue::of(made);
    return {};
  }
  if (name == "shape") {
    TENON_ASSIGN(GraphValue* const made, operator_value("aten::size", {base}));
    *out = SugaredValue::of(made);
    return {};
  }
  if (name == "ndim") {
    TENON_ASSIGN(GraphValue* const made, operator_value("aten::dim", {base}));
    *out = SugaredValue::of(made);
    return {};
  }
  const bool is_transposed = name == "T" || name == "H" || name == "mT" || name == "mH";
  const std::string operation = is_transposed ? std::string(name == "T"    ? "aten::numpy_T"
                                                            : name == "H"  ? "aten::matrix_H"
                                                            : name == "mT" ? "aten::mT"
                                                                           : "aten::mH")
                                              : "prim::" + std::string(name);
  TENON_ASSIGN(GraphValue* const made, operator_value(operation, {base}));
  *out = SugaredValue::of(made);
  return {};
}

Status FunctionCompiler::attribute_of_value(GraphValue* base, std::string_view name,
                                            script::Range range, SugaredValue* out) {
  const Type& type = *base->type;
  const std::string text(name);
  if (type.kind() == TypeKind::kTensor) {
    bool done = false;
    TENON_TRY(attribute_of_tensor(base, name, out, &done));
    if (done) return {};
  }
  if (type.kind() == TypeKind::kDevice && (name == "type" || name == "index")) {
    TENON_ASSIGN(GraphValue* const made, operator_value("prim::" + text, {base}));
    *out = SugaredValue::of(made);
    return {};
  }
  if (type.kind() == TypeKind::kClass && !type.class_name().starts_with(script::kCustomClasses)) {
    TENON_ASSIGN(const ClassInfo* const info, builder_.classes().find(type.class_name()));
    if (info == nullptr) return builder_.refuse(range, "there is no class " + type.class_name());
    if (info->kind() == ClassKind::kNamedTuple) {
      const auto field = info->fields.find(name);
      if (field == info->fields.end())
        return builder_.refuse(range, type.class_name() + " has no field " + text);
      const TypeRef& declared = info->declaration->fields[field->second].type;
      GraphValue* const index = builder_.integer(static_cast<int64_t>(field->second));
      *out = SugaredValue::of(builder_.append_value(NodeKind::kTupleIndex, {base, index},
                                                    declared ? declared : Type::tensor()));
      return {};
    }
    if (info->kind() == ClassKind::kEnum)
      return builder_.unsupported("the lite interpreter of PyTorch has no values of enums");
    if (info->find_method(name) != nullptr) {
      TENON_ASSIGN(const Header* const header, unit_.method_header(type.class_name(), name));
      *out = SugaredValue::of(info->declaration->is_interface() ? SugaredValue::Kind::kInterface
                                                                : SugaredValue::Kind::kMethod,
                              text, base);
      out->header = header;
      return {};
    }
    const auto attribute = info->attributes.find(name);
    if (attribute != info->attributes.end()) {
      Node* const node = builder_.append(NodeKind::kGetAttribute, {base});
      node->name = text;
      node->number = static_cast<int64_t>(attribute->second.slot);
      *out = SugaredValue::of(builder_.graph().add_output(node, attribute->second.type));
      return {};
    }
    if (const script::Constant* const constant = info->find_constant(name)) {
      TypeRef hint;
      if (constant->annotation != nullptr) {
        TENON_ASSIGN(hint, script::annotation_type(*info->source, *constant->annotation));
      }
      TENON_ASSIGN(GraphValue* const made, literal_of(*info->source, *constant->value, hint));
      *out = SugaredValue::of(made);
      return {};
    }
    return builder_.refuse(range, type.class_name() + " has no attribute or method " + text);
  }
  if (type.kind() == TypeKind::kClass) {
    *out = SugaredValue::of(SugaredValue::Kind::kCustom, text, base);
    out->returns = custom_method_returns(type.class_name(), name);
    if (out->returns) return {};
    return builder_.unsupported(type.class_name() +
                                " is a custom class, and Tenon does not know what its method " +
                                text + " returns");
  }
  *out = SugaredValue::of(SugaredValue::Kind::kOperator, "aten::" + text, base);
  return {};
}

// The value of a constant of a class. Its source can differ from this function's source.
Result<GraphValue*> FunctionCompiler::literal_of(const script::Source& source, const Expr& expr,
                                                 const TypeRef& hint) {
  TENON_ASSIGN(value::ValueRef literal, literal_value(source, expr, unit_.constants(), hint));
  if (literal->is(value::ValueKind::kList) || literal->is(value::ValueKind::kDict)) {
    TypeRef type = hint ? hint : literal->declared_type();
    if (!type) return builder_.refuse("the constant of the class does not say its type");
    return builder_.constant(std::move(literal), std::move(type));
  }
  return builder_.constant(std::move(literal));
}

}  // namespace tenon::compile
