package connpool

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/wheel"
)

// Many users do all there is to do, while connections break, dials fail, idle times and
// ages end and the pool is reset. A connection has one user at a time, there are never more
// than MaxOpen, each is closed once, and in the end all are.
func TestNothingIsLostOrSharedUnderLoad(t *testing.T) {
	g, err := NewGroup(wheel.Config{Tick: ms})
	require.NoError(t, err)
	s := &fakeServer{t: t, latency: 50 * time.Microsecond}
	const most = 8
	var leaked, back atomic.Uint64
	p := newPoolOf(t, s, Config[*fake]{
		Group: g, MaxOpen: most, MaxIdle: 6, MinIdle: 2, MaxIdleTime: 3 * ms, MaxAge: 40 * ms,
		Check: s.check, CheckAfter: ms, CheckPut: s.check, DialTimeout: time.Second,
		LeakAfter: ms, OnLeak: func(l Leak[*fake]) {
			if l.Returned {
				back.Add(1)
			} else {
				leaked.Add(1)
			}
		},
		CheckTimeout: -1, // or a Get may wait although there are idle connections
	})
	var users sync.WaitGroup
	for i := range uint64(24) {
		users.Go(func() {
			r := rand.New(rand.NewPCG(i, 1))
			for range 300 {
				hammer(t, r, s, p)
			}
		})
	}
	done := make(chan struct{})
	var trouble sync.WaitGroup
	trouble.Go(func() {
		r := rand.New(rand.NewPCG(99, 1))
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-time.After(time.Duration(r.IntN(3000)) * time.Microsecond):
			}
			s.set(func() { s.down = nil })
			switch i % 4 {
			case 0:
				p.Reset()
			case 1:
				s.set(func() { s.down = errBroken })
			default:
				if st := p.Stats(); st.Open+st.Dialing > most || st.Idle > 6 || st.Idle > 0 && st.Waiting > 0 {
					t.Errorf("%+v", st)
				}
			}
		}
	})
	users.Wait()
	close(done)
	trouble.Wait()
	s.set(func() {
		s.down = nil
		require.LessOrEqual(t, s.mostOpen, most)
	})
	begin := time.Now()
	for p.Stats().Closed[ReasonIdle] == 0 { // a slow test puts back none that is not too old
		require.Less(t, time.Since(begin), 2*time.Minute)
		getMany(t, p, 6)
		time.Sleep(10 * ms)
	}
	require.Eventually(t, func() bool { return p.Stats().Closed[ReasonMaxAge] > 0 }, 2*time.Minute, ms,
		"those that stay for MinIdle, too, become too old")
	require.Eventually(t, func() bool {
		st := p.Stats()
		return st.Waiting == 0 && st.Idle == 2 && st.InUse == 0 && st.Dialing == 0
	}, 2*time.Minute, ms, "MinIdle is all that is left: %+v", p.Stats())
	require.NoError(t, g.Close())
	require.Zero(t, s.openNow())
	st := p.Stats()
	closed := uint64(0)
	for _, n := range st.Closed {
		closed += n
	}
	require.EqualValues(t, len(s.conns), closed+st.Taken)
	require.EqualValues(t, s.tries, st.Dials)
	require.Zero(t, st.Open)
	for _, why := range []Reason{ReasonIdle, ReasonMaxAge, ReasonCheck, ReasonDropped, ReasonReset, ReasonClosed} {
		require.NotZero(t, st.Closed[why], why)
	}
	require.Zero(t, g.Stats().Pending+g.Stats().Due)
	require.Zero(t, st.Leaking)
	require.Equal(t, st.Leaks, leaked.Load())
	require.Equal(t, st.Leaks, back.Load())
}

// hammer is one use of a connection.
func hammer(t *testing.T, r *rand.Rand, s *fakeServer, p *Pool[*fake]) {
	ctx, cancel := context.WithTimeout(bg, time.Duration(r.IntN(5000))*time.Microsecond)
	defer cancel()
	l, err := p.Get(ctx)
	if err != nil {
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, errBroken) {
			t.Error(err)
		}
		return
	}
	leave := l.Conn.use()
	if r.IntN(2) == 0 {
		time.Sleep(time.Duration(r.IntN(400)) * time.Microsecond)
	}
	leave()
	switch r.IntN(20) {
	case 0:
		_ = l.Drop()
	case 1:
		s.close(l.Conn, ReasonDropped) // before the pool may open another one
		if _, err := l.Take(); err != nil {
			t.Error(err)
		}
	case 2:
		l.Conn.breakNow()
		_ = l.Put()
	case 3:
		_ = l.Put()
		l.Conn.breakNow() // while it is idle, or somebody else has it
	default:
		if err := l.Put(); err != nil {
			t.Error(err)
		}
	}
	if err := l.Put(); !errors.Is(err, ErrReturned) {
		t.Errorf("put twice: %v", err)
	}
}
