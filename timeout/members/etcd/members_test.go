package etcd_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout/members/etcd"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

func TestMain(m *testing.M) { testserver.Main(m) }

const (
	dying   = 4 * time.Second  // the ttl of one that ends after the others have come
	eternal = 30 * time.Second // how long a test waits for what must come
	long    = time.Minute      // a ttl that does not end during a test
	short   = time.Second      // one that does; etcd makes two seconds of it
)

// open returns members as another process would have them.
func open(t *testing.T, s *testserver.Server) *etcd.Members {
	t.Helper()
	m, err := etcd.Open([]string{s.URL}, etcd.Config{Prefix: "/" + t.Name() + "/"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

func beat(t *testing.T, m *etcd.Members, name string, ttl time.Duration) timeout.View {
	t.Helper()
	for begun := time.Now(); ; {
		view, err := m.Beat(t.Context(), timeout.Node{Name: name}, ttl)
		if errors.Is(err, context.DeadlineExceeded) && time.Since(begun) < eternal {
			continue // a short ttl has little patience, and this machine other work
		}
		require.NoError(t, err)
		return view
	}
}

func names(view timeout.View) []string {
	var names []string
	for _, node := range view.Nodes {
		names = append(names, node.Name)
	}
	return names
}

func TestMembersAreAsTheContractSays(t *testing.T) {
	t.Parallel()
	enginetest.Members(t, open(t, testserver.SharedEtcd(t)))
}

func TestAKilledLeaderIsMissedAndTheNextOneLeads(t *testing.T) {
	t.Parallel()
	s := testserver.SharedEtcd(t)
	a, b, c := open(t, s), open(t, s), open(t, s)
	beat(t, a, "a", dying)
	beat(t, b, "b", long)
	before := beat(t, c, "c", long)
	require.Equal(t, []string{"a", "b", "c"}, names(before))
	require.Equal(t, before, beat(t, c, "c", long))

	require.NoError(t, a.Close()) // without a Leave
	killed := time.Now()
	require.Eventually(t, func() bool { return beat(t, b, "b", long).Leader() == "b" }, eternal, 20*time.Millisecond)
	require.Greater(t, time.Since(killed), dying/4)
	after := beat(t, c, "c", long)
	require.Equal(t, []string{"b", "c"}, names(after))
	require.Greater(t, after.Term, before.Term)
}

func TestAZombieHasALowerTermAndJoinsAsTheLast(t *testing.T) {
	t.Parallel()
	s := testserver.SharedEtcd(t)
	zombie, heir := open(t, s), open(t, s)
	asleep := beat(t, zombie, "zombie", short)
	require.Equal(t, "zombie", asleep.Leader())
	require.Eventually(t, func() bool { return beat(t, heir, "heir", long).Leader() == "heir" }, eternal, 20*time.Millisecond)
	require.Greater(t, beat(t, heir, "heir", long).Term, asleep.Term)

	awake := beat(t, zombie, "zombie", short)
	require.Equal(t, []string{"heir", "zombie"}, names(awake))
	require.Greater(t, awake.Term, asleep.Term)
	require.GreaterOrEqual(t, beat(t, heir, "heir", long).Term, asleep.Term)
}

// What came and went between two beats has had slots, and a higher term.
func TestTheTermTellsOfWhoCameAndWentInBetween(t *testing.T) {
	t.Parallel()
	s := testserver.SharedEtcd(t)
	a, b := open(t, s), open(t, s)
	before := beat(t, a, "a", long)
	between := beat(t, b, "b", long)
	require.NoError(t, b.Leave(t.Context(), "b"))
	after := beat(t, a, "a", long)
	require.Equal(t, before.Nodes, after.Nodes)
	require.Greater(t, between.Term, before.Term)
	require.Greater(t, after.Term, between.Term)
}

func TestALeaseHasTheLengthOfTheLastBeat(t *testing.T) {
	t.Parallel()
	s := testserver.SharedEtcd(t)
	a, b := open(t, s), open(t, s)
	first := beat(t, a, "a", long)
	require.Equal(t, []string{"a"}, names(beat(t, a, "a", short)))
	beat(t, b, "b", long)
	require.Eventually(t, func() bool { return len(beat(t, b, "b", long).Nodes) == 1 }, eternal, 20*time.Millisecond)
	require.Greater(t, beat(t, b, "b", long).Term, first.Term)
}

func TestANodeWhoseKeySomebodyRemovesJoinsAgain(t *testing.T) {
	t.Parallel()
	s := testserver.SharedEtcd(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.URL}})
	require.NoError(t, err)
	defer client.Close()
	m, err := etcd.New(client, etcd.Config{Prefix: t.Name() + "/"})
	require.NoError(t, err)
	before := beat(t, m, "a", long)
	for _, key := range []string{"nodes/a", "changes", ""} {
		time.Sleep(2 * time.Millisecond)
		_, err = client.Delete(t.Context(), t.Name()+"/"+key, clientv3.WithPrefix())
		require.NoError(t, err)
		after := beat(t, m, "a", long)
		require.Equal(t, before.Nodes, after.Nodes)
		require.Greater(t, after.Term, before.Term)
		before = after
	}
	require.NoError(t, m.Close())
	_, err = client.Get(t.Context(), "key")
	require.NoError(t, err, "the client is its owner's to close")
}

func TestWatchTellsOfEveryChange(t *testing.T) {
	t.Parallel()
	s := testserver.SharedEtcd(t)
	watcher, other := open(t, s), open(t, s)
	changes, end := watch(watcher)
	require.True(t, within(changes), "one at the beginning")
	for _, change := range []func(){
		func() { beat(t, other, "b", short) },
		func() {
			_, err := other.Beat(t.Context(), timeout.Node{Name: "b", Topics: []string{"orders"}}, short)
			require.NoError(t, err)
		},
		func() {}, // its lease ends
		func() { beat(t, other, "b", long) },
		func() { require.NoError(t, other.Leave(t.Context(), "b")) },
	} {
		drain(changes)
		change()
		require.True(t, within(changes))
	}
	require.NoError(t, end())
}

// watch watches until end.
func watch(m *etcd.Members) (changes chan struct{}, end func() error) {
	changes = make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Watch(ctx, func() { changes <- struct{}{} }) }()
	return changes, func() error { cancel(); return <-ended }
}

func within(changes chan struct{}) bool {
	select {
	case <-changes:
		return true
	case <-time.After(eternal):
		return false
	}
}

// drain waits until nothing more comes.
func drain(changes chan struct{}) {
	for {
		select {
		case <-changes:
		case <-time.After(50 * time.Millisecond):
			return
		}
	}
}

func TestTheLastViewIsUsedWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]struct {
		begin, end func(*testserver.Server, testing.TB)
	}{
		"stopped": {(*testserver.Server).Stop, (*testserver.Server).Restart},
		"killed":  {(*testserver.Server).Kill, (*testserver.Server).Restart},
		"paused":  {(*testserver.Server).Pause, (*testserver.Server).Continue},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testserver.Etcd(t)
			other := open(t, s)
			beat(t, other, "other", long)
			centre, stop := serve(t, open(t, s))
			defer stop()
			require.Eventually(t, func() bool { return len(centre.View().Nodes) == 2 }, eternal, 10*time.Millisecond)
			before := centre.View()
			changes, end := watch(other)
			require.True(t, within(changes))

			outage.begin(s, t)
			asked := time.Now()
			_, err := other.Beat(t.Context(), timeout.Node{Name: "other"}, short)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Less(t, time.Since(asked), eternal/2)
			time.Sleep(2 * time.Second) // more than the centre's ttl
			require.Equal(t, before, centre.View())

			outage.end(s, t)
			require.Eventually(t, func() bool {
				view, err := other.Beat(t.Context(), timeout.Node{Name: "other"}, long)
				return err == nil && len(view.Nodes) == 2 && view.Term >= before.Term
			}, eternal, 50*time.Millisecond)
			require.NoError(t, other.Leave(t.Context(), "other"))
			drain(changes)
			require.Eventually(t, func() bool { return len(centre.View().Nodes) == 1 }, eternal, 10*time.Millisecond)
			require.Greater(t, centre.View().Term, before.Term)
			require.NoError(t, end())
		})
	}
}

// serve runs a centre.
func serve(t *testing.T, m timeout.Members) (centre *timeout.Center, stop func()) {
	engine, err := memory.New(memory.Config{})
	require.NoError(t, err)
	centre, err = timeout.New(engine, timeout.Config{Node: "centre", Members: m, TTL: short})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- centre.Run(ctx) }()
	return centre, func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, centre.Close())
		require.NoError(t, engine.Close())
	}
}

func TestTermsGoOnWhereTheStoreWasLost(t *testing.T) {
	t.Parallel()
	s, empty := testserver.Etcd(t), testserver.Etcd(t)
	before := beat(t, open(t, s), "a", long)
	for range 5 {
		require.NoError(t, open(t, s).Leave(t.Context(), "a"))
		before = beat(t, open(t, s), "a", long)
	}
	after := beat(t, open(t, empty), "a", long)
	require.Greater(t, after.Term, before.Term)
}

func TestABeatEndsWithItsContext(t *testing.T) {
	t.Parallel()
	m, err := etcd.Open([]string{"127.0.0.1:1"}, etcd.Config{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = m.Beat(ctx, timeout.Node{Name: "a"}, long)
	require.True(t, errors.Is(err, context.Canceled), err)
	require.NoError(t, m.Close())
	require.NoError(t, m.Close())
	_, err = m.Beat(t.Context(), timeout.Node{Name: "a"}, long)
	require.ErrorIs(t, err, timeout.ErrClosed)
	require.ErrorIs(t, m.Leave(t.Context(), "a"), timeout.ErrClosed)
	require.ErrorIs(t, m.Watch(t.Context(), func() {}), timeout.ErrClosed)
}

func TestAWatchEndsWithTheClient(t *testing.T) {
	t.Parallel()
	m := open(t, testserver.SharedEtcd(t))
	changes, end := watch(m)
	require.True(t, within(changes))
	require.NoError(t, m.Close())
	require.Error(t, end())
}

func TestBadArgumentsAreNamed(t *testing.T) {
	_, err := etcd.Open(nil, etcd.Config{})
	require.ErrorIs(t, err, timeout.ErrArgument)
	_, err = etcd.Open([]string{"a:1", " "}, etcd.Config{})
	require.ErrorIs(t, err, timeout.ErrArgument)
	require.ErrorContains(t, err, `" "`)
	_, err = etcd.Open([]string{"a:1"}, etcd.Config{Prefix: strings.Repeat("p", 1025)})
	require.ErrorIs(t, err, timeout.ErrArgument)
	require.ErrorContains(t, err, "1025")
	_, err = open(t, &testserver.Server{URL: "http://127.0.0.1:1"}).Beat(t.Context(), timeout.Node{Name: "a"}, 0)
	require.ErrorIs(t, err, timeout.ErrArgument)
}
