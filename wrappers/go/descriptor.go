// Descriptors: messages in a portable form, which a program can carry by any means.

package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_descriptor_new
// #cgo noescape tenon_descriptor_open
import "C"

import (
	"fmt"
	"unsafe"
)

// DescriptorOptions says how to make a descriptor. Nil and the zero value mean a descriptor with
// fds.
type DescriptorOptions struct {
	// The descriptor has no fds. The opener fetches them from this process through /proc. So this
	// process must live and hold the descriptor until then, and the opener must be of the same user
	// and pid namespace.
	BytesOnly bool
}

// Descriptor is the portable form of a message: versioned bytes, and the fds to which the bytes
// refer. It keeps the tensors and the fds alive until it is closed. Any goroutine may use a
// Descriptor.
type Descriptor struct{ handle }

func (d *Descriptor) begin() (*C.tenon_descriptor, error) {
	if d == nil {
		return nil, nil
	}
	pointer, err := d.acquire()
	return (*C.tenon_descriptor)(pointer), err
}

func (d *Descriptor) end() {
	if d != nil {
		d.release()
	}
}

// NewDescriptor encodes a message.
func NewDescriptor(message *Message, options *DescriptorOptions) (*Descriptor, error) {
	pointer, err := message.begin()
	if err != nil {
		return nil, err
	}
	defer message.end()
	given := C.tenon_descriptor_options{struct_size: C.sizeof_tenon_descriptor_options}
	if options != nil && options.BytesOnly {
		given.flags = C.TENON_DESCRIPTOR_BYTES_ONLY
	}
	var out *C.tenon_descriptor
	var failure *C.tenon_error
	if status := C.tenon_descriptor_new(pointer, &given, &out, &failure); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	d := new(Descriptor)
	d.own(kindDescriptor, unsafe.Pointer(out))
	return d, nil
}

// Bytes returns a copy of the bytes to carry; nil for a closed descriptor.
func (d *Descriptor) Bytes() []byte {
	return get(d, func(pointer *C.tenon_descriptor) []byte {
		var nbytes C.size_t
		data := C.tenon_descriptor_bytes(pointer, &nbytes)
		if data == nil {
			return nil
		}
		return append([]byte(nil), unsafe.Slice((*byte)(data), uint64(nbytes))...)
	})
}

// FDs returns the fds to carry, in this order. They belong to the descriptor: send them before it
// is closed, and do not close them.
func (d *Descriptor) FDs() []int {
	return get(d, func(pointer *C.tenon_descriptor) []int {
		var n C.size_t
		first := C.tenon_descriptor_fds(pointer, &n)
		fds := make([]int, 0, int(n))
		for _, fd := range unsafe.Slice(first, uint64(n)) {
			fds = append(fds, int(fd))
		}
		return fds
	})
}

// OpenDescriptor opens a descriptor from another process. It does not trust the bytes. fds are as
// many fds as the descriptor was made with, and they still belong to the caller. An error's detail
// "field" names the wrong part.
func OpenDescriptor(data []byte, fds []int, options *OpenOptions) (*Message, error) {
	collect()
	numbers := make([]C.int32_t, len(fds))
	for i, fd := range fds {
		if int(int32(fd)) != fd {
			return nil, invalid(fmt.Sprintf("%d is no fd", fd))
		}
		numbers[i] = C.int32_t(fd)
	}
	given := options.c()
	var out *C.tenon_message
	var failure *C.tenon_error
	status := C.tenon_descriptor_open(
		unsafe.Pointer(unsafe.SliceData(data)),
		C.size_t(len(data)),
		unsafe.SliceData(numbers),
		C.size_t(len(numbers)),
		&given,
		&out,
		&failure,
	)
	if status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	return newMessage(out), nil
}
