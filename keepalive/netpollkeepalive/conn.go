//go:build !windows

package netpollkeepalive

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cloudwego/netpoll"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

// conn is a guarded connection, and its adapter. netpoll's poller fills a buffer, and the program
// reads from it on a goroutine of netpoll's or on its own. So a worker of the Keeper may decide at
// any time: it asks the socket and the buffer for bytes that the program has not read yet.
type conn struct {
	netpoll.Connection // netpoll's own
	guard              keepalive.Guard
	fd                 uintptr
	refused            bool
	found              atomic.Int64 // bytes in the buffer when last decided, or read since

	mu     sync.Mutex
	open   bool        // netpoll is done with the beginning
	end    func()      // what is left to do before that, or nil
	gone   bool        // netpoll closes the socket, or has closed it
	closed bool        // the program has called Close
	byPeer bool        // after the peer had closed it
	ended  bool        // End was called
	linger *time.Timer // or nil

	writing sync.Mutex  // a write of the program's, or the farewell
	broken  atomic.Bool // a write has failed, perhaps in the middle of a message

	left    int // bytes in the buffer after OnRequest; for its goroutine only
	dropped int // bytes of the peer after the end; for that goroutine only
}

var (
	_ netpoll.Conn      = (*conn)(nil)
	_ adapter.Buffering = (*conn)(nil)
)

// guarded begins to guard a connection before netpoll knows its socket.
func guarded(k *keepalive.Keeper, inner netpoll.Connection) (*conn, error) {
	c := &conn{Connection: inner, fd: uintptr(inner.(netpoll.Conn).Fd())}
	// netpoll calls the callbacks from the last one to the first. Its own is the first, and
	// closes the socket.
	_ = inner.AddCloseCallback(c.closing)
	return c, k.Bind(&c.guard, c, c, inner.RemoteAddr())
}

// SafeContext is keepalive.Of's way to the guard.
func (c *conn) SafeContext() any { return &c.guard }

// Fd returns the descriptor, as netpoll's own connections do.
func (c *conn) Fd() int { return int(c.fd) }

// IsActive reports false as soon as the Keeper has decided to close the connection.
func (c *conn) IsActive() bool { return c.reason() == nil && c.Connection.IsActive() }

// reason returns the Keeper's reason to close the connection, or nil.
func (c *conn) reason() net.Error { return c.guard.Binding().Reason() }

func (c *conn) SetOnRequest(on netpoll.OnRequest) error {
	if on == nil {
		return nil
	}
	return c.Connection.SetOnRequest(func(ctx context.Context, _ netpoll.Connection) error { return c.request(ctx, on) })
}

func (c *conn) AddCloseCallback(callback netpoll.CloseCallback) error {
	if callback == nil {
		return nil
	}
	return c.Connection.AddCloseCallback(func(netpoll.Connection) error { return callback(c) })
}

// request is OnRequest. netpoll calls it again and again while there are bytes in the buffer.
func (c *conn) request(ctx context.Context, on netpoll.OnRequest) error {
	if c.refused || c.reason() != nil {
		return c.drop()
	}
	if c.Len() > c.left || !c.guard.Binding().Tells() {
		c.heard()
	}
	err := on(ctx, c)
	c.left = c.Len()
	return err
}

// heard says that the program gets bytes of the peer.
func (c *conn) heard() {
	c.found.Store(int64(c.Buffered(nil))) // later bytes come after this touch
	c.guard.Binding().Read()
}

// drop drops bytes of the peer that are not for the program.
func (c *conn) drop() error {
	in := c.Connection.Reader()
	n := in.Len()
	if c.dropped += n; c.dropped > adapter.MaxLinger {
		return c.Connection.Close()
	}
	return errors.Join(in.Skip(n), in.Release())
}

// Due decides on a worker. Without a socket that tells, another number of bytes in the buffer than last time is a sign
// of life: more have come, or the program is just reading some, and about to say so.
func (c *conn) Due(b adapter.Binding) {
	if !b.Tells() {
		if n := int64(c.Buffered(b)); n != c.found.Swap(n) {
			b.Read()
		}
	}
	b.Decide()
}

// Buffered returns how many bytes of the peer wait in netpoll's buffer.
func (c *conn) Buffered(adapter.Binding) int { return c.Connection.Reader().Len() }

// Do runs f: any goroutine will do.
func (c *conn) Do(_ context.Context, _ adapter.Binding, f func()) error {
	f()
	return nil
}

// Control calls f with the socket.
func (c *conn) Control(_ adapter.Binding, f func(fd uintptr)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return net.ErrClosed
	}
	f(c.fd)
	return nil
}

// Peer returns the address of the peer. netpoll keeps it after the end.
func (c *conn) Peer(adapter.Binding) net.Addr { return c.RemoteAddr() }

// opened says that netpoll is done with the beginning of a connection. Shutdown would wait for ever
// for a connection closed before.
func (c *conn) opened() {
	c.mu.Lock()
	c.open = true
	end := c.end
	c.mu.Unlock()
	if end != nil {
		end()
	}
}

// Close is the program's. After the Keeper has closed the connection, it leaves the farewell its
// time.
func (c *conn) Close() error {
	byPeer := !c.Connection.IsActive()
	if b := c.guard.Binding(); b.Release() {
		c.mu.Lock()
		c.closed, c.byPeer = true, byPeer
		if c.gone { // closing was faster, and could not know why
			go b.Closed(byPeer)
		}
		c.mu.Unlock()
	} else if c.reason() != nil {
		return nil
	}
	return c.Connection.Close()
}

// closing is netpoll's last callback before it closes the socket, once. It may be on the poller,
// so OnClose has a goroutine of its own.
func (c *conn) closing(netpoll.Connection) error {
	b := c.guard.Binding()
	released := b.Release()
	byPeer := released && c.leftByPeer()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	if c.linger != nil {
		c.linger.Stop()
	}
	switch {
	case c.ended:
	case c.closed:
		byPeer = c.byPeer
	case !released: // End or Close goes on, or there is no Keeper any more
		return nil
	}
	go b.Closed(byPeer)
	return nil
}

// leftByPeer reports whether there is nothing more to read from a socket. Then it is the peer's
// end, and otherwise netpoll's Shutdown.
func (c *conn) leftByPeer() bool {
	n, _, err := syscall.Recvfrom(int(c.fd), make([]byte, 1), syscall.MSG_PEEK)
	return n <= 0 && !errors.Is(err, syscall.EAGAIN)
}
