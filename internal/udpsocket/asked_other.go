//go:build !linux

package udpsocket

import (
	"errors"
	"net/netip"
)

// TellAsked returns an error: the kernel does not tell.
func TellAsked(uintptr, bool) error { return errors.ErrUnsupported }

// Asked returns zero: unknown.
func Asked([]byte) netip.Addr { return netip.Addr{} }

// From is room for nothing.
type From struct{}

// Addr returns nothing: the kernel chooses the address.
func (*From) Addr(netip.Addr) []byte { return nil }
