// Package conns guards the connections of nbio. It is the adapter behind packages nbiokeepalive
// and nbhttpkeepalive.
package conns

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lesismal/nbio"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

// all has the Conn of each *nbio.Conn, from Open to the end of Closed. Session is the program's,
// so nbio has no other place for it.
var all sync.Map

func init() {
	adapter.Find(func(conn any) adapter.Binding {
		if nb, ok := conn.(*nbio.Conn); ok {
			if c := Of(nb); c != nil {
				return c.guard.Binding()
			}
		}
		return nil
	})
}

// Conn is what the adapter knows of a connection. A nil Conn is of a connection never guarded.
type Conn struct {
	guard   keepalive.Guard
	nb      *nbio.Conn
	state   atomic.Uint32 // idle, busy or due
	closing atomic.Uint32 // how many of End and nbio's close have come
	refused atomic.Uint32 // a keepalive.Reason, or 0
	sent    atomic.Int64  // bytes of the peer after our side was closed
	head    *head         // nil without a header
}

const (
	idle = iota
	busy // the program handles bytes
	due  // the decision comes after these bytes, or the next
)

var _ adapter.Adapter = (*Conn)(nil)

// Of returns the Conn of a connection, or nil.
func Of(nb *nbio.Conn) *Conn {
	c, _ := all.Load(nb)
	found, _ := c.(*Conn)
	return found
}

// Open begins to guard a connection. It reports false if the connection is refused: the program
// hears nothing of it.
func Open(k *keepalive.Keeper, nb *nbio.Conn) bool {
	if nb.IsUDP() {
		return true
	}
	return bind(k, &Conn{nb: nb}, nb.RemoteAddr())
}

// bind is Open for a connection from an address, or nil while its header is to come.
func bind(k *keepalive.Keeper, c *Conn, remote net.Addr) bool {
	nb := c.nb
	all.Store(nb, c)
	err := k.Bind(&c.guard, nb, c, remote)
	if reason, refused := errors.AsType[keepalive.Reason](err); refused {
		c.turnAway(reason)
		return false
	}
	switch {
	case c.head != nil: // also if the Keeper has been closed
		c.guard.Binding().Header(-1)
	case err != nil: // the Keeper has been closed
		all.Delete(nb)
		return true
	}
	if closed, why := isClosed(nb); closed { // perhaps nbio has said so before there was a Conn, see DialAsync
		c.Closed(why, func(error) {})
	}
	return true
}

// isClosed reports whether nbio has closed a connection, and why.
func isClosed(nb *nbio.Conn) (bool, error) {
	nb.Lock()
	defer nb.Unlock()
	return nb.IsClosed()
}

// turnAway refuses the connection for a reason.
func (c *Conn) turnAway(reason keepalive.Reason) {
	c.refused.Store(uint32(reason))
	c.refuse()
}

// refuse closes the connection. nbio is about to add its descriptor to the poller, and after a
// close that could be somebody else's. So the poller closes it when it sees the end.
func (c *Conn) refuse() {
	if c.Control(nil, func(fd uintptr) { shut(fd) }) == nil {
		return
	}
	_ = c.nb.Close()
	// nbio tells of its end soon, unless it has done so before, see DialAsync.
	time.AfterFunc(time.Minute, func() { all.CompareAndDelete(c.nb, c) })
}

// Refused returns the reason if the connection was refused, or nil.
func (c *Conn) Refused() error {
	if c == nil || c.refused.Load() == 0 {
		return nil
	}
	return keepalive.Reason(c.refused.Load())
}

// Enter is called before the program handles bytes, or nil if it reads them itself. If it reports false, they are not for the
// program. Otherwise a header is gone from data, and Leave follows. A goroutine of nbio's may come with bytes when the connection has ended, and
// nothing is known of it any more.
func Enter(nb *nbio.Conn, data *[]byte) (c *Conn, ok bool) {
	c = Of(nb)
	switch {
	case c == nil:
		closed, _ := isClosed(nb)
		return nil, !closed
	case c.refused.Load() != 0:
		return c, false
	case c.guard.Binding().Reason() != nil:
		if data != nil {
			c.linger(len(*data))
		}
		return c, false
	}
	c.state.CompareAndSwap(idle, busy)
	if !c.named(data) {
		c.Leave()
		return c, false
	}
	c.guard.Binding().Read()
	return c, true
}

// Leave is called after the program has handled bytes. A decision comes before nbio reads more: bytes that it has read,
// and that Enter has not seen, would be unread ones that nobody knows of.
func (c *Conn) Leave() {
	if c != nil && c.state.Swap(idle) == due {
		decided := make(chan struct{})
		go func() { // the program may end its goroutine, but not nbio's
			defer close(decided)
			c.decide()
		}()
		<-decided
	}
}

// Closed is called once nbio has closed the connection. tell tells the program, unless the
// connection was refused.
func (c *Conn) Closed(err error, tell func(err error)) {
	switch {
	case c == nil:
		tell(err)
		return
	case c.refused.Load() != 0:
		all.Delete(c.nb)
		return
	}
	unknown, later := c.head.ended(func() { c.Closed(err, tell) })
	if later {
		return
	}
	b := c.guard.Binding()
	released, byPeer := b.Release(), isByPeer(err)
	reason := b.Reason()
	if reason != nil {
		err = reason
	}
	defer func() {
		switch {
		case released:
			c.gone(byPeer)
		case reason == nil: // the Keeper has been closed
			all.Delete(c.nb)
		case c.closing.Add(1) == 2:
			c.gone(false)
		}
	}()
	if !unknown {
		tell(err)
	}
}

// gone tells the Keeper of the end.
func (c *Conn) gone(byPeer bool) {
	defer all.Delete(c.nb)
	c.guard.Binding().Closed(byPeer)
}

// isByPeer tells an end by the peer or the network from one by the program.
func isByPeer(err error) bool {
	_, broken := errors.AsType[syscall.Errno](err)
	return broken || errors.Is(err, io.EOF)
}

// Due decides, or leaves that to Leave: after the bytes in the program's hands, and after unread bytes
// if the Keeper can't ask the socket how old they are.
func (c *Conn) Due(adapter.Binding) {
	switch {
	case c.state.Load() == due:
	case c.unread() && c.state.CompareAndSwap(idle, due):
		if !c.unread() && c.state.CompareAndSwap(due, idle) { // read meanwhile
			c.decide()
		}
	case c.state.CompareAndSwap(busy, due):
	default:
		c.decide()
	}
}

// unread reports whether bytes wait for nbio, unless the Keeper asks the socket itself.
func (c *Conn) unread() (waiting bool) {
	if !c.guard.Binding().Tells() {
		_ = c.Control(nil, func(fd uintptr) { waiting = readable(fd) })
	}
	return waiting
}

// decide decides behind the jobs of the connection. A job may run here, and so may later ones of
// the program: they can take long, and must not be ended.
func (c *Conn) decide() {
	if c.nb.ExecuteLen() == 0 {
		c.guard.Binding().Decide()
		return
	}
	go c.nb.Execute(func() { go c.guard.Binding().Decide() })
}

// Do runs f: any goroutine will do.
func (c *Conn) Do(_ context.Context, _ adapter.Binding, f func()) error {
	f()
	return nil
}

// Control calls f with the socket. nbio closes it only after it has had the lock.
func (c *Conn) Control(_ adapter.Binding, f func(fd uintptr)) error {
	raw, err := c.nb.SyscallConn()
	if err != nil {
		return err
	}
	c.nb.Lock()
	defer c.nb.Unlock()
	if closed, _ := c.nb.IsClosed(); closed {
		return net.ErrClosed
	}
	return raw.Control(f)
}

// Peer returns the address of the peer, or of its proxy.
func (c *Conn) Peer(adapter.Binding) net.Addr {
	if c.head != nil {
		return c.head.proxy
	}
	return c.nb.RemoteAddr()
}
