// DLPack: exchanging tensors with other frameworks of this process without a copy.

package tenon

// #include "tenon_go.h"
import "C"

import "unsafe"

// ToDLPack hands the tensor to another framework of this process, without a copy. The result points
// to a DLManagedTensorVersioned, with the flag READ_ONLY if the storage is read-only. It belongs to
// the caller until a consumer takes it. If no consumer takes it, the caller calls DeleteDLPack,
// once.
func (t *Tensor) ToDLPack() (unsafe.Pointer, error) {
	return ask(t, func(pointer *C.tenon_tensor) (unsafe.Pointer, error) {
		var out *C.struct_DLManagedTensorVersioned
		var failure *C.tenon_error
		status := C.tenon_tensor_to_dlpack(pointer, &out, &failure)
		return unsafe.Pointer(out), check(status, &failure)
	})
}

// ToDLPackLegacy is as ToDLPack, but gives the form without a version, a DLManagedTensor. It
// refuses a read-only tensor (ErrPermission), because the consumer could not know that it is
// read-only and would be killed at its first write. If no consumer takes the result, the caller
// calls DeleteDLPackLegacy, once.
func (t *Tensor) ToDLPackLegacy() (unsafe.Pointer, error) {
	return ask(t, func(pointer *C.tenon_tensor) (unsafe.Pointer, error) {
		var out *C.struct_DLManagedTensor
		var failure *C.tenon_error
		status := C.tenon_tensor_to_dlpack_legacy(pointer, &out, &failure)
		return unsafe.Pointer(out), check(status, &failure)
	})
}

// FromDLPack takes a tensor from another framework of this process, without a copy. Its storage is
// private and cannot be lent. managed points to a DLManagedTensorVersioned in C's memory. On
// success it belongs to Tenon, which calls its deleter once, when the last reference to the storage
// is released, on any thread. On failure it still belongs to the caller.
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

// FromDLPackLegacy is as FromDLPack, but takes the form without a version. That form cannot say
// that the bytes are read-only, so they count as writable.
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

// DeleteDLPack calls the deleter of a result of ToDLPack that no consumer took. Nil is allowed.
func DeleteDLPack(managed unsafe.Pointer) { C.tenon_go_dlpack_delete(managed) }

// DeleteDLPackLegacy calls the deleter of a result of ToDLPackLegacy that no consumer took. Nil is
// allowed.
func DeleteDLPackLegacy(managed unsafe.Pointer) { C.tenon_go_dlpack_delete_legacy(managed) }
