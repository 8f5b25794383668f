// These tests compare the layouts of views with the elements that the views must have, one by one.
#include "tensor/view_layout.h"

#include <gtest/gtest.h>
#include <tenon/tensor.h>

#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace tenon::tensor {
namespace {

using Numbers = std::vector<int64_t>;
using Kind = IndexItem::Kind;

constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();
constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
constexpr DType kByteType{TENON_DTYPE_INT, 8, 1};
constexpr DType kShortType{TENON_DTYPE_INT, 16, 1};
constexpr DType kWordType{TENON_DTYPE_INT, 32, 1};
constexpr DType kFloat4{TENON_DTYPE_FLOAT4_E2M1FN, 4, 1};
constexpr DType kFloat6{TENON_DTYPE_FLOAT6_E2M3FN, 6, 1};

IndexItem number(int64_t index) { return {Kind::kNumber, index, 0, 0}; }
IndexItem slice(int64_t start, int64_t stop, int64_t step = 1) {
  return {Kind::kSlice, start, stop, step};
}
constexpr IndexItem kAll{Kind::kSlice, 0, kHighest, 1};
constexpr IndexItem kNewAxis{Kind::kNewAxis, 0, 0, 0};
constexpr IndexItem kEllipsis{Kind::kEllipsis, 0, 0, 0};

// A layout that owns its numbers.
struct OwnLayout {
  DType dtype;
  Numbers sizes;
  Numbers strides;
  uint64_t offset = 0;

  Layout layout() const { return {dtype, sizes, strides, offset}; }
  bool operator==(const OwnLayout&) const = default;
};

void PrintTo(const OwnLayout& layout, std::ostream* out) {
  *out << dtype_name(layout.dtype).text << " " << testing::PrintToString(layout.sizes) << " "
       << testing::PrintToString(layout.strides) << " from " << layout.offset;
}

OwnLayout own(const ViewLayout& view) {
  const Layout layout = view.layout();
  return {layout.dtype, Numbers(layout.sizes.begin(), layout.sizes.end()),
          Numbers(layout.strides.begin(), layout.strides.end()), layout.offset};
}

// The layout that a call wrote, or nothing if it failed as it should.
template <typename Call>
std::optional<OwnLayout> view_by(Call&& call) {
  ViewLayout view;
  const Status status = call(&view);
  if (status.is_ok()) return own(view);
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
  EXPECT_FALSE(status.message().empty());
  return std::nullopt;
}

std::optional<OwnLayout> reshaped(const OwnLayout& from, const Numbers& sizes) {
  return view_by([&](ViewLayout* out) { return reshape_layout(from.layout(), sizes, out); });
}

std::optional<OwnLayout> read_as(const OwnLayout& from, DType dtype) {
  return view_by([&](ViewLayout* out) { return dtype_layout(from.layout(), dtype, out); });
}

std::optional<OwnLayout> picked(const OwnLayout& from, const std::vector<IndexItem>& items) {
  return view_by([&](ViewLayout* out) { return index_layout(from.layout(), items, out); });
}

// The places of all elements in the storage, with the last dimension fastest.
Numbers places_of(const OwnLayout& of) {
  Numbers places = {static_cast<int64_t>(of.offset)};
  for (size_t i = 0; i < of.sizes.size(); ++i) {
    Numbers next;
    for (const int64_t place : places) {
      for (int64_t k = 0; k < of.sizes[i]; ++k) next.push_back(place + k * of.strides[i]);
    }
    places = std::move(next);
  }
  return places;
}

OwnLayout random_layout(std::mt19937_64& random) {
  OwnLayout made{kWordType, Numbers(random() % 5), {}, 1000};
  int64_t step = 1;
  for (int64_t& size : made.sizes) size = static_cast<int64_t>(random() % 4) + 1;
  made.strides.resize(made.sizes.size());
  for (size_t i = made.sizes.size(); i > 0; --i) {
    // Half of the dimensions go on where the inner ones end, so that shapes often have strides.
    const auto other = static_cast<int64_t>(random() % 13) - 6;
    made.strides[i - 1] = random() % 2 == 0 ? step : other;
    step = made.strides[i - 1] * made.sizes[i - 1];
  }
  return made;
}

TEST(ViewLayout, ReshapeKeepsTheElements) {
  EXPECT_EQ(reshaped({kWordType, {12}, {1}, 5}, {3, 4}), (OwnLayout{kWordType, {3, 4}, {4, 1}, 5}));
  EXPECT_EQ(reshaped({kWordType, {12}, {1}}, {3, -1}), (OwnLayout{kWordType, {3, 4}, {4, 1}}));
  EXPECT_EQ(reshaped({kWordType, {1, 1}, {7, 9}}, {}), (OwnLayout{kWordType, {}, {}}));
  EXPECT_EQ(reshaped({kWordType, {}, {}, 3}, {1, -1}), (OwnLayout{kWordType, {1, 1}, {1, 1}, 3}));
  EXPECT_EQ(reshaped({kWordType, {0, 3}, {9, -9}}, {5, 0}), (OwnLayout{kWordType, {5, 0}, {1, 1}}));
  EXPECT_EQ(reshaped({kWordType, {0}, {1}}, {-1, 5}), (OwnLayout{kWordType, {0, 5}, {5, 1}}));
  EXPECT_EQ(reshaped({kFloat4, {6}, {1}, 2}, {2, 3}), (OwnLayout{kFloat4, {2, 3}, {3, 1}, 2}));
}

TEST(ViewLayout, ReshapeOfStridedElements) {
  EXPECT_EQ(reshaped({kWordType, {6}, {2}}, {3, 2}), (OwnLayout{kWordType, {3, 2}, {4, 2}}));
  EXPECT_EQ(reshaped({kWordType, {6}, {-1}, 5}, {2, 3}),
            (OwnLayout{kWordType, {2, 3}, {-3, -1}, 5}));
  EXPECT_EQ(reshaped({kWordType, {4}, {0}}, {2, 2}), (OwnLayout{kWordType, {2, 2}, {0, 0}}));
  EXPECT_EQ(reshaped({kWordType, {4, 3}, {6, 1}}, {2, 2, 3}),
            (OwnLayout{kWordType, {2, 2, 3}, {12, 6, 1}}));
  EXPECT_EQ(reshaped({kWordType, {3, 1, 2}, {1, 50, 3}}, {3, 2}),
            (OwnLayout{kWordType, {3, 2}, {1, 3}}));
  EXPECT_EQ(reshaped({kWordType, {2, 3}, {1, 2}}, {6}), std::nullopt);
  EXPECT_EQ(reshaped({kWordType, {4, 3}, {6, 1}}, {6, 2}), std::nullopt);
  EXPECT_EQ(reshaped({kWordType, {4, 3}, {6, 1}}, {12}), std::nullopt);
}

// A reshape is right if it has the same places in the same order. It may only refuse a shape if no
// strides give these places.
TEST(ViewLayout, ReshapeAgreesWithBruteForce) {
  std::mt19937_64 random(20261130);
  size_t good = 0;
  size_t bad = 0;
  for (int round = 0; round < 20000; ++round) {
    const OwnLayout from = random_layout(random);
    const Numbers places = places_of(from);
    Numbers sizes;
    auto left = static_cast<int64_t>(places.size());
    while (left > 1 || random() % 3 == 0) {
      int64_t size = static_cast<int64_t>(random()) % left;
      size = size < 0 ? -size : size;
      while (size == 0 || left % size != 0) size = size == 0 ? 1 : size - 1;
      sizes.push_back(random() % 4 == 0 ? left : size);
      left /= sizes.back();
      if (sizes.size() > 8) break;
    }
    if (left > 1) sizes.push_back(left);
    // The places of the first neighbours say what the strides must be.
    Numbers strides(sizes.size(), 0);
    size_t step = 1;
    for (size_t i = sizes.size(); i > 0; --i) {
      if (sizes[i - 1] > 1) strides[i - 1] = places[step] - places[0];
      step *= static_cast<size_t>(sizes[i - 1]);
    }
    const bool possible = places_of({kWordType, sizes, strides, from.offset}) == places;
    const std::optional<OwnLayout> view = reshaped(from, sizes);
    ASSERT_EQ(view.has_value(), possible)
        << testing::PrintToString(from) << " as " << testing::PrintToString(sizes);
    if (view) {
      ASSERT_EQ(view->sizes, sizes);
      ASSERT_EQ(places_of(*view), places) << testing::PrintToString(from);
    }
    ++(possible ? good : bad);
  }
  EXPECT_GT(good, 2000U);
  EXPECT_GT(bad, 2000U);
}

TEST(ViewLayout, ShapesThatDoNotFit) {
  const OwnLayout twelve{kWordType, {12}, {1}};
  for (const Numbers& sizes : {Numbers{5, 2},
                               {5, -1},
                               {0, -1},
                               {-1, -1, 12},
                               {-2, -6},
                               {},
                               {13},
                               {24},
                               {0},
                               {kHighest, kHighest},
                               {kHighest, -1},
                               {-1, kLowest},
                               {int64_t{1} << 62, 4, 3}}) {
    EXPECT_EQ(reshaped(twelve, sizes), std::nullopt) << testing::PrintToString(sizes);
  }
  const OwnLayout none{kWordType, {0}, {1}};
  for (const Numbers& sizes :
       {Numbers{0, -1}, {-1, 0}, {1}, {}, {0, kHighest, kHighest, kHighest}}) {
    EXPECT_EQ(reshaped(none, sizes), std::nullopt) << testing::PrintToString(sizes);
  }
  EXPECT_EQ(reshaped(twelve, Numbers(65, 1)), std::nullopt);
  EXPECT_TRUE(reshaped({kWordType, {1}, {1}}, Numbers(64, 1)));
}

TEST(ViewLayout, StridesOfOneElementMayBeAnything) {
  const OwnLayout wild{kWordType, {1, 6, 1}, {kLowest, 2, kHighest}};
  const std::optional<OwnLayout> view = reshaped(wild, {2, 1, 3});
  ASSERT_TRUE(view);
  EXPECT_EQ(places_of(*view), places_of({kWordType, {6}, {2}}));
  EXPECT_EQ(picked(wild, {slice(0, 1, 2), kEllipsis})->sizes, (Numbers{1, 6, 1}));
  EXPECT_EQ(picked(wild, {slice(0, 1, kHighest), kAll, slice(-1, kLowest, kLowest)})->sizes,
            (Numbers{1, 6, 1}));
  // In a layout without elements all strides may be anything, and no index leads anywhere.
  const OwnLayout empty{kWordType, {9, 0}, {kHighest, kLowest}, 4};
  EXPECT_EQ(picked(empty, {number(5)}), (OwnLayout{kWordType, {0}, {kLowest}, 4}));
  EXPECT_EQ(picked(empty, {slice(1, 9, 4)}),
            (OwnLayout{kWordType, {2, 0}, {kHighest, kLowest}, 4}));
}

TEST(ViewLayout, AnotherDType) {
  EXPECT_EQ(read_as({kWordType, {2, 3}, {1, 2}, 1}, {TENON_DTYPE_FLOAT, 32, 1}),
            (OwnLayout{{TENON_DTYPE_FLOAT, 32, 1}, {2, 3}, {1, 2}, 1}));
  EXPECT_EQ(read_as({kWordType, {2, 3}, {3, 1}, 1}, kByteType),
            (OwnLayout{kByteType, {2, 12}, {12, 1}, 4}));
  EXPECT_EQ(read_as({kByteType, {2, 4}, {4, 1}, 6}, kShortType),
            (OwnLayout{kShortType, {2, 2}, {2, 1}, 3}));
  EXPECT_EQ(read_as({kFloat4, {6}, {1}, 2}, kByteType), (OwnLayout{kByteType, {3}, {1}, 1}));
  EXPECT_EQ(read_as({kByteType, {3}, {1}, 1}, kFloat4), (OwnLayout{kFloat4, {6}, {1}, 2}));
  EXPECT_EQ(read_as({kByteType, {3}, {1}, 3}, kFloat6), (OwnLayout{kFloat6, {4}, {1}, 4}));
  EXPECT_EQ(read_as({kWordType, {1, 0}, {1, 1}}, kByteType),
            (OwnLayout{kByteType, {1, 0}, {1, 1}}));
}

TEST(ViewLayout, DTypesThatDoNotFit) {
  EXPECT_EQ(read_as({kWordType, {3}, {2}}, kByteType), std::nullopt) << "not contiguous";
  EXPECT_EQ(read_as({kWordType, {}, {}}, kByteType), std::nullopt) << "no dimension";
  EXPECT_EQ(read_as({kByteType, {4}, {1}, 1}, kShortType), std::nullopt) << "the offset";
  EXPECT_EQ(read_as({kByteType, {5}, {1}}, kShortType), std::nullopt) << "the last dimension";
  EXPECT_EQ(read_as({kByteType, {4, 1}, {1, 1}}, kShortType), std::nullopt) << "the last dimension";
  EXPECT_EQ(read_as({kByteType, {4}, {1}}, kFloat6), std::nullopt) << "32 bits";
  EXPECT_EQ(read_as({kByteType, {4}, {1}}, {3, 64, 1}), std::nullopt) << "an opaque handle";
  EXPECT_EQ(read_as({kByteType, {4}, {1}}, {TENON_DTYPE_INT, 8, 0}), std::nullopt) << "no lanes";
  EXPECT_EQ(read_as({kWordType, {0, kHighest}, {1, 1}}, kByteType), std::nullopt) << "overflow";
  EXPECT_EQ(read_as({kWordType, {0}, {1}, uint64_t{1} << 61}, kByteType), std::nullopt)
      << "overflow";
}

TEST(ViewLayout, IndicesPickElements) {
  const OwnLayout matrix{kWordType, {4, 6}, {6, 1}, 2};
  EXPECT_EQ(picked(matrix, {}), matrix);
  EXPECT_EQ(picked(matrix, {kEllipsis}), matrix);
  EXPECT_EQ(picked(matrix, {number(1)}), (OwnLayout{kWordType, {6}, {1}, 8}));
  EXPECT_EQ(picked(matrix, {number(-1), number(-6)}), (OwnLayout{kWordType, {}, {}, 20}));
  EXPECT_EQ(picked(matrix, {kEllipsis, number(2)}), (OwnLayout{kWordType, {4}, {6}, 4}));
  EXPECT_EQ(picked(matrix, {kNewAxis, number(0), kEllipsis, kNewAxis}),
            (OwnLayout{kWordType, {1, 6, 1}, {0, 1, 0}, 2}));
  EXPECT_EQ(picked(matrix, {kAll, slice(1, kHighest, 2)}),
            (OwnLayout{kWordType, {4, 3}, {6, 2}, 3}));
  EXPECT_EQ(picked(matrix, {slice(kHighest, kLowest, -1)}),
            (OwnLayout{kWordType, {4, 6}, {-6, 1}, 20}));
  EXPECT_EQ(picked(matrix, {kAll, slice(4, 4)}), (OwnLayout{kWordType, {4, 0}, {6, 1}, 2}));
  EXPECT_EQ(picked({kFloat4, {3, 4}, {4, 1}}, {number(1)}), (OwnLayout{kFloat4, {4}, {1}, 4}));
  EXPECT_EQ(picked({kFloat4, {3}, {1}}, {number(1)}), std::nullopt) << "inside a byte";
}

// The bounds of slices are compared with Python's definition, which picks one index after another.
TEST(ViewLayout, SlicesAgreeWithBruteForce) {
  const Numbers bounds = {kLowest, kLowest + 1, -7, -6, -5, -4, -1,           0,
                          1,       3,           4,  5,  6,  7,  kHighest - 1, kHighest};
  const Numbers steps = {kLowest, -6, -3, -2, -1, 1, 2, 3, 6, kHighest};
  for (const int64_t size : {0, 1, 5}) {
    for (const int64_t start : bounds) {
      for (const int64_t stop : bounds) {
        for (const int64_t step : steps) {
          const auto bound = [&](int64_t value) {
            if (value < 0) value += size;
            if (step > 0) return value < 0 ? 0 : value > size ? size : value;
            return value < 0 ? -1 : value >= size ? size - 1 : value;
          };
          Numbers places;
          int64_t at = bound(start);
          while (step > 0 ? at < bound(stop) : at > bound(stop)) {
            places.push_back(100 + 3 * at);
            if (step > size || step < -size) break;
            at += step;
          }
          const std::optional<OwnLayout> view =
              picked({kWordType, {size}, {3}, 100}, {slice(start, stop, step)});
          ASSERT_TRUE(view);
          ASSERT_EQ(places_of(*view), places)
              << start << ":" << stop << ":" << step << " of " << size;
        }
      }
    }
  }
}

TEST(ViewLayout, WrongIndicesNameTheItem) {
  const OwnLayout matrix{kWordType, {2, 3}, {3, 1}};
  struct Case {
    std::vector<IndexItem> items;
    const char* item;
    const char* dimension = "";
    const char* size = "";
  };
  for (const Case& wrong :
       {Case{{number(2)}, "0", "0", "2"}, Case{{number(-3)}, "0", "0", "2"},
        Case{{kNewAxis, number(0), number(3)}, "2", "1", "3"},
        Case{{kEllipsis, number(kLowest)}, "1", "1", "3"}, Case{{number(kHighest)}, "0", "0", "2"},
        Case{{number(0), number(0), number(0)}, "2"}, Case{{kEllipsis, kAll, kAll, kAll}, "3"},
        Case{{kEllipsis, kEllipsis}, "1"}, Case{{kAll, slice(0, 1, 0)}, "1"}}) {
    ViewLayout view;
    const Status status = index_layout(matrix.layout(), wrong.items, &view);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_EQ(status.detail("item"), wrong.item) << status.message();
    EXPECT_EQ(status.detail("dimension"), wrong.dimension) << status.message();
    EXPECT_EQ(status.detail("size"), wrong.size) << status.message();
  }
  std::vector<IndexItem> many(62, kNewAxis);
  EXPECT_EQ(picked(matrix, many)->sizes.size(), 64U);
  many.push_back(kNewAxis);
  ViewLayout view;
  const Status status = index_layout(matrix.layout(), many, &view);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.detail("item"), "") << "65 dimensions are no matter of a single item";
}

}  // namespace
}  // namespace tenon::tensor
