// These tests check the 68 bytes of a message to a manager, byte by byte.
#include "names/manager_protocol.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tenon::names {
namespace {

using Bytes = std::array<std::byte, kManagerMessageNbytes>;

Bytes by_hand(int32_t pid, int op, const std::string& name) {
  Bytes bytes{};
  std::memcpy(bytes.data(), &pid, 4);
  bytes[4] = static_cast<std::byte>(op);
  std::memcpy(bytes.data() + 5, name.data(), name.size());
  return bytes;
}

TEST(ManagerProtocol, BytesAsPyTorchSendsThem) {
  for (const auto& [op, number] :
       {std::pair{ManagerOp::kRegister, 0}, {ManagerOp::kDeallocate, 1}}) {
    Result<Bytes> bytes = encode_manager_message({0x01020304, op, "/torch_7_8_9"});
    ASSERT_TRUE(bytes.is_ok());
    EXPECT_EQ(bytes.value(), by_hand(0x01020304, number, "/torch_7_8_9"));
    const auto message = decode_manager_message(bytes.value());
    ASSERT_TRUE(message);
    EXPECT_EQ(message->pid, 0x01020304);
    EXPECT_EQ(message->op, op);
    EXPECT_EQ(message->name, "/torch_7_8_9");
  }
}

TEST(ManagerProtocol, WhatFollowsTheNameIsNotLookedAt) {
  Bytes bytes = by_hand(1, 0, "/a");
  for (size_t i = 8; i < bytes.size(); ++i) bytes[i] = std::byte{0xff};
  const auto message = decode_manager_message(bytes);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->name, "/a");
}

TEST(ManagerProtocol, LongestName) {
  const std::string longest = "/" + std::string(58, 'x');
  Result<Bytes> bytes = encode_manager_message({1, ManagerOp::kRegister, longest});
  ASSERT_TRUE(bytes.is_ok());
  EXPECT_EQ(decode_manager_message(bytes.value())->name, longest);
  EXPECT_FALSE(decode_manager_message(by_hand(1, 0, longest + "x")));
}

TEST(ManagerProtocol, NamesThatAreNone) {
  for (const std::string& name :
       {std::string(), std::string("a"), std::string("/"), std::string("/."), std::string("/.."),
        std::string("/a/b"), std::string("//a"), std::string("/a/"), "/" + std::string(59, 'x'),
        std::string("/a\0b", 4), std::string(300, '/')}) {
    const Status status = encode_manager_message({1, ManagerOp::kRegister, name}).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << name;
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
    if (name.size() <= 60 && name.find('\0') == std::string::npos)
      EXPECT_FALSE(decode_manager_message(by_hand(1, 0, name))) << name;
  }
}

TEST(ManagerProtocol, OpsThatAreNone) {
  for (int op = 2; op < 256; ++op) EXPECT_FALSE(decode_manager_message(by_hand(1, op, "/a"))) << op;
}

}  // namespace
}  // namespace tenon::names
