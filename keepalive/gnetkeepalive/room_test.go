package gnetkeepalive

import (
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// evictable is how many members a pool may have on their way out.
const evictable = 64

// Each newcomer takes the place of the connection with the longest silence, and never of a
// talking one.
func TestEvictionInAStorm(t *testing.T) {
	t.Parallel()
	const capacity, talkers, storm = 40, 8, 600
	for _, activity := range activities() {
		var most atomic.Int64
		a := &app{}
		a.onOpen = func(gnet.Conn) ([]byte, gnet.Action) {
			n := a.opened.Load() - a.closed.Load()
			for {
				if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
					break
				}
			}
			return []byte("welcome"), gnet.None
		}
		w := observe(t, keepalive.Config{
			Timeout:  time.Minute,
			Tick:     10 * ms,
			Activity: activity,
			Room:     keepalive.Room{MaxConns: capacity, Full: keepalive.FullEvict, MinIdle: timeout},
		}, a, gnet.WithNumEventLoop(2))
		var talking sync.WaitGroup
		stop := make(chan bool)
		for range talkers {
			c := w.dial(t)
			say2(t, c, "welcome", "hello")
			talking.Go(func() {
				buf := make([]byte, 4)
				for {
					select {
					case <-stop:
						return
					case <-time.After(beat / 2):
					}
					_, err := c.Write([]byte("beat"))
					if err == nil {
						_, err = io.ReadFull(c, buf)
					}
					if err != nil {
						t.Errorf("one that talks: %v", err)
						return
					}
				}
			})
		}
		for range capacity - talkers {
			w.dial(t)
		}
		require.Eventually(t, func() bool { return w.k.Len() == capacity }, eternal, ms)
		// A search without a result refuses all newcomers of the next second.
		requireIdle(t, w.k, capacity-talkers, timeout)
		var coming sync.WaitGroup
		for range 4 {
			coming.Go(func() {
				for range storm / 4 {
					c, err := net.Dial("tcp", w.addr.String())
					if err != nil {
						t.Error(err)
						return
					}
					t.Cleanup(func() { c.Close() })
					time.Sleep(ms)
				}
			})
		}
		coming.Wait()
		closed := func() uint64 { return w.k.Stats().Closed[keepalive.ReasonEvicted] }
		require.Eventually(t, func() bool {
			return w.app.opened.Load()+int64(w.k.Stats().RefusedFull) == capacity+storm
		}, eternal, ms)
		close(stop)
		talking.Wait()
		require.Eventually(t, func() bool { return closed() >= capacity-talkers }, eternal, ms, "those that were silent")
		require.LessOrEqual(t, most.Load(), int64(capacity+evictable))
		require.Eventually(t, func() bool {
			if w.k.Len() > capacity { // some had talked, and were saved: the next newcomer makes up for them
				w.dial(t)
			}
			return w.k.Len() <= capacity
		}, eternal, 50*ms)
	}
}

// requireIdle waits until the n connections with the longest silence can be evicted. The Keeper
// knows their last touch as well as its hand was in time.
func requireIdle(t testing.TB, k *keepalive.Keeper, n int, minIdle time.Duration) {
	const rewind = time.Second // how far the Keeper's clock goes back once it notices a stopped process
	require.Eventually(t, func() bool {
		idle := 0
		for g := range k.Guards() {
			if info, ok := g.Info(); ok && info.Idle >= minIdle+rewind {
				idle++
			}
		}
		return idle >= min(n, k.Len())
	}, eternal, 20*ms) // each look asks all connections
}

// An eviction is decided in the connection's event loop. While one loop is blocked its
// connections stay, and after a while newcomers to the other loop are too many.
func TestEvictionWaitsForTheLoop(t *testing.T) {
	t.Parallel()
	const capacity = 300
	blocked, released := make(chan bool), make(chan bool)
	release := sync.OnceFunc(func() { close(released) })
	defer release()
	w := observe(t, keepalive.Config{
		Timeout: time.Minute,
		Tick:    10 * ms,
		Room:    keepalive.Room{MaxConns: capacity, Full: keepalive.FullEvict, MinIdle: timeout / 2},
	}, &app{onTraffic: func(c gnet.Conn) gnet.Action {
		close(blocked)
		<-released
		return echo(c)
	}}, gnet.WithNumEventLoop(2))
	for range capacity {
		w.dial(t)
	}
	require.Eventually(t, func() bool { return w.k.Len() == capacity }, eternal, ms)
	requireIdle(t, w.k, capacity, timeout/2)
	blocker := w.dial(t)
	_, err := blocker.Write([]byte("block"))
	require.NoError(t, err)
	<-blocked
	for n := 0; w.k.Len() < capacity+evictable; n++ {
		require.Less(t, n, 10*capacity)
		w.dial(t)
		time.Sleep(ms)
	}
	for range capacity {
		w.dial(t)
		require.LessOrEqual(t, w.k.Len(), capacity+evictable)
	}
	require.Eventually(t, func() bool { return w.k.Stats().RefusedFull > 0 }, eternal, ms)
	release()
	require.Eventually(t, func() bool { return w.k.Len() <= capacity }, eternal, ms)
	buf := make([]byte, 5)
	_, err = io.ReadFull(blocker, buf)
	require.NoError(t, err, "it has talked")
}

// It is the idlest, but nobody has read its peer's last bytes yet.
func TestUnreadBytesPreventEviction(t *testing.T) {
	t.Parallel()
	for _, activity := range activities() {
		t.Run(activity.String(), func(t *testing.T) {
			t.Parallel()
			a := &app{}
			first := make(chan net.Conn, 1)
			opened := make(chan bool, 2)
			a.onOpen = func(c gnet.Conn) ([]byte, gnet.Action) {
				if a.opened.Load() == 2 { // and the first is on its way out
					c1 := <-first
					if _, err := c1.Write([]byte("wait!")); err != nil {
						t.Error(err)
					}
					for deciding := false; !deciding; time.Sleep(ms) {
						ls := a.loops
						ls.mu.Lock()
						l := ls.of[c.EventLoop()]
						ls.mu.Unlock()
						l.mu.Lock()
						deciding = l.draining && len(l.due) == 0 // it is sent
						l.mu.Unlock()
					}
					time.Sleep(10 * ms) // the decision comes before these bytes are read
				}
				opened <- true
				return nil, gnet.None
			}
			w := observe(t, keepalive.Config{
				Timeout:  time.Minute,
				Tick:     10 * ms,
				Activity: activity,
				Room:     keepalive.Room{MaxConns: 1, Full: keepalive.FullEvict, MinIdle: timeout},
			}, a, gnet.WithNumEventLoop(1))
			silent := w.dial(t)
			first <- silent
			<-opened
			requireIdle(t, w.k, 1, timeout)
			w.dial(t)
			<-opened
			buf := make([]byte, 5)
			_, err := io.ReadFull(silent, buf)
			require.NoError(t, err)
			require.Equal(t, "wait!", string(buf))
			say(t, silent, "still here")
			require.Zero(t, w.k.Stats().Closed[keepalive.ReasonEvicted])
			require.Equal(t, 2, w.k.Len())
		})
	}
}

func TestNobodyIsIdleEnoughToBeEvicted(t *testing.T) {
	t.Parallel()
	w := observe(t, keepalive.Config{
		Timeout: time.Minute,
		Tick:    10 * ms,
		Room:    keepalive.Room{MaxConns: 1, Full: keepalive.FullEvict, MinIdle: 20 * time.Second},
	}, &app{onRefuse: func(_ gnet.Conn, r keepalive.Reason) []byte { return []byte(r.String()) }})
	c := w.dial(t)
	say(t, c, "hello")
	got, err := io.ReadAll(w.dial(t))
	require.NoError(t, err)
	require.Equal(t, "full", string(got))
	say(t, c, "still here")
}

func TestMaxPerKey(t *testing.T) {
	t.Parallel()
	w := observe(t, keepalive.Config{Timeout: time.Minute, Room: keepalive.Room{MaxPerKey: 2}}, &app{})
	from := func(ip string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
		c, err := d.Dial("tcp", w.addr.String())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(eternal)))
		return c
	}
	first, second := from("127.0.0.1"), from("127.0.0.1")
	say(t, first, "one")
	say(t, second, "two")
	for range 5 {
		requireClosed(t, from("127.0.0.1"))
	}
	require.EqualValues(t, 5, w.k.Stats().RefusedPerKey)
	require.EqualValues(t, 2, w.app.opened.Load(), "the handler hears nothing of them")
	if other, err := net.Listen("tcp", "127.0.0.2:0"); err == nil { // not on all systems
		other.Close()
		say(t, from("127.0.0.2"), "another")
	}
	for range 20 { // none is lost, whoever closes it
		first.Close()
		w.requireEnd(t, first, keepalive.ReasonPeer)
		first = from("127.0.0.1")
		say(t, first, "one")
		requireClosed(t, from("127.0.0.1"))
	}
}

// A lost guard gives its share back.
func TestMaxPerKeyOfALostGuard(t *testing.T) {
	t.Parallel()
	e, _ := overwriteLate(t, newKeeper(t, keepalive.Config{Room: keepalive.Room{MaxPerKey: 1}}))
	say(t, e.dial(t), "next")
}

// Unix sockets have no key.
func TestMaxPerKeyOfUnixSockets(t *testing.T) {
	t.Parallel()
	w := observeOn(t, "unix://"+filepath.Join(t.TempDir(), "s"), keepalive.Config{Timeout: time.Minute, Room: keepalive.Room{MaxPerKey: 1}}, &app{})
	for range 3 {
		say(t, w.dial(t), "hello")
	}
}

func TestPressure(t *testing.T) {
	t.Parallel()
	w := observe(t, keepalive.Config{
		Timeout: eternal,
		Tick:    10 * ms,
		Room:    keepalive.Room{Pressure: keepalive.Pressure{Timeout: timeout, Used: func() float64 { return 0.99 }}},
	}, &app{})
	talking, hurried, last := w.dial(t), w.dial(t), time.Now()
	say(t, hurried, "x")
	keepSaying(t, talking, 2*timeout)
	requireClosed(t, hurried)
	lived := w.requireEnd(t, hurried, keepalive.ReasonIdle).Sub(last)
	require.GreaterOrEqual(t, lived, timeout)
	require.Less(t, lived, eternal)
	require.EqualValues(t, 1, w.k.Stats().Reduction)
	say(t, talking, "still here")
}
