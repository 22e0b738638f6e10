package keepalive

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// End is how a guarded connection ended.
type End struct {
	ID     uint64 // see Info
	Guard  *Guard // of the connection, which is not guarded any more
	At     time.Time
	Remote net.Addr // address of the peer, or nil if unknown
	Reason Reason
	Age    time.Duration // since it was guarded
	Idle   time.Duration // since its last touch
}

// Watch has f called with the end of each connection, from now on and until stop is called. It
// is for pages and logs; OnClose is the program's own. f is called on the goroutine of OnClose,
// just before it, and must not block. stop may be called more than once; f may still be running
// when it returns.
func (k *Keeper) Watch(f func(End)) (stop func()) {
	w := &watcher{f}
	k.watchers.change(func(all []*watcher) []*watcher { return append(slices.Clone(all), w) })
	return func() {
		k.watchers.change(func(all []*watcher) []*watcher {
			return slices.DeleteFunc(slices.Clone(all), func(other *watcher) bool { return other == w })
		})
	}
}

// watchers are the functions given to Watch. Without any, an end costs one load.
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

// tellWatchers tells of the end of a connection. It is called on a goroutine allowed to ask the
// adapter for the address.
func (k *Keeper) tellWatchers(g *Guard, reason Reason, age time.Duration) {
	all := k.watchers.get()
	if len(all) == 0 {
		return
	}
	remote := g.knownRemote()
	if remote == nil {
		remote = g.adapter.Peer(g.Binding())
	}
	touched, _ := g.timer.Touched()
	end := End{ID: g.id, Guard: g, At: time.Now(), Remote: remote, Reason: reason, Age: age, Idle: max(0, k.now().Sub(rules.Time(touched)))}
	for _, w := range slices.Backward(all) {
		defer k.call("Watch", func() { w.see(end) }) // even after runtime.Goexit in another one
	}
}
