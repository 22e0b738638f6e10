package udpkeepalive

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// A model of a socket and its queue: whatever the order of arrivals, reads and due sessions, all
// datagrams in the socket when a session came due are read before it is taken, and each session is taken.
func TestDecisionsComeBehindTheDatagrams(t *testing.T) {
	for seed := range uint64(50) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { testQueue(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

func testQueue(t *testing.T, random *rand.Rand) {
	var q queue
	arrived, read := 0, 0 // datagrams
	before := map[*keepalive.Guard]int{}
	some := func() {
		arrived += random.IntN(4)
		for range random.IntN(3) {
			g := new(keepalive.Guard)
			before[g] = arrived
			q.add(g)
		}
	}
	crowded := random.IntN(2) == 0 // never empty
	// round is a call of decide with an interruption after each step.
	round := func(n int) {
		known := q.len()
		some()
		waiting := arrived - read
		if waiting > 0 {
			waiting += random.IntN(5) // an upper bound
		}
		some()
		q.prove(known, n, waiting)
		for g := q.take(); g != nil; g = q.take() {
			require.LessOrEqual(t, before[g], read)
			delete(before, g)
			some()
		}
	}
	for range 200 {
		n := min(random.IntN(30), arrived-read)
		if crowded {
			n = min(n, max(0, arrived-read-1))
		}
		read += n
		round(n)
	}
	some = func() {}
	for range 10 * (arrived - read + 10) {
		arrived++ // always one more
		read++
		round(1)
	}
	require.Empty(t, before, "a queue that is never empty still decides")
	require.False(t, q.some.Load())
}
