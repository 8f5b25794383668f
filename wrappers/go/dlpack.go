package tenon

// #include "tenon_go.h"
import "C"

import "unsafe"

// ToDLPack hands the tensor to another framework of this process, without a copy: the result points
// to a DLManagedTensorVersioned, with the flag READ_ONLY if the storage is read-only. It is the
// caller's until a consumer takes it; a caller that keeps it calls DeleteDLPack, once.
func (t *Tensor) ToDLPack() (unsafe.Pointer, error) {
	pointer, err := t.begin()
	if err != nil {
		return nil, err
	}
	defer t.end()
	var out *C.struct_DLManagedTensorVersioned
	var failure *C.tenon_error
	if status := C.tenon_tensor_to_dlpack(pointer, &out, &failure); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	return unsafe.Pointer(out), nil
}

// ToDLPackLegacy is ToDLPack in the form without a version, a DLManagedTensor. Refused for a
// read-only tensor (ErrPermission): the consumer could not know, and would be killed at its first
// write. A caller that keeps it calls DeleteDLPackLegacy, once.
func (t *Tensor) ToDLPackLegacy() (unsafe.Pointer, error) {
	pointer, err := t.begin()
	if err != nil {
		return nil, err
	}
	defer t.end()
	var out *C.struct_DLManagedTensor
	var failure *C.tenon_error
	if status := C.tenon_tensor_to_dlpack_legacy(pointer, &out, &failure); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	return unsafe.Pointer(out), nil
}

// FromDLPack takes a tensor from another framework of this process, without a copy. Its storage is
// private (it cannot be lent). managed points to a DLManagedTensorVersioned in C's memory. On
// success it is Tenon's: its deleter is called once, when the last reference to the storage goes,
// on whatever thread. On failure it stays the caller's.
func FromDLPack(managed unsafe.Pointer) (*Tensor, error) {
	collect()
	var out *C.tenon_tensor
	var failure *C.tenon_error
	if status := C.tenon_tensor_from_dlpack(
		(*C.struct_DLManagedTensorVersioned)(managed), &out, &failure,
	); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	return newTensor(out), nil
}

// FromDLPackLegacy is FromDLPack for the form without a version, which cannot say read-only: the
// bytes count as writable.
func FromDLPackLegacy(managed unsafe.Pointer) (*Tensor, error) {
	collect()
	var out *C.tenon_tensor
	var failure *C.tenon_error
	if status := C.tenon_tensor_from_dlpack_legacy(
		(*C.struct_DLManagedTensor)(managed), &out, &failure,
	); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	return newTensor(out), nil
}

// DeleteDLPack calls the deleter of what ToDLPack gave and no consumer took. Nil is allowed.
func DeleteDLPack(managed unsafe.Pointer) { C.tenon_go_dlpack_delete(managed) }

// DeleteDLPackLegacy calls the deleter of what ToDLPackLegacy gave and no consumer took. Nil is
// allowed.
func DeleteDLPackLegacy(managed unsafe.Pointer) { C.tenon_go_dlpack_delete_legacy(managed) }
