// Two containers that share one directory lend to each other, by name and by fd, in both
// directions.
#include <array>

#include "process/namespaces/talk.h"

namespace sides {
namespace {

using fault::Outcome;

// The namespaces and devices of one side. Only the directory may be the same on both sides.
struct Surroundings {
  std::array<std::array<char, 64>, 4> spaces{};
  uint64_t shm_device = 0;
  uint64_t meeting_device = 0;
  uint64_t meeting_inode = 0;
  int pid = 0;
};
constexpr const char* kSpaces[] = {"/proc/self/ns/mnt", "/proc/self/ns/pid", "/proc/self/ns/ipc",
                                   "/proc/self/ns/net"};

Surroundings look_around(const std::string& place) {
  Surroundings here;
  for (size_t i = 0; i < here.spaces.size(); ++i)
    CHECK(readlink(kSpaces[i], here.spaces[i].data(), here.spaces[i].size() - 1) > 0);
  struct stat info{};
  CHECK(stat("/dev/shm", &info) == 0);
  here.shm_device = info.st_dev;
  CHECK(stat(place.c_str(), &info) == 0);
  here.meeting_device = info.st_dev;
  here.meeting_inode = info.st_ino;
  here.pid = getpid();
  return here;
}

void compare(const Surroundings& here, const Surroundings& there) {
  for (size_t i = 0; i < 3; ++i) CHECK_SAYING(here.spaces[i] != there.spaces[i], kSpaces[i]);
  if (here.spaces[3] == there.spaces[3]) std::printf("  both have one network namespace\n");
  CHECK(here.shm_device != there.shm_device);
  CHECK(here.meeting_device == there.meeting_device && here.meeting_inode == there.meeting_inode);
  CHECK_EQ(here.pid, 1);
  CHECK(names_in("/dev/shm").empty());
}

// Each side lends and borrows at the same moment.
void lend_and_borrow(const Line& line, int end, const std::string& place,
                     const std::string& there) {
  const auto seed = static_cast<uint64_t>(end);
  const uint64_t other = 1 - seed;
  for (const Way way : kWays) {
    const tenon_filename_options options = name_options(place);
    const Lent lent = lend(way, options, seed);
    line.give(end, lent.handle);
    auto handle = line.take<tenon_filename_handle>(end);
    // A name is a path as its lender sees the directory.
    const std::string leaf = std::string(handle.name).substr(there.size());
    CHECK_SAYING(std::string(handle.name).starts_with(there + "/"), handle.name);
    std::snprintf(handle.name, sizeof handle.name, "%s%s", place.c_str(), leaf.c_str());
    tenon_storage* borrowed = borrow(handle);
    CHECK_SAYING(has(borrowed, other), text(way));
    CHECK_EQ(tenon_storage_is_read_only(borrowed), !borrower_writes(way));
    line.signal(end);
    line.await(end);
    if (borrower_writes(way)) {
      overwrite(borrowed, other + 10);
    } else {
      void* data = nullptr;
      CHECK_STATUS(TENON_PERMISSION, tenon_storage_data_mut(borrowed, &data, err));
    }
    line.signal(end);
    line.await(end);
    CHECK_SAYING(has(lent.storage, borrower_writes(way) ? seed + 10 : seed), text(way));
    // Both sides sweep while all processes live. Each sweep must see two live names and remove
    // nothing.
    const tenon_sweep_result seen = sweep_names(place);
    CHECK_SAYING(seen.live == 2 && seen.dead == 0 && seen.unsure == 0 && seen.in_flight == 0,
                 std::string(text(way)) + ": live " + std::to_string(seen.live) + ", dead " +
                     std::to_string(seen.dead));
    line.signal(end);
    line.await(end);
    tenon_storage_release(borrowed);
    tenon_storage_release(lent.storage);
    line.signal(end);
    line.await(end);
    tenon_storage_trim();
    CHECK_SAYING(wait_until([&] { return names_in(place).empty(); }, kSoon),
                 std::string(text(way)) + ": a name is left");
    line.signal(end);
    line.await(end);
  }
}

void meet_in_containers(const std::string& one, const std::string& two) {
  IN_CHILD([&] {
    const Meeting meeting;
    Line line;
    const auto run = [&](int end) {
      return [&, end](const std::string& place) {
        line.give(end, look_around(place));
        compare(look_around(place), line.take<Surroundings>(end));
        lend_and_borrow(line, end, place, end == 0 ? two : one);
      };
    };
    Who first;
    Who second;
    first.place = one;
    second.place = two;
    Side left(meeting, first, run(0));
    Side right(meeting, second, run(1));
    CHECK_EQ(left.finish(), 0);
    CHECK_EQ(right.finish(), 0);
    CHECK(meeting.names().empty());
  });
}

TEST(Containers, LendByName) { meet_in_containers(kMeeting, kMeeting); }

TEST(Containers, LendByNameFromDirectoriesOfDifferentNames) {
  meet_in_containers("/tmp/here", "/tmp/there");
}

constexpr tenon_mode kModes[] = {TENON_MODE_SHARED, TENON_MODE_LENDER_WRITES, TENON_MODE_FROZEN};

void send_each_mode(tenon_connection* connection, uint64_t seed) {
  for (const tenon_mode mode : kModes) {
    tenon_message* message = fault::new_message({fault::new_storage(kNbytes, seed + mode, mode)});
    REQUIRE_OK(tenon_send(connection, message, nullptr, err));
    tenon_message_release(message);
  }
}

void receive_each_mode(tenon_connection* connection, uint64_t seed) {
  for (const tenon_mode mode : kModes) {
    const tenon_wait wait = fault::wait_ns(20'000'000'000);
    tenon_message* message = nullptr;
    REQUIRE_OK(tenon_recv(connection, &wait, &message, err));
    CHECK(fault::has_pattern(tenon_tensor_data(tenon_message_tensor(message, 0)), kNbytes,
                             seed + mode));
    tenon_message_release(message);
  }
}

// A connection needs only a socket in the directory. fds cross it, whatever the namespaces are.
TEST(Containers, LendByFd) {
  for (const int type : fault::kSocketTypes) {
    IN_CHILD([type] {
      const Meeting meeting;
      Line line;
      Side server(meeting, {}, [&](const std::string& place) {
        const Door door(place, type);
        line.signal(0);
        tenon_connection* connection = fault::new_connection(door.let_in());
        send_each_mode(connection, 1);
        receive_each_mode(connection, 100);
        tenon_connection_release(connection);
      });
      Side client(meeting, {}, [&](const std::string& place) {
        line.await(1);
        tenon_connection* connection = fault::new_connection(enter(place, type));
        receive_each_mode(connection, 1);
        send_each_mode(connection, 100);
        // The server releases the connection when it has the whole message.
        tenon_message* message = nullptr;
        CHECK_STATUS(TENON_PEER_GONE, tenon_recv(connection, nullptr, &message, err));
        tenon_connection_release(connection);
      });
      CHECK_EQ(server.finish(), 0);
      CHECK_EQ(client.finish(), 0);
      CHECK(meeting.names().empty());
    });
  }
}

// A name outside of the directory does not reach the other side, and the error says so.
TEST(Containers, ANameInDevShmStaysThere) {
  IN_CHILD([] {
    const Meeting meeting;
    Line line;
    Side lender(meeting, {}, [&](const std::string&) {
      for (const Way way : {Way::kFile, Way::kShared}) {
        const Lent lent = lend(way, name_options("/dev/shm"), 1);
        line.give(0, lent.handle);
        line.await(0);
        tenon_storage_release(lent.storage);
      }
    });
    Side borrower(meeting, {}, [&](const std::string&) {
      for (int i = 0; i < 2; ++i) {
        const auto handle = line.take<tenon_filename_handle>(1);
        tenon_storage* storage = nullptr;
        const Outcome outcome = open_named(handle, TENON_OPEN_ALLOW_UNSEALED, &storage);
        CHECK_SAYING(outcome.status == TENON_NOT_FOUND, outcome.text());
        CHECK_SAYING(outcome.detail("path") == "/dev/shm" + std::string(handle.name),
                     outcome.text());
        CHECK_SAYING(outcome.message.find("/dev/shm") != std::string::npos, outcome.text());
        line.signal(1);
      }
    });
    CHECK_EQ(lender.finish(), 0);
    CHECK_EQ(borrower.finish(), 0);
  });
}

}  // namespace
}  // namespace sides
