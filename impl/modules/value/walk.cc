#include "modules/value/walk.h"

#include <limits>
#include <unordered_set>
#include <vector>

namespace tenon::value {
namespace {

struct Frame {
  Value* value;
  size_t next_child;
};

}  // namespace

Status for_each(Value& root, const std::function<Status(Value& value, size_t depth)>& visit,
                size_t max_depth) {
  std::unordered_set<const Value*> seen;
  // A value with only one owner cannot be met twice.
  const auto is_new = [&seen](const Value& value) {
    return !has_identity(value.kind()) || value.strong_count() == 1 || seen.insert(&value).second;
  };
  std::vector<Frame> path;
  (void)is_new(root);
  TENON_TRY(visit(root, 0));
  path.push_back({&root, 0});
  while (!path.empty()) {
    Frame& top = path.back();
    if (top.next_child == top.value->child_count()) {
      path.pop_back();
      continue;
    }
    Value& child = top.value->child(top.next_child++);
    if (!is_new(child)) continue;
    const size_t depth = path.size();
    if (depth > max_depth)
      return Status(Code::kInvalidArgument, format("values are nested deeper than %zu", max_depth));
    TENON_TRY(visit(child, depth));
    if (child.child_count() > 0) path.push_back({&child, 0});
  }
  return Status::ok();
}

bool reaches(Value& root, const Value& target) {
  const Status found = for_each(
      root,
      [&target](Value& value, size_t) {
        return &value == &target ? Status(Code::kCancelled, "found") : Status::ok();
      },
      std::numeric_limits<size_t>::max());
  return !found.is_ok();
}

}  // namespace tenon::value
