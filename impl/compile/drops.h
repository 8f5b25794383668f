// Drops: nodes that give up what nothing uses any more.
#pragma once

#include "compile/graph.h"

namespace tenon::compile {

// Adds a node behind each that has outputs without a use, and behind each in whose blocks the last
// use of a value stands.
void add_drops(Graph* graph);

}  // namespace tenon::compile
