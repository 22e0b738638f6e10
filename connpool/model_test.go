package connpool

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A naive pool is compared with the real one after each operation: the open connections,
// the result of Get, and the time of each close and of each report of a leak.

func TestPoolAgreesWithModel(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 3))
			ops := make([]byte, 600)
			for i := range ops {
				ops[i] = byte(r.Uint32())
			}
			synctest.Test(t, func(t *testing.T) { compare(t, ops) })
		})
	}
}

func FuzzOperations(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1, 1, 8, 9})
	f.Add([]byte("MaxIdleTime, MaxAge, and the rest"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) > 300 { // half an hour, of ticks of 30ms
			return
		}
		synctest.Test(t, func(t *testing.T) { compare(t, ops) })
	})
}

// modelConn is a connection of the model.
type modelConn struct {
	*fake
	born, since time.Time
	reset       bool // it is from before a Reset
}

// model is a pool without MinIdle. Nothing happens in it by itself but the passing of time.
type model struct {
	t    *testing.T
	p    *Pool[*fake]
	s    *fakeServer
	cfg  Config[*fake]
	idle []*modelConn // the newest last
	held []modelLease

	mu     sync.Mutex
	leaked map[*fake]bool // reported, and not returned
}

type modelLease struct {
	Lease[*fake]
	*modelConn
	got time.Time
}

func compare(t *testing.T, ops []byte) {
	next := func() int {
		if len(ops) == 0 {
			return 0
		}
		b := ops[0]
		ops = ops[1:]
		return int(b)
	}
	m := &model{t: t, s: &fakeServer{t: t}, leaked: map[*fake]bool{}}
	m.cfg = Config[*fake]{
		MaxOpen:      1 + next()%6,
		MaxIdle:      next() % 4,
		MaxIdleTime:  []time.Duration{-1, 300 * ms, time.Second, 7 * time.Second}[next()%4],
		MaxAge:       []time.Duration{0, 500 * ms, 3 * time.Second, time.Minute}[next()%4],
		MaxAgeJitter: -1,
		Check:        m.s.check,
		LeakAfter:    2 * time.Second,
		OnLeak:       m.leak,
	}
	if next()%2 == 0 {
		m.cfg.CheckAfter = time.Second
	}
	m.p = newPoolOf(t, m.s, m.cfg)
	for len(ops) > 0 {
		switch op := next() % 16; op {
		case 0, 1, 2, 3, 4:
			m.get()
		case 5, 6, 7, 8:
			m.end(next(), Lease[*fake].Put, true)
		case 9:
			m.end(next(), Lease[*fake].Drop, false)
		case 10:
			m.take(next())
		case 11:
			m.breakIdle(next())
		case 12:
			m.p.Reset()
			m.idle = nil
			for _, l := range m.held {
				l.reset = true
			}
		default:
			pass(time.Duration(next()*next()) * []time.Duration{17 * time.Microsecond, ms / 8}[op%2])
		}
		synctest.Wait()
		m.check()
	}
	require.NoError(t, m.p.Close())
	for _, l := range m.held {
		require.ErrorIs(t, l.Put(), ErrClosed)
	}
	require.Zero(t, m.s.openNow())
}

// check compares what is open.
func (m *model) check() {
	m.idle = slices.DeleteFunc(m.idle, m.mayBeGone)
	for _, c := range m.idle {
		require.Zero(m.t, c.why(), "connection %d, idle for %v", c.id, time.Since(c.since))
	}
	for _, l := range m.held {
		require.Zero(m.t, l.why(), "connection %d is in use", l.id)
	}
	st := m.p.Stats()
	require.Equal(m.t, len(m.idle), st.Idle)
	require.Equal(m.t, len(m.held), st.InUse)
	require.Equal(m.t, len(m.idle)+len(m.held), m.s.openNow())
	require.Zero(m.t, st.Waiting+st.Dialing)
	m.checkLeaks()
}

func (m *model) leak(l Leak[*fake]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leaked[l.Conn] != l.Returned {
		m.t.Errorf("connection %d reported, returned: %v", l.Conn.id, l.Returned)
	}
	m.leaked[l.Conn] = !l.Returned
}

func (m *model) checkLeaks() {
	m.mu.Lock()
	defer m.mu.Unlock()
	leaking := 0
	for _, l := range m.held {
		out, leaked := time.Since(l.got), m.leaked[l.fake]
		if leaked {
			leaking++
			require.GreaterOrEqual(m.t, out, m.cfg.LeakAfter, "connection %d was reported early", l.id)
		} else {
			require.LessOrEqual(m.t, out, m.cfg.LeakAfter+2*m.p.group.Stats().Tick, "connection %d was not reported", l.id)
		}
	}
	require.Equal(m.t, leaking, m.p.Stats().Leaking)
}

// mayBeGone reports whether an idle connection was closed, and fails the test if it was too
// early or too late.
func (m *model) mayBeGone(c *modelConn) bool {
	idle, age := time.Since(c.since), time.Since(c.born)
	idleMore, ageMore := time.Duration(never), time.Duration(never)
	tick := m.p.group.Stats().Tick
	if m.cfg.MaxIdleTime > 0 {
		idleMore = m.cfg.MaxIdleTime - idle
	}
	if m.cfg.MaxAge > 0 {
		ageMore = m.cfg.MaxAge - age
	}
	switch why := c.why(); why {
	case 0:
		require.Greater(m.t, idleMore, -2*tick-1, "connection %d should be gone", c.id)
		require.Greater(m.t, ageMore, -3*tick-1, "connection %d should be gone", c.id)
		return false
	case ReasonIdle:
		require.LessOrEqual(m.t, idleMore, time.Duration(0), "connection %d was closed early", c.id)
	case ReasonMaxAge:
		require.LessOrEqual(m.t, ageMore, tick, "connection %d was closed early", c.id)
	default:
		m.t.Errorf("connection %d was closed for %v", c.id, why)
	}
	return true
}

func (m *model) get() {
	dialed := len(m.s.conns)
	ctx, cancel := context.WithTimeout(bg, time.Microsecond)
	defer cancel()
	l, err := m.p.Get(ctx)
	synctest.Wait() // for the closes
	tick := m.p.group.Stats().Tick
	for len(m.idle) > 0 { // Get takes the newest fit one
		c := m.idle[len(m.idle)-1]
		m.idle = m.idle[:len(m.idle)-1]
		if err == nil && l.Conn == c.fake {
			idle := time.Since(c.since)
			require.False(m.t, c.broken && idle >= m.cfg.CheckAfter+2*tick, "%v", idle)
			m.held = append(m.held, modelLease{l, c, time.Now()})
			return
		}
		switch c.why() {
		case ReasonCheck:
			require.True(m.t, c.broken)
			require.Greater(m.t, time.Since(c.since)+tick, m.cfg.CheckAfter)
		case ReasonMaxAge:
			require.Greater(m.t, time.Since(c.born)+tick, m.cfg.MaxAge)
		default:
			m.t.Fatalf("connection %d was not taken, and closed for %v", c.id, c.why())
		}
	}
	if len(m.held) >= m.cfg.MaxOpen {
		require.ErrorIs(m.t, err, context.DeadlineExceeded)
		return
	}
	require.NoError(m.t, err)
	require.Equal(m.t, dialed, l.Conn.id, "a new one")
	m.held = append(m.held, modelLease{l, &modelConn{fake: l.Conn, born: time.Now()}, time.Now()})
}

// pick takes one of the connections in use.
func (m *model) pick(n int) (modelLease, bool) {
	if len(m.held) == 0 {
		return modelLease{}, false
	}
	n %= len(m.held)
	l := m.held[n]
	m.held = slices.Delete(m.held, n, n+1)
	return l, true
}

func (m *model) end(n int, end func(Lease[*fake]) error, reusable bool) {
	l, ok := m.pick(n)
	if !ok {
		return
	}
	require.NoError(m.t, end(l.Lease))
	require.ErrorIs(m.t, end(l.Lease), ErrReturned)
	synctest.Wait() // for the close of another one
	switch why := l.why(); {
	case !reusable:
		require.Equal(m.t, ReasonDropped, why)
	case l.reset:
		require.Equal(m.t, ReasonReset, why)
	case why == ReasonMaxAge:
		require.Greater(m.t, time.Since(l.born)+m.p.group.Stats().Tick, m.cfg.MaxAge)
	default:
		if m.cfg.MaxAge > 0 {
			require.Less(m.t, time.Since(l.born), m.cfg.MaxAge+2*m.p.group.Stats().Tick)
		}
		l.since = time.Now()
		m.idle = append(m.idle, l.modelConn)
		if m.cfg.MaxIdle > 0 && len(m.idle) > m.cfg.MaxIdle {
			require.Equal(m.t, ReasonMaxIdle, m.idle[0].why())
			m.idle = m.idle[1:]
		}
	}
}

func (m *model) take(n int) {
	if l, ok := m.pick(n); ok {
		c, err := l.Take()
		require.NoError(m.t, err)
		require.Zero(m.t, c.why())
		m.s.close(c, ReasonDropped)
	}
}

func (m *model) breakIdle(n int) {
	if len(m.idle) > 0 {
		m.idle[n%len(m.idle)].breakNow()
	}
}
