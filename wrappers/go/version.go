package tenon

// #include "tenon_go.h"
import "C"

import "fmt"

// The header's #error compares what this is compiled with; this compares what was loaded, before
// any other call.
func init() {
	if loaded := C.tenon_abi_version(); loaded != C.TENON_ABI_VERSION {
		panic(
			fmt.Sprintf(
				"tenon: the loaded libtenon has ABI %d, and this program was built for ABI %d",
				loaded,
				C.TENON_ABI_VERSION,
			),
		)
	}
}

// Version is the version of the C library that is loaded, as in "0.1.0".
func Version() string { return C.GoString(C.tenon_version_string()) }

// ABIVersion is the ABI of the C library that is loaded.
func ABIVersion() int { return int(C.tenon_abi_version()) }
