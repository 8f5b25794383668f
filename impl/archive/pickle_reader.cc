#include "archive/pickle_reader.h"

#include "archive/pickle_machine.h"

namespace tenon::archive {

Result<PickleTree> read_pickle(std::span<const std::byte> bytes, const PickleReadOptions& options) {
  return PickleMachine(bytes, options).run();
}

}  // namespace tenon::archive
