// These tests use a ledger and a holding in one process. They check which events end a lease and
// which do not.
#include "memory/ledger.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "memory/lease.h"
#include "memory/lease_page.h"
#include "os/memfd.h"
#include "support/must.h"
#include "unit/memory/lent_object.h"
#include "unit/memory/standing.h"

namespace tenon::memory {
namespace {

using test::wait_until;

struct Both {
  Ref<Ledger> ledger;
  os::Fd token;
  os::Fd page;
  os::Fd bell;

  Both() {
    Ref<Ledger> made = must(Ledger::create({getpid(), getuid()}, true));
    ledger = std::move(made);
    EXPECT_TRUE(ledger->has_fds());
    // The message would do this: the borrower gets copies of the fds, and the lender closes its
    // own.
    token = os::duplicate(ledger->fds().token.get()).value();
    page = os::duplicate(ledger->fds().page.get()).value();
    bell = os::duplicate(ledger->fds().bell.get()).value();
    (void)ledger->take_fds();
  }
  Ref<Holding> open() { return must(Holding::open(&token, &page, &bell)); }
  std::vector<uint32_t> grant(LentObject* object, size_t count) {
    const std::vector<Leased*> objects(count, object);
    std::vector<uint32_t> slots(count);
    EXPECT_TRUE(ledger->grant(objects, slots.data()).is_ok());
    return slots;
  }
};

bool drained_to(const Both& both, uint64_t leases) {
  return wait_until([&] {
    (void)both.ledger->drain();
    return both.ledger->totals().leases == leases;
  });
}

TEST(Ledger, AHangUpEndsAll) {
  const auto object = Ref<LentObject>::adopt(new LentObject());
  Both both;
  (void)both.grant(object.get(), 10'000);
  EXPECT_EQ(object->leases, 10'000);
  EXPECT_EQ(both.ledger->totals().leases, 10'000U);
  EXPECT_EQ(both.ledger->totals().nbytes, 1'000'000U);
  EXPECT_TRUE(has_leases());
  {
    const Ref<Holding> holding = both.open();
    EXPECT_FALSE(both.ledger->has_ended());
  }
  EXPECT_TRUE(wait_until([&] { return both.ledger->has_ended() && object->leases == 0; }));
  EXPECT_EQ(both.ledger->totals().leases, 0U);
  EXPECT_TRUE(wait_until([&] { return object->strong_count() == 1; }));
  Leased* one = object.get();
  uint32_t slot = 0;
  EXPECT_EQ(both.ledger->grant(std::span(&one, 1), &slot).code(), Code::kPeerGone);
}

TEST(Ledger, TokensThatNeverLeftHangUp) {
  const auto object = Ref<LentObject>::adopt(new LentObject());
  Both both;
  (void)both.grant(object.get(), 3);
  both.token.reset();
  EXPECT_TRUE(wait_until([&] { return object->leases == 0; }));
}

TEST(Ledger, BitsEndSingleLeases) {
  const auto object = Ref<LentObject>::adopt(new LentObject());
  Both both;
  const std::vector<uint32_t> slots = both.grant(object.get(), 5000);
  const Ref<Holding> holding = both.open();
  EXPECT_EQ(holding->slots(), lease_page::kSlots);
  {
    const Lease one(holding, slots[4999]);
    const Lease other(holding, slots[7]);
    EXPECT_EQ(both.ledger->drain(), 0U);
  }
  // The service thread watches the new borrower too, and may drain the page first.
  EXPECT_TRUE(drained_to(both, 4998));
  EXPECT_TRUE(wait_until([&] { return object->leases == 4998; }));
  EXPECT_EQ(both.ledger->drain(), 0U);
  EXPECT_EQ(both.ledger->totals().leases, 4998U);
  EXPECT_EQ(both.ledger->totals().granted, 5000U);
}

TEST(Ledger, BitsOfOneWordAreGivenBackTogether) {
  const auto object = Ref<LentObject>::adopt(new LentObject());
  Both both;
  const std::vector<uint32_t> slots = both.grant(object.get(), 200);
  const Ref<Holding> holding = both.open();
  {
    const GivingBack together;
    for (size_t i = 0; i < 130; ++i) const Lease gone(holding, slots[i]);
    EXPECT_TRUE(drained_to(both, 72)) << "two words are full";
    {
      const GivingBack::Pause pause;
      EXPECT_TRUE(drained_to(both, 70));
      const Lease gone(holding, slots[130]);
    }
    EXPECT_TRUE(drained_to(both, 69)) << "in a pause each at once";
    {
      const Lease gone(holding, slots[131]);
    }
    {
      const Lease of_a_family(holding, slots[132], kForking);
    }
    EXPECT_EQ(both.ledger->drain(), 0U);
  }
  EXPECT_TRUE(drained_to(both, 68));
  EXPECT_TRUE(wait_until([&] { return object->leases == 68; }));
  EXPECT_EQ(holding->strong_count(), 1U);
}

TEST(Ledger, SlotsAreUsedAgain) {
  const auto object = Ref<LentObject>::adopt(new LentObject());
  Both both;
  (void)both.grant(object.get(), 10);
  const Ref<Holding> holding = both.open();
  for (int round = 0; round < 1000; ++round) {
    const std::vector<uint32_t> slots = both.grant(object.get(), 3);
    for (const uint32_t slot : slots) EXPECT_LT(slot, 13U);
    for (const uint32_t slot : slots) holding->give_back(slot, fork_mark());
    ASSERT_TRUE(drained_to(both, 10));
  }
  EXPECT_TRUE(wait_until([&] { return object->leases == 10; }));
}

TEST(Ledger, WhatNeverLeftIsTakenBack) {
  const auto object = Ref<LentObject>::adopt(new LentObject());
  Both both;
  const std::vector<uint32_t> slots = both.grant(object.get(), 10);
  both.ledger->take_back(std::span(slots).first(4));
  EXPECT_EQ(object->leases, 6);
  EXPECT_EQ(both.ledger->totals().granted, 6U);
  // Taking the same slots back twice has no effect.
  both.ledger->take_back(std::span(slots).first(4));
  EXPECT_EQ(object->leases, 6);
}

// The borrower owns the page. Whatever it writes there harms only itself.
TEST(Ledger, BitsOfNobodyAreIgnored) {
  const auto object = Ref<LentObject>::adopt(new LentObject());
  const auto other = Ref<LentObject>::adopt(new LentObject());
  Both both;
  Both neighbour;
  (void)neighbour.grant(other.get(), 100);
  const std::vector<uint32_t> slots = both.grant(object.get(), 100);
  const size_t nbytes = lease_page::page_nbytes(lease_page::kSlots);
  auto* const base = static_cast<std::byte*>(
      mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, both.page.get(), 0));
  ASSERT_NE(base, MAP_FAILED);
  // The borrower sets bits of free slots, sets them twice, and sets the bit of a slot that was
  // already given back.
  (void)lease_page::release(base, lease_page::kSlots, 50);
  EXPECT_EQ(both.ledger->drain(), 1U);
  for (const uint32_t slot : {50U, 50U, 101U, 4095U, lease_page::kSlots - 1})
    (void)lease_page::release(base, lease_page::kSlots, slot);
  EXPECT_EQ(both.ledger->drain(), 0U);
  EXPECT_EQ(object->leases, 99);
  // The borrower sets every bit of the page, again and again.
  for (int round = 0; round < 3; ++round) {
    std::memset(base + 64, 0xff, nbytes - 64);
    (void)both.ledger->drain();
    EXPECT_EQ(object->leases, 0);
    (void)both.grant(object.get(), 100);
    (void)both.ledger->drain();
  }
  EXPECT_TRUE(both.ledger->wants_renewal());
  EXPECT_EQ(other->leases, 100);
  EXPECT_EQ(munmap(base, nbytes), 0);
  // The borrower can neither cut the page short under the lender nor seal it.
  EXPECT_NE(ftruncate(both.page.get(), 0), 0);
  EXPECT_NE(fcntl(both.page.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST(Ledger, TheBellEndsLeasesAtOnceWhereSomebodyWaits) {
  const auto object = Ref<LentObject>::adopt(new LentObject());
  Both both;
  const std::vector<uint32_t> slots = both.grant(object.get(), 2);
  const Ref<Holding> holding = both.open();
  both.ledger->always_ring();
  holding->give_back(slots[0], fork_mark());
  EXPECT_TRUE(wait_until([&] { return object->leases == 1; })) << "the service heard no bell";
  EXPECT_EQ(both.ledger->totals().borrower.pid, getpid());
}

TEST(Ledger, NoMoreLeasesThanThePageHas) {
  const auto object = Ref<LentObject>::adopt(new LentObject());
  Both both;
  const std::vector<Leased*> most(size_t{lease_page::kSlots} + 1, object.get());
  std::vector<uint32_t> slots(most.size());
  const Status status = both.ledger->grant(most, slots.data());
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_EQ(object->leases, 0) << "all or none";
  ASSERT_TRUE(both.ledger->grant(std::span(most).first(lease_page::kSlots), slots.data()).is_ok());
  EXPECT_EQ(both.ledger->grant(std::span(most).first(1), slots.data()).code(),
            Code::kResourceExhausted);
  const Ref<Holding> holding = both.open();
  holding->give_back(lease_page::kSlots - 1, fork_mark());
  EXPECT_TRUE(drained_to(both, lease_page::kSlots - 1));
  EXPECT_TRUE(both.ledger->grant(std::span(most).first(1), slots.data()).is_ok());
}

TEST(Ledger, ThreadsGiveBackWhileOthersAreGranted) {
  const auto object = Ref<LentObject>::adopt(new LentObject());
  Both both;
  const Ref<Holding> holding = both.open();
  std::atomic<bool> over{false};
  std::thread drainer([&] {
    while (!over) (void)both.ledger->drain();
  });
  std::vector<std::thread> borrowers;
  for (int id = 0; id < 3; ++id) {
    borrowers.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        for (const uint32_t slot : both.grant(object.get(), 5))
          holding->give_back(slot, fork_mark());
      }
    });
  }
  for (std::thread& each : borrowers) each.join();
  over = true;
  drainer.join();
  EXPECT_TRUE(drained_to(both, 0));
  EXPECT_TRUE(wait_until([&] { return object->leases == 0; }));
  EXPECT_LT(both.grant(object.get(), 1).front(), 7500U);
}

// ---- what a lender may send

os::Fd memory(uint64_t nbytes, int seals) {
  os::Fd fd(memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(nbytes)), 0);
  lease_page::Header header{};
  header.magic = lease_page::kMagic;
  header.version = lease_page::kVersion;
  header.slots = lease_page::kSlotsUnit;
  if (nbytes >= sizeof header)
    EXPECT_EQ(pwrite(fd.get(), &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
  if (seals != 0) EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;
const uint64_t kUnitNbytes = lease_page::page_nbytes(lease_page::kSlotsUnit);

Code code_of(os::Fd token, os::Fd page, os::Fd bell) {
  Result<Ref<Holding>> made = Holding::open(&token, &page, &bell);
  if (made.is_ok()) return Code::kOk;
  EXPECT_FALSE(made.status().message().empty());
  EXPECT_TRUE(token.is_open()) << "taken over by a call that failed";
  return made.status().code();
}

os::Fd with_word(size_t offset, uint32_t value) {
  os::Fd fd = memory(kUnitNbytes, kSizeSeals);
  EXPECT_EQ(pwrite(fd.get(), &value, sizeof value, static_cast<off_t>(offset)), 4);
  return fd;
}

TEST(Holding, RefusesWhatIsNoTokenPageOrBell) {
  Both good;
  const auto token = [&] { return os::duplicate(good.token.get()).value(); };
  const auto bell = [&] { return os::duplicate(good.bell.get()).value(); };
  EXPECT_EQ(code_of(token(), memory(kUnitNbytes, kSizeSeals), bell()), Code::kOk);
  EXPECT_EQ(code_of(os::Fd(open("/dev/null", O_RDWR | O_CLOEXEC)), memory(kUnitNbytes, kSizeSeals),
                    bell()),
            Code::kCorrupt);
  EXPECT_EQ(code_of(bell(), memory(kUnitNbytes, kSizeSeals), bell()), Code::kCorrupt);
  EXPECT_EQ(code_of(token(), memory(kUnitNbytes, kSizeSeals), token()), Code::kCorrupt);
  EXPECT_EQ(code_of(token(), memory(kUnitNbytes, kSizeSeals), os::Fd()), Code::kCorrupt);
  EXPECT_EQ(code_of(token(), memory(kUnitNbytes, 0), bell()), Code::kCorrupt);
  EXPECT_EQ(code_of(token(), memory(kUnitNbytes, F_SEAL_GROW), bell()), Code::kCorrupt);
  EXPECT_EQ(code_of(token(), memory(kUnitNbytes, kSizeSeals | F_SEAL_WRITE), bell()),
            Code::kCorrupt);
  EXPECT_EQ(code_of(token(), memory(0, kSizeSeals), bell()), Code::kCorrupt);
  EXPECT_EQ(code_of(token(), memory(4096, kSizeSeals), bell()), Code::kCorrupt);
  EXPECT_EQ(code_of(token(), memory(kUnitNbytes + 4096, kSizeSeals), bell()), Code::kCorrupt);
  EXPECT_EQ(code_of(token(), with_word(0, 0), bell()), Code::kCorrupt);
  EXPECT_EQ(code_of(token(), with_word(8, 2), bell()), Code::kIncompatible);
  EXPECT_EQ(code_of(token(), with_word(16, 1), bell()), Code::kIncompatible);
  for (const uint32_t slots :
       {0U, 1U, 8192U, lease_page::kMostSlots + lease_page::kSlotsUnit, UINT32_MAX}) {
    EXPECT_EQ(code_of(token(), with_word(12, slots), bell()), Code::kCorrupt) << slots;
  }
  EXPECT_EQ(code_of(token(), os::Fd(open("/dev/null", O_RDWR | O_CLOEXEC)), bell()),
            Code::kCorrupt);
}

TEST(Holding, InheritedTokensKeepTheLenderWaiting) {
  const auto object = Ref<LentObject>::adopt(new LentObject());
  Both upstream;
  (void)upstream.grant(object.get(), 1);
  Both both;
  const Ref<Holding> holding = both.open();
  std::shared_ptr<LeaseToken> token = make_token(std::move(upstream.token));
  holding->inherit(token);
  holding->inherit(token);
  EXPECT_EQ(holding->tokens().size(), 2U);
  const LeaseToken* const name = token.get();
  token = nullptr;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(object->leases, 1);
  holding->disinherit(name);
  EXPECT_TRUE(wait_until([&] { return object->leases == 0; }));
}

TEST(Holding, AForkedChildUsesTheTokensWhileThreadsOfItsParentDo) {
  Both both;
  const Ref<Holding> holding = both.open();
  const std::jthread thread([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) EXPECT_EQ(holding->tokens().size(), 1U);
  });
  for (int i = 0; i < 50; ++i) {
    test::ForkChild child([&](int) { ::_exit(static_cast<int>(holding->tokens().size())); });
    ASSERT_EQ(child.reap(), 1) << "fork " << i;
  }
}

}  // namespace
}  // namespace tenon::memory
