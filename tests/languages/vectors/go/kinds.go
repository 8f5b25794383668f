package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"libtenon/tenon"
)

var codes = []tenon.Code{
	tenon.ErrInvalidArgument, tenon.ErrPermission, tenon.ErrNotFound, tenon.ErrCorrupt,
	tenon.ErrIncompatible, tenon.ErrResourceExhausted, tenon.ErrUnsupported, tenon.ErrPeerGone,
	tenon.ErrWouldBlock, tenon.ErrTimeout, tenon.ErrInterrupted, tenon.ErrCancelled, tenon.ErrIO,
	tenon.ErrInternal,
}

func runStatus(c, _ anything) {
	code, name := tenon.Code(get(c, "status", -1)), get(c, "name", "")
	same("name", code.String(), name)
	if name == "OK" || name == "UNKNOWN" {
		return
	}
	matches := 0
	for _, each := range codes {
		if errors.Is(&tenon.Error{Code: code}, each) {
			same("name of the sentinel", each.String(), name)
			matches++
		}
	}
	same("sentinels of that number", matches, 1)
}

func runDType(c, expect anything) {
	dtype, name := dtypeOf(get(c, "dtype", [3]int64{})), get(c, "name", "")
	if name != "" {
		same("dtype of the name", must(tenon.ParseDType(name)), dtype)
		same("name", dtype.String(), name)
	}
	storage := must(tenon.NewStorage(4096, nil))
	defer storage.Close()
	tensor, err := tenon.NewTensor(
		storage,
		tenon.Spec{DType: dtype, Sizes: []int64{get(c, "numel", int64(0))}},
	)
	if outcome(expect, err) {
		defer tensor.Close()
		same("dtype", tensor.DType(), dtype)
		same("nbytes", tensor.NBytes(), get(expect, "nbytes", uint64(0)))
	}
}

func runLayout(c, expect anything) {
	storage := must(tenon.NewStorage(get(c, "storage_nbytes", uint64(0)), nil))
	defer storage.Close()
	wanted := shapeOf(c).spec()
	tensor, err := tenon.NewTensor(storage, wanted)
	if !outcome(expect, err) {
		return
	}
	defer tensor.Close()
	spec := must(tensor.Spec())
	same("numel", tensor.Numel(), get(expect, "numel", uint64(0)))
	same("nbytes", tensor.NBytes(), get(expect, "nbytes", uint64(0)))
	same("contiguous", tensor.IsContiguous(), get(expect, "contiguous", false))
	same("strides", spec.Strides, get(expect, "strides", []int64{}))
	same("sizes", spec.Sizes, wanted.Sizes)
	same("offset", spec.Offset, wanted.Offset)
}

func indexItem(given []int64) tenon.Index {
	switch given[0] {
	case 0:
		return tenon.At(given[1])
	case 1:
		return tenon.Range(given[1], given[2], given[3])
	case 2:
		return tenon.NewAxis()
	}
	return tenon.Ellipsis()
}

func runView(c, expect anything) {
	storage := must(tenon.NewStorage(get(c, "storage_nbytes", uint64(0)), nil))
	defer storage.Close()
	wanted := shapeOf(c).spec()
	wanted.Flags = tenon.TensorFlags(get(c, "flags", uint32(0)))
	tensor := must(tenon.NewTensor(storage, wanted))
	defer tensor.Close()
	var view *tenon.Tensor
	var err error
	switch {
	case c.has("reshape"):
		view, err = tensor.Reshape(get(c, "reshape", []int64{})...)
	case c.has("view_dtype"):
		view, err = tensor.ViewDType(dtypeOf(get(c, "view_dtype", [3]int64{})))
	default:
		var items []tenon.Index
		for _, item := range get(c, "index", [][]int64{}) {
			items = append(items, indexItem(item))
		}
		view, err = tensor.Index(items...)
	}
	if !outcome(expect, err) {
		return
	}
	defer view.Close()
	spec := must(view.Spec())
	same("dtype", spec.DType, dtypeOf(get(expect, "dtype", [3]int64{})))
	same("sizes", spec.Sizes, get(expect, "sizes", []int64{}))
	same("strides", spec.Strides, get(expect, "strides", []int64{}))
	same("offset", spec.Offset, get(expect, "offset", uint64(0)))
	same("flags", uint32(spec.Flags), get(expect, "flags", uint32(0)))
}

func unhex(text string) []byte { return must(hex.DecodeString(text)) }

// add adds a tensor, with or without a name.
func add(message *tenon.Message, name *string, repeat int, tensor *tenon.Tensor) error {
	if name == nil {
		return message.AddAll(nil, []*tenon.Tensor{tensor}, nil)
	}
	return message.Add(strings.Repeat(string(unhex(*name)), repeat), tensor)
}

func runMessage(c, expect anything) {
	message := must(tenon.NewMessage())
	defer message.Close()
	names, repeat := get(c, "names", []*string{}), get(c, "name_repeat", 1)
	user := bytes.Repeat(unhex(get(c, "user", "")), get(c, "user_repeat", 1))
	var tensors []*tenon.Tensor
	var err error
	for _, name := range names {
		tensor := must(tenon.Empty(tenon.Uint8, []int64{1}, nil))
		defer tensor.Close()
		tensors = append(tensors, tensor)
		if err == nil {
			err = add(message, name, repeat, tensor)
		}
	}
	if err == nil && len(user) != 0 {
		err = message.SetUserBytes(user)
	}
	if !outcome(expect, err) {
		return
	}
	same("count", message.Len(), get(expect, "count", -1))
	for i, name := range names {
		got, named := message.Name(i)
		same("name", named, name != nil)
		if name != nil {
			same("name", got, strings.Repeat(string(unhex(*name)), repeat))
		}
	}
	same("user bytes", string(message.UserBytes()), string(user))
	for _, pair := range get(expect, "find", [][2]any{}) {
		name, index := string(unhex(pair[0].(string))), int(pair[1].(float64))
		found, err := message.Find(name)
		if errors.Is(err, tenon.ErrNotFound) {
			same("what was found as "+name, -1, index)
			continue
		}
		give(err)
		defer found.Close()
		at := -1
		for i := len(tensors) - 1; i >= 0; i-- {
			if storageID(tensors[i]) == storageID(found) {
				at = i
			}
		}
		same("what was found as "+name, at, index)
	}
}

func storageID(tensor *tenon.Tensor) uint64 {
	storage := must(tensor.Storage())
	defer storage.Close()
	return storage.ID()
}

// sameBytes compares bytes with expect's, except those under its mask.
func sameBytes(got []byte, expect anything) {
	wanted := unhex(get(expect, "bytes", ""))
	same("length", len(got), len(wanted))
	got = bytes.Clone(got)
	for _, masked := range get(expect, "mask", [][2]int{}) {
		copy(got[masked[0]:masked[1]], wanted[masked[0]:masked[1]])
	}
	for i := range got {
		if got[i] != wanted[i] {
			fail("byte %d is %#x, not %#x", i, got[i], wanted[i])
		}
	}
}

func runEncode(c, expect anything) {
	var storages []*tenon.Storage
	for _, nbytes := range get(c, "storages", []uint64{}) {
		storage := must(tenon.NewStorage(nbytes, &tenon.StorageOptions{Isolated: true}))
		defer storage.Close()
		storages = append(storages, storage)
	}
	message := must(tenon.NewMessage())
	defer message.Close()
	for _, each := range get(c, "tensors", []shape{}) {
		tensor := must(tenon.NewTensor(storages[each.Storage], each.spec()))
		defer tensor.Close()
		give(add(message, each.Name, 1, tensor))
	}
	if user := unhex(get(c, "user", "")); len(user) != 0 {
		give(message.SetUserBytes(user))
	}
	descriptor := must(tenon.NewDescriptor(message, nil))
	defer descriptor.Close()
	sameBytes(descriptor.Bytes(), expect)
}

// firstBytes returns the bytes from a tensor's first element on. It returns as many as `digits` has
// pairs of digits for, or all that there are.
func firstBytes(storage *tenon.Storage, start uint64, digits string) string {
	count := min(uint64(len(digits)/2), storage.NBytes()-min(storage.NBytes(), start))
	data := make([]byte, count)
	must(storage.ReadAt(data, int64(start)))
	return hex.EncodeToString(data)
}

func runDescriptor(c, expect anything) {
	message, err := tenon.OpenDescriptor(
		unhex(get(c, "bytes", "")),
		get(c, "fds", []int{}),
		optionsOf(c),
	)
	if !outcome(expect, err) {
		return
	}
	defer message.Close()
	same("user bytes", hex.EncodeToString(message.UserBytes()), get(expect, "user", ""))
	wanted := get(expect, "tensors", []json.RawMessage{})
	same("count", message.Len(), len(wanted))
	for i, raw := range wanted {
		sameTensor(message, i, newAnything(raw))
	}
}

func sameTensor(message *tenon.Message, i int, wanted anything) {
	tensor := must(message.Tensor(i))
	defer tensor.Close()
	storage := must(tensor.Storage())
	defer storage.Close()
	spec := must(tensor.Spec())
	for key, raw := range wanted.keys {
		var got any
		switch key {
		case "name":
			if name, named := message.Name(i); named {
				got = hex.EncodeToString([]byte(name))
			}
		case "dtype":
			got = numbersOf(spec.DType)
		case "sizes":
			got = spec.Sizes
		case "strides":
			got = spec.Strides
		case "offset":
			got = spec.Offset
		case "flags":
			got = spec.Flags
		case "numel":
			got = tensor.Numel()
		case "nbytes":
			got = tensor.NBytes()
		case "contiguous":
			got = tensor.IsContiguous()
		case "read_only":
			got = storage.IsReadOnly()
		case "data":
			start := spec.Offset * uint64(spec.DType.Bits()) * uint64(spec.DType.Lanes()) / 8
			got = firstBytes(storage, start, get(wanted, "data", ""))
		default:
			fail("unknown expectation %q", key)
		}
		var normal bytes.Buffer
		give(json.Compact(&normal, raw))
		same(key, string(must(json.Marshal(got))), normal.String())
	}
}

// countOf returns the number at the start of a file in PyTorch's layout.
func countOf(
	path string,
) int {
	return int(int32(binary.LittleEndian.Uint32(must(os.ReadFile(path)))))
}

func runNamedFile(c, expect anything) {
	path := get(c, "path", "")
	handle := tenon.FilenameHandle{
		Name:   path,
		Offset: get(c, "offset", uint64(0)),
		NBytes: get(c, "nbytes", uint64(0)),
	}
	storage, err := tenon.OpenFilename(context.Background(), handle, optionsOf(c))
	if !outcome(expect, err) {
		return
	}
	defer storage.Close()
	same("nbytes", storage.NBytes(), get(expect, "nbytes", uint64(0)))
	data := get(expect, "data", "")
	same("data", firstBytes(storage, 0, data), data)
	same("read_only", storage.IsReadOnly(), get(expect, "read_only", false))
	same("sealed", storage.IsSealed(), get(expect, "sealed", false))
	same("mode", strings.ToUpper(storage.Mode().String()), get(expect, "mode", ""))
	count := get(expect, "count", 0)
	same("count", countOf(path), count)
	storage.Close()
	same("count after the release", countOf(path), count-1)
}

func runNewNamedFile(c, expect anything) {
	directory, name := get(c, "directory", ""), get(c, "name", "")
	storage, err := tenon.NewStorageFilename(
		get(c, "nbytes", uint64(0)),
		&tenon.FilenameOptions{Directory: directory, Name: name},
	)
	if !outcome(expect, err) {
		return
	}
	defer storage.Close()
	must(storage.WriteAt(unhex(get(c, "payload", "")), 0))
	path := filepath.Join(directory, name)
	sameBytes(must(os.ReadFile(path)), expect)
	storage.Close()
	_, err = os.Lstat(path)
	same("file after the release", os.IsNotExist(err), true)
}
