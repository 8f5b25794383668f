// The main function of this folder's tests. Some of their processes are this program too, and are
// told so by its words.
#include "lease/agent.h"

int main(int argc, char** argv) { return names::main_with_agents<leases::Served>(argc, argv); }
