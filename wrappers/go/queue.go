// Queues: many processes send messages to many processes, and each message goes to exactly one of
// them.

package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_queue_members
// #cgo nocallback tenon_queue_members
// #cgo noescape tenon_queue_stats_get
// #cgo nocallback tenon_queue_stats_get
// #cgo noescape tenon_go_queue_send_now
// #cgo noescape tenon_go_queue_recv_now
// #cgo noescape tenon_go_queue_send_many_now
// #cgo noescape tenon_go_queue_recv_many_now
import "C"

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"unsafe"
)

// QueueOptions say how to make a queue or to join one. Nil and the zero value mean the library's
// defaults. To join, leave Members, Capacity and SlotBytes 0, or give the queue's own numbers.
type QueueOptions struct {
	Members uint32 // the most processes that can be members at a time, 1 to 256; 0 means 32
	// How many messages of one member can wait, a power of two from 2 to 65,536. 0 means 128. When
	// so many wait, the member's next send waits for a receiver.
	Capacity uint32
	// The bytes of a slot, which holds the description of one message: a multiple of 64, from 64 to
	// 65,536. 0 means 1,024. The queue takes Members * Capacity * SlotBytes bytes.
	SlotBytes       uint32
	MaxMessageBytes uint64 // the largest descriptor that is accepted, in bytes; 0 means 64 MiB
	MaxTensors      uint64 // the most tensors in one message; 0 means 1,000,000
	IgnoreDeaths    bool   // sends and receives do not report that a member has died
	// A message comes again if its receiver dies, or leaves the queue, before it has closed the
	// message. All of TENON_QUEUE_REDELIVER in tenon/queue.h holds. To join, leave it false, or
	// give what the queue has.
	Redeliver bool
}

func (o *QueueOptions) c() C.tenon_queue_options {
	given := C.tenon_queue_options{struct_size: C.sizeof_tenon_queue_options}
	if o == nil {
		return given
	}
	given.members = C.uint32_t(o.Members)
	given.capacity = C.uint32_t(o.Capacity)
	given.slot_nbytes = C.uint32_t(o.SlotBytes)
	given.max_message_nbytes = C.uint64_t(o.MaxMessageBytes)
	given.max_tensors = C.uint64_t(o.MaxTensors)
	if o.IgnoreDeaths {
		given.flags = C.TENON_QUEUE_IGNORE_DEATHS
	}
	if o.Redeliver {
		given.flags |= C.TENON_QUEUE_REDELIVER
	}
	return given
}

// QueueStats are figures about a queue. They change while they are read.
type QueueStats struct {
	Waiting  uint64 // messages in the queue that no process has received yet
	Sent     uint64 // messages that this member has sent
	Received uint64 // messages that this member has received
	Lost     uint64 // messages of this member that a process took which died before it had them
}

// QueueMemberState says what a member of a queue is doing.
type QueueMemberState uint32

const (
	MemberJoining QueueMemberState = C.TENON_QUEUE_MEMBER_JOINING // it is about to become a member
	MemberHere    QueueMemberState = C.TENON_QUEUE_MEMBER_HERE    // it is a member
	MemberLeft    QueueMemberState = C.TENON_QUEUE_MEMBER_LEFT    // it left in order
	// Its process ended while it was a member.
	MemberDead QueueMemberState = C.TENON_QUEUE_MEMBER_DEAD
)

// QueueMember describes a member of a queue, or one that has gone and whose place nobody has taken
// since. The member itself wrote these facts, and they may be wrong.
type QueueMember struct {
	Index   uint32 // the member's number in the queue
	State   QueueMemberState
	PID     int32  // the process id, as the member itself sees it
	UID     uint32 // its effective user id
	Waiting uint64 // how many messages it has sent that no process has received yet
	Asleep  bool   // it sleeps until there is a message or room for one
	Self    bool   // it is this member
}

// Queue is the membership of this process in a queue. A queue lies in a storage. Another process
// opens that storage, in any way in which storages travel, and calls JoinQueue. Processes join and
// leave at any time.
//
// Sends of one member wait for each other, and so do receives. A send and a receive can run at the
// same time. The messages of one sender are received in the order in which it sent them. Any
// goroutine may use a Queue.
//
// When a member dies, one send or receive of each other member gives ErrPeerGone. Its details "pid"
// and "member" name the dead process, and the queue goes on. ErrPeerGone with the detail "lost"
// means that a message went with its sender.
type Queue struct {
	handle
	// Goroutines that wait for a message, and for room.
	messages, room watchers

	kept    keptMessages
	closing chan struct{} // closed by Close
}

// NewQueue makes a queue in a new storage, and makes this process its first member.
func NewQueue(options *QueueOptions) (*Queue, error) {
	collect()
	given := options.c()
	var out *C.tenon_queue
	var failure *C.tenon_error
	if status := C.tenon_queue_new(&given, &out, &failure); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	return newQueue(out), nil
}

// JoinQueue joins the queue that lies in a storage, which must be opened writable. The membership
// keeps the storage, which may be closed afterwards. ErrCorrupt means that the storage holds no
// queue. ErrResourceExhausted with the limit "members" means that the queue has as many members as
// it can have.
func JoinQueue(storage *Storage, options *QueueOptions) (*Queue, error) {
	return ask(storage, func(pointer *C.tenon_storage) (*Queue, error) {
		given := options.c()
		var out *C.tenon_queue
		var failure *C.tenon_error
		if status := C.tenon_queue_join(
			pointer, &given, &out, &failure,
		); status != C.TENON_OK {
			return nil, takeError(status, failure)
		}
		return newQueue(out), nil
	})
}

func newQueue(pointer *C.tenon_queue) *Queue {
	q := new(Queue)
	q.own(kindQueue, unsafe.Pointer(pointer))
	q.closing = make(chan struct{})
	return q
}

func (q *Queue) begin() (*C.tenon_queue, error) {
	if q == nil {
		return nil, invalid("the queue is nil")
	}
	pointer, err := q.acquire()
	return (*C.tenon_queue)(pointer), err
}

func (q *Queue) end() { q.release() }

// Close leaves the queue. Calls that wait in other goroutines end with ErrClosed. Messages that
// were sent stay in the queue as long as this process lives. A second Close does nothing. Close
// never fails.
func (q *Queue) Close() error {
	if q != nil && q.close() {
		q.messages.end()
		q.room.end()
		if q.closing != nil { // it is nil in a zero value
			close(q.closing)
		}
		q.kept.close()
	}
	return nil
}

// Leave leaves the queue, as Close does, but the Queue can still be asked for its Storage, Stats
// and Members. Calls that wait in other goroutines end with ErrInvalidArgument, and so do later
// sends and receives. A second Leave does nothing.
func (q *Queue) Leave() {
	if pointer, err := q.begin(); err == nil {
		defer q.end()
		C.tenon_queue_leave(pointer)
	}
}

// Storage returns the storage in which the queue lies, to hand it to other processes. The caller
// closes it. No other code may write to it.
func (q *Queue) Storage() (*Storage, error) {
	return ask(q, func(pointer *C.tenon_queue) (*Storage, error) {
		if pointer == nil {
			return nil, invalid("the queue was not made by NewQueue or JoinQueue")
		}
		return newStorage(C.tenon_storage_retain(C.tenon_queue_storage(pointer))), nil
	})
}

// Redelivered tells how often a received message had been delivered before (QueueOptions). It is 0
// for a closed message.
func (m *Message) Redelivered() int {
	message, err := m.begin()
	if err != nil {
		return 0
	}
	defer m.end()
	return int(C.tenon_queue_redelivered(message))
}

// Discard takes back the messages of this member that no process has received, and returns how many
// they were. Each message is either received or taken back.
func (q *Queue) Discard() (int, error) {
	return ask(q, func(pointer *C.tenon_queue) (int, error) {
		var discarded C.size_t
		var failure *C.tenon_error
		if status := C.tenon_queue_discard(pointer, &discarded, &failure); status != C.TENON_OK {
			return 0, takeError(status, failure)
		}
		return int(discarded), nil
	})
}

// Stats gives the figures of this moment.
func (q *Queue) Stats() (QueueStats, error) {
	return ask(q, func(pointer *C.tenon_queue) (QueueStats, error) {
		out := C.tenon_queue_stats{struct_size: C.sizeof_tenon_queue_stats}
		var failure *C.tenon_error
		if status := C.tenon_queue_stats_get(pointer, &out, &failure); status != C.TENON_OK {
			return QueueStats{}, takeError(status, failure)
		}
		return QueueStats{
			Waiting:  uint64(out.waiting),
			Sent:     uint64(out.sent),
			Received: uint64(out.received),
			Lost:     uint64(out.lost),
		}, nil
	})
}

// Members lists the members in the order of their numbers.
func (q *Queue) Members() ([]QueueMember, error) {
	return ask(q, func(pointer *C.tenon_queue) ([]QueueMember, error) {
		return takeList(
			C.tenon_queue_member{struct_size: C.sizeof_tenon_queue_member},
			func(room listRoom[C.tenon_queue_member]) C.tenon_status {
				return C.tenon_queue_members(pointer, room.out, room.n, room.total, room.failure)
			},
			func(each *C.tenon_queue_member) QueueMember {
				return QueueMember{
					Index:   uint32(each.index),
					State:   QueueMemberState(each.state),
					PID:     int32(each.pid),
					UID:     uint32(each.uid),
					Waiting: uint64(each.waiting),
					Asleep:  each.asleep != 0,
					Self:    each.self != 0,
				}
			},
		)
	})
}

// Send sends a message to one of the processes that receive from the queue, this process included.
// If the capacity of this member is used up, Send waits for room. After a failure nothing was sent,
// and the call can be repeated. Lent storages stay valid for the receiver after everything in this
// process is closed. If ctx is already done, Send returns before it begins.
func (q *Queue) Send(ctx context.Context, message *Message) error {
	if err := ended(ctx); err != nil {
		return err
	}
	// Try without waiting first. That mostly succeeds.
	if err := q.TrySend(message); err != ErrWouldBlock {
		return err
	}
	return q.awaitRoom(ctx, func() error { return q.TrySend(message) })
}

// awaitRoom calls try until it has found room, or ctx ends.
func (q *Queue) awaitRoom(ctx context.Context, try func() error) error {
	queue, err := q.begin()
	if err != nil {
		return err
	}
	defer q.end()
	return q.room.await(ctx, queue, func() (int, error) {
		var fd C.int
		var failure *C.tenon_error
		status := C.tenon_go_queue_send_fd(queue, &fd, &failure)
		return queueFD(fd, status, failure)
	}, try)
}

// SendMany sends messages in their order, and waits until all are sent. If ctx ends or another
// error comes before that, it returns how many it sent, and the error.
func (q *Queue) SendMany(ctx context.Context, messages []*Message) (int, error) {
	if err := ended(ctx); err != nil {
		return 0, err
	}
	queue, err := q.begin()
	if err != nil {
		return 0, err
	}
	defer q.end()
	all := make([]*C.tenon_message, len(messages))
	for i, message := range messages {
		if message == nil {
			return 0, invalid("a message is nil")
		}
		if all[i], err = message.begin(); err != nil {
			return 0, err
		}
		defer message.end()
	}
	sent := 0
	try := func() error {
		for sent < len(all) {
			var n C.size_t
			var failure *C.tenon_error
			status := C.tenon_go_queue_send_many_now(
				queue, &all[sent], C.size_t(len(all)-sent), &n, &failure,
			)
			if status == C.TENON_WOULD_BLOCK {
				return ErrWouldBlock
			}
			if status != C.TENON_OK {
				return takeError(status, failure)
			}
			sent += int(n)
		}
		return nil
	}
	if err = try(); err == ErrWouldBlock {
		err = q.awaitRoom(ctx, try)
	}
	return sent, err
}

// TrySend sends as Send does, but does not wait. ErrWouldBlock means that there is no room.
func (q *Queue) TrySend(message *Message) error {
	if message == nil {
		return invalid("the message is nil")
	}
	queue, err := q.begin()
	if err != nil {
		return err
	}
	defer q.end()
	sent, err := message.begin()
	if err != nil {
		return err
	}
	defer message.end()
	var failure *C.tenon_error
	switch status := C.tenon_go_queue_send_now(queue, sent, &failure); status {
	case C.TENON_OK:
		return nil
	case C.TENON_WOULD_BLOCK:
		return ErrWouldBlock
	default:
		return takeError(status, failure)
	}
}

// Recv receives a message, which the caller closes. If ctx ends first, nothing is lost. If ctx is
// already done, Recv returns before it begins.
func (q *Queue) Recv(ctx context.Context) (*Message, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	message, _, err := q.tryRecv()
	if err == ErrWouldBlock {
		err = q.awaitMessage(ctx, func() (stalled C.int64_t, err error) {
			message, stalled, err = q.tryRecv()
			return stalled, err
		})
	}
	return message, err
}

// awaitMessage calls try until it has received something, or ctx ends.
func (q *Queue) awaitMessage(ctx context.Context, try func() (C.int64_t, error)) error {
	queue, err := q.begin()
	if err != nil {
		return err
	}
	defer q.end()
	var stalled C.int64_t
	err = q.messages.await(ctx, queue, func() (int, error) {
		var fd C.int
		var failure *C.tenon_error
		status := C.tenon_go_queue_recv_fd(queue, &fd, &failure)
		return queueFD(fd, status, failure)
	}, func() (err error) {
		stalled, err = try()
		return err
	})
	if over := new(Error); stalled != 0 && errors.As(err, &over) {
		// A message waits for its sender, which does not answer.
		over.Details = map[string]string{"pid": strconv.FormatInt(int64(stalled), 10)}
	}
	return err
}

func queueFD(fd C.int, status C.tenon_status, failure *C.tenon_error) (int, error) {
	if status != C.TENON_OK {
		return -1, takeError(status, failure)
	}
	if fd < 0 {
		return -1, &Error{Code: ErrResourceExhausted, Message: "no fd is left to wait for a queue"}
	}
	return int(fd), nil
}

// RecvMany receives up to most messages, which the caller closes: it waits for the first one, and
// then takes those that are there. An error that comes after the first message is the result of the
// next receive. If ctx ends first, nothing is lost.
func (q *Queue) RecvMany(ctx context.Context, most int) ([]*Message, error) {
	if most <= 0 {
		return nil, invalid("the number of messages is not positive")
	}
	if err := ended(ctx); err != nil {
		return nil, err
	}
	messages, _, err := q.tryRecvMany(most)
	if err == ErrWouldBlock {
		err = q.awaitMessage(ctx, func() (stalled C.int64_t, err error) {
			messages, stalled, err = q.tryRecvMany(most)
			return stalled, err
		})
	}
	return messages, err
}

func (q *Queue) tryRecvMany(most int) (messages []*Message, stalled C.int64_t, err error) {
	queue, err := q.begin()
	if err != nil {
		return nil, 0, err
	}
	defer q.end()
	if message := q.kept.take(); message != nil {
		return []*Message{message}, 0, nil
	}
	out := make([]*C.tenon_message, min(most, 256))
	var n C.size_t
	var failure *C.tenon_error
	switch status := C.tenon_go_queue_recv_many_now(
		queue, &out[0], C.size_t(len(out)), &n, &stalled, &failure,
	); status {
	case C.TENON_OK:
	case C.TENON_WOULD_BLOCK:
		return nil, stalled, ErrWouldBlock
	default:
		return nil, 0, takeError(status, failure)
	}
	messages = make([]*Message, n)
	for i := range messages {
		messages[i] = newMessage(out[i])
	}
	return messages, 0, nil
}

// TryRecv receives as Recv does, but does not wait for a message. ErrWouldBlock means that there is
// no message. The first message of a sender takes an exchange with the sender, for which TryRecv
// waits up to 20 ms.
func (q *Queue) TryRecv() (*Message, error) {
	message, _, err := q.tryRecv()
	return message, err
}

// tryRecv is TryRecv. stalled is the process that does not answer for its message, or 0.
func (q *Queue) tryRecv() (message *Message, stalled C.int64_t, err error) {
	queue, err := q.begin()
	if err != nil {
		return nil, 0, err
	}
	defer q.end()
	if message := q.kept.take(); message != nil {
		return message, 0, nil
	}
	var out *C.tenon_message
	var failure *C.tenon_error
	status := C.tenon_go_queue_recv_now(queue, &out, &stalled, &failure)
	message, err = received(status, out, failure)
	if err != ErrWouldBlock {
		stalled = 0
	}
	return message, stalled, err
}

// Received is what one receive gave: a message, which the receiver of the channel closes, or the
// error of the receive.
type Received struct {
	Message *Message
	Err     error
}

// Messages receives in a goroutine of its own, and gives the results by a channel. The goroutine
// ends, and closes the channel, when ctx ends or the queue is closed. The channel has no buffer, so
// the goroutine holds one result at most. If it holds a message when ctx ends, it may close the
// channel without sending the message. Then the next Recv, TryRecv or Messages of this Queue gives
// that message. A Recv that already waits does not. If it holds a message when the queue is closed,
// the message is closed too.
//
// Errors after which the queue goes on, such as the death of a member, are results like any other.
// Any other error is the last result, for example ErrInvalidArgument after Leave. After
// ErrResourceExhausted the message is still there: make room, and call Messages again.
func (q *Queue) Messages(ctx context.Context) <-chan Received {
	return giveReceived(ctx, q.Recv, queueGoesOn, q.closed(), q.keep)
}

func (q *Queue) keep(message *Message) { q.kept.put(message) }

// giveReceived calls recv in a goroutine of its own, and gives the results by a channel, until ctx
// ends, closed is closed or an error comes after which it does not go on. A message that the
// goroutine holds then goes to keep.
func giveReceived(
	ctx context.Context,
	recv func(ctx context.Context) (*Message, error),
	goesOn func(err error) bool,
	closed <-chan struct{},
	keep func(message *Message),
) <-chan Received {
	results := make(chan Received)
	go func() {
		defer close(results)
		for {
			message, err := recv(ctx)
			if _, hasDeadline := ctx.Deadline(); hasDeadline && errors.Is(err, ErrTimeout) {
				<-ctx.Done() // the library's clock was a moment before the context's
			}
			if errors.Is(err, ErrClosed) || err != nil && ctx.Err() != nil {
				return
			}
			select {
			case results <- Received{message, err}:
				if err != nil && !goesOn(err) {
					return
				}
				continue
			case <-ctx.Done():
			case <-closed:
			}
			if message != nil {
				keep(message)
			}
			return
		}
	}()
	return results
}

// closed gives a channel that Close closes.
func (q *Queue) closed() <-chan struct{} {
	if q == nil {
		return nil
	}
	return q.closing
}

// queueGoesOn says whether the next receive may give something else than this error of the last
// one, without a change by the program.
func queueGoesOn(err error) bool {
	var code Code
	if !errors.As(err, &code) {
		return false
	}
	switch code {
	case ErrPeerGone, ErrNotFound, ErrCorrupt, ErrIncompatible:
		return true
	}
	return false
}

// SendFrom sends the messages of a channel until the channel is closed, and closes each message
// that was sent. If ctx ends, the queue is closed or a send fails, the result is the error and the
// message that was not sent, which the caller closes or sends again. The message is nil if there
// was none at that moment. The death of a member is such an error too. Call SendFrom again to go
// on, or set QueueOptions.IgnoreDeaths.
func (q *Queue) SendFrom(ctx context.Context, messages <-chan *Message) (*Message, error) {
	for {
		select {
		case message, open := <-messages:
			if !open {
				return nil, nil
			}
			if err := q.Send(ctx, message); err != nil {
				return message, err
			}
			message.Close()
		case <-ctx.Done():
			return nil, ended(ctx)
		case <-q.closed():
			return nil, closedError(kindNames[kindQueue])
		}
	}
}

// keptMessages are the messages that goroutines of Messages had received when their context ended.
type keptMessages struct {
	mutex  sync.Mutex
	all    []*Message
	closed bool
}

func (k *keptMessages) put(message *Message) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.closed {
		message.Close()
		return
	}
	k.all = append(k.all, message)
}

func (k *keptMessages) take() *Message {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if len(k.all) == 0 {
		return nil
	}
	message := k.all[0]
	k.all = k.all[1:]
	return message
}

func (k *keptMessages) close() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.closed = true
	for _, message := range k.all {
		message.Close()
	}
	k.all = nil
}
