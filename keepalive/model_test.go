package keepalive

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

// Random touches, timeouts, updates, holds: nobody is closed before the shortest time in force
// since its last touch, nor much later than the longest.
func TestPoliciesAgreeWithModel(t *testing.T) {
	seeds := uint64(24)
	if testmain.Race {
		seeds /= 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { model(t, seed) })
		})
	}
}

type modelConn struct {
	net.Conn
	touched  time.Time
	own      time.Duration
	held     []func()
	min, max time.Duration // in force since the touch
	gone     bool
}

func model(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 7))
	timeouts := []time.Duration{time.Second, 5 * time.Second, 59 * time.Second, 61 * time.Second, 5 * time.Minute, 20 * time.Minute}
	tick := 250 * ms // time is all ticks
	if seed < 2 {
		tick = 100 * ms
	}
	config := func() Config {
		cfg := Config{Timeout: timeouts[r.IntN(len(timeouts))], Tick: tick, Activity: ActivityManual}
		if r.IntN(3) == 0 {
			cfg.Advise = true
		}
		if r.IntN(3) == 0 {
			cfg.Rate.MinBeat = 1
		}
		if r.IntN(3) == 0 {
			cfg.Room.Pressure.Timeout = max(cfg.Tick, cfg.Timeout/3)
			cfg.Room.Pressure.Used = func() float64 { return 0 }
		}
		if r.IntN(3) == 0 {
			cfg.Closing.MaxPerSecond = 1e6
		}
		return cfg
	}
	var conns []*modelConn
	var updated time.Time
	detailed := seed%2 == 0
	byConn := map[any]*modelConn{}
	var k *Keeper
	cfg := config()
	var mu sync.Mutex // held but while time passes, for the sake of the race detector
	onClose := func(c any, why Reason) {
		mu.Lock()
		defer mu.Unlock()
		m := byConn[c]
		if m == nil || m.gone {
			t.Errorf("closed twice or unknown: %v", why)
			return
		}
		m.gone = true
		idle := time.Since(m.touched)
		if idle < m.min || len(m.held) > 0 {
			t.Errorf("seed %d: closed for %v after %v, in force at least %v, held %d", seed, why, idle, m.min, len(m.held))
		}
		late := time.Since(m.touched.Add(m.max))
		late = min(late, time.Since(updated.Add(time.Minute))) // see Update
		if late > 3*tick {
			t.Errorf("seed %d: closed %v late, after %v, in force at most %v, own %v", seed, late, idle, m.max, m.own)
		}
	}
	cfg.OnClose = onClose
	var err error
	k, err = New(cfg)
	require.NoError(t, err)
	force := func(m *modelConn) time.Duration {
		if m.own > 0 {
			return m.own
		}
		return cfg.Timeout
	}
	touch := func(m *modelConn) {
		m.touched = time.Now()
		m.min, m.max = force(m), force(m)
	}
	pass := func(d time.Duration) {
		mu.Unlock()
		time.Sleep(d)
		synctest.Wait()
		mu.Lock()
	}
	mu.Lock()
	for range 400 {
		switch n := r.IntN(20); {
		case n < 3 && len(conns) < 30:
			m := new(modelConn)
			a, _ := net.Pipe()
			m.touched = time.Now()
			touch(m)
			c := k.Conn(a)
			m.Conn = c
			byConn[c] = m
			if detailed {
				Of(c).Context()
			}
			conns = append(conns, m)
		case n < 12 && len(conns) > 0:
			m := conns[r.IntN(len(conns))]
			if Touch(m.Conn) {
				touch(m)
			} else if !m.gone {
				pass(0)
				require.True(t, m.gone)
			}
		case n == 12 && len(conns) > 0:
			m := conns[r.IntN(len(conns))]
			d := timeouts[r.IntN(len(timeouts))]
			if r.IntN(3) == 0 {
				if _, err := Of(m.Conn).SetInterval(0); err == nil {
					m.own = 0
					touch(m)
				}
			} else if _, err := Of(m.Conn).SetTimeout(d); err == nil {
				m.own = d
				touch(m)
			}
		case n == 13 && r.IntN(3) == 0:
			next := config()
			next.Rate.MinBeat = 0
			next.OnClose = onClose
			require.NoError(t, k.Update(next))
			cfg = next
			for _, m := range conns {
				m.min, m.max = min(m.min, force(m)), max(m.max, force(m))
			}
			updated = time.Now()
		case n == 14 && len(conns) > 0:
			m := conns[r.IntN(len(conns))]
			if !m.gone && detailed {
				m.held = append(m.held, Of(m.Conn).Hold())
			}
		case n < 17 && len(conns) > 0:
			m := conns[r.IntN(len(conns))]
			if h := len(m.held); h > 0 && !m.gone {
				release := m.held[h-1]
				m.held = m.held[:h-1]
				release()
				touch(m)
			}
		case n == 17 && len(conns) > 0:
			m := conns[r.IntN(len(conns))]
			m.Conn.(*conn).guard.timer.HandOver()
		case n == 18:
			pass(timeouts[r.IntN(len(timeouts))])
		default:
			pass(time.Duration(r.Int64N(int64(30 * time.Second))))
		}
		pass(0)
		if t.Failed() {
			break
		}
	}
	for _, m := range conns {
		for _, release := range m.held {
			m.held = m.held[:0]
			release()
			touch(m)
		}
	}
	pass(25 * time.Minute)
	mu.Unlock()
	if k.Len() > 0 && !t.Failed() {
		t.Errorf("seed %d: %d left", seed, k.Len())
	}
	for _, m := range conns {
		_ = m.Close()
	}
	require.NoError(t, k.Close())
}
