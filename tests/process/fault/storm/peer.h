// A process of the storm of leases. In each round it lends, borrows and lends on over its links,
// and reads everything that it holds again and again. It lives through many rounds until it is
// killed, so a leak of each round would pile up.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "process/fault/kit.h"
#include "support/lease_pages.h"
#include "support/storm/peer.h"

namespace storm {

using tenon::test::lease_pages;

enum LeaseOp : uint32_t {
  kMake = kFirstOp,
  kSend,
  kReceive,
  kRelease,
  kRead,
  kConnect,
  kHarm,
  kEndOfOps
};
enum LeaseCount : uint32_t {
  kLent,
  kReceived,
  kForwarded,
  kDescriptors,
  kFull,
  kScribbles,
  kEndOfCounts
};
// A link is a connection over one of two kinds of socket, or descriptors sent by hand.
enum Carrier : uint8_t { kStream, kPacket, kDescriptor };
enum Role : uint32_t { kHonest, kHostile };

class LeasePeer : public Peer {
 public:
  LeasePeer(const Seat& seat, bool gives_back_early);

 protected:
  void begin(uint32_t role, const std::vector<LinkEnd>& links) override;
  void step() override;
  void settle(uint32_t phase, uint32_t dead) override;
  void idle() override;
  void end() override;
  void be_child() override;

 private:
  struct Link {
    Carrier carrier = kStream;
    bool out = false;
    int raw = -1;                            // the socket of descriptors sent by hand
    tenon_connection* connection = nullptr;  // null: the other side is gone
    bool open() const { return raw >= 0 || connection != nullptr; }
  };
  // A borrowed message. It holds its storages itself, and sometimes the message too.
  struct Held {
    size_t link = 0;
    tenon_message* message = nullptr;
    std::vector<tenon_storage*> storages;
    std::vector<const void*> data;
    std::vector<Stamp> stamps;
  };
  struct Own {
    tenon_storage* storage = nullptr;
    Stamp stamp;
  };

  // ---- settling (peer.cc)
  void get_back();
  void close_all();
  std::string what_is_left();
  static std::string holders();
  bool nothing_is_lent();

  // ---- steps (steps.cc)
  bool make(Own* out);
  void lend();
  void lend_on();
  void send(size_t link, tenon_message* message, const std::vector<Stamp>& stamps);
  bool receive(size_t link, bool wait);
  bool receive_descriptor(Link* link, tenon_message** out);
  void hold(size_t link, tenon_message* message);
  void check(const Held& held);
  void check_own(const Own& own);
  void let_go(size_t index);
  void let_go_of_all();
  void release_own(size_t index);
  void drop(size_t link);
  Link* some_link(bool out, size_t* index);
  void harm();

  bool gives_back_early_;
  bool hostile_ = false;
  uint64_t generation_ = 0;
  std::vector<tenon_arena*> arenas_;
  std::vector<uint64_t> capacities_;
  std::vector<Link> links_;
  std::vector<Held> held_;
  std::vector<Own> own_;
  fault::Held before_;
};

}  // namespace storm
