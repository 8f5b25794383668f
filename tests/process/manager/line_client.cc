// Tenon's client of a manager. Lines on stdin tell it what to do: "add NAME" or "subtract NAME". It
// answers OK, or the error's name and text.
#include <cstdio>
#include <iostream>
#include <string>

#include "names/manager.h"
#include "os/wait.h"

int main(int count, char** words) {
  if (count != 2) return 2;
  const std::string manager = words[1];
  for (std::string word, name; std::cin >> word >> name;) {
    if (word == "subtract") {
      tenon::names::deallocate_at_manager(manager, name);
      std::puts("OK");
    } else {
      tenon::os::Waiter waiter({.timeout_ns = 20'000'000'000});
      const tenon::Status status = tenon::names::register_with_manager(manager, name, &waiter);
      std::printf("%s%s%s\n", tenon::code_name(status.code()), status.is_ok() ? "" : " ",
                  status.message().c_str());
    }
    std::fflush(stdout);
  }
  return 0;
}
