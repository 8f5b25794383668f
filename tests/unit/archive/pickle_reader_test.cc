// These tests check the tree of nodes that pickle/reader.h makes of a pickle, and that hostile
// pickles are refused.
#include "pickle/reader.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "pickle/opcodes.h"
#include "support/must.h"
#include "unit/archive/pickle_support.h"

namespace tenon::archive {
namespace {

using namespace test;

Result<pickle::PickleTree> read_tree(const Bytes& content,
                                     const pickle::PickleReadOptions& options = {}) {
  return pickle::read_pickle(content, options);
}

// The tuple contains every scalar opcode of the module dialect.
TEST(PickleReader, Scalars) {
  const Bytes content = bytes_of(proto2("(N\x88\x89K\xffM\x01\x02J\xfe\xff\xff\xff\x8a\x08" +
                                        std::string("\0\0\0\0\0\1\0\0", 8) + "G\x3f\xf8" +
                                        std::string(6, '\0') + str("hé") + "t"));
  pickle::PickleTree result = must(read_tree(content));
  const pickle::PickleTree& tree = result;
  EXPECT_EQ(tree.protocol(), 2);
  EXPECT_EQ(tree.nbytes(), content.size());
  ASSERT_EQ(tree.kind(tree.root()), pickle::NodeKind::kTuple);
  const std::span<const pickle::NodeId> items = tree.children(tree.root());
  ASSERT_EQ(items.size(), 9U);
  EXPECT_EQ(tree.kind(items[0]), pickle::NodeKind::kNone);
  EXPECT_TRUE(tree.boolean(items[1]));
  EXPECT_FALSE(tree.boolean(items[2]));
  EXPECT_EQ(tree.integer(items[3]), 255);
  EXPECT_EQ(tree.integer(items[4]), 513);
  EXPECT_EQ(tree.integer(items[5]), -2);
  EXPECT_EQ(tree.integer(items[6]), int64_t{1} << 40);
  EXPECT_EQ(tree.real(items[7]), 1.5);
  EXPECT_EQ(tree.text(items[8]), "hé");
  EXPECT_EQ(tree.offset(items[0]), 3U);
}

TEST(PickleReader, BothFamiliesOfItems) {
  const std::string one_by_one = proto2(
      "]K\x01"
      "aK\x02"
      "a}K\x03NsK\x04Ns\x86");
  const std::string at_once = proto2(
      "](K\x01K\x02"
      "e}(K\x03NK\x04Nu\x86");
  const std::string by_mark = proto2("(K\x01K\x02l(K\x03NK\x04Nd\x86");
  for (const std::string& pickle : {one_by_one, at_once, by_mark}) {
    const Bytes content = bytes_of(pickle);
    pickle::PickleTree result = must(read_tree(content));
    const pickle::PickleTree& tree = result;
    const std::span<const pickle::NodeId> both = tree.children(tree.root());
    ASSERT_EQ(both.size(), 2U);
    EXPECT_EQ(tree.kind(both[0]), pickle::NodeKind::kList);
    EXPECT_EQ(tree.children(both[0]).size(), 2U);
    EXPECT_EQ(tree.kind(both[1]), pickle::NodeKind::kDict);
    ASSERT_EQ(tree.children(both[1]).size(), 4U);
    EXPECT_EQ(tree.integer(tree.children(both[1])[2]), 4);
  }
}

TEST(PickleReader, TheMemoKeepsIdentity) {
  const Bytes content =
      bytes_of(proto2("]q" + kNul + "h" + kNul + "r\x01\x02\x03\x04j\x01\x02\x03\x04\x87"));
  pickle::PickleTree result = must(read_tree(content));
  const pickle::PickleTree& tree = result;
  const std::span<const pickle::NodeId> items = tree.children(tree.root());
  ASSERT_EQ(items.size(), 3U);
  EXPECT_EQ(items[0], items[1]);
  EXPECT_EQ(items[0], items[2]);
  EXPECT_TRUE(tree.memoised(items[0]));
  EXPECT_FALSE(tree.memoised(tree.root()));
}

TEST(PickleReader, CallsAreNodes) {
  const Bytes content = bytes_of(proto2("cos\nsystem\n" + str("ls") + "\x85R}b"));
  pickle::PickleTree result = must(read_tree(content));
  const pickle::PickleTree& tree = result;
  ASSERT_EQ(tree.kind(tree.root()), pickle::NodeKind::kReduce);
  const pickle::PickledCall& call = tree.call(tree.root());
  EXPECT_EQ(tree.module(call.callable), "os");
  EXPECT_EQ(tree.name(call.callable), "system");
  EXPECT_EQ(tree.kind(call.args), pickle::NodeKind::kTuple);
  EXPECT_EQ(tree.kind(call.state), pickle::NodeKind::kDict);
  EXPECT_EQ(tree.describe(tree.root()), "a call of 'os.system'");
}

TEST(PickleReader, WhatFollowsStopIsNotRead) {
  const Bytes content = bytes("\x80\x02N.garbage");
  pickle::PickleTree result = must(read_tree(content));
  EXPECT_EQ(result.nbytes(), 4U);
}

TEST(PickleReader, GeneralDialect) {
  // The pickle has a frame, short texts, MEMOIZE, STACK_GLOBAL, bytes of each width, a set, a
  // frozen set, keyword arguments, and integers of other widths.
  const std::string body =
      "\x8c\x03"
      "abc\x94\x8c\x01x\x93"
      "C\x02hiB" +
      u32(1) + "z\x8e" + u64(2) + "yy\x96" + u64(1) +
      "w\x8f(K\x01K\x02\x90(K\x03\x91"
      "cm\nC\n)}\x92\x8a" +
      kNul + "\x8a\x01\xff\x8b" + u32(9) + std::string(9, '\x7f') + "U\x02okT" + u32(1) + "k";
  const Bytes content = bytes_of("\x80\x04\x95" + u64(body.size() + 3) + "(" + body + "t.");
  pickle::PickleTree result = must(read_tree(content, general()));
  const pickle::PickleTree& tree = result;
  const std::span<const pickle::NodeId> items = tree.children(tree.root());
  ASSERT_EQ(items.size(), 13U);
  EXPECT_EQ(tree.kind(items[0]), pickle::NodeKind::kGlobal);
  EXPECT_EQ(tree.module(items[0]), "abc");
  EXPECT_EQ(tree.name(items[0]), "x");
  for (size_t i = 1; i <= 4; ++i) EXPECT_EQ(tree.kind(items[i]), pickle::NodeKind::kBytes);
  EXPECT_EQ(tree.text(items[3]), "yy");
  EXPECT_EQ(tree.kind(items[5]), pickle::NodeKind::kSet);
  EXPECT_EQ(tree.children(items[5]).size(), 2U);
  EXPECT_EQ(tree.kind(items[6]), pickle::NodeKind::kSet);
  EXPECT_EQ(tree.kind(items[7]), pickle::NodeKind::kNew);
  EXPECT_EQ(tree.kind(tree.call(items[7]).keyword_args), pickle::NodeKind::kDict);
  EXPECT_EQ(tree.integer(items[8]), 0);
  EXPECT_EQ(tree.integer(items[9]), -1);
  EXPECT_EQ(tree.kind(items[10]), pickle::NodeKind::kLong);
  EXPECT_EQ(tree.text(items[10]).size(), 9U);
  EXPECT_EQ(tree.text(items[11]), "ok");
  EXPECT_EQ(tree.text(items[12]), "k");
  expect_error(read_tree(content).status(), Code::kUnsupported, "protocol 4");
}

TEST(PickleReader, OnlyWhatPyTorchReadsIsInAModuleArchive) {
  for (const char* body :
       {"\x8c\x01x", "]\x94", "\x8f", "C\x01x", "I1\n", "N0N", "\x8b\x01\0\0\0\x01"}) {
    const Bytes content = bytes_of(proto2(body));
    const Status status = read_tree(content).status();
    expect_error(status, Code::kUnsupported, "PyTorch reads no such opcode");
    EXPECT_FALSE(status.detail("opcode").empty());
  }
  const Bytes short_long = bytes_of(proto2("\x8a\x01\x05"));
  expect_error(read_tree(short_long).status(), Code::kUnsupported, "PyTorch reads 8");
}

// Each case has a name, and bytes that no pickler writes. The bytes are copied to the heap, so that
// a sanitizer sees a read past their end.
TEST(PickleReader, Hostile) {
  struct Case {
    const char* what;
    std::string pickle;
    const char* part;
  };
  const Case cases[] = {
      {"empty", "", "no pickle"},
      {"no protocol", "N.", "no pickle"},
      {"protocol cut", "\x80", "bytes are named"},
      {"nothing", "\x80\x02", "without STOP"},
      {"no stop", "\x80\x02N", "without STOP"},
      {"empty stack", proto2(""), "0 values are on the stack"},
      {"two values", proto2("NN"), "2 values are on the stack"},
      {"a mark is left", proto2("N("), "marks are left"},
      {"no opcode", proto2("\xff"), "no opcode"},
      {"int cut", "\x80\x02J\x01\x02", "4 bytes are named, 2 are left"},
      {"float cut", "\x80\x02G\x01", "are left"},
      {"text cut",
       "\x80\x02X\xff\xff\xff\xff"
       "abc",
       "4294967295 bytes are named, 3 are left"},
      {"text of 2^63 bytes", "\x80\x02\x8d" + u64(uint64_t{1} << 63) + "abc", "are left"},
      {"text of 2^64 - 1 bytes", "\x80\x02\x8d" + u64(std::numeric_limits<uint64_t>::max()) + "abc",
       "are left"},
      {"global without an end",
       "\x80\x02"
       "cos",
       "without its end"},
      {"global with half an end",
       "\x80\x02"
       "cos\nsystem",
       "without its end"},
      {"tuple1 of nothing", proto2("\x85"), "too few values"},
      {"tuple2 of one", proto2("N\x86"), "too few values"},
      {"tuple3 over a mark", proto2("N(NN\x87t\x86"), "too few values"},
      {"tuple without a mark", proto2("Nt"), "no mark"},
      {"appends without a mark", proto2("]Ne"), "no mark"},
      {"append to nothing", proto2("Na"), "too few values"},
      {"append to a number", proto2("K\x01Na"), "cannot take this"},
      {"append to a tuple", proto2(")Na"), "cannot take this"},
      {"items to a list", proto2("](NNu"), "cannot take this"},
      {"appends to a dict", proto2("}(NNe"), "cannot take this"},
      {"appends under a mark", proto2("]((Net"), "too few values"},
      {"a key without its value", proto2("}(NNNu"), "without its value"},
      {"a dict of three", proto2("(NNNd"), "without its value"},
      {"reduce of a number", proto2("K\x01)R"), "cannot be called"},
      {"reduce of nothing", proto2(")R"), "too few values"},
      {"new without a tuple", proto2("ca\nb\nN\x81"), "no tuple"},
      {"build of a number", proto2("K\x01}b"), "cannot have a state"},
      {"build twice", proto2("ca\nb\n)\x81}b}b"), "a second state"},
      {"persistent id of nothing", proto2("Q"), "too few values"},
      {"get of nothing", proto2("h\x05"), "memo 5 was never put"},
      {"long get of nothing", proto2("j\xff\xff\xff\xff"), "was never put"},
      {"put of nothing", proto2("q" + kNul), "too few values"},
      {"put over a mark", proto2("N(q" + kNul + "t"), "too few values"},
  };
  for (const Case& hostile : cases) {
    SCOPED_TRACE(hostile.what);
    const Bytes content = bytes_of(hostile.pickle);
    expect_error(read_tree(content).status(), Code::kCorrupt, hostile.part);
    expect_error(read_tree(content, general()).status(), Code::kCorrupt, hostile.part);
  }
  const Case of_general[] = {
      {"frame over the end", "\x80\x04\x95" + u64(100) + "N.", "a frame of 100 bytes, 2 are left"},
      {"frame of 2^64 - 1", "\x80\x04\x95" + u64(std::numeric_limits<uint64_t>::max()) + "N.",
       "are left"},
      {"global of numbers", "\x80\x04K\x01K\x02\x93.", "no str"},
      {"memoize of nothing", "\x80\x04\x94.", "too few values"},
      {"additems to a list", "\x80\x04](N\x90.", "cannot take this"},
      {"new with a list of keywords",
       "\x80\x04"
       "ca\nb\n)]\x92.",
       "no dict"},
      {"pop of nothing",
       "\x80\x04"
       "0N.",
       "too few values"},
      {"bytes cut",
       "\x80\x04"
       "B\xff\xff\xff\x7f.",
       "are left"},
      {"long4 of 2^31", "\x80\x02\x8b" + u32(0x7fffffff) + ".", "are left"},
  };
  for (const Case& hostile : of_general) {
    SCOPED_TRACE(hostile.what);
    const Bytes content = bytes_of(hostile.pickle);
    expect_error(read_tree(content, general()).status(), Code::kCorrupt, hostile.part);
  }
  for (const char* body : {"\x82\x01", "\x97", "\x98", "P1\n", "I1\n", "(i"}) {
    const Bytes content = bytes_of(proto2(body));
    expect_error(read_tree(content, general()).status(), Code::kUnsupported, "");
  }
  for (const char* protocol : {"\x80\x01N.", "\x80\x06N.", "\x80\xffN."}) {
    const Bytes content = bytes_of(protocol);
    expect_error(read_tree(content, general()).status(), Code::kUnsupported, "protocol");
  }
}

TEST(PickleReader, Limits) {
  const auto expect_limit = [](const Bytes& content, const pickle::PickleReadOptions& options,
                               const char* limit) {
    const Status status = read_tree(content, options).status();
    expect_error(status, Code::kResourceExhausted, limit);
    EXPECT_EQ(status.detail("limit"), limit);
  };
  pickle::PickleReadOptions options;
  options.limits.max_nbytes = 8;
  expect_limit(bytes_of(proto2("NNNNNN")), options, "max_nbytes");
  options = {};
  options.limits.max_nodes = 3;
  EXPECT_TRUE(read_tree(bytes_of(proto2("NN\x86")), options).is_ok());
  expect_limit(bytes_of(proto2("(NNNt")), options, "max_nodes");
  options = {};
  options.limits.max_memo = 2;
  expect_limit(bytes_of(proto2("Nq" + kNul + "q\x01q\x02")), options, "max_memo");
  expect_limit(bytes_of(proto2("Nq" + kNul + "q\x63r\xff\xff\xff\xff")), options, "max_memo");
  options = {};
  options.limits.max_text_nbytes = 3;
  EXPECT_TRUE(read_tree(bytes_of(proto2(str("abc"))), options).is_ok());
  expect_limit(bytes_of(proto2(str("abcd"))), options, "max_text_nbytes");
  options = {};
  options.limits.max_name_nbytes = 3;
  expect_limit(bytes_of(proto2("cabcd\nx\n")), options, "max_name_nbytes");
  expect_limit(bytes_of(proto2("cx\nabcd\n")), options, "max_name_nbytes");
}

// A file chooses the numbers of its memo. A large number must cost no memory and no time.
TEST(PickleReader, SparseMemo) {
  const Bytes content =
      bytes_of(proto2("]r\xff\xff\xff\xff(Nq\x07tq\x03j\xff\xff\xff\xffh\x07h\x03\x87\x86\x86"));
  Result<pickle::PickleTree> result = read_tree(content);
  ASSERT_TRUE(result.is_ok()) << result.status().message();
}

// The children of all lists are in one array. A list must move with all its children when it grows
// after another list has grown behind it.
TEST(PickleReader, ListsGrowInTurns) {
  constexpr int kLists = 3;
  std::string body = "(";
  std::vector<std::vector<int64_t>> expected(kLists);
  for (int list = 0; list < kLists; ++list) body += "]q" + std::string(1, static_cast<char>(list));
  for (int i = 0; i < 120; ++i) {
    const int list = i * i % 7 % kLists;
    body += "h" + std::string(1, static_cast<char>(list)) + "(";
    for (int n = 0; n <= i % 4; ++n) {
      body += "K" + std::string(1, static_cast<char>(i));
      expected[static_cast<size_t>(list)].push_back(i);
    }
    body += "e";
  }
  const Bytes content = bytes_of(proto2(body + "t"));
  pickle::PickleTree result = must(read_tree(content));
  const pickle::PickleTree& tree = result;
  for (size_t list = 0; list < kLists; ++list) {
    std::vector<int64_t> found;
    for (const pickle::NodeId child : tree.children(tree.children(tree.root())[list]))
      found.push_back(tree.integer(child));
    EXPECT_GT(found.size(), 30U);
    EXPECT_EQ(found, expected[list]);
  }
}

// Each of 60 tuples holds the one before it twice. A reader that copied them would make 2^60.
TEST(PickleReader, AMemoBombStaysSmall) {
  std::string body = "]q" + kNul;
  for (int i = 0; i < 60; ++i)
    body += "h" + std::string(1, static_cast<char>(i)) + "\x86q" +
            std::string(1, static_cast<char>(i + 1));
  const Bytes content = bytes_of(proto2(body));
  pickle::PickleTree result = must(read_tree(content));
  EXPECT_EQ(result.count(), 61U);
}

TEST(PickleReader, EveryOpcodeHasAName) {
  int named = 0;
  for (int byte = 0; byte < 256; ++byte) {
    if (pickle::opcode_name(static_cast<uint8_t>(byte)) != nullptr) ++named;
    if (pickle::opcode_in_module_dialect(static_cast<uint8_t>(byte)))
      EXPECT_NE(pickle::opcode_name(static_cast<uint8_t>(byte)), nullptr);
  }
  EXPECT_EQ(named, 68);
}

// A pickle that was cut short or changed is read or refused, and the reader never crashes.
TEST(PickleReader, CutAndFlipped) {
  const std::string good = proto2("c__torch__\nM\n)\x81}(" + str("w") + tensor(storage("0", 6), 6) +
                                  str("l") + "](K\x01K\x02" + "eub");
  for (size_t n = 0; n < good.size(); ++n) {
    const Bytes content = bytes_of(good.substr(0, n));
    expect_error(read_tree(content).status(), Code::kCorrupt, "");
  }
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = good;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      const Bytes content = bytes_of(flipped);
      (void)read_tree(content);
      (void)read_tree(content, general());
      (void)unpickle(flipped);
    }
  }
}

}  // namespace
}  // namespace tenon::archive
