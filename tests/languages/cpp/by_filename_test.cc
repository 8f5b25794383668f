// Tests of lends by name: files and sockets that another process opens, and refusals.
#include <sys/stat.h>

#include "kit.h"

namespace {

using ByFilename = kit::Leaves;

bool exists(const std::string& path) {
  struct stat info{};
  return lstat(path.c_str(), &info) == 0;
}

TEST_F(ByFilename, AFile) {
  tenon::Storage storage =
      tenon::make_filename(4096, {.name = "weights", .directory = kit::Folder::path()});
  const tenon::FilenameHandle handle = tenon::share_filename(storage);
  EXPECT_EQ(handle.name, kit::Folder::path() + "/weights");
  EXPECT_EQ(handle.nbytes, 4096U);
  EXPECT_EQ(handle.manager, "");
  kit::Child borrower([&] {
    storage.close();  // else the identity cache would return the inherited storage
    if (tenon::try_open_filename(handle).code() != tenon::Code::kPermission) return false;
    tenon::Storage opened = tenon::open_filename(handle, {.allow_unsealed = true});
    opened.bytes_mut()[5] = std::byte{42};
    return !opened.is_sealed();
  });
  EXPECT_EQ(borrower.wait(), 0);
  EXPECT_EQ(storage.bytes()[5], std::byte{42});
  EXPECT_EQ(tenon::open_filename(handle, {.allow_unsealed = true}), storage);
  kit::thrown_by<tenon::PermissionDenied>([&] {
    (void)tenon::make_filename(8, {.name = "weights", .directory = kit::Folder::path()});
  });
  storage.close();
  EXPECT_FALSE(exists(handle.name));
  kit::thrown_by<tenon::NotFound>(
      [&] { (void)tenon::open_filename(handle, {.allow_unsealed = true}); });
}

TEST_F(ByFilename, ASocketReadOnly) {
  const std::vector<float> values{0.5F, 1.5F};
  tenon::Tensor tensor =
      tenon::Tensor::make_from<float>(values, {2}, {.mode = tenon::Mode::kFrozen});
  const tenon::FilenameHandle handle = tenon::share_filename(
      tensor.storage(), {.filename = {.name = "frozen", .directory = kit::Folder::path()}},
      {.timeout = kit::kPatience});
  EXPECT_EQ(handle.access, tenon::Access::kReadOnly);
  kit::Child borrower([&] {
    tensor.close();
    const tenon::Storage opened = tenon::open_filename(handle, {}, {.timeout = kit::kPatience});
    tenon::Tensor view = tenon::Tensor::over(opened, {2}, tenon::kDtypeOf<float>);
    return view.view<float>()[1] == 1.5F &&
           view.try_view_mut<float>().code() == tenon::Code::kPermission && opened.is_sealed();
  });
  EXPECT_EQ(borrower.wait(), 0);
}

TEST_F(ByFilename, AnErrorKeepsItsCause) {
  const tenon::Storage storage = tenon::Storage::make(64, {.isolated = true});
  tenon::FilenameHandle handle = tenon::share_filename(
      storage, {.filename = {.name = "small", .directory = kit::Folder::path()}});
  handle.nbytes = std::uint64_t{1} << 40;
  const tenon::Result<tenon::Storage> opened = tenon::try_open_filename(handle);
  ASSERT_FALSE(opened);
  const tenon::Error* cause = opened.error().cause();
  ASSERT_NE(cause, nullptr) << opened.error().what();
  EXPECT_NE(std::string(opened.error().what()).find(cause->what()), std::string::npos);
  EXPECT_EQ(opened.error().detail("path"), handle.name);
  EXPECT_EQ(cause->detail("path"), std::nullopt);
}

TEST_F(ByFilename, Counts) {
  tenon::Storage storage =
      tenon::make_filename(64, {.prefix = "p-", .directory = kit::Folder::path()});
  const tenon::FilenameHandle handle = tenon::share_filename(storage, {.in_flight = true});
  EXPECT_TRUE(handle.name.starts_with(kit::Folder::path() + "/p-"));
  tenon::filename_incref(handle);
  tenon::filename_decref(handle);
  storage.close();
  EXPECT_TRUE(exists(handle.name));
  tenon::Storage received = tenon::open_filename(handle, {.allow_unsealed = true, .decref = true});
  received.close();
  EXPECT_FALSE(exists(handle.name));
  tenon::filename_decref(handle);  // does nothing, because the name is gone
  kit::thrown_by<tenon::NotFound>([&] { tenon::filename_incref(handle); });
}

TEST_F(ByFilename, UnlinkAndSweep) {
  tenon::Storage storage =
      tenon::make_filename(64, {.name = "a", .directory = kit::Folder::path()});
  const tenon::Sweep live = tenon::sweep({.directory = kit::Folder::path(), .dry_run = true});
  EXPECT_EQ(live.live, 1U);
  EXPECT_EQ(live.dead, 0U);
  tenon::filename_unlink(kit::Folder::path() + "/a");
  tenon::filename_unlink(kit::Folder::path() + "/a");
  EXPECT_EQ(
      tenon::sweep({.directory = kit::Folder::path(), .min_age = std::chrono::seconds(0)}).live,
      0U);
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { (void)tenon::sweep({.min_age = std::chrono::seconds(-1)}); });
  kit::thrown_by<tenon::NotFound>(
      [&] { (void)tenon::sweep({.directory = kit::Folder::path() + "/none"}); });
}

TEST_F(ByFilename, BadNames) {
  const std::string nul("a\0b", 3);
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)tenon::make_filename(8, {.name = nul}); });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)tenon::make_filename(8, {.prefix = nul}); });
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { (void)tenon::make_filename(8, {.directory = nul}); });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)tenon::make_filename(8, {.name = "a/b"}); });
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { (void)tenon::open_filename({.name = "/" + nul, .nbytes = 8}); });
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { (void)tenon::open_filename({.name = "/" + std::string(300, 'x'), .nbytes = 8}); });
  kit::thrown_by<tenon::InvalidArgument>([&] {
    (void)tenon::open_filename({.name = "/a", .nbytes = 8, .manager = std::string(200, 'm')});
  });
  kit::thrown_by<tenon::InvalidArgument>([&] { tenon::filename_unlink(nul); });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)tenon::manager_start(nul); });
  // manager_start would return a manager of this user that another test has started, whatever
  // program is named.
  ASSERT_EQ(setenv("TENON_MANAGER_FOLDER", (kit::Folder::path() + "/none").c_str(), 1), 0);
  kit::thrown_by<tenon::NotFound>([&] { (void)tenon::manager_start("/no/such/program"); });
  unsetenv("TENON_MANAGER_FOLDER");
  // Memory without a name cannot become a file that PyTorch opens.
  const tenon::Storage storage = tenon::Storage::make(64);
  kit::thrown_by<tenon::Unsupported>(
      [&] { (void)tenon::share_filename(storage, {.torch = true}); });
}

}  // namespace
