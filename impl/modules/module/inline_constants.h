// Replaces the constants of a class by their values in the code of its methods. CodeSet does this
// when it prints a changed class. PyTorch writes the value where its own compiler saw `self.eps`,
// and so its importer knows no such attribute.
#pragma once

#include <string>

#include "modules/module/class_body.h"
#include "modules/script/parser.h"

namespace tenon::module {

// Gives the file's text with every `self.<constant>` in methods of the class replaced by the
// constant's text. `self` is the first parameter, whatever its name is. Empty if there is nothing
// to replace.
std::string inline_constants(const script::File& file, const script::Class& class_def,
                             const ClassBody& body);

}  // namespace tenon::module
