// Every exception that the library throws inside ends at the boundary, as a code and an error.
#include "boundary.h"

#include <future>
#include <new>
#include <stdexcept>

#include "process/fault/kit.h"

namespace fault {
namespace {

using tenon::Code;
using tenon::Status;
using tenon::capi::boundary;

struct Strange {};

template <typename Thrown>
tenon_status throw_through(Thrown thrown, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status { throw thrown; });
}

template <typename Thrown>
void expect(Thrown thrown, tenon_status code, const char* part) {
  EXPECT_EQ(throw_through(thrown, nullptr), code);
  tenon_error* error = nullptr;
  EXPECT_EQ(throw_through(thrown, &error), code);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(tenon_error_code(error), code);
  EXPECT_NE(std::string(tenon_error_message(error)).find(part), std::string::npos)
      << tenon_error_message(error);
  tenon_error_release(error);
}

TEST(Boundary, LackOfMemoryIsResourceExhausted) {
  expect(std::bad_alloc(), TENON_RESOURCE_EXHAUSTED, "memory");
  expect(std::bad_array_new_length(), TENON_RESOURCE_EXHAUSTED, "memory");
  tenon_error* error = nullptr;
  EXPECT_EQ(throw_through(std::bad_alloc(), &error), TENON_RESOURCE_EXHAUSTED);
  EXPECT_STREQ(tenon_error_detail(error, "limit"), "memory");
  EXPECT_STREQ(tenon_error_detail_key(error, 0), "limit");
  EXPECT_EQ(tenon_error_detail_key(error, 1), nullptr);
  EXPECT_EQ(tenon_error_cause(error), nullptr);
  // The error is one shared object: any thread may release it any number of times.
  tenon_error_release(error);
  tenon_error_release(error);
  std::async(std::launch::async, [error] { tenon_error_release(error); }).get();
  EXPECT_STREQ(tenon_error_detail(error, "limit"), "memory");
}

TEST(Boundary, WhatNobodyFoundIsInternal) {
  expect(std::runtime_error("what went wrong"), TENON_INTERNAL, "what went wrong");
  expect(std::length_error("too long"), TENON_INTERNAL, "too long");
  expect(std::logic_error("50% of %s %n"), TENON_INTERNAL, "50% of %s %n");
  expect(7, TENON_INTERNAL, "no std::exception");
  expect("text", TENON_INTERNAL, "no std::exception");
  expect(Strange(), TENON_INTERNAL, "no std::exception");
}

TEST(Boundary, AStatusIsHandedOnAndSuccessLeavesTheErrorAlone) {
  tenon_error* error = nullptr;
  const auto fails = [&](tenon_error** err) {
    return boundary(err, []() -> Status {
      return Status(Code::kTimeout, "too late")
          .with("fd", 3)
          .caused_by(Status(Code::kIo, "the cause"));
    });
  };
  EXPECT_EQ(fails(nullptr), TENON_TIMEOUT);
  EXPECT_EQ(fails(&error), TENON_TIMEOUT);
  EXPECT_STREQ(tenon_error_message(error), "too late");
  EXPECT_STREQ(tenon_error_detail(error, "fd"), "3");
  EXPECT_STREQ(tenon_error_message(tenon_error_cause(error)), "the cause");
  tenon_error_release(error);
  error = reinterpret_cast<tenon_error*>(uintptr_t{0x5a5a5a58});
  EXPECT_EQ(boundary(&error, []() -> Status { return Status::ok(); }), TENON_OK);
  EXPECT_EQ(error, reinterpret_cast<tenon_error*>(uintptr_t{0x5a5a5a58}));
}

}  // namespace
}  // namespace fault
