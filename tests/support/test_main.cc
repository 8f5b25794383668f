// The main function of test programs that have nothing of their own to do in it.
#include "support/run_tests.h"

int main(int argc, char** argv) { return support::run_tests(argc, argv); }
