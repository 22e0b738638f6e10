//go:build !linux

package gnetsocket

import "github.com/panjf2000/gnet/v2"

// SayLast returns the last bytes of a connection, for Write: all of them.
func SayLast(_ gnet.Conn, b []byte) (rest []byte) { return b }
