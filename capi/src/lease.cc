// tenon/lease.h: who holds leases on this process's memory (impl/memory/ledger.h), and the
// library's thread or its replacement (impl/os/service.h).
#include <tenon/lease.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>

#include "boundary.h"
#include "memory/ledger.h"
#include "os/service.h"

using namespace tenon::capi;
using tenon::Status;
using tenon::memory::Ledger;

namespace {

tenon_lease_holder describe(const Ledger::Totals& totals, int64_t now_ns) noexcept {
  tenon_lease_holder holder{};
  holder.pid = totals.borrower.pid;
  holder.uid = totals.borrower.uid;
  holder.leases = totals.leases;
  holder.nbytes = totals.nbytes;
  holder.granted = totals.granted;
  holder.granted_bytes = totals.granted_nbytes;
  holder.age_ns = static_cast<uint64_t>(std::max<int64_t>(now_ns - totals.began_ns, 0));
  return holder;
}

}  // namespace

extern "C" {

tenon_status tenon_lease_holders(tenon_lease_holder* out, size_t n, size_t* total,
                                 tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr || n == 0, "out is NULL"));
    TENON_TRY(check_argument(total != nullptr, "total is NULL"));
    const size_t step = n > 0 ? out->struct_size : 0;
    if (n > 0) TENON_TRY(check_output(out, "tenon_lease_holder"));
    (void)tenon::memory::settle_ledgers();
    const std::vector<Ledger::Totals> all = tenon::memory::ledger_totals();
    const int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                            std::chrono::steady_clock::now().time_since_epoch())
                            .count();
    for (size_t i = 0; i < std::min(n, all.size()); ++i) {
      auto* each =
          reinterpret_cast<tenon_lease_holder*>(reinterpret_cast<std::byte*>(out) + i * step);
      each->struct_size = step;
      write_struct(each, describe(all[i], now));
    }
    *total = all.size();
    return Status::ok();
  });
}

tenon_status tenon_lease_use_no_thread(tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status { return tenon::os::use_no_thread(); });
}

tenon_status tenon_lease_fd(int32_t* out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const int fd, tenon::os::service_fd());
    *out = fd;
    return Status::ok();
  });
}

tenon_status tenon_lease_poll(tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status { return tenon::os::poll_service(); });
}
}
