// Tests of errors: every code has its class, and the wrapper loses nothing that the C library
// reports.
#include <cstring>
#include <exception>
#include <set>

#include "kit.h"
#include "support/sized.h"

namespace {

using Errors = kit::Leaves;
using Details = std::vector<tenon::Error::Detail>;

struct FromC {
  tenon_status status = TENON_OK;
  std::string message;
  Details details;
  std::string cause;
};

// Returns what the C library itself reports about the same call.
template <class Call>
FromC ask_c(Call&& call) {
  tenon_error* error = nullptr;
  FromC result;
  result.status = call(&error);
  result.message = tenon_error_message(error);
  for (std::size_t i = 0; const char* key = tenon_error_detail_key(error, i); ++i) {
    result.details.emplace_back(key, tenon_error_detail(error, key));
  }
  if (const tenon_error* cause = tenon_error_cause(error))
    result.cause = tenon_error_message(cause);
  tenon_error_release(error);
  return result;
}

template <class Thrown, class Function>
void expect_same(const FromC& c, const char* wanted_detail, Function&& function) {
  ASSERT_NE(c.status, TENON_OK);
  ASSERT_FALSE(c.details.empty());
  try {
    function();
    ADD_FAILURE() << "threw nothing";
  } catch (const Thrown& error) {
    EXPECT_EQ(static_cast<tenon_status>(error.code()), c.status);
    EXPECT_EQ(error.what(), c.message);
    EXPECT_EQ(error.details(), c.details);
    EXPECT_TRUE(error.detail(wanted_detail)) << wanted_detail;
    EXPECT_EQ(error.detail("no such key"), std::nullopt);
    EXPECT_EQ(error.cause() == nullptr ? "" : error.cause()->what(), c.cause);
  }
}

TEST_F(Errors, MessageAndEveryDetailAreKept) {
  const char bytes[64] = "this is no descriptor";
  const auto view = std::as_bytes(std::span(bytes));
  expect_same<tenon::Corrupt>(ask_c([&](tenon_error** err) {
                                tenon_message* out = nullptr;
                                return tenon_descriptor_open(bytes, sizeof bytes, nullptr, 0,
                                                             nullptr, &out, err);
                              }),
                              "field", [&] { (void)tenon::open_descriptor(view); });

  const tenon::Storage storage = tenon::Storage::make(64);
  expect_same<tenon::PermissionDenied>(
      ask_c([&](tenon_error** err) {
        auto out = tenon::test::sized<tenon_fd_handle>();
        auto options = tenon::test::sized<tenon_share_options>();
        options.access = TENON_ACCESS_READ_ONLY;
        return tenon_share_fd(storage.get(), &options, &out, err);
      }),
      "option", [&] { (void)tenon::share_fd(storage, tenon::Access::kReadOnly); });

  expect_same<tenon::NotFound>(
      ask_c([&](tenon_error** err) {
        auto handle = tenon::test::sized<tenon_filename_handle>();
        handle.nbytes = 8;
        std::strcpy(handle.name, "/tenon-cpp-no-such-name");
        tenon_storage* out = nullptr;
        return tenon_open_filename(&handle, nullptr, nullptr, &out, err);
      }),
      "path",
      [&] { (void)tenon::open_filename({.name = "/tenon-cpp-no-such-name", .nbytes = 8}); });

  // The details name the free memory of the machine, which can change between the two calls. Then
  // the test tries again.
  constexpr std::uint64_t kTooMuch = std::uint64_t{1} << 46;
  FromC exhausted;
  std::string again;
  for (int tries = 0; tries < 1000 && (again.empty() || again != exhausted.message); ++tries) {
    exhausted = ask_c([&](tenon_error** err) {
      tenon_storage* out = nullptr;
      return tenon_storage_new(nullptr, kTooMuch, &out, err);
    });
    const tenon::Result<tenon::Storage> refused = tenon::Storage::try_make(kTooMuch);
    again = refused.error().what();
    if (again == exhausted.message)
      expect_same<tenon::ResourceExhausted>(exhausted, "limit", [&] { (void)refused.value(); });
  }
  EXPECT_EQ(again, exhausted.message);
}

TEST_F(Errors, EveryCodeHasItsClass) {
  std::set<std::string> names;
  for (tenon_status status = TENON_INVALID_ARGUMENT; status <= TENON_INTERNAL; ++status) {
    const tenon::Code code = static_cast<tenon::Code>(status);
    names.insert(tenon::name_of(code));
    int caught = 0;
    try {
      tenon::raise(tenon::Error(code, "text", {{"key", "value"}}));
    } catch (const tenon::InvalidArgument&) {
      caught = TENON_INVALID_ARGUMENT;
    } catch (const tenon::PermissionDenied&) {
      caught = TENON_PERMISSION;
    } catch (const tenon::NotFound&) {
      caught = TENON_NOT_FOUND;
    } catch (const tenon::Corrupt&) {
      caught = TENON_CORRUPT;
    } catch (const tenon::Incompatible&) {
      caught = TENON_INCOMPATIBLE;
    } catch (const tenon::ResourceExhausted&) {
      caught = TENON_RESOURCE_EXHAUSTED;
    } catch (const tenon::Unsupported&) {
      caught = TENON_UNSUPPORTED;
    } catch (const tenon::PeerGone&) {
      caught = TENON_PEER_GONE;
    } catch (const tenon::WouldBlock&) {
      caught = TENON_WOULD_BLOCK;
    } catch (const tenon::Timeout&) {
      caught = TENON_TIMEOUT;
    } catch (const tenon::Interrupted&) {
      caught = TENON_INTERRUPTED;
    } catch (const tenon::Cancelled&) {
      caught = TENON_CANCELLED;
    } catch (const tenon::Io&) {
      caught = TENON_IO;
    } catch (const tenon::Internal& error) {
      caught = TENON_INTERNAL;
      EXPECT_EQ(error.detail("key"), "value");
    }
    EXPECT_EQ(caught, status);
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(TENON_INTERNAL));
  EXPECT_FALSE(names.contains("UNKNOWN"));
  // An unknown code of a newer library becomes a plain Error.
  try {
    tenon::raise(tenon::Error(static_cast<tenon::Code>(999), "from the future"));
  } catch (const tenon::Error& error) {
    EXPECT_EQ(error.code(), static_cast<tenon::Code>(999));
    EXPECT_STREQ(tenon::name_of(error.code()), "UNKNOWN");
  }
}

TEST_F(Errors, CopiesShareAndCrossThreads) {
  std::exception_ptr kept;
  std::thread([&] {
    try {
      (void)tenon::open_filename({.name = "/tenon-cpp-no-such-name", .nbytes = 8});
    } catch (...) {
      kept = std::current_exception();
    }
  }).join();
  ASSERT_TRUE(kept);
  try {
    std::rethrow_exception(kept);
  } catch (const std::runtime_error& error) {  // it is also an error of the standard library
    EXPECT_NE(std::string(error.what()).find("tenon-cpp-no-such-name"), std::string::npos);
  }
  tenon::Error copy(tenon::Code::kIo, "first", {},
                    std::make_shared<const tenon::Error>(tenon::Code::kTimeout, "below"));
  tenon::Error moved = std::move(copy);
  EXPECT_CODE(kIo, copy);  // NOLINT(bugprone-use-after-move): a move copies
  EXPECT_STREQ(moved.what(), "first");
  ASSERT_NE(moved.cause(), nullptr);
  EXPECT_EQ(moved.cause()->code(), tenon::Code::kTimeout);
}

TEST_F(Errors, Results) {
  tenon::Result<tenon::Storage> good = tenon::Storage::try_make(16);
  ASSERT_TRUE(good);
  EXPECT_CODE(kOk, good);
  EXPECT_EQ(good->nbytes(), 16U);
  const tenon::Storage out = std::move(good).value();
  EXPECT_EQ(out.use_count(), 1U);
  const tenon::Result<tenon::Storage> bad = tenon::Storage::try_make(16, {.alignment = 3});
  ASSERT_FALSE(bad);
  EXPECT_CODE(kInvalidArgument, bad);
  EXPECT_STRNE(bad.error().what(), "");
  EXPECT_THROW((void)bad.value(), tenon::InvalidArgument);
  EXPECT_THROW((void)*bad, tenon::InvalidArgument);
  EXPECT_THROW((void)bad->nbytes(), tenon::InvalidArgument);
  const tenon::Result<void> nothing;
  EXPECT_TRUE(nothing);
  nothing.value();
  const tenon::Result<void> refused = tenon::Error(tenon::Code::kIo, "why");
  EXPECT_FALSE(refused);
  EXPECT_THROW(refused.value(), tenon::Io);
  EXPECT_THROW((void)nothing.error(), tenon::Internal);
  EXPECT_THROW((void)tenon::Storage::try_make(16).error(), tenon::Internal);
  const tenon::Error& kept = tenon::Storage::try_make(16, {.alignment = 3}).error();
  EXPECT_CODE(kInvalidArgument, kept);
  // The error of a caller that passed no error object to C.
  EXPECT_STRNE(tenon::Error::take(TENON_RESOURCE_EXHAUSTED, nullptr).what(), "");
  EXPECT_CODE(kCorrupt, tenon::Error::take(TENON_CORRUPT, nullptr));
}

}  // namespace
