package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_stats_get
// #cgo nocallback tenon_stats_get
import "C"

// Stats is what the library holds and has done in this process: figures of one moment, not of one
// instant.
type Stats struct {
	BytesCopied   uint64 // payload bytes copied since the process began
	Storages      uint64 // storages alive
	Segments      uint64 // segments mapped, own and opened
	SegmentFDs    uint64 // fds that those segments hold
	BytesReserved uint64 // bytes that own segments have reserved from the system
	BytesLive     uint64 // bytes of them in living storages
	BytesRetired  uint64 // bytes of them that were lent and released
	BytesOpened   uint64 // bytes of other processes' storages that are open here
}

// GetStats gives the figures now.
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

// Trim gives memory back to the system that is kept warm for later storages, and returns how many
// bytes.
func Trim() uint64 { return uint64(C.tenon_storage_trim()) }
