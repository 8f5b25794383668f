// Conversions of texts, slices and lists between Go and C, for the other files of the package.

package tenon

// #include "tenon_go.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// cText gives C's form of a text, in Go's memory. It may be used only as an argument of a call.
func cText(what, text string) (*C.char, error) {
	if err := checkText(what, text); err != nil {
		return nil, err
	}
	data := make([]byte, len(text)+1)
	copy(data, text)
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(data))), nil
}

// cTextOrNull is as cText, but gives NULL for "".
func cTextOrNull(what, text string) (*C.char, error) {
	if text == "" {
		return nil, nil
	}
	return cText(what, text)
}

// pinSlice pins a slice to which a struct for C points. It gives NULL for an empty slice.
func pinSlice[T any](pinner *runtime.Pinner, from []T) *T {
	if len(from) == 0 {
		return nil
	}
	pinner.Pin(unsafe.SliceData(from))
	return unsafe.SliceData(from)
}

// textRoom is where a call of the C library writes a text.
type textRoom struct {
	out      *C.char
	capacity C.size_t
	nbytes   *C.size_t
	failure  **C.tenon_error
}

// takeText asks for a text that C writes into a buffer of the caller, and asks again if the buffer
// was too small.
func takeText(ask func(room textRoom) C.tenon_status) (string, error) {
	room := make([]byte, 256)
	for {
		var nbytes C.size_t
		var failure *C.tenon_error
		start := (*C.char)(unsafe.Pointer(unsafe.SliceData(room)))
		status := ask(textRoom{start, C.size_t(len(room)), &nbytes, &failure})
		if status != C.TENON_OK {
			return "", takeError(status, failure)
		}
		if uint64(nbytes) < uint64(len(room)) {
			return string(room[:nbytes]), nil
		}
		room = make([]byte, uint64(nbytes)+1)
	}
}

// takeNames copies a list of names, and releases the list.
func takeNames(list *C.tenon_name_list) []string {
	defer C.tenon_name_list_release(list)
	names := make([]string, C.tenon_name_list_count(list))
	for i := range names {
		names[i] = C.GoString(C.tenon_name_list_get(list, C.size_t(i)))
	}
	return names
}

// listRoom is where a call of the C library writes structs.
type listRoom[S any] struct {
	out     *S
	n       C.size_t
	total   *C.size_t
	failure **C.tenon_error
}

// takeList asks for structs, of which C writes as many as fit, and asks again if there was too
// little room. Each struct is empty before the call.
func takeList[S, T any](
	empty S, ask func(room listRoom[S]) C.tenon_status, convert func(each *S) T,
) ([]T, error) {
	var total C.size_t
	for {
		out := make([]S, total+1) // there may be more of them at the next call
		for i := range out {
			out[i] = empty
		}
		var failure *C.tenon_error
		status := ask(listRoom[S]{&out[0], C.size_t(len(out)), &total, &failure})
		if status != C.TENON_OK {
			return nil, takeError(status, failure)
		}
		if total > C.size_t(len(out)) {
			continue
		}
		list := make([]T, total)
		for i := range list {
			list[i] = convert(&out[i])
		}
		return list, nil
	}
}
