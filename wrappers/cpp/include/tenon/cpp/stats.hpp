// What the library holds and has done in this process.
#ifndef TENON_CPP_STATS_HPP
#define TENON_CPP_STATS_HPP

#include <tenon/stats.h>
#include <tenon/cpp/error.hpp>

TENON_CPP_BEGIN

/// Figures of one moment, not of one instant; tenon/stats.h says what each is.
using Stats = tenon_stats;

/// The figures now.
inline Result<Stats> try_stats() { return detail::fill<Stats>(tenon_stats_get); }
#ifndef TENON_NO_EXCEPTIONS
inline Stats stats() { return try_stats().value(); }
#endif

TENON_CPP_END

#endif
