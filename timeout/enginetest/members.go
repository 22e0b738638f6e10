package enginetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

func testMembers(r *rig) { Members(r.t, r.engine, r.second) }

// Members tests the contract of engine.Members, with one client or with several of the same
// store. Nobody else may be a member meanwhile.
func Members(t *testing.T, clients ...engine.Members) {
	c := &club{t: t, clients: clients}
	empty := c.leave("nobody") // leaving without having come does no harm
	require.NoError(t, empty)

	first := c.beat("b", nil, time.Hour)
	require.Equal(t, []string{"b"}, c.names(first))
	require.Positive(t, first.Term)
	same := c.beat("b", nil, time.Hour)
	require.Equal(t, []string{"b"}, c.names(same))
	require.Equal(t, first.Term, same.Term, "nothing has changed")
	c.beat("c", []string{"x", "y"}, time.Hour)
	three := c.beat("a", []string{}, time.Hour)
	require.Equal(t, []string{"b", "c", "a"}, c.names(three), "in the order in which they came")
	require.Greater(t, three.Term, same.Term)
	require.Equal(t, []engine.Node{{Name: "b"}, {Name: "c", Topics: []string{"x", "y"}}, {Name: "a", Topics: []string{}}}, three.Nodes)

	other := c.beat("c", []string{"x"}, time.Hour)
	require.Equal(t, []string{"b", "c", "a"}, c.names(other), "who serves other topics keeps its place")
	require.Equal(t, []string{"x"}, other.Nodes[1].Topics)
	require.Greater(t, other.Term, three.Term)

	none := c.beat("b", []string{}, time.Hour)
	require.Equal(t, []string{}, none.Nodes[0].Topics, "no topics are not all topics")
	require.Greater(t, none.Term, other.Term)

	require.NoError(t, c.leave("b"))
	left := c.beat("c", []string{"x"}, time.Hour)
	require.Equal(t, []string{"c", "a"}, c.names(left))
	require.Equal(t, "c", left.Leader(), "the next one leads")
	require.NoError(t, c.leave("b"), "who has left can leave")
	require.Greater(t, left.Term, other.Term)
	back := c.beat("b", nil, time.Hour)
	require.Equal(t, []string{"c", "a", "b"}, c.names(back), "who comes again comes last")
	require.Greater(t, back.Term, left.Term)

	// A node without beats is gone after its time, and not before.
	start := time.Now() // before: the answer may take its time
	dies := c.beat("dies", nil, 2*time.Second)
	require.Contains(t, c.names(dies), "dies")
	view := dies
	for slices.Contains(c.names(view), "dies") {
		require.Less(t, time.Since(start), patient, "a node that is dead is still there")
		time.Sleep(20 * time.Millisecond)
		view = c.beat("c", []string{"x"}, time.Hour)
	}
	require.GreaterOrEqual(t, time.Since(start), 1900*time.Millisecond, "a node is gone before its time")
	require.Equal(t, []string{"c", "a", "b"}, c.names(view))
	require.Greater(t, view.Term, dies.Term)

	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, c.leave(name))
	}
	last := c.beat("last", nil, time.Hour)
	require.Equal(t, []string{"last"}, c.names(last))
	require.Greater(t, last.Term, view.Term)
	require.NoError(t, c.leave("last"))
}

// club is a few nodes. Each of them beats through one of the clients.
type club struct {
	t       *testing.T
	clients []engine.Members
}

func (c *club) beat(name string, topics []string, ttl time.Duration) engine.View {
	c.t.Helper()
	view, err := c.client(name).Beat(c.t.Context(), engine.Node{Name: name, Topics: topics}, ttl)
	require.NoError(c.t, err)
	return view
}

// client returns the client of a node. A client may keep a session, so a node always has the
// same one.
func (c *club) client(name string) engine.Members {
	return c.clients[int(name[0])%len(c.clients)]
}

func (c *club) leave(name string) error { return c.client(name).Leave(context.Background(), name) }

func (c *club) names(view engine.View) []string {
	var names []string
	for _, node := range view.Nodes {
		names = append(names, node.Name)
	}
	return names
}
