// The names of the parts of a composite, for the programs in C++ of matrix and vectors.
#ifndef TENON_TESTS_LANGUAGES_COMPOSITE_PARTS_HPP
#define TENON_TESTS_LANGUAGES_COMPOSITE_PARTS_HPP

#include <tenon/tenon.hpp>

struct CompositePart {
  const char* name;
  tenon::Tensor tenon::CompositeSpec::* field;
};

// In the order of the fields in C.
inline constexpr CompositePart kCompositeParts[] = {
    {"values", &tenon::CompositeSpec::values},
    {"indices", &tenon::CompositeSpec::indices},
    {"plain_indices", &tenon::CompositeSpec::plain_indices},
    {"offsets", &tenon::CompositeSpec::offsets},
    {"lengths", &tenon::CompositeSpec::lengths},
    {"component_sizes", &tenon::CompositeSpec::component_sizes},
    {"component_strides", &tenon::CompositeSpec::component_strides},
    {"scales", &tenon::CompositeSpec::scales},
    {"zero_points", &tenon::CompositeSpec::zero_points},
};

#endif
