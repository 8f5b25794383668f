// Tests of arenas, and of waits for room in them.

package tenon_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strconv"
	"testing"
	"time"

	"libtenon/tenon"
)

const mib = 1 << 20

func newArena(t testing.TB, options *tenon.ArenaOptions) *tenon.Arena {
	t.Helper()
	arena := must(tenon.NewArena(options))
	t.Cleanup(func() { arena.Close() })
	return arena
}

// within returns a context that ends after that time.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestAFreshArena(t *testing.T) {
	nothingLeft(t)
	now := must(newArena(t, &tenon.ArenaOptions{Capacity: 4 * mib}).Stats())
	if now.Pages == tenon.PagesAuto || now.PageBytes < 4096 || now.NUMANode != -1 || now.Locked {
		t.Errorf("it got %+v", now)
	}
	now.Pages, now.PageBytes, now.BytesReserved, now.BytesFree, now.BytesLargestFree = 0, 0, 0, 0, 0
	if wanted := (tenon.ArenaStats{BytesCapacity: 4 * mib, NUMANode: -1}); now != wanted {
		t.Errorf("%+v, wanted %+v", now, wanted)
	}
	if large := must(newArena(t, nil).Stats()); large.BytesCapacity <= 1<<30 {
		t.Errorf("by default: %+v", large)
	}
}

func TestStoragesInAnArena(t *testing.T) {
	nothingLeft(t)
	arena := newArena(
		t,
		&tenon.ArenaOptions{Capacity: mib, Mode: tenon.LenderWrites, Alignment: 1024},
	)
	options := &tenon.StorageOptions{Arena: arena, Wait: background(t)}
	before := must(tenon.GetStats())
	for range 10 {
		storage := must(tenon.NewStorage(8, &tenon.StorageOptions{Arena: arena}))
		defer storage.Close()
		if storage.Mode() != tenon.LenderWrites {
			t.Error("the mode is ", storage.Mode())
		}
		handle := must(storage.ShareFD(nil))
		if handle.SegmentNBytes != mib || handle.Offset%1024 != 0 {
			t.Errorf("it lies %+v", handle)
		}
		handle.Close()
	}
	tensor := must(tenon.FromSlice([]float32{1, 2, 3}, []int64{3}, options))
	defer tensor.Close()
	if values := must(tenon.Slice[float32](tensor)); values[2] != 3 {
		t.Error(values)
	}
	if empty, err := tenon.Empty(tenon.DTypeOf[int8](), []int64{5}, options); err != nil {
		t.Error(err)
	} else {
		empty.Close()
	}
	if now := must(tenon.GetStats()); now.Segments != before.Segments ||
		now.Storages != before.Storages+11 {
		t.Errorf("%+v, before it was %+v", now, before)
	}
	if now := must(arena.Stats()); now.BlocksLive != 11 {
		t.Errorf("%+v", now)
	}
}

func TestStoragesOutliveTheArena(t *testing.T) {
	nothingLeft(t)
	arena := must(tenon.NewArena(&tenon.ArenaOptions{Capacity: mib}))
	storage := must(tenon.NewStorageFrom([]byte("stays"), &tenon.StorageOptions{Arena: arena}))
	defer storage.Close()
	arena.Close()
	arena.Close()
	if data := must(storage.Bytes()); !bytes.Equal(data, []byte("stays")) {
		t.Errorf("%s", data)
	}
	for _, err := range []error{
		arena.Reserve(1),
		second(arena.Stats()),
		second(tenon.NewStorage(1, &tenon.StorageOptions{Arena: arena})),
		second(tenon.NewStorageFrom([]byte{1}, &tenon.StorageOptions{Arena: arena})),
	} {
		if !errors.Is(err, tenon.ErrClosed) {
			t.Error("of a closed arena: ", err)
		}
	}
	var none *tenon.Arena
	if _, err := none.Stats(); !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestAFullArena(t *testing.T) {
	nothingLeft(t)
	arena := newArena(t, &tenon.ArenaOptions{Capacity: mib})
	keep := must(tenon.NewStorage(mib, &tenon.StorageOptions{Arena: arena}))
	_, err := tenon.NewStorage(1, &tenon.StorageOptions{Arena: arena})
	var full *tenon.Error
	if !errors.As(err, &full) || full.Code != tenon.ErrResourceExhausted {
		t.Fatal(err)
	}
	for key, value := range map[string]string{
		"limit": "arena", "limit_value": strconv.Itoa(mib), "live": strconv.Itoa(mib), "lent": "0",
		"holders": "nobody",
	} {
		if full.Details[key] != value {
			t.Errorf("%s is %q, wanted %q", key, full.Details[key], value)
		}
	}
	_, err = tenon.NewStorageFrom(
		[]byte{1},
		&tenon.StorageOptions{Arena: arena, Wait: within(t, 300*time.Millisecond)},
	)
	if !errors.As(err, &full) || !errors.Is(err, tenon.ErrTimeout) ||
		!errors.Is(err, context.DeadlineExceeded) ||
		full.Details["holders"] != "nobody" {
		t.Errorf("%v %+v", err, full)
	}
	// A wait cannot help here.
	if _, err := tenon.NewStorage(
		mib+1, &tenon.StorageOptions{Arena: arena, Wait: background(t)},
	); !errors.Is(err, tenon.ErrResourceExhausted) {
		t.Error(err)
	}
	keep.Close()
	must(tenon.NewStorage(mib, &tenon.StorageOptions{Arena: arena})).Close()
}

func TestAWaitForRoomEnds(t *testing.T) {
	nothingLeft(t)
	arena := newArena(t, &tenon.ArenaOptions{Capacity: mib})
	keep := must(tenon.NewStorage(mib, &tenon.StorageOptions{Arena: arena}))
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := tenon.NewStorage(1, &tenon.StorageOptions{Arena: arena, Wait: ctx}); !errors.Is(
		err,
		tenon.ErrCancelled,
	) ||
		!errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	done := make(chan struct{})
	time.AfterFunc(20*time.Millisecond, func() { keep.Close(); close(done) })
	storage, err := tenon.NewStorageFrom(
		make([]byte, mib),
		&tenon.StorageOptions{Arena: arena, Wait: background(t)},
	)
	check(t, err)
	storage.Close()
	<-done
}

func TestArenasRefused(t *testing.T) {
	nothingLeft(t)
	node, far := -1, math.MaxInt32
	for _, options := range []tenon.ArenaOptions{
		{Mode: 3}, {Alignment: 3}, {Alignment: 32}, {Alignment: 8192}, {Pages: 4},
		{Capacity: math.MaxUint64}, {NUMANode: &node}, {NUMANode: &far},
	} {
		if _, err := tenon.NewArena(&options); !errors.Is(err, tenon.ErrInvalidArgument) {
			t.Errorf("%+v: %v", options, err)
		}
	}
	if _, err := tenon.NewArena(&tenon.ArenaOptions{Mode: tenon.Frozen}); !errors.Is(
		err,
		tenon.ErrUnsupported,
	) {
		t.Error(err)
	}
	arena := newArena(t, &tenon.ArenaOptions{Capacity: mib})
	for _, options := range []tenon.StorageOptions{
		{Private: true}, {Isolated: true}, {Mode: tenon.Frozen}, {Mode: tenon.LenderWrites},
	} {
		options.Arena = arena
		if _, err := tenon.NewStorage(1, &options); !errors.Is(err, tenon.ErrInvalidArgument) {
			t.Errorf("%+v: %v", options, err)
		}
	}
}

func TestReserveAndPrefault(t *testing.T) {
	nothingLeft(t)
	arena := newArena(t, &tenon.ArenaOptions{Capacity: 4 * mib})
	check(t, arena.Reserve(mib))
	if now := must(arena.Stats()); now.BytesReserved < mib {
		t.Errorf("%+v", now)
	}
	check(t, arena.Reserve(math.MaxUint64))
	if now := must(arena.Stats()); now.BytesFree != 4*mib || now.Fragmentation != 0 {
		t.Errorf("%+v", now)
	}
	ready := newArena(t, &tenon.ArenaOptions{Capacity: 4 * mib, PrefaultBytes: mib})
	for ctx := background(t); must(ready.Stats()).BytesReserved < mib; {
		check(t, ctx.Err())
		time.Sleep(time.Millisecond)
	}
	if text := tenon.PagesTHP.String() + tenon.Pages(9).String(); text != "thpPages(9)" {
		t.Error(text)
	}
}
