// These tests run a lender that sends INHERITED tokens twice or without end, or says FORGOTTEN of
// tokens that never came.
#include "process/lease/hostile_victim.h"

namespace leases::raw {
namespace {

Message with_tokens(const Honest& honest, const Account& account,
                    const std::vector<TokenRecord>& tokens, const std::vector<int>& fds) {
  Message message(honest, account);
  message.block.tokens.insert(message.block.tokens.end(), tokens.begin(), tokens.end());
  message.token_fds.insert(message.token_fds.end(), fds.begin(), fds.end());
  return message;
}

TEST(HostileInherited, TokensTwice) {
  harm([](const Honest& honest, int type) {
    Pipe up;
    Account account;
    refuse(
        honest, type, &account,
        with_tokens(honest, account, {{5, kInherited, 1}, {5, kInherited, 1}}, {up.token, up.token})
            .frame(),
        TENON_CORRUPT, "twice in one message");
    Victim victim(type);
    Account other;
    victim.send(with_tokens(honest, other, {{5, kInherited, 1}}, {up.token}).frame());
    victim.send(Frame{kTokens,
                      Block{.account = 1, .tokens = {{5, kInherited, 1}}, .slots = {}}.bytes(),
                      {up.token}});
    let_go(&up.token);
    other.let_go_of_sent();
    CHECK(victim.receive().ok());
    CHECK_EQ(victim.receive().status, TENON_CORRUPT);
    tenon_connection_release(std::exchange(victim.connection, nullptr));
    CHECK(wait_until([&] { return up.has_hung_up() && other.has_hung_up(); }));
  });
}

TEST(HostileInherited, Forgotten) {
  harm([](const Honest& honest, int type) {
    Pipe up;
    Victim victim(type);
    Account account;
    // The borrower knows none of these tokens.
    std::vector<TokenRecord> unknown;
    for (uint64_t id = 1; id <= 2000; ++id)
      unknown.push_back({id * 0x9e3779b97f4a7c15, kForgotten, 0});
    unknown.push_back(unknown.front());
    victim.send(with_tokens(honest, account, unknown, {}).frame());
    account.let_go_of_sent();
    CHECK(victim.receive().ok());
    // The token of the account is not INHERITED, so FORGOTTEN does not apply to it.
    const auto tell = [&](std::vector<TokenRecord> tokens, const std::vector<int>& fds) {
      victim.send(Frame{
          kTokens, Block{.account = 1, .tokens = std::move(tokens), .slots = {}}.bytes(), fds});
      CHECK_EQ(victim.receive().status, TENON_WOULD_BLOCK);
    };
    tell({{1, kForgotten, 0}}, {});
    CHECK(!account.has_hung_up());
    // The same id comes again and again, and FORGOTTEN comes before the token.
    for (int round = 0; round < 3; ++round) {
      tell({{9, kForgotten, 0}, {9, kInherited, 1}}, {up.token});
      if (round < 2) continue;
      let_go(&up.token);
      CHECK(!up.has_hung_up());
      tell({{9, kForgotten, 0}, {9, kForgotten, 0}}, {});
    }
    CHECK(wait_until([&] { return up.has_hung_up(); }));
    Message next(honest, account);
    next.block.tokens.clear();
    next.token_fds.clear();
    victim.send(next.frame());
    CHECK(victim.receive().ok());
  });
}

TEST(HostileInherited, TokensWithoutEnd) {
  harm([](const Honest& honest, int type) {
    rlimit most{};
    getrlimit(RLIMIT_NOFILE, &most);
    if (most.rlim_max < 4096)
      fault::skip("RLIMIT_NOFILE is " + std::to_string(most.rlim_max) +
                  ", and cannot be raised to 4,096");
    const fault::Limit limit(RLIMIT_NOFILE, most.rlim_max);
    Pipe up;
    Victim victim(type);
    Account account;
    victim.send(Message(honest, account).frame());
    account.let_go_of_sent();
    CHECK(victim.receive().ok());
    const long fds = fault::count_open_fds();
    Outcome last;
    uint64_t id = 100;
    for (int frame = 0; frame < 20; ++frame) {
      Block block{.account = 1, .slots = {}};
      std::vector<int> copies;
      for (int i = 0; i < 100; ++i) {
        block.tokens.push_back({++id, kInherited, 1});
        copies.push_back(up.token);
      }
      victim.send(Frame{kTokens, block.bytes(), copies});
      last = victim.receive();
      if (frame < 10) CHECK_SAYING(last.status == TENON_WOULD_BLOCK, last.text());
    }
    CHECK_SAYING(
        last.status == TENON_RESOURCE_EXHAUSTED && last.detail("limit") == "inherited_tokens",
        last.text());
    CHECK_SAYING(fault::count_open_fds() - fds <= 1024,
                 std::to_string(fault::count_open_fds() - fds) + " fds");
    let_go(&up.token);
    CHECK(!up.has_hung_up());
    tenon_connection_release(std::exchange(victim.connection, nullptr));
    CHECK(wait_until([&] { return up.has_hung_up(); }));
  });
}

}  // namespace
}  // namespace leases::raw
