//go:build !tenon_static

package tenon

// #cgo pkg-config: tenon
import "C"
