// Constants of a class in the code of its methods. PyTorch writes their values where its own
// compiler saw `self.eps`, and so its importer knows no such attribute.
#pragma once

#include <string>

#include "module/class_body.h"
#include "script/parser.h"

namespace tenon::module {

// The file's text with every `self.<constant>` in methods of the class replaced by the constant's
// text, whatever the first parameter is called. Empty if there is none.
std::string inline_constants(const script::File& file, const script::Class& class_def,
                             const ClassBody& body);

}  // namespace tenon::module
