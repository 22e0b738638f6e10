// Package latetest tests, for each adapter, how late a connection ends after probes.
package latetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

const (
	ms      = time.Millisecond
	tick    = 50 * ms
	eternal = time.Minute
)

// Start starts a Keeper with a config, and a server for its connections. open opens a connection
// with a silent peer, and returns the server's connection.
type Start func(t *testing.T, cfg keepalive.Config) (k *keepalive.Keeper, open func() (conn any))

// Run tests the lateness of the end: at most two ticks, with any number of probes. One schedule
// waits for all answers, so their ticks do not add up.
func Run(t *testing.T, start Start) {
	for _, probes := range []int{1, 5, 10} {
		t.Run(fmt.Sprintf("probes=%d", probes), func(t *testing.T) {
			t.Parallel()
			for failed, tries := 0, 0; tries < 10; tries++ {
				late, pause := lateness(t, start, probes)
				if late <= 2*tick+2*pause {
					return
				}
				if pause < tick/2 { // otherwise this machine is too busy to tell
					failed++
				}
				require.Less(t, failed, 3, "%v late", late)
			}
		})
	}
}

// lateness lets some connections fall silent. It returns an upper bound of the time from timeout
// to end for three quarters of them, and the longest pause of this machine meanwhile.
func lateness(t *testing.T, start Start, probes int) (late, pause time.Duration) {
	const timeout, conns = time.Second, 20
	var ends lateEnds
	k, open := start(t, keepalive.Config{
		Timeout: timeout,
		Tick:    tick,
		Probe:   keepalive.Probing{After: timeout / 2, Count: probes, Send: func(any) error { return nil }},
		OnClose: ends.add,
	})
	for range conns {
		conn := open()
		ends.due.Store(conn, time.Now().Add(timeout))
		require.True(t, keepalive.Touch(conn))
		time.Sleep(tick / 7)
	}
	for begin := time.Now(); ends.count() < conns; {
		slept := time.Now()
		time.Sleep(ms)
		pause = max(pause, time.Since(slept)-ms)
		require.Less(t, time.Since(begin), eternal)
	}
	require.EqualValues(t, conns, k.Stats().Closed[keepalive.ReasonNoAnswer])
	require.EqualValues(t, conns*probes, k.Stats().Probes)
	slices.Sort(ends.late)
	require.GreaterOrEqual(t, ends.late[0], time.Duration(0))
	return ends.late[conns*3/4], pause
}

// lateEnds is how late connections were closed.
type lateEnds struct {
	due  sync.Map // time.Time, by connection
	mu   sync.Mutex
	late []time.Duration
}

// add is for Config.OnClose.
func (e *lateEnds) add(conn any, _ keepalive.Reason) {
	due, _ := e.due.Load(conn)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.late = append(e.late, time.Since(due.(time.Time)))
}

func (e *lateEnds) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.late)
}
