package debughttp

import (
	"context"
	"net"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// askTimeout is how long event loops may take to tell the addresses of their connections.
const askTimeout = 100 * time.Millisecond

// never is so long that a deadline is none.
const never = 100 * 365 * 24 * time.Hour

// look is the last look for the idlest connections. Among a million it may take long, so the next
// look comes after 20 times as long. Only the taker of a snapshot uses it. It keeps no
// connection.
type look struct {
	idlest []Idle
	at     time.Time
	fresh  time.Time // until when there is no other look
}

// refresh looks again, unless the last look is fresh.
func (l *look) refresh(h *Handler) {
	begin := time.Now()
	if begin.Before(l.fresh) {
		return
	}
	conns := h.keeper.Idlest(maxIdlest)
	cost := time.Since(begin)
	addrs := h.ask(conns)
	l.idlest, l.at = h.idlest(conns, addrs), time.Now()
	l.fresh = l.at.Add(freshShare * cost)
}

// ask asks connections for their addresses, all at once, and waits for askTimeout at most. A
// connection may never answer. Its token stays taken, and later calls can ask fewer connections.
func (h *Handler) ask(conns []any) []net.Addr {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	type answer struct {
		conn int
		addr net.Addr
	}
	answers := make(chan answer, len(conns))
	asked := 0
	for i, conn := range conns {
		select {
		case h.asking <- struct{}{}:
		default:
			continue
		}
		asked++
		go func() {
			var addr net.Addr
			defer func() {
				_ = recover() // a panic of the connection is no address
				<-h.asking
				answers <- answer{i, addr}
			}()
			addr = keepalive.Of(conn).RemoteAddr(ctx)
		}()
	}
	addrs := make([]net.Addr, len(conns))
	for range asked {
		select {
		case a := <-answers:
			addrs[a.conn] = a.addr
		case <-ctx.Done():
			return addrs
		}
	}
	return addrs
}

// idlest returns the open ones of some connections, for the page.
func (h *Handler) idlest(conns []any, addrs []net.Addr) []Idle {
	idlest := []Idle{}
	for i, conn := range conns {
		guard := keepalive.Of(conn)
		info, guarded := guard.Info()
		at, reason, open := guard.Deadline()
		if !guarded || !open {
			continue
		}
		idle := Idle{
			Addr:      h.names.of(addrs[i]),
			Idle:      info.Idle.Seconds(),
			Timeout:   info.Timeout.Seconds(),
			Age:       info.Age.Seconds(),
			Ends:      reason.String(),
			RoundTrip: info.RoundTrip.Seconds(),
			Held:      info.Held,
		}
		// While the connection is held, silence is no end.
		if left := time.Until(at); left < never && (!info.Held || reason == keepalive.ReasonMaxAge) {
			seconds := max(left, 0).Seconds()
			idle.Left = &seconds
		}
		idlest = append(idlest, idle)
	}
	return idlest
}
