// Each side is killed in turn. The other side keeps its bytes, and a third container learns from
// the kernel which processes live.
#include "process/namespaces/sides.h"

namespace sides {
namespace {

void check_sweep(const tenon_sweep_result& seen, uint64_t live, uint64_t dead,
                 const std::string& where) {
  CHECK_SAYING(seen.live == live && seen.dead == dead && seen.unsure == 0 && seen.in_flight == 0,
               where + ": live " + std::to_string(seen.live) + ", dead " +
                   std::to_string(seen.dead) + ", unsure " + std::to_string(seen.unsure) +
                   ", in flight " + std::to_string(seen.in_flight));
}

// A process in a container of its own sweeps once and ends, so it does not watch the directory
// afterwards.
void sweep_from_outside(const Meeting& meeting, uint32_t flags, uint64_t live, uint64_t dead,
                        const std::string& where) {
  Side observer(meeting, {}, [&](const std::string& place) {
    check_sweep(sweep_names(place, flags), live, dead, where);
  });
  CHECK_EQ(observer.finish(), 0);
}

// Checks its bytes when the test signals it, and releases the storage.
void hold_and_let_go(const Line& line, int end, tenon_storage* storage) {
  line.signal(end);
  line.await(end);
  CHECK(has(storage, 5));
  tenon_storage_release(storage);
  tenon_storage_trim();  // the segment itself may have a name
  line.signal(end);
  pause();
}

// Lender and borrower hold one name. The test kills one of them.
void kill_one(Way way, bool kill_lender) {
  IN_CHILD([=] {
    const std::string where =
        std::string(text(way)) + (kill_lender ? ", lender killed" : ", borrower killed");
    const Meeting meeting;
    Line to_lender;
    Line to_borrower;
    Side lender(meeting, {}, [&](const std::string& place) {
      const Lent lent = lend(way, name_options(place), 5);
      to_lender.give(1, lent.handle);
      hold_and_let_go(to_lender, 1, lent.storage);
    });
    const auto handle = to_lender.take<tenon_filename_handle>(0);
    to_lender.await(0);
    Side borrower(meeting, {},
                  [&](const std::string&) { hold_and_let_go(to_borrower, 1, borrow(handle)); });
    to_borrower.await(0);
    CHECK_EQ(meeting.visible(), 1);
    sweep_from_outside(meeting, 0, 1, 0, where + ": with both alive");

    Side& victim = kill_lender ? lender : borrower;
    Side& survivor = kill_lender ? borrower : lender;
    const Line& to_survivor = kill_lender ? to_borrower : to_lender;
    victim.kill();
    if (way != Way::kFile && kill_lender) {
      // The borrower has the memory and never held the name.
      CHECK_SAYING(wait_until([&] { return meeting.names().empty(); }, kSoon),
                   where + ": the dead lender's name is still there");
    } else {
      sweep_from_outside(meeting, 0, 1, 0, where + ": with one alive");
    }
    to_survivor.signal(0);
    to_survivor.await(0);
    // The name is removed after the death of its last holder, although no process sweeps.
    CHECK_SAYING(wait_until([&] { return meeting.names().empty(); }, kSoon),
                 where + ": a name is left");
    survivor.kill();
  });
}

TEST(KillAcrossContainers, Lender) {
  for (const Way way : kWays) kill_one(way, true);
}

TEST(KillAcrossContainers, Borrower) {
  for (const Way way : kWays) kill_one(way, false);
}

// If no holder is left, the name stays until a process checks it and finds it dead.
TEST(KillAcrossContainers, Both) {
  for (const Way way : kWays) {
    IN_CHILD([way] {
      const std::string where = text(way);
      const Meeting meeting;
      Line line;
      Side lender(meeting, {}, [&](const std::string& place) {
        line.give(0, lend(way, name_options(place), 5).handle);
        pause();
      });
      const auto handle = line.take<tenon_filename_handle>(1);
      Side borrower(meeting, {}, [&](const std::string&) {
        CHECK(has(borrow(handle), 5));
        line.signal(1);
        pause();
      });
      line.await(0);
      lender.kill();
      borrower.kill();
      if (way == Way::kFile)
        CHECK_SAYING(meeting.visible() == 1, where + ": the name went before anybody looked");
      if (meeting.visible() == 1) {
        sweep_from_outside(meeting, TENON_SWEEP_DRY_RUN, 0, 1, where + ": a dry run");
        CHECK_EQ(meeting.visible(), 1);
        sweep_from_outside(meeting, 0, 0, 1, where + ": nobody alive");
      } else if (!meeting.names().empty()) {
        // The borrower saw the lender's death, and was killed while it removed the name.
        sweep_from_outside(meeting, 0, 0, 0, where + ": half removed");
      }
      CHECK_SAYING(meeting.names().empty(), where + ": a dead name outlived a sweep");
    });
  }
}

// The last holder is killed. A living process in another container has used the directory before,
// so the kernel notifies it, and it removes the name.
TEST(KillAcrossContainers, TheLastWhileAnotherWatches) {
  for (const Way way : kWays) {
    IN_CHILD([way] {
      const Meeting meeting;
      Line line;
      Side watcher(meeting, {}, [&](const std::string& place) {
        const Lent lent = lend(Way::kFile, name_options(place), 1);
        tenon_storage_release(lent.storage);
        line.signal(0);
        pause();
      });
      line.await(1);
      CHECK(wait_until([&] { return meeting.names().empty(); }, kSoon));
      Side lender(meeting, {}, [&](const std::string& place) {
        (void)lend(way, name_options(place), 5);
        line.signal(0);
        pause();
      });
      line.await(1);
      CHECK_EQ(meeting.visible(), 1);
      lender.kill();
      CHECK_SAYING(wait_until([&] { return meeting.names().empty(); }, kSoon),
                   std::string(text(way)) + ": the dead name is still there");
      watcher.kill();
    });
  }
}

// A holder takes no locks, as PyTorch does. The kernel's lease shows it to every container.
TEST(KillAcrossContainers, AHolderWithoutALock) {
  IN_CHILD([] {
    const Meeting meeting;
    Line line;
    Side lender(meeting, {}, [&](const std::string& place) {
      line.give(0, lend(Way::kFile, name_options(place), 5).handle);
      pause();
    });
    const auto handle = line.take<tenon_filename_handle>(1);
    Side plain(meeting, {}, [&](const std::string&) {
      const int fd = open(handle.name, O_RDWR | O_CLOEXEC);
      REQUIRE(fd >= 0);
      void* bytes = mmap(nullptr, kNbytes + 64, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      REQUIRE(bytes != MAP_FAILED);
      close(fd);
      line.signal(0);
      line.await(0);
      CHECK(fault::has_pattern(static_cast<const unsigned char*>(bytes) + 64, kNbytes, 5));
      munmap(bytes, kNbytes + 64);
      line.signal(0);
      pause();
    });
    line.await(1);
    lender.kill();
    sweep_from_outside(meeting, 0, 1, 0, "mapped by a stranger");
    CHECK_EQ(meeting.visible(), 1);
    line.signal(1);
    line.await(1);
    sweep_from_outside(meeting, 0, 0, 1, "held by nobody");
    CHECK(meeting.names().empty());
    plain.kill();
  });
}

}  // namespace
}  // namespace sides
