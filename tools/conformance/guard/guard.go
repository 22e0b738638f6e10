// Package guard is used by the suites. It guards connections, and in a control it leaves them as they are.
package guard

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

// Env is an environment variable. It makes a run a control.
const Env = "CONFORMANCE_CONTROL"

// Control reports whether this run is a control: nothing is guarded.
func Control() bool { return os.Getenv(Env) != "" }

// timeout is short: the Keeper decides about each connection of a test, and more than once. Its verdict is
// always that the connection may live.
const timeout = 100 * time.Millisecond

// Activities are all of them.
var Activities = []keepalive.Activity{
	keepalive.ActivityRead, keepalive.ActivityReadWrite, keepalive.ActivityManual, keepalive.ActivityKernel,
}

// Keeper returns the Keeper of this process for an activity.
func Keeper(activity keepalive.Activity) *keepalive.Keeper { return keepers()[activity] }

var keepers = sync.OnceValue(func() map[keepalive.Activity]*keepalive.Keeper {
	all := make(map[keepalive.Activity]*keepalive.Keeper)
	for _, activity := range Activities {
		k, err := keepalive.New(keepalive.Config{
			Timeout:  timeout,
			Tick:     10 * time.Millisecond,
			Activity: activity,
			OnIdle:   func(any, keepalive.Reason) keepalive.Verdict { return keepalive.Extend(timeout) },
			OnClose: func(_ any, reason keepalive.Reason) {
				if reason != keepalive.ReasonLocal && reason != keepalive.ReasonPeer {
					panic(fmt.Sprintf("the Keeper has closed a connection: %v", reason))
				}
			},
		})
		if err != nil {
			panic(err)
		}
		all[activity] = k
	}
	return all
})

// Close closes the Keepers, for a suite that counts the goroutines left behind.
func Close() {
	if !Control() {
		for _, k := range keepers() {
			_ = k.Close()
		}
	}
	// A goroutine is counted for a moment after its end.
	for end := time.Now().Add(time.Second); runtime.NumGoroutine() > 1 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// Conn guards a connection.
func Conn(activity keepalive.Activity, c net.Conn) net.Conn {
	if Control() {
		return c
	}
	return Keeper(activity).Conn(c)
}

// Listener guards the connections of a listener.
func Listener(activity keepalive.Activity, ln net.Listener) net.Listener {
	if Control() {
		return ln
	}
	return Keeper(activity).Listener(ln)
}

// Dial opens a guarded connection.
func Dial(ctx context.Context, activity keepalive.Activity, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return Conn(activity, c), nil
}

// Pipe is net.Pipe, with both ends guarded.
func Pipe() (a, b net.Conn) {
	a, b = net.Pipe()
	return Conn(keepalive.ActivityRead, a), Conn(keepalive.ActivityRead, b)
}

// NewServer is httptest.NewServer with a guarded listener.
func NewServer(h http.Handler) *httptest.Server {
	srv := NewUnstartedServer(h)
	srv.Start()
	return srv
}

// NewTLSServer is httptest.NewTLSServer with TLS over a guarded listener.
func NewTLSServer(h http.Handler) *httptest.Server {
	srv := NewUnstartedServer(h)
	srv.StartTLS()
	return srv
}

// NewUnstartedServer is httptest.NewUnstartedServer with a guarded listener.
func NewUnstartedServer(h http.Handler) *httptest.Server {
	srv := httptest.NewUnstartedServer(h)
	GuardServer(keepalive.ActivityRead, srv)
	return srv
}

// GuardServer guards the connections of a server. It must not be started yet.
func GuardServer(activity keepalive.Activity, srv *httptest.Server) {
	srv.Listener = Listener(activity, srv.Listener)
	if !Control() {
		httpkeepalive.Wrap(srv.Config, Keeper(activity))
	}
}
