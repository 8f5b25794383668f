#include "modules/compile/stand_ins.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "modules/script/schema_table.h"

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

// The text that a value is. Empty: it is no text, or not known here.
std::string_view known_text(const GraphValue& value) {
  if (!is_constant(&value) || !value.node->constant->is(ValueKind::kStr)) return {};
  return value.node->constant->as_str();
}

// The length of a list. 0: it is not known here.
size_t known_length(const GraphValue& list) {
  if (list.node == nullptr) return 0;
  if (list.node->kind == NodeKind::kListConstruct) return list.node->inputs.size();
  return is_constant(&list) && list.node->constant->is(ValueKind::kList)
             ? list.node->constant->items().size()
             : 0;
}

std::optional<LoweredCall> pad(const Node& call, uint8_t version) {
  GraphValue* const self = call.inputs[0];
  GraphValue* const padding = call.inputs[1];
  GraphValue* const fill = call.inputs[3];
  const std::string_view mode = known_text(*call.inputs[2]);
  const bool has_no_fill = fill->type->kind() == value::TypeKind::kNone;
  if (mode == "constant" && (has_no_fill || fill->type->kind() == value::TypeKind::kFloat)) {
    const LoweredArgument filled =
        has_no_fill ? LoweredArgument{nullptr, Value::of_int(0)} : LoweredArgument{fill, {}};
    return call_of(find_schema("aten::constant_pad_nd", "", version),
                   {{self, {}}, {padding, {}}, filled});
  }
  const size_t length = known_length(*padding);
  if ((mode != "reflect" && mode != "replicate") || !has_no_fill || length == 0 || length % 2 != 0)
    return {};
  const std::string name = (mode == "reflect" ? "aten::reflection_pad" : "aten::replication_pad") +
                           std::to_string(length / 2) + "d";
  return call_of(find_schema(name, "", version), {{self, {}}, {padding, {}}});
}

// Replaces the overloads "" (for two tensors), "Tensor", "Scalar" and "out" of floor_divide.
std::optional<LoweredCall> floor_divide(const Node& call, uint8_t version) {
  const Schema& schema = *call.schema;
  const std::string overload = (schema.overload.empty() ? "Tensor" : schema.overload) + "_mode";
  const bool is_in_place = schema.name.ends_with('_');
  std::vector<LoweredArgument> arguments{
      {call.inputs[0], {}}, {call.inputs[1], {}}, {nullptr, Value::of_str("floor")}};
  if (call.inputs.size() > 2) arguments.push_back({call.inputs[2], {}});
  return call_of(find_schema(is_in_place ? "aten::div_" : "aten::div", overload, version),
                 std::move(arguments));
}

// Makes a call that returns a list of int, as an argument of another call.
std::optional<LoweredArgument> sizes_by(std::string_view name, std::string_view overload,
                                        uint8_t version, std::vector<LoweredArgument> arguments) {
  std::optional<LoweredCall> call =
      call_of(find_schema(name, overload, version), std::move(arguments));
  Result<value::TypeRef> type = value::Type::list(value::Type::integer());
  if (!call || !type.is_ok()) return {};
  call->returns = std::move(type).value();
  return LoweredArgument{nullptr, {}, std::make_shared<LoweredCall>(std::move(*call))};
}

// The sizes of the tensor from dimension `begin` up to `end`.
std::optional<LoweredArgument> sizes_of(GraphValue* tensor, int64_t begin, int64_t end,
                                        uint8_t version) {
  const std::optional<LoweredArgument> all = sizes_by("aten::size", "", version, {{tensor, {}}});
  if (!all) return {};
  return sizes_by("aten::slice", "t", version,
                  {*all,
                   {nullptr, Value::of_int(begin)},
                   {nullptr, Value::of_int(end)},
                   {nullptr, Value::of_int(1)}});
}

bool is_size(const Value& value) { return value.is(ValueKind::kInt) && value.as_int() >= 0; }

// Whether all sizes in the list are known here and none is -1. If another size is 0, `unflatten`
// can compute the size for -1, and `view` cannot.
bool has_known_sizes(const GraphValue& list) {
  if (is_constant(&list)) {
    const Value& sizes = *list.node->constant;
    return sizes.is(ValueKind::kList) &&
           std::all_of(sizes.items().begin(), sizes.items().end(),
                       [](const value::ValueRef& item) { return is_size(*item); });
  }
  if (list.node == nullptr || list.node->kind != NodeKind::kListConstruct) return false;
  const std::vector<GraphValue*>& items = list.node->inputs;
  return std::all_of(items.begin(), items.end(), [](const GraphValue* item) {
    return is_constant(item) && is_size(*item->node->constant);
  });
}

// Replaces x.unflatten(dim, sizes) by x.view(x.size()[:dim] + sizes + x.size()[dim + 1:]).
std::optional<LoweredCall> unflatten(const Node& call, uint8_t version) {
  GraphValue* const self = call.inputs[0];
  GraphValue* const dim = call.inputs[1];
  GraphValue* const sizes = call.inputs[2];
  if (!is_constant(dim) || !dim->node->constant->is(ValueKind::kInt) || !has_known_sizes(*sizes))
    return {};
  const int64_t at = dim->node->constant->as_int();
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  if (at == kEnd) return {};
  std::optional<LoweredArgument> all = sizes_of(self, 0, at, version);
  if (all) all = sizes_by("aten::add", "t", version, {*all, {sizes, {}}});
  // No dimension follows the last one, and a slice from -1 + 1 on would be the whole list.
  if (all && at != -1) {
    const std::optional<LoweredArgument> after = sizes_of(self, at + 1, kEnd, version);
    if (!after) return {};
    all = sizes_by("aten::add", "t", version, {*all, *after});
  }
  if (!all) return {};
  return call_of(find_schema("aten::view", "", version), {{self, {}}, *all});
}

}  // namespace

std::optional<LoweredCall> stand_in(const Node& call, const Target& target, uint8_t version) {
  const Schema& schema = *call.schema;
  if (target.all_arguments && schema.name == "aten::unflatten" && schema.overload == "int")
    return unflatten(call, version);
  if (schema.name == "aten::pad" && schema.overload.empty() && call.inputs.size() == 4)
    return pad(call, version);
  if (schema.name == "aten::floor_divide" || schema.name == "aten::floor_divide_")
    return floor_divide(call, version);
  if (schema.name == "aten::meshgrid" && schema.overload == "indexing" &&
      known_text(*call.inputs[1]) == "ij")
    return call_of(find_schema(schema.name, "", version), {{call.inputs[0], {}}});
  return {};
}

}  // namespace tenon::compile
