// Element types in DLPack's numbers, and the Go types that stand for them.

package tenon

// #include "tenon_go.h"
import "C"

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"unsafe"
)

// DType is an element type in DLPack's numbers: the code, the bits of one lane, and the lanes (1
// for a scalar). DTypes can be compared and can be constants.
type DType uint32

// The element types that have a name. NewDType makes others.
const (
	Bool DType = C.TENON_DTYPE_BOOL | 8<<8 | 1<<16
	// Elements under 8 bits are packed, with the lowest bits first.
	Int1              DType = C.TENON_DTYPE_INT | 1<<8 | 1<<16
	Int2              DType = C.TENON_DTYPE_INT | 2<<8 | 1<<16
	Int4              DType = C.TENON_DTYPE_INT | 4<<8 | 1<<16
	Int8              DType = C.TENON_DTYPE_INT | 8<<8 | 1<<16
	Int16             DType = C.TENON_DTYPE_INT | 16<<8 | 1<<16
	Int32             DType = C.TENON_DTYPE_INT | 32<<8 | 1<<16
	Int64             DType = C.TENON_DTYPE_INT | 64<<8 | 1<<16
	Uint1             DType = C.TENON_DTYPE_UINT | 1<<8 | 1<<16
	Uint2             DType = C.TENON_DTYPE_UINT | 2<<8 | 1<<16
	Uint4             DType = C.TENON_DTYPE_UINT | 4<<8 | 1<<16
	Uint8             DType = C.TENON_DTYPE_UINT | 8<<8 | 1<<16
	Uint16            DType = C.TENON_DTYPE_UINT | 16<<8 | 1<<16
	Uint32            DType = C.TENON_DTYPE_UINT | 32<<8 | 1<<16
	Uint64            DType = C.TENON_DTYPE_UINT | 64<<8 | 1<<16
	Float16           DType = C.TENON_DTYPE_FLOAT | 16<<8 | 1<<16
	Float32           DType = C.TENON_DTYPE_FLOAT | 32<<8 | 1<<16
	Float64           DType = C.TENON_DTYPE_FLOAT | 64<<8 | 1<<16
	BFloat16          DType = C.TENON_DTYPE_BFLOAT | 16<<8 | 1<<16
	Complex32         DType = C.TENON_DTYPE_COMPLEX | 32<<8 | 1<<16
	Complex64         DType = C.TENON_DTYPE_COMPLEX | 64<<8 | 1<<16
	Complex128        DType = C.TENON_DTYPE_COMPLEX | 128<<8 | 1<<16
	Float8E3M4        DType = C.TENON_DTYPE_FLOAT8_E3M4 | 8<<8 | 1<<16
	Float8E4M3        DType = C.TENON_DTYPE_FLOAT8_E4M3 | 8<<8 | 1<<16
	Float8E4M3B11FNUZ DType = C.TENON_DTYPE_FLOAT8_E4M3B11FNUZ | 8<<8 | 1<<16
	Float8E4M3FN      DType = C.TENON_DTYPE_FLOAT8_E4M3FN | 8<<8 | 1<<16
	Float8E4M3FNUZ    DType = C.TENON_DTYPE_FLOAT8_E4M3FNUZ | 8<<8 | 1<<16
	Float8E5M2        DType = C.TENON_DTYPE_FLOAT8_E5M2 | 8<<8 | 1<<16
	Float8E5M2FNUZ    DType = C.TENON_DTYPE_FLOAT8_E5M2FNUZ | 8<<8 | 1<<16
	Float8E8M0FNU     DType = C.TENON_DTYPE_FLOAT8_E8M0FNU | 8<<8 | 1<<16
	Float6E2M3FN      DType = C.TENON_DTYPE_FLOAT6_E2M3FN | 6<<8 | 1<<16
	Float6E3M2FN      DType = C.TENON_DTYPE_FLOAT6_E3M2FN | 6<<8 | 1<<16
	Float4E2M1FN      DType = C.TENON_DTYPE_FLOAT4_E2M1FN | 4<<8 | 1<<16
)

// NewDType makes a DType from DLPack's three numbers.
func NewDType(code, bits uint8, lanes uint16) DType {
	return DType(code) | DType(bits)<<8 | DType(lanes)<<16
}

// Code returns DLPack's type code.
func (d DType) Code() uint8 { return uint8(d) }

// Bits returns the size of one lane in bits.
func (d DType) Bits() uint8 { return uint8(d >> 8) }

// Lanes returns how many values one element has; 1 for a scalar.
func (d DType) Lanes() uint16 { return uint16(d >> 16) }

// String returns the name, such as "float32", "bfloat16" or "int8x4".
func (d DType) String() string {
	var name [C.TENON_DTYPE_MAX_NAME_NBYTES]C.char
	C.tenon_dtype_name(d.c(), &name[0], C.size_t(len(name)))
	return C.GoString(&name[0])
}

// ParseDType returns the DType with a name that String gives.
func ParseDType(name string) (DType, error) {
	if strings.IndexByte(name, 0) >= 0 {
		return 0, invalid(fmt.Sprintf("there is no element type %q", name))
	}
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	var out C.tenon_dtype
	var failure *C.tenon_error
	if status := C.tenon_dtype_parse(text, &out, &failure); status != C.TENON_OK {
		return 0, takeError(status, failure)
	}
	return dtypeOf(out), nil
}

func (d DType) c() C.tenon_dtype {
	return C.tenon_dtype{
		code:  C.uint8_t(d.Code()),
		bits:  C.uint8_t(d.Bits()),
		lanes: C.uint16_t(d.Lanes()),
	}
}

// Element is the set of types that Slice and View can show. A program's own type over one of these
// types is allowed too.
type Element interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// Float16Bits is one IEEE half, the Element of Float16.
type Float16Bits uint16

// Float32 returns the value as a float32.
func (f Float16Bits) Float32() float32 {
	sign, exponent, fraction := uint32(f>>15)<<31, uint32(f>>10&0x1f), uint32(f&0x3ff)
	switch exponent {
	case 0:
		value := float32(fraction) / (1 << 24) // exact
		return math.Float32frombits(math.Float32bits(value) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}

// BFloat16Bits is one bfloat16, the Element of BFloat16.
type BFloat16Bits uint16

// Float32 returns the value as a float32.
func (b BFloat16Bits) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }

// BoolByte is the Element of Bool. It is not Go's bool, because a peer may write any byte, and a Go
// bool must be 0 or 1.
type BoolByte uint8

// Bool says whether the byte is not 0.
func (b BoolByte) Bool() bool { return b != 0 }

// DTypeOf returns the DType that a Go type stands for.
func DTypeOf[T Element]() DType {
	var zero T
	switch any(zero).(type) {
	case float32:
		return Float32
	case uint8:
		return Uint8
	case Float16Bits:
		return Float16
	case BFloat16Bits:
		return BFloat16
	case BoolByte:
		return Bool
	}
	bits := DType(reflect.TypeFor[T]().Size()) << 11
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return C.TENON_DTYPE_INT | bits | 1<<16
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return C.TENON_DTYPE_UINT | bits | 1<<16
	case reflect.Float32, reflect.Float64:
		return C.TENON_DTYPE_FLOAT | bits | 1<<16
	default:
		return C.TENON_DTYPE_COMPLEX | bits | 1<<16
	}
}
