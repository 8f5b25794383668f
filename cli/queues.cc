#include "queues.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "os/clock.h"
#include "os/host.h"
#include "os/memfd.h"
#include "os/small_file.h"
#include "queue/page.h"
#include "queue/process_watch.h"

namespace tenon::cli {
namespace {

using memory::QueueOnBoard;
using queue::page::Geometry;
using queue::page::MemberState;
using queue::page::MemberWord;
using queue::page::SlotState;

// The most bytes of one queue's lanes that are read. A queue of the default size has 4 MiB. Of a
// larger queue only the first lanes are read.
constexpr uint64_t kMostLaneNbytes = uint64_t{256} << 20;
// The most memfds of one process that are compared with the queues that its board names.
constexpr size_t kMostMemfds = 65536;

struct CloseFds {
  void operator()(DIR* folder) const noexcept { closedir(folder); }
};

template <typename Number>
Number number_in(std::span<const std::byte> bytes, size_t offset) noexcept {
  Number value{};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

bool is_same_file(const SeenQueue& queue, const QueueOnBoard& row) noexcept {
  return queue.device == row.device && queue.inode == row.inode && queue.offset == row.offset;
}

SeenQueue* find_queue(std::vector<SeenQueue>* queues, const QueueOnBoard& row) {
  const auto found = std::find_if(queues->begin(), queues->end(),
                                  [&](const SeenQueue& each) { return is_same_file(each, row); });
  return found == queues->end() ? nullptr : &*found;
}

bool is_stopped(pid_t pid) {
  const std::string text = os::read_small_file(format("/proc/%d/stat", pid));
  // The second field is the name in parentheses, which may contain blanks and parentheses.
  const size_t at = text.rfind(')');
  return at != std::string::npos && at + 2 < text.size() &&
         (text[at + 2] == 'T' || text[at + 2] == 't');
}

// Reads the messages of a lane that nobody has received.
Result<uint64_t> count_waiting(int fd, uint64_t offset, const Geometry& geometry) {
  constexpr uint64_t kPieceNbytes = uint64_t{1} << 20;
  const uint64_t slots_of_piece = std::max<uint64_t>(1, kPieceNbytes / geometry.slot_nbytes);
  std::vector<std::byte> piece;
  uint64_t waiting = 0;
  for (uint64_t first = 0; first < geometry.capacity; first += slots_of_piece) {
    const uint64_t slots = std::min<uint64_t>(slots_of_piece, geometry.capacity - first);
    piece.resize(slots * geometry.slot_nbytes);
    TENON_TRY(os::read_file(fd,
                            offset + queue::page::kLaneHeaderNbytes + first * geometry.slot_nbytes,
                            piece.data(), piece.size()));
    for (uint64_t i = 0; i < slots; ++i) {
      const auto word = number_in<uint64_t>(piece, i * geometry.slot_nbytes);
      if (queue::page::slot_of(word).state == SlotState::kFull) ++waiting;
    }
  }
  return waiting;
}

SeenState state_of(MemberState state) noexcept {
  switch (state) {
    case MemberState::kJoining: return SeenState::kJoining;
    case MemberState::kLeft: return SeenState::kLeft;
    case MemberState::kDead: return SeenState::kDead;
    default: return SeenState::kHere;
  }
}

// Adds what /proc says about the member's process, if the entry's pid is one that this process
// sees.
void look_at_process(SeenMember* member, uint64_t pid_namespace, uint64_t started) {
  if (member->state == SeenState::kLeft || member->state == SeenState::kDead) return;
  const uint64_t ours = os::host_identity().pid_namespace;
  if (ours == 0 || pid_namespace != ours || member->said_pid > uint32_t{INT32_MAX}) return;
  if (queue::process_has_ended(member->said_pid, started)) {
    member->state = SeenState::kDead;  // no member has noticed it yet
    return;
  }
  member->pid = static_cast<pid_t>(member->said_pid);
  if (std::optional<os::ProcessFacts> facts = os::process_facts(member->pid)) {
    member->uid = facts->uid;
    member->command = std::move(facts->command);
  }
}

// Reads the memory of a queue from `fd`.
Status read_memory(int fd, SeenQueue* queue) {
  using namespace queue::page;
  TENON_ASSIGN(const os::FileInfo file, os::inspect_file(fd));
  if ((file.seals & os::kSealShrink) == 0)
    return Status(Code::kCorrupt, "no queue: its size is not sealed");
  std::array<std::byte, sizeof(Header)> head;
  if (queue->offset > file.nbytes || file.nbytes - queue->offset < head.size())
    return Status(Code::kCorrupt, "no queue: it is shorter than its header");
  TENON_TRY(os::read_file(fd, queue->offset, head.data(), head.size()));
  TENON_ASSIGN(const Geometry geometry, read_header(head, file.nbytes - queue->offset));
  std::vector<std::byte> entries(geometry.members * sizeof(Member));
  TENON_TRY(os::read_file(fd, queue->offset + kHeaderNbytes, entries.data(), entries.size()));
  queue->has_memory = true;
  queue->most_members = geometry.members;
  queue->capacity = geometry.capacity;
  queue->slot_nbytes = geometry.slot_nbytes;
  queue->died = number_in<uint64_t>(head, offsetof(Header, died));
  queue->waiting = 0;
  uint64_t left_nbytes = kMostLaneNbytes;
  for (uint32_t index = 0; index < geometry.members; ++index) {
    const std::span<const std::byte> entry =
        std::span(entries).subspan(index * sizeof(Member), sizeof(Member));
    const MemberWord word = member_of(number_in<uint64_t>(entry, offsetof(Member, word)));
    if (word.state == MemberState::kFree || word.state > MemberState::kDead) continue;
    SeenMember member;
    member.index = index;
    member.generation = word.generation;
    member.state = state_of(word.state);
    member.said_pid = word.pid;
    member.uid = static_cast<uint32_t>(number_in<uint64_t>(entry, offsetof(Member, user)));
    const auto is_asleep = [&](size_t words) {
      return (number_in<uint32_t>(entry, words + offsetof(SleepWords, asleep)) & 1) != 0;
    };
    look_at_process(&member, number_in<uint64_t>(entry, offsetof(Member, pid_namespace)),
                    number_in<uint64_t>(entry, offsetof(Member, started)));
    if (member.state == SeenState::kDead && word.state != MemberState::kDead) ++queue->died;
    if (member.state == SeenState::kHere) {
      member.waits_for_message = is_asleep(offsetof(Member, receive));
      member.waits_for_room = is_asleep(offsetof(Member, send));
    }
    const auto lanes = number_in<uint64_t>(head, offsetof(Header, lanes) + index / 64 * 8);
    if ((lanes >> (index % 64) & 1) == 0) {
      member.waiting = 0;
    } else if (geometry.lane_nbytes() <= left_nbytes) {
      left_nbytes -= geometry.lane_nbytes();
      TENON_ASSIGN(member.waiting,
                   count_waiting(
                       fd, queue->offset + geometry.lanes_offset() + index * geometry.lane_nbytes(),
                       geometry));
    }
    if (queue->waiting && member.waiting) {
      *queue->waiting += *member.waiting;
    } else {
      queue->waiting.reset();
    }
    queue->members.push_back(std::move(member));
  }
  return Status::ok();
}

// Reads the memory of the queues of one board that are not read yet.
void read_memories(Boards* boards, const Board& board, std::vector<SeenQueue>* queues) {
  std::vector<SeenQueue*> wanted;
  for (const QueueOnBoard& row : board.image.queues) {
    SeenQueue* const queue = find_queue(queues, row);
    if (!queue->has_memory && queue->device == memfd_device()) wanted.push_back(queue);
  }
  if (wanted.empty()) return;
  const pid_t pid = board.process.pid;
  const std::unique_ptr<DIR, CloseFds> folder(opendir(format("/proc/%d/fd", pid).c_str()));
  if (folder == nullptr) return;
  const int fds = dirfd(folder.get());
  size_t looked_at = 0;
  while (const dirent* entry = readdir(folder.get())) {
    char target[PATH_MAX];
    const ssize_t length = readlinkat(fds, entry->d_name, target, sizeof target);
    if (length <= 0 ||
        !std::string_view(target, static_cast<size_t>(length)).starts_with("/memfd:"))
      continue;
    if (++looked_at > kMostMemfds) return;
    for (SeenQueue* const queue : wanted) {
      if (queue->has_memory) continue;
      Result<os::Fd> fd = open_memfd_of(fds, entry->d_name, queue->inode);
      if (fd.is_ok() && !fd.value().is_open()) continue;
      Status read = fd.is_ok() ? read_memory(fd.value().get(), queue) : std::move(fd).status();
      if (read.is_ok()) continue;
      boards->refused.push_back(format("fd %s of process %d, the queue %s: %s", entry->d_name, pid,
                                       queue_text(*queue).c_str(), read.message().c_str()));
      // Half of the queue may have been read.
      *queue = {queue->device, queue->inode, queue->offset, false, 0, 0, 0, 0, {}, {}};
    }
  }
}

// Adds what the board says about a member to the entry of the queue, or a member that only the
// board knows.
void add_row(const Board& board, const QueueOnBoard& row, SeenQueue* queue) {
  auto found =
      std::find_if(queue->members.begin(), queue->members.end(), [&](const SeenMember& each) {
        return each.index == row.index && each.generation == row.generation &&
               each.said_pid == board.image.pid && each.row == nullptr;
      });
  if (found == queue->members.end()) {
    // The entry of a member that has left may have got another one.
    if (queue->has_memory) return;
    SeenMember member;
    member.index = row.index;
    member.generation = row.generation;
    found = queue->members.insert(found, member);
  }
  found->board = &board;
  found->row = &row;
  found->pid = board.process.pid;
  found->uid = board.process.uid;
  found->command = board.process.command;
}

}  // namespace

std::vector<SeenQueue> read_queues(Boards* boards) {
  std::vector<SeenQueue> queues;
  for (const Board& board : boards->all) {
    for (const QueueOnBoard& row : board.image.queues) {
      if (find_queue(&queues, row) != nullptr) continue;
      SeenQueue queue;
      queue.device = row.device;
      queue.inode = row.inode;
      queue.offset = row.offset;
      queues.push_back(std::move(queue));
    }
  }
  for (const Board& board : boards->all) read_memories(boards, board, &queues);
  for (const Board& board : boards->all) {
    for (const QueueOnBoard& row : board.image.queues)
      add_row(board, row, find_queue(&queues, row));
  }
  for (SeenQueue& queue : queues) {
    for (SeenMember& member : queue.members) {
      if (member.state == SeenState::kHere && member.pid != 0 && is_stopped(member.pid))
        member.state = SeenState::kStopped;
    }
  }
  return queues;
}

bool is_full(const SeenQueue& queue, const SeenMember& member) noexcept {
  return queue.has_memory && member.waiting && *member.waiting >= queue.capacity;
}

std::optional<int64_t> full_ns(const Boards& boards, const SeenQueue& queue,
                               const SeenMember& member) noexcept {
  // The board and the queue were not read at one moment.
  if (member.row == nullptr || member.row->full_since_ns <= 0 ||
      (member.waiting && !is_full(queue, member)))
    return std::nullopt;
  return std::max<int64_t>(0, boards.read_ns - member.row->full_since_ns);
}

size_t count_members(const SeenQueue& queue) noexcept {
  return static_cast<size_t>(
      std::count_if(queue.members.begin(), queue.members.end(), [](const SeenMember& each) {
        return each.state != SeenState::kLeft && each.state != SeenState::kDead;
      }));
}

}  // namespace tenon::cli
