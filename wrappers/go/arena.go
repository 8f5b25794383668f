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

// Pages are kinds of pages, from the ordinary up.
type Pages uint32

// The kinds of pages.
const (
	// PagesTHP where the machine gives them to shared memory, else PagesSmall.
	PagesAuto  Pages = C.TENON_PAGES_AUTO
	PagesSmall Pages = C.TENON_PAGES_SMALL // ordinary pages, 4 KiB on x86
	PagesTHP   Pages = C.TENON_PAGES_THP   // transparent huge pages
	// Pages of the pool that the administrator set aside; PyTorch cannot open such memory.
	PagesHugeTLB Pages = C.TENON_PAGES_HUGETLB
)

// String is the name of the pages, as in "thp".
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

// ArenaOptions say how an arena is made. Nil, and the zero value: Shared, as much address space as
// can be had, at most 1 TiB.
type ArenaOptions struct {
	Mode          Mode   // Shared or LenderWrites; of all its storages
	Capacity      uint64 // most bytes that it can hold
	Alignment     uint64 // of each storage, in bytes, a power of two from 64 to 4096; 0: 64
	Pages         Pages
	HugePageBytes uint64 // with PagesHugeTLB: size of the pool's pages; 0: the machine's default
	NUMANode      *int   // memory of that node only; nil: wherever
	Locked        bool   // never swapped out; counts against RLIMIT_MEMLOCK
	// Pages or a node that cannot be had are an error, and not told by Stats alone.
	Exact         bool
	PrefaultBytes uint64 // memory that is made ready in the background
}

// Arena is one segment in which many storages are born (StorageOptions.Arena): one fd and one
// mapping, here and at each borrower. Memory is taken as it fills. Its memory goes with its Close,
// the last storage in it and the last lease on it. Who is lent one byte of it can read all of it,
// and in mode Shared write all of it. Any goroutine may use it.
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

// begin starts a use of an arena, which end ends. Of nil it gives the C library's NULL.
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

// ArenaStats is what an arena holds and what it got, of one moment.
type ArenaStats struct {
	BytesCapacity    uint64 // what it can hold
	BytesReserved    uint64 // memory that it has from the system
	BytesLive        uint64 // in storages of this process
	BytesLent        uint64 // under leases, whether their storage still lives here or not
	BytesFree        uint64 // reserved, and nobody's
	BytesLargestFree uint64 // the longest piece of them
	BytesRetired     uint64 // lent without a lease (by fd, by name) and closed: never used again
	BytesPeak        uint64 // the most that was live or lent at once
	BlocksLive       uint64 // storages of this process
	BlocksLent       uint64 // blocks under leases
	Fragmentation    uint32 // of the free bytes, how many in 1,000 lie outside the longest piece
	Pages            Pages  // which pages it got; not PagesAuto
	PageBytes        uint64 // and of what size
	NUMANode         int    // the node that it is bound to; -1: none
	Locked           bool   // never swapped out
}

// Stats tells what it holds and what it got, now.
func (a *Arena) Stats() (ArenaStats, error) {
	pointer, err := a.begin()
	if err != nil {
		return ArenaStats{}, err
	}
	defer a.end()
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
}

// Reserve takes memory from the system ahead of need: nbytes from the arena's start; more than its
// capacity means all of it.
func (a *Arena) Reserve(nbytes uint64) error {
	pointer, err := a.begin()
	if err != nil {
		return err
	}
	defer a.end()
	var failure *C.tenon_error
	if status := C.tenon_arena_reserve(
		pointer, C.uint64_t(nbytes), &failure,
	); status != C.TENON_OK {
		return takeError(status, failure)
	}
	return nil
}
