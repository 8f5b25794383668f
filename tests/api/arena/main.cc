// The main function of this folder's tests. Some tests start this program again as another process.
// The arguments tell that process what to do.
#include <cstring>

#include "process/lease/agent.h"

namespace leases {
int scan_as_told(char** argv);  // access_test.cc
}

int main(int argc, char** argv) {
  if (argc == 5 && std::strcmp(argv[1], "--scan") == 0) return leases::scan_as_told(argv);
  return names::main_with_agents<leases::Served>(argc, argv);
}
