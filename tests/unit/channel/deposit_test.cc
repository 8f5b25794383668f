// These tests exchange deposits between processes. They check what a receiver fetches, what is
// given back, and what is left when a process dies.
#include "channel/deposit.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "channel/deposit_keeper.h"
#include "channel/deposit_limits.h"
#include "channel/fetch.h"
#include "channel/fetch_pieces.h"
#include "channel/ticket.h"
#include "memory/ledger.h"
#include "os/local_socket.h"
#include "support/mappings.h"
#include "support/must.h"
#include "support/wait_until.h"
#include "tensor/tensor.h"

namespace tenon::channel {
namespace {

using storage::Storage;
using tensor::Message;
using test::wait_until;

Ref<tensor::Tensor> tensor_of(const Ref<Storage>& storage) {
  const auto size = static_cast<int64_t>(storage->nbytes());
  constexpr int64_t kStride = 1;
  return tensor::Tensor::create(storage, {{1, 8, 1}, {&size, 1}, {&kStride, 1}, 0}, 0).value();
}

Ref<Storage> filled(uint64_t nbytes, unsigned char byte) {
  Ref<Storage> storage = Storage::create({}, nbytes).value();
  std::memset(storage->data_mut().value(), byte, nbytes);
  return storage;
}

std::vector<std::byte> ticket_of(const std::vector<Ref<Storage>>& storages) {
  Message message;
  for (const Ref<Storage>& each : storages) {
    const Ref<tensor::Tensor> one = tensor_of(each);
    tensor::Tensor* const tensor = one.get();
    EXPECT_TRUE(message.add({&tensor, 1}, nullptr, memory::Access::kAuto).is_ok());
  }
  Result<std::vector<std::byte>> ticket = deposit(message);
  EXPECT_TRUE(ticket.is_ok()) << ticket.status().message();
  return ticket.is_ok() ? std::move(ticket).value() : std::vector<std::byte>();
}

Result<std::unique_ptr<Message>> try_fetch(const std::vector<std::byte>& ticket) {
  return fetch(ticket, {}, os::Wait{.timeout_ns = 10'000'000'000});
}

// A child process that receives tickets over a socket. The same socket carries signals of one
// letter in both directions.
class Receiver {
 public:
  explicit Receiver(const std::function<void(Receiver&)>& body) {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_), 0);
    pid_ = fork();
    if (pid_ != 0) {
      close(ends_[1]);
      return;
    }
    close(ends_[0]);
    ends_[0] = ends_[1];
    body(*this);
    std::_Exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;
  ~Receiver() { close(ends_[0]); }

  void send(const std::vector<std::byte>& bytes) {
    EXPECT_EQ(write(ends_[0], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  std::vector<std::byte> receive() {
    std::vector<std::byte> room(65536);
    const ssize_t got = read(ends_[0], room.data(), room.size());
    if (got <= 0) std::_Exit(0);
    room.resize(static_cast<size_t>(got));
    return room;
  }
  void say(char word) { EXPECT_EQ(write(ends_[0], &word, 1), 1); }
  void expect(char word) {
    char got = 0;
    EXPECT_EQ(read(ends_[0], &got, 1), 1);
    EXPECT_EQ(got, word);
  }
  void end() {
    int status = -1;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    EXPECT_EQ(status, 0);
  }
  void kill() {
    EXPECT_EQ(::kill(pid_, SIGKILL), 0);
    EXPECT_EQ(waitpid(pid_, nullptr, 0), pid_);
  }

 private:
  int ends_[2] = {-1, -1};
  pid_t pid_ = -1;
};

bool all_given_back() {
  return wait_until([] {
    (void)memory::settle_ledgers();
    return !memory::has_leases();
  });
}

TEST(Deposit, IsFetchedOnceAndGivenBack) {
  Receiver receiver([](Receiver& self) {
    const std::vector<std::byte> ticket = self.receive();
    {
      std::unique_ptr<Message> message = must(try_fetch(ticket));
      ASSERT_EQ(message->items().size(), 2U);
      const Storage& one = *message->items()[0].tensor->storage();
      EXPECT_EQ(one.nbytes(), 5000U);
      EXPECT_EQ(one.data()[4999], std::byte{7});
      EXPECT_EQ(message->items()[1].tensor->storage()->data()[0], std::byte{8});
      EXPECT_EQ(try_fetch(ticket).status().code(), Code::kNotFound);
      self.say('h');
      self.expect('g');
    }
    self.say('d');
    self.expect('e');
  });
  {
    const std::vector<Ref<Storage>> storages{filled(5000, 7), filled(100, 8)};
    receiver.send(ticket_of(storages));
  }
  receiver.expect('h');
  (void)memory::settle_ledgers();
  EXPECT_TRUE(memory::has_leases());
  receiver.say('g');
  receiver.expect('d');
  EXPECT_TRUE(all_given_back());
  receiver.say('e');
  receiver.end();
}

TEST(Deposit, EachStorageIsGivenBackByItself) {
  constexpr int kRounds = 50;
  Receiver receiver([](Receiver& self) {
    std::vector<Ref<tensor::Tensor>> labels;
    for (int i = 0; i < kRounds; ++i) {
      Result<std::unique_ptr<Message>> message = try_fetch(self.receive());
      ASSERT_TRUE(message.is_ok()) << message.status().message();
      labels.push_back(message.value()->items()[1].tensor);
      message = std::unique_ptr<Message>();
      self.say('n');
    }
    self.expect('e');
  });
  for (int i = 0; i < kRounds; ++i) {
    receiver.send(ticket_of({filled(1 << 20, 1), filled(80, 2)}));
    receiver.expect('n');
    (void)memory::settle_ledgers();
    const std::vector<memory::Ledger::Totals> totals = memory::ledger_totals();
    ASSERT_EQ(totals.size(), 1U);
    EXPECT_EQ(totals[0].leases, static_cast<uint64_t>(i + 1));
    EXPECT_LT(totals[0].nbytes, 1U << 20);
  }
  receiver.say('e');
  receiver.end();
  EXPECT_TRUE(all_given_back());
}

TEST(Deposit, AKilledReceiverGivesBack) {
  Receiver receiver([](Receiver& self) {
    Result<std::unique_ptr<Message>> message = try_fetch(self.receive());
    ASSERT_TRUE(message.is_ok());
    self.say('h');
    self.expect('n');
  });
  receiver.send(ticket_of({filled(5000, 7)}));
  receiver.expect('h');
  EXPECT_TRUE(memory::has_leases());
  receiver.kill();
  EXPECT_TRUE(all_given_back());
}

TEST(Deposit, WhatNobodyFetchedIsTakenBack) {
  const std::vector<std::byte> ticket = ticket_of({filled(5000, 7)});
  EXPECT_TRUE(memory::has_leases());
  EXPECT_TRUE(withdraw(ticket).value());
  EXPECT_FALSE(memory::has_leases());
  EXPECT_FALSE(withdraw(ticket).value());
  EXPECT_EQ(try_fetch(ticket).status().code(), Code::kNotFound);
  Receiver receiver([](Receiver& self) {
    EXPECT_EQ(try_fetch(self.receive()).status().code(), Code::kNotFound);
    self.say('n');
  });
  receiver.send(ticket);
  receiver.expect('n');
  receiver.end();
}

TEST(Deposit, ItsOwnLenderFetchesTheSameStorage) {
  const Ref<Storage> storage = filled(5000, 7);
  const std::vector<std::byte> ticket = ticket_of({storage});
  std::unique_ptr<Message> message = must(try_fetch(ticket));
  EXPECT_EQ(message->items()[0].tensor->storage().get(), storage.get());
  EXPECT_FALSE(memory::has_leases());
  EXPECT_EQ(try_fetch(ticket).status().code(), Code::kNotFound);
}

TEST(Deposit, OfAKilledLenderOneThatMetItStillFetches) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  Receiver lender([](Receiver& self) {
    self.send(ticket_of({filled(5000, 1)}));
    self.send(ticket_of({filled(5000, 2)}));
    self.expect('n');
  });
  const std::vector<std::byte> first = lender.receive();
  const std::vector<std::byte> second = lender.receive();
  Result<std::unique_ptr<Message>> message = try_fetch(first);
  ASSERT_TRUE(message.is_ok()) << message.status().message();
  lender.kill();
  std::unique_ptr<Message> after = must(try_fetch(second));
  EXPECT_EQ(after->items()[0].tensor->storage()->data()[4999], std::byte{2});
  EXPECT_EQ(message.value()->items()[0].tensor->storage()->data()[0], std::byte{1});
}

std::vector<std::byte> joined(const std::vector<std::vector<std::byte>>& parts) {
  std::vector<std::byte> bytes;
  for (const std::vector<std::byte>& part : parts) {
    bytes.push_back(static_cast<std::byte>(part.size()));
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}
std::vector<std::vector<std::byte>> parted(const std::vector<std::byte>& bytes) {
  std::vector<std::vector<std::byte>> parts;
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = static_cast<size_t>(bytes[at]);
    parts.emplace_back(bytes.begin() + static_cast<ptrdiff_t>(at + 1),
                       bytes.begin() + static_cast<ptrdiff_t>(at + 1 + size));
    at += 1 + size;
  }
  return parts;
}

constexpr os::Wait kPatience{.timeout_ns = 10'000'000'000};

std::vector<std::byte> pieces_of(const std::vector<Ref<Storage>>& storages) {
  std::unique_ptr<Deposit> made = must(Deposit::create());
  std::vector<std::vector<std::byte>> parts{made->head()};
  for (const Ref<Storage>& each : storages) {
    std::vector<std::byte> part = must(made->add(each, memory::Access::kAuto));
    parts.push_back(std::move(part));
  }
  return joined(parts);
}

TEST(Deposit, InPiecesWhatIsNotOpenedIsGivenBack) {
  Receiver receiver([](Receiver& self) {
    const std::vector<std::vector<std::byte>> parts = parted(self.receive());
    Ref<Storage> kept;
    {
      std::unique_ptr<Fetched> fetched = must(Fetched::create(parts[0], {}, kPatience));
      EXPECT_EQ(Fetched::create(parts[0], {}, kPatience).status().code(), Code::kNotFound);
      Ref<Storage> second = must(fetched->open(parts[2], kPatience));
      kept = std::move(second);
      EXPECT_EQ(kept->data()[99], std::byte{8});
      EXPECT_EQ(fetched->open(parts[2], kPatience).status().code(), Code::kCorrupt);
      EXPECT_EQ(fetched->open(parts[4], kPatience).value()->nbytes(), 0U);
      // This record belongs to another message.
      EXPECT_EQ(fetched->open(parts[5], kPatience).status().code(), Code::kCorrupt);
    }
    self.say('h');
    self.expect('g');
    kept = nullptr;
    self.say('d');
    self.expect('e');
  });
  const std::vector<std::byte> other = pieces_of({filled(200, 1)});
  std::vector<std::vector<std::byte>> parts = parted(
      pieces_of({filled(5000, 7), filled(100, 8), filled(300, 9), Storage::create({}, 0).value()}));
  parts.push_back(parted(other)[1]);
  receiver.send(joined(parts));
  receiver.expect('h');
  EXPECT_TRUE(wait_until([] {
    (void)memory::settle_ledgers();
    const std::vector<memory::Ledger::Totals> totals = memory::ledger_totals();
    return totals.size() == 1 && totals[0].leases == 1 && totals[0].nbytes < 1000;
  }));
  receiver.say('g');
  receiver.expect('d');
  EXPECT_TRUE(withdraw(parted(other)[0]).value());
  EXPECT_TRUE(all_given_back());
  receiver.say('e');
  receiver.end();
}

TEST(Deposit, InPiecesItsOwnLenderFetchesTheSameStorages) {
  const Ref<Storage> storage = filled(5000, 7);
  const std::vector<std::vector<std::byte>> parts = parted(pieces_of({storage, filled(100, 8)}));
  Result<std::unique_ptr<Fetched>> fetched = Fetched::create(parts[0], {}, kPatience);
  ASSERT_TRUE(fetched.is_ok()) << fetched.status().message();
  EXPECT_EQ(fetched.value()->open(parts[1], kPatience).value().get(), storage.get());
  // Nobody else holds this storage any more, so the message has kept it.
  EXPECT_EQ(fetched.value()->open(parts[2], kPatience).value()->data()[99], std::byte{8});
  fetched = std::unique_ptr<Fetched>();
  EXPECT_FALSE(memory::has_leases());
}

TEST(Deposit, InPiecesOneThatIsWithdrawn) {
  Result<std::unique_ptr<Deposit>> made = Deposit::create();
  ASSERT_TRUE(made.value()->add(filled(100, 1), memory::Access::kAuto).is_ok());
  EXPECT_TRUE(made.value()->withdraw());
  EXPECT_FALSE(memory::has_leases());
  EXPECT_EQ(made.value()->add(filled(100, 1), memory::Access::kAuto).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(
      made.value()->add(Storage::create({}, 0).value(), memory::Access::kAuto).status().code(),
      Code::kInvalidArgument);
  EXPECT_EQ(Fetched::create(made.value()->head(), {}, kPatience).status().code(), Code::kNotFound);
}

// Runs the body with these limits in a process of its own, because the limits stay as long as the
// process.
void with_limits(const DepositLimits& limits, const std::function<void()>& body) {
  Receiver child([&](Receiver&) {
    ASSERT_TRUE(set_deposit_limits(limits).is_ok());
    body();
  });
  child.end();
}

TEST(Deposit, TheOldestGoWhenTooManyBytesWait) {
  with_limits({.nbytes = 10'000}, [] {
    const std::vector<std::byte> first = ticket_of({filled(4000, 1)});
    const std::vector<std::byte> second = ticket_of({filled(4000, 2)});
    EXPECT_EQ(deposit_stats().messages, 2U);
    const std::vector<std::byte> third = ticket_of({filled(3000, 3), filled(1000, 4)});
    EXPECT_EQ(deposit_stats().messages, 2U);
    EXPECT_EQ(deposit_stats().expired, 1U);
    EXPECT_EQ(try_fetch(first).status().code(), Code::kNotFound);
    EXPECT_TRUE(try_fetch(second).is_ok());
    // A message that was fetched no longer counts.
    const std::vector<std::byte> fourth = ticket_of({filled(6000, 5)});
    EXPECT_TRUE(try_fetch(third).is_ok());
    EXPECT_TRUE(try_fetch(fourth).is_ok());
    // A message that is larger than the limit by itself is lent all the same.
    const std::vector<std::vector<std::byte>> pieces =
        parted(pieces_of({filled(8000, 6), filled(8000, 7)}));
    EXPECT_TRUE(Fetched::create(pieces[0], {}, kPatience).is_ok());
    EXPECT_EQ(deposit_stats().messages, 0U);
    EXPECT_EQ(deposit_stats().expired, 1U);
  });
}

TEST(Deposit, WhatWaitsTooLongGoes) {
  with_limits({.age_ns = 50'000'000}, [] {
    const std::vector<std::byte> ticket = ticket_of({filled(5000, 1)});
    EXPECT_TRUE(wait_until([] { return deposit_stats().expired == 1; }));
    EXPECT_FALSE(memory::has_leases());
    EXPECT_EQ(try_fetch(ticket).status().code(), Code::kNotFound);
    // The timer works again after a time in which no deposit waited.
    (void)ticket_of({filled(5000, 1)});
    EXPECT_TRUE(wait_until([] { return deposit_stats().expired == 2; }));
  });
}

TEST(Deposit, ALoweredAgeAppliesWithoutAnotherDeposit) {
  with_limits({.age_ns = 3'600'000'000'000}, [] {
    (void)ticket_of({filled(5000, 1)});
    ASSERT_TRUE(set_deposit_limits({.age_ns = 50'000'000}).is_ok());
    EXPECT_TRUE(wait_until([] { return deposit_stats().expired == 1; }));
    // The tick of the first limit is still due, and does not hold back the one of this message.
    (void)ticket_of({filled(5000, 2)});
    EXPECT_TRUE(wait_until([] { return deposit_stats().expired == 2; }));
    // A limit that is raised before the tick comes keeps the message.
    ASSERT_TRUE(set_deposit_limits({.age_ns = 1'000'000'000}).is_ok());
    (void)ticket_of({filled(5000, 3)});
    ASSERT_TRUE(set_deposit_limits({.age_ns = INT64_MAX}).is_ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    EXPECT_EQ(deposit_stats().messages, 1U);
    EXPECT_EQ(deposit_stats().expired, 2U);
    ASSERT_TRUE(set_deposit_limits({.age_ns = 1}).is_ok());
    EXPECT_TRUE(wait_until([] { return deposit_stats().expired == 3; }));
  });
}

TEST(Deposit, OneSegmentTooMany) {
  with_limits({.segments = 2}, [] {
    const auto isolated = [] { return Storage::create({.isolated = true}, 5000).value(); };
    const std::vector<std::byte> first = ticket_of({isolated(), isolated()});
    Message message;
    const Ref<tensor::Tensor> one = tensor_of(isolated());
    tensor::Tensor* const tensor = one.get();
    ASSERT_TRUE(message.add({&tensor, 1}, nullptr, memory::Access::kAuto).is_ok());
    const Result<std::vector<std::byte>> refused = deposit(message);
    EXPECT_EQ(refused.status().code(), Code::kResourceExhausted);
    EXPECT_EQ(refused.status().info()->details[0].value, "max_unfetched_segments");
    EXPECT_EQ(deposit_stats().segments, 2U);
    EXPECT_TRUE(try_fetch(first).is_ok());
    EXPECT_TRUE(deposit(message).is_ok());
    EXPECT_EQ(deposit_stats().segments, 1U);
  });
}

TEST(Deposit, AChildOfForkAddsNothingToItsParents) {
  std::unique_ptr<Deposit> made = must(Deposit::create());
  Receiver child([&](Receiver&) {
    EXPECT_EQ(made->add(filled(100, 1), memory::Access::kAuto).status().code(),
              Code::kInvalidArgument);
    EXPECT_FALSE(made->withdraw());
    EXPECT_EQ(deposit_stats().messages, 0U);
  });
  child.end();
  EXPECT_EQ(deposit_stats().messages, 1U);
  EXPECT_TRUE(made->withdraw());
}

// Returns the path of a ticket's socket. The path begins behind the 64 bytes of the ticket's head.
std::string socket_of(const std::vector<std::byte>& ticket) {
  uint32_t nbytes = 0;
  std::memcpy(&nbytes, ticket.data() + 56, sizeof nbytes);
  return {reinterpret_cast<const char*>(ticket.data()) + 64, nbytes};
}

KeepOptions keep_options() {
  KeepOptions options;
  options.ns = 20'000'000'000;
  options.program = getenv("TENON_TEST_MANAGER");
  return options;
}

// What a lender left that has ended in order: a whole message and one in pieces, neither of which
// was fetched.
struct Ended {
  std::vector<std::byte> whole;
  std::vector<std::vector<std::byte>> pieces;
};
Ended ended_lender(const KeepOptions& options) {
  Receiver lender([&](Receiver& self) {
    self.send(ticket_of({filled(5000, 1), filled(300, 2)}));
    self.send(pieces_of({filled(5000, 3), filled(100, 4)}));
    Result<size_t> kept = hand_over_deposits(options);
    EXPECT_TRUE(kept.is_ok()) << kept.status().message();
    if (kept.is_ok()) EXPECT_EQ(kept.value(), 2U);
  });
  Ended ended;
  ended.whole = lender.receive();
  ended.pieces = parted(lender.receive());
  lender.end();
  return ended;
}

// Each segment and each page that came from another process is a mapping of a memfd.
TEST(Deposit, AGoneLendersMemoryIsLetGoWhenAnotherLenderIsMet) {
  const auto lend = [](Receiver& self) {
    self.send(ticket_of({filled(5000, 1)}));
    self.send(ticket_of({filled(5000, 2)}));
    (void)self.receive();
  };
  Receiver gone(lend);
  Receiver gone_with_unfetched(lend);
  Receiver third(lend);  // forked now, because a forked process connects to each lender anew
  EXPECT_TRUE(try_fetch(gone.receive()).is_ok());
  const long with_one = count_memfd_mappings();
  EXPECT_TRUE(try_fetch(gone.receive()).is_ok());
  EXPECT_TRUE(try_fetch(gone_with_unfetched.receive()).is_ok());
  const std::vector<std::byte> unfetched = gone_with_unfetched.receive();
  const long with_two = count_memfd_mappings();
  EXPECT_GT(with_two, with_one);
  gone.kill();
  gone_with_unfetched.kill();
  EXPECT_TRUE(try_fetch(third.receive()).is_ok());
  EXPECT_EQ(count_memfd_mappings(), with_two);
  const Result<std::unique_ptr<Message>> late = try_fetch(unfetched);
  EXPECT_TRUE(late.is_ok()) << late.status().message();
  third.kill();
}

TEST(Deposit, AKeeperServesWhatAnEndedLenderLeft) {
  const Ended ended = ended_lender(keep_options());
  EXPECT_EQ(access(socket_of(ended.whole).c_str(), F_OK), 0);
  Result<std::unique_ptr<Message>> message = try_fetch(ended.whole);
  ASSERT_TRUE(message.is_ok()) << message.status().message();
  EXPECT_EQ(message.value()->items()[1].tensor->storage()->data()[299], std::byte{2});
  EXPECT_EQ(try_fetch(ended.whole).status().code(), Code::kNotFound);
  {
    std::unique_ptr<Fetched> fetched = must(Fetched::create(ended.pieces[0], {}, kPatience));
    // The message is claimed and not opened yet, so the keeper waits.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    Ref<Storage> second = must(fetched->open(ended.pieces[2], kPatience));
    EXPECT_EQ(second->data()[99], std::byte{4});
  }
  EXPECT_TRUE(wait_until([&] { return access(socket_of(ended.whole).c_str(), F_OK) != 0; }));
}

// Returns the ticket of a message whose lender seems to listen at another path.
std::vector<std::byte> ticket_with_path(const std::vector<std::byte>& ticket,
                                        const std::string& path) {
  size_t used = 0;
  Ticket read = decode_ticket(ticket, &used).value();
  read.rendezvous = path;
  return encode_ticket(read, std::span(ticket).subspan(used));
}

TEST(Deposit, ALenderThatHangsUpIsAskedAgain) {
  // This happens when a lender ends while a receiver asks, and its keeper takes the socket over.
  const std::vector<std::byte> ticket = ticket_of({filled(5000, 7)});
  const std::string path = socket_of(ticket);
  const std::string other = path + "-ending";
  os::Fd listener =
      must(os::listen_local(os::SocketKind::kPackets, other, 0600, static_cast<gid_t>(-1)));
  Receiver receiver([](Receiver& self) {
    std::unique_ptr<Message> message = must(try_fetch(self.receive()));
    EXPECT_EQ(message->items()[0].tensor->storage()->data()[4999], std::byte{7});
    self.say('d');
  });
  receiver.send(ticket_with_path(ticket, other));
  os::Fd client;
  ASSERT_TRUE(wait_until([&] {
    Result<os::Fd> accepted = os::accept_local(listener.get());
    if (accepted.is_ok()) client = std::move(accepted).value();
    return client.is_open();
  }));
  ASSERT_EQ(rename(path.c_str(), other.c_str()), 0);
  client.reset();
  receiver.expect('d');
  receiver.end();
  ASSERT_EQ(rename(other.c_str(), path.c_str()), 0);
}

TEST(Deposit, ALenderThatAlwaysHangsUpIsGone) {
  const std::vector<std::byte> ticket = ticket_of({filled(5000, 7)});
  const std::string path = socket_of(ticket) + "-silent";
  os::Fd listener =
      must(os::listen_local(os::SocketKind::kPackets, path, 0600, static_cast<gid_t>(-1)));
  std::atomic<bool> is_over = false;
  std::thread lender([&] {
    while (!is_over) (void)os::accept_local(listener.get());
  });
  Receiver receiver([](Receiver& self) {
    EXPECT_EQ(try_fetch(self.receive()).status().code(), Code::kPeerGone);
  });
  receiver.send(ticket_with_path(ticket, path));
  receiver.end();
  is_over = true;
  lender.join();
  EXPECT_EQ(unlink(path.c_str()), 0);
  EXPECT_TRUE(withdraw(ticket).value());
}

TEST(Deposit, AKeeperEndsWithItsFamily) {
  char path[] = "/tmp/tenon-family-XXXXXX";
  const int member = mkostemp(path, O_CLOEXEC);
  ASSERT_EQ(flock(member, LOCK_SH), 0);
  os::Fd other(open(path, O_RDWR | O_CLOEXEC));
  KeepOptions options = keep_options();
  options.family = other.get();
  const Ended ended = ended_lender(options);
  other.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(access(socket_of(ended.whole).c_str(), F_OK), 0);
  close(member);
  EXPECT_TRUE(wait_until([&] { return access(socket_of(ended.whole).c_str(), F_OK) != 0; }));
  EXPECT_EQ(try_fetch(ended.whole).status().code(), Code::kPeerGone);
  unlink(path);
}

TEST(Deposit, AKeeperEndsAfterItsTime) {
  KeepOptions options = keep_options();
  options.ns = 200'000'000;
  const Ended ended = ended_lender(options);
  EXPECT_TRUE(wait_until([&] { return access(socket_of(ended.whole).c_str(), F_OK) != 0; }));
}

TEST(Deposit, WithoutAKeeperItsLenderGoesOnServing) {
  Receiver receiver([](Receiver& self) {
    EXPECT_TRUE(try_fetch(self.receive()).is_ok());
    self.say('d');
  });
  const std::vector<std::byte> ticket = ticket_of({filled(5000, 7)});
  KeepOptions options = keep_options();
  options.program = "/no/such/program";
  EXPECT_FALSE(hand_over_deposits(options).is_ok());
  receiver.send(ticket);
  receiver.expect('d');
  receiver.end();
  EXPECT_TRUE(all_given_back());
}

TEST(Deposit, NoKeeperWhereNothingIsLeft) {
  Receiver lender([](Receiver& self) {
    const std::vector<std::byte> ticket = ticket_of({filled(100, 1)});
    EXPECT_TRUE(try_fetch(ticket).is_ok());
    EXPECT_EQ(hand_over_deposits(keep_options()).value(), 0U);
    EXPECT_NE(access(socket_of(ticket).c_str(), F_OK), 0);
    // Later deposits go into a new depot.
    EXPECT_TRUE(try_fetch(ticket_of({filled(100, 1)})).is_ok());
    self.say('e');
  });
  lender.expect('e');
  lender.end();
}

}  // namespace
}  // namespace tenon::channel
