package fleet

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// together are the clients of a fleet of two nodes that are up and have no processes. Client 0 is
// registered with the first node, and client 1 with the second.
func together(t *testing.T, flags string) (*Fleet, *Clients) {
	cfg, err := parse("-nodes 2 -conns 2 " + flags)
	require.NoError(t, err)
	f := New(cfg)
	f.nodes = []*node{{number: 0}, {number: 1}}
	c := f.Clients(0, 2)
	for i, n := range f.nodes {
		n.state.Store(up)
		_, err := c.Target(i, true)
		require.NoError(t, err)
		require.Same(t, n, c.members[i].node)
		require.Equal(t, Welcome, c.Answer(int32(i), []byte("WELCOME 5 new"), time.Second, true))
	}
	return f, c
}

func TestAClientWhoseNodeIsKilledComesBackWithinALease(t *testing.T) {
	f, c := together(t, "-lease 10s -return 1")
	require.False(t, c.Closed(1, 2*time.Second), "its node is up")
	_, ok := c.Next()
	require.False(t, ok)

	f.end(f.nodes[0], killed)
	require.True(t, c.Closed(0, 2*time.Second))
	at, ok := c.Next()
	require.True(t, ok)
	require.GreaterOrEqual(t, at, 2*time.Second)
	require.Less(t, at, 12*time.Second)
	require.EqualValues(t, 1, f.away.Load())
	require.EqualValues(t, 0, c.Pop())

	_, err := c.Target(0, false)
	require.NoError(t, err)
	require.Same(t, f.nodes[1], c.members[0].node, "the one that serves")
	require.Equal(t, Back, c.Answer(0, []byte("WELCOME 6 moved"), at, true))
	require.Zero(t, f.away.Load())
	require.Equal(t, []registration{
		{session: 0, node: 0, epoch: 5, from: time.Second, to: 2 * time.Second},
		{session: 1, node: 1, epoch: 5, from: time.Second, to: 2 * time.Second},
		{session: 0, node: 1, epoch: 6, from: at, kind: moved},
	}, c.registrations)
}

func TestAClientMayStayAwayWhenItsNodeIsKilled(t *testing.T) {
	f, c := together(t, "-return 0")
	f.end(f.nodes[0], killed)
	require.True(t, c.Closed(0, time.Second))
	_, ok := c.Next()
	require.False(t, ok)
}

func TestAClientWhoseNodeIsDrainedComesBackWithinASecond(t *testing.T) {
	f, c := together(t, "-rolling")
	f.end(f.nodes[0], draining)
	require.True(t, c.Closed(0, time.Second))
	at, ok := c.Next()
	require.True(t, ok)
	require.Less(t, at, 2*time.Second)
}

func TestAClientThatIsTurnedAwayTriesAgainLessAndLessOften(t *testing.T) {
	f, c := together(t, "-kill 0")
	f.end(f.nodes[0], died)
	f.end(f.nodes[1], died)
	first := errors.New("first")
	for attempt, ms := range []int{100, 200, 400, 800, 1600, 2000, 2000} {
		most := time.Duration(ms) * time.Millisecond
		_, err := c.Target(0, false)
		require.ErrorIs(t, err, errNobodyServes)
		if attempt == 0 {
			err = first
		}
		c.TurnedAway(0, time.Minute, err)
		at, ok := c.Next()
		require.True(t, ok)
		require.GreaterOrEqual(t, at, time.Minute+most/2, attempt)
		require.Less(t, at, time.Minute+most, attempt)
		c.Pop()
	}
	require.EqualValues(t, 1, f.away.Load(), "once")
	require.Equal(t, 7, c.refused)
	require.Equal(t, first, c.refusal)
}

func TestTheLinesOfAGateway(t *testing.T) {
	_, c := together(t, "")
	require.Equal(t, Other, c.Answer(0, []byte("PONG 7"), 0, false))
	require.Equal(t, Bye, c.Answer(0, []byte("BYE draining"), 0, false))
	require.Equal(t, map[string]int{"draining": 1}, c.byes)
	require.Equal(t, Stray, c.Answer(0, []byte("WELCOME 6 new"), 0, false), "it was welcome before")
	require.Equal(t, Stray, c.Answer(0, []byte("WELCOME x new"), 0, true))
	require.Equal(t, Stray, c.Answer(0, []byte("WELCOME 6 friend"), 0, true))
	require.Equal(t, "HELLO s-0000001\n", string(c.Hello(1)))
}
