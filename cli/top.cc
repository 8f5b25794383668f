// `tenon top`: shows which processes lend how much, and how fast, and what moves through queues.
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "commands.h"
#include "figures.h"
#include "output.h"
#include "queues.h"
#include "screen.h"

namespace tenon::cli {
namespace {

using memory::ArenaOnBoard;
using memory::LedgerOnBoard;
using memory::QueueOnBoard;

// The key under which the counts of a row are kept for the next look: pid, the beginning of the
// board, and the number of the row in the process. Such a number is never used again. The beginning
// distinguishes the board from an older one of the same pid.
using Key = std::tuple<pid_t, int64_t, uint64_t>;
using Counts = std::pair<uint64_t, uint64_t>;

struct Look {
  Boards boards;
  std::vector<SeenQueue> queues;
  // The total number of blocks, leases or sent messages so far, and of their bytes.
  std::map<Key, Counts> before;
  std::map<Key, Counts> received_before;  // likewise of received messages
};

struct Rates {
  double count = 0;
  double nbytes = 0;
};

struct LeaseLine {
  LeaseRow row;
  Rates granted;
};

struct ProcessLine {
  const Board* board = nullptr;
  uint64_t arenas = 0;
  uint64_t reserved_nbytes = 0;
  uint64_t live_nbytes = 0;
  uint64_t lent_nbytes = 0;
  uint64_t leases = 0;
  uint64_t ledgers = 0;
  int64_t began_ns = 0;
  Rates made;
  Rates granted;
};

struct MemberLine {
  const SeenMember* member = nullptr;
  Rates sent;
  Rates received;
};

struct QueueLine {
  const SeenQueue* queue = nullptr;
  std::vector<MemberLine> members;
  Rates sent;
  Rates received;
};

struct Picture {
  double seconds = 0;
  std::vector<ProcessLine> processes;  // the largest lender first
  std::vector<LeaseLine> leases;       // the largest lease first
  std::vector<QueueLine> queues;       // the fullest queue first
};

Key key_of(const Board& board, uint64_t number) {
  return {board.process.pid, board.image.began_ns, number};
}

Look look() {
  Look now;
  now.boards = read_boards();
  now.queues = read_queues(&now.boards);
  for (const Board& board : now.boards.all) {
    for (const ArenaOnBoard& arena : board.image.arenas)
      now.before[key_of(board, arena.number)] = {arena.blocks_made, arena.made_nbytes};
    for (const LedgerOnBoard& ledger : board.image.ledgers)
      now.before[key_of(board, ledger.number)] = {ledger.granted, ledger.granted_nbytes};
    for (const QueueOnBoard& queue : board.image.queues) {
      const Key key = key_of(board, queue.number);
      now.before[key] = {queue.sent, queue.sent_nbytes};
      now.received_before[key] = {queue.received, queue.received_nbytes};
    }
  }
  return now;
}

// A row that the previous look did not have began since then, so its counts start from 0.
Rates rates_of(const std::map<Key, Counts>& before, const Key& key, Counts now, double seconds) {
  const auto found = before.find(key);
  const Counts then = found == before.end() ? Counts{} : found->second;
  const auto rate = [&](uint64_t new_value, uint64_t old_value) {
    return new_value > old_value && seconds > 0
               ? static_cast<double>(new_value - old_value) / seconds
               : 0;
  };
  return {rate(now.first, then.first), rate(now.second, then.second)};
}

QueueLine compare_queue(const Look& before, const SeenQueue& queue, double seconds) {
  QueueLine line;
  line.queue = &queue;
  for (const SeenMember& member : queue.members) {
    MemberLine each{&member, {}, {}};
    if (const QueueOnBoard* const row = member.row; row != nullptr) {
      const Key key = key_of(*member.board, row->number);
      each.sent = rates_of(before.before, key, {row->sent, row->sent_nbytes}, seconds);
      each.received =
          rates_of(before.received_before, key, {row->received, row->received_nbytes}, seconds);
    }
    line.sent.count += each.sent.count;
    line.sent.nbytes += each.sent.nbytes;
    line.received.count += each.received.count;
    line.received.nbytes += each.received.nbytes;
    line.members.push_back(each);
  }
  return line;
}

Picture compare(const Look& before, const Look& now) {
  Picture picture;
  picture.seconds = static_cast<double>(now.boards.read_ns - before.boards.read_ns) / 1e9;
  std::map<const Board*, ProcessLine> lines;
  for (const Board& board : now.boards.all) {
    ProcessLine& line = lines[&board];
    line.board = &board;
    line.began_ns = board.image.began_ns;
    for (const ArenaOnBoard& arena : board.image.arenas) {
      if (!is_worth_showing(arena)) continue;
      const Rates made = rates_of(before.before, key_of(board, arena.number),
                                  {arena.blocks_made, arena.made_nbytes}, picture.seconds);
      ++line.arenas;
      line.reserved_nbytes += arena.reserved_nbytes;
      line.live_nbytes += arena.live_nbytes;
      line.lent_nbytes += arena.lent_nbytes;
      line.made.count += made.count;
      line.made.nbytes += made.nbytes;
    }
  }
  for (LeaseRow& row : lease_rows(now.boards)) {
    const LedgerOnBoard& ledger = *row.ledger;
    const Rates granted = rates_of(before.before, key_of(*row.lender, ledger.number),
                                   {ledger.granted, ledger.granted_nbytes}, picture.seconds);
    ProcessLine& line = lines[row.lender];
    ++line.ledgers;
    line.leases += ledger.leases;
    line.granted.count += granted.count;
    line.granted.nbytes += granted.nbytes;
    picture.leases.push_back({std::move(row), granted});
  }
  for (auto& [board, line] : lines) picture.processes.push_back(line);
  std::sort(picture.processes.begin(), picture.processes.end(),
            [](const ProcessLine& a, const ProcessLine& b) {
              return std::tuple(b.lent_nbytes, b.live_nbytes, a.board->process.pid) <
                     std::tuple(a.lent_nbytes, a.live_nbytes, b.board->process.pid);
            });
  for (const SeenQueue& queue : now.queues)
    picture.queues.push_back(compare_queue(before, queue, picture.seconds));
  std::stable_sort(picture.queues.begin(), picture.queues.end(),
                   [](const QueueLine& a, const QueueLine& b) {
                     return a.queue->waiting.value_or(0) > b.queue->waiting.value_or(0);
                   });
  std::stable_sort(picture.leases.begin(), picture.leases.end(),
                   [](const LeaseLine& a, const LeaseLine& b) {
                     return a.row.ledger->nbytes > b.row.ledger->nbytes;
                   });
  return picture;
}

std::string per_second(double rate) {
  return count_text(static_cast<uint64_t>(std::llround(std::min(rate, 1e18))));
}
std::string bytes_per_second(double rate) {
  return size_text(static_cast<uint64_t>(std::llround(std::min(rate, 1e18))));
}

Table table_of(const std::vector<QueueLine>& queues) {
  Table table({{"QUEUE", true},
               {"MEMBERS", true},
               {"WAITING", true},
               {"SENT/S", true},
               {"RECEIVED/S", true},
               {"BYTES/S", true},
               {"DIED", true}});
  for (const QueueLine& each : queues) {
    const SeenQueue& queue = *each.queue;
    table.add({{queue_text(queue)},
               {count_text(count_members(queue))},
               {queue.waiting ? count_text(*queue.waiting) : "?"},
               {per_second(each.sent.count)},
               {per_second(each.received.count)},
               {bytes_per_second(each.sent.nbytes)},
               {queue.has_memory ? count_text(queue.died) : "?",
                queue.died != 0 ? Colour::kRed : Colour::kNone}});
  }
  return table;
}

Table members_table_of(const std::vector<QueueLine>& queues, const Boards& boards) {
  Table table({{"QUEUE", true},
               {"PID", true},
               {"STATE"},
               {"WAITING", true},
               {"FULL FOR", true},
               {"SENT/S", true},
               {"RECEIVED/S", true},
               {"COMMAND"}});
  for (const QueueLine& line : queues) {
    for (const MemberLine& each : line.members) {
      const SeenMember& member = *each.member;
      if (member.state == SeenState::kLeft) continue;
      const Colour slow = is_full(*line.queue, member) ? Colour::kYellow : Colour::kNone;
      const bool known = member.row != nullptr;
      table.add({{queue_text(*line.queue)},
                 {member_text(member)},
                 {state_text(member.state), state_colour(member.state)},
                 {waiting_text(*line.queue, member), slow},
                 {full_text(boards, *line.queue, member), slow},
                 {known ? per_second(each.sent.count) : "?"},
                 {known ? per_second(each.received.count) : "?"},
                 {member.command.empty() ? "-" : command_text(member.command)}});
    }
  }
  return table;
}

std::vector<std::string> lines_of(const Picture& picture, const Boards& boards) {
  uint64_t lent = 0;
  uint64_t leases = 0;
  Table processes({{"PID", true},
                   {"ARENAS", true},
                   {"RESERVED", true},
                   {"LIVE", true},
                   {"LENT", true},
                   {"LEASES", true},
                   {"MADE/S", true},
                   {"GRANTS/S", true},
                   {"BYTES/S", true},
                   {"AGE", true},
                   {"COMMAND"}});
  for (const ProcessLine& each : picture.processes) {
    lent += each.lent_nbytes;
    leases += each.leases;
    processes.add(
        {{std::to_string(each.board->process.pid)},
         {count_text(each.arenas)},
         {size_text(each.reserved_nbytes)},
         {size_text(each.live_nbytes)},
         {size_text(each.lent_nbytes), each.lent_nbytes != 0 ? Colour::kGreen : Colour::kNone},
         {count_text(each.leases)},
         {per_second(each.made.count)},
         {per_second(each.granted.count)},
         {bytes_per_second(each.granted.nbytes)},
         {age_text(age_ns(boards, each.began_ns))},
         {command_text(each.board->process.command)}});
  }
  Table table({{"LENDER", true},
               {"BORROWER", true},
               {"LEASES", true},
               {"BYTES", true},
               {"GRANTS/S", true},
               {"BYTES/S", true},
               {"AGE", true},
               {"BORROWER'S COMMAND"}});
  for (const LeaseLine& each : picture.leases) {
    table.add({{std::to_string(each.row.lender->process.pid)},
               {borrower_text(*each.row.ledger)},
               {count_text(each.row.ledger->leases)},
               {size_text(each.row.ledger->nbytes)},
               {per_second(each.granted.count)},
               {bytes_per_second(each.granted.nbytes)},
               {age_text(age_ns(boards, each.row.ledger->began_ns))},
               {each.row.borrower.empty() ? "-" : command_text(each.row.borrower)}});
  }
  std::string head = plural_text(picture.processes.size(), "process", "processes") + ", " +
                     size_text(lent) + " lent, " + plural_text(leases, "lease", "leases");
  if (boards.unreadable != 0)
    head += "; " + plural_text(boards.unreadable, "process", "processes") + " could not be asked";
  if (!boards.refused.empty())
    head += "; " + plural_text(boards.refused.size(), "board", "boards") + " refused";
  std::vector<std::string> lines = {head};
  const Table queues = table_of(picture.queues);
  const Table members = members_table_of(picture.queues, boards);
  for (const Table* const each :
       std::initializer_list<const Table*>{&processes, &table, &queues, &members}) {
    if (each->is_empty()) continue;
    lines.emplace_back();
    for (std::string& line : each->lines()) lines.push_back(std::move(line));
  }
  return lines;
}

// Adds the rates to what `tenon ls` prints of the queues.
Json queues_json_of(const Picture& picture, const Boards& boards) {
  Json queues = Json::array();
  for (const QueueLine& line : picture.queues) {
    Json queue = queues_json(boards, {*line.queue})[0];
    const auto add_rates = [](Json* to, const Rates& sent, const Rates& received) {
      (*to)["sent_per_second"] = sent.count;
      (*to)["sent_nbytes_per_second"] = sent.nbytes;
      (*to)["received_per_second"] = received.count;
      (*to)["received_nbytes_per_second"] = received.nbytes;
    };
    add_rates(&queue, line.sent, line.received);
    for (size_t i = 0; i < line.members.size(); ++i)
      add_rates(&queue["members"][i], line.members[i].sent, line.members[i].received);
    queues.push_back(std::move(queue));
  }
  return queues;
}

Json json_of(const Picture& picture, const Boards& boards) {
  Json processes = Json::array();
  for (const ProcessLine& each : picture.processes) {
    processes.push_back(
        {{"pid", each.board->process.pid},
         {"uid", each.board->process.uid},
         {"command", each.board->process.command},
         {"arenas", each.arenas},
         {"reserved_nbytes", each.reserved_nbytes},
         {"live_nbytes", each.live_nbytes},
         {"lent_nbytes", each.lent_nbytes},
         {"leases", each.leases},
         {"ledgers", each.ledgers},
         {"blocks_per_second", each.made.count},
         {"made_nbytes_per_second", each.made.nbytes},
         {"grants_per_second", each.granted.count},
         {"granted_nbytes_per_second", each.granted.nbytes},
         {"age_seconds", static_cast<double>(age_ns(boards, each.began_ns)) / 1e9}});
  }
  Json leases = leases_json(boards);
  std::map<std::pair<pid_t, uint64_t>, const LeaseLine*> found;
  for (const LeaseLine& each : picture.leases)
    found[{each.row.lender->process.pid, each.row.ledger->number}] = &each;
  for (Json& each : leases) {
    const LeaseLine& line =
        *found.at({each["lender_pid"].get<pid_t>(), each["ledger"].get<uint64_t>()});
    each["grants_per_second"] = line.granted.count;
    each["granted_nbytes_per_second"] = line.granted.nbytes;
  }
  std::stable_sort(leases.begin(), leases.end(), [](const Json& a, const Json& b) {
    return a["nbytes"].get<uint64_t>() > b["nbytes"].get<uint64_t>();
  });
  return {{"interval_seconds", picture.seconds}, {"processes", std::move(processes)},
          {"leases", std::move(leases)},         {"queues", queues_json_of(picture, boards)},
          {"refused", boards.refused},           {"unreadable_boards", boards.unreadable}};
}

void sleep_until(int64_t moment_ns) {
  const timespec moment{moment_ns / 1'000'000'000, moment_ns % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, nullptr) == EINTR) {
  }
}

void print_picture(const TopOptions& options, const Picture& picture, const Boards& boards) {
  if (options.json && options.once) {
    print_json(json_of(picture, boards));
  } else if (options.json) {
    // Prints one document a line, so that a reader can take each as it comes.
    print_text(json_of(picture, boards).dump(-1, ' ', true, Json::error_handler_t::replace) + "\n");
  } else {
    for (const std::string& line : lines_of(picture, boards)) print_text(line + "\n");
    if (!options.once) print_text("\n");
  }
}

int64_t interval_ns(const TopOptions& options) {
  return static_cast<int64_t>(options.interval * 1e9);
}

int print_again_and_again(const TopOptions& options) {
  Look before = look();
  while (true) {
    sleep_until(before.boards.read_ns + interval_ns(options));
    Look now = look();
    print_picture(options, compare(before, now), now.boards);
    // A failed write is reported at the end.
    if (options.once || std::fflush(stdout) != 0) return kExitOk;
    before = std::move(now);
  }
}

int draw_again_and_again(const TopOptions& options) {
  Result<Screen> taken = Screen::take();
  if (!taken.is_ok()) {
    print_error(taken.status());
    return kExitProblem;
  }
  Screen& screen = taken.value();
  Look before = look();
  // Shows a first picture at once, without rates.
  std::vector<std::string> lines = lines_of(compare(before, before), before.boards);
  while (true) {
    screen.draw(lines);
    const Screen::Event event = screen.wait_until(before.boards.read_ns + interval_ns(options));
    if (event == Screen::Event::kQuit) return kExitOk;
    if (event == Screen::Event::kResized) continue;
    Look now = look();
    lines = lines_of(compare(before, now), now.boards);
    before = std::move(now);
  }
}

}  // namespace

int run_top(const TopOptions& options) {
  return options.once || options.json || !Screen::is_there() ? print_again_and_again(options)
                                                             : draw_again_and_again(options);
}

}  // namespace tenon::cli
