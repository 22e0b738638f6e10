package keepalive

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
)

// Listener returns a listener of guarded connections. Accept returns the errors of ln as they
// are. If there are too many connections, it closes the new one and waits for the next. With
// FullWait it waits until there is room. Close the result, and not ln alone: an Accept waiting
// for room does not notice the end of ln. Closing the listener closes no connection.
//
// ln may be a listener of another package around the one of the network. The Keeper asks the
// socket of a connection whether bytes of its peer wait, and finds it as Config.Unwrap says. If a
// connection shows no socket, nobody can tell whether the program is slow. So while nobody reads
// from the connection, a silence of its peer may last four times as long as otherwise, and no
// longer: a program that never reads again must not keep a dead peer. One that is busy for longer tells so by Guard.Hold. The
// first such connection of a listener is logged. A net.Pipe is no such connection, since it
// holds no bytes. A Write that waits in it is not seen either: while the program is busy for a timeout, use Guard.Hold.
//
// Wrap the listener of the network, and put TLS around the result: http.ServeTLS and
// tls.NewListener then work as ever, HTTP/2 included. A listener of TLS connections works, too,
// but net/http does not recognize its connections as TLS. For net/http, see package
// httpkeepalive.
//
// Listener panics without a Keeper from New, or without a listener. Accept returns an error if ln
// accepts a nil connection.
func (k *Keeper) Listener(ln net.Listener) net.Listener {
	k.must("Listener")
	if isNil(ln) {
		panic(fmt.Sprintf("keepalive: Listener needs a listener, and got %#v", ln))
	}
	closing, cancel := context.WithCancel(context.Background())
	return &listener{inner: ln, keeper: k, closing: closing, close: cancel}
}

type listener struct {
	inner   net.Listener
	keeper  *Keeper
	closing context.Context // done after Close
	close   context.CancelFunc
	overTLS atomic.Bool // warned of a connection of TLS
	blind   atomic.Bool // warned of one without a socket
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		if err := l.wait(); err != nil {
			return nil, err
		}
		inner, err := l.inner.Accept()
		if err != nil {
			return nil, err
		}
		if isNil(inner) {
			return nil, fmt.Errorf("keepalive: the listener %T accepted the nil connection %#v", l.inner, inner)
		}
		c, err := l.wrap(inner)
		switch {
		case err == nil:
			l.warn(c.(interface{ self() *conn }).self())
			return c, nil
		case errors.Is(err, ErrNotGuarded):
			strangers.add(inner)
			return inner, nil
		}
		l.keeper.countRefused(err)
		l.keeper.turnAway(inner, reasonOf(err), false)
		if l.closing.Err() != nil {
			return nil, l.closedError()
		}
	}
}

// wrap guards a connection. With FullWait it waits for room: another listener may have taken
// the place since wait returned.
func (l *listener) wrap(inner net.Conn) (net.Conn, error) {
	for {
		c, err := l.keeper.wrap(inner)
		if err != ReasonFull || l.keeper.policy.Load().Room.Full != FullWait || l.wait() != nil { //nolint:errorlint // not errPerKey
			return c, err
		}
	}
}

// warn warns of the first connections that are not as they should be.
func (l *listener) warn(c *conn) {
	if _, ok := c.inner.(*tls.Conn); ok && l.overTLS.CompareAndSwap(false, true) { // with a sync.Once, others would wait for the log
		l.keeper.log.Warn("keepalive: the listener inside speaks TLS; net/http will not see that: wrap it the other way round")
	}
	if c.noted != nil && c.noted.blind && l.blind.CompareAndSwap(false, true) {
		l.keeper.log.Warn("keepalive: the connections of a listener show no socket, so nobody can tell whether bytes of a silent peer wait; see Config.Unwrap",
			"listener", l.Addr(), "conn", fmt.Sprintf("%T", c.inner))
	}
}

// wait waits until one more connection may come, if the policy is FullWait.
func (l *listener) wait() error {
	if l.keeper.policy.Load().Room.Full != FullWait {
		return nil
	}
	if err := l.keeper.pool.Wait(l.closing); err != nil && l.closing.Err() != nil {
		return l.closedError()
	}
	return nil
}

func (l *listener) closedError() error {
	return &net.OpError{Op: "accept", Net: l.Addr().Network(), Addr: l.Addr(), Err: net.ErrClosed}
}

func (l *listener) Close() error {
	l.close()
	return l.inner.Close()
}

func (l *listener) Addr() net.Addr { return l.inner.Addr() }

// NetListener returns the listener inside, for access to its socket.
func (l *listener) NetListener() net.Listener { return l.inner }
