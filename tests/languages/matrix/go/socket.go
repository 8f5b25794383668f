package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"libtenon/tenon"
)

// socket is one connection: one of Tenon's, or a bare socket.
type socket struct {
	tenon *tenon.Connection
	raw   int
}

func (s *socket) close() {
	if s.tenon != nil {
		s.tenon.Close()
	} else {
		syscall.Close(s.raw)
	}
}

func newSocket() (int, error) {
	return syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
}

func (p *peer) listen(words []string) (string, error) {
	fd, err := newSocket()
	if err != nil {
		return "", err
	}
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: words[0]}); err != nil {
		return "", err
	}
	p.listener = fd
	return "", syscall.Listen(fd, 16)
}

func (p *peer) accept(words []string) (string, error) {
	if err := impatient(p.listener); err != nil {
		return "", err
	}
	fd, err := again(func() (int, error) {
		fd, _, err := syscall.Accept4(p.listener, syscall.SOCK_CLOEXEC)
		return fd, err
	})
	if err != nil {
		return "", err
	}
	return "", p.put(words[0], words[1], fd)
}

func (p *peer) connect(words []string) (string, error) {
	fd, err := newSocket()
	if err != nil {
		return "", err
	}
	_, err = again(
		func() (int, error) {
			return 0, syscall.Connect(fd, &syscall.SockaddrUnix{Name: words[2]})
		},
	)
	if err != nil {
		syscall.Close(fd)
		return "", err
	}
	return "", p.put(words[0], words[1], fd)
}

func (p *peer) put(name, kind string, fd int) error {
	switch kind {
	case "raw":
		p.sockets[name] = &socket{raw: fd}
		return impatient(fd)
	case "tenon":
		file := os.NewFile(uintptr(fd), "socket")
		defer file.Close()
		connection, err := tenon.ConnectionOn(file, nil)
		if err != nil {
			return err
		}
		p.sockets[name] = &socket{tenon: connection}
		return nil
	}
	syscall.Close(fd)
	return fmt.Errorf("no kind %s of connection", kind)
}

// impatient bounds every later wait on a socket.
func impatient(fd int) error {
	limit := syscall.NsecToTimeval(patience.Nanoseconds())
	return syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit)
}

func (p *peer) wait(words []string) (string, error) {
	s := p.sockets[words[0]]
	if s.tenon != nil {
		ctx, cancel := soon()
		defer cancel()
		message, err := s.tenon.Recv(ctx)
		if err != nil {
			return "", err
		}
		return "", message.Close()
	}
	n, err := again(func() (int, error) { return syscall.Read(s.raw, make([]byte, 1)) })
	return "", ended(n, err)
}

// again repeats a call that a signal has interrupted. Go's runtime sends many signals.
func again(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != syscall.EINTR {
			return n, err
		}
	}
}

// ended turns the end of a bare socket into the error that Tenon gives for its own.
func ended(n int, err error) error {
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return &tenon.Error{Code: tenon.ErrTimeout, Message: "nothing came"}
	case errors.Is(err, syscall.ECONNRESET), err == nil && n == 0:
		return &tenon.Error{Code: tenon.ErrPeerGone, Message: "the other end is gone"}
	}
	return err
}

func (p *peer) close(words []string) (string, error) {
	p.sockets[words[0]].close()
	delete(p.sockets, words[0])
	return "", nil
}

func sendFD(raw, fd int) error { return sendFDs(raw, []int{fd}) }

// sendFDs sends one byte and the fds, of which there may be none.
func sendFDs(raw int, fds []int) error {
	var rights []byte
	if len(fds) != 0 {
		rights = syscall.UnixRights(fds...)
	}
	_, err := again(func() (int, error) {
		return 0, syscall.Sendmsg(raw, []byte("*"), rights, nil, syscall.MSG_NOSIGNAL)
	})
	return err
}

func receiveFD(raw int) (*os.File, error) {
	fds, err := receiveFDs(raw)
	if err != nil {
		return nil, err
	}
	if len(fds) != 1 {
		return nil, fmt.Errorf("%d fds came with a byte", len(fds))
	}
	return os.NewFile(uintptr(fds[0]), "segment"), nil
}

func receiveFDs(raw int) ([]int, error) {
	const most = 253 // the kernel's
	room := make([]byte, syscall.CmsgSpace(4*most))
	var control int
	n, err := again(func() (n int, err error) {
		n, control, _, _, err = syscall.Recvmsg(
			raw,
			make([]byte, 1),
			room,
			syscall.MSG_CMSG_CLOEXEC,
		)
		return n, err
	})
	if err := ended(n, err); err != nil {
		return nil, err
	}
	messages, err := syscall.ParseSocketControlMessage(room[:control])
	if err != nil || len(messages) == 0 {
		return nil, err
	}
	return syscall.ParseUnixRights(&messages[0])
}
