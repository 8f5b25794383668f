// These tests encode and decode descriptors: round trips, the layout of the bytes, and contents
// that are refused.
#include "tensor/descriptor.h"

#include <gtest/gtest.h>
#include <tenon/message.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "support/must.h"
#include "tensor/name.h"
#include "unit/tensor/descriptor_support.h"

namespace tenon::tensor {
namespace {

using namespace test;

void expect_error(const Status& status, Code code, const std::string& field) {
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_EQ(status.detail("field"), field) << status.message();
  EXPECT_FALSE(status.message().empty());
  EXPECT_EQ(status.message().find('\n'), std::string::npos);
}

// Encodes `content` as it is. The decoder must refuse it and name `field`.
void expect_refused(const DescriptorContent& content, const std::string& field, uint64_t n_fds = 2,
                    uint64_t n_devices = 0) {
  expect_error(decode_descriptor(encode_descriptor(content), n_fds, {}, n_devices).status(),
               Code::kCorrupt, field);
}

void expect_same(const DescriptorContent& a, const DescriptorContent& b) {
  EXPECT_EQ(a.sender_pid, b.sender_pid);
  EXPECT_EQ(a.boot_id, b.boot_id);
  EXPECT_EQ(a.pid_namespace, b.pid_namespace);
  EXPECT_EQ(a.dims, b.dims);
  EXPECT_EQ(a.names, b.names);
  EXPECT_EQ(a.forgotten, b.forgotten);
  EXPECT_EQ(a.user, b.user);
  ASSERT_EQ(a.segments.size(), b.segments.size());
  for (size_t i = 0; i < a.segments.size(); ++i) {
    const SegmentRecord& x = a.segments[i];
    const SegmentRecord& y = b.segments[i];
    EXPECT_EQ(std::tie(x.id, x.reach, x.mode, x.access, x.nbytes, x.device, x.inode, x.nonce,
                       x.fd_index, x.pid, x.proc_fd),
              std::tie(y.id, y.reach, y.mode, y.access, y.nbytes, y.device, y.inode, y.nonce,
                       y.fd_index, y.pid, y.proc_fd));
  }
  ASSERT_EQ(a.storages.size(), b.storages.size());
  for (size_t i = 0; i < a.storages.size(); ++i) {
    const StorageRecord& x = a.storages[i];
    const StorageRecord& y = b.storages[i];
    EXPECT_EQ(std::tie(x.segment, x.offset, x.nbytes, x.mode, x.access),
              std::tie(y.segment, y.offset, y.nbytes, y.mode, y.access));
  }
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const TensorRecord& x = a.tensors[i];
    const TensorRecord& y = b.tensors[i];
    EXPECT_TRUE(x.dtype == y.dtype);
    EXPECT_EQ(
        std::tie(x.storage, x.ndim, x.flags, x.offset, x.dims, x.name, x.name_nbytes, x.has_name),
        std::tie(y.storage, y.ndim, y.flags, y.offset, y.dims, y.name, y.name_nbytes, y.has_name));
  }
  EXPECT_EQ(a.composite_dims, b.composite_dims);
  ASSERT_EQ(a.composites.size(), b.composites.size());
  for (size_t i = 0; i < a.composites.size(); ++i) {
    const CompositeRecord& x = a.composites[i];
    const CompositeRecord& y = b.composites[i];
    EXPECT_TRUE(x.dtype == y.dtype);
    EXPECT_EQ(std::tie(x.layout, x.coalesced, x.quantizer, x.flags, x.first_part, x.parts, x.dims,
                       x.ndim),
              std::tie(y.layout, y.coalesced, y.quantizer, y.flags, y.first_part, y.parts, y.dims,
                       y.ndim));
    EXPECT_EQ(std::tie(x.name_nbytes, x.has_name, x.dim, x.scale, x.zero_point, x.offset),
              std::tie(y.name_nbytes, y.has_name, y.dim, y.scale, y.zero_point, y.offset));
    EXPECT_EQ(a.names.substr(x.name, x.name_nbytes), b.names.substr(y.name, y.name_nbytes));
  }
}

void expect_round_trip(const DescriptorContent& content, uint64_t n_fds, uint64_t n_devices = 0) {
  const Bytes bytes = encode_descriptor(content);
  const Result<DescriptorContent> decoded = decode_descriptor(bytes, n_fds, {}, n_devices);
  ASSERT_TRUE(decoded.is_ok()) << decoded.status().message();
  Result<DescriptorContent> again = decoded;
  expect_same(content, again.value());
  EXPECT_EQ(encode_descriptor(again.value()), bytes);
}

TEST(DescriptorRoundTrip, Nothing) { expect_round_trip({}, 0); }
TEST(DescriptorRoundTrip, OneTensor) { expect_round_trip(one_tensor(), 1); }
TEST(DescriptorRoundTrip, Everything) { expect_round_trip(everything(), 2); }
TEST(DescriptorRoundTrip, OnDevices) { expect_round_trip(on_devices(), 1, 3); }

// Decoding puts the names of tensors before those of composites.
DescriptorContent decoded_composites() {
  return decode_descriptor(encode_descriptor(composites()), 1, {}).value();
}
TEST(DescriptorRoundTrip, Composites) { expect_round_trip(decoded_composites(), 1); }

TEST(DescriptorRoundTrip, RandomContents) {
  std::mt19937_64 random(3);
  size_t tensors = 0;
  for (int round = 0; round < 3000 && !testing::Test::HasFailure(); ++round) {
    uint64_t n_fds = 0;
    const DescriptorContent content = random_content(&random, &n_fds);
    tensors += content.tensors.size();
    SCOPED_TRACE(round);
    expect_round_trip(content, n_fds);
  }
  EXPECT_GT(tensors, 10000U);
}

TEST(DescriptorRoundTrip, TenThousandTensors) {
  DescriptorContent content;
  content.segments = {fd_segment(uint64_t{1} << 30)};
  for (uint32_t i = 0; i < 10000; ++i) {
    content.storages.push_back({0, uint64_t{4096} * i, 4096});
    add_tensor(&content, i, kFloat32, {32, 32}, {32, 1}, 0, ("layer." + std::to_string(i)).c_str());
  }
  expect_round_trip(content, 1);
}

// The bytes need not be aligned, because a receiver may decode from the middle of a buffer.
TEST(DescriptorRoundTrip, UnalignedBytes) {
  const Bytes bytes = encode_descriptor(everything());
  for (size_t shift = 1; shift < 8; ++shift) {
    Bytes moved(bytes.size() + shift);
    std::memcpy(moved.data() + shift, bytes.data(), bytes.size());
    EXPECT_TRUE(decode_descriptor(std::span(moved).subspan(shift), 2, {}).is_ok());
  }
}

// The content may share dims between tensors, and may have names in any order. The encoded bytes
// are the same.
TEST(DescriptorEncode, LaysDimsAndNamesOutInOrder) {
  DescriptorContent plain = one_tensor();
  plain.tensors.clear();
  plain.dims.clear();
  plain.names.clear();
  DescriptorContent shared = plain;
  add_tensor(&plain, 0, kFloat32, {2, 3}, {3, 1}, 0, "first");
  add_tensor(&plain, 0, kFloat32, {2, 3}, {3, 1}, 0, "second");
  shared.tensors = plain.tensors;
  shared.dims = {2, 3, 3, 1};
  shared.names = "secondfirst";
  shared.tensors[0].dims = shared.tensors[1].dims = 0;
  shared.tensors[0].name = 6;
  shared.tensors[1].name = 0;
  EXPECT_EQ(encode_descriptor(shared), encode_descriptor(plain));
}

TEST(DescriptorEncode, FieldsThatAReachDoesNotUseAreNeutral) {
  DescriptorContent content = everything();
  const Bytes bytes = encode_descriptor(content);
  content.segments[0].pid = 12;
  content.segments[0].proc_fd = 12;
  content.segments[2].fd_index = 12;
  content.segments[3].fd_index = 12;
  EXPECT_EQ(encode_descriptor(content), bytes);
}

TEST(DescriptorEncode, NumbersAreThoseOfTheCHeader) {
  EXPECT_EQ(wire::kModeShared, TENON_MODE_SHARED);
  EXPECT_EQ(wire::kModeLenderWrites, TENON_MODE_LENDER_WRITES);
  EXPECT_EQ(wire::kModeFrozen, TENON_MODE_FROZEN);
  EXPECT_EQ(wire::kAccessReadOnly, uint32_t{TENON_ACCESS_READ_ONLY});
  EXPECT_EQ(wire::kAccessWritable, uint32_t{TENON_ACCESS_WRITABLE});
  EXPECT_EQ(wire::kTensorFlags, uint32_t{TENON_TENSOR_REQUIRES_GRAD | TENON_TENSOR_IS_PARAMETER |
                                         TENON_TENSOR_CONJ | TENON_TENSOR_NEG});
  EXPECT_EQ(wire::kMaxUserNbytes, uint64_t{TENON_MESSAGE_MAX_USER_NBYTES});
  EXPECT_EQ(kMaxNameNbytes, size_t{TENON_MESSAGE_MAX_NAME_NBYTES});
  EXPECT_EQ(kMaxNdim, TENON_TENSOR_MAX_NDIM);
}

// The test compares with the offsets that docs/format/descriptor.md gives, as plain numbers.
TEST(DescriptorEncode, BytesLieWhereTheSpecificationSays) {
  const Bytes bytes = encode_descriptor(everything());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), 8), "TENONDSC");
  EXPECT_EQ(get<uint16_t>(bytes, 8), 1);
  EXPECT_EQ(get<uint16_t>(bytes, 10), 0);
  EXPECT_EQ(get<uint32_t>(bytes, 12), 240U);
  EXPECT_EQ(get<uint64_t>(bytes, 16), bytes.size());
  EXPECT_EQ(get<uint64_t>(bytes, 24), 0U);
  EXPECT_EQ(get<uint64_t>(bytes, 32), 0U);
  EXPECT_EQ(get<int32_t>(bytes, 44), 4711);
  EXPECT_EQ(get<uint8_t>(bytes, 48), 0xb0);
  EXPECT_EQ(get<uint64_t>(bytes, 64), 4026531836U);
  const uint32_t record_nbytes[] = {72, 24, 40, 8, 1, 8, 1};
  for (size_t i = 0; i < 7; ++i)
    EXPECT_EQ(get<uint32_t>(bytes, 72 + 24 * i + 16), record_nbytes[i]);

  const size_t segment = 240 + 3 * 72;
  EXPECT_EQ(get<uint64_t>(bytes, segment + 8), 4096U);
  EXPECT_EQ(get<uint64_t>(bytes, segment + 16), 25U);
  EXPECT_EQ(get<uint64_t>(bytes, segment + 24), 1004U);
  EXPECT_EQ(get<uint8_t>(bytes, segment + 47), 15);
  EXPECT_EQ(get<uint32_t>(bytes, 240 + 48), 1U);
  EXPECT_EQ(get<int32_t>(bytes, segment + 52), 4711);
  EXPECT_EQ(get<int32_t>(bytes, segment + 56), 17);
  EXPECT_EQ(get<uint16_t>(bytes, segment + 60), 3);
  EXPECT_EQ(get<uint16_t>(bytes, 240 + 2 * 72 + 62), 2);
  EXPECT_EQ(get<uint32_t>(bytes, segment + 64), 1U);

  const size_t storage = 240 + 4 * 72 + 2 * 24;
  EXPECT_EQ(get<uint64_t>(bytes, storage), 64U);
  EXPECT_EQ(get<uint64_t>(bytes, storage + 8), 256U);
  EXPECT_EQ(get<uint32_t>(bytes, storage + 16), 2U);

  const size_t tensor = 240 + 4 * 72 + 6 * 24 + 2 * 40;
  EXPECT_EQ(get<uint64_t>(bytes, tensor), 1023U);
  EXPECT_EQ(get<uint32_t>(bytes, tensor + 8), 0U);
  EXPECT_EQ(get<uint32_t>(bytes, tensor + 12), 8U);
  EXPECT_EQ(get<uint32_t>(bytes, tensor + 16), 1U);
  EXPECT_EQ(get<uint32_t>(bytes, tensor + 20 + 40), 4U);
  EXPECT_EQ(get<uint32_t>(bytes, tensor + 24), 30U);
  EXPECT_EQ(get<uint32_t>(bytes, tensor + 28), 16U);
  EXPECT_EQ(get<uint8_t>(bytes, tensor + 32), 2);
  EXPECT_EQ(get<uint8_t>(bytes, tensor + 33), 32);
  EXPECT_EQ(get<uint16_t>(bytes, tensor + 34), 1);
  EXPECT_EQ(get<uint32_t>(bytes, tensor + 36), 1U);
}

TEST(DescriptorSegments, WrongOnesAreRefused) {
  const auto change = [](void (*edit)(std::vector<SegmentRecord>&)) {
    DescriptorContent content = everything();
    edit(content.segments);
    return content;
  };
  expect_refused(change([](auto& s) { s[0].reach = static_cast<Reach>(0); }), "segment.reach");
  expect_refused(change([](auto& s) { s[0].reach = static_cast<Reach>(5); }), "segment.reach");
  expect_refused(change([](auto& s) { s[0].mode = 3; }), "segment.mode");
  expect_refused(change([](auto& s) { s[0].access = TENON_ACCESS_AUTO; }), "segment.access");
  expect_refused(change([](auto& s) { s[0].access = 3; }), "segment.access");
  expect_refused(change([](auto& s) { s[1].access = TENON_ACCESS_WRITABLE; }), "segment.access");
  expect_refused(change([](auto& s) { s[2].access = TENON_ACCESS_WRITABLE; }), "segment.access");
  expect_refused(change([](auto& s) { s[0].nbytes = 0; }), "segment.nbytes");
  expect_refused(change([](auto& s) { s[0].nbytes = uint64_t{1} << 63; }), "segment.nbytes");
  expect_refused(change([](auto& s) { s[0].fd_index = 2; }), "segment.fd_index");
  expect_refused(change([](auto& s) { s[0].fd_index = 0; }), "segment.fd_index");
  expect_refused(change([](auto& s) { s[0].id = 2; }), "segment.id");
  expect_refused(change([](auto& s) { s[2].id = 0; }), "segment.id");
  expect_refused(change([](auto& s) { s[3].pid = 0; }), "segment.proc");
  expect_refused(change([](auto& s) { s[3].pid = -1; }), "segment.proc");
  expect_refused(change([](auto& s) { s[3].proc_fd = -1; }), "segment.proc");
  expect_refused(everything(), "segment.fd_index", 1);
  expect_refused(one_tensor(), "segment.fd_index", 0);
}

TEST(DescriptorSegments, FdsThatNoSegmentNamesAreAllowed) {
  EXPECT_TRUE(decode_descriptor(encode_descriptor(one_tensor()), 9, {}).is_ok());
}

// Only a connection has device segments. A descriptor that comes in another way has none.
TEST(DescriptorDevices, NoneCameSoNoneIsReached) {
  expect_refused(on_devices(), "segment.reach", 1, 0);
  DescriptorContent content;
  content.segments = {device_segment(0)};
  expect_refused(content, "segment.reach", 1, 0);
  EXPECT_TRUE(decode_descriptor(encode_descriptor(content), 0, {}, 1).is_ok());
}

TEST(DescriptorDevices, WrongSegmentsAreRefused) {
  const auto change = [](void (*edit)(SegmentRecord&)) {
    DescriptorContent content = on_devices();
    edit(content.segments[0]);
    return content;
  };
  expect_refused(on_devices(), "segment.device", 1, 2);
  expect_refused(change([](SegmentRecord& s) { s.fd_index = 3; }), "segment.device", 1, 3);
  expect_refused(change([](SegmentRecord& s) { s.fd_index = UINT32_MAX; }), "segment.device", 1, 3);
  expect_refused(change([](SegmentRecord& s) { s.id = 2; }), "segment.device", 1, 3);
  expect_refused(change([](SegmentRecord& s) { s.mode = 3; }), "segment.mode", 1, 3);
  expect_refused(change([](SegmentRecord& s) { s.access = TENON_ACCESS_AUTO; }), "segment.access",
                 1, 3);
  expect_refused(change([](SegmentRecord& s) { s.mode = TENON_MODE_FROZEN; }), "segment.access", 1,
                 3);
  expect_refused(change([](SegmentRecord& s) { s.nbytes = uint64_t{1} << 63; }), "segment.nbytes",
                 1, 3);
  expect_refused(change([](SegmentRecord& s) { s.nbytes = 0; }), "storage.range", 1, 3);
  // Only files have these fields.
  const Bytes good = encode_descriptor(on_devices());
  const auto refused = [&](size_t field, int32_t value, const char* name) {
    Bytes bytes = good;
    put<int32_t>(&bytes, record_at(bytes, wire::kSegments) + field, value);
    fix_sum(&bytes);
    expect_error(decode_descriptor(bytes, 1, {}, 3).status(), Code::kCorrupt, name);
  };
  refused(52, 1, "segment.proc");
  refused(56, 0, "segment.proc");
  refused(68, 1, "segment.reserved");
}

// Two segments may refer to one device segment, though one would do for two ranges of a handle. No
// harm comes of it, because nobody takes a handle as an fd is taken.
TEST(DescriptorDevices, TwoSegmentsMayNameOne) {
  DescriptorContent content = on_devices();
  content.segments[0].fd_index = 1;
  EXPECT_TRUE(decode_descriptor(encode_descriptor(content), 1, {}, 3).is_ok());
}

TEST(DescriptorDevices, StoragesOfThem) {
  const auto change = [](StorageRecord storage) {
    DescriptorContent content = on_devices();
    content.storages.push_back(storage);
    return content;
  };
  EXPECT_TRUE(decode_descriptor(encode_descriptor(change({0, 0, 4096})), 1, {}, 3).is_ok());
  EXPECT_TRUE(decode_descriptor(encode_descriptor(change({0, 0, 0})), 1, {}, 3).is_ok());
  expect_refused(change({0, 1, 4096}), "storage.range", 1, 3);
  expect_refused(change({0, 0xffffffffffffffff, 2}), "storage.range", 1, 3);
  expect_refused(change({2, 0, 1}), "storage.range", 1, 3);
  expect_refused(change({0, 1, 0}), "storage.segment", 1, 3);
  expect_refused(change({1, 0, 0}), "storage.segment", 1, 3);
  expect_refused(change({4, 0, 0}), "storage.segment", 1, 3);
}

TEST(DescriptorStorages, WrongOnesAreRefused) {
  const auto change = [](StorageRecord storage) {
    DescriptorContent content = one_tensor();
    content.storages.push_back(storage);
    return content;
  };
  EXPECT_TRUE(decode_descriptor(encode_descriptor(change({0, 0, 4096})), 1, {}).is_ok());
  EXPECT_TRUE(decode_descriptor(encode_descriptor(change({0, 4095, 1})), 1, {}).is_ok());
  EXPECT_TRUE(decode_descriptor(encode_descriptor(change({kNoSegment, 0, 0})), 1, {}).is_ok());
  expect_refused(change({0, 0, 4097}), "storage.range");
  expect_refused(change({0, 4096, 1}), "storage.range");
  expect_refused(change({0, 0xffffffffffffffff, 2}), "storage.range");
  expect_refused(change({0, 2, 0xffffffffffffffff}), "storage.range");
  expect_refused(change({1, 0, 1}), "storage.segment");
  expect_refused(change({kNoSegment, 0, 1}), "storage.segment");
  expect_refused(change({0, 0, 0}), "storage.segment");
  expect_refused(change({kNoSegment, 1, 0}), "storage.segment");
}

TEST(DescriptorTensors, WrongOnesAreRefused) {
  const auto change = [](void (*edit)(TensorRecord&)) {
    DescriptorContent content = one_tensor();
    edit(content.tensors[0]);
    return content;
  };
  expect_refused(change([](TensorRecord& t) { t.storage = 1; }), "tensor.storage");
  expect_refused(change([](TensorRecord& t) { t.storage = kNoSegment; }), "tensor.storage");
  expect_refused(change([](TensorRecord& t) { t.flags = 16; }), "tensor.flags");
  expect_refused(change([](TensorRecord& t) { t.offset = 1; }), "tensor.layout");
  expect_refused(change([](TensorRecord& t) { t.offset = 0xffffffffffffffff; }), "tensor.layout");
  expect_refused(change([](TensorRecord& t) { t.dtype.lanes = 0; }), "tensor.layout");
  expect_refused(change([](TensorRecord& t) { t.dtype.bits = 64; }), "tensor.layout");
  expect_refused(change([](TensorRecord& t) { t.dtype = {3, 64, 1}; }), "tensor.layout");

  DescriptorContent deep = one_tensor();
  add_tensor(&deep, 0, kFloat32, std::vector<int64_t>(65, 1), std::vector<int64_t>(65, 1));
  expect_refused(deep, "tensor.ndim");
  for (const std::vector<int64_t>& dims :
       std::vector<std::vector<int64_t>>{{-1, 3, 3, 1},
                                         {2, 4, 3, 1},
                                         {2, 3, 3, -1},
                                         {2, 3, INT64_MIN, 1},
                                         {INT64_MAX, INT64_MAX, 0, 0}}) {
    DescriptorContent content = one_tensor();
    content.dims = dims;
    expect_refused(content, "tensor.layout");
  }
}

TEST(DescriptorTensors, PlacesOfDimsAndNamesAreChecked) {
  const Bytes good = encode_descriptor(everything());
  const auto refused = [&](size_t tensor, size_t field, uint32_t value, const char* name) {
    Bytes bytes = good;
    put<uint32_t>(&bytes, record_at(bytes, wire::kTensors, tensor) + field, value);
    fix_sum(&bytes);
    expect_error(decode_descriptor(bytes, 2, {}).status(), Code::kCorrupt, name);
  };
  refused(0, 12, 1, "tensor.dims");
  refused(1, 12, 0, "tensor.dims");
  refused(1, 12, 0xffffffff, "tensor.dims");
  refused(10, 16, 2, "tensor.dims");
  refused(10, 16, 64, "tensor.dims");
  refused(10, 16, 0, "dims");
  refused(1, 24, 0, "tensor.name");
  refused(1, 28, 0xffffffff, "tensor.name");
  refused(1, 28, 15, "tensor.name");
  refused(10, 36, 2, "tensor.name");
  refused(10, 28, 1, "tensor.name");
  refused(10, 24, 1, "tensor.name");
  refused(9, 28, 4, "names");
}

TEST(DescriptorNames, MustBeUtf8OfBoundedLength) {
  const auto named = [](const std::string& name) {
    DescriptorContent content = one_tensor();
    content.names = name;
    content.tensors[0].name_nbytes = static_cast<uint32_t>(name.size());
    return content;
  };
  EXPECT_TRUE(decode_descriptor(encode_descriptor(named("")), 1, {}).is_ok());
  EXPECT_TRUE(decode_descriptor(
                  encode_descriptor(named(std::string(TENON_MESSAGE_MAX_NAME_NBYTES, 'x'))), 1, {})
                  .is_ok());
  expect_refused(named(std::string(TENON_MESSAGE_MAX_NAME_NBYTES + 1, 'x')), "tensor.name");
  expect_refused(named(std::string("a\0b", 3)), "tensor.name");
  expect_refused(named("\xc3"), "tensor.name");
  expect_refused(named("\xed\xa0\x80"), "tensor.name");
}

TEST(DescriptorOthers, WrongOnesAreRefused) {
  DescriptorContent content = one_tensor();
  content.user.resize(TENON_MESSAGE_MAX_USER_NBYTES);
  EXPECT_TRUE(decode_descriptor(encode_descriptor(content), 1, {}).is_ok());
  content.user.resize(TENON_MESSAGE_MAX_USER_NBYTES + 1);
  expect_refused(content, "user");
  content = one_tensor();
  content.forgotten = {5, 0};
  expect_refused(content, "forgotten");
  content = one_tensor();
  content.sender_pid = -1;
  expect_refused(content, "sender_pid");
  content = one_tensor();
  content.dims.push_back(0);
  EXPECT_TRUE(decode_descriptor(encode_descriptor(content), 1, {}).is_ok())
      << "dims of no tensor are not encoded";
}

TEST(DescriptorLimits, AreNamed) {
  const Bytes bytes = encode_descriptor(everything());
  const auto limited = [&](DescriptorLimits limits, const char* name, uint64_t value,
                           uint64_t wanted, const char* field) {
    const Status status = decode_descriptor(bytes, 2, limits).status();
    expect_error(status, Code::kResourceExhausted, field);
    EXPECT_EQ(status.detail("limit"), name);
    EXPECT_EQ(status.detail("limit_value"), std::to_string(value));
    EXPECT_EQ(status.detail("wanted"), std::to_string(wanted));
  };
  EXPECT_TRUE(decode_descriptor(bytes, 2, {bytes.size(), 11, 4}).is_ok());
  limited({bytes.size() - 1, 11, 4}, "max_message_nbytes", bytes.size() - 1, bytes.size(), "bytes");
  limited({bytes.size(), 10, 4}, "max_tensors", 10, 11, "tensors");
  limited({bytes.size(), 11, 3}, "max_segments", 3, 4, "segments");
  DescriptorContent many = one_tensor();
  many.storages.resize(12);
  expect_error(decode_descriptor(encode_descriptor(many), 1, {bytes.size(), 11, 4}).status(),
               Code::kResourceExhausted, "storages");
}

TEST(DescriptorVersions, ForeignBytes) {
  const Bytes good = encode_descriptor(one_tensor());
  Bytes bytes = good;
  put<uint8_t>(&bytes, 0, 't');
  fix_sum(&bytes);
  expect_error(decode_descriptor(bytes, 1, {}).status(), Code::kCorrupt, "magic");
  for (const uint16_t major : {uint16_t{0}, uint16_t{2}, uint16_t{0xffff}}) {
    bytes = good;
    put<uint16_t>(&bytes, 8, major);
    expect_error(decode_descriptor(bytes, 1, {}).status(), Code::kIncompatible, "version");
    bytes.resize(12);
    expect_error(decode_descriptor(bytes, 1, {}).status(), Code::kIncompatible, "version");
  }
}

// The decoder reports an unknown incompatible feature first, however wrong the rest looks to this
// version.
TEST(DescriptorVersions, UnknownIncompatComesFirst) {
  for (int bit = 1; bit < 64; ++bit) {  // bit 0 is known
    Bytes bytes = encode_descriptor(one_tensor());
    put<uint64_t>(&bytes, 24, uint64_t{1} << bit);
    expect_error(decode_descriptor(bytes, 1, {}).status(), Code::kIncompatible, "incompat");
    std::fill(bytes.begin() + 32, bytes.end(), std::byte{0xff});
    put<uint64_t>(&bytes, 16, 3);
    put<uint16_t>(&bytes, 10, 99);
    expect_error(decode_descriptor(bytes, 1, {1, 0, 0}).status(), Code::kIncompatible, "incompat");
    bytes.resize(32);
    expect_error(decode_descriptor(bytes, 1, {}).status(), Code::kIncompatible, "incompat");
  }
}

TEST(DescriptorVersions, CompatBitsAreIgnored) {
  Bytes bytes = encode_descriptor(one_tensor());
  put<uint64_t>(&bytes, 32, 0xffffffffffffffff);
  fix_sum(&bytes);
  DescriptorContent decoded = must(decode_descriptor(bytes, 1, {}));
  expect_same(decoded, one_tensor());
}

// Returns what a later version 1.x may write: a longer header, longer records, and bytes behind the
// last section.
Bytes newer_minor(const DescriptorContent& content, uint16_t minor) {
  const Bytes old = encode_descriptor(content);
  const uint64_t grown[] = {16, 8, 24, 0, 0, 0, 0, 32, 0};
  Bytes bytes(old.begin(), old.begin() + 288);
  bytes.resize(312, std::byte{0xee});
  put<uint16_t>(&bytes, 10, minor);
  put<uint32_t>(&bytes, 12, 312);
  for (size_t i = 0; i < 9; ++i) {
    const size_t entry = 72 + 24 * i;
    const size_t from = get<uint64_t>(old, entry);
    const uint64_t count = get<uint64_t>(old, entry + 8);
    const uint32_t record_nbytes = get<uint32_t>(old, entry + 16);
    put<uint64_t>(&bytes, entry, bytes.size());
    put<uint32_t>(&bytes, entry + 16, record_nbytes + static_cast<uint32_t>(grown[i]));
    for (uint64_t n = 0; n < count; ++n) {
      const auto record = old.begin() + static_cast<ptrdiff_t>(from + n * record_nbytes);
      bytes.insert(bytes.end(), record, record + static_cast<ptrdiff_t>(record_nbytes));
      bytes.resize(bytes.size() + grown[i], std::byte{0xee});
    }
    bytes.resize((bytes.size() + 7) / 8 * 8);
  }
  bytes.resize(bytes.size() + 40, std::byte{0xee});
  fix_sum(&bytes);
  return bytes;
}

TEST(DescriptorVersions, NewerMinorVersionsAreRead) {
  DescriptorContent one = one_tensor();
  one.storages.push_back({kNoSegment, 0, 0, TENON_MODE_FROZEN, TENON_ACCESS_READ_ONLY});
  for (const DescriptorContent& content : {one, decoded_composites()}) {
    DescriptorContent decoded = must(decode_descriptor(newer_minor(content, 2), 2, {}));
    expect_same(decoded, content);
    expect_error(decode_descriptor(newer_minor(content, 1), 2, {}).status(), Code::kCorrupt,
                 "header_size");
    expect_error(decode_descriptor(newer_minor(content, 0), 2, {}).status(), Code::kCorrupt,
                 "header_size");
  }
}

TEST(DescriptorVersions, WhatVersion10CanSayIsSaidInIt) {
  const auto version = [](const DescriptorContent& content) {
    return get<uint16_t>(encode_descriptor(content), 10);
  };
  EXPECT_EQ(version({}), 0);
  EXPECT_EQ(version(everything()), 0);
  EXPECT_EQ(version(composites()), 1);
  DescriptorContent content = one_tensor();
  content.storages.push_back({kNoSegment, 0, 0, TENON_MODE_FROZEN, TENON_ACCESS_READ_ONLY});
  const Bytes bytes = encode_descriptor(content);
  EXPECT_EQ(get<uint16_t>(bytes, 10), 1);
  EXPECT_EQ(get<uint64_t>(bytes, 24), 0U) << "an older reader may read it";
  EXPECT_EQ(get<uint64_t>(bytes, 32), wire::kCompatEmptyModes);
}

TEST(DescriptorStorages, ModesOfEmptyOnes) {
  const auto change = [](StorageRecord storage) {
    DescriptorContent content = one_tensor();
    content.storages.push_back(storage);
    return content;
  };
  expect_refused(change({0, 0, 64, TENON_MODE_FROZEN, TENON_ACCESS_READ_ONLY}), "storage.mode");
  expect_refused(change({kNoSegment, 0, 0, 3, TENON_ACCESS_READ_ONLY}), "storage.mode");
  expect_refused(change({kNoSegment, 0, 0, TENON_MODE_FROZEN, 0}), "storage.access");
  expect_refused(change({kNoSegment, 0, 0, TENON_MODE_FROZEN, TENON_ACCESS_WRITABLE}),
                 "storage.access");
  expect_refused(change({kNoSegment, 0, 0, TENON_MODE_SHARED, 3}), "storage.access");
  Bytes bytes =
      encode_descriptor(change({kNoSegment, 0, 0, TENON_MODE_FROZEN, TENON_ACCESS_READ_ONLY}));
  put<uint64_t>(&bytes, 32, 0);
  fix_sum(&bytes);
  expect_error(decode_descriptor(bytes, 1, {}).status(), Code::kCorrupt, "storage.mode");
}

// Each case makes one change to a sound content.
TEST(DescriptorComposites, WrongOnesAreRefused) {
  const auto refused = [](size_t i, const char* field, auto&& change) {
    DescriptorContent content = composites();
    change(&content.composites[i]);
    expect_refused(content, field, 1);
  };
  constexpr size_t kCoo = 0, kCsr = 1, kJagged = 5, kNested = 7, kMeta = 8, kPerTensor = 9,
                   kPerChannel = 10;
  using Record = CompositeRecord;
  refused(kCoo, "composite.layout",
          [](Record* record) { record->layout = TensorLayout::kStrided; });
  refused(kCoo, "composite.layout",
          [](Record* record) { record->layout = static_cast<TensorLayout>(3); });
  refused(kCoo, "composite.layout",
          [](Record* record) { record->layout = static_cast<TensorLayout>(67); });
  refused(kCoo, "composite.layout",
          [](Record* record) { record->layout = TensorLayout::kSparseCsr; });
  refused(kCoo, "composite.layout",
          [](Record* record) { record->coalesced = static_cast<Coalesced>(3); });
  refused(kCoo, "composite.layout", [](Record* record) { record->flags = 4; });
  refused(kCoo, "composite.layout", [](Record* record) { record->scale = -0.0; });
  refused(kCoo, "composite.layout", [](Record* record) { record->dim = 1; });
  refused(kCoo, "composite.layout", [](Record* record) { record->offset = 1; });
  // Tensor 0 has a name, and a part must have none.
  refused(kCoo, "composite.parts", [](Record* record) { record->first_part = 0; });
  refused(kCsr, "composite.parts", [](Record* record) { record->first_part -= 1; });  // the other's
  refused(kCsr, "composite.parts", [](Record* record) { record->parts = 5; });
  refused(kCsr, "composite.parts", [](Record* record) { record->first_part = 1000; });
  refused(kCsr, "composite.layout", [](Record* record) { record->parts = 2; });
  refused(kCsr, "composite.layout", [](Record* record) { record->coalesced = Coalesced::kNo; });
  refused(kJagged, "composite.layout", [](Record* record) { record->dim = 0; });
  refused(kJagged, "composite.layout", [](Record* record) { record->dim = 3; });
  refused(kNested, "composite.layout", [](Record* record) { record->zero_point = 1; });
  refused(kMeta, "composite.layout", [](Record* record) { record->offset = UINT64_MAX; });
  refused(kMeta, "composite.layout", [](Record* record) { record->dtype.bits = 7; });
  refused(kPerTensor, "composite.layout",
          [](Record* record) { record->quantizer = QScheme::kNone; });
  refused(kPerTensor, "composite.layout",
          [](Record* record) { record->quantizer = static_cast<QScheme>(4); });
  refused(kPerChannel, "composite.layout", [](Record* record) { record->dim = 0; });
  refused(kPerChannel, "composite.layout", [](Record* record) { record->dim = -1; });
  refused(kPerChannel, "composite.layout",
          [](Record* record) { record->quantizer = QScheme::kPerChannelAffineFloatQParams; });

  Bytes bytes = encode_descriptor(composites());
  put<uint64_t>(&bytes, 24, 0);
  fix_sum(&bytes);
  expect_error(decode_descriptor(bytes, 1, {}).status(), Code::kCorrupt, "incompat");
  bytes = encode_descriptor(composites());
  put<uint32_t>(&bytes, record_at(bytes, wire::kComposites) + 76, 1);
  fix_sum(&bytes);
  expect_error(decode_descriptor(bytes, 1, {}).status(), Code::kCorrupt, "composite.reserved");
  DescriptorContent many = composites();
  expect_error(
      decode_descriptor(encode_descriptor(many), 1, {1 << 20, many.composites.size() - 1, 9})
          .status(),
      Code::kResourceExhausted, "tensors");
}

TEST(DescriptorVersions, RecordsOfOtherSizesAreRefused) {
  for (const auto& [content, n_sections] :
       {std::pair(everything(), 7U), std::pair(composites(), 9U)}) {
    const Bytes good = encode_descriptor(content);
    for (size_t i = 0; i < n_sections; ++i) {
      for (const int32_t delta : {-8, -1, 1, 7}) {
        Bytes bytes = good;
        const size_t at = 72 + 24 * i + 16;
        put<uint32_t>(&bytes, at, get<uint32_t>(bytes, at) + static_cast<uint32_t>(delta));
        fix_sum(&bytes);
        expect_error(decode_descriptor(bytes, 2, {}).status(), Code::kCorrupt, "section");
      }
    }
  }
}

TEST(DescriptorVersions, PaddingAndReservedBytesAreZero) {
  const Bytes good = encode_descriptor(everything());
  const auto refused = [&](size_t at, const char* field) {
    Bytes bytes = good;
    put<uint8_t>(&bytes, at, 1);
    fix_sum(&bytes);
    expect_error(decode_descriptor(bytes, 2, {}).status(), Code::kCorrupt, field);
  };
  refused(good.size() - 1, "padding");
  refused(record_at(good, wire::kForgotten) - 1, "padding");
  refused(record_at(good, wire::kSegments, 1) + 68, "segment.reserved");
  refused(record_at(good, wire::kStorages, 1) + 23, "storage.reserved");
  for (size_t i = 0; i < 7; ++i) refused(72 + 24 * i + 20, "section");
}

}  // namespace
}  // namespace tenon::tensor
