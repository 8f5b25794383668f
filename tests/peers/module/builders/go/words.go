package main

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"

	"libtenon/tenon"
)

// words are those of one line.
type words []string

// wrong ends a step. executed catches it.
type wrong struct{ reason error }

func give(err error) {
	if err != nil {
		panic(wrong{err})
	}
}

func fail(format string, arguments ...any) { give(fmt.Errorf(format, arguments...)) }

func must[T any](value T, err error) T {
	give(err)
	return value
}

func executed(step func()) (reason error) {
	defer func() {
		if value := recover(); value != nil {
			failure, ok := value.(wrong)
			if !ok {
				panic(value)
			}
			reason = failure.reason
		}
	}()
	step()
	return nil
}

var unescape = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\0`, "\x00", `\\`, `\`)

func wordsOf(line string) words {
	w := strings.Split(line, "\t")
	for i, word := range w {
		w[i] = unescape.Replace(word)
	}
	return w
}

func (w words) text(at int) string {
	if at >= len(w) {
		fail("there is no word %d", at)
	}
	return w[at]
}

func (w words) number(at int) int64 { return must(strconv.ParseInt(w.text(at), 10, 64)) }

// numbers returns nil for "-".
func (w words) numbers(at int) []int64 {
	text := w.text(at)
	if text == "-" {
		return nil
	}
	found := []int64{}
	for _, number := range strings.FieldsFunc(text, func(c rune) bool { return c == ',' }) {
		found = append(found, must(strconv.ParseInt(number, 10, 64)))
	}
	return found
}

func (w words) float(at int) float64 {
	return math.Float64frombits(must(strconv.ParseUint(w.text(at), 16, 64)))
}

func (w words) bytes(at int) []byte { return must(hex.DecodeString(w.text(at))) }

func (w words) scalarType(
	at int,
) tenon.ScalarType {
	return must(tenon.ParseScalarType(w.text(at)))
}

// one returns the object whose number the word has.
func one[T any](made []T, w words, at int) T {
	number := w.number(at)
	if number < 0 || number >= int64(len(made)) {
		fail("nothing has the number %d", number)
	}
	return made[number]
}

func named[T any](names map[string]T, name string) T {
	found, ok := names[name]
	if !ok {
		fail("there is no %s", name)
	}
	return found
}

func flag(number int64, flag tenon.TensorFlags) tenon.TensorFlags {
	if number == 0 {
		return 0
	}
	return flag
}
