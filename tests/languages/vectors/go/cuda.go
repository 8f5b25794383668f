package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"libtenon/tenon"
)

// Device memory comes from an archive that is imported to the device. That needs no function of the
// driver.

// missing returns why a case cannot run here, or "".
func missing(c anything) string {
	switch required := get(c, "requires", ""); required {
	case "":
		return ""
	case "cuda":
		if err := tenon.CUDAAvailable(); err != nil {
			return "requires cuda: " + err.Error()
		}
		return ""
	default:
		fail("unknown requirement %q", required)
		return ""
	}
}

func archiveOf(module *tenon.Module, options *tenon.ExportOptions) []byte {
	var archive bytes.Buffer
	must(tenon.ExportModuleTo(module, &archive, options))
	return archive.Bytes()
}

func toDevice(device int) *tenon.ImportOptions {
	return &tenon.ImportOptions{Tensors: tenon.ImportDevice, Device: device}
}

// moduleOf returns a module on the host with the case's data as the buffers t0, t1 and so on.
func moduleOf(c anything) *tenon.Module {
	module := must(tenon.NewModule("Net"))
	for i, data := range get(c, "data", []string{}) {
		storage := must(tenon.NewStorageFrom(unhex(data), nil))
		defer storage.Close()
		tensor := must(
			tenon.NewTensor(
				storage,
				tenon.Spec{DType: tenon.DTypeOf[uint8](), Sizes: []int64{int64(len(data) / 2)}},
			),
		)
		defer tensor.Close()
		value := must(tenon.NewTensorValue(tensor))
		defer value.Close()
		give(module.AddBuffer(fmt.Sprint("t", i), value))
	}
	return module
}

func storageOf(module *tenon.Module, index int) *tenon.Storage {
	member := must(module.Find(fmt.Sprint("t", index)))
	defer member.Close()
	tensor := must(member.Value.Tensor())
	defer tensor.Close()
	return must(tensor.Storage())
}

func runCUDACounter(c, expect anything) {
	outcome(expect, tenon.ReleaseCUDACounter(get(c, "counter", ""), get(c, "slot", uint64(0))))
}

func runCUDAOpen(c, expect anything) {
	handle := tenon.CUDAHandle{
		Device: get(
			c,
			"device",
			int32(0),
		), NBytes: get(c, "nbytes", uint64(0)), Offset: get(c, "offset", uint64(0)),
		Counter: get(
			c,
			"counter",
			"",
		), Slot: get(c, "slot", uint64(0)), Memory: unhex(get(c, "memory", "")),
	}
	storage, err := tenon.OpenCUDA(
		handle,
		0,
		&tenon.OpenCUDAOptions{ReadOnly: get(c, "read_only", false)},
	)
	if outcome(expect, err) {
		defer storage.Close()
		same("nbytes", storage.NBytes(), handle.NBytes)
		same("device", storage.Device(), tenon.Device{Type: 2, ID: handle.Device})
	}
}

func compareHandle(handle tenon.CUDAHandle, expect anything) {
	memory, counter := unhex(get(expect, "memory", "")), get(expect, "counter", "")
	same("transport", handle.Transport, get(expect, "transport", tenon.CUDANoMemory))
	same("device", handle.Device, get(expect, "device", int32(-1)))
	same("nbytes", handle.NBytes, get(expect, "nbytes", uint64(0)))
	same("offset", handle.Offset, get(expect, "offset", uint64(0)))
	same("memory_nbytes", len(handle.Memory), get(expect, "memory_nbytes", 0))
	same("memory", bytes.HasPrefix(handle.Memory, memory), true)
	same("counter_nbytes", len(handle.Counter), get(expect, "counter_nbytes", 0))
	same("counter", strings.HasPrefix(handle.Counter, counter), true)
	same("fds", len(handle.FDs), get(expect, "fds", -1))
	same("event_required", handle.EventRequired, get(expect, "event_required", false))
	same("uuid is known", handle.UUID != nil, true)
}

func runCUDAShare(c, expect anything) {
	module := moduleOf(c)
	defer module.Close()
	if get(c, "on", "") == "cuda" {
		there := must(tenon.ImportModuleBytes(archiveOf(module, nil), toDevice(0)))
		defer there.Close()
		module = there
	}
	storage := storageOf(module, get(c, "share", 0))
	defer storage.Close()
	var handle tenon.CUDAHandle
	var err error
	if get(c, "record", false) {
		err = storage.RecordStream(0)
	}
	options := tenon.ShareCUDAOptions{
		Transport: get(c, "transport", tenon.CUDANoMemory),
		Form:      get(c, "form", tenon.CUDAFormA),
	}
	if err == nil {
		handle, err = storage.ShareCUDA(0, &options)
	}
	if !outcome(expect, err) {
		return
	}
	compareHandle(handle, expect)
	again := must(tenon.OpenCUDA(handle, 0, nil))
	defer again.Close()
	if handle.NBytes == 0 {
		same("nbytes", again.NBytes(), uint64(0))
		same("device", again.Device(), tenon.Device{Type: 2, ID: handle.Device})
		return
	}
	same("storage", again.ID(), storage.ID())
}

func runCUDAEvent(c, expect anything) {
	ask := get(c, "ask", "")
	complete, err := func() (bool, error) {
		event, err := tenon.NewCUDAEvent(
			&tenon.CUDAEventOptions{
				Device:       get(c, "device", int32(0)),
				Interprocess: get(c, "interprocess", false),
			},
		)
		if err != nil {
			return false, err
		}
		defer event.Close()
		give(event.Record(0))
		give(event.Wait(0))
		give(event.Synchronize(context.Background()))
		if ask != "query" {
			handle, err := event.IPCHandle()
			if err != nil {
				return false, err
			}
			if ask == "open" {
				opened, err := tenon.OpenCUDAEvent(handle, 0)
				if err != nil {
					return false, err
				}
				defer opened.Close()
			}
		}
		return event.Query()
	}()
	if outcome(expect, err) {
		same("complete", complete, get(expect, "complete", false))
	}
}

func runCUDAModule(c, expect anything) {
	device, kept := get(c, "device", 0), get(c, "keep_device", false)
	host := moduleOf(c)
	defer host.Close()
	first := archiveOf(host, nil)
	there, err := tenon.ImportModuleBytes(first, toDevice(device))
	if !outcome(expect, err) {
		return
	}
	defer there.Close()
	again := archiveOf(there, &tenon.ExportOptions{KeepDevice: kept})
	same(
		"names_device",
		bytes.Contains(again, []byte("cuda:0")),
		get(expect, "names_device", false),
	)
	if !kept && !bytes.Equal(first, again) {
		fail("another archive")
	}
	back := must(tenon.ImportModuleBytes(again, nil))
	defer back.Close()
	for i, data := range get(expect, "data", []string{}) {
		onDevice, onHost := storageOf(there, i), storageOf(back, i)
		same("device", onDevice.Device(), tenon.Device{Type: 2, ID: int32(device)})
		same("device", onHost.Device(), tenon.Device{Type: 1})
		same("data", hex.EncodeToString(must(onHost.ReadOnlyBytes())), data)
		onDevice.Close()
		onHost.Close()
	}
}

func runCUDAArena(c, expect anything) {
	arena, err := tenon.NewCUDAArena(&tenon.CUDAArenaOptions{
		Device:    get(c, "device", int32(0)),
		Transport: get(c, "transport", tenon.CUDANoMemory),
		Capacity:  get(c, "capacity_nbytes", uint64(0)),
	})
	if err != nil {
		outcome(expect, err)
		return
	}
	defer arena.Close()
	for _, nbytes := range get(c, "storages", []uint64{}) {
		if err != nil {
			break
		}
		var storage *tenon.Storage
		err = within(c, func(ctx context.Context) (failure error) {
			storage, failure = arena.Allocate(ctx, nbytes)
			return failure
		})
		if err == nil {
			defer storage.Close()
		}
	}
	outcome(expect, err)
	now := must(arena.Stats())
	got := map[string]int64{
		"device": int64(
			now.Device,
		), "transport": int64(now.Transport), "bytes_capacity": int64(now.BytesCapacity),
		"bytes_used": int64(
			now.BytesUsed,
		), "bytes_free": int64(now.BytesFree), "bytes_largest_free": int64(now.BytesLargestFree),
		"bytes_peak": int64(now.BytesPeak), "blocks_used": int64(now.BlocksUsed),
	}
	for key, value := range get(expect, "stats", map[string]int64{}) {
		if _, ok := got[key]; !ok {
			fail("unknown figure %q", key)
		}
		same(key, got[key], value)
	}
}
