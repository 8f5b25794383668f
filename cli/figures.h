// Arenas and leases as `ls` and `top` show them: rows of what the boards say, in text, JSON and
// Prometheus' exposition format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "boards.h"
#include "output.h"

namespace tenon::cli {

struct LeaseRow {
  const Board* lender;
  const memory::LedgerOnBoard* ledger;
  std::string borrower;  // command line; "" if it cannot be told
};
// With the borrowers' commands, which /proc has if it is the same pid namespace.
std::vector<LeaseRow> lease_rows(const Boards& boards);

// "17", or "home" for a default home.
std::string arena_text(const memory::ArenaOnBoard& arena);
// "shared", "lender_writes", "frozen".
const char* mode_text(memory::Mode mode) noexcept;
std::string borrower_text(const memory::LedgerOnBoard& ledger);  // "1234", "a descriptor", "?"
std::string command_text(const std::string& command);            // cut to what a table has room for
int64_t age_ns(const Boards& boards, int64_t began_ns) noexcept;

// A default home in which nothing ever was is not worth a line.
bool is_worth_showing(const memory::ArenaOnBoard& arena) noexcept;

Table arenas_table(const Boards& boards);
Table leases_table(const Boards& boards);
// What could not be read, and what was refused.
void print_unread(const Boards& boards);
Json arenas_json(const Boards& boards);
Json leases_json(const Boards& boards);
void print_prometheus(const Boards& boards);

}  // namespace tenon::cli
