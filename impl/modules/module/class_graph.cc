#include "modules/module/class_graph.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "modules/script/rename.h"
#include "modules/value/compare.h"

namespace tenon::module {

using value::Type;
using value::TypeRef;
using value::Value;
using value::ValueKind;

namespace {

// The code that renames and writes values is recursive, so this bounds its stack.
constexpr size_t kMaxDepth = 1024;

// A cheap key that is the same for equal values. A comparison of values reads every byte of a
// tensor.
std::string rough_key(const Value& value) {
  std::string key = value::value_kind_name(value.kind());
  switch (value.kind()) {
    case ValueKind::kStr: key += value.as_str(); break;
    case ValueKind::kInt: key += std::to_string(value.as_int()); break;
    case ValueKind::kTensor:
      key += tensor::scalar_type_info(value.as_tensor()->type()).name;
      for (const int64_t size : value.as_tensor()->sizes()) key += "," + std::to_string(size);
      break;
    default: key += std::to_string(value.child_count()); break;
  }
  return key;
}

}  // namespace

Result<ClassGraph> ClassGraph::create(std::span<const Root> roots) {
  ClassGraph graph;
  for (const Root& root : roots) TENON_TRY(graph.walk(root.object, root.code));
  TENON_TRY(graph.close());
  if (roots.size() > 1 || graph.codes_.size() > 1 || graph.codes_.front()->is_changed())
    graph.is_as_read_ = false;
  TENON_TRY(graph.merge_constants());
  TENON_TRY(graph.refine());
  graph.name_nodes();
  return graph;
}

void ClassGraph::note_code(CodeSet* code) {
  for (const Ref<CodeSet>& known : codes_) {
    if (known.get() == code) return;
  }
  codes_.push_back(Ref<CodeSet>::share(code));
}

const ClassGraph::Node* ClassGraph::find(const Value& object) const {
  const auto found = by_object_.find(&object);
  return found == by_object_.end() ? nullptr : &nodes_[found->second];
}

const ClassGraph::Node* ClassGraph::find(const Definition* definition) const {
  const auto found = by_definition_.find(definition);
  return found == by_definition_.end() ? nullptr : &nodes_[found->second];
}

CodeSet* ClassGraph::code_of(const Value& value) const {
  const auto found = code_of_.find(&value);
  return found == code_of_.end() ? nullptr : found->second;
}

Result<const Mentions*> ClassGraph::mentions(Definition* definition, CodeSet* code) {
  std::unique_ptr<Mentions>& place = mentions_[definition];
  if (!place) {
    TENON_ASSIGN(Mentions found, mentions_of(*code, *definition));
    place = std::make_unique<Mentions>(std::move(found));
  }
  return place.get();
}

uint32_t ClassGraph::definition_node(Definition* definition, CodeSet* code) {
  const auto [place, is_new] =
      by_definition_.try_emplace(definition, static_cast<uint32_t>(nodes_.size()));
  if (is_new) {
    Node node;
    node.code = code;
    node.definition = definition;
    nodes_.push_back(std::move(node));
    objects_.emplace_back();
  }
  return place->second;
}

Result<uint32_t> ClassGraph::module_node(const ValueRef& object, CodeSet* around) {
  const ObjectClass its = class_of(*object, around);
  note_code(its.code);
  TENON_ASSIGN(const CodeSet::FoundClass found, its.code->find_class(its.name));
  if (object->class_name() != its.name) is_as_read_ = false;
  const auto id = static_cast<uint32_t>(nodes_.size());
  by_object_[object.get()] = id;
  Node node;
  node.code = its.code;
  node.definition = found.definition;
  nodes_.push_back(std::move(node));
  objects_.push_back(object);
  return id;
}

// Visits all values below the root: parents first, attributes in their order.
Status ClassGraph::walk(const ValueRef& root, CodeSet* code) {
  struct Visit {
    ValueRef value;
    CodeSet* code = nullptr;
    size_t depth = 0;
  };
  std::vector<Visit> steps{{root, code, 0}};
  while (!steps.empty()) {
    const Visit step = std::move(steps.back());
    steps.pop_back();
    if (step.depth > kMaxDepth)
      return Status(Code::kInvalidArgument, format("values are nested deeper than %zu", kMaxDepth));
    CodeSet* inside = step.code;
    if (value::has_identity(step.value->kind()) &&
        !code_of_.try_emplace(step.value.get(), step.code).second)
      continue;
    if (step.value->is(ValueKind::kObject)) {
      const ObjectClass its = class_of(*step.value, step.code);
      if (its.code->is_module_class(its.name)) {
        TENON_ASSIGN(const uint32_t id, module_node(step.value, step.code));
        inside = nodes_[id].code;
      }
    }
    if (by_object_.find(step.value.get()) == by_object_.end())
      TENON_TRY(visit_types(*step.value, step.code));
    const size_t first = steps.size();
    for (size_t i = 0; i < step.value->child_count(); ++i) {
      steps.push_back({Ref<Value>::share(&step.value->child(i)), inside, step.depth + 1});
    }
    std::reverse(steps.begin() + static_cast<ptrdiff_t>(first), steps.end());
  }
  return Status::ok();
}

Status ClassGraph::visit_type(const Type& type, CodeSet* code) {
  if (type.kind() == value::TypeKind::kClass && !is_custom_class(type.class_name())) {
    TENON_ASSIGN(const CodeSet::FoundClass found, code->find_class(type.class_name()));
    definition_node(found.definition, code);
  }
  for (const TypeRef& part : type.parts()) TENON_TRY(visit_type(*part, code));
  return Status::ok();
}

Status ClassGraph::visit_types(const Value& value, CodeSet* code) {
  switch (value.kind()) {
    case ValueKind::kList:
    case ValueKind::kDict:
      return value.declared_type() ? visit_type(*value.declared_type(), code) : Status::ok();
    case ValueKind::kTuple:
      if (value.class_name().empty()) return Status::ok();
      [[fallthrough]];
    case ValueKind::kEnum:
    case ValueKind::kObject: {
      if (is_custom_class(value.class_name())) return Status::ok();
      TENON_ASSIGN(const CodeSet::FoundClass found, code->find_class(value.class_name()));
      definition_node(found.definition, code);
      return Status::ok();
    }
    default: return Status::ok();
  }
}

// For a module object, the children are the modules below it, whatever its definition declares. For
// a bare definition, they are the declared classes.
Status ClassGraph::link_children(uint32_t id) {
  const Node& node = nodes_[id];
  const ValueRef object = objects_[id];
  std::vector<uint32_t> children;
  for (const Mentions::Child& child : node.mentions->children) {
    if (object && !object->is_opaque()) {
      const ValueRef* const held = object->attributes().find(child.field);
      const auto below = held == nullptr ? by_object_.end() : by_object_.find(held->get());
      if (below == by_object_.end()) {
        return Status(Code::kInvalidArgument,
                      format("%s has no module \"%.200s\", which its class declares",
                             node.definition->name().c_str(), child.field.c_str()));
      }
      if (nodes_[below->second].definition != child.definition) is_as_read_ = false;
      children.push_back(below->second);
      continue;
    }
    if (child.definition == nullptr) {
      return Status(Code::kInvalidArgument, format("%s mentions %s, and %s has no such class",
                                                   node.definition->name().c_str(),
                                                   child.type.c_str(), node.code->label().c_str()));
    }
    children.push_back(definition_node(child.definition, nodes_[id].code));
  }
  nodes_[id].children = std::move(children);
  return Status::ok();
}

// Adds everything that the constants and the nodes mention, until nothing new is mentioned.
Status ClassGraph::close() {
  CodeSet* const first_code = codes_.front().get();
  for (const ValueRef& constant : first_code->constants()) TENON_TRY(walk(constant, first_code));
  for (uint32_t id = 0; id < nodes_.size(); ++id) {
    Definition* const definition = nodes_[id].definition;
    CodeSet* const code = nodes_[id].code;
    TENON_ASSIGN(nodes_[id].mentions, mentions(definition, code));
    const Mentions& found = *nodes_[id].mentions;
    for (const size_t constant : found.constants) {
      if (constant >= code->constants().size()) {
        return Status(
            Code::kInvalidArgument,
            format("%s uses CONSTANTS.c%zu, and %s has %zu constants", definition->name().c_str(),
                   constant, code->label().c_str(), code->constants().size()));
      }
      TENON_TRY(walk(code->constants()[constant], code));
    }
    for (Definition* outer : found.outer) {
      const uint32_t other = definition_node(outer, code);
      nodes_[id].outer.push_back(other);
    }
    TENON_TRY(link_children(id));
  }
  return Status::ok();
}

Status ClassGraph::merge_constants() {
  const CodeSet* const first_code = codes_.front().get();
  constants_ = first_code->constants();
  std::multimap<std::string, size_t> by_key;
  for (size_t i = 0; i < constants_.size(); ++i) {
    constant_index_[{first_code, i}] = i;
    if (codes_.size() > 1) by_key.emplace(rough_key(*constants_[i]), i);
  }
  for (const Node& node : nodes_) {
    for (const size_t index : node.mentions->constants) {
      if (constant_index_.find({node.code, index}) != constant_index_.end()) continue;
      const ValueRef& constant = node.code->constants()[index];
      const std::string key = rough_key(*constant);
      size_t place = SIZE_MAX;
      const auto [begin, end] = by_key.equal_range(key);
      for (auto entry = begin; entry != end && place == SIZE_MAX; ++entry) {
        value::CompareOptions compare;
        compare.sharing = false;
        if (!value::difference(*constants_[entry->second], *constant, compare))
          place = entry->second;
      }
      if (place == SIZE_MAX) {
        place = constants_.size();
        constants_.push_back(constant);
        by_key.emplace(key, place);
      }
      constant_index_[{node.code, index}] = place;
    }
  }
  return Status::ok();
}

size_t ClassGraph::constant_index(const CodeSet* code, size_t index) const {
  return constant_index_.at({code, index});
}

// The text by which definitions of different code are compared. Constants have the numbers in it
// that they will have in the archive.
Result<std::string> ClassGraph::own_text(const Node& node) const {
  TENON_ASSIGN(const CodeSet::Text text, node.code->text(*node.definition));
  script::NewNames names;
  for (const size_t index : node.mentions->constants) {
    const size_t place = constant_index(node.code, index);
    if (place != index)
      names["CONSTANTS.c" + std::to_string(index)] = "CONSTANTS.c" + std::to_string(place);
  }
  if (names.empty()) return std::string(text.source().text(text.item->range));
  return script::renamed(*text.file, text.item->range, names);
}

Status ClassGraph::refine() {
  std::map<std::pair<std::string, std::string>, uint32_t> first_sets;
  for (Node& node : nodes_) {
    std::string text;
    if (codes_.size() > 1) {
      TENON_ASSIGN(text, own_text(node));
    }
    node.set = first_sets
                   .try_emplace({node.definition->name(), std::move(text)},
                                static_cast<uint32_t>(first_sets.size()))
                   .first->second;
  }
  for (size_t n_sets = first_sets.size();;) {
    std::map<std::vector<uint32_t>, uint32_t> next_sets;
    std::vector<uint32_t> next(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      std::vector<uint32_t> key{nodes_[i].set};
      for (const uint32_t other : nodes_[i].outer) key.push_back(nodes_[other].set);
      for (const uint32_t other : nodes_[i].children) key.push_back(nodes_[other].set);
      next[i] = next_sets.try_emplace(std::move(key), static_cast<uint32_t>(next_sets.size()))
                    .first->second;
    }
    for (size_t i = 0; i < nodes_.size(); ++i) nodes_[i].set = next[i];
    // Sets are only ever split, so the sets are the same if their number is.
    if (next_sets.size() == n_sets) return Status::ok();
    n_sets = next_sets.size();
  }
}

void ClassGraph::name_nodes() {
  std::map<uint32_t, const Node*> firsts;
  std::set<std::string, std::less<>> wanted;
  std::set<std::string, std::less<>> taken;
  std::map<std::string, uint64_t> next_numbers;
  for (const Node& node : nodes_) wanted.insert(node.definition->name());
  const auto is_taken = [&](const std::string& name) {
    return taken.count(name) != 0 || wanted.count(name) != 0;
  };
  // Definitions of the first root's code keep their names if possible, because unchanged code is
  // then written as it was read.
  for (const bool of_root : {true, false}) {
    for (Node& node : nodes_) {
      if ((node.code == codes_.front().get()) != of_root || firsts.find(node.set) != firsts.end())
        continue;
      node.name = node.definition->name();
      if (taken.count(node.name) != 0)
        node.name = mangled_name(node.name, &next_numbers[node.name], is_taken);
      taken.insert(node.name);
      node.is_first = true;
      firsts[node.set] = &node;
    }
  }
  for (Node& node : nodes_) node.name = firsts[node.set]->name;
}

}  // namespace tenon::module
