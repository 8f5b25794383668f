// Tests with other processes: lends by connection and by name, and lenders that are killed.

package tenon_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"libtenon/tenon"
)

func init() {
	roles["add"] = func() error { return withParent(addOne) }
	roles["wait"] = func() error {
		return withParent(func(c *tenon.Connection) error { select {} })
	}
	roles["fd"] = openFD
	roles["name"] = openName
	roles["lend"] = lendAndWait
	roles["named file"] = takeNamedFile
}

func withParent(use func(c *tenon.Connection) error) error {
	c, err := parent()
	if err != nil {
		return err
	}
	defer c.Close()
	return use(c)
}

// addOne adds 1 to every element of every tensor of every message, and says so.
func addOne(c *tenon.Connection) error {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for {
		m, err := c.Recv(ctx)
		if errors.Is(err, tenon.ErrPeerGone) {
			return nil
		} else if err != nil {
			return err
		}
		views, err := m.Views()
		if err != nil {
			return err
		}
		refusals := 0
		for _, view := range views {
			err := tenon.With(view, func(values []float32) error {
				for i := range values {
					values[i]++
				}
				return nil
			})
			if errors.Is(err, tenon.ErrPermission) {
				refusals++
			} else if err != nil {
				return err
			}
		}
		m.Close()
		answer, err := tenon.NewMessage()
		if err != nil {
			return err
		}
		if err := answer.SetUserBytes([]byte(strconv.Itoa(refusals))); err != nil {
			return err
		}
		if err := c.Send(ctx, answer); err != nil {
			return err
		}
		answer.Close()
	}
}

func TestAnotherProcess(t *testing.T) {
	nothingLeft(t)
	ctx := background(t)
	command, c := start(t, "add")
	for round := range 3 {
		m := must(tenon.NewMessage())
		tensor, frozen := floats(
			t,
			1000,
			nil,
		), floats(
			t,
			10,
			&tenon.StorageOptions{Mode: tenon.Frozen},
		)
		lenders := floats(t, 10, &tenon.StorageOptions{Mode: tenon.LenderWrites})
		check(t, m.AddAll(nil, []*tenon.Tensor{tensor, frozen, lenders, tensor}, nil))
		check(t, c.Send(ctx, m))
		m.Close()
		answer := must(c.Recv(ctx))
		if string(answer.UserBytes()) != "2" {
			t.Errorf("round %d: %s writes were refused", round, answer.UserBytes())
		}
		answer.Close()
		values := must(tenon.Slice[float32](tensor))
		if values[999] != 999+2 || must(tenon.ReadOnlySlice[float32](frozen))[9] != 9 {
			t.Error("the other process wrote something else: ", values[999])
		}
		tensor.Close()
		frozen.Close()
		lenders.Close()
	}
	c.Close()
	check(t, command.Wait())
}

// takeNamedFile gets the same message over two connections. One of them accepts named files, and
// the other one does not.
func takeNamedFile() error {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	// A Go program ends without atexit. Without this call the file would still count it as a
	// holder.
	defer tenon.FilenameLeave()
	defer tenon.Trim()
	plain, err := parent()
	if err != nil {
		return err
	}
	defer plain.Close()
	if _, err := plain.Recv(ctx); !errors.Is(err, tenon.ErrPermission) {
		return fmt.Errorf("a named file was taken unasked: %v", err)
	}
	asked, err := tenon.NewConnection(4, &tenon.ConnectionOptions{NamedFiles: true})
	if err != nil {
		return err
	}
	defer asked.Close()
	m, err := asked.Recv(ctx)
	if err != nil {
		return err
	}
	m.Close()
	return nil
}

func TestNamedFile(t *testing.T) { inOwnProcess(t, lendNamedFile) }

func lendNamedFile(t *testing.T, path string) {
	ctx := background(t)
	storage := must(
		tenon.NewStorageFilename(4000, &tenon.FilenameOptions{Directory: path, Name: "weights"}),
	)
	defer storage.Close()
	tensor := must(tenon.NewTensor(storage, tenon.Spec{DType: tenon.Float32, Sizes: []int64{1000}}))
	defer tensor.Close()
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	check(t, err)
	theirs := os.NewFile(uintptr(ends[1]), "theirs")
	command, plain := startWith(t, "named file", theirs)
	theirs.Close()
	asked := must(tenon.ConnectionOn(os.NewFile(uintptr(ends[0]), "ours"), nil))
	defer asked.Close()
	for _, c := range []*tenon.Connection{plain, asked} {
		m := must(tenon.NewMessage(tensor))
		check(t, c.Send(ctx, m))
		m.Close()
	}
	check(t, command.Wait())
}

func TestPeerKilled(t *testing.T) {
	nothingLeft(t)
	ctx := background(t)
	command, c := start(t, "wait")
	ended := make(chan error)
	go func() {
		_, err := c.Recv(ctx)
		ended <- err
	}()
	check(t, command.Process.Kill())
	if err := <-ended; !errors.Is(err, tenon.ErrPeerGone) {
		t.Error(err)
	}
	command.Wait()
	m := must(tenon.NewMessage(floats(t, 10, nil)))
	defer m.Close()
	if err := c.Send(ctx, m); !errors.Is(err, tenon.ErrPeerGone) {
		t.Error(err)
	}
}

func lendAndWait() error {
	return withParent(func(c *tenon.Connection) error {
		tensor, err := tenon.FromSlice([]float32{1, 2, 3}, []int64{3}, nil)
		if err != nil {
			return err
		}
		m, err := tenon.NewMessage(tensor)
		if err != nil {
			return err
		}
		if err := c.Send(context.Background(), m); err != nil {
			return err
		}
		select {}
	})
}

// Borrowed memory stays valid after its lender is killed.
func TestLenderKilled(t *testing.T) {
	nothingLeft(t)
	ctx := background(t)
	command, c := start(t, "lend")
	m := must(c.Recv(ctx))
	defer m.Close()
	command.Process.Kill()
	if _, err := c.Recv(ctx); !errors.Is(err, tenon.ErrPeerGone) {
		t.Error(err)
	}
	if must(tenon.Slice[float32](must(m.Views())[0]))[2] != 3 {
		t.Error("the memory went with its lender")
	}
}

// A connection drops the memory of a dead lender.
func TestLenderKilledAndDropped(t *testing.T) {
	nothingLeft(t)
	ctx := background(t)
	command, c := startConnected(
		t,
		"lend",
		nil,
		&tenon.ConnectionOptions{OnLenderGone: tenon.DropLent},
	)
	m := must(c.Recv(ctx))
	defer m.Close()
	tensor := must(m.Tensor(0))
	defer tensor.Close()
	storage := must(tensor.Storage())
	defer storage.Close()
	before := must(tenon.Slice[float32](tensor))
	if fd := must(c.GoneFD()); fd < 0 {
		t.Error(fd)
	}
	command.Process.Kill()
	for i := 0; i < 10_000; i++ {
		if _, err := storage.ReadOnlyBytes(); err != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if before[2] != 3 {
		t.Error("the memory went before its last view")
	}
	_, ofBytes := storage.Bytes()
	_, ofReadOnlyBytes := storage.ReadOnlyBytes()
	_, ofSlice := tenon.Slice[float32](tensor)
	_, ofMessage := tenon.NewMessage(tensor)
	_, ofRecv := c.Recv(ctx)
	for i, err := range []error{ofBytes, ofReadOnlyBytes, ofSlice, ofMessage, ofRecv} {
		if !errors.Is(err, tenon.ErrPeerGone) {
			t.Error(i, err)
		}
	}
}

func openFD() error {
	offset, err := strconv.ParseUint(os.Getenv("TENON_GO_TEST_OFFSET"), 10, 64)
	if err != nil {
		return err
	}
	file := os.NewFile(4, "segment")
	s, err := tenon.OpenFD(&tenon.FDHandle{File: file, Offset: offset, NBytes: 40}, nil)
	if err != nil {
		return err
	}
	file.Close()
	return s.WithBytes(func(data []byte) error {
		copy(data, "by fd")
		return nil
	})
}

func TestShareFD(t *testing.T) {
	nothingLeft(t)
	tensor := floats(t, 10, nil)
	storage := must(tensor.Storage())
	defer storage.Close()
	handle := must(storage.ShareFD(&tenon.ShareOptions{Access: tenon.AccessWritable}))
	defer handle.Close()
	same := must(tenon.OpenFD(handle, nil))
	if same.ID() != storage.ID() || handle.NBytes != 40 || handle.Access != tenon.AccessWritable {
		t.Error("not the same storage")
	}
	same.Close()
	copied := must(tenon.OpenFD(handle, &tenon.OpenOptions{PrivateCopy: true}))
	if copied.IsShared() || copied.SameMemory(storage) {
		t.Error("not a private copy")
	}
	copied.Close()
	command, c := startWith(
		t,
		"fd",
		handle.File,
		fmt.Sprint("TENON_GO_TEST_OFFSET=", handle.Offset),
	)
	if _, err := c.Recv(background(t)); !errors.Is(err, tenon.ErrPeerGone) {
		t.Error(err)
	}
	check(t, command.Wait())
	if data := must(storage.Bytes()); string(data[:5]) != "by fd" {
		t.Error("the other process wrote elsewhere")
	}
	if _, err := storage.ShareFD(&tenon.ShareOptions{Access: tenon.AccessReadOnly}); !errors.Is(
		err,
		tenon.ErrPermission,
	) {
		t.Error(err)
	}
	empty := must(tenon.NewStorage(0, nil))
	defer empty.Close()
	nothing := must(empty.ShareFD(nil))
	if nothing.File != nil {
		t.Error("an empty storage has no fd")
	}
	check(t, nothing.Close())
	must(tenon.OpenFD(nothing, nil)).Close()
}

func openName() error {
	handle := tenon.FilenameHandle{Name: os.Getenv("TENON_GO_TEST_NAME"), NBytes: 4000}
	if offset := os.Getenv("TENON_GO_TEST_OFFSET"); offset != "" {
		handle.Offset, _ = strconv.ParseUint(offset, 10, 64)
	}
	s, err := tenon.OpenFilename(
		context.Background(),
		handle,
		&tenon.OpenOptions{AllowUnsealed: true},
	)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.WithBytes(func(data []byte) error {
		copy(data, "by name")
		return nil
	})
}
