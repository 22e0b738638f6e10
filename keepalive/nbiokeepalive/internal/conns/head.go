package conns

import (
	"net"
	"sync/atomic"

	"github.com/lesismal/nbio"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/proxyprotocol"
)

// head is the beginning of a connection whose client is named by a header. Only nbio's goroutine with the bytes uses
// part, and no field but stage and closed ever changes otherwise.
type head struct {
	headers *proxyprotocol.Headers
	open    func(nb *nbio.Conn) // tells the program, or nil if it knows the connection
	proxy   net.Addr            // a copy, since any goroutine may read it
	part    []byte              // of the header
	stage   atomic.Uint32
	closed  func() // set before the stage
}

// The stages of a head.
const (
	awaited = iota // the header
	opening        // the program is being told
	told           // of the connection
	untold         // it has ended before, and the program never hears of it
)

// Accept is Open for an accepted connection, which may begin with a header. open tells the program, if it is not refused.
func Accept(k *keepalive.Keeper, nb *nbio.Conn, headers *proxyprotocol.Headers, open func(nb *nbio.Conn)) {
	headed := false
	if !nb.IsUDP() {
		var err error
		if headed, err = headers.Expects(nb.RemoteAddr()); err != nil {
			c := &Conn{nb: nb}
			all.Store(nb, c)
			c.turnAway(keepalive.ReasonLocal)
			return
		}
	}
	if !headed {
		if Open(k, nb) && open != nil {
			open(nb)
		}
		return
	}
	bind(k, &Conn{nb: nb, head: &head{headers: headers, open: open, proxy: proxyprotocol.Copy(nb.RemoteAddr())}}, nil)
}

// named reads the header off the bytes that have come. It reports whether the program may have what is left of data.
func (c *Conn) named(data *[]byte) bool {
	h := c.head
	switch {
	case h == nil:
		return true
	case h.stage.Load() != awaited:
		return h.stage.Load() != untold // nbio's goroutine may come with bytes of an ended one
	}
	h.part = append(h.part, *data...)
	header, whole, err := h.headers.Parse(h.proxy, h.part[:min(len(h.part), proxyprotocol.MaxSize)])
	switch {
	case err != nil:
		_ = c.nb.CloseWithError(err)
		return false
	case !whole:
		return false
	case header.Size == 0:
		header.Source = h.proxy // its own
	}
	*data = append((*data)[:0], h.part[header.Size:]...)
	h.part = nil
	b := c.guard.Binding()
	b.Header(header.Size)
	proxyprotocol.Rename(c.nb.RemoteAddr(), header.Source)
	if header.Source != nil && b.Identify(header.Source) != nil {
		c.refused.Store(uint32(keepalive.ReasonFull))
		_ = c.nb.CloseWithError(keepalive.ReasonFull)
		return false
	}
	return c.tell() && len(*data) > 0
}

// tell tells the program of a connection with all of its header. It reports false if the connection has ended: its end is
// told after its beginning, or not at all.
func (c *Conn) tell() bool {
	h := c.head
	if c.guard.Binding().Reason() != nil || !h.stage.CompareAndSwap(awaited, opening) {
		return false
	}
	if h.open != nil {
		h.open(c.nb)
	}
	if h.stage.CompareAndSwap(opening, told) {
		return true
	}
	h.closed()
	return false
}

// ended is called when nbio has closed the connection. If later is true, closed is called when the program has been
// told of its beginning. If unknown is true, the program never hears of it.
func (h *head) ended(closed func()) (unknown, later bool) {
	if h == nil {
		return false, false
	}
	h.closed = closed
	unknown = h.stage.CompareAndSwap(awaited, untold) && h.open != nil
	return unknown, h.stage.CompareAndSwap(opening, told)
}
