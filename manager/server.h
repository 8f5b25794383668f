// Server knows the manager's clients and the processes behind them, and serves all of them in turn
// in one loop. main.cc runs it.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/keyed_hash.h"
#include "base/status.h"
#include "manager/objects.h"
#include "manager/place.h"
#include "names/manager_protocol.h"
#include "os/fd.h"
#include "os/poller.h"

namespace tenon::manager {

struct ServerOptions {
  // How long the server waits for another client after the last one has gone. It waits four times
  // as long while a message may be in flight.
  int64_t linger_ns = 500'000'000;
  // The process that started the manager; 0: unknown. The server waits 10 s for its first client,
  // or linger_ns from the moment when this process ends.
  pid_t starter = 0;
};

// One thread uses the object.
class Server {
 public:
  // The pointers are borrowed: both objects must outlive the server. The server owns the fd of
  // `ending_signals` also if create() fails. RESOURCE_EXHAUSTED if no fd is left.
  static Result<std::unique_ptr<Server>> create(Place* place, Objects* objects,
                                                os::Fd ending_signals,
                                                const ServerOptions& options);
  // Serves until the last client has gone, or until a signal comes. After that, it accepts no more
  // clients. The caller then removes the place. Throws std::bad_alloc.
  void run();

 private:
  using SenderKey = uint64_t;  // a pid, or kNamelessBit and the key of a connection
  // The beginning of a message that one sender has sent on one connection.
  struct Half {
    std::array<std::byte, names::kManagerMessageNbytes> bytes{};
    size_t nbytes = 0;
  };
  struct Client {
    os::Fd socket;
    uint64_t key = 0;
    std::unordered_map<SenderKey, Half, KeyedHash> halves;  // one for each sender on this socket
    size_t unsent_nbytes = 0;  // bytes of answers that wait for room; all answers are equal
    bool waits_for_room = false;
    bool is_read = true;   // whether the poller reports readability; hang-ups are always reported
    bool is_deaf = false;  // it has closed, and gets no answers any more
  };
  struct Sender {
    SenderId id = 0;
    os::Fd pidfd;
    std::vector<uint64_t> clients;  // the keys of its connections
  };
  enum class Turn { kGoOn, kDropped };

  Server(Place* place, Objects* objects, os::Fd ending_signals, const ServerOptions& options,
         os::Poller poller) noexcept;
  Status listen_to_all();
  void accept_clients();
  void pause_accepting(bool pause);
  bool spare_pidfd() noexcept;
  void handle(const os::Poller::Event& event);
  void serve(uint64_t key, const os::Poller::Event& event);
  // Reads `most` bytes, or fewer if no more are there.
  Turn read(Client* client, size_t most);
  Turn take(Client* client, SenderKey sender, std::span<const std::byte> bytes);
  bool obey(SenderId sender, std::span<const std::byte, names::kManagerMessageNbytes> bytes,
            Client* client);
  bool answer(Client* client);
  bool send_answers(Client* client);
  SenderKey meet(Client* client, pid_t pid);
  void sender_ended(SenderKey key);
  void drop(uint64_t key);
  void forget(SenderKey key);
  void watch_leaving(SenderKey key, Sender* sender) noexcept;
  void forget_ended_leavers() noexcept;
  int64_t timeout_ns(int64_t now_ns) const noexcept;
  bool is_over(int64_t now_ns);

  Place* place_;
  Objects* objects_;
  os::Fd signals_;
  const ServerOptions options_;
  os::Poller poller_;
  os::Fd starter_;
  std::unordered_map<uint64_t, Client> clients_;
  std::unordered_map<SenderKey, Sender, KeyedHash> senders_;
  std::vector<SenderKey> ended_;  // senders whose end was found during another task
  // The pidfds of processes that have hung up and not ended. A process that ends closes its
  // connection before its files.
  std::unordered_map<SenderKey, os::Fd, KeyedHash> leaving_;
  uint64_t next_key_;
  SenderId next_sender_ = 1;
  int64_t quiet_since_ns_ = 0;    // since when there is no client; 0: there are clients
  int64_t closing_since_ns_ = 0;  // since when the last checks run; 0: they do not
  int64_t accept_again_ns_ = 0;   // when to accept again, after no fd was left; 0: accepting
  bool met_client_ = false;
  bool told_to_end_ = false;
};

}  // namespace tenon::manager
