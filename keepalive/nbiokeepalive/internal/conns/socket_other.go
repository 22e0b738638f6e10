//go:build !unix

package conns

import "errors"

func shut(uintptr)            {}
func shutWrite(uintptr) error { return errors.ErrUnsupported }
func reset(uintptr)           {}
func readable(uintptr) bool   { return false }
