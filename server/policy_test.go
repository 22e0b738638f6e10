package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// Each reason has words of its own. A client can tell them apart.
func TestFarewellsSayWhy(t *testing.T) {
	const day = 24 * time.Hour
	for want, c := range map[string]struct {
		policy keepalive.Config
		speak  bool
		first  string // before the farewell
	}{
		"BYE first message timeout 50ms\n": {policy: keepalive.Config{FirstMessage: 50 * ms}},
		"BYE maximum age 2s\n":             {policy: keepalive.Config{Age: keepalive.Age{Max: 2 * time.Second}}, speak: true},
		"BYE maximum age 3s\n": {
			policy: keepalive.Config{Age: keepalive.Age{Max: 3 * time.Second, Grace: 50 * ms}}, speak: true,
			first: "GOAWAY 50ms\n",
		},
		"BYE no answer to PING\n": {
			policy: keepalive.Config{Probe: keepalive.Probing{After: timeout, Timeout: 20 * ms, Count: 2}}, speak: true,
			first: "PING\nPING\n",
		},
	} {
		t.Run(strings.TrimSpace(want), func(t *testing.T) {
			t.Parallel()
			c.policy.Timeout, c.policy.Tick = day, 10*ms
			r := start(t, Config{Config: c.policy})
			conn := r.dial(t)
			if c.speak {
				require.Equal(t, "hello\n", ask(t, conn, "hello\n"))
			}
			require.Equal(t, c.first+want, rest(t, conn))
		})
	}
}

func TestFarewellOfOneThatIsEvicted(t *testing.T) {
	r := start(t, Config{Config: keepalive.Config{Tick: 10 * ms, Timeout: time.Minute, Room: keepalive.Room{MaxConns: 2, Full: keepalive.FullEvict, MinIdle: 50 * ms}}})
	idlest, other := r.dial(t), r.dial(t)
	require.Equal(t, "PONG\n", ask(t, idlest, "PING\n"))
	time.Sleep(100 * ms)
	r.getRoom(t, other)
	require.Equal(t, "BYE closed to make room\n", rest(t, idlest))
	require.Equal(t, "PONG\n", ask(t, other, "PING\n"))
}

// Any line is an answer. BEAT needs no answer itself.
func TestAnswerToAProbeSavesTheConnection(t *testing.T) {
	r := start(t, Config{Config: keepalive.Config{Timeout: 2 * eternal, Tick: 10 * ms, Probe: keepalive.Probing{After: 100 * ms, Timeout: eternal}}})
	c := r.dial(t)
	for range 3 {
		require.Equal(t, "PING\n", readLine(t, c))
		_, err := c.Write([]byte("BEAT\n"))
		require.NoError(t, err)
	}
	answer := ask(t, c, "still here\n")
	for answer == "PING\n" { // the next one has come meanwhile
		answer = readLine(t, c)
	}
	require.Equal(t, "still here\n", answer)
	require.Zero(t, r.Stats().Closed[keepalive.ReasonNoAnswer])
}

// The Keeper calls the functions of the embedding program.
func TestFunctionsOfTheUserAreCalled(t *testing.T) {
	var closed, asked, probed atomic.Int32
	r := start(t, Config{Config: keepalive.Config{
		Timeout: 200 * ms, Tick: 10 * ms, OnClose: func(any, keepalive.Reason) { closed.Add(1) },
		OnIdle: func(any, keepalive.Reason) keepalive.Verdict { asked.Add(1); return keepalive.Close },
		Probe:  keepalive.Probing{Send: func(any) error { probed.Add(1); return nil }},
	}})
	require.Equal(t, "BYE no answer to PING\n", rest(t, r.dial(t)))
	require.Eventually(t, func() bool { return closed.Load() == 1 }, eternal, ms)
	require.EqualValues(t, 1, asked.Load())
	require.EqualValues(t, 1, probed.Load())
}

// For a while nothing changes but what Draining says.
func TestDrainHasTwoStages(t *testing.T) {
	r := start(t, Config{DrainDelay: 3 * time.Second, Drain: 200 * ms})
	require.False(t, r.Draining())
	c := r.dial(t)
	require.Equal(t, "PONG\n", ask(t, c, "PING\n"))
	begin := time.Now()
	r.cancel()
	require.Eventually(t, r.Draining, eternal, ms)
	require.False(t, r.Keeper().Stats().Draining)
	late := r.dial(t)
	require.Equal(t, "PONG\n", ask(t, late, "PING\n"), "new ones are still served")
	require.Equal(t, "PONG\n", ask(t, c, "PING\n"))
	require.Equal(t, "BYE server shutting down\n", rest(t, c))
	require.Equal(t, "BYE server shutting down\n", rest(t, late))
	require.NoError(t, <-r.result)
	require.GreaterOrEqual(t, time.Since(begin), 3*time.Second)
	require.True(t, r.Draining())
}

func TestDrainIsSpread(t *testing.T) {
	r := start(t, Config{Drain: time.Second, Config: keepalive.Config{Tick: 10 * ms, Timeout: time.Minute}})
	conns := make([]net.Conn, 20)
	for i := range conns {
		conns[i] = r.dial(t)
		require.Equal(t, "PONG\n", ask(t, conns[i], "PING\n"))
	}
	begin := time.Now()
	r.cancel()
	require.NoError(t, <-r.result)
	require.GreaterOrEqual(t, time.Since(begin), 700*ms)
	for _, c := range conns {
		require.Equal(t, "BYE server shutting down\n", rest(t, c))
	}
}

func TestShutdownBoundsTheDelay(t *testing.T) {
	r := start(t, Config{DrainDelay: time.Hour})
	c := r.dial(t)
	require.Equal(t, "PONG\n", ask(t, c, "PING\n"))
	ctx, cancel := context.WithTimeout(context.Background(), 100*ms)
	defer cancel()
	err := r.Shutdown(ctx)
	if err != nil { // or the one connection was gone in no time
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	require.NoError(t, <-r.result)
}

// Somebody else says goodbye, and takes an hour for it.
func TestShutdownBoundsTheDrain(t *testing.T) {
	r := start(t, Config{Drain: time.Hour})
	for range 10 {
		require.Equal(t, "PONG\n", ask(t, r.dial(t), "PING\n"))
	}
	r.cancel()
	require.Eventually(t, r.Draining, eternal, ms)
	ctx, cancel := context.WithTimeout(context.Background(), 100*ms)
	defer cancel()
	require.ErrorIs(t, r.Shutdown(ctx), context.DeadlineExceeded)
	require.NoError(t, <-r.result)
}

func TestShutdownTimeoutFollowsTheDrain(t *testing.T) {
	s := idle(t, Config{DrainDelay: time.Second, Drain: time.Minute})
	require.Equal(t, 71*time.Second, s.Config().ShutdownTimeout)
	require.NoError(t, s.Update(Config{}))
	require.Equal(t, 10*time.Second, s.Config().ShutdownTimeout)
}

func TestHealth(t *testing.T) {
	s := idle(t, Config{})
	require.ErrorIs(t, s.Health(context.Background()), ErrNotRunning)

	r := start(t, Config{Loops: 2})
	require.NoError(t, r.Health(context.Background()))
	stop := make(chan struct{})
	for range 20 {
		require.Equal(t, "PONG\n", ask(t, r.dial(t), "PING\n"))
	}
	require.NoError(t, r.Health(context.Background()))
	loops := 0
	for range r.loops.Range {
		loops++
	}
	require.LessOrEqual(t, loops, 2)

	// A function of the user blocks a loop.
	cfg := r.Config()
	cfg.Timeout = 100 * ms
	cfg.OnIdle = func(any, keepalive.Reason) keepalive.Verdict { <-stop; return keepalive.Close }
	require.NoError(t, r.Update(cfg))
	r.dial(t)
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 200*ms)
		defer cancel()
		err := r.Health(ctx)
		return err != nil && strings.Contains(err.Error(), fmt.Sprintf(" of %d event loops did not answer", loops)) &&
			errors.Is(err, context.DeadlineExceeded)
	}, eternal, 10*ms)
	close(stop)
	require.Eventually(t, func() bool { return r.Health(context.Background()) == nil }, eternal, 10*ms)
	r.cancel()
	require.NoError(t, <-r.result)
	require.ErrorIs(t, r.Health(context.Background()), ErrNotRunning)
}

func TestHealthSeesAHandThatStands(t *testing.T) {
	var h hand
	var at atomic.Uint64
	require.NoError(t, h.check(context.Background(), at.Load, time.Millisecond), "it is seen for the first time")
	h.since = time.Now().Add(-time.Minute)
	ctx, cancel := context.WithTimeout(context.Background(), 50*ms)
	defer cancel()
	require.ErrorContains(t, h.check(ctx, at.Load, time.Millisecond), "server: the hand of the wheel has not moved for 1m")
	at.Add(1)
	require.NoError(t, h.check(context.Background(), at.Load, time.Millisecond))

	// The whole program stood still: the hand gets a moment.
	h.since = time.Now().Add(-time.Minute)
	time.AfterFunc(20*ms, func() { at.Add(1) })
	require.NoError(t, h.check(context.Background(), at.Load, time.Millisecond))
}
