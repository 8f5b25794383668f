package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_storage_pin
// #cgo nocallback tenon_storage_pin
import "C"

import "unsafe"

// Pin lets a CUDA device reach the bytes of a shared storage of the host. It returns the address by
// which the device does, 0 if there are none; again, the same one. The whole segment is registered
// with the driver, once in this process, until it goes. Work of the device's may use it until the
// storage is closed. ErrResourceExhausted if the segment has not all of its memory, as that of an
// arena that is not reserved.
func (s *Storage) Pin(device int32) (uintptr, error) {
	pointer, err := s.begin()
	if err != nil {
		return 0, err
	}
	defer s.end()
	var out unsafe.Pointer
	var failure *C.tenon_error
	if status := C.tenon_storage_pin(
		pointer, C.int32_t(device), &out, &failure,
	); status != C.TENON_OK {
		return 0, takeError(status, failure)
	}
	return uintptr(out), nil
}

// IsPinned says whether this process has pinned the segment in which the bytes lie.
func (s *Storage) IsPinned() bool {
	pointer, err := s.begin()
	if err != nil {
		return false
	}
	defer s.end()
	return C.tenon_storage_is_pinned(pointer) != 0
}
