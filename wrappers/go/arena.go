// Arenas: memory in which many storages lie, so that they share one fd and one mapping.

package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_arena_new
// #cgo nocallback tenon_arena_new
// #cgo noescape tenon_arena_stats_get
// #cgo nocallback tenon_arena_stats_get
// #cgo noescape tenon_arena_reserve
// #cgo nocallback tenon_arena_reserve
import "C"

import (
	"fmt"
	"math"
	"unsafe"
)

// Pages is a kind of memory pages, from ordinary pages upwards.
type Pages uint32

// The kinds of pages.
const (
	// PagesTHP if the machine gives them to shared memory, else PagesSmall.
	PagesAuto  Pages = C.TENON_PAGES_AUTO
	PagesSmall Pages = C.TENON_PAGES_SMALL // ordinary pages, 4 KiB on x86
	PagesTHP   Pages = C.TENON_PAGES_THP   // transparent huge pages
	// Pages of the pool that the administrator set aside. PyTorch cannot open such memory.
	PagesHugeTLB Pages = C.TENON_PAGES_HUGETLB
)

// String returns the name of the pages, such as "thp".
func (p Pages) String() string {
	switch p {
	case PagesAuto:
		return "auto"
	case PagesSmall:
		return "small"
	case PagesTHP:
		return "thp"
	case PagesHugeTLB:
		return "hugetlb"
	}
	return fmt.Sprintf("Pages(%d)", uint32(p))
}

// ArenaOptions say how to make an arena. Nil and the zero value mean mode Shared and as much
// address space as is available, at most 1 TiB.
type ArenaOptions struct {
	Mode          Mode   // of all its storages: Shared or LenderWrites
	Capacity      uint64 // the most bytes that it can hold
	Alignment     uint64 // of each storage, in bytes, a power of two from 64 to 4096; 0 means 64
	Pages         Pages
	HugePageBytes uint64 // with PagesHugeTLB: size of the pool's pages; 0: the machine's default
	NUMANode      *int   // take memory of this node only; nil means of any node
	Locked        bool   // never swap the memory out; it counts against RLIMIT_MEMLOCK
	// Fail if the pages or the node are not available. Without Exact, only Stats tells what the
	// arena got.
	Exact         bool
	PrefaultBytes uint64 // how many bytes are made ready in the background
}

// Arena is one segment in which many storages are made (StorageOptions.Arena). It takes one fd and
// one mapping, in this process and in each borrower. It takes memory from the system as it fills.
// The memory is freed when the arena was closed, its last storage was closed, and the last lease on
// it has ended. A borrower of one byte can read the whole arena, and in mode Shared can also write
// to all of it. Any goroutine may use an Arena.
type Arena struct{ handle }

// NewArena makes an arena.
func NewArena(options *ArenaOptions) (*Arena, error) {
	collect()
	given := C.tenon_arena_options{struct_size: C.sizeof_tenon_arena_options}
	if o := options; o != nil {
		given.mode = C.tenon_mode(o.Mode)
		given.capacity_nbytes = C.uint64_t(o.Capacity)
		given.alignment = C.uint64_t(o.Alignment)
		given.pages = C.tenon_pages(o.Pages)
		given.huge_page_nbytes = C.uint64_t(o.HugePageBytes)
		given.prefault_nbytes = C.uint64_t(o.PrefaultBytes)
		if o.Locked {
			given.flags |= C.TENON_ARENA_LOCKED
		}
		if o.Exact {
			given.flags |= C.TENON_ARENA_EXACT
		}
		if node := o.NUMANode; node != nil {
			if *node < 0 || *node >= math.MaxInt32 {
				return nil, invalid(fmt.Sprintf("NUMANode %d is no node", *node))
			}
			given.numa_node_plus_1 = C.int32_t(*node + 1)
		}
	}
	var out *C.tenon_arena
	var failure *C.tenon_error
	if status := C.tenon_arena_new(&given, &out, &failure); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	a := new(Arena)
	a.own(kindArena, unsafe.Pointer(out))
	return a, nil
}

// begin starts a use of the arena, and end ends it. For a nil arena it gives the C library's NULL.
func (a *Arena) begin() (*C.tenon_arena, error) {
	if a == nil {
		return nil, nil
	}
	pointer, err := a.acquire()
	return (*C.tenon_arena)(pointer), err
}

func (a *Arena) end() {
	if a != nil {
		a.release()
	}
}

// ArenaStats tells what an arena holds, and which memory it got, at one moment.
type ArenaStats struct {
	BytesCapacity    uint64 // the most that it can hold
	BytesReserved    uint64 // memory that it has taken from the system
	BytesLive        uint64 // in storages of this process
	BytesLent        uint64 // under leases, whether their storage still lives here or not
	BytesFree        uint64 // reserved, and not in use
	BytesLargestFree uint64 // the longest free piece
	BytesRetired     uint64 // lent without a lease (by fd, by name) and closed: never reused
	BytesPeak        uint64 // the most that was live or lent at one time
	BlocksLive       uint64 // storages of this process
	BlocksLent       uint64 // blocks under leases
	Fragmentation    uint32 // how many of 1,000 free bytes lie outside the longest free piece
	Pages            Pages  // the pages that it got; never PagesAuto
	PageBytes        uint64 // the size of these pages
	NUMANode         int    // the node to which it is bound; -1 means none
	Locked           bool   // whether the memory is never swapped out
}

// Stats tells what the arena holds now, and which memory it got.
func (a *Arena) Stats() (ArenaStats, error) {
	return ask(a, func(pointer *C.tenon_arena) (ArenaStats, error) {
		out := C.tenon_arena_stats{struct_size: C.sizeof_tenon_arena_stats}
		var failure *C.tenon_error
		if status := C.tenon_arena_stats_get(pointer, &out, &failure); status != C.TENON_OK {
			return ArenaStats{}, takeError(status, failure)
		}
		return ArenaStats{
			BytesCapacity:    uint64(out.bytes_capacity),
			BytesReserved:    uint64(out.bytes_reserved),
			BytesLive:        uint64(out.bytes_live),
			BytesLent:        uint64(out.bytes_lent),
			BytesFree:        uint64(out.bytes_free),
			BytesLargestFree: uint64(out.bytes_largest_free),
			BytesRetired:     uint64(out.bytes_retired),
			BytesPeak:        uint64(out.bytes_peak),
			BlocksLive:       uint64(out.blocks_live),
			BlocksLent:       uint64(out.blocks_lent),
			Fragmentation:    uint32(out.fragmentation),
			Pages:            Pages(out.pages),
			PageBytes:        uint64(out.page_nbytes),
			NUMANode:         int(out.numa_node),
			Locked:           out.locked != 0,
		}, nil
	})
}

// Reserve takes memory from the system before it is needed: nbytes bytes from the arena's start. A
// number above its capacity means the whole arena.
func (a *Arena) Reserve(nbytes uint64) error {
	return run(a, func(pointer *C.tenon_arena, failure **C.tenon_error) C.tenon_status {
		return C.tenon_arena_reserve(
			pointer, C.uint64_t(nbytes), failure,
		)
	})
}
