// The main function of this folder's tests. Their agents are this program too, started with the
// argument --agent.
#include "process/lease/agent.h"

int main(int argc, char** argv) { return names::main_with_agents<leases::Served>(argc, argv); }
