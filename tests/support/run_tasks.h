// The main loop of an agent that a Python test feeds with tasks.
#pragma once

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "base/status.h"

namespace tenon::test {

// Gives each line of stdin, split at its tabs, to `run`, and prints "ok" or "error <code>
// <message>".
template <typename Run>
int run_tasks(Run run) {
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<std::string> words;
    std::istringstream text(line);
    for (std::string word; std::getline(text, word, '\t');) words.push_back(word);
    const Status status = run(words);
    if (status.is_ok())
      std::cout << "ok" << std::endl;
    else
      std::cout << "error " << code_name(status.code()) << " " << status.message() << std::endl;
  }
  return 0;
}

}  // namespace tenon::test
