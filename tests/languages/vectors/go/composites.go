package main

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"

	"libtenon/tenon"
)

// part is one part of a composite in a case: a tensor, and all bytes of its storage.
type part struct {
	shape
	Part string `json:"part"`
	Data string `json:"data"`
}

// tie has the keys of a composite in a case, except its parts. An absent key is zero.
type tie struct {
	Layout    int32     `json:"layout"`
	Sizes     []int64   `json:"sizes"`
	Strides   []int64   `json:"strides"`
	Offset    uint64    `json:"offset"`
	DType     *[3]int64 `json:"dtype"`
	Flags     uint32    `json:"flags"`
	Scale     string    `json:"scale"`
	ZeroPoint int64     `json:"zero_point"`
	Axis      int32     `json:"axis"`
	RaggedDim int32     `json:"ragged_dim"`
	Quantizer int32     `json:"quantizer"`
	Coalesced int32     `json:"coalesced"`
}

// spec returns the composite without its parts.
func (t tie) spec() tenon.CompositeSpec {
	spec := tenon.CompositeSpec{
		Layout: tenon.Layout(t.Layout), Sizes: t.Sizes, Strides: t.Strides, Offset: t.Offset,
		Flags: tenon.TensorFlags(
			t.Flags,
		), ZeroPoint: t.ZeroPoint, Axis: t.Axis, RaggedDim: t.RaggedDim,
		Quantizer: tenon.Quantizer(t.Quantizer), Coalesced: tenon.Coalesced(t.Coalesced),
	}
	if t.DType != nil {
		spec.DType = dtypeOf(*t.DType)
	}
	if t.Scale != "" {
		spec.Scale = math.Float64frombits(binary.LittleEndian.Uint64(unhex(t.Scale)))
	}
	return spec
}

// fields returns the parts of a spec by their names in C.
func fields(spec *tenon.CompositeSpec) map[string]**tenon.Tensor {
	return map[string]**tenon.Tensor{
		"values": &spec.Values, "indices": &spec.Indices, "plain_indices": &spec.PlainIndices,
		"offsets": &spec.Offsets, "lengths": &spec.Lengths, "component_sizes": &spec.ComponentSizes,
		"component_strides": &spec.ComponentStrides, "scales": &spec.Scales,
		"zero_points": &spec.ZeroPoints,
	}
}

func (p part) tensor() *tenon.Tensor {
	storage := must(tenon.NewStorageFrom(unhex(p.Data), nil))
	defer storage.Close()
	return must(tenon.NewTensor(storage, p.shape.spec()))
}

func sameData(tensor *tenon.Tensor, wanted part) {
	storage := must(tensor.Storage())
	defer storage.Close()
	data := make([]byte, storage.NBytes())
	must(storage.ReadAt(data, 0))
	same("data of "+wanted.Part, hex.EncodeToString(data), wanted.Data)
}

// sameComposite compares a composite with the case. A checked composite may have copies of parts,
// so only their shapes are compared.
func sameComposite(
	composite *tenon.Composite,
	wanted tie,
	parts map[string]part,
	expect anything,
	checked bool,
) {
	got := must(composite.Spec())
	defer got.Close()
	given := wanted.spec()
	same("layout", got.Layout, given.Layout)
	same("offset", got.Offset, given.Offset)
	same("flags", got.Flags, given.Flags)
	same("scale", math.Float64bits(got.Scale), math.Float64bits(given.Scale))
	same("zero_point", got.ZeroPoint, given.ZeroPoint)
	same("axis", got.Axis, given.Axis)
	same("ragged_dim", got.RaggedDim, given.RaggedDim)
	same("quantizer", got.Quantizer, given.Quantizer)
	same("coalesced", got.Coalesced, given.Coalesced)
	same("dtype", numbersOf(got.DType), get(expect, "dtype", []int64{}))
	same("sizes", fmt.Sprint(got.Sizes), fmt.Sprint(get(expect, "sizes", []int64{})))
	same("strides", fmt.Sprint(got.Strides), fmt.Sprint(get(expect, "strides", []int64{})))
	for name, field := range fields(&got) {
		wanted, given := parts[name]
		same("there are "+name, *field != nil, given)
		if !given {
			continue
		}
		spec := must((*field).Spec())
		same("dtype of "+name, spec.DType, wanted.spec().DType)
		same("sizes of "+name, spec.Sizes, wanted.Sizes)
		if checked {
			continue
		}
		same("offset of "+name, spec.Offset, wanted.spec().Offset)
		if wanted.Strides != nil {
			same("strides of "+name, spec.Strides, wanted.Strides)
		}
		sameData(*field, wanted)
	}
}

// sameMessage compares a message in which the composite comes after one tensor. The parts of the
// composite are the tensors after that one.
func sameMessage(message *tenon.Message, name *string, parts map[string]part, order []string) {
	same("composites", message.CompositeCount(), 1)
	same("tensors", message.Len(), len(order)+1)
	first, count := message.CompositeParts(0)
	same("first part", first, 1)
	same("parts", count, len(order))
	for i, each := range order {
		wanted, ok := parts[each]
		if !ok {
			fail("the case does not give %s", each)
		}
		tensor := must(message.Tensor(first + i))
		defer tensor.Close()
		sameData(tensor, wanted)
	}
	got, named := message.CompositeName(0)
	same("has a name", named, name != nil)
	if name != nil {
		same("name", got, string(unhex(*name)))
		found := must(message.FindComposite(got))
		defer found.Close()
		same("number of parts of what the name finds", countParts(found), len(parts))
	}
}

func countParts(composite *tenon.Composite) int {
	spec := must(composite.Spec())
	defer spec.Close()
	count := 0
	for _, field := range fields(&spec) {
		if *field != nil {
			count++
		}
	}
	return count
}

// passOn makes a message of a tensor and the composite, and opens its bytes-only descriptor.
func passOn(composite *tenon.Composite, name *string, expect anything) *tenon.Message {
	message := must(tenon.NewMessage())
	defer message.Close()
	tensor := must(tenon.Empty(tenon.Uint8, []int64{1}, nil))
	defer tensor.Close()
	give(message.Add("t", tensor))
	if name == nil {
		give(message.AddComposites(nil, []*tenon.Composite{composite}, nil))
	} else {
		give(message.AddComposite(string(unhex(*name)), composite))
	}
	descriptor := must(tenon.NewDescriptor(message, &tenon.DescriptorOptions{BytesOnly: true}))
	defer descriptor.Close()
	data := descriptor.Bytes()
	if len(data) < 288 {
		fail("%d bytes are no descriptor with composites", len(data))
	}
	begin := binary.LittleEndian.Uint64(data[240:])
	if begin > uint64(len(data)) {
		fail("the composites begin past the end")
	}
	sameBytes(data[begin:], expect)
	return must(tenon.OpenDescriptor(data, nil, nil))
}

func runComposite(c, expect anything) {
	name, wanted := get[*string](c, "name", nil), get(c, "spec", tie{})
	spec, parts := wanted.spec(), map[string]part{}
	defer func() { spec.Close() }()
	for _, each := range get(c, "parts", []part{}) {
		parts[each.Part] = each
		*fields(&spec)[each.Part] = each.tensor()
	}
	composite, err := tenon.NewComposite(spec)
	if !outcome(expect, err) {
		return
	}
	defer composite.Close()
	message := passOn(composite, name, expect)
	defer message.Close()
	sameMessage(message, name, parts, get(expect, "parts", []string{}))
	received := must(message.Composite(0))
	defer received.Close()
	sameComposite(received, wanted, parts, expect, false)
	checked, err := received.Check()
	if outcome(newAnything(get(expect, "check", json.RawMessage{})), err) {
		defer checked.Close()
		sameComposite(checked, wanted, parts, expect, true)
	}
}
