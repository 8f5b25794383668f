// Tests of weights that processes share by a name.

package tenon_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"libtenon/tenon"
)

func openShared(
	t testing.TB, path string, options *tenon.SharedWeightsOptions,
) (*tenon.SharedWeights, tenon.SharedWeightsInfo) {
	t.Helper()
	weights := must(tenon.OpenSharedWeights(context.Background(), path, "net", options))
	return weights, must(weights.Info())
}

func TestSharedWeightsAreLoadedOnce(t *testing.T) {
	nothingLeft(t)
	options := &tenon.SharedWeightsOptions{Directory: t.TempDir()}
	first, info := openShared(t, goldenWeights("torch-2.8.0.pt2"), options)
	if !info.Loaded || !info.Serves || info.Count != 4 || info.ServerPID != int32(os.Getpid()) {
		t.Errorf("the loader has %+v", info)
	}
	second, info := openShared(t, "", options)
	if info.Loaded || info.Version != 1 || info.FileBytes > info.Bytes {
		t.Errorf("the other has %+v", info)
	}
	first.Close()
	if names := must(second.Names()); !slices.Equal(
		names,
		[]string{"weight", "tied", "columns", "shift"},
	) {
		t.Errorf("the names are %v", names)
	}
	value := must(second.Tensor("weight"))
	second.Close()
	// The tensor is enough to hand the weights on.
	third, info := openShared(t, "", options)
	if info.Loaded {
		t.Error("a second copy was loaded")
	}
	third.Close()
	value.Close()
	ctx := context.Background()
	if _, err := tenon.OpenSharedWeights(ctx, "", "net", options); !errors.Is(
		err,
		tenon.ErrNotFound,
	) {
		t.Errorf("nobody has the weights: %v", err)
	}
	if left := must(os.ReadDir(options.Directory)); len(left) != 0 {
		t.Errorf("left are %v", left)
	}
}

func TestSharedWeightsHaveVersions(t *testing.T) {
	nothingLeft(t)
	ctx := context.Background()
	options := &tenon.SharedWeightsOptions{Directory: t.TempDir()}
	file := goldenWeights("torch-2.8.0.pt2")
	first := must(tenon.PublishSharedWeights(ctx, file, "net", options))
	defer first.Close()
	soon, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if _, err := first.Changed(soon); !errors.Is(err, tenon.ErrTimeout) {
		t.Errorf("there is no newer version: %v", err)
	}
	value := must(first.Tensor("weight"))
	defer value.Close()
	reusing := *options
	reusing.Reuse = true
	second := must(tenon.PublishSharedWeightsValues(
		ctx, []string{"step"}, []*tenon.Value{value}, "net", &reusing,
	))
	defer second.Close()
	if version := must(first.Changed(ctx)); version != 2 {
		t.Errorf("the newest version is %d", version)
	}
	newest, info := openShared(t, "", options)
	defer newest.Close()
	if names := must(newest.Names()); info.Version != 2 || !slices.Equal(names, []string{"step"}) {
		t.Errorf("version %d has %v", info.Version, names)
	}
}

func TestSharedWeightsTellTheirProgress(t *testing.T) {
	nothingLeft(t)
	var last [2]uint64
	path := t.TempDir() + "/net.safetensors"
	header := `{"__metadata__":{"format":"np"},` +
		`"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`
	file := append([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0}, header+"ab"...)
	check(t, os.WriteFile(path, file, 0o600))
	options := &tenon.SharedWeightsOptions{
		Directory: t.TempDir(),
		Progress:  func(done, total uint64) { last = [2]uint64{done, total} },
	}
	weights, _ := openShared(t, path, options)
	if size := uint64(len(file)); last != [2]uint64{size, size} {
		t.Errorf("the progress is %v, and the file has %d bytes", last, size)
	}
	if names := must(weights.ValueNames()); !slices.Equal(names, []string{"__metadata__.format"}) {
		t.Errorf("the names of the values are %v", names)
	}
	value := must(weights.Value("__metadata__.format"))
	if text := must(value.Str()); text != "np" {
		t.Errorf("the value is %q", text)
	}
	value.Close()
	if _, err := weights.Value("a"); !errors.Is(err, tenon.ErrNotFound) {
		t.Errorf("a tensor as a value: %v", err)
	}
	weights.Close()

	options.Progress = func(done, total uint64) { panic("stop") }
	defer func() {
		if value := recover(); value != "stop" {
			t.Errorf("the panic is %v", value)
		}
	}()
	openShared(t, path, options)
}

func TestSharedWeightsAreRefused(t *testing.T) {
	nothingLeft(t)
	ctx, file := context.Background(), goldenWeights("torch-2.8.0.pt2")
	options := &tenon.SharedWeightsOptions{Directory: t.TempDir(), MaxBytes: 10}
	nowhere := &tenon.SharedWeightsOptions{Directory: options.Directory, Device: "gpu"}
	if _, err := tenon.OpenSharedWeights(ctx, file, "net", nowhere); !errors.Is(
		err,
		tenon.ErrInvalidArgument,
	) {
		t.Errorf("the device gpu: %v", err)
	}
	for _, name := range []string{"", "a/b", "a\x00b"} {
		if _, err := tenon.OpenSharedWeights(ctx, file, name, options); !errors.Is(
			err,
			tenon.ErrInvalidArgument,
		) {
			t.Errorf("the name %q: %v", name, err)
		}
	}
	if _, err := tenon.OpenSharedWeights(ctx, file, "net", options); !errors.Is(
		err,
		tenon.ErrResourceExhausted,
	) {
		t.Errorf("a file that is too large: %v", err)
	}
	group := uint32(1)
	options = &tenon.SharedWeightsOptions{Group: &group}
	if _, err := tenon.OpenSharedWeights(ctx, file, "net", options); !errors.Is(
		err,
		tenon.ErrInvalidArgument,
	) {
		t.Errorf("a group without a directory: %v", err)
	}
}
