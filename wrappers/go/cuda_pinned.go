// Pinned memory: host memory that a CUDA device reaches.

package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_storage_pin
// #cgo nocallback tenon_storage_pin
import "C"

import "unsafe"

// Pin lets a CUDA device reach the bytes of a shared storage in host memory. It returns the address
// that the device uses, which is the same in each call, and 0 for an empty storage. The whole
// segment is registered with the driver, once in this process, until the segment is gone. Work on
// the device may use the address until the storage is closed. ErrResourceExhausted means that the
// segment does not have all of its memory yet, as in an arena that is not reserved.
func (s *Storage) Pin(device int32) (uintptr, error) {
	return ask(s, func(pointer *C.tenon_storage) (uintptr, error) {
		var out unsafe.Pointer
		var failure *C.tenon_error
		if status := C.tenon_storage_pin(
			pointer, C.int32_t(device), &out, &failure,
		); status != C.TENON_OK {
			return 0, takeError(status, failure)
		}
		return uintptr(out), nil
	})
}

// IsPinned says whether this process has pinned the segment in which the bytes lie.
func (s *Storage) IsPinned() bool {
	return get(s, func(pointer *C.tenon_storage) bool {
		return C.tenon_storage_is_pinned(pointer) != 0
	})
}
