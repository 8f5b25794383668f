// Arenas and leases.
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <tenon/tenon.hpp>
#include <thread>
#include <vector>

#include "kinds.h"

namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 10s;

std::int64_t figure(const tenon::ArenaStats& now, const std::string& name) {
  const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
  const std::map<std::string, std::int64_t> figures = {
      {"bytes_capacity", number(now.bytes_capacity)},
      {"bytes_reserved", number(now.bytes_reserved)},
      {"bytes_live", number(now.bytes_live)},
      {"bytes_lent", number(now.bytes_lent)},
      {"bytes_free", number(now.bytes_free)},
      {"bytes_largest_free", number(now.bytes_largest_free)},
      {"bytes_retired", number(now.bytes_retired)},
      {"bytes_peak", number(now.bytes_peak)},
      {"blocks_live", number(now.blocks_live)},
      {"blocks_lent", number(now.blocks_lent)},
      {"fragmentation", number(now.fragmentation)},
      {"pages", number(now.pages)},
      {"page_nbytes", number(now.page_nbytes)},
      {"numa_node", number(now.numa_node)},
      {"locked", number(now.locked)},
  };
  const auto found = figures.find(name);
  if (found == figures.end()) throw Wrong("unknown figure " + name);
  return found->second;
}

template <class Word>
Word word_of(const Case& test, const std::string& key, const std::map<std::string, Word>& words,
             Word otherwise) {
  const std::optional<std::string> text = test.find(key);
  if (!text) return otherwise;
  const auto found = words.find(*text);
  if (found == words.end()) throw Wrong("unknown " + key + " " + *text);
  return found->second;
}

}  // namespace

void run_arena(const Case& test) {
  const std::map<std::string, tenon::Mode> modes = {{"SHARED", tenon::Mode::kShared},
                                                    {"LENDER_WRITES", tenon::Mode::kLenderWrites},
                                                    {"FROZEN", tenon::Mode::kFrozen}};
  const std::map<std::string, tenon::Pages> pages = {{"AUTO", tenon::Pages::kAuto},
                                                     {"SMALL", tenon::Pages::kSmall},
                                                     {"THP", tenon::Pages::kThp},
                                                     {"HUGETLB", tenon::Pages::kHugetlb}};
  tenon::ArenaOptions options;
  options.mode = word_of(test, "mode", modes, tenon::Mode::kShared);
  options.capacity_nbytes = static_cast<std::uint64_t>(test.number("capacity_nbytes"));
  options.alignment = static_cast<std::uint64_t>(test.number_or("alignment", 0));
  options.pages = word_of(test, "pages", pages, tenon::Pages::kAuto);
  tenon::Arena arena;
  std::vector<tenon::Storage> kept;
  (void)outcome(test, [&] {
    arena = tenon::Arena::make(options);
    if (test.find("reserve")) arena.reserve(static_cast<std::uint64_t>(test.number("reserve")));
    tenon::StorageOptions in{.arena = &arena};
    if (test.find("timeout_ms"))
      in.wait.timeout = std::chrono::milliseconds(test.number("timeout_ms"));
    const std::vector<std::int64_t> sizes = test.numbers("storages").value();
    for (const std::int64_t nbytes : sizes) {
      kept.push_back(tenon::Storage::make(static_cast<std::uint64_t>(nbytes), in));
    }
  });
  const std::string prefix = "expect.stats.";
  for (const auto& [key, value] : test.lines()) {
    if (key.starts_with(prefix))
      same<std::int64_t>(key, figure(arena.stats(), key.substr(prefix.size())), std::stoll(value));
  }
}

void run_lease(const Case& test) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!tenon::lease_holders().empty() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(1ms);
  const auto capacity = static_cast<std::uint64_t>(test.number("capacity_nbytes"));
  const tenon::Arena arena = tenon::Arena::make({.capacity_nbytes = capacity});
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) throw Wrong("no sockets");
  tenon::Connection first = tenon::Connection::make(ends[0], {.adopt_socket = true});
  tenon::Connection second = tenon::Connection::make(ends[1], {.adopt_socket = true});
  tenon::Message message = tenon::Message::make();
  const std::vector<std::int64_t> sizes = test.numbers("lend").value();
  for (const std::int64_t nbytes : sizes) {
    message.add(tenon::empty<std::uint8_t>({nbytes}, {.arena = &arena}));
  }
  const std::int64_t messages = test.number("messages");
  for (std::int64_t i = 0; i < messages; ++i) first.send(message, {.timeout = kPatience});
  message.close();
  same<std::int64_t>("blocks_live", figure(arena.stats(), "blocks_live"), 0);
  for (const std::string key : {"blocks_lent", "bytes_lent"})
    same(key, figure(arena.stats(), key), test.number("expect." + key));
  const std::vector<tenon::LeaseHolder> holders = tenon::lease_holders();
  same<std::int64_t>("holders", static_cast<std::int64_t>(holders.size()), 1);
  const tenon::LeaseHolder& holder = holders[0];
  same<std::int64_t>("uid", holder.uid, getuid());
  for (const std::uint64_t leases : {holder.leases, holder.granted}) {
    same<std::int64_t>("leases", static_cast<std::int64_t>(leases), test.number("expect.leases"));
  }
  for (const std::uint64_t nbytes : {holder.nbytes, holder.granted_bytes}) {
    same<std::int64_t>("nbytes", static_cast<std::int64_t>(nbytes), test.number("expect.nbytes"));
  }
  if (holder.age_ns == 0) throw Wrong("no age");
  const std::string end = test.text("end");
  if (end == "receive") {
    for (std::int64_t i = 0; i < messages; ++i) (void)second.recv({.timeout = kPatience});
  } else if (end == "close") {
    second.close();
  } else {
    throw Wrong("unknown end " + end);
  }
  const tenon::Storage whole =
      tenon::Storage::make(capacity, {.arena = &arena, .wait = {.timeout = kPatience}});
  same<std::int64_t>("blocks_lent", figure(arena.stats(), "blocks_lent"), 0);
}
