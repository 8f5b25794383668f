// Passes: what is done to a function's graph once it is whole.
#pragma once

#include "compile/classes.h"
#include "compile/graph.h"

namespace tenon::compile {

// What PyTorch does to a function once it is compiled. What came from functions that it calls is
// left as it is.
void clean(const Classes& classes, Graph* graph);

// What PyTorch does to a function besides, when another one calls it: what is known before the
// program runs is computed, in what came from called functions too.
void optimise(const Classes& classes, Graph* graph);

// The steps of these.
bool fold_constants(const Classes& classes,
                    Graph* graph);  // operators of constants, `if` and loops whose way is known
// Nodes and carried values that nothing uses.
void remove_dead_code(Graph* graph);
void pool_constants(Graph* graph);  // equal constants become one
// Outputs of `if` and of loops stand in the order of their first use.
void order_outputs(Graph* graph);

}  // namespace tenon::compile
