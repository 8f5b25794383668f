// Names that are sockets, on which a lender hands out the fd of a segment
// (docs/format/filename.md). by_filename.cc calls both sides: the lender's (name_server.cc) and the
// borrower's (name_client.cc).
//
// All functions but ask_name() take LockRank::kNameServer and may release a segment, so their
// caller holds no lock. A forked child serves none of its parent's names. The next lend makes one
// of its own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/counted.h"
#include "base/status.h"
#include "memory/segment.h"
#include "names/filename.h"
#include "os/fd.h"
#include "os/wait.h"
#include "storage/storage.h"

namespace tenon::names {

// Who may connect to a socket.
struct SocketPolicy {
  mode_t mode = 0600;
  bool has_group = false;
  gid_t group = 0;
  bool operator==(const SocketPolicy&) const = default;
};

// Gives a name under which this storage can be reached. If no name of it has this directory, prefix
// and policy, makes the name `place`, whose leaf the caller has chosen. `access` is the access that
// borrowers get. PERMISSION: something that is not dead has that path. Also the errors of
// open_names_directory() and os::listen_local().
//
// Usually the name belongs to the segment and serves all of its storages. In two cases the name
// belongs to the storage and lasts as long as the storage and its messages in flight: `prefix` is
// empty, which says that the user chose the leaf of `place`; or the segment's own name has another
// directory, prefix or policy.
Result<Filename> serve_name(const Ref<storage::Storage>& storage, memory::Access access,
                            const Filename& place, const std::string& prefix,
                            const SocketPolicy& policy);
// Counts one message more in flight, or, if `received`, one less, for a name that this process
// serves. Messages in flight keep the segment alive. False: this process serves no such name.
bool count_socket_message(const Filename& name, bool received);

// Ends all names that this process serves, as exit() does. A later lend makes a name again.
void leave_served_names() noexcept;

// What a lender handed out. The packet has been checked, the fd has not.
struct Handed {
  os::Fd fd;
  memory::Access access = memory::Access::kAuto;
  uint64_t segment_nbytes = 0;
};
// kOpenReceived also counts a message as received. kReceived does only that, and gets no fd.
enum class NameRequest : uint32_t { kOpen = 1, kOpenReceived = 2, kReceived = 3 };
// The borrower's side: sends one request to the lender behind a name. NOT_FOUND or PEER_GONE:
// nobody listens there or has the memory. PERMISSION: the policy does not admit this process, or
// the lender is of another user (root too) and `other_user` is false. RESOURCE_EXHAUSTED: too many
// clients, or no fd here. CORRUPT: no lender of Tenon's. Also the errors of the wait. All have the
// detail "path". The call takes no lock.
Result<Handed> ask_name(const Filename& name, NameRequest request, bool other_user,
                        os::Waiter* waiter);

}  // namespace tenon::names
