// These tests give wrong names from outside, and names under which something else lies. Each name
// is refused with the reason, and nothing under the name is touched.
#include <sys/sysmacros.h>

#include "process/filename/agent.h"
#include "support/sized.h"

namespace names {
namespace {

Outcome make_one(const Naming& naming) {
  tenon_storage* storage = nullptr;
  const Outcome outcome = try_create(naming, 100, &storage);
  CHECK(outcome.ok() == (storage != nullptr));
  tenon_storage_release(storage);
  return outcome;
}

Outcome lend_one(const Naming& naming) {
  tenon_storage* storage = fault::new_storage(100);
  tenon_filename_handle handle = blank_handle();
  const Outcome outcome = try_share(storage, naming, &handle);
  CHECK(outcome.ok() == (handle.name[0] != '\0'));
  let_go(storage);
  return outcome;
}

// Checks both ways to make a name.
void check_name_refused(tenon_status status, const Naming& naming, int line) {
  for (const Outcome& outcome : {make_one(naming), lend_one(naming)}) {
    fault::check(outcome.status == status, "the status", __FILE__, line, outcome.text());
    fault::check(outcome.details.contains("path"), "there is a path", __FILE__, line,
                 outcome.text());
  }
}
#define REFUSED(status, ...) check_name_refused((status), Naming{__VA_ARGS__}, __LINE__)

TEST(BadName, ToBeMade) {
  IN_FOLDER([](const Folder& folder) {
    for (const char* name : {"a/b", "/a", "a/", "/", ".", "..", "../a", "./a"})
      REFUSED(TENON_INVALID_ARGUMENT, .directory = folder.path(), .name = name);
    for (const size_t length : {size_t{256}, size_t{290}})
      REFUSED(TENON_INVALID_ARGUMENT, .directory = folder.path(), .name = std::string(length, 'n'));
    // The name is good for a file, but too long for a handle together with its directory.
    REFUSED(TENON_INVALID_ARGUMENT, .directory = folder.path(),
            .name = std::string(255 - folder.path().size(), 'n'));
    for (const std::string& prefix : {std::string("a/"), std::string("/"), std::string("../"),
                                      std::string(230, 'p'), std::string(290, 'p')})
      REFUSED(TENON_INVALID_ARGUMENT, .directory = folder.path(), .prefix = prefix);
    CHECK(folder.becomes_empty());
    // The longest allowed name, and names of odd characters.
    CHECK(
        make_one({.directory = folder.path(), .name = std::string(254 - folder.path().size(), 'n')})
            .ok());
    CHECK(
        lend_one({.directory = folder.path(), .name = std::string(254 - folder.path().size(), 'n')})
            .ok());
    CHECK(make_one({.directory = folder.path(), .name = " \xc3\xa4%s\\ -"}).ok());
    CHECK(make_one({.directory = folder.path(), .name = "..."}).ok());
    auto empty = tenon::test::sized<tenon_filename_options>();
    empty.name = "";
    tenon_storage* storage = nullptr;
    CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_storage_new_filename(&empty, 100, &storage, err));
  });
}

TEST(BadName, Directories) {
  IN_FOLDER([](const Folder& folder) {
    std::ofstream(folder.at("file")) << "x";
    REQUIRE(mkdir(folder.at("real").c_str(), 0700) == 0);
    REQUIRE(symlink("real", folder.at("link").c_str()) == 0);
    REQUIRE(mkfifo(folder.at("pipe").c_str(), 0600) == 0);
    REFUSED(TENON_INVALID_ARGUMENT, .directory = "relative");
    REFUSED(TENON_INVALID_ARGUMENT, .directory = "/");
    REFUSED(TENON_INVALID_ARGUMENT, .directory = "//");
    REFUSED(TENON_NOT_FOUND, .directory = folder.at("none"));
    REFUSED(TENON_INVALID_ARGUMENT, .directory = folder.at("file"));
    REFUSED(TENON_INVALID_ARGUMENT, .directory = folder.at("link"));
    REFUSED(TENON_INVALID_ARGUMENT, .directory = folder.at("pipe"));
    auto empty = tenon::test::sized<tenon_filename_options>();
    empty.directory = "";
    tenon_storage* storage = nullptr;
    CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_storage_new_filename(&empty, 100, &storage, err));
    const auto opens = [&](const std::string& name) {
      return try_open(handle_to(name, 1), &storage);
    };
    CHECK_NAMES(TENON_NOT_FOUND, folder.at("none"), opens(folder.at("none/a")));
    CHECK_NAMES(TENON_INVALID_ARGUMENT, folder.at("file"), opens(folder.at("file/a")));
    CHECK_NAMES(TENON_INVALID_ARGUMENT, folder.at("link"), opens(folder.at("link/a")));
    CHECK_NAMES(TENON_INVALID_ARGUMENT, folder.at("pipe"), opens(folder.at("pipe/a")));
    for (const char* leaf : {"file", "link", "pipe"}) unlink(folder.at(leaf).c_str());
    rmdir(folder.at("real").c_str());
  });
}

TEST(BadName, InAHandle) {
  IN_CHILD([] {
    tenon_storage* storage = nullptr;
    for (const char* name : {"relative", "a/b", "/", "/.", "/..", "//", "/a/", "/dev/shm/",
                             "/dev/shm/.", "/dev/shm/.."}) {
      const Outcome outcome = try_open(handle_to(name, 100), &storage);
      CHECK_SAYING(outcome.status == TENON_INVALID_ARGUMENT,
                   std::string(name) + ": " + outcome.text());
    }
    // The handle claims bytes and has no name.
    CHECK_EQ(try_open(handle_to("", 100), &storage).status, TENON_INVALID_ARGUMENT);
    CHECK_EQ(try_open(handle_to("", 0, 100), &storage).status, TENON_INVALID_ARGUMENT);
    // The arrays have no NUL.
    tenon_filename_handle handle = handle_to("/x", 100);
    std::memset(handle.name, 'x', sizeof handle.name);
    handle.name[0] = '/';
    CHECK_EQ(try_open(handle, &storage).status, TENON_INVALID_ARGUMENT);
    CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_filename_incref(&handle, err));
    CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_filename_decref(&handle, err));
    handle = handle_to("/x", 100);
    std::memset(handle.manager, 'm', sizeof handle.manager);
    CHECK_EQ(try_open(handle, &storage).status, TENON_INVALID_ARGUMENT);
    handle = handle_to("/names-no-such", 100);
    handle.access = 3;
    CHECK_EQ(try_open(handle, &storage).status, TENON_INVALID_ARGUMENT);
    handle.access = 0;
    handle.reserved = 1;
    CHECK(try_open(handle, &storage).status != TENON_NOT_FOUND);
    handle.reserved = 0;
    handle.struct_size = 8;
    CHECK_EQ(try_open(handle, &storage).status, TENON_INVALID_ARGUMENT);
    CHECK_STATUS(TENON_INVALID_ARGUMENT,
                 tenon_open_filename(nullptr, nullptr, nullptr, &storage, err));
    handle.struct_size = sizeof handle;
    CHECK_STATUS(TENON_INVALID_ARGUMENT,
                 tenon_open_filename(&handle, nullptr, nullptr, nullptr, err));
    CHECK(storage == nullptr);
    CHECK_NAMES(TENON_NOT_FOUND, "/dev/shm/names-no-such", try_open(handle, &storage));
  });
}

// Errors are one line, whatever the name contains. Outcome checks that (process/fault/kit.h).
TEST(BadName, ControlCharacters) {
  IN_FOLDER([](const Folder& folder) {
    tenon_storage* storage = nullptr;
    CHECK_EQ(try_open(handle_to(folder.at("two\nlines\x1b[31m"), 100), &storage).status,
             TENON_NOT_FOUND);
    CHECK_EQ(try_open(handle_to("two\nlines", 100), &storage).status, TENON_INVALID_ARGUMENT);
    CHECK_EQ(try_open(handle_to("/no\nfolder/x", 100), &storage).status, TENON_NOT_FOUND);
    // The maker of a name may use such characters or not, but a refusal leaves nothing behind.
    const Outcome made = make_one({.directory = folder.path(), .name = "two\nlines"});
    CHECK_SAYING(made.ok() || made.status == TENON_INVALID_ARGUMENT, made.text());
    CHECK(folder.becomes_empty());
  });
}

// Something else lies under a name that a process opens. The library must not follow it, wait for
// it, or start it.
TEST(Planted, OpenRefuses) {
  IN_FOLDER([](const Folder& folder) {
    Head head;
    head.count = 1;
    head.magic = kMagic;
    plant(folder.at("real"), head, 100);
    REQUIRE(symlink("real", folder.at("link").c_str()) == 0);
    REQUIRE(symlink(folder.at("real").c_str(), folder.at("absolute").c_str()) == 0);
    REQUIRE(symlink("nowhere", folder.at("dangling").c_str()) == 0);
    REQUIRE(symlink("/dev/zero", folder.at("zero").c_str()) == 0);
    REQUIRE(mkfifo(folder.at("pipe").c_str(), 0600) == 0);
    REQUIRE(mkdir(folder.at("dir").c_str(), 0700) == 0);
    std::vector<std::string> leaves{"link", "absolute", "dangling", "zero", "pipe", "dir"};
    if (geteuid() == 0 && mknod(folder.at("null").c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0)
      leaves.emplace_back("null");
    tenon_storage* storage = nullptr;
    for (const std::string& leaf : leaves) {
      for (const uint32_t flags :
           {uint32_t{TENON_OPEN_ALLOW_UNSEALED}, uint32_t{TENON_OPEN_PRIVATE_COPY}}) {
        for (const tenon_access access :
             {TENON_ACCESS_AUTO, TENON_ACCESS_READ_ONLY, TENON_ACCESS_WRITABLE}) {
          CHECK_NAMES(TENON_CORRUPT, folder.at(leaf),
                      try_open(handle_to(folder.at(leaf), 100), &storage, flags, access));
        }
      }
      const tenon_filename_handle handle = handle_to(folder.at(leaf), 100);
      const Outcome counted = CALL(tenon_filename_decref(&handle, err));
      CHECK_SAYING(counted.status == TENON_CORRUPT, leaf + ": " + counted.text());
    }
    CHECK_EQ(head_of(folder.at("real")).count, 1);
    rmdir(folder.at("dir").c_str());
    for (const std::string& leaf : leaves) unlink(folder.at(leaf).c_str());
    unlink(folder.at("real").c_str());
  });
}

TEST(Planted, CreateRefuses) {
  IN_FOLDER([](const Folder& folder) {
    std::ofstream(folder.at("victim")) << "these bytes are somebody's";
    REQUIRE(symlink("victim", folder.at("link").c_str()) == 0);
    REQUIRE(symlink("nowhere", folder.at("dangling").c_str()) == 0);
    REQUIRE(mkfifo(folder.at("pipe").c_str(), 0600) == 0);
    REQUIRE(mkdir(folder.at("dir").c_str(), 0700) == 0);
    const std::set<std::string> before = folder.leaves();
    for (const std::string& leaf : before) {
      CHECK_NAMES(TENON_PERMISSION, folder.at(leaf),
                  make_one({.directory = folder.path(), .name = leaf}));
      CHECK_NAMES(TENON_PERMISSION, folder.at(leaf),
                  lend_one({.directory = folder.path(), .name = leaf}));
    }
    CHECK(folder.leaves() == before);
    CHECK_EQ(look(folder.at("victim")).st_size, 26);
    rmdir(folder.at("dir").c_str());
    for (const std::string& leaf : before) unlink(folder.at(leaf).c_str());
  });
}

// A name of a living process is refused. A name of a dead process is replaced.
TEST(Squatted, ByTheLivingAndTheDead) {
  IN_FOLDER([](const Folder& folder) {
    const Naming naming{.directory = folder.path(), .name = "weights"};
    Agent squatter;
    REQUIRE(squatter.create(naming, 5000, 9).ok());
    for (const Outcome& outcome : {make_one(naming), lend_one(naming)}) {
      CHECK_NAMES(TENON_PERMISSION, folder.at("weights"), outcome);
      CHECK_SAYING(outcome.message.find("taken") != std::string::npos, outcome.text());
    }
    CHECK_EQ(look(folder.at("weights")).st_size, 5064);
    squatter.stop();
    squatter.kill();
    tenon_storage* storage = create(naming, 100);
    CHECK_EQ(look(folder.at("weights")).st_size, 164);
    tenon_storage_release(storage);
    // A socket replaces a dead file, and a file replaces a dead socket.
    Agent again;
    REQUIRE(again.create(naming, 5000).ok());
    again.kill();
    CHECK(lend_one(naming).ok());
    Agent lender;
    REQUIRE(lender.share(lender.make(TENON_MODE_SHARED, 0, 100).slot, naming).ok());
    lender.kill();
    CHECK(make_one(naming).ok());
    // A plain file is no dead name.
    std::ofstream(folder.at("weights")) << "not Tenon's";
    CHECK_NAMES(TENON_PERMISSION, folder.at("weights"), make_one(naming));
    CHECK_EQ(look(folder.at("weights")).st_size, 11);
    unlink(folder.at("weights").c_str());
  });
}

}  // namespace
}  // namespace names
