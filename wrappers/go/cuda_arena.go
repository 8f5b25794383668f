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

// CUDAArenaOptions say how an arena on a device is made.
type CUDAArenaOptions struct {
	Device int32 // ordinal in this process's numbering
	// How it is to be lent: CUDAIPC, CUDAFD or CUDAFabric; CUDANoMemory: CUDAIPC where the device
	// has it, else CUDAFD.
	Transport CUDATransport
	// Bytes, all of which are taken at once; rounded up to what the device gives.
	Capacity uint64
}

// CUDAArena is one allocation on a device in which many storages lie, and which whoever receives
// them opens once, be it over a Connection, by ShareCUDA or in PyTorch. Its memory goes with its
// Close, the last storage in it and the last who keeps it. Who is lent one byte of it can read and
// write all of it. Any goroutine may use it.
type CUDAArena struct{ handle }

// NewCUDAArena makes an arena. Its options have to have a capacity.
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

// Allocate makes a storage in it, whose bytes are what they happen to be. A block is free when its
// storage was closed, the streams in which it was used have passed, and every receiver has let go
// or was killed: ctx says how long a full arena waits for that. Nil: not at all, which is
// ErrResourceExhausted, with the detail "holders" that says who holds what was lent.
func (a *CUDAArena) Allocate(ctx context.Context, nbytes uint64) (*Storage, error) {
	pointer, err := a.acquire()
	if err != nil {
		return nil, err
	}
	defer a.release()
	arena := (*C.tenon_cuda_arena)(pointer)
	if ctx != nil {
		return waitForStorage(
			ctx,
			func(
				timeout C.int64_t, cancel *C.tenon_cancel, out **C.tenon_storage,
				failure **C.tenon_error,
			) C.tenon_status {
				return C.tenon_go_cuda_arena_allocate(
					arena,
					C.uint64_t(nbytes),
					timeout,
					cancel,
					out,
					failure,
				)
			},
		)
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

// CUDAArenaStats is what an arena on a device holds, of one moment.
type CUDAArenaStats struct {
	Device           int32         // ordinal
	Transport        CUDATransport // how it is lent
	BytesCapacity    uint64        // what it can hold
	BytesUsed        uint64        // in storages, or kept by a stream or a receiver
	BytesFree        uint64        // nobody's
	BytesLargestFree uint64        // the longest piece of them
	BytesPeak        uint64        // the most that was used at once
	BlocksUsed       uint64        // storages, or what is kept of them
}

// Stats tells what it holds, now. It looks for what was given back first.
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
