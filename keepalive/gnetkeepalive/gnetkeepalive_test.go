package gnetkeepalive

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// These tests use real sockets, so real time. A timeout is two seconds in them, and a
// live peer says something eight times as often: it lives although this machine may have
// other work for more than a second.
const (
	ms      = time.Millisecond
	timeout = 2 * time.Second
	beat    = timeout / 8
	eternal = time.Minute // how long a test waits for what must come
)

// app is an event handler made of the test's functions.
type app struct {
	gnet.BuiltinEventEngine
	booted    chan booted
	onBoot    func() gnet.Action
	onOpen    func(c gnet.Conn) ([]byte, gnet.Action)
	onTraffic func(c gnet.Conn) gnet.Action
	onClose   func(c gnet.Conn, err error) gnet.Action
	onRefuse  func(c gnet.Conn, reason keepalive.Reason) []byte
	keeper    *keepalive.Keeper // set before the engine runs
	loops     *loops

	opened, closed atomic.Int64
}

// booted is an engine about to run. Its address can be asked for only before it runs.
type booted struct {
	gnet.Engine
	addr net.Addr
	err  error
}

func (a *app) OnBoot(eng gnet.Engine) gnet.Action {
	if a.onBoot != nil {
		if action := a.onBoot(); action != gnet.None {
			return action
		}
	}
	addr, err := Addr(eng)
	a.booted <- booted{eng, addr, err}
	return gnet.None
}

func (a *app) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	a.opened.Add(1)
	if a.onOpen != nil {
		return a.onOpen(c)
	}
	return nil, gnet.None
}

func (a *app) OnTraffic(c gnet.Conn) gnet.Action {
	if a.onTraffic != nil {
		return a.onTraffic(c)
	}
	return echo(c)
}

func (a *app) OnClose(c gnet.Conn, err error) gnet.Action {
	a.closed.Add(1)
	if a.onClose != nil {
		return a.onClose(c, err)
	}
	return gnet.None
}

func (a *app) OnRefuse(c gnet.Conn, reason keepalive.Reason) []byte {
	if a.onRefuse != nil {
		return a.onRefuse(c, reason)
	}
	return nil
}

func echo(c gnet.Conn) gnet.Action {
	buf, _ := c.Next(-1)
	_, _ = c.Write(bytes.Clone(buf))
	return gnet.None
}

// engine is a gnet engine on a port of its own.
type engine struct {
	booted
	done chan error
}

var quiet = gnet.WithLogger(logging.Logger(zap.NewNop().Sugar()))

func start(t testing.TB, a *app, k *keepalive.Keeper, opts ...gnet.Option) *engine {
	return startOn(t, "tcp://127.0.0.1:0", a, k, opts...)
}

func startOn(t testing.TB, addr string, a *app, k *keepalive.Keeper, opts ...gnet.Option) *engine {
	a.booted, a.keeper = make(chan booted, 1), k
	h := Wrap(a, k)
	a.loops = &h.(*handler).loops
	return run(t, addr, a, h, opts...)
}

func run(t testing.TB, addr string, a *app, handler gnet.EventHandler, opts ...gnet.Option) *engine {
	e := &engine{done: make(chan error, 1)}
	go func() {
		e.done <- gnet.Run(handler, addr, append([]gnet.Option{quiet}, opts...)...)
	}()
	e.booted = <-a.booted
	require.NoError(t, e.err)
	t.Cleanup(func() { e.stop(t) })
	return e
}

// stop stops the engine, once. Engine.Stop itself polls twice a second.
func (e *engine) stop(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), ms)
	defer cancel()
	_ = e.Stop(ctx)
	select {
	case err, ok := <-e.done:
		if ok {
			require.NoError(t, err)
			close(e.done)
		}
	case <-time.After(eternal):
		t.Error("the engine does not stop")
	}
}

func (e *engine) dial(t testing.TB) net.Conn {
	c, err := net.Dial(e.addr.Network(), e.addr.String())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(eternal)))
	return c
}

// dialSmall connects with a small buffer for unread bytes. See smallSockets.
func (e *engine) dialSmall(t testing.TB) net.Conn {
	c := e.dial(t)
	require.NoError(t, c.(*net.TCPConn).SetReadBuffer(64<<10))
	return c
}

func newKeeper(t testing.TB, cfg keepalive.Config) *keepalive.Keeper {
	if cfg.Timeout == 0 {
		cfg.Timeout, cfg.Tick = timeout, 10*ms
	}
	k, err := keepalive.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close()) })
	return k
}

// say is saying over a connection that must live.
func say(t testing.TB, c net.Conn, word string) {
	require.NoError(t, saying(c, word))
}

// saying sends a word, and requires it back.
func saying(c net.Conn, word string) error {
	if _, err := io.WriteString(c, word); err != nil {
		return err
	}
	buf := make([]byte, len(word))
	if _, err := io.ReadFull(c, buf); err != nil {
		return err
	}
	if string(buf) != word {
		return fmt.Errorf("%q is the answer to %q", buf, word)
	}
	return nil
}

// setTimeouts gives all connections a timeout, from now on. It is for tests of many connections,
// which may take longer to come.
func setTimeouts(t testing.TB, k *keepalive.Keeper, timeout time.Duration) {
	for g := range k.Guards() {
		_, err := g.SetTimeout(timeout)
		require.NoError(t, err)
	}
}

// requireClosed waits for the server to close the connection, and returns when it did.
func requireClosed(t testing.TB, c net.Conn) time.Time {
	t.Helper()
	_, err := io.Copy(io.Discard, c)
	require.NoError(t, err, "a clean end")
	return time.Now()
}

// stalled is for how long a Keeper has not counted time, since this machine did not let it.
func stalled(k *keepalive.Keeper) time.Duration {
	stats := k.Stats().Wheel
	return stats.Stalled + time.Duration(stats.Stalls)*(max(time.Second, 10*k.Config().Tick)+2*k.Config().Tick) // see wheel.Config.Stall
}

func modes(t *testing.T, test func(t *testing.T, opts ...gnet.Option)) {
	for name, opts := range map[string][]gnet.Option{
		"one loop":       {gnet.WithNumEventLoop(1)},
		"two loops":      {gnet.WithNumEventLoop(2)},
		"reuseport":      {gnet.WithReusePort(true), gnet.WithNumEventLoop(1)},
		"edge-triggered": {gnet.WithEdgeTriggeredIO(true), gnet.WithNumEventLoop(2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, opts...)
		})
	}
}

func TestSilentOnesAreClosedAndLiveOnesNever(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, opts ...gnet.Option) {
		var reasons sync.Map
		k := newKeeper(t, keepalive.Config{OnClose: func(conn any, r keepalive.Reason) {
			if _, ok := conn.(gnet.Conn); !ok {
				t.Errorf("%T", conn)
			}
			reasons.Store(conn, r)
		}})
		errs := make(chan error, 1)
		e := start(t, &app{onClose: func(c gnet.Conn, err error) gnet.Action {
			if c.RemoteAddr() == nil || c.Context() != any("mine") {
				t.Error("OnClose must still see the connection and its Context")
			}
			if keepalive.Touch(c) {
				t.Error("closed, and touched")
			}
			errs <- err
			return gnet.None
		}, onOpen: func(c gnet.Conn) ([]byte, gnet.Action) {
			c.SetContext("mine")
			return []byte("hello"), gnet.None
		}}, k, opts...)
		c := e.dial(t)
		_, err := io.ReadFull(c, make([]byte, 5))
		require.NoError(t, err)
		require.Equal(t, 1, k.Len())
		var last time.Time
		for range 20 {
			time.Sleep(beat)
			last = time.Now()
			say(t, c, "beat")
		}
		closed := requireClosed(t, c)
		require.GreaterOrEqual(t, closed.Sub(last), timeout)
		require.Equal(t, keepalive.ErrIdleTimeout, <-errs)
		require.Eventually(t, func() bool { return k.Stats().Closed[keepalive.ReasonIdle] == 1 }, eternal, ms)
		reasons.Range(func(_, r any) bool {
			require.Equal(t, keepalive.ReasonIdle, r)
			return true
		})
		require.Zero(t, k.Len())
	})
}

func TestErrorsOfOtherEnds(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var reasons []keepalive.Reason
	k := newKeeper(t, keepalive.Config{Timeout: time.Minute, OnClose: func(_ any, r keepalive.Reason) {
		mu.Lock()
		defer mu.Unlock()
		reasons = append(reasons, r)
	}})
	errs := make(chan error, 1)
	e := start(t, &app{
		onTraffic: func(gnet.Conn) gnet.Action { return gnet.Close },
		onClose:   func(_ gnet.Conn, err error) gnet.Action { errs <- err; return gnet.None },
	}, k)
	c := e.dial(t)
	_, err := c.Write([]byte("x"))
	require.NoError(t, err)
	requireClosed(t, c)
	require.NoError(t, <-errs)
	c = e.dial(t)
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	require.ErrorIs(t, <-errs, io.EOF)
	require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(reasons) == 2 }, eternal, ms)
	require.Equal(t, []keepalive.Reason{keepalive.ReasonLocal, keepalive.ReasonPeer}, reasons)
	require.Zero(t, k.Len())
	require.Zero(t, k.Stats().Closed[keepalive.ReasonIdle])
}

// Wake calls OnTraffic without new bytes: the server's own doing. So it must not keep a silent
// connection, whether or not the handler has left bytes unconsumed.
func TestWakeIsNoLife(t *testing.T) {
	t.Parallel()
	for _, leftover := range []bool{false, true} {
		t.Run(fmt.Sprintf("leftover=%v", leftover), func(t *testing.T) {
			k := newKeeper(t, keepalive.Config{})
			var woken atomic.Int64
			conns := make(chan gnet.Conn, 1)
			e := start(t, &app{
				onOpen: func(c gnet.Conn) ([]byte, gnet.Action) { conns <- c; return nil, gnet.None },
				onTraffic: func(gnet.Conn) gnet.Action {
					woken.Add(1)
					return gnet.None // consumes nothing
				},
			}, k)
			c := e.dial(t)
			conn := <-conns
			if leftover {
				_, err := c.Write([]byte("half a line"))
				require.NoError(t, err)
			}
			last := time.Now()
			stop := make(chan bool)
			var waker sync.WaitGroup
			waker.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(5 * ms):
						_ = conn.Wake(nil)
					}
				}
			})
			require.Less(t, requireClosed(t, c).Sub(last), eternal/2)
			close(stop)
			waker.Wait()
			require.Greater(t, woken.Load(), int64(20))
		})
	}
}

// A handler leaves its reading to a task of the loop. After OnTraffic its bytes are still
// there, and the next ones may be just as many.
func TestBytesConsumedOutsideOfOnTrafficAreLife(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"tcp://127.0.0.1:0", "unix://" + filepath.Join(t.TempDir(), "s")} {
		k := newKeeper(t, keepalive.Config{})
		e := startOn(t, addr, &app{onTraffic: func(c gnet.Conn) gnet.Action {
			_ = c.EventLoop().Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error {
				echo(c)
				return nil
			}))
			return gnet.None
		}}, k)
		c := e.dial(t)
		for range 24 {
			time.Sleep(beat)
			say(t, c, "8 bytes!")
		}
		requireClosed(t, c)
		require.EqualValues(t, 1, k.Stats().Closed[keepalive.ReasonIdle])
	}
}

func TestManualActivity(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{Activity: keepalive.ActivityManual})
	conns := make(chan gnet.Conn, 2)
	e := start(t, &app{onOpen: func(c gnet.Conn) ([]byte, gnet.Action) { conns <- c; return nil, gnet.None }}, k)
	touched, trickling := e.dial(t), e.dial(t)
	a, b := <-conns, <-conns
	byPort := map[string]gnet.Conn{a.RemoteAddr().String(): a, b.RemoteAddr().String(): b}
	var wg sync.WaitGroup
	start := time.Now()
	wg.Go(func() { // bytes alone don't keep it
		for {
			time.Sleep(beat)
			if _, err := trickling.Write([]byte("x")); err != nil {
				return
			}
			if time.Since(start) > eternal {
				return
			}
		}
	})
	conn := byPort[touched.LocalAddr().String()]
	for range 24 { // from another goroutine than the loop's
		time.Sleep(beat)
		require.True(t, keepalive.Touch(conn))
		require.True(t, keepalive.Touch(conn))
	}
	wg.Wait()
	say(t, touched, "still here")
	require.EqualValues(t, 1, k.Stats().Closed[keepalive.ReasonIdle])
}

func TestWritesAreLifeWhereTheyCount(t *testing.T) {
	t.Parallel()
	for _, activity := range []keepalive.Activity{keepalive.ActivityRead, keepalive.ActivityReadWrite, keepalive.ActivityKernel} {
		if (keepalive.Config{Activity: activity}).Validate() != nil {
			continue // elsewhere than on Linux
		}
		k := newKeeper(t, keepalive.Config{Activity: activity})
		conns := make(chan gnet.Conn, 1)
		e := start(t, &app{onOpen: func(c gnet.Conn) ([]byte, gnet.Action) { conns <- c; return nil, gnet.None }}, k)
		c := e.dial(t)
		conn := <-conns
		go func() { _, _ = io.Copy(io.Discard, c) }()
		for range 20 {
			time.Sleep(beat)
			_ = conn.AsyncWrite([]byte("news"), nil)
		}
		require.Equal(t, activity == keepalive.ActivityReadWrite, keepalive.Touch(conn), "%v", activity)
		c.Close()
	}
}

func TestOnIdleRunsInTheLoopAndMayExtend(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	k := newKeeper(t, keepalive.Config{OnIdle: func(conn any, _ keepalive.Reason) keepalive.Verdict {
		_, _ = conn.(gnet.Conn).Write([]byte("?")) // not safe anywhere else
		if asked.Add(1) < 3 {
			return keepalive.Extend(timeout / 2)
		}
		return keepalive.Close
	}})
	e := start(t, &app{}, k)
	begin := time.Now()
	c := e.dial(t)
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Equal(t, "???", string(got))
	require.GreaterOrEqual(t, time.Since(begin), 2*timeout)
}

// overwriteLate has the guard of a connection overwritten while the connection waits for its
// decision, and waits until the Keeper notices.
func overwriteLate(t *testing.T, k *keepalive.Keeper) (*engine, net.Conn) {
	due, overwritten := make(chan bool), make(chan bool)
	a := &app{onTraffic: func(c gnet.Conn) gnet.Action {
		if buf, _ := c.Peek(-1); string(buf) == "wait" {
			<-due
			c.SetSafeContext("mine")
			close(overwritten)
		}
		return echo(c)
	}}
	e := start(t, a, k, gnet.WithNumEventLoop(1))
	c := e.dial(t)
	say(t, c, "hello")
	_, err := c.Write([]byte("wait"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return k.Stats().Wheel.Due == 1 && k.Stats().Wheel.Backlog == 0 }, eternal, ms)
	time.Sleep(10 * ms) // the loop has it in its queue
	close(due)
	<-overwritten
	require.Eventually(t, func() bool { return k.Len() == 0 }, eternal, ms)
	return e, c
}

func TestSafeContextOverwrittenLate(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{})
	_, c := overwriteLate(t, k)
	_, err := io.ReadFull(c, make([]byte, 4))
	require.NoError(t, err)
	say(t, c, "still here")
	require.Zero(t, k.Stats().Closed[keepalive.ReasonIdle])
}

// The handler overwrites the guard: nobody can touch the connection any more, so its silence
// must not close it.
func TestOverwrittenSafeContextIsNotClosed(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{})
	e := start(t, &app{onOpen: func(c gnet.Conn) ([]byte, gnet.Action) {
		c.SetSafeContext("mine")
		return nil, gnet.None
	}}, k)
	c := e.dial(t)
	require.Eventually(t, func() bool { return k.Stats().Wheel.Added == 1 && k.Len() == 0 }, eternal, ms)
	time.Sleep(timeout / 2)
	say(t, c, "still here")
	require.Zero(t, k.Stats().Closed[keepalive.ReasonIdle])
}

func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{Timeout: time.Minute, Room: keepalive.Room{MaxConns: 2}})
	a := &app{onRefuse: func(_ gnet.Conn, r keepalive.Reason) []byte { return []byte(r.String() + "\n") }}
	e := start(t, a, k)
	first, second := e.dial(t), e.dial(t)
	say(t, first, "one")
	say(t, second, "two")
	for range 5 {
		c := e.dial(t)
		got, err := io.ReadAll(c)
		require.NoError(t, err)
		require.Equal(t, "full\n", string(got))
	}
	require.EqualValues(t, 2, a.opened.Load(), "the handler hears nothing of them")
	require.Zero(t, a.closed.Load())
	require.EqualValues(t, 5, k.Stats().RefusedFull)
	first.Close()
	require.Eventually(t, func() bool { return k.Len() == 1 }, eternal, ms)
	say(t, e.dial(t), "three")
}

func TestClosedKeeperLeavesConnectionsAlone(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{})
	safeContext := make(chan any, 2)
	a := &app{onOpen: func(c gnet.Conn) ([]byte, gnet.Action) {
		if k.Stats().Conns == 0 {
			safeContext <- c.SafeContext()
		}
		return nil, gnet.None
	}}
	e := start(t, a, k)
	before := e.dial(t)
	say(t, before, "guarded")
	require.NoError(t, k.Close())
	after := e.dial(t)
	say(t, after, "unguarded")
	require.Nil(t, <-safeContext, "nothing of ours is left in there")
	time.Sleep(2 * timeout)
	say(t, before, "unguarded too")
	say(t, after, "still")
	before.Close()
	after.Close()
	require.Eventually(t, func() bool { return a.closed.Load() == 2 }, eternal, ms)
}

// If bytes arrive while the loop is busy, they are read before anything is decided: the
// slowness is ours.
func TestBusyLoopKillsNobody(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{Timeout: eternal, Tick: 10 * ms})
	release := make(chan bool)
	busy := make(chan bool, 1)
	e := start(t, &app{onTraffic: func(c gnet.Conn) gnet.Action {
		if buf, _ := c.Peek(-1); string(buf) == "block" {
			busy <- true
			<-release
		}
		return echo(c)
	}}, k, gnet.WithNumEventLoop(1))
	conns := make([]net.Conn, 300)
	for i := range conns {
		conns[i] = e.dial(t)
		say(t, conns[i], "hello")
	}
	blocker := e.dial(t)
	_, err := blocker.Write([]byte("block"))
	require.NoError(t, err)
	<-busy
	setTimeouts(t, k, timeout)
	for _, c := range append(conns, blocker) { // nobody reads this for two timeouts
		_, err := c.Write([]byte("alive"))
		require.NoError(t, err)
	}
	time.Sleep(2 * timeout)
	close(release)
	for _, c := range conns {
		buf := make([]byte, 5)
		_, err := io.ReadFull(c, buf)
		require.NoError(t, err)
	}
	require.Zero(t, k.Stats().Closed[keepalive.ReasonIdle])
}

// All fall silent at the same time: all are closed, and a live one is served
// meanwhile.
func TestMassExpiry(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, opts ...gnet.Option) {
		k := newKeeper(t, keepalive.Config{Timeout: eternal, Tick: 100 * ms})
		a := &app{}
		e := start(t, a, k, opts...)
		conns := make([]net.Conn, 1000)
		for i := range conns {
			conns[i] = e.dial(t)
		}
		for _, c := range conns {
			say(t, c, "last words")
		}
		setTimeouts(t, k, timeout)
		probe := e.dial(t)
		for k.Stats().Closed[keepalive.ReasonIdle] < uint64(len(conns)) {
			say(t, probe, "probe")
			time.Sleep(ms)
		}
		say(t, probe, "and still there")
		for _, c := range conns {
			requireClosed(t, c)
		}
		require.EqualValues(t, len(conns), a.closed.Load())
		require.Equal(t, 1, k.Len())
	})
}

// However many are due, the loop looks at its sockets between a few of them.
func TestMassExpiryIsPaced(t *testing.T) {
	defer func(usual int) { batchSize = usual }(batchSize)
	batchSize = 16
	var inARow, longest int // in the loop
	probed := make(chan bool)
	k := newKeeper(t, keepalive.Config{Timeout: timeout, Tick: 100 * ms, OnIdle: func(any, keepalive.Reason) keepalive.Verdict {
		inARow++
		longest = max(longest, inARow)
		time.Sleep(100 * time.Microsecond)
		return keepalive.Close
	}})
	e := start(t, &app{onTraffic: func(c gnet.Conn) gnet.Action {
		inARow = 0
		_, _ = c.Discard(-1)
		return gnet.None
	}}, k, gnet.WithNumEventLoop(1), gnet.WithReadBufferCap(1<<10))
	const conns = 1000
	probe := e.dial(t)
	go func() { // there are always bytes to be read: sockets take hundreds of times as many as are read at once
		defer close(probed)
		for k.Stats().Closed[keepalive.ReasonIdle] < conns {
			if _, err := probe.Write(make([]byte, 64<<10)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for range conns {
		e.dial(t)
	}
	<-probed
	e.stop(t)
	require.EqualValues(t, conns, k.Stats().Closed[keepalive.ReasonIdle])
	// If a loop is descheduled at the end of a batch, it may find the next batch in its queue
	// before it has looked at its sockets, but hardly many times in a row.
	require.LessOrEqual(t, longest, conns/2, "a batch is of %d", batchSize)
}

// Very many are due, and while they wait for their verdict, some are heard of.
func TestHeartbeatSavesAConnectionThatWaitsForItsVerdict(t *testing.T) {
	t.Parallel()
	const conns, silent = 400, 100
	var mu sync.Mutex // for what follows
	waiting := map[string]net.Conn{}
	k := newKeeper(t, keepalive.Config{Timeout: 2 * timeout, Tick: 50 * ms, OnIdle: func(conn any, _ keepalive.Reason) keepalive.Verdict {
		mu.Lock()
		defer mu.Unlock()
		delete(waiting, conn.(gnet.Conn).RemoteAddr().String())
		if len(waiting) == conns-silent {
			for _, c := range waiting {
				_, _ = c.Write([]byte("alive"))
			}
		}
		return keepalive.Close
	}})
	e := start(t, &app{onTraffic: echo}, k, gnet.WithNumEventLoop(1))
	mu.Lock()
	for range conns {
		c := e.dial(t)
		waiting[c.LocalAddr().String()] = c
	}
	mu.Unlock()
	require.Eventually(t, func() bool { return k.Stats().Closed[keepalive.ReasonIdle] >= silent }, eternal, ms)
	mu.Lock()
	saved := maps.Clone(waiting)
	mu.Unlock()
	require.Len(t, saved, conns-silent)
	for _, c := range saved {
		buf := make([]byte, len("alive"))
		_, err := io.ReadFull(c, buf)
		require.NoError(t, err)
	}
	e.stop(t)
	require.EqualValues(t, silent, k.Stats().Closed[keepalive.ReasonIdle])
}

// The engine stops while connections wait for their verdict: everybody goes
// home.
func TestStopWhileConnectionsAreDue(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{Timeout: 50 * ms, Tick: 10 * ms})
	var blocked atomic.Bool
	a := &app{
		onTraffic: func(c gnet.Conn) gnet.Action {
			if blocked.CompareAndSwap(false, true) {
				time.Sleep(200 * ms)
			}
			return echo(c)
		},
	}
	e := start(t, a, k, gnet.WithNumEventLoop(1))
	for range 200 {
		e.dial(t)
	}
	c := e.dial(t)
	_, _ = c.Write([]byte("x"))
	time.Sleep(100 * ms) // they are due, and the loop is busy
	e.stop(t)
	require.Equal(t, a.opened.Load(), a.closed.Load())
	require.Eventually(t, func() bool { return k.Len() == 0 }, eternal, ms)
}

func TestIdleCloseMayShutTheEngineDown(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{})
	a := &app{onClose: func(gnet.Conn, error) gnet.Action { return gnet.Shutdown }}
	e := start(t, a, k)
	e.dial(t)
	select {
	case err := <-e.done:
		require.NoError(t, err)
		close(e.done)
	case <-time.After(eternal):
		t.Fatal("still running")
	}
}

func TestFailedStartLeavesNothing(t *testing.T) {
	k := newKeeper(t, keepalive.Config{})
	a := &app{onBoot: func() gnet.Action { return gnet.Shutdown }}
	handler := Wrap(a, k)
	require.NoError(t, gnet.Run(handler, "tcp://127.0.0.1:0", quiet))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	require.Error(t, gnet.Run(handler, "tcp://"+ln.Addr().String(), quiet))
}

// A Keeper that New has not made would panic at the first connection.
func TestWrapNeedsAHandlerAndAKeeper(t *testing.T) {
	a, k := new(app), newKeeper(t, keepalive.Config{})
	const want = "gnetkeepalive: Wrap needs a handler and a Keeper from keepalive.New"
	require.PanicsWithValue(t, want, func() { Wrap(nil, k) })
	require.PanicsWithValue(t, want, func() { Wrap(a, nil) })
	require.PanicsWithValue(t, want, func() { Wrap(a, new(keepalive.Keeper)) })
}

func TestOneHandlerForSeveralEngines(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{})
	a := &app{booted: make(chan booted, 1)}
	wrapped := Wrap(a, k)
	one := run(t, "tcp://127.0.0.1:0", a, wrapped)
	two := run(t, "tcp://127.0.0.1:0", a, wrapped)
	c1, c2 := one.dial(t), two.dial(t)
	say(t, c1, "one")
	say(t, c2, "two")
	one.stop(t)
	requireClosed(t, c2)
	three := run(t, "tcp://127.0.0.1:0", a, wrapped)
	c3 := three.dial(t)
	say(t, c3, "three")
	requireClosed(t, c3)
	require.EqualValues(t, 2, k.Stats().Closed[keepalive.ReasonIdle])
	require.Eventually(t, func() bool {
		loops := &wrapped.(*handler).loops
		loops.mu.Lock()
		defer loops.mu.Unlock()
		return len(loops.of) == 0
	}, eternal, ms, "no loop is remembered")
}

// The same as in an engine, on the client's side.
func TestClient(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	k := newKeeper(t, keepalive.Config{})
	errs := make(chan error, 1)
	a := &app{booted: make(chan booted, 1), onClose: func(c gnet.Conn, err error) gnet.Action {
		if c.Context() != any("the user's") {
			t.Errorf("Context is %v", c.Context())
		}
		errs <- err
		return gnet.None
	}}
	client, err := gnet.NewClient(Wrap(a, k), quiet)
	require.NoError(t, err)
	require.NoError(t, client.Start())
	defer func() { require.NoError(t, client.Stop()) }()
	conn, err := client.DialContext("tcp", ln.Addr().String(), "the user's")
	require.NoError(t, err)
	peer, err := ln.Accept()
	require.NoError(t, err)
	defer peer.Close()
	require.True(t, keepalive.Touch(conn))
	for range 16 {
		time.Sleep(beat)
		_, err := peer.Write([]byte("x"))
		require.NoError(t, err)
	}
	require.Equal(t, keepalive.ErrIdleTimeout, <-errs)
}

// Connections come and go while stale references to closed ones are touched and closed. Their
// descriptors are used again, so a harmful reference would hit a stranger.
func TestStaleReferencesHarmNobody(t *testing.T) {
	modes(t, func(t *testing.T, opts ...gnet.Option) {
		k := newKeeper(t, keepalive.Config{})
		var mu sync.Mutex
		var stale []gnet.Conn
		e := start(t, &app{onClose: func(c gnet.Conn, _ error) gnet.Action {
			mu.Lock()
			defer mu.Unlock()
			if stale = append(stale, c); len(stale) > 200 {
				stale = stale[100:]
			}
			return gnet.None
		}}, k, opts...)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		var sessions, pokes atomic.Int64
		for range 2 {
			wg.Go(func() {
				for ctx.Err() == nil {
					mu.Lock()
					old := append([]gnet.Conn(nil), stale...)
					mu.Unlock()
					for _, c := range old {
						if keepalive.Touch(c) || keepalive.Of(c).Touch() {
							t.Error("touched a closed connection")
						}
						_ = c.Close()
						pokes.Add(1)
					}
				}
			})
		}
		for id := range 4 {
			wg.Go(func() {
				for n := 0; ctx.Err() == nil || sessions.Load() <= 20; n++ {
					c, err := net.Dial("tcp", e.addr.String())
					if err != nil {
						t.Error(err)
						return
					}
					word := fmt.Sprintf("client %d session %d", id, n)
					_, _ = c.Write([]byte(word))
					buf := make([]byte, len(word))
					if _, err := io.ReadFull(c, buf); err != nil || string(buf) != word {
						t.Errorf("%q: %q, %v", word, buf, err)
					}
					if n%2 == 0 {
						_ = c.(*net.TCPConn).SetLinger(0)
					}
					c.Close()
					sessions.Add(1)
				}
			})
		}
		wg.Wait()
		require.Greater(t, sessions.Load(), int64(20))
		require.Zero(t, k.Stats().Closed[keepalive.ReasonIdle])
		require.Eventually(t, func() bool { return k.Len() == 0 }, eternal, ms)
	})
}

func TestGuardIsSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(keepalive.Guard{}), uintptr(160), "a class of the allocator's")
}
