// Operators as the PyTorch of a target has them: an older one lacks some, and others took other
// arguments then.
#pragma once

#include "base/status.h"
#include "compile/classes.h"
#include "compile/graph.h"
#include "compile/target.h"

namespace tenon::compile {

// Gives each operator of the graph the target's schema and the arguments of that schema: what the
// operator did not take then goes if it has its default, and what it took besides gets the default
// of then. UNSUPPORTED, with file and line: the target has no such operator, or it cannot be given
// what the call gives.
Status lower_operators(const Classes& classes, const Target& target, Graph* graph);

}  // namespace tenon::compile
