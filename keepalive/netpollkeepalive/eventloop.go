//go:build !windows

package netpollkeepalive

import (
	"context"
	"errors"

	"github.com/cloudwego/netpoll"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

// Handler has the callbacks of an event loop. netpoll calls them as it always does, but with
// guarded connections. All but OnRequest may be nil. The handler hears
// nothing of a refused connection.
type Handler struct {
	OnPrepare    netpoll.OnPrepare
	OnConnect    netpoll.OnConnect
	OnDisconnect netpoll.OnDisconnect
	OnRequest    netpoll.OnRequest
}

// NewEventLoop is netpoll.NewEventLoop with connections guarded by k. The options are netpoll's,
// but for WithOnPrepare, WithOnConnect and WithOnDisconnect: they have no effect, see Handler. k
// may serve several event loops. It is the caller's to close, after Shutdown.
func NewEventLoop(k *keepalive.Keeper, h Handler, options ...netpoll.Option) (netpoll.EventLoop, error) {
	if k.Binder() == nil || h.OnRequest == nil {
		return nil, errors.New("netpollkeepalive: NewEventLoop needs a Keeper from keepalive.New and an OnRequest")
	}
	l := &loop{Handler: h, keeper: k}
	options = append(
		options[:len(options):len(options)],
		netpoll.WithOnPrepare(l.prepare),
		netpoll.WithOnConnect(l.connect),
		netpoll.WithOnDisconnect(l.disconnect),
	)
	return netpoll.NewEventLoop(l.request, options...)
}

// loop puts guarded connections in the place of netpoll's. The context has them.
type loop struct {
	Handler
	keeper *keepalive.Keeper
}

type contextKey struct{}

// of returns the connection of a context, or nil if it is not guarded.
func of(ctx context.Context) *conn {
	c, _ := ctx.Value(contextKey{}).(*conn)
	return c
}

// given returns the connection for the program.
func given(ctx context.Context, inner netpoll.Connection) netpoll.Connection {
	if c := of(ctx); c != nil {
		return c
	}
	return inner
}

// prepare runs before netpoll knows the socket.
func (l *loop) prepare(inner netpoll.Connection) context.Context {
	c, err := guarded(l.keeper, inner)
	if _, c.refused = errors.AsType[keepalive.Reason](err); c.refused {
		c.end = func() { c.shut(adapter.Graceful) }
		return context.WithValue(context.Background(), contextKey{}, c)
	}
	if err != nil { // the Keeper has been closed
		return l.prepared(inner)
	}
	return context.WithValue(l.prepared(c), contextKey{}, c)
}

func (l *loop) prepared(c netpoll.Connection) context.Context {
	if l.OnPrepare != nil {
		if ctx := l.OnPrepare(c); ctx != nil {
			return ctx
		}
	}
	return context.Background()
}

func (l *loop) connect(ctx context.Context, inner netpoll.Connection) context.Context {
	c := of(ctx)
	if c != nil {
		c.opened()
	}
	if l.OnConnect == nil || c != nil && c.refused {
		return ctx
	}
	theirs := l.OnConnect(ctx, given(ctx, inner))
	if theirs == nil {
		return ctx
	}
	if c != nil && of(theirs) != c {
		theirs = context.WithValue(theirs, contextKey{}, c)
	}
	return theirs
}

func (l *loop) disconnect(ctx context.Context, inner netpoll.Connection) {
	if c := of(ctx); l.OnDisconnect != nil && (c == nil || !c.refused && c.reason() == nil) {
		l.OnDisconnect(ctx, given(ctx, inner))
	}
}

func (l *loop) request(ctx context.Context, inner netpoll.Connection) error {
	if c := of(ctx); c != nil {
		return c.request(ctx, l.OnRequest)
	}
	return l.OnRequest(ctx, inner)
}
