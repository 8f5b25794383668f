package main

import (
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"libtenon/tenon"
)

// kept is a tensor, and the objects that must live as long.
type kept struct {
	tensor     *tenon.Tensor // a composite's values; nil if it has none
	descriptor *tenon.Descriptor
	composite  *tenon.Composite
}

func (k *kept) close() {
	if k.tensor != nil {
		k.tensor.Close()
	}
	if k.descriptor != nil {
		k.descriptor.Close()
	}
	if k.composite != nil {
		k.composite.Close()
	}
}

type peer struct {
	listener int
	sockets  map[string]*socket
	kept     map[string]*kept
}

func (p *peer) end() {
	for _, each := range p.kept {
		each.close()
	}
	for _, each := range p.sockets {
		each.close()
	}
	if p.listener >= 0 {
		syscall.Close(p.listener)
	}
	tenon.Trim()
	tenon.FilenameLeave()
}

func (p *peer) drop(words []string) (string, error) {
	p.kept[words[0]].close()
	delete(p.kept, words[0])
	return "", nil
}

func pattern(seed string, nbytes int) ([]byte, error) {
	number, err := strconv.Atoi(seed)
	data := make([]byte, nbytes)
	for i := range data {
		data[i] = byte(number*31 + i*7 + i/256)
	}
	return data, err
}

// each calls do with the offset of every element, in bytes from the start of the storage. The last
// dimension varies fastest.
func each(spec tenon.Spec, size int, do func(at int)) {
	var walk func(dimension int, at int64)
	walk = func(dimension int, at int64) {
		if dimension == len(spec.Sizes) {
			do(int(at) * size)
			return
		}
		for i := range spec.Sizes[dimension] {
			walk(dimension+1, at+i*spec.Strides[dimension])
		}
	}
	walk(0, int64(spec.Offset))
}

// parts gives what an access to a tensor's elements needs: the storage, the spec, and the size of
// an element.
func parts(tensor *tenon.Tensor) (storage *tenon.Storage, spec tenon.Spec, size int, err error) {
	if spec, err = tensor.Spec(); err == nil {
		storage, err = tensor.Storage()
	}
	return storage, spec, int(spec.DType.Bits()) / 8 * int(spec.DType.Lanes()), err
}

// bytesOf gives the bytes of a storage to the host. For a device they are a copy.
func bytesOf(storage *tenon.Storage) ([]byte, error) {
	if storage.Device().Type == 1 {
		return storage.ReadOnlyBytes()
	}
	data := make([]byte, storage.NBytes())
	return data, copyDevice(storage, data, 0)
}

func content(tensor *tenon.Tensor) (string, error) {
	storage, spec, size, err := parts(tensor)
	if err != nil {
		return "", err
	}
	defer storage.Close()
	data, err := bytesOf(storage)
	if err != nil {
		return "", err
	}
	var elements []byte
	each(spec, size, func(at int) { elements = append(elements, data[at:at+size]...) })
	if len(elements) == 0 {
		return "-", nil
	}
	return hex.EncodeToString(elements), nil
}

func (p *peer) read(words []string) (string, error) { return content(p.kept[words[0]].tensor) }

func (p *peer) write(words []string) (string, error) {
	tensor := p.kept[words[0]].tensor
	storage, spec, size, err := parts(tensor)
	if err != nil {
		return "", err
	}
	defer storage.Close()
	data, err := pattern(words[1], int(tensor.NBytes()))
	if err != nil {
		return "", err
	}
	put := func(bytes []byte) error {
		each(spec, size, func(at int) { data = data[copy(bytes[at:at+size], data):] })
		return nil
	}
	if storage.Device().Type == 1 {
		return "", storage.WithBytes(put)
	}
	staged, err := bytesOf(storage)
	if err != nil {
		return "", err
	}
	_ = put(staged)
	return "", copyDevice(storage, staged, 1)
}

func numbers(word string) ([]int64, error) {
	if word == "-" {
		return nil, nil
	}
	var all []int64
	for _, each := range strings.Split(word, ",") {
		number, err := strconv.ParseInt(each, 10, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, number)
	}
	return all, nil
}

func wordOf(all []int64) string {
	if len(all) == 0 {
		return "-"
	}
	var words []string
	for _, each := range all {
		words = append(words, strconv.FormatInt(each, 10))
	}
	return strings.Join(words, ",")
}

// over makes the tensor that the words DTYPE SIZES STRIDES OFFSET describe.
func over(storage *tenon.Storage, words []string) (*tenon.Tensor, error) {
	var spec tenon.Spec
	var err error
	if spec.DType, err = dtypeOf(words[0]); err == nil {
		spec.Sizes, err = numbers(words[1])
	}
	if err == nil {
		spec.Strides, err = numbers(words[2])
	}
	if err == nil {
		spec.Offset, err = strconv.ParseUint(words[3], 10, 64)
	}
	if err != nil {
		return nil, err
	}
	return tenon.NewTensor(storage, spec)
}

func (p *peer) lend(words []string) (string, error) {
	key, strategy, name := words[0], words[1], words[2]
	nbytes, err := strconv.Atoi(words[3])
	if err != nil {
		return "", err
	}
	data, err := pattern(words[4], nbytes)
	if err != nil {
		return "", err
	}
	storage, err := filled(data, strategy)
	if err != nil {
		return "", err
	}
	defer storage.Close()
	tensor, err := over(storage, words[5:])
	if err != nil {
		return "", err
	}
	held := &kept{tensor: tensor}
	handle, err := p.handOver(held, storage, key, strategy, name)
	if err != nil {
		held.close()
		return "", err
	}
	p.kept[key] = held
	return handle, nil
}

func filled(data []byte, strategy string) (*tenon.Storage, error) {
	switch strategy {
	case "cuda", "cuda_handle", "cuda_fd":
		return onDevice(data, strategy)
	case "arena", "arena_fd":
		return inArena(data)
	case "read_only":
		return tenon.NewStorageFrom(data, &tenon.StorageOptions{Mode: tenon.Frozen})
	case "filename":
		storage, err := tenon.NewStorageFilename(
			uint64(len(data)),
			&tenon.FilenameOptions{Prefix: os.Getenv("TENON_MATRIX_PREFIX")},
		)
		if err == nil {
			_, err = storage.WriteAt(data, 0)
		}
		return storage, err
	}
	return tenon.NewStorageFrom(data, nil)
}

// inArena makes a storage that does not begin where its arena does.
func inArena(data []byte) (*tenon.Storage, error) {
	arena, err := tenon.NewArena(&tenon.ArenaOptions{Capacity: 1 << 20})
	if err != nil {
		return nil, err
	}
	defer arena.Close()
	neighbour, err := tenon.NewStorage(100, &tenon.StorageOptions{Arena: arena})
	if err != nil {
		return nil, err
	}
	defer neighbour.Close()
	return tenon.NewStorageFrom(data, &tenon.StorageOptions{Arena: arena})
}

// handOver lends by a strategy, and gives the words of the handle.
func (p *peer) handOver(
	held *kept,
	storage *tenon.Storage,
	key, strategy, name string,
) (string, error) {
	ctx, cancel := soon()
	defer cancel()
	var options tenon.FilenameOptions
	switch strategy {
	case "fd", "read_only", "bytes", "arena", "cuda":
		message, err := tenon.NewMessage()
		if err != nil {
			return "", err
		}
		defer message.Close()
		if err := message.Add("t"+key, held.tensor); err != nil {
			return "", err
		}
		if err := message.SetUserBytes([]byte("t" + key)); err != nil {
			return "", err
		}
		if strategy != "bytes" {
			return "", p.sockets[name].tenon.Send(ctx, message)
		}
		held.descriptor, err = tenon.NewDescriptor(
			message,
			&tenon.DescriptorOptions{BytesOnly: true},
		)
		if err != nil {
			return "", err
		}
		return hex.EncodeToString(held.descriptor.Bytes()), nil
	case "cuda_handle", "cuda_fd":
		return lendCUDA(storage, p.sockets[name])
	case "raw_fd", "arena_fd":
		handle, err := storage.ShareFD(nil)
		if err != nil {
			return "", err
		}
		defer handle.Close()
		text := fmt.Sprint(handle.Offset, " ", handle.NBytes)
		if strategy == "arena_fd" {
			text += fmt.Sprint(" ", handle.SegmentNBytes)
		}
		return text, sendFD(p.sockets[name].raw, int(handle.File.Fd()))
	case "filename":
		options.Torch = true
	case "socket":
		options.Directory = os.Getenv("TENON_MATRIX_DIRECTORY")
	default:
		return "", fmt.Errorf("no strategy %s", strategy)
	}
	handle, err := storage.ShareFilename(ctx, &options)
	if handle.Manager == "" {
		handle.Manager = "-"
	}
	return fmt.Sprint(handle.Manager, " ", handle.Name, " ", handle.Offset, " ", handle.NBytes), err
}

func (p *peer) open(words []string) (string, error) {
	key, strategy, name, shape, handle := words[0], words[1], words[2], words[3:7], words[7:]
	var tensor *tenon.Tensor
	tensorName, user := "-", "-"
	switch strategy {
	case "fd", "read_only", "bytes", "arena", "cuda":
		message, err := p.message(strategy, name, handle)
		if err != nil {
			return "", err
		}
		defer message.Close()
		if tensor, err = message.Tensor(0); err != nil {
			return "", err
		}
		tensorName, _ = message.Name(0)
		user = string(message.UserBytes())
	default:
		storage, err := p.storage(strategy, name, handle)
		if err != nil {
			return "", err
		}
		defer storage.Close()
		if tensor, err = over(storage, shape); err != nil {
			return "", err
		}
	}
	p.kept[key] = &kept{tensor: tensor}
	storage, spec, _, err := parts(tensor)
	if err != nil {
		return "", err
	}
	defer storage.Close()
	elements, err := content(tensor)
	readOnly := map[bool]int{false: 0, true: 1}[storage.IsReadOnly()]
	device := storage.Device()
	return fmt.Sprintf(
		"%s %s %s %d %d %d:%d %s %s %s",
		dtypeWord(spec.DType),
		wordOf(spec.Sizes),
		wordOf(spec.Strides),
		spec.Offset,
		readOnly,
		device.Type,
		device.ID,
		tensorName,
		user,
		elements,
	), err
}

func (p *peer) message(strategy, name string, handle []string) (*tenon.Message, error) {
	if strategy == "bytes" {
		data, err := hex.DecodeString(handle[0])
		if err != nil {
			return nil, err
		}
		return tenon.OpenDescriptor(data, nil, nil)
	}
	ctx, cancel := soon()
	defer cancel()
	return p.sockets[name].tenon.Recv(ctx)
}

func (p *peer) storage(strategy, name string, handle []string) (*tenon.Storage, error) {
	if strategy == "cuda_handle" || strategy == "cuda_fd" {
		return openCUDA(handle, p.sockets[name])
	}
	var offset, nbytes uint64
	place := handle[len(handle)-2:]
	if strategy == "arena_fd" {
		place = handle[:2] // without the size of the segment
	}
	if _, err := fmt.Sscan(place[0]+" "+place[1], &offset, &nbytes); err != nil {
		return nil, err
	}
	switch strategy {
	case "raw_fd", "arena_fd":
		file, err := receiveFD(p.sockets[name].raw)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return tenon.OpenFD(
			&tenon.FDHandle{File: file, Offset: offset, NBytes: nbytes},
			&tenon.OpenOptions{AllowUnsealed: true},
		)
	case "filename", "socket":
		ctx, cancel := soon()
		defer cancel()
		named := tenon.FilenameHandle{
			Manager: strings.TrimPrefix(handle[0], "-"),
			Name:    handle[1],
			Offset:  offset,
			NBytes:  nbytes,
		}
		return tenon.OpenFilename(
			ctx,
			named,
			&tenon.OpenOptions{AllowUnsealed: strategy == "filename"},
		)
	}
	return nil, fmt.Errorf("no strategy %s", strategy)
}
