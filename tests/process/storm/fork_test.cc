// A forked child holds what it inherited, whatever happens to its parent. The file keeps its name,
// other processes can open it, and the child can count messages in flight in the file.
#include <sys/prctl.h>

#include "process/namespaces/names.h"

namespace names {
namespace {

enum class End { kRelease, kExit, kKill };

// A parent lends a file by its name and forks a child. Then the parent releases the storage, exits
// or is killed. Afterwards this process opens the name. If `what_child_does` is not 0, the child
// does to the file's count what a send and a receive do.
void let_parent_go(End end, uint32_t what_child_does) {
  IN_CHILD([=] {
    const Meeting meeting;
    Line line;
    const pid_t parent = fault::spawn([&] {
      const Lent lent = lend(Way::kFile, name_options(meeting.path()), 6);
      const pid_t child = fault::spawn([&] {
        line.give(1, lent.handle);
        line.await(1);
        CHECK(has(lent.storage, 6));
        if (what_child_does != 0) CHECK_OK(tenon_filename_incref(&lent.handle, err));
        line.signal(1);
        line.await(1);
        CHECK(has(lent.storage, 6));
        if (what_child_does != 0) CHECK_OK(tenon_filename_decref(&lent.handle, err));
        tenon_storage_release(lent.storage);
        line.signal(1);
      });
      REQUIRE(child > 0);
      if (end == End::kKill) ::kill(getpid(), SIGKILL);
      if (end == End::kExit) std::exit(0);
      tenon_storage_release(lent.storage);
      CHECK_EQ(fault::wait_for_child(child), 0);
    });
    const auto handle = line.take<tenon_filename_handle>(0);
    if (end != End::kRelease) {
      fault::wait_for_child(parent);
    } else {
      // This process cannot see when the parent releases the storage. The pause makes it likely
      // that the following checks run after the release. They hold before it too.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    (void)sweep_names(meeting.path());
    CHECK_SAYING(meeting.visible() == 1, "the name went, and a child holds it");
    line.signal(0);
    line.await(0);
    tenon_storage *storage = nullptr;
    const fault::Outcome opened = open_named(handle, TENON_OPEN_ALLOW_UNSEALED, &storage);
    if (CHECK_SAYING(opened.ok(), opened.text())) CHECK(has(storage, 6));
    tenon_storage_release(storage);
    line.signal(0);
    line.await(0);
    if (end == End::kRelease) CHECK_EQ(fault::wait_for_child(parent), 0);
    CHECK_SAYING(wait_until([&] { return meeting.names().empty(); }, kSoon), "a name is left");
  });
}

TEST(Fork, TheParentLetsGo) { let_parent_go(End::kRelease, 0); }
TEST(Fork, TheParentEndsInOrder) { let_parent_go(End::kExit, 0); }
TEST(Fork, TheParentIsKilled) { let_parent_go(End::kKill, 0); }
TEST(Fork, TheChildSendsAfterTheParentLetGo) { let_parent_go(End::kRelease, 1); }
TEST(Fork, TheChildSendsAfterTheParentWasKilled) { let_parent_go(End::kKill, 1); }

}  // namespace
}  // namespace names
