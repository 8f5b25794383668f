// Weak references to storages.

package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_weak_ref
// #cgo nocallback tenon_weak_ref
// #cgo nocallback tenon_weak_lock
import "C"

import "unsafe"

// WeakRef is a reference to a storage that does not keep its bytes alive. Any goroutine may use it.
type WeakRef struct{ handle }

// WeakRef makes a weak reference to the storage.
func (s *Storage) WeakRef() (*WeakRef, error) {
	pointer, err := s.acquire()
	if err != nil {
		return nil, err
	}
	defer s.release()
	var out *C.tenon_weak
	var failure *C.tenon_error
	if status := C.tenon_weak_ref(
		(*C.tenon_storage)(pointer), &out, &failure,
	); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	w := new(WeakRef)
	w.own(kindWeak, unsafe.Pointer(out))
	return w, nil
}

// Lock gives the storage with a new reference, which the caller closes. It returns ErrNotFound if
// the storage is gone.
func (w *WeakRef) Lock() (*Storage, error) {
	pointer, err := w.acquire()
	if err != nil {
		return nil, err
	}
	defer w.release()
	storage := C.tenon_weak_lock((*C.tenon_weak)(pointer))
	if storage == nil {
		return nil, ErrNotFound
	}
	return newStorage(storage), nil
}

// Expired says whether the storage is gone. It is true for a closed WeakRef. Once it is true, it
// stays true.
func (w *WeakRef) Expired() bool {
	pointer, err := w.acquire()
	if err != nil {
		return true
	}
	defer w.release()
	return C.tenon_weak_expired((*C.tenon_weak)(pointer)) != 0
}

// ID returns the storage's ID, also after the storage is gone; 0 for a closed WeakRef.
func (w *WeakRef) ID() uint64 {
	pointer, err := w.acquire()
	if err != nil {
		return 0
	}
	defer w.release()
	return uint64(C.tenon_weak_id((*C.tenon_weak)(pointer)))
}
