// These tests run a lender that breaks the protocol in lease blocks and messages. The borrower
// reports the error or takes no harm, and keeps nothing of the message. What it borrows from an
// honest lender keeps working.
#include "process/lease/hostile_victim.h"
#include "support/seed.h"

namespace leases::raw {
namespace {

// ---- the right messages that the tests below spoil

TEST(HostileLender, WhatIsRightIsTaken) {
  harm([](const Honest& honest, int type) {
    Victim victim(type);
    for (uint64_t id = 1; id <= 3; ++id) {
      Account account(id, {.slots = id == 3 ? 4U << 20 : 4096U});
      const uint32_t last = id == 3 ? (4U << 20) - 1 : 4095;
      Message message(honest, account);
      message.block.slots = {7, last};
      const int memfd = memfd_with(message.content());
      victim.send(id == 2 ? message.large(memfd) : message.frame());
      close(memfd);
      account.let_go_of_sent();
      tenon_message* got = nullptr;
      const Outcome outcome = victim.receive(&got);
      REQUIRE(fault::check(outcome.ok(), "taken", __FILE__, __LINE__, outcome.text()));
      CHECK(shows(got, kPatternSeed));
      CHECK(!account.is_given_back(7, last + 1) && !account.has_hung_up());
      tenon_message_release(got);
      CHECK(account.is_given_back(7, last + 1) && account.is_given_back(last, last + 1) &&
            !account.is_given_back(8, last + 1));
      CHECK(!account.has_hung_up());
      // This message uses the account that came before.
      Message again(honest, account);
      again.block.tokens.clear();
      again.token_fds.clear();
      again.block.slots = {8, kNoLease};
      victim.send(again.frame());
      CHECK(victim.receive().ok());
      CHECK(account.is_given_back(8, last + 1));
      if (id < 3) continue;
      tenon_connection_release(std::exchange(victim.connection, nullptr));
      CHECK(wait_until([&] { return account.has_hung_up(); }));
    }
  });
}

// ---- lease blocks

struct WrongBlock {
  const char* what;
  tenon_status wanted;
  void (*spoil)(Message* message);
};

TEST(HostileLender, LeaseBlocks) {
  static const WrongBlock kAll[] = {
      {"version 0", TENON_INCOMPATIBLE, [](Message* m) { m->block.version = 0; }},
      {"version 2", TENON_INCOMPATIBLE, [](Message* m) { m->block.version = 2; }},
      {"0 bytes", TENON_CORRUPT, [](Message* m) { m->block.nbytes = 0; }},
      {"fewer bytes", TENON_CORRUPT, [](Message* m) { m->block.nbytes = 40; }},
      {"more bytes", TENON_CORRUPT, [](Message* m) { m->block.nbytes = 56; }},
      {"bytes without end", TENON_CORRUPT, [](Message* m) { m->block.nbytes = UINT32_MAX; }},
      {"no account", TENON_CORRUPT, [](Message* m) { m->block.account = 0; }},
      {"another account than its token's", TENON_CORRUPT, [](Message* m) { m->block.account = 9; }},
      {"fewer tokens than there are", TENON_CORRUPT, [](Message* m) { m->block.n_tokens = 0; }},
      {"more tokens than there are", TENON_CORRUPT, [](Message* m) { m->block.n_tokens = 2; }},
      {"more tokens than any message has", TENON_CORRUPT,
       [](Message* m) { m->block.n_tokens = 4097; }},
      {"tokens without end", TENON_CORRUPT, [](Message* m) { m->block.n_tokens = UINT32_MAX; }},
      {"no leases", TENON_CORRUPT, [](Message* m) { m->block.slots.clear(); }},
      {"one lease for two storages", TENON_CORRUPT, [](Message* m) { m->block.slots.resize(1); }},
      {"more leases than storages", TENON_CORRUPT, [](Message* m) { m->block.slots.resize(3); }},
      {"more leases than there are", TENON_CORRUPT, [](Message* m) { m->block.n_leases = 4; }},
      {"leases without end", TENON_CORRUPT, [](Message* m) { m->block.n_leases = UINT32_MAX; }},
      {"a token without an id", TENON_CORRUPT, [](Message* m) { m->block.tokens[0].id = 0; }},
      {"a token of another account", TENON_CORRUPT, [](Message* m) { m->block.tokens[0].id = 2; }},
      {"a token of kind 0", TENON_CORRUPT, [](Message* m) { m->block.tokens[0].kind = 0; }},
      {"a token of kind 4", TENON_CORRUPT, [](Message* m) { m->block.tokens[0].kind = 4; }},
      {"a token that is 1 fd", TENON_CORRUPT, [](Message* m) { m->block.tokens[0].n_fds = 1; }},
      {"a token that is fds without end", TENON_CORRUPT,
       [](Message* m) { m->block.tokens[0].n_fds = UINT32_MAX; }},
      {"an inherited token that is 3 fds", TENON_CORRUPT,
       [](Message* m) { m->block.tokens[0].kind = kInherited; }},
      {"two accounts at once", TENON_CORRUPT,
       [](Message* m) { m->block.tokens.push_back(m->block.tokens[0]); }},
      {"padding", TENON_CORRUPT,
       [](Message* m) {
         m->block.slots.push_back(kNoLease);
         m->block.padding = 1;
       }},
      {"a slot behind the page", TENON_CORRUPT, [](Message* m) { m->block.slots[1] = 4096; }},
      {"a slot far behind the page", TENON_CORRUPT,
       [](Message* m) { m->block.slots[0] = UINT32_MAX - 1; }},
      {"an account that never came", TENON_CORRUPT,
       [](Message* m) {
         m->block.tokens.clear();
         m->token_fds.clear();
       }},
      {"only inherited tokens, and no account", TENON_CORRUPT,
       [](Message* m) {
         m->block.tokens = {{5, kInherited, 1}};
         m->token_fds.resize(1);
       }},
      {"a token without its fds", TENON_CORRUPT,
       [](Message* m) {
         m->token_fds.clear();
         m->segment_fds.clear();
       }},
      {"tokens instead of segments", TENON_CORRUPT, [](Message* m) { m->segment_fds.clear(); }},
      {"one fd too few", TENON_CORRUPT, [](Message* m) { m->token_fds.pop_back(); }},
      {"one fd too many, which is closed", TENON_OK,
       [](Message* m) { m->segment_fds.push_back(m->segment_fds[0]); }},
      {"no descriptor", TENON_CORRUPT, [](Message* m) { m->descriptor.clear(); }},
      {"half a descriptor", TENON_CORRUPT,
       [](Message* m) { m->descriptor.resize(m->descriptor.size() / 2); }},
      {"kind 0", TENON_CORRUPT, [](Message* m) { m->kind = 0; }},
      {"kind 8", TENON_CORRUPT, [](Message* m) { m->kind = 8; }},
      {"kind 6 without a device block", TENON_INCOMPATIBLE, [](Message* m) { m->kind = 6; }},
      {"leases in a frame of kind 1", TENON_CORRUPT, [](Message* m) { m->kind = 1; }},
      {"leases in a frame of tokens", TENON_CORRUPT, [](Message* m) { m->kind = kTokens; }},
  };
  harm([](const Honest& honest, int type) {
    for (const WrongBlock& each : kAll) {
      Account account;
      Message message(honest, account);
      each.spoil(&message);
      refuse(honest, type, &account, message.frame(), each.wanted, each.what);
    }
  });
}

// ---- large messages

TEST(HostileLender, LargeMessages) {
  harm([](const Honest& honest, int type) {
    const auto with = [&](const char* what, tenon_status wanted, auto make) {
      Account account;
      Message message(honest, account);
      const Bytes content = message.content();
      int memfd = -1;
      const Frame frame = make(&message, content, &memfd);
      refuse(honest, type, &account, frame, wanted, what);
      let_go(&memfd);
    };
    with("without its memfd", TENON_CORRUPT, [](Message* m, const Bytes&, int*) {
      Frame frame = m->large(-1);
      frame.fds.clear();
      return frame;
    });
    with("with the token where the memfd is due", TENON_CORRUPT,
         [](Message* m, const Bytes&, int*) {
           Frame frame = m->large(-1);
           frame.fds.erase(frame.fds.begin());
           return frame;
         });
    with("with its content in the frame", TENON_CORRUPT,
         [](Message* m, const Bytes& content, int* memfd) {
           Frame frame = m->large(*memfd = memfd_with(content));
           frame.payload = content;
           return frame;
         });
    with("without its length", TENON_CORRUPT, [](Message* m, const Bytes& content, int* memfd) {
      Frame frame = m->large(*memfd = memfd_with(content));
      frame.payload.clear();
      return frame;
    });
    with("whose memfd is too short", TENON_CORRUPT, [](Message* m, Bytes content, int* memfd) {
      content.pop_back();
      return m->large(*memfd = memfd_with(content));
    });
    with("whose memfd can shrink", TENON_CORRUPT, [](Message* m, const Bytes& content, int* memfd) {
      return m->large(*memfd = memfd_with(content, F_SEAL_WRITE));
    });
    with("whose memfd can be written", TENON_CORRUPT,
         [](Message* m, const Bytes& content, int* memfd) {
           return m->large(*memfd = memfd_with(content, F_SEAL_SHRINK | F_SEAL_GROW));
         });
    with("whose fds are one too few", TENON_CORRUPT,
         [](Message* m, const Bytes& content, int* memfd) {
           Frame frame = m->large(*memfd = memfd_with(content));
           frame.fds.pop_back();
           return frame;
         });
    with("whose lease block has no leases", TENON_CORRUPT,
         [](Message* m, const Bytes&, int* memfd) {
           m->block.slots.clear();
           return m->large(*memfd = memfd_with(m->content()));
         });
    // The message is refused unread. Its leases must still be found, at each place that the message
    // may give for them.
    const auto too_long = [](Message* m, const Bytes& content, int* memfd) {
      Frame frame = m->large(*memfd = memfd_with(content));
      frame.payload.clear();
      put<uint64_t>(&frame.payload, UINT64_MAX);
      return frame;
    };
    with("of bytes without end", TENON_RESOURCE_EXHAUSTED, too_long);
    with("of bytes without end, and no memfd", TENON_RESOURCE_EXHAUSTED,
         [&](Message* m, const Bytes& content, int* memfd) {
           Frame frame = too_long(m, content, memfd);
           frame.fds.clear();
           return frame;
         });
    with("of bytes and a block without end", TENON_CORRUPT,
         [&](Message* m, const Bytes&, int* memfd) {
           m->block.nbytes = UINT32_MAX;
           return too_long(m, m->content(), memfd);
         });
    with("of bytes without end in an empty memfd", TENON_CORRUPT,
         [&](Message* m, const Bytes&, int* memfd) { return too_long(m, {}, memfd); });
  });
}

// ---- everything

// Changes each byte of right messages in turn, cuts them at each length, and changes several random
// bytes. The answer must have a known code, and nothing may be left.
TEST(HostileLender, RightBytesSpoilt) {
  const uint64_t seed = test_seed();
  harm([seed](const Honest& honest, int type) {
    const auto feed = [&](int kind, auto spoil, const std::string& what) {
      Account account;
      Pipe up;
      Message message(honest, account);
      message.block.tokens.push_back({5, kInherited, 1});
      message.block.tokens.push_back({6, kForgotten, 0});
      message.token_fds.push_back(up.token);
      int memfd = -1;
      Frame frame = message.frame();
      if (kind == kTokens) {
        message.block.slots.clear();
        frame = {kTokens, message.block.bytes(), message.token_fds};
        spoil(&frame.payload);
      } else if (kind == kLargeLeased) {
        Bytes content = message.content();
        spoil(&content);
        frame = message.large(memfd = memfd_with(content));
      } else {
        spoil(&frame.payload);
      }
      Victim victim(type);
      victim.send(frame);
      account.let_go_of_sent();
      let_go(&up.token);
      let_go(&memfd);
      const Outcome outcome = victim.receive();
      CHECK_SAYING(outcome.ok() || is_typed(outcome), what + ": " + outcome.text());
      tenon_connection_release(std::exchange(victim.connection, nullptr));
      CHECK_SAYING(wait_until([&] { return account.has_hung_up() && up.has_hung_up(); }), what);
    };
    Account one;
    const size_t whole = Message(honest, one).content().size() + 32;
    for (const int kind : {int{kLeased}, int{kLargeLeased}, int{kTokens}}) {
      const std::string name = "kind " + std::to_string(kind);
      for (size_t at = 0; at < whole; at += kSanitized ? 3 : 1) {
        for (const int flip : {0x01, 0xff}) {
          feed(
              kind,
              [&](Bytes* bytes) {
                (*bytes)[at % bytes->size()] =
                    static_cast<unsigned char>((*bytes)[at % bytes->size()] ^ flip);
              },
              name + ", byte " + std::to_string(at));
        }
        feed(
            kind, [&](Bytes* bytes) { bytes->resize(std::min(at, bytes->size() - 1)); },
            name + ", cut at " + std::to_string(at));
      }
      std::mt19937_64 random(seed);
      for (int i = 0; i < (kSanitized ? 100 : 1000); ++i) {
        feed(
            kind,
            [&](Bytes* bytes) {
              for (uint64_t n = 1 + random() % 4; n > 0; --n)
                (*bytes)[random() % bytes->size()] = static_cast<unsigned char>(random());
            },
            name + ", random change " + std::to_string(i) + " of seed " + std::to_string(seed));
      }
    }
  });
}

}  // namespace
}  // namespace leases::raw
