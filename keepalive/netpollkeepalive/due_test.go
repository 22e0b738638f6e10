//go:build !windows

package netpollkeepalive

import (
	"testing"

	"github.com/cloudwego/netpoll"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

// buffered is a connection with a buffer.
type buffered struct {
	netpoll.Connection
	buffer
}

func (b *buffered) Reader() netpoll.Reader { return &b.buffer }

// buffer has so many bytes.
type buffer struct {
	netpoll.Reader
	bytes int
}

func (b *buffer) Len() int { return b.bytes }

// untold is the binding of a connection whose socket does not know when bytes last arrived. It counts touches.
type untold struct {
	adapter.Binding
	touches int
}

func (*untold) Tells() bool { return false }
func (u *untold) Read()     { u.touches++ }
func (*untold) Decide()     {}

// The Keeper comes while the program is in the middle of a read: the bytes have gone from the buffer, and the touch for
// them is about to come.
func TestBytesThatAreJustBeingReadAreLife(t *testing.T) {
	var inner buffered
	var b untold
	c := &conn{Connection: &inner}
	for _, step := range []struct{ bytes, touches int }{{0, 0}, {3, 1}, {3, 1}, {5, 2}, {0, 3}, {0, 3}, {1, 4}} {
		inner.bytes = step.bytes
		c.Due(&b)
		require.Equal(t, step.touches, b.touches, "%d bytes", step.bytes)
	}
}
