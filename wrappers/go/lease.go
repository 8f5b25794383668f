package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_lease_holders
// #cgo nocallback tenon_lease_holders
// #cgo noescape tenon_lease_fd
// #cgo nocallback tenon_lease_fd
import "C"

import "time"

// LeaseHolder is who holds leases of this process's blocks, over one connection.
type LeaseHolder struct {
	// As the kernel tells it; 0: of a pid namespace that this process does not see.
	PID          int32
	UID          uint32        // as the kernel tells it
	Leases       uint64        // that stand now
	NBytes       uint64        // of their blocks; a block with two leases counts twice
	Granted      uint64        // leases ever granted
	GrantedBytes uint64        // of their blocks
	Age          time.Duration // since the first of them
}

// LeaseHolders tells who holds leases, one entry for each connection that does.
func LeaseHolders() ([]LeaseHolder, error) {
	var failure *C.tenon_error
	var total C.size_t
	if status := C.tenon_lease_holders(nil, 0, &total, &failure); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	for {
		out := make([]C.tenon_lease_holder, total+1) // some more may come meanwhile
		out[0].struct_size = C.sizeof_tenon_lease_holder
		if status := C.tenon_lease_holders(
			&out[0], C.size_t(len(out)), &total, &failure,
		); status != C.TENON_OK {
			return nil, takeError(status, failure)
		}
		if total > C.size_t(len(out)) {
			continue
		}
		holders := make([]LeaseHolder, total)
		for i := range holders {
			each := &out[i]
			holders[i] = LeaseHolder{
				PID:          int32(each.pid),
				UID:          uint32(each.uid),
				Leases:       uint64(each.leases),
				NBytes:       uint64(each.nbytes),
				Granted:      uint64(each.granted),
				GrantedBytes: uint64(each.granted_bytes),
				Age:          time.Duration(each.age_ns),
			}
		}
		return holders, nil
	}
}

// LeaseUseNoThread has the library start no thread: the process itself polls LeaseFD and calls
// LeasePoll. Before the first lend and the first use of a name.
func LeaseUseNoThread() error {
	var failure *C.tenon_error
	if status := C.tenon_lease_use_no_thread(&failure); status != C.TENON_OK {
		return takeError(status, failure)
	}
	return nil
}

// LeaseFD is the fd to poll, borrowed, readable when LeasePoll has something to do. Without a
// thread only.
func LeaseFD() (int, error) {
	var out C.int32_t
	var failure *C.tenon_error
	if status := C.tenon_lease_fd(&out, &failure); status != C.TENON_OK {
		return -1, takeError(status, failure)
	}
	return int(out), nil
}

// LeasePoll does what is due, and never blocks: about a millisecond at most, and the fd stays
// readable if there is more. But the end of memory that a device has pinned may wait for the
// device. Without a thread only.
func LeasePoll() error {
	var failure *C.tenon_error
	if status := C.tenon_lease_poll(&failure); status != C.TENON_OK {
		return takeError(status, failure)
	}
	return nil
}
