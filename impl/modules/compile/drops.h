// Adds the drop nodes of a graph, which release values that nothing uses any more. The emitter
// calls this before it plans the stack.
#pragma once

#include "modules/compile/graph.h"

namespace tenon::compile {

// Adds a drop node behind every node that has outputs without a use, and at the start of every
// block that has inputs without a use. Does the same behind every node whose blocks contain the
// last use of a value from outside.
void add_drops(Graph* graph);

}  // namespace tenon::compile
