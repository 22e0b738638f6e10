package keepalive

import (
	"crypto/tls"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/rlimit"
	"github.com/heartwheel-go/heartwheel/internal/socket"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

// betweenLooks is how often refused connections are looked at while there are any.
const betweenLooks = 20 * time.Millisecond

// turnAway closes a refused connection, after its last words if there are any.
func (k *Keeper) turnAway(c net.Conn, reason Reason, asked bool) {
	words := k.lastWords(c, reason)
	raw := plainSocket(c, k.unwrap())
	if len(words) == 0 || raw == nil {
		_ = c.Close()
		return
	}
	k.sayLastWords(c, raw, words, asked)
}

// sayLastWords closes a refused connection after its last words. asked says that its peer has said something.
func (k *Keeper) sayLastWords(c io.Closer, raw syscall.RawConn, words []byte, asked bool) {
	now, stay := time.Now(), k.policy.Load().Closing.Timeout
	one := &refusal{conn: c, raw: raw, words: words, speak: now.Add(stay / 2), until: now.Add(stay)}
	if asked {
		one.speak = now
	}
	k.refusals.add(one)
}

// lastWords asks OnRefuse.
func (k *Keeper) lastWords(conn any, reason Reason) (words []byte) {
	if onRefuse := k.policy.Load().OnRefuse; onRefuse != nil {
		k.call("OnRefuse", func() { words = onRefuse(conn, reason) })
	}
	return words
}

// plainSocket returns the socket of a connection, or nil if words written to it would not reach the peer as they are.
func plainSocket(c net.Conn, unwrap func(net.Conn) net.Conn) syscall.RawConn {
	for layer := range socket.Layers(c, unwrap) {
		if _, ok := layer.(*tls.Conn); ok || !socket.CanTry {
			return nil
		}
	}
	raw, _, _ := socket.Of(c, unwrap)
	return raw
}

// refusals are the refused connections that stay for their last words: each has a descriptor, so of more than
// rlimit.Refusals the first is closed at once. There is a timer while there are any, and no goroutine.
type refusals struct {
	mu    sync.Mutex
	all   []*refusal
	timer *time.Timer
}

// refusal is a refused connection. A close with unread bytes would reset it, and a reset takes the last words away from the
// peer. So the peer's bytes are dropped, until it closes the connection, or its time is over.
type refusal struct {
	conn  io.Closer
	raw   syscall.RawConn
	words []byte // nil once they are written
	speak time.Time
	until time.Time
	got   int
}

func (r *refusals) add(one *refusal) {
	r.mu.Lock()
	var first *refusal
	if r.all = append(r.all, one); len(r.all) > rlimit.Refusals() {
		first, r.all = r.all[0], r.all[1:]
	}
	switch {
	case r.timer == nil:
		r.timer = time.AfterFunc(betweenLooks, r.look)
	case len(r.all) == 1:
		r.timer.Reset(betweenLooks)
	}
	r.mu.Unlock()
	if first != nil {
		first.say()
		_ = first.conn.Close()
	}
}

// look looks at all of them.
func (r *refusals) look() {
	now, buf := time.Now(), make([]byte, 16<<10)
	var over []*refusal
	r.mu.Lock()
	left := r.all[:0]
	for _, one := range r.all {
		if one.isOver(now, buf) {
			over = append(over, one)
		} else {
			left = append(left, one)
		}
	}
	clear(r.all[len(left):])
	if r.all = left; len(left) > 0 {
		r.timer.Reset(betweenLooks)
	} else {
		r.all = nil
	}
	r.mu.Unlock()
	for _, one := range over {
		_ = one.conn.Close()
	}
}

// isOver drops what the peer has sent, and speaks when it has. It reports whether the connection can be closed.
func (r *refusal) isOver(now time.Time, buf []byte) bool {
	n, over := socket.TryDrop(r.raw, buf)
	if r.got += n; r.got > 0 || over || !now.Before(r.speak) {
		r.say()
	}
	return over || r.got > adapter.MaxLinger || !now.Before(r.until)
}

// say writes the last words, once, and ends our side. There is room for them, since nothing was written before.
func (r *refusal) say() {
	if r.words != nil {
		socket.TryWriteLast(r.raw, r.words)
		r.words = nil
	}
}
