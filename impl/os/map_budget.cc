#include "os/map_budget.h"

#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <string>

#include "os/limits.h"
#include "os/small_file.h"

namespace tenon::os {
namespace {

struct ProcessBudget {
  std::atomic<uint64_t> used_nbytes{0};
  std::atomic<uint64_t> mappings{0};
};
ProcessBudget& process_budget() noexcept {
  static constinit ProcessBudget budget;
  return budget;
}

// Returns false, and takes nothing, if the sum would exceed the limit.
bool add_within(std::atomic<uint64_t>* used, uint64_t more, uint64_t limit) noexcept {
  uint64_t before = used->load(std::memory_order_relaxed);
  do {
    if (more > limit || before > limit - more) return false;
  } while (!used->compare_exchange_weak(before, before + more, std::memory_order_relaxed));
  return true;
}

Status refuse_mapping(const std::string& whose, const char* limit, uint64_t value, uint64_t in_use,
                      uint64_t wanted) {
  return Status(Code::kResourceExhausted,
                format("mapping %llu bytes of another process's memory: %s may take %llu here, and "
                       "%llu are taken; release "
                       "what was received, or raise max_mapped_nbytes",
                       static_cast<unsigned long long>(wanted), whose.c_str(),
                       static_cast<unsigned long long>(value),
                       static_cast<unsigned long long>(in_use)))
      .with("limit", std::string(limit))
      .with("limit_value", value)
      .with("in_use", in_use)
      .with("wanted", wanted);
}

uint64_t most_mappings() noexcept { return max_map_count() / 2; }

}  // namespace

// The stack lies at the upper end of the address space, whose size is a power of two on every
// machine.
uint64_t address_space_nbytes() noexcept {
  const uint64_t whole =
      std::bit_ceil(static_cast<uint64_t>(reinterpret_cast<uintptr_t>(__builtin_frame_address(0))));
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return whole;
  return std::min<uint64_t>(whole, limit.rlim_cur);
}

MapBudget::MapBudget(uint64_t limit_nbytes) noexcept
    : limit_nbytes_(limit_nbytes != 0 ? limit_nbytes : address_space_nbytes() / 4) {}

MapCharge::~MapCharge() {
  if (nbytes_ == 0) return;
  process_budget().used_nbytes.fetch_sub(nbytes_, std::memory_order_relaxed);
  process_budget().mappings.fetch_sub(1, std::memory_order_relaxed);
  if (budget_) budget_->used_nbytes_.fetch_sub(nbytes_, std::memory_order_relaxed);
}

Result<MapCharge> MapCharge::take(uint64_t nbytes, std::shared_ptr<MapBudget> budget) {
  MapCharge charge;
  if (nbytes == 0) return charge;
  ProcessBudget& all = process_budget();
  if (budget && !add_within(&budget->used_nbytes_, nbytes, budget->limit_nbytes_)) {
    return refuse_mapping("the peer of one connection", "max_mapped_nbytes", budget->limit_nbytes_,
                          budget->used_nbytes(), nbytes);
  }
  const uint64_t most = address_space_nbytes() / 2;
  const bool has_room = add_within(&all.used_nbytes, nbytes, most);
  if (has_room && add_within(&all.mappings, 1, most_mappings())) {
    charge.nbytes_ = nbytes;
    charge.budget_ = std::move(budget);
    return charge;
  }
  if (budget) budget->used_nbytes_.fetch_sub(nbytes, std::memory_order_relaxed);
  if (!has_room) {
    return refuse_mapping("all peers together", "mapped_nbytes", most,
                          all.used_nbytes.load(std::memory_order_relaxed), nbytes);
  }
  all.used_nbytes.fetch_sub(nbytes, std::memory_order_relaxed);
  return Status(Code::kResourceExhausted,
                format("mapping %llu bytes of another process's memory: %llu mappings are of such "
                       "memory, half of "
                       "vm.max_map_count; release what was received, or raise that limit",
                       static_cast<unsigned long long>(nbytes),
                       static_cast<unsigned long long>(most_mappings())))
      .with("limit", std::string("vm.max_map_count"))
      .with("limit_value", max_map_count())
      .with("wanted", nbytes);
}

}  // namespace tenon::os
