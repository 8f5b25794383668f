// tenon/stats.h: counts of the storages, segments and bytes of this process.
#include <tenon/stats.h>

#include "boundary.h"
#include "memory/arena.h"
#include "memory/segment.h"
#include "share/cache.h"
#include "storage/storage.h"

using namespace tenon::capi;
using tenon::Status;

extern "C" {

tenon_status tenon_stats_get(tenon_stats* out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_output(out, "tenon_stats"));
    const auto& segments = tenon::memory::segment_totals();
    const auto& storages = tenon::storage::storage_totals();
    const tenon::share::OpenedTotals opened = tenon::share::opened_totals();
    const tenon::memory::ArenaTotals arena = tenon::memory::arena_totals();
    tenon_stats stats{};
    stats.bytes_copied = storages.copied_nbytes.load();
    stats.storages = storages.storages.load() + opened.storages + arena.storages;
    stats.segments = segments.segments.load();
    stats.segment_fds = segments.fds.load();
    stats.bytes_reserved = segments.reserved_nbytes.load();
    stats.bytes_live = arena.live_nbytes;
    stats.bytes_retired = arena.retired_nbytes;
    stats.bytes_opened = storages.opened_nbytes.load() + opened.nbytes;
    write_struct(out, stats);
    return Status::ok();
  });
}
}
