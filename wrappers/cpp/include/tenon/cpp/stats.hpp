/// @file
/// Figures about the library in this process: the memory that it holds and the bytes that it has
/// copied.
#ifndef TENON_CPP_STATS_HPP
#define TENON_CPP_STATS_HPP

#include <tenon/stats.h>
#include <tenon/cpp/error.hpp>

TENON_CPP_BEGIN

/// Figures about this process. They are read one after another, so other threads can change some of
/// them in between. tenon/stats.h explains each figure.
using Stats = tenon_stats;

/// Gives the figures of this moment.
inline Result<Stats> try_stats() { return detail::fill<Stats>(tenon_stats_get); }
#ifndef TENON_NO_EXCEPTIONS
inline Stats stats() { return try_stats().value(); }
#endif

TENON_CPP_END

#endif
