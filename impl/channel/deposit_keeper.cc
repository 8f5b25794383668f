#include "channel/deposit_keeper.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "channel/deposit_server.h"
#include "memory/depot.h"
#include "names/manager.h"
#include "os/background.h"
#include "os/clock.h"
#include "os/memfd.h"
#include "os/named_file.h"
#include "os/process.h"

namespace tenon::channel {
using memory::Depot;
using os::Fd;

// The plan that a lender gives its keeper. Lender and keeper must be of one version, as they are if
// the lender starts the program beside its library. After this header come the socket's path, the
// messages, the things and the fds of the relatives.
inline constexpr std::array<uint8_t, 8> kPlanMagic = {'T', 'N', 'K', 'E', 'E', 'P', '0', '1'};
struct PlanHeader {
  std::array<uint8_t, 8> magic;
  DepotId depot;
  int64_t ns;
  int32_t listener;
  int32_t page;
  int32_t family;
  uint32_t next_borrower;
  uint32_t directory_nbytes;
  uint32_t leaf_nbytes;
  uint32_t n_messages;
  uint32_t n_things;
  uint32_t n_relatives;
  uint32_t zero;
};
struct PlanThing {
  uint64_t serial;
  uint32_t number;
  int32_t fd;
};

struct Keeping {
  PlanHeader header{};
  std::vector<Depot::MessageSlot> messages;
  std::vector<PlanThing> things;
  std::vector<int32_t> relatives;
  names::Filename name;
};

namespace {

constexpr int64_t kStartNs = 10'000'000'000;
constexpr size_t kMostPlanNbytes = size_t{64} << 20;
// How often a keeper checks whether its messages were fetched and whether its family has ended.
constexpr int kLookMs = 100;

template <typename Value>
void append(std::vector<std::byte>* bytes, const Value* values, size_t count) {
  const auto* from = reinterpret_cast<const std::byte*>(values);
  bytes->insert(bytes->end(), from, from + count * sizeof(Value));
}

class PlanReader {
 public:
  explicit PlanReader(std::span<const std::byte> bytes) noexcept : left_(bytes) {}
  template <typename Value>
  bool take(Value* out, size_t count = 1) noexcept {
    const size_t nbytes = count * sizeof(Value);
    if (nbytes == 0) return true;  // an empty vector has no bytes to copy to
    if (nbytes > left_.size()) return false;
    std::memcpy(out, left_.data(), nbytes);
    left_ = left_.subspan(nbytes);
    return true;
  }
  template <typename Value>
  bool take_some(std::vector<Value>* out, size_t count) {
    if (count > left_.size() / sizeof(Value)) return false;
    out->resize(count);
    return take(out->data(), count);
  }
  bool take_text(std::string* out, size_t count) {
    if (count > left_.size()) return false;
    out->resize(count);
    return take(out->data(), count);
  }

 private:
  std::span<const std::byte> left_;
};

Status bad_plan() {
  return Status(Code::kCorrupt,
                "no plan of this version: start the tenon-manager that belongs to the library");
}

Result<std::shared_ptr<Keeping>> read_plan(int fd) {
  TENON_ASSIGN(const os::FileInfo file, os::inspect_file(fd));
  if (!file.in_memory || file.nbytes > kMostPlanNbytes) return bad_plan();
  std::vector<std::byte> bytes(file.nbytes);
  TENON_TRY(os::read_file(fd, 0, bytes.data(), bytes.size()));
  PlanReader reader(bytes);
  auto plan = std::make_shared<Keeping>();
  PlanHeader& header = plan->header;
  if (!reader.take(&header) || header.magic != kPlanMagic ||
      !reader.take_text(&plan->name.directory, header.directory_nbytes) ||
      !reader.take_text(&plan->name.leaf, header.leaf_nbytes) ||
      !reader.take_some(&plan->messages, header.n_messages) ||
      !reader.take_some(&plan->things, header.n_things) ||
      !reader.take_some(&plan->relatives, header.n_relatives))
    return bad_plan();
  return plan;
}

// Finds the fd of each numbered thing that still exists. The fds are borrowed from the objects in
// `kept`. The caller holds the lock of `all`.
struct KeptThings {
  std::vector<Ref<memory::Segment>> segments;
  std::vector<std::shared_ptr<memory::LeaseToken>> tokens;
};
Status plan_things(const DepositState& all, std::vector<PlanThing>* things, KeptThings* kept) {
  for (const auto& [serial, thing] : all.things) {
    PlanThing planned{serial, thing.number.thing, -1};
    if (thing.kind == ThingKind::kToken) {
      std::shared_ptr<memory::LeaseToken> token = thing.token.lock();
      if (!token) continue;
      planned.fd = token->fd.get();
      kept->tokens.push_back(std::move(token));
    } else {
      Ref<memory::Segment> segment = thing.segment.lock();
      if (!segment) continue;
      kept->segments.push_back(segment);
      TENON_ASSIGN(planned.fd, segment->lending_fd());
    }
    things->push_back(planned);
  }
  return Status::ok();
}

bool all_fetched(const Depot& depot, std::vector<Depot::MessageSlot>* messages) {
  std::erase_if(*messages, [&](Depot::MessageSlot place) { return !depot.is_pending(place); });
  return messages->empty();
}

// Whether a process lives that could fetch. It tries the lock that the members of the family share.
bool has_family(int family, std::vector<pollfd>* relatives) {
  std::erase_if(*relatives, [](const pollfd& each) { return each.revents != 0; });
  if (!relatives->empty()) return true;
  if (family < 0) return false;
  const bool nobody = os::take_exclusive_lock(family);
  if (nobody) os::drop_lock(family);
  return !nobody;
}

}  // namespace

Result<size_t> hand_over_deposits(const KeepOptions& options) {
  DepositState& all = deposit_state();
  // Released after the lock, because the end of a segment takes locks of a lower rank.
  KeptThings kept;
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (!all.depot || !all.depot->made_by_this_process()) return size_t{0};
  stop_serving_depot(&all);
  // If there will be no keeper, this process goes on serving.
  struct Resuming {
    DepositState* all;
    ~Resuming() {
      if (!all->listener.is_open()) return;
      try {
        (void)serve_depot(all);
      } catch (...) {
        // No memory: only receivers that have met this lender before can fetch.
      }
    }
  } const resuming{&all};
  const std::vector<Depot::MessageSlot> messages = all.depot->pending();
  if (messages.empty()) {
    unlink_depot(all);
    forget_depot(&all);
    return size_t{0};
  }
  std::vector<PlanThing> things;
  TENON_TRY(plan_things(all, &things, &kept));
  PlanHeader header{};
  header.magic = kPlanMagic;
  header.depot = all.id;
  header.ns = options.ns;
  header.listener = all.listener.get();
  header.page = all.depot->page();
  header.family = options.family;
  header.next_borrower = all.depot->next_borrower();
  header.directory_nbytes = static_cast<uint32_t>(all.name.directory.size());
  header.leaf_nbytes = static_cast<uint32_t>(all.name.leaf.size());
  header.n_messages = static_cast<uint32_t>(messages.size());
  header.n_things = static_cast<uint32_t>(things.size());
  header.n_relatives = static_cast<uint32_t>(options.relatives.size());
  std::vector<std::byte> bytes;
  append(&bytes, &header, 1);
  append(&bytes, all.name.directory.data(), all.name.directory.size());
  append(&bytes, all.name.leaf.data(), all.name.leaf.size());
  append(&bytes, messages.data(), messages.size());
  append(&bytes, things.data(), things.size());
  append(&bytes, options.relatives.data(), options.relatives.size());
  TENON_ASSIGN(const os::Nonce nonce, os::random_nonce());
  TENON_ASSIGN(const Fd plan, os::create_memfd(nonce, bytes.size()));
  TENON_TRY(os::write_file(plan.get(), 0, bytes.data(), bytes.size()));
  std::vector<int> fds{plan.get(), header.listener, header.page};
  if (options.family >= 0) fds.push_back(options.family);
  for (const PlanThing& each : things) fds.push_back(each.fd);
  fds.insert(fds.end(), options.relatives.begin(), options.relatives.end());
  TENON_ASSIGN(const std::string program, names::find_manager_program(options.program));
  os::Waiter waiter({.timeout_ns = kStartNs});
  TENON_ASSIGN(const std::string line,
               os::run_for_line(program, {"--keep", format("%d", plan.get())}, &waiter, fds));
  if (line != kKeeping)
    return Status(Code::kPeerGone, format("%s keeps nothing: %s", program.c_str(), line.c_str()))
        .with("path", program);
  // From here on the socket is the keeper's, and this process does not unlink it at exit.
  forget_depot(&all);
  return messages.size();
}

Result<std::shared_ptr<Keeping>> inherit_deposits(int plan_fd) {
  TENON_ASSIGN(std::shared_ptr<Keeping> keeping, read_plan(plan_fd));
  const PlanHeader& header = keeping->header;
  std::vector<int> fds{header.listener, header.page};
  if (header.family >= 0) fds.push_back(header.family);
  for (const PlanThing& each : keeping->things) fds.push_back(each.fd);
  fds.insert(fds.end(), keeping->relatives.begin(), keeping->relatives.end());
  os::close_inherited_fds_but(fds);
  for (const int fd : fds) TENON_TRY(os::inspect_file(fd).status());
  return keeping;
}

Status keep_deposits(Keeping* keeping, const std::function<void()>& ready) {
  DepositState& all = deposit_state();
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    all.name = keeping->name;
    all.id = keeping->header.depot;
    all.listener = Fd(keeping->header.listener);
    TENON_ASSIGN(all.depot,
                 Depot::inherit(Fd(keeping->header.page), keeping->header.next_borrower));
    for (const PlanThing& each : keeping->things) {
      NumberedThing thing;
      thing.number = {each.number, each.serial};
      thing.inherited = Fd(each.fd);
      all.things.emplace(each.serial, std::move(thing));
    }
    TENON_TRY(serve_depot(&all));
  }
  ready();
  std::vector<pollfd> relatives;
  relatives.reserve(keeping->relatives.size());
  for (const int32_t fd : keeping->relatives) relatives.push_back({fd, POLLIN, 0});
  const int family = keeping->header.family;
  const bool has_anybody = family >= 0 || !relatives.empty();
  const int64_t end = os::monotonic_ns() + keeping->header.ns;
  while (!all_fetched(*all.depot, &keeping->messages) && os::monotonic_ns() < end &&
         (!has_anybody || has_family(family, &relatives)))
    (void)::poll(relatives.data(), relatives.size(), kLookMs);
  const std::lock_guard<std::mutex> lock(all.mutex);
  unlink_depot(all);
  return Status::ok();
}

}  // namespace tenon::channel
