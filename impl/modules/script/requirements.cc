#include "modules/script/requirements.h"

namespace tenon::script {

Requirements requirements(const Uses& uses) {
  const SchemaTable& table = SchemaTable::get();
  Requirements out;
  VersionSpan all = table.all_versions();
  const uint8_t newest = all.last;
  for (const auto& [name, span] : uses.operators) {
    if (span.first > all.first) {
      all.first = span.first;
      out.because_of = name;
    }
    if (span.last < all.last) all.last = span.last;
  }
  if (all.first <= all.last) out.oldest_torch = table.versions()[all.first];
  if (all.last < newest) out.newest_torch = table.versions()[all.last];
  out.versioned_operators.assign(uses.versioned_operators.begin(), uses.versioned_operators.end());
  out.foreign_namespaces.assign(uses.foreign_namespaces.begin(), uses.foreign_namespaces.end());
  return out;
}

}  // namespace tenon::script
