// The tests of connections use these contents of messages, which are made by hand as a hostile peer
// could make them.
#pragma once

#include <cstdint>

#include "tensor/descriptor.h"

namespace tenon::channel::frametest {

// Returns a content with one storage of one byte, which lies at the start of a segment that comes
// by fd.
inline tensor::DescriptorContent one_byte_of(uint64_t segment_id, uint64_t segment_nbytes) {
  tensor::DescriptorContent content;
  tensor::SegmentRecord segment;
  segment.reach = tensor::Reach::kFd;
  segment.id = segment_id;
  segment.access = static_cast<uint32_t>(memory::Access::kWritable);
  segment.nbytes = segment_nbytes;
  content.segments.push_back(segment);
  tensor::StorageRecord storage;
  storage.segment = 0;
  storage.nbytes = 1;
  content.storages.push_back(storage);
  return content;
}

}  // namespace tenon::channel::frametest
