// A new directory for one test, and the names in a directory. The kits build their directories on
// it.
#pragma once

#include <dirent.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>

namespace tenon::test {

// The names in a directory, which must exist, without "." and "..".
inline std::set<std::string> names_in(const std::string& directory) {
  DIR* const stream = opendir(directory.c_str());
  if (stream == nullptr) {
    std::perror(directory.c_str());
    std::abort();
  }
  std::set<std::string> names;
  while (const dirent* entry = readdir(stream)) names.insert(entry->d_name);
  closedir(stream);
  names.erase(".");
  names.erase("..");
  return names;
}

// The place for files that need not be in memory: TMPDIR, or else /tmp.
inline std::string temporary_place() {
  const char* const place = std::getenv("TMPDIR");
  return place != nullptr ? place : "/tmp";
}

// A new directory, removed with everything in it when the object is destroyed.
class TemporaryDirectory {
 public:
  // The path is `prefix` and six random letters, such as "/dev/shm/tenon-unit-x7Qr2a".
  explicit TemporaryDirectory(const std::string& prefix) : path_(prefix + "XXXXXX") {
    if (mkdtemp(path_.data()) != nullptr) return;
    std::perror(path_.c_str());
    std::abort();
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() { (void)remove(); }
  // Returns false if something could not be removed.
  bool remove() const {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
    if (error) std::fprintf(stderr, "%s is left: %s\n", path_.c_str(), error.message().c_str());
    return !error;
  }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& leaf) const { return path_ + "/" + leaf; }
  std::set<std::string> names() const { return names_in(path_); }

 private:
  std::string path_;
};

}  // namespace tenon::test
