// Package socket finds the socket of a connection through the layers around it.
package socket

import (
	"errors"
	"iter"
	"net"
	"reflect"
	"syscall"
)

// ErrNone means that a connection shows no socket.
var ErrNone = errors.New("no socket")

// maxLayers bounds how deep a search goes, since a connection may claim to be inside itself.
const maxLayers = 100

// Of returns the socket of a connection, or of one inside it, and how many layers are around that. It
// returns ErrNone if none of them shows a socket, and otherwise the error of the innermost one that does.
// unwrap is that of Layers.
func Of(c net.Conn, unwrap func(net.Conn) net.Conn) (raw syscall.RawConn, layers int, err error) {
	err = ErrNone
	for layer := range Layers(c, unwrap) {
		if shown, ok := layer.(syscall.Conn); ok {
			raw, e := shown.SyscallConn()
			if e == nil {
				return raw, layers, nil
			}
			if !errors.Is(e, errors.ErrUnsupported) { // a layer may have the method, and no socket
				err = e
			}
		}
		layers++
	}
	return nil, layers, err
}

// Layers returns an iterator over a connection and those inside it, the innermost last. unwrap returns
// the connection inside another one, or nil if it does not know; a nil unwrap knows none. A nil pointer is nil. Then the
// methods NetConn, as of a *tls.Conn, and Raw, as of a connection with a PROXY header, lead inside.
func Layers(c net.Conn, unwrap func(net.Conn) net.Conn) iter.Seq[net.Conn] {
	return func(yield func(net.Conn) bool) {
		layer := c
		for range maxLayers {
			if isNil(layer) || !yield(layer) {
				return
			}
			layer = inside(layer, unwrap)
		}
	}
}

// inside returns the connection inside another one, or nil.
func inside(c net.Conn, unwrap func(net.Conn) net.Conn) net.Conn {
	if unwrap != nil {
		if inner := unwrap(c); !isNil(inner) && !same(inner, c) {
			return inner
		}
	}
	switch layer := c.(type) {
	case interface{ NetConn() net.Conn }:
		return layer.NetConn()
	case interface{ Raw() net.Conn }:
		return layer.Raw()
	}
	return nil
}

// isNil reports whether c is nil, or a nil pointer: what a layer shows that has nothing inside yet.
func isNil(c net.Conn) bool {
	v := reflect.ValueOf(c)
	return c == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// same reports whether a and b are the same connection. Those of some types can't be compared.
func same(a, b net.Conn) bool { return reflect.ValueOf(a).Comparable() && a == b }

// IsPipe reports whether the innermost connection is a net.Pipe. It has no socket, and no buffer where
// bytes could wait.
func IsPipe(c net.Conn, unwrap func(net.Conn) net.Conn) bool {
	for layer := range Layers(c, unwrap) {
		c = layer
	}
	return c != nil && reflect.TypeOf(c) == pipe
}

var pipe = func() reflect.Type {
	end, _ := net.Pipe()
	return reflect.TypeOf(end)
}()
