// What a peer of the storm does with memory of its own (class Peer).
#include <algorithm>

#include "device/torch_counter.h"
#include "process/cuda/storm/peer.h"

namespace storm {

static constexpr size_t kMostAllocations = 4;

// The library calls this when no process uses the block any more. The next write to the block
// relies on that.
void DevicePeer::came_back(DLManagedTensorVersioned* managed) {
  auto* const block = static_cast<Block*>(managed->manager_ctx);
  if (!block->wrapped) block->peer->fail("a block came back twice");
  block->wrapped = false;
  block->messages.clear();
  ++block->peer->frees_;
  block->peer->count(kFreed);
}

DevicePeer::Allocation* DevicePeer::new_allocation() {
  enter(kWrap);
  auto made = std::make_unique<Allocation>();
  std::vector<uint64_t> sizes;
  uint64_t nbytes = 0;
  for (uint64_t n = 1 + random_.below(5); n > 0; --n) {
    sizes.push_back(random_.up_to(1 << 15));
    nbytes += sizes.back();
  }
  must(driver().cuMemAlloc(&made->base, nbytes), "cuMemAlloc");
  count(kAllocations);
  uint64_t at = 0;
  for (const uint64_t size : sizes) {
    auto block = std::make_unique<Block>();
    block->peer = this;
    block->pointer = made->base + at;
    block->room = size;
    at += size;
    made->blocks.push_back(std::move(block));
  }
  allocations_.push_back(std::move(made));
  leave();
  return allocations_.back().get();
}

DevicePeer::Block* DevicePeer::some_block(bool wrapped) {
  std::vector<Block*> found;
  for (const auto& allocation : allocations_) {
    for (const auto& block : allocation->blocks) {
      if (wrapped ? block->tensor != nullptr : !block->wrapped) found.push_back(block.get());
    }
  }
  return found.empty() ? nullptr : found[random_.below(found.size())];
}

void DevicePeer::write(Block* block) {
  block->stamp = {seed_, ++generation_,
                  random_.chance(50) ? block->room : 1 + random_.below(block->room)};
  block->bytes.resize(block->stamp.nbytes);
  fill(block->bytes.data(), block->stamp);
  block->stream = some_stream();
  enter(kWrap);
  // The extra fills keep wrong bytes in the block for longer, so that a reader that does not wait
  // for the stream sees them.
  if (random_.chance(25)) {
    for (uint64_t n = 1 + random_.below(8); n > 0; --n)
      must(driver().cuMemsetD8Async(block->pointer, 0xee, block->stamp.nbytes, block->stream),
           "cuMemsetD8Async");
  }
  must(driver().cuMemcpyAsync(block->pointer, reinterpret_cast<uintptr_t>(block->bytes.data()),
                              block->stamp.nbytes, block->stream),
       "cuMemcpyAsync");
  block->managed = {};
  block->managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  block->managed.manager_ctx = block;
  block->managed.deleter = came_back;
  block->managed.dl_tensor.data = reinterpret_cast<void*>(static_cast<uintptr_t>(block->pointer));
  block->managed.dl_tensor.device = {kDLCUDA, 0};
  block->managed.dl_tensor.ndim = 1;
  block->managed.dl_tensor.dtype = {kDLUInt, 8, 1};
  block->shape = static_cast<int64_t>(block->stamp.nbytes);
  block->managed.dl_tensor.shape = &block->shape;
  block->wrapped = true;
  const fault::Outcome made = fault::call([&](tenon_error** err) {
    return tenon_tensor_from_dlpack(&block->managed, &block->tensor, err);
  });
  expect(made, {TENON_OK}, "tenon_tensor_from_dlpack");
  ++wraps_;
  count(kWrapped);
  // The stream still reads the bytes from the host, and the block may be released before it was
  // ever sent.
  const fault::Outcome recorded = fault::call([&](tenon_error** err) {
    return tenon_storage_record_stream(tenon_tensor_storage(block->tensor), block->stream, err);
  });
  expect(recorded, {TENON_OK}, "tenon_storage_record_stream");
  leave();
}

void DevicePeer::lend() {
  LinkEnd* const link = some_link(&links_, true, &random_);
  if (link == nullptr || sent_ == kMessages) return;
  Block* block = random_.chance(25) ? some_block(true) : nullptr;
  if (block == nullptr) {
    block = some_block(false);
    if (block == nullptr) {
      if (allocations_.size() >= kMostAllocations) return;
      block = new_allocation()->blocks[0].get();
    }
    write(block);
  }
  // Makes the next share begin a new counter file, which otherwise happens once in ten thousand.
  if (random_.chance(10)) {
    tenon::device::end_cuda_counter_file();
    count(kFilesEnded);
  }
  Message message{};
  message.handle.struct_size = sizeof message.handle;
  message.stamp = block->stamp;
  message.sender = index_;
  message.number = sent_++;
  tenon_cuda_options options{};
  options.struct_size = sizeof options;
  options.form = static_cast<tenon_cuda_form>(random_.below(TENON_CUDA_FORM_E + 1));
  const fault::Outcome shared = call(kShare, [&](tenon_error** err) {
    return tenon_share_cuda(tenon_tensor_storage(block->tensor), block->stream, &options,
                            &message.handle, err);
  });
  expect(shared, {TENON_OK}, "tenon_share_cuda");
  if (message.handle.event_required == 0) count(kWithoutEvent);
  block->messages.push_back(message.number);
  if (send(link, message)) {
    count(kShared);
  } else {
    give_back_unopened(message);
  }
  // In most cases only the receivers keep the block from now on.
  if (random_.chance(75)) release_own(block);
}

void DevicePeer::check_own(const Block& block) {
  std::vector<unsigned char> bytes(block.stamp.nbytes);
  enter(kUse);
  must(driver().cuMemcpyAsync(reinterpret_cast<uintptr_t>(bytes.data()), block.pointer,
                              bytes.size(), block.stream),
       "cuMemcpyAsync");
  must(driver().cuStreamSynchronize(block.stream), "cuStreamSynchronize");
  leave();
  if (const uint64_t at = find_wrong(bytes.data(), block.stamp); at != kAllRight)
    fail_wrong(bytes.data(), block.stamp, at, "its own");
}

void DevicePeer::release_own(Block* block) {
  tenon_tensor* const tensor = block->tensor;
  block->tensor = nullptr;
  enter(kRelease);
  tenon_tensor_release(tensor);
  leave();
}

// Frees allocations in which no block is in use. The driver reports an error if a process still has
// one open.
void DevicePeer::free_unused(bool all) {
  for (size_t i = allocations_.size(); i-- > 0;) {
    const auto& blocks = allocations_[i]->blocks;
    if (std::any_of(blocks.begin(), blocks.end(), [](const auto& block) { return block->wrapped; }))
      continue;
    if (!all && !random_.chance(50)) continue;
    enter(kRelease);
    must(driver().cuMemFree(allocations_[i]->base), "cuMemFree");
    leave();
    count(kAllocationsFreed);
    allocations_.erase(allocations_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace storm
