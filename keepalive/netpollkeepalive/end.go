//go:build !windows

package netpollkeepalive

import (
	"errors"
	"syscall"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

// pause is how long a farewell waits for the program's own write, and for room in the socket.
const pause = 5 * time.Millisecond

// End closes a connection. Its farewell may have to wait, so it has a goroutine of its own.
func (c *conn) End(b adapter.Binding, e adapter.Ending) {
	end := func() { c.shut(e.Mode) }
	if len(e.Farewell) > 0 || e.Mode == adapter.Half {
		end = func() { go c.part(e.Farewell, e.Mode, time.Now().Add(e.Timeout)) }
	}
	c.mu.Lock()
	c.ended = true
	switch {
	case c.gone:
		end = func() { go b.Closed(false) }
	case !c.open:
		c.end, end = end, func() {}
	}
	c.mu.Unlock()
	end()
}

// part says farewell. With CloseHalf it then leaves the end to the peer, until the deadline.
func (c *conn) part(farewell []byte, mode adapter.Mode, deadline time.Time) {
	c.say(farewell, deadline)
	if mode != adapter.Half || c.shutdown(syscall.SHUT_WR) != nil {
		c.shut(mode)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.linger = time.AfterFunc(time.Until(deadline), func() { c.shut(mode) })
	if c.gone {
		c.linger.Stop()
	}
}

// say writes a farewell past netpoll's buffer, which belongs to the program. It ends without all
// of it at the deadline, or if the connection is broken or closed.
func (c *conn) say(farewell []byte, deadline time.Time) {
	for len(farewell) > 0 && time.Now().Before(deadline) {
		n, err := c.send(farewell)
		switch {
		case err != nil:
			return
		case n == 0:
			time.Sleep(pause)
		}
		farewell = farewell[n:]
	}
}

// send writes what the socket takes, and nothing in the middle of a write of the program's.
func (c *conn) send(p []byte) (n int, err error) {
	if !c.writing.TryLock() {
		return 0, nil
	}
	defer c.writing.Unlock()
	if c.broken.Load() {
		return 0, syscall.EPIPE
	}
	closed := c.Control(nil, func(fd uintptr) { n, err = syscall.Write(int(fd), p) })
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
		return 0, nil
	}
	return max(n, 0), errors.Join(closed, err)
}

// shut closes the connection, by way of the poller: to netpoll it is the peer's end. So it is right
// during OnRequest, too. The peer sees it at once. A reset has to wait for netpoll to close the socket, after OnRequest.
func (c *conn) shut(mode adapter.Mode) {
	if mode != adapter.Reset {
		_ = c.shutdown(syscall.SHUT_RDWR)
		return
	}
	_ = c.Control(nil, func(fd uintptr) {
		_ = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	})
	_ = c.shutdown(syscall.SHUT_RD)
}

func (c *conn) shutdown(how int) (err error) {
	closed := c.Control(nil, func(fd uintptr) { err = syscall.Shutdown(int(fd), how) })
	return errors.Join(closed, err)
}
