#include "cuda/device.h"

#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "base/immortal.h"
#include "cuda/call.h"
#include "cuda/driver.h"

namespace tenon::cuda {
namespace {

static_assert(sizeof(CUuuid) == sizeof(Uuid));

// The devices that this process sees. They do not change while it lives.
struct Devices {
  std::mutex mutex;
  std::vector<Device> all;
};

Status list_devices(const Driver& cu, std::vector<Device>* all) {
  int count = 0;
  TENON_CUDA(cu, cu.cuDeviceGetCount(&count), "counting the CUDA devices");
  std::vector<Device> found;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    Device device{.ordinal = ordinal};
    CUdevice handle = 0;
    CUuuid uuid{};
    TENON_CUDA(cu, cu.cuDeviceGet(&handle, ordinal), format("CUDA device %d", ordinal));
    TENON_CUDA(cu, cu.cuDeviceGetUuid(&uuid, handle),
               format("the UUID of CUDA device %d", ordinal));
    std::memcpy(device.uuid.data(), &uuid, sizeof uuid);
    found.push_back(device);
  }
  *all = std::move(found);
  return Status::ok();
}

// `otherwise` is only called when there is no such device.
template <typename Wanted, typename Otherwise>
Result<Device> find(const Wanted& wanted, const Otherwise& otherwise) {
  TENON_ASSIGN(const Driver* const cu, driver());
  Devices& devices = immortal<Devices>();
  const std::lock_guard<std::mutex> lock(devices.mutex);
  if (devices.all.empty()) TENON_TRY(list_devices(*cu, &devices.all));
  for (const Device& each : devices.all) {
    if (wanted(each)) return each;
  }
  return otherwise();
}

}  // namespace

Result<Device> find_device(int32_t ordinal) {
  return find([&](const Device& each) { return each.ordinal == ordinal; },
              [&] {
                return Status(Code::kInvalidArgument,
                              format("this process sees no CUDA device %d", ordinal));
              });
}

Result<Device> find_device(const Uuid& uuid) {
  return find([&](const Device& each) { return each.uuid == uuid; },
              [] {
                return Status(Code::kNotFound,
                              "this process does not see the CUDA device of that UUID");
              });
}

}  // namespace tenon::cuda
