package fleet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// dying is a slot under a told clock. One of two nodes, with half of the sessions, dies.
type dying struct {
	*pair
	claims [2][]claim // of the one that dies, and of the one that lives
	ended  map[string]event
	kicked string
	terms  [2]int64
}

// newDying has a node be dead, and no session looked for yet.
func newDying(t *testing.T, each int) *dying {
	d := &dying{pair: newPair(t, 0, 45*time.Second), ended: map[string]event{}}
	for node := range 2 {
		d.terms[node] = d.beat(node)
		for i := range each {
			d.register(node, fmt.Sprint("session-", node, "-", i))
		}
	}
	for range 5 {
		d.pass(8 * time.Second)
		require.Equal(t, d.terms[1], d.beat(1))
		d.look()
		require.Empty(t, d.ended)
	}
	d.pass(5 * time.Second)
	return d
}

func (d *dying) pass(after time.Duration) {
	d.model.now += after.Microseconds()
	d.tellTime()
}

func (d *dying) beat(node int) int64 {
	terms, err := d.nodes[node].beat(ctx)
	require.NoError(d.t, err)
	return terms[0]
}

func (d *dying) register(node int, id string) {
	answers, err := d.nodes[node].register(ctx, []registration{{id: id}})
	require.NoError(d.t, err)
	d.claims[node] = append(d.claims[node], claim{id, answers[0].token})
}

// look takes a step of some 128 sessions, and reports whether there are more.
func (d *dying) look() bool {
	result, err := d.nodes[1].sweep(ctx, 1024, nil)
	require.NoError(d.t, err)
	for _, e := range result.events {
		_, again := d.ended[e.id]
		require.False(d.t, again, e.id)
		require.Equal(d.t, e.id == d.kicked, e.reason == 'k')
		d.ended[e.id] = e
	}
	return result.more
}

// verdicts counts the verdicts on all sessions that a node believes to have.
func (d *dying) verdicts(node int) map[verdict]int {
	verdicts, err := d.nodes[node].extend(ctx, d.claims[node])
	require.NoError(d.t, err)
	count := map[verdict]int{}
	for i, v := range verdicts {
		count[v]++
		e, gone := d.ended[d.claims[node][i].id]
		require.Equal(d.t, v == ended, gone && e.token == d.claims[node][i].token)
	}
	return count
}

func TestAllSessionsOfADeadNodeEndWhateverHappensMeanwhile(t *testing.T) {
	const each = 1500
	d := newDying(t, each)
	d.kicked = "session-0-1499"
	there, err := d.nodes[1].kick(ctx, d.kicked)
	require.NoError(t, err)
	require.True(t, there)
	// One that waits to be resumed is no part of this.
	verdicts, err := d.nodes[0].unregister(ctx, d.claims[0][each-2:each-1], 'c', time.Hour)
	require.NoError(t, err)
	require.Equal(t, []verdict{held}, verdicts)
	detached := d.claims[0][each-2]
	d.claims[0] = slices.Delete(d.claims[0], each-2, each-1)
	steps, moved := 0, 0
	for more := true; more; steps++ {
		more = d.look()
		for i := range 20 {
			id := fmt.Sprint("session-0-", 20*steps+i)
			if _, gone := d.ended[id]; !gone {
				d.register(1, id)
				moved++
			}
			d.register(1, fmt.Sprint("new-", steps, "-", i))
		}
	}
	require.Greater(t, steps, 2)
	require.Positive(t, moved)
	require.Equal(t, each-1-moved, len(d.ended))
	require.Contains(t, d.ended, d.kicked)
	require.Equal(t, map[verdict]int{ended: each - 1 - moved, superseded: moved}, d.verdicts(0))
	found, err := d.nodes[1].get(ctx, []string{detached.id})
	require.NoError(t, err)
	require.Equal(t, value{detached.token, stateDetached}, found[0].value)
	require.Equal(t, map[verdict]int{held: len(d.claims[1])}, d.verdicts(1))
	require.False(t, d.look())
}

func TestANodeThatComesBackWhileItsSessionsAreLookedForKeepsTheRest(t *testing.T) {
	const each = 1500
	d := newDying(t, each)
	require.True(t, d.look())
	require.True(t, d.look())
	gone := len(d.ended)
	require.Positive(t, gone)
	require.Greater(t, d.beat(0), d.terms[0])
	for range 10 {
		require.False(t, d.look())
	}
	require.Equal(t, map[verdict]int{ended: gone, held: each - gone}, d.verdicts(0))
	require.Equal(t, gone, len(d.ended))
}

func TestAnotherServerLooksForADeadNodesSessionsFromTheBeginning(t *testing.T) {
	const each = 1500
	d := newDying(t, each)
	require.True(t, d.look())
	d.model.server += "x"
	d.tellTime()
	for range 5 {
		d.beat(1)
		require.False(t, d.look(), "it may have come back")
		d.pass(10 * time.Second)
	}
	for _, dead := range d.client.HGetAll(ctx, d.key("d")).Val() {
		require.Equal(t, "0", dead[6:], "its cursor")
	}
	for d.look() {
		continue
	}
	require.Equal(t, each, len(d.ended))
}

func TestNodesThatDieOneAfterTheOtherAreBothLookedFor(t *testing.T) {
	const each = 1500
	d := newDying(t, each)
	require.True(t, d.look()) // and nobody goes on with that
	d.client.ZAdd(ctx, d.key("g"), goredis.Z{Score: float64(d.model.ms()), Member: string(d.nodes[1].by[:])})
	d.nodes[1].cfg.MaxExpire = -1
	for d.look() {
		continue
	}
	require.Equal(t, 2*each, len(d.ended))
}
