// The main function of this folder's tests. Some of their processes are this program too, and are
// told so by its words.
#include "filename/agent.h"

int main(int argc, char** argv) { return names::main_with_agents<names::Served>(argc, argv); }
