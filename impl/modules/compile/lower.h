// Replaces the operators of a graph by those of the target's PyTorch. An older PyTorch lacks some
// operators, and takes other arguments for some. The emitter calls this for targets below
// version 8.
#pragma once

#include "base/status.h"
#include "modules/compile/classes.h"
#include "modules/compile/graph.h"
#include "modules/compile/target.h"

namespace tenon::compile {

// Gives each operator of the graph the target's schema and the arguments of that schema. An
// argument that the target's operator lacks is removed if it has its default. An argument that only
// the target's operator has gets its default there. UNSUPPORTED, with file and line: the target has
// no such operator, or the operator cannot take the arguments of the call. Then the graph may be
// changed in part.
Status lower_operators(const Classes& classes, const Target& target, Graph* graph);

}  // namespace tenon::compile
