// Versions of the C library, and the check that the loaded one has the right ABI.

package tenon

// #include "tenon_go.h"
import "C"

import "fmt"

// init checks the library that was loaded, before any other call. (The #error in tenon_go.h checks
// the header that the package is compiled with.)
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

// Version returns the version of the loaded C library, such as "0.1.0".
func Version() string { return C.GoString(C.tenon_version_string()) }

// ABIVersion returns the number of the ABI of the loaded C library.
func ABIVersion() int { return int(C.tenon_abi_version()) }
