#include "cuda/memory.h"

#include <array>

#include "cuda/call.h"
#include "cuda/context.h"

namespace tenon::cuda {

namespace {

// Corrects the range of the allocation. The range of the attributes is "not necessarily the size of
// the mapped region", and cuMemGetAddressRange gives that of the allocation. Memory that is mapped
// piece by piece is left alone, because there the function gives the range of one piece.
void refine(const Driver& cu, DevicePointer pointer, Allocation* found) {
  if (found->context == nullptr && found->pool == nullptr) return;
  InContext scope(cu);
  const Status entered = found->context != nullptr
                             ? scope.enter(static_cast<CUcontext>(found->context))
                             : scope.enter_primary(found->device);
  CUdeviceptr base = 0;
  size_t nbytes = 0;
  if (!entered.is_ok() || cu.cuMemGetAddressRange(&base, &nbytes, pointer) != CUDA_SUCCESS) return;
  if (pointer < base || pointer - base >= nbytes) return;
  found->base = base;
  found->nbytes = nbytes;
}

}  // namespace

Result<Allocation> find_allocation(DevicePointer pointer) {
  TENON_ASSIGN(const Driver* const cu, driver());
  CUmemorytype type{};
  CUcontext context = nullptr;
  CUmemoryPool pool = nullptr;
  CUdeviceptr base = 0;
  size_t nbytes = 0;
  unsigned long long id = 0;
  unsigned long long handle_types = 0;
  int device = 0;
  unsigned managed = 0;
  unsigned ipc = 0;
  struct Question {
    CUpointer_attribute attribute;
    void* answer;
  };
  const std::array<Question, 10> questions{
      {{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, &type},
       {CU_POINTER_ATTRIBUTE_CONTEXT, static_cast<void*>(&context)},
       {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, &base},
       {CU_POINTER_ATTRIBUTE_RANGE_SIZE, &nbytes},
       {CU_POINTER_ATTRIBUTE_BUFFER_ID, &id},
       {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, &device},
       {CU_POINTER_ATTRIBUTE_IS_MANAGED, &managed},
       {CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, &ipc},
       {CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, &handle_types},
       {CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, static_cast<void*>(&pool)}}};
  std::array<CUpointer_attribute, questions.size()> attributes{};
  std::array<void*, questions.size()> answers{};
  for (size_t i = 0; i < questions.size(); ++i) {
    attributes[i] = questions[i].attribute;
    answers[i] = questions[i].answer;
  }
  TENON_CUDA(*cu,
             cu->cuPointerGetAttributes(static_cast<unsigned>(attributes.size()), attributes.data(),
                                        answers.data(), pointer),
             format("asking what lies at device address 0x%llx",
                    static_cast<unsigned long long>(pointer)));
  // The driver answers with zeros for memory that it does not know.
  if (type != CU_MEMORYTYPE_DEVICE || device < 0 || base == 0 || pointer < base ||
      pointer - base >= nbytes) {
    return Status(Code::kInvalidArgument,
                  format("there is no device memory of this process at address 0x%llx%s",
                         static_cast<unsigned long long>(pointer),
                         type == CU_MEMORYTYPE_HOST ? ": it is the host's" : ""));
  }
  Allocation found;
  found.base = base;
  found.nbytes = nbytes;
  found.device = device;
  found.id = id;
  found.context = context;
  found.has_ipc_handle = ipc != 0;
  found.is_managed = managed != 0;
  found.pool = pool;
  found.has_fd_handle = (handle_types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
  found.has_fabric_handle = (handle_types & CU_MEM_HANDLE_TYPE_FABRIC) != 0;
  refine(*cu, pointer, &found);
  return found;
}

Result<DevicePointer> allocate(int32_t device, uint64_t nbytes) {
  TENON_ASSIGN(const Driver* const cu, driver());
  InContext scope(*cu);
  TENON_TRY(scope.enter_primary(device));
  CUdeviceptr pointer = 0;
  TENON_CUDA(*cu, cu->cuMemAlloc(&pointer, nbytes),
             format("%llu bytes of memory of CUDA device %d",
                    static_cast<unsigned long long>(nbytes), device));
  return DevicePointer{pointer};
}

Result<DeviceRoom> device_room(int32_t device) {
  TENON_ASSIGN(const Driver* const cu, driver());
  InContext scope(*cu);
  TENON_TRY(scope.enter_primary(device));
  size_t free = 0;
  size_t total = 0;
  TENON_CUDA(*cu, cu->cuMemGetInfo(&free, &total),
             format("asking how much memory of CUDA device %d is free", device));
  return DeviceRoom{free, total};
}

void free_memory(DevicePointer pointer, int32_t device) noexcept {
  end_in_primary(device, [&](const Driver& cu) { (void)cu.cuMemFree(pointer); });
}

}  // namespace tenon::cuda
