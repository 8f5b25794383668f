// Element types in PyTorch's numbers, which archives use.

package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_scalar_type_to_dtype
// #cgo nocallback tenon_scalar_type_to_dtype
// #cgo noescape tenon_scalar_type_from_dtype
// #cgo nocallback tenon_scalar_type_from_dtype
import "C"

import "fmt"

// ScalarType is an element type in PyTorch's numbers, which archives use. There are more of them
// than DLPack has: see DType.
type ScalarType int32

// The element types.
const (
	ScalarByte           ScalarType = C.TENON_SCALAR_TYPE_BYTE
	ScalarChar           ScalarType = C.TENON_SCALAR_TYPE_CHAR
	ScalarShort          ScalarType = C.TENON_SCALAR_TYPE_SHORT
	ScalarInt            ScalarType = C.TENON_SCALAR_TYPE_INT
	ScalarLong           ScalarType = C.TENON_SCALAR_TYPE_LONG
	ScalarHalf           ScalarType = C.TENON_SCALAR_TYPE_HALF
	ScalarFloat          ScalarType = C.TENON_SCALAR_TYPE_FLOAT
	ScalarDouble         ScalarType = C.TENON_SCALAR_TYPE_DOUBLE
	ScalarComplexHalf    ScalarType = C.TENON_SCALAR_TYPE_COMPLEX_HALF
	ScalarComplexFloat   ScalarType = C.TENON_SCALAR_TYPE_COMPLEX_FLOAT
	ScalarComplexDouble  ScalarType = C.TENON_SCALAR_TYPE_COMPLEX_DOUBLE
	ScalarBool           ScalarType = C.TENON_SCALAR_TYPE_BOOL
	ScalarQInt8          ScalarType = C.TENON_SCALAR_TYPE_QINT8
	ScalarQUint8         ScalarType = C.TENON_SCALAR_TYPE_QUINT8
	ScalarQInt32         ScalarType = C.TENON_SCALAR_TYPE_QINT32
	ScalarBFloat16       ScalarType = C.TENON_SCALAR_TYPE_BFLOAT16
	ScalarQUint4x2       ScalarType = C.TENON_SCALAR_TYPE_QUINT4X2
	ScalarQUint2x4       ScalarType = C.TENON_SCALAR_TYPE_QUINT2X4
	ScalarBits1x8        ScalarType = C.TENON_SCALAR_TYPE_BITS1X8
	ScalarBits2x4        ScalarType = C.TENON_SCALAR_TYPE_BITS2X4
	ScalarBits4x2        ScalarType = C.TENON_SCALAR_TYPE_BITS4X2
	ScalarBits8          ScalarType = C.TENON_SCALAR_TYPE_BITS8
	ScalarBits16         ScalarType = C.TENON_SCALAR_TYPE_BITS16
	ScalarFloat8E5M2     ScalarType = C.TENON_SCALAR_TYPE_FLOAT8_E5M2
	ScalarFloat8E4M3FN   ScalarType = C.TENON_SCALAR_TYPE_FLOAT8_E4M3FN
	ScalarFloat8E5M2FNUZ ScalarType = C.TENON_SCALAR_TYPE_FLOAT8_E5M2FNUZ
	ScalarFloat8E4M3FNUZ ScalarType = C.TENON_SCALAR_TYPE_FLOAT8_E4M3FNUZ
	ScalarUint16         ScalarType = C.TENON_SCALAR_TYPE_UINT16
	ScalarUint32         ScalarType = C.TENON_SCALAR_TYPE_UINT32
	ScalarUint64         ScalarType = C.TENON_SCALAR_TYPE_UINT64
	ScalarUint1          ScalarType = C.TENON_SCALAR_TYPE_UINT1
	ScalarUint2          ScalarType = C.TENON_SCALAR_TYPE_UINT2
	ScalarUint3          ScalarType = C.TENON_SCALAR_TYPE_UINT3
	ScalarUint4          ScalarType = C.TENON_SCALAR_TYPE_UINT4
	ScalarUint5          ScalarType = C.TENON_SCALAR_TYPE_UINT5
	ScalarUint6          ScalarType = C.TENON_SCALAR_TYPE_UINT6
	ScalarUint7          ScalarType = C.TENON_SCALAR_TYPE_UINT7
	ScalarInt1           ScalarType = C.TENON_SCALAR_TYPE_INT1
	ScalarInt2           ScalarType = C.TENON_SCALAR_TYPE_INT2
	ScalarInt3           ScalarType = C.TENON_SCALAR_TYPE_INT3
	ScalarInt4           ScalarType = C.TENON_SCALAR_TYPE_INT4
	ScalarInt5           ScalarType = C.TENON_SCALAR_TYPE_INT5
	ScalarInt6           ScalarType = C.TENON_SCALAR_TYPE_INT6
	ScalarInt7           ScalarType = C.TENON_SCALAR_TYPE_INT7
	ScalarFloat8E8M0FNU  ScalarType = C.TENON_SCALAR_TYPE_FLOAT8_E8M0FNU
	ScalarFloat4E2M1FNx2 ScalarType = C.TENON_SCALAR_TYPE_FLOAT4_E2M1FN_X2
	ScalarBComplex32     ScalarType = C.TENON_SCALAR_TYPE_BCOMPLEX32
)

// String returns the name that torch.dtype uses: "float32", "qint8", "bits16".
func (s ScalarType) String() string {
	if name := C.tenon_scalar_type_name(C.tenon_scalar_type(s)); name != nil {
		return C.GoString(name)
	}
	return fmt.Sprintf("ScalarType(%d)", int32(s))
}

// StorageName returns the name of PyTorch's storage class, such as "FloatStorage"; "" for a number
// that is not an element type.
func (s ScalarType) StorageName() string {
	return C.GoString(C.tenon_scalar_type_storage_name(C.tenon_scalar_type(s)))
}

// NBytes returns the size of one element of a storage in bytes. For quint4x2 and quint2x4 this is
// the byte that 2 or 4 elements of a tensor share. It is 0 for a number that is not an element
// type.
func (s ScalarType) NBytes() uint64 {
	return uint64(C.tenon_scalar_type_nbytes(C.tenon_scalar_type(s)))
}

// Since returns the oldest PyTorch that is known to read a storage of this type, such as "2.1". It
// is "1.4" for all types that are older, and "" for a number that is not an element type.
func (s ScalarType) Since() string {
	return C.GoString(C.tenon_scalar_type_since(C.tenon_scalar_type(s)))
}

// DType returns DLPack's element type for it. Quantised types, bits, integers under 8 bits and
// bcomplex32 have none, which is ErrUnsupported.
func (s ScalarType) DType() (DType, error) {
	var out C.tenon_dtype
	var failure *C.tenon_error
	if status := C.tenon_scalar_type_to_dtype(
		C.tenon_scalar_type(s), &out, &failure,
	); status != C.TENON_OK {
		return 0, takeError(status, failure)
	}
	return dtypeOf(out), nil
}

// ParseScalarType gives the element type with a name: torch.dtype's name ("float32"), PyTorch's own
// ("Float"), or the name of its storage class ("FloatStorage").
func ParseScalarType(name string) (ScalarType, error) {
	text, err := cText("the name", name)
	if err != nil {
		return 0, err
	}
	var out C.tenon_scalar_type
	var failure *C.tenon_error
	if status := C.tenon_scalar_type_parse(text, &out, &failure); status != C.TENON_OK {
		return 0, takeError(status, failure)
	}
	return ScalarType(out), nil
}

// ScalarTypeOf returns PyTorch's element type for one of DLPack's; ErrUnsupported if there is none.
func ScalarTypeOf(dtype DType) (ScalarType, error) {
	var out C.tenon_scalar_type
	var failure *C.tenon_error
	if status := C.tenon_scalar_type_from_dtype(dtype.c(), &out, &failure); status != C.TENON_OK {
		return 0, takeError(status, failure)
	}
	return ScalarType(out), nil
}
