// Reads the queues (docs/format/queue.md) of other processes for `ls` and `top`. The board of a
// process says in which queues the process is a member. The queue's own memory says who the other
// members are, and which messages wait. Each member has a lane: the slots for the messages that it
// sends.
//
// The memory of a queue is found in /proc/PID/fd of a member. It is copied and never written. Its
// content is not trusted: the worst that a bad queue can do is to show wrong figures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "boards.h"
#include "output.h"

namespace tenon::cli {

// kStopped: a signal or a debugger has stopped the member's process. kDead: the process has ended
// without leaving the queue.
enum class SeenState : uint8_t { kJoining, kHere, kStopped, kLeft, kDead };

// A member of a queue. It points into the Boards, which must outlive it.
struct SeenMember {
  uint32_t index = 0;       // of its entry in the queue
  uint32_t generation = 0;  // of the member in that entry
  SeenState state = SeenState::kHere;
  uint32_t said_pid = 0;  // as the member itself sees it; 0: the queue's memory was not read
  pid_t pid = 0;          // as this process sees it; 0: not known
  uint32_t uid = 0;
  std::string command;  // "" if it is unknown
  // The messages in its lane that nobody has received. No value: the lane was not read, because the
  // queue's memory cannot be read, or its lanes are too large to read them all.
  std::optional<uint64_t> waiting;
  bool waits_for_message = false;  // it sleeps until there is a message
  bool waits_for_room = false;     // it sleeps until its lane has room
  const Board* board = nullptr;    // null: its board cannot be read, and `row` is null too
  const memory::QueueOnBoard* row = nullptr;
};

struct SeenQueue {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t offset = 0;
  // Without the queue's memory only the members that have a board are known.
  bool has_memory = false;
  uint32_t most_members = 0;
  uint32_t capacity = 0;  // of each lane
  uint32_t slot_nbytes = 0;
  uint64_t died = 0;  // members that died, also those whose death no member has noticed yet
  std::optional<uint64_t> waiting;  // the sum over all members; no value if one has none
  std::vector<SeenMember> members;
};

// Gives the queues that the boards name. If the memory of a queue is malformed, `boards->refused`
// gets a line, and the queue is shown without its memory.
std::vector<SeenQueue> read_queues(Boards* boards);

// Whether all slots of the member's lane hold messages that nobody has received.
bool is_full(const SeenQueue& queue, const SeenMember& member) noexcept;
// For how long a send of the member has waited for room. No value: none waits, or it is not known.
std::optional<int64_t> full_ns(const Boards& boards, const SeenQueue& queue,
                               const SeenMember& member) noexcept;
const char* state_text(SeenState state) noexcept;
Colour state_colour(SeenState state) noexcept;
std::string queue_text(const SeenQueue& queue);     // its inode, or inode+offset: "4711+64"
std::string member_text(const SeenMember& member);  // its pid
std::string waiting_text(const SeenQueue& queue, const SeenMember& member);  // "3/128"
std::string full_text(const Boards& boards, const SeenQueue& queue, const SeenMember& member);
size_t count_members(const SeenQueue& queue) noexcept;  // those that have not left or died

Table queues_table(const std::vector<SeenQueue>& queues);
Table queue_members_table(const Boards& boards, const std::vector<SeenQueue>& queues);
Json queues_json(const Boards& boards, const std::vector<SeenQueue>& queues);

}  // namespace tenon::cli
