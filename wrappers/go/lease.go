// Leases: which processes borrow memory of this process, and how a process does without the
// library's thread.

package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_lease_holders
// #cgo nocallback tenon_lease_holders
// #cgo noescape tenon_lease_fd
// #cgo nocallback tenon_lease_fd
import "C"

import "time"

// LeaseHolder is a borrower that holds leases of this process's blocks, over one connection.
type LeaseHolder struct {
	// The process id from the kernel. 0 if this process does not see the pid namespace.
	PID          int32
	UID          uint32        // the user id from the kernel
	Leases       uint64        // the leases that it holds now
	NBytes       uint64        // the bytes in their blocks; a block with two leases counts twice
	Granted      uint64        // the leases that were ever granted to it
	GrantedBytes uint64        // the bytes in the blocks of these
	Age          time.Duration // the time since the first of these
}

// LeaseHolders lists the holders of leases, usually with one entry for each connection.
func LeaseHolders() ([]LeaseHolder, error) {
	return takeList(
		C.tenon_lease_holder{struct_size: C.sizeof_tenon_lease_holder},
		func(room listRoom[C.tenon_lease_holder]) C.tenon_status {
			return C.tenon_lease_holders(room.out, room.n, room.total, room.failure)
		},
		func(each *C.tenon_lease_holder) LeaseHolder {
			return LeaseHolder{
				PID:          int32(each.pid),
				UID:          uint32(each.uid),
				Leases:       uint64(each.leases),
				NBytes:       uint64(each.nbytes),
				Granted:      uint64(each.granted),
				GrantedBytes: uint64(each.granted_bytes),
				Age:          time.Duration(each.age_ns),
			}
		},
	)
}

// LeaseUseNoThread makes the library start no thread in this process. The process must then poll
// LeaseFD and call LeasePoll. Call it before the first lend and the first use of a name.
func LeaseUseNoThread() error {
	var failure *C.tenon_error
	return check(C.tenon_lease_use_no_thread(&failure), &failure)
}

// LeaseFD gives the fd to poll in a process without the library's thread. It is readable when
// LeasePoll has something to do. The library owns it.
func LeaseFD() (int, error) {
	var out C.int32_t
	var failure *C.tenon_error
	if status := C.tenon_lease_fd(&out, &failure); status != C.TENON_OK {
		return -1, takeError(status, failure)
	}
	return int(out), nil
}

// LeasePoll does the work that is due in a process without the library's thread. It does not block
// and takes about a millisecond at most. If more work is left, the fd stays readable. There is one
// exception: releasing memory that a device has pinned may wait for the device.
func LeasePoll() error {
	var failure *C.tenon_error
	return check(C.tenon_lease_poll(&failure), &failure)
}
