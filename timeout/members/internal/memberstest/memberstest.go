// Package memberstest has the common tests of packages etcd and zookeeper, with real servers. They
// go beyond enginetest.Members: they need a dying node, an absent server, or a watcher.
package memberstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// Durations of the tests.
const (
	Eternal = 90 * time.Second // longest wait for an expected event
	Long    = time.Minute      // a ttl longer than any test
	Dying   = 8 * time.Second  // a ttl that ends, but only after the other nodes have come
	Short   = time.Second      // a ttl that ends soon; etcd makes it two seconds
)

// Members is the interface of both packages' Members.
type Members interface {
	engine.Members
	engine.Watcher
	Close() error
}

// Heartbeat sends heartbeats until it gets a view.
func Heartbeat(t *testing.T, m engine.Members, name string, ttl time.Duration) engine.View {
	t.Helper()
	for begun := time.Now(); ; {
		view, err := m.Heartbeat(t.Context(), engine.Node{Name: name}, ttl)
		if isBusy(err, ttl) && time.Since(begun) < Eternal {
			continue
		}
		require.NoError(t, err)
		return view
	}
}

// Awake sends heartbeats for a zombie until it is a member again, and meanwhile for its heir: that may take longer
// than a ttl.
func Awake(t *testing.T, zombie, heir engine.Members) (view engine.View) {
	t.Helper()
	require.Eventually(t, func() bool {
		Heartbeat(t, heir, "heir", Long)
		var err error
		view, err = zombie.Heartbeat(t.Context(), engine.Node{Name: "zombie"}, Short)
		return err == nil
	}, Eternal, 20*time.Millisecond)
	return view
}

// isBusy reports whether an error may be of a busy machine. A short ttl has a short time limit. Its session can also end
// in the middle of a heartbeat, or a connection that has to be quick for it: such a heartbeat fails, and the next one
// joins again.
func isBusy(err error, ttl time.Duration) bool {
	if err == nil || errors.Is(err, engine.ErrArgument) || errors.Is(err, engine.ErrClosed) {
		return false
	}
	return ttl <= Short || errors.Is(err, context.DeadlineExceeded)
}

// prefixes are the numbers of running tests.
var (
	prefixes sync.Map // of *testing.T
	last     atomic.Int64
)

// Prefix returns a name for the nodes of a test, and always the same one. The next run of the test has another: the
// nodes of the one before may still be members.
func Prefix(t *testing.T) string {
	number, known := prefixes.LoadOrStore(t, last.Add(1))
	if !known {
		t.Cleanup(func() { prefixes.Delete(t) })
	}
	return fmt.Sprintf("%s-%d", t.Name(), number)
}

// Names returns the names of the nodes, in their order.
func Names(view engine.View) []string {
	var names []string
	for _, node := range view.Nodes {
		names = append(names, node.Name)
	}
	return names
}

// Changes has one element for each call of a watcher's function.
type Changes chan struct{}

// Watch watches until the caller calls end. end returns the error of the watcher.
func Watch(m engine.Watcher) (changes Changes, end func() error) {
	changes = make(Changes, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Watch(ctx, func() { changes <- struct{}{} }) }()
	return changes, func() error { cancel(); return <-ended }
}

// Await waits for a change, and fails the test if none comes.
func (c Changes) Await(t *testing.T, why string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(Eternal):
		require.Fail(t, "no change is told", why)
	}
}

// Drain takes all changes, until none has come for quiet.
func (c Changes) Drain(quiet time.Duration) {
	for {
		select {
		case <-c:
		case <-time.After(quiet):
			return
		}
	}
}

// Serve runs a center on those members until the caller calls stop.
func Serve(t *testing.T, m engine.Members) (center *timeout.Center, stop func()) {
	e, err := memory.New(memory.Config{})
	require.NoError(t, err)
	center, err = timeout.New(e, timeout.Config{Node: "center", Members: m, TTL: Short})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- center.Run(ctx) }()
	return center, func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, center.Close())
		require.NoError(t, e.Close())
	}
}

// KilledLeader lets the first of three nodes die without a Leave.
func KilledLeader(t *testing.T, a, b, c engine.Members, kill func()) {
	Heartbeat(t, a, "a", Dying)
	Heartbeat(t, b, "b", Long)
	before := Heartbeat(t, c, "c", Long)
	require.Equal(t, []string{"a", "b", "c"}, Names(before))
	require.Equal(t, before, Heartbeat(t, c, "c", Long))
	other := Heartbeat(t, b, "b", Long)
	require.Equal(t, before.Nodes, other.Nodes, "the same for all")

	kill()
	killed := time.Now()
	require.Eventually(t, func() bool { return Heartbeat(t, b, "b", Long).Leader() == "b" }, Eternal, 20*time.Millisecond)
	require.Greater(t, time.Since(killed), Dying/4)
	after := Heartbeat(t, c, "c", Long)
	require.Equal(t, []string{"b", "c"}, Names(after))
}

// Duplicates runs two centers of one name. Both are told, and yet send hardly more heartbeats.
func Duplicates(t *testing.T, a, b Members) {
	one, stopOne := Serve(t, a)
	two, stopTwo := Serve(t, b)
	require.Eventually(t, func() bool { return one.View().Other != "" && two.View().Other != "" }, Eternal, 10*time.Millisecond)
	changesOne, endOne := Watch(a)
	changesTwo, endTwo := Watch(b)
	time.Sleep(3 * Short)
	require.NoError(t, endOne())
	require.NoError(t, endTwo())
	require.Less(t, len(changesOne)+len(changesTwo), 60, "each sends some nine heartbeats, and wakes the other at most")
	require.Len(t, one.View().Nodes, 1)
	stopTwo()
	require.Eventually(t, func() bool { return one.View().Other == "" }, Eternal, 10*time.Millisecond)
	stopOne()
}

// An Outage takes a server away, and brings it back.
type Outage struct {
	Begin, End func(*testserver.Server, testing.TB)
}

// Outages has the kinds of outage, by name.
var Outages = map[string]Outage{
	"stopped": {(*testserver.Server).Stop, (*testserver.Server).Restart},
	"killed":  {(*testserver.Server).Kill, (*testserver.Server).Restart},
	"paused":  {(*testserver.Server).Pause, (*testserver.Server).Continue},
}

// Away takes a server away for longer than the ttl of a running center. Another node is a member
// too, and its changes are watched. The center must keep its last view meanwhile.
func Away(t *testing.T, s *testserver.Server, center *timeout.Center, other Members, changes Changes, outage Outage) {
	require.Eventually(t, func() bool { return len(center.View().Nodes) == 2 }, Eternal, 10*time.Millisecond)
	outage.Begin(s, t)
	asked := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	_, err := other.Heartbeat(ctx, engine.Node{Name: "other"}, Long)
	cancel()
	require.Error(t, err)
	require.Less(t, time.Since(asked), Eternal/2)
	before := center.View() // the last one: until the outage the center may have been gone, and come back
	require.Len(t, before.Nodes, 2)
	time.Sleep(2 * Short)
	require.Equal(t, before, center.View())

	outage.End(s, t)
	require.Eventually(t, func() bool {
		view, err := other.Heartbeat(t.Context(), engine.Node{Name: "other"}, Long)
		return err == nil && len(view.Nodes) == 2
	}, Eternal, 50*time.Millisecond)
	changes.Drain(300 * time.Millisecond)
	require.NoError(t, other.Leave(t.Context(), "other"))
	require.Eventually(t, func() bool { return len(center.View().Nodes) == 1 }, Eternal, 10*time.Millisecond)
	Heartbeat(t, other, "other", Long)
	changes.Await(t, "the watch goes on after the outage")
}

// Closed closes twice, and then calls every method.
func Closed(t *testing.T, m Members) {
	require.NoError(t, m.Close())
	require.NoError(t, m.Close())
	_, err := m.Heartbeat(t.Context(), engine.Node{Name: "a"}, Long)
	require.ErrorIs(t, err, engine.ErrClosed)
	require.ErrorIs(t, m.Leave(t.Context(), "a"), engine.ErrClosed)
	require.ErrorIs(t, m.Watch(t.Context(), func() {}), engine.ErrClosed)
}
