package heartbeat

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

// Random clients and servers, and the invariants of all: no silence is too long, no connection is
// closed while the server answers in time, and none is kept for long after the server has fallen
// silent.
func TestRandomLives(t *testing.T) {
	seeds := uint64(20)
	if testmain.Race {
		seeds /= 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomLife(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func randomLife(t *testing.T, r *rand.Rand) {
	b := newBeater(t, Config{Tick: []time.Duration{10 * ms, 100 * ms}[r.IntN(2)]})
	tick := b.tick
	interval := time.Second + time.Duration(r.Int64N(int64(20*time.Second)))
	opts := Options{
		Timeout:    interval*3/2 + time.Duration(r.Int64N(int64(2*interval))),
		Interval:   interval,
		Answer:     Answer(1 + r.IntN(2)),
		AckTimeout: interval/4 + time.Duration(r.Int64N(int64(interval/2))),
		Message:    []byte("PING\n"),
	}
	here, there := net.Pipe()
	c, err := b.Start(here, opts)
	require.NoError(t, err)
	end := reader(c)

	var mute atomic.Bool
	var mu sync.Mutex
	begin, last, longest := time.Now(), time.Now(), time.Duration(0)
	slowest := int64(opts.AckTimeout - tick)
	var server sync.WaitGroup
	latency := rand.New(rand.NewPCG(r.Uint64(), 2))
	server.Go(func() {
		for lines := bufio.NewScanner(there); lines.Scan(); {
			mu.Lock()
			longest, last = max(longest, time.Since(last)), time.Now()
			mu.Unlock()
			if lines.Text() != "PING" || mute.Load() {
				continue
			}
			late := time.Duration(latency.Int64N(slowest))
			server.Go(func() { // others may come meanwhile
				time.Sleep(late)
				if !mute.Load() {
					_, _ = io.WriteString(there, "PONG\n")
				}
			})
		}
	})

	write := func(until time.Time) error {
		pause := max(1, int64(interval)*int64(1+r.IntN(4))/2)
		for time.Now().Before(until) {
			time.Sleep(time.Duration(r.Int64N(pause)))
			if _, err := c.Write([]byte("data\n")); err != nil {
				return err
			}
			if r.IntN(10) == 0 {
				pause = max(1, int64(interval)*int64(1+r.IntN(4))/2)
			}
		}
		return nil
	}
	require.NoError(t, write(begin.Add(30*interval)))
	require.NoError(t, c.Err(), "the server answers")
	mu.Lock()
	require.LessOrEqual(t, longest, interval+2*tick)
	mu.Unlock()

	mute.Store(true)
	begin = time.Now()
	if r.IntN(2) == 0 {
		require.ErrorIs(t, write(begin.Add(100*interval)), ErrNoAnswer)
	}
	require.ErrorIs(t, <-end, ErrNoAnswer)
	// At most a write of the client later: up to two intervals.
	require.LessOrEqual(t, time.Since(begin), max(opts.Timeout, interval)+opts.AckTimeout+2*interval+6*tick)
	<-c.Done()
	require.ErrorIs(t, c.Err(), ErrNoAnswer)
	require.Zero(t, b.Stats().Conns)
	there.Close()
	server.Wait()
}
