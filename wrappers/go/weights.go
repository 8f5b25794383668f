// Weights: the tensors in files of torch.export and ExecuTorch.

package tenon

/*
#include "tenon_go.h"
*/
import "C"

import (
	"maps"
	"runtime"
	"slices"
	"unsafe"
)

// Weights are the tensors of a file by their names, such as "encoder.0.weight": the parameters, the
// buffers and the constants of a program of torch.export (.pt2), the tensors of a safetensors file
// or of its index, of a file of torch.save, torch.jit.save or NumPy (.npy, .npz), or the data of a
// file of ExecuTorch (.ptd). Nothing in a file is executed, and no PyTorch is needed.
//
// Any number of goroutines may call the methods of one Weights. Values stay usable after the
// Weights were closed.
type Weights struct{ handle }

func (w *Weights) begin() (*C.tenon_weights, error) {
	if w == nil {
		return nil, nil
	}
	pointer, err := w.acquire()
	return (*C.tenon_weights)(pointer), err
}

func (w *Weights) end() {
	if w != nil {
		w.release()
	}
}

// OpenWeights opens a file of weights. The options say where the tensors go, and
// ImportOptions.DebugTables has no effect. The file must not be changed while views of it are in
// use, but it may be replaced by a rename. ErrUnsupported means that the file is of another kind.
func OpenWeights(path string, options *ImportOptions) (*Weights, error) {
	text, err := cText("the path", path)
	if err != nil {
		return nil, err
	}
	var opened *C.tenon_weights
	err = withImportOptions(
		options,
		func(given *C.tenon_import_options, failure **C.tenon_error) C.tenon_status {
			return C.tenon_open_weights(text, given, &opened, failure)
		},
	)
	if err != nil {
		return nil, err
	}
	w := new(Weights)
	w.own(kindWeights, unsafe.Pointer(opened))
	return w, nil
}

// Names lists the names of all weights in the order of the file.
func (w *Weights) Names() ([]string, error) {
	return listNames(w, func(q namesQuery) C.tenon_status {
		return C.tenon_weights_names(q.pointer, q.out, q.failure)
	})
}

// Tensor gives a weight, and the caller closes the Value. Weights that share a storage in the file
// share it in memory. After Replace the Value has the new elements, and Values that were given
// before keep the old ones.
func (w *Weights) Tensor(name string) (*Value, error) {
	return readValue(w, name, func(text *C.char, q valueQuery) C.tenon_status {
		return C.tenon_weights_tensor(q.pointer, text, q.out, q.failure)
	})
}

// ValueNames lists the names of the values that are no tensors, such as the numbers in a
// checkpoint.
func (w *Weights) ValueNames() ([]string, error) {
	return listNames(w, func(q namesQuery) C.tenon_status {
		return C.tenon_weights_value_names(q.pointer, q.out, q.failure)
	})
}

// Value gives a value that is no tensor, and the caller closes it.
func (w *Weights) Value(name string) (*Value, error) {
	return readValue(w, name, func(text *C.char, q valueQuery) C.tenon_status {
		return C.tenon_weights_value(q.pointer, text, q.out, q.failure)
	})
}

// Skipped gives a line with the name and the reason for everything in the file that cannot be read.
func (w *Weights) Skipped() ([]string, error) {
	return listNames(w, func(q namesQuery) C.tenon_status {
		return C.tenon_weights_skipped(q.pointer, q.out, q.failure)
	})
}

type (
	namesQuery = query[*C.tenon_weights, *C.tenon_name_list]
	valueQuery = query[*C.tenon_weights, *C.tenon_value]
)

// listNames and readValue read weights and shared weights.
func listNames[H user[P], P any](
	weights H, call func(query[P, *C.tenon_name_list]) C.tenon_status,
) ([]string, error) {
	return ask(weights, func(pointer P) ([]string, error) {
		var list *C.tenon_name_list
		var failure *C.tenon_error
		status := call(query[P, *C.tenon_name_list]{pointer, &list, &failure})
		if status != C.TENON_OK {
			return nil, takeError(status, failure)
		}
		return takeNames(list), nil
	})
}

func readValue[H user[P], P any](
	weights H, name string, call func(*C.char, query[P, *C.tenon_value]) C.tenon_status,
) (*Value, error) {
	text, err := cText("the name", name)
	if err != nil {
		return nil, err
	}
	return ask(weights, func(pointer P) (*Value, error) {
		return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
			return call(text, query[P, *C.tenon_value]{pointer, out, failure})
		})
	})
}

// Replace replaces the elements of a weight. The element type and the shape must be those of the
// weight. The strides may be others. Weights that share a storage with this one change with it. The
// tensor's elements must not change before the last Rewrite.
func (w *Weights) Replace(name string, tensor *Value) error {
	text, err := cText("the name", name)
	if err != nil {
		return err
	}
	given, err := tensor.begin()
	if err != nil {
		return err
	}
	defer tensor.end()
	pointer, err := w.begin()
	if err != nil {
		return err
	}
	defer w.end()
	var failure *C.tenon_error
	return check(C.tenon_weights_replace(pointer, text, given, &failure), &failure)
}

// Rewrite writes the file that was opened with the replaced weights in it. All other bytes stay as
// they are, except for checksums. The file is written whole or not at all. The path may be the file
// that was opened.
func (w *Weights) Rewrite(path string, durability Durability) error {
	text, err := cText("the path", path)
	if err != nil {
		return err
	}
	pointer, err := w.begin()
	if err != nil {
		return err
	}
	defer w.end()
	options := C.tenon_weights_rewrite_options{struct_size: C.sizeof_tenon_weights_rewrite_options}
	options.durability = C.int32_t(durability)
	var failure *C.tenon_error
	return check(C.tenon_weights_rewrite(pointer, text, &options, &failure), &failure)
}

// WeightsForm is a form of file that SaveWeights writes.
type WeightsForm int32

const (
	WeightsSafetensors WeightsForm = C.TENON_WEIGHTS_SAFETENSORS
	// WeightsTorchSave is a dict of tensors, as torch.save writes it.
	WeightsTorchSave WeightsForm = C.TENON_WEIGHTS_TORCH_SAVE
	// WeightsNpz is an archive of arrays, as numpy.savez writes it.
	WeightsNpz WeightsForm = C.TENON_WEIGHTS_NPZ
)

// SaveWeightsOptions say how to save weights. Nil and the zero value mean the defaults.
type SaveWeightsOptions struct {
	Form       WeightsForm
	Durability Durability
	// Write tensors that share memory whole, each of them. Otherwise a safetensors or .npz file
	// of such tensors is refused.
	DuplicateShared bool
	Metadata        map[string]string // the texts of a safetensors file's __metadata__
}

// SaveWeights saves tensors under names as a new file, in the order of the names. The elements are
// written from where they are. The file is written whole or not at all. Each Value is a tensor in
// the memory of the CPU.
func SaveWeights(path string, tensors map[string]*Value, options *SaveWeightsOptions) error {
	if options == nil {
		options = &SaveWeightsOptions{}
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	text, err := cText("the path", path)
	if err != nil {
		return err
	}
	names, values, err := pinnedEntries(&pinner, tensors)
	if err != nil {
		return err
	}
	keys, metadata, err := pinnedEntries(&pinner, options.Metadata)
	if err != nil {
		return err
	}
	texts, err := pinnedStrings(&pinner, metadata)
	if err != nil {
		return err
	}
	pointers, end, err := beginValues(values)
	if err != nil {
		return err
	}
	defer end()
	given := C.tenon_save_weights_options{struct_size: C.sizeof_tenon_save_weights_options}
	given.form, given.durability = C.int32_t(options.Form), C.int32_t(options.Durability)
	if options.DuplicateShared {
		given.flags = C.TENON_SAVE_DUPLICATE_SHARED
	}
	given.metadata_keys, given.metadata_texts = pinSlice(&pinner, keys), pinSlice(&pinner, texts)
	given.metadata_count = C.size_t(len(keys))
	var failure *C.tenon_error
	return check(C.tenon_save_weights(text, unsafe.SliceData(names), unsafe.SliceData(pointers),
		C.size_t(len(names)), &given, &failure), &failure)
}

// pinnedEntries gives C's form of the keys of a map in their order, and the values.
func pinnedEntries[T any](pinner *runtime.Pinner, from map[string]T) ([]*C.char, []T, error) {
	keys := slices.Sorted(maps.Keys(from))
	values := make([]T, len(keys))
	for i, key := range keys {
		values[i] = from[key]
	}
	starts, err := pinnedStrings(pinner, keys)
	return starts, values, err
}
