// The main function of this folder's tests. Some tests start this program again as another process.
// The arguments tell that process what to do.
#include "process/filename/agent.h"

int main(int argc, char** argv) { return names::main_with_agents<names::Served>(argc, argv); }
