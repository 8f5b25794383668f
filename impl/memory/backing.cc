#include "memory/backing.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "os/huge_pages.h"
#include "os/limits.h"
#include "os/mapping.h"
#include "os/memory_lock.h"
#include "os/numa.h"
#include "os/smaps.h"
#include "os/thp.h"

namespace tenon::memory {
namespace {

// Each of these words remembers a probe that found THP, as a mark of the administrator's setting at
// that time. The result holds as long as the setting stays. A failed probe is not remembered: the
// machine's memory may have been in small pieces, and a probe costs little. Each mark is one word,
// so that no lock has to survive a fork.
std::atomic<uint64_t> g_thp_by_fault{0};
std::atomic<uint64_t> g_thp_by_collapse{0};

Status try_hugetlb(const BackingRequest& request, Mode mode, Backing* backing) {
  if (mode == Mode::kFrozen) {
    return Status(Code::kUnsupported,
                  "memory to be frozen is filled by pwrite, which pages of hugetlbfs do not know")
        .with("pages", std::string("hugetlb"));
  }
  const uint64_t page =
      request.huge_page_nbytes != 0 ? request.huge_page_nbytes : os::default_huge_page_nbytes();
  if (page == 0)
    return Status(Code::kUnsupported, "this kernel has no hugetlb pages")
        .with("pages", std::string("hugetlb"));
  bool seal_holds = false;
  TENON_TRY(os::probe_huge_page(page, request.numa_node, &seal_holds));
  if (mode == Mode::kLenderWrites && !seal_holds) {
    return Status(Code::kUnsupported,
                  "this kernel lets a borrower write into sealed pages of hugetlbfs (Linux 5.13 "
                  "does not)")
        .with("pages", std::string("hugetlb"));
  }
  backing->pages = Pages::kHugetlb;
  backing->page_nbytes = page;
  backing->locked = true;
  return Status::ok();
}

// `asked`: huge pages were asked for by name, so they may also be made by collapse(). Otherwise THP
// is only taken where the administrator offers it.
Status try_thp(bool asked, Backing* backing) {
  const uint64_t page = os::thp_nbytes();
  const std::string setting = os::shmem_thp_setting();
  const uint64_t mark = std::hash<std::string>{}(setting) | 1;
  os::ThpBy by = os::ThpBy::kNothing;
  if (page != 0) {
    if (g_thp_by_fault.load(std::memory_order_relaxed) == mark) {
      by = os::ThpBy::kFault;
    } else if (asked && g_thp_by_collapse.load(std::memory_order_relaxed) == mark) {
      by = os::ThpBy::kCollapse;
    } else {
      TENON_TRY(os::ask_headroom(page));
      TENON_ASSIGN(by, os::probe_thp(asked));
      if (by == os::ThpBy::kFault) g_thp_by_fault.store(mark, std::memory_order_relaxed);
      if (by == os::ThpBy::kCollapse) g_thp_by_collapse.store(mark, std::memory_order_relaxed);
    }
  }
  if (by == os::ThpBy::kNothing) {
    return Status(Code::kUnsupported,
                  format("shared memory gets no transparent huge pages here (shmem_enabled: %s)",
                         setting.empty() ? "cannot be read" : setting.c_str()))
        .with("pages", std::string("thp"))
        .with("shmem_enabled", setting);
  }
  backing->pages = Pages::kThp;
  backing->page_nbytes = page;
  backing->collapse = by == os::ThpBy::kCollapse;
  return Status::ok();
}

bool is_only_node(int32_t node) {
  const std::vector<int32_t> nodes = os::numa_nodes();
  return nodes.size() == 1 && nodes.front() == node;
}

// Binds the mapping to a node. Where a container's filter forbids mbind, a machine with one node
// passes, because there is nothing to bind.
Status bind(std::byte* base, uint64_t nbytes, const BackingRequest& request, Backing* backing) {
  TENON_TRY(os::check_numa_node(request.numa_node));
  Status bound = os::bind_to_node(base, nbytes, request.numa_node);
  if (bound.is_ok() || is_only_node(request.numa_node)) {
    backing->numa_node = request.numa_node;
    return Status::ok();
  }
  if (request.exact || bound.code() == Code::kInvalidArgument) return bound;
  backing->numa_refused = std::move(bound);
  return Status::ok();
}

// Locks the first page. A huge page is locked whole, so that the border of the locked range does
// not cut it into small pages.
Status lock_first_page(std::byte* base, uint64_t nbytes, const BackingRequest& request,
                       Backing* backing) {
  if (backing->pages == Pages::kHugetlb) return Status::ok();
  Status locked = os::lock_on_fault(base, std::min(nbytes, backing->page_nbytes));
  backing->locked = locked.is_ok();
  if (locked.is_ok()) return Status::ok();
  if (request.exact || locked.code() == Code::kResourceExhausted) return locked;
  backing->lock_refused = std::move(locked);
  return Status::ok();
}

// Makes one small page of each huge page that lies whole in the range. The kernel then makes the
// rest of each huge page in one go.
Status collapse_pages(int fd, std::byte* base, uint64_t offset, uint64_t nbytes, uint64_t page) {
  const uint64_t begin = round_up(offset, page);
  const uint64_t end = (offset + nbytes) / page * page;
  if (begin >= end) return Status::ok();
  for (uint64_t at = begin; at < end; at += page)
    TENON_TRY(os::reserve_pages(fd, at, os::page_nbytes()));
  // If this does not succeed (memory in small pieces), the caller makes small pages, and describe()
  // reports that.
  static_cast<void>(os::collapse(base + begin, end - begin));
  return Status::ok();
}

Status make_piece(int fd, std::byte* base, uint64_t offset, uint64_t nbytes,
                  const Backing& backing) {
  if (backing.pages == Pages::kHugetlb)
    return os::reserve_huge_pages(fd, offset, nbytes, backing.page_nbytes, backing.numa_node);
  TENON_TRY(os::ask_headroom(nbytes));
  if (backing.numa_node >= 0) TENON_TRY(os::ask_node_headroom(backing.numa_node, nbytes));
  if (backing.pages == Pages::kThp && backing.collapse)
    TENON_TRY(collapse_pages(fd, base, offset, nbytes, backing.page_nbytes));
  if (backing.pages == Pages::kThp && !backing.collapse) {
    const uint64_t begin = offset / os::page_nbytes() * os::page_nbytes();
    Status made = os::populate(base + begin, round_up(offset + nbytes, os::page_nbytes()) - begin);
    if (made.code() != Code::kUnsupported) return made;
  }
  return os::reserve_pages(fd, offset, nbytes);
}

}  // namespace

Result<Backing> choose_pages(const BackingRequest& request, Mode mode) {
  if (request.pages > Pages::kHugetlb) {
    return Status(Code::kInvalidArgument,
                  format("no such kind of pages: %u", static_cast<unsigned>(request.pages)))
        .with("pages", static_cast<uint64_t>(request.pages));
  }
  if (request.numa_node != -1) TENON_TRY(os::check_numa_node(request.numa_node));
  Backing backing;
  backing.page_nbytes = os::page_nbytes();
  if (request.pages == Pages::kHugetlb) {
    Status missing = try_hugetlb(request, mode, &backing);
    if (missing.is_ok()) return backing;
    if (request.exact || missing.code() == Code::kInvalidArgument) return missing;
    backing.pages_refused = std::move(missing);
  }
  if (request.pages == Pages::kSmall) return backing;
  Status missing = try_thp(request.pages != Pages::kAuto, &backing);
  if (missing.is_ok() || request.pages != Pages::kThp) return backing;
  if (request.exact) return missing;
  backing.pages_refused = std::move(missing);
  return backing;
}

Result<os::Fd> create_backed_memfd(const os::Nonce& nonce, uint64_t nbytes,
                                   const Backing& backing) {
  if (backing.pages == Pages::kHugetlb)
    return os::create_hugetlb_memfd(nonce, nbytes, backing.page_nbytes);
  return os::create_memfd(nonce, nbytes);
}

Status apply_backing(std::byte* base, uint64_t nbytes, const BackingRequest& request,
                     Backing* backing) {
  if (backing->pages == Pages::kThp) os::advise_thp(base, nbytes, true);
  if (request.pages == Pages::kSmall) os::advise_thp(base, nbytes, false);
  if (request.numa_node != -1) TENON_TRY(bind(base, nbytes, request, backing));
  if (request.lock) TENON_TRY(lock_first_page(base, nbytes, request, backing));
  return Status::ok();
}

Status make_pages(int fd, std::byte* base, uint64_t offset, uint64_t nbytes,
                  const Backing& backing) {
  if (backing.locked && backing.pages != Pages::kHugetlb)
    TENON_TRY(os::lock_on_fault(base + offset, nbytes));
  const uint64_t step = std::max(os::kReserveChunk, backing.page_nbytes);
  const uint64_t end = offset + nbytes;
  while (offset < end) {
    const uint64_t next = std::min(end, offset / step * step + step);
    TENON_TRY(make_piece(fd, base, offset, next - offset, backing));
    offset = next;
  }
  return Status::ok();
}

Backing describe(const std::byte* base, uint64_t nbytes, const Backing& applied) {
  Backing now = applied;
  bool is_known = false;
  const int32_t node = os::bound_node(base, &is_known);
  if (is_known && !is_only_node(applied.numa_node)) now.numa_node = node;
  const os::MappedPages seen = os::inspect_pages(base, nbytes);
  if (!seen.known) return now;
  now.resident_nbytes = seen.resident_nbytes;
  now.huge_nbytes = seen.huge_nbytes;
  if (seen.page_nbytes > os::page_nbytes()) {
    now.pages = Pages::kHugetlb;
    now.page_nbytes = seen.page_nbytes;
    return now;
  }
  now.locked = seen.locked_nbytes > 0 && seen.unlocked_resident_nbytes == 0;
  if (seen.huge_nbytes > 0) {
    now.pages = Pages::kThp;
    now.page_nbytes = os::thp_nbytes();
  } else if (applied.pages == Pages::kThp && seen.resident_nbytes >= applied.page_nbytes) {
    now.pages = Pages::kSmall;
    now.page_nbytes = os::page_nbytes();
    now.pages_refused =
        Status(
            Code::kResourceExhausted,
            format(
                "none of %llu bytes lies in a huge page: the machine's memory is in small pieces",
                static_cast<unsigned long long>(seen.resident_nbytes)))
            .with("limit", std::string("contiguous memory"));
  }
  return now;
}

}  // namespace tenon::memory
