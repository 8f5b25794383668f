package tenon

// #include "tenon_go.h"
import "C"

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// DType is an element type in DLPack's numbers: code, bits of one lane, lanes (1 for a scalar). Comparable, and a constant.
type DType uint32

// The element types that have a name. Others: NewDType.
const (
	Bool              DType = C.TENON_DTYPE_BOOL | 8<<8 | 1<<16
	Int1              DType = C.TENON_DTYPE_INT | 1<<8 | 1<<16 // under 8 bits: packed, lowest bits first
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

var dtypeNames = map[DType]string{
	Bool: "bool", Int1: "int1", Int2: "int2", Int4: "int4", Int8: "int8", Int16: "int16", Int32: "int32", Int64: "int64", Uint1: "uint1",
	Uint2: "uint2", Uint4: "uint4", Uint8: "uint8", Uint16: "uint16", Uint32: "uint32",
	Uint64: "uint64", Float16: "float16", Float32: "float32", Float64: "float64", BFloat16: "bfloat16", Complex32: "complex32",
	Complex64: "complex64", Complex128: "complex128", Float8E3M4: "float8_e3m4", Float8E4M3: "float8_e4m3",
	Float8E4M3B11FNUZ: "float8_e4m3b11fnuz", Float8E4M3FN: "float8_e4m3fn", Float8E4M3FNUZ: "float8_e4m3fnuz", Float8E5M2: "float8_e5m2",
	Float8E5M2FNUZ: "float8_e5m2fnuz", Float8E8M0FNU: "float8_e8m0fnu", Float6E2M3FN: "float6_e2m3fn", Float6E3M2FN: "float6_e3m2fn",
	Float4E2M1FN: "float4_e2m1fn",
}

// NewDType makes a DType of DLPack's three numbers.
func NewDType(code, bits uint8, lanes uint16) DType {
	return DType(code) | DType(bits)<<8 | DType(lanes)<<16
}

// Code is DLPack's type code.
func (d DType) Code() uint8 { return uint8(d) }

// Bits is the size of one lane in bits.
func (d DType) Bits() uint8 { return uint8(d >> 8) }

// Lanes is how many values one element has; 1 for a scalar.
func (d DType) Lanes() uint16 { return uint16(d >> 16) }

// String is the name, as in "float32", "bfloat16" or "int8x4".
func (d DType) String() string {
	name, ok := dtypeNames[NewDType(d.Code(), d.Bits(), 1)]
	if !ok {
		name = fmt.Sprintf("dtype_%d_%d", d.Code(), d.Bits())
	}
	if d.Lanes() != 1 {
		name += fmt.Sprintf("x%d", d.Lanes())
	}
	return name
}

// ParseDType is the DType of a name that String gives.
func ParseDType(name string) (DType, error) {
	for dtype, known := range dtypeNames {
		if known == name {
			return dtype, nil
		}
	}
	if at := strings.LastIndexByte(name, 'x'); at > 0 {
		lanes, err := strconv.ParseUint(name[at+1:], 10, 16)
		if scalar, of := ParseDType(name[:at]); err == nil && of == nil && lanes > 0 && scalar.Lanes() == 1 {
			return NewDType(scalar.Code(), scalar.Bits(), uint16(lanes)), nil
		}
	}
	var code, bits uint8
	if n, err := fmt.Sscanf(name, "dtype_%d_%d", &code, &bits); n == 2 && err == nil {
		if dtype := NewDType(code, bits, 1); dtype.String() == name {
			return dtype, nil
		}
	}
	return 0, invalid(fmt.Sprintf("there is no dtype %q", name))
}

// Element is what Slice and View can show. A type of your own over one of these is fine.
type Element interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64 | ~complex64 | ~complex128
}

// Float16Bits is one IEEE half, the Element of Float16.
type Float16Bits uint16

// Float32 is the value.
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

// Float32 is the value.
func (b BFloat16Bits) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }

// BoolByte is the Element of Bool. It is no bool of Go's: a peer may write any byte, and a bool that is neither 0 nor 1 breaks its rules.
type BoolByte uint8

// Bool is the value.
func (b BoolByte) Bool() bool { return b != 0 }

// DTypeOf is the DType that a Go type stands for.
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
