package caddykeepalive

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/heartwheel-go/heartwheel/internal/argument"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/pool"
)

// ErrArgument says that an option is out of bounds. The wrapping error names its value and the limit.
var ErrArgument error = argument.Error("heartwheel")

// defaultIdle is Caddy's own.
const defaultIdle = 5 * time.Minute

func init() { caddy.RegisterModule(new(ListenerWrapper)) }

// ListenerWrapper closes connections whose peers have fallen silent, and bounds their age and their number. All that is
// zero is off, but for idle. Durations may not be negative.
type ListenerWrapper struct {
	// How long a connection may be silent while no request is served, at least 1ms. Default: 5m
	Idle caddy.Duration `json:"idle,omitempty"`

	// How long a new connection may take until its first byte has come.
	FirstByte caddy.Duration `json:"first_byte,omitempty"`

	// How old a connection may become, or up to a tenth less. It ends between two requests, and an upgraded one at once.
	MaxAge caddy.Duration `json:"max_age,omitempty"`

	// How much longer than max_age a connection may stay to finish its request.
	MaxAgeGrace caddy.Duration `json:"max_age_grace,omitempty"`

	// How many connections one client may have: an IPv4 address, or a /64 of IPv6. One more is closed at once.
	PerClient int `json:"per_client,omitempty"`

	// How many connections there may be.
	MaxConns int `json:"max_conns,omitempty"`

	// What happens to one more: reject closes it, wait leaves it in the kernel's queue, and evict closes the connection
	// with the longest silence in its place, if it has been silent for a second. Default: reject
	Full string `json:"full,omitempty"`

	// Over how long the connections of this config are closed after another config has taken its place. Zero
	// leaves them to end by themselves.
	Drain caddy.Duration `json:"drain,omitempty"`

	log    *slog.Logger
	once   sync.Once
	keeper *keepalive.Keeper // made by the first listener
	held   sync.Map          // of *keepalive.Guard to the end of its hold
}

// CaddyModule says what this module is.
func (*ListenerWrapper) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "caddy.listeners.heartwheel",
		New: func() caddy.Module { return new(ListenerWrapper) },
	}
}

// Provision finds the server of the listener, if it is one of HTTP, to know its requests.
func (w *ListenerWrapper) Provision(ctx caddy.Context) error {
	w.log = ctx.Slogger()
	if srv, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		srv.RegisterConnState(w.connState)
	}
	return nil
}

// Validate returns an error that wraps [ErrArgument] if the config is impossible.
func (w *ListenerWrapper) Validate() error {
	if w.Idle != 0 && time.Duration(w.Idle) < time.Millisecond {
		return fmt.Errorf("%w: idle %v, must be at least 1ms", ErrArgument, time.Duration(w.Idle))
	}
	for _, option := range []struct {
		name  string
		value caddy.Duration
	}{
		{"first_byte", w.FirstByte}, {"max_age", w.MaxAge}, {"max_age_grace", w.MaxAgeGrace}, {"drain", w.Drain},
	} {
		if option.value < 0 {
			return fmt.Errorf("%w: %s %v, must not be negative", ErrArgument, option.name, time.Duration(option.value))
		}
	}
	_, known := fulls[w.Full]
	switch {
	case w.PerClient < 0:
		return fmt.Errorf("%w: per_client %d, must not be negative", ErrArgument, w.PerClient)
	case w.MaxConns < 0:
		return fmt.Errorf("%w: max_conns %d, must not be negative", ErrArgument, w.MaxConns)
	case !known:
		return fmt.Errorf("%w: full %q, must be reject, wait or evict", ErrArgument, w.Full)
	case w.Full != "" && w.MaxConns == 0:
		return fmt.Errorf("%w: full %s without max_conns", ErrArgument, w.Full)
	case w.MaxAgeGrace > 0 && w.MaxAge == 0:
		return fmt.Errorf("%w: max_age_grace %v without max_age", ErrArgument, time.Duration(w.MaxAgeGrace))
	}
	if err := w.config().Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrArgument, err)
	}
	return nil
}

var fulls = map[string]pool.Full{
	"":       keepalive.FullReject,
	"reject": keepalive.FullReject,
	"wait":   keepalive.FullWait,
	"evict":  keepalive.FullEvict,
}

func (w *ListenerWrapper) config() keepalive.Config {
	return keepalive.Config{
		Timeout:      cmp.Or(time.Duration(w.Idle), defaultIdle),
		Activity:     keepalive.ActivityReadWrite,
		FirstMessage: time.Duration(w.FirstByte),
		Age:          keepalive.Age{Max: time.Duration(w.MaxAge), Grace: time.Duration(w.MaxAgeGrace)},
		Room:         keepalive.Room{MaxConns: w.MaxConns, Full: fulls[w.Full], MaxPerKey: w.PerClient},
		Logger:       w.log,
	}
}

// WrapListener returns a listener of guarded connections. All listeners of a server count together, and no others.
func (w *ListenerWrapper) WrapListener(ln net.Listener) net.Listener {
	w.once.Do(func() {
		var err error
		if w.keeper, err = keepalive.New(w.config()); err != nil { // Validate has seen no error
			w.log.Error("heartwheel: connections are not guarded", "error", err)
		}
	})
	if w.keeper == nil {
		return ln
	}
	return w.keeper.Listener(ln)
}

// Cleanup is called when another config has taken the place of this one. Connections that are left keep their timeouts.
func (w *ListenerWrapper) Cleanup() error {
	k := w.keeper
	switch {
	case k == nil: // never started
	case k.Len() == 0 || caddy.Exiting():
		return k.Close()
	default:
		go w.finish(k)
	}
	return nil
}
