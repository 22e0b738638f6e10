package keepalive

import (
	"fmt"
	"io"
	"time"
)

// CloseMode is how a Keeper closes a connection.
type CloseMode int

const (
	// CloseGraceful closes it as Close does: what has been written still leaves. On
	// gnet, what waits for a slow peer is dropped where that has been silent for too
	// long and gets no farewell.
	CloseGraceful CloseMode = iota

	// CloseHalf ends our side, and waits until the peer has ended its own, but no
	// longer than Config.FarewellTimeout, before it closes the connection: so that a
	// peer which is still sending can read the farewell, which a reset would take away.
	CloseHalf

	// CloseReset drops what is unsent and resets the connection: the kernel keeps
	// nothing of it.
	CloseReset
)

// MaxLinger is how many bytes a peer may still send after our side was closed.
const MaxLinger = 4 << 20

var closeModeNames = [...]string{"graceful", "half", "reset"}

func (m CloseMode) String() string {
	if m < 0 || int(m) >= len(closeModeNames) {
		return fmt.Sprintf("CloseMode(%d)", int(m))
	}
	return closeModeNames[m]
}

// LastWords returns what Config.Farewell has to say, and until when it may take to say
// it. Adapters call it once, after Expire has said true, and before the connection is
// closed.
func (k *Keeper) LastWords(g *Guard) (farewell []byte, mode CloseMode, timeout time.Duration) {
	p := k.policy.Load()
	if d := g.details.Load(); d != nil {
		d.tell(g.Reason())
	}
	if p.Farewell != nil {
		k.call("Farewell", func() { farewell = p.Farewell(g.conn, g.Reason()) })
	}
	return farewell, p.CloseMode, p.FarewellTimeout
}

// end closes the connection for a reason of the Keeper's. A farewell that has to wait
// does that elsewhere: the workers are for others.
func (c *conn) end(reason Reason) {
	c.ended.Store(uint32(reason))
	farewell, mode, timeout := c.keeper.LastWords(c.guard)
	if len(farewell) == 0 && mode != CloseHalf {
		c.shut(mode)
		c.keeper.Closed(c.guard, reason)
		return
	}
	go func() {
		c.bid(farewell, mode, timeout)
		c.shut(mode)
		c.keeper.Closed(c.guard, reason)
	}()
}

// shut closes the connection inside.
func (c *conn) shut(mode CloseMode) {
	if lingerer, ok := c.inner.(interface{ SetLinger(sec int) error }); ok && mode == CloseReset {
		_ = lingerer.SetLinger(0)
	}
	_ = c.inner.Close()
}

// bid says the last words, and with CloseHalf waits for the peer's.
func (c *conn) bid(farewell []byte, mode CloseMode, timeout time.Duration) {
	end := time.AfterFunc(timeout, func() { _ = c.inner.Close() }) // deadlines are the user's
	defer end.Stop()
	if len(farewell) > 0 {
		if _, err := c.inner.Write(farewell); err != nil {
			return
		}
	}
	half, ok := c.inner.(interface{ CloseWrite() error })
	if ok && mode == CloseHalf && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(c.inner, MaxLinger))
	}
}
