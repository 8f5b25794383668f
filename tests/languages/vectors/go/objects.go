package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"

	"libtenon/tenon"
)

func realText(number float64) string { return fmt.Sprintf("%016x", math.Float64bits(number)) }

func dims(numbers []int64) string {
	if len(numbers) == 0 {
		return "-"
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ","), "[]")
}

func tensorText(message *tenon.Message, tensor *tenon.Tensor) string {
	spec := must(tensor.Spec())
	for i := range message.Len() {
		own := must(message.Tensor(i))
		defer own.Close()
		if storageID(own) == storageID(tensor) {
			return fmt.Sprintf(
				"x%d:%d:%d:%d:%s:%s:%d:%d",
				i,
				spec.DType.Code(),
				spec.DType.Bits(),
				spec.DType.Lanes(),
				dims(spec.Sizes),
				dims(spec.Strides),
				spec.Offset,
				uint32(spec.Flags),
			)
		}
	}
	fail("a tensor has a storage of its own")
	return ""
}

// objectText returns a word for each value, and for everything inside it.
func objectText(message *tenon.Message, value any) string {
	container := func(letter string, items []any) string {
		words := []string{fmt.Sprintf("%s%d", letter, len(items))}
		for _, item := range items {
			words = append(words, objectText(message, item))
		}
		return strings.Join(words, " ")
	}
	switch value := value.(type) {
	case nil:
		return "N"
	case bool:
		return map[bool]string{true: "T", false: "F"}[value]
	case int64:
		return fmt.Sprintf("i%d", value)
	case float64:
		return "f" + realText(value)
	case complex128:
		return "c" + realText(real(value)) + "," + realText(imag(value))
	case string:
		return "s" + hex.EncodeToString([]byte(value))
	case []byte:
		return "b" + hex.EncodeToString(value)
	case *tenon.Tensor:
		return tensorText(message, value)
	case *tenon.Composite:
		spec := must(value.Spec())
		defer spec.Close()
		return fmt.Sprintf("k%d", int32(spec.Layout))
	case tenon.Tuple:
		return container("t", value)
	case []any:
		return container("l", value)
	case tenon.Set:
		return container("S", value)
	case tenon.Dict:
		words := []string{fmt.Sprintf("d%d", len(value))}
		for _, entry := range value {
			words = append(words, objectText(message, entry.Key), objectText(message, entry.Value))
		}
		return strings.Join(words, " ")
	}
	fail("a %T is in the object", value)
	return ""
}

// collectStorages appends the ids of the storages that the object uses, each at its first use. A
// composite ends the walk with false, because the text does not list its parts.
func collectStorages(value any, used *[]uint64) bool {
	var items []any
	switch value := value.(type) {
	case *tenon.Composite:
		return false
	case *tenon.Tensor:
		if id := storageID(value); !slices.Contains(*used, id) {
			*used = append(*used, id)
		}
	case tenon.Tuple:
		items = value
	case []any:
		items = value
	case tenon.Set:
		items = value
	case tenon.Dict:
		for _, entry := range value {
			items = append(items, entry.Key, entry.Value)
		}
	}
	for _, item := range items {
		if !collectStorages(item, used) {
			return false
		}
	}
	return true
}

// sameStorages compares the tensors of a message that is made from the object with the storages
// that the object uses. The message has one tensor for each storage, in the order of first use. The
// header in expect's user bytes has their number.
func sameStorages(object any, again *tenon.Message, expect anything) {
	user := unhex(get(expect, "user", ""))
	if len(user) < 16 {
		fail("%d bytes are no object", len(user))
	}
	same("tensors", again.Len(), int(binary.LittleEndian.Uint32(user[12:])))
	var used []uint64
	if collectStorages(object, &used) {
		same("storages", len(used), again.Len())
	}
	if len(used) > again.Len() {
		fail("a storage is not in the new message")
	}
	for i, id := range used {
		tensor := must(again.Tensor(i))
		defer tensor.Close()
		same(fmt.Sprintf("storage of tensor %d", i), storageID(tensor), id)
	}
}

// runObject reads an object from the user bytes that a case gives, and writes it again.
func runObject(c, expect anything) {
	message := must(tenon.NewMessage())
	defer message.Close()
	for _, data := range get(c, "storages", []string{}) {
		bytes := unhex(data)
		storage := must(tenon.NewStorageFrom(bytes, nil))
		defer storage.Close()
		tensor := must(
			tenon.NewTensor(
				storage,
				tenon.Spec{DType: tenon.NewDType(1, 8, 1), Sizes: []int64{int64(len(bytes))}},
			),
		)
		defer tensor.Close()
		give(message.Add("", tensor))
	}
	give(message.SetUserBytes(unhex(get(c, "user", ""))))
	object, err := message.Object()
	if !outcome(expect, err) {
		return
	}
	defer tenon.CloseObject(object)
	same("text", objectText(message, object), get(expect, "text", ""))
	wanted := get[*string](expect, "user", nil)
	if wanted == nil {
		return
	}
	again := must(tenon.NewMessageFromObject(object, nil))
	defer again.Close()
	same("user", hex.EncodeToString(again.UserBytes()), *wanted)
	sameStorages(object, again, expect)
}
