// The output functions of all commands: colours, tables, units, and text that cannot harm a
// terminal.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tenon::cli {

// Keeps the order in which members are added.
using Json = nlohmann::ordered_json;

enum class Colour { kNone, kGreen, kYellow, kRed, kBlue, kBold };

enum class ColourWish { kAuto, kAlways, kNever };
// kAuto means colours on a terminal, unless NO_COLOR is set and not empty or TERM is "dumb". Call
// it before anything is printed. All functions here are for one thread.
void choose_colour(ColourWish wish);
std::string paint(Colour colour, std::string_view text);

// Makes a text safe for the terminal, because names and command lines come from other programs.
// Well-formed, printable UTF-8 stays. Control and direction characters and stray bytes become \xNN.
// A backslash is doubled only where it could be taken for one of these.
std::string safe_text(std::string_view text);
// Cuts a text to at most `columns` columns, with an ellipsis if something is left out.
std::string cut_text(const std::string& text, size_t columns);

std::string size_text(uint64_t nbytes);                                      // "1.5 MiB"
std::string count_text(uint64_t count);                                      // "65,530"
std::string plural_text(uint64_t count, const char* one, const char* many);  // "1 name", "2 names"
std::string age_text(int64_t nanoseconds);                                   // "3 s", "2 h 5 min"

class Table {
 public:
  struct Column {
    std::string title;
    bool right = false;
  };
  struct Cell {
    std::string text;  // safe_text() was applied already
    Colour colour = Colour::kNone;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  bool is_empty() const noexcept { return rows_.empty(); }
  // The lines have no newlines.
  std::vector<std::string> lines() const;
  void print() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// Prints words in lines of the terminal's width, from 60 to 140 columns (100 if there is no
// terminal). The first line begins at the cursor, which stands at column `indent`, and the others
// are indented. The output ends with a newline.
void print_wrapped(std::string_view text, size_t indent);

void print_text(std::string_view text);
// Prints ASCII with \u escapes, because names may contain any bytes. Bytes that are no UTF-8 become
// U+FFFD.
void print_json(const Json& json);
void print_error(std::string_view text);  // "tenon: …" to stderr
void print_error(const Status& status);
Json status_json(const Status& status);
// Fails if something could not be written to stdout, for example because a disk is full. The print
// functions report nothing, so call this last.
Status flush_output();

}  // namespace tenon::cli
