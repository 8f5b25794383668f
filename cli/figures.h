// Shows arenas and leases for `ls` and `top`, as queues.h does queues: rows from the boards, in
// text, JSON and Prometheus' exposition format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "boards.h"
#include "output.h"
#include "queues.h"

namespace tenon::cli {

// The leases of one ledger (memory/ledger.h), which are those of one borrower or of one descriptor.
// A row points into the Boards, which must outlive it.
struct LeaseRow {
  const Board* lender;
  const memory::LedgerOnBoard* ledger;
  std::string borrower;  // the command line; "" if it is unknown
};
// Gives a row for each ledger on the boards, with the borrower's command, which /proc has if the
// pid namespace is the same.
std::vector<LeaseRow> lease_rows(const Boards& boards);

// Gives "17", or "home" for a default home.
std::string arena_text(const memory::ArenaOnBoard& arena);
// Gives "shared", "lender_writes" or "frozen".
const char* mode_text(memory::Mode mode) noexcept;
std::string borrower_text(const memory::LedgerOnBoard& ledger);  // "1234", "a descriptor", "?"
std::string command_text(const std::string& command);  // cut to the width of a table's column
// How old something was when the boards were read, at least 0. `began_ns` is of CLOCK_MONOTONIC.
int64_t age_ns(const Boards& boards, int64_t began_ns) noexcept;

// A default home that was never used is not worth a line.
bool is_worth_showing(const memory::ArenaOnBoard& arena) noexcept;

Table arenas_table(const Boards& boards);
Table leases_table(const Boards& boards);
// Prints which boards could not be read and which were refused.
void print_unread(const Boards& boards);
Json arenas_json(const Boards& boards);
Json leases_json(const Boards& boards);
void print_prometheus(const Boards& boards, const std::vector<SeenQueue>& queues);

}  // namespace tenon::cli
