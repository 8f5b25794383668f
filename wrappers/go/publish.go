// Publishers and subscribers: one process publishes messages, and each of them reaches every
// subscriber.

package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_publisher_subscribers
// #cgo nocallback tenon_publisher_subscribers
// #cgo noescape tenon_publisher_stats_get
// #cgo nocallback tenon_publisher_stats_get
// #cgo noescape tenon_subscriber_stats_get
// #cgo nocallback tenon_subscriber_stats_get
// #cgo noescape tenon_go_subscriber_recv_now
import "C"

import (
	"context"
	"errors"
	"syscall"
	"unsafe"
)

// PublishPolicy says what Publish does when a subscriber has no room for another message.
type PublishPolicy uint32

const (
	// PublishBlock is the default: Publish waits until every subscriber has room.
	PublishBlock PublishPolicy = C.TENON_PUBLISH_BLOCK
	// PublishDropOldest withdraws the oldest message that the subscriber has not taken, and never
	// waits. If a subscriber has not read its socket for so long that the socket is full, a message
	// that needs the socket does not reach this subscriber.
	PublishDropOldest PublishPolicy = C.TENON_PUBLISH_DROP_OLDEST
	// PublishError fails with ErrResourceExhausted, and no subscriber gets the message.
	PublishError PublishPolicy = C.TENON_PUBLISH_ERROR
)

// PublisherOptions say how to make a publisher. Nil and the zero value mean the library's defaults.
type PublisherOptions struct {
	Policy PublishPolicy
	// How many messages can wait for one subscriber, a power of two up to 65,536. 0 means 64.
	Capacity uint32
	// The bytes of a slot, which holds the description of one message: a multiple of 64, from 64 to
	// 65,536. 0 means 1,024. Each subscriber takes Capacity * SlotBytes bytes.
	SlotBytes      uint32
	MaxSubscribers uint32  // the most subscribers at a time; 0 means 256
	SameUser       bool    // refuse a subscriber whose user is neither this process's nor root
	Group          *uint32 // as SameUser, but accept members of this group (a gid) too
	IgnoreDeaths   bool    // Publish does not report that a subscriber is gone
	// A new subscriber does not get the latest message. Otherwise the publisher keeps its memory.
	ForgetLatest bool
}

func (o *PublisherOptions) c() C.tenon_publisher_options {
	given := C.tenon_publisher_options{struct_size: C.sizeof_tenon_publisher_options}
	if o == nil {
		return given
	}
	given.policy = C.tenon_publish_policy(o.Policy)
	given.capacity = C.uint32_t(o.Capacity)
	given.slot_nbytes = C.uint32_t(o.SlotBytes)
	given.max_subscribers = C.uint32_t(o.MaxSubscribers)
	if o.SameUser {
		given.flags |= C.TENON_PUBLISHER_SAME_USER
	}
	if o.Group != nil {
		given.flags |= C.TENON_PUBLISHER_GROUP
		given.group = C.uint32_t(*o.Group)
	}
	if o.IgnoreDeaths {
		given.flags |= C.TENON_PUBLISHER_IGNORE_DEATHS
	}
	if o.ForgetLatest {
		given.flags |= C.TENON_PUBLISHER_FORGET_LATEST
	}
	return given
}

// PublisherStats are figures about a publisher. They change while they are read.
type PublisherStats struct {
	Published uint64 // messages that were published
	// Messages that subscribers did not get because of PublishDropOldest, of all together.
	Dropped     uint64
	Subscribers uint64 // subscribers now
	// Subscribers that are gone without having left, and that the publisher has removed.
	Gone uint64
}

// SubscriberState says what a subscriber is doing.
type SubscriberState uint32

const (
	SubscriberJoining SubscriberState = C.TENON_SUBSCRIBER_JOINING // it has not read anything yet
	SubscriberHere    SubscriberState = C.TENON_SUBSCRIBER_HERE    // it is a subscriber
	// It has left in order. The next Publish removes it.
	SubscriberLeft SubscriberState = C.TENON_SUBSCRIBER_LEFT
	// It is gone. The next Publish removes and reports it.
	SubscriberGone SubscriberState = C.TENON_SUBSCRIBER_GONE
)

// PublisherSubscriber describes a subscriber, as its publisher sees it.
type PublisherSubscriber struct {
	State SubscriberState
	// The process id, as the kernel told it last: when the socket was connected, or when the
	// subscriber took leases.
	PID       int32
	UID       uint32 // its effective user id
	Asleep    bool   // it sleeps until there is a message
	Waiting   uint64 // messages that it has not taken
	Published uint64 // messages that were published since it came, also those that it did not get
	Dropped   uint64 // how many of these were withdrawn before it took them
}

// Publisher sends messages to all its subscribers. A subscriber receives them in the order in which
// they were published. Publishes wait for each other. Any goroutine may use a Publisher.
//
// When a subscriber is gone, one Publish gives ErrPeerGone, whose detail "pid" names its process.
// No subscriber gets that message: publish it again.
type Publisher struct {
	handle
	waits waits
}

// NewPublisher makes a publisher without subscribers.
func NewPublisher(options *PublisherOptions) (*Publisher, error) {
	collect()
	given := options.c()
	var out *C.tenon_publisher
	var failure *C.tenon_error
	if status := C.tenon_publisher_new(&given, &out, &failure); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	p := new(Publisher)
	p.own(kindPublisher, unsafe.Pointer(out))
	p.waits.of = kindPublisher
	return p, nil
}

func (p *Publisher) begin() (*C.tenon_publisher, error) {
	if p == nil {
		return nil, invalid("the publisher is nil")
	}
	pointer, err := p.acquire()
	return (*C.tenon_publisher)(pointer), err
}

func (p *Publisher) end() { p.release() }

// Close ends the publisher and removes the sockets on which it listens. Calls that wait in other
// goroutines end with ErrClosed. Subscribers still receive what was published, and then
// ErrPeerGone. A second Close does nothing. Close never fails.
func (p *Publisher) Close() error {
	if p != nil && p.close() {
		p.waits.end()
	}
	return nil
}

// Listen makes a local socket with this path, to which subscribers connect (ConnectSubscriber).
// mode is the permission bits of the socket: who may connect must be able to write to it. 0 means
// 0600, or 0660 with PublisherOptions.Group, which also gives the socket to that group. The socket
// of a process that has ended is replaced. A publisher can have several sockets.
func (p *Publisher) Listen(path string, mode uint32) error {
	text, err := cText("the path", path)
	if err != nil {
		return err
	}
	return run(p, func(pointer *C.tenon_publisher, failure **C.tenon_error) C.tenon_status {
		return C.tenon_publisher_listen(pointer, text, C.uint32_t(mode), failure)
	})
}

// Add takes the process at the other end of a connected AF_UNIX socket as a subscriber. That
// process makes a Subscriber on its end. If Add succeeds, the publisher owns the socket. Without
// PublisherOptions.ForgetLatest the subscriber gets the latest message first.
func (p *Publisher) Add(socket int) error {
	if int(C.int(socket)) != socket {
		socket = -1
	}
	return run(p, func(pointer *C.tenon_publisher, failure **C.tenon_error) C.tenon_status {
		return C.tenon_publisher_add(pointer, C.int(socket), failure)
	})
}

// AddOn is as Add, for the socket of a *net.UnixConn or an *os.File. The publisher has its own copy
// of the fd. The caller may close the original at any time, and must close it so that the
// subscriber notices the end of the publisher.
func (p *Publisher) AddOn(socket syscall.Conn) error {
	copied, err := copySocket(socket)
	if err != nil {
		return err
	}
	if err := p.Add(copied); err != nil {
		syscall.Close(copied)
		return err
	}
	return nil
}

// Publish sends a message to every subscriber. After a failure no subscriber gets the message, and
// the call can be repeated. If ctx ends first, or if PublishError finds no room, the detail "pid"
// names the subscriber that has no room. Lent storages stay valid for the subscribers after
// everything in this process is closed. If ctx is already done, Publish returns before it begins.
func (p *Publisher) Publish(ctx context.Context, message *Message) error {
	if err := ended(ctx); err != nil {
		return err
	}
	// Try without waiting first. That needs no cancel, and mostly succeeds.
	full := p.TryPublish(message)
	if !errors.Is(full, ErrWouldBlock) {
		return full
	}
	publisher, err := p.begin()
	if err != nil {
		return err
	}
	defer p.end()
	sent, err := message.begin()
	if err != nil {
		return err
	}
	defer message.end()
	err = wait(
		ctx,
		&p.waits,
		func(timeout C.int64_t, cancel *C.tenon_cancel, failure **C.tenon_error) C.tenon_status {
			return C.tenon_go_publish(publisher, sent, timeout, cancel, failure)
		},
	)
	// If ctx ended before the library waited, only the first try has named a subscriber.
	var over, named *Error
	if errors.As(err, &over) && over.Details == nil && errors.As(full, &named) &&
		(over.Code == ErrTimeout || over.Code == ErrCancelled) {
		over.Details = named.Details
	}
	return err
}

// TryPublish publishes as Publish does, but does not wait. An error with the code ErrWouldBlock
// means that the subscriber of the detail "pid" has no room.
func (p *Publisher) TryPublish(message *Message) error {
	if message == nil {
		return invalid("the message is nil")
	}
	publisher, err := p.begin()
	if err != nil {
		return err
	}
	defer p.end()
	sent, err := message.begin()
	if err != nil {
		return err
	}
	defer message.end()
	var failure *C.tenon_error
	return check(C.tenon_go_publish(publisher, sent, 0, nil, &failure), &failure)
}

// Remove removes the subscribers of a process, for example one that an error has named as slow.
// They receive what waits for them, and then ErrPeerGone. A Publish that waits for one of them goes
// on. The removal is not reported. ErrNotFound means that no subscriber is of this process.
func (p *Publisher) Remove(pid int32) error {
	return run(p, func(pointer *C.tenon_publisher, failure **C.tenon_error) C.tenon_status {
		return C.tenon_publisher_remove(pointer, C.int32_t(pid), failure)
	})
}

// Subscribers lists the subscribers.
func (p *Publisher) Subscribers() ([]PublisherSubscriber, error) {
	return ask(p, func(pointer *C.tenon_publisher) ([]PublisherSubscriber, error) {
		return takeList(
			C.tenon_publisher_subscriber{struct_size: C.sizeof_tenon_publisher_subscriber},
			func(room listRoom[C.tenon_publisher_subscriber]) C.tenon_status {
				return C.tenon_publisher_subscribers(
					pointer, room.out, room.n, room.total, room.failure,
				)
			},
			func(each *C.tenon_publisher_subscriber) PublisherSubscriber {
				return PublisherSubscriber{
					State:     SubscriberState(each.state),
					PID:       int32(each.pid),
					UID:       uint32(each.uid),
					Asleep:    each.asleep != 0,
					Waiting:   uint64(each.waiting),
					Published: uint64(each.published),
					Dropped:   uint64(each.dropped),
				}
			},
		)
	})
}

// Stats gives the figures of this moment.
func (p *Publisher) Stats() (PublisherStats, error) {
	return ask(p, func(pointer *C.tenon_publisher) (PublisherStats, error) {
		out := C.tenon_publisher_stats{struct_size: C.sizeof_tenon_publisher_stats}
		var failure *C.tenon_error
		if status := C.tenon_publisher_stats_get(pointer, &out, &failure); status != C.TENON_OK {
			return PublisherStats{}, takeError(status, failure)
		}
		return PublisherStats{
			Published:   uint64(out.published),
			Dropped:     uint64(out.dropped),
			Subscribers: uint64(out.subscribers),
			Gone:        uint64(out.gone),
		}, nil
	})
}

// SubscriberStats are figures about a subscriber. They change while they are read.
type SubscriberStats struct {
	Received uint64 // messages that it has received
	Dropped  uint64 // messages that the publisher withdrew before this subscriber took them
	PID      int32  // the publisher's process id, as in Peer
	UID      uint32 // the publisher's effective user id
}

// Subscriber receives what one publisher sends. Receives wait for each other. Any goroutine may use
// a Subscriber.
type Subscriber struct {
	handle
	waits   waits
	kept    keptMessages
	closing chan struct{} // closed by Close
}

// NewSubscriber makes a subscriber on one end of a socket, whose other end the publisher takes or
// has taken (Publisher.Add). The socket stays open when the subscriber is closed. A subscriber
// always has a ring, so ConnectionOptions.Ring is ErrUnsupported.
func NewSubscriber(socket int, options *ConnectionOptions) (*Subscriber, error) {
	return subscribe(socket, options, 0)
}

// SubscriberOn makes a subscriber on the socket of a *net.UnixConn or an *os.File. The subscriber
// has its own copy of the fd, which is closed with it. The caller may close the original at any
// time, and must close it so that the publisher notices the end of the subscriber.
func SubscriberOn(socket syscall.Conn, options *ConnectionOptions) (*Subscriber, error) {
	copied, err := copySocket(socket)
	if err != nil {
		return nil, err
	}
	s, err := subscribe(copied, options, C.TENON_CONNECTION_ADOPT_SOCKET)
	if err != nil {
		syscall.Close(copied)
	}
	return s, err
}

func subscribe(socket int, options *ConnectionOptions, flags C.uint32_t) (*Subscriber, error) {
	collect()
	given := options.c(flags)
	if int(C.int(socket)) != socket {
		socket = -1
	}
	var out *C.tenon_subscriber
	var failure *C.tenon_error
	if status := C.tenon_subscriber_new(
		C.int(socket), &given, &out, &failure,
	); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	return newSubscriber(out), nil
}

// ConnectSubscriber connects to the socket of a publisher (Publisher.Listen), and waits until the
// publisher has taken this subscriber. Every message that is published after this call reaches it,
// and the latest one before comes first.
func ConnectSubscriber(
	ctx context.Context, path string, options *ConnectionOptions,
) (*Subscriber, error) {
	text, err := cText("the path", path)
	if err != nil {
		return nil, err
	}
	given := options.c(0)
	return waitFor(
		ctx,
		newSubscriber,
		func(w waiting[*C.tenon_subscriber]) C.tenon_status {
			return C.tenon_go_subscriber_connect(
				text, &given, w.timeout, w.cancel, w.out, w.failure,
			)
		},
	)
}

func newSubscriber(pointer *C.tenon_subscriber) *Subscriber {
	s := new(Subscriber)
	s.own(kindSubscriber, unsafe.Pointer(pointer))
	s.waits.of = kindSubscriber
	s.closing = make(chan struct{})
	return s
}

func (s *Subscriber) begin() (*C.tenon_subscriber, error) {
	if s == nil {
		return nil, invalid("the subscriber is nil")
	}
	pointer, err := s.acquire()
	return (*C.tenon_subscriber)(pointer), err
}

func (s *Subscriber) end() { s.release() }

// Close leaves the publisher in order. Calls that wait in other goroutines end with ErrClosed.
// Received storages stay valid. A second Close does nothing. Close never fails.
func (s *Subscriber) Close() error {
	if s != nil && s.close() {
		s.waits.end()
		if s.closing != nil { // it is nil in a zero value
			close(s.closing)
		}
		s.kept.close()
	}
	return nil
}

// FD returns the socket, for polling, until the subscriber is closed. When the socket is readable,
// call TryRecv until it returns ErrWouldBlock. Call it so before the first poll too, because the fd
// does not become readable for a message that comes before such a call has found nothing. FD
// returns -1 for a closed subscriber.
func (s *Subscriber) FD() int {
	subscriber, err := s.begin()
	if err != nil {
		return -1
	}
	defer s.end()
	return int(C.tenon_subscriber_fd(subscriber))
}

// Stats gives the figures of this moment.
func (s *Subscriber) Stats() (SubscriberStats, error) {
	return ask(s, func(pointer *C.tenon_subscriber) (SubscriberStats, error) {
		out := C.tenon_subscriber_stats{struct_size: C.sizeof_tenon_subscriber_stats}
		var failure *C.tenon_error
		if status := C.tenon_subscriber_stats_get(pointer, &out, &failure); status != C.TENON_OK {
			return SubscriberStats{}, takeError(status, failure)
		}
		return SubscriberStats{
			Received: uint64(out.received),
			Dropped:  uint64(out.dropped),
			PID:      int32(out.pid),
			UID:      uint32(out.uid),
		}, nil
	})
}

// Recv receives the next message, which the caller closes. ErrPeerGone means that the publisher is
// gone, and that all that it published is received. The detail "pid" names its process. If ctx ends
// first, nothing is lost. If ctx is already done, Recv returns before it begins.
func (s *Subscriber) Recv(ctx context.Context) (*Message, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	if message, err := s.TryRecv(); err != ErrWouldBlock {
		return message, err
	}
	subscriber, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer s.end()
	var out *C.tenon_message
	err = wait(
		ctx,
		&s.waits,
		func(timeout C.int64_t, cancel *C.tenon_cancel, failure **C.tenon_error) C.tenon_status {
			return C.tenon_go_subscriber_recv(subscriber, timeout, cancel, &out, failure)
		},
	)
	if err != nil {
		return nil, err
	}
	return newMessage(out), nil
}

// TryRecv receives as Recv does, but does not wait. ErrWouldBlock means that there is no message.
func (s *Subscriber) TryRecv() (*Message, error) {
	subscriber, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer s.end()
	if message := s.kept.take(); message != nil {
		return message, nil
	}
	var out *C.tenon_message
	var failure *C.tenon_error
	status := C.tenon_go_subscriber_recv_now(subscriber, &out, &failure)
	return received(status, out, failure)
}

// Messages receives in a goroutine of its own, and gives the results by a channel, as
// Queue.Messages does. The goroutine ends, and closes the channel, when ctx ends or the subscriber
// is closed. If it holds a message when ctx ends, the next Recv, TryRecv or Messages of this
// Subscriber gives that message. An error is the last result, for example ErrPeerGone when the
// publisher is gone. If the error concerns one message only, call Messages again.
func (s *Subscriber) Messages(ctx context.Context) <-chan Received {
	var closed <-chan struct{}
	if s != nil {
		closed = s.closing
	}
	goesOn := func(error) bool { return false }
	return giveReceived(ctx, s.Recv, goesOn, closed, func(m *Message) { s.kept.put(m) })
}
