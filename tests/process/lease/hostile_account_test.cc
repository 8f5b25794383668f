// These tests play a lender whose tokens, lease pages and bells are of the wrong kind, or too many,
// or change while the borrower uses them.
#include <sys/eventfd.h>

#include <atomic>
#include <chrono>

#include "process/lease/hostile_victim.h"
#include "support/seed.h"

namespace leases::raw {
namespace {

// ---- tokens, pages and bells

struct WrongFd {
  const char* what;
  int (*make)();
};
const WrongFd kNoToken[] = {
    {"a read end", [] { return fcntl(Pipe().watch, F_DUPFD_CLOEXEC, 0); }},
    {"a socket",
     [] {
       std::array<int, 2> ends{};
       REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
       close(ends[1]);
       return ends[0];
     }},
    {"a file", [] { return make_page(); }},
    {"a file on a disk", [] { return open("/proc/self/exe", O_RDONLY | O_CLOEXEC); }},
    {"a device that can be written", [] { return open("/dev/null", O_WRONLY | O_CLOEXEC); }},
    {"a folder", [] { return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC); }},
    {"an eventfd", [] { return eventfd(0, EFD_CLOEXEC); }},
    {"a path", [] { return open("/proc/self/exe", O_PATH | O_CLOEXEC); }},
    {"a pipe that is open both ways",
     [] {
       const Pipe pipe;
       return open(("/proc/self/fd/" + std::to_string(pipe.token)).c_str(), O_RDWR | O_CLOEXEC);
     }},
};
const WrongFd kNoBell[] = {
    {"a pipe", [] { return fcntl(Pipe().token, F_DUPFD_CLOEXEC, 0); }},
    {"a file", [] { return make_page(); }},
    {"a socket of packets",
     [] {
       std::array<int, 2> ends{};
       REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
       close(ends[1]);
       return ends[0];
     }},
    {"a socket that is not connected",
     [] { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }},
    {"a socket of the network", [] { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }},
    {"a path", [] { return open("/proc/self/exe", O_PATH | O_CLOEXEC); }},
};

TEST(HostileAccount, TokensAndBellsThatAreNone) {
  harm([](const Honest& honest, int type) {
    for (const WrongFd& each : kNoToken) {
      // The wrong fd is sent as the account's token, and as an INHERITED one.
      for (const bool inherited : {false, true}) {
        Account account;
        Message message(honest, account);
        const int wrong = each.make();
        REQUIRE(wrong >= 0);
        if (inherited) {
          message.block.tokens.push_back({5, kInherited, 1});
          message.token_fds.push_back(wrong);
        } else {
          message.token_fds[0] = wrong;
        }
        refuse(honest, type, &account, message.frame(), TENON_CORRUPT, each.what);
        close(wrong);
      }
    }
    for (const WrongFd& each : kNoBell) {
      Account account;
      Message message(honest, account);
      const int wrong = each.make();
      REQUIRE(wrong >= 0);
      message.token_fds[2] = wrong;
      refuse(honest, type, &account, message.frame(), TENON_CORRUPT, each.what);
      close(wrong);
    }
  });
}

struct WrongPage {
  const char* what;
  tenon_status wanted;
  PageSpec spec;
};

TEST(HostileAccount, LeasePages) {
  static const WrongPage kAll[] = {
      {"no seals", TENON_CORRUPT, {.seals = 0}},
      {"can grow", TENON_CORRUPT, {.seals = F_SEAL_SHRINK}},
      {"can shrink", TENON_CORRUPT, {.seals = F_SEAL_GROW}},
      {"cannot be written", TENON_CORRUPT, {.seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE}},
      {"cannot be written any more",
       TENON_CORRUPT,
       {.seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE}},
      {"an fd for reading", TENON_CORRUPT, {.read_only = true}},
      {"empty", TENON_CORRUPT, {.nbytes = 0}},
      {"shorter than its header", TENON_CORRUPT, {.nbytes = 100}},
      {"cut short", TENON_CORRUPT, {.nbytes = page_nbytes(4096) - 1}},
      {"too long", TENON_CORRUPT, {.nbytes = page_nbytes(4096) + 4096}},
      {"other magic", TENON_CORRUPT, {.magic = {'T', 'E', 'N', 'O', 'N', 'L', 'S', 'F'}}},
      {"holes",
       TENON_CORRUPT,
       {.magic = {}, .version = 0, .slots = 0, .nbytes = page_nbytes(4096)}},
      {"version 0", TENON_INCOMPATIBLE, {.version = 0}},
      {"version 2", TENON_INCOMPATIBLE, {.version = 2}},
      {"an unknown feature", TENON_INCOMPATIBLE, {.incompat = uint64_t{1} << 63}},
      {"no slots", TENON_CORRUPT, {.slots = 0, .nbytes = page_nbytes(4096)}},
      {"slots that are no multiple", TENON_CORRUPT, {.slots = 4095, .nbytes = page_nbytes(4096)}},
      {"other slots than its size", TENON_CORRUPT, {.slots = 8192, .nbytes = page_nbytes(4096)}},
      {"too many slots", TENON_CORRUPT, {.slots = (64U << 20) + 4096}},
      {"slots without end", TENON_CORRUPT, {.slots = UINT32_MAX, .nbytes = page_nbytes(4096)}},
  };
  harm([](const Honest& honest, int type) {
    for (const WrongPage& each : kAll) {
      Account account(1, each.spec);
      refuse(honest, type, &account, Message(honest, account).frame(), each.wanted, each.what);
    }
    // A page made of huge pages, which the machine may not have when a bit is set in it. With this
    // number of slots the size is a multiple of a huge page.
    constexpr uint32_t kEven = 4024 * 4096;
    static_assert(page_nbytes(kEven) % (uint64_t{2} << 20) == 0);
    const int huge =
        memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB | 21U << 26);
    if (huge >= 0) {
      REQUIRE(ftruncate(huge, page_nbytes(kEven)) == 0 &&
              fcntl(huge, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
      Account account;
      Message message(honest, account);
      message.token_fds[1] = huge;
      refuse(honest, type, &account, message.frame(), TENON_CORRUPT, "of huge pages");
      close(huge);
    }
    for (const WrongFd& each : kNoToken) {
      if (std::strcmp(each.what, "a file") == 0) continue;
      Account account;
      Message message(honest, account);
      const int wrong = each.make();
      message.token_fds[1] = wrong;
      Victim victim(type);
      victim.send(message.frame());
      const Outcome outcome = victim.receive();
      CHECK_SAYING(outcome.status == TENON_CORRUPT || outcome.status == TENON_INVALID_ARGUMENT,
                   std::string(each.what) + " as a page: " + outcome.text());
      close(wrong);
    }
  });
}

// ---- accounts without end

TEST(HostileAccount, OneAccountAfterTheOther) {
  harm([](const Honest& honest, int type) {
    Victim victim(type);
    const long fds = fault::count_open_fds();
    for (uint64_t id = 1; id <= 1000; ++id) {
      Account account(id);
      victim.send(Frame{kTokens,
                        Block{.account = id, .tokens = {{id, kAccount, 3}}, .slots = {}}.bytes(),
                        account.fds()});
      if (id % 10 == 0) victim.send(Message(honest, account).frame());
      account.let_go_of_sent();
      const Outcome outcome = victim.receive();
      // The second time the account is already known, so it changes nothing.
      CHECK_SAYING(id % 10 == 0 ? outcome.ok() : outcome.status == TENON_WOULD_BLOCK,
                   outcome.text());
      CHECK_SAYING(fault::count_open_fds() - fds < 12,
                   std::to_string(fault::count_open_fds() - fds) + " fds");
    }
  });
}

// The borrower keeps some fds of each account. So the lender decides their number, up to a limit.
TEST(HostileAccount, AnAccountForEachMessageThatIsKept) {
  harm([](const Honest& honest, int type) {
    Victim victim(type);
    const long fds = fault::count_open_fds();
    std::vector<tenon_message*> kept;
    Outcome outcome;
    for (uint64_t id = 1; id <= Honest::kMore; ++id) {
      Account account(id);
      Message next(honest, account);
      if (id > 1) {
        next.descriptor = honest.more[id - 1];
        next.segment_fds.clear();
      }
      victim.send(next.frame());
      account.let_go_of_sent();
      tenon_message* message = nullptr;
      outcome = victim.receive(&message);
      if (message != nullptr) kept.push_back(message);
    }
    CHECK_SAYING(
        outcome.status == TENON_RESOURCE_EXHAUSTED && outcome.detail("limit") == "accounts",
        outcome.text());
    CHECK_SAYING(fault::count_open_fds() - fds < 100,
                 std::to_string(fault::count_open_fds() - fds) + " fds");
    CHECK_SAYING(kept.size() >= 16, std::to_string(kept.size()));
    for (tenon_message* each : kept) {
      CHECK(shows(each, kPatternSeed));
      tenon_message_release(each);
    }
    // The test has released all kept messages, and the borrower goes on.
    Account last(1000);
    victim.send(Message(honest, last).frame());
    last.let_go_of_sent();
    outcome = victim.receive();
    CHECK_SAYING(outcome.ok(), outcome.text());
  });
}

// ---- frames of tokens alone

TEST(HostileAccount, FramesOfTokens) {
  harm([](const Honest& honest, int type) {
    const auto with = [&](const char* what, tenon_status wanted, auto spoil) {
      Account account;
      Frame frame{kTokens, {}, account.fds()};
      Block block{.account = 1, .tokens = {{1, kAccount, 3}}, .slots = {}};
      spoil(&block, &frame);
      if (frame.payload.empty()) frame.payload = block.bytes();
      refuse(honest, type, &account, frame, wanted, what);
    };
    with("with leases", TENON_CORRUPT, [](Block* block, Frame*) { block->slots = {1, 2}; });
    with("with leases that are none", TENON_CORRUPT,
         [](Block* block, Frame*) { block->slots = {kNoLease, kNoLease}; });
    with("of an account that never came", TENON_CORRUPT, [](Block* block, Frame* frame) {
      block->tokens.clear();
      frame->fds.clear();
    });
    with("without an account", TENON_CORRUPT, [](Block* block, Frame*) { block->account = 0; });
    with("without their fds", TENON_CORRUPT, [](Block*, Frame* frame) { frame->fds.clear(); });
    with("with one fd of three", TENON_CORRUPT, [](Block*, Frame* frame) { frame->fds.resize(1); });
    with("with a descriptor", TENON_CORRUPT, [&](Block* block, Frame* frame) {
      frame->payload = block->bytes();
      frame->payload.insert(frame->payload.end(), honest.descriptor.begin(),
                            honest.descriptor.end());
    });
    with("with a byte behind them", TENON_CORRUPT, [](Block* block, Frame* frame) {
      frame->payload = block->bytes();
      frame->payload.push_back(0);
    });
    with("cut short", TENON_CORRUPT, [](Block* block, Frame* frame) {
      frame->payload = block->bytes();
      frame->payload.resize(20);
    });
    // The borrower did not ask for the last fd, and closes it.
    with("with an fd too many", TENON_WOULD_BLOCK,
         [](Block*, Frame* frame) { frame->fds.push_back(frame->fds[0]); });
  });
}

// Frames that are no message come as fast as they can be sent. A receive still ends when its time
// is over.
TEST(HostileAccount, TokensWithoutEndDoNotHoldAReceive) {
  harm([](const Honest& honest, int type) {
    Victim victim(type);
    Account account;
    victim.send(Message(honest, account).frame());
    account.let_go_of_sent();
    CHECK(victim.receive().ok());
    std::atomic<bool> over{false};
    std::thread noise([&] {
      const Frame frame{
          kTokens, Block{.account = 1, .tokens = {{77, kForgotten, 0}}, .slots = {}}.bytes(), {}};
      // Many frames are sent at once, where the socket allows it, so that sending takes less time
      // than reading.
      const uint64_t at_once = type == SOCK_STREAM ? 500 : 1;
      Packet packet;
      for (uint64_t i = 0; i < at_once; ++i) {
        const Bytes bytes = cut(frame, 0).front().bytes;
        packet.bytes.insert(packet.bytes.end(), bytes.begin(), bytes.end());
      }
      const size_t each = packet.bytes.size() / at_once;
      for (uint64_t sequence = victim.sequence; !over; sequence += at_once) {
        for (uint64_t i = 0; i < at_once; ++i) {
          const uint64_t number = sequence + i;
          std::memcpy(packet.bytes.data() + i * each + 24, &number, sizeof number);
        }
        for (size_t gone = 0; !over && gone < packet.bytes.size();) {
          const ssize_t now = ::send(victim.other, packet.bytes.data() + gone,
                                     packet.bytes.size() - gone, MSG_DONTWAIT | MSG_NOSIGNAL);
          gone += now > 0 ? static_cast<size_t>(now) : 0;
        }
      }
    });
    for (const int64_t timeout : {int64_t{0}, 20 * kMs, int64_t{0}, 20 * kMs}) {
      tenon_message* message = nullptr;
      const tenon_wait wait = fault::wait_ns(timeout);
      const auto begin = std::chrono::steady_clock::now();
      const Outcome outcome = CALL(tenon_recv(victim.connection, &wait, &message, err));
      CHECK_SAYING(outcome.status == (timeout == 0 ? TENON_WOULD_BLOCK : TENON_TIMEOUT),
                   outcome.text());
      CHECK(std::chrono::steady_clock::now() - begin <
            std::chrono::seconds(fault::kWatchdogSeconds / 4));
    }
    over = true;
    noise.join();
  });
}

// ---- a page that changes

// The lender overwrites the page that it sent, punches holes in it, and does not read the bell. The
// borrower's bytes stay right, no release hangs, and no signal kills the borrower.
TEST(HostileAccount, ItsPageChangesUnderTheBorrowersHands) {
  const uint64_t seed = test_seed();
  harm([seed](const Honest& honest, int type) {
    Victim victim(type);
    Account account;
    victim.send(Frame{kTokens,
                      Block{.account = 1, .tokens = {{1, kAccount, 3}}, .slots = {}}.bytes(),
                      account.fds()});
    account.let_go_of_sent();
    // The page was right when the borrower checked it.
    CHECK_EQ(victim.receive().status, TENON_WOULD_BLOCK);
    std::atomic<bool> over{false};
    std::vector<std::thread> noise;
    for (uint64_t i = 0; i < 3; ++i) {
      noise.emplace_back([&, i] {
        std::mt19937_64 random(seed + i);
        void* const page = mmap(nullptr, page_nbytes(4096), PROT_READ | PROT_WRITE, MAP_SHARED,
                                account.own_page, 0);
        REQUIRE(page != MAP_FAILED);
        while (!over) {
          for (int n = 0; n < 1000; ++n)
            __atomic_store_n(static_cast<uint64_t*>(page) + random() % (page_nbytes(4096) / 8),
                             random(), __ATOMIC_RELAXED);
          if (i == 0)
            (void)fallocate(account.own_page, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                            page_nbytes(4096));
        }
        munmap(page, page_nbytes(4096));
      });
    }
    for (uint32_t round = 0; round < 300; ++round) {
      if (round == 150) let_go(&account.listener);
      Message message(honest, account);
      message.block.tokens.clear();
      message.token_fds.clear();
      message.block.slots = {round, 4095 - round};
      victim.send(message.frame());
      tenon_message* got = nullptr;
      REQUIRE(victim.receive(&got).ok());
      CHECK(shows(got, kPatternSeed));
      tenon_message_release(got);
    }
    over = true;
    for (std::thread& each : noise) each.join();
  });
}

}  // namespace
}  // namespace leases::raw
