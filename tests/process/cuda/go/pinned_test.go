package cuda

import (
	"bytes"
	"testing"

	"libtenon/tenon"
)

func TestWhatTheDeviceWritesToPinnedMemoryIsThere(t *testing.T) {
	needsDriver(t)
	const nbytes = 4096
	storage := must(tenon.NewStorage(nbytes, &tenon.StorageOptions{Isolated: true}))
	defer storage.Close()
	address := must(storage.Pin(0))
	if again := must(storage.Pin(0)); again != address || !storage.IsPinned() {
		t.Errorf("%x, and again %x; pinned: %v", address, again, storage.IsPinned())
	}
	if !CopyFilled(address, 7, nbytes) {
		t.Fatal("the copy failed")
	}
	if there := must(storage.Bytes()); !bytes.Equal(there, bytes.Repeat([]byte{7}, nbytes)) {
		t.Error("other bytes")
	}
}
