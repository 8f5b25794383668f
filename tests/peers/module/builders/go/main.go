// The builder of modules in Go. usage: build_modules STEPS FOLDER. It executes the steps of
// tests/peers/module/builders/README.md.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"libtenon/tenon"
)

// builder holds the objects that the steps made.
type builder struct {
	folder   string
	storages []*tenon.Storage
	values   []*tenon.Value
	modules  []*tenon.Module
}

var layouts = map[string]tenon.Layout{
	"strided": tenon.LayoutStrided, "sparse_coo": tenon.LayoutSparseCOO,
	"sparse_csr": tenon.LayoutSparseCSR, "sparse_csc": tenon.LayoutSparseCSC,
	"sparse_bsr": tenon.LayoutSparseBSR, "sparse_bsc": tenon.LayoutSparseBSC,
}

var quantizers = map[string]tenon.Quantizer{
	"none":                             tenon.QuantizerNone,
	"per_tensor_affine":                tenon.QuantizerPerTensorAffine,
	"per_channel_affine":               tenon.QuantizerPerChannelAffine,
	"per_channel_affine_float_qparams": tenon.QuantizerPerChannelAffineFloatParams,
}

func (b *builder) storage(w words, at int) *tenon.Storage { return one(b.storages, w, at) }
func (b *builder) value(w words, at int) *tenon.Value     { return one(b.values, w, at) }
func (b *builder) module(w words, at int) *tenon.Module   { return one(b.modules, w, at) }

func (b *builder) valueOrNil(w words, at int) *tenon.Value {
	if w.text(at) == "-" {
		return nil
	}
	return b.value(w, at)
}

// valuesFrom returns the values in every step-th word from first on.
func (b *builder) valuesFrom(w words, first, step int) []*tenon.Value {
	var found []*tenon.Value
	for at := first; at < len(w); at += step {
		found = append(found, b.value(w, at))
	}
	return found
}

func (b *builder) forgetAll() {
	for _, module := range b.modules {
		give(module.Close())
	}
	tenon.CloseValues(b.values)
	for _, storage := range b.storages {
		give(storage.Close())
	}
	b.storages, b.values, b.modules = nil, nil, nil
}

func (b *builder) tensor(w words) *tenon.Value {
	spec := tenon.Spec{
		DType:   must(w.scalarType(2).DType()),
		Sizes:   w.numbers(3),
		Strides: w.numbers(4),
		Offset:  uint64(w.number(5)),
	}
	if w.number(6) != 0 {
		spec.Flags = tenon.RequiresGrad
	}
	tensor := must(tenon.NewTensor(b.storage(w, 1), spec))
	defer tensor.Close()
	return must(tenon.NewTensorValue(tensor))
}

func (b *builder) tensorFromSpec(w words) *tenon.Value {
	var spec tenon.ValueTensorSpec
	for field := 1; field < len(w); field += 2 {
		at := field + 1
		switch w.text(field) {
		case "scalar_type":
			spec.ScalarType = w.scalarType(at)
		case "layout":
			spec.Layout = named(layouts, w.text(at))
		case "quantizer":
			spec.Quantizer = named(quantizers, w.text(at))
		case "device":
			spec.Device = w.text(at)
		case "sizes":
			spec.Sizes = w.numbers(at)
		case "strides":
			spec.Strides = w.numbers(at)
		case "offset":
			spec.Offset = w.number(at)
		case "storage":
			spec.Storage = b.storage(w, at)
		case "storage_offset":
			spec.StorageOffset = uint64(w.number(at))
		case "storage_numel":
			spec.StorageNumel = uint64(w.number(at))
		case "scale":
			spec.Scale = w.float(at)
		case "zero_point":
			spec.ZeroPoint = w.number(at)
		case "axis":
			spec.Axis = w.number(at)
		case "requires_grad":
			spec.Flags |= flag(w.number(at), tenon.RequiresGrad)
		case "conj":
			spec.Flags |= flag(w.number(at), tenon.Conj)
		case "neg":
			spec.Flags |= flag(w.number(at), tenon.Neg)
		case "coalesced":
			spec.Coalesced = tenon.CoalescedNo
			if w.number(at) != 0 {
				spec.Coalesced = tenon.CoalescedYes
			}
		case "indices":
			spec.Indices = b.value(w, at)
		case "plain_indices":
			spec.PlainIndices = b.value(w, at)
		case "values":
			spec.Values = b.value(w, at)
		case "scales":
			spec.Scales = b.value(w, at)
		case "zero_points":
			spec.ZeroPoints = b.value(w, at)
		default:
			fail("there is no field %s", w.text(field))
		}
	}
	return must(tenon.NewTensorValueFromSpec(spec))
}

// newValue returns the value that a step makes, or nil.
func (b *builder) newValue(w words) *tenon.Value {
	switch w.text(0) {
	case "tensor":
		return b.tensor(w)
	case "spec":
		return b.tensorFromSpec(w)
	case "none":
		return must(tenon.NewNone())
	case "bool":
		return must(tenon.NewBool(w.number(1) != 0))
	case "int":
		return must(tenon.NewInt(w.number(1)))
	case "float":
		return must(tenon.NewFloat(w.float(1)))
	case "complex":
		return must(tenon.NewComplex(complex(w.float(1), w.float(2))))
	case "str":
		return must(tenon.NewStr(w.text(1)))
	case "device":
		return must(tenon.NewDevice(w.text(1)))
	case "tuple":
		return must(tenon.NewTuple(w.text(1), b.valuesFrom(w, 2, 1)...))
	case "list":
		return must(tenon.NewList(w.text(1), b.valuesFrom(w, 2, 1)...))
	case "dict":
		return must(tenon.NewDict(w.text(1), b.valuesFrom(w, 2, 2), b.valuesFrom(w, 3, 2)))
	case "enum":
		return must(tenon.NewEnum(w.text(1), b.value(w, 2)))
	case "opaque":
		return must(tenon.NewOpaque(w.text(1), b.value(w, 2)))
	case "object":
		var attributes []tenon.Attribute
		for at := 2; at < len(w); at += 2 {
			attributes = append(
				attributes,
				tenon.Attribute{Name: w.text(at), Value: b.value(w, at+1)},
			)
		}
		return must(tenon.NewObject(w.text(1), attributes...))
	}
	return nil
}

func (b *builder) change(w words) {
	m := b.module(w, 1)
	switch w.text(0) {
	case "parameter":
		give(m.AddParameter(w.text(2), b.valueOrNil(w, 3)))
	case "buffer":
		give(m.AddBuffer(w.text(2), b.valueOrNil(w, 3)))
	case "attribute":
		give(m.AddAttribute(w.text(2), w.text(3), b.value(w, 4)))
	case "constant":
		give(m.AddConstant(w.text(2), w.text(3), b.value(w, 4)))
	case "submodule":
		give(m.AddSubmodule(w.text(2), b.module(w, 3), w.text(4)))
	case "define":
		give(m.Define(w.text(2)))
	case "types":
		give(m.DefineTypes(w.text(2), w.text(3)))
	case "before", "after":
		give(m.SetHooks(w.text(0) == "before", w[2:]...))
	case "traced":
		give(m.SetTracedInputs(w.text(2), b.valuesFrom(w, 3, 1)...))
	case "extra":
		give(m.SetExtraFile(w.text(2), w.bytes(3)))
	case "set":
		give(m.Set(w.text(2), b.valueOrNil(w, 3)))
	case "state":
		give(m.SetState(w.text(2), b.valueOrNil(w, 3)))
	case "replace":
		give(m.SetSubmodule(w.text(2), b.module(w, 3)))
	case "remove":
		give(m.Remove(w.text(2)))
	case "load":
		tensors := map[string]*tenon.Value{}
		for at := 2; at < len(w); at += 2 {
			tensors[w.text(at)] = b.value(w, at+1)
		}
		_, _, err := m.Load(tensors, 0)
		give(err)
	case "export":
		must(tenon.ExportModule(m, filepath.Join(b.folder, w.text(2)), nil))
	default:
		fail("there is no such step")
	}
}

func (b *builder) execute(w words) {
	switch w.text(0) {
	case "model":
		b.forgetAll()
	case "storage":
		b.storages = append(b.storages, must(tenon.NewStorageFrom(w.bytes(1), nil)))
	case "module":
		b.modules = append(b.modules, must(tenon.NewModule(w.text(1))))
	default:
		if value := b.newValue(w); value != nil {
			b.values = append(b.values, value)
		} else {
			b.change(w)
		}
	}
}

func main() {
	if len(os.Args) != 3 {
		os.Exit(2)
	}
	steps, err := os.ReadFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	b := &builder{folder: os.Args[2]}
	lines := strings.Split(strings.TrimSuffix(string(steps), "\n"), "\n")
	for number, line := range lines {
		w := wordsOf(line)
		if reason := executed(func() { b.execute(w) }); reason != nil {
			fmt.Fprintf(os.Stderr, "line %d, %s: %v\n", number+1, w[0], reason)
			os.Exit(1)
		}
	}
	b.forgetAll()
}
