// Deposits: messages that this process keeps until a receiver fetches them by a ticket.

package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_message_deposit
// #cgo noescape tenon_ticket_bytes
// #cgo nocallback tenon_ticket_bytes
// #cgo noescape tenon_ticket_withdraw
// #cgo noescape tenon_ticket_watch
// #cgo noescape tenon_deposit_head
// #cgo nocallback tenon_deposit_head
// #cgo noescape tenon_deposit_add
// #cgo noescape tenon_deposit_stats_get
// #cgo nocallback tenon_deposit_stats_get
// #cgo noescape tenon_go_deposit_hand_over
import "C"

import (
	"context"
	"fmt"
	"time"
	"unsafe"
)

// Deposit deposits the message for a receiver that is not known yet, such as the reader of a queue,
// and returns its ticket, which is bytes. The first goroutine or process that fetches the ticket
// gets the message, under leases. The lender and the receiver must be processes of one user that
// see the same /dev/shm. The message and its tensors may be closed afterwards, because this process
// keeps them until the message is fetched or withdrawn. A program that deposits calls
// [HandOverDeposits] at its end.
func (m *Message) Deposit() ([]byte, error) {
	return ask(m, func(pointer *C.tenon_message) ([]byte, error) {
		var out *C.tenon_ticket
		var failure *C.tenon_error
		if status := C.tenon_message_deposit(pointer, &out, &failure); status != C.TENON_OK {
			return nil, takeError(status, failure)
		}
		defer C.tenon_ticket_release(out)
		var nbytes C.size_t
		data := C.tenon_ticket_bytes(out, &nbytes)
		return append([]byte(nil), unsafe.Slice((*byte)(data), uint64(nbytes))...), nil
	})
}

// Withdraw takes back a message of this process by its ticket. It returns false if the message was
// fetched or withdrawn before.
func Withdraw(ticket []byte) (bool, error) {
	collect()
	var withdrawn C.int
	var failure *C.tenon_error
	status := C.tenon_ticket_withdraw(
		unsafe.Pointer(unsafe.SliceData(ticket)),
		C.size_t(len(ticket)),
		&withdrawn,
		&failure,
	)
	if status != C.TENON_OK {
		return false, takeError(status, failure)
	}
	return withdrawn != 0, nil
}

// Watch takes back a message of this process if nobody has fetched it by the time that fd has hung
// up and grace has passed. The fd is one end of a pipe whose other end travels with the ticket. So
// it hangs up when the message is read, and also when the carrier of the ticket ends with the
// message unread. The library owns the fd once the call has succeeded. After a failure the fd is
// still the caller's.
func Watch(ticket []byte, fd int, grace time.Duration) error {
	collect()
	var failure *C.tenon_error
	status := C.tenon_ticket_watch(
		unsafe.Pointer(unsafe.SliceData(ticket)),
		C.size_t(len(ticket)),
		C.int32_t(fd),
		C.int64_t(grace),
		&failure,
	)
	if status != C.TENON_OK {
		return takeError(status, failure)
	}
	return nil
}

// Fetch fetches the message of a ticket. The caller closes the message. ErrNotFound means that it
// was fetched or withdrawn before. ErrPeerGone means that the lender is gone and this process had
// no contact with it before. ctx bounds the wait for a lender that does not answer. If ctx ends
// first, the message stays with its lender.
func Fetch(ctx context.Context, ticket []byte, options *OpenOptions) (*Message, error) {
	collect()
	given := options.c()
	return waitFor(ctx, newMessage, func(w waiting[*C.tenon_message]) C.tenon_status {
		return C.tenon_go_message_fetch(
			unsafe.Pointer(unsafe.SliceData(ticket)),
			C.size_t(len(ticket)),
			&given,
			w.timeout,
			w.cancel,
			w.out,
			w.failure,
		)
	})
}

// Deposit is a message that is deposited in pieces, for a program that finds its storages one by
// one. The message stays deposited when the Deposit is closed. Any goroutine may use a Deposit.
type Deposit struct{ handle }

// NewDeposit begins a message without storages.
func NewDeposit() (*Deposit, error) {
	collect()
	var out *C.tenon_deposit
	var failure *C.tenon_error
	if status := C.tenon_deposit_new(&out, &failure); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	d := new(Deposit)
	d.own(kindDeposit, unsafe.Pointer(out))
	return d, nil
}

func (d *Deposit) begin() (*C.tenon_deposit, error) {
	if d == nil {
		return nil, nil
	}
	pointer, err := d.acquire()
	return (*C.tenon_deposit)(pointer), err
}

func (d *Deposit) end() {
	if d != nil {
		d.release()
	}
}

// Head returns a copy of the bytes with which a receiver begins. They must not be sent before all
// storages were added. The result is nil for a closed Deposit.
func (d *Deposit) Head() []byte {
	return get(d, func(pointer *C.tenon_deposit) []byte {
		var nbytes C.size_t
		data := C.tenon_deposit_head(pointer, &nbytes)
		if data == nil {
			return nil
		}
		return append([]byte(nil), unsafe.Slice((*byte)(data), uint64(nbytes))...)
	})
}

// Add adds a storage, which the message keeps. It returns the storage's record, with which the
// receiver opens the storage.
func (d *Deposit) Add(storage *Storage, options *ShareOptions) ([]byte, error) {
	return ask(d, func(pointer *C.tenon_deposit) ([]byte, error) {
		added, err := storage.begin()
		if err != nil {
			return nil, err
		}
		defer storage.end()
		record := make([]byte, C.TENON_DEPOSIT_RECORD_NBYTES)
		var nbytes C.size_t
		var failure *C.tenon_error
		status := C.tenon_deposit_add(
			pointer,
			added,
			options.c().access,
			unsafe.Pointer(unsafe.SliceData(record)),
			&nbytes,
			&failure,
		)
		if status != C.TENON_OK {
			return nil, takeError(status, failure)
		}
		return record[:nbytes], nil
	})
}

// Withdraw takes the message back. It returns false if the message was fetched or withdrawn before.
func (d *Deposit) Withdraw() (bool, error) {
	return ask(d, func(pointer *C.tenon_deposit) (bool, error) {
		return C.tenon_deposit_withdraw(pointer) != 0, nil
	})
}

// Fetched is a message that is fetched in pieces. Close gives back the storages that were not
// opened. Storages that were opened stay valid. Only one goroutine at a time may use a Fetched.
type Fetched struct{ handle }

func newFetched(pointer *C.tenon_fetched) *Fetched {
	f := new(Fetched)
	f.own(kindFetched, unsafe.Pointer(pointer))
	return f
}

// NewFetched begins to fetch a message by the Head of its Deposit. From then on no other receiver
// can fetch the message. The errors and ctx are as for [Fetch].
func NewFetched(ctx context.Context, head []byte, options *OpenOptions) (*Fetched, error) {
	collect()
	given := options.c()
	return waitFor(ctx, newFetched, func(w waiting[*C.tenon_fetched]) C.tenon_status {
		return C.tenon_go_fetched_new(
			unsafe.Pointer(unsafe.SliceData(head)),
			C.size_t(len(head)),
			&given,
			w.timeout,
			w.cancel,
			w.out,
			w.failure,
		)
	})
}

// Storage opens a storage by its record, under its lease. A record can be opened once. ctx is as
// for [Fetch].
func (f *Fetched) Storage(ctx context.Context, record []byte) (*Storage, error) {
	if f == nil {
		return nil, invalid("the message is nil")
	}
	pointer, err := f.acquire()
	if err != nil {
		return nil, err
	}
	defer f.release()
	return waitFor(ctx, newStorage, func(w waiting[*C.tenon_storage]) C.tenon_status {
		return C.tenon_go_fetched_storage(
			(*C.tenon_fetched)(pointer),
			unsafe.Pointer(unsafe.SliceData(record)),
			C.size_t(len(record)),
			w.timeout,
			w.cancel,
			w.out,
			w.failure,
		)
	})
}

// DepositLimits limits the unfetched messages of this process. Nil and the zero value mean the
// library's defaults.
type DepositLimits struct {
	// The most segments for which receivers may still ask. A deposit that needs one more is
	// ErrResourceExhausted. 0 means half of the number of fds that this process may open.
	MaxUnfetchedSegments uint64
	// The most bytes in the storages of unfetched messages. A deposit that exceeds this limit
	// withdraws the oldest messages. 0 means no limit.
	MaxUnfetchedBytes uint64
	// How long a message may stay unfetched before it is withdrawn. 0 means for ever.
	MaxUnfetchedTime time.Duration
}

// SetDepositLimits sets the limits of this process. MaxUnfetchedBytes and MaxUnfetchedTime apply to
// messages that are deposited from now on.
func SetDepositLimits(limits *DepositLimits) error {
	given := C.tenon_deposit_limits{struct_size: C.sizeof_tenon_deposit_limits}
	if limits != nil {
		given.max_unfetched_segments = C.uint64_t(limits.MaxUnfetchedSegments)
		given.max_unfetched_nbytes = C.uint64_t(limits.MaxUnfetchedBytes)
		given.max_unfetched_ns = C.int64_t(limits.MaxUnfetchedTime)
	}
	var failure *C.tenon_error
	return check(C.tenon_deposit_limits_set(&given, &failure), &failure)
}

// DepositStats describes the unfetched messages of this process at one moment.
type DepositStats struct {
	Messages uint64 // messages that nobody has fetched, or whose receiver is still opening them
	Segments uint64 // segments for which receivers may ask; 0 if Messages is 0
	Expired  uint64 // messages that a limit, or the loss of their carrier, withdrew, in all
}

// GetDepositStats returns the figures now.
func GetDepositStats() (DepositStats, error) {
	out := C.tenon_deposit_stats{struct_size: C.sizeof_tenon_deposit_stats}
	var failure *C.tenon_error
	if status := C.tenon_deposit_stats_get(&out, &failure); status != C.TENON_OK {
		return DepositStats{}, takeError(status, failure)
	}
	return DepositStats{uint64(out.messages), uint64(out.segments), uint64(out.expired)}, nil
}

// KeepOptions says how a keeper keeps the unfetched messages. Nil and the zero value mean that it
// keeps them for 60 seconds.
type KeepOptions struct {
	// How long the keeper stays at most. 0 means 60 seconds.
	Timeout time.Duration
	// The pidfds of processes that may fetch the messages.
	PIDFDs []int
	// The path of a file on which processes that may fetch hold a shared flock. "" means none.
	Family string
	// The path of tenon-manager. "" means the same as for StartManager.
	Program string
}

// HandOverDeposits hands the unfetched messages of this process to a keeper, which is a process of
// its own. It returns how many messages the keeper has. A program that deposits calls it last,
// while no other goroutine deposits. The reason is that a Go program ends without the work that
// exit() does in C. So its messages would end with the program, and the name of its socket would
// stay until another process sweeps. If there is no unfetched message, no keeper is started. The
// keeper ends when all messages are fetched or its time is over. If PIDFDs or Family is set, it
// also ends when none of these processes is left.
func HandOverDeposits(options *KeepOptions) (int, error) {
	if options == nil {
		options = new(KeepOptions)
	}
	var texts [2]*C.char
	for i, each := range [...]struct{ what, text string }{
		{"the family's path", options.Family}, {"the program", options.Program},
	} {
		if err := checkText(each.what, each.text); err != nil {
			return 0, err
		}
		if each.text != "" {
			texts[i] = C.CString(each.text)
			defer C.free(unsafe.Pointer(texts[i]))
		}
	}
	numbers := make([]C.int32_t, len(options.PIDFDs))
	for i, fd := range options.PIDFDs {
		if int(int32(fd)) != fd {
			return 0, invalid(fmt.Sprintf("%d is no fd", fd))
		}
		numbers[i] = C.int32_t(fd)
	}
	var kept C.size_t
	var failure *C.tenon_error
	status := C.tenon_go_deposit_hand_over(
		C.int64_t(options.Timeout),
		unsafe.SliceData(numbers),
		C.size_t(len(numbers)),
		texts[0],
		texts[1],
		&kept,
		&failure,
	)
	if status != C.TENON_OK {
		return 0, takeError(status, failure)
	}
	return int(kept), nil
}
