#include "modules/module/version.h"

#include <algorithm>
#include <array>
#include <map>

#include "modules/script/ast_walk.h"
#include "modules/script/check.h"

namespace tenon::module {

namespace {

using script::Expr;
using script::ExprKind;
using script::Stmt;
using script::StmtKind;

constexpr std::array<VersionedOperator, 6> kVersioned = {{
    {"div", 4},
    {"div_", 4},
    {"full", 5},
    {"linspace", 8},
    {"logspace", 9},
    {"gelu", 10},
}};

struct Part : CodePart {
  const ClassGraph::Node* node = nullptr;
};

bool has_code(ClassKind kind) { return kind == ClassKind::kModule || kind == ClassKind::kPlain; }

Status add_parts(const ClassGraph::Node& node, std::vector<Part>* parts) {
  const Definition& definition = *node.definition;
  TENON_ASSIGN(const CodeSet::Text text, node.code->text(definition));
  if (!definition.is_class()) {
    parts->push_back(
        {{{}, definition.name(), definition.version(), &text.source(), text.item->function},
         &node});
    return Status::ok();
  }
  TENON_ASSIGN(const ClassBody* body, node.code->body(definition));
  if (!has_code(body->kind)) return Status::ok();
  for (const Stmt* statement : text.item->class_def->body) {
    if (statement->kind != StmtKind::kDef) continue;
    const std::string name(statement->function->name);
    const size_t method = body->find_method(name);
    const int version = method == SIZE_MAX ? definition.version() : body->methods[method].version;
    parts->push_back({{definition.name(), definition.name() + "." + name, version, &text.source(),
                       statement->function},
                      &node});
  }
  return Status::ok();
}

using Used = std::array<bool, kVersioned.size()>;

// Finds operators by their names alone, which costs little. `x.div(y)` may be a method of the
// archive, and is found too.
Used named_operators(const script::Function& function) {
  Used used{};
  const auto find = [](std::string_view name) {
    return std::find_if(kVersioned.begin(), kVersioned.end(),
                        [&](const VersionedOperator& each) { return each.name == name; });
  };
  const auto note = [&](std::string_view name) {
    used[static_cast<size_t>(find(name) - kVersioned.begin())] = true;
  };
  script::AstVisitor visitor;
  visitor.expression = [&](const Expr& expr) {
    if (expr.kind == ExprKind::kBinary && expr.op == script::Operator::kDiv) note("div");
    if (expr.kind != ExprKind::kCall || expr.child(0).kind != ExprKind::kAttribute) return;
    const std::string_view name = expr.child(0).text;
    if (find(name) != kVersioned.end() &&
        !script::dotted_name(expr.child(0)).starts_with("__torch__."))
      note(name);
  };
  visitor.statement = [&](const Stmt& statement) {
    if (statement.kind != StmtKind::kAugAssign || statement.op != script::Operator::kDiv) return;
    // `/=` calls div_ on a Tensor and div on a number.
    note("div");
    note("div_");
  };
  walk(function, visitor);
  return used;
}

}  // namespace

std::vector<VersionedOperator> versioned_operators(const CodeEnvironment& environment,
                                                   const CodePart& part) {
  Used used = named_operators(*part.function);
  if (std::find(used.begin(), used.end(), true) == used.end()) return {};
  script::Uses uses;
  script::CheckOptions options;
  options.unknown_operators = true;
  options.archive_version = part.version;
  const Status taken = part.class_name.empty()
                           ? script::check_function(environment, *part.source, part.name,
                                                    *part.function, options, &uses)
                           : script::check_method(environment, *part.source, part.class_name,
                                                  *part.function, options, &uses);
  for (size_t i = 0; i < kVersioned.size() && taken.is_ok(); ++i) {
    used[i] =
        used[i] && uses.versioned_operators.contains("aten::" + std::string(kVersioned[i].name));
  }
  std::vector<VersionedOperator> operators;
  for (size_t i = 0; i < kVersioned.size(); ++i) {
    if (used[i]) operators.push_back(kVersioned[i]);
  }
  return operators;
}

Result<int> resolve_version(const ClassGraph& graph, int file_version) {
  if (file_version != 0 && (file_version < kOldestVersion || file_version > kNewestVersion)) {
    return Status(Code::kInvalidArgument,
                  format("PyTorch reads versions %d to %d, and %d is none of them", kOldestVersion,
                         kNewestVersion, file_version));
  }
  std::vector<Part> parts;
  for (const ClassGraph::Node& node : graph.nodes()) {
    if (node.is_first) TENON_TRY(add_parts(node, &parts));
  }
  if (parts.empty()) return file_version != 0 ? file_version : graph.codes().front()->version();
  const auto is_older = [](const Part& a, const Part& b) { return a.version < b.version; };
  const auto oldest = std::min_element(parts.begin(), parts.end(), is_older);
  const auto newest = std::max_element(parts.begin(), parts.end(), is_older);
  if (file_version == 0 && oldest->version == newest->version) return newest->version;
  const int version = file_version != 0 ? file_version : kNewCodeVersion;
  std::map<const CodeSet*, CodeEnvironment> environments;
  for (const Part& part : parts) {
    if (part.version == version) continue;
    const CodeEnvironment& environment =
        environments.try_emplace(part.node->code, *part.node->code).first->second;
    for (const VersionedOperator& op : versioned_operators(environment, part)) {
      const bool means_the_same = (part.version < op.changed) == (version < op.changed);
      if (means_the_same) continue;
      const std::string own = format(
          "%s of %s is code of version %d and uses %s, which means something else in version %d",
          part.name.c_str(), part.node->code->label().c_str(), part.version,
          std::string(op.name).c_str(), version);
      std::string message =
          file_version != 0 ? own
                            : own + format(", as which %s of %s is written", newest->name.c_str(),
                                           newest->node->code->label().c_str());
      return Status(Code::kInvalidArgument, std::move(message))
          .with("operator", std::string(op.name))
          .with("module", part.node->definition->name())
          .with("other_module", newest->node->definition->name());
    }
  }
  return version;
}

}  // namespace tenon::module
