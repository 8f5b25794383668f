package main

// #cgo LDFLAGS: -ldl
// #include "../c/device.h"
import "C"

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"libtenon/tenon"
)

// addressOf is the address of a storage on a device: the data of a DLPack tensor over all of it.
func addressOf(storage *tenon.Storage) (C.uint64_t, error) {
	whole, err := tenon.NewTensor(
		storage,
		tenon.Spec{DType: tenon.Uint8, Sizes: []int64{int64(storage.NBytes())}},
	)
	if err != nil {
		return 0, err
	}
	defer whole.Close()
	managed, err := whole.ToDLPack()
	if err != nil {
		return 0, err
	}
	defer tenon.DeleteDLPack(managed)
	return C.device_data(managed), nil
}

// copyDevice copies len(data) bytes from the start of a storage on a device, or to it.
func copyDevice(storage *tenon.Storage, data []byte, toDevice C.int) error {
	if len(data) == 0 {
		return nil
	}
	address, err := addressOf(storage)
	if err == nil &&
		C.device_copy(
			C.int(storage.Device().ID),
			unsafe.Pointer(&data[0]),
			address,
			C.size_t(len(data)),
			toDevice,
		) != 0 {
		err = fmt.Errorf("the driver does not copy")
	}
	return err
}

// moveDevice gives the default stream a copy of nbytes bytes between two storages of a device, and
// does not wait for it.
func moveDevice(to, from *tenon.Storage, nbytes int) error {
	if nbytes == 0 {
		return nil
	}
	there, err := addressOf(to)
	if err != nil {
		return err
	}
	here, err := addressOf(from)
	if err == nil && C.device_move(C.int(to.Device().ID), there, here, C.size_t(nbytes)) != 0 {
		err = fmt.Errorf("the driver does not copy")
	}
	return err
}

// onDevice makes a storage in an arena of device 1, which does not begin where the arena does. The
// default stream copies the bytes from a neighbour, so a reader that does not wait for the stream
// finds other bytes.
func onDevice(data []byte, strategy string) (*tenon.Storage, error) {
	options := tenon.CUDAArenaOptions{Device: 1, Capacity: 1 << 20}
	if strategy == "cuda_fd" {
		options.Transport = tenon.CUDAFD
	}
	arena, err := tenon.NewCUDAArena(&options)
	if err != nil {
		return nil, err
	}
	defer arena.Close()
	ctx, cancel := soon()
	defer cancel()
	neighbour, err := arena.Allocate(ctx, uint64(len(data)+100))
	if err != nil {
		return nil, err
	}
	defer neighbour.Close()
	storage, err := arena.Allocate(ctx, uint64(len(data)))
	if err != nil {
		return nil, err
	}
	if err = copyDevice(neighbour, data, 1); err == nil {
		err = moveDevice(storage, neighbour, len(data))
	}
	if err == nil {
		err = neighbour.RecordStream(0)
	}
	if err != nil {
		storage.Close()
		return nil, err
	}
	return storage, nil
}

var transports = []string{
	tenon.CUDANoMemory: "none", tenon.CUDAIPC: "ipc", tenon.CUDAFD: "fd",
	tenon.CUDAFabric: "fabric", tenon.CUDAPool: "pool",
}

func hexOf(data []byte) string {
	if len(data) == 0 {
		return "-"
	}
	return hex.EncodeToString(data)
}

// unhexed gives the bytes of a word.
func unhexed(word string) ([]byte, error) { return hex.DecodeString(strings.TrimPrefix(word, "-")) }

// lendCUDA gives the words of a handle; s is nil if the strategy sends no fds.
func lendCUDA(storage *tenon.Storage, s *socket) (string, error) {
	handle, err := storage.ShareCUDA(0, nil)
	if err != nil {
		return "", err
	}
	if s != nil {
		fds := make([]int, len(handle.FDs))
		for i, fd := range handle.FDs {
			fds[i] = int(fd)
		}
		if err := sendFDs(s.raw, fds); err != nil {
			return "", err
		}
	}
	uuid, event, counter, required := "-", "-", "-", 0
	if handle.UUID != nil {
		uuid = hexOf(handle.UUID[:])
	}
	if len(handle.Memory) != 0 {
		event = hexOf(handle.Event[:])
	}
	if handle.Counter != "" {
		counter = handle.Counter
	}
	if handle.EventRequired {
		required = 1
	}
	return fmt.Sprint(
		transports[handle.Transport],
		" ",
		handle.Device,
		" ",
		uuid,
		" ",
		handle.NBytes,
		" ",
		handle.Offset,
		" ",
		counter,
		" ",
		handle.Slot,
		" ",
		required,
		" ",
		event,
		" ",
		hexOf(handle.Memory),
		" ",
		len(handle.FDs),
	), nil
}

// openCUDA opens the handle that the words describe.
func openCUDA(words []string, s *socket) (*tenon.Storage, error) {
	handle := tenon.CUDAHandle{
		Counter:       strings.TrimPrefix(words[5], "-"),
		EventRequired: words[7] == "1",
	}
	for i, name := range transports {
		if name == words[0] {
			handle.Transport = tenon.CUDATransport(i)
		}
	}
	device, err := strconv.ParseInt(words[1], 10, 32)
	if err != nil {
		return nil, err
	}
	handle.Device = int32(device)
	numbers := strings.Join([]string{words[3], words[4], words[6]}, " ")
	if _, err := fmt.Sscan(numbers, &handle.NBytes, &handle.Offset, &handle.Slot); err != nil {
		return nil, err
	}
	uuid, err := unhexed(words[2])
	if err != nil {
		return nil, err
	}
	if len(uuid) != 0 {
		handle.UUID = (*[16]byte)(uuid)
	}
	event, err := unhexed(words[8])
	if err != nil {
		return nil, err
	}
	copy(handle.Event[:], event)
	if handle.Memory, err = unhexed(words[9]); err != nil {
		return nil, err
	}
	if s != nil {
		fds, err := receiveFDs(s.raw)
		if err != nil {
			return nil, err
		}
		for _, fd := range fds {
			defer syscall.Close(fd)
			handle.FDs = append(handle.FDs, int32(fd))
		}
	}
	return tenon.OpenCUDA(handle, 0, nil)
}
