// Shows queues for `ls` and `top`, in text and JSON.
#include <utility>

#include "figures.h"
#include "queues.h"

namespace tenon::cli {
namespace {

Json maybe_count(const std::optional<uint64_t>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::string maybe_text(const std::optional<uint64_t>& value) {
  return value ? count_text(*value) : "?";
}

const char* awaited_text(const SeenMember& member) noexcept {
  if (member.waits_for_room) return "room";
  return member.waits_for_message ? "a message" : "-";
}

Json member_json(const Boards& boards, const SeenQueue& queue, const SeenMember& member) {
  const std::optional<int64_t> full = full_ns(boards, queue, member);
  const auto figure = [&](uint64_t memory::QueueOnBoard::* which) {
    return member.row == nullptr ? Json(nullptr) : Json(member.row->*which);
  };
  return {{"member", member.index},
          {"pid", member.pid != 0 ? Json(member.pid) : Json(nullptr)},
          {"own_pid", member.said_pid != 0 ? Json(member.said_pid) : Json(nullptr)},
          {"uid", member.uid},
          {"command", member.command.empty() ? Json(nullptr) : Json(member.command)},
          {"state", state_text(member.state)},
          {"asleep", member.waits_for_message || member.waits_for_room},
          {"waits_for", member.waits_for_room      ? Json("room")
                        : member.waits_for_message ? Json("message")
                                                   : Json(nullptr)},
          {"waiting", maybe_count(member.waiting)},
          {"full", is_full(queue, member)},
          {"full_seconds", full ? Json(static_cast<double>(*full) / 1e9) : Json(nullptr)},
          {"sent", figure(&memory::QueueOnBoard::sent)},
          {"sent_nbytes", figure(&memory::QueueOnBoard::sent_nbytes)},
          {"received", figure(&memory::QueueOnBoard::received)},
          {"received_nbytes", figure(&memory::QueueOnBoard::received_nbytes)},
          {"lost", figure(&memory::QueueOnBoard::lost)}};
}

}  // namespace

const char* state_text(SeenState state) noexcept {
  switch (state) {
    case SeenState::kJoining: return "joining";
    case SeenState::kHere: return "here";
    case SeenState::kStopped: return "stopped";
    case SeenState::kLeft: return "left";
    case SeenState::kDead: return "dead";
  }
  return "?";
}

Colour state_colour(SeenState state) noexcept {
  switch (state) {
    case SeenState::kJoining: return Colour::kBlue;
    case SeenState::kHere: return Colour::kGreen;
    case SeenState::kStopped: return Colour::kYellow;
    case SeenState::kDead: return Colour::kRed;
    default: return Colour::kNone;
  }
}

std::string queue_text(const SeenQueue& queue) {
  std::string text = std::to_string(queue.inode);
  if (queue.offset != 0) text += "+" + std::to_string(queue.offset);
  return text;
}

std::string member_text(const SeenMember& member) {
  if (member.pid != 0) return std::to_string(member.pid);
  return member.said_pid != 0 ? std::to_string(member.said_pid) : "?";
}

std::string waiting_text(const SeenQueue& queue, const SeenMember& member) {
  return maybe_text(member.waiting) +
         (queue.has_memory ? "/" + count_text(queue.capacity) : std::string());
}

std::string full_text(const Boards& boards, const SeenQueue& queue, const SeenMember& member) {
  if (const std::optional<int64_t> full = full_ns(boards, queue, member)) return age_text(*full);
  return is_full(queue, member) ? "?" : "-";
}

Table queues_table(const std::vector<SeenQueue>& queues) {
  Table table({{"QUEUE", true},
               {"MEMBERS", true},
               {"WAITING", true},
               {"CAPACITY", true},
               {"FULL", true},
               {"STOPPED", true},
               {"DIED", true}});
  for (const SeenQueue& queue : queues) {
    uint64_t full = 0;
    uint64_t stopped = 0;
    for (const SeenMember& member : queue.members) {
      if (is_full(queue, member)) ++full;
      if (member.state == SeenState::kStopped) ++stopped;
    }
    const bool known = queue.has_memory;
    table.add({{queue_text(queue)},
               {count_text(count_members(queue)) +
                (known ? "/" + count_text(queue.most_members) : std::string())},
               {maybe_text(queue.waiting)},
               {known ? count_text(queue.capacity) : "?"},
               {count_text(full), full != 0 ? Colour::kYellow : Colour::kNone},
               {count_text(stopped), stopped != 0 ? Colour::kYellow : Colour::kNone},
               {known ? count_text(queue.died) : "?",
                known && queue.died != 0 ? Colour::kRed : Colour::kNone}});
  }
  return table;
}

Table queue_members_table(const Boards& boards, const std::vector<SeenQueue>& queues) {
  Table table({{"QUEUE", true},
               {"PID", true},
               {"USER", true},
               {"STATE"},
               {"SLEEPS FOR"},
               {"WAITING", true},
               {"FULL FOR", true},
               {"SENT", true},
               {"RECEIVED", true},
               {"LOST", true},
               {"COMMAND"}});
  for (const SeenQueue& queue : queues) {
    for (const SeenMember& member : queue.members) {
      const auto figure = [&](uint64_t memory::QueueOnBoard::* which) {
        return member.row == nullptr ? std::string("?") : count_text(member.row->*which);
      };
      const bool slow = is_full(queue, member);
      table.add({{queue_text(queue)},
                 {member_text(member)},
                 {std::to_string(member.uid)},
                 {state_text(member.state), state_colour(member.state)},
                 {awaited_text(member)},
                 {waiting_text(queue, member), slow ? Colour::kYellow : Colour::kNone},
                 {full_text(boards, queue, member), slow ? Colour::kYellow : Colour::kNone},
                 {figure(&memory::QueueOnBoard::sent)},
                 {figure(&memory::QueueOnBoard::received)},
                 {figure(&memory::QueueOnBoard::lost)},
                 {member.command.empty() ? "-" : command_text(member.command)}});
    }
  }
  return table;
}

Json queues_json(const Boards& boards, const std::vector<SeenQueue>& queues) {
  Json list = Json::array();
  for (const SeenQueue& queue : queues) {
    Json members = Json::array();
    for (const SeenMember& member : queue.members)
      members.push_back(member_json(boards, queue, member));
    const auto maybe = [&](uint64_t value) {
      return queue.has_memory ? Json(value) : Json(nullptr);
    };
    list.push_back({{"device", queue.device},
                    {"inode", queue.inode},
                    {"offset", queue.offset},
                    {"most_members", maybe(queue.most_members)},
                    {"capacity", maybe(queue.capacity)},
                    {"slot_nbytes", maybe(queue.slot_nbytes)},
                    {"waiting", maybe_count(queue.waiting)},
                    {"died", maybe(queue.died)},
                    {"members", std::move(members)}});
  }
  return list;
}

}  // namespace tenon::cli
