package enginetest

import (
	"context"
	"errors"
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

	for range 2 {
		require.Equal(t, []string{"b"}, c.names(c.heartbeat("b", nil, time.Hour)))
	}
	c.heartbeat("c", []string{"x", "y"}, time.Hour)
	three := c.heartbeat("a", []string{}, time.Hour)
	require.Equal(t, []string{"b", "c", "a"}, c.names(three), "in the order in which they came")
	require.Equal(t, []engine.Node{{Name: "b"}, {Name: "c", Topics: []string{"x", "y"}}, {Name: "a", Topics: []string{}}}, three.Nodes)

	other := c.heartbeat("c", []string{"x"}, time.Hour)
	require.Equal(t, []string{"b", "c", "a"}, c.names(other), "who serves other topics keeps its place")
	require.Equal(t, []string{"x"}, other.Nodes[1].Topics)

	none := c.heartbeat("b", []string{}, time.Hour)
	require.Equal(t, []string{}, none.Nodes[0].Topics, "no topics are not all topics")

	require.NoError(t, c.leave("b"))
	left := c.heartbeat("c", []string{"x"}, time.Hour)
	require.Equal(t, []string{"c", "a"}, c.names(left))
	require.Equal(t, "c", left.Leader(), "the next one leads")
	require.NoError(t, c.leave("b"), "who has left can leave")
	require.Equal(t, []string{"c", "a", "b"}, c.names(c.heartbeat("b", nil, time.Hour)), "who comes again comes last")

	// A node without heartbeats is gone after its time, and not before.
	start := time.Now() // before: the answer may take its time
	dies := c.heartbeat("dies", nil, 2*time.Second)
	require.Contains(t, c.names(dies), "dies")
	view := dies
	for slices.Contains(c.names(view), "dies") {
		require.Less(t, time.Since(start), patient, "a node that is dead is still there")
		time.Sleep(20 * time.Millisecond)
		view = c.heartbeat("c", []string{"x"}, time.Hour)
	}
	require.GreaterOrEqual(t, time.Since(start), 1900*time.Millisecond, "a node is gone before its time")
	require.Equal(t, []string{"c", "a", "b"}, c.names(view))

	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, c.leave(name))
	}
	last := c.heartbeat("last", nil, time.Hour)
	require.Equal(t, []string{"last"}, c.names(last))
	require.NoError(t, c.leave("last"))

	Runs(t, clients...)
}

// Runs tests that two runs of one name learn of each other if both send heartbeats, and only then. It is a part
// of Members.
func Runs(t *testing.T, clients ...engine.Members) {
	c := &club{t: t, clients: clients}
	c.testOneAfterTheOther()
	c.testDuplicates()
}

// testOneAfterTheOther lets runs of one name follow each other. They may meet in the first heartbeat at
// most.
func (c *club) testOneAfterTheOther() {
	c.run(0, "restarted", "first", 2*time.Second)
	c.run(-1, "restarted", "second", time.Hour)
	for begun := time.Now(); time.Since(begun) < 2500*time.Millisecond; time.Sleep(50 * time.Millisecond) {
		require.Empty(c.t, c.run(-1, "restarted", "second", time.Hour).Other, "its predecessor is dead")
	}

	c.run(0, "returned", "first", time.Second)
	time.Sleep(1100 * time.Millisecond)
	require.Empty(c.t, c.run(-1, "returned", "second", time.Hour).Other, "its predecessor's time is over")

	for range 3 { // an earlier version knows no runs
		require.Empty(c.t, c.run(0, "old", "", time.Hour).Other)
		require.Empty(c.t, c.run(-1, "old", "new", time.Hour).Other)
	}
	for _, name := range []string{"restarted", "returned", "old"} {
		c.leaveAll(name)
	}
}

// testDuplicates lets two runs of one name send heartbeats at the same time. Both learn that, and for the others
// they are one node that does not change.
func (c *club) testDuplicates() {
	c.run(0, "duplicate", "one", time.Hour)
	begun := c.run(-1, "duplicate", "two", time.Hour)
	one, two := c.run(0, "duplicate", "one", time.Hour), begun
	metOne, metTwo := one.Other != "", false
	for start := time.Now(); !metOne || !metTwo; time.Sleep(20 * time.Millisecond) {
		require.Less(c.t, time.Since(start), patient, "they don't learn of each other: %v, %v", metOne, metTwo)
		one, two = c.run(0, "duplicate", "one", time.Hour), c.run(-1, "duplicate", "two", time.Hour)
		require.Contains(c.t, []string{"", "two"}, one.Other)
		require.Contains(c.t, []string{"", "one"}, two.Other)
		metOne, metTwo = metOne || one.Other != "", metTwo || two.Other != ""
	}
	for _, view := range []engine.View{one, two} {
		require.Equal(c.t, []engine.Node{{Name: "duplicate"}}, view.Nodes)
	}
	c.leaveAll("duplicate")
}

// club is a few nodes. Each of them sends heartbeats through one of the clients.
type club struct {
	t       *testing.T
	clients []engine.Members
}

func (c *club) heartbeat(name string, topics []string, ttl time.Duration) engine.View {
	c.t.Helper()
	return c.ask(c.client(name), engine.Node{Name: name, Topics: topics}, ttl)
}

// run sends heartbeats for a run of a node, through the first client (0) or the last (-1).
func (c *club) run(client int, name, run string, ttl time.Duration) engine.View {
	c.t.Helper()
	if client < 0 {
		client += len(c.clients)
	}
	return c.ask(c.clients[client], engine.Node{Name: name, Run: run}, ttl)
}

// ask sends heartbeats until it gets a view: a short ttl has a short time limit, and the machine may be busy.
func (c *club) ask(client engine.Members, node engine.Node, ttl time.Duration) engine.View {
	c.t.Helper()
	for start := time.Now(); ; {
		view, err := client.Heartbeat(c.t.Context(), node, ttl)
		if errors.Is(err, context.DeadlineExceeded) && time.Since(start) < patient {
			continue
		}
		require.NoError(c.t, err)
		return view
	}
}

func (c *club) leaveAll(name string) {
	for _, client := range c.clients {
		require.NoError(c.t, client.Leave(context.Background(), name))
	}
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
