// Prints the parts that `tenon inspect`, `verify` and `export` have in common for an archive, a
// package or a file of weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "archive_facts.h"
#include "modules/archive/zip_reader.h"
#include "output.h"

namespace tenon::cli {

void print_title(const char* text);

void print_records(const archive::ZipReader& container, const char* title);
Json records_json(const archive::ZipReader& container);

// Gives "[2, 3]".
std::string numbers_text(const std::vector<int64_t>& numbers);

// Gives "2 storages, 40 B, 1 of them shared by several tensors". `sharers` is the plural of the
// things that share storages.
std::string storages_text(const std::vector<StorageFact>& storages, const char* sharers);
Json storages_json(const std::vector<StorageFact>& storages);

// Prints the names of the files and how many lines they have, and their text if it is wanted.
void print_code(const std::vector<CodeFact>& code, bool with_text);
Json code_json(const std::vector<CodeFact>& code);

void print_warnings(const std::vector<std::string>& warnings);

// Gives a text such as "runs with PyTorch 1.6 or newer". An empty release means that it is unknown.
std::string runs_with_text(const std::string& oldest_pytorch);

// Gives null for an empty text.
Json text_json(const std::string& text);
// Gives null for OK.
Json error_json(const Status& status);

}  // namespace tenon::cli
