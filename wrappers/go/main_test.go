// Helpers of all tests: checks for leaks, and other processes.

package tenon_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"libtenon/tenon"
)

// A helper process is this program again. The environment variable says which role it has.
const roleVariable = "TENON_GO_TEST_ROLE"

var roles = map[string]func() error{}

func TestMain(m *testing.M) {
	if name := os.Getenv(roleVariable); name != "" {
		if err := roles[name](); err != nil {
			fmt.Fprintln(os.Stderr, name+":", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// The runtime opens some fds once, such as those of its poller. It opens them here, so that no
	// test counts them.
	if listener, err := net.Listen("unix", ""); err == nil {
		listener.Close()
	}
	// The library's thread keeps some fds too, from the first lend on.
	must(tenon.NewArena(&tenon.ArenaOptions{Capacity: 4096, PrefaultBytes: 1})).Close()
	os.Exit(m.Run())
}

// must is for calls that a test needs. A panic shows the line as well as t.Fatal does.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// held is what a process holds of the library and of the kernel.
type held struct {
	storages, segments, segmentFDs uint64
	fds                            int
	maps                           int
}

func hold(t testing.TB) held {
	t.Helper()
	tenon.Trim()
	stats := must(tenon.GetStats())
	fds, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	maps, err := os.ReadFile("/proc/self/maps")
	check(t, err)
	return held{
		stats.Storages,
		stats.Segments,
		stats.SegmentFDs,
		len(fds),
		strings.Count(string(maps), "tenon"),
	}
}

// nothingLeft fails the test if more is held after it than before. Cleanups run some time after a
// collection.
func nothingLeft(t testing.TB) {
	t.Helper()
	before := settled(t, nil)
	t.Cleanup(func() {
		if after := settled(t, &before); after.isMoreThan(before) {
			t.Errorf("before: %+v, after: %+v", before, after)
		}
	})
}

// isMoreThan says whether h has more than other has. Holding less is not a leak: a busy machine may
// free memory of an earlier test late.
func (h held) isMoreThan(other held) bool {
	return h.storages > other.storages || h.segments > other.segments ||
		h.segmentFDs > other.segmentFDs ||
		h.fds > other.fds ||
		h.maps > other.maps
}

// settled collects garbage until no more is held than wanted, or until the figures do not change
// any more.
func settled(t testing.TB, wanted *held) held {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	last := hold(t)
	for same := 0; time.Now().Before(deadline); {
		runtime.GC()
		time.Sleep(time.Millisecond)
		now := hold(t)
		if wanted != nil {
			if !now.isMoreThan(*wanted) {
				return now
			}
			last = now
			continue
		}
		if same++; now != last {
			same = 0
		}
		if same == 3 {
			return now
		}
		last = now
	}
	return last
}

// background returns a context that ends before the time of the test is over.
func background(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func pair(t testing.TB) (*tenon.Connection, *tenon.Connection) {
	t.Helper()
	first, second, err := tenon.Pair()
	check(t, err)
	t.Cleanup(func() { first.Close(); second.Close() })
	return first, second
}

// floats makes a tensor of 0, 1, 2, ….
func floats(t testing.TB, n int, options *tenon.StorageOptions) *tenon.Tensor {
	t.Helper()
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i)
	}
	tensor := must(tenon.FromSlice(values, []int64{int64(n)}, options))
	t.Cleanup(func() { tensor.Close() })
	return tensor
}

// start runs this program in another role, with one end of a socket as fd 3.
func start(t testing.TB, role string, environment ...string) (*exec.Cmd, *tenon.Connection) {
	t.Helper()
	return startWith(t, role, nil, environment...)
}

// startWith is as start, and also passes a file as fd 4.
func startWith(
	t testing.TB,
	role string,
	file *os.File,
	environment ...string,
) (*exec.Cmd, *tenon.Connection) {
	t.Helper()
	return startConnected(t, role, file, nil, environment...)
}

// startConnected is as startWith, with options for this process's end of the connection.
func startConnected(t testing.TB, role string, file *os.File, options *tenon.ConnectionOptions,
	environment ...string) (*exec.Cmd, *tenon.Connection) {
	t.Helper()
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	check(t, err)
	ours, theirs := os.NewFile(uintptr(ends[0]), "ours"), os.NewFile(uintptr(ends[1]), "theirs")
	command := exec.Command(os.Args[0], "-test.run=^$")
	command.Env = append(append(os.Environ(), roleVariable+"="+role), environment...)
	command.ExtraFiles = []*os.File{theirs, file}
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	check(t, command.Start())
	theirs.Close()
	connection := must(tenon.ConnectionOn(ours, options))
	ours.Close()
	t.Cleanup(func() {
		connection.Close()
		command.Process.Kill()
		command.Wait()
	})
	return command, connection
}

// parent makes the other end of start's connection.
func parent() (*tenon.Connection, error) { return tenon.NewConnection(3, nil) }

// directory makes a new folder in shared memory, and checks at the end that it is empty.
func directory(t testing.TB) string {
	t.Helper()
	path, err := os.MkdirTemp("/dev/shm", "tenon-go-test-")
	check(t, err)
	t.Cleanup(func() {
		left, _ := filepath.Glob(path + "/*")
		if len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
		os.RemoveAll(path)
	})
	return path
}

// rounds returns a smaller number with -short, for runs in which each call is expensive.
func rounds(n int) int {
	if testing.Short() {
		return max(1, n/10)
	}
	return n
}
