// What the library's thread does for names: it watches the directories in which this process has
// some, and removes what others let go.
#pragma once

#include <string>
#include <vector>

#include "base/counted.h"
#include "share/directories.h"

namespace tenon::share {

// Lets the thread (os/service.h) watch the directory. False where that cannot be had (inotify's
// limits): then only calls sweep.
bool watch_names(const Ref<Directory>& directory) noexcept;
// The thread looks at these names of the directory soon, twice where the first look has no clear
// answer, and removes the dead.
void sweep_names_later(const Ref<Directory>& directory, std::vector<std::string> leaves);
// The directory is about to be closed.
void unwatch_names(Directory& directory) noexcept;

}  // namespace tenon::share
