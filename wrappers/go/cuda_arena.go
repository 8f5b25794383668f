// Arenas on a CUDA device: memory in which many storages lie, so that one handle leads to all.

package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_cuda_arena_new
// #cgo nocallback tenon_cuda_arena_new
// #cgo noescape tenon_cuda_arena_allocate
// #cgo noescape tenon_cuda_arena_stats_get
import "C"

import (
	"context"
	"unsafe"
)

// CUDAArenaOptions say how to make an arena on a device.
type CUDAArenaOptions struct {
	Device int32 // the device's ordinal in this process's numbering
	// The way to lend the memory: CUDAIPC, CUDAFD or CUDAFabric. CUDANoMemory means CUDAIPC if the
	// device has it, else CUDAFD.
	Transport CUDATransport
	// The size in bytes, rounded up to a size that the device can allocate. All of it is allocated
	// at once.
	Capacity uint64
}

// CUDAArena is one allocation on a device in which many storages lie. A receiver opens the
// allocation once for all of them, whether they come over a Connection, by ShareCUDA or through
// PyTorch. The memory is freed when the arena was closed, the last storage in it was closed, and no
// stream and no receiver uses it any more. A borrower of one byte can read and write all of it. Any
// goroutine may use a CUDAArena.
type CUDAArena struct{ handle }

// NewCUDAArena makes an arena. The options must set Capacity.
func NewCUDAArena(options *CUDAArenaOptions) (*CUDAArena, error) {
	collect()
	given := C.tenon_cuda_arena_options{struct_size: C.sizeof_tenon_cuda_arena_options}
	if o := options; o != nil {
		given.device = C.int32_t(o.Device)
		given.transport = C.tenon_cuda_transport(o.Transport)
		given.capacity_nbytes = C.uint64_t(o.Capacity)
	}
	var out *C.tenon_cuda_arena
	var failure *C.tenon_error
	if status := C.tenon_cuda_arena_new(&given, &out, &failure); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	a := new(CUDAArena)
	a.own(kindCUDAArena, unsafe.Pointer(out))
	return a, nil
}

// Allocate makes a storage in the arena. The content of its bytes is unspecified. A block is free
// when its storage was closed, the work in the streams that used it is complete, and every receiver
// has released it or was killed. ctx says how long a full arena waits for that. Nil means not to
// wait. The error of a full arena is then ErrResourceExhausted, and its detail "holders" says who
// holds the lent blocks.
func (a *CUDAArena) Allocate(ctx context.Context, nbytes uint64) (*Storage, error) {
	pointer, err := a.acquire()
	if err != nil {
		return nil, err
	}
	defer a.release()
	arena := (*C.tenon_cuda_arena)(pointer)
	if ctx != nil {
		return waitFor(ctx, newStorage, func(w waiting[*C.tenon_storage]) C.tenon_status {
			return C.tenon_go_cuda_arena_allocate(
				arena,
				C.uint64_t(nbytes),
				w.timeout,
				w.cancel,
				w.out,
				w.failure,
			)
		})
	}
	var out *C.tenon_storage
	var failure *C.tenon_error
	if status := C.tenon_cuda_arena_allocate(
		arena, C.uint64_t(nbytes), nil, &out, &failure,
	); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	return newStorage(out), nil
}

// CUDAArenaStats tells what an arena on a device holds, at one moment.
type CUDAArenaStats struct {
	Device           int32         // the device's ordinal
	Transport        CUDATransport // the way in which the memory is lent
	BytesCapacity    uint64        // the most that it can hold
	BytesUsed        uint64        // in storages, or still used by a stream or a receiver
	BytesFree        uint64        // not in use
	BytesLargestFree uint64        // the longest free piece
	BytesPeak        uint64        // the most that was in use at one time
	BlocksUsed       uint64        // in storages, or still used by a stream or a receiver
}

// Stats tells what the arena holds now. It checks for memory that was given back first.
func (a *CUDAArena) Stats() (CUDAArenaStats, error) {
	pointer, err := a.acquire()
	if err != nil {
		return CUDAArenaStats{}, err
	}
	defer a.release()
	out := C.tenon_cuda_arena_stats{struct_size: C.sizeof_tenon_cuda_arena_stats}
	var failure *C.tenon_error
	if status := C.tenon_cuda_arena_stats_get(
		(*C.tenon_cuda_arena)(pointer), &out, &failure,
	); status != C.TENON_OK {
		return CUDAArenaStats{}, takeError(status, failure)
	}
	return CUDAArenaStats{
		Device:           int32(out.device),
		Transport:        CUDATransport(out.transport),
		BytesCapacity:    uint64(out.bytes_capacity),
		BytesUsed:        uint64(out.bytes_used),
		BytesFree:        uint64(out.bytes_free),
		BytesLargestFree: uint64(out.bytes_largest_free),
		BytesPeak:        uint64(out.bytes_peak),
		BlocksUsed:       uint64(out.blocks_used),
	}, nil
}
