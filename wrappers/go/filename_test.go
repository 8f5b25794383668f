// Tests of lends by name.

package tenon_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"libtenon/tenon"
)

const directoryVariable = "TENON_GO_TEST_DIRECTORY"

// inOwnProcess runs a test in a process of its own, because the library's thread for names keeps
// some fds as long as its process lives. It also checks that no name is left after the process.
func inOwnProcess(t *testing.T, test func(t *testing.T, directory string)) {
	if path := os.Getenv(directoryVariable); path != "" {
		t.Cleanup(func() {
			tenon.Trim()
			tenon.FilenameLeave()
			if left := must(os.ReadDir(path)); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
		test(t, path)
		return
	}
	nothingLeft(t)
	path := directory(t)
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=100s")
	// Another test may have started a manager of this user. StartManager would then return that
	// manager, whatever program it is given.
	command.Env = append(
		os.Environ(),
		directoryVariable+"="+path,
		"TENON_MANAGER_FOLDER="+t.TempDir()+"/none",
	)
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

func TestFilename(t *testing.T) { inOwnProcess(t, byName) }

func byName(t *testing.T, path string) {
	ctx := background(t)
	file := must(
		tenon.NewStorageFilename(4000, &tenon.FilenameOptions{Directory: path, Name: "weights"}),
	)
	defer file.Close()
	tensor := floats(t, 1000, nil)
	arena := must(tensor.Storage())
	defer arena.Close()
	for name, storage := range map[string]*tenon.Storage{"file": file, "socket": arena} {
		var options *tenon.FilenameOptions
		if name == "socket" {
			options = &tenon.FilenameOptions{Directory: path}
		}
		handle := must(storage.ShareFilename(ctx, options))
		if name == "file" && handle.Name != path+"/weights" || handle.NBytes != 4000 {
			t.Error(handle)
		}
		command, c := start(
			t,
			"name",
			"TENON_GO_TEST_NAME="+handle.Name,
			fmt.Sprint("TENON_GO_TEST_OFFSET=", handle.Offset),
		)
		if _, err := c.Recv(ctx); !errors.Is(err, tenon.ErrPeerGone) {
			t.Error(err)
		}
		check(t, command.Wait())
		if data := must(storage.Bytes()); string(data[:7]) != "by name" {
			t.Error(name, "the other process wrote elsewhere")
		}
		same := must(tenon.OpenFilename(ctx, handle, &tenon.OpenOptions{AllowUnsealed: true}))
		if same.ID() != storage.ID() {
			t.Error("not the same storage")
		}
		same.Close()
		if name == "file" {
			check(t, tenon.FilenameIncref(handle))
			check(t, tenon.FilenameDecref(handle))
		}
		if _, err := tenon.OpenFilename(
			ctx, tenon.FilenameHandle{Name: handle.Name + "x", NBytes: 1}, nil,
		); !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
	found := must(tenon.FilenameSweep(&tenon.SweepOptions{Directory: path, DryRun: true}))
	if found.Live != 2 || found.Dead != 0 {
		t.Errorf("%+v", found)
	}
	for _, wrong := range []string{"a\x00b", strings.Repeat("x", 300)} {
		if _, err := tenon.OpenFilename(ctx, tenon.FilenameHandle{Name: wrong}, nil); !errors.Is(
			err,
			tenon.ErrInvalidArgument,
		) {
			t.Error(err)
		}
		if _, err := tenon.NewStorageFilename(
			1, &tenon.FilenameOptions{Directory: path, Name: wrong},
		); !errors.Is(err, tenon.ErrInvalidArgument) {
			t.Error(err)
		}
	}
	check(t, tenon.FilenameUnlink(path+"/nothing"))
	done, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := tenon.OpenFilename(
		done, tenon.FilenameHandle{Name: path + "/weights", NBytes: 4000}, nil,
	); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := tenon.StartManager(ctx, path+"/no-such-program"); err == nil {
		t.Error("a program that is not there was started")
	}
}

func TestFilenameErrors(t *testing.T) { inOwnProcess(t, byNameRefused) }

func byNameRefused(t *testing.T, path string) {
	var e *tenon.Error
	_, err := tenon.NewStorageFilename(8, &tenon.FilenameOptions{Directory: path + "/none"})
	if !errors.Is(err, tenon.ErrNotFound) || !errors.Is(err, os.ErrNotExist) ||
		!errors.As(err, &e) ||
		!strings.HasPrefix(e.Details["path"], path) {
		t.Errorf("%#v", err)
	}
	check(t, os.WriteFile(path+"/short", []byte("x"), 0o600))
	_, err = tenon.OpenFilename(
		background(t),
		tenon.FilenameHandle{Name: path + "/short", NBytes: 100},
		&tenon.OpenOptions{AllowUnsealed: true},
	)
	if !errors.Is(err, tenon.ErrCorrupt) || !errors.As(err, &e) ||
		e.Details["path"] != path+"/short" ||
		strings.Contains(e.Message, "\n") {
		t.Errorf("%#v", err)
	}
	check(t, os.Remove(path+"/short"))
}
