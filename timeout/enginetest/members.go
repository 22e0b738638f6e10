package enginetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
)

var members = []test{
	{"now goes on", func(s *suite) {
		before, err := s.engine.Now(s.Context())
		require.NoError(s, err)
		require.WithinDuration(s, time.Now(), before, time.Minute)
		time.Sleep(20 * time.Millisecond)
		after, err := s.engine.Now(s.Context())
		require.NoError(s, err)
		require.Greater(s, after, before)
	}},
	{"members come and go", func(s *suite) { Members(s.T, s.engine) }},
}

// Members asks for what timeout.Members says. Nobody else may be a member meanwhile.
func Members(t *testing.T, m timeout.Members) {
	t.Helper()
	ctx := t.Context()
	const ttl, short = time.Minute, 500 * time.Millisecond
	beat := func(node timeout.Node, ttl time.Duration) timeout.View {
		t.Helper()
		view, err := m.Beat(ctx, node, ttl)
		require.NoError(t, err)
		return view
	}
	a, b, c := timeout.Node{Name: "z-first"}, timeout.Node{Name: "a second", Topics: []string{"orders"}}, timeout.Node{Name: "third", Topics: []string{}}
	first := beat(a, ttl)
	require.Equal(t, []timeout.Node{a}, first.Nodes)
	require.Equal(t, first, beat(a, ttl), "nothing has changed")
	second := beat(b, short)
	require.Equal(t, []timeout.Node{a, b}, second.Nodes, "in the order in which they came, with what they serve")
	require.Greater(t, second.Term, first.Term)
	third := beat(c, ttl)
	require.Equal(t, []timeout.Node{a, b, c}, third.Nodes)
	require.NotNil(t, third.Nodes[2].Topics, "no topics are not all topics")

	a.Topics = []string{"mails"}
	changed := beat(a, ttl)
	require.Greater(t, changed.Term, third.Term)
	require.Equal(t, []timeout.Node{a, b, c}, changed.Nodes, "it keeps its place")

	require.Eventually(t, func() bool {
		view := beat(a, ttl)
		return len(view.Nodes) == 2 && view.Term > changed.Term
	}, 20*time.Second, 50*time.Millisecond, "what is silent is gone")
	back := beat(b, ttl)
	require.Equal(t, []timeout.Node{a, c, b}, back.Nodes, "and comes back at the end")

	require.NoError(t, m.Leave(ctx, a.Name))
	require.NoError(t, m.Leave(ctx, a.Name))
	left := beat(c, ttl)
	require.Equal(t, []timeout.Node{c, b}, left.Nodes)
	require.Equal(t, c.Name, left.Leader())
	require.Greater(t, left.Term, back.Term)
	require.NoError(t, m.Leave(ctx, b.Name))
	require.NoError(t, m.Leave(ctx, c.Name))
}
