// These tests use names between two users. Both sides refuse by default, with an error that names
// the option. A mode or a group can allow it.
#include "process/filename/agent.h"

namespace names {
namespace {

// Users and groups that no other process here has.
uid_t user(unsigned which) { return 300000 + static_cast<uid_t>(getpid()) * 4 + which; }

constexpr uint32_t kOther = TENON_OPEN_ALLOW_UNSEALED | TENON_OPEN_OTHER_USER;

void need_root() {
  if (geteuid() != 0) fault::skip("only root can become two users");
}

// Gives a body a new folder that every user may enter.
template <typename Body>
auto with_open_folder(Body body) {
  return [body] {
    need_root();
    const Folder folder(01777);
    body(folder);
  };
}
#define IN_OPEN_FOLDER(...) IN_CHILD(with_open_folder(__VA_ARGS__))

TEST(Users, AFileOfItsUserAlone) {
  IN_OPEN_FOLDER([](const Folder& folder) {
    Agent a(user(0), user(0)), b(user(1), user(1));
    const Done lent = a.create_shared({.directory = folder.path()}, 100, 1);
    REQUIRE(lent.ok());
    const Outcome refused =
        CHECK_NAMES(TENON_PERMISSION, path_of(lent.handle), b.open(lent.handle).outcome);
    CHECK_SAYING(refused.detail("option") == "OTHER_USER", refused.text());
    CHECK_SAYING(refused.message.find(std::to_string(user(0))) != std::string::npos,
                 refused.text());
    // With the option the kernel still refuses, because the mode is 0600.
    const Outcome closed =
        CHECK_NAMES(TENON_PERMISSION, path_of(lent.handle), b.open(lent.handle, kOther).outcome);
    CHECK_SAYING(closed.detail("errno") == std::to_string(EACCES), closed.text());
    CHECK_NAMES(TENON_PERMISSION, path_of(lent.handle),
                b.open(lent.handle, kOther, TENON_ACCESS_READ_ONLY).outcome);
    // The other user can neither unlink nor count the name.
    CHECK_EQ(b.unlink(lent.handle.name).status, TENON_PERMISSION);
    CHECK_EQ(b.decref(lent.handle).status, TENON_PERMISSION);
    CHECK_EQ(b.incref(lent.handle).status, TENON_NOT_FOUND);
    const tenon_sweep_result seen = b.sweep_all(folder.path());
    CHECK(seen.unsure == 1 && seen.live == 0 && seen.dead == 0);
    CHECK(a.shows(lent.slot, 1) && exists(path_of(lent.handle)));
    // Root counts as another user too.
    tenon_storage* storage = nullptr;
    CHECK_NAMES(TENON_PERMISSION, path_of(lent.handle), try_open(lent.handle, &storage));
    storage = open_name(lent.handle, kOther);
    CHECK(shows_pattern(storage, 1));
    tenon_storage_release(storage);
    CHECK(exists(path_of(lent.handle)));
    a.release(lent.slot);
  });
}

TEST(Users, AFileThatOthersMayRead) {
  IN_OPEN_FOLDER([](const Folder& folder) {
    Agent a(user(0), user(0)), b(user(1), user(1));
    const Done lent = a.create_shared({.directory = folder.path(), .mode = 0644}, 100, 1);
    CHECK_EQ(b.open(lent.handle).outcome.detail("option") == "OTHER_USER", true);
    CHECK_NAMES(TENON_PERMISSION, path_of(lent.handle),
                b.open(lent.handle, kOther, TENON_ACCESS_WRITABLE).outcome);
    const Done held = b.open(lent.handle, kOther, TENON_ACCESS_READ_ONLY);
    CHECK_SAYING(held.ok(), held.outcome.text());
    CHECK(b.is_read_only(held.slot) && b.shows(held.slot, 1));
    CHECK_EQ(b.fill(held.slot, 2).status, TENON_PERMISSION);
    // A holder that may only read lends on a handle that allows only reading.
    const Done again = b.share(held.slot);
    CHECK_EQ(again.handle.access, TENON_ACCESS_READ_ONLY);
    CHECK_EQ(b.incref(lent.handle).status, TENON_NOT_FOUND);  // a mere reader cannot count
    CHECK(a.fill(lent.slot, 3).ok() && b.shows(held.slot, 3));
    // A reader of another user is not in the count, and the name still stays for it.
    CHECK_EQ(head_of(path_of(lent.handle)).count, 1);
    a.release(lent.slot);
    CHECK(exists(path_of(lent.handle)) && b.shows(held.slot, 3));
    CHECK_EQ(a.sweep_all(folder.path()).live, 1);
    a.stop();  // otherwise its thread could find the name dead
    b.release(held.slot);
    CHECK(exists(path_of(lent.handle)));  // b may not remove it
    a.signal(SIGCONT);
    CHECK_EQ(a.sweep_all(folder.path()).live, 0);
    CHECK(folder.becomes_empty());
  });
}

TEST(Users, AFileForAGroup) {
  IN_OPEN_FOLDER([](const Folder& folder) {
    const gid_t group = user(3);
    Agent a(user(0), user(0), group), b(user(1), user(1), group), c(user(2), user(2));
    const Naming naming{.directory = folder.path(), .flags = TENON_FILENAME_GROUP, .group = group};
    const Done lent = a.create_shared(naming, 100, 1);
    CHECK_SAYING(lent.ok(), lent.outcome.text());
    const struct stat info = look(path_of(lent.handle));
    CHECK(info.st_gid == group && (info.st_mode & 07777) == 0660);
    CHECK_EQ(b.open(lent.handle).outcome.detail("option") == "OTHER_USER", true);
    CHECK_NAMES(TENON_PERMISSION, path_of(lent.handle), c.open(lent.handle, kOther).outcome);
    const Done held = b.open(lent.handle, kOther);
    CHECK_SAYING(held.ok(), held.outcome.text());
    CHECK_EQ(head_of(path_of(lent.handle)).count, 2);
    CHECK(b.fill(held.slot, 2).ok() && a.shows(lent.slot, 2));
    // b may send it on.
    CHECK(b.incref(lent.handle).ok() && a.decref(lent.handle).ok());
    a.release(lent.slot);
    CHECK(exists(path_of(lent.handle)) && b.shows(held.slot, 2));
    const Done back = a.open(lent.handle);
    CHECK_SAYING(back.ok(), back.outcome.text());
    a.release(back.slot);
    // The last holder may not remove the name. A watching process of the name's user does.
    b.release(held.slot);
    CHECK(folder.becomes_empty());
    // A user outside the group cannot give the file to that group.
    const Outcome refused = c.create(naming, 100).outcome;
    CHECK_SAYING(refused.status == TENON_PERMISSION, refused.text());
    CHECK(folder.becomes_empty());
  });
}

TEST(Users, ASocketOfItsUserAlone) {
  IN_OPEN_FOLDER([](const Folder& folder) {
    Agent a(user(0), user(0)), b(user(1), user(1));
    const Done made = a.make(TENON_MODE_FROZEN, 0, 100, 1);
    const Done lent = a.share(made.slot, {.directory = folder.path()});
    REQUIRE(lent.ok());
    const Outcome refused =
        CHECK_NAMES(TENON_PERMISSION, path_of(lent.handle), b.open(lent.handle, 0).outcome);
    CHECK_SAYING(refused.detail("option") == "OTHER_USER", refused.text());
    CHECK_NAMES(TENON_PERMISSION, path_of(lent.handle),
                b.open(lent.handle, TENON_OPEN_OTHER_USER).outcome);
    a.release(made.slot);
  });
}

TEST(Users, ASocketThatOthersMayOpen) {
  IN_CHILD([] {
    need_root();
    for (const uint32_t mode : {0644U, 0666U}) {
      const Folder folder(01777);
      Agent a(user(0), user(0)), b(user(1), user(1));
      const Done made = a.make(TENON_MODE_LENDER_WRITES, 0, 100, 1);
      const Done lent = a.share(made.slot, {.directory = folder.path(), .mode = mode});
      REQUIRE(lent.ok());
      const Outcome refused = b.open(lent.handle, 0).outcome;
      CHECK_SAYING(refused.detail("option") == "OTHER_USER", refused.text());
      const Done held = b.open(lent.handle, TENON_OPEN_OTHER_USER);
      CHECK_SAYING(held.ok(), "mode " + std::to_string(mode) + ": " + held.outcome.text());
      if (held.ok()) {
        CHECK(b.shows(held.slot, 1) && b.is_read_only(held.slot));
        CHECK(a.fill(made.slot, 2).ok() && b.shows(held.slot, 2));
      }
      a.release(made.slot);
    }
  });
}

TEST(Users, ASocketForAGroup) {
  IN_OPEN_FOLDER([](const Folder& folder) {
    const gid_t group = user(3);
    Agent a(user(0), user(0), group), b(user(1), user(1), group), c(user(2), user(2));
    const Done made = a.make(TENON_MODE_SHARED, 0, 100, 1);
    const Done lent = a.share(
        made.slot, {.directory = folder.path(), .flags = TENON_FILENAME_GROUP, .group = group});
    CHECK_SAYING(lent.ok(), lent.outcome.text());
    CHECK_EQ(look(path_of(lent.handle)).st_gid, group);
    CHECK_NAMES(TENON_PERMISSION, path_of(lent.handle),
                c.open(lent.handle, TENON_OPEN_OTHER_USER).outcome);
    const Done held = b.open(lent.handle, TENON_OPEN_OTHER_USER);
    CHECK_SAYING(held.ok(), held.outcome.text());
    CHECK(b.fill(held.slot, 2).ok() && a.shows(made.slot, 2));
    a.release(made.slot);
  });
}

// The mode of the file admits the caller. The lender checks the caller's user all the same.
TEST(Users, TheLenderLooksAtItsCaller) {
  IN_OPEN_FOLDER([](const Folder& folder) {
    Agent a(user(0), user(0)), b(user(1), user(1));
    const Done made = a.make(TENON_MODE_FROZEN, 0, 100, 1);
    const Done lent = a.share(made.slot, {.directory = folder.path()});
    REQUIRE(chmod(path_of(lent.handle).c_str(), 01666) == 0);  // as some other program might
    for (int i = 0; i < 20; ++i) {
      const Outcome refused = CHECK_NAMES(TENON_PERMISSION, path_of(lent.handle),
                                          b.open(lent.handle, TENON_OPEN_OTHER_USER).outcome);
      if (!refused.ok() && refused.status != TENON_PERMISSION) break;
    }
    a.release(made.slot);
  });
}

// A name that another user took stays taken, whether its file is dead or alive.
TEST(Users, SquattedNames) {
  IN_OPEN_FOLDER([](const Folder& folder) {
    Agent a(user(0), user(0)), b(user(1), user(1));
    const Naming naming{.directory = folder.path(), .name = "a", .mode = 0666};
    const Done squatted = b.create(naming, 100, 9);
    REQUIRE(squatted.ok());
    CHECK_NAMES(TENON_PERMISSION, folder.at("a"),
                a.create({.directory = folder.path(), .name = "a"}, 100).outcome);
    b.kill();
    const Outcome dead =
        CHECK_NAMES(TENON_PERMISSION, folder.at("a"),
                    a.create({.directory = folder.path(), .name = "a"}, 100).outcome);
    CHECK_SAYING(dead.message.find("taken") != std::string::npos, dead.text());
    CHECK_EQ(look(folder.at("a")).st_uid, user(1));
    unlink(folder.at("a").c_str());
  });
}

}  // namespace
}  // namespace names
