#include "pickle/reader.h"

#include "pickle/machine.h"

namespace tenon::pickle {

Result<PickleTree> read_pickle(std::span<const std::byte> bytes, const PickleReadOptions& options) {
  return PickleMachine(bytes, options).run();
}

}  // namespace tenon::pickle
