package gnetkeepalive

import (
	"context"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/internal/gnetsocket"
	"github.com/heartwheel-go/heartwheel/internal/rlimit"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

// refused is in the SafeContext of a refused connection. One with last words stays for them: it drops what the peer sends,
// since a close with unread bytes would reset the connection, and take the words away. Only the event loop uses it.
type refused struct {
	stays bool
	then  time.Time // when it is closed at the latest
	words []byte    // not written so far
	got   int       // bytes of the peer
}

// turnAway begins to close a refused connection, and lets it stay for the last words if there are any. Beyond
// rlimit.Refusals it is closed at once.
func (h *handler) turnAway(c gnet.Conn, r *refused, reason keepalive.Reason) gnet.Action {
	if r.words = h.keeper.Binder().LastWords(c, reason); len(r.words) == 0 {
		return gnet.Close
	}
	if r.stays = int(h.refusals.Add(1)) <= rlimit.Refusals(); !r.stays {
		h.refusals.Add(-1)
		return gnet.Close
	}
	stay := h.keeper.Config().Closing.Timeout
	r.then = time.Now().Add(stay)
	later(c, r, stay/2, func() { r.say(c) }) // unless the peer says something before
	return gnet.None
}

// later calls f in the event loop after d, unless the connection is closed by then.
func later(c gnet.Conn, r *refused, d time.Duration, f func()) {
	events := c.EventLoop()
	time.AfterFunc(d, func() {
		_ = events.Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error {
			if c.SafeContext() == r {
				f()
			}
			return nil
		}))
	})
}

// say writes the last words, once, and ends our side. The peer has its time to close the other one.
func (r *refused) say(c gnet.Conn) {
	if r.words == nil {
		return
	}
	_, _ = c.Write(r.words) // if it fails, gnet closes the connection
	r.words = nil
	if c.SafeContext() != r {
		return
	}
	_ = gnetsocket.CloseWrite(c)
	later(c, r, time.Until(r.then), func() { _ = c.EventLoop().Close(c) })
}

// drop drops the peer's bytes: it has asked, and gets the last words.
func (r *refused) drop(c gnet.Conn) gnet.Action {
	n, _ := c.Discard(-1)
	if r.got += n; r.got > adapter.MaxLinger {
		return gnet.Close
	}
	r.say(c)
	return gnet.None
}
