// The objects behind the lists of module.h. A list owns all of its content, and never changes once
// a C caller has it. The texts and handles that a caller gets from a list are the list's.
#pragma once

#include <string>
#include <vector>

#include "modules/module/module.h"

namespace tenon::capi {

struct MemberList {
  struct Entry {
    module::Member member;
    std::string type;  // member.type as text
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
