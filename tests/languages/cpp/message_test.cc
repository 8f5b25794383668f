// Tests of messages, descriptors and lends by fd, in one process and across fork.
#include <cstring>

#include "kit.h"

namespace {

using Messages = kit::Leaves;
using Descriptors = kit::Leaves;
using ByFd = kit::Leaves;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_F(Messages, NamesTensorsAndUserBytes) {
  const tenon::Tensor weight = tenon::zeros<float>({2});
  const tenon::Tensor bias = tenon::zeros<std::int64_t>({1});
  tenon::Message message = tenon::Message::of({{"weight", weight}, {{}, bias}, {"", weight}});
  EXPECT_EQ(message.size(), 3U);
  EXPECT_EQ(message.name(0), "weight");
  EXPECT_EQ(message.name(1), std::nullopt);
  EXPECT_EQ(message.name(2), "");
  EXPECT_EQ(message["weight"].storage(), weight.storage());
  EXPECT_EQ(message[1].storage(), bias.storage());
  EXPECT_FALSE(message.tensor(3));
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)message[3]; });
  EXPECT_EQ(kit::thrown_by<tenon::NotFound>([&] { (void)message["none"]; }),
            "the message has no tensor 'none'");
  EXPECT_FALSE(message.find(std::string_view("weight\0x", 8)));

  message.set_user_bytes(std::as_bytes(std::span("hello", 5)));
  EXPECT_EQ(text_of(message.user_bytes()), "hello");
  message.set_user_bytes({});
  EXPECT_EQ(message.user_bytes().size(), 0U);
  const std::vector<std::byte> large(TENON_MESSAGE_MAX_USER_NBYTES + 1);
  kit::thrown_by<tenon::InvalidArgument>([&] { message.set_user_bytes(large); });

  message.add(bias, "later");
  const std::vector<tenon::Tensor> two{weight, bias};
  const std::vector<std::string_view> names{"a", {}};
  message.add(two, names);
  message.add(two);
  EXPECT_EQ(message.size(), 8U);
  EXPECT_EQ(message.name(4), "a");
  EXPECT_EQ(message.name(5), std::nullopt);
}

TEST_F(Messages, AddIsAllOrNothing) {
  const tenon::Tensor good = tenon::zeros<float>({2});
  const tenon::Tensor bad = tenon::zeros<float>({2}, {.private_memory = true});
  tenon::Message message = tenon::Message::make();
  const std::vector<tenon::Tensor> both{good, bad};
  kit::thrown_by<tenon::Unsupported>([&] { message.add(both); });
  EXPECT_EQ(message.size(), 0U);
  const std::vector<std::string_view> one_name{"a"};
  kit::thrown_by<tenon::InvalidArgument>([&] { message.add(both, one_name); });
  kit::thrown_by<tenon::InvalidArgument>([&] { message.add(good, std::string_view("a\0b", 3)); });
  kit::thrown_by<tenon::InvalidArgument>([&] { message.add(good, std::string(5000, 'n')); });
  kit::thrown_by<tenon::InvalidArgument>([&] { message.add(good, "\xff\xfe"); });
  kit::thrown_by<tenon::PermissionDenied>([&] { message.add(good, {}, tenon::Access::kReadOnly); });
  EXPECT_EQ(message.size(), 0U);
}

TEST_F(Messages, ViewsOfAllAtOnce) {
  tenon::Message message = tenon::Message::make();
  for (int i = 0; i < 300; ++i) {
    tenon::Tensor tensor = tenon::zeros<std::int32_t>({i % 3, 4});
    for (std::int32_t& value : tensor.view_mut<std::int32_t>()) value = i;
    message.add(tensor, "t" + std::to_string(i));
  }
  std::vector<tenon::TensorView> views = message.views();
  ASSERT_EQ(views.size(), 300U);
  for (std::size_t i = 0; i < views.size(); ++i) {
    EXPECT_EQ(views[i].name(), "t" + std::to_string(i));
    EXPECT_EQ(views[i].sizes()[0], static_cast<std::int64_t>(i % 3));
    for (const std::int32_t value : views[i].view<std::int32_t>())
      EXPECT_EQ(value, static_cast<std::int32_t>(i));
  }
  views[1].view_mut<std::int32_t>()[0] = -1;
  const tenon::Tensor second = message[1];
  EXPECT_EQ(second.view<std::int32_t>()[0], -1);
  EXPECT_EQ(kit::thrown_by<tenon::InvalidArgument>([&] { (void)views[7].view<float>(); }),
            "the tensor 't7' is of int32, not of float32");
  EXPECT_TRUE(tenon::Message::make().try_make());
  const tenon::Message none = tenon::Message::make();
  EXPECT_TRUE(none.views().empty());
}

TEST_F(Messages, WhatItHandsOutOutlivesIt) {
  tenon::Tensor tensor;
  {
    const tenon::Message message = tenon::Message::of({{"a", tenon::zeros<float>({4})}});
    tensor = message["a"];
  }
  EXPECT_EQ(tensor.view<float>()[3], 0.0F);
}

TEST_F(Descriptors, OpenedInAnotherProcess) {
  tenon::Tensor tensor = tenon::zeros<float>({8}, {.mode = tenon::Mode::kLenderWrites});
  tensor.view_mut<float>()[7] = 1.5F;
  const tenon::Message message = tenon::Message::of({{"x", tensor}});
  const tenon::Descriptor descriptor = tenon::Descriptor::make(message);
  EXPECT_EQ(descriptor.fds().size(), 2U);  // the segment's fd and the lease's token
  const tenon::Descriptor bytes_only = tenon::Descriptor::make(message, {.bytes_only = true});
  EXPECT_EQ(bytes_only.fds().size(), 0U);
  kit::Child child([&] {
    const tenon::Message opened = tenon::open_descriptor(descriptor.bytes(), descriptor.fds());
    tenon::Tensor x = opened["x"];
    if (x.view<float>()[7] != 1.5F) return false;
    if (x.try_view_mut<float>().code() != tenon::Code::kPermission) return false;
    const tenon::Message again =
        tenon::open_descriptor(bytes_only.bytes(), {}, {.private_copy = true});
    tenon::Tensor copy = again["x"];
    copy.view_mut<float>()[7] = 3;
    return x.view<float>()[7] == 1.5F;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(Descriptors, HostileBytes) {
  const tenon::Message message = tenon::Message::of({{"x", tenon::zeros<float>({8})}});
  const tenon::Descriptor descriptor = tenon::Descriptor::make(message);
  const std::vector<std::byte> bytes = kit::copy_of(descriptor.bytes());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const tenon::Result<tenon::Message> opened =
        tenon::try_open_descriptor(std::span(bytes).first(length), descriptor.fds());
    EXPECT_FALSE(opened);
  }
  EXPECT_FALSE(tenon::try_open_descriptor(bytes, {}));
  EXPECT_CODE(kCorrupt, tenon::try_open_descriptor(std::vector<std::byte>()).error());
}

TEST_F(ByFd, ShareAndOpen) {
  tenon::Storage storage = tenon::Storage::make(4096, {.isolated = true, .zeroed = true});
  tenon::FdHandle handle = tenon::share_fd(storage);
  EXPECT_GE(handle.fd(), 0);
  EXPECT_EQ(handle.nbytes(), 4096U);
  EXPECT_EQ(handle.access(), tenon::Access::kWritable);
  EXPECT_GE(handle.segment_nbytes(), handle.offset() + 4096);
  EXPECT_EQ(tenon::open_fd(handle), storage);
  kit::Child child([&] {
    // Opens by bare numbers, as if the fd had come another way.
    tenon::Storage opened = tenon::open_fd(handle.fd(), handle.nbytes(), handle.offset());
    opened.bytes_mut()[1] = std::byte{42};
    return true;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(storage.bytes()[1], std::byte{42});

  // open_fd takes the fd of an rvalue on success. On failure the handle keeps it.
  tenon::FdHandle given = tenon::share_fd(storage);
  const tenon::Storage adopted = tenon::open_fd(std::move(given), {.private_cow = true});
  EXPECT_EQ(given.fd(), -1);  // NOLINT(bugprone-use-after-move)
  tenon::FdHandle wrong(handle.detach(), 1U << 30);
  const int fd = wrong.fd();
  EXPECT_FALSE(tenon::try_open_fd(std::move(wrong)));
  EXPECT_EQ(wrong.fd(), fd);  // NOLINT(bugprone-use-after-move)
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)tenon::open_fd(-1, 8); });
}

TEST_F(ByFd, ReadOnlyIsKeptByTheKernel) {
  tenon::Storage storage = tenon::Storage::make(4096, {.mode = tenon::Mode::kLenderWrites});
  const tenon::FdHandle handle = tenon::share_fd(storage);
  EXPECT_EQ(handle.access(), tenon::Access::kReadOnly);
  kit::Child child([&] {
    tenon::Storage opened = tenon::open_fd(handle);
    if (opened.try_bytes_mut().code() != tenon::Code::kPermission) return false;
    return tenon::try_open_fd(handle, {.access = tenon::Access::kWritable}).code() ==
           tenon::Code::kPermission;
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
