// Names that are sockets: behind one, its lender hands out the fd of a segment
// (docs/format/filename.md).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/counted.h"
#include "base/status.h"
#include "memory/segment.h"
#include "os/fd.h"
#include "os/wait.h"
#include "share/filename.h"
#include "storage/storage.h"

namespace tenon::share {

struct SocketPolicy {
  mode_t mode = 0600;
  bool has_group = false;
  gid_t group = 0;
  bool operator==(const SocketPolicy&) const = default;
};

// The name under which this storage can be reached: its segment's own, made the first time. With an
// empty `prefix` the leaf of `place` was chosen by the user; then, and if the segment's own is of
// another directory, prefix or policy, the name lasts as long as the storage. `access` is what
// borrowers get.
Result<Filename> serve_name(const Ref<storage::Storage>& storage, memory::Access access,
                            const Filename& place, const std::string& prefix,
                            const SocketPolicy& policy);
// One message in flight more or less, for a name that this process serves. False: it serves no such
// name.
bool count_socket_message(const Filename& name, bool received);

// Ends all names that this process serves, as exit() does; what is lent later has a name again.
void leave_served_names() noexcept;

// The borrower's side. What comes back is checked as far as the packet goes, the fd not at all.
struct Handed {
  os::Fd fd;
  memory::Access access = memory::Access::kAuto;
  uint64_t segment_nbytes = 0;
};
enum class NameRequest : uint32_t { kOpen = 1, kOpenReceived = 2, kReceived = 3 };
Result<Handed> ask_name(const Filename& name, NameRequest request, bool other_user,
                        os::Waiter* waiter);

}  // namespace tenon::share
