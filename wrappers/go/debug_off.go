//go:build !tenon_debug

package tenon

func collect() {}
