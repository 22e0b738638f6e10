package main

import (
	"net/netip"
	"time"

	"github.com/heartwheel-go/heartwheel/loadtest/fleet"
)

// target returns the address for a connection.
func (w *worker) target(i int) (netip.AddrPort, error) {
	if w.clients == nil {
		return w.server(w.first + i), nil
	}
	return w.clients.Target(i, w.line == nil)
}

// hello is the first line of a connection.
func (w *worker) hello(i int32) []byte {
	if w.clients == nil {
		return []byte("PING\n") // its answer says that the server serves this connection
	}
	return w.clients.Hello(i)
}

// fleetAnswer takes in a line, and reports whether it is of gateways only.
func (w *worker) fleetAnswer(i int32, c *conn, line []byte, now time.Duration) bool {
	switch w.clients.Answer(i, line, now, c.state == connecting) {
	case fleet.Other:
		return false
	case fleet.Bye:
	case fleet.Stray:
		w.result.stray++
	case fleet.Welcome:
		w.welcome(c, now)
	case fleet.Back:
		c.state = live
		w.waiting--
		w.series.count(opened, now)
	}
	return true
}

// closedWithNode is for a session after the end of its connection, and reports whether its node has
// ended, too.
func (w *worker) closedWithNode(i int32, c *conn, now time.Duration) bool {
	if !w.clients.Closed(i, now) {
		return false
	}
	if c.goSilent > 0 { // no server closes it for its silence any more
		c.goSilent = 0
		w.isClosed()
		w.result.silent--
		w.result.live++
		if c.state == silent {
			w.series.count(silentGone, now)
		}
	}
	c.state = gone
	w.series.count(closedWithNode, now)
	return true
}

// nextReturn returns when the next client of a fleet comes back, and whether any does.
func (w *worker) nextReturn() (at time.Duration, ok bool) {
	if w.clients == nil {
		return 0, false
	}
	return w.clients.Next()
}

// reopen begins to open the connections of returning clients.
func (w *worker) reopen(now time.Duration) {
	for w.waiting < w.window() && w.last == 0 {
		if at, ok := w.nextReturn(); !ok || at > now {
			return
		}
		i := w.clients.Pop()
		c := &w.conns[i]
		c.sent, c.partial = 0, nil
		if err := w.connect(c, int(i)); err != nil {
			w.failed(i, c, err)
			continue
		}
		c.state = connecting
		w.waiting++
	}
}
