// These tests send composites whose parts lie in device memory. The parts go over a connection
// under leases, and arrive as one composite again.
#include "tensor/composite.h"

#include <string>

#include "connected_kit.h"
#include "details.h"
#include "support/must.h"
#include "tensor/pack.h"
#include "tensor/portable.h"

namespace cuda_test {
namespace {

using tensor::Composite;
using tensor::CompositeSpec;
using tensor::DType;
using tensor::Part;
using tensor::QScheme;
using tensor::Tensor;
using tensor::TensorLayout;
using Sizes = std::vector<int64_t>;

constexpr DType kF32{2, 32, 1};
constexpr DType kF64{2, 64, 1};
constexpr DType kI64{0, 64, 1};
constexpr DType kU8{1, 8, 1};

const std::vector<float> kValues{1, 2, 3};
const std::vector<int64_t> kPointers{0, 2, 2, 3};
const std::vector<int64_t> kColumns{0, 3, 1};
constexpr uint64_t kHalf = kNbytes / 2;  // the size of each of the two storages

Ref<Tensor> part_over(const Ref<Storage>& storage, DType dtype, const Sizes& sizes,
                      uint64_t offset = 0) {
  const Sizes strides = tensor::contiguous_strides(sizes).value();
  return must(Tensor::create(storage, {dtype, sizes, strides, offset}, 0));
}
Ref<Tensor> numbers_of_the_host(const std::vector<int64_t>& numbers, const Sizes& sizes) {
  return part_over(
      Storage::create_from({}, numbers.data(), numbers.size() * sizeof(int64_t)).value(), kI64,
      sizes);
}

Ref<Composite> made(CompositeSpec spec) { return must(Composite::create(std::move(spec))); }

// [[1, 0, 0, 2], [0, 0, 0, 0], [0, 3, 0, 0]] over the storages of TwoStorages.
CompositeSpec csr_spec(const Ref<Storage>& values, const Ref<Storage>& numbers) {
  CompositeSpec spec;
  spec.layout = TensorLayout::kSparseCsr;
  spec.flags = tensor::kFlagRequiresGrad;
  spec.sizes = {3, 4};
  spec.parts = {part_over(values, kF32, {3}), part_over(numbers, kI64, {4}),
                part_over(numbers, kI64, {3}, 4)};
  return spec;
}
CompositeSpec coo_spec(Ref<Tensor> values, Ref<Tensor> indices) {
  CompositeSpec spec;
  spec.layout = TensorLayout::kSparseCoo;
  spec.sizes = {3, 4};
  spec.parts = {std::move(values), std::move(indices)};
  return spec;
}
CompositeSpec jagged_spec(const Ref<Storage>& values, const Ref<Storage>& numbers) {
  CompositeSpec spec;
  spec.layout = TensorLayout::kJagged;
  spec.dim = 1;
  spec.parts = {part_over(values, kF32, {9, 2}, 16), part_over(numbers, kI64, {3}, 8)};
  return spec;
}
// The sizes, strides and offsets of the components lie on the host.
CompositeSpec nested_spec(const Ref<Storage>& values) {
  CompositeSpec spec;
  spec.layout = TensorLayout::kNested;
  spec.parts = {part_over(values, kF32, {12}, 40), numbers_of_the_host({2, 3, 3, 2}, {2, 2}),
                numbers_of_the_host({3, 1, 2, 1}, {2, 2}), numbers_of_the_host({0, 6}, {2})};
  return spec;
}
CompositeSpec per_channel_spec(const Ref<Storage>& values, const Ref<Storage>& numbers) {
  CompositeSpec spec;
  spec.layout = TensorLayout::kQuantized;
  spec.quantizer = QScheme::kPerChannelAffine;
  spec.dim = 1;
  spec.parts = {part_over(values, kU8, {2, 3}, 512), part_over(numbers, kF64, {3}, 16),
                part_over(numbers, kI64, {3}, 20)};
  return spec;
}
CompositeSpec per_tensor_spec(const Ref<Storage>& values) {
  CompositeSpec spec;
  spec.layout = TensorLayout::kQuantized;
  spec.quantizer = QScheme::kPerTensorAffine;
  spec.scale = 0.5;
  spec.zero_point = -3;
  spec.parts = {part_over(values, kU8, {5}, 600)};
  return spec;
}
CompositeSpec meta_spec() {
  CompositeSpec spec;
  spec.layout = TensorLayout::kMeta;
  spec.dtype = kF32;
  spec.sizes = {1 << 20, 1 << 20};
  spec.strides = {1, 1 << 20};
  spec.offset = 5;
  return spec;
}

std::vector<Ref<Composite>> all_over(const Ref<Storage>& values, const Ref<Storage>& numbers) {
  return {made(csr_spec(values, numbers)),
          made(coo_spec(part_over(values, kF32, {2}), part_over(numbers, kI64, {2, 2}, 30))),
          made(jagged_spec(values, numbers)),
          made(nested_spec(values)),
          made(per_channel_spec(values, numbers)),
          made(meta_spec()),
          made(per_tensor_spec(values))};
}

// One allocation with the two storages that all_over() takes.
struct TwoStorages {
  TwoStorages() {
    put(0, kValues.data(), kValues.size() * sizeof(float));
    put(kHalf, kPointers.data(), kPointers.size() * sizeof(int64_t));
    put(kHalf + kPointers.size() * sizeof(int64_t), kColumns.data(),
        kColumns.size() * sizeof(int64_t));
  }
  TwoStorages(const TwoStorages&) = delete;
  TwoStorages& operator=(const TwoStorages&) = delete;
  ~TwoStorages() { EXPECT_EQ(driver().cuMemFree(memory.pointer), CUDA_SUCCESS); }
  void put(uint64_t offset, const void* bytes, uint64_t nbytes) const {
    EXPECT_EQ(driver().cuMemcpyAsync(memory.pointer + offset, reinterpret_cast<uintptr_t>(bytes),
                                     nbytes, nullptr),
              CUDA_SUCCESS);
    EXPECT_EQ(driver().cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  }
  Ref<Storage> half(uint64_t offset) {
    return wrap_cuda(memory.data(offset), kHalf, 0, count_free, &memory, false).value();
  }
  Ref<Storage> values() { return half(0); }
  Ref<Storage> numbers() { return half(kHalf); }
  bool come_back() {
    return wait_until([&] { return collect_cuda() == 0 && memory.freed == 2; });
  }

  Memory memory{kNbytes};
};

template <typename Element>
std::vector<Element> read_part(const Tensor& part) {
  std::vector<Element> elements(part.numel());
  const CUdeviceptr from = pointer_of(part.storage()) + part.offset_nbytes();
  EXPECT_EQ(driver().cuMemcpyAsync(reinterpret_cast<uintptr_t>(elements.data()), from,
                                   part.nbytes(), nullptr),
            CUDA_SUCCESS);
  EXPECT_EQ(driver().cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  return elements;
}

void send_composites(Connection& connection, const std::vector<Ref<Composite>>& composites,
                     const char* name_of_first = nullptr) {
  Message message;
  std::vector<Composite*> borrowed;
  for (const Ref<Composite>& each : composites) borrowed.push_back(each.get());
  std::vector<const char*> names(composites.size());
  names[0] = name_of_first;
  const Status added = message.add(borrowed, names.data(), memory::Access::kAuto);
  ASSERT_TRUE(added.is_ok()) << added.message();
  const Status sent = connection.send(&message, {});
  ASSERT_TRUE(sent.is_ok()) << sent.message();
}

void expect_same_part(const Tensor& got, const Tensor& wanted) {
  EXPECT_EQ(got.dtype(), wanted.dtype());
  EXPECT_EQ(got.offset(), wanted.offset());
  EXPECT_EQ(Sizes(got.sizes().begin(), got.sizes().end()),
            Sizes(wanted.sizes().begin(), wanted.sizes().end()));
  EXPECT_EQ(Sizes(got.strides().begin(), got.strides().end()),
            Sizes(wanted.strides().begin(), wanted.strides().end()));
  EXPECT_EQ(got.storage()->device(), wanted.storage()->device());
  if (wanted.storage()->device_memory() != nullptr) {
    EXPECT_EQ(got.storage().get(), wanted.storage().get());
  } else {
    EXPECT_EQ(std::memcmp(got.data(), wanted.data(), wanted.nbytes()), 0);
  }
}

void expect_same(const Composite& got, const Composite& wanted) {
  SCOPED_TRACE(tensor::tensor_layout_name(wanted.layout()));
  const CompositeSpec& one = got.spec();
  const CompositeSpec& other = wanted.spec();
  EXPECT_EQ(one.layout, other.layout);
  EXPECT_EQ(one.coalesced, other.coalesced);
  EXPECT_EQ(one.quantizer, other.quantizer);
  EXPECT_EQ(one.flags, other.flags);
  EXPECT_EQ(one.dim, other.dim);
  EXPECT_EQ(one.scale, other.scale);
  EXPECT_EQ(one.zero_point, other.zero_point);
  EXPECT_EQ(one.offset, other.offset);
  EXPECT_EQ(one.dtype, other.dtype);
  EXPECT_EQ(one.sizes, other.sizes);
  EXPECT_EQ(one.strides, other.strides);
  ASSERT_EQ(one.parts.size(), other.parts.size());
  for (size_t i = 0; i < one.parts.size(); ++i) expect_same_part(*one.parts[i], *other.parts[i]);
}

void expect_unfit(CompositeSpec spec, const std::string& part, const std::string& text) {
  const Status status = Composite::create(std::move(spec)).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.detail("part"), part);
  EXPECT_TRUE(says(status, text)) << status.message();
}

TEST(CudaComposite, EveryLayoutTravelsAndSharesItsStorages) {
  in_two_connected(
      [](Line& line, Connection& connection) {
        use_device();
        TwoStorages two;
        send_composites(connection, all_over(two.values(), two.numbers()), "features");
        // One handle leads to the parts of all composites.
        EXPECT_COUNT(1U, fake_cuda_calls, "cuIpcGetMemHandle", getpid());
        line.expect('k');
        (void)collect_cuda();
        EXPECT_EQ(two.memory.freed, 0);
        line.say('r');
        EXPECT_TRUE(two.come_back());
        line.expect('d');
      },
      [](Line& line, Connection& connection) {
        use_device();
        Ref<Composite> kept;
        {
          const std::unique_ptr<Message> message = connection.recv({}).value();
          ASSERT_NE(message->find_composite("features"), nullptr);
          kept = message->find_composite("features")->composite;
          const std::vector<Ref<Composite>> wanted =
              all_over(kept->parts()[0]->storage(), kept->parts()[1]->storage());
          ASSERT_EQ(message->composites().size(), wanted.size());
          for (size_t i = 0; i < wanted.size(); ++i)
            expect_same(*message->composites()[i].composite, *wanted[i]);
          EXPECT_COUNT(1U, fake_cuda_calls, "cuIpcOpenMemHandle", getpid());
        }
        // The composite alone keeps the leases of its parts. The message has been released.
        line.ask('k', 'r');
        EXPECT_EQ(kept->parts()[0]->storage()->device(), (storage::Device{storage::kCuda, 0}));
        EXPECT_EQ(read_part<float>(*kept->part(Part::kValues)), kValues);
        EXPECT_EQ(read_part<int64_t>(*kept->part(Part::kIndices)), kPointers);
        EXPECT_EQ(read_part<int64_t>(*kept->part(Part::kPlainIndices)), kColumns);
        release_all(&kept);
        line.say('d');
      });
}

TEST(CudaComposite, AKilledReceiverGivesThePartsBack) {
  in_two_connected(
      [](Line& line, Connection& connection) {
        use_device();
        TwoStorages two;
        send_composites(connection, {made(csr_spec(two.values(), two.numbers()))});
        line.expect('o');
        (void)collect_cuda();
        EXPECT_EQ(two.memory.freed, 0);
        line.say('k');
        EXPECT_TRUE(two.come_back());
      },
      [](Line& line, Connection& connection) {
        use_device();
        const Result<std::unique_ptr<Message>> message = connection.recv({});
        EXPECT_TRUE(message.is_ok()) << message.status().message();
        line.ask('o', 'k');
        raise(SIGKILL);
      });
}

TEST(CudaComposite, APartOnTheHostIsRefused) {
  in_child({}, [] {
    use_device();
    TwoStorages two;
    {
      const Ref<Storage> values = two.values();
      const Ref<Storage> numbers = two.numbers();
      const Ref<Storage> host = Storage::create({}, kHalf).value();
      expect_unfit(csr_spec(values, host), "indices",
                   "the indices are on another device than the values");
      expect_unfit(csr_spec(host, numbers), "indices",
                   "the indices are on another device than the values");
      CompositeSpec spec = csr_spec(values, numbers);
      spec.parts[2] = part_over(host, kI64, {3});
      expect_unfit(spec, "plain_indices",
                   "the plain indices are on another device than the values");
      expect_unfit(jagged_spec(values, host), "offsets",
                   "the offsets are on another device than the values");
      expect_unfit(per_channel_spec(values, host), "scales",
                   "the scales are on another device than the values");
      // The components of a nested tensor are described on the host, wherever its values are.
      spec = nested_spec(values);
      spec.parts[1] = part_over(numbers, kI64, {2, 2});
      expect_unfit(spec, "component_sizes",
                   "the component sizes are on another device than the CPU");
      spec = nested_spec(host);
      spec.parts[3] = part_over(numbers, kI64, {2});
      expect_unfit(spec, "offsets", "the offsets are on another device than the CPU");
    }
    EXPECT_TRUE(two.come_back());
  });
}

TEST(CudaComposite, PartsOnTwoDevicesAreRefused) {
  NEEDS_THE_FAKE("it wants two devices");
  in_child({"FAKE_CUDA_DEVICES=gpu=64,gpu=64"}, [] {
    use_device();
    TwoStorages two;
    use_device(1);
    Memory other(kHalf);
    {
      const Ref<Storage> numbers =
          wrap_cuda(other.data(), kHalf, 1, free_memory, &other, false).value();
      expect_unfit(csr_spec(two.values(), numbers), "indices",
                   "the indices are on another device than the values");
      expect_unfit(per_channel_spec(two.values(), numbers), "scales",
                   "the scales are on another device than the values");
      // Parts that all lie on the second device fit each other.
      const Ref<Composite> there = made(csr_spec(numbers, numbers));
      EXPECT_EQ(there->parts()[2]->storage()->device(), (storage::Device{storage::kCuda, 1}));
    }
    EXPECT_TRUE(wait_until([&] { return collect_cuda() == 0 && other.freed == 1; }));
    use_device();
  });
}

// decode_descriptor cannot see on which device a storage lies, so unpack checks that.
TEST(CudaComposite, ASenderThatMixesDevicesIsRefused) {
  const auto unpacked = [](int32_t device_of_indices) {
    tensor::DescriptorContent content;
    tensor::SegmentRecord segment;
    segment.reach = tensor::Reach::kDevice;
    content.segments = {segment, segment};
    content.storages = {{0, 0, 0}, {1, 0, 0}};
    content.dims = {0, 1, 2, 0, 0, 1};  // no elements: no memory is needed
    content.tensors.resize(2);
    content.tensors[0].dtype = kF32;
    content.tensors[0].ndim = 1;
    content.tensors[1].storage = 1;
    content.tensors[1].dtype = kI64;
    content.tensors[1].ndim = 2;
    content.tensors[1].dims = 2;
    tensor::CompositeRecord record;
    record.layout = TensorLayout::kSparseCoo;
    record.parts = 2;
    record.ndim = 2;
    content.composites = {record};
    content.composite_dims = {3, 4};
    ReachableCuda of_values;
    ReachableCuda of_indices;
    of_indices.device = device_of_indices;
    std::vector<tensor::Resolved> resolved(2);
    resolved[0].device = &of_values;
    resolved[1].device = &of_indices;
    std::vector<Ref<Storage>> storages;
    return tensor::unpack(std::move(content), resolved, {}, {}, &storages).status();
  };
  EXPECT_TRUE(unpacked(0).is_ok()) << unpacked(0).message();
  const Status refused = unpacked(1);
  EXPECT_EQ(refused.code(), Code::kCorrupt);
  EXPECT_EQ(refused.detail("field"), "composite.parts");
  EXPECT_EQ(refused.detail("part"), "indices");
}

// The host cannot read indices on a device. The error tells the reader what to do.
TEST(CudaComposite, IndicesOnADeviceAreNotChecked) {
  in_child({}, [] {
    use_device();
    TwoStorages two;
    {
      const std::vector<Ref<Composite>> all = all_over(two.values(), two.numbers());
      for (const Ref<Composite>& each : all) {
        SCOPED_TRACE(tensor::tensor_layout_name(each->layout()));
        const Result<Ref<Composite>> checked = tensor::check_contents(each.get());
        const bool jagged = each->layout() == TensorLayout::kJagged;
        if (!tensor::is_sparse(each->layout()) && !jagged) {
          EXPECT_TRUE(checked.is_ok()) << checked.status().message();
          continue;
        }
        EXPECT_EQ(checked.status().code(), Code::kUnsupported);
        EXPECT_EQ(checked.status().detail("part"), jagged ? "offsets" : "indices");
        EXPECT_TRUE(
            says(checked.status(), "copy them to the host, or use the tensor without this check"))
            << checked.status().message();
      }
    }
    EXPECT_TRUE(two.come_back());
  });
}

// The bytes of a descriptor lead to fds, and device memory has none. A meta tensor needs none.
TEST(CudaComposite, ADescriptorCarriesMetaAndNoDeviceMemory) {
  in_child({}, [] {
    use_device();
    TwoStorages two;
    {
      const Ref<Composite> csr = made(csr_spec(two.values(), two.numbers()));
      Message message;
      Composite* const one = csr.get();
      ASSERT_TRUE(message.add({&one, 1}, nullptr, memory::Access::kAuto).is_ok());
      for (const bool bytes_only : {true, false}) {
        const Result<std::unique_ptr<tensor::Descriptor>> refused =
            tensor::Descriptor::create(message, bytes_only);
        EXPECT_EQ(refused.status().code(), Code::kUnsupported);
        EXPECT_TRUE(says(refused.status(), "over a connection")) << refused.status().message();
      }
      const Ref<Composite> meta = made(meta_spec());
      Composite* const without_memory = meta.get();
      Message of_meta;
      ASSERT_TRUE(of_meta.add({&without_memory, 1}, nullptr, memory::Access::kAuto).is_ok());
      std::unique_ptr<tensor::Descriptor> descriptor =
          must(tensor::Descriptor::create(of_meta, false));
      auto opened = tensor::open_descriptor(descriptor->bytes(), descriptor->fds(), {});
      ASSERT_TRUE(opened.is_ok()) << opened.status().message();
      ASSERT_EQ(opened.value()->composites().size(), 1U);
      expect_same(*opened.value()->composites()[0].composite, *meta);
    }
    EXPECT_TRUE(two.come_back());
  });
}

}  // namespace
}  // namespace cuda_test
