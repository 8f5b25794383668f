// What stands behind the lists of module.h: everything in them is their own.
#pragma once

#include <string>
#include <vector>

#include "module/module.h"

namespace tenon::capi {

struct MemberList {
  struct Entry {
    module::Member member;
    std::string type;  // as text
  };
  std::vector<Entry> entries;
};

struct NameList {
  std::vector<std::string> names;
};

struct FileList {
  std::vector<module::ExtraFile> files;
};

}  // namespace tenon::capi
