// Figures about the library in this process.

package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_stats_get
// #cgo nocallback tenon_stats_get
import "C"

// Stats tells what the library holds and has done in this process. The figures are read one after
// another, so other threads can change some of them in between.
type Stats struct {
	BytesCopied   uint64 // payload bytes that were copied since the process began
	Storages      uint64 // storages that are alive
	Segments      uint64 // mapped segments, this process's own and opened ones
	SegmentFDs    uint64 // fds that those segments hold
	BytesReserved uint64 // bytes that this process's own segments have reserved from the system
	BytesLive     uint64 // the part of BytesReserved in living storages
	BytesRetired  uint64 // the part of BytesReserved that was lent without a lease and released
	BytesOpened   uint64 // bytes in other processes' storages that are open here
}

// GetStats returns the figures.
func GetStats() (Stats, error) {
	out := C.tenon_stats{struct_size: C.sizeof_tenon_stats}
	var failure *C.tenon_error
	if status := C.tenon_stats_get(&out, &failure); status != C.TENON_OK {
		return Stats{}, takeError(status, failure)
	}
	return Stats{
		BytesCopied:   uint64(out.bytes_copied),
		Storages:      uint64(out.storages),
		Segments:      uint64(out.segments),
		SegmentFDs:    uint64(out.segment_fds),
		BytesReserved: uint64(out.bytes_reserved),
		BytesLive:     uint64(out.bytes_live),
		BytesRetired:  uint64(out.bytes_retired),
		BytesOpened:   uint64(out.bytes_opened),
	}, nil
}

// Trim returns memory that the library keeps for later storages to the system. The result is the
// number of bytes.
func Trim() uint64 { return uint64(C.tenon_storage_trim()) }
