/// @file
/// Figures about the library in this process: what it holds and what it has done.
#ifndef TENON_CPP_STATS_HPP
#define TENON_CPP_STATS_HPP

#include <tenon/stats.h>
#include <tenon/cpp/error.hpp>

TENON_CPP_BEGIN

/// The figures. They are read one after another, so other threads can change some of them in
/// between. tenon/stats.h explains each.
using Stats = tenon_stats;

/// Gives the figures of this moment.
inline Result<Stats> try_stats() { return detail::fill<Stats>(tenon_stats_get); }
#ifndef TENON_NO_EXCEPTIONS
inline Stats stats() { return try_stats().value(); }
#endif

TENON_CPP_END

#endif
