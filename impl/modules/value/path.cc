#include "modules/value/path.h"

#include "modules/value/dict_key.h"

namespace tenon::value {

std::string step_text(const Value& parent, size_t index) {
  switch (parent.kind()) {
    case ValueKind::kDict:
      if (index % 2 == 0) return format(".key %zu", index / 2);
      return "[" + key_text(*parent.entries()[index / 2].key) + "]";
    case ValueKind::kEnum: return ".value";
    case ValueKind::kObject:
      return parent.is_opaque() ? ".state" : "." + parent.attributes().all()[index].name;
    default: return format("[%zu]", index);
  }
}

}  // namespace tenon::value
