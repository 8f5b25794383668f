// Another user is refused, by the kernel and with a clear error, unless both the lender's mode and
// the borrower's flag allow that user. A group that the lender named may open the memory. The users
// are on one machine or in containers.
#include "process/namespaces/sides.h"

namespace sides {
namespace {

using fault::Outcome;

const Who kLender{210'001, 210'001, {kGroup}, true, kMeeting};

enum class Answer { kYes, kReadOnly, kNo };

// The user that opens, and the expected outcome with the flag that allows another user's names.
struct Visitor {
  Who who;
  Answer answer;
};

void check_refusal(const tenon_filename_handle& handle, uint32_t flags, const char* option,
                   const std::string& where) {
  tenon_storage* storage = nullptr;
  const Outcome outcome = open_named(handle, flags | TENON_OPEN_ALLOW_UNSEALED, &storage);
  if (!CHECK_SAYING(outcome.status == TENON_PERMISSION && storage == nullptr,
                    where + ": " + outcome.text()))
    return;
  CHECK_SAYING(outcome.detail("path") == handle.name, where + ": " + outcome.text());
  CHECK_SAYING(outcome.message.find(handle.name) != std::string::npos,
               where + ": " + outcome.text());
  if (option != nullptr)
    CHECK_SAYING(outcome.detail("option") == option, where + ": " + outcome.text());
}

void visit(const Line& line, const tenon_filename_handle& handle, Way way, Answer answer,
           const std::string& where) {
  check_refusal(handle, 0, "OTHER_USER", where + ", without the flag");
  line.signal(1);
  line.await(1);
  // A sweep must not judge or remove another user's names.
  const std::string path = handle.name;
  const tenon_sweep_result seen = sweep_names(path.substr(0, path.rfind('/')));
  CHECK_SAYING(seen.dead == 0 && seen.live == 0, where + ": a sweep judges what is another's");
  if (answer == Answer::kNo) {
    check_refusal(handle, TENON_OPEN_OTHER_USER, nullptr, where);
    return;
  }
  // The handle of a file says that it is writable, because its lender writes it. A visitor that may
  // only read must ask for read-only access.
  const bool reads_a_file = way == Way::kFile && answer == Answer::kReadOnly;
  if (reads_a_file) check_refusal(handle, TENON_OPEN_OTHER_USER, nullptr, where + ", to write");
  tenon_storage* storage = borrow(handle, TENON_OPEN_OTHER_USER,
                                  reads_a_file ? TENON_ACCESS_READ_ONLY : TENON_ACCESS_AUTO);
  CHECK_SAYING(has(storage, 7), where);
  const bool writes = answer == Answer::kYes && borrower_writes(way);
  CHECK_SAYING(tenon_storage_is_read_only(storage) == !writes, where);
  if (writes) overwrite(storage, 8);
  line.signal(1);
  line.await(1);
  tenon_storage_release(storage);
}

// One lender lends to one visitor. `options` are the lender's, without the directory.
void lend_to(const Visitor& visitor, Way way, tenon_filename_options options,
             const std::string& what) {
  const std::string where = std::string(text(way)) + ", " + what + ", user " +
                            std::to_string(visitor.who.uid) +
                            (visitor.who.contained ? ", in a container" : "");
  const Meeting meeting(01777);
  Line line;
  Side lender(meeting, placed(kLender, visitor.who.contained), [&](const std::string& place) {
    options.struct_size = sizeof options;
    options.directory = place.c_str();
    const Lent lent = lend(way, options, 7);
    line.give(0, lent.handle);
    line.await(0);
    line.signal(0);
    if (visitor.answer != Answer::kNo) {
      line.await(0);
      const bool written = visitor.answer == Answer::kYes && borrower_writes(way);
      CHECK_SAYING(has(lent.storage, written ? 8 : 7), where);
      line.signal(0);
    }
    line.await(0);
    CHECK_SAYING(has(lent.storage, visitor.answer == Answer::kYes && borrower_writes(way) ? 8 : 7),
                 where);
    tenon_storage_release(lent.storage);
    tenon_storage_trim();
    CHECK_SAYING(wait_until([&] { return names_in(place).empty(); }, kSoon),
                 where + ": a name is left");
  });
  Side borrower(meeting, visitor.who, [&](const std::string&) {
    visit(line, line.take<tenon_filename_handle>(1), way, visitor.answer, where);
  });
  if (!CHECK(borrower.finish() == 0)) {
    lender.kill();
    return;
  }
  line.signal(1);
  CHECK_EQ(lender.finish(), 0);
}

void each_way(const std::vector<Visitor>& visitors, const tenon_filename_options& options,
              const std::string& what) {
  IN_CHILD([&] {
    if (geteuid() != 0) fault::skip("only root can be two users");
    for (const Visitor& visitor : visitors) {
      for (const Way way : kWays) {
        for (const bool contained : {false, true})
          lend_to({placed(visitor.who, contained), visitor.answer}, way, options, what);
      }
    }
  });
}

TEST(OtherUser, IsRefused) {
  each_way({{kMember, Answer::kNo}, {kStranger, Answer::kNo}}, {}, "by default");
}

TEST(OtherUser, IsLentToByItsGroup) {
  tenon_filename_options options{};
  options.flags = TENON_FILENAME_GROUP;
  options.group = kGroup;
  each_way({{kMember, Answer::kYes}, {kMemberByItsFirst, Answer::kYes}, {kStranger, Answer::kNo}},
           options, "group");
}

TEST(OtherUser, ReadsWhatTheModeLetsAnybodyRead) {
  tenon_filename_options options{};
  options.mode = 0644;
  IN_CHILD([&] {
    if (geteuid() != 0) fault::skip("only root can be two users");
    for (const bool contained : {false, true}) {
      // The mode keeps others from writing the file. A socket lends with the access of the
      // storage's mode.
      lend_to({placed(kStranger, contained), Answer::kReadOnly}, Way::kFile, options, "mode 0644");
      lend_to({placed(kStranger, contained), Answer::kYes}, Way::kShared, options, "mode 0644");
      lend_to({placed(kStranger, contained), Answer::kYes}, Way::kLenderWrites, options,
              "mode 0644");
    }
  });
}

// The lender is not in the group that it names.
TEST(OtherUser, CannotNameAStrangeGroup) {
  IN_CHILD([] {
    if (geteuid() != 0) fault::skip("only root can be two users");
    for (const bool contained : {false, true}) {
      const Meeting meeting(01777);
      Side lender(meeting, placed(kLender, contained), [&](const std::string& place) {
        tenon_filename_options options = name_options(place);
        options.flags = TENON_FILENAME_GROUP;
        options.group = kGroup + 1;
        tenon_storage* storage = nullptr;
        Outcome outcome = CHECK_STATUS(
            TENON_PERMISSION, tenon_storage_new_filename(&options, kNbytes, &storage, err));
        CHECK_SAYING(outcome.message.find(std::to_string(options.group)) != std::string::npos,
                     outcome.text());
        storage = fault::new_storage(kNbytes);
        tenon_filename_handle handle = name_handle();
        outcome = CHECK_STATUS(TENON_PERMISSION,
                               tenon_share_filename(storage, &options, nullptr, &handle, err));
        CHECK_SAYING(!outcome.detail("path").empty(), outcome.text());
        tenon_storage_release(storage);
        CHECK(names_in(place).empty());
      });
      CHECK_EQ(lender.finish(), 0);
    }
  });
}

// In this directory only a name's own user may remove the name. If another user is its last holder,
// the name stays until a process of its own user checks it.
TEST(OtherUser, AsTheLastHolderKeepsTheBytes) {
  for (const bool contained : {false, true}) {
    IN_CHILD([contained] {
      if (geteuid() != 0) fault::skip("only root can be two users");
      const Meeting meeting(01777);
      Line line;
      Side lender(meeting, placed(kLender, contained), [&](const std::string& place) {
        tenon_filename_options options = name_options(place);
        options.flags = TENON_FILENAME_GROUP;
        options.group = kGroup;
        line.give(0, lend(Way::kFile, options, 7).handle);
        pause();
      });
      const auto handle = line.take<tenon_filename_handle>(1);
      Side member(meeting, placed(kMember, contained), [&](const std::string&) {
        tenon_storage* storage = borrow(handle, TENON_OPEN_OTHER_USER);
        line.signal(1);
        line.await(1);
        CHECK(has(storage, 7));
        tenon_storage_release(storage);
        line.signal(1);
        pause();
      });
      line.await(0);
      lender.kill();
      const auto look = [&](uint64_t live, uint64_t dead) {
        Side looker(meeting, placed(kLender, contained), [&](const std::string& place) {
          const tenon_sweep_result seen = sweep_names(place);
          CHECK_EQ(seen.live, live);
          CHECK_EQ(seen.dead, dead);
        });
        CHECK_EQ(looker.finish(), 0);
      };
      look(1, 0);
      line.signal(0);
      line.await(0);
      look(0, 1);
      CHECK(meeting.names().empty());
      member.kill();
    });
  }
}

}  // namespace
}  // namespace sides
