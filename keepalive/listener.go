package keepalive

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"

	"github.com/heartwheel-go/heartwheel/pool"
)

// Listener returns a listener whose connections are guarded from the moment on
// at which they are accepted. Accept returns the errors of ln as they are. Where
// there are too many connections, it closes the new one and waits for the next.
// Closing the listener closes no connection.
//
// Wrap the listener of the network, and TLS around the result: http.ServeTLS and
// tls.NewListener then work as ever, HTTP/2 included. A listener of TLS
// connections works too, but net/http does not recognize what comes out of it as
// TLS.
func (k *Keeper) Listener(ln net.Listener) net.Listener {
	closing, cancel := context.WithCancel(context.Background())
	return &listener{inner: ln, keeper: k, closing: closing, close: cancel}
}

type listener struct {
	inner   net.Listener
	keeper  *Keeper
	closing context.Context // done when it is closed
	close   context.CancelFunc
	warning sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		if err := l.waitForRoom(); err != nil {
			return nil, err
		}
		inner, err := l.inner.Accept()
		if err != nil {
			return nil, err
		}
		l.warnOfTLS(inner)
		c, err := l.keeper.guarded(inner)
		switch {
		case errors.Is(err, ErrFull), errors.Is(err, ErrDraining):
			_ = inner.Close()
		case err != nil:
			return inner, nil // the Keeper has been closed
		default:
			return c, nil
		}
	}
}

func (l *listener) warnOfTLS(c net.Conn) {
	if _, ok := c.(*tls.Conn); ok {
		l.warning.Do(func() {
			l.keeper.log.Warn("keepalive: the listener inside speaks TLS; net/http will not see that: wrap it the other way round")
		})
	}
}

// waitForRoom waits, where that is the policy, until one more connection may come.
func (l *listener) waitForRoom() error {
	if l.keeper.policy.Load().Full != pool.Wait {
		return nil
	}
	if err := l.keeper.pool.Wait(l.closing); err != nil && l.closing.Err() != nil {
		return &net.OpError{Op: "accept", Net: l.Addr().Network(), Addr: l.Addr(), Err: net.ErrClosed}
	}
	return nil
}

func (l *listener) Close() error {
	l.close()
	return l.inner.Close()
}

func (l *listener) Addr() net.Addr { return l.inner.Addr() }

// NetListener returns the listener inside, for whoever needs its socket.
func (l *listener) NetListener() net.Listener { return l.inner }
