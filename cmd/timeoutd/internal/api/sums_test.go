package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/peers"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
	"github.com/heartwheel-go/heartwheel/wheel/histogram"
)

// figures are those of a node with so many done tasks of topic t, each late by d.
func figures(node string, done int, slots []int, d time.Duration) wire.NodeStats {
	var late histogram.Durations
	for range done {
		late.Observe(d)
	}
	here := hereOf(timeout.Stats{Slots: slots, Done: uint64(done), Dead: 1, Late: late})
	return wire.NodeStats{Summed: wire.Summed{Node: node}, Topics: map[string]wire.Here{"t": here}}
}

func TestTheSumsAreOfTheMembersThatHaveAnswered(t *testing.T) {
	members := wire.Members{Node: "b", Nodes: []engine.Node{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}}
	other := figures("c", 1, []int{1}, time.Hour)
	other.Topics["more"] = wire.Here{Done: 7}
	s := addUp([]wire.NodeStats{
		figures("b", 2, []int{3, 0}, time.Second), figures("a", 97, []int{2, 0}, time.Millisecond), other,
		figures("a", 5000, nil, 0), figures("b", 5000, nil, 0), // once more, by other addresses
		figures("of another fleet", 5000, nil, 0),
	}, members, []error{errors.New("http://d: no answer")})
	require.Equal(t, []wire.Summed{{Node: "a"}, {Node: "b"}, {Node: "c"}}, s.Nodes)
	require.Equal(t, []string{"d"}, s.Missing)
	require.Equal(t, []string{"http://d: no answer", `node "of another fleet" has answered, and is no member, or not yet`}, s.Errors)
	require.Len(t, s.topics, 2)
	sum := s.topics["t"]
	require.EqualValues(t, 100, sum.Done)
	require.EqualValues(t, 3, sum.Dead)
	require.Equal(t, []int{0, 1, 2, 3}, sum.Slots)
	require.EqualValues(t, 100, sum.Late.Count)
	require.InDelta(t, 0.001, sum.Late.P50, 1e-9)
	require.InDelta(t, 1, sum.Late.P99, 1e-9)
	require.InDelta(t, 3600, sum.Late.Max, 1e-9)
	require.InDelta(t, 3602.097, sum.Late.Sum, 1e-6)
	require.EqualValues(t, 7, s.topics["more"].Done)
	require.NotNil(t, s.topics["more"].Slots, "an empty list is no null")

	alone := addUp([]wire.NodeStats{figures("b", 2, nil, time.Second)}, wire.Members{Node: "b"}, nil)
	require.Equal(t, []wire.Summed{{Node: "b"}}, alone.Nodes, "also before there is a view")
	require.Empty(t, alone.Missing)
}

// counting counts the requests to a path.
type counting struct {
	http.Handler
	path string
	n    atomic.Int64
}

func (c *counting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == c.path {
		c.n.Add(1)
	}
	c.Handler.ServeHTTP(w, r)
}

// Three nodes run tasks, and one of them does not answer. Many ask for the figures at the same time.
func TestFiguresOfAllNodesAlsoWhileOneHangs(t *testing.T) {
	const token = "reader-0123456789"
	store := newEngine(t)
	nodes := make(map[string]*site)
	does := func(context.Context, timeout.Task) error { return nil }
	for _, name := range []string{"a", "b", "c"} {
		// Whatever a busy machine does, each stays a member.
		nodes[name] = startWith(t, store, timeout.Config{Node: name, TTL: time.Minute}, Config{Tokens: []Token{{Secret: token, Scope: Read}}})
		nodes[name].run(map[string]timeout.Handler{"t": does})
	}
	hung, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	require.NoError(t, err)
	defer hung.Close()
	b := &counting{Handler: nodes["b"].handler, path: "/v1/here"}
	// A node that answers may take more time than sumsTimeout on a busy machine. The hung one takes all.
	asks := func(within time.Duration, urls ...string) *site {
		others, err := peers.New(urls, token)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, others.Close()) })
		handler, err := New(nodes["a"].center, Config{RequestTimeout: eternal, Peers: func(ctx context.Context) ([]wire.NodeStats, []error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
			defer cancel()
			return others.Ask(ctx)
		}})
		require.NoError(t, err)
		return serveOn(t, nodes["a"].center, handler)
	}
	counted := serveOn(t, nodes["b"].center, b)
	whole := asks(eternal, counted.url, nodes["c"].url, nodes["a"].url)
	partial := asks(10*sumsTimeout, counted.url, "http://"+hung.Addr().String())

	require.Eventually(t, func() bool { // each slot has one node, and each node has slots
		var slots []int
		for _, node := range nodes {
			_ = node.center.Handle("t", does) // it looks at the members now, and not in 20 s
			stats := node.center.Stats()
			if len(stats) == 0 || len(stats[0].Slots) == 0 {
				return false
			}
			slots = append(slots, stats[0].Slots...)
		}
		slices.Sort(slots)
		return slices.Equal(slots, []int{0, 1, 2, 3, 4, 5, 6, 7}) && len(get[wire.Members](whole, "/v1/members").Nodes) == 3
	}, eternal, 10*time.Millisecond)
	const n = 300
	for i := range n {
		_, err := nodes["a"].center.Set(t.Context(), timeout.Task{Topic: "t", ID: time.Duration(i).String()})
		require.NoError(t, err)
	}
	var stats wire.Stats
	require.Eventually(t, func() bool {
		stats = get[wire.Stats](whole, "/v1/stats")
		return len(stats.Topics) == 1 && stats.Topics[0].All != nil && stats.Topics[0].All.Done == n
	}, eternal, 10*time.Millisecond)
	require.Empty(t, stats.Sums.Missing)
	require.True(t, stats.Sums.Asked)
	require.Len(t, stats.Sums.Nodes, 3)
	require.EqualValues(t, n, stats.Topics[0].All.Late.Count)
	require.Len(t, stats.Topics[0].All.Slots, 8)
	require.Less(t, stats.Topics[0].Here.Done, uint64(n))

	before := b.n.Load()
	var asking sync.WaitGroup
	for range 50 {
		asking.Go(func() {
			stats := get[wire.Stats](partial, "/v1/stats")
			require.Equal(t, []string{"c"}, stats.Sums.Missing)
			require.Len(t, stats.Sums.Nodes, 2)
			require.Len(t, stats.Sums.Errors, 1)
			require.Contains(t, stats.Sums.Errors[0], hung.Addr().String())
			require.Positive(t, stats.Topics[0].All.Done)
			require.Less(t, stats.Topics[0].All.Done, uint64(n))
		})
	}
	asking.Wait()
	require.Less(t, b.n.Load()-before, int64(10), "all of them cost the other nodes a few requests")

	alone := asks(eternal)
	require.Equal(t, []string{"b", "c"}, get[wire.Stats](alone, "/v1/stats").Sums.Missing)
}
