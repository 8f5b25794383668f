// These tests read lists of weights in JSON, good and hostile ones.
#include "modules/weights/payload_config.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/must.h"

namespace tenon::weights {
namespace {

constexpr char kMeta[] =
    R"({"dtype": 7, "sizes": [{"as_int": 2}, {"as_int": 3}], "requires_grad": true, )"
    R"("device": {"type": "cuda", "index": 1},
        "strides": [{"as_int": 3}, {"as_int": 1}], "storage_offset": {"as_int": 4}, "layout": 7})";

std::string with_weight(const std::string& weight) {
  return R"({"config": {"fc.weight": )" + weight + "}}";
}

std::string with_meta(const std::string& meta) {
  return with_weight(
      R"({"path_name": "weight_0", "is_param": true, "use_pickle": false, "tensor_meta": )" + meta +
      "}");
}

std::string changed_meta(const std::string& from, const std::string& to) {
  std::string meta = kMeta;
  return with_meta(meta.replace(meta.find(from), from.size(), to));
}

class PayloadConfig : public testing::Test {
 protected:
  void SetUp() override {
    if (read("{}").status().code() == Code::kUnsupported) GTEST_SKIP() << "this build has no JSON";
  }
  static Result<std::vector<Payload>> read(const std::string& text) {
    return read_payload_config(text, "the list");
  }
};

TEST_F(PayloadConfig, SaysWhatTheListSays) {
  std::vector<Payload> found = must(read(with_meta(kMeta)));
  ASSERT_EQ(found.size(), 1u);
  const Payload& payload = found[0];
  EXPECT_EQ(payload.name, "fc.weight");
  EXPECT_EQ(payload.path_name, "weight_0");
  EXPECT_EQ(payload.device, "cuda:1");
  EXPECT_EQ(payload.dtype, 7);
  EXPECT_EQ(payload.layout, 7);
  EXPECT_EQ(payload.offset, 4);
  EXPECT_EQ(payload.sizes, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(payload.strides, (std::vector<int64_t>{3, 1}));
  EXPECT_TRUE(payload.has_meta && payload.requires_grad && !payload.use_pickle &&
              !payload.is_symbolic);
}

TEST_F(PayloadConfig, PassesOverWhatItDoesNotKnow) {
  Result<std::vector<Payload>> found =
      read(R"({"new": [1, {"config": 2}], "config": {"a": {"path_name": "x", "use_pickle": true, )"
           R"("tensor_meta": null, "b": {"c": []}}}})");
  ASSERT_TRUE(found.is_ok()) << found.status().message();
  EXPECT_FALSE(found.value()[0].has_meta);
  EXPECT_TRUE(read(R"({"config": {}})").value().empty());
  found = read(changed_meta(R"({"as_int": 2})",
                            R"({"as_expr": {"expr_str": "s0", "hint": {"as_int": 2}}})"));
  ASSERT_TRUE(found.is_ok()) << found.status().message();
  EXPECT_TRUE(found.value()[0].is_symbolic);
}

TEST_F(PayloadConfig, RefusesEverythingElse) {
  const std::string deep = R"({"config": {}, "new": )" + std::string(100'000, '[');
  std::string many = R"("sizes": [)";
  for (int i = 0; i < 65; ++i) many += R"({"as_int": 1}, )";
  const std::string broken[] = {
      "",
      "[]",
      "{}",
      "null",
      "7",
      R"({"config": [])",
      R"({"config": []})",
      R"({"config": null})",
      R"({"config": {}, "config": {}})",
      R"({"config": {}} x)",
      deep,
      with_weight("null"),
      with_weight("[]"),
      with_weight("{}"),
      with_weight(R"({"path_name": 1, "use_pickle": false, "tensor_meta": null})"),
      with_weight(R"({"path_name": null, "use_pickle": false, "tensor_meta": null})"),
      with_weight(R"({"path_name": "x", "use_pickle": 0, "tensor_meta": null})"),
      with_weight(
          R"({"path_name": "x", "path_name": "y", "use_pickle": false, "tensor_meta": null})"),
      with_meta("[]"),
      with_meta("{}"),
      changed_meta(R"("dtype": 7)", R"("dtype": 7.5)"),
      changed_meta(R"("dtype": 7)", R"("dtype": 1e400)"),
      changed_meta(R"("dtype": 7)", R"("dtype": 18446744073709551615)"),
      changed_meta(R"("dtype": 7)", R"("dtype": "7")"),
      changed_meta(R"({"as_int": 2})", "2"),
      changed_meta(R"({"as_int": 2})", "null"),
      changed_meta(R"({"as_int": 2})", "{}"),
      changed_meta(R"({"as_int": 2})", R"({"as_int": null})"),
      changed_meta(R"({"as_int": 2})", R"([{"as_int": 2}])"),
      changed_meta(R"("sizes": [)", many),
      changed_meta(R"("type": "cuda")", R"("kind": "cuda")"),
      changed_meta(R"("cuda")", "\"\xFF\""),
  };
  for (const std::string& text : broken) {
    const Status status = read(text).status();
    EXPECT_EQ(status.code(), Code::kCorrupt) << text.substr(0, 300);
    EXPECT_TRUE(status.message().starts_with("the record the list ")) << status.message();
  }
}

}  // namespace
}  // namespace tenon::weights
