#include "compile/stand_ins.h"

#include <string>
#include <string_view>
#include <utility>

#include "script/schema_table.h"

namespace tenon::compile {
namespace {

using script::Schema;
using value::Value;
using value::ValueKind;

const Schema* find_schema(std::string_view name, std::string_view overload, uint8_t version) {
  for (const Schema* const schema : script::SchemaTable::get().schemas_in(name, version)) {
    if (schema->overload == overload) return schema;
  }
  return nullptr;
}

std::optional<LoweredCall> call_of(const Schema* schema, std::vector<LoweredArgument> arguments) {
  if (schema == nullptr || schema->arguments.size() != arguments.size()) return {};
  return LoweredCall{schema, std::move(arguments)};
}

// Empty: the value is no text that is known here.
std::string_view known_text(const GraphValue& value) {
  if (!is_constant(&value) || !value.node->constant->is(ValueKind::kStr)) return {};
  return value.node->constant->as_str();
}

// 0: it is not known here.
size_t known_length(const GraphValue& list) {
  if (list.node == nullptr) return 0;
  if (list.node->kind == NodeKind::kListConstruct) return list.node->inputs.size();
  return is_constant(&list) && list.node->constant->is(ValueKind::kList) ? list.node->constant->items().size() : 0;
}

std::optional<LoweredCall> pad(const Node& call, uint8_t version) {
  GraphValue* const self = call.inputs[0];
  GraphValue* const padding = call.inputs[1];
  GraphValue* const fill = call.inputs[3];
  const std::string_view mode = known_text(*call.inputs[2]);
  const bool has_no_fill = fill->type->kind() == value::TypeKind::kNone;
  if (mode == "constant" && (has_no_fill || fill->type->kind() == value::TypeKind::kFloat)) {
    const LoweredArgument filled = has_no_fill ? LoweredArgument{nullptr, Value::of_int(0)} : LoweredArgument{fill, {}};
    return call_of(find_schema("aten::constant_pad_nd", "", version), {{self, {}}, {padding, {}}, filled});
  }
  const size_t length = known_length(*padding);
  if ((mode != "reflect" && mode != "replicate") || !has_no_fill || length == 0 || length % 2 != 0) return {};
  const std::string name = (mode == "reflect" ? "aten::reflection_pad" : "aten::replication_pad") + std::to_string(length / 2) + "d";
  return call_of(find_schema(name, "", version), {{self, {}}, {padding, {}}});
}

// Of "" for two tensors, "Tensor", "Scalar" and "out".
std::optional<LoweredCall> floor_divide(const Node& call, uint8_t version) {
  const Schema& schema = *call.schema;
  const std::string overload = (schema.overload.empty() ? "Tensor" : schema.overload) + "_mode";
  const bool is_in_place = schema.name.ends_with('_');
  std::vector<LoweredArgument> arguments{{call.inputs[0], {}}, {call.inputs[1], {}}, {nullptr, Value::of_str("floor")}};
  if (call.inputs.size() > 2) arguments.push_back({call.inputs[2], {}});
  return call_of(find_schema(is_in_place ? "aten::div_" : "aten::div", overload, version), std::move(arguments));
}

}  // namespace

std::optional<LoweredCall> stand_in(const Node& call, uint8_t version) {
  const Schema& schema = *call.schema;
  if (schema.name == "aten::pad" && schema.overload.empty() && call.inputs.size() == 4) return pad(call, version);
  if (schema.name == "aten::floor_divide" || schema.name == "aten::floor_divide_") return floor_divide(call, version);
  if (schema.name == "aten::meshgrid" && schema.overload == "indexing" && known_text(*call.inputs[1]) == "ij")
    return call_of(find_schema(schema.name, "", version), {{call.inputs[0], {}}});
  return {};
}

}  // namespace tenon::compile
