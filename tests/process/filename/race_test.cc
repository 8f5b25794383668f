// However many processes check for dead names at once, no living name is ever removed, and no dead
// one stays.
#include <poll.h>

#include "process/filename/kit.h"

namespace names {
namespace {

constexpr int kPairs = 2;
constexpr int kNames = kSanitized ? 250 : 1000;  // for each pair

bool put_bytes(int to, const void* data, size_t nbytes) {
  return write(to, data, nbytes) == static_cast<ssize_t>(nbytes);
}
bool take(int from, void* data, size_t nbytes) {
  return recv(from, data, nbytes, MSG_WAITALL) == static_cast<ssize_t>(nbytes);
}

// Makes names and lends them. It releases each name at a different moment: before, while and after
// the other side opens it.
void make_names(int socket, const std::string& folder) {
  for (int i = 0; i < kNames; ++i) {
    const bool in_flight = i % 4 == 0;
    tenon_storage* storage = create({.directory = folder}, 200);
    put_pattern(storage, static_cast<uint64_t>(i));
    const tenon_filename_handle handle =
        share(storage, {.flags = in_flight ? uint32_t{TENON_FILENAME_IN_FLIGHT} : 0U});
    CHECK(exists(path_of(handle)));
    if (in_flight) tenon_storage_release(storage);
    REQUIRE(put_bytes(socket, &handle, sizeof handle));
    char opened = 0;
    REQUIRE(take(socket, &opened, 1));
    if (!in_flight) tenon_storage_release(storage);
    REQUIRE(put_bytes(socket, i % 3 == 0 ? "r" : "k", 1));
  }
}

void open_names(int socket) {
  tenon_storage* kept = nullptr;
  std::string kept_path;
  for (int i = 0; i < kNames; ++i) {
    tenon_filename_handle handle = blank_handle();
    REQUIRE(take(socket, &handle, sizeof handle));
    tenon_storage* storage = open_name(
        handle, TENON_OPEN_ALLOW_UNSEALED | (i % 4 == 0 ? uint32_t{TENON_OPEN_DECREF} : 0U));
    CHECK(shows_pattern(storage, static_cast<uint64_t>(i)));
    REQUIRE(put_bytes(socket, "o", 1));
    char word = 0;
    REQUIRE(take(socket, &word, 1));
    // The maker has released the name, so this process is its only holder.
    CHECK_SAYING(exists(path_of(handle)), path_of(handle));
    CHECK(shows_pattern(storage, static_cast<uint64_t>(i)));
    if (word == 'k') {  // hold it over some more rounds
      if (kept != nullptr) CHECK(exists(kept_path));
      tenon_storage_release(kept);
      kept = storage;
      kept_path = path_of(handle);
    } else {
      tenon_storage_release(storage);
    }
  }
  if (kept != nullptr) CHECK(exists(kept_path));
  tenon_storage_release(kept);
}

TEST(Race, SweepsBesideMakersAndOpeners) {
  IN_FOLDER([](const Folder& folder) {
    int stop[2];
    REQUIRE(pipe2(stop, O_CLOEXEC) == 0);
    std::vector<pid_t> sweepers;
    for (int i = 0; i < 2; ++i) {
      sweepers.push_back(fault::spawn([&] {
        close(stop[1]);
        uint64_t rounds = 0;
        pollfd over{stop[0], POLLIN, 0};
        while (poll(&over, 1, 0) == 0) {
          (void)sweep(folder.path());
          ++rounds;
        }
        std::printf("%llu sweeps\n", static_cast<unsigned long long>(rounds));
        CHECK(rounds > 10);
      }));
    }
    std::vector<pid_t> workers;
    for (int i = 0; i < kPairs; ++i) {
      int ends[2];
      REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
      workers.push_back(fault::spawn([&] {
        close(ends[0]);
        make_names(ends[1], folder.path());
      }));
      workers.push_back(fault::spawn([&] {
        close(ends[1]);
        open_names(ends[0]);
      }));
      close(ends[0]);
      close(ends[1]);
    }
    for (const pid_t worker : workers) {
      const int how = fault::wait_for_child(worker);
      CHECK_SAYING(how == 0, fault::describe_status(how));
    }
    // No name is left, although this test does not sweep and the sweepers still run.
    CHECK_SAYING(folder.becomes_empty(),
                 std::to_string(folder.leaves().size()) + " names are left");
    close(stop[1]);
    for (const pid_t sweeper : sweepers) {
      const int how = fault::wait_for_child(sweeper);
      CHECK_SAYING(how == 0, fault::describe_status(how));
    }
  });
}

// Two processes release the same name at the same moment. One of them must notice that it was the
// last.
TEST(Race, TheLastTwoLetGoAtOnce) {
  IN_FOLDER([](const Folder& folder) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    const pid_t other = fault::spawn([&] {
      close(ends[0]);
      tenon_filename_handle handle = blank_handle();
      while (take(ends[1], &handle, sizeof handle)) {
        tenon_storage* storage = open_name(handle);
        REQUIRE(put_bytes(ends[1], "o", 1));
        char now = 0;
        REQUIRE(take(ends[1], &now, 1));
        tenon_storage_release(storage);
        REQUIRE(put_bytes(ends[1], "d", 1));
      }
    });
    close(ends[1]);
    for (int i = 0; i < (kSanitized ? 100 : 500); ++i) {
      tenon_storage* storage = create({.directory = folder.path()}, 100);
      const tenon_filename_handle handle = share(storage);
      REQUIRE(put_bytes(ends[0], &handle, sizeof handle));
      char word = 0;
      REQUIRE(take(ends[0], &word, 1));
      REQUIRE(put_bytes(ends[0], "n", 1));
      tenon_storage_release(storage);
      REQUIRE(take(ends[0], &word, 1));
      CHECK(is_gone(path_of(handle)));
    }
    close(ends[0]);
    const int how = fault::wait_for_child(other);
    CHECK_SAYING(how == 0, fault::describe_status(how));
  });
}

// Several processes make one chosen name. Each round has one winner, and a name never holds another
// maker's bytes.
TEST(Race, OneChosenName) {
  IN_FOLDER([](const Folder& folder) {
    std::vector<pid_t> makers;
    for (uint64_t id = 1; id <= 3; ++id) {
      makers.push_back(fault::spawn([&folder, id] {
        const Naming naming{.directory = folder.path(), .name = "one"};
        const tenon_filename_options options = naming.options();
        int won = 0;
        const int64_t end = now_ns() + 1'500'000'000;
        // A maker that gets no CPU time on a busy machine goes on until it has made one.
        while (now_ns() < end || won == 0) {
          tenon_storage* storage = nullptr;
          const Outcome made = CALL(tenon_storage_new_filename(&options, 100 + id, &storage, err));
          if (!made.ok()) {
            CHECK_SAYING(made.status == TENON_PERMISSION || made.status == TENON_NOT_FOUND,
                         made.text());
            continue;
          }
          ++won;
          put_pattern(storage, id);
          tenon_storage* opened = open_name(share(storage));
          CHECK(opened == storage && shows_pattern(opened, id));
          tenon_storage_release(opened);
          tenon_storage_release(storage);
        }
      }));
    }
    for (const pid_t maker : makers) {
      const int how = fault::wait_for_child(maker);
      CHECK_SAYING(how == 0, fault::describe_status(how));
    }
    (void)sweep(folder.path());
  });
}

}  // namespace
}  // namespace names
