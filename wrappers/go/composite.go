// Composites: sparse, nested, quantised and meta tensors, which consist of several tensors.

package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_composite_get_spec
// #cgo nocallback tenon_composite_get_spec
// #cgo noescape tenon_message_add_composites
// #cgo noescape tenon_message_composite_parts
// #cgo nocallback tenon_message_composite_parts
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

// CompositeSpec describes a composite: its parts, and how they belong together. A field that the
// layout does not use must be zero, except for DType and Sizes, which are then ignored. Sizes,
// strides and offset count elements.
type CompositeSpec struct {
	Layout Layout // not LayoutStrided
	// For sparse layouts and meta the caller gives the sizes. For other layouts they are ignored on
	// input. On output a size is -1 if it can differ from component to component.
	Sizes   []int64
	Strides []int64 // for meta; nil on input means contiguous
	Offset  uint64  // for meta: the distance from the start of the storage that is not there
	DType   DType   // for meta given by the caller; else that of Values, ignored on input
	Flags   TensorFlags

	// The parts follow. [Composite.Spec] gives a new reference to each part, which the caller
	// closes. A part that the composite does not have is nil.

	// Values are the elements, in all layouts except meta. Their dimensions are, for COO, the
	// non-zeros, then the dense dimensions. For CSR, CSC, BSR and BSC they are the batch, the
	// non-zeros, for BSR and BSC the two block dimensions, and then the dense dimensions. For a
	// jagged tensor they are those of the whole tensor without the first, and all components follow
	// each other in the ragged one. A nested tensor has one dimension, which is contiguous. Values
	// of a quantised tensor are int8, uint8, int32, uint4 or uint2.
	Values *Tensor
	// Indices are int64 or int32, as are the next three parts. For COO they are the indices: sparse
	// dimensions by non-zeros. For CSR and BSR they are the row pointers, and for CSC and BSC the
	// column pointers.
	Indices *Tensor
	// PlainIndices are the column indices of CSR and BSR, and the row indices of CSC and BSC.
	PlainIndices *Tensor
	// Offsets of a jagged tensor say where each component begins along the ragged dimension of
	// Values, and then where the last one ends. Offsets of a nested tensor are int64 and say where
	// each component begins in Values.
	Offsets *Tensor
	// Lengths of a jagged tensor are the lengths of the components. Nil means that each component
	// ends where the next one begins.
	Lengths          *Tensor
	ComponentSizes   *Tensor // nested: components by dimensions, int64
	ComponentStrides *Tensor // nested: components by dimensions, int64
	// Scales of a tensor that is quantised per channel: one float64 for each channel, or one
	// float32 with float parameters.
	Scales *Tensor
	// ZeroPoints of a tensor that is quantised per channel: one int64 for each channel, or one
	// float32 with float parameters.
	ZeroPoints *Tensor

	Scale     float64 // quantised per tensor: a number is (element - ZeroPoint) * Scale
	ZeroPoint int64   // quantised per tensor
	Axis      int32   // quantised per channel: the dimension of the channels
	// RaggedDim of a jagged tensor is the dimension in which the components differ, from 1 on.
	// Dimension 0 counts the components.
	RaggedDim int32
	Quantizer Quantizer
	Coalesced Coalesced // COO
}

func (s *CompositeSpec) parts() []*Tensor {
	return []*Tensor{
		s.Values, s.Indices, s.PlainIndices, s.Offsets, s.Lengths, s.ComponentSizes,
		s.ComponentStrides, s.Scales, s.ZeroPoints,
	}
}

// Close closes the parts. It never fails.
func (s *CompositeSpec) Close() error {
	for _, part := range s.parts() {
		if part != nil {
			part.Close()
		}
	}
	return nil
}

// Composite is a tensor of several parts: sparse, jagged, nested or quantised. A tensor on meta,
// which has no memory, is a composite without parts. A composite never changes, and any goroutine
// may use it. After Close, the methods that return no error return zero values.
type Composite struct{ handle }

func newComposite(pointer *C.tenon_composite) *Composite {
	c := new(Composite)
	c.own(kindComposite, unsafe.Pointer(pointer))
	return c
}

func (c *Composite) begin() (*C.tenon_composite, error) {
	if c == nil {
		return nil, nil
	}
	pointer, err := c.acquire()
	return (*C.tenon_composite)(pointer), err
}

func (c *Composite) end() {
	if c != nil {
		c.release()
	}
}

// NewComposite makes a composite, which takes a reference of its own to each part. The shapes, the
// element types and the devices of the parts must fit each other. The error's detail "part" names
// the wrong part, if there is one. NewComposite does not read the numbers in the indices, offsets
// and component sizes: see Check.
func NewComposite(spec CompositeSpec) (*Composite, error) {
	if spec.Strides != nil && len(spec.Strides) != len(spec.Sizes) {
		text := fmt.Sprintf("%d strides for %d sizes", len(spec.Strides), len(spec.Sizes))
		return nil, invalid(text)
	}
	if len(spec.Sizes) > MaxNDim {
		return nil, invalid(fmt.Sprintf("%d dimensions, %d are the most", len(spec.Sizes), MaxNDim))
	}
	tensors := spec.parts()
	parts, err := beginAll(tensors)
	if err != nil {
		return nil, err
	}
	defer endAll(tensors)
	var pinner runtime.Pinner
	defer pinner.Unpin()
	given := C.tenon_composite_spec{
		struct_size:       C.sizeof_tenon_composite_spec,
		layout:            C.int32_t(spec.Layout),
		ndim:              C.int32_t(len(spec.Sizes)),
		sizes:             (*C.int64_t)(pinSlice(&pinner, spec.Sizes)),
		strides:           (*C.int64_t)(pinSlice(&pinner, spec.Strides)),
		offset:            C.uint64_t(spec.Offset),
		dtype:             spec.DType.c(),
		flags:             C.uint32_t(spec.Flags),
		values:            parts[0],
		indices:           parts[1],
		plain_indices:     parts[2],
		offsets:           parts[3],
		lengths:           parts[4],
		component_sizes:   parts[5],
		component_strides: parts[6],
		scales:            parts[7],
		zero_points:       parts[8],
		scale:             C.double(spec.Scale),
		zero_point:        C.int64_t(spec.ZeroPoint),
		axis:              C.int32_t(spec.Axis),
		ragged_dim:        C.int32_t(spec.RaggedDim),
		quantizer:         C.int32_t(spec.Quantizer),
		coalesced:         C.int32_t(spec.Coalesced),
	}
	var out *C.tenon_composite
	var failure *C.tenon_error
	if status := C.tenon_composite_new(&given, &out, &failure); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	return newComposite(out), nil
}

// look calls use with C's spec. use must copy or retain what it keeps.
func (c *Composite) look(use func(spec *C.tenon_composite_spec)) error {
	pointer, err := c.begin()
	if err != nil {
		return err
	}
	defer c.end()
	out := C.tenon_composite_spec{struct_size: C.sizeof_tenon_composite_spec}
	var failure *C.tenon_error
	if status := C.tenon_composite_get_spec(pointer, &out, &failure); status != C.TENON_OK {
		return takeError(status, failure)
	}
	use(&out)
	return nil
}

// partOf gives a part with a new reference, and nil for NULL.
func partOf(tensor *C.tenon_tensor) *Tensor {
	if tensor == nil {
		return nil
	}
	return newTensor(C.tenon_tensor_retain(tensor))
}

// Spec describes the composite. The caller owns its slices and closes its parts
// ([CompositeSpec.Close]). They stay valid when the composite is closed.
func (c *Composite) Spec() (CompositeSpec, error) {
	var spec CompositeSpec
	err := c.look(func(out *C.tenon_composite_spec) {
		spec = CompositeSpec{
			Layout:           Layout(out.layout),
			Sizes:            numbers(out.sizes, out.ndim),
			Offset:           uint64(out.offset),
			DType:            dtypeOf(out.dtype),
			Flags:            TensorFlags(out.flags),
			Values:           partOf(out.values),
			Indices:          partOf(out.indices),
			PlainIndices:     partOf(out.plain_indices),
			Offsets:          partOf(out.offsets),
			Lengths:          partOf(out.lengths),
			ComponentSizes:   partOf(out.component_sizes),
			ComponentStrides: partOf(out.component_strides),
			Scales:           partOf(out.scales),
			ZeroPoints:       partOf(out.zero_points),
			Scale:            float64(out.scale),
			ZeroPoint:        int64(out.zero_point),
			Axis:             int32(out.axis),
			RaggedDim:        int32(out.ragged_dim),
			Quantizer:        Quantizer(out.quantizer),
			Coalesced:        Coalesced(out.coalesced),
		}
		if spec.Layout == LayoutMeta {
			spec.Strides = numbers(out.strides, out.ndim)
		}
	})
	return spec, err
}

// Layout says how the elements are laid out.
func (c *Composite) Layout() Layout {
	var layout Layout
	_ = c.look(func(out *C.tenon_composite_spec) { layout = Layout(out.layout) })
	return layout
}

// Sizes returns the sizes of the dimensions, in elements. A size is -1 if it can differ from
// component to component.
func (c *Composite) Sizes() []int64 {
	var sizes []int64
	_ = c.look(func(out *C.tenon_composite_spec) { sizes = numbers(out.sizes, out.ndim) })
	return sizes
}

// DType returns the element type.
func (c *Composite) DType() DType {
	var dtype DType
	_ = c.look(func(out *C.tenon_composite_spec) { dtype = dtypeOf(out.dtype) })
	return dtype
}

// Retain gives another object for the same composite, which the caller closes too.
func (c *Composite) Retain() (*Composite, error) {
	return ask(c, func(pointer *C.tenon_composite) (*Composite, error) {
		if pointer == nil {
			return nil, invalid("the composite is nil")
		}
		return newComposite(C.tenon_composite_retain(pointer)), nil
	})
}

// Check checks the numbers in the indices, offsets and component sizes. After that, a reader that
// follows the numbers of the result stays inside the parts. A wrong number is ErrCorrupt, with the
// details "part" and "index". Parts on a device are ErrUnsupported.
//
// If another process can still write to a part, Check copies that part into private memory first,
// and checks the copy. It does this for every part except the values. The result is the same
// composite, or one with the copied parts. The caller closes it.
func (c *Composite) Check() (*Composite, error) {
	return ask(c, func(pointer *C.tenon_composite) (*Composite, error) {
		var out *C.tenon_composite
		var failure *C.tenon_error
		if status := C.tenon_composite_check(pointer, &out, &failure); status != C.TENON_OK {
			return nil, takeError(status, failure)
		}
		return newComposite(out), nil
	})
}

// AddComposite adds one composite under a name, as AddComposites does.
func (m *Message) AddComposite(name string, composite *Composite) error {
	return m.AddComposites([]string{name}, []*Composite{composite}, nil)
}

// AddComposites adds composites, all of them or none, in one call of C. names is nil (no names) or
// has one name for each composite. The parts of each composite become tensors of the message. They
// have no names, and follow the tensors that the message has already. The options apply to every
// part. A Tenon that does not know composites yet refuses to receive such a message with
// ErrIncompatible.
func (m *Message) AddComposites(names []string, composites []*Composite,
	options *ShareOptions) error {
	message, err := m.begin()
	if err != nil {
		return err
	}
	defer m.end()
	if names != nil && len(names) != len(composites) {
		return invalid(fmt.Sprintf("%d names for %d composites", len(names), len(composites)))
	}
	if len(composites) == 0 {
		return nil
	}
	pointers := make([]*C.tenon_composite, len(composites))
	for i, composite := range composites {
		pointer, err := composite.begin()
		if err != nil {
			return err
		}
		defer composite.end()
		pointers[i] = pointer
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	var first **C.char
	if names != nil {
		starts, err := pinnedStrings(&pinner, names)
		if err != nil {
			return err
		}
		first = unsafe.SliceData(starts)
	}
	given := options.c()
	var failure *C.tenon_error
	status := C.tenon_message_add_composites(message, unsafe.SliceData(pointers), first,
		C.size_t(len(composites)), &given, &failure)
	if status != C.TENON_OK {
		return takeError(status, failure)
	}
	return nil
}

// CompositeCount returns the number of composites.
func (m *Message) CompositeCount() int {
	return get(m, func(message *C.tenon_message) int {
		return int(C.tenon_message_composite_count(message))
	})
}

// Composite gives composite i with a new reference, which the caller closes. It stays valid when
// the message is closed. Composites are in the order of their parts.
func (m *Message) Composite(i int) (*Composite, error) {
	return ask(m, func(message *C.tenon_message) (*Composite, error) {
		if i >= 0 {
			if composite := C.tenon_message_composite(message, C.size_t(i)); composite != nil {
				return newComposite(C.tenon_composite_retain(composite)), nil
			}
		}
		count := int(C.tenon_message_composite_count(message))
		return nil, invalid(fmt.Sprintf("composite %d: the message has %d", i, count))
	})
}

// CompositeName returns the name of composite i. ok is false if it has no name.
func (m *Message) CompositeName(i int) (name string, ok bool) {
	message, err := m.begin()
	if err != nil || i < 0 {
		return "", false
	}
	defer m.end()
	text := C.tenon_message_composite_name(message, C.size_t(i))
	return C.GoString(text), text != nil
}

// FindComposite gives the first composite of that name with a new reference, which the caller
// closes. It returns ErrNotFound if there is none.
func (m *Message) FindComposite(name string) (*Composite, error) {
	return ask(m, func(message *C.tenon_message) (*Composite, error) {
		if checkText("the name", name) == nil {
			text := C.CString(name)
			defer C.free(unsafe.Pointer(text))
			if composite := C.tenon_message_find_composite(message, text); composite != nil {
				return newComposite(C.tenon_composite_retain(composite)), nil
			}
		}
		text := fmt.Sprintf("the message has no composite %q", name)
		return nil, &Error{Code: ErrNotFound, Message: text}
	})
}

// CompositeParts says where the parts of composite i are among the tensors of the message. first is
// the index of the first part, and n is the number of parts. On meta, n is 0, and first is the
// index of the tensor before which the composite was added. If there is no composite i, first is
// Len and n is 0.
//
// A reader that wants everything in the order in which it was sent walks through the tensors. Where
// the parts of a composite begin, it takes the composite instead of them.
func (m *Message) CompositeParts(i int) (first, n int) {
	message, err := m.begin()
	if err != nil {
		return 0, 0
	}
	defer m.end()
	var count C.size_t
	at := C.tenon_message_composite_parts(message, C.size_t(i), &count) // negative: past all
	return int(at), int(count)
}
