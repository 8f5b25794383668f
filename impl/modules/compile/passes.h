// The passes over a function's graph, once the function compiler has built it. Unit calls clean()
// and optimise(), which do what PyTorch's own passes do.
#pragma once

#include "modules/compile/classes.h"
#include "modules/compile/graph.h"

namespace tenon::compile {

// Does what PyTorch does to a function once it is compiled. Nodes that were copied from called
// functions stay as they are.
void clean(const Classes& classes, Graph* graph);

// Does what PyTorch does in addition to a function that another one calls. It computes what is
// known before the program runs, also in nodes that were copied from called functions.
void optimise(const Classes& classes, Graph* graph);

// The functions below are steps of clean() and optimise().

// Computes operators whose operands are constants, and removes each `if` and loop whose course is
// known. Returns whether the graph was changed.
bool fold_constants(const Classes& classes, Graph* graph);
// Removes nodes and carried values that nothing uses.
void remove_dead_code(Graph* graph);
// Merges equal constants into one, and moves all constants to the start of the body.
void pool_constants(Graph* graph);
// Puts the outputs of `if` nodes and loops into the order of their first use.
void order_outputs(Graph* graph);

}  // namespace tenon::compile
