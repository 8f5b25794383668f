// The work of the library's thread for names. The thread watches the directories in which this
// process has names, and removes names that other processes left. Calls that make, lend or open
// names call watch_names(), and directories.cc calls the other functions. The functions take
// LockRank::kNamesThread, and under it LockRank::kService. A forked child watches nothing until it
// calls watch_names().
#pragma once

#include <string>
#include <vector>

#include "base/counted.h"
#include "names/directories.h"

namespace tenon::names {

// Makes the thread (os/service.h) watch the directory. False if that is not possible (the limits of
// inotify). In that case only calls sweep the directory.
bool watch_names(const Ref<Directory>& directory) noexcept;
// Makes the thread check these names of the directory soon, and remove the dead ones. It checks a
// name twice if the first check gives no clear answer. Throws std::bad_alloc.
void sweep_names_later(const Ref<Directory>& directory, std::vector<std::string> leaves);
// Ends the watch of a directory that is about to be closed.
void unwatch_names(Directory& directory) noexcept;

}  // namespace tenon::names
