// These tests use depots with borrowers that write to the claims page through a mapping of their
// own, as another process does. The tests under tests/process/storm kill real receivers.
#include "memory/depot.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

#include "memory/claims_page.h"
#include "memory/lease_page.h"
#include "memory/ledgers.h"
#include "unit/memory/lent_object.h"

namespace tenon::memory {
namespace {

constexpr uint32_t kFirst = 2, kSecond = 3;  // numbers of borrowers; 1 is the depot's own process

struct DepotTest : testing::Test {
  DepotTest() {
    Result<Ref<Depot>> made = Depot::create();
    EXPECT_TRUE(made.is_ok()) << made.status().message();
    depot = std::move(made).value();
    constexpr size_t kNbytes =
        claims_page::page_nbytes(claims_page::kMessages, claims_page::kThings, lease_page::kSlots);
    Result<os::Mapping> mapped =
        os::Mapping::create(os::Mapping::Kind::kSharedWritable, depot->page(), 0, kNbytes);
    EXPECT_TRUE(mapped.is_ok()) << mapped.status().message();
    page = std::move(mapped).value();
    EXPECT_EQ(depot->add_borrower().value(), kFirst);
    EXPECT_EQ(depot->add_borrower().value(), kSecond);
  }

  // A depot lives as long as its process, so it does not end its leases itself.
  ~DepotTest() override {
    for (const Depot::MessageSlot place : places_) depot->end_message(place);
  }

  struct Sent {
    Depot::MessageSlot place;
    std::vector<uint32_t> slots;
  };
  // Deposits and opens a message of `count` leases of `object`.
  Sent deposit(size_t count) {
    const std::vector<Leased*> objects(count, object.get());
    Sent sent{{}, std::vector<uint32_t>(count)};
    Result<Depot::MessageSlot> place = depot->deposit(objects, sent.slots.data());
    EXPECT_TRUE(place.is_ok()) << place.status().message();
    sent.place = place.value();
    depot->open(sent.place);
    places_.push_back(sent.place);
    return sent;
  }
  bool claim(const Sent& sent, uint32_t borrower) {
    return claims_page::claim(page.base(), sent.place.message, sent.place.generation, borrower);
  }
  // Does what the ledger of a borrower does with a bit in that borrower's lease page.
  bool give_back(uint32_t slot, uint32_t borrower) {
    Leased* taken = nullptr;
    {
      const std::lock_guard<std::mutex> lock(depot->mutex());
      taken = depot->take(slot, borrower);
    }
    return end({&taken, taken == nullptr ? size_t{0} : 1}) == 1;
  }
  // Does what the ledger does when the borrower's token hangs up.
  size_t hang_up(uint32_t borrower) {
    std::array<Leased*, 2> batch{};  // less than a message has
    uint32_t cursor = 0;
    size_t ended = 0;
    for (size_t count = batch.size(); count > 0; ended += count) {
      {
        const std::lock_guard<std::mutex> lock(depot->mutex());
        count = depot->take_claimed(borrower, &cursor, batch);
      }
      (void)end({batch.data(), count});
    }
    return ended;
  }

  Ref<Depot> depot;
  os::Mapping page;
  Ref<LentObject> object = Ref<LentObject>::adopt(new LentObject());

 private:
  std::vector<Depot::MessageSlot> places_;

  static size_t end(std::span<Leased* const> objects) {
    end_leases(objects);
    count_leases(-static_cast<int64_t>(objects.size()));
    return objects.size();
  }
};

TEST_F(DepotTest, AReceiverEndsOnlyLeasesOfMessagesThatItClaimed) {
  const Sent one = deposit(2), other = deposit(1), unfetched = deposit(1);
  EXPECT_TRUE(claim(one, kFirst));
  EXPECT_TRUE(claim(other, kSecond));
  EXPECT_FALSE(give_back(one.slots[0], kSecond));
  EXPECT_FALSE(give_back(other.slots[0], kFirst));
  EXPECT_FALSE(give_back(unfetched.slots[0], kFirst));
  EXPECT_FALSE(give_back(depot->end(), kFirst));
  EXPECT_EQ(object->leases, 4);
  EXPECT_TRUE(give_back(one.slots[0], kFirst));
  EXPECT_FALSE(give_back(one.slots[0], kFirst));  // a second bit for one slot
  EXPECT_TRUE(give_back(other.slots[0], kSecond));
  EXPECT_EQ(object->leases, 2);
}

TEST_F(DepotTest, AHangUpEndsTheLeasesOfThatReceiverAlone) {
  const Sent one = deposit(5), other = deposit(3), third = deposit(1), unfetched = deposit(1);
  EXPECT_TRUE(claim(one, kFirst));
  EXPECT_TRUE(claim(other, kSecond));
  EXPECT_TRUE(claim(third, kFirst));
  EXPECT_TRUE(give_back(one.slots[3], kFirst));
  EXPECT_EQ(depot->totals_of(kFirst).leases, 5U);
  EXPECT_EQ(hang_up(kFirst), 5U);
  EXPECT_EQ(hang_up(kFirst), 0U);
  EXPECT_EQ(depot->totals_of(kFirst).leases, 0U);
  EXPECT_EQ(depot->totals_of(kSecond).leases, 3U);
  EXPECT_EQ(object->leases, 4);
  EXPECT_TRUE(depot->is_unfetched(unfetched.place));
}

TEST_F(DepotTest, ANumberThatIsUsedAgainBelongsToTheNewMessage) {
  const Sent old = deposit(1);
  EXPECT_TRUE(claim(old, kFirst));
  EXPECT_TRUE(give_back(old.slots[0], kFirst));
  const Sent fresh = deposit(1);
  ASSERT_EQ(fresh.place.message, old.place.message);
  ASSERT_EQ(fresh.slots[0], old.slots[0]);
  EXPECT_NE(fresh.place.generation, old.place.generation);
  // The receiver of the old message is late: its claim, its bit and its withdrawal change nothing.
  EXPECT_FALSE(claim(old, kSecond));
  EXPECT_FALSE(give_back(old.slots[0], kFirst));
  EXPECT_FALSE(depot->withdraw(old.place));
  EXPECT_FALSE(depot->has_slot(old.place, old.slots[0]));
  EXPECT_TRUE(depot->is_unfetched(fresh.place));
  EXPECT_EQ(object->leases, 1);
}

TEST_F(DepotTest, AWrittenPageEndsNoLeaseOfAMessageThatIsOver) {
  const Sent sent = deposit(1);
  EXPECT_TRUE(claim(sent, kFirst));
  EXPECT_TRUE(give_back(sent.slots[0], kFirst));
  // A hostile receiver writes the claim anew and rings for the slot.
  claims_page::claim_word(page.base(), sent.place.message)
      .store(claims_page::word_of({sent.place.generation, kFirst}));
  EXPECT_FALSE(give_back(sent.slots[0], kFirst));
  EXPECT_EQ(hang_up(kFirst), 0U);
  EXPECT_EQ(object->leases, 0);
}

TEST_F(DepotTest, OnlyAnUnfetchedMessageIsWithdrawn) {
  const Sent fetched = deposit(1), waiting = deposit(2);
  EXPECT_TRUE(claim(fetched, kFirst));
  EXPECT_FALSE(depot->withdraw(fetched.place));
  EXPECT_TRUE(depot->withdraw(waiting.place));
  EXPECT_FALSE(depot->withdraw(waiting.place));
  EXPECT_FALSE(claim(waiting, kFirst));
  EXPECT_EQ(object->leases, 1);
}

TEST_F(DepotTest, AMessageIsPendingUntilItsReceiverHasOpenedItOrIsGone) {
  const Sent opened = deposit(2), given_up = deposit(1);
  EXPECT_EQ(depot->count_pending(), 2U);
  EXPECT_TRUE(claim(opened, kFirst));
  EXPECT_TRUE(claim(given_up, kSecond));
  EXPECT_EQ(depot->count_pending(), 2U);
  claims_page::say_opened(page.base(), opened.place.message, {opened.place.generation, kFirst});
  EXPECT_EQ(depot->count_pending(), 1U);
  EXPECT_EQ(hang_up(kSecond), 1U);
  EXPECT_EQ(depot->count_pending(), 0U);
}

TEST_F(DepotTest, ASerialOfAThingIsNeverUsedTwice) {
  const Depot::Number one = depot->number_thing().value();
  depot->end_thing(one);
  const Depot::Number again = depot->number_thing().value();
  EXPECT_EQ(again.thing, one.thing);
  EXPECT_NE(again.serial, one.serial);
  EXPECT_EQ(claims_page::thing_word(page.base(), claims_page::kMessages, again.thing).load(),
            again.serial);
  EXPECT_EQ(claims_page::header(page.base()).ended.load(), 1U);
  depot->end_thing(again);
}

}  // namespace
}  // namespace tenon::memory
