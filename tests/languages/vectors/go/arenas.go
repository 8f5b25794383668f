package main

import (
	"context"
	"errors"
	"os"
	"time"

	"libtenon/tenon"
)

const patience = 10 * time.Second

func compareStats(arena *tenon.Arena, wanted map[string]int64) {
	now := must(arena.Stats())
	locked := int64(0)
	if now.Locked {
		locked = 1
	}
	got := map[string]int64{
		"bytes_capacity": int64(
			now.BytesCapacity,
		), "bytes_reserved": int64(now.BytesReserved), "bytes_live": int64(now.BytesLive),
		"bytes_lent": int64(
			now.BytesLent,
		), "bytes_free": int64(now.BytesFree), "bytes_largest_free": int64(now.BytesLargestFree),
		"bytes_retired": int64(
			now.BytesRetired,
		), "bytes_peak": int64(now.BytesPeak), "blocks_live": int64(now.BlocksLive),
		"blocks_lent": int64(
			now.BlocksLent,
		), "fragmentation": int64(now.Fragmentation), "pages": int64(now.Pages),
		"page_nbytes": int64(now.PageBytes), "numa_node": int64(now.NUMANode), "locked": locked,
	}
	for key, value := range wanted {
		if _, ok := got[key]; !ok {
			fail("unknown figure %q", key)
		}
		same(key, got[key], value)
	}
}

func word[T any](c anything, key, missing string, words map[string]T) T {
	text := get(c, key, missing)
	value, ok := words[text]
	if !ok {
		fail("unknown %s %q", key, text)
	}
	return value
}

func runArena(c, expect anything) {
	options := tenon.ArenaOptions{
		Capacity:  get(c, "capacity_nbytes", uint64(0)),
		Alignment: get(c, "alignment", uint64(0)),
		Mode: word(c, "mode", "SHARED", map[string]tenon.Mode{
			"SHARED": tenon.Shared, "LENDER_WRITES": tenon.LenderWrites, "FROZEN": tenon.Frozen,
		}),
		Pages: word(c, "pages", "AUTO", map[string]tenon.Pages{
			"AUTO": tenon.PagesAuto, "SMALL": tenon.PagesSmall, "THP": tenon.PagesTHP,
			"HUGETLB": tenon.PagesHugeTLB,
		}),
	}
	arena, err := tenon.NewArena(&options)
	if err != nil {
		outcome(expect, err)
		return
	}
	defer arena.Close()
	if c.has("reserve") {
		err = arena.Reserve(get(c, "reserve", uint64(0)))
	}
	for _, nbytes := range get(c, "storages", []uint64{}) {
		if err != nil {
			break
		}
		given := &tenon.StorageOptions{Arena: arena}
		var storage *tenon.Storage
		err = within(c, func(ctx context.Context) (failure error) {
			given.Wait = ctx
			storage, failure = tenon.NewStorage(nbytes, given)
			return failure
		})
		if err == nil {
			defer storage.Close()
		}
	}
	outcome(expect, err)
	compareStats(arena, get(expect, "stats", map[string]int64{}))
}

// within makes calls with a context that has the case's time, or with nil. On a busy machine the
// time can be over before the library sees the call. Such an error has no details, and the call is
// repeated.
func within(c anything, call func(context.Context) error) error {
	if !c.has("timeout_ms") {
		return call(nil)
	}
	for tries := 0; ; tries++ {
		ctx, cancel := context.WithTimeout(
			context.Background(),
			time.Duration(get(c, "timeout_ms", int64(0)))*time.Millisecond,
		)
		err := call(ctx)
		cancel()
		var failure *tenon.Error
		if tries == 100 || !errors.As(err, &failure) || failure.Code != tenon.ErrTimeout ||
			len(failure.Details) > 0 {
			return err
		}
	}
}

func runLease(c, expect anything) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for len(must(tenon.LeaseHolders())) > 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	capacity, messages := get(c, "capacity_nbytes", uint64(0)), get(c, "messages", 0)
	arena := must(tenon.NewArena(&tenon.ArenaOptions{Capacity: capacity}))
	defer arena.Close()
	first, second, err := tenon.Pair()
	give(err)
	defer first.Close()
	defer second.Close()
	message := must(tenon.NewMessage())
	defer message.Close()
	for _, nbytes := range get(c, "lend", []int64{}) {
		tensor := must(
			tenon.Empty(
				tenon.DTypeOf[uint8](),
				[]int64{nbytes},
				&tenon.StorageOptions{Arena: arena},
			),
		)
		give(message.AddAll(nil, []*tenon.Tensor{tensor}, nil))
		tensor.Close()
	}
	for range messages {
		give(first.Send(ctx, message))
	}
	message.Close()
	leases, nbytes := get(expect, "leases", uint64(0)), get(expect, "nbytes", uint64(0))
	compareStats(arena, map[string]int64{
		"blocks_live": 0, "blocks_lent": get(expect, "blocks_lent", int64(0)),
		"bytes_lent": get(expect, "bytes_lent", int64(0)),
	})
	holders := must(tenon.LeaseHolders())
	same("holders", len(holders), 1)
	if holders[0].Age <= 0 {
		fail("the age is %v", holders[0].Age)
	}
	holders[0].PID, holders[0].Age = 0, 0
	same(
		"holder",
		holders[0],
		tenon.LeaseHolder{
			UID:          uint32(os.Getuid()),
			Leases:       leases,
			NBytes:       nbytes,
			Granted:      leases,
			GrantedBytes: nbytes,
		},
	)
	switch get(c, "end", "") {
	case "receive":
		for range messages {
			must(second.Recv(ctx)).Close()
		}
	case "close":
		second.Close()
	default:
		fail("unknown end")
	}
	must(tenon.NewStorage(capacity, &tenon.StorageOptions{Arena: arena, Wait: ctx})).Close()
	compareStats(arena, map[string]int64{"blocks_lent": 0})
}
