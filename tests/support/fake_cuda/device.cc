// The devices that this process sees. The same device can have another ordinal in another process,
// and has the same UUID in all.
#include <cstdio>
#include <cstring>

#include "process.h"

using namespace fake_cuda;

namespace {

// "If the device is in MIG mode, returns its MIG UUID" is new in version 2 of the function. Version
// 1 returns the UUID of the GPU.
CUresult get_uuid(CUuuid* uuid, CUdevice device, bool of_instance) {
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const Device& known = device_of(device);
  const std::array<unsigned char, 16>& bytes = of_instance ? known.uuid : known.gpu_uuid;
  std::memcpy(uuid->bytes, bytes.data(), bytes.size());
  return CUDA_SUCCESS;
}

std::string bus_id(const Device& device) {
  char text[32];
  std::snprintf(text, sizeof text, "0000:%02x:00.0", 1 + device.physical);
  return text;
}

// Returns the driver version that introduced an attribute. Attributes older than 11.3 are always
// known.
int known_since(CUdevice_attribute attribute) {
  if (attribute == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED) return 12030;
  if (attribute == CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED) return 12000;
  return 0;
}

int pool_handle_types() {
  int types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  if (config().fabric && config().driver >= 12030) types |= CU_MEM_HANDLE_TYPE_FABRIC;
  return config().pools ? types : 0;
}

int device_attribute_of(CUdevice_attribute attribute, const Device& device) {
  const Config& on = config();
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return 9;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return 2;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: return 1;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY: return 1;
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED: return 1;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM: return 1;
    case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED: return on.read_only_access ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY: return 1;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS: return 1;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED: return on.integrated ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return static_cast<int>(1 + device.physical);
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: return on.vmm ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: return on.vmm ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED: return on.vmm && on.fabric ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: return on.pools ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES: return pool_handle_types();
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED: return on.ipc && !device.mig ? 1 : 0;
    default: return 0;
  }
}

}  // namespace

FAKE_CUDA_EXPORT CUresult cuDeviceGetCount(int* count) {
  FAKE_CUDA_ENTER(cuDeviceGetCount)
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(config().visible.size());
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  FAKE_CUDA_ENTER(cuDeviceGet)
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  FAKE_CUDA_ENTER(cuDeviceGetName)
  if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<size_t>(length), "%s", device_of(device).name.c_str());
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  FAKE_CUDA_ENTER(cuDeviceGetUuid)
  return get_uuid(uuid, device, false);
}

FAKE_CUDA_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  FAKE_CUDA_ENTER(cuDeviceGetUuid_v2)
  return get_uuid(uuid, device, true);
}

FAKE_CUDA_EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                                               CUdevice device) {
  FAKE_CUDA_ENTER(cuDeviceGetAttribute)
  if (value == nullptr || attribute < 1 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  if (known_since(attribute) > config().driver) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *value = device_attribute_of(attribute, device_of(device));
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  FAKE_CUDA_ENTER(cuDeviceTotalMem_v2)
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = device_of(device).bytes;
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  FAKE_CUDA_ENTER(cuDeviceGetPCIBusId)
  if (text == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(text, static_cast<size_t>(length), "%s", bus_id(device_of(device)).c_str());
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
  FAKE_CUDA_ENTER(cuDeviceGetByPCIBusId)
  if (device == nullptr || text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (int i = 0; is_device(i); ++i) {
    if (bus_id(device_of(i)) != text) continue;
    *device = i;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

FAKE_CUDA_EXPORT CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  FAKE_CUDA_ENTER(cuDeviceCanAccessPeer)
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device) || !is_device(peer)) return CUDA_ERROR_INVALID_DEVICE;
  *can = device != peer ? 1 : 0;
  return CUDA_SUCCESS;
}
