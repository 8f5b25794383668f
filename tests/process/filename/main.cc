// The main function of this folder's tests. Their agents are this program too, started with the
// argument --agent.
#include "process/filename/agent.h"

int main(int argc, char** argv) { return names::main_with_agents<names::Served>(argc, argv); }
