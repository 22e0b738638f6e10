package keepalive

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// End is how a connection ended that was guarded.
type End struct {
	At     time.Time
	Remote net.Addr // nil where it is not known
	Reason Reason
	Age    time.Duration // since it was guarded
}

// Watch has f called with the end of each connection, from now on and until stop is
// called: for pages and logs that show what happens, besides OnClose, which is the
// program's own. f is called where OnClose is called and must not block. stop may be
// called more than once; f may still be running when it returns.
func (k *Keeper) Watch(f func(End)) (stop func()) {
	w := &watcher{f}
	k.watchers.change(func(all []*watcher) []*watcher { return append(slices.Clone(all), w) })
	return func() {
		k.watchers.change(func(all []*watcher) []*watcher {
			return slices.DeleteFunc(slices.Clone(all), func(other *watcher) bool { return other == w })
		})
	}
}

// watchers are those who watch. Where there is none, an end costs one load.
type watchers struct {
	mu  sync.Mutex // held while they change
	all atomic.Pointer[[]*watcher]
}

type watcher struct{ see func(End) }

func (w *watchers) get() []*watcher {
	if all := w.all.Load(); all != nil {
		return *all
	}
	return nil
}

func (w *watchers) change(f func(all []*watcher) []*watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := f(w.get())
	w.all.Store(&all)
}

// tellWatchers tells of the end of a connection. It is called where the adapter may ask
// for the address.
func (k *Keeper) tellWatchers(g *Guard, reason Reason, age time.Duration) {
	all := k.watchers.get()
	if len(all) == 0 {
		return
	}
	end := End{At: time.Now(), Reason: reason, Age: age}
	switch c := g.conn.(type) {
	case interface{ self() *conn }:
		end.Remote = c.self().remote()
	case interface{ RemoteAddr() net.Addr }:
		end.Remote = c.RemoteAddr()
	}
	for _, w := range all {
		k.call("Watch", func() { w.see(end) })
	}
}

// Info is what a Keeper knows of a connection, at one moment.
type Info struct {
	Age       time.Duration // since it was guarded
	Idle      time.Duration // since it was touched last, in whole ticks
	Timeout   time.Duration // how long it may be silent, see SetTimeout
	RoundTrip time.Duration // of its last answer to a probe, or 0
	Held      bool          // see Keeper.Hold
}

// Info returns what there is to know of a connection. It reports false for one that is
// not guarded. With ActivityKernel, Idle goes back to when the socket was asked last.
func (k *Keeper) Info(conn any) (info Info, ok bool) {
	g := k.guardOf(conn)
	if g == nil {
		return Info{}, false
	}
	d := g.details.Load()
	info = Info{
		Age:       time.Since(k.start) - g.born,
		Idle:      g.member.Idle(),
		Timeout:   k.timeoutOf(k.policy.Load(), d),
		RoundTrip: k.RoundTrip(conn),
		Held:      d != nil && d.holds.Load() > 0,
	}
	return info, k.pool.Has(&g.member)
}

// Located is what a [Guarded] connection of an adapter is besides, whose address not
// every goroutine may ask for at every time.
type Located interface {
	// Remote returns the address of the peer, or nil where that is not known, or not
	// before ctx is done.
	Remote(ctx context.Context, conn any) net.Addr
}

// RemoteAddr returns the address of a connection's peer, or nil where it is not known, or
// the connection not guarded; also where an event loop that has to be asked is busy
// until ctx is done. So it must not be called in an event loop of gnet: there the
// RemoteAddr of the connection can be called.
func (k *Keeper) RemoteAddr(ctx context.Context, conn any) net.Addr {
	g := k.guardOf(conn)
	if g == nil {
		return nil
	}
	if l, ok := find(conn).(Located); ok {
		return l.Remote(ctx, g.conn) // which is not conn where that is TLS over it
	}
	if c, ok := conn.(interface{ RemoteAddr() net.Addr }); ok {
		return c.RemoteAddr()
	}
	return nil
}
